// Formats: their names, and which one a file has.
#pragma once

#include <string_view>

#include "smelt/graph.hpp"

namespace smelt::graph {

/// By the end of its name, without .gz and .zst; automatic if that says nothing.
Format format_by_name(std::string_view file);

}  // namespace smelt::graph
