// Conversion of argument texts to values. Errors are Failures with exit code 2 that name the option, the text and the
// valid values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/parser.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"

namespace smelt::cli {

/// A finite number in [low, high].
double parse_number(const std::string& option, const std::string& text, double low, double high);
int parse_integer(const std::string& option, const std::string& text, int low, int high);

/// "30s", "500ms", "2m" or plain seconds, in seconds; more than 0 and at most a day.
double parse_duration_s(const std::string& option, const std::string& text);

/// "0-7,9": the listed numbers in that order. Descending ranges count down.
std::vector<int> parse_index_list(const std::string& option, const std::string& text);

/// The comma-separated parts of a text, without empty ones.
std::vector<std::string> split_names(const std::string& text);

/// The same of an option's text; empty if the option is absent. A text without any is a Failure.
std::vector<std::string> given_names(const std::string& option, const std::string& text);

/// "; did you mean 'x'?" with the nearest of the candidates, or "" if none is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

/// As the library's parse_operation, with a suggestion.
Operation parse_operation_name(const std::string& option, const std::string& text);

/// Checks a tree's name ("k-nomial:3" included) against topologies() and "dissemination".
void check_topology_name(const std::string& option, const std::string& text);

/// A machine from `file` ("-": standard input), or the cached model of this machine if empty.
/// With `need_costs`, a machine that was never measured is a Failure.
Machine load_model(const std::string& file, bool need_costs = true);

/// The group of "--ranks": os_index list, "all" or empty (every PU), or "cores" (one PU per core).
Group select_group(const Machine& machine, const std::string& ranks);

/// A screen shows only a part of larger groups, unless --all is given.
inline constexpr int most_ranks_shown = 64;

/// What a command is about: a word after its name, as in `smelt plan reduce`, or the value of --op.
struct OperationArgument {
  std::optional<std::string> word, option;

  /// What was given, or `otherwise`. Both, and different, is a Failure.
  std::string text(const std::string& otherwise = "") const;
  /// For errors: "--op", or "operation" for a word.
  std::string source() const { return option ? "--op" : "operation"; }
};

/// The common arguments of plan, simulate and compare.
struct PlanArguments {
  std::string model;
  OperationArgument operation;
  std::string topology = "best";
  std::string ranks;
  std::optional<int> root;
  std::optional<double> search_ms;  ///< default: 1000, for more than many_ranks 250
  bool completion = false;
  bool all = false;
  bool json = false;

  /// The operation of a command that is about one; the default is a broadcast.
  Operation one_operation() const { return parse_operation_name(operation.source(), operation.text("broadcast")); }
  PlanOptions options(const Group& group) const;
};

void add_model_option(Command& command, std::string& model);
/// The word and --op, as every command that is about an operation takes them.
void add_operation(Command& command, OperationArgument& operation, const std::string& type,
                   const std::string& description);
/// Without `one_plan` there is no option for the tree, because the command uses all of them. `other_words`: what the
/// command takes in place of an operation, for its help.
void add_plan_options(Command& command, PlanArguments& arguments, bool one_plan, const std::string& other_words = "");

}  // namespace smelt::cli
