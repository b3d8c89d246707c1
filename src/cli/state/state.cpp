// smelt state: the maps that processes of this user share, and the logs that were kept.
#include <memory>
#include <optional>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "smelt/map.hpp"
#include "smelt/replicated_log.hpp"

namespace smelt::cli {
namespace {

struct StateFlags {
  std::string name, kind;
  bool json = false;
};

Json document(const MapState& map) {
  return {{"name", map.name},
          {"kind", "map"},
          {"kept", map.kept},
          {"strings", map.strings},
          {"key_bytes", map.key_bytes},
          {"value_bytes", map.value_bytes},
          {"keys", map.keys},
          {"buckets", map.buckets},
          {"overflow_buckets", map.overflow_buckets},
          {"longest_chain", map.longest_chain},
          {"memory_bytes", map.memory_bytes},
          {"growing", map.growing},
          {"takeovers", map.takeovers},
          {"refused", map.refused},
          {"processes", map.processes}};
}

Json document(const MapGroupState& map) {
  return {{"name", map.name},
          {"kind", "map over ranks"},
          {"kept", false},
          {"algorithm", map.algorithm},
          {"ranks", map.ranks},
          {"strings", map.strings},
          {"key_bytes", map.key_bytes},
          {"value_bytes", map.value_bytes},
          {"processes", map.processes}};
}

Json document(const LogState& log) {
  return {{"name", log.name},
          {"kind", "log"},
          {"kept", true},
          {"ranks", log.ranks},
          {"replicas", log.replicas},
          {"entries", log.entries},
          {"requests", log.requests},
          {"command_bytes", log.command_bytes},
          {"epoch", log.epoch},
          {"leader", log.leader < 0 ? Json() : Json(log.leader)},
          {"appended", log.appended},
          {"saved", log.saved},
          {"state_bytes", log.state_bytes},
          {"memory_bytes", log.memory_bytes},
          {"processes", log.processes}};
}

std::string mebibytes(std::size_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

template <class Processes>
std::string processes_text(const Processes& processes) {
  std::string text;
  for (const auto process : processes) text += fmt::format(" {}", process);
  return text.empty() ? " none" : text;
}

template <class State>
std::string types_text(const State& map) {
  return map.strings ? "strings" : fmt::format("{} -> {} bytes", map.key_bytes, map.value_bytes);
}

std::string commands_text(const LogState& log) { return fmt::format("commands of up to {} bytes", log.command_bytes); }

void list(const StateFlags& flags) {
  const auto maps = take(list_maps());
  const auto logs = take(list_logs());
  const auto groups = list_map_groups();
  if (flags.json) {
    Json all_maps = Json::array(), all_logs = Json::array();
    for (const auto& map : maps) all_maps.push_back(document(map));
    for (const auto& group : groups) all_maps.push_back(document(group));
    for (const auto& log : logs) all_logs.push_back(document(log));
    print(format_json({{"maps", std::move(all_maps)}, {"logs", std::move(all_logs)}}));
    return;
  }
  if (maps.empty() && logs.empty() && groups.empty()) {
    print("No map of this user is in use or was kept, and no log was kept.\n");
    return;
  }
  Table table("lllrrrl");
  table.header({"name", "kind", "holds", "keys, entries", "memory", "processes", "kept"});
  for (const auto& map : maps) {
    table.row({{one_line(map.name), Style::strong},
               "map",
               types_text(map),
               fmt::format("{}", map.keys),
               mebibytes(map.memory_bytes),
               fmt::format("{}", map.processes.size()),
               map.kept ? "yes" : "no"});
  }
  for (const auto& group : groups) {
    table.row({{one_line(group.name), Style::strong},
               fmt::format("map, {}, {} ranks", group.algorithm, group.ranks),
               types_text(group),
               "",
               "",
               fmt::format("{}", group.processes.size()),
               "no"});
  }
  for (const auto& log : logs) {
    table.row({{one_line(log.name), Style::strong},
               "log",
               commands_text(log),
               fmt::format("{}", log.appended),
               mebibytes(log.memory_bytes),
               fmt::format("{}", log.processes.size()),
               "yes"});
  }
  print(table.text());
}

void show_log(const LogState& log) {
  print(fmt::format("{}  log, {}, kept\n", styled(Style::title, one_line(log.name)), commands_text(log)));
  print(fmt::format("  ranks      {}, {} with a replica\n", log.ranks, log.replicas));
  print(fmt::format("  leader     {}, epoch {}\n", log.leader < 0 ? "none" : fmt::format("rank {}", log.leader),
                    log.epoch));
  print(fmt::format("  appended   {}, of which {} are in the saved state of {} bytes\n", log.appended, log.saved,
                    log.state_bytes));
  print(fmt::format("  room       {} entries, {} requests of each rank\n", log.entries, log.requests));
  print(fmt::format("  memory     {}\n", mebibytes(log.memory_bytes)));
  print(fmt::format("  processes {}\n", processes_text(log.processes)));
}

void show_map(const MapState& map) {
  print(fmt::format("{}  map, {}, {}\n", styled(Style::title, one_line(map.name)), types_text(map),
                    map.kept ? "kept" : "gone with its last process"));
  print(fmt::format("  keys       {}\n", map.keys));
  print(fmt::format("  buckets    {}, {} more for overflow, longest chain {}{}\n", map.buckets, map.overflow_buckets,
                    map.longest_chain, map.growing ? ", growing" : ""));
  print(fmt::format("  memory     {}{}\n", mebibytes(map.memory_bytes),
                    map.refused == 0 ? "" : fmt::format(", refused {} times", map.refused)));
  print(fmt::format("  takeovers  {} buckets from processes that had died\n", map.takeovers));
  print(fmt::format("  processes {}\n", processes_text(map.processes)));
}

void show_group(const MapGroupState& map) {
  print(fmt::format("{}  map over ranks, {}, gone with its processes\n", styled(Style::title, one_line(map.name)),
                    types_text(map)));
  print(fmt::format("  algorithm  {}\n", map.algorithm));
  print(fmt::format("  ranks      {}, which have the contents\n", map.ranks));
  print(fmt::format("  processes {}\n", processes_text(map.processes)));
}

/// The map over ranks of that name, if there is one and nothing else has the name.
std::optional<MapGroupState> find_group(const StateFlags& flags) {
  if (flags.kind == "log" || inspect_map(flags.name) || inspect_log(flags.name)) return std::nullopt;
  for (const auto& group : list_map_groups()) {
    if (group.name == flags.name) return group;
  }
  return std::nullopt;
}

/// What has the name: a map, a log. One is empty unless both were asked for.
struct Named {
  Result<MapState> map;
  Result<LogState> log;
};

Named find(const StateFlags& flags) {
  if (!flags.kind.empty() && flags.kind != "map" && flags.kind != "log") {
    fail_usage("--kind {}: must be map or log", flags.kind);
  }
  const Error other{Status::not_found, ""};
  Named found{flags.kind == "log" ? Result<MapState>(other) : inspect_map(flags.name),
              flags.kind == "map" ? Result<LogState>(other) : inspect_log(flags.name)};
  if (found.map && found.log) {
    fail_usage("there is a map and a log '{}'; add --kind map or --kind log", flags.name);
  }
  if (!found.map && !found.log) {
    // Why there is none, unless it is simply not there.
    if (found.log.error().status != Status::not_found) take(std::move(found.log));
    take(Result<void>(Error{Status::not_found, fmt::format("there is no map and no log '{}'; 'smelt state list' shows "
                                                           "those that there are",
                                                           flags.name)}));
  }
  return found;
}

void show(const StateFlags& flags) {
  if (const auto group = find_group(flags)) {
    if (flags.json) return print(format_json(document(*group)));
    return show_group(*group);
  }
  const Named found = find(flags);
  if (flags.json) {
    print(format_json(found.map ? document(*found.map) : document(*found.log)));
  } else if (found.map) {
    show_map(*found.map);
  } else {
    show_log(*found.log);
  }
}

void remove(const StateFlags& flags) {
  // A damaged log can be removed, too: it is not asked what it is.
  if (flags.kind == "log") return take(remove_log(flags.name));
  if (find_group(flags)) return take(remove_map(flags.name));  // says why not
  const Named found = find(flags);
  take(found.map ? remove_map(flags.name) : remove_log(flags.name));
}

}  // namespace

void add_state(Parser& parser) {
  Command state = parser.add("state", "List, show and remove the maps that processes share, and kept logs");
  const auto add = [&](const char* name, const char* description, bool named, bool json,
                       void (*run)(const StateFlags&)) {
    auto flags = std::make_shared<StateFlags>();
    Command command = state.add(name, description);
    if (named) {
      command.text("name", flags->name, "NAME", "the map or log");
      command.text("--kind", flags->kind, "KIND", "map or log, where both have the name");
    }
    if (json) command.flag("--json", flags->json, "print JSON");
    command.action([flags, named, run] {
      if (named && flags->name.empty()) fail_usage("NAME is missing; 'smelt state list' shows the names");
      run(*flags);
    });
  };
  add("list", "Maps of this user, in use or kept, and kept logs", false, true, list);
  add("show", "What is in a map or log, and who uses it", true, true, show);
  add("rm", "Remove a map or log that was kept", true, false, remove);
}

}  // namespace smelt::cli
