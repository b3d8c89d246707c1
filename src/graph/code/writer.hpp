// Writer: generates the C++ text of one procedure. The form of a name depends on the context: sequential statement,
// chunk of a parallel loop, or code of one instance.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/analysis/accesses.hpp"
#include "graph/code/generate.hpp"
#include "graph/code/shortcuts.hpp"
#include "graph/language/tree.hpp"

namespace smelt::graph::language {

/// CodeLines of text with their indentation.
class CodeLines {
 public:
  void add(std::string_view text);           ///< one or more lines with the same indentation
  void open(std::string_view text);          ///< "TEXT {"
  void close(std::string_view behind = "");  ///< "}BEHIND"
  void raw(const std::string& text) { text_ += text; }
  int depth() const noexcept { return depth_; }
  void set_depth(int depth) noexcept { depth_ = depth; }
  std::string take() { return std::move(text_); }
  bool empty() const noexcept { return text_.empty(); }

 private:
  std::string text_;
  int depth_ = 0;
};

/// How a symbol from outside is accessed within a parallel region.
enum class Mode {
  plain,    ///< no other instance changes the place
  relaxed,  ///< other instances may: relaxed atomics
  partial,  ///< reduced per chunk, joined after the loop
  locked,   ///< one thread at a time
  adding,   ///< a set to which elements are only added
};

/// The parallel region that is being generated.
struct Region {
  const Statement* statement = nullptr;
  std::map<const Symbol*, Mode> modes;
  std::map<const Symbol*, std::string> partials;                 ///< names of the chunk's private values
  std::map<const Symbol*, const Statement*> partial_statements;  ///< the statements that reduce them
  std::map<const Symbol*, std::string> pointers;                 ///< local pointers to properties that are used
  std::map<std::string, std::string> arrays;  ///< arrays of graphs that are used: "G.begin" -> local name
  std::vector<std::string> prelude;           ///< further lines at the start of a chunk
  bool uses_random = false;
  bool uses_nested_run = false;
};

/// The target of a loop's deferred assignments.
struct DeferredStore {
  const Symbol* symbol = nullptr;
  std::string name;        ///< of the log or the second array
  bool swapped = false;    ///< a second array that replaces the first one, since every element is written
  bool per_chunk = false;  ///< a log with one part per chunk of the inner loops
};

/// The InBFS that is being generated.
struct Search {
  const Statement* statement;
  std::string name;   ///< of the search
  std::string level;  ///< the current level's number
};

class Writer {
 public:
  Writer(const Program& program, const CodeOptions& options, GeneratedCode& result)
      : program_(program), options_(options), result_(result) {}

  /// The function of a procedure.
  std::string procedure(const Procedure& procedure);
  void begin_outputs(const Procedure& procedure);
  static std::string signature(const Procedure& procedure, const std::map<const Symbol*, std::string>& names);
  const std::map<const Symbol*, std::string>& names() const noexcept { return names_; }

 private:
  // names.cpp
  void name_symbols(const Procedure& procedure);
  std::string fresh(std::string_view wish);
  const std::string& name_of(const Symbol& symbol) const { return names_.at(&symbol); }
  std::uint32_t line_of(Span span) const { return program_.source.place(span.begin).line; }
  void source_line(Span span);
  void decide(Span span, std::string text);

  // expressions.cpp
  std::string code(const Expression& expression);
  std::string within(const Expression& expression, int least);
  std::string condition(const Expression& expression);
  std::string variable(const Expression& expression);
  std::string array_of(const Symbol& property);
  std::string element(const Symbol& property, const std::string& index);
  std::string index_of(const Expression& driver);
  std::string field(const Expression& expression);
  std::string unary(const Expression& expression);
  std::string binary(const Expression& expression);
  std::string conversion(const Expression& expression);
  std::string reduction(const Expression& expression);
  std::string neighbour_sum(const Expression& expression);
  std::vector<std::string> arrays_at(const Expression& expression, const Symbol& neighbour);
  bool visits_all_lists(const Iteration& iteration) const;
  std::string reduction_body(const Expression& expression, CodeLines& lines, const std::string& result);
  std::string method(const Expression& expression);
  std::string collection_method(const Expression& expression);
  std::string map_method(const Expression& expression);
  std::string function(const Expression& expression);
  std::string call(const Expression& expression);
  std::string foreign(const Expression& expression);
  std::string collection(const Expression& expression);
  std::string edge_of(const Expression& iterator);
  std::string random();
  std::string locked(const Symbol& symbol, const std::string& text);
  Mode mode_of(const Symbol& symbol) const;
  const Symbol* graph_of(const Type& type) const;

  // iterations.cpp
  std::string array(const Symbol& graph, const char* name);
  void open_iteration(const Iteration& iteration, CodeLines& lines, const Statement* body = nullptr);
  void open_neighbours(const Iteration& iteration, CodeLines& lines, const NeighbourBounds& bounds);
  NeighbourBounds bounds_of(const Iteration& iteration, const Statement* body);
  void open_common(const Iteration& iteration, CodeLines& lines);
  void open_items(const Iteration& iteration, CodeLines& lines);
  std::string chunks_of(const Iteration& iteration, const Statement* body, const Expression* reduction);
  void open_chunk(const Iteration& iteration, CodeLines& lines);
  void keep_source(const Iteration& iteration);
  std::string source_of(const Iteration& iteration);
  const Search* search_of(const Iteration& iteration) const;
  std::string level_check(const Iteration& iteration, const std::string& node_code, const std::string& neighbour);
  bool uses_from_node(const Symbol& iterator, const Statement* body, const Expression* reduction) const;

  // statements.cpp
  void statement(const Statement& statement);
  void block(const Statement& block);
  void body(const Statement& statement);
  void declaration(const Statement& statement);
  void assign(const Statement& statement);
  void assignment(const Statement& statement);
  bool is_last_use(const Symbol& symbol, const Statement& statement) const;
  void assign_to(const Expression& target, const std::string& value, const Statement& statement);
  void deferred_assignment(const Statement& statement);
  void reduce_into(const Statement& statement);
  void arg_assignment(const Statement& statement);
  void same_arg_assignment(const Statement& statement);
  void if_else(const Statement& statement);
  std::string replacement(const Statement& statement);
  void print(const Statement& statement);
  void foreign_statement(const Statement& statement);
  std::string hints(const Symbol& symbol, const std::string& name);
  std::string reduction_op(Reduction reduction, const Type& type, bool infinite) const;

  // ties.cpp
  bool has_ties(const Statement& statement) const;
  bool comes_in_order(const Statement& statement) const;
  bool has_fixed_place(const Statement& statement, const Statement& loop) const;
  void begin_ties(const Statement& loop);
  void begin_tie(const Statement& statement);
  void begin_shared_ties(const Region& region, const std::vector<const Statement*>& loops);
  void begin_ties_of(const Statement& statement);
  std::string changed_in_loop(const Statement& statement, bool now);
  std::string wins_tie(const Statement& statement);
  void end_ties(const Statement& statement, const std::string& part);

  // loops.cpp
  bool runs_in_parallel(const Statement& statement) const;
  void loop(const Statement& statement);
  void plain_loop(const Statement& statement);
  const Expression* ending_bound(const Statement& statement) const;
  void fetch_first(const Statement& statement);
  void marked_loop(const Statement& statement, const NeighbourBounds& bounds);
  bool counts_marked(const Statement& statement, const NeighbourBounds& bounds) const;
  bool is_marked(const Iteration& iteration, const NeighbourBounds& bounds) const;
  bool visits_all_above(const Statement& nest, const Statement& innermost) const;
  void filtered_body(const Statement& statement);
  void parallel_loops(const std::vector<const Statement*>& loops);
  void share_loops(const std::vector<const Statement*>& loops);
  void scatter_or_gather(const Statement& loop, const Scatter& scatter);
  void gather(const Statement& loop, const Scatter& scatter);
  std::vector<std::string> precompute(const Statement& loop);
  bool pays_to_precompute(const Expression& body, const Symbol& neighbour, const Region& region) const;
  void one_of_parallel_loops(const Statement& loop, const std::string& element);
  std::string chunks_of_loops(const std::vector<const Statement*>& loops);
  bool can_fuse(const Statement& first, const Statement& second) const;
  void group_assignment(const Statement& statement);
  void traversal(const Statement& statement);
  void navigate(const Statement& statement, const Search& search);
  enum class LevelWork { navigate, forward, reverse };
  void level_loop(const Statement& statement, LevelWork work, const Search& search);
  void level_of_instance(const Statement& statement, LevelWork work, const Search& search);
  void level_elements(const Statement& statement, LevelWork work, const Search& search, const std::string& first,
                      const std::string& last);
  void assign_on_discovery(const Statement& traversal, const Statement& inner, const Search& search);
  void depth_first(const Statement& statement);

  // worklists.cpp
  bool label_correction(const Statement& loop);

  // regions.cpp
  void prepare_region(Region& region, const Statement& statement, Part part);
  void prepare_symbol(Region& region, const Symbol& symbol, const std::vector<Access>& accesses);
  void region_prelude(const Region& region, CodeLines& lines);
  void begin_shared(Region& region, const std::vector<const Statement*>& loops, const std::string& chunks);
  void end_shared(const Region& region);
  void put_partials(const Region& region, CodeLines& lines);
  bool runs_within_levels() const;
  std::vector<DeferredStore> open_deferred(const Statement& loop, const std::string& chunks);
  void close_deferred(const std::vector<DeferredStore>& stores);
  std::string run_name();

  const Program& program_;
  const CodeOptions& options_;
  GeneratedCode& result_;
  const Procedure* procedure_ = nullptr;
  std::vector<const Statement*> blocks_;  ///< the enclosing blocks
  std::map<const Symbol*, std::string> names_;
  std::set<std::string> taken_;
  CodeLines* out_ = nullptr;
  Region* region_ = nullptr;  ///< null in sequential statements
  std::uint32_t last_line_ = 0;
  std::map<const Symbol*, DeferredStore> deferred_;  ///< of the enclosing loops
  std::map<const Symbol*, std::string> edge_names_;  ///< iterators over neighbours: the edge's number
  std::map<const Symbol*, std::string> from_names_;  ///< iterators over edges: the node they start from
  const Symbol* marked_ = nullptr;                   ///< the iterator whose neighbours are marked
  std::string marks_;                                ///< expression that says whether a node is marked
  std::string marks_of_chunk_;                       ///< its declaration
  std::string above_;                                ///< each node's neighbours above it; empty if not needed
  std::string ahead_;                                ///< asks for their lists; empty if not needed
  std::vector<Search> searches_;                     ///< innermost last
  std::map<const Expression*, std::string>
      precomputed_;                                  ///< sums: the array that has their bodies' values per neighbour
  std::vector<std::string> precomputed_names_;       ///< of those arrays, for the next region
  std::map<const Iteration*, std::string> sources_;  ///< of parallel loops: where their elements come from
  std::set<const Expression*> implied_;              ///< terms that the head of the loop guarantees
  std::map<const Statement*, std::string> ties_;     ///< min= with arguments: which elements changed in this loop
  std::set<const Statement*> fixed_ties_;            ///< those with a single element
  std::vector<std::string> prolog_;                  ///< lines at the start of the procedure
};

}  // namespace smelt::graph::language
