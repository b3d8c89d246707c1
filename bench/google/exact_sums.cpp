// Question: what does an exact sum cost, locally and over ranks, next to a plain one?
// Method: arrays that fit the caches, of numbers that are alike (uniform), spread over many powers of ten (wide), or
// have any bits (any); a plain loop over the same; one, and four thousand, accumulators combined; and two
// ranks on threads that add one number each by allreduce, plain, reproducible and exact. Sums are checked against
// adding one by one.
// Expected shape: long arrays that are alike faster than the plain loop, whose additions wait for each other; any
// bits a few nanoseconds per element.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "smelt/communicator.hpp"
#include "smelt/exact_sum.hpp"

namespace {

enum Spread { uniform, wide, any };

std::vector<double> numbers(std::size_t count, int spread) {
  std::mt19937_64 random(1);
  std::vector<double> values(count);
  for (auto& value : values) {
    if (spread == uniform) value = std::uniform_real_distribution<>(-1, 1)(random);
    if (spread == wide) value = std::lognormal_distribution<>(0, 10)(random);
    if (spread != any) continue;
    do {
      const std::uint64_t bits = random();
      std::memcpy(&value, &bits, sizeof value);
    } while (!std::isfinite(value));
  }
  return values;
}

void per_element(benchmark::State& state) {
  state.counters["s_per_element"] = benchmark::Counter(
      static_cast<double>(state.range(0)), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void plain_loop(benchmark::State& state) {
  const auto values = numbers(static_cast<std::size_t>(state.range(0)), uniform);
  for (auto _ : state) benchmark::DoNotOptimize(std::accumulate(values.begin(), values.end(), 0.0));
  per_element(state);
}
BENCHMARK(plain_loop)->Arg(64)->Arg(1024)->Arg(32768);

void exact(benchmark::State& state, int spread) {
  const auto values = numbers(static_cast<std::size_t>(state.range(0)), spread);
  smelt::ExactSum wanted;
  for (const double value : values) wanted.add(value);
  for (auto _ : state) {
    smelt::ExactSum sum;
    sum.add(values.data(), values.size());
    if (!(sum == wanted)) state.SkipWithError("wrong sum");
    benchmark::DoNotOptimize(sum.to_double());
  }
  per_element(state);
}
BENCHMARK_CAPTURE(exact, uniform, uniform)->Arg(1)->Arg(8)->Arg(64)->Arg(1024)->Arg(32768);
BENCHMARK_CAPTURE(exact, wide, wide)->Arg(1024)->Arg(32768);
BENCHMARK_CAPTURE(exact, any, any)->Arg(1024)->Arg(32768);

void combine(benchmark::State& state) {
  std::vector<smelt::ExactSum> to(static_cast<std::size_t>(state.range(0))), from(to.size());
  for (auto& each : from) each.add(-0.1);
  const auto op = smelt::exact_sum();
  for (auto _ : state) op.combine(to.data(), from.data(), to.size(), nullptr);
  per_element(state);
}
BENCHMARK(combine)->Arg(1)->Arg(64);

enum Way { rounded, reproducible, exactly };

/// Rounds of `state` on two ranks. Rank 0 tells rank 1 when they end.
void two_ranks(benchmark::State& state, int way) {
  auto made = smelt::Communicator::create(2);
  if (!made) return state.SkipWithError(made.error().message.c_str());
  const auto count = static_cast<std::size_t>(state.range(0));
  const auto one_round = [&](smelt::Rank& rank, const std::vector<double>& in, std::vector<double>& out) {
    auto op = smelt::sum<double>();
    op.reproducible = way == reproducible;
    if (way != exactly) (void)rank.allreduce(in.data(), out.data(), count, op);
    if (way == exactly) (void)smelt::allreduce_exactly(rank, in.data(), out.data(), count);
  };
  constexpr int batch = 100;
  const auto ran = made->run([&](smelt::Rank& rank) {
    std::vector<double> in(count, 0.5 + rank.rank()), out(count);
    for (bool more = true; more;) {
      if (rank.rank() == 0) more = state.KeepRunningBatch(batch);
      (void)rank.broadcast(&more, sizeof more);
      for (int i = 0; more && i < batch; ++i) one_round(rank, in, out);
    }
    if (rank.rank() == 0 && out[count - 1] != 2.0) state.SkipWithError("wrong sum");
  });
  if (!ran) state.SkipWithError(ran.error().message.c_str());
}
BENCHMARK_CAPTURE(two_ranks, rounded, rounded)->Arg(1)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(two_ranks, reproducible, reproducible)->Arg(1)->Arg(512)->UseRealTime();
BENCHMARK_CAPTURE(two_ranks, exactly, exactly)->Arg(1)->Arg(512)->UseRealTime();

}  // namespace
