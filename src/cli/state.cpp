// smelt state: the maps that processes of this user share.
#include <memory>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "smelt/map.hpp"

namespace smelt::cli {
namespace {

struct StateFlags {
  std::string name;
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

std::string types_text(const MapState& map) {
  return map.strings ? "strings" : fmt::format("{} -> {} bytes", map.key_bytes, map.value_bytes);
}

void list(const StateFlags& flags) {
  const auto maps = take(list_maps());
  if (flags.json) {
    Json all = Json::array();
    for (const auto& map : maps) all.push_back(document(map));
    print(format_json({{"maps", std::move(all)}}));
    return;
  }
  if (maps.empty()) {
    print("No map of this user is in use or was kept.\n");
    return;
  }
  Table table("llrrrl");
  table.header({"map", "holds", "keys", "memory", "processes", "kept"});
  for (const auto& map : maps) {
    table.row({{map.name, Style::strong},
               types_text(map),
               fmt::format("{}", map.keys),
               fmt::format("{:.1f} MiB", static_cast<double>(map.memory_bytes) / (1 << 20)),
               fmt::format("{}", map.processes.size()),
               map.kept ? "yes" : "no"});
  }
  print(table.text());
}

void show(const StateFlags& flags) {
  const auto map = take(inspect_map(flags.name));
  if (flags.json) {
    print(format_json(document(map)));
    return;
  }
  print(fmt::format("{}  map, {}, {}\n", styled(Style::title, map.name), types_text(map),
                    map.kept ? "kept" : "gone with its last process"));
  print(fmt::format("  keys       {}\n", map.keys));
  print(fmt::format("  buckets    {}, {} more for overflow, longest chain {}{}\n", map.buckets, map.overflow_buckets,
                    map.longest_chain, map.growing ? ", growing" : ""));
  print(fmt::format("  memory     {:.1f} MiB{}\n", static_cast<double>(map.memory_bytes) / (1 << 20),
                    map.refused == 0 ? "" : fmt::format(", refused {} times", map.refused)));
  print(fmt::format("  takeovers  {} buckets from processes that had died\n", map.takeovers));
  std::string processes;
  for (const auto process : map.processes) processes += fmt::format(" {}", process);
  print(fmt::format("  processes {}\n", processes.empty() ? " none" : processes));
}

}  // namespace

void add_state(Parser& parser) {
  Command state = parser.add("state", "List, show and remove the maps that processes share");
  const auto add = [&](const char* name, const char* description, bool named, bool json,
                       void (*run)(const StateFlags&)) {
    auto flags = std::make_shared<StateFlags>();
    Command command = state.add(name, description);
    if (named) command.text("name", flags->name, "NAME", "the map");
    if (json) command.flag("--json", flags->json, "print JSON");
    command.action([flags, named, run] {
      if (named && flags->name.empty()) fail_usage("NAME is missing; 'smelt state list' shows the maps");
      run(*flags);
    });
  };
  add("list", "Maps of this user: in use, or kept", false, true, list);
  add("show", "What is in a map, and who uses it", true, true, show);
  add("rm", "Remove a map that was kept", true, false, [](const StateFlags& flags) { take(remove_map(flags.name)); });
}

}  // namespace smelt::cli
