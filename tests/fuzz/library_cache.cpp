// The cache of ldconfig.
#include "cli/run/libraries.hpp"
#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string cache(smelt::fuzz::text_of(data, size));
  const auto nothing = smelt::cli::file_in_cache(cache, "libsmall.so.1", [](const std::string& file) {
    smelt::fuzz::require(file.size() < 5000, "an endless path");
    return false;
  });
  smelt::fuzz::require(nothing.empty(), "a file that was not accepted");
  return 0;
}
