// How one rank is timed: the same code, inlined, for every contestant.
//
//   loop:    |op op op ... op|op op op ... op|     a stamp every per_sample operations;
//            s0              s1              s2    sample = (last rank's s1 - last rank's s0) / per_sample,
//                                                  less what the loop costs without its operations
//   window:  T0 op . . T1 op . . T2 op . .         every operation starts at an agreed tick on the
//               e0        e1        e2             ranks that have something to send; those that only
//                                                  receive at first are in it before. sample = max
//                                                  over ranks of (e - T), less an empty window's
//
// An operation ends when its result has been read; what reading takes when it lies in the reader's own cache is part of
// the empty loop, and of a window taken off by reading twice.
//
// With a late rank, that one starts `late_ns` after T, and T + late_ns is what the samples count from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/clock.hpp"
#include "harness/kernels.hpp"
#include "harness/worker.hpp"

namespace smelt::bench {

/// One rank's run through phases. `iteration` advances alike on all ranks.
template <class Kernel>
class Runner {
 public:
  Runner(const Member& member, Kernel& kernel)
      : member_(member), kernel_(kernel), settle_(settles(member.spec.resolved_method())) {}

  /// Does this rank's share of a phase; true if all results were right.
  bool execute(const Phase& phase) {
    switch (phase.kind) {
      case Phase::Kind::quit: return true;
      case Phase::Kind::verify: return verify(phase);
      case Phase::Kind::loop: return loop(phase);
      case Phase::Kind::empty_loop: return empty_loop(phase);
      case Phase::Kind::window: return windows(phase, [this](std::uint64_t i) { kernel_.operate(i); });
      case Phase::Kind::empty_window: return windows(phase, nullptr);
      case Phase::Kind::stream: return stream(phase);
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

  /// Windows too: their calibration is a loop.
  static bool settles(const std::string& method) { return method == "loop+barrier" || method == "window"; }

  bool one() {
    kernel_.prepare(iteration_, Effort::timed);
    kernel_.operate(iteration_);
    use(kernel_.read());
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

  /// What a loop costs beside its operations: inputs written, results read and looked at.
  bool empty_loop(const Phase& phase) {
    std::uint64_t* stamps = member_.control.stamps(member_.rank);
    std::uint32_t matches = 0;
    stamps[0] = ticks();
    for (std::uint32_t s = 1; s <= phase.samples; ++s) {
      for (std::uint32_t n = 0; n < phase.per_sample; ++n) {
        kernel_.prepare(iteration_, Effort::timed);
        asm volatile("" : : : "memory");  // the operation would stand here
        use(kernel_.read());
        matches += kernel_.check(iteration_) ? 1 : 0;
      }
      stamps[s] = ticks();
    }
    asm volatile("" : : "r"(matches));
    return true;
  }

  /// stamps[w] = ticks from the start of window w (that of its late rank, if there is one) to its end
  /// here; 0 where this rank missed its start.
  template <class Operate>
  bool windows(const Phase& phase, [[maybe_unused]] Operate operate) {
    constexpr bool empty = std::is_same_v<Operate, std::nullptr_t>;
    bool good = true;
    std::uint64_t* stamps = member_.control.stamps(member_.rank);
    const bool waits_for_me = member_.rank == member_.spec.late_rank;
    if constexpr (!empty) {
      for (std::uint32_t n = 0; n < phase.warm_up; ++n) good &= one();
    }
    for (std::uint32_t w = 0; w < phase.samples; ++w) {
      if constexpr (!empty) kernel_.prepare(iteration_, Effort::timed);
      const std::uint64_t start = phase.start_ticks + w * phase.period_ticks;
      const std::uint64_t counted_from = start + phase.late_ticks;
      const std::uint64_t enter = waits_for_me ? counted_from : start;
      const bool missed = ticks() >= enter;
      if (empty || waits_for_me || kernel_.starts()) {
        while (ticks() < enter) {}
      }
      if constexpr (!empty) operate(iteration_);
      const std::uint64_t end = empty ? ticks() : ticks_when_read([this] { return kernel_.read(); });
      stamps[w] = missed ? 0 : end > counted_from ? end - counted_from : 1;
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

/// The same for a rank that has the collectives as members of `ops`, all rooted at 0:
///   barrier()  broadcast(data, bytes)  bool two_phase_commit(proposal, bytes, vote)
///   scatter, gather, allgather, alltoall(in, out, block_bytes)
///   reduce, allreduce, scan, exscan(in, out, count)  reduce_scatter(in, out, count_per_rank)
template <class Ops>
bool serve_collectives(const Member& member, Ops& ops, const Introduction& introduction = {}) {
  const auto serve = [&](auto kernel) { return serve_kernel(member, std::move(kernel), introduction); };
  const std::string& operation = member.spec.operation;
  if (operation == "broadcast") return serve(BroadcastKernel<Ops>(member, ops));
  if (operation == "reduce") return serve(SumKernel<Ops, Sum::reduce>(member, ops));
  if (operation == "allreduce") return serve(SumKernel<Ops, Sum::allreduce>(member, ops));
  if (operation == "two-phase-commit") return serve(TwoPhaseCommitKernel<Ops>(member, ops));
  if (operation == "scatter") return serve(MoveKernel<Ops, Move::scatter>(member, ops));
  if (operation == "gather") return serve(MoveKernel<Ops, Move::gather>(member, ops));
  if (operation == "allgather") return serve(MoveKernel<Ops, Move::allgather>(member, ops));
  if (operation == "alltoall") return serve(MoveKernel<Ops, Move::alltoall>(member, ops));
  if (operation == "reduce-scatter") return serve(SumKernel<Ops, Sum::reduce_scatter>(member, ops));
  if (operation == "scan") return serve(SumKernel<Ops, Sum::scan>(member, ops));
  if (operation == "exscan") return serve(SumKernel<Ops, Sum::exscan>(member, ops));
  return serve(BarrierKernel<Ops>(member, ops));
}

/// For channels: ops has send(rank, data, bytes) and receive(rank, data, bytes), both blocking;
/// what rank 0 sends rank 1 receives, and the other way round.
template <class Ops>
bool serve_channel(const Member& member, Ops& ops, const Introduction& introduction = {}) {
  return serve_kernel(member, ChannelKernel<Ops>(member, ops), introduction);
}

}  // namespace smelt::bench
