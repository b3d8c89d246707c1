// Parsing of setting values, shared by the rooms that read them.
#pragma once

#include <optional>
#include <string>

namespace smelt {

/// Seconds >= 0 and at most 1e9, or nothing if the text is not that.
std::optional<double> parse_seconds(const std::string& text);

}  // namespace smelt
