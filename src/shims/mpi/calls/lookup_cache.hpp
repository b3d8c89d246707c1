// What a thread has asked for lately, one table for all ABIs: a library that is loaded late gets little thread-local
// memory of the kind that costs nothing to reach.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::mpi {

struct LookupCacheEntry {
  std::uintptr_t handle;     ///< as a number
  std::uint32_t generation;  ///< of what was found
  const void* found;
};
inline constexpr std::size_t team_cache_size = 8, type_cache_size = 16;
extern constinit thread_local LookupCacheEntry cached_teams[team_cache_size];
extern constinit thread_local LookupCacheEntry cached_types[type_cache_size];

}  // namespace smelt::shims::mpi
