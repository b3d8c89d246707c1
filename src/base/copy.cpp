#include "base/copy.hpp"

#include "base/clones.hpp"

namespace smelt::copy_detail {

namespace {
using Vector = unsigned char __attribute__((vector_size(32)));
}

// From the end: the next load then never has the low address bits of a store just made, on which it would have to wait.
SMELT_VECTOR_CLONES void copy_backwards(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  while (bytes >= 2 * sizeof(Vector)) {
    bytes -= 2 * sizeof(Vector);
    Vector low, high;  // registers: the sizes are constants
    std::memcpy(&low, from + bytes, sizeof low);
    std::memcpy(&high, from + bytes + sizeof low, sizeof high);
    std::memcpy(to + bytes + sizeof low, &high, sizeof high);
    std::memcpy(to + bytes, &low, sizeof low);
  }
  std::memcpy(to, from, bytes);
}

}  // namespace smelt::copy_detail
