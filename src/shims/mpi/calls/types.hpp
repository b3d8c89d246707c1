// Datatypes: their size, layout, and smelt's name for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shims/mpi/calls/lookup_cache.hpp"
#include "shims/mpi/original.hpp"

namespace smelt::shims::mpi::inline SMELT_MPI_ABI {

/// The groups of types that the MPI standard allows operators on.
enum class Kind : std::uint8_t {
  none,
  integer,
  fortran_integer,
  floating,
  complex,
  logical,
  fortran_logical,
  byte,
  index,
  pair
};

struct Type {
  std::size_t size = 0;    ///< bytes of data
  std::size_t extent = 0;  ///< from one element to the next
  bool dense = false;      ///< `count` elements are count * size bytes from the buffer's address on, in order
  bool predefined = false;
  Kind kind = Kind::none;
  int plain = -1;  ///< smelt_type, or -1; of integers with the sign that the library compares by
};

// Incremented whenever a datatype is freed, so that no thread confuses a new type with an old one of the same handle.
// Release on increment, acquire in type_of(): a thread that sees the new number does not use the freed Type.
extern constinit std::atomic<std::uint32_t> type_generation;
const Type* look_up_type(MPI_Datatype type) noexcept;

/// The facts about a datatype that this thread has asked for lately; else null.
inline const Type* known_type(MPI_Datatype type) noexcept {
  const auto& entry = cached_types[spread(type) % type_cache_size];
  const bool known =
      entry.handle == number_of(type) && entry.generation == type_generation.load(std::memory_order_acquire);
  return known ? static_cast<const Type*>(entry.found) : nullptr;
}

/// The facts about a datatype; null if the library rejects it (no type, or not committed), or outside of MPI_Init and
/// MPI_Finalize. The pointer is valid until
/// the type is freed. Cost: a look-up in a small table of this thread.
inline const Type* type_of(MPI_Datatype type) noexcept {
  if (const Type* const known = known_type(type); known != nullptr) [[likely]]
    return known;
  return look_up_type(type);
}

/// Copies `count` elements between user memory and `count * size` consecutive bytes. Return an MPI error code.
int pack(const void* from, std::size_t count, MPI_Datatype type, const Type& layout, std::byte* to) noexcept;
int unpack(const std::byte* from, void* to, std::size_t count, MPI_Datatype type, const Type& layout) noexcept;

/// Frees the facts about datatypes; before MPI is finalized.
void release_types() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
