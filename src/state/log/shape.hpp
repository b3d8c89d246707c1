// What the options of a log come to, and the memory as it is at first.
#pragma once

#include "base/futex.hpp"
#include "smelt/error.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/layout.hpp"

namespace smelt::state::log {

/// Errors: invalid_argument, for options out of their ranges or that contradict each other.
Result<Shape> make_shape(int size, const LogOptions& options, Faults usual_faults, int usual_leader);

/// Writes what is not zero at first. Before anybody else knows the memory.
void prepare(std::byte* memory, const Shape& shape, FutexScope among);

}  // namespace smelt::state::log
