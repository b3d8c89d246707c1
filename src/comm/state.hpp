// State: a process's side of a communicator: what its ranks share beyond the fabric.
//
// Threads of one process share one State and a fabric in anonymous memory. Processes have a State each, over a
// fabric in a segment; `members` then tells who is where and who has died.
#pragma once

#include <sys/types.h>

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
#include "base/segment.hpp"
#include "comm/chooser.hpp"
#include "comm/fabric.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class Endpoint;

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
  /// The same after access to another process's memory has failed, which dies or has died.
  void fail_after_death(int rank, const std::string& message) noexcept;
  std::string failure() const;
  /// The process of a rank; 0: this one.
  pid_t foreign_process(int rank) const noexcept;
  /// Says who is missing: the ranks that have entered the fewest collectives.
  std::string describe_late_rank(int waiting_rank, int peer) const;

  /// The state of the subgroup that `members` create together by their `call`-th request for it.
  Result<std::shared_ptr<State>> subgroup(const std::vector<int>& members, int call);

 private:
  State(const Machine& machine, const Group& group, const CommunicatorOptions& options);
  Result<void> make_plans();
  Result<void> make_endpoints();
  void place_memory();

  Segment segment_;

  struct Pending {
    std::shared_ptr<State> state;
    std::size_t joined = 0;
  };
  std::mutex subgroups_mutex_;
  std::map<std::pair<std::vector<int>, int>, Pending> subgroups_;
};

}  // namespace smelt::comm
