// A lower bound for all schedules of an operation on the model of lowering.hpp: the larger of two bounds.
//
// Message: a rank that needs data of another rank receives at least one message; a rank whose data others need sends at
// least one. The bound is the maximum over the ranks of the cheapest such message.
//
// Work: bytes that must be moved between ranks and combined, by the rank that has them or the one that needs them.
// Summed over the ranks, for b bytes (of the vector, or of a block) and n ranks:
//
//   broadcast, scatter, gather   (n-1) b               allgather, alltoall   n (n-1) b
//   reduce, scan                 (n-1) b, all combined
//   exscan                       (n-1) b, all except b combined
//   allreduce                    2 (n-1) b, half of it combined: gossiping needs as many transfers [gossip]
//   reduce-scatter               n (n-1) b, all combined
//
// If part of a rank's input belongs to its own result, b (scatter, gather, scan) or n b (allgather, alltoall) are
// copied in addition. The work is done at the rate of the cheapest pair and shared evenly by all PUs. In an allgather a
// rank keeps what the others get, so it may read both in one pass, chunk by chunk.
//
// Source: [gossip] Harary and Schwenk 1974, "The communication problem on graphs and digraphs".
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "machine/costs_by_class.hpp"
#include "machine/model/copy_costs.hpp"
#include "plan/schedule/lowering.hpp"
#include "smelt/schedule.hpp"

namespace smelt {
namespace plan {
namespace {

constexpr double unreachable_ns = std::numeric_limits<double>::infinity();

/// Numbers of bytes, over all ranks.
struct ByteCounts {
  double moved = 0.0;
  double combined = 0.0;  ///< part of `moved`
  double kept = 0.0;      ///< copied from a rank's input to its own result
  bool again = false;     ///< the bytes that are kept are also those that others get
};

ByteCounts least_amount(Operation operation, double bytes, int ranks) {
  const double n = ranks, once = (n - 1.0) * bytes;
  switch (operation) {
    case Operation::broadcast: return {.moved = once};
    case Operation::scatter:
    case Operation::gather: return {.moved = once, .kept = bytes};
    case Operation::allgather:
    case Operation::alltoall: return {.moved = n * once, .kept = n * bytes, .again = operation == Operation::allgather};
    case Operation::reduce: return {.moved = once, .combined = once};
    case Operation::scan: return {.moved = once, .combined = once, .kept = bytes};
    case Operation::exscan: return {.moved = once, .combined = once - bytes};
    case Operation::allreduce: return {.moved = 2.0 * once, .combined = once};
    case Operation::reduce_scatter: return {.moved = n * once, .combined = n * once};
    case Operation::barrier:
    case Operation::two_phase_commit: break;
  }
  return {};
}

/// Costs per byte, for pieces of any length.
struct ByteCosts {
  double move_ns = unreachable_ns;
  double combine_ns = unreachable_ns;  ///< of moving and combining it
  double keep_ns = unreachable_ns;     ///< of copying it within a PU's own memory
  double again_ns = unreachable_ns;    ///< of moving it right after such a copy
};

/// The length of a whole buffer, and all shorter lengths at which the slope of the copy cost changes.
std::vector<double> lengths_up_to(const Machine& machine, double whole) {
  std::vector<double> lengths = {whole};
  std::vector<double> bends = {estimated_cache_bytes};
  if (machine.copy) {
    const auto& copy = *machine.copy;
    bends = {copy.chunk_bytes, copy.cached_bytes, copy.shared_bytes, copy.memory_bytes};
  }
  std::copy_if(bends.begin(), bends.end(), std::back_inserter(lengths),
               [whole](double length) { return 0.0 < length && length < whole; });
  return lengths;
}

/// Direct copies of a buffer between PUs.
class CopyPaths {
 public:
  CopyPaths(const Machine& machine, double whole, int copiers)
      : machine_(machine), whole_(whole), copiers_(copiers), lengths_(lengths_up_to(machine, whole)) {}

  ByteCosts pace(std::size_t from, std::size_t to) const {
    // Where combining was measured as a multiple of a copy, that may be as little as the copy.
    const double add = machine_.combine_share.empty() ? add_ns(to) : 0.0, least = least_ns(from, to, copiers_);
    // A piece may be fetched from a cache, but its other end is where the whole buffer is.
    const double own = per_byte(to, to), other = per_byte(from, to);
    return {.move_ns = std::max(least, std::min(own, other)),
            .combine_ns = std::max(least + add, std::min(own, other + add))};
  }
  /// Writing data that the PU has just read: half of the additional cost of a long copy remains.
  double again_ns(std::size_t pu) const { return (per_byte(pu, pu) + least_ns(pu, pu, copiers_)) / 2; }
  /// Combining data that is in the cache.
  double combine_ns(std::size_t pu) const { return least_ns(pu, pu, 1) + add_ns(pu); }

 private:
  /// Least cost per byte beyond the start-up cost. For a piecewise linear function the minimum is at a bend or an end.
  double least_ns(std::size_t from, std::size_t to, int copiers) const {
    const double any = copy_ns(machine_, from, to, std::numeric_limits<double>::min(), copiers);
    double least = unreachable_ns;
    for (const double length : lengths_) {
      least = std::min(least, (copy_ns(machine_, from, to, length, copiers) - any) / length);
    }
    return least;
  }
  double per_byte(std::size_t from, std::size_t to) const {
    return copy_ns(machine_, from, to, whole_, copiers_) / whole_;
  }
  double add_ns(std::size_t pu) const {
    return (smelt::combine_ns(machine_, pu, pu, whole_, 1) - copy_ns(machine_, pu, pu, whole_, 1)) / whole_;
  }

  const Machine& machine_;
  double whole_;
  int copiers_;
  std::vector<double> lengths_;
};

/// Cost of a message without propagation, for the rank for which it is cheapest.
double line_ns(const RankCosts& costs, int from, int to) {
  const double line =
      std::min({costs.recv(from, to), costs.recv_gap(from, to), costs.least_line() * costs.message(from, to)});
  return costs.has_exchange() ? std::min(line, costs.exchange(from, to)) : line;
}

/// The classes of a group's pairs, where all pairs of a class cost the same: then one of each is looked at.
class PairClasses {
 public:
  explicit PairClasses(const RankCosts& costs) : pus_(costs.group().pus) {
    if (costs.shares_pus()) return;
    const Machine& machine = costs.machine();
    std::vector<const Matrix*> all = {&machine.send_ns, &machine.recv_ns};
    for (const auto* known :
         {&machine.propagation_ns, &machine.exchange_ns, &machine.send_gap_ns, &machine.recv_gap_ns}) {
      if (*known) all.push_back(&**known);
    }
    if (machine.copy) {
      const auto& copy = *machine.copy;
      all.insert(all.end(), {&copy.startup_ns, &copy.chunk_ns_per_kib, &copy.cached_ns_per_kib, &copy.shared_ns_per_kib,
                             &copy.memory_ns_per_kib});
    }
    const bool by_class = std::all_of(all.begin(), all.end(), [](const Matrix* matrix) {
      return matrix->classes() != nullptr && !matrix->classes()->has_residuals();
    });
    if (by_class) places_ = &machine.send_ns.classes()->places();
  }

  /// 0: each pair has costs of its own.
  std::size_t count() const {
    return places_ == nullptr ? 0 : static_cast<std::size_t>(places_->kinds() * places_->kinds() * shared_count);
  }
  /// The classes of the pairs from one rank to every rank. Requires: count() > 0. Cost: O(PUs of the machine).
  void row(int from, std::vector<std::size_t>& classes) {
    const auto a = static_cast<std::size_t>(pus_[static_cast<std::size_t>(from)]);
    shared_.resize(places_->size());
    places_->shared_row(a, shared_.data());
    classes.resize(pus_.size());
    for (std::size_t to = 0; to < pus_.size(); ++to) {
      const auto b = static_cast<std::size_t>(pus_[to]);
      const int kinds = places_->kind(a) * places_->kinds() + places_->kind(b);
      classes[to] = static_cast<std::size_t>(kinds * shared_count + shared_[b]);
    }
  }

 private:
  const std::vector<int>& pus_;
  const Places* places_ = nullptr;
  std::vector<SharedUnits> shared_;
};

/// Calls act(from, to, value of that pair) for every pair of ranks. `value_of` is called once for each class of pairs.
template <class Value, class Act>
void for_each_pair(const RankCosts& costs, Value&& value_of, Act&& act) {
  using Cost = decltype(value_of(0, 0));
  PairClasses classes(costs);
  std::vector<std::optional<Cost>> known(classes.count());
  std::vector<std::size_t> row;
  for (int from = 0; from < costs.size(); ++from) {
    if (!known.empty()) classes.row(from, row);
    for (int to = 0; to < costs.size(); ++to) {
      if (from == to) continue;
      if (known.empty()) {
        act(from, to, value_of(from, to));
        continue;
      }
      auto& cost = known[row[static_cast<std::size_t>(to)]];
      if (!cost) cost = value_of(from, to);
      act(from, to, *cost);
    }
  }
}

/// The cheaper of a direct copy and a transfer line by line through a channel.
ByteCosts cheapest_pace(const RankCosts& costs, double whole, int copiers) {
  const CopyPaths copies(costs.machine(), whole, copiers);
  const auto pu = [&](int rank) { return static_cast<std::size_t>(costs.group().pus[static_cast<std::size_t>(rank)]); };
  ByteCosts best;
  for (int to = 0; to < costs.size(); ++to) {
    best.keep_ns = std::min(best.keep_ns, copies.pace(pu(to), pu(to)).move_ns);
    best.again_ns = std::min(best.again_ns, copies.again_ns(pu(to)));
  }
  const auto pace = [&](int from, int to) {
    const auto straight = copies.pace(pu(from), pu(to));
    const double streamed = line_ns(costs, from, to) / payload_bytes;
    return ByteCosts{.move_ns = std::min(straight.move_ns, streamed),
                     .combine_ns = std::min(straight.combine_ns, streamed + copies.combine_ns(pu(to)))};
  };
  for_each_pair(costs, pace, [&](int, int, const ByteCosts& one) {
    best.move_ns = std::min(best.move_ns, one.move_ns);
    best.combine_ns = std::min(best.combine_ns, one.combine_ns);
  });
  return best;
}

bool must_hear(Operation operation, int rank, int root) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return rank != root;
    case Operation::reduce:
    case Operation::gather: return rank == root;
    case Operation::scan:
    case Operation::exscan: return rank > 0;
    default: return true;
  }
}

bool must_be_heard(Operation operation, int rank, int root, int ranks) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return rank == root;
    case Operation::reduce:
    case Operation::gather: return rank != root;
    case Operation::scan:
    case Operation::exscan: return rank + 1 < ranks;
    default: return true;
  }
}

double message_floor(const RankCosts& costs, Operation operation, int root) {
  const int ranks = costs.size();
  std::vector<double> heard(static_cast<std::size_t>(ranks), unreachable_ns), told = heard;
  const auto message_ns = [&](int from, int to) {
    const double one = costs.message(from, to);
    return costs.has_exchange() ? std::min(one, costs.exchange(from, to)) : one;
  };
  for_each_pair(costs, message_ns, [&](int from, int to, double one) {
    auto &hears = heard[static_cast<std::size_t>(to)], &tells = told[static_cast<std::size_t>(from)];
    hears = std::min(hears, one);
    tells = std::min(tells, one);
  });
  double floor_ns = 0.0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    if (must_hear(operation, rank, root)) floor_ns = std::max(floor_ns, heard[i]);
    if (must_be_heard(operation, rank, root, ranks)) floor_ns = std::max(floor_ns, told[i]);
  }
  return floor_ns;
}

}  // namespace
}  // namespace plan

ScheduleFloor schedule_floor(const Machine& machine, const Group& group, Operation operation, std::size_t bytes,
                             int root) {
  const int ranks = group.size();
  const int pus = static_cast<int>(std::set<int>(group.pus.begin(), group.pus.end()).size());
  if (pus < 2 || bytes == 0 || !machine.has_costs()) return {};
  const plan::RankCosts costs(machine, group);
  const auto amount = plan::least_amount(operation, static_cast<double>(bytes), ranks);
  const double whole = static_cast<double>(bytes) * (has_rank_blocks(operation) ? ranks : 1);
  const auto pace = plan::cheapest_pace(costs, whole, plan::copiers_of(operation, pus));
  ScheduleFloor found{
      .message_ns = plan::message_floor(costs, operation, root), .moved_bytes = amount.moved, .pus = pus};
  const double move_ns = amount.again ? std::min(pace.move_ns, pace.again_ns) : pace.move_ns;
  found.work_ns =
      (amount.combined * pace.combine_ns + (amount.moved - amount.combined) * move_ns + amount.kept * pace.keep_ns) /
      pus;
  return found;
}

}  // namespace smelt
