// What the readers of binary formats share: arrays read by all threads, checked on the way, as a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/csr/build.hpp"
#include "graph/files/bytes.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// Fills `size` bytes from `offset` on, piece by piece, calling check(first, last) for each piece of bytes that has
/// come, from any thread. Errors: of the file; bad_format as what check returns, if not null, behind "FILE: ".
Result<void> read_pieces(const File& file, std::uint64_t offset, std::byte* to, std::uint64_t size, ThreadTeam& team,
                         const std::function<const char*(std::uint64_t first, std::uint64_t last)>& check = nullptr);

/// Compressed sparse rows as a file has them.
struct RawRows {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t begin_offset = 0;  ///< in the file: nodes + 1 offsets
  int begin_bytes = 8;
  std::uint64_t node_idx_offset = 0;  ///< in the file: for each edge a node of 32 or 64 bits, and maybe its weight
  int node_bytes = 4;
  bool weights_between = false;      ///< behind each node a weight, a 32-bit integer
  std::uint64_t weights_offset = 0;  ///< in the file, 0 for none: all weights
  ValueType weight_type = ValueType::int32;
  bool undirected = false;  ///< every edge's reverse is there, too
};

/// Checks offsets and nodes. Edges come out sorted; options as for lists of edges.
Result<Graph> read_rows(const File& file, const RawRows& rows, const LoadOptions& options, ThreadTeam& team);

Result<Graph> read_gap(const std::string& name, const LoadOptions& options, ThreadTeam& team);
Result<Graph> read_ebin(const std::string& name, const LoadOptions& options, ThreadTeam& team);
Result<Graph> read_container(const std::string& name, const LoadOptions& options, ThreadTeam& team);

}  // namespace smelt::graph
