// A map of the C interface, for those of its files that use one.
#pragma once

#include <memory>

#include "smelt/map.hpp"

struct smelt_map {
  std::shared_ptr<smelt::map_detail::Table> table;
  smelt::map_detail::Geometry geometry;
};
