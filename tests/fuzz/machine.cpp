// Machine files.
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  smelt::fuzz::check_machine_or_error(smelt::parse_machine(smelt::fuzz::text_of(data, size), "fuzz"), "fuzz: ");
  return 0;
}
