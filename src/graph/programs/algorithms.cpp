// The library's algorithms: calls of its own programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "graph/programs/builtin.hpp"
#include "graph/programs/results.hpp"
#include "smelt/graph_algorithms.hpp"

namespace smelt::graph {
namespace {

std::vector<const BuiltinProgram*> all_programs() {
  std::vector<const BuiltinProgram*> all;
  for (const auto* part : {&builtin_programs_1, &builtin_programs_2}) {
    for (const auto& each : *part) all.push_back(&each);
  }
  std::sort(all.begin(), all.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  return all;
}

Result<RunResult> call(const char* name, const Graph& graph, Arguments arguments, const RunOptions& options) {
  const auto program = builtin_program(name);
  if (!program) return program.error();
  const auto compiled = program->compile(graph.node_id_bytes(), graph.edge_id_bytes());
  if (!compiled) return compiled.error();
  arguments.graphs.emplace("G", graph);
  return compiled->run(program->main_procedure(), arguments, options);
}

void put_into(Arguments& arguments, const char* name, void* into) {
  if (into != nullptr) arguments.into.emplace(name, into);
}

/// One property of a program's results, in memory of the caller unless `into` is null.
Result<Column> property(const char* program, const char* name, const Graph& graph, Arguments arguments,
                        const RunOptions& options, void* into = nullptr) {
  put_into(arguments, name, into);
  auto result = call(program, graph, std::move(arguments), options);
  if (!result) return result.error();
  return std::move(result->columns.at(name));
}

template <class T>
Result<std::vector<T>> values_of(const Result<Column>& column) {
  if (!column) return column.error();
  const auto values = column->values<T>();
  return std::vector<T>(values.begin(), values.end());
}

/// Converts lengths to the program's type; doubles with integral values become integers.
Result<Column> whole_lengths(const Column& lengths) {
  const auto wrong = [&](std::uint64_t edge, double value) {
    return make_error(Status::invalid_argument, "'{}' of edge {} is {}: lengths must be whole numbers from 0 to {}",
                      lengths.name(), edge, value, INT32_MAX - 1);
  };
  const auto converted = [&](auto values) -> Result<Column> {
    std::vector<std::int32_t> whole(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i];
      if (!(value >= 0 && value < INT32_MAX) || value != std::floor(value)) return wrong(i, value);
      whole[i] = static_cast<std::int32_t>(value);
    }
    return Column::of<std::int32_t>(lengths.name(), whole);
  };
  if (lengths.type() == ValueType::float32) return converted(lengths.values<float>());
  if (lengths.type() == ValueType::float64) return converted(lengths.values<double>());
  if (lengths.type() == ValueType::int32) {
    const auto edge = lengths.first_negative();
    if (edge < lengths.size()) return wrong(edge, lengths.values<std::int32_t>()[edge]);
  }
  return lengths;
}

/// The mean length by the mean degree, as [Meyer and Sanders 2003] have it for random lengths; the lengths by a sample.
std::int64_t usual_delta(const Graph& graph, const Column& lengths) {
  constexpr std::uint64_t most_samples = 1000;
  const std::uint64_t edges = graph.num_edges(), samples = std::min(edges, most_samples);
  if (samples == 0 || lengths.type() != ValueType::int32) return 1;
  const auto values = lengths.values<std::int32_t>();
  double sum = 0;
  for (std::uint64_t i = 0; i < samples; ++i) sum += values[edges / samples * i];
  const double degree = static_cast<double>(edges) / static_cast<double>(graph.num_nodes());
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(sum / static_cast<double>(samples) / degree));
}

Value node(std::uint64_t number) { return static_cast<std::int64_t>(std::min<std::uint64_t>(number, INT64_MAX)); }

}  // namespace

const BuiltinProgram* find_builtin_text(std::string_view text) {
  for (const auto* each : all_programs()) {
    if (each->text == text) return each;
  }
  return nullptr;
}

std::vector<std::string> builtin_programs() {
  std::vector<std::string> names;
  for (const auto* each : all_programs()) names.emplace_back(each->name);
  return names;
}

Result<GreenMarl> builtin_program(const std::string& name) {
  for (const auto* each : all_programs()) {
    if (each->name == name) return GreenMarl::parse(name + ".gm", std::string(each->text));
  }
  return make_error(Status::not_found, "no program '{}' (there are {})", name, fmt::join(builtin_programs(), ", "));
}

namespace results {

Result<Column> bfs(const Graph& graph, std::uint64_t root, const RunOptions& options, void* into) {
  Arguments arguments;
  arguments.values["root"] = node(root);
  return property("bfs", "parent", graph, std::move(arguments), options, into);
}

Result<Column> pagerank(const Graph& graph, const PageRankOptions& how, const RunOptions& options, int* iterations,
                        void* into) {
  Arguments arguments;
  arguments.values = {
      {"damping", how.damping}, {"tolerance", how.tolerance}, {"max_iterations", std::int64_t{how.max_iterations}}};
  put_into(arguments, "rank", into);
  auto result = call("pagerank", graph, std::move(arguments), options);
  if (!result) return result.error();
  if (iterations != nullptr) *iterations = static_cast<int>(std::get<std::int64_t>(result->returned));
  return std::move(result->columns.at("rank"));
}

Result<Column> connected_components(const Graph& graph, const RunOptions& options, void* into) {
  Arguments arguments;
  arguments.values["directed"] = !graph.undirected();
  return property("components", "comp", graph, std::move(arguments), options, into);
}

Result<Column> betweenness(const Graph& graph, std::span<const std::uint64_t> sources, const RunOptions& options,
                           void* into) {
  Arguments arguments;
  arguments.items["sources"].assign(sources.begin(), sources.end());
  return property("betweenness", "BC", graph, std::move(arguments), options, into);
}

Result<Column> sssp(const Graph& graph, std::uint64_t root, const std::string& length, int delta,
                    const RunOptions& options, void* into) {
  const Column* lengths = graph.edge_values(length);
  if (lengths == nullptr) return make_error(Status::invalid_argument, "the graph has no edge values '{}'", length);
  auto whole = whole_lengths(*lengths);
  if (!whole) return whole.error();
  Arguments arguments;
  arguments.values = {{"root", node(root)}, {"delta", delta > 0 ? std::int64_t{delta} : usual_delta(graph, *whole)}};
  arguments.columns.emplace("len", *std::move(whole));
  auto distances = property("sssp", "dist", graph, std::move(arguments), options, into);
  if (!distances) return distances;
  // A sum that is too large becomes negative, and stays less than any other.
  const auto values = distances->values<std::int32_t>();
  if (std::none_of(values.begin(), values.end(), [](auto distance) { return distance < 0; })) return distances;
  return make_error(Status::invalid_argument, "a shortest path is longer than {}; divide the lengths '{}'",
                    INT32_MAX - 1, length);
}

Result<Column> hop_distance(const Graph& graph, std::uint64_t root, const RunOptions& options, void* into) {
  Arguments arguments;
  arguments.values["root"] = node(root);
  return property("hop_dist", "dist", graph, std::move(arguments), options, into);
}

}  // namespace results

Result<std::vector<std::int64_t>> bfs(const Graph& graph, std::uint64_t root, const RunOptions& options) {
  return values_of<std::int64_t>(results::bfs(graph, root, options));
}

Result<PageRankResult> pagerank(const Graph& graph, const PageRankOptions& how, const RunOptions& options) {
  int iterations = 0;
  auto rank = values_of<float>(results::pagerank(graph, how, options, &iterations));
  if (!rank) return rank.error();
  return PageRankResult{*std::move(rank), iterations};
}

Result<std::vector<std::int64_t>> connected_components(const Graph& graph, const RunOptions& options) {
  return values_of<std::int64_t>(results::connected_components(graph, options));
}

Result<std::vector<float>> betweenness(const Graph& graph, std::span<const std::uint64_t> sources,
                                       const RunOptions& options) {
  return values_of<float>(results::betweenness(graph, sources, options));
}

Result<std::vector<std::int32_t>> sssp(const Graph& graph, std::uint64_t root, const std::string& length, int delta,
                                       const RunOptions& options) {
  return values_of<std::int32_t>(results::sssp(graph, root, length, delta, options));
}

Result<std::uint64_t> triangles(const Graph& graph, const RunOptions& options) {
  if (!graph.undirected() || !graph.simple()) {
    return make_error(Status::invalid_argument,
                      "triangles are counted in undirected graphs without loops and repeated edges; build the "
                      "graph with BuildOptions::undirected and simple");
  }
  const auto result = call("triangles", graph, {}, options);
  if (!result) return result.error();
  return static_cast<std::uint64_t>(std::get<std::int64_t>(result->returned));
}

Result<std::vector<std::int32_t>> hop_distance(const Graph& graph, std::uint64_t root, const RunOptions& options) {
  return values_of<std::int32_t>(results::hop_distance(graph, root, options));
}

Result<std::vector<std::int32_t>> strong_components(const Graph& graph, const RunOptions& options) {
  return values_of<std::int32_t>(property("kosaraju", "mem", graph, {}, options));
}

Result<std::vector<std::int32_t>> core_numbers(const Graph& graph, const RunOptions& options) {
  return values_of<std::int32_t>(property("core_numbers", "core", graph, {}, options));
}

Result<std::vector<std::int64_t>> communities(const Graph& graph, int max_rounds, const RunOptions& options) {
  Arguments arguments;
  arguments.values["max_rounds"] = std::int64_t{max_rounds};
  return values_of<std::int64_t>(property("communities", "comm", graph, std::move(arguments), options));
}

Result<std::vector<double>> clustering(const Graph& graph, const RunOptions& options) {
  return values_of<double>(property("clustering", "cc", graph, {}, options));
}

}  // namespace smelt::graph
