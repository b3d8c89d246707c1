#include "graph/files/binary.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "graph/files/checks.hpp"

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
    if (auto read = read_arrays(); !read) return read.error();
    const auto* begin = begin_.as<Offset>();
    if (!ascend(begin, rows_.nodes, rows_.edges, team_)) {
      return make_error(Status::bad_format, "{}: the nodes' offsets do not ascend from 0 to the number of edges, {}",
                        file_.name(), rows_.edges);
    }
    const bool sorted = are_sorted(begin, node_idx_.as<NodeId>(), rows_.nodes, team_);
    const bool narrower = widths_for(rows_.nodes, rows_.edges).node_bytes != sizeof(NodeId);
    auto graph = as_they_are(sorted);
    if (!graph) return graph;
    const bool changed = options_.simple || options_.renumber || (options_.undirected && !rows_.undirected);
    return changed || narrower || !sorted ? rebuild_graph(*graph, options_, team_, file_.name()) : std::move(graph);
  }

 private:
  Result<void> read_arrays() {
    const auto begin_size = (rows_.nodes + 1) * sizeof(Offset);
    auto begin = Pages::allocate(begin_size);
    auto node_idx = Pages::allocate(rows_.edges * sizeof(NodeId));
    auto weights = Pages::allocate(weight_size() * rows_.edges);
    for (const auto* pages : {&begin, &node_idx, &weights}) {
      if (!*pages) return pages->error();
    }
    begin_ = *std::move(begin);
    node_idx_ = *std::move(node_idx);
    weights_ = *std::move(weights);
    if (auto read = read_pieces(file_, rows_.begin_offset, begin_.data(), begin_size, team_); !read) return read;
    if (rows_.weights_between) return read_pairs();
    const auto check = [this](std::uint64_t first, std::uint64_t last) {
      const auto* ids = node_idx_.as<NodeId>();
      return all_below(ids + first / sizeof(NodeId), ids + last / sizeof(NodeId), rows_.nodes) ? nullptr : no_such_node;
    };
    auto read = read_pieces(file_, rows_.node_idx_offset, node_idx_.data(), rows_.edges * sizeof(NodeId), team_, check);
    if (!read || rows_.weights_offset == 0) return read;
    return read_pieces(file_, rows_.weights_offset, weights_.data(), rows_.edges * weight_size(), team_);
  }

  /// Nodes and weights alternate in the file.
  Result<void> read_pairs() {
    struct Pair {
      NodeId node;
      std::int32_t weight;
    };
    constexpr std::uint64_t step = piece_bytes / sizeof(Pair);
    FirstError error;
    team_.for_each((rows_.edges + step - 1) / step, [&](std::size_t piece, int) {
      const auto first = piece * step, last = std::min(rows_.edges, first + step);
      std::vector<Pair> pairs(last - first);
      auto read =
          file_.read_all_at(rows_.node_idx_offset + first * sizeof(Pair), pairs.data(), pairs.size() * sizeof(Pair));
      if (!read) return error.put(piece, read.error());
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        node_idx_.as<NodeId>()[first + i] = pairs[i].node;
        weights_.as<std::int32_t>()[first + i] = pairs[i].weight;
      }
      const auto* ids = node_idx_.as<NodeId>();
      if (!all_below(ids + first, ids + last, rows_.nodes)) {
        error.put(piece, make_error(Status::bad_format, "{}: {}", file_.name(), no_such_node));
      }
    });
    return error.result();
  }

  std::size_t weight_size() const {
    if (rows_.weights_between) return sizeof(std::int32_t);
    return rows_.weights_offset == 0 ? 0 : size_of(rows_.weight_type);
  }

  Result<Graph> as_they_are(bool sorted) {
    const auto edge_bytes = sizeof(NodeId) == 8 ? 8 : widths_for(rows_.nodes, rows_.edges).edge_bytes;
    Result<Pages> begin = std::move(begin_);
    if constexpr (sizeof(Offset) == 8) begin = narrowed(team_, *std::move(begin), rows_.nodes + 1, edge_bytes);
    if (!begin) return begin.error();
    auto structure = make_structure(rows_.nodes, rows_.edges, {sizeof(NodeId), edge_bytes},
                                    {*std::move(begin), std::move(node_idx_)});
    if (rows_.undirected && sorted) {
      const auto symmetric = is_symmetric(*structure, team_);
      if (!symmetric) return symmetric.error();
      if (!*symmetric) {
        return make_error(Status::bad_format, "{}: says that it is undirected, but the reverse of an edge is missing",
                          file_.name());
      }
      structure->in_view = structure->out_view;
      structure->in = {};
    }
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

Result<Graph> read_rows(const File& file, const RawRows& rows, const LoadOptions& options, ThreadTeam& team) {
  if (rows.node_bytes == 8) return RowsReader<std::uint64_t, std::uint64_t>(file, rows, options, team).run();
  if (rows.begin_bytes == 8) return RowsReader<std::uint32_t, std::uint64_t>(file, rows, options, team).run();
  return RowsReader<std::uint32_t, std::uint32_t>(file, rows, options, team).run();
}

}  // namespace smelt::graph
