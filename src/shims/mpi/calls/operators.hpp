// Operators: whether smelt can combine with them, and how.
#pragma once

#include <smelt/smelt.h>

#include <cstddef>

#include "shims/mpi/abi.hpp"
#include "shims/mpi/calls/types.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// How to combine elements of a type by an operator.
struct Operator {
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const Type* layout = nullptr;
  bool user = false;
  bool commutative = true;
  int plain = -1;  ///< smelt_op, where smelt knows the operator and the type; else -1

  /// How smelt sees an element: its `size` bytes in order, which lie so in memory or are packed. Ranks may describe the
  /// elements that a user's operator combines by different types. Pairs have gaps, too, which are the program's own.
  bool raw() const noexcept { return layout->dense; }
  std::size_t element_bytes() const noexcept { return layout->size; }
};

/// Fills in `to` from what MPI requires to be the same on all ranks; false for a pair that the standard does not
/// allow, which is the library's to judge.
bool operator_of(MPI_Op op, MPI_Datatype type, const Type& layout, Operator& to) noexcept;

/// Whether the result is bitwise the same for any order and grouping of `operands` operands, in smelt and in the
/// library. The following are not:
/// - sums and products of floating-point numbers, except of two operands;
/// - their minima and maxima, because of NaNs and signed zeros;
/// - sums and products of integers shorter than 32 bits, which Open MPI saturates;
/// - minima and maxima of what the library takes for unsigned: Open MPI 4.1 takes long rows of it for signed.
bool is_exact(const Operator& by, int operands) noexcept;

/// Whether an operator is the library's own.
bool is_predefined(MPI_Op op) noexcept;

/// A smelt_combine; the context is an Operator.
void combine(void* accumulator, const void* operand, std::size_t count, void* context) noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
