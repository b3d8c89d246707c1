// smelt tune --compare: how far two runs of the tuner agree.
#include <algorithm>
#include <map>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/plan/calls.hpp"
#include "cli/terminal.hpp"
#include "smelt/profile.hpp"

namespace smelt::cli {
namespace {

using Kind = ProfileAgreement::Kind;

constexpr Kind all_kinds[] = {Kind::same, Kind::same_schedule, Kind::equal, Kind::different};

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::same: return "same";
    case Kind::same_schedule: return "same-schedule";
    case Kind::equal: return "equal";
    case Kind::different: break;
  }
  return "different";
}

struct FileComparison {
  std::vector<ProfileAgreement> cells;
  std::map<Kind, int> counts;
  int measured = 0;  ///< by both
  double agreement = 0.0;
};

FileComparison compare(const std::vector<std::string>& files) {
  const auto first = take(load_profile(files[0])), second = take(load_profile(files[1]));
  if (first.fingerprint != second.fingerprint) {
    fail("{} and {} are of different machines: fingerprints '{}' and '{}'", files[0], files[1], first.fingerprint,
         second.fingerprint);
  }
  // Which recipes are equivalent depends on the machine, if it is known.
  auto machine = load_cached_machine();
  if (!machine || machine->fingerprint != first.fingerprint) machine = load_machine(cache_path(first.fingerprint));
  FileComparison found;
  found.cells = compare_profiles(first, second, machine && machine->has_costs() ? &*machine : nullptr);
  if (found.cells.empty()) fail("{} and {} have no table in common", files[0], files[1]);
  for (const Kind kind : all_kinds) found.counts[kind] = 0;
  for (const auto& cell : found.cells) {
    ++found.counts[cell.kind];
    found.measured += cell.first.measured_ns > 0.0 && cell.second.measured_ns > 0.0;
  }
  found.agreement = 1.0 - static_cast<double>(found.counts[Kind::different]) / static_cast<double>(found.cells.size());
  return found;
}

std::string time_text(const ProfileCell& cell) {
  return cell.measured_ns > 0.0 ? format_time(cell.measured_ns) : "model";
}

void print_text(const FileComparison& found) {
  Table table("lllrlrlr");
  table.header({"operation", "sync", "ranks", "size", "first", "", "second", ""});
  for (const auto& cell : found.cells) {
    if (cell.kind != Kind::different) continue;
    const auto& shape = cell.first.shape;
    table.row({{to_string(cell.first.operation), Style::strong},
               to_string(cell.first.sync),
               fmt::format("{} {}", shape.ranks, shape.processes ? "processes" : "threads"),
               format_byte_count(cell.bytes),
               to_string(cell.first.recipe),
               time_text(cell.first),
               to_string(cell.second.recipe),
               time_text(cell.second)});
  }
  if (found.counts.at(Kind::different) > 0) print(table.text() + "\n");
  const auto count = [&](Kind kind) { return found.counts.at(kind); };
  print(
      fmt::format("{:.1f} % of {} cells agree: {} have the same recipe, {} another name for the same schedule, {} one "
                  "that a run could not tell from it.\n{} cells were measured in both.\n",
                  100.0 * found.agreement, found.cells.size(), count(Kind::same), count(Kind::same_schedule),
                  count(Kind::equal), found.measured));
}

void print_document(const FileComparison& found) {
  Json document = {{"cells", found.cells.size()}, {"measured_in_both", found.measured}, {"agreement", found.agreement}};
  for (const Kind kind : all_kinds) document[name_of(kind)] = found.counts.at(kind);
  document["differing"] = Json::array();
  for (const auto& cell : found.cells) {
    if (cell.kind != Kind::different) continue;
    document["differing"].push_back({{"operation", to_string(cell.first.operation)},
                                     {"sync", to_string(cell.first.sync)},
                                     {"ranks", cell.first.shape.ranks},
                                     {"processes", cell.first.shape.processes},
                                     {"bytes", cell.bytes},
                                     {"first", to_string(cell.first.recipe)},
                                     {"first_ns", cell.first.measured_ns},
                                     {"second", to_string(cell.second.recipe)},
                                     {"second_ns", cell.second.measured_ns}});
  }
  print(format_json(document));
}

}  // namespace

void compare_tunings(const std::vector<std::string>& files, bool json) {
  if (files.size() != 2) fail_usage("--compare: name two profiles, such as a.json b.json");
  const auto found = compare(files);
  json ? print_document(found) : print_text(found);
}

}  // namespace smelt::cli
