// The GAP benchmark suite's serialized graphs, without padding:
//
//   directed: 1 byte | edges: 8 | nodes: 8 | offsets: 8 x (nodes + 1) | neighbours: 4 x edges, .wsg: (4 node, 4 weight)
//   if directed, offsets and neighbours once more, of the in edges
//
// The in edges are not read, since they follow from the out edges. The file's length says whether there are weights.
#include "base/error.hpp"
#include "graph/files/binary.hpp"

namespace smelt::graph {

Result<Graph> read_gap(const std::string& name, const LoadOptions& options, ThreadTeam& team) {
  auto file = File::open(name);
  if (!file) return file.error();
  constexpr std::uint64_t header_bytes = 17, most = std::uint64_t{1} << 40;
  unsigned char directed = 0;
  std::int64_t counts[2] = {};
  if (auto read = file->read_all_at(0, &directed, 1); !read) return read.error();
  if (auto read = file->read_all_at(1, counts, sizeof counts); !read) return read.error();
  const auto edges = static_cast<std::uint64_t>(counts[0]), nodes = static_cast<std::uint64_t>(counts[1]);
  if (directed > 1 || edges > most || nodes > most) {
    return make_error(Status::bad_format, "{}: does not start as a serialized graph of GAP does", name);
  }
  const auto size_with = [&](std::uint64_t neighbour_bytes) {
    return header_bytes + ((nodes + 1) * 8 + edges * neighbour_bytes) * (directed + 1u);
  };
  RawRows rows;
  rows.nodes = nodes;
  rows.edges = edges;
  rows.undirected = directed == 0;
  rows.begin_offset = header_bytes;
  rows.node_idx_offset = header_bytes + (nodes + 1) * 8;
  rows.weights_between = edges > 0 && file->size_bytes() == size_with(8);
  if (!rows.weights_between && file->size_bytes() != size_with(4)) {
    return make_error(Status::bad_format,
                      "{}: has {} bytes; a graph of {} nodes and {} edges takes {}, or {} with weights", name,
                      file->size_bytes(), nodes, edges, size_with(4), size_with(8));
  }
  return read_rows(*file, rows, options, team);
}

}  // namespace smelt::graph
