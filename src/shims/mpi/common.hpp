// What all ranks know alike of a call, by the arguments that each of them has: enough to agree on who serves it.
#pragma once

#include <cstddef>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/race.hpp"
#include "shims/mpi/repeats.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct Team;

struct Common {
  /// Whether the result is the same to the bit whoever serves the call. Else it is firm: the same serve all such calls
  /// of a communicator, as a program relies on the same operands to give the same result, in one run as in the next.
  bool alternates = true;
  std::size_t bytes = 0;  ///< of the vector or the block; 0: all ranks know that it is empty, or they do not know
  Cell* cell = nullptr;   ///< null: the call is not raced
};

Common common_of(const Team& team, const Signature& call) noexcept;
Common common_of(const Team& team, const UnevenSignature& call) noexcept;
Common common_of(const Team& team, BarrierSignature) noexcept;

/// Of a call on a communicator that is not smelt's yet: its team, if the result depends on who serves it; else null.
Team* team_of_firm(MPI_Comm comm, const Signature& call) noexcept;
Team* team_of_firm(MPI_Comm comm, const UnevenSignature& call) noexcept;
inline Team* team_of_firm(MPI_Comm, BarrierSignature) noexcept { return nullptr; }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
