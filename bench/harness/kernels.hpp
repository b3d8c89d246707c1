// One rank's part of each benchmark, the same for every contestant: the inputs, the call, and the check of the result.
// timing.hpp runs kernels:
//
//   prepare(i, effort)  writes the inputs of operation i: a word of each cache line, or, to be
//                       verified, every word
//   operate(i)          the call that is timed
//   read()              reads the result as a program would: a word of each cache line (their sum)
//   check(i)            looks at the ends of the results       check_fully(i)  looks at all of them
//   settle()            a barrier, where operations must not run ahead of each other
//   starts()            whether this rank sends before it has received anything
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/cacheline.hpp"
#include "base/cacheline_padded.hpp"
#include "base/read_timing.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {

/// How much a kernel does around an operation.
enum class Effort { timed, verified };

/// Messages of `bytes` bytes back to back, one per block, whose every word depends on the operation
/// and on the way (any number) that the message goes. Blocks are written in ascending order: a
/// word that ends beyond its block is put right by the next one.
class Pattern {
 public:
  explicit Pattern(std::size_t bytes, std::size_t blocks = 1)
      : bytes_(bytes), words_((bytes + 7) / 8), memory_(bytes * blocks + 8) {}

  std::byte* data() { return memory_.data(); }

  void fill(std::uint64_t operation, std::size_t block = 0, std::uint64_t way = 0) {
    for (std::size_t w = 0; w < words_; ++w) put(block, w, word(operation, way, w));
  }
  /// A word of each cache line, and the last.
  void touch(std::uint64_t operation, std::size_t block = 0, std::uint64_t way = 0) {
    if (words_ == 0) return;
    for (std::size_t w = 0; w < words_; w += words_per_line) put(block, w, word(operation, way, w));
    put(block, words_ - 1, word(operation, way, words_ - 1));
  }
  void write(Effort effort, std::uint64_t operation, std::size_t block = 0, std::uint64_t way = 0) {
    effort == Effort::verified ? fill(operation, block, way) : touch(operation, block, way);
  }

  std::uint64_t read() const { return read_lines(memory_.data(), memory_.size() - 8); }

  bool ends_match(std::uint64_t operation, std::size_t block = 0, std::uint64_t way = 0) const {
    if (words_ == 0) return true;
    return matches_at(operation, block, way, 0) && matches_at(operation, block, way, words_ - 1);
  }
  bool matches(std::uint64_t operation, std::size_t block = 0, std::uint64_t way = 0) const {
    for (std::size_t w = 0; w < words_; ++w) {
      if (!matches_at(operation, block, way, w)) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t words_per_line = line_bytes / 8;

  static std::uint64_t word(std::uint64_t operation, std::uint64_t way, std::size_t w) {
    return (operation + 1) * 0x9E3779B97F4A7C15u + way * 0xC2B2AE3D27D4EB4Fu + w * 0x0101010101010101u;
  }
  void put(std::size_t block, std::size_t w, std::uint64_t value) {
    std::memcpy(memory_.data() + block * bytes_ + 8 * w, &value, 8);
  }
  bool matches_at(std::uint64_t operation, std::size_t block, std::uint64_t way, std::size_t w) const {
    const std::uint64_t expected = word(operation, way, w);
    const std::byte* at = memory_.data() + block * bytes_ + 8 * w;
    const std::size_t rest = bytes_ - 8 * w;
    return rest >= 8 ? std::memcmp(at, &expected, 8) == 0 : std::memcmp(at, &expected, rest) == 0;
  }

  std::size_t bytes_;
  std::size_t words_;
  CachelinePaddedVector<std::byte> memory_;
};

template <class Ops>
struct BarrierKernel {
  BarrierKernel(const Member& place, Ops& operations) : member(place), ops(operations) {}
  void prepare(std::uint64_t i, Effort effort) {
    // Relaxed: the barrier under test must order it; if it does not, check_fully notices.
    if (effort == Effort::verified) member.control.entered(member.rank).store(i + 1, std::memory_order_relaxed);
  }
  void operate(std::uint64_t) { ops.barrier(); }
  std::uint64_t read() const { return 0; }
  bool starts() const { return true; }
  void settle() {}
  bool check(std::uint64_t) const { return true; }
  bool check_fully(std::uint64_t i) {
    for (int r = 0; r < member.spec.threads; ++r) {
      if (member.control.entered(r).load(std::memory_order_relaxed) < i + 1) return false;
    }
    return true;
  }
  Member member;
  Ops& ops;
};

template <class Ops>
struct BroadcastKernel {
  BroadcastKernel(const Member& member, Ops& operations)
      : rank(member.rank), bytes(member.spec.bytes), ops(operations), message(bytes) {}
  void prepare(std::uint64_t i, Effort effort) {
    if (rank == 0) message.write(effort, i);
  }
  void operate(std::uint64_t) { ops.broadcast(message.data(), bytes); }
  std::uint64_t read() const { return rank == 0 ? 0 : message.read(); }
  bool starts() const { return rank == 0; }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const { return message.ends_match(i); }
  bool check_fully(std::uint64_t i) const { return message.matches(i); }
  int rank;
  std::size_t bytes;
  Ops& ops;
  Pattern message;
};

/// The operations that move blocks: block (s, d) is what rank s has for rank d.
///
///                in            out
///   scatter      root: (0, *)  (0, r)
///   gather       (r, 0)        root: (*, 0)
///   allgather    (r, 0)        (*, 0)
///   alltoall     (r, *)        (*, r)
enum class Move { scatter, gather, allgather, alltoall };

template <class Ops, Move move>
struct MoveKernel {
  MoveKernel(const Member& member, Ops& operations)
      : rank(static_cast<std::size_t>(member.rank)),
        ranks(static_cast<std::size_t>(member.spec.threads)),
        bytes(member.spec.bytes),
        ops(operations),
        sent(move == Move::scatter    ? (rank == 0 ? ranks : 0)
             : move == Move::alltoall ? ranks
                                      : 1),
        received(move == Move::scatter  ? 1
                 : move == Move::gather ? (rank == 0 ? ranks : 0)
                                        : ranks),
        in(bytes, sent),
        out(bytes, received) {}

  void prepare(std::uint64_t i, Effort effort) {
    for (std::size_t b = 0; b < sent; ++b) in.write(effort, i, b, way(rank, to_each ? b : 0));
  }
  void operate(std::uint64_t) {
    if constexpr (move == Move::scatter) ops.scatter(in.data(), out.data(), bytes);
    if constexpr (move == Move::gather) ops.gather(in.data(), out.data(), bytes);
    if constexpr (move == Move::allgather) ops.allgather(in.data(), out.data(), bytes);
    if constexpr (move == Move::alltoall) ops.alltoall(in.data(), out.data(), bytes);
  }
  std::uint64_t read() const { return out.read(); }
  bool starts() const {
    if (move == Move::scatter) return rank == 0;
    return move != Move::gather || rank != 0 || ranks == 1;
  }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const {
    bool good = true;
    for (std::size_t b = 0; b < received; ++b) good &= out.ends_match(i, b, way(from(b), to_each ? rank : 0));
    return good;
  }
  bool check_fully(std::uint64_t i) const {
    bool good = true;
    for (std::size_t b = 0; b < received; ++b) good &= out.matches(i, b, way(from(b), to_each ? rank : 0));
    return good;
  }

  static constexpr bool to_each = move == Move::scatter || move == Move::alltoall;
  std::size_t from(std::size_t block) const { return move == Move::scatter ? 0 : block; }
  std::uint64_t way(std::size_t source, std::size_t destination) const { return source * ranks + destination; }

  std::size_t rank, ranks, bytes;
  Ops& ops;
  std::size_t sent, received;  ///< blocks
  Pattern in, out;
};

/// The operations that add up: sums of doubles that are small integers, so that the result is
/// exact in any order. Element e of rank r is r + term(i, e).
enum class Sum { reduce, allreduce, reduce_scatter, scan, exscan };

template <class Ops, Sum sum>
struct SumKernel {
  SumKernel(const Member& member, Ops& operations)
      : rank(member.rank),
        ranks(member.spec.threads),
        count(std::max<std::size_t>(1, member.spec.bytes / sizeof(double))),
        slices(sum == Sum::reduce_scatter ? static_cast<std::size_t>(ranks) : 1),
        ops(operations),
        in(count * slices),
        out(count) {}

  void prepare(std::uint64_t i, Effort effort) {
    const std::size_t step = effort == Effort::verified ? 1 : line_bytes / sizeof(double);
    for (std::size_t s = 0; s < slices; ++s) {
      for (std::size_t e = 0; e < count; e += step) put(i, s * count + e);
      put(i, s * count + count - 1);
    }
  }
  void operate(std::uint64_t) {
    if constexpr (sum == Sum::reduce) ops.reduce(in.data(), out.data(), count);
    if constexpr (sum == Sum::allreduce) ops.allreduce(in.data(), out.data(), count);
    if constexpr (sum == Sum::reduce_scatter) ops.reduce_scatter(in.data(), out.data(), count);
    if constexpr (sum == Sum::scan) ops.scan(in.data(), out.data(), count);
    if constexpr (sum == Sum::exscan) ops.exscan(in.data(), out.data(), count);
  }
  std::uint64_t read() const { return has_result() ? read_lines(out.data(), count * sizeof(double)) : 0; }
  bool starts() const {
    if (ranks == 1) return true;
    if (sum == Sum::reduce) return rank != 0;
    return (sum != Sum::scan && sum != Sum::exscan) || rank != ranks - 1;
  }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const { return matches(i, 0) && matches(i, count - 1); }
  bool check_fully(std::uint64_t i) const {
    for (std::size_t e = 0; e < count; ++e) {
      if (!matches(i, e)) return false;
    }
    return true;
  }

  static double term(std::uint64_t i, std::size_t e) { return static_cast<double>(i % 1024 + e % 64); }
  void put(std::uint64_t i, std::size_t e) { in[e] = rank + term(i, e); }
  /// Of an exclusive scan nothing is before rank 0.
  bool has_result() const { return sum == Sum::reduce ? rank == 0 : sum != Sum::exscan || rank != 0; }
  bool matches(std::uint64_t i, std::size_t e) const {
    if (!has_result()) return true;
    const std::size_t first = sum == Sum::reduce_scatter ? static_cast<std::size_t>(rank) * count : 0;
    const int terms = sum == Sum::scan ? rank + 1 : sum == Sum::exscan ? rank : ranks;
    return out[e] == terms * (terms - 1) / 2.0 + terms * term(i, first + e);
  }

  int rank, ranks;
  std::size_t count;   ///< of results
  std::size_t slices;  ///< of `count` elements, in the input
  Ops& ops;
  CachelinePaddedVector<double> in, out;
};

/// Every fourth proposal is turned down by one rank, each time another one.
template <class Ops>
struct TwoPhaseCommitKernel {
  TwoPhaseCommitKernel(const Member& member, Ops& operations)
      : rank(member.rank), ranks(member.spec.threads), bytes(member.spec.bytes), ops(operations), message(bytes) {}
  void prepare(std::uint64_t i, Effort effort) {
    if (rank == 0) message.write(effort, i);
  }
  static bool accepted(std::uint64_t i) { return i % 4 != 3; }
  void operate(std::uint64_t i) {
    const bool vote = accepted(i) || i / 4 % static_cast<std::uint64_t>(ranks) != static_cast<std::uint64_t>(rank);
    committed = ops.two_phase_commit(message.data(), bytes, vote);
  }
  std::uint64_t read() const { return rank == 0 ? 0 : message.read(); }
  bool starts() const { return rank == 0; }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const { return committed == accepted(i) && message.ends_match(i); }
  bool check_fully(std::uint64_t i) const { return committed == accepted(i) && message.matches(i); }
  int rank;
  int ranks;
  std::size_t bytes;
  Ops& ops;
  Pattern message;
  bool committed = false;
};

/// Round trips between rank 0 and rank 1, and a one-way stream from 0 to 1.
template <class Ops>
struct ChannelKernel {
  ChannelKernel(const Member& member, Ops& operations)
      : rank(member.rank), bytes(member.spec.bytes), ops(operations), message(bytes) {}
  void prepare(std::uint64_t i, Effort effort) {
    if (rank == 0) message.write(effort, i);
  }
  void operate(std::uint64_t) {
    if (rank == 0) {
      ops.send(0, message.data(), bytes);
      ops.receive(0, message.data(), bytes);
    } else {
      ops.receive(1, message.data(), bytes);
      ops.send(1, message.data(), bytes);
    }
  }
  std::uint64_t read() const { return message.read(); }
  bool starts() const { return rank == 0; }
  void settle() {}
  bool check(std::uint64_t i) const { return message.ends_match(i); }  // on rank 1 after the answer is sent
  bool check_fully(std::uint64_t i) const { return message.matches(i); }
  /// Message i of a stream; on the receiver: did it hold what was sent?
  bool pass(std::uint64_t i) {
    if (rank == 0) {
      message.touch(i);
      ops.send(0, message.data(), bytes);
      return true;
    }
    ops.receive(1, message.data(), bytes);
    return message.ends_match(i);
  }
  int rank;
  std::size_t bytes;
  Ops& ops;
  Pattern message;
};

}  // namespace smelt::bench
