// The parent against workers that behave, and against every kind that does not. Workers are
// shell scripts that speak the protocol, and the program bench_test_worker.
#include "harness/contest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "harness/contestants.hpp"
#include "harness/process.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Contestant script(const std::string& name, const std::string& text) { return {name, {"/bin/sh", "-c", text}, {}}; }

/// Answers every round with the same samples.
Contestant steady(const std::string& name, const std::string& samples) {
  return script(name, "echo ready; while read word number; do [ $word = quit ] && exit; echo series time " + samples +
                          "; echo done; done");
}

ContestOptions quick() {
  ContestOptions options;
  options.budget_s = 0.05;
  options.turn_ms = 1;
  options.start_limit_s = 20;  // generous: machines that run tests are busy
  options.turn_limit_s = 20;
  return options;
}

ContestOutcome contest(const std::vector<Contestant>& contestants, const ContestOptions& options = quick()) {
  auto outcome = run_contest(options, contestants);
  EXPECT_TRUE(outcome);
  return outcome ? *outcome : ContestOutcome{};
}

/// The reason why a contestant is left out, while another one goes on.
std::string reason_for(const Contestant& bad, const ContestOptions& options = quick()) {
  const ContestOutcome outcome = contest({bad, steady("good", "5")}, options);
  EXPECT_EQ(outcome.results.size(), 1u);
  if (outcome.left_out.size() != 1) return "nobody was left out";
  EXPECT_EQ(outcome.left_out[0].name, bad.name);
  return outcome.left_out[0].reason;
}

bool alive(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(status, text);
  const auto name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z';  // a zombie is gone for our purpose
}

bool gone_soon(pid_t pid) {
  for (int i = 0; i < 500 && alive(pid); ++i) std::this_thread::sleep_for(milliseconds(10));
  return !alive(pid);
}

/// A file that a script writes a process id to.
class PidFile {
 public:
  PidFile()
      : path_(testing::TempDir() + "contest_test_" + std::to_string(getpid()) + "_" + std::to_string(counter_++)) {}
  ~PidFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }
  pid_t wait() const {
    for (int i = 0; i < 1000; ++i) {
      pid_t pid = 0;
      std::string end;
      if (std::ifstream(path_) >> pid >> end && end == "end") return pid;
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "no process id in " << path_;
    return 0;
  }

 private:
  static inline int counter_ = 0;
  std::string path_;
};

// ---------------------------------------------------------------- results

TEST(Contest, NoContestantIsAnError) { EXPECT_FALSE(run_contest(quick(), {})); }

TEST(Contest, ResultsComeInOrderWithRatiosToTheFloor) {
  const auto outcome = contest({steady("a", "30 40 50"), steady(floor_name, "10 10"), steady("b", "5.5")});
  ASSERT_EQ(outcome.results.size(), 3u);
  EXPECT_TRUE(outcome.left_out.empty());
  EXPECT_EQ(outcome.results[0].name, "a");
  EXPECT_DOUBLE_EQ(outcome.results[0].median_ns.value_or(0), 40);
  EXPECT_DOUBLE_EQ(outcome.results[0].floor_ratio.value_or(0), 4);
  EXPECT_DOUBLE_EQ(outcome.results[2].floor_ratio.value_or(0), 0.55);
  EXPECT_EQ(outcome.results[0].samples % 3, 0u);
}

TEST(Contest, WithoutAFloorThereIsNoRatio) {
  const auto outcome = contest({steady("a", "30")});
  ASSERT_EQ(outcome.results.size(), 1u);
  EXPECT_FALSE(outcome.results[0].floor_ratio.has_value());
}

TEST(Contest, FactsAndMessagesReachTheResult) {
  const auto outcome = contest({script("a",
                                       "echo info method loop; echo info predicted_ns 12.5; echo info recipe "
                                       "some_tree+staged; echo ready; while read w n; do [ $w = quit ] && exit; "
                                       "echo series time 100; echo series message 20; echo done; done")});
  ASSERT_EQ(outcome.results.size(), 1u);
  EXPECT_EQ(outcome.results[0].method, "loop");
  EXPECT_DOUBLE_EQ(outcome.results[0].predicted_ns.value_or(0), 12.5);
  EXPECT_EQ(outcome.results[0].recipe, "some_tree+staged");
  EXPECT_DOUBLE_EQ(outcome.results[0].message_ns.value_or(0), 20);
  EXPECT_DOUBLE_EQ(outcome.results[0].throughput_mmsg_s.value_or(0), 50);
}

TEST(Contest, EveryContestantHasATurnEvenWithoutTime) {
  ContestOptions options = quick();
  options.budget_s = 1e-6;
  std::vector<Contestant> many;
  for (int i = 0; i < 8; ++i) many.push_back(steady("worker" + std::to_string(i), "1"));
  EXPECT_EQ(contest(many, options).results.size(), 8u);
}

TEST(Contest, TurnsAreInterleaved) {
  const PidFile log;
  const auto noting = [&log](const std::string& name) {
    return script(name, "echo ready; while read w n; do [ $w = quit ] && exit; echo " + name + " >> " + log.path() +
                            "; echo series time 1; echo done; done");
  };
  ContestOptions options = quick();
  options.budget_s = 0.3;
  contest({noting("a"), noting("b")}, options);
  std::ifstream file(log.path());
  std::vector<std::string> turns;
  for (std::string name; file >> name;) turns.push_back(name);
  ASSERT_GE(turns.size(), 2u);
  for (std::size_t t = 0; t + 1 < turns.size(); t += 2) EXPECT_NE(turns[t], turns[t + 1]) << "round " << t / 2;
}

/// A contestant whose samples are others in each start: those of the first, of the second and of all later ones.
Contestant by_start(const std::string& name, const PidFile& log, const std::array<std::string, 3>& samples) {
  return script(name, "echo x >> " + log.path() + "; case $(grep -c x " + log.path() + ") in 1) s='" + samples[0] +
                          "';; 2) s='" + samples[1] + "';; *) s='" + samples[2] +
                          "';; esac; echo ready; "
                          "while read w n; do [ $w = quit ] && exit; echo series time $s; echo done; done");
}

TEST(Contest, OfSeveralStartsTheMedianOneCounts) {
  const PidFile log;
  const Contestant varying = by_start("a", log, {"5", "7", "9 9 9 9 9 9 9"});
  ContestOptions options = quick();
  options.starts = 3;
  const auto outcome = contest({varying, steady("b", "5")}, options);
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_DOUBLE_EQ(outcome.results[0].median_ns.value_or(0), 7);
  EXPECT_THAT(outcome.results[0].starts_ns, ElementsAre(5.0, 7.0, 9.0));
  EXPECT_DOUBLE_EQ(outcome.results[1].median_ns.value_or(0), 5);
  EXPECT_GE(outcome.results[0].samples, 9u);
}

TEST(Contest, AStartWithoutASampleDoesNotCount) {
  const PidFile log;
  const Contestant once =
      script("a", "echo x >> " + log.path() + "; s=; [ $(grep -c x " + log.path() +
                      ") = 2 ] && s='time 6'; echo ready; while read w n; do [ $w = quit ] && exit; "
                      "[ -n \"$s\" ] && echo series $s; echo done; done");
  ContestOptions options = quick();
  options.starts = 3;
  const auto outcome = contest(
      {once, script("never", "echo ready; while read w n; do [ $w = quit ] && exit; echo done; done")}, options);
  ASSERT_EQ(outcome.results.size(), 1u);
  EXPECT_DOUBLE_EQ(outcome.results[0].median_ns.value_or(0), 6);
  EXPECT_THAT(outcome.results[0].starts_ns, ElementsAre(std::nullopt, 6.0, std::nullopt)) << "in their places";
  ASSERT_EQ(outcome.left_out.size(), 1u);
  EXPECT_EQ(outcome.left_out[0].reason, "no valid sample");
}

TEST(Contest, SamplesOfNothingAreNotATime) {
  ContestOptions options = quick();
  options.reference = "own";
  const auto outcome = contest({steady("own", "8"), steady("nothing", "0 0 0 3"), steady(floor_name, "0")}, options);
  ASSERT_EQ(outcome.results.size(), 3u) << "they ran";
  EXPECT_FALSE(outcome.results[1].median_ns.has_value());
  EXPECT_THAT(outcome.results[1].starts_ns, ElementsAre(std::nullopt));
  for (const auto& result : outcome.results) {
    EXPECT_FALSE(result.floor_ratio.has_value()) << "times as long as nothing";
    EXPECT_FALSE(result.compared.has_value()) << result.name;
  }
}

TEST(Contest, NoRatioIsBuiltOnAStartThatTimedNothing) {
  const PidFile log;
  ContestOptions options = quick();
  options.starts = 3;
  options.reference = "own";
  const auto outcome = contest({by_start("own", log, {"4", "0", "8"}), steady("rival", "16")}, options);
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_THAT(outcome.results[0].starts_ns, ElementsAre(4.0, std::nullopt, 8.0));
  EXPECT_DOUBLE_EQ(outcome.results[0].median_ns.value_or(0), 6);
  ASSERT_TRUE(outcome.results[1].compared.has_value());
  EXPECT_EQ(outcome.results[1].compared->ratio.count, 2u);
  EXPECT_DOUBLE_EQ(outcome.results[1].compared->ratio.median, 3);
}

TEST(Contest, ContestantsThatFailInALaterStartAreLeftOut) {
  const PidFile log;
  const Contestant once =
      script("bad", "[ -e " + log.path() + " ] && echo error no more && exit; echo x > " + log.path() +
                        "; echo ready; while read w n; do [ $w = quit ] && exit; "
                        "echo series time 1; echo done; done");
  ContestOptions options = quick();
  options.starts = 2;
  EXPECT_EQ(reason_for(once, options), "no more");
}

/// A probe that answers one after the other, then the last for ever.
std::function<Result<Floor>()> probe_of(std::vector<double> lines_ns) {
  auto asked = std::make_shared<std::size_t>(0);
  return [=]() -> Result<Floor> {
    const std::size_t i = std::min((*asked)++, lines_ns.size() - 1);
    return Floor{lines_ns[i], 1000.0};
  };
}

/// Counts its starts in a file, and takes as long as the start's number says.
Contestant counting(const std::string& name, const PidFile& log) {
  return script(name, "echo x >> " + log.path() + "; s=$(grep -c x " + log.path() +
                          "); echo ready; while read w n; do [ $w = quit ] && exit; echo series time $s; "
                          "echo done; done");
}

TEST(Floor, StartsInWhichItMovedAreRepeated) {
  const PidFile log;
  ContestOptions options = quick();
  options.starts = 3;
  // First start 100..100, the second 100..150, then 150..150 and 150..150.
  options.probe = probe_of({100, 100, 100, 150, 150, 150, 150, 150});
  const auto outcome = contest({counting("a", log), steady("b", "5")}, options);
  ASSERT_EQ(outcome.results.size(), 2u);
  EXPECT_THAT(outcome.results[0].starts_ns, ElementsAre(1.0, 3.0, 4.0)) << "the second is forgotten";
  EXPECT_EQ(outcome.retaken, 1);
  EXPECT_EQ(outcome.unsteady, 0);
  EXPECT_EQ(outcome.starts, 3);
  ASSERT_EQ(outcome.floors.size(), 3u);
  EXPECT_EQ(outcome.floors[0].line_ns, 100);
  EXPECT_EQ(outcome.floors[1].line_ns, 150);
}

TEST(Floor, AnUnsteadyFloorDoesNotBlock) {
  const PidFile log;
  ContestOptions options = quick();
  options.starts = 2;
  int asked = 0;
  options.probe = [&]() -> Result<Floor> { return Floor{++asked % 2 == 0 ? 200.0 : 100.0, 1000.0}; };
  const auto outcome = contest({counting("a", log)}, options);
  EXPECT_THAT(outcome.results.at(0).starts_ns, ElementsAre(4.0, 8.0)) << "each after three that are forgotten";
  EXPECT_EQ(outcome.retaken, 6);
  EXPECT_EQ(outcome.unsteady, 2);
}

TEST(Floor, StartsThatTimedOnlyTheFloorAreNotRepeated) {
  ContestOptions options = quick();
  options.starts = 2;
  int asked = 0;
  options.probe = [&]() -> Result<Floor> { return Floor{++asked % 2 == 0 ? 200.0 : 100.0, 1000.0}; };
  const auto outcome = contest({script("a", "exit 3"), steady(floor_name, "5")}, options);
  EXPECT_EQ(outcome.left_out.size(), 1u);
  EXPECT_EQ(outcome.retaken, 0);
  EXPECT_EQ(outcome.unsteady, 0);
}

TEST(Floor, AnUnknownFloorNeverMoves) {
  ContestOptions options = quick();
  options.starts = 2;
  options.probe = []() -> Result<Floor> { return Error{Status::timed_out, "busy"}; };
  EXPECT_EQ(contest({steady("a", "5")}, options).retaken, 0);
}

TEST(Verdicts, AreOnTheReferenceAndComeFromStarts) {
  ContestOptions options = quick();
  options.starts = 7;
  options.reference = "own";
  const auto outcome = contest(
      {steady("slow", "20"), steady("own", "10"), steady("same", "10"), steady("quick", "5"), steady(floor_name, "1")},
      options);
  ASSERT_EQ(outcome.results.size(), 5u);
  EXPECT_EQ(outcome.reference, "own");
  const auto& slow = outcome.results[0].compared;
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->verdict, Verdict::faster);
  EXPECT_DOUBLE_EQ(slow->ratio.median, 2.0);
  EXPECT_EQ(slow->ratio.count, 7u);
  EXPECT_FALSE(outcome.results[1].compared.has_value()) << "not with itself";
  EXPECT_EQ(outcome.results[2].compared->verdict, Verdict::equal);
  EXPECT_EQ(outcome.results[3].compared->verdict, Verdict::slower);
  EXPECT_FALSE(contest({steady("a", "1")}).results[0].compared.has_value()) << "nobody to compare with";
}

TEST(Verdicts, TimeIsSpentWhereTheyAreOpen) {
  const PidFile clear_log, open_log, own_log;
  const auto counted = [](const std::string& name, const PidFile& log, const std::string& times) {
    return script(name, "echo x >> " + log.path() + "; s=$(grep -c x " + log.path() +
                            "); echo ready; while read w n; " + "do [ $w = quit ] && exit; set -- " + times +
                            "; shift $((s - 1)); echo series time $1; "
                            "echo done; done");
  };
  ContestOptions options = quick();
  options.starts = 3;
  options.most_starts = 20;
  options.reference = "own";
  std::string own_times;
  for (int i = 0; i < 20; ++i) own_times += " 10";
  const auto outcome = contest(
      {counted("clear", clear_log, "20 21 22 20 20 20 20 20"),
       counted("open", open_log, "12 13 9 12 13 14 12 13 14 12 13 14 12 13 14 12"), counted("own", own_log, own_times)},
      options);
  ASSERT_EQ(outcome.results.size(), 3u);
  EXPECT_THAT(outcome.results[0].starts_ns, testing::SizeIs(14u));
  EXPECT_EQ(outcome.results[0].starts_ns[3], std::nullopt) << "sits out once it is decided";
  EXPECT_EQ(outcome.results[0].compared->verdict, Verdict::faster);
  EXPECT_EQ(outcome.results[0].compared->ratio.count, 3u);
  EXPECT_EQ(outcome.results[1].compared->verdict, Verdict::faster) << "one of 14 on the other side does not matter";
  EXPECT_EQ(outcome.starts, 14) << "and no further";
}

TEST(Verdicts, NoMoreStartsThanAllowed) {
  const PidFile log;
  ContestOptions options = quick();
  options.starts = 1;
  options.most_starts = 5;
  options.reference = "own";
  const auto outcome = contest({steady("own", "3"), counting("drifting", log)}, options);
  EXPECT_EQ(outcome.starts, 5);
  EXPECT_EQ(outcome.results.at(1).compared->verdict, Verdict::undecided) << "1 to 5 against 3";
}

TEST(Contest, TheEnvironmentAndTheScratchDirectoryReachTheWorker) {
  Contestant contestant = script("a",
                                 "[ -d \"$PLACE\" ] && : > $PLACE/left_behind && echo info predicted_ns 1; "
                                 "echo info method $PLACE; echo ready; while read w n; do [ $w = quit ] && exit; "
                                 "echo series time 1; echo done; done");
  contestant.environment = {"PLACE={scratch}"};
  const auto outcome = contest({contestant});
  ASSERT_EQ(outcome.results.size(), 1u);
  EXPECT_TRUE(outcome.results[0].predicted_ns.has_value());
  EXPECT_THAT(outcome.results[0].method, HasSubstr("smelt-bench-"));
  EXPECT_FALSE(std::filesystem::exists(outcome.results[0].method));
}

// ---------------------------------------------------------------- workers that misbehave

TEST(Misbehaviour, AProgramThatIsNotThere) {
  EXPECT_THAT(reason_for({"bad", {"/nonexistent/program"}, {}}), HasSubstr("cannot start /nonexistent/program"));
}

TEST(Misbehaviour, ExitBeforeReadyIsExplainedByStderr) {
  EXPECT_EQ(reason_for(script("bad", "echo ---- >&2; echo out of luck >&2; exit 3")),
            "exited with status 3: out of luck");
}

TEST(Misbehaviour, ItsOwnErrorIsTheReason) {
  EXPECT_EQ(reason_for(script("bad", "echo error a queue of that size is not there; sleep 100")),
            "a queue of that size is not there");
}

TEST(Misbehaviour, HangAtTheStart) {
  ContestOptions options = quick();
  options.start_limit_s = 1;
  const auto outcome = contest({script("bad", "sleep 1000")}, options);
  ASSERT_EQ(outcome.left_out.size(), 1u);
  EXPECT_EQ(outcome.left_out[0].reason, "no answer within 1 s");
}

TEST(Misbehaviour, HangInATurn) {
  ContestOptions options = quick();
  options.turn_limit_s = 1;
  const auto outcome = contest({script("bad", "echo ready; read line; sleep 1000")}, options);
  ASSERT_EQ(outcome.left_out.size(), 1u);
  EXPECT_EQ(outcome.left_out[0].reason, "no answer within 1 s");
}

TEST(Misbehaviour, Crash) {
  EXPECT_THAT(reason_for(script("bad", "echo ready; read line; kill -SEGV $$")), StartsWith("killed by signal 11"));
}

TEST(Misbehaviour, Garbage) {
  const auto answering = [](const std::string& line) {
    return script("bad", "echo ready; while read word; do echo '" + line + "'; echo done; done");
  };
  for (const char* line : {"what?", "series time 1 x", "series time nan", "series time inf", "series time -1",
                           "series time 1  2", "series other 1", "series time 1e999", "info", "ready"}) {
    EXPECT_THAT(reason_for(answering(line)), StartsWith("answered nonsense: ")) << line;
  }
  EXPECT_EQ(reason_for(answering("series time")), "no valid sample");
}

TEST(Misbehaviour, AnEndlessLine) {
  EXPECT_THAT(reason_for(script("bad", "yes | tr -d '\\n'")), HasSubstr("endless line"));
}

TEST(Misbehaviour, WorkersCannotHaveForeignProcessesEnded) {
  EXPECT_EQ(reason_for(script("bad", "echo pids " + std::to_string(getpid()) + "; echo ready; sleep 100")),
            "answered nonsense: pids " + std::to_string(getpid()));
}

TEST(Misbehaviour, ClosedInputIsNoticed) {
  EXPECT_FALSE(reason_for(script("bad", "echo ready; exec <&-; sleep 0.2; exit 4")).empty());
}

// ---------------------------------------------------------------- nobody is left behind

TEST(LeftBehind, GrandchildrenOfAHungWorkerAreEnded) {
  const PidFile file;
  ContestOptions options = quick();
  options.start_limit_s = 2;
  contest({script("bad", "trap '' TERM; sleep 1000 & echo $! end > " + file.path() + "; wait; sleep 1000")}, options);
  EXPECT_TRUE(gone_soon(file.wait()));
}

TEST(LeftBehind, TeamMembersOutsideTheGroupAreEnded) {
  const PidFile file;
  ContestOptions options = quick();
  options.start_limit_s = 3;
  contest(
      {script("bad", "setsid sh -c 'echo $$ end > " + file.path() + "; exec sleep 1000' & while ! [ -s " + file.path() +
                         " ]; do sleep 0.05; done; read pid end < " + file.path() + "; echo pids $pid; sleep 1000")},
      options);
  EXPECT_TRUE(gone_soon(file.wait()));
}

/// Runs a contest with one hanging worker in a child process; returns the child and the worker.
std::pair<pid_t, pid_t> contest_in_child(const PidFile& file) {
  const pid_t child = fork();
  if (child == 0) {
    auto outcome = run_contest(quick(), {script("slow", "echo $$ end > " + file.path() + "; exec sleep 1000")});
    _exit(outcome ? 0 : 1);
  }
  return {child, file.wait()};
}

TEST(LeftBehind, WorkersDieWithAParentThatIsKilled) {
  const PidFile file;
  const auto [child, worker] = contest_in_child(file);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(gone_soon(worker));
}

TEST(LeftBehind, AnInterruptEndsTheWorkersAndThenTheParent) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const PidFile file;
    const auto [child, worker] = contest_in_child(file);
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_FALSE(alive(worker));
  }
}

/// As under nohup, and in the background of scripts.
TEST(LeftBehind, AnIgnoredSignalInterruptsNothing) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction ignore = {}, before = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(signal, &ignore, &before);
    {
      const SignalGuard guard;
      raise(signal);
      EXPECT_FALSE(SignalGuard::interrupted());
    }
    sigaction(signal, &before, nullptr);
  }
}

// ---------------------------------------------------------------- real workers

Contestant real(const WorkerSpec& spec) {
  Contestant contestant{spec.name, {BENCH_TEST_WORKER}, {}};
  for (const auto& argument : worker_arguments(spec)) contestant.argv.push_back(argument);
  return contestant;
}

Contestant real(const std::string& name, const std::string& operation, int threads, std::size_t bytes = 8) {
  WorkerSpec spec;
  spec.name = name;
  spec.operation = operation;
  spec.threads = threads;
  spec.bytes = bytes;
  spec.pus = {0};
  return real(spec);
}

TEST(RealWorker, EveryOperationIsVerifiedAndTimed) {
  for (const auto& operation : benchmarks()) {
    for (const std::size_t bytes : {8u, 1000u, 100'000u}) {
      if (operation == "channel" && bytes > 4096) continue;
      const auto outcome = contest({real("good", operation, 2, bytes)});
      ASSERT_EQ(outcome.results.size(), 1u) << operation << ": " << outcome.left_out[0].reason;
      EXPECT_GT(outcome.results[0].median_ns.value_or(0), 0.0);
      EXPECT_EQ(outcome.results[0].throughput_mmsg_s.has_value(), operation == "channel");
    }
  }
}

TEST(RealWorker, OddSizesAndTeams) {
  for (const char* operation : {"broadcast", "scatter", "gather", "allgather", "alltoall"}) {
    for (const std::size_t bytes : {0u, 1u, 13u}) {
      const auto outcome = contest({real("good", operation, 3, bytes)});
      EXPECT_EQ(outcome.results.size(), 1u) << operation << " " << bytes;
    }
  }
  for (const char* operation : {"reduce", "allreduce", "reduce-scatter", "scan", "exscan"}) {
    EXPECT_EQ(contest({real("good", operation, 5, 72)}).results.size(), 1u) << operation;
  }
}

TEST(RealWorker, AMisplacedBlockIsFound) {
  for (const char* operation : {"scatter", "gather", "allgather", "alltoall", "reduce-scatter", "scan", "exscan"}) {
    EXPECT_EQ(reason_for(real("misplaced", operation, 3, 24)), "the verification found a wrong result") << operation;
  }
}

TEST(RealWorker, ABarrierThatLetsRanksThroughIsFound) {
  EXPECT_EQ(reason_for(real("leaky", "barrier", 4)), "the verification found a wrong result");
}

TEST(RealWorker, AWrongResultInATimedRunIsFound) {
  const std::string reason = reason_for(real("late-mistake", "allreduce", 2));
  EXPECT_THAT(reason, testing::AnyOf("the verification found a wrong result", "a result of the timed runs is wrong"));
}

/// A late rank's operation counts from its arrival on: what the others waited before is not in it.
TEST(RealWorker, TheDelayOfALateRankDoesNotCount) {
  WorkerSpec spec;
  spec.name = "good";
  spec.operation = "barrier";
  spec.pus = {0, 1};
  spec.late_rank = 1;
  spec.late_ns = 50'000'000;
  const auto worker = real(spec);
  ContestOptions options = quick();
  options.turn_ms = 200;
  auto outcome = contest({worker}, options);
  // On a busy machine a rank may miss the few windows of a turn.
  for (int tries = 0; tries < 10 && outcome.results.empty(); ++tries) {
    ASSERT_EQ(outcome.left_out[0].reason, "no valid sample");
    outcome = contest({worker}, options);
  }
  ASSERT_EQ(outcome.results.size(), 1u) << outcome.left_out[0].reason;
  EXPECT_EQ(outcome.results[0].method, "window");
  EXPECT_LT(outcome.results[0].median_ns.value_or(1e9), 50'000'000);
}

TEST(RealWorker, SleepsBetweenItsTurns) {
  auto worker = WorkerProcess::start(real("good", "barrier", 4));
  ASSERT_TRUE(worker);
  std::string pid;
  for (;;) {
    auto line = worker->read_line(steady_clock::now() + seconds(20));
    ASSERT_TRUE(line);
    if (line->starts_with("pids ")) pid = line->substr(5);
    if (*line == "ready") break;
  }
  const auto used_ticks = [&pid] {
    std::ifstream file("/proc/" + pid + "/stat");
    std::string text;
    std::getline(file, text);
    unsigned long user = 0, kernel = 0;
    std::sscanf(text.c_str() + text.rfind(')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                &kernel);
    return user + kernel;
  };
  std::this_thread::sleep_for(milliseconds(50));
  const auto before = used_ticks();
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_LE(used_ticks() - before, 1u);  // of 30 per thread that spins
}

// ---------------------------------------------------------------- who takes part

std::vector<std::string> names_of(const WorkerSpec& team, const std::vector<std::string>& only = {}) {
  std::vector<std::string> names;
  const auto contestant_list = list_contestants(team, {"best", "binary"}, "/nonexistent/bin/smelt", only);
  for (const auto& contestant : contestant_list.contestants) names.push_back(contestant.name);
  for (const auto& absent : contestant_list.absent) names.push_back(absent.name);
  return names;
}

TEST(ContestantList, FollowsFromTheOperation) {
  WorkerSpec team;
  team.pus = {0, 1};
  team.operation = "broadcast";
  EXPECT_THAT(names_of(team), testing::IsSupersetOf({"floor", "smelt", "smelt/binary", "memcpy", "gomp", "openmpi"}));
  team.operation = "scan";
  EXPECT_THAT(names_of(team), testing::IsSupersetOf({"floor", "smelt", "gomp", "openmpi", "mpich"}));
  EXPECT_THAT(names_of(team), testing::Not(testing::Contains("smelt/binary")));
  team.processes = true;
  EXPECT_THAT(names_of(team), testing::UnorderedElementsAre("floor", "smelt", "openmpi", "mpich"));
}

TEST(ContestantList, VariantsTakePartWhenNamed) {
  EXPECT_TRUE(names_variant("smelt/strict", "barrier"));
  EXPECT_TRUE(names_variant("smelt/reduce_scatter_ring", "reduce-scatter"));
  EXPECT_FALSE(names_variant("smelt/reduce_scatter_ring", "allreduce"));
  EXPECT_FALSE(names_variant("smelt/binary", "allreduce"));
  WorkerSpec team;
  team.pus = {0, 1};
  team.operation = "allreduce";
  EXPECT_THAT(names_of(team, {"smelt", "smelt/allreduce_ring"}),
              testing::UnorderedElementsAre("floor", "smelt", "smelt/allreduce_ring"));
}

TEST(Arguments, RoundTrip) {
  WorkerSpec spec;
  spec.name = "smelt/k-nomial:3";
  spec.operation = "reduce";
  spec.threads = 5;
  spec.bytes = 123;
  spec.method = "window";
  spec.pus = {0, 2, 4, 0, 2};
  spec.model = "a file";
  spec.processes = true;
  spec.sync = "loose";
  spec.late_rank = 3;
  spec.late_ns = 5000;
  auto back = parse_worker_arguments(worker_arguments(spec));
  ASSERT_TRUE(back);
  EXPECT_EQ(worker_arguments(*back), worker_arguments(spec));
  EXPECT_TRUE(back->oversubscribed());
  EXPECT_TRUE(back->processes);
  EXPECT_EQ(back->late_ns, 5000u);
  EXPECT_EQ(back->resolved_method(), "loop+barrier");
  back->pus = {0, 1, 2, 3, 4};
  EXPECT_EQ(back->resolved_method(), "window");
}

TEST(Arguments, TheMethodFollowsFromOperationAndSize) {
  WorkerSpec spec;
  spec.pus = {0, 1};
  const auto method = [&](const char* operation, std::size_t bytes) {
    spec.operation = operation;
    spec.bytes = bytes;
    return spec.resolved_method();
  };
  EXPECT_EQ(method("barrier", 1 << 20), "loop");
  EXPECT_EQ(method("alltoall", 8), "loop");
  EXPECT_EQ(method("alltoall", 1 << 20), "window");
  for (const char* operation : {"broadcast", "reduce", "scatter", "gather", "scan", "exscan"}) {
    EXPECT_EQ(method(operation, 8), "window") << operation;
  }
  spec.method = "back-to-back";
  EXPECT_EQ(method("reduce", 8), "back-to-back");
  EXPECT_EQ(method("channel", 8), "loop");
  spec.method = "auto";
  spec.late_rank = 1;
  EXPECT_EQ(method("barrier", 8), "window");
  spec.late_rank = -1;
  spec.pus = {0};
  EXPECT_EQ(method("scan", 8), "loop+barrier");
  EXPECT_EQ(method("alltoall", 1 << 20), "loop");
}

TEST(Arguments, NonsenseIsRefused) {
  const std::vector<std::vector<std::string>> bad = {{},
                                                     {"--threads"},
                                                     {"--threads", "0"},
                                                     {"--pus", "1,,2"},
                                                     {"--pus", "-1"},
                                                     {"--what", "1"},
                                                     {"--bytes", "8x"},
                                                     {"--processes", "2"},
                                                     {"--late-ns", "-1"}};
  for (const auto& arguments : bad) EXPECT_FALSE(parse_worker_arguments(arguments));
}

}  // namespace
}  // namespace smelt::bench
