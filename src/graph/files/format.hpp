// Formats: their names, and the recognition of a file's format.
#pragma once

#include <string_view>

#include "smelt/graph.hpp"

namespace smelt::graph {

/// The format by the file's extension, ignoring .gz and .zst; automatic if it is unknown.
Format format_by_name(std::string_view file);

}  // namespace smelt::graph
