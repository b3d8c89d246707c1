#include "base/copy.hpp"

#include <algorithm>

namespace smelt::copy_detail {

void copy_in_pieces(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes > 0) {
    // Never a constant: compilers turn copies of those into string instructions themselves.
    const auto part = std::min(bytes, piece_bytes);
    std::memcpy(to, from, part);
    to += part;
    from += part;
    bytes -= part;
  }
}

}  // namespace smelt::copy_detail
