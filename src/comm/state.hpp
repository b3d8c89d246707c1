// State: what the ranks of one communicator share.
//
// Memory of the channels, one arena per NUMA node that has receiving ranks:
//
//   arena of NUMA node 0: | channel 3->0 | channel 1->0 | channel 2->1 | ...
//   arena of NUMA node 1: | channel 0->2 | ...
//
// A channel i->j exists for each ordered pair that some plan uses: both directions of every tree
// edge (a broadcast may start at any rank) and the partners of the dissemination steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/cacheline.hpp"
#include "base/wait.hpp"
#include "comm/flat_barrier.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class Endpoint;

/// Lines per channel: a burst of this many messages needs no acknowledgement.
inline constexpr std::uint32_t channel_lines = 64;

/// Zeroed, page-aligned memory on one NUMA node.
class Arena {
 public:
  static Result<Arena> map(std::size_t bytes, int numa_os_index);
  Arena(Arena&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Arena& operator=(Arena&&) = delete;
  ~Arena();
  std::byte* at(std::size_t offset) const { return base_ + offset; }

 private:
  Arena(std::byte* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  std::byte* base_;
  std::size_t bytes_;
};

/// The number of collectives a rank has entered and the kind of the last one, readable by the
/// others at any time: what a time-out report is made of.
struct alignas(separation_bytes) Progress {
  std::atomic<std::uint64_t> position{0};  ///< calls << 8 | operation

  static std::uint64_t calls(std::uint64_t position) { return position >> 8; }
  static Operation operation(std::uint64_t position) { return static_cast<Operation>(position & 0xff); }
};

class State : public std::enable_shared_from_this<State> {
 public:
  static Result<std::shared_ptr<State>> create(const Machine& machine, const Group& group,
                                               const CommunicatorOptions& options);
  ~State();

  const Machine machine;
  const Group group;
  const CommunicatorOptions options;

  const Machine mirrored_machine;  ///< with sending and receiving swapped: reductions are broadcasts on it

  Plan plans[5];      ///< by Operation
  Tree ordered_tree;  ///< reductions in rank order: binomial, every subtree a run of ranks
  bool flat_barrier_used = false;
  int parallelism = 1;  ///< ranks that can run at the same time: PUs of the group, quota
  double timeout_s = 0.0;

  std::vector<Progress> progress;  ///< per rank
  FlatBarrier flat_barrier;
  std::vector<std::unique_ptr<Endpoint>> endpoints;  ///< per rank

  /// Status::ok while the communicator works.
  Status status() const noexcept { return static_cast<Status>(status_.load(std::memory_order_acquire)); }
  /// Breaks the communicator; the first call wins. All pending and later operations return `status`.
  void fail(Status status, const std::string& message) noexcept;
  std::string failure() const;
  /// Says who is missing: the ranks that have entered the fewest collectives.
  std::string describe_late_rank(int waiting_rank, int peer) const;

  /// The state of the subgroup that `members` create together by their `call`-th request for it.
  Result<std::shared_ptr<State>> subgroup(const std::vector<int>& members, int call);

 private:
  State(const Machine& machine, const Group& group, const CommunicatorOptions& options);
  Result<void> make_plans();
  Result<void> make_channels();

  std::vector<Arena> arenas_;
  std::atomic<int> status_{0};
  mutable std::mutex failure_mutex_;
  std::string failure_;

  struct Pending {
    std::shared_ptr<State> state;
    std::size_t joined = 0;
  };
  std::mutex subgroups_mutex_;
  std::map<std::pair<std::vector<int>, int>, Pending> subgroups_;
};

/// Every ordered pair (sender, receiver) that the communicator's plans use, each once.
std::vector<std::pair<int, int>> channel_pairs(const State& state);

}  // namespace smelt::comm
