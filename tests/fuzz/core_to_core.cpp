// Core-to-core latency tables.
#include "machine/import/core_to_core.hpp"

#include <sstream>

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream csv{std::string(smelt::fuzz::text_of(data, size))};
  smelt::fuzz::check_machine_or_error(smelt::parse_core_to_core(csv, "fuzz", 0.25), "fuzz: ");
  return 0;
}
