// The output of Intel's Memory Latency Checker.
#include <sstream>

#include "fuzz.hpp"
#include "machine/import/memory_figures.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const smelt::Machine machine = smelt::fuzz::two_nodes();
  std::istringstream text{std::string(smelt::fuzz::text_of(data, size))};
  smelt::fuzz::check_machine_or_error(smelt::parse_mlc(text, machine, "fuzz"), "fuzz: ");
  return 0;
}
