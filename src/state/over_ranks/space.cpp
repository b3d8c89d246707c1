#include "state/over_ranks/space.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/tuner_access.hpp"
#include "machine/topology/memory.hpp"
#include "smelt/settings.hpp"
#include "state/over_ranks/member.hpp"
#include "state/place_parts.hpp"

namespace smelt::state::over_ranks {
namespace {

constexpr const char* meeting_kind = "map over ranks";  // the purpose of a rendezvous
constexpr std::uint64_t deaths_interval_ns = 100'000;
/// The interval at which sleeping ranks check for deaths and stop requests.
constexpr std::uint64_t longest_nap_ns = 1'000'000;
/// An evicted replica loses the answers of its own updates. So where Faults::stop is not asked for, one that is merely
/// late, on a machine with much to do, is waited for.
constexpr double evict_late_after_s = 2.0;

/// The fastest broadcast tree from a root; without costs, the root sends to all.
std::vector<int> tree_from(const comm::CommunicatorState& state, int root) {
  PlanOptions options;
  options.root = root;
  options.search_ms = 0;
  const auto plan = make_plan(state.machine, state.group, smelt::Operation::broadcast, options);
  if (plan && plan->broadcast_tree) return plan->broadcast_tree->parents();
  std::vector<int> parents(static_cast<std::size_t>(state.group.size()), root);
  parents[static_cast<std::size_t>(root)] = -1;
  return parents;
}

void place(const comm::CommunicatorState& state, const Layout& layout, comm::Placement bind) {
  place_parts(
      state, bind, [&](int rank) { return layout.part_begin(rank); },
      [&](int rank) { return layout.part_bytes(rank); });
}

/// Writes the constants for all processes into zeroed memory.
void prepare_memory(const Layout& layout, const Shape& shape, FutexScope among) {
  layout.head().shape = shape;
  for (int rank = 0; rank < static_cast<int>(shape.ranks); ++rank) {
    layout.parents_in_memory()[rank] = layout.parents()[static_cast<std::size_t>(rank)];
    layout.part(rank).bell.scope = among;
  }
}

Layout layout_found_in(std::byte* memory) {
  const Shape shape = reinterpret_cast<const Head*>(memory)->shape;
  const auto* parents = reinterpret_cast<const std::int32_t*>(memory + sizeof(Head));
  return {memory, shape, std::vector<int>(parents, parents + shape.ranks)};
}

/// `asked`: by this process; `made`: by the one that came first.
Result<void> check_alike(const Shape& asked, const Shape& made) {
  if (asked == made) return {};
  const auto text = [](const Shape& shape) {
    const auto& algorithm = map_algorithms()[static_cast<std::size_t>(shape.algorithm)].name;
    const auto& sizes = shape.geometry;
    return shape.strings != 0 ? fmt::format("strings by {} with {} servers", algorithm, shape.servers)
                              : fmt::format("keys of {} and values of {} bytes by {} with {} servers", sizes.key_bytes,
                                            sizes.value_bytes, algorithm, shape.servers);
  };
  return make_error(Status::invalid_argument,
                    "map: this process asks for {}, the one that came first for {}: all must ask for the same types "
                    "and options",
                    text(asked), text(made));
}

}  // namespace

Space::~Space() {
  if (!members_) return;
  for (int rank : own_ranks_) members_->leave(rank);
}

Result<void> Space::meet(comm::CommunicatorState& state, const Shape& shape, std::vector<int> parents) {
  const int size = state.group.size();
  const Layout plain(nullptr, shape, parents);
  if (!state.over_processes()) {
    const std::size_t registry = up(comm::Membership::bytes(size), 4096);
    auto segment = Segment::anonymous(registry + plain.bytes());
    if (!segment) return segment.error();
    segment_ = std::move(*segment);
    members_.emplace(segment_.data(), size);
    layout_ = Layout(segment_.data() + registry, shape, std::move(parents));
    place(state, layout_, bind_to_numa_node);
    prepare_memory(layout_, shape, FutexScope::threads);
    for (int rank = 0; rank < size; ++rank) {
      if (auto joined = members_->join(rank); !joined) return joined.error();
    }
    return {};
  }
  const auto fill = [&state, &shape, &parents](std::byte* user) {
    const Layout layout(user, shape, parents);
    place(state, layout, bind_reserved_to_numa_node);
    prepare_memory(layout, shape, FutexScope::processes);
  };
  auto rendezvous = comm::join_rendezvous(
      fmt::format("{:016x}-map-{}", state.id(), state.next_number()), size, state.own_ranks(),
      [&]() -> Result<comm::SegmentContent> {
        return comm::SegmentContent{meeting_kind, plain.bytes(), fill};
      },
      state.meeting_options("map"));
  if (!rendezvous) return rendezvous.error();
  rendezvous_ = std::move(*rendezvous);
  members_.emplace(rendezvous_->membership());
  layout_ = layout_found_in(rendezvous_->user());
  return check_alike(shape, this->shape());
}

Result<void> Space::open(comm::CommunicatorState& state, const MapOptions& options) {
  const auto own = state.own_ranks();
  own_ranks_.assign(own.begin(), own.end());
  capacity_ = options.capacity;
  const auto mode = options.wait.empty() ? setting_value("SMELT_WAIT") : options.wait;
  if (!parse_wait_mode(mode)) {
    return make_error(Status::invalid_argument, "map: wait mode '{}': must be spin, yield, sleep or auto", mode);
  }
  wait_ = make_wait_config(size(), state.parallelism, mode, state.over_processes());
  wait_.longest_sleep_ns = longest_nap_ns;
  if (state.over_processes()) {
    watch_.emplace(*members_, comm::FailureDetector::Method::automatic, deaths_interval_ns);
  }
  return {};
}

/// `name`: of the map, and of its log if that is kept.
Result<void> Space::create_log(const Communicator& communicator, const MapOptions& options, Faults faults,
                               const std::string& name) {
  LogOptions log_options;
  for (int rank = 0; rank < size(); ++rank) {
    if (shape().serves(rank)) log_options.replicas.push_back(rank);
  }
  log_options.faults = faults;
  const bool strings = shape().strings != 0;
  const std::size_t words = strings ? 1 + piece_words : Coding(shape().geometry, false).most_words();
  log_options.command_bytes = static_cast<std::uint32_t>(words * sizeof(Word));
  log_options.requests = static_cast<std::uint32_t>(std::bit_ceil(std::max(strings ? 256u : 64u, 2 * shape().ranks)));
  log_options.wait = options.wait;
  if (options.faults != Faults::stop) log_options.evict_after_s = evict_late_after_s;
  log_options.keep = options.keep;
  auto log = options.keep ? ReplicatedLog::create_shared(name, size(), own_ranks_, log_options)
                          : ReplicatedLog::create(communicator, log_options);
  if (!log) return log.error();
  log_ = std::move(*log);
  return {};
}

Result<std::shared_ptr<Space>> Space::create(const Communicator& communicator, const Shape& shape,
                                             const MapOptions& options, Faults faults, const std::string& name) {
  comm::CommunicatorState& state = *comm::TunerAccess::state(communicator);
  std::shared_ptr<Space> space(new Space());
  std::vector<int> parents(shape.ranks, -1);
  if (shape.sequenced()) parents = tree_from(state, shape.server(0));
  if (auto met = space->meet(state, shape, std::move(parents)); !met) return met.error();
  if (auto opened = space->open(state, options); !opened) return opened.error();
  if (shape.algorithm == Algorithm::kv) {
    if (auto logged = space->create_log(communicator, options, faults, name); !logged) return logged.error();
  }
  return space;
}

Result<std::unique_ptr<map_detail::GroupMember>> Space::attach(int rank) {
  if (layout_.part(rank).attached.exchange(1, std::memory_order_acq_rel) != 0) {
    return make_error(Status::invalid_argument, "map: attach: rank {} has been attached before; it can be left once",
                      rank);
  }
  auto table = LocalTable::create(shape().geometry, shape().strings != 0, capacity_);
  if (!table) return table.error();
  auto member = make_member(shared_from_this(), rank, *std::move(table));
  if (!member) return member.error();
  return std::unique_ptr<map_detail::GroupMember>(*std::move(member));
}

}  // namespace smelt::state::over_ranks
