// A log over the ranks of a communicator. Uses their places and its knowledge of deaths.
#include <cmath>

#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "machine/topology/memory.hpp"
#include "state/log/shape.hpp"
#include "state/log/space.hpp"
#include "state/place_parts.hpp"

namespace smelt::state::log {
namespace {

/// The rank with the cheapest messages to and from the others; 0 if the machine has no costs.
int nearest_rank(const Machine& machine, const Group& group) {
  if (!machine.has_costs()) return 0;
  int best = 0;
  double least = INFINITY;
  for (int rank = 0; rank < group.size(); ++rank) {
    double sum = 0;
    for (int other = 0; other < group.size(); ++other) {
      const auto a = static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank)]);
      const auto b = static_cast<std::size_t>(group.pus[static_cast<std::size_t>(other)]);
      if (a == b) continue;
      sum += machine.send_ns(a, b) + machine.recv_ns(a, b) + machine.send_ns(b, a) + machine.recv_ns(b, a);
    }
    if (sum < least) least = sum, best = rank;
  }
  return best;
}

void place(const comm::CommunicatorState& state, const Layout& layout, comm::Placement bind) {
  place_parts(
      state, bind, [&](int rank) { return layout.part_begin(rank); }, [&](int) { return layout.part_bytes(); });
}

}  // namespace

Result<std::shared_ptr<Space>> Space::create(const std::shared_ptr<comm::CommunicatorState>& communicator,
                                             const LogOptions& options) {
  comm::CommunicatorState& state = *communicator;
  const int size = state.group.size();
  const bool processes = state.over_processes();
  if (options.keep) {
    return make_error(Status::invalid_argument,
                      "replicated log: a log without a name cannot be kept; use create_shared()");
  }
  auto shape =
      make_shape(size, options, processes ? Faults::crash : Faults::none, nearest_rank(state.machine, state.group));
  if (!shape) return shape.error();
  std::shared_ptr<Space> space(new Space());
  space->processes_ = processes;
  if (processes) {
    const int number = state.next_number();
    auto rendezvous = comm::join_rendezvous(
        fmt::format("{:016x}-log-{}", state.id(), number), size, state.own_ranks(),
        preparation(*shape, [&state, shape = *shape](
                                std::byte* user) { place(state, Layout(user, shape), bind_reserved_to_numa_node); }),
        state.meeting_options("replicated log"));
    if (!rendezvous) return rendezvous.error();
    space->rendezvous_ = std::move(*rendezvous);
    space->members_.emplace(space->rendezvous_->membership());
    space->layout_ = Layout(space->rendezvous_->user());
  } else {
    const std::size_t registry = (comm::Membership::bytes(size) + 4095) / 4096 * 4096;
    auto segment = Segment::anonymous(registry + Layout::bytes(*shape));
    if (!segment) return segment.error();
    space->segment_ = std::move(*segment);
    space->members_.emplace(space->segment_.data(), size);
    space->layout_ = Layout(space->segment_.data() + registry, *shape);
    place(state, space->layout_, bind_to_numa_node);
    prepare(space->segment_.data() + registry, *shape, FutexScope::threads);
    for (int rank = 0; rank < size; ++rank) {
      if (auto joined = space->members_->join(rank); !joined) return joined.error();
    }
  }
  if (auto opened = space->open(options, state.parallelism, state.own_ranks()); !opened) return opened.error();
  return space;
}

}  // namespace smelt::state::log
