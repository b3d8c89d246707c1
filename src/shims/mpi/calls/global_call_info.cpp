#include "shims/mpi/calls/global_call_info.hpp"

#include "shims/mpi/calls/operators.hpp"
#include "shims/mpi/calls/translated_call.hpp"
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

/// Whether the library reports a buffer as an error. Types that are not dense may have absolute addresses.
bool is_wrong(const void* data, MPI_Count count, MPI_Datatype type) noexcept {
  const Type* const layout = type_of(type);
  if (layout == nullptr || count < 0) return true;
  return data == nullptr && count > 0 && layout->size > 0 && layout->dense;
}

bool is_wrong(const Integers& counts, int ranks) noexcept {
  for (int i = 0; !(counts == nullptr) && i < ranks; ++i) {
    if (counts[i] < 0) return true;
  }
  return false;
}

/// The buffers that a rank needs in a call.
struct Needs {
  bool in, out;

  Needs(const MpiTeam& team, const CallSignature& call) noexcept
      : in(call.in != MPI_IN_PLACE), out(call.out != MPI_IN_PLACE) {
    const bool root = call.root == team.rank;
    switch (call.operation) {
      case SMELT_BROADCAST: in = false; break;
      case SMELT_SCATTER:
      case SMELT_SCATTERV: in = root; break;
      case SMELT_REDUCE:
      case SMELT_GATHER:
      case SMELT_GATHERV: out = root; break;
      case SMELT_EXSCAN: out = team.rank != 0 || !in; break;
      default: break;
    }
  }
};

bool has_root(const MpiTeam& team, const CallSignature& call) noexcept {
  return call.root >= 0 && call.root < team.size;
}

/// Whether a buffer for which the rank has elements is MPI_IN_PLACE where MPI has none. TranslatedCall leaves that to
/// the library.
bool is_misplaced(const MpiTeam& team, const CallSignature& call, MPI_Count in_count, MPI_Count out_count) noexcept {
  const bool root = call.root == team.rank;
  const bool in = call.in == MPI_IN_PLACE && in_count > 0, out = call.out == MPI_IN_PLACE && out_count > 0;
  switch (call.operation) {
    case SMELT_SCATTER:
    case SMELT_SCATTERV: return root ? in : out;
    case SMELT_REDUCE:
    case SMELT_GATHER:
    case SMELT_GATHERV: return root ? out : in;
    default: return out;
  }
}

bool is_wrong(const MpiTeam& team, const CallSignature& call) noexcept {
  const bool reduces = is_reduction(call.operation), one_type = reduces || call.operation == SMELT_BROADCAST;
  const MPI_Count out_count = one_type ? call.in_count : call.out_count;
  if (!has_root(team, call) || (reduces && call.op == MPI_OP_NULL)) return true;
  if (is_misplaced(team, call, call.in_count, out_count)) return true;
  if (reduces && (call.operation != SMELT_REDUCE || call.root == team.rank) &&
      is_reported_alias(call.operation, call.in, call.out, out_count))
    return true;
  const Needs needs(team, call);
  if (needs.in && is_wrong(call.in, call.in_count, call.in_type)) return true;
  return needs.out && is_wrong(call.out, out_count, one_type ? call.in_type : call.out_type);
}

bool is_misplaced(const MpiTeam& team, const UnevenSignature& call) noexcept {
  const auto elements = [&](const Integers& several, MPI_Count alone) {
    if (several == nullptr) return alone;
    return call.only_rank < 0 || call.only_rank == team.rank ? sum_of(several, team.size) : 0;
  };
  const MPI_Count given = elements(call.in_counts, call.one.in_count);
  const MPI_Count result = !is_reduction(call.one.operation) ? elements(call.out_counts, call.one.out_count)
                           : given > 0                       ? call.in_counts[team.rank]
                                                             : 0;
  return is_misplaced(team, call.one, given, result);
}

/// Of the sides with a count for each rank only the counts are looked at.
bool is_wrong(const MpiTeam& team, const UnevenSignature& call) noexcept {
  const CallSignature& one = call.one;
  if (!has_root(team, one) || (is_reduction(one.operation) && one.op == MPI_OP_NULL)) return true;
  const bool counts = call.only_rank < 0 || call.only_rank == team.rank;
  if (counts && (is_wrong(call.in_counts, team.size) || is_wrong(call.out_counts, team.size))) return true;
  if ((one.in == MPI_IN_PLACE || one.out == MPI_IN_PLACE) && is_misplaced(team, call)) return true;
  if (is_reduction(one.operation) && is_reported_alias(one.operation, one.in, one.out, call.in_counts[team.rank]))
    return true;
  const Needs needs(team, one);
  switch (one.operation) {
    case SMELT_SCATTERV: return needs.out && is_wrong(one.out, one.out_count, one.out_type);
    case SMELT_GATHERV:
    case SMELT_ALLGATHERV: return needs.in && is_wrong(one.in, one.in_count, one.in_type);
    default: return false;
  }
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
  if (is_wrong(team, call)) return {.is_wrong = true};
  const bool root = call.root == team.rank;
  bool sends = true;  // whether the send arguments are significant on this rank
  if (call.operation == SMELT_SCATTER) sends = root;
  if (call.operation == SMELT_GATHER) sends = !root;
  if (call.operation == SMELT_ALLGATHER || call.operation == SMELT_ALLTOALL) sends = false;
  const auto bytes = sends ? bytes_of(call.in_count, call.in_type) : bytes_of(call.out_count, call.out_type);
  return with_cell(team, call, bytes, false);
}

GlobalCallInfo global_info_of(const MpiTeam& team, const UnevenSignature& call) noexcept {
  if (is_wrong(team, call)) return {.is_wrong = true};
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
  if (info.is_wrong) return nullptr;
  if (!info.alternates) return team;
  if (info.bytes != 0) team->alternating = {one.op, one.in_type};
  return nullptr;
}

}  // namespace

MpiTeam* team_of_firm(MPI_Comm comm, const CallSignature& call) noexcept { return firm(comm, call, call); }
MpiTeam* team_of_firm(MPI_Comm comm, const UnevenSignature& call) noexcept { return firm(comm, call.one, call); }

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
