#include "graph/code/module.hpp"

#include <fmt/format.h>

namespace smelt::graph::language {
namespace {

/// One argument: its conversion from the host's argument, and what is returned afterwards.
struct ArgumentCode {
  std::string before, name, after;
};

const Symbol* graph_of(const Procedure& procedure, const Type& type) {
  if (type.graph != nullptr) return type.graph;
  for (const auto& symbol : procedure.symbols) {
    if (symbol->type.is(TypeKind::graph)) return symbol.get();
  }
  return nullptr;
}

std::size_t index_of(const Procedure& procedure, const Symbol* symbol) {
  for (std::size_t i = 0; i < procedure.inputs.size(); ++i) {
    if (procedure.inputs[i].symbol == symbol) return i;
  }
  return 0;
}

ArgumentCode pass(const Procedure& procedure, const Symbol& symbol, std::size_t i, bool output) {
  const Type& type = symbol.type;
  const std::string cpp = cpp_type(type), name = fmt::format("argument{}", i),
                    argument = fmt::format("arguments[{}]", i);
  if (type.is(TypeKind::graph))
    return {fmt::format("const auto& {} = *static_cast<const {}*>({}.data);", name, cpp, argument), name, ""};
  if (is_property(type)) {
    const auto graph = index_of(procedure, graph_of(procedure, type));
    const char* elements = type.is(TypeKind::node_property) ? "nodes" : "edges";
    const std::string element = cpp_type(*type.element), size = fmt::format("argument{}.{}", graph, elements);
    const bool plain = !is_any_collection(*type.element) && !type.element->is(TypeKind::string);
    const std::string make =
        plain
            ? fmt::format("{} {}(run, static_cast<{}*>({}.data), {});", cpp, name, element, argument, size)
            : fmt::format("{} {}(run, {}, {{\"{}\", true, false, true, false, 1, 1}});", cpp, name, size, symbol.name);
    const bool gives = plain || is_any_collection(*type.element);
    return {make, name, gives ? fmt::format("gm::give_array(run, {}, {});", argument, name) : ""};
  }
  if (is_simple_collection(type)) {
    return {fmt::format("{} {}; gm::take_items({}, {});", cpp, name, argument, name), name,
            fmt::format("gm::give_items({}, {});", argument, name)};
  }
  if (type.is(TypeKind::collection))
    return {fmt::format("{} {};", cpp, name), name, fmt::format("gm::give_items({}, {});", argument, name)};
  if (type.is(TypeKind::map)) return {fmt::format("{} {};", cpp, name), name, ""};
  if (!output) return {"", fmt::format("gm::take<{}>({})", cpp, argument), ""};
  return {fmt::format("{} {}{{}};", cpp, name), name, fmt::format("gm::give({}, {});", argument, name)};
}

}  // namespace

std::string entry_body(const Procedure& procedure, int node_bytes, int edge_bytes) {
  std::string before, call, after;
  std::size_t i = 0;
  const auto add = [&](const std::vector<Procedure::Parameter>& parameters, bool output) {
    for (const auto& parameter : parameters) {
      const ArgumentCode passed = pass(procedure, *parameter.symbol, i++, output);
      if (!passed.before.empty()) before += "    " + passed.before + "\n";
      call += ", " + passed.name;
      if (!passed.after.empty()) after += "    " + passed.after + "\n";
    }
  };
  add(procedure.inputs, false);
  add(procedure.outputs, true);
  const std::string invocation = fmt::format("Procedures<NodeId, EdgeId>::{}(run{})", cpp_name(procedure), call);
  const bool returns = !procedure.return_type.is(TypeKind::nothing);
  std::string text = "{\n";
  text += fmt::format(
      "  using NodeId [[maybe_unused]] = std::uint{}_t;\n  using EdgeId [[maybe_unused]] = std::uint{}_t;\n",
      node_bytes * 8, edge_bytes * 8);
  text += "  return gm::call(host, failure, [&](gm::Run& run) {\n" + before;
  text += returns ? fmt::format("    const {} returned = {};\n", cpp_type(procedure.return_type), invocation)
                  : fmt::format("    {};\n", invocation);
  text += after;
  if (returns) text += fmt::format("    gm::give(arguments[{}], returned);\n", i);
  return text + "  });\n}\n";
}

std::string entry_name(const Procedure& procedure) { return "smelt_call_" + procedure.name; }

std::string module_text(const Program& program, const GeneratedCode& code, int node_bytes, int edge_bytes,
                        const std::string& header) {
  std::string text =
      header + "\nnamespace {\n\nnamespace gm = smelt::graph::program;\n\n" + code.text + "\n}  // namespace\n";
  for (const auto& procedure : program.procedures) {
    if (procedure->local) continue;
    text += fmt::format(
        "\nextern \"C\" int {}(const gm::Host* host, [[maybe_unused]] const gm::Argument* arguments, gm::Failure* "
        "failure) ",
        entry_name(*procedure));
    text += entry_body(*procedure, node_bytes, edge_bytes);
  }
  return text;
}

}  // namespace smelt::graph::language
