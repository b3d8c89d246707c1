// Error values with formatted messages, and text from files that is safe to show in them.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "smelt/error.hpp"

namespace smelt {

template <class... Args>
Error make_error(Status status, fmt::format_string<Args...> text, Args&&... args) {
  return {status, fmt::format(text, std::forward<Args>(args)...)};
}

/// A part of a foreign file as it may appear in a message: at most `max_bytes` bytes, everything
/// but printable ASCII as '?', "..." where it was cut.
std::string shown(std::string_view text, std::size_t max_bytes = 40);

}  // namespace smelt
