// Every algorithm, access, group, tree, cut and way of timing: the result is the operation's, and what is said of the
// algorithm is so. See schedule_run_test_util.hpp.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/plan_test_util.hpp"
#include "plan/schedule_run_test_util.hpp"

namespace smelt {
namespace {

using test::RunOptions;
using test::ScheduleRun;

/// Ranks on three caches, out of order for some numbers.
Group mixed_group(int ranks, unsigned seed) {
  Group group = test::group_of(test::random_machine(ranks, 1), ranks);
  if (ranks % 3 != 0) std::shuffle(group.pus.begin(), group.pus.end(), std::minstd_rand(seed));
  return group;
}

ScheduleRequest request_of(const AlgorithmInfo& info, Access access, const std::string& tree, int ranks, int root) {
  const Machine machine = test::random_machine(ranks, static_cast<unsigned>(ranks), std::min(ranks, 3));
  const Recipe recipe{.algorithm = info.name, .access = access, .tree = tree};
  auto request = make_request(machine, mixed_group(ranks, 7), recipe, root);
  EXPECT_TRUE(request) << request.error().message;
  return *request;
}

bool works_for(const AlgorithmInfo& info, int ranks) {
  return !info.power_of_two || std::has_single_bit(static_cast<unsigned>(ranks));
}

bool has_root(Operation operation) {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::scatter ||
         operation == Operation::gather || operation == Operation::allreduce;
}

/// Calls `act` with the requests for every access, tree and some roots.
void for_each_request(const AlgorithmInfo& info, int ranks, const std::function<void(const ScheduleRequest&)>& act) {
  if (!works_for(info, ranks)) return;
  const auto trees = info.uses_tree ? std::vector<std::string>{"k-nomial:2", "chain", "sequential", "binary"}
                                    : std::vector<std::string>{""};
  const std::set<int> roots = has_root(info.operation) ? std::set<int>{0, ranks / 2, ranks - 1} : std::set<int>{0};
  for (const Access access : info.access) {
    for (const auto& tree : trees) {
      for (const int root : roots) act(request_of(info, access, tree, ranks, root));
    }
  }
}

/// Some of all ways to call and to time it.
std::vector<RunOptions> variants(const AlgorithmInfo& info, int ranks, unsigned seed) {
  std::minstd_rand random(seed);
  random.discard(10);
  std::vector<RunOptions> list;
  const auto few = static_cast<std::size_t>(2 * ranks);
  for (unsigned i = 0; i < 6; ++i) {
    RunOptions options;
    const int lengths[] = {2 * ranks + 3, ranks, 1, 3 * ranks, 7, 0};
    options.elements = info.operation == Operation::barrier ? 0 : lengths[i];
    if (info.pipelined && i != 1) options.chunk_elements = random() % 2 == 0 ? 0 : 1 + random() % 4;
    options.slot_elements = random() % 2 == 0 ? 1024 : few;
    options.slots = 1 + static_cast<int>(random() % 3);
    options.in_place = random() % 2 == 0;
    options.rendezvous = random() % 2 == 0 || i == 0;  // always once: channels have room for one message only
    options.by_precedence = random() % 2 == 0;
    options.seed = static_cast<unsigned>(random());
    list.push_back(options);
  }
  return list;
}

std::string describe(const ScheduleRequest& request, const RunOptions& options) {
  return to_string(request.recipe) + ", " + std::to_string(request.ranks) + " ranks, root " +
         std::to_string(request.root) + ", " + std::to_string(options.elements) + " elements in chunks of " +
         std::to_string(options.chunk_elements) + (options.in_place ? ", in place" : "");
}

class Algorithms : public testing::TestWithParam<std::string> {
 protected:
  static const AlgorithmInfo& info() {
    const auto& list = algorithms();
    return *std::find_if(list.begin(), list.end(), [](const auto& each) { return each.name == GetParam(); });
  }
};

TEST_P(Algorithms, ComputeTheirOperation) {
  bool canonical = true, rank_order = true;
  unsigned seed = 1;
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16}) {
    for_each_request(info(), ranks, [&](const ScheduleRequest& request) {
      for (const auto& options : variants(info(), ranks, ++seed)) {
        ScheduleRun run(request, info().operation, options);
        ASSERT_EQ(run.run(), "") << describe(request, options);
        canonical = canonical && run.canonical();
        rank_order = rank_order && run.rank_order();
      }
    });
  }
  EXPECT_EQ(rank_order, info().keeps_rank_order);
  if (reduces_vectors(info().operation) || info().operation == Operation::reduce_scatter) {
    EXPECT_EQ(canonical, info().canonical_order);
  } else {
    EXPECT_FALSE(info().canonical_order) << "nothing is combined";
  }
}

// Neither scratch memory nor stages nor ticks are more than some rank needs.
TEST_P(Algorithms, TakeNoMoreThanTheyNeed) {
  const bool moves_data = info().operation != Operation::barrier;
  for (const int ranks : {4, 8}) {
    int work = 0, used_work = 0, stage = 0, used_stage = 0, ticks = 0;
    std::set<int> awaited;
    for_each_request(info(), ranks, [&](const ScheduleRequest& request) {
      RunOptions options{.elements = 4 * ranks};
      ScheduleRun run(request, info().operation, options);
      ASSERT_EQ(run.run(), "");
      used_work = std::max(used_work, run.most_work_blocks());
      used_stage = std::max(used_stage, run.most_stage_blocks());
      for (int rank = 0; rank < ranks; ++rank) {
        const Schedule schedule = make_schedule(request, rank);
        work = std::max(work, schedule.work_blocks);
        stage = std::max(stage, schedule.stage_blocks);
        ticks = std::max(ticks, schedule.ticks);
        EXPECT_EQ(schedule.stage_blocks > 0, moves_data && (info().stages || request.recipe.access == Access::staged))
            << to_string(request.recipe);
        for (const auto* part : {&schedule.begin, &schedule.body, &schedule.tail, &schedule.end}) {
          for (const Move& move : *part) {
            const bool waits = move.kind == Move::Kind::await || move.share == Share::leads;
            if (waits && move.tick != schedule.ticks) awaited.insert(move.tick);
          }
        }
      }
    });
    if (!moves_data) continue;
    EXPECT_LE(work - used_work, info().name == "alltoall_bruck" ? 2 : 0) << ranks;
    EXPECT_EQ(stage, used_stage) << ranks;
    if (ticks > 0) {
      EXPECT_EQ(ticks, 1 + *awaited.rbegin()) << ranks;
      EXPECT_EQ(awaited.size(), static_cast<std::size_t>(ticks - 1)) << "a tick that nobody awaits";
    }
  }
}

// A tree is used if another one makes another schedule.
TEST_P(Algorithms, UseATreeIfTheySaySo) {
  if (!works_for(info(), 4)) return;
  std::set<std::size_t> moves;
  for (const char* tree : {"chain", "sequential"}) {
    auto request = request_of(info(), info().access.front(), info().uses_tree ? tree : "", 4, 0);
    if (!info().uses_tree) {
      EXPECT_TRUE(request.tree.children.empty());
      return;
    }
    const Schedule schedule = make_schedule(request, 0);
    moves.insert(schedule.begin.size() + schedule.body.size() + schedule.end.size() + schedule.stage_readers.size());
  }
  EXPECT_EQ(moves.size(), 2u);
}

/// Whether the two ends of each message alone have to know its size. In scatter, gather and alltoall nobody knows those
/// of others: neither how many chunks there are, nor where in another rank's result a block belongs. Scratch memory for
/// several blocks has no place for blocks of different size.
bool fits_uneven_blocks(const AlgorithmInfo& info, const std::vector<Schedule>& schedules) {
  const bool all_known = info.operation == Operation::allgather || info.operation == Operation::reduce_scatter;
  for (const auto& schedule : schedules) {
    if (!all_known && schedule.ticks > 0) return false;
    if (schedule.work_blocks > 1) return false;
    for (const auto& move : schedule.body) {
      if (move.kind == Move::Kind::put || (!all_known && (move.from.count > 1 || move.to.count > 1))) return false;
    }
  }
  return true;
}

TEST_P(Algorithms, WorkForUnevenBlocksIfTheySaySo) {
  if (!has_rank_blocks(info().operation)) {
    EXPECT_FALSE(info().irregular || info().irregular_pairs);
    return;
  }
  bool even_only = false, scratch = false;
  for_each_request(info(), 8, [&](const ScheduleRequest& request) {
    std::vector<Schedule> schedules;
    for (int rank = 0; rank < 8; ++rank) schedules.push_back(make_schedule(request, rank));
    even_only = even_only || !fits_uneven_blocks(info(), schedules);
    for (const auto& each : schedules) scratch = scratch || each.work_blocks > 1;
  });
  EXPECT_EQ(info().irregular, !even_only);
  // Of two ranks both know all there is, but in an allgather that is nothing new.
  const bool all_known = info().operation == Operation::allgather || info().operation == Operation::reduce_scatter;
  EXPECT_EQ(info().irregular_pairs, even_only && !scratch && !all_known);
}

/// The first move that waits for another rank; null if there is none.
const Move* first_wait(const Schedule& schedule) {
  for (const auto* section : {&schedule.begin, &schedule.body}) {
    for (const Move& move : *section) {
      if (move.kind == Move::Kind::await || (move.source >= 0 && move.kind <= Move::Kind::exchange_combine))
        return &move;
    }
  }
  return nullptr;
}

// Ranks whose first wait is for the same tick wait for it at the same time. Those that combine in rank order begin with
// the same rank, too, which does not count (docs/reference/model.md).
TEST_P(Algorithms, SayHowManyWaitForALine) {
  const bool moves_data = info().operation == Operation::broadcast || info().operation == Operation::scatter ||
                          info().operation == Operation::gather;
  if (!moves_data) return;
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for_each_request(info(), ranks, [&](const ScheduleRequest& request) {
      std::map<std::pair<int, int>, std::vector<int>> said;  // by source and tick: readers, as each rank has it
      for (int rank = 0; rank < ranks; ++rank) {
        const Schedule schedule = make_schedule(request, rank);
        const Move* const move = first_wait(schedule);
        if (move != nullptr && move->kind == Move::Kind::await)
          said[{move->source, move->tick}].push_back(move->readers);
      }
      for (const auto& [tick, readers] : said) {
        EXPECT_EQ(readers, std::vector<int>(readers.size(), static_cast<int>(readers.size())))
            << to_string(request.recipe) << " of " << ranks << ", tick " << tick.second << " of rank " << tick.first;
      }
    });
  }
}

/// In units of a vector, or of a block, that all ranks receive together; how many messages or signals follow each
/// other; and whether the vector is cut into chunks. Of 8 ranks, trees of k-nomial:2.
struct Cost {
  double received;
  int depth;
  bool cut = true;
};
constexpr bool uncut = false;

const std::map<std::string, Cost>& costs_of_eight() {
  static const std::map<std::string, Cost> costs = {
      {"barrier_dissemination", {0, 3, uncut}},
      {"broadcast_tree", {7, 3}},
      {"broadcast_scatter_allgather", {7 + 1.5, 3 + 7, uncut}},
      {"broadcast_flat", {7, 1}},
      {"broadcast_pipeline", {7, 3}},
      {"broadcast_split", {7, 2, uncut}},
      {"reduce_tree", {7, 3}},
      {"reduce_flat", {7, 1}},
      {"reduce_halves", {7, 1, uncut}},
      {"reduce_slices", {7 + 7 / 8.0, 2}},
      {"reduce_scatter_gather", {7 + 1.5, 6, uncut}},
      {"allreduce_recursive_doubling", {24, 3}},
      {"allreduce_tree", {14, 6}},
      {"allreduce_reduce_scatter_allgather", {14, 6, uncut}},
      {"allreduce_ring", {14, 14, uncut}},
      {"allreduce_flat", {56, 1}},
      {"allreduce_slices", {14, 2}},
      {"allreduce_hybrid", {0, 0}},  // what it sends depends on the caches
      {"scatter_flat", {7, 1}},
      {"scatter_shared", {7, 1, uncut}},
      {"scatter_linear", {7, 1, uncut}},
      {"scatter_binomial", {12, 3, uncut}},
      {"gather_flat", {7, 1}},
      {"gather_put", {7, 1, uncut}},
      {"gather_shared", {7, 1, uncut}},
      {"gather_linear", {7, 1, uncut}},
      {"gather_binomial", {12, 3, uncut}},
      {"allgather_flat", {56, 1}},
      {"allgather_put", {56, 1}},
      {"allgather_ring", {56, 7, uncut}},
      {"allgather_neighbour_exchange", {56, 4, uncut}},
      {"allgather_recursive_doubling", {56, 3, uncut}},
      {"allgather_bruck", {56, 3, uncut}},
      {"alltoall_flat", {56, 1}},
      {"alltoall_put", {56, 1, uncut}},
      {"alltoall_pairwise", {56, 7, uncut}},
      {"alltoall_bruck", {8 * 12, 3, uncut}},
      {"reduce_scatter_flat", {56, 1}},
      {"reduce_scatter_pairwise", {56, 7, uncut}},
      {"reduce_scatter_recursive_halving", {56, 3, uncut}},
      {"scan_flat", {28, 1}},
      {"scan_chain", {7, 7}},
      {"scan_recursive_doubling", {7 + 6 + 4, 3}},
      {"scan_slices", {14, 1}},
      {"exscan_flat", {28, 1}},
      {"exscan_chain", {7, 7}},
      {"exscan_recursive_doubling", {7 + 6 + 4, 3}},
      {"exscan_slices", {2 * 49 / 8.0, 1}},
  };
  return costs;
}

Cost cost_of_eight(const std::string& name) {
  const auto found = costs_of_eight().find(name);
  if (found != costs_of_eight().end()) return found->second;
  ADD_FAILURE() << "costs_of_eight() lacks a line for " << name << ": what its rule says of messages";
  return {};
}

// No rank is sent what it has, and nothing is sent on a longer way than the rule has it.
TEST_P(Algorithms, SendAsMuchAsTheirFormulaSays) {
  if (info().name == "allreduce_hybrid") return;  // depends on the caches
  const auto cost = cost_of_eight(info().name);
  for (const Access access : info().access) {
    for (const int root : {0, 5}) {
      const auto request = request_of(info(), access, info().uses_tree ? "k-nomial:2" : "", 8, root);
      ScheduleRun run(request, info().operation, {.elements = info().operation == Operation::barrier ? 0 : 16});
      ASSERT_EQ(run.run(), "");
      EXPECT_EQ(static_cast<double>(run.received()), 16 * cost.received) << to_string(request.recipe);
      // Who shows its buffers stays until the others say that they are done.
      const bool stays = make_schedule(request, 0).publishes;
      EXPECT_GE(run.depth(), cost.depth) << to_string(request.recipe);
      EXPECT_TRUE(stays || run.depth() == cost.depth) << to_string(request.recipe) << ": " << run.depth();
    }
  }
}

TEST_P(Algorithms, CutOnlyWhatTheySay) { EXPECT_EQ(info().pipelined, cost_of_eight(info().name).cut); }

// Where every rank reaches into all others, they never reach into the same one: each begins with the next.
TEST_P(Algorithms, SpreadOverAllRanks) {
  static const std::set<std::string> rotating = {"allgather_flat", "allgather_put",     "alltoall_flat",
                                                 "alltoall_put",   "alltoall_pairwise", "reduce_scatter_pairwise"};
  if (!rotating.contains(info().name)) return;
  for (const Access access : info().access) {
    const auto request = request_of(info(), access, "", 6, 0);
    std::vector<std::vector<int>> partners(6);
    for (int rank = 0; rank < 6; ++rank) {
      for (const Move& move : make_schedule(request, rank).body) {
        const bool put = move.kind == Move::Kind::put;
        if (put || move.kind == Move::Kind::get || move.kind == Move::Kind::exchange ||
            move.kind == Move::Kind::exchange_combine) {
          partners[static_cast<std::size_t>(rank)].push_back(put ? move.peer : move.source);
        }
      }
    }
    for (std::size_t turn = 0; turn < 5; ++turn) {
      std::set<int> reached;
      for (const auto& each : partners) reached.insert(each.at(turn));
      EXPECT_EQ(reached.size(), 6u) << to_string(request.recipe) << ", turn " << turn;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& info : algorithms()) list.push_back(info.name);
  return list;
}
INSTANTIATE_TEST_SUITE_P(All, Algorithms, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

TEST(AlgorithmNames, BeginWithTheOperationAndAreUnique) {
  std::set<std::string> seen;
  for (const auto& info : algorithms()) {
    std::string operation = to_string(info.operation);
    std::replace(operation.begin(), operation.end(), '-', '_');
    EXPECT_TRUE(info.name.starts_with(operation + "_")) << info.name;
    EXPECT_TRUE(seen.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.access.empty());
  }
}

}  // namespace
}  // namespace smelt
