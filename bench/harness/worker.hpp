// The worker's side of a benchmark. Every contestant is a process with `threads` ranks (threads,
// or processes of MPI). Each rank calls Team::serve with its operations and stays there until the
// parent says quit: all contestants are timed by the same code, in timing.hpp.
//
// Line protocol, worker's view (ns, decimal):
//   out:  pids 100 101             processes of the team, so that the parent can end them
//         info KEY VALUE           "method", "predicted_ns"
//         ready                    verified and calibrated
//   in:   round MICROSECONDS       measure for about so long
//   out:  series time V V V ...    samples (also "message" for channels)
//         done
//   in:   quit
//   out:  error TEXT               at any time; the worker is then left out
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "smelt/error.hpp"

namespace smelt::bench {

struct WorkerSpec {
  std::string name;             ///< of the contestant
  std::string operation;        ///< a name out of benchmarks() (contestants.hpp)
  int threads = 2;              ///< ranks
  bool processes = false;       ///< the ranks are processes, else threads of one
  std::size_t bytes = 8;        ///< of a message: the vector, or the block that one rank has for another
  std::string method = "auto";  ///< auto, loop, window, back-to-back
  std::vector<int> pus;         ///< os_index of rank r's PU
  std::string model;            ///< machine file for contestants that plan; empty: the cached one
  std::string sync;             ///< loose, strict; empty: the contestant's default
  int late_rank = -1;           ///< this rank enters each operation later than the others; -1: none
  std::uint64_t late_ns = 0;    ///< by so much

  /// More ranks than PUs.
  bool oversubscribed() const;
  /// The method in force: "loop", "loop+barrier", "back-to-back" or "window". See docs/explanation/benchmarking.md.
  std::string resolved_method() const;
};

/// The arguments that parse_worker_arguments reads back: --name X --operation X ...
std::vector<std::string> worker_arguments(const WorkerSpec& spec);
Result<WorkerSpec> parse_worker_arguments(std::span<const std::string> arguments);

/// What rank 0 asks all ranks to do next.
struct Phase {
  enum class Kind : std::uint32_t { quit, verify, loop, empty_loop, window, empty_window, stream };
  Kind kind = Kind::quit;
  std::uint32_t samples = 0;       ///< stamps that every rank leaves
  std::uint32_t per_sample = 1;    ///< operations between two stamps (loop, stream)
  std::uint64_t start_ticks = 0;   ///< of the first window
  std::uint64_t period_ticks = 0;  ///< between windows
  std::uint64_t late_ticks = 0;    ///< by which the late rank enters after the others
  std::uint32_t warm_up = 0;       ///< operations before the first window, not timed
};

/// Shared memory of a team: the phase to run, and a row of stamps per rank. Plain data, no
/// pointers: it is shared between the processes of an MPI contestant.
class Control {
 public:
  static constexpr std::uint32_t max_samples = 1000;

  /// For ranks that are threads of this process, or processes that it forks afterwards.
  static Result<Control> create(int ranks);
  /// For ranks that are processes: the creator keeps the memory open under path(), others open it.
  static Result<Control> create_shared(int ranks);
  static Result<Control> open(const std::string& path, int ranks);
  std::string path() const;

  Control(Control&& other) noexcept;
  Control& operator=(Control&&) = delete;
  ~Control();

  int ranks() const noexcept { return ranks_; }

  /// Rank 0: publishes a phase and wakes the others.
  void begin(const Phase& phase) noexcept;
  /// Other ranks: sleep until the next phase. `seen` counts the phases of this rank, from 0.
  Phase await(std::uint32_t& seen) noexcept;
  /// Other ranks: this phase is done here. `good`: all results were right.
  void arrive(bool good) noexcept;
  /// Rank 0: sleeps until all others have arrived. True if all were good.
  bool finish() noexcept;

  std::uint64_t* stamps(int rank) noexcept;
  /// Of the verification of barriers: the last operation that a rank has entered.
  std::atomic<std::uint64_t>& entered(int rank) noexcept;

 private:
  struct Header;
  Control(void* memory, std::size_t bytes, int ranks, int file) noexcept;
  static Result<Control> map(int file, int ranks);
  Header& header() noexcept { return *static_cast<Header*>(memory_); }
  std::byte* row(int rank) noexcept;

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  int ranks_ = 0;
  int file_ = -1;  ///< -1: anonymous
};

/// One rank's place in a team. The references outlive the team's work.
struct Member {
  const WorkerSpec& spec;
  Control& control;
  int rank;
};

/// What rank 0 tells the parent before it starts.
struct Introduction {
  std::vector<int> pids;                                   ///< empty: this process alone
  std::vector<std::pair<std::string, std::string>> facts;  ///< info lines
};

/// Rank 0's part: verifies, calibrates, then serves the parent's rounds. `execute` does this
/// rank's share of a phase and says whether all results were right. True after a clean quit.
bool coordinate(const Member& member, const Introduction& introduction,
                const std::function<bool(const Phase&)>& execute);

/// Prepares a worker process: dies with its parent. Call first.
void prepare_worker_process();

/// Pins the calling thread to the PU of its rank. The same for every contestant.
void pin_rank(const WorkerSpec& spec, int rank);

/// Runs f(rank) on spec.threads threads; the calling thread is rank 0.
void run_threads(const WorkerSpec& spec, const std::function<void(int rank)>& f);

/// Tells the parent why this worker cannot run; returns the exit status.
int fail_worker(const std::string& reason);

}  // namespace smelt::bench
