// Where a library that is loaded looks up the functions of others that it calls.
#pragma once

#include <cstdint>

namespace smelt::shims::mpi {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool contains(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
};

/// The part of a library that contains `inside`; empty: none does.
Range part_with(const void* inside) noexcept;

/// The place from which the library that contains `inside` takes the address of the function `name` at each call: what
/// is written there is called instead, by this library alone. Null: it does not call it so, or nobody may write there.
void** import_of(const void* inside, const char* name) noexcept;

}  // namespace smelt::shims::mpi
