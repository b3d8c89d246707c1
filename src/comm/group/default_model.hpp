// The model that a communicator uses when its creator names none.
#pragma once

#include "smelt/machine.hpp"

namespace smelt::comm {

/// The measured model of this machine if one is cached, else its topology with assumed costs. Never measures.
/// Cost: reads a file or discovers the topology.
Result<Machine> default_model();

}  // namespace smelt::comm
