// smelt explain memory: where the arrays of a program should lie on a machine, in which pages, and why.
//
//   {"threads": 32,
//    "arrays": [{"name": "rank", "elements": 41000000, "element_bytes": 8, "access": "random",
//                "reads_per_element": 35, "writes_per_element": 1, "phases": 10},
//               {"name": "edges", "elements": 1468000000, "element_bytes": 8, "access": "sequential", "read_only": true}]}
#include <cmath>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/memory/memory.hpp"
#include "cli/terminal.hpp"
#include "smelt/placement.hpp"

namespace smelt::cli {
namespace {

struct MemoryQuestion {
  std::vector<ArrayUse> arrays{};
  PlacementOptions options{};
};

/// A value of an entry. A Failure names it if the value has another type: `prefix` and the key.
template <class T>
T value_at(const Json& entry, const char* key, T otherwise, const std::string& prefix) {
  const auto found = entry.find(key);
  if (found == entry.end()) return otherwise;
  if constexpr (std::is_same_v<T, bool>) {
    if (!found->is_boolean()) fail("{}{}: must be true or false", prefix, key);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) fail("{}{}: must be a string", prefix, key);
  } else {
    if (!found->is_number()) fail("{}{}: must be a number", prefix, key);
    const double value = found->template get<double>();
    if (!(value >= 0.0 && value <= 1e18)) fail("{}{}: must be 0 to 1e18", prefix, key);
  }
  return found->template get<T>();
}

/// A whole number.
std::uint64_t count_at(const Json& entry, const char* key, double otherwise, const std::string& prefix) {
  const double value = value_at(entry, key, otherwise, prefix);
  if (value != std::floor(value)) fail("{}{}: must be a whole number", prefix, key);
  return static_cast<std::uint64_t>(value);
}

void check_keys(const Json& entry, const std::vector<std::string>& known, const std::string& prefix) {
  for (const auto& [key, value] : entry.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      fail("{}{}: no such key{} (one of {})", prefix, key, suggestion(key, known), fmt::join(known, ", "));
    }
  }
}

AccessPattern parse_access(const std::string& text, const std::string& where) {
  const std::pair<const char*, AccessPattern> names[] = {{"unknown", AccessPattern::unknown},
                                                         {"sequential", AccessPattern::sequential},
                                                         {"strided", AccessPattern::strided},
                                                         {"random", AccessPattern::random}};
  for (const auto& [name, access] : names) {
    if (text == name) return access;
  }
  fail("{}.access: '{}' must be one of sequential, strided, random, unknown", where, text);
}

ArrayUse parse_use(const Json& entry, const std::string& where) {
  if (!entry.is_object()) fail("{}: must be an object", where);
  static const std::vector<std::string> known = {"name",       "elements",    "element_bytes",     "access",
                                                 "loop_index", "read_only",   "reads_per_element", "writes_per_element",
                                                 "phases",     "stride_bytes"};
  const std::string prefix = where + ".";
  check_keys(entry, known, prefix);
  AccessHints hints;
  hints.access = parse_access(value_at<std::string>(entry, "access", "unknown", prefix), where);
  hints.loop_index = value_at(entry, "loop_index", false, prefix);
  hints.read_only = value_at(entry, "read_only", false, prefix);
  hints.reads_per_element = value_at(entry, "reads_per_element", 1.0, prefix);
  hints.writes_per_element = value_at(entry, "writes_per_element", 0.0, prefix);
  hints.phases = value_at(entry, "phases", 1.0, prefix);
  hints.stride_bytes = count_at(entry, "stride_bytes", 0.0, prefix);
  const auto elements = count_at(entry, "elements", 0.0, prefix), bytes = count_at(entry, "element_bytes", 8.0, prefix);
  if (elements < 1 || bytes < 1) fail("{}: elements and element_bytes must be 1 or more", where);
  constexpr std::uint64_t most_bytes = std::uint64_t{1} << 60;
  if (elements > most_bytes / bytes) fail("{}: elements times element_bytes must be at most 2^60", where);
  return use_of(value_at<std::string>(entry, "name", where, prefix), elements, bytes, hints);
}

MemoryQuestion parse_question(const std::string& file) {
  const Json document = Json::parse(read_file(file), nullptr, false);
  if (document.is_discarded() || !document.is_object()) fail("{}: not a JSON object", file);
  const auto arrays = document.find("arrays");
  if (arrays == document.end() || !arrays->is_array() || arrays->empty())
    fail("{}: arrays: must be a list of arrays", file);
  const std::string prefix = file + ": ";
  check_keys(document, {"arrays", "threads", "reserved_pages"}, prefix);
  MemoryQuestion question;
  constexpr std::uint64_t most_threads = 1'000'000;
  const auto threads = count_at(document, "threads", 0.0, prefix);
  if (threads > most_threads) fail("{}threads: must be 0 to {}", prefix, most_threads);
  question.options.threads = static_cast<int>(threads);
  question.options.reserved_pages = value_at(document, "reserved_pages", false, prefix);
  for (std::size_t i = 0; i < arrays->size(); ++i) {
    question.arrays.push_back(parse_use((*arrays)[i], fmt::format("{}: arrays[{}]", file, i)));
  }
  return question;
}

Json candidate_document(const PlacementCandidate& candidate) {
  return {{"placement", to_string(candidate.placement)},
          {"page_bytes", candidate.page_bytes},
          {"total_bytes", candidate.total_bytes},
          {"phase_ns", candidate.phase_ns}};
}

void print_document(const Machine& machine, const PlacementPlan& plan) {
  Json document = {{"machine", machine_identity(machine)},
                   {"estimated", plan.estimated},
                   {"phase_ns", plan.phase_ns},
                   {"arrays", Json::array()}};
  for (const auto& each : plan.arrays) {
    Json entry = {
        {"name", each.name}, {"chosen", candidate_document(each.chosen)}, {"why", each.why}, {"others", Json::array()}};
    for (const auto& other : each.others) entry["others"].push_back(candidate_document(other));
    document["arrays"].push_back(std::move(entry));
  }
  print(format_json(document));
}

std::string describe(const PlacementCandidate& candidate) {
  return fmt::format("{}, pages of {}", to_string(candidate.placement),
                     format_bytes(static_cast<double>(candidate.page_bytes)));
}

void print_plan(const PlacementPlan& plan) {
  Table table("lllrl");
  table.header({"array", "placement", "pages", "memory", "next best"});
  for (const auto& each : plan.arrays) {
    std::string next = "-";
    if (!each.others.empty()) {
      const double times = plan.phase_ns > 0.0 ? each.others.front().phase_ns / plan.phase_ns : 1.0;
      next = fmt::format("{}: {:.2f} times as long", describe(each.others.front()), times);
    }
    table.row({{one_line(each.name), Style::strong},
               {to_string(each.chosen.placement), Style::accent},
               format_bytes(static_cast<double>(each.chosen.page_bytes)),
               format_bytes(static_cast<double>(each.chosen.total_bytes)),
               {next, Style::faint}});
  }
  print(table.text());
  for (const auto& each : plan.arrays)
    print(fmt::format("  {}: {}\n", styled(Style::strong, one_line(each.name)), each.why));
  print(fmt::format("  a phase is predicted to take {}\n", format_time(plan.phase_ns)));
  if (plan.estimated)
    print("  The machine's memory has not been measured; usual figures stand in. Run `smelt measure`.\n");
}

}  // namespace

void explain_memory(const ExplainMemory& arguments) {
  if (arguments.file.empty())
    fail_usage("explain memory: name a file of arrays, as in `smelt explain memory arrays.json`");
  const MemoryQuestion question = parse_question(arguments.file);
  Machine machine;
  if (arguments.model.empty()) {
    auto cached = load_cached_machine();
    machine = cached ? *std::move(cached) : take(discover_machine());
  } else {
    machine = load_model(arguments.model, false);
  }
  const PlacementPlan plan = take(choose_placements(machine, question.arrays, question.options));
  arguments.json ? print_document(machine, plan) : print_plan(plan);
}

}  // namespace smelt::cli
