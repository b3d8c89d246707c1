// Repeats: calls like earlier ones on other buffers, which is what most programs make most of.
//
//   MPI_Allreduce(in, out, 1, MPI_DOUBLE, MPI_SUM, comm)     the first and the second: a Task, run by smelt
//                                                            from the third on: a request of smelt, run on in and out
//
// What a call is given apart from its buffers decides all that a Task finds out, as long as its datatypes and its
// operator are the library's own, which nobody frees or changes.
#pragma once

#include <mpi.h>
#include <smelt/smelt.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shims/mpi/integers.hpp"
#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi {

class Task;

/// The arguments of an operation that has one count for all ranks.
struct Signature {
  smelt_operation operation;
  const void* in;
  void* out;
  MPI_Count in_count;
  MPI_Datatype in_type;
  MPI_Count out_count = 0;
  MPI_Datatype out_type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  int root = 0;

  /// But for the addresses of buffers. Without branches, as most calls that are asked about are like the other.
  [[gnu::always_inline]] bool is_like(const Signature& other) const noexcept {
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

/// Of an operation that has a count for each rank. Arrays are null where MPI ignores them for the whole call.
struct UnevenSignature {
  Signature one;
  Integers in_counts = {}, in_offsets = {}, out_counts = {}, out_offsets = {};
  const MPI_Datatype* in_types = nullptr;
  const MPI_Datatype* out_types = nullptr;
  int only_rank = -1;  ///< the only one whose arrays count, if not all do
};

struct BarrierSignature {};

/// The repeated calls of one communicator. Used by one thread at a time, as the communicator's collectives are.
class Repeats {
 public:
  Repeats() = default;
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;
  ~Repeats() { forget(); }

  /// Runs a call that is known. False: it is not, and nothing has happened.
  [[gnu::always_inline]] bool run(const Signature& call, int* status) noexcept {
    const Repeat& repeat = place_of(call);
    if (repeat.request == nullptr || !repeat.like.is_like(call)) return false;
    if ((repeat.reads && call.in == nullptr) || (repeat.writes && call.out == nullptr)) return false;
    const void* const in = repeat.reads ? read_by(call, repeat.offset) : nullptr;
    void* const out = repeat.writes ? written_by(call, repeat.offset) : nullptr;
    *status = smelt_request_run(repeat.request, in, out);
    return *status != SMELT_INVALID_ARGUMENT && *status != SMELT_NOT_SUPPORTED;
  }

  /// The same of one with blocks of different sizes, on rank `rank` of `size`.
  bool run(const UnevenSignature& call, int rank, int size, int* status) noexcept;

  /// Learns from a task that has run on that rank.
  void learn(const Signature& call, const Task& task, smelt_rank* local) noexcept;
  void learn(const UnevenSignature& call, int rank, int size, const Task& task, smelt_rank* local) noexcept;

  void forget() noexcept;

 private:
  struct Repeat {
    Signature like{
        .operation = SMELT_BARRIER, .in = nullptr, .out = nullptr, .in_count = -1, .in_type = MPI_DATATYPE_NULL};
    smelt_request* request = nullptr;    ///< null: seen once
    bool reads = false, writes = false;  ///< smelt gets `in`, `out`
    std::ptrdiff_t offset = 0;           ///< in place: of the one buffer from the other
  };
  struct UnevenRepeat {
    Signature like{
        .operation = SMELT_BARRIER, .in = nullptr, .out = nullptr, .in_count = -1, .in_type = MPI_DATATYPE_NULL};
    std::vector<std::uint64_t> numbers;  ///< of the arrays
    std::vector<std::size_t> blocks;     ///< what the request looks at
    smelt_request* request = nullptr;    ///< null: seen once
    bool reads = false, writes = false;
    std::ptrdiff_t in_shift = 0, out_shift = 0;  ///< of what smelt gets from the buffer that is given

    bool is_like(const UnevenSignature& call, int rank, int size) const noexcept;
  };
  static constexpr std::size_t places = 16;

  /// What smelt reads and writes in a call in place: the buffer that is given, and the other one `offset` from there.
  static const void* read_by(const Signature& call, std::ptrdiff_t offset) noexcept {
    return call.in == MPI_IN_PLACE ? static_cast<const std::byte*>(call.out) + offset : call.in;
  }
  static void* written_by(const Signature& call, std::ptrdiff_t offset) noexcept {
    return call.out == MPI_IN_PLACE ? static_cast<std::byte*>(const_cast<void*>(call.in)) + offset : call.out;
  }

  Repeat& place_of(const Signature& call) noexcept {
    const auto mixed = static_cast<std::uint64_t>(call.operation) + 3 * static_cast<std::uint64_t>(call.in_count) +
                       5 * static_cast<std::uint64_t>(call.root);
    return repeats_[mixed % places];
  }

  UnevenRepeat& place_of(const UnevenSignature& call, int rank, int size) noexcept;

  Repeat repeats_[places];
  UnevenRepeat uneven_[places];
};

}  // namespace smelt::shims::mpi
