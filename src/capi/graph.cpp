// Graphs of the C interface: handles of graphs, and the ready algorithms, which write to the caller's arrays.
#include <span>

#include "capi/handles.hpp"
#include "graph/programs/results.hpp"
#include "smelt/graph_algorithms.hpp"

using namespace smelt;
using namespace smelt::capi;

struct smelt_graph {
  graph::Graph value;
};

namespace {

constexpr unsigned all_flags = SMELT_GRAPH_UNDIRECTED | SMELT_GRAPH_SIMPLE | SMELT_GRAPH_RENUMBER;

void set_flags(graph::BuildOptions& options, unsigned flags) {
  options.undirected = (flags & SMELT_GRAPH_UNDIRECTED) != 0;
  options.simple = (flags & SMELT_GRAPH_SIMPLE) != 0;
  options.renumber = (flags & SMELT_GRAPH_RENUMBER) != 0;
}

graph::RunOptions with_threads(int threads) {
  graph::RunOptions options;
  options.threads = threads;
  return options;
}

/// Runs an algorithm whose values, one per node and of the type of `to`, go to `to`.
template <class T, class Algorithm>
int to_array(const char* call, const smelt_graph* graph, T* to, int threads, Algorithm&& algorithm) noexcept {
  return guarded([&]() -> int {
    if (graph == nullptr) return fail_argument(call, "graph must not be NULL");
    if (to == nullptr && graph->value.num_nodes() > 0)
      return fail_argument(call, "the result's array must not be NULL");
    const Result<graph::Column> values = algorithm(graph->value, with_threads(threads), to);
    return values ? SMELT_OK : fail(values.error());
  });
}

}  // namespace

extern "C" {

int smelt_graph_load(const char* file, unsigned flags, smelt_graph** graph) {
  return guarded([&]() -> int {
    if (file == nullptr || graph == nullptr)
      return fail_argument("smelt_graph_load", "file and graph must not be NULL");
    if ((flags & ~all_flags) != 0) return fail_argument("smelt_graph_load", "unknown flags");
    graph::LoadOptions options;
    set_flags(options, flags);
    return hand_out(graph::load(file, options), graph);
  });
}

int smelt_graph_create(uint64_t num_nodes, uint64_t num_edges, const uint64_t* from, const uint64_t* to,
                       const double* weight, unsigned flags, smelt_graph** graph) {
  return guarded([&]() -> int {
    if (graph == nullptr) return fail_argument("smelt_graph_create", "graph must not be NULL");
    if (num_edges > 0 && (from == nullptr || to == nullptr))
      return fail_argument("smelt_graph_create", "from and to must not be NULL");
    if ((flags & ~all_flags) != 0) return fail_argument("smelt_graph_create", "unknown flags");
    graph::BuildOptions options;
    set_flags(options, flags);
    const std::span<const double> weights(weight, weight == nullptr ? 0 : num_edges);
    return hand_out(graph::make_graph(num_nodes, {from, num_edges}, {to, num_edges}, weights, options), graph);
  });
}

int smelt_graph_generate(const char* spec, smelt_graph** graph) {
  return guarded([&]() -> int {
    if (spec == nullptr || graph == nullptr)
      return fail_argument("smelt_graph_generate", "spec and graph must not be NULL");
    const auto parsed = graph::parse_generator(spec);
    if (!parsed) return fail(parsed.error());
    return hand_out(graph::generate(*parsed), graph);
  });
}

int smelt_graph_save(const smelt_graph* graph, const char* file) {
  return guarded([&]() -> int {
    if (graph == nullptr || file == nullptr)
      return fail_argument("smelt_graph_save", "graph and file must not be NULL");
    const auto saved = graph::save(graph->value, file);
    return saved ? SMELT_OK : fail(saved.error());
  });
}

void smelt_graph_free(smelt_graph* graph) { delete graph; }

uint64_t smelt_graph_num_nodes(const smelt_graph* graph) { return graph == nullptr ? 0 : graph->value.num_nodes(); }
uint64_t smelt_graph_num_edges(const smelt_graph* graph) { return graph == nullptr ? 0 : graph->value.num_edges(); }

int smelt_graph_bfs(const smelt_graph* graph, uint64_t root, int threads, int64_t* parent) {
  return to_array("smelt_graph_bfs", graph, parent, threads,
                  [&](const graph::Graph& on, const auto& options, auto* into) {
                    return graph::results::bfs(on, root, options, into);
                  });
}

int smelt_graph_hop_distance(const smelt_graph* graph, uint64_t root, int threads, int32_t* distance) {
  return to_array("smelt_graph_hop_distance", graph, distance, threads,
                  [&](const graph::Graph& on, const auto& options, auto* into) {
                    return graph::results::hop_distance(on, root, options, into);
                  });
}

int smelt_graph_pagerank(const smelt_graph* graph, double damping, double tolerance, int max_iterations, int threads,
                         float* rank, int* iterations) {
  return to_array(
      "smelt_graph_pagerank", graph, rank, threads, [&](const graph::Graph& on, const auto& options, auto* into) {
        return graph::results::pagerank(on, {damping, tolerance, max_iterations}, options, iterations, into);
      });
}

int smelt_graph_components(const smelt_graph* graph, int threads, int64_t* component) {
  return to_array("smelt_graph_components", graph, component, threads,
                  [&](const graph::Graph& on, const auto& options, auto* into) {
                    return graph::results::connected_components(on, options, into);
                  });
}

int smelt_graph_betweenness(const smelt_graph* graph, const uint64_t* sources, uint64_t num_sources, int threads,
                            float* centrality) {
  if (sources == nullptr && num_sources > 0) {
    return guarded([] { return fail_argument("smelt_graph_betweenness", "sources must not be NULL"); });
  }
  return to_array("smelt_graph_betweenness", graph, centrality, threads,
                  [&](const graph::Graph& on, const auto& options, auto* into) {
                    return graph::results::betweenness(on, {sources, num_sources}, options, into);
                  });
}

int smelt_graph_sssp(const smelt_graph* graph, uint64_t root, int threads, int32_t* distance) {
  return to_array("smelt_graph_sssp", graph, distance, threads,
                  [&](const graph::Graph& on, const auto& options, auto* into) {
                    return graph::results::sssp(on, root, "weight", 0, options, into);
                  });
}

int smelt_graph_triangles(const smelt_graph* graph, int threads, uint64_t* triangles) {
  return guarded([&]() -> int {
    if (graph == nullptr || triangles == nullptr)
      return fail_argument("smelt_graph_triangles", "graph and triangles must not be NULL");
    const auto found = graph::triangles(graph->value, with_threads(threads));
    if (!found) return fail(found.error());
    *triangles = *found;
    return SMELT_OK;
  });
}

}  // extern "C"
