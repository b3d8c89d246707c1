// Communicator: a group of ranks, its plans, and the shared memory to run them in.
//
//   auto comm = smelt::Communicator::create(*machine, *group);
//   comm->run([](smelt::Rank& rank) {
//     double mine = rank.rank(), total = 0;
//     rank.allreduce(&mine, &total, 1, smelt::sum<double>());
//     rank.barrier();
//   });
//
// Ordering: every collective of a communicator is called by all its ranks in the same order.
// What a rank did before it entered a collective is visible to every rank whose return from that
// collective depends on it: all ranks for barrier, allreduce and two_phase_commit, the receivers
// of a broadcast from its root, the root of a reduce from all. See docs/ordering.md.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt {

/// How elements are combined. `combine` does accumulator[i] = accumulator[i] (op) operand[i] for
/// i < count. It must be associative; where `commutative` is false the operands are combined in
/// rank order. The order of combination depends on the communicator alone: same inputs, same bits.
struct Reduction {
  using Combine = void (*)(void* accumulator, const void* operand, std::size_t count, void* context);
  std::size_t element_bytes = 0;
  Combine combine = nullptr;
  void* context = nullptr;
  bool commutative = true;
};

namespace detail {
template <class T, class Op>
Reduction reduction_of() {
  return {sizeof(T),
          [](void* accumulator, const void* operand, std::size_t count, void*) {
            auto* to = static_cast<T*>(accumulator);
            const auto* from = static_cast<const T*>(operand);
            for (std::size_t i = 0; i < count; ++i) to[i] = Op()(to[i], from[i]);
          },
          nullptr, true};
}
template <class T>
struct Smaller {
  T operator()(T a, T b) const { return b < a ? b : a; }
};
template <class T>
struct Larger {
  T operator()(T a, T b) const { return a < b ? b : a; }
};
}  // namespace detail

template <class T>
Reduction sum() { return detail::reduction_of<T, std::plus<T>>(); }
template <class T>
Reduction product() { return detail::reduction_of<T, std::multiplies<T>>(); }
template <class T>
Reduction minimum() { return detail::reduction_of<T, detail::Smaller<T>>(); }
template <class T>
Reduction maximum() { return detail::reduction_of<T, detail::Larger<T>>(); }
template <class T>
Reduction bit_and() { return detail::reduction_of<T, std::bit_and<T>>(); }
template <class T>
Reduction bit_or() { return detail::reduction_of<T, std::bit_or<T>>(); }
template <class T>
Reduction bit_xor() { return detail::reduction_of<T, std::bit_xor<T>>(); }

struct CommunicatorOptions {
  std::string topology = "best";  ///< a name out of topologies(), for every operation
  std::string barrier;            ///< "tree", "dissemination", "flat"; empty: the model's choice
  double search_ms = 20.0;        ///< planning budget per operation
  double timeout_s = -1.0;        ///< 0: never; negative: SMELT_TIMEOUT
  std::string wait;               ///< spin|yield|sleep|auto; empty: SMELT_WAIT
  bool pin = true;                ///< run() and attach() pin the thread to its rank's PU
};

namespace comm {
class State;
class Endpoint;
}  // namespace comm

class Communicator;

/// One rank of a communicator: what a thread calls collectives on. Used by one thread at a time.
/// Every collective returns Status::ok, Status::timed_out (a rank did not arrive in time; the
/// communicator is broken from then on) or Status::broken, on which failure() tells who and where.
class Rank {
 public:
  Rank(Rank&&) noexcept;
  Rank& operator=(Rank&&) noexcept;
  ~Rank();

  int rank() const noexcept;
  int size() const noexcept;

  /// No rank leaves before all have entered.
  Status barrier() noexcept;

  /// `bytes` bytes at `data` go from `root` to all. All ranks see all broadcasts of a
  /// communicator in the same order. A rank may leave before others have received.
  Status broadcast(void* data, std::size_t bytes, int root = 0) noexcept;

  /// result[i] on `root` = in[i] combined over all ranks, i < count. `result` may equal `in`;
  /// it is written on the root alone and may be null elsewhere.
  Status reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root = 0) noexcept;

  /// As reduce, with the result on every rank (the same bits).
  Status allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;

  /// One round of two-phase commit with rank `root` as coordinator: the proposal (`bytes` at
  /// `proposal`) is broadcast, every rank votes by `vote(proposal, context)`, `*committed` = all
  /// voted yes, on every rank.
  Status two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void* proposal, void* context),
                          void* context, bool* committed, int root = 0) noexcept;

  /// A communicator of `members` (ranks of this one, in the new rank order, containing the
  /// caller). Called by exactly the members, in the same order with other calls among them; may
  /// be nested and overlap. Allocates and plans: not for the data path.
  Result<Rank> subgroup(std::span<const int> members);

  /// After a status other than ok: one line naming the rank that failed to arrive, the operation,
  /// and how many calls it is behind. Empty before.
  std::string failure() const;

 private:
  friend class Communicator;
  Rank(std::shared_ptr<comm::State> state, int rank);
  std::shared_ptr<comm::State> state_;
  comm::Endpoint* endpoint_ = nullptr;
};

/// Owner of a communicator of threads. Movable; ranks attached keep the memory alive.
class Communicator {
 public:
  static Result<Communicator> create(const Machine& machine, const Group& group,
                                     const CommunicatorOptions& options = {});

  /// On the measured model of this machine if one is cached, else on its discovered topology
  /// with synthetic costs; one rank per core that may be used (`ranks` = 0), or that many.
  static Result<Communicator> create(int ranks = 0, const CommunicatorOptions& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int size() const noexcept;
  const Group& group() const noexcept;

  /// The plan in use for an operation (steps, trees, prediction).
  const Plan& plan(Operation operation) const noexcept;

  /// Starts one thread per rank, pinned, runs f in each and waits for all. The calling thread
  /// is rank 0 and keeps its affinity afterwards.
  Result<void> run(const std::function<void(Rank&)>& f);

  /// Makes the calling thread rank `rank`. Each rank can be attached once at a time.
  Result<Rank> attach(int rank);

  /// A communicator of some of this one's ranks, in the given order; independent of it.
  Result<Communicator> subset(std::span<const int> ranks) const;

 private:
  explicit Communicator(std::shared_ptr<comm::State> state);
  std::shared_ptr<comm::State> state_;
};

}  // namespace smelt
