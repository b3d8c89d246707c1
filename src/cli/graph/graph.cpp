// smelt graph: checks, explains and compiles programs in Green-Marl; shared code of its commands.
#include "cli/graph/graph.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/terminal.hpp"
#include "smelt/graph_algorithms.hpp"
#include "smelt/machine.hpp"

namespace smelt::cli {
namespace {

using graph::GreenMarl;

bool is_generator(const std::string& name) {
  const auto kind = name.substr(0, name.find(':'));
  return name.find(':') != std::string::npos &&
         (kind == "kron" || kind == "kronecker" || kind == "uniform" || kind == "grid");
}

const char* severity_name(graph::Message::Severity severity) {
  switch (severity) {
    case graph::Message::Severity::error: return "error";
    case graph::Message::Severity::warning: return "warning";
    case graph::Message::Severity::note: return "note";
  }
  return "?";
}

std::string signature(const graph::ProcedureInfo& procedure) {
  std::string text = procedure.name + "(";
  bool outputs = false;
  for (std::size_t i = 0; i < procedure.parameters.size(); ++i) {
    const auto& parameter = procedure.parameters[i];
    if (parameter.output && !outputs) {
      text += "; ";
    } else if (i > 0) {
      text += ", ";
    }
    outputs = parameter.output;
    text += parameter.name + ": " + parameter.type;
  }
  return text + ")" + (procedure.return_type.empty() ? "" : " : " + procedure.return_type);
}

// --- check

struct CheckFlags {
  std::string file;
  bool json = false;
};

bool is_library_program(const std::string& name) { return name.find_first_of("./") == std::string::npos; }

/// A file, or one of the library's own programs by its name.
Result<GreenMarl> find_program(const std::string& name) {
  return is_library_program(name) ? graph::builtin_program(name) : GreenMarl::read(name);
}

void check(const CheckFlags& flags) {
  if (flags.file.empty()) fail_usage("check what? name a file, as in `smelt graph check pagerank.gm`");
  const auto program = take(find_program(flags.file));
  if (flags.json) {
    Json messages = Json::array();
    for (const auto& each : program.messages()) {
      messages.push_back({{"severity", severity_name(each.severity)},
                          {"line", each.line},
                          {"column", each.column},
                          {"message", each.text}});
    }
    Json procedures = Json::array();
    for (const auto& each : program.procedures())
      procedures.push_back({{"name", each.name}, {"local", each.local}, {"signature", signature(each)}});
    print(format_json(
        {{"file", flags.file}, {"good", program.good()}, {"messages", messages}, {"procedures", procedures}}));
  } else {
    std::fputs(program.formatted_messages().c_str(), stderr);
    if (program.good()) {
      for (const auto& each : program.procedures()) print((each.local ? "Local " : "") + signature(each) + "\n");
    }
  }
  if (!program.good()) throw Failure{exit_failure, fmt::format("{}: has errors", flags.file)};
}

// --- compile

struct CompileCommandFlags {
  std::string file, output;
  int indices = 32;
  CompileFlags compile;
};

void compile(const CompileCommandFlags& flags) {
  if (flags.file.empty())
    fail_usage("compile what? name a file, as in `smelt graph compile pagerank.gm -o pagerank.cpp`");
  if (flags.indices != 32 && flags.indices != 64) fail_usage("--indices {}: must be 32 or 64", flags.indices);
  const auto program = read_program(flags.file);
  if (flags.output.ends_with(".so"))
    return take(program.compile_to(flags.output, flags.indices / 8, flags.indices / 8, flags.compile.options()));
  const std::string text = program.cpp(flags.compile.options());
  if (flags.output.empty()) return print(text);
  if (!flags.output.ends_with(".cpp") && !flags.output.ends_with(".hpp") && !flags.output.ends_with(".cc")) {
    fail_usage("-o {}: must end in .cpp or .so", flags.output);
  }
  write_file(flags.output, text);
}

// --- explain

struct ExplainFlags {
  std::string file, graph, procedure, model;
  GraphFlags graph_flags;
  CompileFlags compile;
  bool json = false;
};

graph::MachineMemory memory_of(const Machine& machine) {
  graph::MachineMemory memory;
  memory.numa_nodes = static_cast<int>(machine.numa_nodes.size());
  for (const auto& node : machine.numa_nodes) {
    const auto bytes = static_cast<std::uint64_t>(node.memory_bytes);
    if (memory.bytes_per_numa_node == 0 || bytes < memory.bytes_per_numa_node) memory.bytes_per_numa_node = bytes;
  }
  return memory;
}

Json arrays_document(const std::vector<graph::ArrayUse>& arrays) {
  Json list = Json::array();
  for (const auto& each : arrays) {
    list.push_back({{"name", each.name},
                    {"of", each.node ? "nodes" : "edges"},
                    {"used", each.used},
                    {"read_only", each.read_only},
                    {"standard", each.standard},
                    {"dynamic", each.dynamic},
                    {"indexed", each.indexed},
                    {"reads", each.reads},
                    {"writes", each.writes}});
  }
  return list;
}

std::string arrays_table(const std::vector<graph::ArrayUse>& arrays) {
  Table table("lllllllrr");
  table.header({"array", "of", "used", "ro", "std", "dyn", "indexed", "reads", "writes"});
  const auto mark = [](bool holds) { return std::string(holds ? "x" : ""); };
  for (const auto& each : arrays) {
    table.row({{each.name, each.used ? Style::strong : Style::faint},
               each.node ? "nodes" : "edges",
               mark(each.used),
               mark(each.read_only),
               mark(each.standard),
               mark(each.dynamic),
               mark(each.indexed),
               each.reads,
               each.writes});
  }
  return table.text();
}

void explain(const ExplainFlags& flags) {
  if (flags.file.empty()) fail_usage("explain what? name a file, as in `smelt graph explain pagerank.gm`");
  const auto program = read_program(flags.file, flags.json);
  const std::string procedure = flags.procedure.empty() ? program.main_procedure() : flags.procedure;
  const auto arrays = program.arrays(procedure);
  if (arrays.empty()) fail_usage("--procedure {}: there is no such procedure in {}", procedure, flags.file);
  const auto decisions = program.decisions(flags.compile.options());
  std::vector<graph::ArrayPlacement> placements;
  if (!flags.graph.empty()) {
    const Machine machine = flags.model.empty() ? take(discover_machine()) : load_model(flags.model, false);
    placements = graph::place_arrays(arrays, load_graph(flags.graph, flags.graph_flags), memory_of(machine));
  }
  if (flags.json) {
    Json chosen = Json::array(), placed = Json::array();
    for (const auto& each : decisions) chosen.push_back({{"line", each.line}, {"decision", each.text}});
    for (const auto& each : placements) {
      placed.push_back({{"array", each.name},
                        {"bytes", each.size_bytes},
                        {"placement", graph::to_string(each.placement)},
                        {"huge_pages", each.huge_pages},
                        {"because", each.because}});
    }
    return print(format_json({{"file", flags.file},
                              {"procedure", procedure},
                              {"arrays", arrays_document(arrays)},
                              {"decisions", chosen},
                              {"placements", placed}}));
  }
  print(fmt::format("{}\n{}", styled(Style::title, procedure), arrays_table(arrays)));
  print("  N nodes, E edges, k iterations, d a degree, S a collection's size\n");
  if (!decisions.empty()) print("\n" + styled(Style::title, "decisions") + "\n");
  for (const auto& each : decisions) print(fmt::format("  line {:<4} {}\n", each.line, each.text));
  if (placements.empty()) return;
  Table table("lrlll");
  table.header({"array", "size", "placement", "pages", "because"});
  for (const auto& each : placements) {
    table.row({{each.name, Style::strong},
               format_bytes(static_cast<double>(each.size_bytes)),
               graph::to_string(each.placement),
               each.huge_pages ? "2 MiB" : "4 KiB",
               each.because});
  }
  print("\n" + styled(Style::title, "placement") + "\n" + table.text());
}

void add_check(Command& parent) {
  auto flags = std::make_shared<CheckFlags>();
  Command command = parent.add("check", "What is wrong with a program");
  command.text("file", flags->file, "FILE", "the program");
  command.flag("--json", flags->json, "messages and procedures as JSON");
  command.action([flags] { check(*flags); });
}

void add_compile(Command& parent) {
  auto flags = std::make_shared<CompileCommandFlags>();
  Command command = parent.add("compile", "A program as C++, or as a shared library");
  command.text("file", flags->file, "FILE", "the program");
  command.text("-o,--output", flags->output, "FILE", "out.cpp or out.so; default: C++ on standard output");
  command.integer("--indices", flags->indices, 32, 64,
                  "for a library: bits of the numbers of nodes and edges, 32 or 64 (default 32)");
  add_compile_options(command, flags->compile);
  command.action([flags] { compile(*flags); });
}

void add_explain(Command& parent) {
  auto flags = std::make_shared<ExplainFlags>();
  Command command = parent.add("explain", "What a program does to each array, and what the compiler makes of it");
  command.text("file", flags->file, "FILE", "the program");
  command.text("graph", flags->graph, "GRAPH", "a file, or kron:20 and the like: where the arrays should lie for it");
  command.text("--procedure", flags->procedure, "NAME", "which one; default: the first that no other one calls");
  add_model_option(command, flags->model);
  add_graph_options(command, flags->graph_flags);
  add_compile_options(command, flags->compile);
  command.flag("--json", flags->json, "as JSON");
  command.action([flags] { explain(*flags); });
}

}  // namespace

void add_graph_options(Command& command, GraphFlags& flags) {
  command.text("--format", flags.format, "NAME", "the file's format; default: by its name and start");
  command.flag("--undirected", flags.undirected, "add the reverse of every edge");
  command.flag("--simple", flags.simple, "leave out loops and repeated edges");
  command.flag("--renumber", flags.renumber,
               "number the nodes that occur 0, 1, ...; their own numbers become the node values 'id'");
  command.integer("--adj-node-values", flags.adj_node_values, 0, 1000, "ADJ files: values behind each node");
  command.integer("--adj-edge-values", flags.adj_edge_values, 0, 1, "ADJ files: values behind each neighbour");
  command.integer("--threads", flags.threads, 0, 1024, "threads; default: one per PU that this process may use");
}

graph::Graph load_graph(const std::string& name, const GraphFlags& flags) {
  ProgressBar bar;
  const auto progress = [&](const char* phase, double fraction) { bar.update(phase, fraction, -1.0); };
  if (is_generator(name)) {
    auto spec = take(graph::parse_generator(name));
    return take(graph::generate(spec, flags.threads, progress));
  }
  graph::LoadOptions options;
  if (!flags.format.empty()) options.format = take(graph::parse_format(flags.format));
  options.threads = flags.threads;
  options.undirected = flags.undirected;
  options.simple = flags.simple;
  options.renumber = flags.renumber;
  options.adj_node_values = flags.adj_node_values;
  options.adj_edge_values = flags.adj_edge_values;
  options.progress = progress;
  return take(graph::load(name, options));
}

graph::CompileOptions CompileFlags::options() const {
  if (push && pull) fail_usage("--push and --pull: one of them");
  graph::CompileOptions result;
  if (push) result.neighbours = graph::CompileOptions::Neighbours::push;
  if (pull) result.neighbours = graph::CompileOptions::Neighbours::pull;
  result.fuse = !no_fusion;
  result.precompute = !no_precompute;
  result.fetch_ahead = !no_fetch_ahead;
  result.merge = !no_merge;
  result.bins = !no_bins;
  result.cache = !no_cache;
  result.compiler = compiler;
  return result;
}

void add_compile_options(Command& command, CompileFlags& flags) {
  command.flag("--push", flags.push, "reductions at neighbours are always written to them");
  command.flag("--pull", flags.pull, "and, where possible, always read from them");
  command.flag("--no-fusion", flags.no_fusion, "each loop over nodes stays one of its own");
  command.flag("--no-precompute", flags.no_precompute,
               "sums over neighbours compute what they take of each for every edge");
  command.flag("--no-fetch-ahead", flags.no_fetch_ahead,
               "loops over neighbours wait for each value instead of asking for it before");
  command.flag("--no-merge", flags.no_merge, "HasEdgeTo is looked up, lists are not merged");
  command.flag("--no-bins", flags.no_bins, "nodes are taken out of a map one after the other, by their values");
  command.flag("--no-cache", flags.no_cache, "compile anew, keep nothing");
  command.text("--compiler", flags.compiler, "NAME", "C++ compiler; default: $CXX, c++, g++ or clang++");
}

graph::GreenMarl read_program(const std::string& file, bool quiet) {
  auto program = take(find_program(file));
  const bool warn = !quiet && !is_library_program(file);  // warnings about races are for the user's own programs
  if (warn || !program.good()) std::fputs(program.formatted_messages().c_str(), stderr);
  if (!program.good()) throw Failure{exit_failure, fmt::format("{}: has errors", file)};
  return program;
}

Json graph_document(const graph::Graph& graph) {
  Json columns = Json::array();
  for (const auto& column : graph.node_columns())
    columns.push_back({{"of", "nodes"}, {"name", column.name()}, {"type", graph::to_string(column.type())}});
  for (const auto& column : graph.edge_columns())
    columns.push_back({{"of", "edges"}, {"name", column.name()}, {"type", graph::to_string(column.type())}});
  return {{"nodes", graph.num_nodes()},
          {"edges", graph.num_edges()},
          {"undirected", graph.undirected()},
          {"simple", graph.simple()},
          {"node_id_bytes", graph.node_id_bytes()},
          {"edge_id_bytes", graph.edge_id_bytes()},
          {"values", columns}};
}

void add_graph(Parser& parser) {
  Command command = parser.add("graph", "Graph programs in Green-Marl, and graph files");
  add_graph_run(command);
  add_check(command);
  add_explain(command);
  add_compile(command);
  add_graph_files(command);
  command.footer(
      "Examples:\n"
      "  smelt graph run pagerank.gm web.el e=1e-6 d=0.85 max=100\n"
      "  smelt graph explain pagerank.gm kron:20\n"
      "  smelt graph convert web.el.gz web.smg\n");
}

}  // namespace smelt::cli
