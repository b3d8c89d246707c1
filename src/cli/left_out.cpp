// In a build for collectives only (SMELT_COLLECTIVES_ONLY), what stands in for the folders state and graph and for
// explain_memory.cpp: each command says that it is not there.
#include "cli/command.hpp"
#include "cli/memory/memory.hpp"
#include "cli/parser.hpp"
#include "cli/state/bench_state.hpp"
#include "cli/state/maps.hpp"
#include "cli/state/simulate_log.hpp"

namespace smelt::cli {
namespace {

[[noreturn]] void fail_left_out(const char* what) {
  fail("{} not in this smelt, which is for collectives only, as `./x run` builds it; `./x build` builds all of it",
       what);
}

void add_left_out(Parser& parser, const std::string& name, const std::string& description, const char* what) {
  auto words = std::make_shared<std::vector<std::string>>();
  Command command = parser.add(name, description + " (not in this build)");
  command.rest(*words, "...");
  command.action([words, what] { fail_left_out(what); });
}

}  // namespace

void add_graph(Parser& parser) {
  add_left_out(parser, "graph", "Graph programs in Green-Marl, and graph files", "graph programs are");
}
void add_state(Parser& parser) {
  add_left_out(parser, "state", "List, show and remove the maps that processes share, and kept logs",
               "maps and logs are");
}
void add_storm_log(Parser& parser) {
  add_left_out(parser, "storm", "Kill processes at random moments and check what the others have", "maps and logs are");
}
void add_storm_map(Parser&) {}  // part of the same

void bench_maps(const BenchState&) { fail_left_out("maps are"); }
void bench_log(const BenchState&) { fail_left_out("the replicated log is"); }
void compare_maps(const CompareMaps&) { fail_left_out("maps are"); }
void explain_map(const ExplainMap&) { fail_left_out("maps are"); }
void explain_memory(const ExplainMemory&) { fail_left_out("placed arrays are"); }
void simulate_log(const SimulateLog&) { fail_left_out("the replicated log is"); }

}  // namespace smelt::cli
