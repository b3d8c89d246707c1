#include "state/log/space.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "machine/topology/affinity.hpp"
#include "machine/topology/memory.hpp"
#include "smelt/settings.hpp"

namespace smelt::state::log {
namespace {

constexpr std::uint64_t watch_interval_ns = 100'000;
/// Who sleeps looks around so often: for deaths, and for a leader that is late.
constexpr std::uint64_t longest_sleep_ns = 1'000'000;

bool is_power_of_two(std::uint32_t value, std::uint32_t least, std::uint32_t most) {
  return value >= least && value <= most && (value & (value - 1)) == 0;
}

Result<void> check_numbers(const LogOptions& options) {
  const auto wrong = [](const char* what, auto value, const char* range) {
    return make_error(Status::invalid_argument, "replicated log: {} is {}; it must be {}", what, value, range);
  };
  if (!is_power_of_two(options.entries, 64, 1u << 20)) {
    return wrong("entries", options.entries, "a power of 2 from 64 to 2^20");
  }
  if (!is_power_of_two(options.requests, 2, 1u << 16)) {
    return wrong("requests", options.requests, "a power of 2 from 2 to 2^16");
  }
  if (options.command_bytes < 1 || options.command_bytes > 65535) {
    return wrong("command_bytes", options.command_bytes, "from 1 to 65535");
  }
  if (!(options.suspect_after_s > 0) || !std::isfinite(options.suspect_after_s)) {
    return wrong("suspect_after_s", options.suspect_after_s, "above 0");
  }
  if (!(options.evict_after_s > 0) || !std::isfinite(options.evict_after_s)) {
    return wrong("evict_after_s", options.evict_after_s, "above 0");
  }
  if (options.algorithm != "1paxos" && options.algorithm != "broadcast") {
    return wrong("algorithm", "'" + options.algorithm + "'", "'1paxos' or 'broadcast'");
  }
  return {};
}

Result<Shape> make_shape(int size, const LogOptions& options, Faults usual_faults, int usual_leader) {
  if (auto checked = check_numbers(options); !checked) return checked.error();
  if (size < 1 || size > nobody) {
    return make_error(Status::invalid_argument, "replicated log: {} ranks; it must be 1 to {}", size, nobody);
  }
  Shape shape;
  shape.ranks = static_cast<std::uint32_t>(size);
  shape.entries = options.entries;
  shape.requests = options.requests;
  shape.command_bytes = options.command_bytes;
  shape.faults = static_cast<std::uint32_t>(options.faults.value_or(usual_faults));
  shape.fixed = options.algorithm == "broadcast" ? 1 : 0;
  shape.suspect_after_s = options.suspect_after_s;
  shape.evict_after_s = options.evict_after_s;
  if (shape.fixed != 0 && options.faults.value_or(Faults::none) != Faults::none) {
    return make_error(Status::invalid_argument,
                      "replicated log: algorithm 'broadcast' survives nothing; leave faults unset, or take '1paxos'");
  }
  if (shape.fixed != 0) shape.faults = static_cast<std::uint32_t>(Faults::none);
  for (int rank : options.replicas) {
    if (rank < 0 || rank >= size) {
      return make_error(Status::invalid_argument, "replicated log: replicas: rank {} is not in 0 to {}", rank,
                        size - 1);
    }
    shape.replicas[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }
  for (int rank = 0; options.replicas.empty() && rank < size; ++rank) {
    shape.replicas[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }
  int leader = options.leader.value_or(usual_leader);
  if (!options.leader) {
    while (!shape.is_replica(leader)) leader = (leader + 1) % size;
  }
  if (leader < 0 || leader >= size || !shape.is_replica(leader)) {
    return make_error(Status::invalid_argument, "replicated log: leader: rank {} is no replica", leader);
  }
  shape.leader = static_cast<std::uint32_t>(leader);
  return shape;
}

/// Writes what is not zero at first. Before anybody else knows the memory.
void prepare(std::byte* memory, const Shape& shape, Among among) {
  new (memory) Head{};
  const Layout layout(memory, shape);
  Head& head = layout.head();
  head.shape = shape;
  head.bell.among = among;
  const Configuration first{1, static_cast<int>(shape.leader)};
  head.configuration.store(first.word(), std::memory_order_relaxed);
  head.floor.store(Floor::word(1, 0), std::memory_order_relaxed);
  for (int rank = 0; rank < static_cast<int>(shape.ranks); ++rank) {
    const Progress at_first{0, shape.is_replica(rank) ? Standing::live : Standing::out, 0};
    layout.part(rank).progress.store(at_first.word(), std::memory_order_relaxed);
  }
}

/// With the shape of the process that prepared it.
Layout layout_of(std::byte* memory) { return {memory, reinterpret_cast<const Head*>(memory)->shape}; }

/// The rank whose messages to and from the others take the least; 0 where the machine has no costs.
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

void place(const comm::State& state, const Layout& layout, comm::Placement bind) {
  const Machine& machine = state.machine;
  if (machine.numa_nodes.size() < 2) return;
  for (int rank = 0; rank < state.group.size(); ++rank) {
    const auto& pu = machine.pus[static_cast<std::size_t>(state.group.pus[static_cast<std::size_t>(rank)])];
    const auto node = static_cast<std::size_t>(pu.numa_node);
    if (node >= machine.numa_nodes.size()) continue;
    // A model of another machine may name NUMA nodes that are not here; then the kernel chooses.
    (void)bind(layout.part_begin(rank), layout.part_bytes(), machine.numa_nodes[node].os_index);
  }
}

comm::Prepare preparation(const Shape& shape, const comm::State* state) {
  return [shape, state]() -> Result<comm::Provision> {
    const auto fill = [shape, state](std::byte* user) {
      if (state != nullptr) place(*state, Layout(user, shape), bind_reserved_to_numa_node);
      prepare(user, shape, Among::processes);
    };
    return comm::Provision{"replicated log", Layout::bytes(shape), fill};
  };
}

}  // namespace

bool Space::own(int rank) const noexcept {
  return std::find(own_ranks_.begin(), own_ranks_.end(), rank) != own_ranks_.end();
}

Space::~Space() {
  if (!members_) return;
  for (int rank : own_ranks_) members_->leave(rank);
}

Result<void> Space::open(const LogOptions& options, int parallelism, std::span<const int> ranks) {
  own_ranks_.assign(ranks.begin(), ranks.end());
  const auto mode = options.wait.empty() ? setting_value("SMELT_WAIT") : options.wait;
  if (!parse_wait_mode(mode)) {
    return make_error(Status::invalid_argument, "replicated log: wait mode '{}': must be spin, yield, sleep or auto",
                      mode);
  }
  wait_ = make_wait_config(size(), parallelism, mode, processes_);
  wait_.longest_sleep_ns = longest_sleep_ns;
  if (processes_) watch_.emplace(*members_, comm::Watch::Method::automatic, watch_interval_ns);
  return {};
}

Result<std::shared_ptr<Space>> Space::create(const std::shared_ptr<comm::State>& communicator,
                                             const LogOptions& options) {
  comm::State& state = *communicator;
  const int size = state.group.size();
  const bool processes = state.over_processes();
  auto shape =
      make_shape(size, options, processes ? Faults::crash : Faults::none, nearest_rank(state.machine, state.group));
  if (!shape) return shape.error();
  std::shared_ptr<Space> space(new Space());
  space->processes_ = processes;
  if (processes) {
    const int number = state.next_number();
    comm::MeetOptions meet_options;
    if (state.options.timeout_s > 0.0) meet_options.timeout_s = state.options.timeout_s;
    meet_options.stands = [&state]() -> Result<void> {
      if (!state.somebody_died() && state.status() == Status::ok) return {};
      return Error{state.status(), "replicated log: " + state.failure()};
    };
    auto meeting = comm::meet(fmt::format("{:016x}-log-{}", state.id(), number), size, state.own_ranks(),
                              preparation(*shape, &state), meet_options);
    if (!meeting) return meeting.error();
    space->meeting_ = std::move(*meeting);
    space->members_.emplace(space->meeting_->membership());
    space->layout_ = layout_of(space->meeting_->user());
  } else {
    const std::size_t registry = (comm::Membership::bytes(size) + 4095) / 4096 * 4096;
    auto segment = Segment::anonymous(registry + Layout::bytes(*shape));
    if (!segment) return segment.error();
    space->segment_ = std::move(*segment);
    space->members_.emplace(space->segment_.data(), size);
    space->layout_ = Layout(space->segment_.data() + registry, *shape);
    place(state, space->layout_, bind_to_numa_node);
    prepare(space->segment_.data() + registry, *shape, Among::threads);
    for (int rank = 0; rank < size; ++rank) {
      if (auto joined = space->members_->join(rank); !joined) return joined.error();
    }
  }
  if (auto opened = space->open(options, state.parallelism, state.own_ranks()); !opened) return opened.error();
  return space;
}

Result<std::shared_ptr<Space>> Space::create_shared(const std::string& name, int size, std::span<const int> ranks,
                                                    const LogOptions& options, double timeout_s) {
  if (name.empty()) return make_error(Status::invalid_argument, "replicated log: the name is empty");
  auto shape = make_shape(size, options, Faults::crash, 0);
  if (!shape) return shape.error();
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  comm::MeetOptions meet_options;
  meet_options.timeout_s = timeout_s;
  auto meeting = comm::meet(name, size, ranks, preparation(*shape, nullptr), meet_options);
  if (!meeting) return meeting.error();
  if (meeting->blueprint() != "replicated log") {
    return make_error(Status::bad_format, "replicated log: '{}' is the name of something else", name);
  }
  std::shared_ptr<Space> space(new Space());
  space->processes_ = true;
  space->meeting_ = std::move(*meeting);
  space->members_.emplace(space->meeting_->membership());
  space->layout_ = layout_of(space->meeting_->user());
  if (auto opened = space->open(options, allowance->parallelism(), ranks); !opened) return opened.error();
  return space;
}

}  // namespace smelt::state::log
