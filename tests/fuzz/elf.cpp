// Programs and libraries that `smelt run` looks into.
#include "cli/run/elf.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto elf = smelt::cli::parse_elf(smelt::fuzz::text_of(data, size), [](std::string_view) { return true; });
  if (!elf) return 0;
  std::size_t bytes = 0;
  for (const auto& name : elf->needed) bytes += name.size();
  for (const auto& name : elf->wanted) bytes += name.size();
  smelt::fuzz::require(bytes <= size, "more names than the file has room for");
  return 0;
}
