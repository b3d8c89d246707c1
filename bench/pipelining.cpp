// Simulated broadcasts of long messages on imported machines: pipelining along the planned tree against
// binomial, scatter-allgather and chain, for every size.
//
//   pipelining MACHINE.json|CSV...     exit status 1 if the planned tree loses anywhere
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"
#include "smelt/schedule.hpp"

namespace {

using namespace smelt;

struct Best {
  double ns = 0.0;
  std::string recipe;
};

/// The best chunk size and access for an algorithm along a tree.
Best best_of(const std::vector<RankedRecipe>& ranked, const std::string& family) {
  for (const auto& each : ranked) {
    const auto& r = each.recipe;
    const bool tree = r.algorithm == "broadcast_tree" || r.algorithm == "broadcast_pipeline";
    const bool fits = family == "planned"    ? tree && (r.tree.empty() || r.tree == "stream")
                      : family == "binomial" ? tree && r.tree == "k-nomial:2"
                      : family == "chain"    ? tree && r.tree == "chain"
                                             : r.algorithm == "broadcast_scatter_allgather";
    if (fits) return {each.predicted_ns, to_string(r)};
  }
  return {};
}

Result<Machine> read(const std::string& path) {
  return path.ends_with(".csv") ? import_core_to_core(path) : load_machine(path);
}

}  // namespace

int main(int argc, char** argv) {
  bool lost = false;
  std::printf("%-32s %10s %10s %10s %10s %10s  %s\n", "machine", "bytes", "planned", "binomial", "scatter", "chain",
              "GB/s and recipe");
  for (int i = 1; i < argc; ++i) {
    auto machine = read(argv[i]);
    if (!machine) {
      std::fprintf(stderr, "pipelining: %s\n", machine.error().message.c_str());
      return 2;
    }
    Group group = whole_machine(*machine);
    const Access access[] = {Access::channels, Access::staged, Access::direct};
    for (std::size_t bytes = 4096; bytes <= (std::size_t{64} << 20); bytes *= 4) {
      auto ranked = rank_recipes(*machine, group, Operation::broadcast, bytes, access);
      if (!ranked) {
        std::fprintf(stderr, "pipelining: %s\n", ranked.error().message.c_str());
        return 2;
      }
      const Best planned = best_of(*ranked, "planned");
      double others[3];
      const char* families[] = {"binomial", "scatter", "chain"};
      for (int f = 0; f < 3; ++f) others[f] = best_of(*ranked, families[f]).ns;
      const char* name = std::strrchr(argv[i], '/') ? std::strrchr(argv[i], '/') + 1 : argv[i];
      const bool slower = planned.ns > *std::min_element(others, others + 3) * 1.0001;
      lost |= slower;
      std::printf("%-32s %10zu %10.0f %10.0f %10.0f %10.0f  %5.2f %s%s\n", name, bytes, planned.ns, others[0],
                  others[1], others[2], static_cast<double>(bytes) / planned.ns, planned.recipe.c_str(),
                  slower ? "  SLOWER" : "");
    }
  }
  return lost ? 1 : 0;
}
