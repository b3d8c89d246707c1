// The shape of a log that follows from its options, and the initial contents of its memory.
#pragma once

#include "base/futex.hpp"
#include "smelt/error.hpp"
#include "smelt/replicated_log.hpp"
#include "state/log/layout.hpp"

namespace smelt::state::log {

/// Errors: invalid_argument for options that are out of range or contradict each other.
Result<Shape> make_shape(int size, const LogOptions& options, Faults usual_faults, int usual_leader);

/// Writes the initial values that are not zero. Must be called before other processes know the memory.
void prepare(std::byte* memory, const Shape& shape, FutexScope among);

}  // namespace smelt::state::log
