// The two faces of the cost model that planning works on.
//
//   DirectedCosts  a view of a machine for one group and one direction, in double, O(1) per look-up
//   CostTable      the same in float, for the searches: two dense matrices, or by class for large groups
//
// Both present every problem as a broadcast: `send(p, c)` is what a message to child c costs the
// parent p in its own time, `latency(p, c)` what passes after that until the child has it.
//
//   broadcast   send = send_gap_ns(p, c)     latency = message(p, c) - send
//   reduce      send = recv_gap_ns(c, p)     latency = message(c, p) - send
//
// message(i, j) = send_ns + propagation_ns + recv_ns. Without gaps, send_ns and recv_ns stand in for them, and these
// are the published costs. A reduction is a broadcast run backwards, so its tree is planned on swapped roles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::plan {

enum class Direction { broadcast, reduce };

/// The terms of the model that count. `published`: send_ns and recv_ns alone, by which published rules build trees.
enum class CostTerms { all, published };

/// A line after the first of a message, relative to a message of one line, where no lengths were measured
/// (docs/reference/model.md).
constexpr double assumed_line_share = 0.2;

/// Costs between ranks of a group. Ranks that share a PU pay what the cheapest pair of the
/// group's PUs pays (see docs/reference/model.md): the model knows no cost for them.
class RankCosts {
 public:
  RankCosts(const Machine& machine, const Group& group, CostTerms terms = CostTerms::all);

  int size() const noexcept { return group_->size(); }
  const Machine& machine() const noexcept { return *machine_; }
  const Group& group() const noexcept { return *group_; }
  const Pu& pu(int rank) const { return machine_->pus[static_cast<std::size_t>(group_->pus[rank])]; }

  double send(int from, int to) const { return cell(machine_->send_ns, from, to, shared_send_); }
  double recv(int from, int to) const { return cell(machine_->recv_ns, from, to, shared_recv_); }
  double propagation(int from, int to) const { return between_ ? cell(*between_, from, to, 0.0) : 0.0; }
  /// What a lone message takes from call to delivery.
  double message(int from, int to) const { return send(from, to) + propagation(from, to) + recv(from, to); }
  /// From the start of a send to that of the sender's next. At most message().
  double send_gap(int from, int to) const {
    return send_gaps_ ? std::min(cell(*send_gaps_, from, to, shared_send_), message(from, to)) : send(from, to);
  }
  /// From taking one message to having taken this one, if that waited meanwhile. At most message().
  double recv_gap(int from, int to) const {
    return recv_gaps_ ? std::min(cell(*recv_gaps_, from, to, shared_recv_), message(from, to)) : recv(from, to);
  }
  /// How much later than a lone reader the last of so many ranks has a line that all wait for.
  double fan_out(int from, int to, int readers) const noexcept;
  /// What a message of so many lines takes longer than one of one line, as a multiple of that. Never falls.
  double more_lines(double lines) const noexcept;
  /// No line of any message costs less than this multiple of a message of one line.
  double least_line() const noexcept;
  bool has_gaps(Direction direction) const noexcept {
    return (direction == Direction::broadcast ? send_gaps_ : recv_gaps_) != nullptr;
  }
  bool has_gaps() const noexcept { return has_gaps(Direction::broadcast) || has_gaps(Direction::reduce); }
  /// Null where propagation does not count.
  const Matrix* between() const noexcept { return between_; }
  /// What a call costs each rank besides its messages: of a barrier, or of one rank alone, nothing.
  double call(Operation operation) const {
    if (size() < 2) return 0.0;
    return (operation == Operation::barrier ? machine_->barrier_call_ns : machine_->call_ns).value_or(0.0);
  }
  bool shares_pus() const noexcept { return shares_pus_; }
  bool has_exchange() const noexcept { return machine_->exchange_ns.has_value(); }
  double exchange(int a, int b) const { return cell(*machine_->exchange_ns, a, b, shared_send_ + shared_recv_); }

 private:
  double cell(const Matrix& matrix, int from, int to, double shared) const {
    const auto a = static_cast<std::size_t>(group_->pus[from]), b = static_cast<std::size_t>(group_->pus[to]);
    return a == b ? shared : matrix(a, b);
  }

  const Machine* machine_;
  const Group* group_;
  const Matrix *between_ = nullptr, *send_gaps_ = nullptr, *recv_gaps_ = nullptr;
  double shared_send_ = 0.0, shared_recv_ = 0.0;
  bool shares_pus_ = false;
};

/// RankCosts seen as a broadcast in one direction.
class DirectedCosts {
 public:
  DirectedCosts(const RankCosts& ranks, Direction direction) : ranks_(&ranks), direction_(direction) {}

  int size() const noexcept { return ranks_->size(); }
  const RankCosts& ranks() const noexcept { return *ranks_; }
  Direction direction() const noexcept { return direction_; }
  double send(int parent, int child) const {
    return direction_ == Direction::broadcast ? ranks_->send_gap(parent, child) : ranks_->recv_gap(child, parent);
  }
  double latency(int parent, int child) const {
    if (ranks_->has_gaps(direction_)) {
      const bool down = direction_ == Direction::broadcast;
      return ranks_->message(down ? parent : child, down ? child : parent) - send(parent, child);
    }
    return direction_ == Direction::broadcast ? ranks_->propagation(parent, child) + ranks_->recv(parent, child)
                                              : ranks_->propagation(child, parent) + ranks_->send(child, parent);
  }

 private:
  const RankCosts* ranks_;
  Direction direction_;
};

/// Costs of one direction in float, row = parent. Groups of up to most_dense_ranks, and all where the machine holds
/// its costs in full, have two dense n x n matrices: 8 n^2 bytes. Larger ones look costs up by class, in a few KiB;
/// both give the same numbers.
class CostTable {
 public:
  static constexpr int most_dense_ranks = 1024;

  /// `costs`, its machine and its group must outlive the table.
  explicit CostTable(const DirectedCosts& costs);

  int size() const noexcept { return size_; }
  float send(int parent, int child) const { return send_ ? send_[index(parent, child)] : class_send(parent, child); }
  float latency(int parent, int child) const {
    return latency_ ? latency_[index(parent, child)] : class_latency(parent, child);
  }
  float edge(int parent, int child) const { return send(parent, child) + latency(parent, child); }
  /// All of a parent's costs, as long as `row` is not used again. Cost: O(1) if dense, else O(n).
  const float* send_row(int parent, std::vector<float>& row) const;
  const float* latency_row(int parent, std::vector<float>& row) const;
  /// edge() of a parent and every child, likewise in `row`; 0 for the parent itself. Cost: O(n).
  const float* edge_row(int parent, std::vector<float>& row) const;

 private:
  /// A matrix by class as this direction sees it: turned around for a reduction.
  using Classes = std::shared_ptr<const CostsByClass>;

  bool uses_classes() const;
  bool has_gaps() const { return costs_.ranks().has_gaps(costs_.direction()); }
  void fill_dense();
  void fill_exact();
  void fill_shared();
  void find_classes();
  float class_send(int parent, int child) const;
  float class_latency(int parent, int child) const;
  void add_row(const CostsByClass& classes, int parent, std::vector<float>& row) const;
  const float* class_row(int parent, bool send, std::vector<float>& row) const;
  std::size_t index(int parent, int child) const {
    return static_cast<std::size_t>(parent) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(child);
  }

  DirectedCosts costs_;
  int size_;
  std::unique_ptr<float[]> send_, latency_;
  Classes send_classes_, latency_classes_, between_classes_;
  /// edge() by class, as sender's kind, receiver's kind, units shared; empty where there are residuals or shared PUs.
  std::vector<float> edge_classes_;
};

}  // namespace smelt::plan
