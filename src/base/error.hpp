// Building Error values with a formatted message.
#pragma once

#include <fmt/format.h>

#include "smelt/error.hpp"

namespace smelt {

template <class... Args>
Error make_error(Status status, fmt::format_string<Args...> text, Args&&... args) {
  return {status, fmt::format(text, std::forward<Args>(args)...)};
}

}  // namespace smelt
