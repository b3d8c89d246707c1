// Schedules: none deadlocks, recipes have a text, and pipelining along planned trees loses to no textbook way.
#include "smelt/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <utility>

#include "machine/test_support.hpp"
#include "plan/plan_test_util.hpp"
#include "plan/schedule/schedule_internal.hpp"

namespace smelt {
namespace {

using test::all_access;
using test::group_of;

Machine two_packages() {
  SynthSpec spec;
  spec.packages = 2;
  spec.cores = 16;
  spec.l3 = 2;
  spec.jitter = 0.1;
  return *synthesize_machine(spec);
}

TEST(Schedules, EveryCandidateEndsOnEveryGroup) {
  const Machine machine = two_packages();
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 32, 40}) {
    const Group group = group_of(machine, ranks);
    for (const auto& info : algorithms()) {
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{8}, std::size_t{100'000}, std::size_t{3'000'000}}) {
        for (const auto& recipe : candidate_recipes(info.operation, ranks, bytes, all_access)) {
          if (recipe.algorithm != info.name) continue;
          auto request = make_request(machine, group, recipe, ranks / 2);
          ASSERT_TRUE(request) << request.error().message;
          auto times = simulate(machine, group, *request, bytes);
          ASSERT_TRUE(times) << to_string(recipe) << ", " << ranks << " ranks: " << times.error().message;
          EXPECT_EQ(times->finish_ns.size(), static_cast<std::size_t>(ranks));
        }
      }
    }
  }
}

// A few bytes more than whole chunks hold shorten all of them, and make no round of their own.
TEST(Schedules, ChunksAreAsFewAsPossibleAndAsLongAsEachOther) {
  Schedule schedule;
  for (const int stage_blocks : {0, 1, 3}) {
    schedule.stage_blocks = stage_blocks;
    for (const std::size_t element : {1, 8, 24}) {
      const std::size_t most = stage_blocks == 0 ? 4096 / element : std::size_t{32768} / 3 / 64 * 64 / element;
      const std::size_t slot = stage_blocks == 1 ? 32768 / 3 : 32768;
      for (const std::size_t length : {most, most + 1, 2 * most, 2 * most + 8, 7 * most - 1, 7 * most, 7 * most + 3}) {
        const plan::Chunking cutting(schedule, Operation::gather, stage_blocks == 0 ? 4096 : 0, slot, length, element);
        const std::size_t chunks = (length + most - 1) / most;
        ASSERT_EQ(cutting.chunks(), chunks) << length << " elements of " << element << " bytes";
        EXPECT_LE(cutting.chunk(), most);
        EXPECT_LT(cutting.chunk(), (length + chunks - 1) / chunks + 64) << length << " elements of " << element;
        std::size_t all = 0;
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
          EXPECT_EQ(cutting.begin(chunk), all);
          EXPECT_GT(cutting.elements(chunk), 0u);
          all += cutting.elements(chunk);
        }
        EXPECT_EQ(all, length);
      }
    }
  }
}

// What a chunk's last post says, its end says, too: only if no tick within is as large, and nobody awaits a larger one.
TEST(Schedules, TheEndOfAChunkPostsMoreThanWhatComesBeforeIt) {
  const Machine machine = two_packages();
  for (const int ranks : {1, 2, 3, 7, 16}) {
    const Group group = group_of(machine, ranks);
    for (const auto& info : algorithms()) {
      for (const auto& recipe : candidate_recipes(info.operation, ranks, 100'000, all_access)) {
        if (recipe.algorithm != info.name) continue;
        const auto request = make_request(machine, group, recipe, ranks / 2);
        ASSERT_TRUE(request) << request.error().message;
        for (int rank = 0; rank < ranks; ++rank) {
          const Schedule schedule = make_schedule(*request, rank);
          for (const auto* part : {&schedule.body, &schedule.tail}) {
            int posted = 0;
            for (const Move& move : *part) {
              if (move.kind == Move::Kind::await) {
                EXPECT_LE(move.tick, schedule.ticks) << to_string(recipe);
              }
              if (move.kind != Move::Kind::post) continue;
              EXPECT_GT(move.tick, posted) << to_string(recipe) << ", rank " << rank;
              EXPECT_LT(move.tick, schedule.ticks) << to_string(recipe) << ", rank " << rank;
              posted = move.tick;
            }
            const bool ends_with_post = !part->empty() && part->back().kind == Move::Kind::post;
            EXPECT_FALSE(ends_with_post) << to_string(recipe) << ", rank " << rank;
          }
        }
      }
    }
  }
}

TEST(Schedules, TheBestOneIsTheFirstOfTheRanking) {
  const Machine machine = two_packages();
  for (const int ranks : {2, 5, 16, 40}) {
    const Group group = group_of(machine, ranks);
    const auto planned = *plan::planned_trees(machine, group, 0.0);
    for (const auto operation :
         {Operation::broadcast, Operation::reduce, Operation::allreduce, Operation::alltoall, Operation::scan}) {
      auto trees = planned;  // with those that the sizes have in common
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{100'000}, std::size_t{3'000'000}}) {
        const auto recipes = candidate_recipes(operation, ranks, bytes, all_access);
        const auto ranked = *plan::rank_recipes(machine, group, trees, recipes, bytes, {}, 0, {});
        const auto best = *plan::best_recipe(machine, group, trees, recipes, bytes, {}, 0, {});
        ASSERT_TRUE(best);
        EXPECT_EQ(best->recipe, ranked.front().recipe) << to_string(operation) << " of " << bytes;
        EXPECT_EQ(best->predicted_ns, ranked.front().predicted_ns);
      }
    }
  }
  plan::PlannedTrees none;
  EXPECT_FALSE(*plan::best_recipe(machine, group_of(machine, 2), none, {}, 8, {}, 0, {})) << "nothing to choose from";
}

/// Where others go on while the root still reads the tail of a vector, cut in halves of at most 32 KiB.
double worth_of_a_tail(std::size_t bytes) {
  const std::size_t chunks = std::max<std::size_t>(2, bytes / 32768);
  return 1.0 - 0.1 * static_cast<double>(std::min<std::size_t>(4, chunks / 2)) / static_cast<double>(chunks);
}

// Chunks are chosen where they are predicted to be worth 5 %, and not for less.
TEST(Schedules, ChunksMustPay) {
  const Machine machine = two_packages();
  int declined = 0, taken = 0;
  for (const int ranks : {3, 5, 8, 16}) {
    const Group group = group_of(machine, ranks);
    for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::allreduce}) {
      for (std::size_t bytes = 4096; bytes <= (1u << 24); bytes *= 2) {
        const auto ranked = *rank_recipes(machine, group, operation, bytes, all_access);
        const auto best_ns = [&](bool cut) {
          double best = std::numeric_limits<double>::infinity();
          for (const auto& [recipe, ns] : ranked) {
            const double early =
                recipe.algorithm == "reduce_halves" ? worth_of_a_tail(bytes) : 1.0;  // see the next test
            if ((recipe.chunk_bytes != 0) == cut) best = std::min(best, early * ns);
          }
          return best;
        };
        const bool cut = ranked.front().recipe.chunk_bytes != 0;
        EXPECT_EQ(cut, best_ns(true) * 1.05 < best_ns(false)) << to_string(operation) << " of " << bytes;
        declined += !cut && best_ns(true) < best_ns(false);
        taken += cut;
      }
    }
  }
  EXPECT_GT(declined, 0);
  EXPECT_GT(taken, 0);
}

// Messages in lines that are longer than half of a channel are chosen where they are predicted to take less than two
// thirds of the time of all else, and not for less. Up to that length, and along trees, they need not.
TEST(Schedules, MessagesInPartsMustPay) {
  const Machine machine = two_packages();
  int declined = 0, whole = 0, along_trees = 0;
  for (const int ranks : {2, 3, 4, 6, 8, 16}) {
    const Group group = group_of(machine, ranks);
    for (const auto operation : {Operation::broadcast, Operation::gather, Operation::scatter, Operation::allgather,
                                 Operation::alltoall, Operation::allreduce}) {
      for (const std::size_t bytes : {1024, 1792, 1793, 1900, 2048, 2500, 3072, 4096, 8192, 16384}) {
        const auto ranked = *rank_recipes(machine, group, operation, bytes, all_access);
        const auto best_ns = [&](bool parts) {
          double best = std::numeric_limits<double>::infinity();
          for (const auto& [recipe, ns] : ranked) {
            const double weight = recipe.chunk_bytes != 0 && recipe.access != Access::channels ? 1.05 : 1.0;
            const bool in_lines = recipe.access == Access::channels && !recipe.algorithm.ends_with("_tree");
            if ((in_lines && bytes > 1792) == parts) best = std::min(best, weight * ns);
          }
          return best;
        };
        const Recipe& chosen = ranked.front().recipe;
        const bool along_tree = chosen.algorithm.ends_with("_tree");
        const bool in_lines = chosen.access == Access::channels && !along_tree;
        EXPECT_EQ(in_lines && bytes > 1792, best_ns(true) * 1.5 < best_ns(false))
            << to_string(operation) << " of " << bytes << " by " << ranks;
        declined += !in_lines && best_ns(true) < best_ns(false);
        whole += in_lines && bytes <= 1792;
        along_trees += along_tree && chosen.access == Access::channels && bytes > 1792;
      }
    }
  }
  EXPECT_GT(declined, 0);
  EXPECT_GT(whole, 0);
  EXPECT_GT(along_trees, 0);
}

// Going on early is worth a tenth of the tail's share of the call, and not more.
TEST(Schedules, RanksThatFinishEarlyCountALittle) {
  const Machine machine = two_packages();
  int narrow = 0, declined = 0;
  for (const int ranks : {2, 3, 5, 8}) {
    const Group group = group_of(machine, ranks);
    for (std::size_t bytes = 1024; bytes <= (1u << 24); bytes *= 2) {
      const auto ranked = *rank_recipes(machine, group, Operation::reduce, bytes, all_access);
      const auto predicted_ns = [&](std::string_view name) {
        return std::find_if(ranked.begin(), ranked.end(),
                            [&](const RankedRecipe& each) { return to_string(each.recipe) == name; })
            ->predicted_ns;
      };
      const double early = predicted_ns("reduce_halves+direct"), best = predicted_ns("reduce_flat+direct");
      const bool first =
          std::find_if(ranked.begin(), ranked.end(), [](const RankedRecipe& each) {
            return each.recipe.algorithm == "reduce_halves" || to_string(each.recipe) == "reduce_flat+direct";
          })->recipe.algorithm == "reduce_halves";
      EXPECT_EQ(first, early * worth_of_a_tail(bytes) < best) << ranks << " ranks, " << bytes;
      narrow += first && early > best;
      declined += !first;
    }
  }
  EXPECT_GT(narrow, 0);
  EXPECT_GT(declined, 0);
}

// Half of the vector is read where it is: for that long the others wait. The rest is in their stages.
TEST(Schedules, TheTailOfAReductionKeepsNobodyButTheRoot) {
  const Machine machine = two_packages();
  const Group group = group_of(machine, 2);
  const auto request = *make_request(machine, group, *parse_recipe("reduce_halves+direct"));
  for (const std::size_t bytes : {8192, 65536, 262144}) {
    const auto times = *simulate(machine, group, request, bytes);
    EXPECT_LT(times.finish_ns[1], 0.75 * times.finish_ns[0]) << bytes;
    EXPECT_GT(times.finish_ns[1], 0.4 * times.finish_ns[0]) << bytes;
  }
}

TEST(Schedules, TheTailIsAtMostHalfOfTheChunks) {
  const Machine machine = two_packages();
  const auto request = *make_request(machine, group_of(machine, 2), *parse_recipe("reduce_halves+direct"));
  const auto cut = [&](std::size_t length, std::size_t element) {
    const plan::Chunking cutting(make_schedule(request, 1), Operation::reduce, 0, 32768, length, element);
    return std::vector<std::size_t>{cutting.body_chunks(), cutting.tail_chunks(), cutting.chunk()};
  };
  using Cut = std::vector<std::size_t>;
  EXPECT_EQ(cut(0, 8), (Cut{1, 0, 0}));
  EXPECT_EQ(cut(1, 8), (Cut{1, 0, 1}));
  EXPECT_EQ(cut(8, 8), (Cut{1, 0, 8}));
  EXPECT_EQ(cut(9, 8), (Cut{1, 1, 8}));
  EXPECT_EQ(cut(4096, 8), (Cut{1, 1, 2048}));
  EXPECT_EQ(cut(8192, 8), (Cut{1, 1, 4096}));
  EXPECT_EQ(cut(8193, 8), (Cut{2, 1, 2736}));
  EXPECT_EQ(cut(8 * 4096, 8), (Cut{4, 4, 4096}));
  EXPECT_EQ(cut(9 * 4096, 8), (Cut{5, 4, 4096}));
}

// In an allgather by puts no rank waits for another between chunks: they need not be worth anything.
TEST(Schedules, UnawaitedChunksMatchThePrediction) {
  const Machine machine = two_packages();
  int narrow = 0;
  for (const int ranks : {2, 3, 8}) {
    for (std::size_t bytes = 1 << 19; bytes <= (1u << 24); bytes += bytes / 4) {
      const auto ranked = *rank_recipes(machine, group_of(machine, ranks), Operation::allgather, bytes, all_access);
      const auto ns_of = [&](const char* text) {
        const auto is_it = [&](const RankedRecipe& each) { return to_string(each.recipe) == text; };
        return std::find_if(ranked.begin(), ranked.end(), is_it);
      };
      const auto cut = ns_of("allgather_put+direct+chunk=262144"), whole = ns_of("allgather_flat+direct");
      ASSERT_TRUE(cut != ranked.end() && whole != ranked.end());
      EXPECT_EQ(cut < whole, cut->predicted_ns < whole->predicted_ns) << bytes << ", " << ranks << " ranks";
      narrow += cut->predicted_ns < whole->predicted_ns && whole->predicted_ns < 1.05 * cut->predicted_ns;
    }
  }
  EXPECT_GT(narrow, 0);
}

// What a rank has just read is in its cache: a chunk of a long block, but not the whole.
TEST(Schedules, AChunkIsReadOnceForAll) {
  const Machine machine = two_packages();
  const Group group = group_of(machine, 2);
  const auto total_ns = [&](const std::string& recipe, std::size_t bytes) {
    return simulate(machine, group, *make_request(machine, group, *parse_recipe(recipe)), bytes)->total_ns;
  };
  const std::size_t pu = static_cast<std::size_t>(group.pus[0]);
  constexpr std::size_t whole = 1 << 24, part = 1 << 18;
  const double long_ns = copy_ns(machine, pu, pu, 2 * whole, 2) / 2;
  const double short_ns = copy_ns(machine, pu, pu, part, 2) * whole / part;
  ASSERT_GT(long_ns, 1.2 * short_ns);
  const auto gained_ns = [&](const std::string& recipe) {
    return total_ns(recipe, whole) - total_ns(recipe + "+chunk=262144", whole);
  };
  // Of other ranks' blocks nothing has been read before.
  const double anyway_ns = gained_ns("alltoall_flat+direct"), expected_ns = (long_ns - short_ns) / 2;
  EXPECT_LT(anyway_ns, 0.05 * expected_ns);
  EXPECT_NEAR(gained_ns("allgather_put+direct") - anyway_ns, expected_ns, 0.01 * expected_ns);
}

// The kernel writes long blocks into another process for less than it reads them there. Of short ones nothing is
// spared.
TEST(Schedules, LongBlocksArePutIntoOtherProcesses) {
  Machine machine = test::with_copies(two_packages());
  auto& copy = *machine.copy;
  for (auto* costs : {&copy.startup_ns, &copy.chunk_ns_per_kib, &copy.cached_ns_per_kib, &copy.shared_ns_per_kib,
                      &copy.memory_ns_per_kib}) {
    for (std::size_t i = 0; i < machine.size(); ++i) {
      for (std::size_t j = 0; j < machine.size(); ++j) (*costs)(i, j) = (*costs)(0, 0);  // wherever the lines lie
    }
  }
  const auto spared_by = [&](const Group& group, std::size_t bytes, bool processes) {
    const auto total_ns = [&](const char* recipe) {
      const auto request = make_request(machine, group, *parse_recipe(recipe));
      return simulate(machine, group, *request, bytes, 1, {.processes = processes})->total_ns;
    };
    return total_ns("alltoall_flat+direct") - total_ns("alltoall_put+direct");
  };
  const auto spared_ns = [&](std::size_t bytes, bool processes) {
    return spared_by(group_of(machine, 2), bytes, processes);
  };
  constexpr std::size_t block = 8 << 20;
  const double kernel_ns = copy.process->call_ns + copy.process->ns_per_kib * block / 1024;
  EXPECT_NEAR(spared_ns(block, true), kernel_ns / 4, 0.01 * kernel_ns);
  EXPECT_NEAR(spared_ns(1 << 20, true), 0.0, 0.001 * kernel_ns);
  EXPECT_NEAR(spared_ns(block, false), 0.0, 0.001 * kernel_ns);
  // Ranks that take turns gain from shorter ones.
  const Group crowded{{0, 1, 0, 1}};
  EXPECT_GT(spared_by(crowded, 65536, true), 0.01 * kernel_ns * 65536 / block);
  EXPECT_NEAR(spared_by(crowded, 32768, true), 0.0, 0.001 * kernel_ns * 32768 / block);
}

// Who helps has copied its own block before: both ends are done at the mean of what either would do alone.
TEST(Schedules, SharedTransfersTakeTheMeanOfBothTimes) {
  const Machine machine = test::with_copies(two_packages());
  const Group group = group_of(machine, 2);
  const auto total_ns = [&](const char* recipe, std::size_t bytes, const Group& ranks, bool processes) {
    const auto request = make_request(machine, ranks, *parse_recipe(recipe));
    return simulate(machine, ranks, *request, bytes, 1, {.processes = processes})->total_ns;
  };
  constexpr std::size_t block = 1 << 20;
  const std::pair<const char*, const char*> recipes[] = {{"scatter_shared+direct", "scatter_flat+direct"},
                                                         {"gather_shared+direct", "gather_put+direct"}};
  for (const auto& both : recipes) {
    const char* const shared = both.first;
    const char* const alone = both.second;
    const auto gained_ns = [&](std::size_t bytes, bool processes) {
      return total_ns(alone, bytes, group, processes) - total_ns(shared, bytes, group, processes);
    };
    const double copy_ns_alone = total_ns(alone, block, group, true);
    EXPECT_GT(gained_ns(block, true), 0.1 * copy_ns_alone) << shared;
    EXPECT_LT(gained_ns(block, true), 0.5 * copy_ns_alone) << shared;
    // Short ones are one part, threads need no kernel, and of many ranks one root cannot help all.
    EXPECT_LT(gained_ns(32768, true), 0.0) << shared;
    EXPECT_LT(gained_ns(block, false), 0.0) << shared;
    const Group many = group_of(machine, 5);
    EXPECT_LE(total_ns(alone, block, many, true), total_ns(shared, block, many, true)) << shared;
  }
}

// Ranks that share a PU take turns: each turn costs a switch, and only one of them works at a time.
TEST(Schedules, RanksThatShareAPuTakeTurns) {
  const Machine machine = two_packages();
  const Group apart = group_of(machine, 8);
  Group crowded = apart;
  for (int& pu : crowded.pus) pu /= 2;
  const auto time = [&](const Group& group, const Recipe& recipe, std::size_t bytes) {
    return simulate(machine, group, *make_request(machine, group, recipe), bytes)->total_ns;
  };
  constexpr double switch_ns = 1000.0;
  const Recipe tree{.algorithm = "allreduce_tree", .tree = "k-nomial:2"};
  EXPECT_LT(time(apart, tree, 8), switch_ns);
  EXPECT_GT(time(crowded, tree, 8), 2 * switch_ns);
  const Recipe flat{.algorithm = "alltoall_flat", .access = Access::direct};
  EXPECT_GT(time(crowded, flat, 1 << 20), 1.8 * time(apart, flat, 1 << 20));
  // The first line beyond a ringful waits for the receiver's turn.
  const Recipe pairwise{.algorithm = "reduce_scatter_pairwise"};
  constexpr std::size_t ringful = 64 * 56;
  EXPECT_LT(time(apart, pairwise, ringful + 56) - time(apart, pairwise, ringful), switch_ns);
  EXPECT_GT(time(crowded, pairwise, ringful + 56) - time(crowded, pairwise, ringful), 7 * switch_ns);
  // Cut into chunks it takes as many ringfuls: on each PU two ranks wait for so many, besides the turns of the chunks.
  const Recipe chain{.algorithm = "scan_chain", .chunk_bytes = 1024};
  const auto more_ns = [&](const Group& group) {
    return time(group, chain, 21 * ringful) - time(group, chain, ringful);
  };
  EXPECT_GT(more_ns(crowded), 4.0 * more_ns(apart) + 2 * 20 * switch_ns);
}

// Rank 0 waits for the late rank, which shares a PU with three others; so does rank 0. They all have better to do.
TEST(Schedules, WaitingRanksLetOthersOnTheirPuRun) {
  const Machine machine = two_packages();
  const Group group{{0, 1, 0, 1, 0, 1, 0, 1}};
  const Recipe flat{.algorithm = "reduce_flat", .access = Access::staged};
  std::vector<double> start_ns(8, 0.0);
  start_ns[1] = 1e6;
  const auto times = simulate(machine, group, *make_request(machine, group, flat), 64, 8, {}, start_ns);
  ASSERT_TRUE(times);
  for (const std::size_t leaf : {2, 3, 4, 5, 6, 7}) EXPECT_LT(times->finish_ns[leaf], 1e5) << leaf;
  EXPECT_GE(times->finish_ns[0], 1e6);
  // Copies from everybody can be made in any order, exchanges of pairs cannot.
  const auto alltoall_ns = [&](const char* name) {
    const Recipe recipe{.algorithm = name, .access = Access::direct};
    return simulate(machine, group, *make_request(machine, group, recipe), 65536)->total_ns;
  };
  EXPECT_LT(alltoall_ns("alltoall_flat"), alltoall_ns("alltoall_pairwise"));
}

TEST(Schedules, KnowingWhoIsLateIsNoLoss) {
  const Machine machine = two_packages();
  const Group group = group_of(machine, 32);
  for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::allreduce}) {
    for (const std::size_t bytes : {std::size_t{8}, std::size_t{32768}}) {
      const auto usual = rank_recipes(machine, group, operation, bytes, all_access)->front().recipe;
      double known_ns = 0.0, unknown_ns = 0.0;
      for (int late = 1; late < group.size(); ++late) {
        std::vector<double> start_ns(32, 0.0);
        start_ns[static_cast<std::size_t>(late)] = 20'000.0;
        const auto known = rank_recipes(machine, group, operation, bytes, all_access, {}, 0, start_ns);
        const auto unknown = simulate(machine, group, *make_request(machine, group, usual), bytes, 1, {}, start_ns);
        EXPECT_GE(known->front().predicted_ns, 20'000.0);
        known_ns += known->front().predicted_ns;
        unknown_ns += unknown->total_ns;
      }
      EXPECT_LE(known_ns, unknown_ns) << to_string(operation) << " of " << bytes;
    }
  }
}

TEST(Schedules, LongerMessagesTakeLonger) {
  const Machine machine = two_packages();
  const Group group = group_of(machine, 8);
  for (const auto& info : algorithms()) {
    if (info.operation == Operation::barrier) continue;
    const Recipe recipe{.algorithm = info.name, .access = info.access.front()};
    const auto request = *make_request(machine, group, recipe);
    double before = 0.0;
    for (std::size_t bytes = 1024; bytes <= (1u << 24); bytes *= 8) {
      const double now = simulate(machine, group, request, bytes)->total_ns;
      EXPECT_GT(now, before) << info.name << " of " << bytes;
      before = now;
    }
  }
}

// What a peer has put into a result lies in the peer's cache: that counts unless both ranks are on one PU.
TEST(Schedules, ReadingWhatAPeerHasPutIsPartOfTheTime) {
  const Machine machine = two_packages();
  const Recipe put{.algorithm = "gather_put", .access = Access::direct};
  const Recipe copied{.algorithm = "gather_flat", .access = Access::direct};
  const auto root_and_other_ns = [&](const Group& group, const Recipe& recipe) {
    const auto times = simulate(machine, group, *make_request(machine, group, recipe), 1 << 16);
    return std::pair(times->finish_ns[0], times->finish_ns[1]);
  };
  Group near = group_of(machine, 2), far = near;
  far.pus[1] = static_cast<int>(machine.size()) - 1;
  for (const Group& group : {near, far}) {
    const auto [root_ns, other_ns] = root_and_other_ns(group, put);
    const int there = group.pus[1], here = group.pus[0];
    const double fetch_ns =
        1.6 * (copy_ns(machine, static_cast<std::size_t>(there), static_cast<std::size_t>(here), 1 << 16, 1) -
               copy_ns(machine, static_cast<std::size_t>(here), static_cast<std::size_t>(here), 1 << 16, 1));
    EXPECT_GT(fetch_ns, 0.0);
    EXPECT_GT(root_ns, other_ns + fetch_ns * 0.99);
    EXPECT_LT(root_and_other_ns(group, copied).first, root_ns);
  }
}

// A result that does not fit the owner's caches is dear to read whoever has put it there.
TEST(Schedules, LongResultsAreReadOutOfNobodysCache) {
  Machine machine = test::with_copies(test::uniform_machine(3, 0.001, 0.001));
  auto& copy = *machine.copy;
  copy.startup_ns = copy.chunk_ns_per_kib = copy.cached_ns_per_kib = Matrix(3, 10.0);
  copy.shared_ns_per_kib = copy.memory_ns_per_kib = Matrix(3, 50.0);
  for (std::size_t pu = 1; pu < 3; ++pu) copy.cached_ns_per_kib(pu, 0) = copy.chunk_ns_per_kib(pu, 0) = 20.0;
  for (auto* slower : {&copy.cached_contention, &copy.shared_contention, &copy.memory_contention}) {
    slower->assign(slower->size(), 1.0);
  }
  const auto read_ns = [&](std::size_t bytes) {
    const auto request = make_request(machine, group_of(machine, 3), *parse_recipe("gather_put+direct"));
    const auto times = simulate(machine, group_of(machine, 3), *request, bytes);
    return times->finish_ns[0] - times->finish_ns[1];
  };
  constexpr double block_kib = 16.0;  // 10 ns more each KiB, of two blocks
  EXPECT_NEAR(read_ns(16384), 2 * 1.6 * 10.0 * block_kib, 5.0);
  // 3 x 1398101 bytes are shared_bytes, of which each KiB takes 50 ns wherever it lies.
  EXPECT_NEAR(read_ns(1398101), 0.0, 5.0);
}

/// So that it decides nothing.
TEST(Schedules, ACallCostsTheSameByAnyAlgorithm) {
  const Machine machine = two_packages();
  Machine with_calls = machine;
  with_calls.call_ns = 9.0;
  for (const int ranks : {2, 5, 16}) {
    const Group group = group_of(machine, ranks);
    for (const auto operation : {Operation::broadcast, Operation::allreduce, Operation::alltoall}) {
      for (const std::size_t bytes : {std::size_t{8}, std::size_t{3'000'000}}) {
        for (const auto& recipe : candidate_recipes(operation, ranks, bytes, all_access)) {
          const auto request = *make_request(machine, group, recipe);
          const double without = simulate(machine, group, request, bytes)->total_ns;
          EXPECT_NEAR(simulate(with_calls, group, request, bytes)->total_ns, without + 9.0, 1e-6 * without)
              << to_string(recipe) << " of " << bytes << " by " << ranks;
        }
      }
    }
  }
}

// What a rank writes is in the caches of those who read it in the call before.
TEST(Schedules, LinesThatOthersHaveReadAreDearerToWrite) {
  Machine machine = test::with_copies(two_packages());
  const Group group = group_of(machine, 2);
  const auto total_ns = [&](const Machine& on, const Group& ranks, const char* recipe, std::size_t bytes, Reach reach) {
    const auto request = make_request(on, ranks, *parse_recipe(recipe));
    return simulate(on, ranks, *request, bytes, 8, reach)->total_ns;
  };
  Machine aware = machine, doubled = machine;
  aware.rewrite_share = 0.5;
  doubled.rewrite_share = 1.0;
  const auto more_ns = [&](const char* recipe, std::size_t bytes, const Group& ranks, Reach reach = {}) {
    return total_ns(aware, ranks, recipe, bytes, reach) - total_ns(machine, ranks, recipe, bytes, reach);
  };
  constexpr std::size_t bytes = 65536;
  const auto [a, b] = std::pair(static_cast<std::size_t>(group.pus[0]), static_cast<std::size_t>(group.pus[1]));
  const double rate =
      0.5 * std::max(machine.copy->chunk_ns_per_kib(a, b), machine.copy->chunk_ns_per_kib(b, a)) / 1024.0;
  // Each rank writes half of the sum, and the other one reads that half.
  EXPECT_NEAR(more_ns("allreduce_slices+direct", bytes, group), rate * bytes / 2, 1e-6);
  EXPECT_EQ(more_ns("allreduce_slices+direct", bytes, group, {.at_rest = true}), 0.0);
  EXPECT_EQ(more_ns("allreduce_slices+direct", bytes, Group{{0, 0}}), 0.0) << "one cache";
  // A combination writes that half.
  aware.combine_rewrite_share = 2.0;
  EXPECT_NEAR(more_ns("allreduce_slices+direct", bytes, group), 4 * rate * bytes / 2, 1e-6);
  aware.combine_rewrite_share.reset();
  // Nobody reads these results, and a root has written what it sends before the call.
  EXPECT_EQ(more_ns("alltoall_flat+direct", bytes, group), 0.0);
  EXPECT_EQ(more_ns("broadcast_split+direct", bytes, group), 0.0);
  // Of a stage, all of it.
  EXPECT_NEAR(total_ns(doubled, group, "allreduce_flat+staged", 4096, {}) -
                  total_ns(aware, group, "allreduce_flat+staged", 4096, {}),
              rate * 4096, 0.001 * rate * 4096);
}

// The whole vector decides in which cache a chunk of it lies: of a long one, only the last share counts.
TEST(Schedules, ChunksOfALongVectorAreCombinedAtItsPace) {
  Machine machine = test::with_copies(two_packages());
  const Group group = group_of(machine, 2);
  const auto bytes = static_cast<std::size_t>(4 * machine.copy->cached_bytes);
  const auto total_ns = [&](const std::vector<double>& shares) {
    machine.combine_share = shares;
    const auto request = make_request(machine, group, *parse_recipe("allreduce_slices+direct+chunk=4096"));
    return simulate(machine, group, *request, bytes, 8, {})->total_ns;
  };
  EXPECT_DOUBLE_EQ(total_ns({1.0, 1.0, 4.0}), total_ns({4.0, 4.0, 4.0}));
  EXPECT_LT(total_ns({1.0, 1.0, 1.0}), total_ns({4.0, 4.0, 4.0}));
}

TEST(Schedules, ALateRankDelaysTheResult) {
  const Machine machine = two_packages();
  const Group group = group_of(machine, 4);
  const auto request = *make_request(machine, group, {.algorithm = "allreduce_recursive_doubling"});
  const double late[] = {0, 0, 5000, 0};
  const double together = simulate(machine, group, request, 8)->total_ns;
  const double apart = simulate(machine, group, request, 8, 1, {}, late)->total_ns;
  EXPECT_GE(apart, 5000.0);
  EXPECT_LE(apart, 5000.0 + together);
  const double wrong[] = {0, 0};
  EXPECT_EQ(simulate(machine, group, request, 8, 1, {}, wrong).error().status, Status::invalid_argument);
}

TEST(Recipes, HaveAText) {
  for (const auto& info : algorithms()) {
    for (const auto& recipe : candidate_recipes(info.operation, 16, 1 << 20, all_access)) {
      auto read = parse_recipe(to_string(recipe));
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(*read, recipe);
    }
  }
}

/// The lists of trees and chunks that are worth a try, by hand.
std::vector<std::string> tried_trees(const AlgorithmInfo& info, int ranks) {
  if (!info.uses_tree || ranks <= 2) return {""};
  std::vector<std::string> trees = {"", "+tree=stream", "+tree=k-nomial:2", "+tree=chain"};
  if (ranks >= 4) trees.push_back("+tree=sequential");
  if (ranks >= 5) trees.push_back("+tree=k-nomial:4");
  if (ranks >= 9) trees.push_back("+tree=k-nomial:8");
  return trees;
}

std::vector<std::string> tried_chunks(const AlgorithmInfo& info, Access access, std::size_t bytes, int ranks) {
  std::vector<std::string> chunks = {""};
  const auto add = [&](std::size_t chunk) { chunks.push_back("+chunk=" + std::to_string(chunk)); };
  if (!info.pipelined) return chunks;
  if (access == Access::staged) {
    if (bytes > 8192) add(8192);
  } else if (ranks > 2 && (info.uses_tree || info.name == "scan_chain" || info.name == "exscan_chain")) {
    const std::size_t all[] = {1024, 4096, 16384, 65536, 262144, 1048576};
    for (const auto chunk : all) {
      if (chunk < bytes && (access == Access::channels || chunk >= 16384)) add(chunk);
    }
  } else if (access == Access::direct && reduces_vectors(info.operation)) {
    if (bytes > 65536) add(32768);
  } else if (info.name == "allgather_put" && bytes > 262144) {
    add(262144);
  }
  return chunks;
}

TEST(Recipes, AreOfEveryTreeAndChunkThatMayPay) {
  for (const auto& info : algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 8, 9, 16}) {
      for (const std::size_t bytes :
           {8, 1024, 1025, 8192, 8193, 16384, 16385, 65536, 65537, 262144, 262145, 1 << 20, (1 << 20) + 1, 8 << 20}) {
        std::vector<std::string> found, expected;
        for (const auto& recipe : candidate_recipes(info.operation, ranks, bytes, all_access)) {
          if (recipe.algorithm == info.name) found.push_back(to_string(recipe));
        }
        if (!info.power_of_two || std::has_single_bit(static_cast<unsigned>(ranks))) {
          for (const Access access : info.access) {
            for (const auto& tree : tried_trees(info, ranks)) {
              for (const auto& chunk : tried_chunks(info, access, bytes, ranks)) {
                expected.push_back(info.name + "+" + to_string(access) + tree + chunk);
              }
            }
          }
        }
        EXPECT_EQ(found, expected) << ranks << " ranks, " << bytes << " bytes";
      }
    }
  }
}

TEST(Recipes, AreThoseOfTheAccessAndOrderThatIsAskedFor) {
  for (const Operation operation : {Operation::broadcast, Operation::allreduce, Operation::reduce, Operation::scan,
                                    Operation::allgather, Operation::alltoall}) {
    const auto all = candidate_recipes(operation, 8, 1 << 20, all_access);
    const auto filtered = [&](auto fits) {
      std::vector<Recipe> some;
      std::copy_if(all.begin(), all.end(), std::back_inserter(some), fits);
      return some;
    };
    for (const Access access : all_access) {
      EXPECT_EQ(candidate_recipes(operation, 8, 1 << 20, {&access, 1}),
                filtered([&](const Recipe& recipe) { return recipe.access == access; }));
    }
    EXPECT_EQ(candidate_recipes(operation, 8, 1 << 20, all_access, true), filtered([](const Recipe& recipe) {
                const auto& list = algorithms();
                return std::find_if(list.begin(), list.end(),
                                    [&](const auto& info) { return info.name == recipe.algorithm; })
                    ->keeps_rank_order;
              }));
  }
}

TEST(Recipes, SayWhatIsWrong) {
  for (const char* text :
       {"", "allreduce", "allreduce_ring+direct", "allreduce_ring+tree=chain", "broadcast_tree+tree=oak",
        "broadcast_tree+chunk=", "broadcast_tree+chunk=1k", "allreduce_ring+chunk=4096", "broadcast_tree+sideways",
        "broadcast_tree+", "broadcast_tree+tree=k-nomial:1", "broadcast_tree+tree=chain:2", "broadcast_tree+chunk=-1",
        "broadcast_tree+tree=k-nomial:3x", "broadcast_tree+tree=k-nomial:", "+channels"}) {
    auto read = parse_recipe(text);
    EXPECT_FALSE(read) << text;
    if (!read) {
      EXPECT_FALSE(read.error().message.empty());
    }
  }
  const Machine machine = two_packages();
  const Recipe needs_power{.algorithm = "allreduce_reduce_scatter_allgather"};
  EXPECT_FALSE(make_request(machine, group_of(machine, 6), needs_power));
  EXPECT_FALSE(make_request(machine, group_of(machine, 4), {.algorithm = "broadcast_tree"}, 4));
  EXPECT_FALSE(make_request(machine, group_of(machine, 4), {.algorithm = "broadcast_tree"}, -1));
  EXPECT_TRUE(make_request(machine, group_of(machine, 4), {.algorithm = "broadcast_tree"}, 3));
  EXPECT_TRUE(make_request(machine, group_of(machine, 4), needs_power));
  EXPECT_FALSE(make_request(machine, group_of(machine, 4), {.algorithm = "broadcast_magic"}));
  EXPECT_FALSE(make_request(machine, group_of(machine, 4), {.algorithm = "allreduce_ring", .access = Access::direct}));
  EXPECT_EQ(parse_recipe("broadcast_tree+tree=k-nomial:2")->tree, "k-nomial:2");
}

/// Best predicted time among recipes that `fits`.
template <class Fits>
double best_time(const std::vector<RankedRecipe>& ranked, Fits fits) {
  for (const auto& each : ranked) {
    if (fits(each.recipe)) return each.predicted_ns;
  }
  return 1e300;
}

void expect_pipelining_to_win(const Machine& machine) {
  const Group group = whole_machine(machine);
  for (std::size_t bytes = 4096; bytes <= (std::size_t{64} << 20); bytes *= 16) {
    const auto ranked = *rank_recipes(machine, group, Operation::broadcast, bytes, all_access);
    const auto along = [](const Recipe& recipe, const std::string& tree) {
      return (recipe.algorithm == "broadcast_tree" || recipe.algorithm == "broadcast_pipeline") && recipe.tree == tree;
    };
    const double planned =
        best_time(ranked, [&](const auto& recipe) { return along(recipe, "") || along(recipe, "stream"); });
    const double others = best_time(ranked, [&](const auto& recipe) {
      return along(recipe, "k-nomial:2") || along(recipe, "chain") || recipe.algorithm == "broadcast_scatter_allgather";
    });
    EXPECT_LE(planned, others * 1.0001) << machine.name << ", " << bytes << " bytes";
  }
}

TEST(Pipelining, AlongPlannedTreesBeatsTextbookAlgorithms) { expect_pipelining_to_win(two_packages()); }

TEST(Pipelining, AlsoOnMeasuredMachines) {
  const char* shared = std::getenv("SMELT_SHARED");
  const std::filesystem::path folder =
      shared != nullptr ? shared : std::filesystem::path(SMELT_SOURCE_DIR) / ".." / "shared";
  if (!std::filesystem::is_directory(folder / "machines")) {
    GTEST_SKIP() << "no measured machines: set SMELT_SHARED to a directory with machines/*.csv";
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder / "machines")) {
    if (entry.path().extension() != ".csv") continue;
    auto machine = import_core_to_core(entry.path());
    ASSERT_TRUE(machine) << machine.error().message;
    expect_pipelining_to_win(*machine);
  }
}

}  // namespace
}  // namespace smelt
