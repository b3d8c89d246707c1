// Copying and filling arrays, by threads on the nodes where the target lies.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/stream.hpp"
#include "memory/copies/node_workers.hpp"
#include "memory/pages/cuts.hpp"
#include "smelt/array.hpp"

namespace smelt::memory {

/// The copy method that the cached model of this machine measured as fastest for ranges beyond the caches; the C
/// library's without one. Reads the model once per process.
CopyMethod best_copy_method();

/// A range of bytes of an array, as large as a thread does at a time, and its node.
struct Piece {
  std::size_t first_byte = 0;
  std::size_t last_byte = 0;
  int node = 0;
};

/// The runs in pieces that begin at multiples of both `element_bytes` and `unit_bytes` (where that is possible), some
/// per PU of each node.
std::vector<Piece> pieces_of(std::span<const PageRun> runs, const MemoryView& view, std::size_t element_bytes,
                             std::size_t unit_bytes);

}  // namespace smelt::memory
