// What all ranks know alike of a call, by the arguments that each of them has: enough to agree on who serves it.
#pragma once

#include <cstddef>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/call_cache.hpp"
#include "shims/mpi/server_selection.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;

struct GlobalCallInfo {
  /// Whether the result is the same to the bit whoever serves the call. Else it is firm: the same serve all such calls
  /// of a communicator, as a program relies on the same operands to give the same result, in one run as in the next.
  bool alternates = true;
  std::size_t bytes = 0;  ///< of the vector or the block; 0: all ranks know that it is empty, or they do not know
  SelectionCell* cell = nullptr;  ///< null: the call is not raced
};

GlobalCallInfo global_info_of(const MpiTeam& team, const CallSignature& call) noexcept;
GlobalCallInfo global_info_of(const MpiTeam& team, const UnevenSignature& call) noexcept;
GlobalCallInfo global_info_of(const MpiTeam& team, BarrierSignature) noexcept;

/// Of a call on a communicator that is not smelt's yet: its team, if the result depends on who serves it; else null.
MpiTeam* team_of_firm(MPI_Comm comm, const CallSignature& call) noexcept;
MpiTeam* team_of_firm(MPI_Comm comm, const UnevenSignature& call) noexcept;
inline MpiTeam* team_of_firm(MPI_Comm, BarrierSignature) noexcept { return nullptr; }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
