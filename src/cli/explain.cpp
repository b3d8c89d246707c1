// smelt explain: what a call would run, why, and what else there is.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "cli/arguments.hpp"
#include "cli/calls.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "smelt/profile.hpp"
#include "smelt/schedule.hpp"

namespace smelt::cli {
namespace {

constexpr Access thread_access[] = {Access::channels, Access::staged, Access::direct};
/// Simulating every recipe for larger groups would take minutes.
constexpr int most_other_ranks = 64;

struct Arguments {
  std::string operation, model, profile, sync = "loose";
  std::size_t bytes = 0;
  int ranks = 0;
  bool sized = false;
  bool algorithms = false;
  bool all = false;
  bool json = false;
};

struct Alternative {
  std::string what;
  Group group;
  RankedRecipe best;
};

struct Explanation {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  std::size_t bytes = 0;
  Group group;
  Recipe recipe;
  double predicted_ns = 0.0;
  std::string origin;                 ///< "profile" or "model"
  std::optional<ProfileCell> cell{};  ///< of the profile
  double floor_ns = 0.0;
  std::string floor_reason;
  std::vector<RankedRecipe> ranked{};
  std::vector<Alternative> alternatives{};
};

// ---- finding out ----------------------------------------------------------------------------

double predict(const Machine& machine, const Group& group, const Recipe& recipe, std::size_t bytes) {
  const auto request = take(make_request(machine, group, recipe));
  return take(simulate(machine, group, request, bytes)).total_ns;
}

/// Bytes that some rank must at least take in from others.
double bytes_to_take(Operation operation, std::size_t bytes, int ranks) {
  switch (operation) {
    case Operation::gather:
    case Operation::allgather:
    case Operation::alltoall:
      return static_cast<double>(bytes) * (ranks - 1);
    default:
      return static_cast<double>(bytes);
  }
}

/// No algorithm is faster by the model: some rank needs a message of the nearest other, and that rank must take in
/// what only others have at the rate at which it copies from the nearest, with nobody else copying.
void find_floor(const Machine& machine, Explanation& found) {
  if (found.group.size() < 2) return;
  const double needed = bytes_to_take(found.operation, found.bytes, found.group.size());
  double message = -1.0, copy = -1.0;
  for (const int from : found.group.pus) {
    for (const int to : found.group.pus) {
      const auto i = static_cast<std::size_t>(from), j = static_cast<std::size_t>(to);
      if (from == to) continue;
      const double way = machine.propagation_ns ? (*machine.propagation_ns)(i, j) : 0.0;
      const double one = machine.send_ns(i, j) + way + machine.recv_ns(i, j);
      const double all = copy_ns(machine, i, j, needed);
      message = message < 0.0 ? one : std::min(message, one);
      copy = copy < 0.0 ? all : std::min(copy, all);
    }
  }
  if (message < 0.0) return;  // all ranks on one PU
  found.floor_ns = std::max(message, copy);
  found.floor_reason = copy > message ? fmt::format("{} copied once from the nearest rank",
                                                    format_byte_count(static_cast<std::size_t>(needed)))
                                      : "one message between the nearest two ranks";
}

std::optional<ProfileCell> find_cell(const Arguments& arguments, const Machine& machine, const Explanation& asked) {
  Profile profile;
  if (!arguments.profile.empty()) {
    profile = take(load_profile(arguments.profile));
    if (profile.fingerprint != machine.fingerprint) {
      fail("{}: fingerprint: of another machine ('{}', not '{}')", arguments.profile, profile.fingerprint,
           machine.fingerprint);
    }
  } else {
    if (machine.fingerprint.empty()) return std::nullopt;
    const auto file = profile_path(machine.fingerprint);
    auto read = load_profile(file);
    if (!read && read.error().status != Status::not_found) {
      print_error("explain: " + read.error().message + "; communicators pass over it");
    }
    if (!read || read->fingerprint != machine.fingerprint) return std::nullopt;
    profile = *std::move(read);
  }
  const auto* cell = profile.find(asked.operation, asked.sync, shape_of(machine, asked.group, false), asked.bytes);
  return cell == nullptr ? std::nullopt : std::optional(*cell);
}

/// Ranks in the order given: next to each other, or as far apart as can be.
Group placed(const Machine& machine, int ranks, bool together) {
  std::map<int, std::vector<int>> by_cache;  // cores' first PUs, by L3
  std::set<int> cores;
  for (std::size_t i = 0; i < machine.size(); ++i) {
    if (cores.insert(machine.pus[i].core).second) by_cache[machine.pus[i].l3].push_back(static_cast<int>(i));
  }
  Group group;
  if (together) {
    for (const auto& [cache, pus] : by_cache) group.pus.insert(group.pus.end(), pus.begin(), pus.end());
  } else {
    for (std::size_t k = 0; group.pus.size() < cores.size(); ++k) {
      for (const auto& [cache, pus] : by_cache) {
        if (k < pus.size()) group.pus.push_back(pus[k]);
      }
    }
  }
  if (static_cast<std::size_t>(ranks) > group.pus.size()) return {};
  group.pus.resize(static_cast<std::size_t>(ranks));
  return group;
}

/// SMT siblings in pairs.
Group on_siblings(const Machine& machine, int ranks) {
  std::map<int, std::vector<int>> by_core;
  for (std::size_t i = 0; i < machine.size(); ++i) by_core[machine.pus[i].core].push_back(static_cast<int>(i));
  Group group;
  for (const auto& [core, pus] : by_core) {
    if (pus.size() > 1) group.pus.insert(group.pus.end(), pus.begin(), pus.end());
  }
  if (static_cast<std::size_t>(ranks) > group.pus.size()) return {};
  group.pus.resize(static_cast<std::size_t>(ranks));
  return group;
}

void find_alternatives(const Machine& machine, Explanation& found) {
  const auto as_set = [](const Group& group) { return std::set<int>(group.pus.begin(), group.pus.end()); };
  std::set<std::set<int>> seen = {as_set(found.group)};
  const auto add = [&](const std::string& what, const Group& group) {
    if (group.size() < 2 || group.size() > most_other_ranks || !seen.insert(as_set(group)).second) return;
    auto ranked = take(rank_recipes(machine, group, found.operation, found.bytes, thread_access));
    if (!ranked.empty()) found.alternatives.push_back({what, group, ranked.front()});
  };
  const int ranks = found.group.size();
  add("next to each other", placed(machine, ranks, true));
  add("spread over the L3 caches", placed(machine, ranks, false));
  add("on SMT siblings", on_siblings(machine, ranks));
  for (const int other : {ranks / 2, ranks * 2}) {
    if (other >= 2 && static_cast<std::size_t>(other) <= machine.size()) {
      add(fmt::format("{} ranks", other), group_of(machine, false, other));
    }
  }
}

Explanation explain(const Arguments& arguments, const Machine& machine) {
  Explanation found;
  found.operation = parse_tunable_operation("explain", arguments.operation);
  found.sync = parse_sync("--sync", arguments.sync);
  found.bytes = arguments.bytes;
  found.group = group_of(machine, arguments.model.empty(), arguments.ranks);
  found.ranked = take(rank_recipes(machine, found.group, found.operation, found.bytes, thread_access));
  if (found.ranked.empty()) fail("nothing fits {} ranks", found.group.size());
  found.cell = find_cell(arguments, machine, found);
  if (found.cell) {
    found.origin = "profile";
    found.recipe = found.cell->recipe;
  } else {
    found.origin = "model";
    const auto size = model_size(found.bytes);
    found.recipe = take(rank_recipes(machine, found.group, found.operation, size, thread_access)).front().recipe;
  }
  found.predicted_ns = predict(machine, found.group, found.recipe, found.bytes);
  find_floor(machine, found);
  find_alternatives(machine, found);
  return found;
}

/// The best other one by the model.
const RankedRecipe* predicted_runner_up(const Explanation& found) {
  for (const auto& each : found.ranked) {
    if (!(each.recipe == found.recipe)) return &each;
  }
  return nullptr;
}

// ---- telling --------------------------------------------------------------------------------

std::string description_of(const std::string& algorithm) {
  for (const auto& info : algorithms()) {
    if (info.name == algorithm) return info.description;
  }
  return "";
}

void print_choice(const Explanation& found) {
  const auto line = [](const std::string& name, const std::string& text) {
    print(fmt::format("  {}  {}\n", styled(Style::strong, pad_right(name, 10)), text));
  };
  line("runs", fmt::format("{}  ({})", styled(Style::accent, to_string(found.recipe)),
                           found.cell && found.cell->measured_ns > 0.0 ? "raced by smelt tune"
                           : found.cell                                ? "in the profile, by the model"
                                        : "the model's choice; smelt tune has not raced it"));
  line("", description_of(found.recipe.algorithm));
  line("predicted", format_time(found.predicted_ns));
  if (found.cell && found.cell->measured_ns > 0.0) {
    line("measured", fmt::format("{} at {}, spread {:.0f} %", format_time(found.cell->measured_ns),
                                 format_byte_count(found.cell->from_bytes), 100.0 * found.cell->spread));
  } else {
    line("measured", "not yet");
  }
  if (found.floor_ns > 0.0) {
    line("floor", fmt::format("{}: {}; predicted is {:.1f} times that", format_time(found.floor_ns), found.floor_reason,
                              found.predicted_ns / found.floor_ns));
  }
  if (found.cell && !found.cell->runner_up.empty()) {
    line("runner-up", fmt::format("{}  {}, measured", found.cell->runner_up,
                                  loss_text(found.cell->runner_up_ns, found.cell->measured_ns, found.cell->equal)));
  } else if (const auto* next = predicted_runner_up(found)) {
    line("runner-up", fmt::format("{}  {}, predicted", to_string(next->recipe),
                                  loss_text(next->predicted_ns, found.predicted_ns, false)));
  }
}

void print_explanation(const Machine& machine, const Explanation& found, bool all) {
  print(fmt::format("{} of {}, {}  {} ranks on {}\n\n", styled(Style::title, to_string(found.operation)),
                    format_byte_count(found.bytes), to_string(found.sync), found.group.size(), machine.name));
  print_choice(found);
  if (!found.alternatives.empty()) {
    print("\nOther ranks, by the model\n");
    Table table("lrrl");
    for (const auto& each : found.alternatives) {
      table.row({each.what,
                 format_time(each.best.predicted_ns),
                 loss_text(each.best.predicted_ns, found.predicted_ns, false),
                 {to_string(each.best.recipe), Style::faint}});
    }
    print(table.text());
  }
  if (!all) return;
  print("\nAll candidates, by the model\n");
  Table table("lrr");
  for (const auto& each : found.ranked) {
    const bool own = each.recipe == found.recipe;
    table.row({{to_string(each.recipe), own ? Style::accent : Style::plain},
               format_time(each.predicted_ns),
               {loss_text(each.predicted_ns, found.ranked.front().predicted_ns, false), Style::faint}});
  }
  print(table.text());
}

Json ranked_document(const RankedRecipe& each) {
  return {{"recipe", to_string(each.recipe)}, {"predicted_ns", each.predicted_ns}};
}

void print_document(const Machine& machine, const Explanation& found) {
  Json document = {{"operation", to_string(found.operation)},
                   {"bytes", found.bytes},
                   {"sync", to_string(found.sync)},
                   {"ranks", found.group.size()},
                   {"pus", os_indices(machine, found.group)},
                   {"recipe", to_string(found.recipe)},
                   {"from", found.origin},
                   {"predicted_ns", found.predicted_ns},
                   {"measured_ns", nullptr},
                   {"measured_bytes", nullptr},
                   {"floor_ns", found.floor_ns > 0.0 ? Json(found.floor_ns) : Json()},
                   {"floor", found.floor_reason},
                   {"runner_up", nullptr},
                   {"runner_up_ns", nullptr},
                   {"equal", false}};
  if (found.cell && found.cell->measured_ns > 0.0) {
    document["measured_ns"] = found.cell->measured_ns;
    document["measured_bytes"] = found.cell->from_bytes;
  }
  if (found.cell && !found.cell->runner_up.empty()) {
    document["runner_up"] = found.cell->runner_up;
    document["runner_up_ns"] = found.cell->runner_up_ns;
    document["equal"] = found.cell->equal;
  } else if (const auto* next = predicted_runner_up(found)) {
    document["runner_up"] = to_string(next->recipe);
    document["runner_up_ns"] = next->predicted_ns;
  }
  document["machine"] = machine_identity(machine);
  document["candidates"] = Json::array();
  for (const auto& each : found.ranked) document["candidates"].push_back(ranked_document(each));
  document["alternatives"] = Json::array();
  for (const auto& each : found.alternatives) {
    Json entry = ranked_document(each.best);
    entry["what"] = each.what;
    entry["pus"] = os_indices(machine, each.group);
    document["alternatives"].push_back(entry);
  }
  print(format_json(document));
}

void print_algorithms(bool json) {
  Json list = Json::array();
  Table table("lll");
  for (const auto& info : algorithms()) {
    std::vector<std::string> access;
    for (const auto each : info.access) access.push_back(to_string(each));
    table.row(
        {{info.name, Style::strong}, {fmt::format("{}", fmt::join(access, " ")), Style::faint}, info.description});
    list.push_back({{"name", info.name},
                    {"operation", to_string(info.operation)},
                    {"description", info.description},
                    {"access", access},
                    {"keeps_rank_order", info.keeps_rank_order},
                    {"canonical_order", info.canonical_order},
                    {"power_of_two", info.power_of_two},
                    {"tree", info.uses_tree},
                    {"pipelined", info.pipelined}});
  }
  print(json ? format_json({{"algorithms", list}}) : table.text());
}

void run(const Arguments& arguments) {
  if (arguments.algorithms) {
    if (!arguments.operation.empty()) fail_usage("--algorithms lists all of them: leave out {}", arguments.operation);
    return print_algorithms(arguments.json);
  }
  if (arguments.operation.empty())
    fail_usage("explain what? Name an operation, such as `smelt explain allreduce --bytes 8192`");
  parse_tunable_operation("explain", arguments.operation);
  parse_sync("--sync", arguments.sync);
  if (!arguments.sized) fail_usage("--bytes: say how much, such as --bytes 8192 or --bytes 1MiB");
  const Machine machine = load_model(arguments.model);
  const Explanation found = explain(arguments, machine);
  arguments.json ? print_document(machine, found) : print_explanation(machine, found, arguments.all);
}

}  // namespace

void add_explain(Parser& parser) {
  auto arguments = std::make_shared<Arguments>();
  Command command = parser.add("explain", "Say what a collective runs, and why");
  command.text("operation", arguments->operation, "OPERATION",
               "broadcast|reduce|allreduce|scatter|gather|allgather|alltoall|reduce-scatter|scan|exscan");
  command.value(
      "--bytes", "SIZE",
      [arguments](const std::string& text) {
        arguments->bytes = parse_byte_count("--bytes", text);
        arguments->sized = true;
      },
      "of the vector, or of each rank's block: 8192, 64K, 16MiB");
  command.integer("--ranks", arguments->ranks, 2, 4096, "how many ranks (default one per core)");
  command.text("--sync", arguments->sync, "NAME", "loose|strict (default loose)");
  add_model_option(command, arguments->model);
  command.text("--profile", arguments->profile, "FILE", "profile of smelt tune; default: the one beside the model");
  command.flag("--all", arguments->all, "list all candidates");
  command.flag("--algorithms", arguments->algorithms, "list all algorithms, and nothing else");
  command.flag("--json", arguments->json, "print JSON, with all candidates");
  command.footer(
      "Examples:\n"
      "  smelt explain allreduce --bytes 8192               this machine, one rank per core\n"
      "  smelt explain broadcast --bytes 1MiB --all         with all that was considered\n"
      "  smelt explain alltoall --bytes 64 -m epyc.json     a machine that is not here\n"
      "  smelt explain --algorithms\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
