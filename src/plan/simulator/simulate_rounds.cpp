#include "plan/simulator/simulate_rounds.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "machine/costs_by_class.hpp"
#include "plan/schedule/lowering.hpp"

namespace smelt::plan {
namespace {

using MatrixField = std::optional<Matrix> Machine::*;
constexpr MatrixField optional_costs[] = {&Machine::propagation_ns, &Machine::exchange_ns, &Machine::send_gap_ns,
                                          &Machine::recv_gap_ns};

constexpr Matrix CopyCosts::*copy_costs[] = {&CopyCosts::startup_ns, &CopyCosts::chunk_ns_per_kib,
                                             &CopyCosts::cached_ns_per_kib, &CopyCosts::shared_ns_per_kib,
                                             &CopyCosts::memory_ns_per_kib};

Matrix without_residuals(const Matrix& matrix) {
  if (!matrix.classes()->has_residuals()) return matrix;
  auto plain = std::make_shared<CostsByClass>(*matrix.classes());
  for (int level = 0; level <= pu_level; ++level) plain->set_residuals(level, {});
  return Matrix(std::shared_ptr<const CostsByClass>(std::move(plain)));
}

Machine by_class_alone(Machine machine) {
  machine.send_ns = without_residuals(machine.send_ns);
  machine.recv_ns = without_residuals(machine.recv_ns);
  for (const MatrixField field : optional_costs) {
    if (auto& costs = machine.*field) costs = without_residuals(*costs);
  }
  for (const auto field : copy_costs) {
    if (machine.copy) (*machine.copy).*field = without_residuals((*machine.copy).*field);
  }
  return machine;
}

class RoundSimulator {
 public:
  RoundSimulator(const Machine& machine, const Group& group, const ScheduleRequest& request, std::size_t bytes,
                 std::size_t element_bytes, const Reach& reach)
      : machine_(by_class_alone(machine)),
        group_(group),
        places_(machine_.send_ns.classes()->places()),
        lowering_(machine_, group_, reach),
        known_(static_cast<std::size_t>(2 * places_.kinds() * places_.kinds() * shared_count)) {
    lowering_.choose(request, bytes, element_bytes);
  }

  ScheduleTimes run(std::span<const double> start_ns) {
    const auto n = static_cast<std::size_t>(group_.size());
    ranks_.assign(n, {});
    inbox_.resize(n);
    lower(0);
    for (std::size_t r = 0; r < n; ++r) {
      ranks_[r].clock = (start_ns.empty() ? 0.0 : start_ns[r]) + program_.set_up_ns + program_.body.front().after_ns;
    }
    for (std::size_t k = 1; k < n; ++k) {
      for (std::size_t r = 0; r < n; ++r) send(r, k);
      for (std::size_t r = 0; r < n; ++r) receive(r, k);
    }
    ScheduleTimes times;
    for (const Rank& rank : ranks_) times.finish_ns.push_back(std::max(rank.clock, rank.returned));
    times.total_ns = *std::max_element(times.finish_ns.begin(), times.finish_ns.end());
    return times;
  }

 private:
  struct Rank {
    double clock = 0.0, next_send = 0.0, exchange_start = 0.0;
    double returned = 0.0;  ///< when the last lent buffer has been read
  };
  struct Message {
    double first_line, stream, start;
    std::uint32_t pair;  ///< index in known_
  };
  /// Both ends of the exchanges of a class, and of those where both ranks are each other's partners.
  struct Ends {
    bool known = false;
    LoweredOp send, receive;
  };

  std::size_t pu(std::size_t rank) const { return static_cast<std::size_t>(group_.pus[rank]); }

  void lower(std::size_t rank) {
    if (lowered_ != static_cast<int>(rank)) lowering_.lower(static_cast<int>(rank), program_);
    lowered_ = static_cast<int>(rank);
  }

  /// After the copy of the rank's own block the body holds a send and a receive for each round.
  const Ends& ends_of(std::uint32_t pair, std::size_t sender, std::size_t k) {
    Ends& ends = known_[pair];
    if (ends.known) return ends;
    lower(sender);
    ends.send = program_.body[1 + 2 * (k - 1)];
    lower((sender + k) % ranks_.size());
    ends.receive = program_.body[2 + 2 * (k - 1)];
    ends.known = true;
    return ends;
  }

  void send(std::size_t r, std::size_t k) {
    const std::size_t n = ranks_.size(), to = r + k < n ? r + k : r + k - n;
    const std::size_t a = pu(r), b = pu(to);
    const int partners = 2 * k == n ? 1 : 0;
    const auto pair = static_cast<std::uint32_t>(
        ((partners * places_.kinds() + places_.kind(a)) * places_.kinds() + places_.kind(b)) * shared_count +
        places_.shared(a, b));
    const LoweredOp& op = ends_of(pair, r, k).send;
    Rank& rank = ranks_[r];
    const double start = std::max(rank.clock, rank.next_send);
    if (op.exchanged) rank.exchange_start = start;
    rank.clock = start + op.line_ns;
    rank.next_send = start + op.gap_ns;
    inbox_[to] = {rank.clock + op.way_ns, op.stream_ns, start, pair};
    rank.clock += op.stream_ns / 2;
  }

  void receive(std::size_t r, std::size_t k) {
    const std::size_t n = ranks_.size(), from = r >= k ? r - k : r + n - k;
    const Message& message = inbox_[r];
    const LoweredOp& op = known_[message.pair].receive;
    Rank& rank = ranks_[r];
    rank.clock = std::max(rank.clock, message.first_line) + op.line_ns + std::max(message.stream, op.stream_ns);
    if (op.lent) {
      Rank& sender = ranks_[from];
      sender.returned = std::max(sender.returned, rank.clock + op.way_ns);
    }
    if (op.exchanged) {
      rank.clock = rank.next_send = std::max(rank.exchange_start, message.start) + op.exchange_ns;
    }
    rank.clock += op.after_ns;
  }

  const Machine machine_;
  const Group& group_;
  const Places& places_;
  Lowering lowering_;
  LoweredProgram program_;
  int lowered_ = -1;
  std::vector<Ends> known_;  ///< by whether the ranks are each other's partners, their kinds, the units that they share
  std::vector<Rank> ranks_;
  std::vector<Message> inbox_;
};

}  // namespace

bool has_rounds(const Machine& machine, const Group& group, const ScheduleRequest& request) {
  if (request.recipe.algorithm != "alltoall_pairwise" || request.recipe.chunk_bytes != 0 || group.size() < 3) {
    return false;
  }
  const auto by_class = [&](const Matrix& matrix) { return matrix.classes() != nullptr; };
  if (!by_class(machine.send_ns) || !by_class(machine.recv_ns)) return false;
  for (const MatrixField field : optional_costs) {
    if (const auto& costs = machine.*field; costs && !by_class(*costs)) return false;
  }
  for (const auto field : copy_costs) {
    if (machine.copy && !by_class((*machine.copy).*field)) return false;
  }
  return std::set<int>(group.pus.begin(), group.pus.end()).size() == group.pus.size();
}

ScheduleTimes simulate_rounds(const Machine& machine, const Group& group, const ScheduleRequest& request,
                              std::size_t bytes, std::size_t element_bytes, const Reach& reach,
                              std::span<const double> start_ns) {
  return RoundSimulator(machine, group, request, bytes, element_bytes, reach).run(start_ns);
}

}  // namespace smelt::plan
