// smelt show: a machine as a tree, and its costs as a heat map and tables; whether its floor differs from its
// profile's.
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/machine/draw_machine.hpp"
#include "cli/memory/memory.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"
#include "smelt/floor.hpp"
#include "smelt/profile.hpp"

namespace smelt::cli {
namespace {

struct ShowFlags {
  std::string model;
  bool floor = false;
  bool all = false;
  bool json = false;
};

struct ShownMachine {
  Machine machine;
  std::string origin;
  bool own = false;  // this machine, whose allowance is known
};

ShownMachine find_subject(const std::string& model) {
  if (!model.empty()) return {load_model(model, false), model == "-" ? "standard input" : model, false};
  auto cached = load_cached_machine();
  if (cached) {
    const auto file = cached_machine_path(*cached).string();
    return {*std::move(cached), file, true};
  }
  if (cached.error().status != Status::not_found) fail("{}", cached.error().message);
  return {take(discover_machine()), "", true};
}

// Number of probes that must agree before tuning is advised, and the time between them. A host that moves PUs does so
// for seconds.
constexpr int floor_looks = 3;
constexpr auto between_looks = std::chrono::milliseconds(150);

/// The present floor of the machine, and that of its profile.
struct MachineNow {
  std::optional<Floor> floor;
  std::string why_not;  ///< why the floor is unknown
  std::optional<Profile> profile;
  std::string file;  ///< of the profile
  FloorCheck check;

  bool tune_again() const { return check.moved > 0; }
};

/// The floor of the first PUs of the default group, as `smelt tune` measures it.
Result<Floor> floor_now(const Machine& machine) {
  auto allowance = discover_allowance();
  if (!allowance) return allowance.error();
  auto group = default_group(machine, *allowance);
  if (!group) return group.error();
  std::vector<int> pus;
  for (const int index : group->pus) pus.push_back(machine.pus[static_cast<std::size_t>(index)].os_index);
  return probe_floor(pus);
}

MachineNow look_at_moment(const Machine& machine) {
  MachineNow moment;
  moment.file = profile_path(machine.fingerprint).string();
  if (auto profile = load_profile(moment.file); profile && profile->fingerprint == machine.fingerprint) {
    moment.profile = *std::move(profile);
  }
  for (int look = 0; look < floor_looks; ++look) {
    if (look > 0) std::this_thread::sleep_for(between_looks);
    const auto floor = floor_now(machine);
    if (!floor) {
      moment.why_not = floor.error().message;
      return moment;
    }
    moment.floor = *floor;
    if (moment.profile) moment.check = check_floor(*moment.profile, *floor);
    if (!moment.tune_again()) break;
  }
  return moment;
}

Json floor_document(const Floor& floor) { return {{"line_ns", floor.line_ns}, {"work_ns", floor.work_ns}}; }

void add_moment(const MachineNow& moment, Json& document) {
  document["floor"] = moment.floor ? floor_document(*moment.floor) : Json(nullptr);
  document["profile"] = nullptr;
  if (!moment.profile) return;
  document["profile"] = {{"file", moment.file},
                         {"measured_at", moment.profile->measured_at},
                         {"floor", moment.check.tables > 0 ? floor_document(moment.check.then) : Json(nullptr)},
                         {"tables", moment.check.tables},
                         {"tables_at_another_floor", moment.check.moved},
                         {"tune_again", moment.tune_again()}};
}

std::string floor_text(const Floor& floor) {
  const auto line = floor.line_ns > 0.0 ? fmt::format("a line to the next PU {}, ", format_time(floor.line_ns)) : "";
  return line + fmt::format("arithmetic {}", format_time(floor.work_ns));
}

std::string describe_moment(const MachineNow& moment) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += "  " + styled(Style::faint, pad_right(name, 13)) + value + "\n";
  };
  add("now", moment.floor ? floor_text(*moment.floor) : "not known: " + moment.why_not);
  if (!moment.profile) return text;
  add("profile", moment.check.tables > 0 ? floor_text(moment.check.then) + ", " + moment.profile->measured_at
                                         : "made before profiles kept it, " + moment.profile->measured_at);
  if (!moment.tune_again()) return text;
  return text + styled(Style::bad, "  tune again") +
         fmt::format("   {} of {} tables were made when it was more than 20 % off: run `smelt tune`\n",
                     moment.check.moved, moment.check.tables);
}

Json classes_document(const Machine& machine) {
  Json classes = Json::array();
  for (const auto& costs : cost_classes(machine)) {
    classes.push_back({{"class", costs.name},
                       {"pairs", costs.pairs},
                       {"min_ns", costs.min_ns},
                       {"median_ns", costs.median_ns},
                       {"max_ns", costs.max_ns},
                       {"send_ns", costs.send_ns},
                       {"recv_ns", costs.recv_ns}});
  }
  return classes;
}

void print_document(const ShownMachine& subject) {
  Json document = machine_document(subject.machine);
  document["classes"] = subject.machine.has_costs() ? classes_document(subject.machine) : Json::array();
  if (subject.own) {
    const Allowance allowance = take(discover_allowance());
    document["allowance"] = {
        {"pus", allowance.pus}, {"cpu_quota", allowance.cpu_quota}, {"parallelism", allowance.parallelism()}};
    add_moment(look_at_moment(subject.machine), document);
  }
  print(format_json(document));
}

std::string describe_allowance(const Machine& machine) {
  const auto allowance = discover_allowance();
  if (!allowance) return fmt::format("  unknown: {}\n", allowance.error().message);
  std::string text =
      fmt::format("  PU {} ({} of {})", index_ranges(allowance->pus), allowance->pus.size(), machine.size());
  text += allowance->cpu_quota > 0 ? fmt::format(", CPU quota {:.4g} PUs", allowance->cpu_quota) : ", no CPU quota";
  return text + fmt::format(": {} rank{} can run at the same time\n", allowance->parallelism(),
                            allowance->parallelism() == 1 ? "" : "s");
}

std::string describe_source(const ShownMachine& subject) {
  const Machine& machine = subject.machine;
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) text += "  " + styled(Style::faint, pad_right(name, 13)) + value + "\n";
  };
  add("file", subject.origin);
  add("fingerprint", machine.fingerprint);
  add("costs", machine.method);
  add("measured at", machine.measured_at);
  if (machine.call_ns) add("call", fmt::format("{:.0f} ns besides its messages", *machine.call_ns));
  if (machine.tsc_ghz > 0) add("TSC", fmt::format("{:.3f} GHz", machine.tsc_ghz));
  std::string pages;
  for (const auto bytes : machine.page_sizes_bytes) {
    pages += (pages.empty() ? "" : ", ") + format_bytes(static_cast<double>(bytes));
  }
  add("page sizes", pages);
  return text;
}

std::string heading(const char* text, const char* note) {
  return "\n" + styled(Style::title, text) + "  " + styled(Style::faint, note) + "\n";
}

double gbs_of(double ns_per_kib) { return 1024.0 / std::max(1e-3, ns_per_kib); }

void print_costs(const Machine& machine, bool all) {
  if (all || machine.size() <= most_pus_in_full) {
    print(heading("Message", "ns, from the start of the send to the end of the receive"));
    print(draw_heat_map(machine, screen().columns));
  }
  print(heading("By distance", "ns; send and recv: medians of the time that each side is blocked"));
  print(draw_cost_classes(machine));
  const auto row_of = [](const char* title, const char* note, const std::vector<double>& costs) {
    if (!costs.empty()) print(heading(title, note) + draw_burst(costs));
  };
  row_of("Burst", "cost of the k-th send in a row to distinct receivers", machine.send_burst_ns);
  row_of("Receives", "cost of the k-th receive in a row of messages that wait", machine.recv_burst_ns);
  row_of("Receives at once", "the same of messages that come while the receiver waits for the first",
         machine.recv_row_ns);
  row_of("Lines", "a lone message of 1, 2, 4, ... lines", machine.lines_ns);
  row_of("Readers", "how much later the last of 1, 2, 4, ... PUs has a line that all wait for", machine.fan_out_ns);
  row_of("Polls", "one look at each of 1, 2, 4, ... channels that are empty", machine.poll_ns);
  if (machine.source_ns_per_kib) {
    print(heading("Sources", "what a PU's caches hand out to all others, whatever their number") +
          fmt::format("  {:.1f} GB/s", gbs_of(*machine.source_ns_per_kib)) +
          (machine.near_source_ns_per_kib
               ? fmt::format(", {:.1f} GB/s of what lies in the first cache", gbs_of(*machine.near_source_ns_per_kib))
               : "") +
          "\n");
  }
  if (machine.process_pages_ns_per_kib) {
    print(heading("Pages", "what processes get in all that copy the same memory out of another one") +
          fmt::format("  {:.1f} GB/s\n", gbs_of(*machine.process_pages_ns_per_kib)));
  }
  if (machine.counter_ns) {
    print(heading("Counter", "what each PU adds until all have counted themselves on one line") +
          fmt::format("  {:.0f} ns\n", *machine.counter_ns));
  }
  if (machine.change_ns_per_kib) {
    print(heading("Changes", "storing to lines that another PU has read, per KiB") +
          fmt::format("  {:.0f} ns more\n", *machine.change_ns_per_kib));
  }
  if (machine.switch_ns) {
    print(heading("Switch", "to another rank that shares the PU") + fmt::format("  {:.0f} ns", *machine.switch_ns) +
          (machine.process_switch_ns ? fmt::format(", {:.0f} ns between processes", *machine.process_switch_ns) : "") +
          "\n");
  }
}

void show_floor(bool json) {
  const MachineNow moment = look_at_moment(find_subject("").machine);
  if (!moment.floor) fail("{}", moment.why_not);
  if (!json) return print(describe_moment(moment));
  Json document = Json::object();
  add_moment(moment, document);
  print(format_json(document));
}

void run(const ShowFlags& arguments) {
  if (arguments.floor && !arguments.model.empty())
    fail_usage("--floor: of this machine only, not of {}", arguments.model);
  if (arguments.floor) return show_floor(arguments.json);
  const ShownMachine subject = find_subject(arguments.model);
  const Machine& machine = subject.machine;
  if (arguments.json) return print_document(subject);
  print(fmt::format("{}  {} PUs\n", styled(Style::title, one_line(machine.name)), machine.size()));
  print(describe_source(subject) + "\n" + draw_hardware(machine, arguments.all));
  if (subject.own) print("\n" + styled(Style::title, "This process may use") + "\n" + describe_allowance(machine));
  if (subject.own) print(heading("Floor", "smallest costs at this moment") + describe_moment(look_at_moment(machine)));
  if (!machine.has_costs()) {
    print("\nNot measured yet: run `smelt measure` to see what its messages cost.\n");
  } else if (machine.size() > 1) {
    print_costs(machine, arguments.all);
  }
  const auto copies = draw_copies(machine);
  if (!copies.empty()) print(heading("Copies", "of data that another PU wrote last, by size") + copies);
  const auto memory = draw_memory(machine);
  if (!memory.empty()) print(heading("Memory", "by NUMA node and page size") + memory);
}

}  // namespace

void add_show(Parser& parser) {
  auto arguments = std::make_shared<ShowFlags>();
  Command command = parser.add("show", "Show a machine: its parts, and what messages cost on it");
  command.text("model,-m,--model", arguments->model, "MODEL",
               "machine file, - for standard input; default: this machine");
  command.flag("--floor", arguments->floor, "only the current floor of costs, and whether to tune again");
  command.flag("--all", arguments->all, "print the heat map and every part, even for more than 256 PUs");
  command.flag("--json", arguments->json, "print JSON");
  command.footer(
      "Examples:\n"
      "  smelt show                  this machine\n"
      "  smelt show epyc.json        a machine from a file\n"
      "  smelt synth --packages 2 --cores 16 | smelt show -\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
