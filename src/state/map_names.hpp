// Names of maps over ranks: how other processes see that such a map is in use.
//
// Each process of the map holds a memfd "smelt-map-group:NAME" with an entry. Nothing shares it, and it is freed with
// the process, however that ends.
#pragma once

#include <memory>

#include "smelt/map.hpp"

namespace smelt::map_detail {

/// A map's name: 1 to 180 characters without '/'.
Result<void> check_name(const std::string& name);

/// Shows the map to list_map_groups() as long as the result lives. Null if the system has no memfd for it.
std::shared_ptr<const void> announce(const MapGroupState& group);

}  // namespace smelt::map_detail
