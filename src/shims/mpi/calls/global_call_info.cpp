#include "shims/mpi/calls/global_call_info.hpp"

#include "shims/mpi/calls/operators.hpp"
#include "shims/mpi/calls/types.hpp"
#include "shims/mpi/team/team.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {
namespace {

/// 0 for arguments that the library rejects.
std::size_t bytes_of(MPI_Count count, MPI_Datatype type) noexcept {
  const Type* const layout = type_of(type);
  return layout == nullptr || count <= 0 ? 0 : static_cast<std::size_t>(count) * layout->size;
}

MPI_Count sum_of(const Integers& counts, int ranks) noexcept {
  MPI_Count sum = 0;
  for (int i = 0; !(counts == nullptr) && i < ranks; ++i) sum += counts[i];
  return sum;
}

/// `bytes`: 0 if there are none, or not all ranks know their number.
GlobalCallInfo with_cell(const MpiTeam& team, const CallSignature& call, std::size_t bytes, bool any_size) noexcept {
  GlobalCallInfo info{.bytes = bytes};
  if (bytes == 0 && !any_size) return info;
  if (is_reduction(call.operation)) {
    const Type* const layout = type_of(call.in_type);
    Operator by;
    // The library always serves it; see TranslatedCall.
    if (layout == nullptr || !operator_of(call.op, call.in_type, *layout, by)) return info;
    info.alternates = is_exact(by, team.size);
  }
  if (team.race && info.alternates) info.cell = &team.race->cell(call.operation, bytes);
  return info;
}

}  // namespace

GlobalCallInfo global_info_of(const MpiTeam& team, const CallSignature& call) noexcept {
  const bool root = call.root == team.rank;
  bool sends = true;  // whether the send arguments are significant on this rank
  if (call.operation == SMELT_SCATTER) sends = root;
  if (call.operation == SMELT_GATHER) sends = !root;
  if (call.operation == SMELT_ALLGATHER || call.operation == SMELT_ALLTOALL) sends = false;
  const auto bytes = sends ? bytes_of(call.in_count, call.in_type) : bytes_of(call.out_count, call.out_type);
  return with_cell(team, call, bytes, false);
}

GlobalCallInfo global_info_of(const MpiTeam& team, const UnevenSignature& call) noexcept {
  switch (call.one.operation) {
    case SMELT_REDUCE_SCATTERV:
      return with_cell(team, call.one, bytes_of(sum_of(call.in_counts, team.size), call.one.in_type), false);
    case SMELT_ALLGATHERV:
      return with_cell(team, call.one, bytes_of(sum_of(call.out_counts, team.size), call.one.out_type), false);
    default:  // each rank knows its own blocks
      return with_cell(team, call.one, 0, true);
  }
}

GlobalCallInfo global_info_of(const MpiTeam& team, BarrierSignature) noexcept {
  return {.cell = team.race ? &team.race->cell(SMELT_BARRIER, 0) : nullptr};
}

namespace {

template <class Like>
MpiTeam* firm(MPI_Comm comm, const CallSignature& one, const Like& call) noexcept {
  if (!is_reduction(one.operation) || comm == MPI_COMM_NULL) return nullptr;
  MpiTeam* const team = need_team(comm);
  if (team == nullptr) return nullptr;
  const GlobalCallInfo info = global_info_of(*team, call);
  if (!info.alternates) return team;
  if (info.bytes != 0) team->alternating = {one.op, one.in_type};
  return nullptr;
}

}  // namespace

MpiTeam* team_of_firm(MPI_Comm comm, const CallSignature& call) noexcept { return firm(comm, call, call); }
MpiTeam* team_of_firm(MPI_Comm comm, const UnevenSignature& call) noexcept { return firm(comm, call.one, call); }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
