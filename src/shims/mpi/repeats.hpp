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

  /// But for the addresses of buffers.
  bool is_like(const Signature& other) const noexcept {
    return operation == other.operation && in_count == other.in_count && in_type == other.in_type &&
           out_count == other.out_count && out_type == other.out_type && op == other.op && root == other.root &&
           (in == MPI_IN_PLACE) == (other.in == MPI_IN_PLACE) && (out == MPI_IN_PLACE) == (other.out == MPI_IN_PLACE);
  }
};

/// Of other operations.
struct BarrierSignature {};
struct NoSignature {};

/// The repeated calls of one communicator. Used by one thread at a time, as the communicator's collectives are.
class Repeats {
 public:
  Repeats() = default;
  Repeats(const Repeats&) = delete;
  Repeats& operator=(const Repeats&) = delete;
  ~Repeats() { forget(); }

  /// Runs a call that is known. False: it is not, and nothing has happened.
  bool run(const Signature& call, int* status) noexcept;

  /// Learns from a task that has run on that rank.
  void learn(const Signature& call, const Task& task, smelt_rank* rank) noexcept;

  void forget() noexcept;

 private:
  struct Repeat {
    Signature like{
        .operation = SMELT_BARRIER, .in = nullptr, .out = nullptr, .in_count = -1, .in_type = MPI_DATATYPE_NULL};
    smelt_request* request = nullptr;    ///< null: seen once
    bool reads = false, writes = false;  ///< smelt gets `in`, `out`
    std::ptrdiff_t offset = 0;           ///< in place: of the one buffer from the other
  };
  static constexpr std::size_t places = 16;

  Repeat& place_of(const Signature& call) noexcept {
    const auto mixed = static_cast<std::uint64_t>(call.operation) + 3 * static_cast<std::uint64_t>(call.in_count) +
                       5 * static_cast<std::uint64_t>(call.root);
    return repeats_[mixed % places];
  }

  Repeat repeats_[places];
};

}  // namespace smelt::shims::mpi
