#include "graph/files/binary.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "graph/files/checks.hpp"
#include "graph/files/edge_checks.hpp"

namespace smelt::graph {
namespace {

constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20;

/// The first error of several threads, in the order of their pieces.
class FirstError {
 public:
  void put(std::size_t piece, Error error) {
    const std::lock_guard lock(mutex_);
    if (error_ && piece_ < piece) return;
    piece_ = piece;
    error_ = std::move(error);
  }
  Result<void> result() const { return error_ ? Result<void>(*error_) : Result<void>(); }

 private:
  std::mutex mutex_;
  std::size_t piece_ = 0;
  std::optional<Error> error_;
};

template <class NodeId, class Offset>
class RowsReader {
 public:
  RowsReader(const File& file, const RawRows& rows, const LoadOptions& options, ThreadTeam& team)
      : file_(file), rows_(rows), options_(options), team_(team) {}

  Result<Graph> run() {
    if (auto read = read_begin(); !read) return read.error();
    const auto* begin = begin_.as<Offset>();
    if (!ascend(begin, rows_.nodes, rows_.edges, team_)) {
      return make_error(Status::bad_format, "{}: the nodes' offsets do not ascend from 0 to the number of edges, {}",
                        file_.name(), rows_.edges);
    }
    if (auto allocated = allocate_edges(); !allocated) return allocated.error();
    EdgeChecks<NodeId, Offset> checks(begin, node_idx_.as<NodeId>(), rows_.nodes, rows_.undirected);
    if (auto read = read_edges(checks); !read) return read.error();
    if (rows_.undirected && !checks.symmetric()) {
      return make_error(Status::bad_format, "{}: says that it is undirected, but the reverse of an edge is missing",
                        file_.name());
    }
    checks.add_borders(edges_per_piece(), edges_per_piece(), rows_.edges);
    const bool sorted = checks.sorted();
    const bool narrower = widths_for(rows_.nodes, rows_.edges).node_bytes != sizeof(NodeId);
    auto graph = as_they_are();
    if (!graph) return graph;
    const bool changed = options_.simple || options_.renumber || (options_.undirected && !rows_.undirected);
    return changed || narrower || !sorted ? rebuild_graph(*graph, options_, team_, file_.name()) : std::move(graph);
  }

 private:
  /// Nodes and weights may alternate in the file.
  struct Pair {
    NodeId node;
    std::int32_t weight;
  };

  std::uint64_t edges_per_piece() const {
    return piece_bytes / (rows_.weights_between ? sizeof(Pair) : sizeof(NodeId));
  }

  Result<void> read_begin() {
    const auto begin_size = (rows_.nodes + 1) * sizeof(Offset);
    auto begin = Pages::allocate(begin_size);
    if (!begin) return begin.error();
    begin_ = *std::move(begin);
    return read_pieces(file_, rows_.begin_offset, begin_.data(), begin_size, team_);
  }

  Result<void> allocate_edges() {
    auto node_idx = Pages::allocate(rows_.edges * sizeof(NodeId));
    auto weights = Pages::allocate(weight_size() * rows_.edges);
    for (const auto* pages : {&node_idx, &weights}) {
      if (!*pages) return pages->error();
    }
    node_idx_ = *std::move(node_idx);
    weights_ = *std::move(weights);
    return {};
  }

  Result<void> read_edges(EdgeChecks<NodeId, Offset>& checks) {
    if (rows_.weights_between) return read_pairs(checks);
    const auto check = [&](std::uint64_t first, std::uint64_t last) {
      return bounded(checks, first / sizeof(NodeId), last / sizeof(NodeId)) ? nullptr : no_such_node;
    };
    auto read = read_pieces(file_, rows_.node_idx_offset, node_idx_.data(), rows_.edges * sizeof(NodeId), team_, check);
    if (!read || rows_.weights_offset == 0) return read;
    return read_values(file_, rows_.weights_offset, weights_.data(), rows_.weight_type, rows_.edges, team_);
  }

  /// Of the edges [first, last), which are checked: false if one leads to a node that is not there.
  bool bounded(EdgeChecks<NodeId, Offset>& checks, std::uint64_t first, std::uint64_t last) const {
    const auto* edges = node_idx_.as<NodeId>();
    if (!all_below(edges + first, edges + last, rows_.nodes)) return false;
    checks.add(first, last);
    return true;
  }

  Result<void> read_pairs(EdgeChecks<NodeId, Offset>& checks) {
    const auto step = edges_per_piece();
    FirstError error;
    std::vector<std::vector<Pair>> buffers(static_cast<std::size_t>(team_.size()));
    for (auto& each : buffers) each.resize(std::min(rows_.edges, step));
    team_.for_each((rows_.edges + step - 1) / step, [&](std::size_t piece, int thread) {
      const auto first = piece * step, last = std::min(rows_.edges, first + step);
      auto& pairs = buffers[static_cast<std::size_t>(thread)];
      auto read =
          file_.read_all_at(rows_.node_idx_offset + first * sizeof(Pair), pairs.data(), (last - first) * sizeof(Pair));
      if (!read) return error.put(piece, read.error());
      for (std::size_t i = 0; i < last - first; ++i) {
        node_idx_.as<NodeId>()[first + i] = pairs[i].node;
        weights_.as<std::int32_t>()[first + i] = pairs[i].weight;
      }
      if (!bounded(checks, first, last)) {
        error.put(piece, make_error(Status::bad_format, "{}: {}", file_.name(), no_such_node));
      }
    });
    return error.result();
  }

  std::size_t weight_size() const {
    if (rows_.weights_between) return sizeof(std::int32_t);
    return rows_.weights_offset == 0 ? 0 : size_of(rows_.weight_type);
  }

  Result<Graph> as_they_are() {
    const auto edge_bytes = sizeof(NodeId) == 8 ? 8 : widths_for(rows_.nodes, rows_.edges).edge_bytes;
    Result<Pages> begin = std::move(begin_);
    if constexpr (sizeof(Offset) == 8) begin = narrowed(team_, *std::move(begin), rows_.nodes + 1, edge_bytes);
    if (!begin) return begin.error();
    auto structure = make_structure(rows_.nodes, rows_.edges, {sizeof(NodeId), edge_bytes},
                                    {*std::move(begin), std::move(node_idx_)});
    structure->undirected = rows_.undirected;
    Graph graph(std::move(structure));
    if (weight_size() == 0) return graph;
    const auto owner = std::make_shared<Pages>(std::move(weights_));
    return graph.with_edge_values(Column("weight", rows_.weight_type, rows_.edges, {owner, owner->data()}));
  }

  static constexpr const char* no_such_node = "an edge leads to a node that is not there";

  const File& file_;
  const RawRows& rows_;
  const LoadOptions& options_;
  ThreadTeam& team_;
  Pages begin_, node_idx_, weights_;
};

}  // namespace

Result<void> read_pieces(const File& file, std::uint64_t offset, std::byte* to, std::uint64_t size, ThreadTeam& team,
                         const std::function<const char*(std::uint64_t, std::uint64_t)>& check) {
  FirstError error;
  team.for_each((size + piece_bytes - 1) / piece_bytes, [&](std::size_t piece, int) {
    const auto first = piece * piece_bytes, last = std::min(size, first + piece_bytes);
    if (auto read = file.read_all_at(offset + first, to + first, last - first); !read)
      return error.put(piece, read.error());
    const char* reason = check ? check(first, last) : nullptr;
    if (reason != nullptr) error.put(piece, make_error(Status::bad_format, "{}: {}", file.name(), reason));
  });
  return error.result();
}

Result<void> read_values(const File& file, std::uint64_t offset, std::byte* to, ValueType type, std::uint64_t count,
                         ThreadTeam& team) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(to);
  const auto check = [&](std::uint64_t first, std::uint64_t last) {
    const bool good = type != ValueType::boolean || all_below(bytes + first, bytes + last, 2);
    return good ? nullptr : "a value is neither true nor false";
  };
  return read_pieces(file, offset, to, count * size_of(type), team, check);
}

Result<Graph> read_rows(const File& file, const RawRows& rows, const LoadOptions& options, ThreadTeam& team) {
  if (rows.node_bytes == 8) return RowsReader<std::uint64_t, std::uint64_t>(file, rows, options, team).run();
  if (rows.begin_bytes == 8) return RowsReader<std::uint32_t, std::uint64_t>(file, rows, options, team).run();
  return RowsReader<std::uint32_t, std::uint32_t>(file, rows, options, team).run();
}

}  // namespace smelt::graph
