// Plain loops over elements; what is not optimized in some builds stays in CollectiveCheck.
#include "comm/collective/collective_reference.hpp"

#include <algorithm>

namespace smelt::test {
namespace {

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x[4], y[4], z = 0;
  for (int k = 0; k < 4; ++k) {
    x[k] = a >> (16 * k) & 0xffff;
    y[k] = b >> (16 * k) & 0xffff;
  }
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      const std::uint64_t sum = x[2 * row] * y[column] + x[2 * row + 1] * y[2 + column];
      z |= (sum & 0xffff) << (16 * (2 * row + column));
    }
  }
  return z;
}

}  // namespace

Contributions::Element Contributions::value(int from, int to, std::size_t k) const {
  std::uint64_t x =
      salt_ * 1000003 + static_cast<std::uint64_t>(from) * 10007 + static_cast<std::uint64_t>(to) * 101 + k;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return x ^ (x >> 29);
}

void Contributions::write(int from, int to, Element* elements, std::size_t count) const {
  for (std::size_t k = 0; k < count; ++k) elements[k] = value(from, to, k);
}

std::optional<Contributions::Difference> Contributions::difference(const Element* got, int from, int to,
                                                                   std::size_t count) const {
  for (std::size_t k = 0; k < count; ++k) {
    const Element wanted = value(from, to, k);
    if (got[k] != wanted) return Difference{k, wanted};
  }
  return std::nullopt;
}

std::optional<Contributions::Difference> Contributions::difference_combined(const Element* got, int last, int to,
                                                                            std::size_t count, Combine combine,
                                                                            void* context) const {
  constexpr std::size_t most = 256;
  Element total[most], next[most];
  for (std::size_t done = 0; done < count; done += most) {
    const std::size_t part = std::min(most, count - done);
    for (int from = 0; from <= last; ++from) {
      Element* const to_write = from == 0 ? total : next;
      for (std::size_t k = 0; k < part; ++k) to_write[k] = value(from, to, done + k);
      if (from != 0) combine(total, next, part, context);
    }
    const auto wrong = std::mismatch(total, total + part, got + done).first;
    if (wrong != total + part) return Difference{done + static_cast<std::size_t>(wrong - total), *wrong};
  }
  return std::nullopt;
}

void multiply_matrices(void* accumulator, const void* operand, std::size_t count, void*) {
  auto* const a = static_cast<std::uint64_t*>(accumulator);
  const auto* const b = static_cast<const std::uint64_t*>(operand);
  for (std::size_t i = 0; i < count; ++i) a[i] = product(a[i], b[i]);
}

}  // namespace smelt::test
