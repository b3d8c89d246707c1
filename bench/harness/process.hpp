// A worker process seen from its parent: lines in, lines out, a deadline on everything.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "harness/contest.hpp"
#include "smelt/error.hpp"

namespace smelt::bench {

using Deadline = std::chrono::steady_clock::time_point;

/// While one lives: SIGINT, SIGTERM and SIGHUP only set a flag unless they were ignored, SIGPIPE is ignored. Not
/// nested.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();  ///< restores the handlers, then delivers a signal that was caught
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;
  static bool interrupted() noexcept;
};

/// A private directory for files of the peers' runtimes; removed with all it holds. A new one
/// also removes those of processes that were killed before they could.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A child in a process group of its own that is killed when the parent's thread ends.
class WorkerProcess {
 public:
  /// Errors: no process or file to be had. A program that is not there shows as an exit.
  static Result<WorkerProcess> start(const Contestant& contestant);

  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  ~WorkerProcess();  ///< ends it

  /// Next line of its output, without the newline. Errors: timed_out; broken if it exited, was
  /// interrupted, or wrote a line of more than 1 MiB.
  Result<std::string> read_line(Deadline deadline);
  /// False if the worker cannot be written to.
  bool write_line(const std::string& line);

  /// Further processes of the team, to be ended with it. Those that do not descend from the
  /// worker are refused.
  bool adopt(const std::vector<pid_t>& team);

  /// Asks it to quit, then SIGTERM, then SIGKILL to all of the team. Returns when it is gone.
  void end(bool politely);

 private:
  WorkerProcess() = default;
  bool wait_until(Deadline deadline);
  std::string describe_exit();
  std::string first_complaint() const;

  pid_t pid_ = -1;
  int input_ = -1;         ///< its stdin
  int output_ = -1;        ///< its stdout
  int complaints_ = -1;    ///< its stderr, a file in memory
  int status_ = 0;         ///< of its end, once pid_ is -1
  std::vector<int> team_;  ///< pidfds
  std::string pending_;    ///< output not yet handed out
};

}  // namespace smelt::bench
