// The facts about a call that all ranks derive alike from their own arguments. They suffice to agree on its server.
#pragma once

#include <cstddef>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/calls/call_cache.hpp"
#include "shims/mpi/server_selection.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;

struct GlobalCallInfo {
  /// Whether the result is bitwise the same whoever serves the call. If not, the server of such calls never changes on
  /// a communicator, as programs rely on equal operands giving equal results, within a run and between runs.
  bool alternates = true;
  std::size_t bytes = 0;          ///< of the vector or the block; 0: empty, or not known to all ranks
  SelectionCell* cell = nullptr;  ///< null: the call is not raced
  /// This rank's arguments are wrong. The library reports that, and the rank calls again: it must not count the call,
  /// as the others do not make it.
  bool is_wrong = false;
};

GlobalCallInfo global_info_of(const MpiTeam& team, const CallSignature& call) noexcept;
GlobalCallInfo global_info_of(const MpiTeam& team, const UnevenSignature& call) noexcept;
GlobalCallInfo global_info_of(const MpiTeam& team, BarrierSignature) noexcept;

/// The team of a call on a communicator that smelt does not serve yet, if the result depends on the server; else null.
MpiTeam* team_of_firm(MPI_Comm comm, const CallSignature& call) noexcept;
MpiTeam* team_of_firm(MPI_Comm comm, const UnevenSignature& call) noexcept;
inline MpiTeam* team_of_firm(MPI_Comm, BarrierSignature) noexcept { return nullptr; }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
