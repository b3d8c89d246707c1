// Open MPI 4.1, coll/tuned: a dynamic rules file.
//
//   number of operations, then per operation:  its id, number of communicator sizes, then per communicator size:
//   ranks, number of rules, then per rule:     from bytes, algorithm, fan-out (0: its own), segment bytes (0: none)
//
// A communicator uses the rules of the largest size that is not above its own. A message uses the rule with the largest
// "from bytes" that is not above its size. Algorithm 0 is Open MPI's own decision. Bytes are those of the vector, or of
// all ranks' blocks together.
//
// Rules apply to every operator. So reductions get only algorithms that are correct for operators that do not commute,
// or that check it themselves. Gather and scatter get no rules: Open MPI looks them up with arguments that are
// significant on the root alone (or everywhere but on the root), so ranks could disagree.
#include <fmt/format.h>

#include <cstdint>
#include <vector>

#include "export/internal.hpp"

namespace smelt::plan {
namespace {

constexpr std::size_t any = SIZE_MAX;

struct SizeDefault {
  std::size_t below_bytes;
  int algorithm;
};
struct RanksDefault {
  std::size_t below_ranks;
  std::vector<SizeDefault> sizes;
};
struct OperationDefault {
  Operation operation;
  std::vector<RanksDefault> ranks;
};

/// Open MPI 4.1's own decisions, for operators that commute and fewer than 1024 ranks. Bytes are those of the vector,
/// or of one rank's block.
const std::vector<OperationDefault>& defaults() {
  static const std::vector<OperationDefault> table = {
      {Operation::allgather,
       {
           {3, {{any, 6}}},
           {32, {{any, 3}}},
           {64, {{1024, 3}, {65536, 5}, {any, 4}}},
           {128, {{512, 3}, {65536, 5}, {any, 4}}},
           {256, {{512, 3}, {131072, 5}, {524288, 4}, {1048576, 5}, {any, 4}}},
           {512, {{32, 3}, {128, 2}, {1024, 3}, {131072, 5}, {524288, 4}, {1048576, 5}, {any, 4}}},
           {1024, {{64, 3}, {256, 2}, {2048, 3}, {any, 5}}},
       }},
      {Operation::allreduce,
       {
           {4, {{8, 4}, {4096, 3}, {8192, 4}, {16384, 3}, {65536, 4}, {262144, 5}, {any, 6}}},
           {8, {{16, 4}, {8192, 3}, {any, 6}}},
           {16, {{8192, 3}, {any, 6}}},
           {32, {{64, 5}, {4096, 3}, {any, 6}}},
           {64, {{128, 5}, {any, 6}}},
           {128, {{262144, 3}, {any, 6}}},
           {256, {{131072, 2}, {262144, 3}, {any, 6}}},
           {512, {{4096, 2}, {any, 6}}},
           {2048, {{2048, 2}, {16384, 3}, {any, 6}}},
       }},
      {Operation::alltoall,
       {
           {3,
            {{2, 2}, {4, 5}, {16, 2}, {64, 5}, {256, 2}, {4096, 5}, {32768, 2}, {262144, 4}, {1048576, 5}, {any, 2}}},
           {8, {{8192, 4}, {16384, 1}, {65536, 4}, {524288, 1}, {1048576, 2}, {any, 1}}},
           {16, {{262144, 4}, {any, 1}}},
           {32, {{4, 4}, {512, 3}, {8192, 4}, {32768, 1}, {262144, 4}, {524288, 1}, {any, 4}}},
           {64, {{512, 3}, {524288, 1}, {any, 4}}},
           {128, {{1024, 3}, {2048, 1}, {4096, 4}, {262144, 1}, {any, 2}}},
           {256, {{1024, 3}, {2048, 4}, {262144, 1}, {any, 2}}},
           {512, {{1024, 3}, {8192, 4}, {32768, 1}, {any, 2}}},
           {1024, {{512, 3}, {8192, 4}, {16384, 1}, {131072, 4}, {262144, 1}, {any, 2}}},
       }},
      {Operation::barrier,
       {
           {4, {{any, 3}}},
           {8, {{any, 1}}},
           {64, {{any, 3}}},
           {256, {{any, 4}}},
           {512, {{any, 6}}},
           {1024, {{any, 4}}},
       }},
      {Operation::broadcast,
       {
           {4,
            {{32, 3},
             {256, 5},
             {512, 3},
             {1024, 7},
             {32768, 1},
             {131072, 5},
             {262144, 2},
             {524288, 1},
             {1048576, 6},
             {any, 5}}},
           {8, {{64, 5}, {128, 6}, {2048, 5}, {8192, 6}, {1048576, 1}, {any, 2}}},
           {16, {{8, 7}, {64, 5}, {4096, 7}, {16384, 5}, {32768, 6}, {any, 1}}},
           {32, {{4096, 7}, {1048576, 6}, {any, 8}}},
           {64, {{2048, 6}, {any, 7}}},
           {128, {{any, 7}}},
           {256, {{2, 6}, {16384, 5}, {32768, 1}, {65536, 5}, {any, 7}}},
           {1024, {{16384, 7}, {32768, 4}, {any, 7}}},
       }},
      {Operation::reduce,
       {
           {4, {{8, 7}, {16, 4}, {32, 3}, {262144, 1}, {524288, 3}, {1048576, 2}, {any, 3}}},
           {8, {{4096, 4}, {65536, 2}, {262144, 5}, {524288, 1}, {1048576, 5}, {any, 1}}},
           {16, {{8192, 4}, {any, 5}}},
           {32, {{4096, 4}, {any, 5}}},
           {256, {{any, 5}}},
           {512, {{8192, 5}, {16384, 6}, {any, 5}}},
           {2048, {{any, 5}}},
       }},
  };
  return table;
}

const std::vector<SizeDefault>* defaults_for(Operation operation, int ranks) {
  for (const auto& each : defaults()) {
    if (each.operation != operation) continue;
    for (const auto& row : each.ranks) {
      if (static_cast<std::size_t>(ranks) < row.below_ranks) return &row.sizes;
    }
  }
  return nullptr;
}

struct Tuned {
  int id;  ///< Open MPI's number of the operation
  const char* name;
  Operation operation;
};
constexpr Tuned operations[] = {{0, "allgather", Operation::allgather}, {2, "allreduce", Operation::allreduce},
                                {3, "alltoall", Operation::alltoall},   {6, "barrier", Operation::barrier},
                                {7, "bcast", Operation::broadcast},     {11, "reduce", Operation::reduce}};

std::vector<RuntimeAlgorithm> contenders(Operation operation, int ranks) {
  const bool doubles = is_power_of_two(ranks);
  switch (operation) {
    case Operation::broadcast:
      return {{"basic_linear", 1, "broadcast_tree+channels+tree=sequential"},
              {"chain", 2, "broadcast_tree+channels+tree=chain", false},
              {"pipeline", 3, "broadcast_tree+channels+tree=chain"},
              {"binary_tree", 5, "broadcast_tree+channels+tree=binary"},
              {"binomial", 6, "broadcast_tree+channels+tree=k-nomial:2"},
              {"knomial", 7, "broadcast_tree+channels+tree=k-nomial:4"},
              {"scatter_allgather_ring", 9, "broadcast_scatter_allgather+channels"}};
    case Operation::allreduce:
      return {{"recursive_doubling", 3, "allreduce_recursive_doubling+channels"},
              {"ring", 4, "allreduce_ring+channels", false},
              {"segmented_ring", 5, "allreduce_ring+channels", false},
              {"rabenseifner", 6, "allreduce_reduce_scatter_allgather+channels"}};
    case Operation::reduce:
      return {{"linear", 1, "reduce_tree+channels+tree=sequential"},
              {"chain", 2, "reduce_tree+channels+tree=chain", false},
              {"pipeline", 3, "reduce_tree+channels+tree=chain", false},
              {"binary", 4, "reduce_tree+channels+tree=binary", false},
              {"binomial", 5, "reduce_tree+channels+tree=k-nomial:2", false},
              {"rabenseifner", 7, "reduce_scatter_gather+channels"}};
    case Operation::allgather: {
      std::vector<RuntimeAlgorithm> list = {{"bruck", 2, "allgather_bruck+channels"},
                                            {"ring", 4, "allgather_ring+channels"}};
      if (doubles) list.push_back({"recursive_doubling", 3, "allgather_recursive_doubling+channels"});
      // Open MPI replaces it by Bruck's algorithm for other sizes.
      if (!doubles) list.push_back({"recursive_doubling", 3, "allgather_bruck+channels", false});
      // Open MPI replaces it by the ring for an odd number of ranks.
      list.push_back({"neighbor_exchange", 5, "allgather_neighbour_exchange+channels", ranks % 2 == 0});
      if (ranks == 2) list.push_back({"two_proc", 6, "allgather_recursive_doubling+channels", false});
      return list;
    }
    case Operation::alltoall:
      // Algorithms that post everything at once move the same messages as the pairwise one.
      return {{"linear", 1, "alltoall_pairwise+channels", false},
              {"pairwise", 2, "alltoall_pairwise+channels"},
              {"modified_bruck", 3, "alltoall_bruck+channels"},
              {"linear_sync", 4, "alltoall_pairwise+channels", false},
              {"two_proc", 5, "alltoall_pairwise+channels", false}};
    default: {
      std::vector<RuntimeAlgorithm> list = {
          {"linear", 1, "sequential"}, {"bruck", 4, "dissemination"}, {"tree", 6, "k-nomial:2"}};
      if (doubles) list.push_back({"recursive_doubling", 3, "dissemination"});
      return list;
    }
  }
}

SimulatedRace make_race(Operation operation, int ranks) {
  SimulatedRace race{.operation = operation, .contenders = contenders(operation, ranks)};
  const auto* sizes = defaults_for(operation, ranks);
  if (sizes != nullptr) {
    for (const auto& each : *sizes) race.boundaries.push_back(each.below_bytes);
  }
  race.default_of = [sizes, list = race.contenders](std::size_t bytes) {
    if (sizes == nullptr) return -1;
    int number = 0;
    for (const auto& each : *sizes) {
      number = each.algorithm;
      if (bytes < each.below_bytes) break;
    }
    for (int index = 0; index < static_cast<int>(list.size()); ++index) {
      if (list[static_cast<std::size_t>(index)].number == number) return index;
    }
    return -1;
  };
  return race;
}

/// The rules of one operation. Equal neighbours become one rule.
std::string format_operation(const Tuned& tuned, const SimulatedRace& race, const std::vector<SizeRange>& ranges,
                             int ranks) {
  std::string rules;
  int count = 0;
  int last = -2;
  const std::size_t blocks = has_rank_blocks(tuned.operation) ? static_cast<std::size_t>(ranks) : 1;
  for (const auto& each : ranges) {
    if (each.winner == last) continue;
    last = each.winner;
    // A barrier asks for size 0.
    if (tuned.operation == Operation::barrier && each.from_bytes == 0) continue;
    const std::size_t from = tuned.operation == Operation::barrier ? 0 : each.from_bytes * blocks;
    if (each.winner < 0) {
      rules += fmt::format("{} 0 0 0  # Open MPI's own decision\n", from);
    } else {
      const auto& winner = race.contenders[static_cast<std::size_t>(each.winner)];
      rules += fmt::format("{} {} 0 0  # {}: {:.0f} ns predicted, {:.0f} ns for the default\n", from, winner.number,
                           winner.name, each.predicted_ns, each.default_ns);
    }
    ++count;
  }
  const std::string keep = "1\n0 0 0 0\n";
  const bool smaller = ranks > 2;
  std::string text = fmt::format("{}  # {}\n{}  # communicator sizes\n", tuned.id, tuned.name, smaller ? 3 : 2);
  if (smaller) text += "2 " + keep;
  text += fmt::format("{} {}  # ranks, rules\n{}", ranks, count, rules);
  return text + fmt::format("{} {}", ranks + 1, keep);
}

}  // namespace

Result<RuntimeSettings> export_openmpi(const ExportTarget& job) {
  RuntimeSettings settings;
  std::string rules;
  int count = 0;
  for (const auto& tuned : operations) {
    const SimulatedRace race = make_race(tuned.operation, job.ranks());
    auto ranges = run_race(job, race);
    if (!ranges) return ranges.error();
    add_choices(settings, race, *ranges);
    if (!decides(*ranges)) continue;
    rules += format_operation(tuned, race, *ranges, job.ranks());
    ++count;
  }
  settings.text = fmt::format(
      "# Open MPI 4.1, coll/tuned: rules for {} ranks on {}\n"
      "# Operations that are not listed, and algorithm 0: Open MPI's own decision.\n",
      job.ranks(), job.machine.name);
  if (job.crowded) settings.text += "# Ranks share a PU: the model is not asked, all stays with Open MPI.\n";
  settings.text += fmt::format("{}  # operations\n{}", count, rules);
  settings.usage = fmt::format(
      "mpirun -n {} --bind-to core --mca coll_tuned_use_dynamic_rules 1 \\\n"
      "  --mca coll_tuned_dynamic_rules_filename FILE PROGRAM\n",
      job.ranks());
  return settings;
}

}  // namespace smelt::plan
