// Which profile a communicator uses.
#pragma once

#include <optional>

#include "smelt/communicator.hpp"
#include "smelt/profile.hpp"

namespace smelt::comm {

/// By CommunicatorOptions::profile, the cells of groups as large as this one. A named file that cannot be read, or
/// belongs to another machine, is an error; a cached profile that cannot be used is as good as none. Cost: reads the
/// file when it has changed.
Result<std::optional<Profile>> profile_for(const Machine& machine, const Group& group,
                                           const CommunicatorOptions& options);

/// By CommunicatorOptions::revalidate and SMELT_REVALIDATE.
bool wants_revalidation(const CommunicatorOptions& options);

/// smelt::revalidate on every rank of a communicator that has just been made. The tuner defines it (src/tune), which is
/// above this room. Errors: what `Communicator::run` says.
Result<void> revalidate_new(Communicator& communicator);

}  // namespace smelt::comm
