// smelt simulate log: throughput and response time of agreement, by number of replicas. [Smelt16] figure 12.
#include "cli/state/simulate_log.hpp"

#include <algorithm>
#include <numeric>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/terminal.hpp"
#include "smelt/log_model.hpp"

namespace smelt::cli {
namespace {

constexpr int clients = 4;  // PUs that issue the commands, as in the text
constexpr int fewest = 8, step = 4;

/// One number of replicas.
struct LogRow {
  LogPrediction paxos_tree, paxos_star, broadcast_tree, broadcast_star;

  double gain() const { return paxos_tree.per_s / paxos_star.per_s; }
  double broadcast_gain() const { return broadcast_tree.per_s / broadcast_star.per_s; }
  /// What agreement costs above an atomic broadcast.
  double price() const { return broadcast_tree.per_s / paxos_tree.per_s; }
};

std::vector<int> numbers_of(const SimulateLog& arguments, const Machine& machine) {
  const int pus = static_cast<int>(machine.size());
  if (pus < 2) fail_usage("log: it takes two replicas on different PUs, and '{}' has one PU", machine.name);
  std::vector<int> numbers;
  for (const auto& text : split_names(arguments.replicas)) {
    numbers.push_back(static_cast<int>(parse_number("--replicas", text, 2, pus)));
  }
  if (!numbers.empty()) return numbers;
  const int most = std::max(2, pus > fewest ? pus - clients : pus);
  for (int count = std::min(fewest, most); count < most; count += step) numbers.push_back(count);
  numbers.push_back(most);
  return numbers;
}

LogRow row_of(const Machine& machine, int count) {
  Group replicas;
  replicas.pus.resize(static_cast<std::size_t>(count));
  std::iota(replicas.pus.begin(), replicas.pus.end(), 0);
  const auto predict = [&](const char* algorithm, const char* topology) {
    return take(predict_log(machine, replicas, algorithm, topology));
  };
  return {predict("1paxos", "best"), predict("1paxos", "sequential"), predict("broadcast", "best"),
          predict("broadcast", "sequential")};
}

Json prediction_document(const Machine& machine, const LogPrediction& each) {
  const auto pu = [&](int rank) {
    return rank < 0 ? Json() : Json(machine.pus[static_cast<std::size_t>(rank)].os_index);
  };
  return {{"algorithm", each.algorithm},     {"topology", each.topology},        {"replicas", each.replicas},
          {"leader_pu", pu(each.leader)},    {"acceptor_pu", pu(each.acceptor)}, {"per_s", each.per_s},
          {"response_ns", each.response_ns}, {"busiest_pu", pu(each.busiest)},   {"busiest_ns", each.busiest_ns}};
}

}  // namespace

void simulate_log(const SimulateLog& arguments) {
  const Machine machine = load_model(arguments.model);
  std::vector<LogRow> rows;
  for (const int count : numbers_of(arguments, machine)) rows.push_back(row_of(machine, count));
  if (arguments.json) {
    Json list = Json::array();
    for (const auto& row : rows) {
      for (const auto* each : {&row.paxos_tree, &row.paxos_star, &row.broadcast_tree, &row.broadcast_star}) {
        list.push_back(prediction_document(machine, *each));
      }
    }
    print(format_json({{"log", list}, {"machine", machine_identity(machine)}}));
    return;
  }
  print(fmt::format("{}  agreement by messages on {}: {} tree against one message after the other\n\n",
                    styled(Style::title, "log"), one_line(machine.name), rows.front().paxos_tree.topology));
  Table table("rrrrrrrr");
  table.header({"replicas", "1paxos", "sequential", "", "response", "sequential", "broadcast", ""});
  for (const auto& row : rows) {
    table.row({std::to_string(row.paxos_tree.replicas),
               fmt::format("{:.3g} M/s", row.paxos_tree.per_s / 1e6),
               fmt::format("{:.3g} M/s", row.paxos_star.per_s / 1e6),
               {fmt::format("× {:.2f}", row.gain()), Style::good},
               format_time(row.paxos_tree.response_ns),
               format_time(row.paxos_star.response_ns),
               fmt::format("{:.3g} M/s", row.broadcast_tree.per_s / 1e6),
               {fmt::format("÷ {:.2f}", row.price()), Style::faint}});
  }
  print(table.text());
}

}  // namespace smelt::cli
