#include "base/copy.hpp"

#include "base/clones.hpp"

namespace smelt::copy_detail {

namespace {
using Vector = unsigned char __attribute__((vector_size(32), aligned(1), may_alias));
}

// From the end: the next load then never has the low address bits of a store just made, on which it would have to wait.
SMELT_VECTOR_CLONES void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes >= 2 * sizeof(Vector)) {
    bytes -= 2 * sizeof(Vector);
    const Vector low = *reinterpret_cast<const Vector*>(from + bytes);
    const Vector high = *reinterpret_cast<const Vector*>(from + bytes + sizeof(Vector));
    *reinterpret_cast<Vector*>(to + bytes + sizeof(Vector)) = high;
    *reinterpret_cast<Vector*>(to + bytes) = low;
  }
  std::memcpy(to, from, bytes);
}

}  // namespace smelt::copy_detail
