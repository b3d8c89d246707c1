// Collectives as users write them on a barrier and shared memory:
//
//   broadcast: root copies in | barrier | others copy out
//   reduce:    all copy in    | barrier | root (allreduce: everyone) adds up all rows
//   two-phase commit: proposal as broadcast, votes in | barrier | everyone reads all votes
//   the others: ranks with data copy it in | barrier | every rank takes or adds up its part
//
// The buffers alternate between two, so that one barrier is enough: a rank that writes buffer b again has passed the
// barrier of the operation in between, and so has every rank that read b.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "base/cacheline.hpp"
#include "peers/peer.hpp"

namespace smelt::bench {

/// What a team shares. Barrier: constructed from the number of threads; wait(rank).
template <class Barrier>
class SharedMemory {
 public:
  explicit SharedMemory(const WorkerSpec& spec)
      : barrier(spec.threads),
        ranks(spec.threads),
        stride((row_bytes(spec) / separation_bytes + 2) * separation_bytes),
        rows_(2 * static_cast<std::size_t>(spec.threads) * stride + separation_bytes) {}

  /// The row of a rank in buffer 0 or 1: all that it puts in, and one vote behind it.
  std::byte* row(std::uint64_t buffer, int rank) {
    void* start = rows_.data();
    std::size_t space = rows_.size();
    std::align(separation_bytes, space - separation_bytes, start, space);
    return static_cast<std::byte*>(start) +
           (buffer * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(rank)) * stride;
  }

  Barrier barrier;
  const int ranks;
  const std::size_t stride;

 private:
  static std::size_t row_bytes(const WorkerSpec& spec) {
    const bool for_each =
        spec.operation == "scatter" || spec.operation == "alltoall" || spec.operation == "reduce-scatter";
    return spec.bytes * static_cast<std::size_t>(for_each ? spec.threads : 1);
  }

  std::vector<std::byte> rows_;
};

/// One rank's view.
template <class Barrier>
class SharedMemoryOps {
 public:
  SharedMemoryOps(SharedMemory<Barrier>& shared, int rank) : shared_(shared), rank_(rank) {}

  void barrier() { shared_.barrier.wait(rank_); }

  void broadcast(void* data, std::size_t bytes) {
    std::byte* message = shared_.row(turn_++ % 2, 0);
    if (rank_ == 0) std::memcpy(message, data, bytes);
    barrier();
    if (rank_ != 0) std::memcpy(data, message, bytes);
  }

  void reduce(const double* in, double* out, std::size_t count) {
    const std::uint64_t buffer = deposit(in, count * sizeof(double));
    if (rank_ == 0) add_up(buffer, shared_.ranks, 0, out, count);
  }
  void allreduce(const double* in, double* out, std::size_t count) {
    add_up(deposit(in, count * sizeof(double)), shared_.ranks, 0, out, count);
  }
  void reduce_scatter(const double* in, double* out, std::size_t count) {
    const auto mine = static_cast<std::size_t>(rank_);
    add_up(deposit(in, count * ranks() * sizeof(double)), shared_.ranks, mine * count, out, count);
  }
  void scan(const double* in, double* out, std::size_t count) {
    add_up(deposit(in, count * sizeof(double)), rank_ + 1, 0, out, count);
  }
  void exscan(const double* in, double* out, std::size_t count) {
    const std::uint64_t buffer = deposit(in, count * sizeof(double));
    if (rank_ > 0) add_up(buffer, rank_, 0, out, count);
  }

  void scatter(const void* in, void* out, std::size_t block) {
    const std::uint64_t buffer = deposit(in, rank_ == 0 ? block * ranks() : 0);
    std::memcpy(out, shared_.row(buffer, 0) + static_cast<std::size_t>(rank_) * block, block);
  }
  void gather(const void* in, void* out, std::size_t block) {
    const std::uint64_t buffer = deposit(in, block);
    if (rank_ == 0) collect(buffer, 0, out, block);
  }
  void allgather(const void* in, void* out, std::size_t block) { collect(deposit(in, block), 0, out, block); }
  void alltoall(const void* in, void* out, std::size_t block) {
    const std::uint64_t buffer = deposit(in, block * ranks());
    collect(buffer, static_cast<std::size_t>(rank_) * block, out, block);
  }

  bool two_phase_commit(void* proposal, std::size_t bytes, bool vote) {
    const std::uint64_t buffer = turn_ % 2;
    broadcast(proposal, bytes);
    std::memcpy(shared_.row(buffer, rank_) + bytes, &vote, 1);
    barrier();
    bool all = true;
    for (int r = 0; r < shared_.ranks; ++r) {
      bool other = false;
      std::memcpy(&other, shared_.row(buffer, r) + bytes, 1);
      all &= other;
    }
    return all;
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(shared_.ranks); }

  std::uint64_t deposit(const void* in, std::size_t bytes) {
    const std::uint64_t buffer = turn_++ % 2;
    std::memcpy(shared_.row(buffer, rank_), in, bytes);
    barrier();
    return buffer;
  }

  /// The block at `offset` of every rank's row.
  void collect(std::uint64_t buffer, std::size_t offset, void* out, std::size_t block) {
    for (int r = 0; r < shared_.ranks; ++r) {
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(r) * block, shared_.row(buffer, r) + offset,
                  block);
    }
  }

  /// The first `rows` rows from element `first` on.
  void add_up(std::uint64_t buffer, int rows, std::size_t first, double* out, std::size_t count) {
    const auto row = [&](int r) { return reinterpret_cast<const double*>(shared_.row(buffer, r)) + first; };
    std::memcpy(out, row(0), count * sizeof(double));
    for (int r = 1; r < rows; ++r) {
      const double* from = row(r);
      for (std::size_t e = 0; e < count; ++e) out[e] += from[e];
    }
  }

  SharedMemory<Barrier>& shared_;
  const int rank_;
  std::uint64_t turn_ = 0;
};

/// A whole peer: the collectives above on a kind of barrier.
template <class Barrier>
int serve_shared_memory(const WorkerSpec& spec) {
  SharedMemory<Barrier> shared(spec);
  return serve_thread_team(spec, [&](int rank) { return SharedMemoryOps<Barrier>(shared, rank); });
}

}  // namespace smelt::bench
