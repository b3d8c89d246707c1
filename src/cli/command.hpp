// What the commands share with main: how they register, and how they fail.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "smelt/error.hpp"

namespace smelt::cli {

constexpr int exit_ok = 0;
constexpr int exit_failure = 1;  ///< the request was fine, doing it failed
constexpr int exit_usage = 2;    ///< the request makes no sense

/// Thrown by a command, printed by main as one line on stderr.
struct Failure {
  int exit_code = exit_failure;
  std::string message;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{exit_failure, fmt::format(text, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args&&... args) {
  throw Failure{exit_usage, fmt::format(text, std::forward<Args>(args)...)};
}

/// The value, or a Failure with the library's message: a bad argument is the caller's mistake.
template <class T>
T take(Result<T> result) {
  if (!result) {
    throw Failure{result.error().status == Status::invalid_argument ? exit_usage : exit_failure,
                  result.error().message};
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

class Parser;

// Each describes one subcommand to the parser.
void add_measure(Parser& parser);
void add_show(Parser& parser);
void add_import(Parser& parser);
void add_synth(Parser& parser);
void add_plan(Parser& parser);
void add_tune(Parser& parser);
void add_explain(Parser& parser);
void add_simulate(Parser& parser);
void add_compare(Parser& parser);
void add_bench(Parser& parser);
void add_export(Parser& parser);
void add_run(Parser& parser);
void add_inspect(Parser& parser);
void add_settings(Parser& parser);
void add_graph(Parser& parser);
void add_state(Parser& parser);
void add_storm_log(Parser& parser);
void add_storm_map(Parser& parser);

}  // namespace smelt::cli
