// Endpoint: one rank's private half of a communicator, and the collectives themselves.
//
// A tree is stored as a flood order: this rank's tree neighbours, most urgent first. A broadcast
// from any rank comes in from the neighbour on the way to it and goes out to all others in that
// order, which is the exact best send order for every root, because the time that the subtree
// behind a neighbour needs does not depend on where the message came from. A reduction to any
// rank is the same backwards.
//
//        1                 flood order of 0: 2 1 3 (2 has the largest subtree)
//        |                 root 0: send 2 1 3
//    4 - 2 - 0 - 3         root 4: comes from 2, send 1 3
//            |
//            1'
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/cacheline.hpp"
#include "base/own_lines.hpp"
#include "base/wait.hpp"
#include "channel/ump.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class State;
struct Progress;

/// Both channels to one peer, this rank's ends.
struct alignas(separation_bytes) Link {
  int peer = 0;
  channel::UmpSender out;
  channel::UmpReceiver in;
};

/// A compiled Step.
struct Action {
  Step::Kind kind;
  Link* link;
};

/// One rank's view of a tree.
struct Route {
  OwnLinesVector<Link*> flood;           ///< neighbours, most urgent first
  OwnLinesVector<std::uint16_t> toward;  ///< per root: index in `flood` of the neighbour on the way to it

  Link* link_toward(int root) const { return flood[toward[static_cast<std::size_t>(root)]]; }
};

/// Records what a collective does, for tests that hold it against its plan.
using StepLog = std::vector<Step>;

class alignas(separation_bytes) Endpoint {
 public:
  Endpoint(State& state, int rank, const WaitConfig& wait);

  /// Adds the two channel ends to `peer`; set-up only. Either pointer may be null.
  void add_link(int peer, std::byte* out, std::byte* in);
  /// Translates the state's plans to this rank's actions and routes; set-up only, after add_link.
  void compile();

  Status barrier() noexcept;
  Status broadcast(void* data, std::size_t bytes, int root) noexcept;
  Status reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept;
  Status allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  Status two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void*, void*), void* context,
                          bool* committed, int root) noexcept;

  int rank() const noexcept { return rank_; }
  State& state() noexcept { return state_; }

  std::atomic<bool> attached{false};
  std::map<std::vector<int>, int> subgroup_calls;  ///< how often this rank has asked for each subgroup
  StepLog* log = nullptr;                          ///< tests only

 private:
  bool enter(Operation operation) noexcept;
  bool send(Link& link, const void* data, std::size_t bytes) noexcept;
  bool receive(Link& link, void* data, std::size_t bytes) noexcept;
  bool flood(const Route& route, void* data, std::size_t bytes, int root) noexcept;
  bool gather(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
              int root) noexcept;
  bool exchange_chunk(const std::byte* value, std::byte* result, std::size_t count, const Reduction& op) noexcept;
  bool exchange(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  bool gather_in_order(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  bool combine_from(Link& link, std::byte* accumulator, std::size_t count, const Reduction& op,
                    bool peer_first) noexcept;
  void note(Step::Kind kind, int peer) noexcept;
  bool ensure_scratch(std::size_t element_bytes) noexcept;
  Link* link_to(int peer);
  static bool interrupted(void* self) noexcept;

  State& state_;
  Progress& progress_;
  const int rank_;
  Waiter waiter_;
  std::uint64_t calls_ = 0;
  std::uint64_t lines_moved_ = 0;     ///< grows with every message: tells waiting from being stuck
  int waiting_for_ = -1;              ///< peer of the message under way
  std::uint64_t stuck_since_ns_ = 0;  ///< when the wait under way was first seen; 0: not yet
  std::uint64_t stuck_lines_ = 0;

  std::vector<std::unique_ptr<Link>> links_;
  OwnLinesVector<Action> barrier_;
  OwnLinesVector<Action> allreduce_;  ///< of an exchange without a tree; empty if reduce + broadcast
  Route allreduce_up_, allreduce_down_;
  Route broadcast_route_;
  Route reduce_route_;
  Route ordered_route_;

  std::size_t chunk_bytes_;
  OwnLinesVector<std::byte> scratch_;  ///< [0, chunk): accumulator, [chunk, 2 chunk): operand
};

}  // namespace smelt::comm
