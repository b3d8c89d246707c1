// Exporting: races, in the model, between the algorithms of another runtime.
//
//   contender: the runtime's name of an algorithm + the recipe with the same steps
//   winner:    the fastest, if it beats the runtime's default by the margin; else the default stays
//
// The runtimes pass messages. So every recipe goes through channels, and a message costs what the hardware takes plus
// what the runtime's software takes for each send and receive.
#include "smelt/export.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "export/internal.hpp"

namespace smelt {
namespace {

constexpr const char* runtime_names[] = {"openmpi", "mpich", "mpich-posix", "ucc", "libomp", "xhc"};

Result<void> check(const Machine& machine, const Group& group, const ExportOptions& options) {
  if (!machine.has_costs()) {
    return make_error(Status::invalid_argument, "machine '{}' has no costs; measure it or load a measured model",
                      machine.name);
  }
  if (group.size() < 2) {
    return make_error(Status::invalid_argument, "{} rank: there is nothing to tune for fewer than two", group.size());
  }
  for (int pu : group.pus) {
    if (pu < 0 || static_cast<std::size_t>(pu) >= machine.size()) {
      return make_error(Status::invalid_argument, "group: the machine has no PU with index {}", pu);
    }
  }
  if (!(options.margin >= 0.0 && options.margin < 1.0)) {
    return make_error(Status::invalid_argument, "margin {}: must be at least 0 and less than 1", options.margin);
  }
  if (!(options.message_overhead_ns >= 0.0) || !std::isfinite(options.message_overhead_ns)) {
    return make_error(Status::invalid_argument, "message overhead {} ns: must be a finite time",
                      options.message_overhead_ns);
  }
  return {};
}

/// The machine as a runtime sees it that adds `overhead_ns` to both ends of a message.
Machine with_overhead(Machine machine, double overhead_ns) {
  machine.send_ns = machine.send_ns.raised_by(overhead_ns);
  machine.recv_ns = machine.recv_ns.raised_by(overhead_ns);
  if (machine.exchange_ns) machine.exchange_ns = machine.exchange_ns->raised_by(2.0 * overhead_ns);
  return machine;
}

/// The name stands in comments, which end with the line.
std::string on_one_line(std::string name) {
  for (char& c : name) c = static_cast<unsigned char>(c) < ' ' || c == 127 ? '?' : c;
  return name;
}

bool shares_pus(const Group& group) {
  return std::set<int>(group.pus.begin(), group.pus.end()).size() < group.pus.size();
}

}  // namespace

const char* to_string(Runtime runtime) noexcept { return runtime_names[static_cast<std::size_t>(runtime)]; }

const std::vector<Runtime>& runtimes() {
  static const std::vector<Runtime> all = {Runtime::openmpi, Runtime::mpich,  Runtime::mpich_posix,
                                           Runtime::ucc,     Runtime::libomp, Runtime::xhc};
  return all;
}

Result<Runtime> parse_runtime(std::string_view name) {
  for (Runtime runtime : runtimes()) {
    if (name == to_string(runtime)) return runtime;
  }
  return make_error(Status::invalid_argument, "unknown runtime '{}' (one of {})", name, fmt::join(runtime_names, ", "));
}

Result<RuntimeSettings> export_settings(const Machine& machine, const Group& group, Runtime runtime,
                                        const ExportOptions& options) {
  if (auto checked = check(machine, group, options); !checked) return checked.error();
  const bool passes_messages = runtime != Runtime::libomp && runtime != Runtime::xhc;
  Machine seen = with_overhead(machine, passes_messages ? options.message_overhead_ns : 0.0);
  seen.name = on_one_line(std::move(seen.name));
  const plan::ExportTarget job{seen, machine, group, options, shares_pus(group)};
  switch (runtime) {
    case Runtime::openmpi: return plan::export_openmpi(job);
    case Runtime::mpich: return plan::export_mpich(job);
    case Runtime::mpich_posix: return plan::export_mpich_posix(job);
    case Runtime::ucc: return plan::export_ucc(job);
    case Runtime::libomp: return plan::export_libomp(job);
    case Runtime::xhc: return plan::export_xhc(job);
  }
  return make_error(Status::invalid_argument, "unknown runtime");
}

}  // namespace smelt

namespace smelt::plan {
namespace {

/// Bisection ends when the interval is this fraction of the size.
constexpr std::size_t resolution = 64;

Result<double> predict_barrier(const ExportTarget& job, const std::string& topology) {
  PlanOptions options;
  options.topology = topology;
  options.root = 0;
  options.search_ms = 0.0;
  auto plan = make_plan(job.machine, job.group, Operation::barrier, options);
  if (!plan) return plan.error();
  return plan->predicted_ns;
}

/// Times of the contenders. Each is predicted once.
class Stopwatch {
 public:
  Stopwatch(const ExportTarget& job, const SimulatedRace& race) : job_(job), race_(race) {}

  Result<double> time(int contender, std::size_t bytes) {
    const auto key = std::pair(contender, bytes);
    if (const auto known = times_.find(key); known != times_.end()) return known->second;
    const auto& runner = race_.contenders[static_cast<std::size_t>(contender)];
    auto ns = race_.operation == Operation::barrier ? predict_barrier(job_, runner.recipe) : simulated(runner, bytes);
    if (!ns) return ns.error();
    return times_.emplace(key, *ns).first->second;
  }

 private:
  Result<double> simulated(const RuntimeAlgorithm& runner, std::size_t bytes) {
    const std::string& text = runner.recipe;
    const Machine& machine = runner.passes_messages ? job_.machine : job_.hardware;
    auto request = requests_.find(text);
    if (request == requests_.end()) {
      auto recipe = parse_recipe(text);
      if (!recipe) return recipe.error();
      auto made = make_request(machine, job_.group, *recipe);
      if (!made) return made.error();
      request = requests_.emplace(text, std::move(*made)).first;
    }
    auto times = simulate(machine, job_.group, request->second, bytes);
    if (!times) return times.error();
    return times->total_ns;
  }

  const ExportTarget& job_;
  const SimulatedRace& race_;
  std::map<std::string, ScheduleRequest> requests_;
  std::map<std::pair<int, std::size_t>, double> times_;
};

/// Whether the recipe exists for that many ranks.
bool fits(const RuntimeAlgorithm& contender, int ranks) {
  const std::string name = contender.recipe.substr(0, contender.recipe.find('+'));
  for (const auto& info : algorithms()) {
    if (info.name == name) return !info.power_of_two || is_power_of_two(ranks);
  }
  return true;  // a barrier's recipe is a topology
}

/// Whether a contender beats another by the margin at this size, at half and at twice of it. A difference at one size
/// alone depends on where lines and chunks happen to end.
Result<bool> beats(const ExportTarget& job, Stopwatch& watch, int contender, int standard, std::size_t bytes) {
  for (std::size_t near : {bytes, std::max<std::size_t>(1, bytes / 2), 2 * bytes}) {
    auto ns = watch.time(contender, near);
    if (!ns) return ns.error();
    auto standard_ns = watch.time(standard, near);
    if (!standard_ns) return standard_ns.error();
    if (!(*ns < (1.0 - job.options.margin) * *standard_ns)) return false;
  }
  return true;
}

/// The winner at one size.
Result<SizeRange> decide(const ExportTarget& job, const SimulatedRace& race, Stopwatch& watch, std::size_t bytes) {
  SizeRange result{.from_bytes = bytes};
  if (race.has_default) {
    result.standard = race.default_of(bytes);
    if (result.standard >= 0 && !fits(race.contenders[static_cast<std::size_t>(result.standard)], job.ranks())) {
      result.standard = -1;
    }
    if (result.standard < 0) return result;
    auto standard = watch.time(result.standard, bytes);
    if (!standard) return standard.error();
    result.default_ns = *standard;
  }
  double best = std::numeric_limits<double>::max();
  for (int each = 0; each < static_cast<int>(race.contenders.size()); ++each) {
    const auto& contender = race.contenders[static_cast<std::size_t>(each)];
    if (!contender.exportable || each == result.standard || !fits(contender, job.ranks())) continue;
    auto ns = watch.time(each, bytes);
    if (!ns) return ns.error();
    if (!(*ns < best)) continue;
    if (race.has_default) {
      auto sure = beats(job, watch, each, result.standard, bytes);
      if (!sure) return sure.error();
      if (!*sure) continue;
    }
    best = result.predicted_ns = *ns;
    result.winner = each;
  }
  return result;
}

std::vector<std::size_t> sizes_to_ask(const SimulatedRace& race, std::size_t largest_bytes) {
  if (race.operation == Operation::barrier) return {1};
  std::set<std::size_t> sizes;
  for (std::size_t bytes = 1; bytes <= largest_bytes; bytes *= 2) sizes.insert(bytes);
  for (std::size_t boundary : race.boundaries) {
    if (boundary > 1 && boundary <= largest_bytes) sizes.insert({boundary - 1, boundary});
  }
  return {sizes.begin(), sizes.end()};
}

bool same(const SizeRange& a, const SizeRange& b) {
  return a.winner == b.winner && (a.winner >= 0 || a.standard == b.standard);
}

/// The size between `low` and `high` at which the winner `before` first loses, by bisection.
Result<SizeRange> first_change(const ExportTarget& job, const SimulatedRace& race, Stopwatch& watch,
                               const SizeRange& before, std::size_t low, SizeRange high) {
  while (high.from_bytes - low > std::max<std::size_t>(1, low / resolution)) {
    auto middle = decide(job, race, watch, low + (high.from_bytes - low) / 2);
    if (!middle) return middle.error();
    if (same(before, *middle)) {
      low = middle->from_bytes;
    } else {
      high = *middle;
    }
  }
  return high;
}

}  // namespace

Result<std::vector<SizeRange>> run_race(const ExportTarget& job, const SimulatedRace& race) {
  std::vector<SizeRange> ranges = {SizeRange{}};
  if (job.crowded) return ranges;
  Stopwatch watch(job, race);
  std::size_t previous = 0;
  for (std::size_t bytes : sizes_to_ask(race, job.options.largest_bytes)) {
    auto here = decide(job, race, watch, bytes);
    if (!here) return here.error();
    while (previous != 0 && !same(ranges.back(), *here)) {  // once for each change in between
      auto change = first_change(job, race, watch, ranges.back(), previous, *here);
      if (!change) return change.error();
      ranges.push_back(*change);
      previous = change->from_bytes;
    }
    if (previous == 0) ranges.push_back(*here);
    previous = bytes;
  }
  if (race.operation != Operation::barrier && ranges.back().winner >= 0) {
    ranges.push_back({.from_bytes = job.options.largest_bytes + 1});
  }
  return ranges;
}

Result<double> predict(const ExportTarget& job, Operation operation, const std::string& recipe, std::size_t bytes) {
  SimulatedRace race{.operation = operation, .contenders = {{.name = recipe, .recipe = recipe}}};
  return Stopwatch(job, race).time(0, bytes);
}

void add_choices(RuntimeSettings& settings, const SimulatedRace& race, const std::vector<SizeRange>& ranges) {
  const auto name = [&](int index) {
    return index < 0 ? std::string() : race.contenders[static_cast<std::size_t>(index)].name;
  };
  for (const auto& each : ranges) {
    settings.choices.push_back(
        {race.operation, each.from_bytes, name(each.winner), name(each.standard), each.predicted_ns, each.default_ns});
  }
}

bool decides(const std::vector<SizeRange>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [](const SizeRange& each) { return each.winner >= 0; });
}

std::string short_bytes(std::size_t bytes) {
  if (bytes != 0 && bytes % (1u << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes != 0 && bytes % 1024 == 0) return fmt::format("{}k", bytes >> 10);
  return fmt::format("{}", bytes);
}

}  // namespace smelt::plan
