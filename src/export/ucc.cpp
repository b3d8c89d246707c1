// UCC, TL/UCP: environment variables.
//
//   UCC_TL_UCP_TUNE = section#section...      section = operation:sizes:team:score:@algorithm
//
// Sizes are "0-4k" and "4k-inf", of the vector or of all ranks' blocks together. The team is "[4-4]" for four ranks.
// The score "inf" beats everything else. UCC's own choice differs between versions, so every size up to the longest is
// decided here. Grammar: UCC user guide, section on scores and tuning.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <vector>

#include "export/internal.hpp"

namespace smelt::plan {
namespace {

struct Tuned {
  const char* name;
  Operation operation;
};
constexpr Tuned operations[] = {{"bcast", Operation::broadcast},
                                {"allreduce", Operation::allreduce},
                                {"reduce_scatter", Operation::reduce_scatter},
                                {"allgather", Operation::allgather},
                                {"alltoall", Operation::alltoall}};

std::vector<RuntimeAlgorithm> contenders(Operation operation, int ranks, int radix) {
  switch (operation) {
    case Operation::broadcast:
      return {{"knomial", 0, fmt::format("broadcast_tree+channels+tree=k-nomial:{}", radix)},
              {"sag_knomial", 0, "broadcast_scatter_allgather+channels"}};
    case Operation::allreduce:
      return {{"knomial", 0, "allreduce_recursive_doubling+channels"},
              {"sra_knomial", 0, "allreduce_reduce_scatter_allgather+channels"}};
    case Operation::reduce_scatter: {
      std::vector<RuntimeAlgorithm> list = {{"ring", 0, "reduce_scatter_pairwise+channels"}};
      if (is_power_of_two(ranks)) list.push_back({"knomial", 0, "reduce_scatter_recursive_halving+channels"});
      return list;
    }
    case Operation::allgather: {
      std::vector<RuntimeAlgorithm> list = {{"ring", 0, "allgather_ring+channels"},
                                            {"bruck", 0, "allgather_bruck+channels"}};
      if (is_power_of_two(ranks)) list.push_back({"knomial", 0, "allgather_recursive_doubling+channels"});
      return list;
    }
    default: return {{"pairwise", 0, "alltoall_pairwise+channels"}, {"bruck", 0, "alltoall_bruck+channels"}};
  }
}

/// The radix whose tree is fastest for one line.
Result<int> best_radix(const ExportTarget& job, Operation operation, const char* prefix) {
  int best = 2;
  double best_ns = std::numeric_limits<double>::max();
  for (int radix : {2, 3, 4, 8}) {
    if (radix > 2 && radix > job.ranks()) break;
    auto ns = predict(job, operation, fmt::format("{}k-nomial:{}", prefix, radix), 8);
    if (!ns) return ns.error();
    if (*ns < best_ns) {
      best_ns = *ns;
      best = radix;
    }
  }
  return best;
}

void add_sections(std::vector<std::string>& sections, const Tuned& tuned, const SimulatedRace& race,
                  const std::vector<SizeRange>& ranges, int ranks) {
  const std::size_t blocks = has_rank_blocks(tuned.operation) ? static_cast<std::size_t>(ranks) : 1;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].winner < 0) continue;  // empty messages
    const std::string from = i == 1 ? "0" : short_bytes(ranges[i].from_bytes * blocks);
    const std::string to = i + 1 < ranges.size() ? short_bytes(ranges[i + 1].from_bytes * blocks) : "inf";
    sections.push_back(fmt::format("{}:{}-{}:[{}-{}]:inf:@{}", tuned.name, from, to, ranks, ranks,
                                   race.contenders[static_cast<std::size_t>(ranges[i].winner)].name));
  }
}

}  // namespace

Result<RuntimeSettings> export_ucc(const ExportTarget& job) {
  RuntimeSettings settings;
  settings.usage = "set -a; . FILE; set +a; mpirun --mca coll_ucc_enable 1 --mca coll_ucc_priority 100 PROGRAM\n";
  settings.text = fmt::format("# UCC, TL/UCP: {} ranks on {}\n", job.ranks(), job.machine.name);
  if (job.crowded) {
    settings.text += "# Ranks share a PU: the model is not asked, all stays with UCC.\n";
    return settings;
  }
  auto down = best_radix(job, Operation::broadcast, "broadcast_tree+channels+tree=");
  if (!down) return down.error();
  auto up = best_radix(job, Operation::reduce, "reduce_tree+channels+tree=");
  if (!up) return up.error();
  auto both = best_radix(job, Operation::barrier, "");
  if (!both) return both.error();
  std::vector<std::string> sections;
  for (const auto& tuned : operations) {
    SimulatedRace race{.operation = tuned.operation, .contenders = contenders(tuned.operation, job.ranks(), *down)};
    race.has_default = false;
    auto ranges = run_race(job, race);
    if (!ranges) return ranges.error();
    add_choices(settings, race, *ranges);
    add_sections(sections, tuned, race, *ranges, job.ranks());
  }
  settings.text += fmt::format(
      "UCC_TL_UCP_BCAST_KN_RADIX={}\nUCC_TL_UCP_REDUCE_KN_RADIX={}\nUCC_TL_UCP_BARRIER_KN_RADIX={}\n"
      "UCC_TL_UCP_TUNE='{}'\n",
      *down, *up, *both, fmt::join(sections, "#"));
  return settings;
}

}  // namespace smelt::plan
