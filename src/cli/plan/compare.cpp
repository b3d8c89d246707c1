// smelt compare: what every tree would cost for every operation.
#include <algorithm>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/state/maps.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr Operation all_operations[] = {Operation::broadcast, Operation::reduce, Operation::barrier,
                                        Operation::allreduce, Operation::two_phase_commit};
constexpr std::size_t widest_bar = 32;

std::vector<Operation> operations_of(const OperationArgument& asked) {
  if (!asked.word && !asked.option) return {std::begin(all_operations), std::end(all_operations)};
  const std::string names = asked.text();
  std::vector<Operation> result;
  for (const auto& name : split_names(names)) result.push_back(parse_operation_name(asked.source(), name));
  if (result.empty()) fail_usage("{} '{}': names no operation", asked.source(), names);
  return result;
}

constexpr std::size_t trees_of_large_groups = 5;

void print_ranking(Operation operation, const std::vector<Comparison>& ranking, bool all) {
  print(styled(Style::title, to_string(operation)) + "\n");
  const double best = ranking.empty() ? 0 : ranking.front().predicted_ns;
  const double worst = ranking.empty() ? 0 : ranking.back().predicted_ns;
  Table table("lrrl");
  const std::size_t shown = all ? ranking.size() : std::min(ranking.size(), trees_of_large_groups);
  for (std::size_t i = 0; i < shown; ++i) {
    const auto& [topology, predicted] = ranking[i];
    const double ratio = best > 0 ? predicted / best : 1;
    const bool first = ratio < 1 + 1e-9;
    table.row({{topology, first ? Style::strong : Style::plain},
               {format_time(predicted), first ? Style::strong : Style::plain},
               {first ? std::string("best") : fmt::format("× {:.2f}", ratio), first ? Style::good : Style::faint},
               {bar(worst > 0 ? predicted / worst : 0, widest_bar), first ? Style::good : Style::accent}});
  }
  print(table.text());
  if (shown < ranking.size()) {
    print(styled(Style::faint, fmt::format("  ... {} more, up to {}: --all prints them\n", ranking.size() - shown,
                                           format_time(worst))));
  }
  print("\n");
}

void run(const PlanArguments& arguments) {
  const auto operations = operations_of(arguments.operation);
  const Machine machine = load_model(arguments.model);
  const Group group = select_group(machine, arguments.ranks);
  const PlanOptions options = arguments.options(group);
  if (!arguments.json) {
    print(fmt::format("{} ranks on {}, predicted time{}\n\n", group.size(), one_line(machine.name),
                      arguments.completion ? " with the completion message" : ""));
  }
  ProgressBar progress;
  Json document = Json::object();
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation operation = operations[i];
    progress.update(fmt::format("planning {}", to_string(operation)),
                    static_cast<double>(i) / static_cast<double>(operations.size()), -1);
    auto ranking = take(compare_topologies(machine, group, operation, options));
    progress.clear();
    std::stable_sort(ranking.begin(), ranking.end(),
                     [](const auto& a, const auto& b) { return a.predicted_ns < b.predicted_ns; });
    if (arguments.json) {
      Json entry = Json::object();
      for (const auto& [topology, predicted] : ranking) entry[topology] = predicted;
      document[to_string(operation)] = std::move(entry);
    } else {
      print_ranking(operation, ranking, arguments.all || group.size() <= most_ranks_shown);
      flush_output();
    }
  }
  if (arguments.json) print(document.dump(2) + "\n");
}

}  // namespace

void add_compare(Parser& parser) {
  auto arguments = std::make_shared<PlanArguments>();
  auto maps = std::make_shared<CompareMaps>();
  auto asks_for_maps = std::make_shared<bool>(false);
  Command command = parser.add("compare", "Predict every tree for every operation, or every map, best first");
  add_plan_options(command, *arguments, false);
  command.flag("--maps", *asks_for_maps, "concurrent maps in place of trees, by cores and share of lookups");
  command.text("--figure", maps->figure, "NAME", "maps: a published figure, such as 3.20f, 3.20 or all");
  command.text("--lookups", maps->lookups, "LIST", "maps: shares of lookups (default 0.5,0.9,0.99)");
  command.integer("--cores", maps->cores, 1, 512,
                  "maps: largest number of cores (default: those of the machine, else 128)");
  add_map_options(command, maps->map);
  command.footer(
      "Examples:\n"
      "  smelt compare                                        this machine\n"
      "  smelt compare -m epyc.json --completion --json       {operation: {tree: ns}}\n"
      "  smelt compare broadcast,reduce --ranks 0-7 --search-ms 0\n"
      "  smelt compare --maps --keys 1e6 --lookups 0.9,0.999  maps on this machine\n"
      "  smelt compare --maps --figure 3.20f                  as published\n");
  command.action([=] {
    std::vector<std::string> of_maps = {"--figure", "--lookups", "--cores"};
    of_maps.insert(of_maps.end(), map_options().begin(), map_options().end());
    const std::vector<std::string> of_trees = {"operation", "--op", "--root", "--search-ms", "--completion", "--all"};
    for (const auto& option : *asks_for_maps ? of_trees : of_maps) {
      if (command.given(option)) fail_usage("{}: {}", option, *asks_for_maps ? "not with --maps" : "only with --maps");
    }
    if (!*asks_for_maps) return run(*arguments);
    if (!maps->figure.empty()) {
      of_maps.front() = "--model";
      of_maps.push_back("--ranks");
      for (const auto& option : of_maps) {
        if (command.given(option)) fail_usage("--figure {}: says everything; leave out {}", maps->figure, option);
      }
    }
    maps->model = arguments->model;
    maps->ranks = arguments->ranks;
    maps->json = arguments->json;
    compare_maps(*maps);
  });
}

}  // namespace smelt::cli
