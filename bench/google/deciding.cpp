// Question: how long does it take, without a profile, to decide what runs: the simulator ranks all recipes of an
// operation for one size, as a communicator does when such a call is first made?
// Method: synthetic machines of two packages; all three ways of access; trees are planned anew each time, with
// nothing but the construction heuristic. The ranking is checked to be one.
// Expected shape: the number of moves, at most quadratic in the ranks, times the recipes.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "smelt/machine.hpp"
#include "smelt/schedule.hpp"

namespace {

smelt::Machine machine_of(int pus) {
  smelt::SynthSpec spec;
  spec.packages = 2;
  spec.cores = pus / 2;
  spec.jitter = 0.1;
  auto machine = smelt::synthesize_machine(spec);
  return machine ? *std::move(machine) : smelt::Machine{};
}

void decide(benchmark::State& state, smelt::Operation operation, std::size_t bytes) {
  const smelt::Machine machine = machine_of(static_cast<int>(state.range(0)));
  const smelt::Group group = smelt::whole_machine(machine);
  const smelt::Access access[] = {smelt::Access::channels, smelt::Access::staged, smelt::Access::direct};
  std::size_t recipes = 0;
  for (auto _ : state) {
    auto ranked = smelt::rank_recipes(machine, group, operation, bytes, access);
    const auto cheaper = [](const auto& a, const auto& b) { return a.predicted_ns < b.predicted_ns; };
    if (!ranked || ranked->empty() || !std::is_sorted(ranked->begin(), ranked->end(), cheaper)) {
      state.SkipWithError("no ranking");
      break;
    }
    recipes = ranked->size();
  }
  state.counters["recipes"] = static_cast<double>(recipes);
}

void ranks(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(2)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(decide, broadcast_8, smelt::Operation::broadcast, 8)->Apply(ranks);
BENCHMARK_CAPTURE(decide, broadcast_1M, smelt::Operation::broadcast, 1 << 20)->Apply(ranks);
BENCHMARK_CAPTURE(decide, allreduce_8, smelt::Operation::allreduce, 8)->Apply(ranks);
BENCHMARK_CAPTURE(decide, allreduce_1M, smelt::Operation::allreduce, 1 << 20)->Apply(ranks);
BENCHMARK_CAPTURE(decide, alltoall_8, smelt::Operation::alltoall, 8)->Apply(ranks);
BENCHMARK_CAPTURE(decide, alltoall_64K, smelt::Operation::alltoall, 1 << 16)->Apply(ranks);

}  // namespace
