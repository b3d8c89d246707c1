// What CollectiveCheck computes element by element. In a file of its own, which is optimized in every build: the tests
// of collectives spend most of their time here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace smelt::test {

/// What the ranks of one call contribute: other numbers for each `salt`.
class Contributions {
 public:
  using Element = std::uint64_t;
  using Combine = void (*)(void* accumulator, const void* operand, std::size_t count, void* context);

  struct Difference {
    std::size_t index;
    Element wanted;
  };

  explicit Contributions(std::uint64_t salt) : salt_(salt) {}

  /// Writes the first `count` elements that rank `from` contributes (for rank `to`, where that differs).
  void write(int from, int to, Element* elements, std::size_t count) const;
  /// The first element of `got` that differs from them.
  std::optional<Difference> difference(const Element* got, int from, int to, std::size_t count) const;
  /// The same for the combination, in this order, of what ranks 0 to `last` contribute.
  std::optional<Difference> difference_combined(const Element* got, int last, int to, std::size_t count,
                                                Combine combine, void* context) const;

 private:
  Element value(int from, int to, std::size_t k) const;

  std::uint64_t salt_;
};

/// Associative, not commutative: 2x2 matrices over integers mod 2^16, packed into 64 bits.
void multiply_matrices(void* accumulator, const void* operand, std::size_t count, void* context);

}  // namespace smelt::test
