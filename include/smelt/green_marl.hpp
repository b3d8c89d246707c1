// Green-Marl: programs for graphs are checked, explained, compiled to C++ and run. The language:
// docs/reference/graph-language.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {

/// What is said of a program, as compilers do.
struct Message {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  int line = 0;    ///< from 1
  int column = 0;  ///< from 1
  std::string text;
};

/// One argument, local or other array of a procedure, and what the procedure does to it ([Kaestle16] tables 3.2, 3.3).
struct ArrayUse {
  std::string name;
  bool node = false;  ///< an element per node, else per edge
  bool used = false;
  bool read_only = false;
  bool standard = false;  ///< one of the graph's own arrays
  bool dynamic = false;   ///< made by the procedure
  bool indexed = false;   ///< always accessed by the index of a loop over all nodes or edges
  std::string reads;      ///< how often, in N nodes, E edges, k iterations, d a degree, S a size: "kE + kN"
  std::string writes;
  double reads_per_element = 0;  ///< for degree 16 and 10 iterations
  double writes_per_element = 0;
  int element_bytes = 0;  ///< 0: depends on the width of the graph's numbers
  bool input = false;     ///< an argument whose values are used before the procedure sets them all
};

/// The memory that arrays are placed on.
struct MachineMemory {
  int numa_nodes = 1;
  std::uint64_t bytes_per_numa_node = 0;  ///< of the one that has least; 0: not known
};

/// Where an array should lie, by the rule of [Kaestle16] figures 4.4 and 4.5.
struct ArrayPlacement {
  enum class Placement { any, partitioned, replicated, interleaved };
  std::string name;
  std::uint64_t size_bytes = 0;
  Placement placement = Placement::any;
  bool huge_pages = false;
  std::string because;
};
/// "any", "partitioned", "replicated", "interleaved".
const char* to_string(ArrayPlacement::Placement placement) noexcept;

/// The placement of all used arrays for a graph and a machine: partitioned if always accessed by index; replicated if
/// read-only and one copy fits into every NUMA node, those with the most accesses per byte first; else interleaved.
/// With one NUMA node nothing is placed, unless `also_alone`.
std::vector<ArrayPlacement> place_arrays(const std::vector<ArrayUse>& arrays, const Graph& graph,
                                         const MachineMemory& memory, bool also_alone = false);

/// What the compiler decided for one sentence.
struct CompilerDecision {
  int line = 0;
  std::string text;
};

struct ParameterInfo {
  std::string name;
  std::string type;  ///< as the language writes it
  bool output = false;
  bool graph = false;
  bool property = false;
};

struct ProcedureInfo {
  std::string name;
  bool local = false;
  std::vector<ParameterInfo> parameters;  ///< inputs, then outputs
  std::string return_type;                ///< "" for none
};

/// Choices that the compiler makes by itself, to be fixed or switched off.
struct CompileOptions {
  enum class Neighbours { automatic, push, pull };
  Neighbours neighbours = Neighbours::automatic;  ///< reductions at neighbours: written to them, or read from them
  bool fuse = true;                               ///< loops over the same nodes become one
  bool precompute = true;                         ///< what sums take of each neighbour is computed once per node
  bool merge = true;                              ///< HasEdgeTo in loops over neighbours becomes a merge
  bool fetch_ahead = true;                        ///< loops over neighbours ask early for what they read
  bool bins = true;                               ///< a map that gives nodes by least value becomes bins, where it may
  std::string compiler;                           ///< "": $CXX, else c++, g++ or clang++, whichever there is
  bool cache = true;                              ///< keep what was compiled in SMELT_CACHE_DIR
};

/// A value that a procedure takes or gives. Nodes and edges are their numbers, NIL is -1.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string>;

/// Items of a collection, or of a property of collections: `owners` has the node, edge or collection of each item.
struct Items {
  std::vector<std::uint64_t> owners;
  std::vector<std::uint64_t> items;
};

struct RunOptions {
  /// Whether arrays are placed on the machine's NUMA nodes as place_arrays() says, and threads bound to them: where
  /// there are several; never, arrays being plain ones on pages of the usual size; or with one NUMA node, too.
  enum class Placement { automatic, never, always };
  /// Sizes of caches: they decide how far ahead of its use a sum over neighbours asks for what it reads. 0: the
  /// machine's.
  struct Caches {
    std::size_t own_bytes = 0;     ///< of a core
    std::size_t shared_bytes = 0;  ///< of the last one
  };
  int threads = 0;         ///< 0: one per PU that the process may use
  std::uint64_t seed = 1;  ///< of random numbers: the same seed gives the same run, whatever the number of threads
  Placement placement = Placement::automatic;
  Caches caches;
  std::function<void(std::string_view)> print;  ///< what the program prints; default: it is kept in RunResult
};

struct Arguments {
  std::map<std::string, Graph> graphs;  ///< by the argument's name
  std::map<std::string, Value> values;
  std::map<std::string, Column> columns;                    ///< properties; nodes and edges as longs
  std::map<std::string, std::vector<std::uint64_t>> items;  ///< collections
  /// Where properties that the procedure changes are to be put: the caller's own arrays, of as many values as the graph
  /// has nodes or edges and of the type of the result's column, which refers to the array then.
  std::map<std::string, void*> into;
};

/// An array that was placed.
struct PlacedArray {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::string placement;  ///< "partitioned", "replicated", "interleaved"
  int copies = 1;
};

struct RunResult {
  Value returned;
  std::map<std::string, Value> values;    ///< outputs
  std::map<std::string, Column> columns;  ///< properties that the procedure may have changed; nodes and edges as longs
  std::map<std::string, Items> items;     ///< collections
  std::string printed;
  double seconds = 0;               ///< of the procedure alone
  std::vector<PlacedArray> placed;  ///< in the order in which they were made; empty where nothing is placed
};

/// A compiled program, loaded into this process. Copies share it.
class CompiledProgram {
 public:
  /// Calls a procedure. Properties that are not given are zero (NIL for nodes and edges). Errors: invalid_argument (an
  /// argument is missing or does not fit), out_of_memory, and what the program itself ends with, as "FILE:LINE:
  /// reason".
  Result<RunResult> run(const std::string& procedure, const Arguments& arguments, const RunOptions& options = {}) const;

  bool from_cache() const noexcept;
  double compile_seconds() const noexcept;

  struct State;
  explicit CompiledProgram(std::shared_ptr<const State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<const State> state_;
};

/// A program that was read and checked. Copies share it.
class GreenMarl {
 public:
  /// Never fails: what is wrong is among the messages. `name` is the file's, for messages. At most 4 MiB.
  static GreenMarl parse(std::string name, std::string text);
  /// Errors: those of the file.
  static Result<GreenMarl> read(const std::string& file);

  bool good() const noexcept;  ///< no errors
  std::vector<Message> messages() const;
  /// The messages with the line and a caret, as compilers print them.
  std::string formatted_messages() const;

  std::vector<ProcedureInfo> procedures() const;
  /// The procedure that is meant if none is named: the first one that is not local and that no other one calls.
  std::string main_procedure() const;
  /// Requires good(). The arrays of a procedure: the graph's own, then its properties. Empty if there is no such
  /// procedure.
  std::vector<ArrayUse> arrays(const std::string& procedure) const;
  /// Requires good().
  std::vector<CompilerDecision> decisions(const CompileOptions& options = {}) const;
  /// Requires good(). C++20 with #include <smelt/graph_program.hpp>, as one file to compile.
  std::string cpp(const CompileOptions& options = {}) const;

  /// Requires good(). Compiles for graphs with numbers of this width (Graph::node_id_bytes(), edge_id_bytes()), or
  /// takes what was compiled before. Errors: not_found (no compiler), io_error; not_supported with the compiler's first
  /// message, which only foreign text can cause. Cost: some seconds; milliseconds from the cache.
  Result<CompiledProgram> compile(int node_id_bytes, int edge_id_bytes, const CompileOptions& options = {}) const;
  /// The same as a shared library in a file. Errors: besides, those of writing it.
  Result<void> compile_to(const std::string& file, int node_id_bytes, int edge_id_bytes,
                          const CompileOptions& options = {}) const;

  struct State;

 private:
  explicit GreenMarl(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace smelt::graph
