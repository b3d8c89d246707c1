// The model that a communicator uses when its creator names none.
#pragma once

#include "smelt/machine.hpp"

namespace smelt::comm {

/// The measured model of this machine if one is cached, else its topology with assumed costs: never
/// measures, so its cost is that of reading a file or of discovery.
Result<Machine> default_model();

}  // namespace smelt::comm
