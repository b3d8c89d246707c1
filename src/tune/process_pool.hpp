// ProcessPool: the processes of a tuner over processes. The caller is rank 0, the other ranks are its children.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>
#include <vector>

#include "smelt/error.hpp"

namespace smelt::comm {

/// Memory without a name that processes can meet over (Communicator::create_shared); gone with the last of them.
class RendezvousMemory {
 public:
  static Result<RendezvousMemory> create();
  RendezvousMemory(RendezvousMemory&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RendezvousMemory& operator=(RendezvousMemory&&) = delete;
  ~RendezvousMemory();
  int fd() const noexcept { return fd_; }

 private:
  explicit RendezvousMemory(int fd) noexcept : fd_(fd) {}
  int fd_;
};

class ProcessPool {
 public:
  /// Forks `ranks` - 1 children. Each runs `work(rank)`, ends with its result as status, and is killed when the
  /// calling thread ends before it. They leave SIGINT and SIGTERM, which a terminal or `timeout` sends to all, to
  /// the parent.
  /// Requirements: what other threads of the caller hold, the children never get: best called while there are none.
  /// Errors: io_error, no process to be had.
  static Result<ProcessPool> fork(int ranks, const std::function<int(int rank)>& work);

  ProcessPool(ProcessPool&& other) noexcept : children_(std::move(other.children_)) { other.children_.clear(); }
  ProcessPool& operator=(ProcessPool&&) = delete;
  ~ProcessPool() { end(0.0); }

  /// Waits until all have ended by themselves, for `patience_s` at most, then kills those that have not.
  void end(double patience_s) noexcept;

 private:
  ProcessPool() = default;
  std::vector<pid_t> children_;
};

}  // namespace smelt::comm
