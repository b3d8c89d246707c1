// Exact sums: against long additions on paper, in any order, over any number of ranks.
#include "smelt/exact_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "smelt/communicator.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace {

using Limits = std::numeric_limits<double>;
constexpr double infinity = Limits::infinity(), tiny = Limits::denorm_min(), most = Limits::max();

std::uint64_t bits_of(double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

/// The sum of finite numbers, added up and rounded digit by digit.
class BitwiseSum {
 public:
  explicit BitwiseSum(const std::vector<double>& values) {
    std::vector<long long> digits(2400, 0);  // of 2; the lowest weighs 2^-1074
    for (const double value : values) {
      int exponent = 0;
      auto mantissa = static_cast<long long>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
      int position = exponent - 53 + 1074;
      for (; position < 0; ++position) mantissa /= 2;  // subnormal: these bits are 0
      for (auto digit = static_cast<std::size_t>(position); mantissa != 0; ++digit, mantissa /= 2) {
        digits[digit] += value < 0 ? -(mantissa % 2) : mantissa % 2;
      }
    }
    negative_ = carry(digits);
    if (negative_) {
      for (auto& digit : digits) digit = -digit;
      carry(digits);
    }
    for (const auto digit : digits) digits_ += digit == 1 ? '1' : '0';
  }
  double to_double() const { return rounded(53, 0); }
  float to_float() const { return static_cast<float>(rounded(24, 1074 - 149)); }

 private:
  /// Digits become 0 or 1, but for the highest one, which is negative if the number is.
  static bool carry(std::vector<long long>& digits) {
    for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
      const long long up = digits[i] >> 1;
      digits[i] -= up * 2;
      digits[i + 1] += up;
    }
    return digits.back() < 0;
  }
  /// To `precision` digits, none of them below `lowest`.
  double rounded(std::size_t precision, std::size_t lowest) const {
    const auto highest = digits_.rfind('1');
    if (highest == std::string::npos) return 0;
    const auto last = std::max(highest + 1 > precision ? highest + 1 - precision : 0, lowest);
    double kept = 0;
    for (auto i = highest + 1; i > last; --i) kept = 2 * kept + (digits_[i - 1] - '0');
    const auto half = last > 0 && digits_[last - 1] == '1';
    const auto more = half && digits_.find('1') < last - 1;
    if (half && (more || digits_[last] == '1')) kept += 1;
    kept = std::ldexp(kept, static_cast<int>(last) - 1074);
    return negative_ ? -kept : kept;
  }
  std::string digits_;  // lowest first
  bool negative_;
};

ExactSum sum_of(const std::vector<double>& values) {
  ExactSum sum;
  sum.add(values.data(), values.size());
  return sum;
}

/// The same numbers, added up in parts and another order.
ExactSum in_parts(std::vector<double> values, std::mt19937_64& random) {
  std::shuffle(values.begin(), values.end(), random);
  std::vector<ExactSum> parts(1 + random() % 5);
  for (std::size_t at = 0; at < values.size();) {
    auto& part = parts[random() % parts.size()];
    const auto count = std::min<std::size_t>(values.size() - at, 1 + random() % 300);
    if (count % 2 == 0) {
      part.add(values.data() + at, count);
    } else {
      for (std::size_t i = 0; i < count; ++i) part.add(values[at + i]);
    }
    at += count;
  }
  ExactSum sum;
  for (const auto& part : parts) sum.add(part);
  return sum;
}

void expect_same(double got, double wanted, const std::string& what) {
  EXPECT_EQ(bits_of(got), bits_of(wanted)) << what << ": " << got << ", not " << wanted;
}

void expect_exact(const std::vector<double>& values, std::mt19937_64& random, const std::string& what) {
  const ExactSum sum = sum_of(values);
  const BitwiseSum wanted(values);
  expect_same(sum.to_double(), wanted.to_double(), what);
  expect_same(sum.to_float(), wanted.to_float(), what + ", as float");
  EXPECT_EQ(in_parts(values, random), sum) << what << ": in parts";
}

double any_bits(std::mt19937_64& random) {
  for (;;) {
    const std::uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) return value;
  }
}

/// `kind`: how they are spread.
double a_number(int kind, std::mt19937_64& random) {
  switch (kind) {
    case 0: return std::uniform_real_distribution<>(-1, 1)(random);
    case 1: return std::lognormal_distribution<>(0, 10)(random) * (random() % 2 == 0 ? 1 : -1);
    case 2: return any_bits(random);
    case 3:  // subnormal, and just not
      return std::ldexp(static_cast<double>(random() >> 11), -1074) * (random() % 2 == 0 ? 1 : -1);
    case 4:  // the largest
      return std::ldexp(static_cast<double>(random() >> 11 | std::uint64_t{1} << 52), 971) *
             (random() % 2 == 0 ? 1 : -1);
    case 5:  // few bits, many ties
      return std::ldexp(static_cast<double>(random() % 4), static_cast<int>(random() % 56));
    default:  // halves of what a float ends with
      return std::ldexp(static_cast<double>(random() % 8), static_cast<int>(random() % 30) - 149 - 2);
  }
}
constexpr int kinds = 7;

std::vector<double> numbers(int kind, std::size_t count, std::mt19937_64& random) {
  std::vector<double> values(count);
  for (auto& value : values) value = a_number(kind, random);
  return values;
}

TEST(ExactSum, IsTheTrueSumRoundedOnce) {
  std::mt19937_64 random(1);
  for (int kind = 0; kind < kinds; ++kind) {
    for (const std::size_t count : {1, 2, 3, 15, 31, 32, 33, 63, 64, 65, 80, 1000, 4095, 4096, 4097, 9000}) {
      for (int round = 0; round < (count < 100 ? 50 : 1); ++round) {
        expect_exact(numbers(kind, count, random), random,
                     "kind " + std::to_string(kind) + " of " + std::to_string(count));
      }
    }
  }
}

TEST(ExactSum, SurvivesCancellation) {
  std::mt19937_64 random(2);
  for (int kind = 0; kind < kinds; ++kind) {
    auto values = numbers(kind, 3000, random);
    const auto half = values.size();
    for (std::size_t i = 0; i < half; ++i) values.push_back(-values[i]);
    expect_same(sum_of(values).to_double(), 0.0, "all cancels");
    values.push_back(tiny);
    std::shuffle(values.begin(), values.end(), random);
    expect_same(sum_of(values).to_double(), tiny, "all but the smallest number cancels");
    expect_exact(values, random, "cancellation");
  }
}

/// Many numbers whose remainders are as large as can be and of one sign, among small ones with many digits.
TEST(ExactSum, HasRoomForTheLargestRemainders) {
  for (int shift = 36; shift <= 44; ++shift) {
    for (int down = 24; down <= 96; ++down) {
      std::vector<double> values(4096, 1 + std::ldexp(1, -shift) - Limits::epsilon());
      values[static_cast<std::size_t>(down % 5)] = std::ldexp(1 + Limits::epsilon(), -down);
      ExactSum one_by_one;
      for (const double value : values) one_by_one.add(value);
      EXPECT_EQ(sum_of(values), one_by_one) << shift << " " << down;
    }
  }
}

TEST(ExactSum, RoundsToNearestAndTiesToEven) {
  const double step = Limits::epsilon(), half = step / 2;
  const struct {
    std::vector<double> values;
    double wanted;
  } cases[] = {
      {{1, half}, 1},
      {{1, half, tiny}, 1 + step},
      {{1, half, -tiny}, 1},
      {{1 + step, half}, 1 + 2 * step},
      {{1 + step, half, -tiny}, 1 + step},
      {{2 - step, half}, 2},
      {{most, std::ldexp(1, 970)}, infinity},
      {{most, std::ldexp(1, 970), -tiny}, most},
      {{most, most, -most}, most},
      {{most, most, most, -most, -most, -most, tiny}, tiny},
      {{tiny, tiny}, 2 * tiny},
      {{Limits::min(), -tiny}, Limits::min() - tiny},
      {{Limits::min() - tiny, tiny}, Limits::min()},
  };
  for (const auto& [values, wanted] : cases) {
    expect_same(sum_of(values).to_double(), wanted, "a case");
    auto negative = values;
    for (auto& value : negative) value = -value;
    expect_same(sum_of(negative).to_double(), -wanted, "a negative case");
  }
  ExactSum floats;
  floats.add(1.0f);
  floats.add(std::ldexp(1.0f, -24));  // a tie, as float
  EXPECT_EQ(floats.to_float(), 1.0f);
  floats.add(tiny);
  EXPECT_EQ(floats.to_float(), 1.0f + std::numeric_limits<float>::epsilon());  // not rounded to double in between
  ExactSum large;
  large.add(most);
  EXPECT_EQ(large.to_float(), std::numeric_limits<float>::infinity());
}

TEST(ExactSum, KnowsZerosInfinitiesAndNans) {
  const double nan = Limits::quiet_NaN();
  expect_same(sum_of({}).to_double(), 0.0, "empty");
  expect_same(sum_of({-0.0}).to_double(), -0.0, "a negative zero");
  expect_same(sum_of(std::vector<double>(100, -0.0)).to_double(), -0.0, "negative zeros");
  expect_same(sum_of({-0.0, 0.0}).to_double(), 0.0, "zeros");
  expect_same(sum_of({-0.0, 1, -1}).to_double(), 0.0, "nothing left");
  EXPECT_EQ(ExactSum{}, sum_of({}));
  ExactSum negative = sum_of({-0.0});
  negative.add(ExactSum{});
  expect_same(negative.to_double(), -0.0, "a negative zero and nothing");
  for (const std::size_t count : {1, 50, 5000}) {
    std::vector<double> values(count, 1.0);
    values[count / 2] = infinity;
    expect_same(sum_of(values).to_double(), infinity, "infinity");
    EXPECT_EQ(sum_of(values).to_float(), std::numeric_limits<float>::infinity());
    values.push_back(most);
    values[0] = -infinity;
    if (count > 1) {
      EXPECT_TRUE(std::isnan(sum_of(values).to_double()));
    } else {
      expect_same(sum_of(values).to_double(), -infinity, "minus infinity");
    }
    values[count / 2] = nan;
    EXPECT_TRUE(std::isnan(sum_of(values).to_double()));
    EXPECT_TRUE(std::isnan(sum_of(values).to_float()));
  }
}

TEST(ExactSum, OfFloatsIsExactToo) {
  std::mt19937_64 random(3);
  for (const std::size_t count : {1, 40, 5000}) {
    std::vector<float> floats;
    std::vector<double> doubles;
    while (floats.size() < count) {
      const auto bits = static_cast<std::uint32_t>(random() % 3 == 0 ? random() % 0x1000000 : random());
      float value;
      std::memcpy(&value, &bits, sizeof value);
      if (!std::isfinite(value)) continue;
      floats.push_back(value);
      doubles.push_back(value);
    }
    ExactSum sum;
    sum.add(floats.data(), count);
    EXPECT_EQ(sum, sum_of(doubles));
    EXPECT_EQ(sum.to_float(), BitwiseSum(doubles).to_float());
  }
}

TEST(ExactSum, DoesNotDependOnTheModeOfTheFloatingPointUnit) {
  std::mt19937_64 random(4);
  auto values = numbers(0, 10000, random);
  values[17] = tiny;
  values[4500] = -3 * tiny;
  const ExactSum wanted = sum_of(values);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const ExactSum sum = sum_of(values);
    const double rounded = sum.to_double();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(sum, wanted) << mode;
    expect_same(rounded, wanted.to_double(), "rounded otherwise");
  }
#ifdef __SSE2__
  for (const unsigned flush : {0x8000u, 0x0040u, 0x8040u}) {  // results, operands
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | flush);
    const ExactSum sum = sum_of(values);
    _mm_setcsr(before);
    EXPECT_EQ(sum, wanted) << flush;
  }
#endif
}

// ---- over ranks -----------------------------------------------------------------------------

Communicator communicator_of(int ranks, const std::string& algorithm = "") {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 4;
  const Machine machine = *synthesize_machine(spec);
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank % 8);
  CommunicatorOptions options;
  options.pin = false;
  options.search_ms = 1;
  options.algorithm = algorithm;
  return *Communicator::create(machine, group, options);
}

TEST(ExactSumOverRanks, HasTheSameBitsForAnyNumberOfRanks) {
  std::mt19937_64 random(5);
  const auto values = numbers(1, 6000, random);
  std::vector<float> floats(values.size());
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(a_number(0, random));
  const double wanted = BitwiseSum(values).to_double();
  const float wanted_float = BitwiseSum({floats.begin(), floats.end()}).to_float();
  for (int ranks = 1; ranks <= 17; ++ranks) {
    auto comm = communicator_of(ranks);
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      // Uneven parts: rank r has those from r^2 / n^2 of all on.
      const auto begin_of = [&](int r) {
        return values.size() * static_cast<std::size_t>(r * r) / static_cast<std::size_t>(ranks * ranks);
      };
      const auto begin = begin_of(rank.rank()), count = begin_of(rank.rank() + 1) - begin;
      double total = -1;
      EXPECT_EQ(sum_exactly(rank, values.data() + begin, count, &total), Status::ok);
      expect_same(total, wanted, std::to_string(ranks) + " ranks");
      float total_float = -1;
      EXPECT_EQ(sum_exactly(rank, floats.data() + begin, count, &total_float), Status::ok);
      EXPECT_EQ(total_float, wanted_float) << ranks << " ranks";
    }));
  }
}

TEST(ExactSumOverRanks, HasTheSameBitsByEveryAlgorithm) {
  const int ranks = 5;
  std::mt19937_64 random(6);
  std::vector<std::vector<double>> values;
  for (int rank = 0; rank < ranks; ++rank) values.push_back(numbers(0, 300, random));
  const std::vector<Access> access = {Access::channels, Access::staged, Access::direct};
  for (const auto& recipe : candidate_recipes(Operation::allreduce, ranks, 32768, access)) {
    auto comm = communicator_of(ranks, to_string(recipe));
    ASSERT_TRUE(comm.run([&](Rank& rank) {
      const auto& mine = values[static_cast<std::size_t>(rank.rank())];
      std::vector<double> out = mine;
      EXPECT_EQ(allreduce_exactly(rank, out.data(), out.data(), out.size()), Status::ok);
      for (std::size_t i = 0; i < out.size(); i += 37) {
        std::vector<double> column;
        for (const auto& each : values) column.push_back(each[i]);
        expect_same(out[i], BitwiseSum(column).to_double(), to_string(recipe));
      }
    }));
  }
}

TEST(ExactSumOverRanks, GoesThroughOtherReductions) {
  auto comm = communicator_of(4);
  ASSERT_TRUE(comm.run([](Rank& rank) {
    const double big = std::ldexp(1.0, 100);
    ExactSum mine, prefix, total;
    mine.add(rank.rank() == 0 ? big : rank.rank() == 3 ? -big : 0.5);
    EXPECT_EQ(rank.scan(&mine, &prefix, 1, exact_sum()), Status::ok);
    EXPECT_EQ(prefix.to_double(), rank.rank() == 3 ? 1.0 : big);
    EXPECT_EQ(rank.reduce(&mine, &total, 1, exact_sum(), 2), Status::ok);
    EXPECT_EQ(total.to_double(), rank.rank() == 2 ? 1.0 : 0.0);
  }));
}

}  // namespace
}  // namespace smelt
