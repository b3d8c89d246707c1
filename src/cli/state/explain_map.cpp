// smelt explain map: the best map for a load on a machine, by the model, and the reason.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/arguments.hpp"
#include "cli/plan/calls.hpp"
#include "cli/state/maps.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr double line_bytes = 64.0;

struct MapQuestion {
  MapPlatform platform;
  MapLoad load;
  int cores = 0;
};

struct MapComparison {
  std::vector<MapPrediction> ranked{};  ///< the maps that keep the promise that was asked for
  std::vector<MapRange> ranges{};
  std::vector<std::pair<MapAlgorithm, std::string>> left_out{};  ///< the other maps, and the reason for each
};

/// A cell holds the key, its version and two copies of the value, in whole lines.
double table_bytes_per_key(std::size_t value_bytes) {
  return std::ceil((16.0 + 2.0 * static_cast<double>(value_bytes)) / line_bytes) * line_bytes;
}

MapQuestion question_of(const ExplainMap& arguments) {
  MapQuestion question;
  question.load = load_of(arguments.map);
  question.load.lookups = arguments.lookups;
  question.load.bytes_per_key = table_bytes_per_key(arguments.value_bytes);
  if (!arguments.map.platform.empty()) {
    if (!arguments.model.empty()) fail_usage("--platform {}: leave out --model", arguments.map.platform);
    question.platform = parse_platform("--platform", arguments.map.platform);
    question.cores = arguments.ranks == 0 ? 36 : arguments.ranks;
    return question;
  }
  const Machine machine = load_model(arguments.model);
  const Group group = group_of(machine, arguments.model.empty(), arguments.ranks);
  question.platform = take(platform_of(machine, group));
  question.cores = group.size();
  return question;
}

std::string reason_against(const MapQuestion& question, const MapAlgorithm& facts) {
  if (facts.consistency < question.load.consistency) return std::string("only ") + to_string(facts.consistency);
  if (facts.survives < question.load.faults) return std::string("survives ") + to_string(facts.survives);
  if (facts.name == "shared" && !question.platform.line) return "no shared memory";
  return "needs a core that serves";
}

MapComparison answer(const MapQuestion& question) {
  MapComparison found;
  found.ranked = take(rank_maps(question.platform, question.load, question.cores));
  found.ranges = take(best_ranges(question.platform, question.load, question.cores));
  for (const auto& facts : map_algorithms()) {
    const bool ranked =
        std::ranges::any_of(found.ranked, [&](const MapPrediction& each) { return each.algorithm == facts.name; });
    if (!ranked) found.left_out.push_back({facts, reason_against(question, facts)});
  }
  return found;
}

std::string limit_of(const MapPrediction& prediction) {
  if (prediction.clients_per_s <= prediction.servers_per_s) return "its clients";
  if (prediction.servers > 0) return "its servers";
  if (prediction.algorithm == "rep_2pc") return "votes, on one update at a time";
  return prediction.algorithm == "shared" ? "the line of the most popular key" : "its leader and its acceptor";
}

Json prediction_document(const MapPrediction& each) {
  const auto* facts = find_map_algorithm(each.algorithm);
  return {{"algorithm", each.algorithm},
          {"clients", each.clients},
          {"servers", each.servers},
          {"per_s", each.per_s},
          {"clients_per_s", each.clients_per_s},
          {"servers_per_s", std::isfinite(each.servers_per_s) ? Json(each.servers_per_s) : Json()},
          {"lookup_ns", each.lookup_ns},
          {"update_ns", each.update_ns},
          {"overlapped_ns", each.overlapped_ns},
          {"limit", limit_of(each)},
          {"consistency", to_string(facts->consistency)},
          {"survives", to_string(facts->survives)},
          {"waits_for_everyone", facts->waits_for_everyone}};
}

void print_document(const MapQuestion& question, const MapComparison& found) {
  Json document = {{"map", load_document(question.load)},
                   {"cores", question.cores},
                   {"platform", platform_document(question.platform)},
                   {"algorithm", found.ranked.front().algorithm},
                   {"from", "model"},
                   {"candidates", Json::array()},
                   {"left_out", Json::array()},
                   {"ranges", Json::array()}};
  for (const auto& each : found.ranked) document["candidates"].push_back(prediction_document(each));
  for (const auto& [facts, reason] : found.left_out) {
    document["left_out"].push_back({{"algorithm", facts.name}, {"reason", reason}});
  }
  for (const auto& each : found.ranges) {
    document["ranges"].push_back({{"from_lookups", each.from_lookups}, {"algorithm", each.algorithm}});
  }
  print(format_json(document));
}

std::string format_rate(double per_s) { return fmt::format("{:.3g} Mops/s", per_s / 1e6); }

void print_choice(const MapQuestion& question, const MapComparison& found) {
  const auto line = [](const std::string& name, const std::string& text) {
    print(fmt::format("  {}  {}\n", styled(Style::strong, pad_right(name, 10)), text));
  };
  const MapPrediction& best = found.ranked.front();
  const auto* facts = find_map_algorithm(best.algorithm);
  line("takes", fmt::format("{}  ({})", styled(Style::accent, best.algorithm), facts->description));
  line("promises", fmt::format("{}; survives {}{}", to_string(facts->consistency),
                               facts->survives == Faults::none ? "no failure" : to_string(facts->survives),
                               facts->waits_for_everyone ? "; updates wait for the other clients" : ""));
  line("predicted",
       fmt::format("{} of {}{}, limited by {}", format_rate(best.per_s),
                   best.clients == 1 ? "one client" : fmt::format("{} clients", best.clients),
                   best.servers > 0 ? fmt::format(" and {} server{}", best.servers, best.servers == 1 ? "" : "s") : "",
                   limit_of(best)));
  line("lookup", format_time(best.lookup_ns));
  if (question.load.lookups < 1.0) line("update", format_time(best.update_ns));
  if (best.overlapped_ns > 0.0) line("overlapped", fmt::format("{} per operation", format_time(best.overlapped_ns)));
  std::string ranges;
  for (const auto& each : found.ranges) {
    ranges += ranges.empty() ? each.algorithm
                             : fmt::format(", {} from {} lookups", each.algorithm, format_share(each.from_lookups));
  }
  line("best", ranges);
}

void print_candidates(const MapComparison& found) {
  Table table("lrrrrrll");
  table.header({"", "Mops/s", "", "servers", "lookup", "update", "promise", "survives"});
  const double most = found.ranked.front().per_s;
  for (const auto& each : found.ranked) {
    const auto* facts = find_map_algorithm(each.algorithm);
    const bool first = &each == &found.ranked.front();
    table.row(
        {{each.algorithm, first ? Style::accent : Style::plain},
         {fmt::format("{:.3g}", each.per_s / 1e6), first ? Style::strong : Style::plain},
         {first ? std::string("best") : fmt::format("÷ {:.2f}", most / each.per_s), first ? Style::good : Style::faint},
         each.servers > 0 ? std::to_string(each.servers) : std::string("-"),
         format_time(each.lookup_ns),
         format_time(each.update_ns),
         to_string(facts->consistency),
         {to_string(facts->survives), Style::faint}});
  }
  print("\n" + table.text());
  for (const auto& [facts, reason] : found.left_out) {
    print(styled(Style::faint, fmt::format("  {}  left out: {}\n", facts.name, reason)));
  }
}

}  // namespace

void explain_map(const ExplainMap& arguments) {
  const MapQuestion question = question_of(arguments);
  const MapComparison found = answer(question);
  if (arguments.json) return print_document(question, found);
  print(fmt::format("{} of {:g} keys, {} lookups{}, at least {}, {} on {}: by the model\n\n",
                    styled(Style::title, "map"), question.load.keys, format_share(question.load.lookups),
                    question.load.skew > 0.0 ? fmt::format(", skew {:g}", question.load.skew) : "",
                    to_string(question.load.consistency),
                    question.cores == 1 ? "one core" : fmt::format("{} cores", question.cores),
                    question.platform.name));
  print_choice(question, found);
  print_candidates(found);
}

}  // namespace smelt::cli
