// Chooses the algorithm and its servers; implements the functions of the public header.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "comm/collective/tuner_access.hpp"
#include "state/map_names.hpp"
#include "state/maps.hpp"
#include "state/over_ranks/message.hpp"
#include "state/over_ranks/space.hpp"

namespace smelt::map_detail {
namespace {

using state::over_ranks::Algorithm;
using state::over_ranks::Coding;
using state::over_ranks::Shape;

constexpr std::size_t most_item_bytes = 4096;
constexpr std::size_t most_ranks = 1023;
constexpr std::uint32_t channel_lines_for_strings = 256;

Error refused(Status status, const std::string& what) { return {status, "map: " + what}; }

MapLoad load_of(const Geometry& geometry, const MapOptions& options, Faults faults) {
  MapLoad load;
  load.lookups = options.lookups;
  load.keys = std::max(options.keys > 0.0 ? options.keys : static_cast<double>(options.capacity), 1.0);
  load.bytes_per_key = static_cast<double>(geometry.bucket_words * sizeof(Word)) / geometry.cells * 1.5;
  load.skew = options.skew;
  load.consistency = options.consistency;
  load.faults = faults;
  return load;
}

/// What the model is told, also where it is not asked.
Result<void> check_load(const MapOptions& options) {
  const auto wrong = [](const char* what, double value, const char* range) {
    return refused(Status::invalid_argument, fmt::format("{} is {}; it must be {}", what, value, range));
  };
  if (!(options.lookups >= 0.0 && options.lookups <= 1.0)) return wrong("lookups", options.lookups, "a share, 0 to 1");
  if (!(options.keys >= 0.0) || !std::isfinite(options.keys)) return wrong("keys", options.keys, "0 or more");
  if (!(options.skew >= 0.0 && options.skew <= 10.0)) return wrong("skew", options.skew, "0 to 10");
  return {};
}

/// What a map over ranks is to be.
struct Wish {
  const Communicator& communicator;
  const Geometry& geometry;
  bool strings;
  const MapOptions& options;
  std::string name{};  ///< under which its processes have met
};

bool can_be_kept(const std::string& algorithm) { return algorithm == "shared" || algorithm == "kv"; }

Result<void> check_options(const Wish& wish, const MapAlgorithm& facts, Faults faults) {
  const auto& [communicator, geometry, strings, options, name] = wish;
  if (options.keep && name.empty()) {
    return refused(Status::not_supported, "a map over ranks without a name is not kept; use create_shared()");
  }
  if (options.keep && !can_be_kept(facts.name)) {
    return refused(
        Status::not_supported,
        fmt::format("{} is not kept: its keys are in the memory of its ranks; take shared or kv", facts.name));
  }
  if (facts.consistency < options.consistency) {
    return refused(Status::not_supported,
                   fmt::format("{} is {}, not {}; allow Consistency::sequential, or take "
                               "another algorithm",
                               facts.name, to_string(facts.consistency), to_string(options.consistency)));
  }
  if (facts.survives < faults) {
    return refused(Status::not_supported, fmt::format("{} survives '{}', not '{}'; take shared or kv", facts.name,
                                                      to_string(facts.survives), to_string(faults)));
  }
  if (facts.name == "shared") return {};
  const int size = communicator.size();
  if (!strings && geometry.key_bytes + geometry.value_bytes > most_item_bytes) {
    return refused(Status::not_supported,
                   fmt::format("{} sends keys and values of up to {} bytes, these have {}; take shared", facts.name,
                               most_item_bytes, geometry.key_bytes + geometry.value_bytes));
  }
  if (static_cast<std::size_t>(size) > most_ranks) {
    return refused(Status::not_supported, fmt::format("{} ranks; at most {}", size, most_ranks));
  }
  if (options.servers < 0 || options.servers > size) {
    return refused(Status::invalid_argument, fmt::format("servers is {}; it must be 0 to {}", options.servers, size));
  }
  if (!options.colocate && facts.needs_servers && (size < 2 || options.servers == size)) {
    return refused(Status::invalid_argument, "with servers apart (colocate = false), one rank at least must be left");
  }
  if (facts.name == "kv" && faults != Faults::none && options.servers != 0 && options.servers != size) {
    return refused(Status::invalid_argument,
                   "kv survives deaths only where every rank has a replica; leave servers unset, or set faults = none");
  }
  return {};
}

/// The first algorithm of the ranking that can do what is wished.
const MapAlgorithm* fastest(const Wish& wish, const GroupPlan& plan) {
  for (const auto& each : plan.ranking) {
    if (!wish.options.keep || can_be_kept(each.algorithm)) return find_map_algorithm(each.algorithm);
  }
  return find_map_algorithm("shared");
}

/// The servers according to the options; otherwise as the algorithm needs on this machine.
int number_of_servers(const Communicator& communicator, const MapOptions& options, const MapAlgorithm& facts,
                      const GroupPlan& plan) {
  const int size = communicator.size();
  if (facts.name == "kv") {
    if (options.servers != 0) return options.servers;
    if (plan.faults != Faults::none) return size;
    const auto nodes = static_cast<int>(comm::TunerAccess::state(communicator)->machine.numa_nodes.size());
    return std::clamp(nodes, 1, size);
  }
  if (!facts.needs_servers) return 0;
  if (facts.name.starts_with("rep_")) return 1;
  if (options.servers != 0) return options.servers;
  if (options.colocate) return size;
  const auto predicted = std::ranges::find(plan.ranking, facts.name, &MapPrediction::algorithm);
  return predicted != plan.ranking.end() ? predicted->servers : std::max(1, size / 4);
}

std::string reason_of(const GroupPlan& plan, const std::string& asked) {
  if (asked != "best") return "asked for";
  if (plan.ranking.empty()) return "the machine has no costs: the algorithm that needs no messages";
  const auto& first = *std::ranges::find(plan.ranking, plan.algorithm, &MapPrediction::algorithm);
  std::string reason = fmt::format("the model expects {:.3g} million operations a second", first.per_s / 1e6);
  if (&first == plan.ranking.data() && plan.ranking.size() > 1) {
    const auto& second = plan.ranking[1];
    reason += fmt::format(", and {:.3g} of {}", second.per_s / 1e6, second.algorithm);
  }
  return reason;
}

Result<GroupPlan> plan_group(const Wish& wish) {
  const auto& [communicator, geometry, strings, options, name] = wish;
  auto& state = *comm::TunerAccess::state(communicator);
  const bool best = options.algorithm == "best";
  const auto* facts = find_map_algorithm(best ? "shared" : options.algorithm);
  if (facts == nullptr) {
    return refused(Status::invalid_argument,
                   fmt::format("there is no algorithm '{}'; map_algorithms() lists them", options.algorithm));
  }
  if (auto checked = check_load(options); !checked) return checked.error();
  GroupPlan plan;
  plan.faults = options.faults.value_or(best && state.over_processes() ? Faults::crash : Faults::none);
  const MapLoad load = load_of(geometry, options, plan.faults);
  if (const auto platform = platform_of(state.machine, state.group)) {
    auto ranking = rank_maps(*platform, load, communicator.size());
    if (!ranking) return ranking.error();
    plan.ranking = *std::move(ranking);
    if (best) facts = fastest(wish, plan);
  }
  if (auto checked = check_options(wish, *facts, plan.faults); !checked) return checked.error();
  if (facts->name == "kv" && !options.faults && state.over_processes()) plan.faults = facts->survives;
  plan.algorithm = facts->name;
  plan.consistency = facts->name == "kv" ? options.consistency : facts->consistency;
  plan.servers = number_of_servers(communicator, options, *facts, plan);
  plan.dedicated = facts->needs_servers && !options.colocate;
  plan.reason = reason_of(plan, options.algorithm);
  Shape shape;
  shape.ranks = static_cast<std::uint32_t>(communicator.size());
  shape.servers = static_cast<std::uint32_t>(plan.servers);
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (shape.serves(rank)) plan.serving.push_back(rank);
  }
  return plan;
}

Result<std::shared_ptr<GroupSpace>> create_space(const Wish& wish, const GroupPlan& plan) {
  const auto& [communicator, geometry, strings, options, name] = wish;
  Shape shape;
  shape.ranks = static_cast<std::uint32_t>(communicator.size());
  shape.strings = strings ? 1 : 0;
  shape.servers = static_cast<std::uint32_t>(plan.servers);
  shape.dedicated = plan.dedicated ? 1 : 0;
  shape.sequential = plan.consistency == Consistency::sequential ? 1 : 0;
  shape.geometry = geometry;
  const auto& all = map_algorithms();
  const auto found = std::ranges::find(all, plan.algorithm, &MapAlgorithm::name);
  shape.algorithm = static_cast<Algorithm>(found - all.begin());
  const std::size_t words = Coding(geometry, strings).most_words();
  const std::size_t lines = words / (channel::line_payload / sizeof(Word)) + 1;
  shape.channel_lines = strings ? channel_lines_for_strings
                                : static_cast<std::uint32_t>(std::bit_ceil(std::max<std::size_t>(64, 4 * lines)));
  auto space = state::over_ranks::Space::create(communicator, shape, options, plan.faults, name);
  if (!space) return space.error();
  return std::shared_ptr<GroupSpace>(std::move(*space));
}

/// A name that only these processes use; "": they are threads of one.
std::string meeting_of(const Communicator& communicator) {
  auto& state = *comm::TunerAccess::state(communicator);
  if (!state.over_processes()) return "";
  return fmt::format("group-{:016x}-{}", state.id(), state.next_number());
}

/// A barrier of all ranks' processes.
Result<void> meet(const Communicator& communicator, const std::string& name) {
  auto& state = *comm::TunerAccess::state(communicator);
  const auto nothing = []() -> Result<comm::SegmentContent> { return comm::SegmentContent{"shared map", 64, {}}; };
  auto met = comm::join_rendezvous("map-" + name, state.group.size(), state.own_ranks(), nothing,
                                   state.meeting_options("map"));
  if (!met) return met.error();
  auto members = met->membership();
  for (int rank : state.own_ranks()) members.leave(rank);
  return {};
}

/// The table of `shared`.
Result<std::shared_ptr<Table>> create_table(const Wish& wish, const GroupPlan& plan) {
  MapOptions options = wish.options;
  options.algorithm = "shared";
  options.faults = plan.faults;
  const std::string meeting = meeting_of(wish.communicator);
  const std::string& name = wish.name.empty() ? meeting : wish.name;
  auto table = name.empty() ? create(wish.geometry, options, wish.strings)
                            : create_shared(name, wish.geometry, options, wish.strings);
  if (!table) return table.error();
  // No rank continues, or leaves, before all have the map.
  if (!meeting.empty()) {
    if (auto met = meet(wish.communicator, meeting); !met) return met.error();
  }
  return table;
}

Result<GroupParts> make_group(const Wish& wish) {
  auto plan = plan_group(wish);
  if (!plan) return plan.error();
  GroupParts made;
  made.plan = *std::move(plan);
  const auto own = comm::TunerAccess::state(wish.communicator)->own_ranks();
  made.ranks.assign(own.begin(), own.end());
  if (made.plan.algorithm == "shared") {
    auto table = create_table(wish, made.plan);
    if (!table) return table.error();
    made.shared = *std::move(table);
    return made;
  }
  auto space = create_space(wish, made.plan);
  if (!space) return space.error();
  made.space = *std::move(space);
  return made;
}

}  // namespace

Result<GroupParts> make_group(const Communicator& communicator, const Geometry& geometry, bool strings,
                              const MapOptions& options) {
  return make_group(Wish{communicator, geometry, strings, options});
}

Result<GroupParts> make_group(const std::string& name, int size, std::span<const int> ranks, const Geometry& geometry,
                              bool strings, const MapOptions& options) {
  if (auto good = check_name(name); !good) return good.error();
  struct Kept {
    Communicator communicator;
    std::shared_ptr<const void> entry;
  };
  CommunicatorOptions plain;
  plain.pin = false;
  plain.search_ms = 0;
  plain.profile = "none";
  auto communicator = Communicator::create_shared("map-" + name, size, ranks, plain);
  if (!communicator) return communicator.error();
  auto kept = std::make_shared<Kept>(Kept{*std::move(communicator), nullptr});
  auto made = make_group(Wish{kept->communicator, geometry, strings, options, name});
  if (!made) return made.error();
  if (made->space) {
    MapGroupState entry{name, made->plan.algorithm, size, strings};
    if (!strings) entry.key_bytes = geometry.key_bytes, entry.value_bytes = geometry.value_bytes;
    kept->entry = announce(entry);
    made->space->keeps = kept;
  }
  made->keeps = std::move(kept);
  return made;
}

Result<void> check_rank(const GroupParts& group, int rank) {
  if (std::ranges::find(group.ranks, rank) != group.ranks.end()) return {};
  return make_error(Status::invalid_argument, "map: attach: rank {} is not in the map, or belongs to another process",
                    rank);
}

void wait_until(bool (*stop)(void* context), void* context) noexcept {
  Waiter waiter;
  waiter.wait([&] { return stop(context); });
}

}  // namespace smelt::map_detail
