// Exact sums. The accumulator is one fixed-point number (ExactSum); arrays go into it in blocks, on the fastest of
// two ways that a block allows:
//
// - Vectors (add_vectors). With s a large power of two times 1.5, q = (x + s) - s is x rounded to a multiple of
//   ulp(s), and x - q is exact. All q of a block are multiples of one ulp, so few bits wide that their
//   sum in double is exact in any order. What is left of x goes to the next s, 44 bits lower. When nothing is left
//   after a few levels, the sums of the levels are the sum of the block. Only in round-to-nearest, with subnormals.
// - Bins (add_bins). mantissa << (exponent mod 32) is added up in a 128-bit integer per 32 exponents. Any numbers,
//   any mode of the floating-point unit.
#include "smelt/exact_sum.hpp"

#include <cfloat>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/clones.hpp"
#include "smelt/communicator.hpp"

namespace smelt {
namespace {

__extension__ typedef __int128 Wide;

// Flags.
constexpr std::uint64_t some = 1;   ///< there has been a summand
constexpr std::uint64_t other = 2;  ///< ... that was not -0
constexpr std::uint64_t not_a_number = 4, plus_infinity = 8, minus_infinity = 16;

constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;
constexpr int fraction_bits = 52;
constexpr std::uint64_t fraction = (std::uint64_t{1} << fraction_bits) - 1;
constexpr unsigned special_exponent = 0x7ff;
/// How far the lowest bit of a float is above that of a double.
constexpr int float_offset = 1074 - 149;

std::uint64_t bits_of(double value) noexcept {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// value = mantissa * 2^(position - 1074)
struct DecomposedNumber {
  std::int64_t mantissa;
  unsigned position;
};

unsigned exponent_of(std::uint64_t bits) noexcept { return static_cast<unsigned>(bits >> fraction_bits) & 0x7ff; }

/// Of a finite number.
DecomposedNumber decompose(std::uint64_t bits) noexcept {
  const unsigned exponent = exponent_of(bits);
  const unsigned normal = exponent != 0;
  const auto magnitude = static_cast<std::int64_t>((bits & fraction) | std::uint64_t{normal} << fraction_bits);
  const std::int64_t sign = static_cast<std::int64_t>(bits) >> 63;
  return {(magnitude ^ sign) - sign, exponent - normal};
}

/// Exact; a subnormal float stays what it is in any mode of the floating-point unit.
double widened(float value) noexcept {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7f800000) != 0) return static_cast<double>(value);
  const double magnitude = static_cast<double>(bits & 0x7fffff) * 0x1p-149;
  return bits >> 31 != 0 ? -magnitude : magnitude;
}

// ---- vectors --------------------------------------------------------------------------------

constexpr std::size_t lanes = 8, streams = 2, stride = lanes * streams;
constexpr std::size_t block_size = 4096;  ///< at most; a multiple of stride
/// |x| < 2^(e+1) in a block: the sum is below 2^(e+headroom).
constexpr int headroom = 13;
constexpr int bits_per_level = 41;
constexpr int most_levels = 4;
static_assert(2 * block_size == std::size_t{1} << headroom);
static_assert(fraction_bits + 2 - headroom == bits_per_level);

typedef double Doubles __attribute__((vector_size(sizeof(double) * lanes)));
typedef std::int64_t Integers __attribute__((vector_size(sizeof(double) * lanes)));

/// The sums of a block's levels. False: something is left of some element.
template <int levels>
inline __attribute__((always_inline)) bool split(const double* block, std::size_t count, unsigned exponent,
                                                 double* totals) noexcept {
  double step[levels];
  for (int level = 0; level < levels; ++level) {
    const auto raised = static_cast<std::uint64_t>(static_cast<int>(exponent) + headroom - bits_per_level * level);
    const std::uint64_t bits = raised << fraction_bits | std::uint64_t{1} << (fraction_bits - 1);
    std::memcpy(&step[level], &bits, sizeof bits);
  }
  Doubles sums[streams][levels] = {};
  Integers left[streams] = {};
  for (std::size_t i = 0; i < count; i += stride) {
    for (std::size_t stream = 0; stream < streams; ++stream) {
      Doubles x;
      std::memcpy(&x, block + i + stream * lanes, sizeof x);
      for (int level = 0; level < levels; ++level) {
        const Doubles part = (x + step[level]) - step[level];
        sums[stream][level] += part;
        x -= part;
      }
      left[stream] |= reinterpret_cast<Integers>(x);
    }
  }
  static_assert(streams == 2);
  const Integers any = left[0] | left[1];
  std::uint64_t remains = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) remains |= static_cast<std::uint64_t>(any[lane]);
  for (int level = 0; level < levels; ++level) {
    totals[level] = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) totals[level] += sums[0][level][lane] + sums[1][level][lane];
  }
  return (remains & ~sign_bit) == 0;
}

SMELT_VECTOR_CLONES bool split_in_two(const double* block, std::size_t count, unsigned exponent,
                                      double* totals) noexcept {
  return split<2>(block, count, exponent, totals);
}
SMELT_VECTOR_CLONES bool split_in_four(const double* block, std::size_t count, unsigned exponent,
                                       double* totals) noexcept {
  return split<most_levels>(block, count, exponent, totals);
}

/// The largest exponent field in a block.
SMELT_VECTOR_CLONES unsigned largest_exponent(const double* block, std::size_t count) noexcept {
  Integers largest = {};
  for (std::size_t i = 0; i < count; i += lanes) {
    Integers bits;
    std::memcpy(&bits, block + i, sizeof bits);
    bits &= std::numeric_limits<std::int64_t>::max();
    largest = bits > largest ? bits : largest;
  }
  std::int64_t top = 0;
  for (std::size_t lane = 0; lane < lanes; ++lane) top = largest[lane] > top ? largest[lane] : top;
  return static_cast<unsigned>(top >> fraction_bits);
}

/// Whether the floating-point unit rounds to nearest and knows subnormal numbers, as it does unless told not to.
bool arithmetic_is_as_usual() noexcept {
  if (FLT_EVAL_METHOD != 0) return false;
  double above = 0.75 * DBL_EPSILON, below = -above, tiny = std::numeric_limits<double>::denorm_min();
  __asm__("" : "+m"(above), "+m"(below), "+m"(tiny));  // so that compilers leave the additions to the unit
  return 1.0 + above == 1.0 + DBL_EPSILON && -1.0 + below == -1.0 - DBL_EPSILON && bits_of(tiny + tiny) == 2;
}

}  // namespace

/// `count`: a multiple of stride, at most block_size. False, and nothing has been added: not this way.
bool ExactSum::add_vectors(const double* block, std::size_t count) noexcept {
  constexpr unsigned least = bits_per_level * most_levels + fraction_bits, most = special_exponent - 1 - headroom;
  const unsigned exponent = largest_exponent(block, count);
  if (exponent < least || exponent > most) return false;
  double totals[most_levels] = {};
  if (!split_in_two(block, count, exponent, totals) && !split_in_four(block, count, exponent, totals)) return false;
  for (const double total : totals) add(total);
  flags_ |= other;
  return true;
}

// ---- bins -----------------------------------------------------------------------------------

void ExactSum::add_bins(const double* values, std::size_t count) noexcept {
  // Several sets of bins, in turns: an addition need not wait for the one before it. A bin holds the sum of
  // 2^42 numbers below 2^85.
  constexpr int sets = 4, bins = 64;
  Wide sums[sets][bins] = {};
  std::uint64_t differs = 0;  // from -0
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = bits_of(values[i]);
    if (exponent_of(bits) == special_exponent) [[unlikely]] {
      add_special((bits & fraction) != 0, bits >> 63 != 0);
      continue;
    }
    const DecomposedNumber number = decompose(bits);
    differs |= bits ^ sign_bit;
    sums[i % sets][number.position / 32] +=
        static_cast<Wide>(number.mantissa) * (std::int64_t{1} << number.position % 32);
  }
  flags_ |= some | (differs != 0 ? other : 0);
  // Carries from digit to digit of 32 bits; the last one is the sign.
  Wide carry = 0;
  std::uint64_t digit[2], overflow = 0;
  for (int word = 0; word < word_count; ++word) {
    for (int half = 0; half < 2; ++half) {
      const int bin = 2 * word + half;
      if (bin < bins) carry += sums[0][bin] + sums[1][bin] + sums[2][bin] + sums[3][bin];
      digit[half] = static_cast<std::uint64_t>(carry) & 0xffffffff;
      carry >>= 32;
    }
    static_assert(sets == 4);
    const std::uint64_t addend = digit[1] << 32 | digit[0];
    const std::uint64_t partial = words_[word] + overflow;
    overflow = partial < overflow;
    words_[word] = partial + addend;
    overflow += words_[word] < addend;
  }
}

// ---- adding ---------------------------------------------------------------------------------

/// Adds mantissa * 2^(position - 1074).
void ExactSum::add_shifted(std::int64_t mantissa, unsigned position) noexcept {
  const unsigned shift = position % 64;
  const std::uint64_t low = static_cast<std::uint64_t>(mantissa) << shift;
  const std::int64_t high = mantissa >> (63 - shift) >> 1;
  std::uint64_t* word = words_ + position / 64;
  const std::uint64_t* const end = words_ + word_count;
  *word += low;
  std::uint64_t carry = *word < low;
  // The sign goes on and on above the mantissa: -1 and a carry are nothing, so are 0 and none.
  std::uint64_t addend = static_cast<std::uint64_t>(high);
  const std::uint64_t beyond = mantissa < 0 ? ~std::uint64_t{0} : 0;
  for (++word; word != end; ++word, addend = beyond) {
    const std::uint64_t partial = addend + carry;
    carry = partial < carry;
    *word += partial;
    carry += *word < partial;
    if (beyond + carry == 0) return;
  }
}

void ExactSum::add_special(bool nan, bool negative) noexcept {
  flags_ |= some | other | (nan ? not_a_number : negative ? minus_infinity : plus_infinity);
}

void ExactSum::add(double value) noexcept {
  const std::uint64_t bits = bits_of(value);
  if (exponent_of(bits) == special_exponent) return add_special((bits & fraction) != 0, bits >> 63 != 0);
  const DecomposedNumber number = decompose(bits);
  flags_ |= some | (bits != sign_bit ? other : 0);
  if (number.mantissa != 0) add_shifted(number.mantissa, number.position);
}

void ExactSum::add(float value) noexcept { add(widened(value)); }

void ExactSum::add(const double* values, std::size_t count) noexcept {
  // Bins are emptied into the number when they are done, vectors are looked at twice.
  constexpr std::size_t least_for_vectors = 4 * stride, least_for_bins = 32, most_for_bins = std::size_t{1} << 40;
  if (count >= least_for_vectors && arithmetic_is_as_usual()) {
    while (count >= stride) {
      const std::size_t part = count < block_size ? count / stride * stride : block_size;
      if (!add_vectors(values, part)) add_bins(values, part);
      values += part;
      count -= part;
    }
  }
  while (count >= least_for_bins) {
    const std::size_t part = count < most_for_bins ? count : most_for_bins;
    add_bins(values, part);
    values += part;
    count -= part;
  }
  for (std::size_t i = 0; i < count; ++i) add(values[i]);
}

void ExactSum::add(const float* values, std::size_t count) noexcept {
  double block[block_size];
  while (count > 0) {
    const std::size_t part = count < block_size ? count : block_size;
    for (std::size_t i = 0; i < part; ++i) block[i] = widened(values[i]);
    add(block, part);
    values += part;
    count -= part;
  }
}

void ExactSum::add(const ExactSum& more) noexcept {
  std::uint64_t carry = 0;
  for (int word = 0; word < word_count; ++word) {
    const std::uint64_t addend = more.words_[word];
    const std::uint64_t partial = words_[word] + carry;
    carry = partial < carry;
    words_[word] = partial + addend;
    carry += words_[word] < addend;
  }
  flags_ |= more.flags_;
}

// ---- rounding -------------------------------------------------------------------------------

/// Bits is the unsigned integer of Float's size. A number m * 2^shift, m with all of Float's digits, is
/// stored as m plus the exponent field; below the normal numbers the field is 0 and m shorter. The field counts
/// from the shift of the subnormal ones, and m's top bit is what adds the missing 1 to it.
template <class Float, class Bits>
Float ExactSum::rounded() const noexcept {
  using Limits = std::numeric_limits<Float>;
  constexpr int digits = Limits::digits;
  constexpr int offset = std::is_same_v<Float, float> ? float_offset : 0;
  if ((flags_ & not_a_number) != 0) return Limits::quiet_NaN();
  if ((flags_ & plus_infinity) != 0) return (flags_ & minus_infinity) != 0 ? Limits::quiet_NaN() : Limits::infinity();
  if ((flags_ & minus_infinity) != 0) return -Limits::infinity();

  const bool negative = words_[word_count - 1] >> 63 != 0;
  std::uint64_t magnitude[word_count + 1];
  magnitude[word_count] = 0;
  std::uint64_t carry = negative;
  int top = -1;  // highest bit
  for (int word = 0; word < word_count; ++word) {
    magnitude[word] = (negative ? ~words_[word] : words_[word]) + carry;
    carry &= magnitude[word] == 0;
    if (magnitude[word] != 0) top = 64 * word + 63 - __builtin_clzll(magnitude[word]);
  }
  if (top < 0) return flags_ == some ? -Float{0} : Float{0};

  const auto bit = [&](int position) { return magnitude[position / 64] >> position % 64 & 1; };
  const int shift = top - (digits - 1) > offset ? top - (digits - 1) : offset;
  const int word = shift / 64, within = shift % 64;
  std::uint64_t mantissa = magnitude[word] >> within;
  if (within > 0) mantissa |= magnitude[word + 1] << (64 - within);
  if (shift > 0 && bit(shift - 1) != 0) {
    bool more = false;  // than half
    for (int below = 0; below < shift - 1 && !more; below = (below / 64 + 1) * 64) {
      const int end = shift - 1 - below;
      const std::uint64_t mask = end >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << end) - 1;
      more = (magnitude[below / 64] & mask) != 0;
    }
    if (more || (mantissa & 1) != 0) ++mantissa;
  }
  constexpr int field_bits = 8 * static_cast<int>(sizeof(Bits)) - digits;  // of the exponent
  constexpr std::uint64_t infinity = ((std::uint64_t{1} << field_bits) - 1) << (digits - 1);
  const std::uint64_t pattern = (static_cast<std::uint64_t>(shift - offset) << (digits - 1)) + mantissa;
  const auto bits = static_cast<Bits>(pattern < infinity ? pattern : infinity);
  Float result;
  std::memcpy(&result, &bits, sizeof result);
  return negative ? -result : result;
}

double ExactSum::to_double() const noexcept { return rounded<double, std::uint64_t>(); }
float ExactSum::to_float() const noexcept { return rounded<float, std::uint32_t>(); }

// ---- over ranks -----------------------------------------------------------------------------

static_assert(sizeof(ExactSum) == 280 && std::is_trivially_copyable_v<ExactSum>);

Reduction exact_sum() noexcept {
  Reduction reduction{};
  reduction.element_bytes = sizeof(ExactSum);
  reduction.combine = [](void* accumulator, const void* operand, std::size_t count, void*) {
    auto* to = static_cast<ExactSum*>(accumulator);
    const auto* from = static_cast<const ExactSum*>(operand);
    for (std::size_t i = 0; i < count; ++i) to[i].add(from[i]);
  };
  return reduction;
}

namespace {

template <class Float>
Status sum_of_all(Rank& rank, const Float* values, std::size_t count, ExactSum& all) noexcept {
  ExactSum mine;
  mine.add(values, count);
  return rank.allreduce(&mine, &all, 1, exact_sum());
}

}  // namespace

Status sum_exactly(Rank& rank, const double* values, std::size_t count, double* total) noexcept {
  ExactSum all;
  const Status status = sum_of_all(rank, values, count, all);
  if (status == Status::ok) *total = all.to_double();
  return status;
}

Status sum_exactly(Rank& rank, const float* values, std::size_t count, float* total) noexcept {
  ExactSum all;
  const Status status = sum_of_all(rank, values, count, all);
  if (status == Status::ok) *total = all.to_float();
  return status;
}

Status allreduce_exactly(Rank& rank, const double* in, double* out, std::size_t count) noexcept {
  constexpr std::size_t most = 64;
  for (std::size_t done = 0; done < count;) {
    const std::size_t part = count - done < most ? count - done : most;
    ExactSum sums[most];
    for (std::size_t i = 0; i < part; ++i) sums[i].add(in[done + i]);
    const Status status = rank.allreduce(sums, sums, part, exact_sum());
    if (status != Status::ok) return status;
    for (std::size_t i = 0; i < part; ++i) out[done + i] = sums[i].to_double();
    done += part;
  }
  return Status::ok;
}

}  // namespace smelt
