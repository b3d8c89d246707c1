// Names and lines of generated code.
#include <fmt/format.h>

#include <algorithm>

#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

/// Names that a program may use, but C++ code must not: words of C++, macros, and local names of the code generator.
const std::set<std::string>& reserved_names() {
  static const std::set<std::string> names = {
      "alignas",     "alignof",   "and",        "and_eq",    "asm",      "auto",         "bitand",
      "bitor",       "bool",      "break",      "case",      "catch",    "char",         "char8_t",
      "char16_t",    "char32_t",  "class",      "compl",     "concept",  "const",        "consteval",
      "constexpr",   "constinit", "const_cast", "continue",  "co_await", "co_return",    "co_yield",
      "decltype",    "default",   "delete",     "do",        "double",   "dynamic_cast", "else",
      "enum",        "explicit",  "export",     "extern",    "false",    "float",        "for",
      "friend",      "goto",      "if",         "inline",    "int",      "long",         "mutable",
      "namespace",   "new",       "noexcept",   "not",       "not_eq",   "nullptr",      "operator",
      "or",          "or_eq",     "private",    "protected", "public",   "register",     "reinterpret_cast",
      "requires",    "return",    "short",      "signed",    "sizeof",   "static",       "static_assert",
      "static_cast", "struct",    "switch",     "template",  "this",     "thread_local", "throw",
      "true",        "try",       "typedef",    "typeid",    "typename", "union",        "unsigned",
      "using",       "virtual",   "void",       "volatile",  "wchar_t",  "while",        "xor",
      "xor_eq",      "std",       "gm",         "run",       "chunk",    "NodeId",       "EdgeId",
      "Procedures",  "errno",     "stdin",      "stdout",    "stderr",   "NULL",         "INFINITY",
      "NAN",         "assert",    "unix",       "linux",     "main",     "best",         "better",
      "chunks",      "count",     "counts",     "each",      "equal",    "index",        "leave_out",
      "parts",       "returned"};
  return names;
}

}  // namespace

void CodeLines::add(std::string_view text) {
  const std::string indent(static_cast<std::size_t>(depth_) * 2, ' ');
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    text_ += indent;
    text_ += text.substr(0, end);
    text_ += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void CodeLines::open(std::string_view text) {
  add(text.empty() ? "{" : std::string(text) + " {");
  ++depth_;
}

void CodeLines::close(std::string_view behind) {
  --depth_;
  add("}" + std::string(behind));
}

std::string Writer::fresh(std::string_view wish) {
  std::string name(wish);
  for (int number = 2; reserved_names().contains(name) || !taken_.insert(name).second; ++number) {
    name = fmt::format("{}{}", wish, number);
  }
  return name;
}

/// Siblings may share a name, as in the program. Names that the code generator adds are unique.
void Writer::name_symbols(const Procedure& procedure) {
  std::set<std::string> own;
  for (const auto& symbol : procedure.symbols) own.insert(symbol->name);
  for (const auto& symbol : procedure.symbols) {
    std::string name = symbol->name;
    const bool element = symbol->kind == SymbolKind::iterator && symbol->loop != nullptr &&
                         symbol->loop->kind == StatementKind::group_assign;
    if (element) name = symbol->type.is(TypeKind::edge) ? "edge" : "node";
    // Trailing underscores are reserved for generated code, double ones for C++.
    while (name.ends_with('_') || name.starts_with('_')) name = "x" + name + "x";
    for (auto at = name.find("__"); at != std::string::npos; at = name.find("__")) name[at + 1] = 'x';
    if (reserved_names().contains(name)) name += "_x";
    while (name != symbol->name && !element && own.contains(name)) name += "x";
    if (element) {
      name = fresh(name);
    } else {
      taken_.insert(name);
    }
    names_[symbol.get()] = name;
  }
}

void Writer::source_line(Span span) {
  const auto line = line_of(span);
  if (line == last_line_) return;
  last_line_ = line;
  std::string text(program_.source.line(line));
  const auto first = text.find_first_not_of(" \t");
  text = first == std::string::npos ? "" : text.substr(first);
  for (auto& c : text) {
    if (c < ' ' || c > '~') c = c == '\t' ? ' ' : '?';
  }
  while (text.ends_with('\\') || text.ends_with(' ')) text.pop_back();  // would continue the comment on the next line
  out_->add(fmt::format("// {} | {}", line, text));
}

void Writer::decide(Span span, std::string text) { result_.decisions.push_back({line_of(span), std::move(text)}); }

std::string cpp_name(const Procedure& procedure) {
  return reserved_names().contains(procedure.name) ? procedure.name + "_x" : procedure.name;
}

std::string cpp_type(const Type& type) {
  const auto item = [&] { return type.of_edges ? "EdgeId" : "NodeId"; };
  switch (type.kind) {
    case TypeKind::nothing: return "void";
    case TypeKind::boolean: return "bool";
    case TypeKind::integer: return "std::int32_t";
    case TypeKind::count:
    case TypeKind::long_integer: return "std::int64_t";
    case TypeKind::single: return "float";
    case TypeKind::infinity:
    case TypeKind::real: return "double";
    case TypeKind::string: return "std::string";
    case TypeKind::graph: return "gm::GraphView<NodeId, EdgeId>";
    case TypeKind::nil:
    case TypeKind::node: return "NodeId";
    case TypeKind::edge: return "EdgeId";
    case TypeKind::node_property:
    case TypeKind::edge_property: return fmt::format("gm::Property<{}>", cpp_type(*type.element));
    case TypeKind::set: return fmt::format("gm::Set<{}>", item());
    case TypeKind::order: return fmt::format("gm::Order<{}>", item());
    case TypeKind::sequence: return fmt::format("gm::Seq<{}>", item());
    case TypeKind::collection: return fmt::format("gm::Collection<{}>", cpp_type(*type.element));
    case TypeKind::map: return fmt::format("gm::Map<{}, {}>", cpp_type(*type.key), cpp_type(*type.element));
    case TypeKind::foreign: return type.name.starts_with('$') ? type.name.substr(1) : "auto";
  }
  return "void";
}

}  // namespace smelt::graph::language
