#include "measure/call_timer.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/segment.hpp"
#include "channel/ump.hpp"
#include "measure/channel_timer.hpp"
#include "measure/statistics.hpp"
#include "measure/timing_thread.hpp"
#include "smelt/communicator.hpp"

namespace smelt::measure {
namespace {

constexpr int calls_per_batch = 32;
constexpr int batches = 24;  ///< of each kind, per communicator
/// Several communicators are measured, since each has its channels at other addresses and the latency of a line depends
/// on its home in the last-level cache.
constexpr int communicators = 15, communicators_quick = 5;
constexpr double least_s = 0.01;  ///< shorter measurements are not begun

/// A machine that consists of the two PUs that exchange messages fastest.
std::optional<Machine> fastest_pair(const Machine& machine) {
  if (machine.size() < 2 || !machine.exchange_ns) return std::nullopt;
  std::size_t a = 0, b = 1;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    for (std::size_t j = i + 1; j < machine.size(); ++j) {
      if ((*machine.exchange_ns)(i, j) < (*machine.exchange_ns)(a, b)) a = i, b = j;
    }
  }
  const auto part_of = [&](const Matrix& whole) { return Matrix(2, {0.0, whole(a, b), whole(b, a), 0.0}); };
  Machine pair;
  pair.name = machine.name;
  pair.pus = {machine.pus[a], machine.pus[b]};
  pair.numa_nodes = machine.numa_nodes;
  pair.send_ns = part_of(machine.send_ns);
  pair.recv_ns = part_of(machine.recv_ns);
  if (machine.propagation_ns) pair.propagation_ns = part_of(*machine.propagation_ns);
  pair.exchange_ns = part_of(*machine.exchange_ns);
  if (machine.send_gap_ns) pair.send_gap_ns = part_of(*machine.send_gap_ns);
  if (machine.recv_gap_ns) pair.recv_gap_ns = part_of(*machine.recv_gap_ns);
  return pair;
}

/// The ends of two bare channels, one each way.
struct BareEnds {
  BareEnds(std::byte* memory, bool first)
      : out(memory + (first ? 0 : channel_bytes), channel_lines),
        in(memory + (first ? channel_bytes : 0), channel_lines) {}

  /// False if the waiter was interrupted.
  bool exchange(Waiter& waiter) noexcept {
    std::uint64_t word = 0;
    return out.send(&word, sizeof word, waiter) && in.recv(&word, sizeof word, waiter);
  }

  static constexpr std::size_t channel_bytes = channel::ump_bytes(channel_lines);
  channel::UmpSender out;
  channel::UmpReceiver in;
};

/// How much longer a barrier and an allreduce of one number take than an exchange on one communicator; empty if it
/// broke.
std::optional<CallCosts> time_one(const Machine& pair, double deadline_s) {
  CommunicatorOptions options;
  options.profile = "none";
  options.revalidate = false;
  options.barrier = "dissemination";
  options.algorithm = "allreduce_recursive_doubling";
  options.wait = "auto";
  options.search_ms = 0.0;
  options.timeout_s = std::max(least_s, deadline_s - monotonic_s());
  auto communicator = Communicator::create(pair, {{0, 1}}, options);
  auto bare = Segment::anonymous(2 * BareEnds::channel_bytes);
  if (!communicator || !bare) return std::nullopt;
  StopFlag stop(deadline_s);                            // a rank whose peer gave up does not wait for it for ever
  std::vector<double> exchanges, barriers, allreduces;  // rank 0 alone writes; read after its thread has been joined
  const auto timed = communicator->run([&](Rank& rank) {
    alignas(separation_bytes) double number = 1.0, total = 0.0;
    BareEnds ends(bare->data(), rank.rank() == 0);
    Waiter waiter = stop.make_waiter();
    bool together = true;
    const auto batch = [&](auto&& call, std::vector<double>& samples) {
      call();
      const auto start = ticks();
      for (int k = 0; k < calls_per_batch; ++k) call();
      if (rank.rank() == 0) samples.push_back(to_ns(ticks() - start) / calls_per_batch);
    };
    for (int n = 0; n < batches; ++n) {
      // Rank 0 decides for both whether to go on, so that neither waits for the other after the deadline.
      bool in_time = monotonic_s() < deadline_s;
      if (rank.broadcast(&in_time, sizeof in_time, 0) != Status::ok || !in_time) return;
      batch([&] { together = together && ends.exchange(waiter); }, exchanges);
      if (!together) return;
      batch([&] { rank.barrier(); }, barriers);
      batch([&] { rank.allreduce(&number, &total, 1, sum<double>()); }, allreduces);
    }
  });
  if (!timed || allreduces.size() < batches) return std::nullopt;
  const double exchange_ns = median(std::move(exchanges));
  return CallCosts{median(std::move(allreduces)) - exchange_ns, median(std::move(barriers)) - exchange_ns};
}

}  // namespace

std::optional<CallCosts> time_calls(const Machine& machine, bool quick, double deadline_s) {
  const auto pair = fastest_pair(machine);
  if (!pair) return std::nullopt;
  std::vector<double> calls, barriers;
  for (int n = quick ? communicators_quick : communicators; n > 0 && deadline_s - monotonic_s() > least_s; --n) {
    const auto one = time_one(*pair, deadline_s);
    if (!one) return std::nullopt;
    calls.push_back(one->call_ns);
    barriers.push_back(one->barrier_ns);
  }
  if (calls.empty()) return std::nullopt;
  return CallCosts{std::max(0.0, median(std::move(calls))), std::max(0.0, median(std::move(barriers)))};
}

}  // namespace smelt::measure
