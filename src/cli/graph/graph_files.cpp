// smelt graph convert, generate, stats: graph files.
#include <memory>

#include "cli/command.hpp"
#include "cli/graph/graph.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct FileFlags {
  std::string input, output, output_format;
  GraphFlags graph;
  bool in_edges = false;
  bool json = false;
};

void save_graph(const graph::Graph& graph, const FileFlags& flags) {
  graph::SaveOptions options;
  if (!flags.output_format.empty()) options.format = take(graph::parse_format(flags.output_format));
  options.threads = flags.graph.threads;
  ProgressBar bar;
  options.progress = [&](const char* phase, double fraction) { bar.update(phase, fraction, -1.0); };
  take(graph::save(graph, flags.output, options));
}

/// The container also gets in edges, and their numbers if there are weights.
void make_in_edges(const graph::Graph& graph, int threads) {
  graph::with_ids(graph, [&](auto node_id, auto edge_id) {
    using EdgeId = decltype(edge_id);
    if (auto made = graph.in<decltype(node_id), EdgeId>(threads); !made) fail("{}", made.error().message);
    if (graph.edge_columns().empty()) return;
    if (auto made = graph.in_edge_numbers<EdgeId>(threads); !made) fail("{}", made.error().message);
  });
}

void finish(const graph::Graph& graph, const FileFlags& flags) {
  if (flags.in_edges) make_in_edges(graph, flags.graph.threads);
  save_graph(graph, flags);
  if (flags.json) {
    Json document = graph_document(graph);
    document["file"] = flags.output;
    return print(format_json(document));
  }
  print(fmt::format("{}: {} nodes, {} edges{}\n", flags.output, graph.num_nodes(), graph.num_edges(),
                    graph.undirected() ? ", undirected" : ""));
}

void convert(const FileFlags& flags) {
  if (flags.input.empty() || flags.output.empty())
    fail_usage("convert what? name a graph and a file, as in `smelt graph convert web.el web.smg`");
  finish(load_graph(flags.input, flags.graph), flags);
}

void generate(const FileFlags& flags) {
  if (flags.input.empty() || flags.output.empty())
    fail_usage("generate what? as in `smelt graph generate kron:20 kron.smg`");
  take(graph::parse_generator(flags.input));
  finish(load_graph(flags.input, flags.graph), flags);
}

Json degrees_document(const graph::Statistics::Degrees& degrees) {
  return {{"min", degrees.min},
          {"median", degrees.median},
          {"mean", degrees.mean},
          {"max", degrees.max},
          {"share_of_top_percent", degrees.top_percent_share}};
}

void stats(const FileFlags& flags) {
  if (flags.input.empty()) fail_usage("stats of what? name a graph, as in `smelt graph stats web.el`");
  const auto graph = load_graph(flags.input, flags.graph);
  const auto found = take(graph::statistics(graph, flags.graph.threads));
  if (flags.json) {
    Json document = graph_document(graph);
    document["out_degree"] = degrees_document(found.out);
    document["in_degree"] = degrees_document(found.in);
    document["isolated"] = found.isolated;
    document["loops"] = found.loops;
    document["repeated_edges"] = found.repeated;
    document["symmetric"] = found.symmetric;
    document["structure_bytes"] = found.structure_bytes;
    return print(format_json(document));
  }
  Table table("lr");
  const auto number = [](std::uint64_t value) { return fmt::format("{}", value); };
  const auto degrees = [](const graph::Statistics::Degrees& each) {
    return fmt::format("{} to {}, median {}, mean {:.1f}; {:.0f} % of edges at the top 1 % of nodes", each.min,
                       each.max, each.median, each.mean, 100 * each.top_percent_share);
  };
  table.row({"nodes", number(found.num_nodes)});
  table.row({"edges", number(found.num_edges)});
  table.row({"isolated nodes", number(found.isolated)});
  table.row({"loops", number(found.loops)});
  table.row({"repeated edges", number(found.repeated)});
  table.row({"symmetric", found.symmetric ? "yes" : "no"});
  table.row({"numbers", fmt::format("{} and {} bits", graph.node_id_bytes() * 8, graph.edge_id_bytes() * 8)});
  table.row({"memory", format_bytes(static_cast<double>(found.structure_bytes))});
  print(table.text());
  print(fmt::format("  out degree  {}\n  in degree   {}\n", degrees(found.out), degrees(found.in)));
  for (const auto* columns : {&graph.node_columns(), &graph.edge_columns()}) {
    for (const auto& column : *columns) {
      print(fmt::format("  {} values '{}': {}\n", columns == &graph.node_columns() ? "node" : "edge", column.name(),
                        graph::to_string(column.type())));
    }
  }
}

}  // namespace

void add_graph_files(Command& graph) {
  const auto outputs = [](Command& command, const std::shared_ptr<FileFlags>& flags) {
    command.text("output", flags->output, "FILE",
                 "where to, in the format that its name says: .smg, .el, .mtx, .gr, .graph, .sg, .wsg, .ebin, .adj");
    command.text("--to", flags->output_format, "NAME", "the output's format, if its name does not say it");
    command.flag("--in-edges", flags->in_edges, "make in edges as well, which .smg keeps");
    add_graph_options(command, flags->graph);
    command.flag("--json", flags->json, "what was written, as JSON");
  };
  auto converts = std::make_shared<FileFlags>();
  Command command = graph.add("convert", "A graph file in another format");
  command.text("input", converts->input, "GRAPH",
               "edge list, Matrix Market, DIMACS, METIS, GAP, EBIN, ADJ or .smg; text also as .gz or .zst");
  outputs(command, converts);
  command.action([converts] { convert(*converts); });
  auto generates = std::make_shared<FileFlags>();
  command = graph.add("generate", "A graph that is made up");
  command.text("spec", generates->input, "SPEC",
               "kron:SCALE, uniform:SCALE, grid:ROWSxCOLUMNS, then :degree=N:seed=N:weights=MAX:directed:multi");
  outputs(command, generates);
  command.action([generates] { generate(*generates); });
  auto counts = std::make_shared<FileFlags>();
  command = graph.add("stats", "What is in a graph");
  command.text("graph", counts->input, "GRAPH", "a file, or kron:20 and the like");
  add_graph_options(command, counts->graph);
  command.flag("--json", counts->json, "as JSON");
  command.action([counts] { stats(*counts); });
}

}  // namespace smelt::cli
