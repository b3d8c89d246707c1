// Common code of readers of binary formats: all threads read and check arrays, which become a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "graph/csr/build.hpp"
#include "graph/files/bytes.hpp"
#include "graph/team/team.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// Reads `size` bytes from `offset` on in pieces. Calls check(first, last) for each piece of bytes, on any thread.
/// Errors: of the file; bad_format with the text that check returns, if not null, behind "FILE: ".
Result<void> read_pieces(const File& file, std::uint64_t offset, std::byte* to, std::uint64_t size, ThreadTeam& team,
                         const std::function<const char*(std::uint64_t first, std::uint64_t last)>& check = nullptr);

/// Reads `count` values of a type in the same way. Errors: besides, bad_format if a Bool is neither 0 nor 1.
Result<void> read_values(const File& file, std::uint64_t offset, std::byte* to, ValueType type, std::uint64_t count,
                         ThreadTeam& team);

/// Places of compressed sparse rows in a file.
struct RawRows {
  std::uint64_t nodes = 0;
  std::uint64_t edges = 0;
  std::uint64_t begin_offset = 0;  ///< in the file: nodes + 1 offsets
  int begin_bytes = 8;
  std::uint64_t node_idx_offset = 0;  ///< in the file: for each edge a node of 32 or 64 bits, and maybe its weight
  int node_bytes = 4;
  bool weights_between = false;      ///< each node is followed by a weight, a 32-bit integer
  std::uint64_t weights_offset = 0;  ///< in the file, 0 for none: all weights
  ValueType weight_type = ValueType::int32;
  bool undirected = false;  ///< the reverse of every edge is in the file
};

/// Checks offsets and nodes, and sorts the edges. The options are as for lists of edges.
Result<Graph> read_rows(const File& file, const RawRows& rows, const LoadOptions& options, ThreadTeam& team);

Result<Graph> read_gap(const std::string& name, const LoadOptions& options, ThreadTeam& team);
Result<Graph> read_ebin(const std::string& name, const LoadOptions& options, ThreadTeam& team);
Result<Graph> read_container(const std::string& name, const LoadOptions& options, ThreadTeam& team);

}  // namespace smelt::graph
