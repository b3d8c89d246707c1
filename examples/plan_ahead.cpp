// Plans for a machine that is not at hand: 8 packages of 16 cores, costs assumed per level. How much
// would its broadcasts gain over textbook trees?
#include <cstdio>
#include <smelt/machine.hpp>
#include <smelt/plan.hpp>

int main() {
  smelt::SynthSpec spec;
  spec.packages = 8;
  spec.cores = 16;
  spec.l3 = 4;
  auto machine = smelt::synthesize_machine(spec);
  if (!machine) {
    std::fprintf(stderr, "%s\n", machine.error().message.c_str());
    return 1;
  }
  const auto group = smelt::whole_machine(*machine);
  smelt::PlanOptions options;
  options.search_ms = 100;
  double best_ns = 0;
  for (const char* topology : {"best", "adaptive-optimized", "cluster", "binary", "sequential"}) {
    options.topology = topology;
    auto plan = smelt::make_plan(*machine, group, smelt::Operation::broadcast, options);
    if (!plan) {
      std::fprintf(stderr, "%s: %s\n", topology, plan.error().message.c_str());
      return 1;
    }
    if (best_ns == 0) best_ns = plan->predicted_ns;
    std::printf("%-20s %8.0f ns  %.2f x\n", topology, plan->predicted_ns, plan->predicted_ns / best_ns);
    if (plan->predicted_ns < best_ns) return 1;  // `best` is never worse
  }
  return 0;
}
