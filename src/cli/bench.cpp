// smelt bench: smelt with every tree, measured side by side with its peers.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "cli/arguments.hpp"
#include "cli/bench_worker.hpp"
#include "cli/command.hpp"
#include "cli/document.hpp"
#include "cli/parser.hpp"
#include "cli/state/bench_state.hpp"
#include "cli/terminal.hpp"
#include "cli/version.hpp"
#include "smelt/floor.hpp"
#include "smelt/schedule.hpp"
#ifdef SMELT_HAS_BENCH
#include "bench/harness/contest.hpp"
#include "bench/harness/contestants.hpp"
#include "bench/harness/smelt_contestant.hpp"
#endif

namespace smelt::cli {
namespace {

struct BenchFlags {
  OperationArgument asked;
  std::string benchmark;  // as `asked` says
  std::string model;
  std::string method = "auto";
  std::string only;
  std::string sync;
  int threads = 0;  // 0: one per core that may be used, at least two
  bool processes = false;
  std::size_t bytes = 8;
  int late_rank = -1;
  int late_ns = 0;
  int starts = 0;       // 0: by the benchmark
  int most_starts = 0;  // 0: as many as `starts`, if that is given
  double time_s = 0.0;  // 0: by the benchmark
  bool algorithms = false;
  bool floor = false;
  bool json = false;
  std::string lookups, keys, skew;  ///< of a map
};

constexpr std::size_t most_bytes = std::size_t{1} << 30;

// "8", "64K", "64KiB", "16MiB", "1G": the units are powers of 1024.
std::size_t parse_size(const std::string& text) {
  static const std::map<std::string, int> shifts = {{"", 0},   {"B", 0},    {"K", 10}, {"KiB", 10},
                                                    {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
  std::size_t number = 0;
  const auto [unit, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto shift = shifts.find(std::string(unit, text.data() + text.size()));
  if (status != std::errc() || shift == shifts.end() || number > most_bytes >> shift->second) {
    fail_usage("--bytes {}: a size up to 1GiB, such as 8, 64K or 16MiB", text);
  }
  return number << shift->second;
}

}  // namespace

#ifndef SMELT_HAS_BENCH

std::optional<int> run_bench_worker(int, char**) { return std::nullopt; }

namespace {
void run(const BenchFlags&) { fail("this smelt was built without benchmarks: build it with -DSMELT_BENCH=ON"); }
}  // namespace

#else

std::optional<int> run_bench_worker(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "bench" || std::string(argv[2]) != "--worker") return std::nullopt;
  return bench::run_smelt_worker(std::vector<std::string>(argv + 3, argv + argc));
}

namespace {

constexpr double all_time_s = 4.0;  // for each benchmark of `all`
constexpr double one_time_s = 12.0;
// The starts of one benchmark. Verdicts may be clear after the first ones; while one is open, more follow as time
// allows.
constexpr int few_starts = 3, many_starts = 14;

struct Session {
  Machine machine;  // what smelt plans with
  std::string program;
  std::vector<int> pus;
};

struct Report {
  std::string benchmark;
  int threads = 0;
  std::size_t bytes = 0;
  bench::ContestOutcome outcome;
  std::vector<std::string> absent;
};

std::string own_program() {
  char path[PATH_MAX];
  const auto length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) fail("/proc/self/exe: cannot read: needed to start the contestants");
  return std::string(path, static_cast<std::size_t>(length));
}

// The model that smelt plans with: the named one, the measured one, or the bare topology.
Machine subject(const std::string& model) {
  if (!model.empty()) return load_model(model);
  auto cached = load_cached_machine();
  if (cached) return *std::move(cached);
  if (cached.error().status != Status::not_found) fail("{}", cached.error().message);
  print_error("bench: no measured model of this machine, planning with its topology alone: run `smelt measure`");
  return take(discover_machine());
}

int default_threads() {
  const Allowance allowance = take(discover_allowance());
  const Machine machine = take(discover_machine());
  return std::max(2, take(default_group(machine, allowance)).size());
}

bench::WorkerSpec team_of(const BenchFlags& arguments, const std::string& benchmark, const std::vector<int>& pus) {
  bench::WorkerSpec team;
  team.operation = benchmark;
  team.threads = static_cast<int>(pus.size());
  team.processes = arguments.processes;
  team.bytes = arguments.bytes;
  team.method = arguments.method;
  team.pus = pus;
  team.model = arguments.model;
  team.sync = arguments.sync;
  team.late_rank = arguments.late_rank;
  team.late_ns = static_cast<std::uint64_t>(arguments.late_ns);
  return team;
}

// The first of all names with the same steps on these ranks, such as all trees of two ranks.
std::vector<std::string> distinct_trees(const std::vector<std::string>& trees, const Session& session,
                                        const std::string& benchmark) {
  const auto group = make_group(session.machine, session.pus);
  const auto operation = parse_operation(benchmark);
  if (!group || !operation || !session.machine.has_costs()) return trees;
  std::vector<std::string> distinct;
  std::vector<std::vector<std::vector<Step> > > seen;
  for (const auto& tree : trees) {
    PlanOptions options;
    options.topology = tree;
    options.root = 0;
    options.search_ms = 0;
    const auto plan = make_plan(session.machine, *group, *operation, options);
    if (!plan || std::find(seen.begin(), seen.end(), plan->steps) != seen.end()) continue;
    seen.push_back(plan->steps);
    distinct.push_back(tree);
  }
  return distinct;
}

// "smelt/NAME" of each algorithm that smelt has for these ranks.
std::vector<std::string> algorithm_names(const bench::WorkerSpec& team) {
  const bool power_of_two = (team.threads & (team.threads - 1)) == 0;
  std::vector<std::string> names = {"smelt"};
  for (const auto& algorithm : algorithms()) {
    if (to_string(algorithm.operation) != team.operation || (algorithm.power_of_two && !power_of_two)) continue;
    names.push_back("smelt/" + algorithm.name);
  }
  return names;
}

std::vector<std::string> tree_names() {
  std::vector<std::string> trees;
  for (const auto& topology : topologies()) {
    if (topology.name != "dissemination") trees.push_back(topology.name);  // it is no tree; list_contestants() adds it
  }
  return trees;
}

// smelt with a fixed algorithm of the operation, optionally with parameters.
bool names_recipe(const std::string& name, const std::string& operation) {
  const auto recipe = parse_recipe(std::string_view(name).substr(std::string_view("smelt/").size()));
  if (!recipe && name.find('+') != std::string::npos) fail_usage("--only {}: {}", name, recipe.error().message);
  return recipe && std::any_of(algorithms().begin(), algorithms().end(), [&](const AlgorithmInfo& info) {
           return info.name == recipe->algorithm && to_string(info.operation) == operation;
         });
}

// Names of peers that are not installed are valid, too.
void check_only(const bench::WorkerSpec& team, const std::vector<std::string>& only, const Session& session) {
  if (only.empty()) return;
  const auto everyone = bench::list_contestants(team, tree_names(), session.program);
  std::vector<std::string> names = {"smelt/loose", "smelt/strict", "smelt/late"};
  if (team.operation == "channel") names.clear();
  for (const auto& contestant : everyone.contestants) names.push_back(contestant.name);
  for (const auto& absent : everyone.absent) names.push_back(absent.name);
  for (const auto& name : only) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (bench::names_variant(name, team.operation) && names_recipe(name, team.operation)) continue;
    fail_usage("--only {}: no such contestant in {}{} (one of {}, or smelt/ALGORITHM)", name, team.operation,
               suggestion(name, names), fmt::join(names, ", "));
  }
}

bench::ContestantList lineup_of(const bench::WorkerSpec& team, const BenchFlags& arguments, const Session& session) {
  const std::string& program = session.program;
  const auto trees = tree_names();
  if (arguments.algorithms) return bench::list_contestants(team, trees, program, algorithm_names(team));
  const auto only = split_names(arguments.only);
  if (!only.empty()) return bench::list_contestants(team, trees, program, only);
  // A summary has no time to measure the same thing under several names.
  const bool summary = arguments.benchmark == "all";
  return bench::list_contestants(team, summary ? distinct_trees(trees, session, team.operation) : trees, program);
}

// Every contestant keeps its buffers for the whole contest, and as much memory again in its library.
void check_memory(const bench::WorkerSpec& team, const bench::ContestantList& contestant_list) {
  const auto ranks = static_cast<double>(team.threads);
  const bool for_each = team.operation == "alltoall" || team.operation == "reduce-scatter";
  const bool collected = team.operation == "allgather";
  const double blocks = for_each || collected ? ranks * (ranks + 1) : 2 * ranks;
  const double needed =
      2 * blocks * static_cast<double>(team.bytes) * static_cast<double>(contestant_list.contestants.size());
  const double present = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > present) {
    fail_usage("--bytes {}: {} contestants with {} ranks need {:.0f} GiB for their buffers: name fewer with --only",
               team.bytes, contestant_list.contestants.size(), team.threads, needed / (1 << 30));
  }
}

// The reference of comparisons: smelt's own choice, otherwise the first name.
std::string reference_of(const bench::ContestantList& contestant_list, const BenchFlags& arguments) {
  std::vector<std::string> wanted = {"smelt"};
  for (const auto& name : split_names(arguments.only)) wanted.push_back(name);
  for (const auto& name : wanted) {
    for (const auto& contestant : contestant_list.contestants) {
      if (contestant.name == name) return name;
    }
  }
  return "";
}

void set_starts(const BenchFlags& arguments, bench::ContestOptions& options) {
  const bool one = arguments.benchmark != "all";
  options.starts = arguments.starts > 0 ? arguments.starts : one ? few_starts : 1;
  options.most_starts = arguments.most_starts > 0      ? arguments.most_starts
                        : arguments.starts > 0 || !one ? options.starts
                                                       : many_starts;
}

Report contest(const BenchFlags& arguments, const Session& session, const std::string& benchmark, double time_s,
               double done, double share) {
  const auto team = team_of(arguments, benchmark, session.pus);
  const auto contestant_list = lineup_of(team, arguments, session);
  check_memory(team, contestant_list);
  ProgressBar progress;
  bench::ContestOptions options;
  options.budget_s = time_s;
  set_starts(arguments, options);
  options.reference = reference_of(contestant_list, arguments);
  options.probe = [&] { return probe_floor(session.pus); };
  options.progress = [&](const bench::ContestProgress& now) {
    const bool whole = share >= 1.0;
    progress.update(benchmark + "  " + now.contestant, done + share * now.fraction, whole ? now.eta_s : -1);
  };
  Report report{
      benchmark, team.threads, arguments.bytes, take(bench::run_contest(options, contestant_list.contestants)), {}};
  for (const auto& absent : contestant_list.absent) report.absent.push_back(absent.name);
  return report;
}

// The missing peers in one line, and failed contestants in one line each.
void name_the_missing(const std::vector<Report>& reports) {
  std::vector<std::string> absent;
  for (const auto& report : reports) {
    for (const auto& name : report.absent) {
      if (std::find(absent.begin(), absent.end(), name) == absent.end()) absent.push_back(name);
    }
    for (const auto& failed : report.outcome.left_out) {
      if (failed.name == bench::floor_name || failed.reason.empty()) continue;
      print_error(fmt::format("bench: {}: {}: left out: {}", report.benchmark, failed.name, failed.reason));
    }
  }
  if (!absent.empty()) print_error(fmt::format("bench: not installed, left out: {}", fmt::join(absent, ", ")));
}

const bench::ContestResult* find_result(const Report& report, const std::string& name) {
  for (const auto& result : report.outcome.results) {
    if (result.name == name) return &result;
  }
  return nullptr;
}

Json result_document(const bench::ContestResult& result) {
  Json starts = Json::array();
  for (const auto& start_ns : result.starts_ns) starts.push_back(start_ns ? Json(*start_ns) : Json(nullptr));
  const auto if_timed = [&](double value) { return result.median_ns ? Json(value) : Json(nullptr); };
  Json entry = {{"name", result.name},
                {"median_ns", if_timed(result.median_ns.value_or(0.0))},
                {"starts_ns", std::move(starts)},
                {"p99_ns", if_timed(result.p99_ns)},
                {"spread", if_timed(result.spread)},
                {"floor_ratio", result.floor_ratio ? Json(*result.floor_ratio) : Json(nullptr)},
                {"samples", result.samples},
                {"method", result.method}};
  if (result.compared) {
    const auto& ratio = result.compared->ratio;
    entry["ratio"] = {{"median", ratio.median},
                      {"low", ratio.low},
                      {"high", ratio.high},
                      {"confidence", ratio.confidence},
                      {"starts", ratio.count}};
    entry["verdict"] = to_string(result.compared->verdict);
  }
  if (result.predicted_ns) entry["predicted_ns"] = *result.predicted_ns;
  if (!result.recipe.empty()) entry["recipe"] = result.recipe;
  if (result.message_ns) entry["message_ns"] = *result.message_ns;
  if (result.throughput_mmsg_s) entry["throughput_mmsg_s"] = *result.throughput_mmsg_s;
  return entry;
}

Json floors_document(const std::vector<Floor>& floors) {
  Json list = Json::array();
  for (const auto& floor : floors) list.push_back({{"line_ns", floor.line_ns}, {"work_ns", floor.work_ns}});
  return list;
}

Json report_document(const Report& report, const Session& session, const BenchFlags& arguments) {
  Json results = Json::array();
  for (const auto& result : report.outcome.results) {
    if (arguments.floor || result.name != bench::floor_name) results.push_back(result_document(result));
  }
  std::vector<std::string> left_out = report.absent;
  for (const auto& failed : report.outcome.left_out) left_out.push_back(failed.name);
  const auto* floor = find_result(report, bench::floor_name);
  Json document = {{"benchmark", report.benchmark},
                   {"threads", report.threads},
                   {"processes", arguments.processes},
                   {"bytes", report.bytes},
                   {"pus", session.pus},
                   {"starts", report.outcome.starts},
                   {"retaken", report.outcome.retaken},
                   {"unsteady", report.outcome.unsteady},
                   {"floors", floors_document(report.outcome.floors)},
                   {"reference", report.outcome.reference},
                   {"floor_ns", floor != nullptr && floor->median_ns ? Json(*floor->median_ns) : Json(nullptr)},
                   {"results", std::move(results)},
                   {"left_out", left_out},
                   {"machine", machine_identity(session.machine)},
                   {"commit", commit}};
  if (!arguments.sync.empty()) document["sync"] = arguments.sync;
  if (arguments.late_rank >= 0) {
    document["late_rank"] = arguments.late_rank;
    document["late_ns"] = arguments.late_ns;
  }
  return document;
}

std::string time_text(const std::optional<double>& time_ns) { return time_ns ? format_time(*time_ns) : "not timed"; }

std::string ratio_text(double ratio) {
  return ratio < 9.995 ? fmt::format("× {:.2f}", ratio) : fmt::format("× {:.0f}", ratio);
}

// Colour: contestants faster than smelt's own choice are bad news, slower ones good news.
Style verdict_style(const bench::ContestResult& result) {
  if (!result.compared) return Style::plain;
  switch (result.compared->verdict) {
    case Verdict::faster: return Style::good;
    case Verdict::slower: return Style::bad;
    default: return Style::plain;
  }
}

/// "1.21 - 1.35": the interval of the median ratio; empty with one start only.
std::string interval_text(const bench::ContestResult& result) {
  if (!result.compared || result.compared->ratio.count < 2) return "";
  return fmt::format("{:.2f} - {:.2f}", result.compared->ratio.low, result.compared->ratio.high);
}

/// How often the machine's floor changed.
std::string steadiness_text(const bench::ContestOutcome& outcome) {
  std::string text;
  if (outcome.retaken > 0) {
    text += fmt::format("{} start{} taken again: the floor moved meanwhile", outcome.retaken,
                        outcome.retaken == 1 ? "" : "s");
  }
  if (outcome.unsteady > 0) {
    text += fmt::format("{}{} of {} starts count although it moved each time", text.empty() ? "" : "; ",
                        outcome.unsteady, outcome.starts);
  }
  return text;
}

/// "PU 0-1", or "PU 0-1, 32 on each" with more ranks than PUs.
std::string places(std::vector<int> pus) {
  const auto ranks = pus.size();
  std::sort(pus.begin(), pus.end());
  pus.erase(std::unique(pus.begin(), pus.end()), pus.end());
  std::string text = "PU " + index_ranges(pus);
  if (ranks > pus.size()) text += fmt::format(", {} on each", (ranks + pus.size() - 1) / pus.size());
  return text;
}

/// The rows, or that there are none: no contestant was there, or all of them failed.
void print_rows(const Table& table, std::size_t rows) {
  print(rows > 0 ? table.text() : "  " + styled(Style::faint, "no contestant was measured") + "\n");
}

std::string late_text(const BenchFlags& arguments) {
  if (arguments.late_rank < 0) return "";
  return fmt::format(", rank {} {} late", arguments.late_rank, format_time(arguments.late_ns));
}

void print_report(const Report& report, const Session& session, const BenchFlags& arguments) {
  const auto* floor = find_result(report, bench::floor_name);
  const bool sized = report.benchmark != "barrier";
  print(fmt::format("{}  {} {} on {}{}{}, {}\n", styled(Style::title, report.benchmark), report.threads,
                    arguments.processes ? "processes" : "ranks", places(session.pus),
                    sized ? fmt::format(", {} bytes", report.bytes) : "", late_text(arguments), session.machine.name));
  print(styled(Style::faint, floor == nullptr ? "no floor: a ping-pong needs two PUs"
                                              : fmt::format("floor {}: half a bare cache-line ping-pong",
                                                            time_text(floor->median_ns))) +
        "\n\n");
  std::vector<bench::ContestResult> results = report.outcome.results;
  const auto place = [](const auto& result) {
    return result.median_ns.value_or(std::numeric_limits<double>::infinity());
  };
  std::stable_sort(results.begin(), results.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
  const bool stream =
      std::any_of(results.begin(), results.end(), [](const auto& each) { return each.throughput_mmsg_s.has_value(); });
  const bool model =
      std::any_of(results.begin(), results.end(), [](const auto& each) { return each.predicted_ns.has_value(); });
  Table table("lrrrrrrlr" + std::string(model ? "r" : "") + (stream ? "r" : ""));
  const std::string own = report.outcome.reference;
  std::vector<std::string> names = {"",         "median",   "p99",       "spread", "× floor",
                                    "× " + own, "interval", own + " is", "samples"};
  if (model) names.push_back("predicted");
  if (stream) names.push_back("Mmsg/s");
  table.header(names);
  std::erase_if(results, [&](const auto& each) { return each.name == bench::floor_name && !arguments.floor; });
  for (const auto& result : results) {
    const bool mine = result.name == own;
    const auto style = verdict_style(result);
    std::vector<Table::Cell> cells = {{result.name, mine ? Style::strong : Style::plain},
                                      {time_text(result.median_ns), mine ? Style::strong : Style::plain},
                                      result.median_ns ? format_time(result.p99_ns) : "-",
                                      result.median_ns ? fmt::format("{:.0f} %", result.spread * 100) : "-",
                                      result.floor_ratio ? ratio_text(*result.floor_ratio) : std::string("-"),
                                      {result.compared ? ratio_text(result.compared->ratio.median) : "-", style},
                                      {interval_text(result), Style::faint},
                                      {result.compared ? to_string(result.compared->verdict) : "", style},
                                      {fmt::format("{}", result.samples), Style::faint}};
    if (model) cells.emplace_back(result.predicted_ns ? format_time(*result.predicted_ns) : "");
    if (stream) cells.emplace_back(result.throughput_mmsg_s ? fmt::format("{:.1f}", *result.throughput_mmsg_s) : "");
    table.row(std::move(cells));
  }
  print_rows(table, results.size());
  const auto steadiness = steadiness_text(report.outcome);
  if (!steadiness.empty()) print("\n" + styled(Style::faint, steadiness) + "\n");
}

// One column per benchmark; smelt, its other trees, then the peers.
void print_summary(const std::vector<Report>& reports, const Session& session) {
  std::vector<std::string> names;
  for (const auto& report : reports) {
    for (const auto& result : report.outcome.results) {
      if (std::find(names.begin(), names.end(), result.name) == names.end()) names.push_back(result.name);
    }
  }
  std::stable_sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const std::string& name) {
      return name == "smelt" ? 0 : name.starts_with("smelt/") ? 1 : name == bench::floor_name ? 3 : 2;
    };
    return rank(a) < rank(b);
  });
  print(fmt::format("{}  {} ranks on {}\n", styled(Style::title, session.machine.name), session.pus.size(),
                    places(session.pus)));
  print(
      styled(Style::faint, "median time of one operation, the last rank counts; × what smelt takes by its own choice") +
      "\n\n");
  std::string alignment = "l";
  std::vector<std::string> header = {""};
  for (const auto& report : reports) {
    alignment += "rl";
    header.push_back(report.benchmark);
    header.emplace_back();
  }
  Table table(alignment);
  table.header(header);
  for (const auto& name : names) {
    const bool mine = name == "smelt";
    std::vector<Table::Cell> cells = {{name, mine ? Style::strong : Style::plain}};
    for (const auto& report : reports) {
      const auto* result = find_result(report, name);
      cells.push_back({result != nullptr ? time_text(result->median_ns) : "", mine ? Style::strong : Style::plain});
      const bool compared = result != nullptr && result->compared && name != bench::floor_name;
      cells.push_back({compared ? ratio_text(result->compared->ratio.median) : "",
                       compared ? verdict_style(*result) : Style::plain});
    }
    table.row(std::move(cells));
  }
  print_rows(table, names.size());
}

std::vector<std::string> wanted_benchmarks(const std::string& name) {
  if (name == "all") return {"broadcast", "reduce", "barrier", "allreduce"};
  const auto& known = bench::benchmarks();
  if (std::find(known.begin(), known.end(), name) != known.end()) return {name};
  auto names = known;
  names.insert(names.end(), {"all", "map", "log"});
  if (name.empty()) fail_usage("bench what? One of {}", fmt::join(names, ", "));
  fail_usage("{}: no such benchmark{} (one of {})", name, suggestion(name, names), fmt::join(names, ", "));
}

void check_choice(const char* option, const char* what, const std::string& text,
                  const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  fail_usage("{} {}: no such {}{} (one of {})", option, text, what, suggestion(text, choices),
             fmt::join(choices, ", "));
}

void check_arguments(const BenchFlags& arguments) {
  if (arguments.most_starts > 0 && arguments.most_starts < arguments.starts) {
    fail_usage("--most-starts {}: fewer than --starts {}", arguments.most_starts, arguments.starts);
  }
  check_choice("--method", "method", arguments.method, {"auto", "loop", "window", "back-to-back"});
  if (!arguments.sync.empty()) check_choice("--sync", "synchronization", arguments.sync, {"loose", "strict"});
  static const std::vector<std::string> numeric = {"reduce", "allreduce", "reduce-scatter", "scan", "exscan", "all"};
  const bool numbers = std::find(numeric.begin(), numeric.end(), arguments.benchmark) != numeric.end();
  if (numbers && (arguments.bytes % 8 != 0 || arguments.bytes == 0)) {
    fail_usage("--bytes {}: {} combines doubles: give a multiple of 8", arguments.bytes, arguments.benchmark);
  }
  if (arguments.benchmark == "channel" && arguments.threads > 2) {
    fail_usage("--threads {}: a channel has two ends", arguments.threads);
  }
  if (arguments.algorithms && !arguments.only.empty()) fail_usage("--algorithms and --only name contestants: give one");
  if (!arguments.processes) return;
  if (arguments.benchmark == "channel") fail_usage("--processes: channels are measured between threads");
  if (!arguments.model.empty()) fail_usage("--model: processes plan with the model that `smelt measure` saved");
}

// The late rank must be a member of the team and have a PU of its own, because it spins until its time.
void check_lateness(const BenchFlags& arguments, const std::vector<int>& pus) {
  if (arguments.late_rank < 0) {
    if (arguments.late_ns > 0) fail_usage("--late-ns {}: which rank? Name it with --late", arguments.late_ns);
    return;
  }
  const std::set<int> distinct(pus.begin(), pus.end());
  if (static_cast<std::size_t>(arguments.late_rank) >= pus.size()) {
    fail_usage("--late {}: there are ranks 0-{}", arguments.late_rank, pus.size() - 1);
  }
  if (distinct.size() < pus.size()) fail_usage("--late {}: needs a PU for each rank", arguments.late_rank);
  if (arguments.benchmark == "channel") fail_usage("--late {}: not for channels", arguments.late_rank);
  if (arguments.method != "auto" && arguments.method != "window") {
    fail_usage("--late {}: only with --method window", arguments.late_rank);
  }
}

void run(const BenchFlags& arguments) {
  const auto benchmarks = wanted_benchmarks(arguments.benchmark);
  check_arguments(arguments);
  const int threads = arguments.threads > 0 ? arguments.threads : benchmarks[0] == "channel" ? 2 : default_threads();
  const auto pus = take(bench::team_pus(threads));
  check_lateness(arguments, pus);
  const Session session{subject(arguments.model), own_program(), pus};
  for (const auto& benchmark : benchmarks) {
    check_only(team_of(arguments, benchmark, pus), split_names(arguments.only), session);
  }
  const bool all = benchmarks.size() > 1;
  const double time_s = arguments.time_s > 0 ? arguments.time_s / static_cast<double>(benchmarks.size())
                        : all                ? all_time_s
                                             : one_time_s;
  std::vector<Report> reports;
  const double share = 1.0 / static_cast<double>(benchmarks.size());
  for (std::size_t i = 0; i < benchmarks.size(); ++i) {
    reports.push_back(contest(arguments, session, benchmarks[i], time_s, share * static_cast<double>(i), share));
  }
  if (arguments.json) {
    Json list = Json::array();
    for (const auto& report : reports) list.push_back(report_document(report, session, arguments));
    print(
        format_json(all ? Json{{"benchmarks", list}, {"machine", machine_identity(session.machine)}, {"commit", commit}}
                        : list[0]));
  } else if (all) {
    print_summary(reports, session);
  } else {
    print_report(reports[0], session, arguments);
  }
  flush_output();
  name_the_missing(reports);
}

}  // namespace

#endif

namespace {

/// `map` and `log`, which have contestants of their own. False: another benchmark.
bool run_of_state(const BenchFlags& arguments, const Command& command) {
  const bool map = arguments.benchmark == "map", log = arguments.benchmark == "log";
  for (const char* option : {"--lookups", "--keys", "--skew"}) {
    if (!map && command.given(option)) fail_usage("{}: only of a map", option);
  }
  if (!map && !log) return false;
  for (const char* option : {"--processes", "--bytes", "--most-starts", "--method", "--sync", "--late", "--late-ns",
                             "--algorithms", "--floor"}) {
    if (command.given(option)) fail_usage("{}: not of {}", option, arguments.benchmark);
  }
  const BenchState state{arguments.model,   arguments.only,   arguments.lookups, arguments.keys, arguments.skew,
                         arguments.threads, arguments.starts, arguments.time_s,  arguments.json};
  map ? bench_maps(state) : bench_log(state);
  return true;
}

}  // namespace

void add_bench(Parser& parser) {
  auto arguments = std::make_shared<BenchFlags>();
  Command command = parser.add("bench", "Measure smelt with every tree next to its peers");
  add_operation(command, arguments->asked, "BENCHMARK",
                "barrier|broadcast|reduce|allreduce|scatter|gather|allgather|alltoall|reduce-scatter|\n"
                "scan|exscan|two-phase-commit|channel, or all; map|log");
  add_model_option(command, arguments->model);
  command.integer("--threads", arguments->threads, 2, 1024, "ranks (default: one per core that may be used)");
  command.flag("--processes", arguments->processes, "the ranks are processes: smelt and MPI");
  command.value(
      "--bytes", "SIZE", [arguments](const std::string& text) { arguments->bytes = parse_size(text); },
      "of the vector, or of one rank's block, such as 8, 64K or 16MiB (default 8)");
  command.duration("--time", arguments->time_s, "time for the measuring itself, such as 30s (default 12s; all: 16s)");
  command.integer("--starts", arguments->starts, 1, 1000,
                  "starts of every contestant, which share the time; the median counts (default 3; all: 1)");
  command.integer("--most-starts", arguments->most_starts, 1, 1000,
                  "limit of starts while a verdict is open (default 14; with --starts: no more)");
  command.text("--only", arguments->only, "NAMES", "contestants, such as smelt,smelt/binary,gomp (default: all)");
  command.text("--method", arguments->method, "NAME",
               "auto|loop|window|back-to-back: see docs/explanation/benchmarking.md (default auto)");
  command.text("--sync", arguments->sync, "NAME", "loose|strict: synchronization of smelt's collectives");
  command.integer("--late", arguments->late_rank, 0, 1023, "this rank enters every operation later than the others");
  command.integer("--late-ns", arguments->late_ns, 0, 1'000'000'000, "delay of the late rank in nanoseconds");
  command.flag("--algorithms", arguments->algorithms, "only smelt's own choice and each of its algorithms");
  command.flag("--floor", arguments->floor, "list the floor among the results");
  command.flag("--json", arguments->json, "print JSON");
  command.text("--lookups", arguments->lookups, "LIST", "map: shares of lookups (default .5,.9,.99)");
  command.text("--keys", arguments->keys, "LIST", "map: numbers of keys (default 100,10000)");
  command.text("--skew", arguments->skew, "LIST", "map: exponents of the keys' Zipf distribution (default 0,.99)");
  command.footer(
      "All contestants run interleaved: short turns, in a new random order each round. The time of an operation is\n"
      "that of its last rank. Two contestants are compared by the median ratio of their times in each start, with a\n"
      "98 % confidence interval: faster, equal (within 5 %), slower or not decided. A start in which the machine's\n"
      "floor moved by more than 20 % is repeated. `smelt` is smelt's own choice, smelt/TREE the same with another\n"
      "tree.\n"
      "Peers that are not installed are left out and named on stderr. An unknown name is an error.\n\n"
      "Examples:\n"
      "  smelt bench all                                  a summary of everything\n"
      "  smelt bench barrier --threads 8\n"
      "  smelt bench broadcast --bytes 4096 --only smelt,openmpi --json\n"
      "  smelt bench alltoall --processes --bytes 1MiB\n"
      "  smelt bench map --lookups .9 --keys 10000        every map, beside what the model predicts\n"
      "  smelt bench log                                  appends to the replicated log\n");
  command.action([arguments, command] {
    arguments->benchmark = arguments->asked.text();
    if (!run_of_state(*arguments, command)) run(*arguments);
  });
}

}  // namespace smelt::cli
