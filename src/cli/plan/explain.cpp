// smelt explain: the recipe of a call, the reason for it, and the alternatives.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/memory/memory.hpp"
#include "cli/parser.hpp"
#include "cli/plan/calls.hpp"
#include "cli/state/maps.hpp"
#include "cli/terminal.hpp"
#include "smelt/profile.hpp"
#include "smelt/schedule.hpp"

namespace smelt::cli {
namespace {

constexpr Access all_access[] = {Access::channels, Access::staged, Access::direct};
/// Simulating every recipe for larger groups would take minutes.
constexpr int most_other_ranks = 64;
/// The recipe alone is simulated some times more, which takes seconds for larger groups.
constexpr int most_effect_ranks = 512;

struct ExplainFlags {
  OperationArgument asked;
  std::string operation, model, profile, sync = "loose";  // the operation as `asked` says
  std::size_t bytes = 0;
  int ranks = 0;
  int late_rank = -1;
  int late_ns = 0;
  bool processes = false;
  bool sized = false;
  bool algorithms = false;
  bool all = false;
  bool json = false;
  std::string file;  ///< of `explain memory`
  ExplainMap map;    ///< `explain map` instead
};

struct Alternative {
  std::string what;
  Group group;
  RankedRecipe best;
  std::optional<ProfileCell> cell{};  ///< of the profile, at about that size
};

/// A term of the model, and how much later the operation is over because of it: less than 0 where it is over earlier.
struct Effect {
  const char* key;
  const char* what;
  double ns;
};

struct Explanation {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  std::size_t bytes = 0;
  bool processes = false;
  Group group;
  std::optional<Profile> profile{};
  Recipe recipe;
  double predicted_ns = 0.0;
  std::string origin;                 ///< "profile" or "model"
  std::optional<ProfileCell> cell{};  ///< of the profile
  double floor_ns = 0.0;
  std::string floor_reason;
  std::vector<RankedRecipe> ranked{};
  std::vector<Alternative> alternatives{};
  std::vector<Effect> effects{};          ///< those that the machine knows and that change something
  std::vector<double> late_ns{};          ///< per rank; empty: all arrive at the same time
  std::optional<RankedRecipe> unaware{};  ///< with a late rank: the recipe if it were not known to be late
};

// ---- computing ------------------------------------------------------------------------------

Reach reach_of(bool processes) { return {.processes = processes}; }

/// For ranks that enter at `start_ns`, on a tree that was planned for `known_ns`.
double predict(const Machine& machine, const Explanation& asked, const Recipe& recipe,
               const std::vector<double>& start_ns, const std::vector<double>& known_ns) {
  const auto request = take(make_request(machine, asked.group, recipe, 0, known_ns));
  return take(simulate(machine, asked.group, request, asked.bytes, 1, reach_of(asked.processes), start_ns)).total_ns;
}

std::vector<RankedRecipe> rank_all(const Machine& machine, const Group& group, const Explanation& asked,
                                   std::size_t bytes, bool processes, const std::vector<double>& late_ns = {}) {
  return take(rank_recipes(machine, group, asked.operation, bytes, all_access, reach_of(processes), 0, late_ns));
}

void find_floor(const Machine& machine, Explanation& found) {
  const auto floor = schedule_floor(machine, found.group, found.operation, found.bytes);
  found.floor_ns = floor.total_ns();
  if (found.floor_ns <= 0.0) return;  // all ranks on one PU, or nothing to do
  const auto moved = format_byte_count(static_cast<std::size_t>(floor.moved_bytes));
  found.floor_reason = floor.work_ns > floor.message_ns
                           ? fmt::format("{} from rank to rank, shared by {} PUs", moved, floor.pus)
                           : "a message that some rank cannot do without";
}

std::optional<Profile> find_profile(const ExplainFlags& arguments, const Machine& machine) {
  if (!arguments.profile.empty()) {
    auto profile = take(load_profile(arguments.profile));
    if (profile.fingerprint != machine.fingerprint) {
      fail("{}: fingerprint: of another machine ('{}', not '{}')", arguments.profile, profile.fingerprint,
           machine.fingerprint);
    }
    return profile;
  }
  if (machine.fingerprint.empty()) return std::nullopt;
  auto read = load_profile(profile_path(machine.fingerprint));
  if (!read && read.error().status != Status::not_found) {
    print_error("explain: " + read.error().message + "; communicators pass over it");
  }
  if (!read || read->fingerprint != machine.fingerprint) return std::nullopt;
  return *std::move(read);
}

std::optional<ProfileCell> find_cell(const Machine& machine, const Explanation& asked, const Group& group,
                                     bool processes) {
  if (!asked.profile) return std::nullopt;
  const auto shape = shape_of(machine, group, processes);
  const auto* cell = asked.profile->find(asked.operation, asked.sync, shape, asked.bytes);
  return cell == nullptr ? std::nullopt : std::optional(*cell);
}

/// Ranks in the order given: neighbours next to each other, or as far apart as possible.
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

/// The worst case without pinning: the operating system puts ranks in pairs on half of the PUs.
Group in_pairs(const Group& group) {
  Group pairs;
  for (int rank = 0; rank < group.size(); ++rank) {
    pairs.pus.push_back(group.pus[static_cast<std::size_t>(rank / 2)]);
  }
  return pairs;
}

void find_alternatives(const Machine& machine, bool own, Explanation& found) {
  const auto sorted = [](const Group& group) { return std::multiset<int>(group.pus.begin(), group.pus.end()); };
  std::set<std::multiset<int>> seen = {sorted(found.group)};
  const auto add = [&](const std::string& what, const Group& group, bool processes) {
    if (group.size() < 2 || group.size() > most_other_ranks) return;
    if (processes == found.processes && !seen.insert(sorted(group)).second) return;
    const auto ranked = rank_all(machine, group, found, found.bytes, processes);
    if (ranked.empty()) return;
    found.alternatives.push_back({what, group, ranked.front(), find_cell(machine, found, group, processes)});
  };
  const int ranks = found.group.size();
  add("next to each other", placed(machine, ranks, true), found.processes);
  add("spread over the L3 caches", placed(machine, ranks, false), found.processes);
  add("on SMT siblings", on_siblings(machine, ranks), found.processes);
  add("two on each PU", in_pairs(found.group), found.processes);
  for (const int other : {ranks / 2, ranks * 2}) {
    if (other >= 2) add(fmt::format("{} ranks", other), group_of(machine, own, other), found.processes);
  }
  add(found.processes ? "as threads of one process" : "as processes", found.group, !found.processes);
}

/// Each term of the model is left out in turn, and the same recipe simulated.
void find_effects(const Machine& machine, Explanation& found) {
  if (found.group.size() > most_effect_ranks) return;
  struct Term {
    const char *key, *what;
    void (*leave_out)(Machine&);
  };
  static constexpr Term terms[] = {
      {"propagation", "messages on their way, while nobody is busy", [](Machine& m) { m.propagation_ns.reset(); }},
      {"send_rows", "sends in a row wait for the lines before them", [](Machine& m) { m.send_gap_ns.reset(); }},
      {"receive_rows", "messages that wait are taken while others arrive",
       [](Machine& m) {
         m.recv_gap_ns.reset();
         m.recv_row_ns.clear();
       }},
      {"exchanges", "two ranks send to each other at once", [](Machine& m) { m.exchange_ns.reset(); }},
      {"calls", "what a call does besides its messages",
       [](Machine& m) {
         m.call_ns.reset();
         m.barrier_call_ns.reset();
       }},
      {"rewrites", "lines that another rank has read are written again",
       [](Machine& m) {
         m.rewrite_share.reset();
         m.combine_rewrite_share.reset();
       }},
      {"contention", "ranks that copy at once slow each other down",
       [](Machine& m) {
         if (!m.copy) return;
         for (auto* factors : {&m.copy->cached_contention, &m.copy->shared_contention, &m.copy->memory_contention}) {
           factors->assign(1, 1.0);
         }
       }},
      {"sources", "a cache hands out to all who read out of it", [](Machine& m) { m.source_ns_per_kib.reset(); }},
      {"pages", "processes that read the same pages of another one wait for each other",
       [](Machine& m) { m.process_pages_ns_per_kib.reset(); }},
      {"switches", "ranks that share a PU take turns", [](Machine& m) { m.switch_ns = m.process_switch_ns = 0.0; }},
  };
  for (const Term& term : terms) {
    Machine without = machine;
    term.leave_out(without);
    const double ns = found.predicted_ns - predict(without, found, found.recipe, found.late_ns, found.late_ns);
    if (std::abs(ns) > 0.001 * found.predicted_ns) found.effects.push_back({term.key, term.what, ns});
  }
}

/// With late ranks a communicator uses the model instead of the profile.
void choose_for_late_rank(const ExplainFlags& arguments, const Machine& machine, Explanation& found) {
  if (arguments.late_rank >= found.group.size()) {
    fail_usage("--late {}: there are ranks 0-{}", arguments.late_rank, found.group.size() - 1);
  }
  const auto unaware = found.recipe;
  found.late_ns.assign(static_cast<std::size_t>(found.group.size()), 0.0);
  found.late_ns[static_cast<std::size_t>(arguments.late_rank)] = arguments.late_ns;
  found.unaware = {unaware, predict(machine, found, unaware, found.late_ns, {})};
  found.cell.reset();
  found.origin = "model";
  const auto size = model_size(found.bytes);
  found.recipe = rank_all(machine, found.group, found, size, found.processes, found.late_ns).front().recipe;
  found.ranked = rank_all(machine, found.group, found, found.bytes, found.processes, found.late_ns);
}

Explanation explain(const ExplainFlags& arguments, const Machine& machine) {
  Explanation found;
  found.operation = parse_tunable_operation("explain", arguments.operation);
  found.sync = parse_sync("--sync", arguments.sync);
  found.bytes = arguments.bytes;
  found.processes = arguments.processes;
  found.group = group_of(machine, arguments.model.empty(), arguments.ranks);
  found.ranked = rank_all(machine, found.group, found, found.bytes, found.processes);
  if (found.ranked.empty()) fail("nothing fits {} ranks", found.group.size());
  found.profile = find_profile(arguments, machine);
  found.cell = find_cell(machine, found, found.group, found.processes);
  found.origin = found.cell ? "profile" : "model";
  const auto size = model_size(found.bytes);
  found.recipe = found.cell            ? found.cell->recipe
                 : size == found.bytes ? found.ranked.front().recipe
                                       : rank_all(machine, found.group, found, size, found.processes).front().recipe;
  if (arguments.late_rank >= 0) choose_for_late_rank(arguments, machine, found);
  const auto ranked = std::find_if(found.ranked.begin(), found.ranked.end(),
                                   [&](const RankedRecipe& each) { return each.recipe == found.recipe; });
  found.predicted_ns = ranked != found.ranked.end()
                           ? ranked->predicted_ns
                           : predict(machine, found, found.recipe, found.late_ns, found.late_ns);
  find_floor(machine, found);
  find_effects(machine, found);
  if (found.late_ns.empty()) find_alternatives(machine, arguments.model.empty(), found);
  return found;
}

/// The best alternative by the model.
const RankedRecipe* predicted_runner_up(const Machine& machine, const Explanation& found) {
  if (found.group.size() > most_effect_ranks) {  // planning trees again would take as long as everything else
    const auto next = std::find_if(found.ranked.begin(), found.ranked.end(),
                                   [&](const RankedRecipe& each) { return each.recipe != found.recipe; });
    return next == found.ranked.end() ? nullptr : &*next;
  }
  const auto own = take(make_request(machine, found.group, found.recipe, 0, found.late_ns));
  for (const auto& each : found.ranked) {
    const auto request = take(make_request(machine, found.group, each.recipe, 0, found.late_ns));
    if (!same_schedule(own, request, found.bytes, reach_of(found.processes))) return &each;
  }
  return nullptr;
}

// ---- output ---------------------------------------------------------------------------------

std::string description_of(const std::string& algorithm) {
  for (const auto& info : algorithms()) {
    if (info.name == algorithm) return info.description;
  }
  return "";
}

void print_choice(const Machine& machine, const Explanation& found) {
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
  } else if (const auto* next = predicted_runner_up(machine, found)) {
    line("runner-up", fmt::format("{}  {}, predicted", to_string(next->recipe),
                                  loss_text(next->predicted_ns, found.predicted_ns, false)));
  }
  if (found.unaware) {
    const double late = *std::max_element(found.late_ns.begin(), found.late_ns.end());
    line("late", fmt::format("{} after the last rank's entry; {} by {}, planned without knowing it",
                             format_time(found.predicted_ns - late), format_time(found.unaware->predicted_ns - late),
                             to_string(found.unaware->recipe)));
  }
}

void print_explanation(const Machine& machine, const Explanation& found, bool all) {
  print(fmt::format("{} of {}, {}  {} {} on {}\n\n", styled(Style::title, to_string(found.operation)),
                    format_byte_count(found.bytes), to_string(found.sync), found.group.size(),
                    found.processes ? "processes" : "ranks", one_line(machine.name)));
  print_choice(machine, found);
  if (!found.alternatives.empty()) {
    print("\nOther ranks: predicted, and measured where the profile has them\n");
    Table table("lrrll");
    for (const auto& each : found.alternatives) {
      const bool measured = each.cell && each.cell->measured_ns > 0.0;
      table.row({each.what,
                 format_time(each.best.predicted_ns),
                 loss_text(each.best.predicted_ns, found.predicted_ns, false),
                 measured ? fmt::format("{} at {}", format_time(each.cell->measured_ns),
                                        format_byte_count(each.cell->from_bytes))
                          : std::string(),
                 {to_string(each.cell ? each.cell->recipe : each.best.recipe), Style::faint}});
    }
    print(table.text());
  }
  if (!found.effects.empty()) {
    print("\nOf the prediction: what each effect adds, or spares\n");
    Table table("rl");
    for (const auto& each : found.effects) {
      table.row({fmt::format("{}{}", each.ns < 0 ? "-" : "+", format_time(std::abs(each.ns))), each.what});
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
                   {"processes", found.processes},
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
  } else if (const auto* next = predicted_runner_up(machine, found)) {
    document["runner_up"] = to_string(next->recipe);
    document["runner_up_ns"] = next->predicted_ns;
  }
  if (found.unaware) {
    document["late_ns"] = found.late_ns;
    document["unaware"] = ranked_document(*found.unaware);
  }
  document["effects"] = Json::object();
  for (const auto& each : found.effects) document["effects"][each.key] = each.ns;
  document["machine"] = machine_identity(machine);
  document["candidates"] = Json::array();
  for (const auto& each : found.ranked) document["candidates"].push_back(ranked_document(each));
  document["alternatives"] = Json::array();
  for (const auto& each : found.alternatives) {
    Json entry = ranked_document(each.best);
    entry["what"] = each.what;
    const bool measured = each.cell && each.cell->measured_ns > 0.0;
    entry["measured_ns"] = measured ? Json(each.cell->measured_ns) : Json();
    entry["measured_bytes"] = measured ? Json(each.cell->from_bytes) : Json();
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

void run(const ExplainFlags& arguments) {
  if (arguments.algorithms) {
    if (!arguments.operation.empty()) fail_usage("--algorithms lists all of them: leave out {}", arguments.operation);
    return print_algorithms(arguments.json);
  }
  if (arguments.operation.empty())
    fail_usage("explain what? Name an operation, such as `smelt explain allreduce --bytes 8192`");
  parse_tunable_operation("explain", arguments.operation);
  parse_sync("--sync", arguments.sync);
  if (!arguments.sized) fail_usage("--bytes: say how much, such as --bytes 8192 or --bytes 1MiB");
  if ((arguments.late_rank >= 0) != (arguments.late_ns > 0)) fail_usage("--late and --late-ns go together");
  const Machine machine = load_model(arguments.model);
  const Explanation found = explain(arguments, machine);
  arguments.json ? print_document(machine, found) : print_explanation(machine, found, arguments.all);
}

void check_options(const Command& command, bool map) {
  static const std::vector<std::string> of_collectives = {"--late", "--late-ns",    "--processes", "--sync",
                                                          "--all",  "--algorithms", "--profile"};
  std::vector<std::string> of_maps = {"--lookups"};
  of_maps.insert(of_maps.end(), map_options().begin(), map_options().end());
  for (const auto& option : map ? of_collectives : of_maps) {
    if (command.given(option)) fail_usage("{}: {}", option, map ? "not of a map" : "only of a map");
  }
}

void run_memory(const ExplainFlags& arguments, const Command& command) {
  for (const char* option : {"--bytes", "--ranks", "--late", "--late-ns", "--processes", "--sync", "--profile",
                             "--lookups", "--all", "--algorithms"}) {
    if (command.given(option)) fail_usage("{}: not of memory", option);
  }
  explain_memory({arguments.file, arguments.model, arguments.json});
}

void run_map(const ExplainFlags& arguments) {
  ExplainMap map = arguments.map;
  map.model = arguments.model;
  map.ranks = arguments.ranks;
  map.json = arguments.json;
  if (arguments.sized) map.value_bytes = arguments.bytes;
  explain_map(map);
}

}  // namespace

void add_explain(Parser& parser) {
  auto arguments = std::make_shared<ExplainFlags>();
  Command command = parser.add(
      "explain", "Explain which algorithm a collective uses, which map to choose, or where arrays should lie");
  add_operation(command, arguments->asked, "OPERATION",
                "map, memory, or a collective: broadcast, reduce, allreduce, scatter, gather, ...");
  command.text("file", arguments->file, "FILE", "explain memory: arrays and their use, JSON");
  command.value(
      "--bytes", "SIZE",
      [arguments](const std::string& text) {
        arguments->bytes = parse_byte_count("--bytes", text);
        arguments->sized = true;
      },
      "of the vector, or of each rank's block: 8192, 64K, 16MiB; of a map's value (default 16)");
  command.integer("--ranks", arguments->ranks, 2, 4096, "number of ranks (default one per core)");
  command.integer("--late", arguments->late_rank, 0, 4095, "this rank is known to enter later than the others");
  command.integer("--late-ns", arguments->late_ns, 0, 1'000'000'000, "delay of the late rank in nanoseconds");
  command.flag("--processes", arguments->processes, "the ranks are processes that may read each other's memory");
  command.text("--sync", arguments->sync, "NAME", "loose|strict (default loose)");
  add_model_option(command, arguments->model);
  command.text("--profile", arguments->profile, "FILE", "profile of smelt tune; default: the one beside the model");
  command.number("--lookups", arguments->map.lookups, 0, 1, "maps: share of lookups (default 0.9)");
  add_map_options(command, arguments->map.map);
  command.flag("--all", arguments->all, "list all candidates");
  command.flag("--algorithms", arguments->algorithms, "list all algorithms, and nothing else");
  command.flag("--json", arguments->json, "print JSON, with all candidates");
  command.footer(
      "Examples:\n"
      "  smelt explain allreduce --bytes 8192               this machine, one rank per core\n"
      "  smelt explain broadcast --bytes 1MiB --all         with all candidates\n"
      "  smelt explain alltoall --bytes 64 -m epyc.json     for another machine\n"
      "  smelt explain map --lookups 0.99 --keys 1e6        which concurrent map is the fastest\n"
      "  smelt explain memory arrays.json -m epyc.json      where arrays should lie\n"
      "  smelt explain --algorithms\n");
  command.action([arguments, command] {
    arguments->operation = arguments->asked.text();
    if (arguments->operation == "memory") return run_memory(*arguments, command);
    if (!arguments->file.empty()) fail_usage("{}: only `explain memory` takes a file", arguments->file);
    const bool map = arguments->operation == "map";
    check_options(command, map);
    map ? run_map(*arguments) : run(*arguments);
  });
}

}  // namespace smelt::cli
