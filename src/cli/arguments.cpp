#include "cli/arguments.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <set>

#include "cli/command.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr int many_ranks =
    512;  // beyond this, searching for a second finds little more than searching for a quarter of one

constexpr int max_list_length = 65536;  // for "--ranks": a typing error must not fill the memory

std::optional<double> read_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || std::isspace(static_cast<unsigned char>(text[0])) || *end != '\0' || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int> read_integer(std::string_view text) {
  if (text.empty() || text.size() > 9) return std::nullopt;
  int value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + (digit - '0');
  }
  return value;
}

// The number of edits (insert, delete, replace, swap of neighbours) from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

Machine load_own_model() {
  auto machine = load_cached_machine();
  if (machine) return *std::move(machine);
  if (machine.error().status == Status::not_found) {
    fail("no measured model of this machine: run `smelt measure`, or name a model with -m FILE");
  }
  fail("{}", machine.error().message);
}

}  // namespace

double parse_number(const std::string& option, const std::string& text, double low, double high) {
  const auto value = read_number(text);
  if (!value) fail_usage("{} {}: not a number", option, text);
  if (*value < low || *value > high) fail_usage("{} {}: must be between {} and {}", option, text, low, high);
  return *value;
}

int parse_integer(const std::string& option, const std::string& text, int low, int high) {
  const bool negative = !text.empty() && text[0] == '-';
  const auto value = read_integer(std::string_view(text).substr(negative ? 1 : 0));
  if (!value) fail_usage("{} {}: not a whole number between {} and {}", option, text, low, high);
  const int number = negative ? -*value : *value;
  if (number < low || number > high) fail_usage("{} {}: must be between {} and {}", option, text, low, high);
  return number;
}

double parse_duration_s(const std::string& option, const std::string& text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit units[] = {{"ms", 1e-3}, {"us", 1e-6}, {"min", 60}, {"s", 1}, {"m", 60}, {"h", 3600}};
  std::string number = text;
  double scale = 1.0;
  for (const auto& unit : units) {
    if (!number.ends_with(unit.name)) continue;
    number.resize(number.size() - unit.name.size());
    scale = unit.seconds;
    break;
  }
  const auto value = read_number(number);
  if (!value) fail_usage("{} {}: not a duration, such as 30s, 500ms, 2m or plain seconds", option, text);
  const double seconds = *value * scale;
  if (!(seconds > 0.0) || seconds > 86400.0) fail_usage("{} {}: must be more than 0 and at most 24h", option, text);
  return seconds;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::vector<int> parse_index_list(const std::string& option, const std::string& text) {
  std::vector<int> list;
  for (const auto& part : split_names(text)) {
    const auto dash = part.find('-');
    const auto first = read_integer(std::string_view(part).substr(0, dash));
    const auto last = dash == std::string::npos ? first : read_integer(std::string_view(part).substr(dash + 1));
    if (!first || !last) fail_usage("{} {}: '{}' is neither a number nor a range such as 0-7", option, text, part);
    if (std::abs(*last - *first) >= max_list_length || list.size() > max_list_length) {
      fail_usage("{} {}: more than {} numbers", option, text, max_list_length);
    }
    const int step = *last < *first ? -1 : 1;
    for (int value = *first; value != *last + step; value += step) list.push_back(value);
  }
  if (list.empty()) fail_usage("{} '{}': empty; give numbers and ranges such as 0-7,9", option, text);
  return list;
}

std::vector<std::string> given_names(const std::string& option, const std::string& text) {
  auto names = split_names(text);
  if (names.empty() && !text.empty()) fail_usage("{} '{}': empty; name at least one, or leave it out", option, text);
  return names;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string* nearest = nullptr;
  std::size_t least = name.size() / 3 + 2;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name.substr(0, 64), candidate);
    const bool starts_so = name.size() >= 2 && candidate.starts_with(name);
    const std::size_t score = starts_so ? std::min<std::size_t>(distance, 1) : distance;
    if (score >= least || score >= candidate.size()) continue;
    least = score;
    nearest = &candidate;
  }
  return nearest != nullptr ? fmt::format("; did you mean '{}'?", *nearest) : "";
}

Operation parse_operation_name(const std::string& option, const std::string& text) {
  auto operation = parse_operation(text);
  if (operation) return *operation;
  static const std::vector<std::string> names = {"broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"};
  fail_usage("{} {}: no such operation{} (one of {})", option, text, suggestion(text, names), fmt::join(names, ", "));
}

void check_topology_name(const std::string& option, const std::string& text) {
  std::vector<std::string> names;
  for (const auto& topology : topologies()) names.push_back(topology.name);
  if (std::find(names.begin(), names.end(), "dissemination") == names.end()) names.push_back("dissemination");
  if (std::find(names.begin(), names.end(), text.substr(0, text.find(':'))) != names.end()) return;
  fail_usage("{} {}: no such tree{} (one of {})", option, text, suggestion(text, names), fmt::join(names, ", "));
}

Machine load_model(const std::string& file, bool need_costs) {
  Machine machine = file == "-"    ? take(load_machine(STDIN_FILENO, "standard input"))
                    : file.empty() ? load_own_model()
                                   : take(load_machine(file));
  if (need_costs && !machine.has_costs()) {
    fail("{}: holds no measured costs: run `smelt measure` on that machine", file.empty() ? "the cached model" : file);
  }
  return machine;
}

Group select_group(const Machine& machine, const std::string& ranks) {
  if (ranks.empty() || ranks == "all") return whole_machine(machine);
  Group group;
  std::set<int> taken;
  if (ranks == "cores") {
    for (std::size_t i = 0; i < machine.size(); ++i) {
      if (taken.insert(machine.pus[i].core).second) group.pus.push_back(static_cast<int>(i));
    }
    return group;
  }
  for (const int os_index : parse_index_list("--ranks", ranks)) {
    const int pu = machine.index_of(os_index);
    if (pu < 0) {
      std::vector<int> known;
      for (const auto& each : machine.pus) known.push_back(each.os_index);
      fail_usage("--ranks {}: PU {} is not in the machine '{}', which has {}", ranks, os_index, machine.name,
                 index_ranges(known));
    }
    if (!taken.insert(pu).second) fail_usage("--ranks {}: PU {} is named twice; one rank per PU", ranks, os_index);
    group.pus.push_back(pu);
  }
  return group;
}

std::string OperationArgument::text(const std::string& otherwise) const {
  if (word && option && *word != *option) fail_usage("--op {}: the operation is {} already; name one", *option, *word);
  return option ? *option : word.value_or(otherwise);
}

PlanOptions PlanArguments::options(const Group& group) const {
  PlanOptions options;
  check_topology_name("--topology", topology);
  if (root && (*root < 0 || *root >= group.size())) {
    fail_usage("--root {}: out of range; the group has ranks 0 to {}", *root, group.size() - 1);
  }
  options.topology = topology;
  options.root = root;
  options.search_ms = search_ms.value_or(group.size() > many_ranks ? 250.0 : 1000.0);
  options.completion = completion;
  return options;
}

void add_model_option(Command& command, std::string& model) {
  command.text("-m,--model", model, "MODEL", "machine file, - for standard input; default: this machine, measured");
}

void add_operation(Command& command, OperationArgument& operation, const std::string& type,
                   const std::string& description) {
  command.value(
      "operation", type, [&operation](const std::string& text) { operation.word = text; }, description);
  command.value(
      "--op", type, [&operation](const std::string& text) { operation.option = text; }, "the same, given as an option");
}

void add_plan_options(Command& command, PlanArguments& arguments, bool one_plan, const std::string& other_words) {
  add_model_option(command, arguments.model);
  const std::string operations = "broadcast|reduce|barrier|allreduce|two-phase-commit";
  add_operation(command, arguments.operation, one_plan ? "OPERATION" : "OPERATIONS",
                operations + (one_plan ? " (default broadcast)" : " (default all)") + other_words);
  if (one_plan) {
    command.text("--topology", arguments.topology, "NAME", "the tree, such as best, binary, k-nomial:3 (default best)");
  }
  command.text("--ranks", arguments.ranks, "LIST",
               "PUs (OS numbers) in rank order, such as 0-7,9; or cores; or all (default all)");
  command.value(
      "--root", "RANK",
      [&arguments](const std::string& text) { arguments.root = parse_integer("--root", text, 0, max_list_length); },
      "root rank (default: the planner's choice)");
  command.value(
      "--search-ms", "NUMBER",
      [&arguments](const std::string& text) { arguments.search_ms = parse_number("--search-ms", text, 0, 3.6e6); },
      "ms to search; 0: best does not, optimal has no limit (default 1000; 250 over 512 ranks)");
  command.flag("--completion", arguments.completion, "add the completion message of the published measurements");
  command.flag("--json", arguments.json, "print JSON");
  command.flag("--all", arguments.all, "print all ranks, even if there are more than 64");
}

}  // namespace smelt::cli
