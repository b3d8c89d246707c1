// Task: one collective in the words of smelt, built from the arguments of an MPI function.
//
// Data moves as bytes in the order of the type signature, which MPI requires to be the same on all ranks. A rank
// whose own datatype is not dense packs what it gives and unpacks what it gets; that is its own affair, so that
// whether smelt serves a call depends only on what is the same everywhere.
#pragma once

#include <smelt/smelt.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/integers.hpp"
#include "shims/mpi/operators.hpp"
#include "shims/mpi/types.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

struct Team;

class Task {
 public:
  enum class Verdict {
    run,   ///< `call` is complete
    done,  ///< there is nothing to do
    pass,  ///< the library's; `why` says why
  };

  smelt_call call{};
  const char* why = "";
  std::vector<MPI_Datatype>* derived = nullptr;  ///< where to note datatypes of the program's own, if not null
  Operator by;                                   ///< of reductions; call.context points to it

  Task() {}  // not defaulted: g++ would clear all of it
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // The operations, with the arguments of the MPI functions. Those that return Verdict::pass do so on every
  // rank, or the library reports an error on this one.
  Verdict barrier();
  Verdict bcast(const Team& team, void* data, MPI_Count count, MPI_Datatype type, int root);
  Verdict reduce(const Team& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op, int root);
  Verdict allreduce(const Team& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Verdict scan(const Team& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Verdict exscan(const Team& team, const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op);
  Verdict reduce_scatter_block(const Team& team, const void* in, void* out, MPI_Count count, MPI_Datatype type,
                               MPI_Op op);
  Verdict reduce_scatter(const Team& team, const void* in, void* out, Integers counts, MPI_Datatype type, MPI_Op op);
  Verdict scatter(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                  MPI_Count out_count, MPI_Datatype out_type, int root);
  Verdict gather(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                 MPI_Count out_count, MPI_Datatype out_type, int root);
  Verdict allgather(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                    MPI_Count out_count, MPI_Datatype out_type);
  Verdict alltoall(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                   MPI_Count out_count, MPI_Datatype out_type);
  Verdict scatterv(const Team& team, const void* in, Integers counts, Integers offsets, MPI_Datatype in_type, void* out,
                   MPI_Count out_count, MPI_Datatype out_type, int root);
  Verdict gatherv(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                  Integers counts, Integers offsets, MPI_Datatype out_type, int root);
  Verdict allgatherv(const Team& team, const void* in, MPI_Count in_count, MPI_Datatype in_type, void* out,
                     Integers counts, Integers offsets, MPI_Datatype out_type);
  Verdict alltoallv(const Team& team, const void* in, Integers in_counts, Integers in_offsets, MPI_Datatype in_type,
                    void* out, Integers out_counts, Integers out_offsets, MPI_Datatype out_type);
  Verdict alltoallw(const Team& team, const void* in, Integers in_counts, Integers in_offsets,
                    const MPI_Datatype* in_types, void* out, Integers out_counts, Integers out_offsets,
                    const MPI_Datatype* out_types);

  /// After the collective: puts what was received where it belongs. Returns an MPI error code.
  int finish() noexcept;

  /// Whether finish() or the operator look at datatypes or operators that the program may free after the start.
  bool keeps_handles() const noexcept {
    return (aside_ && aside_->later != Aside::Later::nothing) ||
           (call.combine != nullptr && (by.user || !by.layout->predefined));
  }

  /// Whether a call with the same arguments but for the addresses of buffers becomes the same task, but for these.
  bool depends_on_arguments_alone() const noexcept { return !packs() && !derived_ && call.combine == nullptr; }

 private:
  /// Elements of one type that follow each other, as an MPI function describes them.
  struct Run {
    void* data = nullptr;
    std::size_t count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    const Type* layout = nullptr;
    std::size_t bytes() const { return count * layout->size; }
  };
  /// One block per rank. With `types`, offsets are in bytes, as in MPI_Alltoallw.
  struct Scattered {
    void* data;
    Integers counts;
    Integers offsets;
    MPI_Datatype type;
    const MPI_Datatype* types;
    int blocks;

    MPI_Datatype type_of_block(int i) const { return types != nullptr ? types[i] : type; }
    std::byte* block(int i) const;
  };
  /// Numbers per rank, in place as long as there are few.
  class Numbers {
   public:
    std::size_t* make(int count);

   private:
    std::size_t here_[32];
    std::unique_ptr<std::size_t[]> far_;
  };
  /// Bytes in place of memory that is not dense.
  struct Packed {
    std::unique_ptr<std::byte[]> bytes;
    std::byte* make(std::size_t size);
  };

  Verdict pass(const char* reason);
  bool known(const Team& team, int root);
  bool reducible(MPI_Datatype type, MPI_Op op);
  bool run_of(const void* data, long long count, MPI_Datatype type, Run& to);
  bool blocks_of(Scattered& blocks);
  void note(MPI_Datatype type, const Type& layout) {
    if (layout.predefined) return;
    derived_ = true;
    if (derived != nullptr) derived->push_back(type);
  }
  void* reads(const Run& run);
  void* writes(const Run& run, bool with_contents);
  void* reads(const Scattered& blocks, const std::size_t** counts, const std::size_t** offsets);
  void* writes(const Scattered& blocks, bool with_contents, const std::size_t** counts, const std::size_t** offsets);
  void* lay_out(const Scattered& blocks, Packed& packed, Numbers& counts, Numbers& offsets, bool with_contents);
  Verdict reduction(const Team& team, smelt_operation operation, const void* in, void* out, long long in_count,
                    long long out_count, MPI_Datatype type, MPI_Op op, bool gives_result);
  static std::size_t bytes_of(MPI_Count count, const Run& run);
  Verdict bytes(smelt_operation operation, std::size_t count, int root = 0);
  /// alltoallv and alltoallw, whose blocks differ in what they are made of only.
  Verdict exchange(const Team& team, bool in_place, Scattered& source, Scattered& target);

  /// What most calls do not need: they are too short for its being set up.
  struct Aside {
    Packed packed_in, packed_out;
    Numbers in_counts, in_offsets, out_counts, out_offsets;
    Run later_run{};
    Scattered later_blocks{};
    enum class Later { nothing, run, blocks } later = Later::nothing;
    Aside() {}
  };
  bool packs() const noexcept {
    return aside_ && (aside_->packed_in.bytes != nullptr || aside_->packed_out.bytes != nullptr);
  }
  Aside& aside() { return aside_ ? *aside_ : aside_.emplace(); }

  std::optional<Aside> aside_;
  int error_ = MPI_SUCCESS;
  bool derived_ = false;  ///< some datatype is not the library's own
};

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
