// The algorithms that registry.def lists.
#pragma once

#include <string_view>

#include "plan/algorithms/builder.hpp"

namespace smelt::plan {

// Hidden: shared libraries that each contain smelt have one of their own each. Otherwise all of them would construct
// and destroy the first one's.
#define ALGORITHM(name) extern const Algorithm name [[gnu::visibility("hidden")]];
#include "plan/algorithms/registry.def"
#undef ALGORITHM

/// The root's moves for a chunk of a flat reduction: combines `theirs` of every rank, once it is readable.
void fold_at_root(Builder& builder, Area theirs, int readable);

/// nullptr if there is no algorithm of that name.
const Algorithm* find_algorithm(std::string_view name);

}  // namespace smelt::plan
