// Planning: from a machine model to trees and step lists. Pure functions: no threads, no
// clock other than the search budget, no state.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"

namespace smelt {

/// The ranks of a group: rank r runs on machine.pus[pus[r]]. A PU may appear more than once (more ranks than PUs).
struct Group {
  std::vector<int> pus;  ///< indices into Machine::pus

  int size() const noexcept { return static_cast<int>(pus.size()); }
  bool operator==(const Group&) const = default;
};

/// The group of the PUs with these os_index values, in this order. Unknown values are an error.
Result<Group> make_group(const Machine& machine, std::span<const int> os_indices);

/// Every PU of the machine, in order.
Group whole_machine(const Machine& machine);

/// `ranks` ranks (0: one per core that may be used, at most as many as the quota feeds) on what
/// the allowance grants: distinct cores before SMT siblings before sharing PUs.
Result<Group> default_group(const Machine& machine, const Allowance& allowance, int ranks = 0);

/// The first five are planned as trees (make_plan), all but barrier and two_phase_commit as schedules too
/// (smelt/schedule.hpp).
enum class Operation {
  broadcast,
  reduce,
  barrier,
  allreduce,
  two_phase_commit,
  scatter,
  gather,
  allgather,
  alltoall,
  reduce_scatter,
  scan,
  exscan,
};
inline constexpr int operation_count = 12;

/// Whether make_plan plans it.
constexpr bool has_tree_plan(Operation operation) noexcept { return operation <= Operation::two_phase_commit; }

/// "broadcast", "reduce", "barrier", "allreduce", "two-phase-commit", "scatter", "gather", "allgather", "alltoall",
/// "reduce-scatter", "scan", "exscan".
const char* to_string(Operation operation) noexcept;
Result<Operation> parse_operation(std::string_view name);

/// A spanning tree of a group. children[r] are the ranks that r sends to, in send order
/// (for a reduction: receives from, in the reverse of this order).
struct Tree {
  int root = 0;
  std::vector<std::vector<int>> children;

  int size() const noexcept { return static_cast<int>(children.size()); }
  std::vector<int> parents() const;  ///< parent of each rank; -1 for the root
  bool operator==(const Tree&) const = default;
};

/// The same spanning tree hung up at another rank, every rank's sends in the exact best order.
Tree reroot(const Machine& machine, const Group& group, const Tree& tree, int root);

/// One step of a rank. Ranks execute their steps in order.
struct Step {
  enum class Kind : unsigned char { send, recv, recv_combine };
  Kind kind = Kind::send;
  int peer = 0;

  bool operator==(const Step&) const = default;
};

/// The steps of all ranks in one operation, and the prediction of the model.
struct Plan {
  Operation operation = Operation::broadcast;
  std::string topology;  ///< name of a tree, or "dissemination"
  Group group;
  int root = 0;
  std::optional<Tree> reduce_tree;       ///< of the reducing phase, if there is one; votes may be exchanged instead
  std::optional<Tree> broadcast_tree;    ///< of the broadcasting phase, if there is one
  std::vector<std::vector<Step>> steps;  ///< per rank

  std::vector<double> arrival_ns;        ///< per rank: when it has finished the operation
  double predicted_ns = 0.0;             ///< maximum of arrival_ns, or with the completion message if asked
  std::optional<double> lower_bound_ns;  ///< no plan of this family can be faster
  bool optimal = false;                  ///< proved: predicted_ns is the minimum
  double search_ms = 0.0;                ///< time spent searching
  std::string reason;                    ///< one sentence: why this plan beats the runner-up
};

struct PlanOptions {
  std::string topology = "best";  ///< a name out of topologies(); "k-nomial:3" sets the radix
  std::optional<int> root;        ///< rank; free choice if unset
  double search_ms = 1000.0;      ///< budget of the search; 0: `best` only constructs, `optimal` has no limit
  bool completion = false;        ///< add the completion message of [Smelt16] 5.1 to predicted_ns
  std::uint64_t seed = 1;         ///< of randomized search; same input, seed and step count: same tree
};

struct TopologyInfo {
  std::string name;
  std::string description;
  bool uses_costs = false;
};

/// Every topology by name, textbook ones first.
const std::vector<TopologyInfo>& topologies();

/// Plans one operation. Errors: machine without costs, bad group, root, name or radix.
Result<Plan> make_plan(const Machine& machine, const Group& group, Operation operation,
                       const PlanOptions& options = {});

/// Plan for a given tree (used for both directions); send order as given.
Result<Plan> plan_from_tree(const Machine& machine, const Group& group, Operation operation, const Tree& tree);

struct TimelineEvent {
  int rank = 0;
  Step::Kind kind = Step::Kind::send;
  int peer = 0;
  double start_ns = 0.0;
  double end_ns = 0.0;
};

struct Simulation {
  std::vector<double> arrival_ns;       ///< per rank
  double total_ns = 0.0;                ///< maximum of arrival_ns
  double completion_ns = 0.0;           ///< with the completion message of [Smelt16] 5.1
  std::vector<TimelineEvent> timeline;  ///< by start time
};

/// Runs a plan's steps against the model: the event-based simulator. All ranks start at 0, their steps call_ns later
/// (but for barriers) where the machine has it.
/// Errors: a step list that deadlocks or names ranks outside the group.
Result<Simulation> simulate(const Machine& machine, const Plan& plan);

struct Comparison {
  std::string topology;
  double predicted_ns = 0.0;
};

/// Every topology for one operation, best first. `completion` and `search_ms` as in PlanOptions.
Result<std::vector<Comparison>> compare_topologies(const Machine& machine, const Group& group, Operation operation,
                                                   const PlanOptions& options = {});

}  // namespace smelt
