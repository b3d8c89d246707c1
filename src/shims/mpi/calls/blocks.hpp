// The arrays that a smelt_call of blocks of different sizes points to.
#pragma once

#include <smelt/smelt.h>

#include <vector>

namespace smelt::shims::mpi {

/// Copies them, and has the call point to the copies. Throws std::bad_alloc. Cost: nothing where there are none.
void keep_blocks(smelt_call& call, int ranks, std::vector<std::size_t>& blocks);

/// Whether two calls have the same.
bool same_blocks(const smelt_call& a, const smelt_call& b, int ranks) noexcept;

}  // namespace smelt::shims::mpi
