// CommunicatorState: a process's side of a communicator: what its ranks share beyond the shared layout.
//
// Threads of one process share one CommunicatorState and anonymous memory. Processes have a CommunicatorState each,
// over a named segment; `members` then tells who is where and who has died.
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

/// Puts the part of each rank on the NUMA node of its PU: the rank polls its channels, senders only pass by. What
/// cannot be placed stays where it is.
void place_memory(const Machine& machine, const Group& group, const SharedLayout& layout, Placement bind);

class CommunicatorState : public std::enable_shared_from_this<CommunicatorState> {
 public:
  static Result<std::shared_ptr<CommunicatorState>> create(const Machine& machine, const Group& group,
                                                           const CommunicatorOptions& options);
  /// Over processes: this one brings `ranks`. Meets under `name`, or over `fd` if that is empty.
  static Result<std::shared_ptr<CommunicatorState>> create_shared(const std::string& name, int fd, int size,
                                                                  std::span<const int> ranks,
                                                                  const CommunicatorOptions& options);
  /// The same over `fd`, for a machine and a group that all processes know.
  static Result<std::shared_ptr<CommunicatorState>> create_shared(int fd, const Machine& machine, const Group& group,
                                                                  std::span<const int> ranks,
                                                                  const CommunicatorOptions& options);
  ~CommunicatorState();

  const Machine machine;
  const Group group;
  const CommunicatorOptions options;

  const Machine mirrored_machine;  ///< with sending and receiving swapped: reductions are broadcasts on it

  Plan plans[operation_count];     ///< by Operation, those that have tree plans
  std::optional<Profile> profile;  ///< of the tuner, until the recipe selector has it
  Tree ordered_tree;               ///< reductions in rank order: binomial, every subtree a run of ranks
  bool flat_barrier_used = false;
  bool commits_in_parts = false;  ///< two-phase commits by what runs broadcasts and allreduces, whatever their size
  int parallelism = 1;            ///< ranks that can run at the same time: PUs of the group, quota
  double timeout_s = 0.0;

  SharedLayout layout;
  std::unique_ptr<RecipeSelector> selector;
  std::vector<std::unique_ptr<Endpoint>> endpoints;  ///< per rank; null for ranks of other processes

  /// Status::ok while the communicator works.
  Status status() const noexcept {
    // Partner: the store in fail(). The message is there.
    return static_cast<Status>(layout.control().status.load(std::memory_order_acquire));
  }
  /// Breaks the communicator; the first call wins. All pending and later operations return `status`.
  void fail(Status status, const std::string& message) noexcept;
  /// The same after `own` has found the memory of `rank`, of another process, gone: that has died, or has left in the
  /// middle, or will be seen to have soon.
  void fail_without_access(int rank, int own, const std::string& message) noexcept;
  std::string failure() const;
  /// The process of a rank; 0: this one.
  pid_t foreign_process(int rank) const noexcept;
  /// Says who is missing: the ranks that have entered the fewest collectives.
  std::string describe_late_rank(int waiting_rank, int peer) const;

  /// The state of the subgroup that `members` create together by their `call`-th request for it. `new_rank`:
  /// the caller's number there.
  Result<std::shared_ptr<CommunicatorState>> subgroup(const std::vector<int>& members, int call, int new_rank);

  /// The state of the survivors, as all of them agree on it, and this rank's number there.
  Result<std::shared_ptr<CommunicatorState>> shrunk(int rank, int* new_rank);

  /// Looks for deaths, at most once a millisecond; the first one breaks the communicator.
  bool somebody_died() noexcept;
  /// 0 as long as `rank` may take part in what `own`, a rank of this process, takes part in; else which departure it is
  /// by which it has left (Membership::departure).
  std::uint32_t departure(int rank, int own) const noexcept;
  /// Breaks the communicator because that rank is needed and has left.
  void fail_after_departure(int rank) noexcept;
  /// Nobody can take a rank of this process any more: those that no thread has have left for good.
  void close() noexcept;
  /// A thread has given up that rank.
  void given_up(int rank) noexcept;
  Membership& members() noexcept { return *members_; }
  std::span<const int> own_ranks() const noexcept { return own_ranks_; }

 private:
  using JoinRendezvous = std::function<Result<Rendezvous>(const Prepare&)>;
  using PlanAll = std::function<Result<std::shared_ptr<CommunicatorState>>()>;
  static constexpr double shrink_timeout_s = 30.0;  ///< survivors that have not come by then are left out

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
  /// Looks for half a second for a death that shows elsewhere already, and for the departure of one of those that `own`
  /// works with.
  bool learns_of_end(const std::vector<int>& members, int own) noexcept;
  void clear_up() noexcept;
  /// A rank that has left for good, -1 if none has.
  int somebody_left() const noexcept;
  Result<void> open_shared(std::span<const int> ranks);
  Result<void> wait_in_setup(int stage, std::size_t own_ranks);
  Result<void> find_out_access(std::span<const int> own_ranks);
  FailureDetector* own_detector();

  Segment segment_;                 ///< of threads
  std::optional<Rendezvous> rendezvous_;  ///< of processes
  std::vector<int> own_ranks_;
  /// Of a subgroup of threads: the ranks of the communicator that it is a part of, as its first one saw it. Members
  /// that have not come yet have left if they have left there.
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
