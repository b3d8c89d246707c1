// Symmetry: whether the reverse of every edge is there, in one pass and without further memory.
//
// Each edge adds +h(pair) where it leads to the larger of its nodes, -h(pair) where it leads to the smaller one; the
// sum of a symmetric graph is 0. h is keyed with random numbers of this process: no file can be made to fit, and the
// sum of a graph that is not symmetric is 0 with a chance of about 1 in 2^60. Sums of parts add up in any order. The
// idea is that of fingerprints of multisets [Freivalds 1977; Blum and Kannan 1989].
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

namespace smelt::graph {

__extension__ typedef unsigned __int128 DoubleWidth;

class SymmetrySum {
 public:
  /// The key of this process. Loops over edges take a copy, so that the key stays in registers.
  static const SymmetrySum& of_process() {
    static const SymmetrySum sum;
    return sum;
  }

  /// What the edges of one node add, which is quick if they ascend. Sums wrap around.
  template <class NodeId>
  std::uint64_t of_row(std::uint64_t from, const NodeId* first, const NodeId* last) const noexcept {
    const auto as_smaller = folded(from ^ first_) + second_;
    std::uint64_t sum = 0;
    for (; first != last; ++first) {
      const std::uint64_t to = *first;
      if (from < to) {
        sum += folded(as_smaller + to);
      } else if (to < from) {
        sum -= folded(folded(to ^ first_) + second_ + from);
      }
    }
    return sum;
  }

 private:
  SymmetrySum() {
    std::random_device device;
    const auto number = [&] { return std::uint64_t{device()} << 32 | device(); };
    first_ = number();
    second_ = number();
    factor_ = number() | 1;
  }

  /// Both halves of a product depend on all bits.
  std::uint64_t folded(std::uint64_t value) const noexcept {
    const auto product = static_cast<DoubleWidth>(value) * factor_;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t first_ = 0, second_ = 0, factor_ = 1;
};

}  // namespace smelt::graph
