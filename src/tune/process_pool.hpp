// ProcessPool: the processes of a tuner over processes. The caller is rank 0, the other ranks are its children.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>
#include <vector>

#include "smelt/error.hpp"

namespace smelt::comm {

/// Unnamed memory for a rendezvous of processes (Communicator::create_shared). Released with the last process.
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
  /// Forks `ranks` - 1 children. Each runs `work(rank)` and exits with its result. Children are killed when the calling
  /// thread ends before them. They ignore SIGINT and SIGTERM, which terminals and `timeout` send to the whole process
  /// group; the parent handles them.
  /// Requirement: no other threads should exist, since children never get locks that other threads hold.
  /// Errors: io_error, fork(2) failed.
  static Result<ProcessPool> fork(int ranks, const std::function<int(int rank)>& work);

  ProcessPool(ProcessPool&& other) noexcept : children_(std::move(other.children_)) { other.children_.clear(); }
  ProcessPool& operator=(ProcessPool&&) = delete;
  ~ProcessPool() { end(0.0); }

  /// Waits for at most `patience_s` until all children have exited, then kills the others.
  void end(double patience_s) noexcept;

 private:
  ProcessPool() = default;
  std::vector<pid_t> children_;
};

}  // namespace smelt::comm
