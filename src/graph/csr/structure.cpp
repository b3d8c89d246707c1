// Data derived from a graph's out edges: in edges, their numbers, and whether the graph is symmetric.
#include "graph/csr/structure.hpp"

#include <algorithm>
#include <atomic>

#include "graph/csr/build.hpp"
#include "graph/csr/grouping.hpp"
#include "graph/csr/rows_source.hpp"
#include "graph/csr/symmetry.hpp"

namespace smelt::graph {
namespace {

template <class NodeId, class EdgeId, class Travel, class PayloadOf>
Result<Grouped> transposed(const Structure& structure, ThreadTeam& team, PayloadOf payload) {
  const auto out = adjacency<NodeId, EdgeId>(structure.out_view);
  RowsSource source(out.begin, out.node_idx, structure.nodes, payload, slices_for(team));
  return Grouping<NodeId, Travel, decltype(source)>(team, structure.nodes, source).run();
}

}  // namespace

Widths widths_for(std::uint64_t nodes, std::uint64_t edges, bool wide) {
  return {wide || nodes > most_ids<std::uint32_t> ? 8 : 4, wide || edges >= most_ids<std::uint32_t> ? 8 : 4};
}

std::shared_ptr<Structure> make_structure(std::uint64_t nodes, std::uint64_t edges, Widths widths, Rows out) {
  auto structure = std::make_shared<Structure>();
  structure->nodes = nodes;
  structure->edges = edges;
  structure->node_bytes = widths.node_bytes;
  structure->edge_bytes = widths.edge_bytes;
  structure->out = std::move(out);
  structure->out_view = {structure->out.begin.data(), structure->out.node_idx.data()};
  return structure;
}

Result<Pages> narrowed(ThreadTeam& team, Pages wide, std::uint64_t count, int bytes) {
  if (bytes == 8) return wide;
  auto narrow = Pages::allocate(count * sizeof(std::uint32_t));
  if (!narrow) return narrow.error();
  constexpr std::uint64_t step = 1u << 16;
  const auto* from = wide.as<std::uint64_t>();
  auto* to = narrow->as<std::uint32_t>();
  team.for_each((count + step - 1) / step, [&](std::size_t piece, int) {
    const std::uint64_t first = piece * step, last = std::min(count, first + step);
    std::transform(from + first, from + last, to + first,
                   [](std::uint64_t x) { return static_cast<std::uint32_t>(x); });
  });
  return narrow;
}

Result<void> make_in_rows(const Structure& structure, ThreadTeam& team) {
  if (structure.in_ready.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(structure.mutex);
  if (structure.in_ready.load(std::memory_order_relaxed)) return {};
  if (structure.undirected) {
    structure.in_view = structure.out_view;
  } else {
    auto grouped = with_ids(structure, [&](auto node, auto edge) {
      return transposed<decltype(node), decltype(edge), NoPayload>(structure, team, NothingTravels{});
    });
    if (!grouped) return grouped.error();
    auto begin = narrowed(team, std::move(grouped->begin), structure.nodes + 1, structure.edge_bytes);
    if (!begin) return begin.error();
    structure.in = {*std::move(begin), std::move(grouped->values)};
    structure.in_view = {structure.in.begin.data(), structure.in.node_idx.data()};
  }
  structure.in_ready.store(true, std::memory_order_release);
  return {};
}

Result<void> make_in_edge_ids(const Structure& structure, ThreadTeam& team) {
  if (structure.undirected || structure.in_edge_ids_ready.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(structure.mutex);
  if (structure.in_edge_ids_ready.load(std::memory_order_relaxed)) return {};
  auto grouped = with_ids(structure, [&](auto node, auto edge) {
    using EdgeId = decltype(edge);
    return transposed<decltype(node), EdgeId, EdgeId>(structure, team, EdgeNumber<EdgeId>{});
  });
  if (!grouped) return grouped.error();
  structure.in_edge_ids = std::move(grouped->payloads);
  structure.in_edge_ids_view = structure.in_edge_ids.data();
  structure.in_edge_ids_ready.store(true, std::memory_order_release);
  return {};
}

bool is_symmetric(const Structure& structure, ThreadTeam& team) {
  if (structure.undirected) return true;
  return with_ids(structure, [&](auto node, auto edge) {
    const auto out = adjacency<decltype(node), decltype(edge)>(structure.out_view);
    const auto parts = slices_for(team);
    std::atomic<std::uint64_t> sum{0};
    team.for_each(parts, [&](std::size_t part, int) {
      const auto first = first_node_of_part(out.begin, structure.nodes, part, parts);
      const auto last = first_node_of_part(out.begin, structure.nodes, part + 1, parts);
      const SymmetrySum symmetry = SymmetrySum::of_process();
      std::uint64_t own = 0;
      for (auto from = first; from < last; ++from) {
        own += symmetry.of_row(from, out.node_idx + out.begin[from], out.node_idx + out.begin[from + 1]);
      }
      sum.fetch_add(own, std::memory_order_relaxed);  // read after the team has met
    });
    return sum.load(std::memory_order_relaxed) == 0;
  });
}

}  // namespace smelt::graph
