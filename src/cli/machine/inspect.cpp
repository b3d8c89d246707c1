// smelt inspect: who waits for whom in running communicators over processes.
#include "smelt/inspect.hpp"

#include <algorithm>
#include <memory>

#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

using State = RankActivity::State;

struct InspectFlags {
  std::string name;
  bool json = false;
};

const char* state_name(State state) {
  switch (state) {
    case State::absent: return "absent";
    case State::present: return "present";
    case State::left: return "left";
    case State::dead: return "dead";
    case State::finished: return "finished";
    case State::stopped: return "stopped";
  }
  return "?";
}

std::string call_text(const RankActivity& rank) {
  if (rank.calls == 0) return "no call yet";
  return fmt::format("{} (call {})", to_string(rank.operation), rank.calls);
}

std::string peer_text(const RankActivity& rank) {
  if (!rank.waiting) return "-";
  return rank.peer ? fmt::format("rank {}", *rank.peer) : "others";
}

std::string number_text(pid_t number) { return number == 0 ? "-" : fmt::format("{}", number); }

void print_ranks(const std::vector<RankActivity>& ranks) {
  Table table("rrrrlllr");
  table.header({"rank", "PU", "process", "thread", "state", "entered last", "waits for", "for"});
  for (const auto& rank : ranks) {
    const Style style = rank.state == State::present ? Style::plain : Style::bad;
    table.row({{fmt::format("{}", rank.rank), Style::strong},
               fmt::format("{}", rank.pu),
               number_text(rank.process),
               number_text(rank.thread),
               {rank.state == State::present && !rank.attached ? "not taken" : state_name(rank.state), style},
               call_text(rank),
               {peer_text(rank), rank.waiting ? Style::warn : Style::plain},
               rank.waiting ? format_time(rank.waiting_ns) : "-"});
  }
  print(table.text());
}

void print_communicator(const CommunicatorActivity& activity) {
  const std::string name = activity.name.empty() ? "without a name" : activity.name;
  print(fmt::format("{}  {} ranks, id {:016x}, {}\n", styled(Style::title, name), activity.ranks.size(), activity.id,
                    activity.status == Status::ok ? "works" : "is broken"));
  print_ranks(activity.ranks);
  for (const auto& finding : diagnose(activity)) print(fmt::format("  {}\n", styled(Style::warn, finding)));
}

Json document(const CommunicatorActivity& activity) {
  Json ranks = Json::array();
  for (const auto& rank : activity.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"pu", rank.pu},
                     {"process", rank.process},
                     {"thread", rank.thread},
                     {"state", state_name(rank.state)},
                     {"attached", rank.attached},
                     {"calls", rank.calls},
                     {"operation", rank.calls == 0 ? Json() : Json(to_string(rank.operation))},
                     {"waiting", rank.waiting},
                     {"peer", rank.peer ? Json(*rank.peer) : Json()},
                     {"waiting_ns", rank.waiting_ns}});
  }
  return {{"name", activity.name},
          {"id", fmt::format("{:016x}", activity.id)},
          {"broken", activity.status != Status::ok},
          {"failure", activity.failure},
          {"findings", diagnose(activity)},
          {"ranks", std::move(ranks)}};
}

void run(const InspectFlags& flags) {
  auto found = take(inspect_communicators());
  if (!flags.name.empty()) {
    std::erase_if(found, [&](const auto& each) { return each.name != flags.name; });
    if (found.empty()) {
      fail("no process of this user holds a communicator '{}' now; 'smelt inspect' lists those that there are",
           flags.name);
    }
  }
  if (flags.json) {
    Json list = Json::array();
    for (const auto& activity : found) list.push_back(document(activity));
    print(format_json({{"communicators", std::move(list)}}));
    return;
  }
  if (found.empty()) print("No process of this user holds a communicator over processes now.\n");
  for (const auto& activity : found) {
    if (&activity != &found.front()) print("\n");
    print_communicator(activity);
  }
}

}  // namespace

void add_inspect(Parser& parser) {
  auto flags = std::make_shared<InspectFlags>();
  Command command = parser.add("inspect", "Show where each rank of running communicators over processes waits");
  command.text("name", flags->name, "NAME", "only the communicator of that name (default: all of this user)");
  command.flag("--json", flags->json, "print JSON");
  command.footer(
      "For a program that hangs: which rank waits, in which call, for whom, and who is missing. The program is not\n"
      "disturbed. Communicators of threads are not visible from outside of their process.\n\n"
      "Examples:\n"
      "  smelt inspect\n"
      "  smelt inspect my-program --json\n");
  command.action([flags] { run(*flags); });
}

}  // namespace smelt::cli
