// Translates expressions to C++.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/analysis/values.hpp"
#include "graph/code/writer.hpp"

namespace smelt::graph::language {
namespace {

/// Precedence of a C++ expression: that of the program's operator; conversions and calls bind most tightly.
int precedence(const Expression& expression) {
  if (expression.kind == ExpressionKind::conditional) return 0;
  if (expression.kind == ExpressionKind::unary) return expression.op == Operator::absolute ? 8 : 7;
  return expression.kind == ExpressionKind::binary ? precedence_of(expression.op) : 8;
}

std::string real_literal(double value, const Type& type) {
  const bool single = type.is(TypeKind::single);
  if (std::isinf(single ? static_cast<float>(value) : value))
    return fmt::format("{}gm::infinity<{}>", value < 0 ? "-" : "", cpp_type(type));
  std::string text = single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return single ? text + "f" : text;
}

std::string string_literal(const std::string& value) {
  std::string text = "std::string(\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c >= ' ' && c <= '~' && c != '?') {
      text += c;
    } else {
      text += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
  }
  return fmt::format("{}\", {})", text, value.size());
}

const Expression& without_conversions(const Expression& expression) {
  const Expression* inner = &expression;
  while (inner->kind == ExpressionKind::convert || inner->kind == ExpressionKind::cast)
    inner = inner->operands[0].get();
  return *inner;
}

/// The value of a nonzero literal. A division by it needs no test.
bool is_nonzero_literal(const Expression& expression) {
  const Expression& inner = without_conversions(expression);
  return inner.kind == ExpressionKind::integer && inner.integer != 0 && inner.integer != -1;
}

}  // namespace

Mode Writer::mode_of(const Symbol& symbol) const {
  if (region_ == nullptr) return Mode::plain;
  const auto found = region_->modes.find(&symbol);
  return found == region_->modes.end() ? Mode::plain : found->second;
}

const Symbol* Writer::graph_of(const Type& type) const {
  if (type.graph != nullptr) return type.graph;
  for (const auto& symbol : procedure_->symbols) {
    if (symbol->type.is(TypeKind::graph)) return symbol.get();
  }
  return nullptr;
}

std::string Writer::within(const Expression& expression, int least) {
  const std::string text = code(expression);
  return precedence(expression) < least ? "(" + text + ")" : text;
}

std::string Writer::code(const Expression& expression) {
  switch (expression.kind) {
    case ExpressionKind::integer:
      if (expression.type.is(TypeKind::integer)) return fmt::format("{}", expression.integer);
      return fmt::format("std::int64_t{{{}}}", expression.integer);
    case ExpressionKind::real: return real_literal(expression.number, expression.type);
    case ExpressionKind::boolean: return expression.integer != 0 ? "true" : "false";
    case ExpressionKind::string: return string_literal(expression.text);
    case ExpressionKind::nil: return fmt::format("gm::nil<{}>", cpp_type(expression.type));
    case ExpressionKind::infinity:
      return fmt::format("{}gm::infinity<{}>", expression.negative ? "-" : "", cpp_type(expression.type));
    case ExpressionKind::name: return variable(expression);
    case ExpressionKind::current: return name_of(*expression.reference.symbol);
    case ExpressionKind::field: return field(expression);
    case ExpressionKind::index: {
      const Expression& map = *expression.operands[0];
      return locked(*map.reference.symbol, fmt::format("{}.get({})", code(map), code(*expression.operands[1])));
    }
    case ExpressionKind::unary: return unary(expression);
    case ExpressionKind::binary: return binary(expression);
    case ExpressionKind::conditional:
      return fmt::format("{} ? {} : {}", within(*expression.operands[0], 1), within(*expression.operands[1], 1),
                         within(*expression.operands[2], 1));
    case ExpressionKind::cast:
    case ExpressionKind::convert: return conversion(expression);
    case ExpressionKind::reduction: return reduction(expression);
    case ExpressionKind::method: return method(expression);
    case ExpressionKind::function: return function(expression);
    case ExpressionKind::call: return call(expression);
    case ExpressionKind::foreign: return foreign(expression);
  }
  return {};
}

/// A condition without its implied terms; empty if none remains.
std::string Writer::condition(const Expression& expression) {
  const auto terms = terms_of(&expression);
  if (std::none_of(terms.begin(), terms.end(), [&](const auto* term) { return implied_.contains(term); }))
    return code(expression);
  std::string text;
  for (const auto* term : terms) {
    if (!implied_.contains(term)) text += (text.empty() ? "" : " && ") + within(*term, 3);
  }
  return text;
}

std::string Writer::variable(const Expression& expression) {
  const Symbol& symbol = *expression.reference.symbol;
  const std::string& name = name_of(symbol);
  if (is_large(symbol.type) || symbol.type.is(TypeKind::graph)) return name;
  switch (mode_of(symbol)) {
    case Mode::relaxed: return fmt::format("gm::load({})", name);
    case Mode::locked: return locked(symbol, name);
    default: return name;
  }
}

/// Reads under the lock if other threads may change the value.
std::string Writer::locked(const Symbol& symbol, const std::string& text) {
  if (mode_of(symbol) != Mode::locked) return text;
  return fmt::format("[&] {{ const std::lock_guard lock(run.mutex()); return {}; }}()", text);
}

std::string Writer::index_of(const Expression& driver) {
  if (!may_be_nil(driver)) return code(driver);
  return fmt::format("gm::checked({}, {})", code(driver), line_of(driver.span));
}

/// A property's values: the property, or the region's local pointer to them.
std::string Writer::array_of(const Symbol& property) {
  if (region_ == nullptr || is_private(property, *region_->statement)) return name_of(property);
  auto& pointer = region_->pointers[&property];
  if (pointer.empty()) pointer = name_of(property) + "_";
  return pointer;
}

/// An lvalue of a property's value.
std::string Writer::element(const Symbol& property, const std::string& index) {
  return fmt::format("{}[{}]", array_of(property), index);
}

std::string Writer::field(const Expression& expression) {
  const Symbol& property = *expression.reference.symbol;
  const std::string place = element(property, index_of(*expression.operands[0]));
  switch (mode_of(property)) {
    case Mode::relaxed: return fmt::format("gm::load({})", place);
    case Mode::locked: return locked(property, place);
    default: return place;
  }
}

std::string Writer::unary(const Expression& expression) {
  const Expression& operand = *expression.operands[0];
  switch (expression.op) {
    case Operator::logical_not: return "!" + within(operand, 7);
    case Operator::negate: {
      const std::string text = within(operand, 7);
      return text.starts_with('-') ? "-(" + text + ")" : "-" + text;
    }
    default: return fmt::format("{}({})", is_fraction(expression.type) ? "std::abs" : "gm::absolute", code(operand));
  }
}

std::string Writer::binary(const Expression& expression) {
  const Expression &left = *expression.operands[0], &right = *expression.operands[1];
  const int own = precedence(expression);
  if (is_whole(expression.type) && is_arithmetic(expression.op)) {
    const std::string type = cpp_type(expression.type);
    const bool infinite = may_be_infinite(left) || may_be_infinite(right);
    if (expression.op == Operator::add && infinite)
      return fmt::format("gm::plus<{}>({}, {})", type, code(left), code(right));
    if (expression.op == Operator::subtract && infinite)
      return fmt::format("gm::minus<{}>({}, {})", type, code(left), code(right));
    const bool division = expression.op == Operator::divide || expression.op == Operator::modulo;
    if (division && !is_nonzero_literal(right)) {
      return fmt::format("gm::{}<{}>({}, {}, {})", expression.op == Operator::divide ? "divide" : "modulo", type,
                         code(left), code(right), line_of(expression.span));
    }
  }
  // Puts && within || in parentheses to avoid compiler warnings.
  const auto least = [&](const Expression& operand, int usual) {
    const Expression& inner = without_conversions(operand);
    const bool both = inner.kind == ExpressionKind::binary && inner.op == Operator::logical_and;
    return expression.op == Operator::logical_or && both ? own + 2 : usual;
  };
  return fmt::format("{} {} {}", within(left, least(left, own)), to_string(expression.op),
                     within(right, least(right, own + 1)));
}

std::string Writer::conversion(const Expression& expression) {
  const Expression& operand = *expression.operands[0];
  const Type &type = expression.type, &from = operand.type;
  const Expression& inner = without_conversions(operand);
  if (is_fraction(type) && inner.kind == ExpressionKind::integer)
    return real_literal(static_cast<double>(inner.integer), type);
  if (is_fraction(type) && inner.kind == ExpressionKind::real) return real_literal(inner.number, type);
  const std::string to = cpp_type(type);
  if (cpp_type(from) == to && !from.is(TypeKind::foreign)) return fmt::format("{}", within(operand, 8));
  if (type.is(TypeKind::foreign)) return fmt::format("{}", within(operand, 8));
  if (type.is(TypeKind::boolean) && is_number(from)) return fmt::format("({} != 0)", within(operand, 4));
  if (is_whole(type) && is_fraction(from)) return fmt::format("gm::truncate<{}>({})", to, code(operand));
  const bool infinite = may_be_infinite(operand);
  if (type.is(TypeKind::integer) && from.is(TypeKind::count) && expression.kind == ExpressionKind::convert) {
    return fmt::format("{}({}, {})", infinite ? "gm::to_int_or_infinity" : "gm::to_int", code(operand),
                       line_of(expression.span));
  }
  if (infinite && is_number(type)) return fmt::format("gm::convert<{}>({})", to, code(operand));
  const bool narrows = is_item(from) || type.is(TypeKind::integer);
  if (narrows && is_whole(type) && (is_whole(from) || is_item(from)))
    return fmt::format("gm::narrow<{}>({})", to, code(operand));
  return fmt::format("static_cast<{}>({})", to, code(operand));
}

// --- reductions

namespace {

const char* op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::product: return "gm::Product";
    case Reduction::minimum: return "gm::Min";
    case Reduction::maximum: return "gm::Max";
    case Reduction::logical_and: return "gm::And";
    case Reduction::logical_or: return "gm::Or";
    default: return "gm::Sum";
  }
}

}  // namespace

/// The loop's body, which updates `result`.
std::string Writer::reduction_body(const Expression& expression, CodeLines& lines, const std::string& result) {
  const auto precomputed = precomputed_.find(&expression);
  const std::string value = expression.operands.empty() ? ""
                            : precomputed != precomputed_.end()
                                ? fmt::format("{}[{}]", precomputed->second, name_of(*expression.iteration->iterator))
                                : code(*expression.operands[0]);
  switch (expression.reduction) {
    case Reduction::count: lines.add(fmt::format("++{};", result)); break;
    case Reduction::sum:
      if (may_be_infinite(*expression.operands[0])) {
        lines.add(fmt::format("{} = gm::plus({}, {});", result, result, value));
        break;
      }
      lines.add(fmt::format("{} += {};", result, value));
      break;
    case Reduction::product: lines.add(fmt::format("{} *= {};", result, value)); break;
    case Reduction::average:
      lines.add(fmt::format("{} += {};", result, value));
      lines.add(fmt::format("++{}_count;", result));
      break;
    case Reduction::logical_and: lines.add(fmt::format("if (!({})) {} = false;", value, result)); break;
    case Reduction::logical_or: lines.add(fmt::format("if ({}) {} = true;", value, result)); break;
    default: lines.add(fmt::format("{} = {}::of({}, {});", result, op_of(expression.reduction), result, value));
  }
  return result;
}

/// Pointers to the arrays that the sum reads at its neighbours.
std::vector<std::string> Writer::arrays_at(const Expression& sum, const Symbol& neighbour) {
  if (const auto precomputed = precomputed_.find(&sum); precomputed != precomputed_.end()) return {precomputed->second};
  std::vector<std::string> arrays;
  walk(*sum.operands[0], [&](const Expression& each) {
    if (each.kind != ExpressionKind::field || each.operands[0]->kind != ExpressionKind::name) return;
    const Symbol& property = *each.reference.symbol;
    const bool plain = each.operands[0]->reference.symbol == &neighbour && is_number(each.type);
    const auto pointer = region_->pointers.find(&property);
    if (!plain || pointer == region_->pointers.end()) return;
    if (std::find(arrays.begin(), arrays.end(), pointer->second) == arrays.end()) arrays.push_back(pointer->second);
  });
  return arrays;
}

/// Whether the neighbours are those of the nodes of a loop over all nodes: their lists are read one after the other.
bool Writer::visits_all_lists(const Iteration& iteration) const {
  const Statement& loop = *region_->statement;
  const Expression& source = *iteration.source;
  if (loop.kind == StatementKind::group_assign)
    return source.kind == ExpressionKind::current && loop.source->type.is(TypeKind::graph);
  return loop.kind == StatementKind::loop && loop.iteration->range == Range::nodes && !loop.iteration->filter &&
         !loop.iteration->reverse && source.kind == ExpressionKind::name &&
         source.reference.symbol == loop.iteration->iterator;
}

/// The expression as a plain sum over a node's neighbours within a region; empty if it is not one.
std::string Writer::neighbour_sum(const Expression& expression) {
  const Iteration& iteration = *expression.iteration;
  const bool plain = iteration.range == Range::neighbours || iteration.range == Range::in_neighbours;
  if (region_ == nullptr || !plain || iteration.filter || expression.reduction != Reduction::sum ||
      !is_fraction(expression.type))
    return {};
  bool simple = true;
  walk(*expression.operands[0], [&](const Expression& each) {
    simple &= each.kind != ExpressionKind::reduction &&
              !(each.kind == ExpressionKind::method && each.builtin == Builtin::to_edge);
  });
  if (!simple) return {};
  const bool in = iteration.range == Range::in_neighbours;
  const Symbol& graph = *graph_of(iteration.source->type);
  const std::string begin = array(graph, in ? "r_begin" : "begin"),
                    node_idx = array(graph, in ? "r_node_idx" : "node_idx");
  const std::string node = index_of(*iteration.source), name = name_of(*iteration.iterator);
  const auto precomputed = precomputed_.find(&expression);
  const std::string value = precomputed != precomputed_.end() ? fmt::format("{}[{}]", precomputed->second, name)
                                                              : code(*expression.operands[0]);
  const auto arrays = options_.fetch_ahead && visits_all_lists(iteration) ? arrays_at(expression, *iteration.iterator)
                                                                          : std::vector<std::string>();
  std::string ahead, fetch;
  if (!arrays.empty()) {
    ahead = fresh(name + "_ahead");
    region_->prelude.push_back(fmt::format("const gm::Ahead {} = run.ahead({}.edges, {}.nodes * sizeof({}[0]));", ahead,
                                           name_of(graph), name_of(graph), arrays.front()));
    for (const auto& each : arrays) fetch += fmt::format(" gm::fetch({}[{}]);", each, name);
    fetch = fmt::format(", [&](NodeId {}) {{{} }}", name, fetch);
    ahead += ", ";
    decide(
        expression.span,
        fmt::format("what the sum takes of neighbours '{}' is asked for some edges before, where the array is larger "
                    "than a core's own cache",
                    name));
  }
  return fmt::format("gm::sum_of<{}>({}, {}[{}], {}[{} + 1], {}[&](NodeId {}) {{ return {}; }}{})",
                     cpp_type(expression.type), node_idx, begin, node, begin, node, ahead, name, value, fetch);
}

std::string Writer::reduction(const Expression& expression) {
  if (std::string sum = neighbour_sum(expression); !sum.empty()) return sum;
  const Iteration& iteration = *expression.iteration;
  const std::string type = cpp_type(expression.type);
  const bool average = expression.reduction == Reduction::average;
  const bool infinite = expression.reduction == Reduction::sum && may_be_infinite(*expression.operands[0]);
  const std::string op = infinite ? "gm::SumOrInfinity" : op_of(expression.reduction);
  const std::string result = fresh("result");
  CodeLines outer, lines;
  CodeLines* before = std::exchange(out_, &lines);
  const bool parallel =
      region_ == nullptr && (iteration.range == Range::nodes || iteration.range == Range::edges ||
                             (iteration.range == Range::items && !iteration.source->type.is(TypeKind::collection)));
  Region region;
  Statement none{};
  std::string chunks;
  if (parallel) {
    chunks = chunks_of(iteration, nullptr, &expression);
    region.statement = &none;
    region_ = &region;
  }
  lines.set_depth(parallel ? 2 : 1);
  lines.add(fmt::format("{} {} = {}::template neutral<{}>();", type, result, op, type));
  if (average) lines.add(fmt::format("std::int64_t {}_count = 0;", result));
  if (parallel) {
    open_chunk(iteration, lines);
  } else {
    open_iteration(iteration, lines);
  }
  if (const std::string filter = iteration.filter ? condition(*iteration.filter) : ""; !filter.empty()) {
    lines.add(fmt::format("if (!({})) continue;", filter));
  }
  reduction_body(expression, lines, result);
  // Any and All may end early.
  const bool decided = expression.reduction == Reduction::logical_and || expression.reduction == Reduction::logical_or;
  if (decided)
    lines.add(fmt::format("if ({}{}) break;", expression.reduction == Reduction::logical_and ? "!" : "", result));
  while (lines.depth() > (parallel ? 2 : 1)) lines.close();
  out_ = before;
  outer.add("[&] {");
  outer.set_depth(1);
  if (!parallel) {
    const std::string end = average ? fmt::format("return {}_count == 0 ? 0.0 : {} / static_cast<double>({}_count);",
                                                  result, result, result)
                                    : fmt::format("return {};", result);
    lines.set_depth(1);
    lines.add(end);
    return "[&] {\n" + lines.take() + "}()";
  }
  region_ = nullptr;
  outer.add(fmt::format("const auto chunks = {};", chunks));
  outer.add(fmt::format("gm::Partials<{}, {}> parts(chunks.size());", op, type));
  if (average) outer.add("gm::Partials<gm::Sum, std::int64_t> counts(chunks.size());");
  outer.add("run.for_chunks(chunks, [&](const gm::Chunk& chunk) {");
  outer.set_depth(2);
  region_prelude(region, outer);
  outer.raw(lines.take());
  outer.add(fmt::format("parts.put(chunk, {});", result));
  if (average) outer.add(fmt::format("counts.put(chunk, {}_count);", result));
  outer.set_depth(1);
  outer.add("});");
  if (average) {
    outer.add("const auto count = counts.joined(0);");
    outer.add("return count == 0 ? 0.0 : parts.joined(0.0) / static_cast<double>(count);");
  } else {
    outer.add(fmt::format("return parts.joined({}::template neutral<{}>());", op, type));
  }
  outer.set_depth(0);
  outer.add("}()");
  std::string text = outer.take();
  text.pop_back();
  return text;
}

// --- functions

std::string Writer::random() {
  if (region_ == nullptr) return "run.random()";
  region_->uses_random = true;
  return "random";
}

std::string Writer::edge_of(const Expression& iterator) {
  const auto found = edge_names_.find(iterator.reference.symbol);
  if (found == edge_names_.end()) return "gm::nil<EdgeId>";
  if (found->second.find(".in_edge(") != std::string::npos) result_.needs.in_edge_numbers = true;
  return found->second;
}

std::string Writer::method(const Expression& expression) {
  const Expression& owner = *expression.operands[0];
  if (is_any_collection(owner.type)) return collection_method(expression);
  if (owner.type.is(TypeKind::map)) return map_method(expression);
  const auto argument = [&] { return code(*expression.operands[1]); };
  const auto graph = [&] { return name_of(*graph_of(owner.type)); };
  switch (expression.builtin) {
    case Builtin::num_nodes: return code(owner) + ".num_nodes()";
    case Builtin::num_edges: return code(owner) + ".num_edges()";
    case Builtin::pick_random: return fmt::format("{}.pick_node({})", code(owner), random());
    case Builtin::degree:
    case Builtin::in_degree: {
      const bool in = expression.builtin == Builtin::in_degree;
      if (in) result_.needs.in_edges = true;
      if (region_ == nullptr) return fmt::format("{}.{}({})", graph(), in ? "in_degree" : "degree", index_of(owner));
      const std::string begin = array(*graph_of(owner.type), in ? "r_begin" : "begin"), node = index_of(owner);
      return fmt::format("static_cast<std::int64_t>({}[{} + 1] - {}[{}])", begin, node, begin, node);
    }
    case Builtin::has_edge_to:
      return fmt::format("{}.has_edge({}, {})", graph(), index_of(owner), index_of(*expression.operands[1]));
    case Builtin::has_edge_from:
    case Builtin::is_neighbour_from:
      return fmt::format("{}.has_edge({}, {})", graph(), index_of(*expression.operands[1]), index_of(owner));
    case Builtin::pick_random_neighbour:
      return fmt::format("{}.pick_neighbour({}, {})", graph(), random(), index_of(owner));
    case Builtin::to_edge: return edge_of(owner);
    case Builtin::from_node: {
      const auto found =
          owner.kind == ExpressionKind::name ? from_names_.find(owner.reference.symbol) : from_names_.end();
      if (found != from_names_.end()) return found->second;
      return fmt::format("{}.from({})", graph(), index_of(owner));
    }
    case Builtin::to_node: return fmt::format("{}.to({})", graph(), index_of(owner));
    case Builtin::length: return fmt::format("static_cast<std::int64_t>({}.size())", within(owner, 8));
    case Builtin::contains: return fmt::format("({}.find({}) != std::string::npos)", within(owner, 8), argument());
    case Builtin::begins_with: return fmt::format("{}.starts_with({})", within(owner, 8), argument());
    case Builtin::ends_with: return fmt::format("{}.ends_with({})", within(owner, 8), argument());
    case Builtin::equals: return fmt::format("({} == {})", within(owner, 4), within(*expression.operands[1], 4));
    default: return {};
  }
}

/// An lvalue of a collection.
std::string Writer::collection(const Expression& expression) {
  if (expression.kind == ExpressionKind::field)
    return element(*expression.reference.symbol, index_of(*expression.operands[0]));
  return code(expression);
}

std::string Writer::collection_method(const Expression& expression) {
  const Expression& owner = *expression.operands[0];
  const std::string place = collection(owner);
  const Symbol* symbol = owner.reference.symbol;
  const bool whole = expression.operands.size() > 1 && is_simple_collection(expression.operands[1]->type) &&
                     !owner.type.is(TypeKind::collection);
  const bool enters = expression.builtin == Builtin::add || expression.builtin == Builtin::push_back ||
                      expression.builtin == Builtin::push_front;
  const auto argument = [&]() -> std::string {
    if (expression.operands.size() < 2) return {};
    const Expression& operand = *expression.operands[1];
    if (is_any_collection(operand.type)) return collection(operand);
    return enters && may_be_nil(operand) ? fmt::format("gm::item({}, {})", code(operand), line_of(operand.span))
                                         : code(operand);
  };
  const auto guarded = [&](const std::string& text) { return symbol == nullptr ? text : locked(*symbol, text); };
  const auto simple = [&](const char* name) { return guarded(fmt::format("{}.{}({})", place, name, argument())); };
  const auto elements = [&] {
    return fmt::format("{}.{}", name_of(*graph_of(owner.type)), owner.type.of_edges ? "edges" : "nodes");
  };
  switch (expression.builtin) {
    case Builtin::has: return simple("has");
    case Builtin::size: return simple("size");
    case Builtin::is_subset_of: return simple("is_subset_of");
    case Builtin::front: return simple("front");
    case Builtin::back: return simple("back");
    case Builtin::pop_front: return simple("pop_front");
    case Builtin::pop_back: return simple("pop_back");
    case Builtin::clear: return simple("clear");
    case Builtin::unite: return simple("united");
    case Builtin::intersect: return simple("intersected");
    case Builtin::complement:
      return expression.operands.size() > 1 ? simple("complemented")
                                            : guarded(fmt::format("{}.complemented({})", place, elements()));
    case Builtin::add:
      if (symbol != nullptr && mode_of(*symbol) == Mode::adding) {
        if (!whole) return fmt::format("{}.add_shared({}, chunk.thread)", place, argument());
        return fmt::format("[&] {{ for (const auto each : {}) {}.add_shared(each, chunk.thread); }}()", argument(),
                           place);
      }
      return simple(whole ? "add_all" : "add");
    case Builtin::remove: return simple(whole ? "remove_all" : "remove");
    case Builtin::push_back: return simple(whole ? "push_back_all" : "push_back");
    case Builtin::push_front: return simple(whole ? "push_front_all" : "push_front");
    default: return {};
  }
}

std::string Writer::map_method(const Expression& expression) {
  const Expression& owner = *expression.operands[0];
  const std::string name = code(owner);
  const auto line = line_of(expression.span);
  const auto call = [&](std::string text) { return locked(*owner.reference.symbol, name + "." + text); };
  const auto with_key = [&](const char* function) {
    return call(fmt::format("{}({})", function, code(*expression.operands[1])));
  };
  switch (expression.builtin) {
    case Builtin::size: return call("size()");
    case Builtin::clear: return call("clear()");
    case Builtin::has_key: return with_key("has_key");
    case Builtin::get_value: return with_key("get");
    case Builtin::remove_key: return with_key("remove");
    case Builtin::has_max_value: return with_key("has_max_value");
    case Builtin::has_min_value: return with_key("has_min_value");
    case Builtin::get_max_key: return call(fmt::format("max_key({})", line));
    case Builtin::get_min_key: return call(fmt::format("min_key({})", line));
    case Builtin::get_max_value: return call("max_value()");
    case Builtin::get_min_value: return call("min_value()");
    case Builtin::remove_min_key: return call(fmt::format("remove_min_key({})", line));
    case Builtin::remove_max_key: return call(fmt::format("remove_max_key({})", line));
    default: return {};
  }
}

std::string Writer::function(const Expression& expression) {
  const auto argument = [&](std::size_t i) { return code(*expression.operands[i]); };
  switch (expression.builtin) {
    case Builtin::rand: return fmt::format("{}.below({})", random(), argument(0));
    case Builtin::uniform: return fmt::format("{}.uniform()", random());
    case Builtin::log: return fmt::format("std::log({})", argument(0));
    case Builtin::exp: return fmt::format("std::exp({})", argument(0));
    case Builtin::pow: return fmt::format("std::pow({}, {})", argument(0), argument(1));
    case Builtin::sqrt: return fmt::format("std::sqrt({})", argument(0));
    default: return {};
  }
}

std::string Writer::call(const Expression& expression) {
  std::string arguments = run_name();
  for (const auto& operand : expression.operands) arguments += ", " + code(*operand);
  // Outputs that are ignored, or that are not assigned to a variable of the same type, need a temporary.
  std::string before, after;
  for (std::size_t i = 0; i < expression.outputs.size(); ++i) {
    const std::string type = cpp_type(expression.procedure->outputs[i].symbol->type);
    const auto& output = expression.outputs[i];
    if (output && output->kind == ExpressionKind::name && cpp_type(output->type) == type) {
      arguments += ", " + name_of(*output->reference.symbol);
      continue;
    }
    const std::string name = fresh("output");
    arguments += ", " + name;
    before += fmt::format("{} {}{{}}; ", type, name);
    if (!output) continue;
    if (output->kind == ExpressionKind::index) {
      after += fmt::format(" {}.set({}, {});", code(*output->operands[0]), code(*output->operands[1]), name);
    } else if (output->kind == ExpressionKind::field) {
      after += fmt::format(" {} = {};", element(*output->reference.symbol, index_of(*output->operands[0])), name);
    } else {
      after += fmt::format(" {} = {};", name_of(*output->reference.symbol), name);
    }
  }
  const std::string text = fmt::format("Procedures::{}({})", cpp_name(*expression.procedure), arguments);
  if (before.empty()) return text;
  if (expression.procedure->return_type.is(TypeKind::nothing))
    return fmt::format("[&] {{ {}{};{} }}()", before, text, after);
  return fmt::format("[&] {{ {}const auto returned = {};{} return returned; }}()", before, text, after);
}

std::string Writer::foreign(const Expression& expression) {
  std::string text;
  for (const auto& piece : expression.pieces) {
    if (!piece.expression) {
      text += piece.text;
      continue;
    }
    const Expression& part = *piece.expression;
    if (part.kind == ExpressionKind::field && part.reference.symbol == nullptr) {
      text += name_of(*part.operands[0]->reference.symbol) + "." + part.reference.name;
    } else if (part.kind == ExpressionKind::field) {
      text += element(*part.reference.symbol, code(*part.operands[0]));
    } else {
      text += name_of(*part.reference.symbol);
    }
  }
  return text;
}

}  // namespace smelt::graph::language
