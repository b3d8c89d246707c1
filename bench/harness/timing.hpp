// How one rank is timed: the same code, inlined, for every contestant.
//
//   loop:    |op op op ... op|op op op ... op|     a stamp every per_sample operations;
//            s0              s1              s2    sample = max over ranks of (s1 - s0) / per_sample,
//                                                  less what the loop costs without its operations
//   window:  T0 op . . T1 op . . T2 op . .         every operation starts at an agreed tick on the
//               e0        e1        e2             ranks that have something to send; those that only
//                                                  receive at first are in it before. sample = max
//                                                  over ranks of (e - T), less an empty window's
//
// A kernel is one rank's part of one benchmark:
//   prepare(i)  writes the inputs of operation i        operate(i)  the call that is timed
//   check(i)    looks at the ends of the results        check_fully(i)  looks at all of them
//   settle()    a barrier, where operations must not run ahead of each other
//   starts()    whether this rank sends before it has received anything
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/clock.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {

/// How much a kernel does around an operation.
enum class Effort { timed, verified };

/// A message whose every word depends on the operation it belongs to.
class Pattern {
 public:
  explicit Pattern(std::size_t bytes) : bytes_(bytes), words_((bytes + 7) / 8 + 1) {}

  std::byte* data() { return reinterpret_cast<std::byte*>(words_.data()); }

  void fill(std::uint64_t operation) {
    for (std::size_t w = 0; w + 1 < words_.size(); ++w) words_[w] = word(operation, w);
  }
  bool ends_match(std::uint64_t operation) const {
    if (bytes_ == 0) return true;
    return matches(operation, 0) && matches(operation, (bytes_ - 1) / 8);
  }
  bool matches(std::uint64_t operation) const {
    for (std::size_t w = 0; w + 1 < words_.size(); ++w) {
      if (!matches(operation, w)) return false;
    }
    return true;
  }

 private:
  static std::uint64_t word(std::uint64_t operation, std::size_t w) {
    return (operation + 1) * 0x9E3779B97F4A7C15u + w * 0x0101010101010101u;
  }
  bool matches(std::uint64_t operation, std::size_t w) const {
    const std::uint64_t expected = word(operation, w);
    if (bytes_ - 8 * w >= 8) return words_[w] == expected;
    return std::memcmp(&words_[w], &expected, bytes_ - 8 * w) == 0;
  }

  std::size_t bytes_;
  std::vector<std::uint64_t> words_;
};

template <class Ops>
struct BarrierKernel {
  BarrierKernel(const Member& place, Ops& operations) : member(place), ops(operations) {}
  void prepare(std::uint64_t i, Effort effort) {
    // Relaxed: the barrier under test must order it; if it does not, check_fully notices.
    if (effort == Effort::verified) member.control.entered(member.rank).store(i + 1, std::memory_order_relaxed);
  }
  void operate(std::uint64_t) { ops.barrier(); }
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
  void prepare(std::uint64_t i, Effort) {
    if (rank == 0) message.fill(i);
  }
  void operate(std::uint64_t) { ops.broadcast(message.data(), bytes); }
  bool starts() const { return rank == 0; }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const { return message.ends_match(i); }
  bool check_fully(std::uint64_t i) const { return message.matches(i); }
  int rank;
  std::size_t bytes;
  Ops& ops;
  Pattern message;
};

/// Sums of doubles that are small integers, so that the result is exact in any order.
template <class Ops, bool everywhere>
struct ReduceKernel {
  ReduceKernel(const Member& member, Ops& operations)
      : rank(member.rank), ranks(member.spec.threads), ops(operations), in(count_of(member.spec)), out(in.size(), -1) {}
  static std::size_t count_of(const WorkerSpec& spec) { return std::max<std::size_t>(1, spec.bytes / sizeof(double)); }

  void prepare(std::uint64_t i, Effort) {
    for (std::size_t e = 0; e < in.size(); ++e) in[e] = rank + term(i, e);
  }
  void operate(std::uint64_t) {
    if constexpr (everywhere) {
      ops.allreduce(in.data(), out.data(), in.size());
    } else {
      ops.reduce(in.data(), out.data(), in.size());
    }
  }
  bool starts() const { return everywhere || rank != 0 || ranks == 1; }
  void settle() { ops.barrier(); }
  bool check(std::uint64_t i) const { return matches(i, 0) && matches(i, in.size() - 1); }
  bool check_fully(std::uint64_t i) const {
    for (std::size_t e = 0; e < in.size(); ++e) {
      if (!matches(i, e)) return false;
    }
    return true;
  }
  static double term(std::uint64_t i, std::size_t e) { return static_cast<double>(i % 1024 + e % 64); }
  bool matches(std::uint64_t i, std::size_t e) const {
    if (!everywhere && rank != 0) return true;
    return out[e] == ranks * (ranks - 1) / 2.0 + ranks * term(i, e);
  }
  int rank;
  int ranks;
  Ops& ops;
  std::vector<double> in, out;
};

/// Every fourth proposal is turned down by one rank, each time another one.
template <class Ops>
struct TwoPhaseCommitKernel {
  TwoPhaseCommitKernel(const Member& member, Ops& operations)
      : rank(member.rank), ranks(member.spec.threads), bytes(member.spec.bytes), ops(operations), message(bytes) {}
  void prepare(std::uint64_t i, Effort) {
    if (rank == 0) message.fill(i);
  }
  static bool accepted(std::uint64_t i) { return i % 4 != 3; }
  void operate(std::uint64_t i) {
    const bool vote = accepted(i) || i / 4 % static_cast<std::uint64_t>(ranks) != static_cast<std::uint64_t>(rank);
    committed = ops.two_phase_commit(message.data(), bytes, vote);
  }
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
  void prepare(std::uint64_t i, Effort) {
    if (rank == 0) message.fill(i);
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
  bool starts() const { return rank == 0; }
  void settle() {}
  bool check(std::uint64_t i) const { return message.ends_match(i); }  // on rank 1 after the answer is sent
  bool check_fully(std::uint64_t i) const { return message.matches(i); }
  /// Message i of a stream; on the receiver: did it hold what was sent?
  bool pass(std::uint64_t i) {
    if (rank == 0) {
      message.fill(i);
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

/// One rank's run through phases. `iteration` advances alike on all ranks.
template <class Kernel>
class Runner {
 public:
  Runner(const Member& member, Kernel& kernel)
      : member_(member), kernel_(kernel), settle_(member.spec.resolved_method() != "loop") {}

  /// Does this rank's share of a phase; true if all results were right.
  bool execute(const Phase& phase) {
    switch (phase.kind) {
      case Phase::Kind::quit:
        return true;
      case Phase::Kind::verify:
        return verify(phase);
      case Phase::Kind::loop:
        return loop(phase);
      case Phase::Kind::empty_loop:
        return empty_loop(phase);
      case Phase::Kind::window:
        return windows(phase, [this](std::uint64_t i) { kernel_.operate(i); });
      case Phase::Kind::empty_window:
        return windows(phase, nullptr);
      case Phase::Kind::stream:
        return stream(phase);
    }
    return false;
  }

 private:
  bool verify(const Phase& phase) {
    bool good = true;
    for (std::uint32_t n = 0; n < phase.samples; ++n, ++iteration_) {
      kernel_.prepare(iteration_, Effort::verified);
      kernel_.operate(iteration_);
      good &= kernel_.check_fully(iteration_);
    }
    return good;
  }

  bool one() {
    kernel_.prepare(iteration_, Effort::timed);
    kernel_.operate(iteration_);
    const bool good = kernel_.check(iteration_);
    ++iteration_;
    if (settle_) kernel_.settle();
    return good;
  }

  bool loop(const Phase& phase) {
    bool good = true;
    std::uint64_t* stamps = member_.control.stamps(member_.rank);
    const std::uint32_t warm_up = std::min<std::uint32_t>(phase.per_sample, 16);
    for (std::uint32_t n = 0; n < warm_up; ++n) good &= one();
    stamps[0] = ticks();
    for (std::uint32_t s = 1; s <= phase.samples; ++s) {
      for (std::uint32_t n = 0; n < phase.per_sample; ++n) good &= one();
      stamps[s] = ticks();
    }
    return good;
  }

  /// What a loop costs beside its operations: inputs written, results looked at.
  bool empty_loop(const Phase& phase) {
    std::uint64_t* stamps = member_.control.stamps(member_.rank);
    std::uint32_t matches = 0;
    stamps[0] = ticks();
    for (std::uint32_t s = 1; s <= phase.samples; ++s) {
      for (std::uint32_t n = 0; n < phase.per_sample; ++n) {
        kernel_.prepare(iteration_, Effort::timed);
        asm volatile("" : : : "memory");  // the operation would stand here
        matches += kernel_.check(iteration_) ? 1 : 0;
      }
      stamps[s] = ticks();
    }
    asm volatile("" : : "r"(matches));
    return true;
  }

  /// stamps[w] = ticks from the start of window w to its end here; 0 where this rank came late.
  template <class Operate>
  bool windows(const Phase& phase, [[maybe_unused]] Operate operate) {
    constexpr bool empty = std::is_same_v<Operate, std::nullptr_t>;
    bool good = true;
    std::uint64_t* stamps = member_.control.stamps(member_.rank);
    for (std::uint32_t w = 0; w < phase.samples; ++w) {
      if constexpr (!empty) kernel_.prepare(iteration_, Effort::timed);
      const std::uint64_t start = phase.start_ticks + w * phase.period_ticks;
      const bool late = ticks() >= start;
      if (empty || kernel_.starts()) {
        while (ticks() < start) {
        }
      }
      if constexpr (!empty) operate(iteration_);
      const std::uint64_t end = ticks();
      stamps[w] = late ? 0 : end > start ? end - start : 1;
      if constexpr (!empty) good &= kernel_.check(iteration_++);
    }
    return good;
  }

  bool stream(const Phase& phase) {
    bool good = true;
    if constexpr (requires { kernel_.pass(iteration_); }) {
      std::uint64_t* stamps = member_.control.stamps(member_.rank);
      for (std::uint32_t n = 0; n < phase.per_sample; ++n) good &= kernel_.pass(iteration_++);
      stamps[0] = ticks();
      for (std::uint32_t s = 1; s <= phase.samples; ++s) {
        for (std::uint32_t n = 0; n < phase.per_sample; ++n) good &= kernel_.pass(iteration_++);
        stamps[s] = ticks();
      }
    }
    return good;
  }

  const Member member_;
  Kernel& kernel_;
  const bool settle_;
  std::uint64_t iteration_ = 0;
};

/// Takes part as member.rank until the parent says quit. False if results were wrong (rank 0 has
/// told the parent) or the parent is gone.
template <class Kernel>
bool serve_kernel(const Member& member, Kernel kernel, const Introduction& introduction = {}) {
  pin_rank(member.spec, member.rank);
  Runner<Kernel> runner(member, kernel);
  if (member.rank == 0) {
    return coordinate(member, introduction, [&runner](const Phase& phase) { return runner.execute(phase); });
  }
  for (std::uint32_t seen = 0;;) {
    const Phase phase = member.control.await(seen);
    if (phase.kind == Phase::Kind::quit) return true;
    member.control.arrive(runner.execute(phase));
  }
}

/// The same for a rank that has the collectives as members of `ops`:
///   barrier()  broadcast(data, bytes)  reduce(in, out, count)  allreduce(in, out, count)
///   bool two_phase_commit(proposal, bytes, vote)
template <class Ops>
bool serve_collectives(const Member& member, Ops& ops, const Introduction& introduction = {}) {
  const std::string& operation = member.spec.operation;
  if (operation == "broadcast") return serve_kernel(member, BroadcastKernel<Ops>(member, ops), introduction);
  if (operation == "reduce") return serve_kernel(member, ReduceKernel<Ops, false>(member, ops), introduction);
  if (operation == "allreduce") return serve_kernel(member, ReduceKernel<Ops, true>(member, ops), introduction);
  if (operation == "two-phase-commit")
    return serve_kernel(member, TwoPhaseCommitKernel<Ops>(member, ops), introduction);
  return serve_kernel(member, BarrierKernel<Ops>(member, ops), introduction);
}

/// For channels: ops has send(rank, data, bytes) and receive(rank, data, bytes), both blocking;
/// what rank 0 sends rank 1 receives, and the other way round.
template <class Ops>
bool serve_channel(const Member& member, Ops& ops, const Introduction& introduction = {}) {
  return serve_kernel(member, ChannelKernel<Ops>(member, ops), introduction);
}

}  // namespace smelt::bench
