// Question: how long does planning one broadcast take, by planner and number of ranks, with
// nothing but the construction heuristic?
// Method: synthetic machines of two packages with jittered costs; each planner on the whole
// machine, search budget 0. The plan is checked to reach every rank.
// Expected shape: textbook trees linear; trees that look at costs at least quadratic.
#include <benchmark/benchmark.h>

#include <cmath>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace {

smelt::Machine machine_of(int pus) {
  smelt::SynthSpec spec;
  spec.packages = 2;
  spec.numa_per_package = 2;
  spec.cores = pus / 2;
  spec.l3 = 2;
  spec.jitter = 0.1;
  auto machine = smelt::synthesize_machine(spec);
  return machine ? *std::move(machine) : smelt::Machine{};
}

void plan_broadcast(benchmark::State& state, const char* topology) {
  const smelt::Machine machine = machine_of(static_cast<int>(state.range(0)));
  const smelt::Group group = smelt::whole_machine(machine);
  smelt::PlanOptions options;
  options.topology = topology;
  options.search_ms = 0;
  double predicted_ns = 0;
  for (auto _ : state) {
    auto plan = smelt::make_plan(machine, group, smelt::Operation::broadcast, options);
    if (!plan || plan->arrival_ns.size() != group.pus.size() || !std::isfinite(plan->predicted_ns)) {
      state.SkipWithError(plan ? "the plan misses ranks" : plan.error().message.c_str());
      break;
    }
    predicted_ns = plan->predicted_ns;
  }
  state.counters["predicted_ns"] = predicted_ns;
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(8)->Arg(32)->Arg(256)->Arg(1024)->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(plan_broadcast, binary, "binary")->Apply(sizes);
BENCHMARK_CAPTURE(plan_broadcast, mst, "mst")->Apply(sizes);
BENCHMARK_CAPTURE(plan_broadcast, cluster, "cluster")->Apply(sizes);
BENCHMARK_CAPTURE(plan_broadcast, adaptive, "adaptive")->Apply(sizes);
BENCHMARK_CAPTURE(plan_broadcast, best, "best")->Apply(sizes);

}  // namespace
