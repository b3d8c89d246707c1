// smelt tune: races algorithms on this machine and saves the winners.
#include "smelt/tune.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/interrupt.hpp"
#include "cli/parser.hpp"
#include "cli/plan/calls.hpp"
#include "cli/terminal.hpp"

namespace smelt::cli {
namespace {

struct TuneFlags {
  double time_s = 60.0;
  std::string operations, ranks, syncs, kinds, output;
  std::vector<std::string> files;
  std::size_t most_bytes = 16u << 20;
  bool fresh = false;
  bool compare = false;
  bool json = false;
};

struct TuneOutcome {
  Profile found;  ///< by this run
  double elapsed_s = 0.0;
  TuneCounts counts;
  std::string fingerprint;  ///< of the machine
  bool interrupted = false;
  std::string file;
};

std::atomic<int> stop_asked{0};  // lock-free, so a signal handler may write it

/// The first Ctrl-C ends the tuning and keeps its results; the second one ends the command.
void ask_to_stop(int number) {
  stop_asked = 1;
  std::signal(number, SIG_DFL);
}

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::vector<int> rank_counts(const std::string& text) {
  if (text.empty()) return {0};
  auto counts = parse_index_list("--ranks", text);
  for (const int count : counts) {
    if (count < 2 || count > 1024) fail_usage("--ranks {}: numbers of ranks, 2 to 1024", text);
  }
  return counts;
}

/// Whether the ranks are processes, by kind of communicator.
std::vector<bool> kinds_of(const std::string& text) {
  std::vector<bool> kinds;
  if (text.empty()) return {false, true};
  for (const auto& name : given_names("--for", text)) {
    if (name != "threads" && name != "processes") fail_usage("--for {}: must be threads, processes or both", name);
    const bool processes = name == "processes";
    if (std::find(kinds.begin(), kinds.end(), processes) == kinds.end()) kinds.push_back(processes);
  }
  return kinds;
}

TuneOptions options_of(const TuneFlags& arguments) {
  TuneOptions options;
  for (const auto& name : given_names("--ops", arguments.operations)) {
    options.operations.push_back(parse_tunable_operation("--ops", name));
  }
  for (const auto& name : given_names("--sync", arguments.syncs)) options.syncs.push_back(parse_sync("--sync", name));
  options.most_bytes = arguments.most_bytes;
  options.interrupted = [] { return stop_asked != 0; };
  return options;
}

/// The profile in the file, if it belongs to this machine. A named file is not replaced by accident.
std::optional<Profile> known_profile(const std::string& file, const std::string& fingerprint, bool named) {
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored) && !std::filesystem::is_regular_file(file, ignored)) return std::nullopt;
  auto known = load_profile(file);
  if (known && known->fingerprint == fingerprint) return *std::move(known);
  if (known && named) fail("{}: a profile of another machine; name another file with -o", file);
  if (!known && named && known.error().status != Status::not_found) fail("{}", known.error().message);
  return std::nullopt;
}

void warn_of_damage(const std::string& file) {
  const auto profile = load_profile(file);
  if (profile || profile.error().status == Status::not_found) return;
  print_error("tune: " + profile.error().message + "; it will be replaced");
}

/// Creates the directory of the cache, and fails where the profile could not be written after the races.
void check_target(const TuneFlags& arguments, const std::string& file) {
  if (arguments.output.empty()) {
    const auto directory = std::filesystem::path(file).parent_path();
    std::error_code reason;
    std::filesystem::create_directories(directory, reason);
    if (reason) fail("{}: cannot create: {}", directory.string(), reason.message());
  }
  check_writable(file);
}

/// One campaign: ranks of one kind.
struct TuneJob {
  Group group;
  bool processes = false;
};

std::vector<TuneJob> jobs_of(const TuneFlags& arguments, const Machine& machine) {
  const auto counts = rank_counts(arguments.ranks);
  const auto kinds = kinds_of(arguments.kinds);
  std::vector<TuneJob> jobs;
  for (const int count : counts) {
    for (const bool processes : kinds) jobs.push_back({group_of(machine, true, count), processes});
  }
  if (jobs.front().group.size() < 2) fail("one PU, one rank: there is nothing to tune; name more ranks with --ranks");
  return jobs;
}

/// Jobs share the time. Time that one job does not need goes to the next ones.
void tune_all(const std::vector<TuneJob>& jobs, const TuneFlags& arguments, const Machine& machine, TuneOptions options,
              TuneOutcome& outcome) {
  ProgressBar progress;
  options.counts = &outcome.counts;
  const double start = now_s();
  for (std::size_t i = 0; i < jobs.size() && stop_asked == 0; ++i) {
    const auto& group = jobs[i].group;
    const bool processes = jobs[i].processes;
    const double left = arguments.time_s - (now_s() - start);
    options.time_s = std::max(0.05, left / static_cast<double>(jobs.size() - i));
    options.processes = processes;
    options.progress = [&](const TuneProgress& now) {
      const double done = now_s() - start;
      progress.update(fmt::format("{} {}: {}", group.size(), processes ? "processes" : "threads", now.doing),
                      std::min(1.0, done / arguments.time_s), std::max(0.0, arguments.time_s - done));
    };
    auto found = take(tune(machine, group, options));
    outcome.found.merge(found);
  }
  outcome.elapsed_s = now_s() - start;
}

TuneOutcome obtain(const TuneFlags& arguments) {
  TuneOptions options = options_of(arguments);
  (void)rank_counts(arguments.ranks);
  (void)kinds_of(arguments.kinds);
  const Machine machine = load_model("");
  TuneOutcome outcome;
  outcome.fingerprint = machine.fingerprint;
  outcome.file = arguments.output.empty() ? profile_path(machine.fingerprint).string() : arguments.output;
  check_target(arguments, outcome.file);
  const auto known = known_profile(outcome.file, machine.fingerprint, !arguments.output.empty());
  if (!known && arguments.output.empty()) warn_of_damage(outcome.file);
  if (known && !arguments.fresh) options.incumbent = &*known;
  const auto jobs = jobs_of(arguments, machine);
  on_interrupt(ask_to_stop);
  tune_all(jobs, arguments, machine, options, outcome);
  outcome.interrupted = stop_asked != 0;
  return outcome;
}

/// Locks the directory of a file against other `smelt tune`, and leaves no file behind. Where the file system has no
/// locks, there is none.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& file) {
    std::error_code ignored;
    const auto directory = std::filesystem::weakly_canonical(file, ignored).parent_path();
    descriptor_ = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0) return;
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {}
  }
  ~DirectoryLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Adds the results to what the file holds now: another `smelt tune` may have written to it meanwhile.
void save(const TuneFlags& arguments, const TuneOutcome& outcome) {
  on_interrupt("smelt: tune: interrupted: the profile was not saved\n");
  const DirectoryLock until_written(outcome.file);
  const HoldSignals until_saved(outcome.file);
  auto merged = known_profile(outcome.file, outcome.fingerprint, !arguments.output.empty()).value_or(Profile());
  merged.merge(outcome.found);
  take(save_profile(merged, outcome.file));
  on_interrupt("smelt: tune: interrupted: the profile was saved\n");
}

bool same_table(const ProfileCell& a, const ProfileCell& b) {
  return a.operation == b.operation && a.sync == b.sync && a.shape == b.shape;
}

/// Cells of one table with the same recipe are one row.
void print_table(const std::vector<ProfileCell>& cells) {
  Table table("lllllrrl");
  table.header({"operation", "sync", "ranks", "sizes", "runs", "measured", "predicted", "runner-up"});
  for (std::size_t i = 0; i < cells.size();) {
    const auto& cell = cells[i];
    const bool first = i == 0 || !same_table(cells[i - 1], cell);
    std::size_t next = i + 1;
    while (next < cells.size() && same_table(cells[next], cell) && cells[next].recipe == cell.recipe) ++next;
    const bool open_end = next == cells.size() || !same_table(cells[next], cell);
    const auto range = format_byte_count(first ? 0 : cell.from_bytes) +
                       (open_end ? " up" : " to " + format_byte_count(cells[next].from_bytes));
    const std::string rival =
        cell.runner_up.empty()
            ? "-"
            : fmt::format("{}  {}", loss_text(cell.runner_up_ns, cell.measured_ns, cell.equal), cell.runner_up);
    table.row({{first ? to_string(cell.operation) : "", Style::strong},
               first ? to_string(cell.sync) : "",
               first ? fmt::format("{} {}", cell.shape.ranks, cell.shape.processes ? "processes" : "threads") : "",
               range,
               {to_string(cell.recipe), Style::accent},
               cell.measured_ns > 0.0 ? format_time(cell.measured_ns) : "model",
               format_time(cell.predicted_ns),
               {rival, Style::faint}});
    i = next;
  }
  print(table.text());
}

Json cell_document(const ProfileCell& cell) {
  return {{"operation", to_string(cell.operation)},
          {"sync", to_string(cell.sync)},
          {"ranks", cell.shape.ranks},
          {"processes", cell.shape.processes},
          {"from_bytes", cell.from_bytes},
          {"recipe", to_string(cell.recipe)},
          {"measured_ns", cell.measured_ns},
          {"predicted_ns", cell.predicted_ns},
          {"spread", cell.spread},
          {"runner_up", cell.runner_up.empty() ? Json() : Json(cell.runner_up)},
          {"runner_up_ns", cell.runner_up_ns},
          {"equal", cell.equal},
          {"floor", {{"line_ns", cell.floor.line_ns}, {"work_ns", cell.floor.work_ns}}},
          {"equals", cell.equals}};
}

void run(const TuneFlags& arguments) {
  if (arguments.compare) return compare_tunings(arguments.files, arguments.json);
  if (!arguments.files.empty()) fail_usage("{}: files are named with --compare alone", arguments.files.front());
  const TuneOutcome outcome = obtain(arguments);
  save(arguments, outcome);
  if (arguments.json) {
    Json cells = Json::array();
    for (const auto& cell : outcome.found.cells) cells.push_back(cell_document(cell));
    return print(format_json({{"fingerprint", outcome.found.fingerprint},
                              {"measured_at", outcome.found.measured_at},
                              {"elapsed_s", outcome.elapsed_s},
                              {"interrupted", outcome.interrupted},
                              {"rounds", outcome.counts.rounds},
                              {"retaken", outcome.counts.retaken},
                              {"unsteady", outcome.counts.unsteady},
                              {"file", outcome.file},
                              {"cells", cells}}));
  }
  print_table(outcome.found.cells);
  const auto measured = std::count_if(outcome.found.cells.begin(), outcome.found.cells.end(),
                                      [](const auto& cell) { return cell.measured_ns > 0.0; });
  print(fmt::format(
      "\n{} of {} cells measured in {:.1f} s{}; others follow the model or their neighbours.\nProfile in {}\n",
      measured, outcome.found.cells.size(), outcome.elapsed_s, outcome.interrupted ? ", interrupted" : "",
      outcome.file));
  if (outcome.counts.retaken > 0) {
    print(
        fmt::format("{} of {} rounds were run again, as the machine's floor moved meanwhile; {} count all the same.\n",
                    outcome.counts.retaken, outcome.counts.rounds, outcome.counts.unsteady));
  }
}

}  // namespace

void add_tune(Parser& parser) {
  auto arguments = std::make_shared<TuneFlags>();
  Command command = parser.add("tune", "Race algorithms on this machine and keep the winners");
  command.duration("--time", arguments->time_s, "time limit, such as 60s, 500ms, 5m (default 60s)");
  command.text("--ops", arguments->operations, "NAMES",
               "broadcast|reduce|allreduce|scatter|gather|allgather|alltoall|reduce-scatter|scan|exscan (default all)");
  command.text("--ranks", arguments->ranks, "LIST", "numbers of ranks, such as 2,8,16 (default one per core)");
  command.text("--for", arguments->kinds, "NAMES", "threads|processes: what the ranks are (default both)");
  command.text("--sync", arguments->syncs, "NAMES", "loose|strict (default both)");
  command.value(
      "--most", "SIZE",
      [arguments](const std::string& text) {
        arguments->most_bytes = parse_byte_count("--most", text);
        if (arguments->most_bytes < 8) fail_usage("--most {}: must be 8 bytes or more", text);
      },
      "largest message (default 16MiB)");
  command.flag("--fresh", arguments->fresh, "ignore the preferences of an earlier run among equals");
  command.flag("--compare", arguments->compare, "no races; report how far two profiles agree");
  command.words("file", arguments->files, "FILE", "with --compare: the two profiles");
  command.text("-o,--output", arguments->output, "FILE",
               "the profile to write or to add to; default: beside the model");
  command.flag("--json", arguments->json, "print what was found as JSON");
  command.footer(
      "Needs the model that `smelt measure` makes. The profile is stored beside it, where every program that uses\n"
      "smelt finds it. Run it on an otherwise idle machine. Ctrl-C ends it early and keeps the results so far.\n\n"
      "Examples:\n"
      "  smelt tune                                  everything, one rank per core, threads and processes, a minute\n"
      "  smelt tune --time 10s --ops allreduce       one operation\n"
      "  smelt tune --ranks 2,16 --time 5m           more groups, also with more ranks than cores\n"
      "  smelt tune --compare a.json b.json          how far two runs agree\n");
  command.action([arguments] { run(*arguments); });
}

}  // namespace smelt::cli
