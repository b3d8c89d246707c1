// ACPI's table of memory latencies and bandwidths.
#include "fuzz.hpp"
#include "machine/import/memory_figures.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const smelt::Machine machine = smelt::fuzz::two_nodes();
  smelt::fuzz::check_machine_or_error(smelt::parse_hmat(smelt::fuzz::text_of(data, size), machine, "fuzz"), "fuzz: ");
  return 0;
}
