// LLVM's OpenMP runtime: barriers, by environment variables.
//
//   KMP_<BARRIER>_BARRIER=<gather bits>,<release bits>             branches of the trees: 2^bits
//   KMP_<BARRIER>_BARRIER_PATTERN=<gather pattern>,<release pattern>
//
//   linear   thread 0 signals, or is signalled by, every other
//   tree     thread t has the children t * 2^bits + 1 .. t * 2^bits + 2^bits
//   hyper    the k-nomial tree of radix 2^bits
//
// Gathering is a reduction without data. Releasing is a broadcast of one line. "hierarchical" follows levels that the
// runtime finds for itself, and is not compared.
#include <fmt/format.h>

#include <limits>
#include <string>

#include "export/internal.hpp"

namespace smelt::plan {
namespace {

constexpr int most_bits = 6;

struct BranchingPattern {
  const char* pattern;
  int bits;
};
constexpr BranchingPattern plain_default = {"hyper", 2}, reduction_default = {"hyper", 1};

Tree heap_tree(int ranks, int branches) {
  Tree tree{.root = 0, .children = std::vector<std::vector<int>>(static_cast<std::size_t>(ranks))};
  for (int child = 1; child < ranks; ++child) {
    tree.children[static_cast<std::size_t>((child - 1) / branches)].push_back(child);
  }
  return tree;
}

Tree k_nomial_tree(int ranks, int radix) {
  Tree tree{.root = 0, .children = std::vector<std::vector<int>>(static_cast<std::size_t>(ranks))};
  int stride = 1;
  while (stride * radix < ranks) stride *= radix;
  for (; stride >= 1; stride /= radix) {  // the largest subtrees first
    for (int parent = 0; parent < ranks; parent += stride * radix) {
      for (int digit = 1; digit < radix && parent + digit * stride < ranks; ++digit) {
        tree.children[static_cast<std::size_t>(parent)].push_back(parent + digit * stride);
      }
    }
  }
  return tree;
}

Tree tree_of(const BranchingPattern& shape, int ranks) {
  const std::string_view pattern = shape.pattern;
  if (pattern == "linear") return heap_tree(ranks, ranks);
  return pattern == "tree" ? heap_tree(ranks, 1 << shape.bits) : k_nomial_tree(ranks, 1 << shape.bits);
}

Result<double> time_of(const ExportTarget& job, Operation operation, const BranchingPattern& shape) {
  auto plan = plan_from_tree(job.machine, job.group, operation, tree_of(shape, job.ranks()));
  if (!plan) return plan.error();
  return plan->predicted_ns;
}

/// The fastest shape; the default unless it is slower by more than the margin.
Result<BranchingPattern> choose(const ExportTarget& job, Operation operation, const BranchingPattern& standard) {
  auto default_ns = time_of(job, operation, standard);
  if (!default_ns) return default_ns.error();
  BranchingPattern best = standard;
  double best_ns = (1.0 - job.options.margin) * *default_ns;
  for (const char* pattern : {"linear", "tree", "hyper"}) {
    for (int bits = 1; bits <= most_bits; ++bits) {
      const BranchingPattern shape{pattern, bits};
      auto ns = time_of(job, operation, shape);
      if (!ns) return ns.error();
      if (*ns < best_ns) {
        best_ns = *ns;
        best = shape;
      }
      if (std::string_view(pattern) == "linear" || (1 << bits) >= job.ranks()) break;
    }
  }
  return best;
}

bool same(const BranchingPattern& a, const BranchingPattern& b) {
  return std::string_view(a.pattern) == b.pattern && a.bits == b.bits;
}

Result<std::string> lines(const ExportTarget& job, const char* name, const BranchingPattern& standard) {
  auto gather = choose(job, Operation::reduce, standard);
  if (!gather) return gather.error();
  auto release = choose(job, Operation::broadcast, standard);
  if (!release) return release.error();
  if (same(*gather, standard) && same(*release, standard)) {
    return fmt::format("# {}: the default\n", name);
  }
  return fmt::format("KMP_{}_BARRIER={},{}\nKMP_{}_BARRIER_PATTERN={},{}\n", name, gather->bits, release->bits, name,
                     gather->pattern, release->pattern);
}

}  // namespace

Result<RuntimeSettings> export_libomp(const ExportTarget& job) {
  RuntimeSettings settings;
  settings.text = fmt::format("# LLVM OpenMP: {} threads on {}\n", job.ranks(), job.machine.name);
  settings.usage = "set -a; . FILE; set +a; KMP_SETTINGS=1 PROGRAM    # prints what it understood\n";
  if (job.crowded) {
    settings.text += "# Threads share a PU: the model is not asked, all stays with the runtime.\n";
    return settings;
  }
  settings.text += fmt::format("OMP_NUM_THREADS={}\nOMP_PLACES='", job.ranks());
  for (int rank = 0; rank < job.ranks(); ++rank) {
    const auto pu = static_cast<std::size_t>(job.group.pus[static_cast<std::size_t>(rank)]);
    settings.text += fmt::format("{}{{{}}}", rank == 0 ? "" : ",", job.machine.pus[pu].os_index);
  }
  settings.text += "'\nOMP_PROC_BIND=close\n";
  for (const auto& [name, standard] : {std::pair{"PLAIN", plain_default}, std::pair{"FORKJOIN", plain_default},
                                       std::pair{"REDUCTION", reduction_default}}) {
    auto text = lines(job, name, standard);
    if (!text) return text.error();
    settings.text += *text;
  }
  return settings;
}

}  // namespace smelt::plan
