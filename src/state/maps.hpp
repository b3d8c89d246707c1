// The registry of maps: facts and costs of each algorithm in one row. The implementations are in map/ and over_ranks/.
#pragma once

#include <span>
#include <string_view>

#include "smelt/map_algorithms.hpp"
#include "state/model/throughput.hpp"

namespace smelt::state {

struct MapDefinition {
  MapAlgorithm facts;
  MapCosts (*costs)(const MapSetting&);  ///< its equations
};

/// In the order of map_algorithms().
std::span<const MapDefinition> map_definitions();

/// The row of that name, or null.
const MapDefinition* find_map(std::string_view name);

}  // namespace smelt::state
