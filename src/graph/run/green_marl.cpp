// The user's interface to programs: check, explain, compile, run.
#include "smelt/green_marl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "graph/analysis/patterns.hpp"
#include "graph/analysis/races.hpp"
#include "graph/analysis/values.hpp"
#include "graph/code/generate.hpp"
#include "graph/code/module.hpp"
#include "graph/files/bytes.hpp"
#include "graph/language/checker.hpp"
#include "graph/language/parser.hpp"
#include "graph/run/compiler.hpp"
#include "graph/run/program_state.hpp"

namespace smelt::graph {

extern const char* const graph_program_text;  // the header, made by the build

namespace {

language::CodeOptions code_options(const CompileOptions& options) {
  language::CodeOptions result;
  result.push_only = options.neighbours == CompileOptions::Neighbours::push;
  result.pull_only = options.neighbours == CompileOptions::Neighbours::pull;
  result.fuse = options.fuse;
  result.precompute = options.precompute;
  result.fetch_ahead = options.fetch_ahead;
  result.merge = options.merge;
  result.bins = options.bins;
  return result;
}

const language::Procedure* find_procedure(const language::Program& program, const std::string& name) {
  const auto found = std::find_if(program.procedures.begin(), program.procedures.end(),
                                  [&](const auto& each) { return each->name == name; });
  return found == program.procedures.end() ? nullptr : found->get();
}

/// 0 where it depends on the graph's width.
int element_bytes(const language::ArrayPattern& pattern) {
  if (pattern.symbol == nullptr) return 0;
  switch (pattern.symbol->type.element->kind) {
    case language::TypeKind::boolean: return 1;
    case language::TypeKind::integer:
    case language::TypeKind::single: return 4;
    case language::TypeKind::long_integer:
    case language::TypeKind::real: return 8;
    case language::TypeKind::node:
    case language::TypeKind::edge: return 0;
    default: return 64;  // a collection's or text's own object
  }
}

std::string type_text(const language::TypeExpression& type) {
  std::string text = type.name, arguments;
  for (const auto& argument : type.arguments) arguments += (arguments.empty() ? "" : ", ") + type_text(*argument);
  if (!arguments.empty()) text += "<" + arguments + ">";
  return type.graph ? text + "(" + type.graph->name + ")" : text;
}

}  // namespace

GreenMarl GreenMarl::parse(std::string name, std::string text) {
  auto state = std::make_shared<State>(std::move(name), std::move(text));
  auto& program = state->program;
  auto& diagnostics = state->diagnostics;
  if (program.source.text().size() > language::Source::most_bytes) {
    diagnostics.error({}, "the program is longer than 4 MiB");
    return GreenMarl(std::move(state));
  }
  language::parse(program, diagnostics);
  if (!diagnostics.has_errors() && program.procedures.empty()) diagnostics.error({}, "there is no procedure");
  if (!diagnostics.has_errors()) language::check(program, diagnostics);
  if (!diagnostics.has_errors()) language::check_races(program, diagnostics);
  if (!diagnostics.has_errors()) language::find_values(program);
  diagnostics.sort();
  return GreenMarl(std::move(state));
}

Result<GreenMarl> GreenMarl::read(const std::string& name) {
  const auto file = File::open(name);
  if (!file) return file.error();
  std::string text;
  for (;;) {
    char part[16384];
    const auto count = file->read(part, sizeof part);
    if (!count) return count.error();
    if (*count == 0 || text.size() > language::Source::most_bytes) break;
    text.append(part, *count);
  }
  return parse(name, std::move(text));
}

bool GreenMarl::good() const noexcept { return !state_->diagnostics.has_errors(); }

std::vector<Message> GreenMarl::messages() const {
  std::vector<Message> messages;
  for (const auto& each : state_->diagnostics.all()) {
    const auto place = state_->program.source.place(each.span.begin);
    messages.push_back({static_cast<Message::Severity>(each.severity), static_cast<int>(place.line),
                        static_cast<int>(place.column), each.message});
  }
  return messages;
}

std::string GreenMarl::formatted_messages() const { return language::format(state_->diagnostics); }

std::vector<ProcedureInfo> GreenMarl::procedures() const {
  std::vector<ProcedureInfo> infos;
  for (const auto& procedure : state_->program.procedures) {
    ProcedureInfo info;
    info.name = procedure->name;
    info.local = procedure->local;
    const auto add = [&](const std::vector<language::Procedure::Parameter>& parameters, bool output) {
      for (const auto& parameter : parameters) {
        const auto* symbol = parameter.symbol;
        info.parameters.push_back({parameter.name.name, type_text(*parameter.type_expression), output,
                                   symbol != nullptr && symbol->type.is(language::TypeKind::graph),
                                   symbol != nullptr && language::is_property(symbol->type)});
      }
    };
    add(procedure->inputs, false);
    add(procedure->outputs, true);
    if (procedure->return_type_expression) info.return_type = type_text(*procedure->return_type_expression);
    infos.push_back(std::move(info));
  }
  return infos;
}

std::string GreenMarl::main_procedure() const {
  std::set<const language::Procedure*> called;
  for (const auto& procedure : state_->program.procedures)
    called.insert(procedure->calls.begin(), procedure->calls.end());
  std::string any;
  for (const auto& procedure : state_->program.procedures) {
    if (procedure->local) continue;
    if (!called.contains(procedure.get())) return procedure->name;
    if (any.empty()) any = procedure->name;
  }
  return any;
}

std::vector<ArrayUse> GreenMarl::arrays(const std::string& procedure_name) const {
  return array_uses(state_->program, procedure_name);
}

std::vector<ArrayUse> array_uses(const language::Program& program, const std::string& procedure_name) {
  constexpr double degree = 16, iterations = 10;
  const auto* procedure = find_procedure(program, procedure_name);
  std::vector<ArrayUse> uses;
  if (procedure == nullptr) return uses;
  for (const auto& pattern : language::access_patterns(*procedure)) {
    ArrayUse use;
    use.name = pattern.name;
    use.node = pattern.node;
    use.used = pattern.used;
    use.read_only = pattern.read_only;
    use.standard = pattern.standard;
    use.dynamic = pattern.dynamic;
    use.indexed = pattern.indexed;
    use.reads = to_string(pattern.reads);
    use.writes = to_string(pattern.writes);
    const auto per_element = [&](const std::vector<language::Frequency>& sum) {
      double total = 0;
      for (const auto& each : sum) total += each.value(1, degree, iterations, 1);
      return pattern.node ? total : total / degree;
    };
    use.reads_per_element = per_element(pattern.reads);
    use.writes_per_element = per_element(pattern.writes);
    use.element_bytes = element_bytes(pattern);
    use.input = pattern.input;
    uses.push_back(std::move(use));
  }
  return uses;
}

std::vector<CompilerDecision> GreenMarl::decisions(const CompileOptions& options) const {
  const auto code = language::generate_code(state_->program, code_options(options));
  std::vector<CompilerDecision> decisions;
  for (const auto& each : code.decisions) decisions.push_back({static_cast<int>(each.line), each.text});
  std::stable_sort(decisions.begin(), decisions.end(), [](const auto& a, const auto& b) { return a.line < b.line; });
  return decisions;
}

std::string GreenMarl::cpp(const CompileOptions& options) const {
  const auto code = language::generate_code(state_->program, code_options(options));
  return language::module_text(state_->program, code, 4, 4, "#include <smelt/graph_program.hpp>\n");
}

namespace {

std::string whole_text(const language::Program& program, const language::GeneratedCode& code, int node_bytes,
                       int edge_bytes) {
  // The header is part of the text, so the compiler needs no include path.
  return language::module_text(program, code, node_bytes, edge_bytes, graph_program_text);
}

}  // namespace

namespace {

bool is_usual(const CompileOptions& options) {
  return options.neighbours == CompileOptions::Neighbours::automatic && options.fuse && options.precompute &&
         options.fetch_ahead && options.merge && options.bins && options.cache && options.compiler.empty();
}

}  // namespace

Result<CompiledProgram> GreenMarl::compile(int node_id_bytes, int edge_id_bytes, const CompileOptions& options) const {
  const auto start = std::chrono::steady_clock::now();
  if (node_id_bytes == 4 && edge_id_bytes == 4 && is_usual(options)) {
    if (const auto* builtin = find_builtin_text(state_->program.source.text()); builtin != nullptr) {
      auto state = std::make_shared<CompiledProgram::State>();
      state->program = state_;
      state->builtin = builtin;
      state->needs = {builtin->needs_in_edges, builtin->needs_in_edge_numbers};
      state->from_cache = true;
      return CompiledProgram(std::move(state));
    }
  }
  const auto compiler = find_compiler(options.compiler);
  if (!compiler) return compiler.error();
  const auto code = language::generate_code(state_->program, code_options(options));
  const std::string text = whole_text(state_->program, code, node_id_bytes, edge_id_bytes);
  const std::string cache = options.cache ? program_cache() : "";
  auto state = std::make_shared<CompiledProgram::State>();
  state->program = state_;
  state->needs = code.needs;
  state->node_bytes = node_id_bytes;
  state->edge_bytes = edge_id_bytes;
  if (!cache.empty()) {
    const std::string file = cache + "/" + cached_name(*compiler, text);
    auto library = Library::load(file);
    state->from_cache = static_cast<bool>(library);
    if (!library) {
      if (auto compiled = compile_library(*compiler, text, file); !compiled) return compiled.error();
      library = Library::load(file);
    }
    if (!library) return library.error();
    state->library = *library;
  } else {
    auto library = load_once(*compiler, text);
    if (!library) return library.error();
    state->library = *library;
  }
  state->compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return CompiledProgram(std::move(state));
}

Result<void> GreenMarl::compile_to(const std::string& file, int node_id_bytes, int edge_id_bytes,
                                   const CompileOptions& options) const {
  const auto compiler = find_compiler(options.compiler);
  if (!compiler) return compiler.error();
  const auto code = language::generate_code(state_->program, code_options(options));
  return compile_library(*compiler, whole_text(state_->program, code, node_id_bytes, edge_id_bytes), file);
}

}  // namespace smelt::graph
