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
    const auto from_smaller = smaller(from), from_larger = larger(from);
    std::uint64_t sum = 0;
    for (; first != last; ++first) {
      const std::uint64_t to = *first;
      if (from < to) {
        sum += folded(from_smaller, larger(to));
      } else if (to < from) {
        sum -= folded(smaller(to), from_larger);
      }
    }
    return sum;
  }

 private:
  SymmetrySum() {
    std::random_device device;
    const auto number = [&] { return std::uint64_t{device()} << 32 | device(); };
    for (auto* key : {&smaller_factor_, &larger_factor_}) *key = number() | 1;
    for (auto* key : {&smaller_offset_, &larger_offset_}) *key = number();
  }

  // The factors spread numbers that are close to each other, for which the upper halves of products would differ
  // little.
  std::uint64_t smaller(std::uint64_t node) const noexcept { return node * smaller_factor_ + smaller_offset_; }
  std::uint64_t larger(std::uint64_t node) const noexcept { return node * larger_factor_ + larger_offset_; }

  /// With the upper half, a sum of several does not follow from the sums of their nodes and of their nodes' products.
  static std::uint64_t folded(std::uint64_t smaller, std::uint64_t larger) noexcept {
    const auto product = static_cast<DoubleWidth>(smaller) * larger;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t smaller_factor_ = 1, larger_factor_ = 1, smaller_offset_ = 0, larger_offset_ = 0;
};

}  // namespace smelt::graph
