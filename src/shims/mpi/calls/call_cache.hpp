// CallCache: a fast path for calls that differ from an earlier one in their buffers only, as most calls of programs do.
//
//   MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, comm)     the first and the second: a TranslatedCall, run by smelt
//                                                            from the third on: a request of smelt, run on in and out
//
// The arguments of a call other than its buffers determine its TranslatedCall, provided that its datatypes and its
// operator are predefined, and so are never freed or changed.
#pragma once

#include <smelt/smelt.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shims/mpi/calls/integers.hpp"
#include "shims/mpi/original.hpp"
#include "shims/mpi/server_selection.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

class TranslatedCall;

/// The arguments of an operation with one count for all ranks.
struct CallSignature {
  smelt_operation operation;
  const void* in;
  void* out;
  MPI_Count in_count;
  MPI_Datatype in_type;
  MPI_Count out_count = 0;
  MPI_Datatype out_type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  int root = 0;

  /// Compares everything except the addresses of buffers. Branch-free, since most comparisons succeed.
  [[gnu::always_inline]] bool is_like(const CallSignature& other) const noexcept {
    const auto counts = (in_count ^ other.in_count) | (out_count ^ other.out_count);
    const auto types =
        (number_of(in_type) ^ number_of(other.in_type)) | (number_of(out_type) ^ number_of(other.out_type));
    const auto numbers = (static_cast<int>(operation) ^ static_cast<int>(other.operation)) | (root ^ other.root) |
                         (in_place() ^ other.in_place());
    return (static_cast<std::uint64_t>(counts) | types | (number_of(op) ^ number_of(other.op)) |
            static_cast<unsigned>(numbers)) == 0;
  }

 private:
  int in_place() const noexcept { return (in == MPI_IN_PLACE ? 1 : 0) | (out == MPI_IN_PLACE ? 2 : 0); }
};

/// The arguments of an operation with a count for each rank. Arrays that MPI ignores for the whole call are null.
struct UnevenSignature {
  CallSignature one;
  Integers in_counts = {}, in_offsets = {}, out_counts = {}, out_offsets = {};
  const MPI_Datatype* in_types = nullptr;
  const MPI_Datatype* out_types = nullptr;
  int only_rank = -1;  ///< the only rank whose arrays are significant; -1: all are
};

inline const CallSignature& call_of(const CallSignature& like) noexcept { return like; }
inline const CallSignature& call_of(const UnevenSignature& like) noexcept { return like.one; }

constexpr bool is_reduction(smelt_operation operation) noexcept {
  switch (operation) {
    case SMELT_REDUCE:
    case SMELT_ALLREDUCE:
    case SMELT_REDUCE_SCATTER:
    case SMELT_REDUCE_SCATTERV:
    case SMELT_SCAN:
    case SMELT_EXSCAN: return true;
    default: return false;
  }
}

struct BarrierSignature {};

/// The buffers of a call; in place, one buffer serves as both.
inline const std::byte* given_in(const CallSignature& call) noexcept {
  return static_cast<const std::byte*>(call.in == MPI_IN_PLACE ? call.out : call.in);
}
inline const std::byte* given_out(const CallSignature& call) noexcept {
  return static_cast<const std::byte*>(call.out == MPI_IN_PLACE ? call.in : call.out);
}

/// The repeated calls of one communicator. Used by one thread at a time, like the communicator's collectives.
class CallCache {
 public:
  CallCache() = default;
  CallCache(const CallCache&) = delete;
  CallCache& operator=(const CallCache&) = delete;
  ~CallCache() { forget(); }

  /// The mode of smelt (server_selection.hpp); `held`: that of the cell's holder, unless the cell must decide.
  enum class Way : std::uint8_t { plain, at_rest, held };

  /// Runs a call that is in the cache. False: it is not, or its cell must decide; there was no effect.
  [[gnu::always_inline]] bool run(const CallSignature& call, Way way, int* status) noexcept {
    const CachedCall& repeat = place_of(call);
    if (!repeat.like.is_like(call)) return false;
    if ((repeat.reads && call.in == nullptr) || (repeat.writes && call.out == nullptr)) return false;
    const void* const in = repeat.reads ? read_by(call, repeat.offset) : nullptr;
    void* const out = repeat.writes ? written_by(call, repeat.offset) : nullptr;
    return repeat.work.run(way, in, out, status);
  }

  /// The same for a call with blocks of different sizes, on rank `rank` of `size`. Inlined with all functions that it
  /// calls: the compiler knows which members of the signature are null, and need not store it.
  [[gnu::always_inline]] bool run(const UnevenSignature& call, int rank, int size, Way way, int* status) noexcept {
    const UnevenCachedCall& repeat = place_of(call, rank, size);
    if (!repeat.is_like(call, rank, size)) return false;
    const std::byte* const in = given_in(call.one);
    const std::byte* const out = given_out(call.one);
    if ((repeat.reads && in == nullptr) || (repeat.writes && out == nullptr)) return false;
    return repeat.work.run(way, repeat.reads ? in + repeat.in_shift : nullptr,
                           repeat.writes ? const_cast<std::byte*>(out) + repeat.out_shift : nullptr, status);
  }

  /// Adds a call that has run on that rank. `cell`: the call's.
  void learn(const CallSignature& call, const TranslatedCall& task, smelt_rank* local, SelectionCell* cell) noexcept;
  void learn(const UnevenSignature& call, int rank, int size, const TranslatedCall& task, smelt_rank* local,
             SelectionCell* cell) noexcept;

  void forget() noexcept;

 private:
  /// The requests that run equal calls.
  class CachedRequests {
   public:
    [[gnu::always_inline]] bool run(Way way, const void* in, void* out, int* status) const noexcept {
      const bool counts = way == Way::held && cell_ != nullptr;
      const bool at_rest = way == Way::at_rest || (counts && cell_->holder() == Server::smelt_at_rest);
      smelt_request* const request = requests_[at_rest ? 1 : 0];
      if (request == nullptr || (counts && !cell_->passes())) return false;
      *status = smelt_request_run(request, in, out);
      if (*status != SMELT_INVALID_ARGUMENT && *status != SMELT_NOT_SUPPORTED) [[likely]]
        return true;
      if (counts) cell_->take_back();
      return false;
    }
    /// For calls like `call`, whose arrays must stay valid.
    void prepare(const smelt_call& call, smelt_rank* local, SelectionCell* cell) noexcept;
    void forget() noexcept;

   private:
    smelt_request* requests_[2] = {};  ///< by smelt_call::at_rest; null: at most one such call so far
    SelectionCell* cell_ = nullptr;    ///< null: the calls are not raced
  };

  struct CachedCall {
    CallSignature like{
        .operation = SMELT_BARRIER, .in = nullptr, .out = nullptr, .in_count = -1, .in_type = MPI_DATATYPE_NULL};
    CachedRequests work;
    bool reads = false, writes = false;  ///< whether smelt gets `in`, `out`
    std::ptrdiff_t offset = 0;           ///< in place: distance between both
  };
  struct UnevenCachedCall {
    CallSignature like{
        .operation = SMELT_BARRIER, .in = nullptr, .out = nullptr, .in_count = -1, .in_type = MPI_DATATYPE_NULL};
    std::vector<std::uint64_t> numbers;  ///< in the order of visit_arrays()
    std::vector<std::size_t> blocks;     ///< arrays of the request
    CachedRequests work;
    bool reads = false, writes = false;
    std::ptrdiff_t in_shift = 0, out_shift = 0;  ///< offset of the address that smelt gets from the given buffer

    /// Reads within `numbers`: their count follows from `like` and from which arrays are given, which is compared
    /// before the following numbers are read.
    [[gnu::always_inline]] bool is_like(const UnevenSignature& call, int rank, int size) const noexcept {
      return like.is_like(call.one) && visit_arrays(call, rank, SameArray{numbers.data(), size});
    }
  };
  /// Compares arrays with `numbers`, one after another.
  struct SameArray {
    const std::uint64_t* at;
    int size;

    template <class Array>
    [[gnu::always_inline]] bool operator()(const Array& array) noexcept {
      const bool there = !(array == nullptr);
      if ((*at++ != 0) != there) return false;
      std::uint64_t differ = 0;
      for (int i = 0; there && i < size; ++i) differ |= *at++ ^ number_in(array, i);
      return differ == 0;
    }
  };

  [[gnu::always_inline]] static std::uint64_t number_in(const Integers& array, int i) noexcept {
    return static_cast<std::uint64_t>(array[i]);
  }
  [[gnu::always_inline]] static std::uint64_t number_in(const MPI_Datatype* array, int i) noexcept {
    return number_of(array[i]);
  }
  /// Visits all arrays, null or not, on the ranks where they are significant, until a visit returns false. Returns
  /// whether none did.
  template <class Visit>
  [[gnu::always_inline]] static bool visit_arrays(const UnevenSignature& call, int rank, Visit visit) {
    if (call.only_rank >= 0 && call.only_rank != rank) return true;
    return visit(call.in_counts) && visit(call.in_offsets) && visit(call.out_counts) && visit(call.out_offsets) &&
           visit(call.in_types) && visit(call.out_types);
  }
  static constexpr std::size_t places = 16;

  /// The addresses that smelt gets for a call in place: the given buffer, and the other one at `offset`.
  static const void* read_by(const CallSignature& call, std::ptrdiff_t offset) noexcept {
    return call.in == MPI_IN_PLACE ? static_cast<const std::byte*>(call.out) + offset : call.in;
  }
  static void* written_by(const CallSignature& call, std::ptrdiff_t offset) noexcept {
    return call.out == MPI_IN_PLACE ? static_cast<std::byte*>(const_cast<void*>(call.in)) + offset : call.out;
  }

  CachedCall& place_of(const CallSignature& call) noexcept {
    const auto mixed = static_cast<std::uint64_t>(call.operation) + 3 * static_cast<std::uint64_t>(call.in_count) +
                       5 * static_cast<std::uint64_t>(call.root);
    return repeats_[mixed % places];
  }

  [[gnu::always_inline]] static std::uint64_t mixed_with(const Integers& counts, int size,
                                                         std::uint64_t mixed) noexcept {
    return counts == nullptr ? mixed : 7 * mixed + number_in(counts, 0) + 3 * number_in(counts, size - 1);
  }
  [[gnu::always_inline]] UnevenCachedCall& place_of(const UnevenSignature& call, int rank, int size) noexcept {
    auto mixed = static_cast<std::uint64_t>(call.one.operation) + 3 * static_cast<std::uint64_t>(call.one.in_count) +
                 5 * static_cast<std::uint64_t>(call.one.root);
    if (call.only_rank < 0 || call.only_rank == rank) {
      mixed = mixed_with(call.out_counts, size, mixed_with(call.in_counts, size, mixed));
    }
    return uneven_[(mixed ^ (mixed >> 4)) % places];
  }

  CachedCall repeats_[places];
  UnevenCachedCall uneven_[places];
};

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
