#include "base/stream.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace {

TEST(Stream, EveryMethodCopiesEveryByteAndNoOther) {
  constexpr std::size_t room = 1024;
  for (const smelt::CopyMethod copy : {smelt::copy_by_library, smelt::copy_nontemporal, smelt::copy_by_string}) {
    for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 200u, 700u}) {
      for (const std::size_t shift : {0u, 1u, 17u, 63u}) {
        std::vector<std::byte> from(room), to(room, std::byte{0xee});
        for (std::size_t i = 0; i < room; ++i) from[i] = static_cast<std::byte>(i * 7);
        copy(to.data() + shift, from.data() + 3, bytes);
        for (std::size_t i = 0; i < room; ++i) {
          const bool inside = i >= shift && i < shift + bytes;
          ASSERT_EQ(to[i], inside ? from[i - shift + 3] : std::byte{0xee})
              << bytes << " bytes to " << shift << ": " << i;
        }
      }
    }
  }
}

}  // namespace
