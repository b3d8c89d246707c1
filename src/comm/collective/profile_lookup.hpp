// Which profile a communicator uses.
#pragma once

#include <optional>

#include "smelt/communicator.hpp"
#include "smelt/profile.hpp"

namespace smelt::comm {

/// The profile that CommunicatorOptions::profile selects, reduced to the cells for groups of this size. A named file
/// that cannot be read, or belongs to another machine, is an error. A cached profile that cannot be used is ignored.
/// Cost: reads the file if it has changed.
Result<std::optional<Profile>> profile_for(const Machine& machine, const Group& group,
                                           const CommunicatorOptions& options);

/// By CommunicatorOptions::revalidate and SMELT_REVALIDATE.
bool wants_revalidation(const CommunicatorOptions& options);

/// Runs smelt::revalidate on every rank of a new communicator. Defined by the tuner (src/tune), a room above this one.
/// Errors: those of `Communicator::run`.
Result<void> revalidate_new(Communicator& communicator);

}  // namespace smelt::comm
