// CommunicatorState: per-process state of a communicator, shared by the ranks of the process.
//
// Ranks that are threads of one process share one CommunicatorState over anonymous memory. Ranks in several processes
// have one per process, over a shared segment; `members` then records processes and deaths.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/cacheline.hpp"
#include "base/segment.hpp"
#include "base/wait.hpp"
#include "comm/collective/recipe_selector.hpp"
#include "comm/group/membership.hpp"
#include "comm/group/rendezvous.hpp"
#include "comm/group/shared_layout.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class Endpoint;

using Placement = Result<void> (*)(void* address, std::size_t size_bytes, int os_index);

/// Places the memory of each rank on the NUMA node of its PU, since the rank polls its channels. Memory that cannot be
/// placed stays where it is.
void place_memory(const Machine& machine, const Group& group, const SharedLayout& layout, Placement bind);

class CommunicatorState : public std::enable_shared_from_this<CommunicatorState> {
 public:
  static Result<std::shared_ptr<CommunicatorState>> create(const Machine& machine, const Group& group,
                                                           const CommunicatorOptions& options);
  /// Over processes, of which this one brings `ranks`. The rendezvous is under `name`, or over `fd` if that is empty.
  static Result<std::shared_ptr<CommunicatorState>> create_shared(const std::string& name, int fd, int size,
                                                                  std::span<const int> ranks,
                                                                  const CommunicatorOptions& options);
  /// The same over `fd`; all processes must pass the same machine and group.
  static Result<std::shared_ptr<CommunicatorState>> create_shared(int fd, const Machine& machine, const Group& group,
                                                                  std::span<const int> ranks,
                                                                  const CommunicatorOptions& options);
  ~CommunicatorState();

  const Machine machine;
  const Group group;
  const CommunicatorOptions options;

  const Machine mirrored_machine;  ///< with sending and receiving swapped: reductions are broadcasts on it

  Plan plans[operation_count];     ///< by Operation, those that have tree plans
  std::optional<Profile> profile;  ///< of the tuner, until it moves into the recipe selector
  Tree ordered_tree;               ///< for reductions in rank order: binomial, every subtree is a range of ranks
  bool flat_barrier_used = false;
  bool commits_in_parts = false;  ///< two-phase commits consist of broadcasts and allreduces at any size
  int parallelism = 1;            ///< ranks that can run at the same time: PUs of the group, quota
  double timeout_s = 0.0;

  SharedLayout layout;
  std::unique_ptr<RecipeSelector> selector;
  std::vector<std::unique_ptr<Endpoint>> endpoints;  ///< per rank; null for ranks of other processes

  /// Status::ok while the communicator works.
  Status status() const noexcept {
    // Pairs with the store in fail(), which writes the message first.
    return static_cast<Status>(layout.control().status.load(std::memory_order_acquire));
  }
  /// Breaks the communicator; the first call wins. All pending and later operations return `status`. With `last_call`,
  /// those up to this number may still finish: they lack nothing from a rank that has left.
  void fail(Status status, const std::string& message, std::uint64_t last_call = 0) noexcept;
  /// The same after `own` could not access the memory of `rank` in another process, which has died or left, or is about
  /// to be detected.
  void fail_without_access(int rank, int own, const std::string& message) noexcept;
  /// Of a broken communicator: the number of the last collective that can be completed. Only ever decreases.
  std::uint64_t last_call() const noexcept { return ~layout.control().calls_lost.load(std::memory_order_relaxed); }
  std::string failure() const;
  /// As Communicator::predict().
  Result<RankedRecipe> predict(Operation operation, std::size_t bytes) const;
  /// As Communicator::predict_loop().
  Result<RankedRecipe> predict_loop(Operation operation, std::size_t bytes, bool barriers) const;
  Result<double> inputs_ns(const Recipe& recipe, std::size_t bytes) const;
  bool crowded() const;  ///< some ranks share a PU of the model
  /// The process of a rank; 0: this one.
  pid_t foreign_process(int rank) const noexcept;
  /// A message that names the missing ranks: those that have entered the fewest collectives.
  std::string describe_late_rank(int waiting_rank, int peer) const;

  /// The ranks of this communicator with these numbers, as a group.
  Group part_of(std::span<const int> members) const;
  /// The options of a communicator of some ranks of this one: their lateness, and the fixed recipe if it fits them.
  CommunicatorOptions options_for(std::span<const int> members) const;
  /// The state of the subgroup that `members` create together by their `call`-th request for it. `new_rank`: the
  /// caller's rank there.
  Result<std::shared_ptr<CommunicatorState>> subgroup(const std::vector<int>& members, int call, int new_rank);

  /// The state of the communicator of the survivors, on which all of them agree, and this rank's new rank.
  Result<std::shared_ptr<CommunicatorState>> shrunk(int rank, int* new_rank);

  /// For a rendezvous of all processes of this communicator: how long it may take, and that a death, or a rank that has
  /// left for good, ends it. `what` begins the messages. Used as long as this exists.
  RendezvousOptions meeting_options(const char* what);

  /// Checks for deaths, at most once per millisecond. The first one breaks the communicator.
  bool somebody_died() noexcept;
  /// 0 while `rank` may still take part in the collectives of `own`, a rank of this process; otherwise its departure
  /// (Membership::departure).
  std::uint32_t departure(int rank, int own) const noexcept;
  /// Breaks the communicator because a rank that is needed after the collective number `last_call` has left.
  void fail_after_departure(int rank, std::uint64_t last_call) noexcept;
  /// After this, no thread can attach to a rank of this process. Ranks without a thread have left for good.
  void close() noexcept;
  /// A thread has detached from that rank.
  void given_up(int rank) noexcept;
  Membership& members() noexcept { return *members_; }
  std::span<const int> own_ranks() const noexcept { return own_ranks_; }
  bool over_processes() const noexcept { return processes_; }
  /// Over processes: random, the same in all of them. For names derived from it.
  std::uint64_t id() const noexcept { return rendezvous_ ? rendezvous_->id : 0; }
  /// Numbers what all processes make of this communicator, in the same order.
  int next_number() noexcept { return numbers_.fetch_add(1, std::memory_order_relaxed); }

 private:
  using JoinRendezvous = std::function<Result<Rendezvous>(const Prepare&)>;
  using PlanAll = std::function<Result<std::shared_ptr<CommunicatorState>>()>;
  static constexpr double shrink_timeout_s = 30.0;  ///< survivors that have not called by then are excluded

  CommunicatorState(const Machine& machine, const Group& group, const CommunicatorOptions& options);
  /// With plans, without memory.
  static Result<std::shared_ptr<CommunicatorState>> planned(const Machine& machine, const Group& group,
                                                            const CommunicatorOptions& options);
  static Result<double> timeout_of(const CommunicatorOptions& options);
  Result<void> make_plans();
  Result<void> plan_for_late_ranks();
  void complete_plans();
  Result<void> make_endpoints(std::span<const int> ranks);

  static Result<std::shared_ptr<CommunicatorState>> join(const JoinRendezvous& join_rendezvous, const PlanAll& plan_all,
                                                         std::span<const int> ranks, const CommunicatorOptions& options,
                                                         bool deaths_expected);
  Result<std::shared_ptr<CommunicatorState>> join_part(const std::string& purpose, const std::vector<int>& members,
                                                       int new_rank, bool deaths_expected);
  Result<std::shared_ptr<CommunicatorState>> split(const std::string& purpose, const std::vector<int>& members,
                                                   int new_rank);
  /// Checks for half a second for a death that another mechanism has indicated, and for the departure of a rank that
  /// `own` works with.
  bool learns_of_end(const std::vector<int>& members, int own, std::uint64_t last_call) noexcept;
  void clear_up() noexcept;
  /// A rank that has left for good, -1 if none has.
  int somebody_left() const noexcept;
  Result<void> open_shared(std::span<const int> ranks);
  Result<void> wait_in_setup(int stage, std::size_t own_ranks);
  Result<void> find_out_access(std::span<const int> own_ranks);
  FailureDetector* own_detector();

  Segment segment_;                       ///< of threads
  std::optional<Rendezvous> rendezvous_;  ///< of processes
  std::vector<int> own_ranks_;
  std::atomic<int> numbers_{0};
  /// Of a subgroup of threads: its members in the parent communicator, and the attendance of the first one there.
  /// Members that have not attached here have left if they have left the parent.
  struct ParentCommunicator {
    std::weak_ptr<const CommunicatorState> whole;
    std::vector<int> members;
    std::uint32_t attendance = 0;
  };
  std::optional<ParentCommunicator> parent_;
  std::atomic<bool> closed_{false};
  bool processes_ = false;
  bool deaths_expected_ = false;
  std::optional<Membership> members_;
  std::optional<FailureDetector> detector_;       ///< of processes; threads note their own end
  std::optional<FailureDetector> idle_detector_;  ///< of threads, made for their first agreement

  struct PendingSubgroup {
    std::shared_ptr<CommunicatorState> state;
    std::size_t joined = 0;
  };
  std::mutex subgroups_mutex_;
  std::map<std::pair<std::vector<int>, int>, PendingSubgroup> subgroups_;
};

}  // namespace smelt::comm
