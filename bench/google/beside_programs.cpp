// Question: what do calls of more ranks than PUs cost beside programs that compute?
// Method: four ranks on threads, with no, one or two programs beside them that never wait; the way of waiting that smelt
// chooses (auto), and the one that gives the PU to the others for ever (yield). Mean times of calls in rounds of a
// fifth of a second.
// Each series in a process of its own (--benchmark_filter): a process that has shared PUs with others sleeps for up to
// five seconds after.
// Expected shape: auto is like yield beside no program. Beside others yield takes time slices for each message, auto
// wake-ups.
#include <benchmark/benchmark.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "smelt/communicator.hpp"

namespace {

constexpr int ranks = 4;
using Clock = std::chrono::steady_clock;

/// Processes that compute until they are destroyed.
class Programs {
 public:
  explicit Programs(long count) {
    for (long i = 0; i < count; ++i) {
      const pid_t process = fork();
      if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned long turns = 0;; ++turns) benchmark::DoNotOptimize(turns);
      }
      if (process > 0) processes_.push_back(process);
    }
  }
  Programs(const Programs&) = delete;
  ~Programs() {
    for (const pid_t process : processes_) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }

 private:
  std::vector<pid_t> processes_;
};

/// Seconds per call of one rank, over a fifth of a second.
double round_of(smelt::Communicator& communicator, bool all_to_all, std::size_t count) {
  double seconds = 0;
  const auto ran = communicator.run([&](smelt::Rank& rank) {
    std::vector<double> in(count * ranks, 1.0), out(in.size());
    const auto start = Clock::now();
    long calls = 0;
    for (bool more = true; more;) {
      for (int i = 0; i < 8; ++i, ++calls) {
        if (all_to_all) {
          rank.alltoall(in.data(), out.data(), count * sizeof(double));
        } else {
          rank.allreduce(in.data(), out.data(), count, smelt::sum<double>());
        }
      }
      more = Clock::now() - start < std::chrono::milliseconds(200);
      rank.broadcast(&more, sizeof more);
    }
    if (rank.rank() == 0) {
      seconds = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(calls);
    }
  });
  return ran ? seconds : 0;
}

void calls(benchmark::State& state, const std::string& wait, bool all_to_all) {
  const Programs programs(state.range(1));
  smelt::CommunicatorOptions options;
  options.wait = wait;
  auto communicator = smelt::Communicator::create(ranks, options);
  if (!communicator) return state.SkipWithError(communicator.error().message.c_str());
  for (auto _ : state) {
    const double seconds =
        round_of(*communicator, all_to_all, static_cast<std::size_t>(state.range(0)) / sizeof(double));
    if (seconds == 0) return state.SkipWithError("the ranks did not run");
    state.SetIterationTime(seconds);
  }
}

void cells(benchmark::internal::Benchmark* cell) {
  cell->ArgNames({"bytes", "programs"})->ArgsProduct({{8, 65536, 524288}, {0, 1, 2}});
  cell->UseManualTime()->Iterations(5)->Unit(benchmark::kMicrosecond);
}
BENCHMARK_CAPTURE(calls, allreduce_auto, "auto", false)->Apply(cells);
BENCHMARK_CAPTURE(calls, allreduce_yield, "yield", false)->Apply(cells);
BENCHMARK_CAPTURE(calls, alltoall_auto, "auto", true)->Apply(cells);
BENCHMARK_CAPTURE(calls, alltoall_yield, "yield", true)->Apply(cells);

}  // namespace
