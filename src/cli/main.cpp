// The `smelt` command: a parser with all subcommands, or a contestant of its own benchmarks.
#include <cstdio>
#include <cstring>
#include <exception>

#include "cli/bench_worker.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

int run_main(int argc, char** argv) {
  if (const auto status = run_bench_worker(argc, argv)) return *status;
  ignore_closed_pipes();
  Parser parser;
  if (argc > 1 && std::strcmp(argv[1], "run") == 0) {
    // It stands between a program and its start, and the parser of all subcommands takes half a millisecond to build.
    add_run(parser);
    return parser.run(argc, argv);
  }
  add_measure(parser);
  add_show(parser);
  add_import(parser);
  add_synth(parser);
  add_plan(parser);
  add_tune(parser);
  add_explain(parser);
  add_simulate(parser);
  add_compare(parser);
  add_bench(parser);
  add_export(parser);
  add_run(parser);
  add_inspect(parser);
  add_settings(parser);
  add_graph(parser);
  add_state(parser);
  add_storm_log(parser);
  add_storm_map(parser);
  return parser.run(argc, argv);
}

}  // namespace
}  // namespace smelt::cli

int main(int argc, char** argv) {
  int code = smelt::cli::exit_failure;
  try {
    code = smelt::cli::run_main(argc, argv);
  } catch (const std::exception& error) {
    smelt::cli::print_error(error.what());
  } catch (...) {
    smelt::cli::print_error("internal error");
  }
  return code;
}
