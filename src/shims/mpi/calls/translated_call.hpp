// TranslatedCall: the smelt_call for a collective, built from the arguments of an MPI function.
//
// Data is moved as bytes in the order of the type signature, which MPI requires to be the same on all ranks. A rank
// whose datatype is not contiguous packs its input and unpacks its output locally. So whether smelt serves a call
// depends only on facts that are the same on all ranks.
#pragma once

#include <smelt/smelt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/calls/integers.hpp"
#include "shims/mpi/calls/operators.hpp"
#include "shims/mpi/calls/types.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct MpiTeam;

class TranslatedCall {
 public:
  enum class Disposition {
    run,   ///< `call` is complete
    done,  ///< there is nothing to do
    pass,  ///< the library serves it; see `why`
  };

  smelt_call call{};
  const char* why = "";
  std::vector<MPI_Datatype>* derived = nullptr;  ///< if not null, gets the derived datatypes of the call
  Operator by;                                   ///< of reductions; call.context points to it

  TranslatedCall() {}  // not defaulted: g++ would zero the whole object
  TranslatedCall(const TranslatedCall&) = delete;
  TranslatedCall& operator=(const TranslatedCall&) = delete;

  // The operations, with the arguments of the MPI functions. If one returns Disposition::pass, it does so on every
  // rank, or the library reports an error on this one.
  Disposition barrier(const MpiTeam& team);
  Disposition bcast(const MpiTeam& team, void* data, MPI_Count count, MPI_Datatype type, int root);
  Disposition reduce(const MpiTeam& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                     int root);
  Disposition allreduce(const MpiTeam& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Disposition scan(const MpiTeam& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Disposition exscan(const MpiTeam& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Disposition reduce_scatter_block(const MpiTeam& team, const void* in, void* out, MPI_Count count, MPI_Datatype type,
                                   MPI_Op op);
  Disposition reduce_scatter(const MpiTeam& team, const void* in, void* out, Integers counts, MPI_Datatype type,
                             MPI_Op op);
  Disposition scatter(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                      MPI_Count out_count, MPI_Datatype out_type, int root);
  Disposition gather(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                     MPI_Count out_count, MPI_Datatype out_type, int root);
  Disposition allgather(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                        MPI_Count out_count, MPI_Datatype out_type);
  Disposition alltoall(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                       MPI_Count out_count, MPI_Datatype out_type);
  Disposition scatterv(const MpiTeam& team, const void* in, Integers counts, Integers offsets, MPI_Datatype in_type,
                       void* out, MPI_Count out_count, MPI_Datatype out_type, int root);
  Disposition gatherv(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                      Integers counts, Integers offsets, MPI_Datatype out_type, int root);
  Disposition allgatherv(const MpiTeam& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                         Integers counts, Integers offsets, MPI_Datatype out_type);
  Disposition alltoallv(const MpiTeam& team, const void* in, Integers in_counts, Integers in_offsets,
                        MPI_Datatype in_type, void* out, Integers out_counts, Integers out_offsets,
                        MPI_Datatype out_type);
  Disposition alltoallw(const MpiTeam& team, const void* in, Integers in_counts, Integers in_offsets,
                        const MPI_Datatype* in_types, void* out, Integers out_counts, Integers out_offsets,
                        const MPI_Datatype* out_types);

  /// Must be called after the collective: unpacks received data. Returns an MPI error code.
  int finish() noexcept;

  /// Whether finish() or the operator use datatypes or operators that the program may free after the start.
  bool keeps_handles() const noexcept {
    return (rare_state_ && rare_state_->later != RareState::Later::nothing) ||
           (call.combine != nullptr && (by.user || !by.layout->predefined));
  }

  /// Whether calls that differ in the addresses of buffers only have translations that differ in these only.
  bool depends_on_arguments_alone() const noexcept { return !packs() && !derived_ && call.combine == nullptr; }

 private:
  /// Consecutive elements of one datatype: a buffer, count and type of an MPI function.
  struct Run {
    void* data = nullptr;
    std::size_t count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const Type* layout = nullptr;
    std::size_t bytes() const { return count * layout->size; }
  };
  /// One block per rank. With `types`, offsets are in bytes, as in MPI_Alltoallw.
  struct RankBlocks {
    void* data;
    Integers counts;
    Integers offsets;
    MPI_Datatype type;
    const MPI_Datatype* types;
    int blocks;

    MPI_Datatype type_of_block(int i) const { return types != nullptr ? types[i] : type; }
    std::byte* block(int i) const;
  };
  /// An array with a number per rank, without allocation if it is small.
  class SmallArray {
   public:
    std::size_t* make(int count);

   private:
    std::size_t here_[32];
    std::unique_ptr<std::size_t[]> far_;
  };
  /// Keeps the memory of large copies for later calls.
  struct GiveBack {
    std::size_t size;

    GiveBack() noexcept : size(0) {}
    explicit GiveBack(std::size_t bytes) noexcept : size(bytes) {}
    void operator()(std::byte* bytes) const noexcept;
  };
  /// A packed copy of memory that is not contiguous.
  struct Packed {
    std::unique_ptr<std::byte[], GiveBack> bytes;
    std::byte* make(std::size_t size);
  };

  Disposition pass(const char* reason);
  bool known(const MpiTeam& team, int root);
  bool reducible(MPI_Datatype type, MPI_Op op);
  bool run_of(const void* data, long long count, MPI_Datatype type, Run& to);
  bool blocks_of(RankBlocks& blocks);
  void note(MPI_Datatype type, const Type& layout) {
    if (layout.predefined) return;
    derived_ = true;
    if (derived != nullptr) derived->push_back(type);
  }
  void* reads(const Run& run);
  void* writes(const Run& run, bool with_contents);
  void* reads(const RankBlocks& blocks, const std::size_t** counts, const std::size_t** offsets);
  void* writes(const RankBlocks& blocks, bool with_contents, const std::size_t** counts, const std::size_t** offsets);
  void* lay_out(const RankBlocks& blocks, Packed& packed, SmallArray& counts, SmallArray& offsets, bool with_contents);
  Disposition reduction(const MpiTeam& team, smelt_operation operation, const void* in, void* out, long long in_count,
                        long long out_count, MPI_Datatype type, MPI_Op op, bool gives_result);
  static std::size_t bytes_of(MPI_Count count, const Run& run);
  Disposition bytes(smelt_operation operation, std::size_t count, int root = 0);
  /// alltoallv and alltoallw, which differ in the datatypes of their blocks only.
  Disposition exchange(const MpiTeam& team, bool in_place, RankBlocks& source, RankBlocks& target);

  /// State that most calls do not need, constructed on demand.
  struct RareState {
    Packed packed_in, packed_out;
    SmallArray in_counts, in_offsets, out_counts, out_offsets;
    Run later_run{};
    RankBlocks later_blocks{};
    enum class Later { nothing, run, blocks } later = Later::nothing;
    RareState() {}
  };
  bool packs() const noexcept {
    return rare_state_ && (rare_state_->packed_in.bytes != nullptr || rare_state_->packed_out.bytes != nullptr);
  }
  RareState& rare_state() { return rare_state_ ? *rare_state_ : rare_state_.emplace(); }

  std::optional<RareState> rare_state_;
  int error_ = MPI_SUCCESS;
  bool derived_ = false;  ///< some datatype is not predefined
};

/// Whether the library reports that a reduction's operands and result, on a rank that gets one, have one place. MPI
/// forbids that. MPICH reports it for all reductions, Open MPI for MPI_Reduce, and for MPI_Allreduce of several
/// elements.
bool is_reported_alias(smelt_operation operation, const void* in, const void* out, MPI_Count count) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
