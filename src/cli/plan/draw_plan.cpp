// A tree is drawn with one rank per line, its children below it in send order:
//
//     0           PU 0                              0 ns
//     ├─ 4        PU 4   package 1   45 + 120     165 ns  ░░░█████
//     │  └─ 5     PU 5   package 1   12 +  30     207 ns          ░██
//     └─ 1        PU 1   package 0   12 +  30      87 ns     ░██
//
// The bar on the right shows when the edge's message is sent (░) and received (█).
#include "cli/plan/draw_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cli/document.hpp"
#include "cli/machine/draw_machine.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

constexpr double same_time_ns = 1e-6;
constexpr std::size_t bar_columns = 30;

bool receives(const TimelineEvent& event) { return event.kind != Step::Kind::send; }

// The index of the send for every receive: the k-th receive from a peer takes that peer's k-th send.
std::vector<int> matching_sends(const Simulation& simulation) {
  std::map<std::pair<int, int>, std::vector<int>> sends;
  for (std::size_t i = 0; i < simulation.timeline.size(); ++i) {
    const auto& event = simulation.timeline[i];
    if (!receives(event)) sends[{event.rank, event.peer}].push_back(static_cast<int>(i));
  }
  std::map<std::pair<int, int>, std::size_t> taken;
  std::vector<int> match(simulation.timeline.size(), -1);
  for (std::size_t i = 0; i < simulation.timeline.size(); ++i) {
    const auto& event = simulation.timeline[i];
    if (!receives(event)) continue;
    const std::pair<int, int> link{event.peer, event.rank};
    const std::size_t k = taken[link]++;
    if (k < sends[link].size()) match[i] = sends[link][k];
  }
  return match;
}

std::vector<int> previous_on_rank(const Plan& plan, const Simulation& simulation) {
  std::vector<int> last(plan.group.pus.size(), -1), previous(simulation.timeline.size(), -1);
  for (std::size_t i = 0; i < simulation.timeline.size(); ++i) {
    auto& mine = last[static_cast<std::size_t>(simulation.timeline[i].rank)];
    previous[i] = mine;
    mine = static_cast<int>(i);
  }
  return previous;
}

double propagation_ns(const Machine& machine, const Plan& plan, int sender, int receiver) {
  if (!machine.propagation_ns) return 0.0;
  return (*machine.propagation_ns)(static_cast<std::size_t>(plan.group.pus[static_cast<std::size_t>(sender)]),
                                   static_cast<std::size_t>(plan.group.pus[static_cast<std::size_t>(receiver)]));
}

// The messages of one phase: for an edge (sender, receiver), when it is sent and received.
struct Message {
  double send_start, send_end, recv_start, recv_end;
  bool critical;
};
using Messages = std::map<std::pair<int, int>, std::vector<Message>>;

Messages messages_of(const Machine& machine, const Plan& plan, const Simulation& simulation) {
  const auto match = matching_sends(simulation);
  const auto critical = critical_events(machine, plan, simulation);
  Messages messages;
  for (std::size_t i = 0; i < simulation.timeline.size(); ++i) {
    if (match[i] < 0) continue;
    const auto& recv = simulation.timeline[i];
    const auto& send = simulation.timeline[static_cast<std::size_t>(match[i])];
    messages[{recv.peer, recv.rank}].push_back({send.start_ns, send.end_ns, recv.start_ns, recv.end_ns,
                                                critical[i] && critical[static_cast<std::size_t>(match[i])]});
  }
  return messages;
}

std::string message_bar(const Message& message, double total) {
  if (!(total > 0)) return {};
  const auto column = [&](double time) {
    return static_cast<std::size_t>(std::lround(std::clamp(time / total, 0.0, 1.0) * bar_columns));
  };
  std::string cells;
  for (std::size_t i = 0; i < bar_columns; ++i) {
    const bool sending =
        i >= column(message.send_start) && i < std::max(column(message.send_end), column(message.send_start) + 1);
    const bool receiving = i + 1 > column(message.recv_start) && i < column(message.recv_end);
    cells += receiving ? "█" : sending ? "░" : " ";
  }
  while (cells.ends_with(' ')) cells.pop_back();
  return cells;
}

// The closest unit that both ends of an edge share, as a colour: from green (near) to red (far).
Style edge_style(const Machine& machine, int a, int b) {
  switch (pair_class(machine, a, b)) {
    case PairClass::core:
    case PairClass::l2:
    case PairClass::l3: return Style::good;
    case PairClass::numa_node:
    case PairClass::package: return Style::warn;
    case PairClass::machine: return Style::bad;
  }
  return Style::plain;
}

class TreeDrawing {
 public:
  TreeDrawing(const Machine& machine, const Plan& plan, const Tree& tree, const Messages& messages, bool upwards,
              std::size_t phase, double total)
      : machine_(machine),
        plan_(plan),
        tree_(tree),
        messages_(messages),
        upwards_(upwards),
        phase_(phase),
        total_(total) {}

  std::string text() {
    table_.header(
        {"rank", "on", upwards_ ? "to parent, ns" : "from parent, ns", upwards_ ? "combined" : "arrives", ""});
    table_.row({{fmt::format("{}", tree_.root), Style::strong}, {place(tree_.root), Style::accent}, "", "", ""});
    // Depth first without recursion: a chain of 4096 ranks is a tree too.
    struct Pending {
      int rank, parent;
      std::string prefix;
      bool last;
    };
    std::vector<Pending> stack;
    const auto push_children = [&](int parent, const std::string& prefix) {
      const auto& children = tree_.children[static_cast<std::size_t>(parent)];
      for (std::size_t i = children.size(); i-- > 0;) {
        stack.push_back({children[i], parent, prefix, i + 1 == children.size()});
      }
    };
    push_children(tree_.root, "");
    while (!stack.empty()) {
      const Pending item = std::move(stack.back());
      stack.pop_back();
      line(item.rank, item.parent, item.prefix + (item.last ? "└─ " : "├─ "));
      push_children(item.rank, item.prefix.size() > 300 ? item.prefix : item.prefix + (item.last ? "   " : "│  "));
    }
    return table_.text();
  }

 private:
  std::string place(int rank) const { return place_name(machine_, plan_.group.pus[static_cast<std::size_t>(rank)]); }

  const Message* message(int sender, int receiver) const {
    const auto found = messages_.find({sender, receiver});
    return found == messages_.end() || found->second.size() <= phase_ ? nullptr : &found->second[phase_];
  }

  void line(int rank, int parent, const std::string& prefix) {
    const int sender = upwards_ ? rank : parent, receiver = upwards_ ? parent : rank;
    const int from = plan_.group.pus[static_cast<std::size_t>(sender)];
    const int to = plan_.group.pus[static_cast<std::size_t>(receiver)];
    const double send = machine_.send_ns(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
    const double way = propagation_ns(machine_, plan_, sender, receiver);
    const double recv = machine_.recv_ns(static_cast<std::size_t>(from), static_cast<std::size_t>(to));
    std::string cost =
        way > 0 ? fmt::format("{:.0f} + {:.0f} + {:.0f}", send, way, recv) : fmt::format("{:.0f} + {:.0f}", send, recv);
    const Message* when = message(sender, receiver);
    const bool critical = when != nullptr && when->critical;
    table_.row({{prefix + fmt::format("{}{}", rank, critical ? " ●" : ""), critical ? Style::strong : Style::plain},
                {place(rank), Style::accent},
                {std::move(cost), from == to ? Style::good : edge_style(machine_, from, to)},
                {when != nullptr ? format_time(when->recv_end) : "", critical ? Style::strong : Style::plain},
                {when != nullptr ? message_bar(*when, total_) : "", critical ? Style::strong : Style::faint}});
  }

  const Machine& machine_;
  const Plan& plan_;
  const Tree& tree_;
  const Messages& messages_;
  bool upwards_;
  std::size_t phase_;
  double total_;
  Table table_{"llrrl"};
};

using StepLists = std::vector<std::vector<Step>>;

// The part of a commit with exchanged votes that follows the proposal.
StepLists votes_of(const Plan& plan) {
  StepLists votes = plan.steps;
  const auto& children = plan.broadcast_tree->children;
  for (std::size_t rank = 0; rank < votes.size(); ++rank) {
    const auto passed_on = children[rank].size() + (static_cast<int>(rank) == plan.root ? 0 : 1);
    votes[rank].erase(votes[rank].begin(), votes[rank].begin() + static_cast<std::ptrdiff_t>(passed_on));
  }
  return votes;
}

// The k-th message of each rank; "r → r + 4" if it is the same for all ranks.
std::string draw_rounds(const StepLists& steps) {
  const int n = static_cast<int>(steps.size());
  std::vector<std::vector<int>> targets;
  for (int rank = 0; rank < n; ++rank) {
    std::size_t round = 0;
    for (const auto& step : steps[static_cast<std::size_t>(rank)]) {
      if (step.kind != Step::Kind::send) continue;
      if (targets.size() <= round) targets.emplace_back(static_cast<std::size_t>(n), -1);
      targets[round++][static_cast<std::size_t>(rank)] = step.peer;
    }
  }
  std::string text;
  for (std::size_t round = 0; round < targets.size(); ++round) {
    std::set<int> offsets;
    std::string pairs;
    for (int rank = 0; rank < n; ++rank) {
      const int target = targets[round][static_cast<std::size_t>(rank)];
      if (target < 0) continue;
      offsets.insert((target - rank + n) % n);
      if (rank < 16) pairs += fmt::format(" {}→{}", rank, target);
    }
    const std::string rule = offsets.size() == 1 ? fmt::format("rank r → r + {} (mod {})", *offsets.begin(), n)
                                                 : pairs.substr(pairs.empty() ? 0 : 1) + (n > 16 ? " ..." : "");
    text += fmt::format("  {}  {}\n", styled(Style::strong, fmt::format("round {}", round + 1)), rule);
  }
  return text;
}

std::string edge_label(double ns) { return fmt::format("{:.0f} ns", ns); }

std::string graphviz_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) quoted += c;
  }
  return quoted + "\"";
}

std::string graphviz_tree(const Machine& machine, const Plan& plan, const Tree& tree, bool upwards) {
  std::string text;
  for (int parent = 0; parent < tree.size(); ++parent) {
    int place = 0;
    for (const int child : tree.children[static_cast<std::size_t>(parent)]) {
      const int from = upwards ? child : parent, to = upwards ? parent : child;
      const double cost = message_ns(machine, plan.group.pus[static_cast<std::size_t>(from)],
                                     plan.group.pus[static_cast<std::size_t>(to)]);
      ++place;
      const std::string label = upwards ? edge_label(cost) : fmt::format("{}. {}", place, edge_label(cost));
      text +=
          fmt::format("  r{} -> r{} [label={}{}];\n", from, to, graphviz_text(label), upwards ? ", style=dashed" : "");
    }
  }
  return text;
}

std::string graphviz_rounds(const StepLists& steps, const char* style) {
  std::string text;
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    int round = 0;
    for (const auto& step : steps[rank]) {
      if (step.kind != Step::Kind::send) continue;
      text += fmt::format("  r{} -> r{} [label=\"{}\"{}];\n", rank, step.peer, ++round, style);
    }
  }
  return text;
}

}  // namespace

std::vector<bool> critical_events(const Machine& machine, const Plan& plan, const Simulation& simulation) {
  const auto& timeline = simulation.timeline;
  std::vector<bool> critical(timeline.size(), false);
  if (timeline.empty()) return critical;
  const auto match = matching_sends(simulation);
  const auto previous = previous_on_rank(plan, simulation);
  const auto latest = std::max_element(timeline.begin(), timeline.end(),
                                       [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  for (int at = static_cast<int>(latest - timeline.begin()); at >= 0;) {
    const auto index = static_cast<std::size_t>(at);
    if (critical[index]) break;
    critical[index] = true;
    const auto& event = timeline[index];
    const int before = previous[index], sent = match[index];
    if (sent < 0) {
      at = before;
      continue;
    }
    const double ready =
        timeline[static_cast<std::size_t>(sent)].end_ns + propagation_ns(machine, plan, event.peer, event.rank);
    const bool waited = before < 0 || ready + same_time_ns >= timeline[static_cast<std::size_t>(before)].end_ns;
    at = waited ? sent : before;
  }
  return critical;
}

std::string place_name(const Machine& machine, int index) {
  const Pu& pu = machine.pus[static_cast<std::size_t>(index)];
  std::string text = fmt::format("PU {}", pu.os_index);
  const auto several = [&](int Pu::*level) {
    return std::any_of(machine.pus.begin(), machine.pus.end(),
                       [&](const Pu& other) { return other.*level != machine.pus[0].*level; });
  };
  const bool packages = several(&Pu::package), nodes = several(&Pu::numa_node), caches = several(&Pu::l3);
  const bool node_is_package = packages && std::all_of(machine.pus.begin(), machine.pus.end(),
                                                       [](const Pu& each) { return each.package == each.numa_node; });
  if (packages) text += fmt::format(" · package {}", pu.package);
  if (nodes && !node_is_package) text += fmt::format(" · node {}", pu.numa_node);
  if (caches && !packages && !nodes) text += fmt::format(" · L3 {}", pu.l3);
  return text;
}

std::string draw_plan(const Machine& machine, const Plan& plan, const Simulation& simulation) {
  if (!plan.broadcast_tree && !plan.reduce_tree) {
    return "  No tree: every rank sends and receives in each round.\n" + draw_rounds(plan.steps);
  }
  const auto messages = messages_of(machine, plan, simulation);
  const auto draw = [&](const Tree& tree, bool upwards, std::size_t phase) {
    return TreeDrawing(machine, plan, tree, messages, upwards, phase, simulation.total_ns).text();
  };
  const auto heading = [](const char* text) { return styled(Style::title, text) + "\n"; };
  std::string text;
  if (plan.operation == Operation::two_phase_commit && plan.broadcast_tree) {
    text += heading("Proposal goes down") + draw(*plan.broadcast_tree, false, 0) + "\n";
  }
  if (exchanges_votes(plan)) return text + heading("Votes are exchanged") + draw_rounds(votes_of(plan));
  if (plan.reduce_tree) {
    const bool alone = plan.operation == Operation::reduce;
    if (!alone) text += heading(plan.operation == Operation::two_phase_commit ? "Votes come up" : "Up: reduce");
    text += draw(*plan.reduce_tree, true, 0) + (alone ? "" : "\n");
  }
  if (plan.broadcast_tree) {
    const bool commit = plan.operation == Operation::two_phase_commit;
    if (plan.reduce_tree) text += heading(commit ? "Decision goes down" : "Down: broadcast");
    text += draw(*plan.broadcast_tree, false, commit ? 1 : 0);
  }
  return text;
}

std::string draw_timeline(const Machine& machine, const Plan& plan, const Simulation& simulation, int columns,
                          bool all_ranks) {
  constexpr std::size_t most_deciding_ranks = 32;
  const auto critical = critical_events(machine, plan, simulation);
  std::set<std::size_t> shown;
  for (std::size_t i = 0; i < critical.size() && !all_ranks && shown.size() < most_deciding_ranks; ++i) {
    if (critical[i]) shown.insert(static_cast<std::size_t>(simulation.timeline[i].rank));
  }
  const std::size_t label = text_width(fmt::format("{}", plan.group.size())) + 13;
  const std::size_t width = std::max<std::size_t>(20, static_cast<std::size_t>(columns) - label - 13);
  const double total = std::max(simulation.total_ns, 1e-9);
  struct Cell {
    char kind = ' ';
    bool critical = false;
  };
  std::vector<std::vector<Cell>> rows(plan.group.pus.size(), std::vector<Cell>(width));
  for (std::size_t i = 0; i < simulation.timeline.size(); ++i) {
    const auto& event = simulation.timeline[i];
    const auto column = [&](double time) {
      return std::min(width - 1,
                      static_cast<std::size_t>(std::clamp(time / total, 0.0, 1.0) * static_cast<double>(width)));
    };
    const std::size_t first = column(event.start_ns);
    const std::size_t last = std::max(first, column(event.end_ns - total / static_cast<double>(width) / 2));
    for (std::size_t cell = first; cell <= last; ++cell) {
      rows[static_cast<std::size_t>(event.rank)][cell] = {receives(event) ? 'r' : 's', critical[i]};
    }
  }
  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    if (!all_ranks && !shown.contains(rank)) continue;
    const int os_index = machine.pus[static_cast<std::size_t>(plan.group.pus[rank])].os_index;
    text += pad_left(fmt::format("{}", rank), label - 11) + " " +
            styled(Style::accent, pad_left(fmt::format("PU {}", os_index), 8)) + "  ";
    std::size_t end = width;
    while (end > 0 && rows[rank][end - 1].kind == ' ') --end;
    for (std::size_t begin = 0; begin < width;) {
      const Cell& cell = rows[rank][begin];
      std::size_t stop = begin + 1;
      while (stop < width && rows[rank][stop].kind == cell.kind && rows[rank][stop].critical == cell.critical) ++stop;
      const char* glyph = cell.kind == 's' ? "▒" : cell.kind == 'r' ? "█" : begin < end ? "·" : " ";
      const Style style = cell.kind == ' '   ? Style::faint
                          : cell.critical    ? Style::bad
                          : cell.kind == 's' ? Style::warn
                                             : Style::good;
      text += styled(style, repeat(glyph, stop - begin));
      begin = stop;
    }
    text += " " + pad_left(format_time(simulation.arrival_ns[rank]), 9) + "\n";
  }
  text += std::string(label, ' ') + styled(Style::faint, "0" + pad_left(format_time(total), width - 1)) + "\n";
  const std::string red = screen().colour ? "; red: decides the total" : "";
  if (!all_ranks) {
    text += styled(Style::faint, fmt::format("  {} of {} ranks, which decide the total: --all prints all of them\n",
                                             shown.size(), rows.size()));
  }
  text += std::string(label, ' ') + styled(Style::faint, "▒ sending  █ receiving  · waiting" + red) + "\n";
  return text;
}

std::string graphviz(const Machine& machine, const Plan& plan) {
  std::string text = fmt::format("digraph plan {{\n  label={};\n  node [shape=box, style=rounded];\n",
                                 graphviz_text(fmt::format("{} · {} · {} · {:.0f} ns", to_string(plan.operation),
                                                           plan.topology, machine.name, plan.predicted_ns)));
  std::map<std::pair<int, int>, std::vector<int>> nodes;
  for (int rank = 0; rank < plan.group.size(); ++rank) {
    const Pu& pu = machine.pus[static_cast<std::size_t>(plan.group.pus[static_cast<std::size_t>(rank)])];
    nodes[{pu.package, pu.numa_node}].push_back(rank);
  }
  for (const auto& [place, ranks] : nodes) {
    text += fmt::format("  subgraph cluster_{}_{} {{\n    label=\"package {}, NUMA node {}\";\n    color=gray;\n",
                        place.first, place.second, place.first, place.second);
    for (const int rank : ranks) {
      const Pu& pu = machine.pus[static_cast<std::size_t>(plan.group.pus[static_cast<std::size_t>(rank)])];
      const auto index = static_cast<std::size_t>(rank);
      const double arrival = index < plan.arrival_ns.size() ? plan.arrival_ns[index] : 0.0;
      text += fmt::format("    r{} [label=\"rank {}\\nPU {}\\n{:.0f} ns\"{}];\n", rank, rank, pu.os_index, arrival,
                          rank == plan.root ? ", penwidth=2" : "");
    }
    text += "  }\n";
  }
  const bool both = plan.broadcast_tree && plan.reduce_tree;
  if (plan.broadcast_tree) text += graphviz_tree(machine, plan, *plan.broadcast_tree, false);
  if (plan.reduce_tree && (both || plan.operation == Operation::reduce)) {
    text += graphviz_tree(machine, plan, *plan.reduce_tree, true);
  }
  if (!plan.broadcast_tree && !plan.reduce_tree) text += graphviz_rounds(plan.steps, "");
  if (exchanges_votes(plan)) text += graphviz_rounds(votes_of(plan), ", style=dashed");
  return text + "}\n";
}

}  // namespace smelt::cli
