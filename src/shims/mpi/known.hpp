// What a thread has asked for lately, one table for all ABIs: a library that is loaded late gets little thread-local memory
// of the kind that costs nothing to reach.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smelt::shims::mpi {

struct Known {
  std::uintptr_t handle;     ///< as a number
  std::uint32_t generation;  ///< of what was found
  const void* found;
};
inline constexpr std::size_t known_teams = 8, known_types = 16;
extern constinit thread_local Known known_team[known_teams];
extern constinit thread_local Known known_type[known_types];

}  // namespace smelt::shims::mpi
