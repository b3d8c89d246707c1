// Datatypes: how large, how laid out, and what smelt calls them.
#pragma once


#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "shims/mpi/lookup_cache.hpp"
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
  int plain = -1;  ///< smelt_type, or -1
};

// Grows whenever a datatype is freed, so that no thread takes a new type for an old one with its handle.
// Release where it grows, acquire in type_of(): who sees the new number does not use the freed Type.
extern constinit std::atomic<std::uint32_t> type_generation;
const Type* look_up_type(MPI_Datatype type) noexcept;

/// What is known of a datatype; null for what the library will complain of (no type, or not committed). The pointer
/// is good until the type is freed. Cost: a look into a small table of this thread.
inline const Type* type_of(MPI_Datatype type) noexcept {
  const auto& entry = cached_types[spread(type) % type_cache_size];
  if (entry.handle == number_of(type) && entry.generation == type_generation.load(std::memory_order_acquire)) [[likely]]
    return static_cast<const Type*>(entry.found);
  return look_up_type(type);
}

/// Copies `count` elements between user memory and `count * size` consecutive bytes. Return an MPI error code.
int pack(const void* from, std::size_t count, MPI_Datatype type, const Type& layout, std::byte* to) noexcept;
int unpack(const std::byte* from, void* to, std::size_t count, MPI_Datatype type, const Type& layout) noexcept;

/// Frees what this file has made; before MPI is finalized.
void release_types() noexcept;

}  // namespace smelt::shims::mpi::inline SMELT_MPI_ABI
