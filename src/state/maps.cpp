#include "state/maps.hpp"

#include <algorithm>

namespace smelt {
namespace state {
namespace {

constexpr auto linearizable = Consistency::linearizable;
constexpr auto sequential = Consistency::sequential;

const MapDefinition all_maps[] = {
    {{"part_simple", "keys divided among servers; each operation asks one", linearizable, true, Faults::none, false},
     part_simple_costs},
    {{"part_caching", "part_simple with copies at the clients, which updates invalidate", linearizable, true,
      Faults::none, true},
     part_caching_costs},
    {{"rep_remote", "replicas at all clients; lookups ask a sequencer", linearizable, true, Faults::none, false},
     rep_remote_costs},
    {{"rep_local", "replicas at all clients; updates in two rounds, lookups local", linearizable, true, Faults::none,
      true},
     rep_local_costs},
    {{"rep_2pc", "replicas at all clients; updates by votes, lookups local", linearizable, false, Faults::none, true},
     rep_2pc_costs},
    {{"rep_sc", "replicas at all clients; lookups local and perhaps stale", sequential, true, Faults::none, false},
     rep_sc_costs},
    {{"shared", "one table in shared memory; readers write nothing", linearizable, false, Faults::crash, false},
     shared_costs},
    {{"kv", "replicas fed by a replicated log; lookups local", linearizable, false, Faults::stop, false}, kv_costs},
};

}  // namespace

std::span<const MapDefinition> map_definitions() { return all_maps; }

const MapDefinition* find_map(std::string_view name) {
  const auto found = std::ranges::find_if(all_maps, [&](const MapDefinition& map) { return map.facts.name == name; });
  return found == std::end(all_maps) ? nullptr : found;
}

}  // namespace state

const char* to_string(Consistency consistency) noexcept {
  return consistency == Consistency::linearizable ? "linearizable" : "sequential";
}

const char* to_string(Faults faults) noexcept {
  switch (faults) {
    case Faults::none: return "none";
    case Faults::crash: return "crash";
    case Faults::stop: return "stop";
  }
  return "none";
}

const std::vector<MapAlgorithm>& map_algorithms() {
  static const std::vector<MapAlgorithm> facts = [] {
    std::vector<MapAlgorithm> list;
    for (const auto& map : state::map_definitions()) list.push_back(map.facts);
    return list;
  }();
  return facts;
}

const MapAlgorithm* find_map_algorithm(std::string_view name) {
  const auto* map = state::find_map(name);
  return map == nullptr ? nullptr : &map->facts;
}

}  // namespace smelt
