// smelt graph run: compiles a program, loads its graph, reads its arguments from words and prints its results.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/graph/graph.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

using graph::ParameterInfo;
using graph::Value;

struct GraphRunFlags {
  std::string file, graph, procedure;
  std::vector<std::string> words;
  std::vector<std::string> outputs;
  std::string values = "10";
  int seed = 1;
  bool no_placement = false;
  int repeat = 1;
  GraphFlags graph_flags;
  CompileFlags compile;
  bool json = false;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// "N_P<Int>(G)" -> "Int"; "Node(G)" -> "Node".
std::string value_type(const std::string& type) {
  const auto open = type.find('<');
  std::string inner = open == std::string::npos ? type : type.substr(open + 1, type.rfind('>') - open - 1);
  return inner.substr(0, inner.find('('));
}

bool is_type(const std::string& type, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    return type.size() == std::string_view(name).size() &&
           std::equal(type.begin(), type.end(), name,
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
  });
}

/// Where from_chars() may begin: it takes no '+'.
const char* start_of(const std::string& text) {
  return text.data() + (text.starts_with('+') && !text.starts_with("+-") ? 1 : 0);
}

std::optional<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(start_of(text), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_real(const std::string& type) { return is_type(type, {"Float", "Double"}); }
bool is_item(const std::string& type) { return is_type(type, {"Node", "Edge"}); }

/// Of the words for infinite numbers; 0 for others.
int sign_of_infinity(const std::string& text) {
  return is_type(text, {"INF", "+INF"}) ? 1 : is_type(text, {"-INF"}) ? -1 : 0;
}

std::optional<double> real_of(const std::string& text) {
  const int sign = sign_of_infinity(text);
  return sign != 0 ? sign * std::numeric_limits<double>::infinity() : number_of(text);
}

std::int64_t most_of(const std::string& type) { return is_type(type, {"Int"}) ? INT32_MAX : INT64_MAX; }

/// A value of a type with whole numbers.
std::optional<std::int64_t> whole_of(const std::string& type, const std::string& text) {
  if (is_item(type) && is_type(text, {"NIL"})) return -1;
  if (const int sign = sign_of_infinity(text); sign != 0 && !is_item(type)) return sign * most_of(type);
  std::int64_t whole = 0;
  const auto [end, problem] = std::from_chars(start_of(text), text.data() + text.size(), whole);
  const bool fits = problem == std::errc() && whole >= -most_of(type) - 1 && whole <= most_of(type);
  return fits && end == text.data() + text.size() ? std::optional(whole) : std::nullopt;
}

/// The same from a file, where others write whole numbers with a point or an exponent, too. Doubles below 2^53 have all
/// digits of these.
std::optional<std::int64_t> whole_in_file(const std::string& type, const std::string& text) {
  if (const auto whole = whole_of(type, text)) return whole;
  const auto number = number_of(text);
  const double bound = std::min(0x1.0p53, static_cast<double>(most_of(type)) + 1);
  if (!number || !(std::abs(*number) < bound) || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

/// What a text for a value of the type must be.
const char* wanted_for(const std::string& type) {
  if (is_type(type, {"Bool", "Boolean"})) return "true or false";
  if (is_real(type)) return "a number";
  if (is_item(type)) return "a number, or NIL";
  return is_type(type, {"Int"}) ? "a whole number of 32 bits" : "a whole number of 64 bits";
}

/// A word as a value of the argument's type.
Value value_of(const ParameterInfo& parameter, const std::string& text) {
  const std::string type = value_type(parameter.type);
  if (is_type(type, {"String"})) return text;
  if (is_type(type, {"Bool", "Boolean"})) {
    if (is_type(text, {"true", "false", "1", "0"})) return is_type(text, {"true", "1"});
  } else if (is_real(type)) {
    if (const auto number = real_of(text)) return *number;
  } else if (const auto whole = whole_of(type, text)) {
    return *whole;
  }
  fail_usage("{}={}: {} is {}, so this must be {}", parameter.name, text, parameter.name, parameter.type,
             wanted_for(type));
}

/// One value per line.
graph::Column read_column(const ParameterInfo& parameter, const std::string& file) {
  std::ifstream stream(file);
  if (!stream) fail("{}: cannot be opened", file);
  const std::string type = value_type(parameter.type);
  std::vector<double> reals;
  std::vector<std::int64_t> wholes;
  std::size_t line = 0;
  const auto add = [&](auto& values, const auto& value, const std::string& text) {
    if (!value) {
      fail("{}:{}: '{}' is not {}, as '{}: {}' needs", file, line, text.substr(0, 30), wanted_for(type), parameter.name,
           parameter.type);
    }
    values.push_back(*value);
  };
  for (std::string text; std::getline(stream, text);) {
    ++line;
    if (text.ends_with('\r')) text.pop_back();
    if (text.empty() || text[0] == '#') continue;
    const std::string word = is_type(text, {"true"}) ? "1" : is_type(text, {"false"}) ? "0" : text;
    is_real(type) ? add(reals, real_of(word), text) : add(wholes, whole_in_file(type, word), text);
  }
  return is_real(type) ? graph::Column::of<double>(parameter.name, reals)
                       : graph::Column::of<std::int64_t>(parameter.name, wholes);
}

bool of_edges(const ParameterInfo& parameter) {
  return parameter.type.starts_with("E") || parameter.type.starts_with("e");
}

/// NAME=@FILE, NAME=VALUE for all, or NAME=COLUMN of the graph.
graph::Column column_of(const ParameterInfo& parameter, const std::string& text, const graph::Graph& graph) {
  if (text.starts_with('@')) return read_column(parameter, text.substr(1));
  const auto* column = of_edges(parameter) ? graph.edge_values(text) : graph.node_values(text);
  if (column != nullptr) return *column;
  const auto size = of_edges(parameter) ? graph.num_edges() : graph.num_nodes();
  const Value value = value_of(parameter, text);
  if (const auto* real = std::get_if<double>(&value))
    return graph::Column::of<double>(parameter.name, std::vector<double>(size, *real));
  if (const auto* whole = std::get_if<std::int64_t>(&value))
    return graph::Column::of<std::int64_t>(parameter.name, std::vector<std::int64_t>(size, *whole));
  const auto* flag = std::get_if<bool>(&value);
  return graph::Column::of<std::int64_t>(parameter.name,
                                         std::vector<std::int64_t>(size, flag != nullptr && *flag ? 1 : 0));
}

class ArgumentReader {
 public:
  ArgumentReader(const graph::GreenMarl& program, const graph::ProcedureInfo& procedure, const GraphRunFlags& flags)
      : program_(program), procedure_(procedure), flags_(flags) {}

  graph::Arguments read() {
    const auto words = named_words();
    const graph::Graph* first = nullptr;
    for (const auto& parameter : procedure_.parameters) {
      if (!parameter.graph) continue;
      const auto word = words.find(parameter.name);
      const std::string name = word != words.end() ? word->second : first == nullptr ? flags_.graph : "";
      if (name.empty())
        fail_usage("'{}' needs a graph for '{}': {}=FILE", procedure_.name, parameter.name, parameter.name);
      GraphFlags how = flags_.graph_flags;
      how.undirected |= is_type(parameter.type, {"UGraph"});
      const auto& graph = arguments_.graphs.emplace(parameter.name, load_graph(name, how)).first->second;
      if (first == nullptr) first = &graph;
    }
    for (const auto& parameter : procedure_.parameters) {
      if (parameter.graph || parameter.output) continue;
      const auto word = words.find(parameter.name);
      const bool given = word != words.end();
      if (parameter.property) {
        if (first != nullptr) add_property(parameter, given ? &word->second : nullptr, *first);
      } else if (is_collection(parameter)) {
        if (given) arguments_.items[parameter.name] = items_of(parameter, word->second);
      } else if (given) {
        arguments_.values[parameter.name] = value_of(parameter, word->second);
      } else {
        fail_usage("'{}' needs a value for '{}: {}', as in {}=...", procedure_.name, parameter.name, parameter.type,
                   parameter.name);
      }
    }
    return std::move(arguments_);
  }

 private:
  static bool is_collection(const ParameterInfo& parameter) {
    std::string type = parameter.type.substr(0, parameter.type.find_first_of("(<"));
    return !is_type(type, {"Int", "Long", "Float", "Double", "Bool", "Boolean", "String", "Node", "Edge"});
  }

  /// NAME=VALUE by name; words without a name are for the variables in their order.
  std::map<std::string, std::string> named_words() const {
    std::map<std::string, std::string> words;
    std::vector<const ParameterInfo*> open;
    for (const auto& parameter : procedure_.parameters) {
      if (!parameter.graph && !parameter.property && !parameter.output) open.push_back(&parameter);
    }
    const auto give = [&](const std::string& name, const std::string& value) {
      if (!words.emplace(name, value).second) fail_usage("{}={}: '{}' has a value already", name, value, name);
    };
    std::size_t next = 0;
    for (const auto& word : flags_.words) {
      const auto equals = word.find('=');
      if (equals == std::string::npos) {
        if (next == open.size()) fail_usage("{}: '{}' has no argument left for it", word, procedure_.name);
        give(open[next++]->name, word);
        continue;
      }
      const std::string name = word.substr(0, equals);
      std::vector<std::string> names;
      for (const auto& parameter : procedure_.parameters) names.push_back(parameter.name);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        fail_usage("{}: '{}' has no argument of that name{}", word, procedure_.name, suggestion(name, names));
      }
      give(name, word.substr(equals + 1));
    }
    return words;
  }

  void add_property(const ParameterInfo& parameter, const std::string* word, const graph::Graph& graph) {
    if (word != nullptr) {
      arguments_.columns.emplace(parameter.name, column_of(parameter, *word, graph));
      return;
    }
    const auto arrays = program_.arrays(procedure_.name);
    const auto use =
        std::find_if(arrays.begin(), arrays.end(), [&](const auto& each) { return each.name == parameter.name; });
    if (use == arrays.end() || !use->input || use->element_bytes == 64) return;
    const auto* weights = of_edges(parameter) ? graph.edge_values("weight") : nullptr;
    if (weights == nullptr) {
      fail_usage("'{}: {}' is read, so it needs values: {}=NUMBER, {}=@FILE with one per line{}", parameter.name,
                 parameter.type, parameter.name, parameter.name,
                 of_edges(parameter) ? ", or a graph with weights" : "");
    }
    arguments_.columns.emplace(parameter.name, *weights);
  }

  static std::vector<std::uint64_t> items_of(const ParameterInfo& parameter, const std::string& text) {
    std::vector<std::uint64_t> items;
    for (const auto& part : split_names(text)) {
      std::uint64_t number = 0;
      const auto [end, problem] = std::from_chars(part.data(), part.data() + part.size(), number);
      if (problem != std::errc() || end != part.data() + part.size())
        fail_usage("{}={}: '{}' is no number", parameter.name, text, part);
      items.push_back(number);
    }
    return items;
  }

  const graph::GreenMarl& program_;
  const graph::ProcedureInfo& procedure_;
  const GraphRunFlags& flags_;
  graph::Arguments arguments_;
};

// --- results

/// The type of an argument's values, as the language names it.
std::string type_of(const graph::ProcedureInfo& procedure, const std::string& name) {
  for (const auto& parameter : procedure.parameters) {
    if (parameter.name == name) return value_type(parameter.type);
  }
  return {};
}

Json json_of(double number) {
  if (std::isinf(number)) return number > 0 ? "+INF" : "-INF";
  return number;  // NaN is written as null
}

/// With enough digits to distinguish the value from other floats.
Json json_of(float number) {
  double same_digits = number;
  if (std::isfinite(number)) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    std::from_chars(digits, end, same_digits);
  }
  return json_of(same_digits);
}

Json json_of(std::int64_t number, const std::string& type) {
  if (is_type(type, {"Node", "Edge"})) return number < 0 ? Json(nullptr) : Json(number);
  const std::int64_t most = is_type(type, {"Int"}) ? INT32_MAX : INT64_MAX;
  if (number == most) return "+INF";
  return number == -most ? Json("-INF") : Json(number);
}

Json json_of(const Value& value, const std::string& type) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return json_of(*whole, type);
  if (const auto* real = std::get_if<double>(&value)) return json_of(*real);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

Json element(const graph::Column& column, std::uint64_t i, const std::string& type) {
  switch (column.type()) {
    case graph::ValueType::boolean: return column.values<bool>()[i];
    case graph::ValueType::int32: return json_of(std::int64_t{column.values<std::int32_t>()[i]}, "Int");
    case graph::ValueType::int64: return json_of(column.values<std::int64_t>()[i], type);
    case graph::ValueType::float32: return json_of(column.values<float>()[i]);
    case graph::ValueType::float64: return json_of(column.values<double>()[i]);
  }
  return nullptr;
}

std::string text_of(const Json& value) {
  if (value.is_null()) return "NIL";
  if (value.is_number_float() && std::isnan(value.get<double>())) return "nan";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// How many values of a property are shown.
std::uint64_t shown_values(const GraphRunFlags& flags) {
  if (flags.values == "all") return UINT64_MAX;
  return static_cast<std::uint64_t>(parse_integer("--values", flags.values, 0, 999999999));
}

void write_columns(const GraphRunFlags& flags, const graph::ProcedureInfo& procedure, const graph::RunResult& result) {
  for (const auto& output : flags.outputs) {
    const auto equals = output.find('=');
    const auto name = output.substr(0, equals);
    const auto found = result.columns.find(name);
    if (equals == std::string::npos) fail_usage("--output {}: must be NAME=FILE", output);
    if (found == result.columns.end())
      fail_usage("--output {}: '{}' has no property '{}' that it changes", output, procedure.name, name);
    std::string text;
    const std::string type = type_of(procedure, name);
    for (std::uint64_t i = 0; i < found->second.size(); ++i) text += text_of(element(found->second, i, type)) + "\n";
    write_file(output.substr(equals + 1), text);
  }
}

/// Whether the items of an argument belong to nodes, edges or parts: a property of collections, or a Collection.
bool have_owners(const graph::ProcedureInfo& procedure, const std::string& name) {
  const auto found = std::find_if(procedure.parameters.begin(), procedure.parameters.end(),
                                  [&](const auto& each) { return each.name == name; });
  return found != procedure.parameters.end() && found->type.find('<') != std::string::npos;
}

Json items_json(const graph::Items& items, std::uint64_t most, bool owned) {
  Json list = Json::array();
  for (std::size_t i = 0; i < items.items.size() && i < most; ++i) {
    list.push_back(owned ? Json({items.owners[i], items.items[i]}) : Json(items.items[i]));
  }
  return list;
}

struct Times {
  double load = 0, compile = 0;
  bool from_cache = false;
  std::vector<double> runs;
};

Json placed_document(const std::vector<graph::PlacedArray>& placed) {
  Json list = Json::array();
  for (const auto& each : placed) {
    list.push_back(
        {{"name", each.name}, {"bytes", each.size_bytes}, {"placement", each.placement}, {"copies", each.copies}});
  }
  return list;
}

void print_document(const GraphRunFlags& flags, const graph::ProcedureInfo& procedure,
                    const graph::Arguments& arguments, const graph::RunResult& result, const Times& times) {
  const auto most = shown_values(flags);
  Json values = Json::object(), properties = Json::object(), collections = Json::object();
  for (const auto& [name, value] : result.values) values[name] = json_of(value, type_of(procedure, name));
  for (const auto& [name, column] : result.columns) {
    Json list = Json::array();
    for (std::uint64_t i = 0; i < std::min(most, column.size()); ++i)
      list.push_back(element(column, i, type_of(procedure, name)));
    properties[name] = {{"size", column.size()}, {"type", graph::to_string(column.type())}, {"values", list}};
  }
  for (const auto& [name, items] : result.items)
    collections[name] = {{"size", items.items.size()},
                         {"items", items_json(items, most, have_owners(procedure, name))}};
  Json graphs = Json::object();
  for (const auto& [name, each] : arguments.graphs) graphs[name] = graph_document(each);
  print(format_json({{"file", flags.file},
                     {"procedure", procedure.name},
                     {"graphs", graphs},
                     {"returned", json_of(result.returned, value_type(procedure.return_type))},
                     {"values", values},
                     {"properties", properties},
                     {"collections", collections},
                     {"printed", result.printed},
                     {"load_s", times.load},
                     {"compile_s", times.compile},
                     {"from_cache", times.from_cache},
                     {"placed", placed_document(result.placed)},
                     {"run_s", times.runs}}));
}

void print_results(const GraphRunFlags& flags, const graph::ProcedureInfo& procedure, const graph::RunResult& result,
                   const Times& times) {
  const auto most = shown_values(flags);
  Table table("ll");
  if (!procedure.return_type.empty())
    table.row({{"returned", Style::strong}, text_of(json_of(result.returned, value_type(procedure.return_type)))});
  for (const auto& [name, value] : result.values)
    table.row({{name, Style::strong}, text_of(json_of(value, type_of(procedure, name)))});
  for (const auto& [name, column] : result.columns) {
    std::string text;
    for (std::uint64_t i = 0; i < std::min(most, column.size()); ++i)
      text += text_of(element(column, i, type_of(procedure, name))) + " ";
    if (most < column.size()) text += fmt::format("... {} values", column.size());
    table.row({{name, Style::strong}, text});
  }
  for (const auto& [name, items] : result.items) {
    std::string text;
    for (const auto& item : items_json(items, most, have_owners(procedure, name))) text += item.dump() + " ";
    if (most < items.items.size()) text += fmt::format("... {} items", items.items.size());
    table.row({{name, Style::strong}, text});
  }
  print(table.text());
  std::vector<double> runs = times.runs;
  std::sort(runs.begin(), runs.end());
  const std::string compiled = times.compile == 0
                                   ? "the library's own program"
                                   : fmt::format("program {} in {}", times.from_cache ? "from the cache" : "compiled",
                                                 format_time(times.compile * 1e9));
  print(styled(Style::faint, fmt::format("  ran {}{}; loaded in {}, {}\n", format_time(runs[runs.size() / 2] * 1e9),
                                         runs.size() > 1 ? fmt::format(" (median of {})", runs.size()) : "",
                                         format_time(times.load * 1e9), compiled)));
}

void run_program(const GraphRunFlags& flags) {
  if (flags.file.empty() || flags.graph.empty())
    fail_usage("run what? name a program and a graph, as in `smelt graph run pagerank.gm kron:16 d=0.85`");
  const auto program = read_program(flags.file, flags.json);
  const std::string name = flags.procedure.empty() ? program.main_procedure() : flags.procedure;
  const auto procedures = program.procedures();
  const auto procedure = std::find_if(procedures.begin(), procedures.end(),
                                      [&](const auto& each) { return each.name == name && !each.local; });
  if (procedure == procedures.end())
    fail_usage("--procedure {}: there is no such procedure in {}, or it is local", name, flags.file);
  Times times;
  auto start = std::chrono::steady_clock::now();
  const auto arguments = ArgumentReader(program, *procedure, flags).read();
  times.load = seconds_since(start);
  int node_bytes = 4, edge_bytes = 4;
  for (const auto& [key, each] : arguments.graphs) {
    node_bytes = std::max(node_bytes, each.node_id_bytes());
    edge_bytes = std::max(edge_bytes, each.edge_id_bytes());
  }
  ProgressBar bar;
  bar.update("compile", 0.0, -1.0);
  const auto compiled = take(program.compile(node_bytes, edge_bytes, flags.compile.options()));
  bar.clear();
  times.compile = compiled.compile_seconds();
  times.from_cache = compiled.from_cache();
  graph::RunOptions options;
  options.threads = flags.graph_flags.threads;
  options.seed = static_cast<std::uint64_t>(flags.seed);
  if (flags.no_placement) options.placement = graph::RunOptions::Placement::never;
  if (!flags.json) options.print = [](std::string_view text) { print(text); };
  graph::RunResult result;
  for (int i = 0; i < flags.repeat; ++i) {
    bar.update("run", static_cast<double>(i) / flags.repeat, -1.0);
    result = take(compiled.run(name, arguments, options));
    times.runs.push_back(result.seconds);
  }
  bar.clear();
  write_columns(flags, *procedure, result);
  flags.json ? print_document(flags, *procedure, arguments, result, times)
             : print_results(flags, *procedure, result, times);
}

}  // namespace

void add_graph_run(Command& graph) {
  auto flags = std::make_shared<GraphRunFlags>();
  Command command = graph.add("run", "Compile a program, or take it from the cache, and run it on a graph");
  command.text("file", flags->file, "FILE", "the program");
  command.text("graph", flags->graph, "GRAPH", "a file, or kron:20, uniform:20, grid:1000x1000");
  command.words("arguments", flags->words, "ARGUMENT",
                "NAME=VALUE; properties: NAME=VALUE for all, NAME=@FILE, or the graph's values of that name");
  command.text("--procedure", flags->procedure, "NAME", "which one; default: the first that no other one calls");
  command.values(
      "--output", "NAME=FILE", [flags = flags.get()](const std::string& text) { flags->outputs.push_back(text); },
      "write a property's values to a file, one per line; may be repeated");
  command.text("--values", flags->values, "N", "so many values of each property are shown, or all (default 10)");
  command.integer("--seed", flags->seed, 0, 999999999, "of random numbers (default 1)");
  command.flag("--no-placement", flags->no_placement,
               "properties are plain arrays on pages of the usual size, and threads are not bound to NUMA nodes");
  command.integer("--repeat", flags->repeat, 1, 1000000, "run so many times; all times are in the JSON");
  add_graph_options(command, flags->graph_flags);
  add_compile_options(command, flags->compile);
  command.flag("--json", flags->json, "results and times as JSON");
  command.footer(
      "Examples:\n"
      "  smelt graph run pagerank web.el tolerance=1e-6 damping=0.85 max_iterations=100 --output rank=ranks.txt\n"
      "  smelt graph run sssp.gm kron:16:weights=255 root=0\n");
  command.action([flags] { run_program(*flags); });
}

}  // namespace smelt::cli
