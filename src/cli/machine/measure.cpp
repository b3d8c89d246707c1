// smelt measure: times this machine and saves the model.
#include "smelt/measure.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/machine/draw_machine.hpp"
#include "cli/parser.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct MeasureFlags {
  bool quick = false;
  bool if_needed = false;
  bool json = false;
  double budget_s = 30.0;
  std::string output;
};

struct MeasureOutcome {
  Machine machine;
  std::optional<Machine> before;  ///< the model that is replaced
  bool measured = true;
  double elapsed_s = 0.0;
  std::vector<std::string> files;
  std::vector<Unmeasured> left_out;
};

Machine measure(const MeasureFlags& arguments, std::vector<Unmeasured>& left_out) {
  ProgressBar progress;
  MeasureOptions options;
  options.budget_s = arguments.budget_s;
  options.quick = arguments.quick;
  options.progress = [&](const MeasureProgress& now) {
    progress.update("measuring " + now.phase, now.fraction, now.eta_s);
  };
  options.left_out = &left_out;
  return take(measure_machine(options));
}

/// Before the time of the measurement is spent.
void check_targets(const MeasureFlags& arguments) {
  if (!arguments.output.empty()) check_writable(arguments.output);
  const auto directory = cache_path("").parent_path();
  std::error_code reason;
  std::filesystem::create_directories(directory, reason);
  if (reason) fail("{}: cannot create: {}", directory.string(), reason.message());
  if (access(directory.c_str(), W_OK | X_OK) != 0) {
    fail("{}: cannot write to this directory: {}", directory.string(), std::strerror(errno));
  }
}

MeasureOutcome obtain(const MeasureFlags& arguments) {
  MeasureOutcome outcome;
  if (arguments.if_needed) {
    if (auto cached = load_cached_machine()) {
      outcome.machine = *std::move(cached);
      outcome.measured = false;
      outcome.files.push_back(cached_machine_path(outcome.machine).string());
      return outcome;
    }
  }
  check_targets(arguments);
  on_interrupt("smelt: measure: interrupted: nothing was saved\n");
  if (auto cached = load_cached_machine()) outcome.before = *std::move(cached);
  const auto start = std::chrono::steady_clock::now();
  outcome.machine = measure(arguments, outcome.left_out);
  outcome.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

/// Warns about the pair whose round trip differs most from the previous model, if it differs by a factor of 2 or more.
/// Causes are a busy machine, or a hypervisor that moves PUs.
void compare_with_before(const MeasureOutcome& outcome) {
  constexpr double suspicious = 2.0;
  if (!outcome.before || !outcome.before->rtt_ns || !outcome.machine.rtt_ns) return;
  const Matrix &before = *outcome.before->rtt_ns, &now = *outcome.machine.rtt_ns;
  double most = suspicious;
  std::string remark;
  std::vector<int> there;  // index in the previous model, which may be of more PUs
  for (const auto& pu : outcome.machine.pus) there.push_back(outcome.before->index_of(pu.os_index));
  for (std::size_t from = 0; from < now.size(); ++from) {
    for (std::size_t to = from + 1; to < now.size(); ++to) {
      if (there[from] < 0 || there[to] < 0) continue;
      const double then_ns = before(static_cast<std::size_t>(there[from]), static_cast<std::size_t>(there[to]));
      const double now_ns = now(from, to);
      if (then_ns <= 0.0 || now_ns <= 0.0 || std::max(then_ns / now_ns, now_ns / then_ns) < most) continue;
      most = std::max(then_ns / now_ns, now_ns / then_ns);
      remark = fmt::format("PU {} to {} and back takes {:.0f} ns, it took {:.0f} in the model of {}",
                           outcome.machine.pus[from].os_index, outcome.machine.pus[to].os_index, now_ns, then_ns,
                           outcome.before->measured_at);
    }
  }
  if (!remark.empty()) {
    print_error(
        fmt::format("measure: {}: other programs were at work, or a hypervisor has moved PUs; measure again", remark));
  }
}

void save(const MeasureFlags& arguments, MeasureOutcome& outcome) {
  if (outcome.measured) {
    const auto cache = cached_machine_path(outcome.machine).string();
    const HoldSignals until_saved(cache);
    take(save_cached_machine(outcome.machine));
    outcome.files.push_back(cache);
    on_interrupt("smelt: measure: interrupted: the model is in the cache\n");
  }
  if (!arguments.output.empty()) {
    const HoldSignals until_saved(arguments.output);
    take(save_machine(outcome.machine, arguments.output));
    outcome.files.push_back(arguments.output);
  }
}

std::string describe(const Unmeasured& part) { return fmt::format("{} ({})", part.what, part.why.message); }

void report_left_out(const std::vector<Unmeasured>& parts) {
  if (parts.empty()) return;
  std::vector<std::string> texts;
  for (const auto& part : parts) texts.push_back(describe(part));
  const bool lacked_time =
      std::any_of(parts.begin(), parts.end(), [](const auto& part) { return part.why.status == Status::timed_out; });
  print(fmt::format("Left out: {}.{}\n", fmt::join(texts, "; "),
                    lacked_time ? " Measure again with a larger --budget." : ""));
}

/// A part of the machine was measured, and there is a model of more of it.
void report_part(const MeasureOutcome& outcome) {
  if (!outcome.measured || !outcome.before || outcome.before->size() <= outcome.machine.size()) return;
  print(fmt::format("There is a model of {} PUs in the cache, too, which is used before this one of {}.\n",
                    outcome.before->size(), outcome.machine.size()));
}

void report(const MeasureOutcome& outcome) {
  const Machine& machine = outcome.machine;
  print(fmt::format("{}  {} PUs\n\n", styled(Style::title, machine.name), machine.size()));
  if (machine.size() > 1) {
    print("Cost of a message, ns\n" + draw_cost_classes(machine) + "\n");
  } else {
    print("One PU: there is nobody to talk to.\n\n");
  }
  const auto copies = draw_copies(machine);
  if (!copies.empty()) print("Copies\n" + copies + "\n");
  if (outcome.measured) {
    print(fmt::format("Measured in {:.1f} s.\n", outcome.elapsed_s));
  } else {
    print(fmt::format("Measured before, at {}; the hardware has not changed.\n", machine.measured_at));
  }
  for (const auto& file : outcome.files) print(fmt::format("Model in {}\n", file));
  report_left_out(outcome.left_out);
  report_part(outcome);
}

void run(const MeasureFlags& arguments) {
  MeasureOutcome outcome = obtain(arguments);
  save(arguments, outcome);
  compare_with_before(outcome);
  if (!arguments.json) return report(outcome);
  Json document = machine_document(outcome.machine);
  document["measured"] = outcome.measured;
  document["elapsed_s"] = outcome.elapsed_s;
  document["files"] = outcome.files;
  document["left_out"] = Json::array();
  for (const auto& part : outcome.left_out) document["left_out"].push_back(describe(part));
  print(format_json(document));
}

}  // namespace

void add_measure(Parser& parser) {
  auto arguments = std::make_shared<MeasureFlags>();
  Command command = parser.add("measure", "Measure this machine and keep its model");
  command.flag("--quick", arguments->quick, "a tenth of the repetitions: rough, but fast");
  command.duration("--budget", arguments->budget_s, "time limit, such as 30s, 500ms, 2m (default 30s)");
  command.text("-o,--output", arguments->output, "FILE", "write the model here, too");
  command.flag("--if-needed", arguments->if_needed, "only if there is no model of this machine yet");
  command.flag("--json", arguments->json, "print the model as JSON");
  command.footer(
      "The model goes to the cache ($XDG_CACHE_HOME/smelt), where every program that uses smelt finds it.\n"
      "Measure on an otherwise idle machine.\n\n"
      "Examples:\n"
      "  smelt measure                           measure well, in at most 30 s\n"
      "  smelt measure --quick --if-needed       make sure that there is a model\n"
      "  smelt measure --budget 5m -o big.json   take time for a large machine, keep a copy\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
