// State: a process's side of a communicator: what its ranks share beyond the fabric.
//
// Threads of one process share one State and a fabric in anonymous memory. Processes have a State each, over a
// fabric in a segment; `members` then tells who is where and who has died.
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
#include "comm/collective/chooser.hpp"
#include "comm/group/fabric.hpp"
#include "comm/group/membership.hpp"
#include "comm/group/rendezvous.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class Endpoint;

using Placement = Result<void> (*)(void* address, std::size_t size_bytes, int os_index);

/// Puts the part of each rank on the NUMA node of its PU: the rank polls its channels, senders only pass by. What
/// cannot be placed stays where it is.
void place_parts(const Machine& machine, const Group& group, const Fabric& fabric, Placement bind);

class State : public std::enable_shared_from_this<State> {
 public:
  static Result<std::shared_ptr<State>> create(const Machine& machine, const Group& group,
                                               const CommunicatorOptions& options);
  /// Over processes: this one brings `ranks`. Meets under `name`, or over `fd` if that is empty.
  static Result<std::shared_ptr<State>> create_shared(const std::string& name, int fd, int size,
                                                      std::span<const int> ranks, const CommunicatorOptions& options);
  /// The same over `fd`, for a machine and a group that all processes know.
  static Result<std::shared_ptr<State>> create_shared(int fd, const Machine& machine, const Group& group,
                                                      std::span<const int> ranks, const CommunicatorOptions& options);
  ~State();

  const Machine machine;
  const Group group;
  const CommunicatorOptions options;

  const Machine mirrored_machine;  ///< with sending and receiving swapped: reductions are broadcasts on it

  Plan plans[operation_count];     ///< by Operation, those that have tree plans
  std::optional<Profile> profile;  ///< of the tuner, until the chooser has it
  Tree ordered_tree;               ///< reductions in rank order: binomial, every subtree a run of ranks
  bool flat_barrier_used = false;
  bool commits_in_parts = false;  ///< two-phase commits by what runs broadcasts and allreduces, whatever their size
  int parallelism = 1;            ///< ranks that can run at the same time: PUs of the group, quota
  double timeout_s = 0.0;

  Fabric fabric;
  std::unique_ptr<Chooser> chooser;
  std::vector<std::unique_ptr<Endpoint>> endpoints;  ///< per rank; null for ranks of other processes

  /// Status::ok while the communicator works.
  Status status() const noexcept {
    // Partner: the store in fail(). The message is there.
    return static_cast<Status>(fabric.control().status.load(std::memory_order_acquire));
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
  Result<std::shared_ptr<State>> subgroup(const std::vector<int>& members, int call, int new_rank);

  /// The state of the survivors, as all of them agree on it, and this rank's number there.
  Result<std::shared_ptr<State>> shrunk(int rank, int* new_rank);

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
  bool over_processes() const noexcept { return processes_; }
  /// Over processes: random, the same in all of them. For names derived from it.
  std::uint64_t id() const noexcept { return meeting_ ? meeting_->id : 0; }
  /// Numbers what all processes make of this communicator, in the same order.
  int next_number() noexcept { return numbers_.fetch_add(1, std::memory_order_relaxed); }

 private:
  using Meet = std::function<Result<Meeting>(const Prepare&)>;
  using PlanAll = std::function<Result<std::shared_ptr<State>>()>;
  static constexpr double shrink_timeout_s = 30.0;  ///< survivors that have not come by then are left out

  State(const Machine& machine, const Group& group, const CommunicatorOptions& options);
  /// With plans, without memory.
  static Result<std::shared_ptr<State>> planned(const Machine& machine, const Group& group,
                                                const CommunicatorOptions& options);
  static Result<double> timeout_of(const CommunicatorOptions& options);
  Result<void> make_plans();
  Result<void> plan_for_late_ranks();
  void complete_plans();
  Result<void> make_endpoints(std::span<const int> ranks);

  static Result<std::shared_ptr<State>> join(const Meet& meet, const PlanAll& plan_all, std::span<const int> ranks,
                                             const CommunicatorOptions& options, bool deaths_expected);
  Result<std::shared_ptr<State>> join_part(const std::string& purpose, const std::vector<int>& members, int new_rank,
                                           bool deaths_expected);
  Result<std::shared_ptr<State>> split(const std::string& purpose, const std::vector<int>& members, int new_rank);
  /// Looks for half a second for a death that shows elsewhere already, and for the departure of one of those that `own`
  /// works with.
  bool learns_of_end(const std::vector<int>& members, int own) noexcept;
  void clear_up() noexcept;
  /// A rank that has left for good, -1 if none has.
  int somebody_left() const noexcept;
  Result<void> open_shared(std::span<const int> ranks);
  Result<void> meet_in_setup(int stage, std::size_t own_ranks);
  Result<void> find_out_access(std::span<const int> own_ranks);
  Watch* own_watch();

  Segment segment_;                 ///< of threads
  std::optional<Meeting> meeting_;  ///< of processes
  std::vector<int> own_ranks_;
  std::atomic<int> numbers_{0};
  /// Of a subgroup of threads: the ranks of the communicator that it is a part of, as its first one saw it. Members
  /// that have not come yet have left if they have left there.
  struct Origin {
    std::weak_ptr<const State> whole;
    std::vector<int> members;
    std::uint32_t attendance = 0;
  };
  std::optional<Origin> origin_;
  std::atomic<bool> closed_{false};
  bool processes_ = false;
  bool deaths_expected_ = false;
  std::optional<Membership> members_;
  std::optional<Watch> watch_;       ///< of processes; threads note their own end
  std::optional<Watch> idle_watch_;  ///< of threads, made for their first agreement

  struct Pending {
    std::shared_ptr<State> state;
    std::size_t joined = 0;
  };
  std::mutex subgroups_mutex_;
  std::map<std::pair<std::vector<int>, int>, Pending> subgroups_;
};

}  // namespace smelt::comm
