// smelt show: a machine as a tree, its costs as a heat map and tables.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/draw_machine.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct ShowFlags {
  std::string model;
  bool json = false;
};

struct Subject {
  Machine machine;
  std::string origin;
  bool own = false;  // the machine that this runs on: what the process may use of it is known
};

Subject find_subject(const std::string& model) {
  if (!model.empty()) return {load_model(model, false), model == "-" ? "standard input" : model, false};
  auto cached = load_cached_machine();
  if (cached) {
    const auto file = cache_path(cached->fingerprint).string();
    return {*std::move(cached), file, true};
  }
  if (cached.error().status != Status::not_found) fail("{}", cached.error().message);
  return {take(discover_machine()), "", true};
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

void print_document(const Subject& subject) {
  Json document = machine_document(subject.machine);
  document["classes"] = subject.machine.has_costs() ? classes_document(subject.machine) : Json::array();
  if (subject.own) {
    const Allowance allowance = take(discover_allowance());
    document["allowance"] = {
        {"pus", allowance.pus}, {"cpu_quota", allowance.cpu_quota}, {"parallelism", allowance.parallelism()}};
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

std::string describe_source(const Subject& subject) {
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

void print_costs(const Machine& machine) {
  print(heading("Message", "ns, from the start of the send to the end of the receive"));
  print(draw_heat_map(machine, screen().columns));
  print(heading("By distance", "ns; send and recv: medians of the time that each side is blocked"));
  print(draw_cost_classes(machine));
  const auto burst = draw_send_burst(machine);
  if (!burst.empty()) print(heading("Burst", "cost of the k-th send in a row to distinct receivers") + burst);
}

void run(const ShowFlags& arguments) {
  const Subject subject = find_subject(arguments.model);
  const Machine& machine = subject.machine;
  if (arguments.json) return print_document(subject);
  print(fmt::format("{}  {} PUs\n", styled(Style::title, machine.name), machine.size()));
  print(describe_source(subject) + "\n" + draw_hardware(machine));
  if (subject.own) print("\n" + styled(Style::title, "This process may use") + "\n" + describe_allowance(machine));
  if (!machine.has_costs()) {
    print("\nNot measured yet: run `smelt measure` to see what its messages cost.\n");
  } else if (machine.size() > 1) {
    print_costs(machine);
  }
  const auto copies = draw_copies(machine);
  if (!copies.empty()) print(heading("Copies", "of data that another PU wrote last, by size") + copies);
}

}  // namespace

void add_show(Parser& parser) {
  auto arguments = std::make_shared<ShowFlags>();
  Command command = parser.add("show", "Show a machine: its parts, and what messages cost on it");
  command.text("model,-m,--model", arguments->model, "MODEL",
               "machine file, - for standard input; default: this machine");
  command.flag("--json", arguments->json, "print JSON");
  command.footer(
      "Examples:\n"
      "  smelt show                  this machine\n"
      "  smelt show epyc.json        a machine from a file\n"
      "  smelt synth --packages 2 --cores 16 | smelt show -\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
