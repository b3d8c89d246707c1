// The graph as a value: a shared structure and columns of values.
#include "smelt/graph.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/team/team.hpp"

namespace smelt::graph {
namespace {

const Column* find(const std::vector<Column>& columns, std::string_view name) noexcept {
  const auto found =
      std::find_if(columns.begin(), columns.end(), [&](const Column& each) { return each.name() == name; });
  return found == columns.end() ? nullptr : &*found;
}

void put(std::vector<Column>& columns, Column column) {
  for (auto& each : columns) {
    if (each.name() != column.name()) continue;
    each = std::move(column);
    return;
  }
  columns.push_back(std::move(column));
}

Error wrong_size(const Column& column, std::uint64_t size, const char* what) {
  return make_error(Status::invalid_argument, "{} values '{}' for a graph with {} {}", column.size(), column.name(),
                    size, what);
}

std::shared_ptr<const Structure> no_structure() {
  static const std::shared_ptr<const Structure> none = [] {
    static const std::uint32_t begin[] = {0};
    auto structure = make_structure(0, 0, widths_for(0, 0), {});
    structure->undirected = structure->simple = true;
    structure->out_view = structure->in_view = {begin, begin};
    return structure;
  }();
  return none;
}

}  // namespace

std::size_t size_of(ValueType type) noexcept {
  switch (type) {
    case ValueType::boolean: return 1;
    case ValueType::int32:
    case ValueType::float32: return 4;
    case ValueType::int64:
    case ValueType::float64: return 8;
  }
  return 0;
}

const char* to_string(ValueType type) noexcept {
  switch (type) {
    case ValueType::boolean: return "bool";
    case ValueType::int32: return "int";
    case ValueType::int64: return "long";
    case ValueType::float32: return "float";
    case ValueType::float64: return "double";
  }
  return "?";
}

Graph::Graph() : structure_(no_structure()) {}
Graph::Graph(std::shared_ptr<const Structure> structure) noexcept : structure_(std::move(structure)) {}

std::uint64_t Graph::num_nodes() const noexcept { return structure_->nodes; }
std::uint64_t Graph::num_edges() const noexcept { return structure_->edges; }
bool Graph::undirected() const noexcept { return structure_->undirected; }
bool Graph::simple() const noexcept { return structure_->simple; }
int Graph::node_id_bytes() const noexcept { return structure_->node_bytes; }
int Graph::edge_id_bytes() const noexcept { return structure_->edge_bytes; }
const void* Graph::out_begin() const noexcept { return structure_->out_view.begin; }
const void* Graph::out_node_idx() const noexcept { return structure_->out_view.node_idx; }
const void* Graph::in_begin() const noexcept { return structure_->in_view.begin; }
const void* Graph::in_node_idx() const noexcept { return structure_->in_view.node_idx; }
const void* Graph::in_edge_ids() const noexcept { return structure_->in_edge_ids_view; }

std::uint64_t Column::first_negative() const {
  auto first = first_negative_->load(std::memory_order_relaxed);
  if (first <= size_) return first;
  const auto find = [](const auto& values) {
    const auto found = std::find_if(values.begin(), values.end(), [](auto value) { return value < 0; });
    return static_cast<std::uint64_t>(found - values.begin());
  };
  switch (type_) {
    case ValueType::int32: first = find(values<std::int32_t>()); break;
    case ValueType::int64: first = find(values<std::int64_t>()); break;
    case ValueType::float32: first = find(values<float>()); break;
    case ValueType::float64: first = find(values<double>()); break;
    default: first = size_;
  }
  first_negative_->store(first, std::memory_order_relaxed);
  return first;
}

Result<void> Graph::make_in_edges(int threads) const {
  if (structure_->in_ready.load(std::memory_order_acquire)) return {};
  const auto team = ThreadTeam::create(threads);
  return team ? make_in_rows(*structure_, **team) : Result<void>(team.error());
}

Result<void> Graph::make_in_edge_numbers(int threads) const {
  if (structure_->undirected || structure_->in_edge_ids_ready.load(std::memory_order_acquire)) return {};
  const auto team = ThreadTeam::create(threads);
  return team ? make_in_edge_ids(*structure_, **team) : Result<void>(team.error());
}

const Column* Graph::node_values(std::string_view name) const noexcept { return find(node_columns_, name); }
const Column* Graph::edge_values(std::string_view name) const noexcept { return find(edge_columns_, name); }

Result<Graph> Graph::with_node_values(Column values) const {
  if (values.size() != num_nodes()) return wrong_size(values, num_nodes(), "nodes");
  Graph graph = *this;
  put(graph.node_columns_, std::move(values));
  return graph;
}

Result<Graph> Graph::with_edge_values(Column values) const {
  if (values.size() != num_edges()) return wrong_size(values, num_edges(), "edges");
  Graph graph = *this;
  put(graph.edge_columns_, std::move(values));
  return graph;
}

namespace {

template <class NodeId, class Payload, class PayloadOf>
Result<Graph> graph_of(ThreadTeam& team, const ListOptions& options, std::span<const std::uint64_t> from,
                       std::span<const std::uint64_t> to, PayloadOf payload_of) {
  typename EdgeList<NodeId, Payload>::Part part;
  for (std::size_t edge = 0; edge < from.size(); ++edge) {
    if (from[edge] >= options.nodes || to[edge] >= options.nodes) {
      return make_error(Status::invalid_argument, "edge {} leads from node {} to {}; the graph has {} nodes", edge,
                        from[edge], to[edge], options.nodes);
    }
    if (!part.add({static_cast<NodeId>(from[edge]), static_cast<NodeId>(to[edge]), payload_of(edge)})) {
      return make_error(Status::out_of_memory, "{} edges do not fit into memory", from.size());
    }
  }
  EdgeList<NodeId, Payload> list;
  list.append(part, 0, true);
  if constexpr (std::is_same_v<Payload, NoPayload>) {
    return build_graph(team, std::move(list), options);
  } else {
    return build_graph(team, std::move(list), {.real = true}, options);
  }
}

template <class NodeId>
Result<Graph> graph_of(ThreadTeam& team, const ListOptions& options, std::span<const std::uint64_t> from,
                       std::span<const std::uint64_t> to, std::span<const double> weight) {
  if (weight.empty()) {
    return graph_of<NodeId, NoPayload>(team, options, from, to, [](std::size_t) { return NoPayload{}; });
  }
  return graph_of<NodeId, WeightBits>(team, options, from, to,
                                      [&](std::size_t edge) { return std::bit_cast<WeightBits>(weight[edge]); });
}

}  // namespace

Result<Graph> make_graph(std::uint64_t num_nodes, std::span<const std::uint64_t> from,
                         std::span<const std::uint64_t> to, std::span<const double> weight,
                         const BuildOptions& options) {
  if (from.size() != to.size() || (!weight.empty() && weight.size() != from.size())) {
    return make_error(Status::invalid_argument, "{} edges start, {} end, {} have weights", from.size(), to.size(),
                      weight.size());
  }
  const auto team = ThreadTeam::create(options.threads);
  if (!team) return team.error();
  ListOptions list_options;
  static_cast<BuildOptions&>(list_options) = options;
  list_options.nodes = num_nodes;
  return num_nodes <= most_ids<std::uint32_t> ? graph_of<std::uint32_t>(**team, list_options, from, to, weight)
                                              : graph_of<std::uint64_t>(**team, list_options, from, to, weight);
}

}  // namespace smelt::graph
