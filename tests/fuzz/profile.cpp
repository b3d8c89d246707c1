// Profile files.
#include "smelt/profile.hpp"

#include "fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using smelt::fuzz::require;
  const auto profile = smelt::parse_profile(smelt::fuzz::text_of(data, size), "fuzz");
  if (!profile) {
    smelt::fuzz::check_message(profile.error().message);
    require(profile.error().message.starts_with("fuzz: "), "the message names no file", profile.error().message);
    return 0;
  }
  const auto text = smelt::format_profile(*profile);
  const auto again = smelt::parse_profile(text, "again");
  require(static_cast<bool>(again), "not readable again", again ? "" : again.error().message);
  require(smelt::format_profile(*again) == text, "changed by being written and read", text);
  return 0;
}
