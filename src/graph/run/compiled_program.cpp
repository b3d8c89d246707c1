// Calls of compiled procedures: arguments as arrays, results as columns.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "base/error.hpp"
#include "graph/code/module.hpp"
#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/run/host.hpp"
#include "graph/run/program_state.hpp"

namespace smelt::graph {
namespace {

using language::Procedure;
using language::Symbol;
using language::Type;
using language::TypeKind;

template <class... Args>
Error wrong(fmt::format_string<Args...> text, Args&&... args) {
  return make_error(Status::invalid_argument, text, std::forward<Args>(args)...);
}

/// For values that are passed unchanged.
std::optional<ValueType> value_type(const Type& type) {
  switch (type.kind) {
    case TypeKind::boolean: return ValueType::boolean;
    case TypeKind::integer: return ValueType::int32;
    case TypeKind::count:
    case TypeKind::long_integer: return ValueType::int64;
    case TypeKind::single: return ValueType::float32;
    case TypeKind::real: return ValueType::float64;
    default: return std::nullopt;
  }
}

double number_at(const Column& column, std::uint64_t i) {
  switch (column.type()) {
    case ValueType::boolean: return column.values<bool>()[i] ? 1 : 0;
    case ValueType::int32: return column.values<std::int32_t>()[i];
    case ValueType::int64: return static_cast<double>(column.values<std::int64_t>()[i]);
    case ValueType::float32: return column.values<float>()[i];
    case ValueType::float64: return column.values<double>()[i];
  }
  return 0;
}

std::int64_t whole_at(const Column& column, std::uint64_t i) {
  return column.type() == ValueType::int64 ? column.values<std::int64_t>()[i]
                                           : static_cast<std::int64_t>(number_at(column, i));
}

/// One call: arrays and places of all arguments, which outlive it.
class Call {
 public:
  Call(const CompiledProgram::State& state, const Procedure& procedure, const Arguments& arguments,
       const RunOptions& options, ThreadTeam& team)
      : state_(state),
        procedure_(procedure),
        given_(arguments),
        options_(options),
        team_(team),
        memory_(team, options.placement) {}

  Result<RunResult> run(ProgramEntry entry) {
    if (auto known = check_names(); !known) return known.error();
    if (auto graphs = prepare_graphs(); !graphs) return graphs.error();
    for (const auto& parameter : procedure_.inputs) {
      if (auto prepared = prepare(*parameter.symbol, false); !prepared) return prepared.error();
    }
    for (const auto& parameter : procedure_.outputs) {
      if (auto prepared = prepare(*parameter.symbol, true); !prepared) return prepared.error();
    }
    if (auto known = check_targets(); !known) return known.error();
    Place& returned = places_.emplace_back();
    arguments_.push_back({returned.bytes, 0, put_text, &returned});
    auto print = options_.print ? options_.print : [this](std::string_view text) { result_.printed += text; };
    ProgramHost host(team_, memory_, options_, print);
    program::Failure failure{};
    const auto start = std::chrono::steady_clock::now();
    const int status = entry(&host.host(), arguments_.data(), &failure);
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (status != 0) return failed(failure);
    result_.placed = memory_.placed();
    if (auto collected = collect(); !collected) return collected.error();
    result_.returned = value_of(procedure_.return_type, returned);
    return std::move(result_);
  }

 private:
  /// A variable's value, or the text of a String.
  struct Place {
    alignas(8) std::byte bytes[8] = {};
    std::string text;
  };
  /// A property's array, and how it becomes a column again.
  struct Array {
    const Symbol* symbol;
    ArrayMemory memory;
    std::uint64_t size;
    bool changed;
  };

  static void put_text(void* taker, std::uint64_t, std::uint64_t size, const char* text) {
    static_cast<Place*>(taker)->text.assign(text, size);
  }
  static void put_item(void* taker, std::uint64_t owner, std::uint64_t item, const char*) {
    auto& items = *static_cast<Items*>(taker);
    items.owners.push_back(owner);
    items.items.push_back(item);
  }

  Error failed(const program::Failure& failure) const {
    const auto& name = state_.program->program.source.name();
    if (failure.line > 0) return make_error(Status::invalid_argument, "{}:{}: {}", name, failure.line, failure.message);
    const bool memory = std::string_view(failure.message).find("no memory") != std::string_view::npos;
    return make_error(memory ? Status::out_of_memory : Status::io_error, "{}: {}", name, failure.message);
  }

  Result<void> check_names() const {
    const auto exists = [&](const std::string& name) {
      const auto named = [&](const Procedure::Parameter& each) { return each.name.name == name; };
      return std::any_of(procedure_.inputs.begin(), procedure_.inputs.end(), named) ||
             std::any_of(procedure_.outputs.begin(), procedure_.outputs.end(), named);
    };
    const auto check = [&](const auto& map) -> Result<void> {
      for (const auto& [name, value] : map) {
        if (!exists(name)) return wrong("'{}' has no argument '{}'", procedure_.name, name);
      }
      return {};
    };
    for (const auto& checked :
         {check(given_.graphs), check(given_.values), check(given_.columns), check(given_.items), check(given_.into)}) {
      if (!checked) return checked;
    }
    return {};
  }

  /// Of results that go to arrays of the caller.
  Result<void> check_targets() const {
    for (const auto& [name, target] : given_.into) {
      const auto is_it = [&, &name = name](const Array& each) { return each.changed && each.symbol->name == name; };
      const auto array = std::find_if(arrays_.begin(), arrays_.end(), is_it);
      if (array == arrays_.end())
        return wrong("'{}' is no property that '{}' changes, so that its values go nowhere", name, procedure_.name);
      if (target == nullptr && array->size > 0) return wrong("the array for the values of '{}' is null", name);
    }
    return {};
  }

  // --- graphs

  Result<void> prepare_graphs() {
    for (const auto& parameter : procedure_.inputs) {
      const Symbol& symbol = *parameter.symbol;
      if (!symbol.type.is(TypeKind::graph)) continue;
      const auto found = given_.graphs.find(symbol.name);
      if (found == given_.graphs.end()) return wrong("'{}' needs the graph '{}'", procedure_.name, symbol.name);
      const Graph& graph = found->second;
      if (graph.node_id_bytes() != state_.node_bytes || graph.edge_id_bytes() != state_.edge_bytes) {
        return wrong("'{}' was compiled for numbers of {} and {} bytes; the graph '{}' has {} and {}", procedure_.name,
                     state_.node_bytes, state_.edge_bytes, symbol.name, graph.node_id_bytes(), graph.edge_id_bytes());
      }
      if (symbol.type.undirected && !graph.undirected()) {
        return wrong("'{}' must be undirected, with every edge's reverse", symbol.name);
      }
      const Structure& structure = graph.structure();
      if (state_.needs.in_edges) {
        if (auto made = make_in_rows(structure, team_); !made) return made;
      }
      if (state_.needs.in_edge_numbers) {
        if (auto made = make_in_edge_ids(structure, team_); !made) return made;
      }
      memory_.add(structure);
      find_placements(graph);
      add_view(structure);
      graphs_[&symbol] = &graph;
    }
    return {};
  }

  /// Of the program's arrays, by their names.
  void find_placements(const Graph& graph) {
    if (!memory_.places()) return;
    const auto arrays = array_uses(state_.program->program, procedure_.name);
    for (const auto& each : place_arrays(arrays, graph, memory_.machine(), memory_.places()))
      placements_[each.name] = each.placement;
  }

  ArrayPlacement::Placement placement_of(const std::string& name) const {
    const auto found = placements_.find(name);
    return found == placements_.end() ? ArrayPlacement::Placement::any : found->second;
  }

  /// A graph's own array where the program reads it.
  template <class View>
  void place(const Structure& structure, View& view) {
    const auto node = static_cast<std::size_t>(structure.node_bytes),
               edge = static_cast<std::size_t>(structure.edge_bytes);
    const auto at = [&](const std::uint32_t*& array, std::size_t element_bytes, bool of_nodes, const char* name) {
      array = static_cast<const std::uint32_t*>(
          memory_.place(structure, array, element_bytes, of_nodes, placement_of(name), name));
    };
    const bool same = view.r_begin == view.begin;  // undirected: one for both directions
    // A program may read that one by either name.
    const auto used = [&](const char* out, const char* in) {
      return same && placement_of(out) == ArrayPlacement::Placement::any ? in : out;
    };
    at(view.begin, edge, true, used("begin", "r_begin"));
    at(view.node_idx, node, false, used("node_idx", "r_node_idx"));
    if (same) {
      view.r_begin = view.begin;
      view.r_node_idx = view.node_idx;
    } else {
      at(view.r_begin, edge, true, "r_begin");
      at(view.r_node_idx, node, false, "r_node_idx");
    }
    at(view.r_edge, edge, false, "r_edge");
  }

  void add_view(const Structure& structure) {
    // All widths of the view have the same layout: pointers and sizes.
    program::GraphView<std::uint32_t, std::uint32_t> view;
    view.nodes = structure.nodes;
    view.edges = structure.edges;
    view.begin = static_cast<const std::uint32_t*>(structure.out_view.begin);
    view.node_idx = static_cast<const std::uint32_t*>(structure.out_view.node_idx);
    if (structure.undirected || structure.in_ready.load(std::memory_order_acquire)) {
      const auto& in = structure.undirected ? structure.out_view : structure.in_view;
      view.r_begin = static_cast<const std::uint32_t*>(in.begin);
      view.r_node_idx = static_cast<const std::uint32_t*>(in.node_idx);
    }
    view.r_edge = structure.undirected ? nullptr : static_cast<const std::uint32_t*>(structure.in_edge_ids_view);
    view.undirected = structure.undirected;
    view.simple = structure.simple;
    if (memory_.places()) place(structure, view);
    views_.push_back(view);
  }

  const Graph& graph_of(const Type& type) const {
    const auto found = graphs_.find(type.graph);
    return found == graphs_.end() ? *graphs_.begin()->second : *found->second;
  }

  // --- arguments

  Result<void> prepare(const Symbol& symbol, bool output) {
    const Type& type = symbol.type;
    if (type.is(TypeKind::graph)) {
      arguments_.push_back({&views_[next_view_++], 0, nullptr, nullptr});
      return {};
    }
    if (language::is_property(type)) return prepare_property(symbol, output);
    if (language::is_any_collection(type)) return prepare_items(symbol, output);
    if (type.is(TypeKind::map))
      return wrong("the Map '{}' cannot be passed from outside; call the procedure from another one", symbol.name);
    Place& place = places_.emplace_back();
    if (output) {
      arguments_.push_back({place.bytes, 0, put_text, &place});
      scalars_.push_back({&symbol, &place});
      return {};
    }
    const auto found = given_.values.find(symbol.name);
    if (found == given_.values.end())
      return wrong("'{}' needs a value for '{}: {}'", procedure_.name, symbol.name, to_string(type));
    if (auto put = put_value(symbol, found->second, place); !put) return put;
    const bool text = type.is(TypeKind::string);
    arguments_.push_back(
        {text ? static_cast<void*>(place.text.data()) : place.bytes, place.text.size(), nullptr, nullptr});
    return {};
  }

  template <class T>
  static void set(Place& place, T value) {
    std::memcpy(place.bytes, &value, sizeof value);
  }

  Result<void> put_value(const Symbol& symbol, const Value& value, Place& place) {
    const Type& type = symbol.type;
    const auto* whole = std::get_if<std::int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    const auto unfit = [&] {
      return wrong("the value of '{}' does not fit its type, {}", symbol.name, to_string(type));
    };
    if (type.is(TypeKind::string)) {
      const auto* text = std::get_if<std::string>(&value);
      if (text == nullptr) return unfit();
      place.text = *text;
      return {};
    }
    if (type.is(TypeKind::boolean)) {
      const auto* flag = std::get_if<bool>(&value);
      if (flag == nullptr) return unfit();
      set(place, *flag);
      return {};
    }
    if (language::is_item(type)) return whole == nullptr ? unfit() : put_number(symbol, *whole, place);
    if (language::is_whole(type)) {
      if (whole == nullptr) return unfit();
      const bool small = *whole >= INT32_MIN && *whole <= INT32_MAX;
      if (type.is(TypeKind::integer) && !small) return unfit();
      type.is(TypeKind::integer) ? set(place, static_cast<std::int32_t>(*whole)) : set(place, *whole);
      return {};
    }
    if (whole == nullptr && real == nullptr) return unfit();
    const double number = whole != nullptr ? static_cast<double>(*whole) : *real;
    type.is(TypeKind::single) ? set(place, static_cast<float>(number)) : set(place, number);
    return {};
  }

  /// A node's or edge's number.
  Result<void> put_number(const Symbol& symbol, std::int64_t number, Place& place) {
    const bool node = symbol.type.is(TypeKind::node);
    const Graph& graph = graph_of(symbol.type);
    const auto bound = node ? graph.num_nodes() : graph.num_edges();
    if (number < -1 || (number >= 0 && static_cast<std::uint64_t>(number) >= bound)) {
      return wrong("'{}' is {}, but the graph has {} {}", symbol.name, number, bound, node ? "nodes" : "edges");
    }
    set(place, static_cast<std::uint64_t>(number));  // -1 is NIL in any width
    return {};
  }

  int item_bytes(const Type& type) const { return type.is(TypeKind::node) ? state_.node_bytes : state_.edge_bytes; }

  static Error wrong_size(const Symbol& symbol, const Column& column, std::uint64_t size, bool nodes) {
    return wrong("'{}' has {} values; the graph has {} {}", symbol.name, column.size(), size,
                 nodes ? "nodes" : "edges");
  }

  Result<void> prepare_property(const Symbol& symbol, bool output) {
    const Type& element = *symbol.type.element;
    const bool nodes = symbol.type.is(TypeKind::node_property);
    const Graph& graph = graph_of(symbol.type);
    const auto size = nodes ? graph.num_nodes() : graph.num_edges();
    const auto found = given_.columns.find(symbol.name);
    if (language::is_any_collection(element) || element.is(TypeKind::string)) {
      if (found != given_.columns.end())
        return wrong("values of '{}', of type {}, cannot be passed from outside", symbol.name, to_string(symbol.type));
      Items& items = result_.items[symbol.name];
      arguments_.push_back({nullptr, 0, element.is(TypeKind::string) ? nullptr : put_item, &items});
      return {};
    }
    const auto type = value_type(element);
    if (const bool read_only = !output && !symbol.assigned;
        read_only && found != given_.columns.end() && type == found->second.type()) {
      const Column& column = found->second;
      if (column.size() != size) return wrong_size(symbol, column, size, nodes);
      arguments_.push_back({const_cast<void*>(column.data()), size, nullptr, nullptr});  // never written
      return {};
    }
    const auto bytes = type ? size_of(*type) : static_cast<std::size_t>(item_bytes(element));
    auto memory = memory_.allocate(size * bytes, nodes, writable_placement(symbol.name), symbol.name);
    if (!memory) return memory.error();
    if (found != given_.columns.end()) {
      const Column& column = found->second;
      if (column.size() != size) return wrong_size(symbol, column, size, nodes);
      if (auto filled = fill(symbol, column, *memory, size); !filled) return filled;
    } else if (!type) {
      auto* const numbers = memory->as<std::byte>();
      in_parts(size, [&](std::uint64_t first, std::uint64_t last) {
        std::fill(numbers + first * bytes, numbers + last * bytes, std::byte{0xff});  // NIL
      });
    }
    arguments_.push_back({memory->data(), size, nullptr, nullptr});
    arrays_.push_back({&symbol, *std::move(memory), size, output || symbol.assigned});
    return {};
  }

  /// Of arrays that the caller or the program fills: one copy each.
  ArrayPlacement::Placement writable_placement(const std::string& name) const {
    const auto placement = placement_of(name);
    return placement == ArrayPlacement::Placement::replicated ? ArrayPlacement::Placement::interleaved : placement;
  }

  template <class To, class At>
  static void convert(ArrayMemory& pages, std::uint64_t size, At&& at) {
    for (std::uint64_t i = 0; i < size; ++i) pages.as<To>()[i] = static_cast<To>(at(i));
  }

  Result<void> fill(const Symbol& symbol, const Column& column, ArrayMemory& pages, std::uint64_t size) {
    const Type& element = *symbol.type.element;
    const auto type = value_type(element);
    if (type && *type == column.type()) {
      std::copy_n(static_cast<const std::byte*>(column.data()), size * size_of(*type), pages.as<std::byte>());
      return {};
    }
    const bool whole = column.type() == ValueType::int32 || column.type() == ValueType::int64;
    const bool number = whole || column.type() == ValueType::float32 || column.type() == ValueType::float64;
    const auto as_whole = [&](std::uint64_t i) { return whole_at(column, i); };
    const auto as_number = [&](std::uint64_t i) { return number_at(column, i); };
    if (!type && whole) return fill_numbers(symbol, column, pages, size);
    if (type == ValueType::float32 && number) return convert<float>(pages, size, as_number), Result<void>();
    if (type == ValueType::float64 && number) return convert<double>(pages, size, as_number), Result<void>();
    if (type == ValueType::int64 && whole) return convert<std::int64_t>(pages, size, as_whole), Result<void>();
    if (type == ValueType::boolean && whole)
      return convert<bool>(pages, size, [&](std::uint64_t i) { return as_whole(i) != 0; }), Result<void>();
    if (type == ValueType::int32 && column.type() == ValueType::int64) {
      for (std::uint64_t i = 0; i < size; ++i) {
        const auto value = as_whole(i);
        if (value < INT32_MIN || value > INT32_MAX)
          return wrong("a value of '{}', {}, does not fit into an Int", symbol.name, value);
      }
      return convert<std::int32_t>(pages, size, as_whole), Result<void>();
    }
    return wrong("'{}' is {}; its values are {}", symbol.name, to_string(symbol.type), graph::to_string(column.type()));
  }

  Result<void> fill_numbers(const Symbol& symbol, const Column& column, ArrayMemory& pages, std::uint64_t size) {
    const Type& element = *symbol.type.element;
    const Graph& graph = graph_of(element);
    const auto bound = element.is(TypeKind::node) ? graph.num_nodes() : graph.num_edges();
    for (std::uint64_t i = 0; i < size; ++i) {
      const auto value = whole_at(column, i);
      if (value < -1 || (value >= 0 && static_cast<std::uint64_t>(value) >= bound))  // -1 is NIL
        return wrong("a value of '{}', {}, is no number of the graph", symbol.name, value);
      item_bytes(element) == 4 ? void(pages.as<std::uint32_t>()[i] = static_cast<std::uint32_t>(value))
                               : void(pages.as<std::uint64_t>()[i] = static_cast<std::uint64_t>(value));
    }
    return {};
  }

  Result<void> prepare_items(const Symbol& symbol, bool output) {
    const auto found = given_.items.find(symbol.name);
    auto& input = inputs_.emplace_back();
    if (found != given_.items.end()) {
      if (symbol.type.is(TypeKind::collection))
        return wrong("the Collection '{}' cannot be passed from outside", symbol.name);
      const Graph& graph = graph_of(symbol.type);
      const auto bound = symbol.type.of_edges ? graph.num_edges() : graph.num_nodes();
      for (const auto item : found->second) {
        if (item >= bound) return wrong("{} in '{}' is no number of the graph", item, symbol.name);
      }
      input = found->second;
    }
    const bool gives = output || symbol.assigned;
    arguments_.push_back(
        {input.data(), input.size(), gives ? put_item : nullptr, gives ? &result_.items[symbol.name] : nullptr});
    return {};
  }

  // --- results

  Value value_of(const Type& type, const Place& place) const {
    const auto get = [&](auto value) {
      std::memcpy(&value, place.bytes, sizeof value);
      return value;
    };
    switch (type.kind) {
      case TypeKind::nothing: return {};
      case TypeKind::boolean: return get(false);
      case TypeKind::integer: return std::int64_t{get(std::int32_t{})};
      case TypeKind::count:
      case TypeKind::long_integer: return get(std::int64_t{});
      case TypeKind::single: return double{get(0.0f)};
      case TypeKind::real: return get(0.0);
      case TypeKind::string: return place.text;
      default: {
        const bool narrow = item_bytes(type) == 4;
        const std::uint64_t number = narrow ? get(std::uint32_t{}) : get(std::uint64_t{});
        return number == (narrow ? UINT32_MAX : UINT64_MAX) ? std::int64_t{-1} : static_cast<std::int64_t>(number);
      }
    }
  }

  Result<void> collect() {
    for (const auto& [symbol, place] : scalars_) result_.values[symbol->name] = value_of(symbol->type, *place);
    for (auto& array : arrays_) {
      if (!array.changed) continue;
      auto column = column_of(array);
      if (!column) return column.error();
      result_.columns.emplace(array.symbol->name, *std::move(column));
    }
    return {};
  }

  /// The values of a property; numbers of nodes and edges become longs.
  Result<Column> column_of(Array& array) {
    const Type& element = *array.symbol->type.element;
    const auto type = value_type(element);
    const auto column = [&](std::shared_ptr<const void> values) {
      return Column(array.symbol->name, type.value_or(ValueType::int64), array.size, std::move(values));
    };
    const auto own = [&](ArrayMemory memory) {
      const auto owner = std::make_shared<ArrayMemory>(std::move(memory));
      return column({owner, owner->data()});
    };
    const bool narrow = !type && item_bytes(element) == 4;
    const auto target = given_.into.find(array.symbol->name);
    if (target == given_.into.end() && !narrow) return own(std::move(array.memory));
    ArrayMemory wide;
    if (target == given_.into.end()) {
      auto pages = Pages::allocate(array.size * sizeof(std::int64_t));
      if (!pages) return pages.error();
      wide = ArrayMemory(*std::move(pages));
    }
    void* const to = target == given_.into.end() ? wide.data() : target->second;
    if (narrow) {
      widen(array.memory.as<std::uint32_t>(), static_cast<std::int64_t*>(to), array.size);
    } else {
      const auto bytes = size_of(type.value_or(ValueType::int64));
      in_parts(array.size, [&](std::uint64_t first, std::uint64_t last) {
        std::copy_n(array.memory.data() + first * bytes, (last - first) * bytes,
                    static_cast<std::byte*>(to) + first * bytes);
      });
    }
    return target == given_.into.end() ? own(std::move(wide)) : column({std::shared_ptr<void>(), to});
  }

  void widen(const std::uint32_t* narrow, std::int64_t* wide, std::uint64_t size) {
    in_parts(size, [&](std::uint64_t first, std::uint64_t last) {
      for (auto i = first; i < last; ++i) wide[i] = narrow[i] == UINT32_MAX ? -1 : static_cast<std::int64_t>(narrow[i]);
    });
  }

  /// body(first, last) for all elements of an array, by all threads: they share the work of the first access to its
  /// pages, too.
  template <class Body>
  void in_parts(std::uint64_t size, Body&& body) {
    constexpr std::uint64_t part = 1u << 16;
    if (size <= part) return body(std::uint64_t{0}, size);
    team_.for_each((size + part - 1) / part,
                   [&](std::size_t index, int) { body(index * part, std::min(size, (index + 1) * part)); });
  }

  const CompiledProgram::State& state_;
  const Procedure& procedure_;
  const Arguments& given_;
  const RunOptions& options_;
  ThreadTeam& team_;
  PlacedMemory memory_;
  std::map<std::string, ArrayPlacement::Placement> placements_;
  std::map<const Symbol*, const Graph*> graphs_;
  std::deque<program::GraphView<std::uint32_t, std::uint32_t>> views_;
  std::size_t next_view_ = 0;
  std::deque<Place> places_;
  std::deque<std::vector<std::uint64_t>> inputs_;
  std::vector<std::pair<const Symbol*, const Place*>> scalars_;
  std::vector<Array> arrays_;
  std::vector<program::Argument> arguments_;
  RunResult result_;
};

}  // namespace

ProgramEntry CompiledProgram::State::find(const language::Procedure& procedure) const {
  if (builtin == nullptr) return reinterpret_cast<ProgramEntry>(library->find(language::entry_name(procedure)));
  for (const auto& each : builtin->procedures) {
    if (each.name == procedure.name) return each.entry;
  }
  return nullptr;
}

bool CompiledProgram::from_cache() const noexcept { return state_->from_cache; }
double CompiledProgram::compile_seconds() const noexcept { return state_->compile_seconds; }

Result<RunResult> CompiledProgram::run(const std::string& name, const Arguments& arguments,
                                       const RunOptions& options) const {
  const auto& procedures = state_->program->program.procedures;
  const auto found = std::find_if(procedures.begin(), procedures.end(),
                                  [&](const auto& each) { return each->name == name && !each->local; });
  if (found == procedures.end())
    return wrong("{}: there is no procedure '{}'", state_->program->program.source.name(), name);
  const auto entry = state_->find(**found);
  if (entry == nullptr)
    return make_error(Status::io_error, "{}: the compiled program lacks '{}'", state_->program->program.source.name(),
                      name);
  const auto team = ThreadTeam::create(options.threads);
  if (!team) return team.error();
  return Call(*state_, **found, arguments, options, **team).run(entry);
}

}  // namespace smelt::graph
