// Copies and fills of arrays by threads on the nodes of the target.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/stream.hpp"
#include "memory/copies/node_workers.hpp"
#include "memory/pages/cuts.hpp"
#include "smelt/array.hpp"

namespace smelt::memory {

/// The fastest copy method for ranges beyond the caches according to the cached model of this machine; memcpy if there
/// is no model. Reads the model once per process.
CopyMethod best_copy_method();

/// A range of bytes of an array that a thread processes at a time, and its node.
struct Piece {
  std::size_t first_byte = 0;
  std::size_t last_byte = 0;
  int node = 0;
};

/// Divides the runs into several pieces per PU of each node. Pieces begin at multiples of both `element_bytes` and
/// `unit_bytes` where possible.
std::vector<Piece> pieces_of(std::span<const PageRun> runs, const MemoryView& view, std::size_t element_bytes,
                             std::size_t unit_bytes);

}  // namespace smelt::memory
