// A short campaign on this machine, and what communicators make of its profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "comm/collective/communicator_state.hpp"
#include "comm/collective/profile_lookup.hpp"
#include "comm/group/default_model.hpp"
#include "smelt/settings.hpp"
#include "smelt/tune.hpp"
#include "tune/tuner_team.hpp"

namespace smelt {
namespace {

/// A machine with assumed costs, and two ranks on it.
struct Pair {
  Machine machine;
  Group group;
};
Pair two_ranks() {
  Pair pair{*comm::default_model(), {}};
  if (pair.machine.fingerprint.empty()) pair.machine.fingerprint = "test";
  pair.group = *default_group(pair.machine, *discover_allowance(), 2);
  return pair;
}

std::string scratch(const std::string& name) {
  return (std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + name)).string();
}

CommunicatorOptions with_profile(const std::string& file) {
  CommunicatorOptions options;
  options.profile = file;
  return options;
}

/// What a communicator would run.
std::string chosen(const Pair& pair, const CommunicatorOptions& options, const Collective& call) {
  auto state = comm::CommunicatorState::create(pair.machine, pair.group, options);
  if (!state) return state.error().message;
  return to_string((*state)->selector->choose(call)->recipe);
}

Collective sum_of(std::size_t bytes, Sync sync = Sync::loose) {
  static double data[1];
  auto call = Collective::allreduce(data, data, bytes / sizeof(double), sum<double>());
  call.sync = sync;
  return call;
}

TEST(Tune, ShortCampaignMakesAProfileThatCommunicatorsUse) {
  const auto pair = two_ranks();
  TuneOptions options;
  options.time_s = 10.0;  // ends when all is decided: long before that, but on a busy machine
  options.operations = {Operation::allreduce, Operation::broadcast};
  options.most_bytes = 32768;
  int reports = 0;
  options.progress = [&](const TuneProgress& now) {
    ++reports;
    EXPECT_GE(now.fraction, 0.0);
    EXPECT_LE(now.fraction, 1.0);
  };
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  EXPECT_GT(reports, 0);
  EXPECT_EQ(profile->fingerprint, pair.machine.fingerprint);

  const auto shape = shape_of(pair.machine, pair.group, false);
  int measured = 0;
  for (const auto operation : options.operations) {
    for (const auto sync : {Sync::loose, Sync::strict}) {
      const auto* first = profile->find(operation, sync, shape, 8);
      ASSERT_NE(first, nullptr) << "every table is there, with a choice of the model at least";
      EXPECT_EQ(first->from_bytes, 8u);
    }
  }
  for (const auto& cell : profile->cells) measured += cell.measured_ns > 0.0;
  EXPECT_GT(measured, 0);

  const auto file = scratch("tuned.profile.json");
  ASSERT_TRUE(save_profile(*profile, file));
  for (const std::size_t bytes : {8u, 512u, 32768u}) {
    const auto* cell = profile->find(Operation::allreduce, Sync::strict, shape, bytes);
    EXPECT_EQ(chosen(pair, with_profile(file), sum_of(bytes, Sync::strict)), to_string(cell->recipe));
  }
  std::filesystem::remove(file);
}

TEST(Tune, EveryCellHasOneTurnBeforeAnyHasTwo) {
  const auto pair = two_ranks();
  TuneOptions options;
  options.time_s = 20.0;
  options.operations = {Operation::allgather, Operation::broadcast};
  options.most_bytes = 128;
  std::vector<std::string> turns;
  options.progress = [&](const TuneProgress& now) { turns.push_back(now.doing); };
  ASSERT_TRUE(tune(pair.machine, pair.group, options));

  const auto first_of = [&](const std::string& what) {
    return std::find(turns.begin(), turns.end(), what) - turns.begin();
  };
  const std::size_t loose_cells = 2 * 3;
  ASSERT_GE(turns.size(), loose_cells);
  const std::set<std::string> first_pass(turns.begin(), turns.begin() + loose_cells);
  EXPECT_EQ(first_pass.size(), loose_cells) << "a second turn before everybody's first";
  for (const auto& what : first_pass) {
    const auto strict = what.substr(0, what.rfind(' ')) + " strict";
    EXPECT_LT(first_of(what), first_of(strict)) << "strict calls learn from loose ones";
    EXPECT_LT(first_of(strict), std::ssize(turns)) << strict << " had no turn";
  }
}

// The campaign ends before the first strict call runs and before any crossover is looked for.
TEST(Tune, CellsWithoutARaceFollowTheOthers) {
  const auto pair = two_ranks();
  TuneOptions options;
  options.time_s = 20.0;
  options.operations = {Operation::allreduce, Operation::broadcast, Operation::gather};
  options.most_bytes = 32768;
  bool strict = false;
  options.progress = [&](const TuneProgress& now) { strict |= now.doing.ends_with("strict"); };
  options.interrupted = [&] { return strict; };
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  auto state = comm::CommunicatorState::create(pair.machine, pair.group, with_profile("none"));
  ASSERT_TRUE(state);
  const auto& cells = profile->cells;
  int followers = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& cell = cells[i];
    const auto* const loose = profile->find(cell.operation, Sync::loose, cell.shape, cell.from_bytes);
    const bool raced = loose->from_bytes == cell.from_bytes && loose->measured_ns > 0.0;
    if (cell.sync == Sync::strict && cell.measured_ns == 0.0 && raced) {
      ++followers;
      EXPECT_EQ(cell.recipe, loose->recipe) << to_string(cell.operation) << " of " << cell.from_bytes;
    }
    const bool pair_of_cells = i > 0 && cells[i - 1].operation == cell.operation && cells[i - 1].sync == cell.sync;
    if (pair_of_cells && cells[i - 1].measured_ns > 0.0 && cell.measured_ns > 0.0) {
      EXPECT_TRUE((*state)->selector->same_schedule(cells[i - 1].recipe, cell.recipe, cell.from_bytes))
          << to_string(cell.operation) << " changes at " << cell.from_bytes << ", the upper one's size";
    }
  }
  EXPECT_GT(followers, 0);
}

TEST(Tune, NeighboursShareARecipeThatIsAcceptableInBoth) {
  const auto pair = two_ranks();
  TuneOptions options;
  options.time_s = 8.0;
  options.most_bytes = 131072;
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  auto state = comm::CommunicatorState::create(pair.machine, pair.group, with_profile("none"));
  ASSERT_TRUE(state);
  const auto& cells = profile->cells;
  const auto neighbours_measured = [&](std::size_t i) {
    return i > 0 && i < cells.size() && cells[i - 1].operation == cells[i].operation &&
           cells[i - 1].sync == cells[i].sync && cells[i - 1].measured_ns > 0.0 && cells[i].measured_ns > 0.0;
  };
  int neighbours = 0;
  for (std::size_t i = 1; i < cells.size(); ++i) {
    if (!neighbours_measured(i)) continue;
    ++neighbours;
    const auto &before = cells[i - 1], &cell = cells[i];
    // Where the next one runs the same as this one, the change would only move.
    const bool moves = neighbours_measured(i + 1) &&
                       (*state)->selector->same_schedule(cell.recipe, cells[i + 1].recipe, cells[i + 1].from_bytes);
    const bool holds_up = cell.equal && cell.runner_up_ns <= cell.measured_ns;
    EXPECT_FALSE(holds_up && !moves && cell.runner_up == to_string(before.recipe))
        << to_string(cell.operation) << " of " << cell.from_bytes << " bytes runs " << to_string(cell.recipe)
        << " although " << cell.runner_up << " was as fast there and runs at " << before.from_bytes;
  }
  EXPECT_GT(neighbours, 0);
}

TEST(Tune, WithoutTimeTheModelDecidesEveryCell) {
  const auto pair = two_ranks();
  TuneOptions options;
  options.operations = {Operation::reduce};
  options.interrupted = [] { return true; };
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  auto state = comm::CommunicatorState::create(pair.machine, pair.group, with_profile("none"));
  ASSERT_TRUE(state);
  ASSERT_FALSE(profile->cells.empty());
  for (const auto& cell : profile->cells) {
    EXPECT_EQ(cell.measured_ns, 0.0);
    EXPECT_EQ(cell.recipe, (*state)->selector->ranked(Operation::reduce, cell.from_bytes)->front().recipe);
  }
}

TEST(Tune, IncumbentsWithoutARivalAreKept) {
  const auto pair = two_ranks();
  const auto shape = shape_of(pair.machine, pair.group, false);
  Profile incumbent{pair.machine.fingerprint, "", {}};
  ProfileCell cell;
  cell.operation = Operation::reduce;
  cell.shape = shape;
  cell.recipe = *parse_recipe("reduce_flat");
  incumbent.cells = {cell};
  TuneOptions options;
  options.operations = {Operation::reduce};
  options.syncs = {Sync::loose};
  options.incumbent = &incumbent;
  options.interrupted = [] { return true; };
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  for (const auto& each : profile->cells) EXPECT_EQ(each.recipe, cell.recipe);
}

TEST(Tune, EarlierResultsStayIfThereIsNoTime) {
  const auto pair = two_ranks();
  ProfileCell cell;
  cell.operation = Operation::reduce;
  cell.shape = shape_of(pair.machine, pair.group, false);
  cell.from_bytes = 8;
  cell.recipe = *parse_recipe("reduce_flat");
  cell.measured_ns = 123.0;
  auto crossover = cell;
  crossover.from_bytes = 16;
  crossover.recipe = *parse_recipe("reduce_tree");
  const Profile before{pair.machine.fingerprint, "", {cell, crossover}};
  TuneOptions options;
  options.operations = {Operation::reduce};
  options.syncs = {Sync::loose};
  options.incumbent = &before;
  options.interrupted = [] { return true; };
  const auto profile = tune(pair.machine, pair.group, options);
  ASSERT_TRUE(profile) << profile.error().message;
  ASSERT_GE(profile->cells.size(), 3u);
  EXPECT_EQ(profile->cells[0], cell);
  EXPECT_EQ(profile->cells[1], crossover);
  EXPECT_EQ(profile->cells[2].from_bytes, 32u);
}

TEST(Tune, RefusesInvalidOptions) {
  const auto pair = two_ranks();
  const auto refused = [&](const TuneOptions& options, const std::string& says) {
    const auto profile = tune(pair.machine, pair.group, options);
    ASSERT_FALSE(profile);
    EXPECT_EQ(profile.error().status, Status::invalid_argument);
    EXPECT_THAT(profile.error().message, testing::HasSubstr(says));
  };
  refused({.time_s = 0.0}, "time");
  refused({.least_bytes = 64, .most_bytes = 32}, "64..32");
  refused({.most_bytes = std::size_t{1} << 40}, "2^30");
  refused({.operations = {Operation::barrier}}, "barrier");
}

TEST(Tune, EndsWithinItsTime) {
  const auto pair = two_ranks();
  const auto start = std::chrono::steady_clock::now();
  TuneOptions options;
  options.time_s = 1.0;
  ASSERT_TRUE(tune(pair.machine, pair.group, options));
  // Whatever the load: a turn that is under way may end, a second one may not begin.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

/// The same machine, if its model says that the best way to broadcast so many bytes takes `ns`.
Pair predicted_to_take(double ns, std::size_t bytes) {
  auto pair = two_ranks();
  pair.machine.copy.reset();  // then copies are estimated from the latencies
  const std::vector<Access> access = {Access::channels, Access::staged, Access::direct};
  const auto best = rank_recipes(pair.machine, pair.group, Operation::broadcast, bytes, access)->front();
  const auto scale = [&](Matrix& costs) {
    for (std::size_t i = 0; i < costs.size(); ++i)
      for (std::size_t j = 0; j < costs.size(); ++j) costs(i, j) *= ns / best.predicted_ns;
  };
  scale(pair.machine.send_ns);
  scale(pair.machine.recv_ns);
  for (auto* costs : {&pair.machine.propagation_ns, &pair.machine.send_gap_ns, &pair.machine.recv_gap_ns}) {
    if (*costs) scale(**costs);
  }
  return pair;
}

std::map<std::size_t, bool> measured_broadcasts(const Pair& pair, std::size_t least_bytes, std::size_t most_bytes) {
  TuneOptions options;
  options.time_s = 20.0;
  options.operations = {Operation::broadcast};
  options.syncs = {Sync::loose};
  options.least_bytes = least_bytes;
  options.most_bytes = most_bytes;
  const auto profile = tune(pair.machine, pair.group, options);
  std::map<std::size_t, bool> measured;
  if (!profile) return measured;
  for (const auto& cell : profile->cells) measured[cell.from_bytes] = cell.measured_ns > 0.0;
  return measured;
}

TEST(Tune, NothingIsStartedThatCannotFinishInTime) {
  EXPECT_THAT(measured_broadcasts(predicted_to_take(60e9, 4096), 4096, 16384),
              testing::UnorderedElementsAre(testing::Pair(4096, false), testing::Pair(16384, false)));
}

// 2.5 s and 10 s, says the model; but the first ones to run are faster by far, so that there is time for the others.
TEST(Tune, SmallerSizesCorrectTheModel) {
  const auto measured = measured_broadcasts(predicted_to_take(2.5e9, 65536), 65536, 262144);
  ASSERT_TRUE(measured.contains(262144));
  EXPECT_TRUE(measured.at(262144));
}

/// What rank 0 of two gets to know within its patience about an allreduce: up to four samples, of two calls where they
/// are loops.
std::vector<double> timed_within(const comm::TunerTeam::TimeLimits& patience, std::size_t bytes) {
  const auto pair = two_ranks();
  auto communicator = Communicator::create(pair.machine, pair.group, with_profile("none"));
  std::vector<double> times;
  const auto ran = communicator->run([&](Rank& rank) {
    comm::TunerTeam team({&comm::TunerAccess::endpoint(rank)}, false);
    if (rank.rank() != 0) {
      EXPECT_EQ(team.serve(), Status::ok);
      return;
    }
    const auto recipe = *parse_recipe("allreduce_ring+channels");
    EXPECT_EQ(team.time({Operation::allreduce, Sync::loose, bytes}, recipe, 4, 2, patience, times), Status::ok);
    EXPECT_EQ(team.dismiss(), Status::ok);
  });
  EXPECT_TRUE(ran);
  return times;
}

TEST(TunerTeam, LongLooseReductionsAreTimedBothWays) {
  const auto pair = two_ranks();
  auto communicator = Communicator::create(pair.machine, pair.group, with_profile("none"));
  ASSERT_TRUE(communicator) << communicator.error().message;
  const auto recipe = *parse_recipe("reduce_flat+direct");
  double ns = 0.0;
  const auto ran = communicator->run([&](Rank& rank) {
    comm::TunerTeam team({&comm::TunerAccess::endpoint(rank)}, false);
    if (rank.rank() != 0) {
      (void)team.serve();
      return;
    }
    EXPECT_TRUE(team.both_ways({Operation::reduce, Sync::loose, 8192}));
    EXPECT_FALSE(team.both_ways({Operation::reduce, Sync::loose, 4096})) << "short messages are buffered";
    EXPECT_FALSE(team.both_ways({Operation::reduce, Sync::strict, 8192}));
    EXPECT_FALSE(team.both_ways({Operation::allreduce, Sync::loose, 8192})) << "nobody leaves before the others";
    // On a busy machine a rank may be late for all windows: no number then, and longer windows the next time.
    for (int tries = 0; ns == 0.0 && tries < 100; ++tries) {
      EXPECT_EQ(team.typical({Operation::reduce, Sync::loose, 8192}, recipe, 8, 1, {10.0}, ns), Status::ok);
    }
    (void)team.dismiss();
  });
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_GT(ns, 0.0);
}

/// What rank 0 of two is told that a barrier takes.
double barrier_time(bool crowded) {
  const auto pair = two_ranks();
  auto communicator = Communicator::create(pair.machine, pair.group, with_profile("none"));
  double ns = -1.0;
  const auto ran = communicator->run([&](Rank& rank) {
    comm::TunerTeam team({&comm::TunerAccess::endpoint(rank)}, crowded);
    if (rank.rank() != 0) {
      EXPECT_EQ(team.serve(), Status::ok);
      return;
    }
    EXPECT_EQ(team.time_barrier(ns), Status::ok);
    EXPECT_EQ(team.dismiss(), Status::ok);
  });
  EXPECT_TRUE(ran);
  return ns;
}

TEST(TunerTeam, BarriersAreTimedUnlessRanksSharePus) {
  EXPECT_GT(barrier_time(false), 1.0);
  EXPECT_EQ(barrier_time(true), 0.0);
}

TEST(TunerTeam, TakesNoSampleAfterTheTimeLimit) {
  EXPECT_EQ(timed_within({.turn_s = 0.0}, 64).size(), 4u) << "one look at the clock for several samples";
  EXPECT_THAT(timed_within({.turn_s = 0.0, .all_s = 0.0}, 64), testing::IsEmpty());
  EXPECT_THAT(timed_within({.turn_s = 0.0, .all_s = 0.0}, 16384), testing::IsEmpty()) << "windows";
}

// Two ranks that come by in turns, every 100 ns: one call is over every 100 ns, no rank takes as long.
TEST(TunerTeam, CallsOfRanksThatSharePusAreNotCountedTwice) {
  comm::LoopTimestamps first, second, last;
  for (auto* each : {&first, &second, &last}) each->clear();
  EXPECT_EQ(first.span(0), comm::LoopTimestamps::missing);
  for (int n = 0; n < 18; ++n) {
    if (n % comm::LoopTimestamps::in_a_row == 0) {
      first.begin(n, 100.0 * n + 40.0);
      second.begin(n, 100.0 * n);
    }
    first.end(n, 100.0 * (n + 1) + (n % 2 == 0 ? -40.0 : 0.0));
    second.end(n, 100.0 * (n + 1) + (n % 2 == 0 ? 0.0 : -40.0));
  }
  for (std::size_t i = 0; i < last.size(); ++i) last.data()[i] = std::max(first.data()[i], second.data()[i]);
  for (int n = 0; n < 18; ++n) EXPECT_EQ(last.span(n), n % 8 == 0 ? 60.0 : 100.0) << n;
  EXPECT_EQ(last.span(18), comm::LoopTimestamps::missing);
}

Profile made_up(const Pair& pair, double measured_ns) {
  ProfileCell cell;
  cell.operation = Operation::allreduce;
  cell.shape = shape_of(pair.machine, pair.group, false);
  cell.from_bytes = 8;
  cell.recipe = *parse_recipe("allreduce_ring+channels");
  cell.measured_ns = measured_ns;
  return {pair.machine.fingerprint, "2026-01-01T00:00:00Z", {cell}};
}

// ---- processes ------------------------------------------------------------------------------

/// Children of this process, by /proc.
std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    int parent = 0;
    char state = 0;
    const auto name_end = text.rfind(')');
    if (name_end == std::string::npos || std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) != 2)
      continue;
    if (parent == getpid()) found.push_back(std::stoi(entry.path().filename()));
  }
  return found;
}

TuneOptions of_processes() {
  TuneOptions options;
  options.processes = true;
  options.time_s = 10.0;  // as above
  options.operations = {Operation::allreduce};
  options.syncs = {Sync::loose};
  options.most_bytes = 2048;
  return options;
}

void expect_nobody_left() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD) << "no child is left, dead or alive";
}

TEST(TuneProcesses, TheirTablesAreForProcessesOnly) {
  const auto pair = two_ranks();
  const auto profile = tune(pair.machine, pair.group, of_processes());
  ASSERT_TRUE(profile) << profile.error().message;
  expect_nobody_left();
  ASSERT_FALSE(profile->cells.empty());
  for (const auto& cell : profile->cells) EXPECT_TRUE(cell.shape.processes);
  EXPECT_GT(profile->cells.front().measured_ns, 0.0);

  auto decisive = *profile;
  for (auto& cell : decisive.cells) cell.recipe = *parse_recipe("allreduce_ring+channels");
  const auto file = scratch("processes.profile.json");
  ASSERT_TRUE(save_profile(decisive, file));
  EXPECT_NE(chosen(pair, with_profile(file), sum_of(8)), "allreduce_ring+channels") << "of threads";
  const int both[] = {0, 1};
  const int meeting_place = memfd_create("test", 0);
  auto state =
      comm::CommunicatorState::create_shared(meeting_place, pair.machine, pair.group, both, with_profile(file));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(to_string((*state)->selector->choose(sum_of(8))->recipe), "allreduce_ring+channels");
  close(meeting_place);
  std::filesystem::remove(file);
}

TEST(TuneProcesses, AllUseTheProfileOfTheFirst) {
  auto pair = two_ranks();
  pair.machine = *comm::default_model();
  auto profile = made_up(pair, 100.0);
  profile.fingerprint = pair.machine.fingerprint;
  profile.cells[0].shape.processes = true;
  const auto file = scratch("first.profile.json");
  ASSERT_TRUE(save_profile(profile, file));
  const std::string name = "tune-test-" + std::to_string(getpid());
  const auto join = [&](int rank, const std::string& with) {
    const int own[] = {rank};
    auto state = comm::CommunicatorState::create_shared(name, -1, 2, own, with_profile(with));
    return state ? to_string((*state)->selector->choose(sum_of(8))->recipe) : state.error().message;
  };
  std::string first;
  std::thread other([&] { first = join(0, file); });
  // The name appears when the first one has made the segment.
  while (!std::filesystem::exists("/dev/shm/smelt-" + std::to_string(getuid()) + "-" + name)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto second = join(1, "none");
  other.join();
  EXPECT_EQ(first, "allreduce_ring+channels");
  EXPECT_EQ(second, first);
  std::filesystem::remove(file);
}

/// Does something to the child at the first report.
Result<Profile> tune_and_signal(int signal, double timeout_s) {
  const auto pair = two_ranks();
  auto options = of_processes();
  options.timeout_s = timeout_s;
  options.time_s = 20.0;
  options.most_bytes = std::size_t{1} << 20;
  bool done = false;
  options.progress = [&](const TuneProgress&) {
    if (std::exchange(done, true)) return;
    for (const pid_t child : children()) kill(child, signal);
  };
  return tune(pair.machine, pair.group, options);
}

TEST(TuneProcesses, ADeadOneIsOneError) {
  const auto profile = tune_and_signal(SIGKILL, 20.0);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().status, Status::broken);
  EXPECT_THAT(profile.error().message, testing::HasSubstr("rank 1 (process "));
  expect_nobody_left();
}

TEST(TuneProcesses, AHungOneIsOneError) {
  const auto profile = tune_and_signal(SIGSTOP, 3.0);
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().status, Status::timed_out);
  EXPECT_THAT(profile.error().message, testing::HasSubstr("rank 1"));
  expect_nobody_left();
}

// ---- what communicators make of profiles ----------------------------------------------------

TEST(RecipeSelector, LeavesOutRecipesWithTheSameSchedule) {
  SynthSpec spec;
  spec.cores = 2;
  const Machine machine = *synthesize_machine(spec);
  auto state = comm::CommunicatorState::create(machine, Group{{0, 1}}, with_profile("none"));
  ASSERT_TRUE(state);
  const auto& selector = *(*state)->selector;
  const auto all = *selector.ranked(Operation::broadcast, 64);
  const auto distinct = selector.distinct(all, 64);
  ASSERT_FALSE(distinct.empty());
  EXPECT_EQ(distinct.front().recipe, all.front().recipe) << "the first of its kind stays";
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_FALSE(selector.same_schedule(distinct[i].recipe, distinct[j].recipe, 64))
          << to_string(distinct[i].recipe) << " and " << to_string(distinct[j].recipe);
    }
  }
  EXPECT_LT(distinct.size(), all.size());
  const auto tree = *parse_recipe("broadcast_tree+direct"), chain = *parse_recipe("broadcast_tree+direct+tree=chain");
  EXPECT_TRUE(selector.same_schedule(tree, chain, 1 << 20)) << "of two ranks";
  EXPECT_FALSE(selector.same_schedule(tree, *parse_recipe("broadcast_tree+channels"), 64)) << "has code of its own";
}

TEST(TunedCommunicator, EqualsReplaceUnsupportedRecipes) {
  const auto pair = two_ranks();
  auto profile = made_up(pair, 100.0);
  profile.cells[0].recipe = *parse_recipe("allreduce_slices+direct");
  profile.cells[0].equals = {"allreduce_ring+direct", "allreduce_ring+channels"};
  comm::RecipeSelector::SelectorConfig setting{.machine = &pair.machine, .group = &pair.group};
  auto state = comm::CommunicatorState::create(pair.machine, pair.group, with_profile("none"));
  ASSERT_TRUE(state);
  setting.plans = (*state)->plans;
  setting.profile = profile;
  setting.direct = false;
  EXPECT_EQ(to_string(comm::RecipeSelector(setting).choose(sum_of(8))->recipe), "allreduce_ring+channels");
  setting.direct = true;
  EXPECT_EQ(to_string(comm::RecipeSelector(setting).choose(sum_of(8))->recipe), "allreduce_slices+direct");
}

TEST(TunedCommunicator, WhichProfileIsUsed) {
  const auto pair = two_ranks();
  const auto file = scratch("made-up.profile.json");
  ASSERT_TRUE(save_profile(made_up(pair, 100.0), file));
  const auto with_model = chosen(pair, with_profile("none"), sum_of(8));
  EXPECT_NE(with_model, "allreduce_ring+channels") << "or the others show nothing";
  EXPECT_EQ(chosen(pair, with_profile(file), sum_of(8)), "allreduce_ring+channels");
  EXPECT_EQ(chosen(pair, with_profile(file), sum_of(8, Sync::strict)), with_model) << "not tuned";
  auto fixed = with_profile(file);
  fixed.algorithm = "allreduce_recursive_doubling";
  EXPECT_EQ(chosen(pair, fixed, sum_of(8)), to_string(*parse_recipe(fixed.algorithm)));

  // The cached one: found by the fingerprint, not used for another machine, another topology, or if damaged.
  const auto cache = scratch("cache");
  std::filesystem::create_directories(cache);
  setenv("SMELT_CACHE_DIR", cache.c_str(), 1);
  const auto cached = profile_path(pair.machine.fingerprint);
  std::filesystem::copy_file(file, cached);
  EXPECT_EQ(chosen(pair, {}, sum_of(8)), "allreduce_ring+channels");
  CommunicatorOptions binary;
  binary.topology = "binary";
  EXPECT_NE(chosen(pair, binary, sum_of(8)), "allreduce_ring+channels");
  auto foreign = made_up(pair, 100.0);
  foreign.fingerprint = "somewhere-else";
  ASSERT_TRUE(save_profile(foreign, cached));
  EXPECT_EQ(chosen(pair, {}, sum_of(8)), with_model);
  EXPECT_THAT(chosen(pair, with_profile(cached.string()), sum_of(8)), testing::HasSubstr("of another machine"));
  std::filesystem::resize_file(cached, 20);
  EXPECT_EQ(chosen(pair, {}, sum_of(8)), with_model);
  EXPECT_THAT(chosen(pair, with_profile(cached.string()), sum_of(8)), testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(chosen(pair, with_profile(cache + "/none"), sum_of(8)), testing::HasSubstr("cannot open"));
  unsetenv("SMELT_CACHE_DIR");
  std::filesystem::remove_all(cache);
  std::filesystem::remove(file);
}

TEST(TunedCommunicator, PassesOverRecipesThatDoNotFit) {
  auto pair = two_ranks();
  pair.group.pus.push_back(pair.group.pus[0]);
  auto profile = made_up(pair, 100.0);
  profile.cells[0].recipe = *parse_recipe("allgather_recursive_doubling");
  profile.cells[0].operation = Operation::allgather;
  const auto file = scratch("three.profile.json");
  ASSERT_TRUE(save_profile(profile, file));
  const auto call = Collective::allgather(&pair, &pair, 8);
  EXPECT_EQ(chosen(pair, with_profile(file), call), chosen(pair, with_profile("none"), call)) << "it needs 2^k ranks";
  std::filesystem::remove(file);
}

TEST(TunedCommunicator, UsedRequestsFollowADiscardedProfile) {
  const auto pair = two_ranks();
  const auto file = scratch("given-up.profile.json");
  ASSERT_TRUE(save_profile(made_up(pair, 100.0), file));
  auto options = with_profile(file);
  options.timeout_s = 10.0;
  auto communicator = Communicator::create(pair.machine, pair.group, options);
  std::filesystem::remove(file);
  ASSERT_TRUE(communicator);
  ASSERT_NE(chosen(pair, with_profile("none"), sum_of(8)), "allreduce_ring+channels");
  EXPECT_TRUE(communicator->run([](Rank& rank) {
    auto& selector = *comm::TunerAccess::endpoint(rank).state().selector;
    double one = 1.0, two = 0.0;
    Request request = rank.prepare(Collective::allreduce(&one, &two, 1, sum<double>()));
    const auto turns = [&](bool by_request) {
      for (int turn = 0; turn < 4; ++turn, two = 0.0) {
        ASSERT_EQ(by_request ? request.run(&one, &two) : rank.allreduce(&one, &two, 1, sum<double>()), Status::ok)
            << rank.failure();
        EXPECT_EQ(two, 2.0);
      }
    };
    turns(true);
    ASSERT_EQ(rank.barrier(), Status::ok);
    if (rank.rank() == 0) {
      EXPECT_EQ(to_string(selector.choose(sum_of(8))->recipe), "allreduce_ring+channels");
      selector.forget_profile();
    }
    ASSERT_EQ(rank.barrier(), Status::ok);
    turns(rank.rank() == 0);
    turns(rank.rank() == 1);
  }));
}

TEST(TunedCommunicator, LateRanksAreDecidedByTheModel) {
  const auto pair = two_ranks();
  const auto file = scratch("late.profile.json");
  ASSERT_TRUE(save_profile(made_up(pair, 100.0), file));
  auto options = with_profile(file);
  EXPECT_EQ(chosen(pair, options, sum_of(8)), "allreduce_ring+channels");
  options.late_ns = {0.0, 5000.0};
  EXPECT_NE(chosen(pair, options, sum_of(8)), "allreduce_ring+channels");
  std::filesystem::remove(file);
}

Revalidation check(const Pair& pair, double measured_ns, std::string* runs_then) {
  const auto file = scratch("check.profile.json");
  EXPECT_TRUE(save_profile(made_up(pair, measured_ns), file));
  auto communicator = Communicator::create(pair.machine, pair.group, with_profile(file));
  std::filesystem::remove(file);
  EXPECT_TRUE(communicator);
  Revalidation verdicts[2];
  EXPECT_TRUE(communicator->run([&](Rank& rank) {
    const auto verdict = revalidate(rank, {.time_ms = 50});
    ASSERT_TRUE(verdict) << verdict.error().message;
    verdicts[rank.rank()] = *verdict;
    double one = 1.0, two = 0.0;
    EXPECT_EQ(rank.allreduce(&one, &two, 1, sum<double>()), Status::ok) << "and goes on";
    EXPECT_EQ(two, 2.0);
    if (rank.rank() != 0) return;
    auto& selector = *comm::TunerAccess::endpoint(rank).state().selector;
    *runs_then = to_string(selector.choose(sum_of(8))->recipe);
  }));
  EXPECT_EQ(verdicts[0].cells, verdicts[1].cells);
  EXPECT_EQ(verdicts[0].ratio, verdicts[1].ratio);
  EXPECT_EQ(verdicts[0].replanned, verdicts[1].replanned);
  return verdicts[0];
}

TEST(Revalidate, APessimisticProfileHolds) {
  const auto pair = two_ranks();
  std::string runs;
  const auto verdict = check(pair, 1e9, &runs);
  EXPECT_EQ(verdict.cells, 1);
  EXPECT_TRUE(verdict.holds);
  EXPECT_FALSE(verdict.replanned);
  EXPECT_EQ(runs, "allreduce_ring+channels");
}

TEST(Revalidate, AnOptimisticProfileIsDiscardedIfTheModelIsFaster) {
  const auto pair = two_ranks();
  std::string runs;
  const auto verdict = check(pair, 1e-3, &runs);
  EXPECT_FALSE(verdict.holds);
  EXPECT_EQ(verdict.replanned, verdict.model_ratio < 1.0);
  EXPECT_EQ(runs == "allreduce_ring+channels", !verdict.replanned);
}

TEST(Revalidate, WithoutAProfileThereIsNothingToCheck) {
  const auto pair = two_ranks();
  auto options = with_profile("none");
  options.revalidate = true;
  auto communicator = Communicator::create(pair.machine, pair.group, options);
  ASSERT_TRUE(communicator);
  EXPECT_TRUE(communicator->run([](Rank& rank) {
    const auto verdict = revalidate(rank);
    ASSERT_TRUE(verdict);
    EXPECT_EQ(verdict->cells, 0);
    EXPECT_TRUE(verdict->holds);
  }));
}

}  // namespace
}  // namespace smelt
