// ExactSum: a sum of floating-point numbers that is rounded only once, at the end. For any order, grouping, algorithm
// and number of ranks, the same numbers give bitwise the same result, which is the true sum rounded once:
//
//   double total = 0;
//   smelt::sum_exactly(rank, part, n, &total);   // over all ranks' parts
//
//   smelt::ExactSum mine, all;                   // the same by hand
//   mine.add(part, n);
//   rank.allreduce(&mine, &all, 1, smelt::exact_sum());
//   total = all.to_double();
//
// The idea is Kulisch's long accumulator: a fixed-point number as wide as the range of double.
#pragma once

#include <cstddef>
#include <cstdint>

#include "smelt/collective.hpp"

namespace smelt {

class Rank;

/// A sum of double, float, or both. A plain value of 280 bytes (five cache lines of a channel) that can be sent, stored
/// and combined. Zeroed memory is the empty sum. Equal multisets of summands give equal bytes.
///
///   words[0 .. 33]  two's complement, least significant word first; the lowest bit weighs 2^-1074
///   flags           facts that the number cannot represent: infinities, NaNs, and whether all zeros were negative
///
/// Exact for up to 2^63 summands.
class ExactSum {
 public:
  /// Cost: some nanoseconds.
  void add(double value) noexcept;
  void add(float value) noexcept;

  /// All of values[0 .. count). Cost: docs/how-to/get-the-same-bits.md.
  void add(const double* values, std::size_t count) noexcept;
  void add(const float* values, std::size_t count) noexcept;

  /// All that `other` holds.
  void add(const ExactSum& other) noexcept;

  /// The sum, rounded once: to nearest, ties to even; overflow gives an infinity. With a NaN or infinities of
  /// both signs among the summands: NaN; with infinities of one sign: that. Exactly zero: +0, but -0 if all
  /// summands were -0.
  double to_double() const noexcept;
  float to_float() const noexcept;

  friend bool operator==(const ExactSum&, const ExactSum&) = default;

 private:
  static constexpr int word_count = 34;
  void add_shifted(std::int64_t mantissa, unsigned position) noexcept;
  void add_special(bool nan, bool negative) noexcept;
  void add_bins(const double* values, std::size_t count) noexcept;
  bool add_vectors(const double* block, std::size_t count) noexcept;
  template <class Float, class Bits>
  Float rounded() const noexcept;

  std::uint64_t words_[word_count] = {};
  std::uint64_t flags_ = 0;
};

/// Combines ExactSums; commutative, and bitwise the same in any order.
Reduction exact_sum() noexcept;

/// *total = the sum of all ranks' values[0 .. count), rounded once, on every rank. Bitwise the same for any
/// distribution of the values over any number of ranks. `count` may differ per rank. A collective: all ranks call it.
/// Cost: the local sum, and an allreduce of 280 bytes.
Status sum_exactly(Rank& rank, const double* values, std::size_t count, double* total) noexcept;
Status sum_exactly(Rank& rank, const float* values, std::size_t count, float* total) noexcept;

/// out[i] = the sum of in[i] over all ranks, rounded once, i < count; `out` may be `in`. As allreduce with a sum, but
/// with 35 times the bytes. For sums whose rounding errors or order matter.
Status allreduce_exactly(Rank& rank, const double* in, double* out, std::size_t count) noexcept;

}  // namespace smelt
