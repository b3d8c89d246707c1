// The tuner's campaign: which cells are raced, when and for how long, and how the results become a profile.
//
//   1. Cells: operation x sync x size, sizes by powers of 4. The simulator ranks every cell's recipes.
//   2. Cells are raced in passes of a few rounds, in the order of their value: how often programs make such calls
//      (small and middle sizes, common operations, loose before strict, every other size first). Each cell gets its
//      share of 80 % of the time.
//   3. The rest of the time is spent on crossovers between neighbouring sizes with different winners.
//   4. A cell that was not raced takes its neighbours' recipe if they agree, otherwise the model's choice. A strict
//      cell takes the recipe of the loose one. A crossover that was not searched lies in the middle.
//
// A barrier is timed before each round. If it takes much longer or shorter than usual (the host of a virtual machine
// moves its PUs), all ranks sleep until that is over, for a bounded part of the time. The barrier is timed again after
// the round. If it has changed by more than 20 %, the round is repeated, at most three times. Rounds of unusual moments
// do not count, unless a cell has no others. Which moments are unusual may change during the campaign, so races are
// replayed from their rounds.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/comparison.hpp"
#include "base/error.hpp"
#include "comm/collective/communicator_state.hpp"
#include "smelt/floor.hpp"
#include "smelt/tune.hpp"
#include "tune/algorithm_race.hpp"
#include "tune/baseline_time.hpp"
#include "tune/process_pool.hpp"
#include "tune/replayed_race.hpp"
#include "tune/tuner_team.hpp"

namespace smelt::comm {
namespace {

constexpr double main_share = 0.8;
constexpr double resolution = 1.3;          ///< of a crossover
constexpr double turn_ns = 400e3;           ///< a contender's time in a round
constexpr double window_ns = 6e3;           ///< overhead of a timed call
constexpr double batch_ns = 10e3;           ///< of a loop
constexpr double write_ns_per_byte = 0.15;  ///< of the inputs
constexpr std::size_t most_rank_bytes = std::size_t{512} << 20, most_bytes_in_all = std::size_t{2} << 30;
constexpr std::size_t most_contenders = 16;
constexpr double strict_prospect = 1.25;  ///< recipes slower than this times the loose winner are not raced as strict
constexpr int passes[] = {2, 4, 7, 10, 12, 14, 17, 20, 24, 28, 34, 40};  ///< rounds of a cell after each pass
constexpr double waiting_share = 0.4;                ///< largest share of the time for waiting for usual moments
constexpr auto nap = std::chrono::milliseconds(50);  ///< until the next check
constexpr int first_look = 10;                       ///< rounds before the first verdict: those of several passes

/// Rounded to tenths of nanoseconds, as in files.
double rounded(double value, double parts) { return std::round(value * parts) / parts; }

double now_s() { return static_cast<double>(monotonic_ns()) * 1e-9; }

std::vector<std::size_t> size_grid(std::size_t least, std::size_t most) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = std::max<std::size_t>(8, (least + 7) / 8 * 8); bytes < most; bytes *= 4)
    sizes.push_back(bytes);
  sizes.push_back(std::max<std::size_t>(8, most / 8 * 8));
  // Skips sizes that are close to each other.
  if (sizes.size() > 1 && sizes.back() < sizes[sizes.size() - 2] * 3) sizes.erase(sizes.end() - 2);
  return sizes;
}

/// The value of a cell: how often programs make such calls.
double value_of(const TunerCall& call, std::size_t index) {
  double value = 1.0;
  switch (call.operation) {
    case Operation::allreduce:
    case Operation::broadcast:
    case Operation::reduce: value = 3.0; break;
    case Operation::scan:
    case Operation::exscan: break;
    default: value = 2.0;
  }
  value *= call.bytes <= 65536 ? 3.0 : call.bytes <= (1u << 20) ? 2.0 : 1.0;
  if (call.sync == Sync::loose) value *= 2.0;
  return index % 2 == 0 ? value * 1.5 : value;
}

struct TuningCell {
  TunerCall call;
  double value = 0.0;
  std::vector<RankedRecipe> contenders{};  ///< best prediction first
  double need_s = 0.0;                     ///< estimated duration of its race
  bool raceable = true;
  RaceRules rules{};
  std::optional<ReplayedRace> race{};  ///< once it has begun
  std::vector<double> estimates_ns{};  ///< by contender: predicted, then measured
  std::vector<double> times_ns{};      ///< by contender, once raced; 0: it never ran
  std::optional<ProfileCell> result{};
};

class TuningCampaign {
 public:
  TuningCampaign(TunerTeam& team, CommunicatorState& state, const TuneOptions& options, double start_s)
      : team_(team),
        state_(state),
        options_(options),
        start_s_(start_s),
        end_s_(start_s + options.time_s - std::min(0.2, 0.05 * options.time_s)),
        shape_(shape_of(state.machine, state.group, state.selector->config().reach.processes)) {}

  Result<void> run();
  Profile take();
  /// What happened to its rounds.
  TuneCounts counts() const noexcept { return {rounds_, retakes_.taken_again(), retakes_.unsteady()}; }

 private:
  using Key = std::pair<Operation, Sync>;

  Result<void> make_cells();
  std::vector<RankedRecipe> select(const std::vector<RankedRecipe>& all, std::size_t bytes) const;
  std::optional<Recipe> incumbent(const TunerCall& call) const;
  double estimate_s(const TuningCell& cell) const;
  Status race(TuningCell& cell, double until_s, int rounds);
  void conclude(TuningCell& cell) const;
  void reconsider(TuningCell& cell) const;
  const TuningCell* loose_twin(const TuningCell& cell) const;
  void learn_from_loose(TuningCell& cell) const;
  static bool fits(const TunerCall& call, double each_ns, double until_s);
  double slowness(const TuningCell& cell, const Recipe& recipe) const;
  Status time_barrier(double& ns);
  Status await_usual(double& barrier_ns);
  Status round(TuningCell& cell, double barrier_ns, double until_s, bool& again);
  std::vector<std::size_t> preference(const TuningCell& cell) const;
  ProfileCell judge(const TuningCell& cell, const AlgorithmRace& race, std::size_t winner) const;
  std::vector<std::size_t> able(const TuningCell& cell, const AlgorithmRace& race) const;
  void settle();
  Status race_all();
  bool may_begin(const TuningCell& cell, bool last_pass) const;
  std::vector<TuningCell*> by_value();
  Status pass(const std::vector<TuningCell*>& order, double end, int rounds);
  Status bisect_all();
  Status bisect(const Key& key, std::size_t low, std::size_t high, bool& third);
  void add_incumbent(TuningCell& cell) const;
  double predicted_ns(const Recipe& recipe, std::size_t bytes) const;
  bool stopped(double until_s);
  void report(const TunerCall& call);
  ProfileCell unmeasured(const TuningCell& cell) const;
  std::optional<ProfileCell> half_way(const std::map<std::size_t, TuningCell>& by_size,
                                      std::map<std::size_t, TuningCell>::const_iterator at) const;
  std::vector<ProfileCell> known(const TuningCell& cell, std::size_t end) const;

  TunerTeam& team_;
  CommunicatorState& state_;
  const TuneOptions& options_;
  const double start_s_, end_s_;
  const GroupShape shape_;
  std::map<Key, std::map<std::size_t, TuningCell>> cells_;
  std::set<std::pair<Key, std::size_t>> either_;  ///< sizes at which the winners of both sides are equally good
  BaselineTime barrier_;
  Remeasurements retakes_;
  int rounds_ = 0;
  double waited_s_ = 0.0;
  std::uint64_t races_ = 0;
  bool interrupted_ = false;
};

bool TuningCampaign::stopped(double until_s) {
  if (!interrupted_ && options_.interrupted && options_.interrupted()) interrupted_ = true;
  return interrupted_ || now_s() >= until_s;
}

void TuningCampaign::report(const TunerCall& call) {
  if (!options_.progress) return;
  const double elapsed = now_s() - start_s_;
  options_.progress({fmt::format("{} of {} bytes, {}", to_string(call.operation), call.bytes, to_string(call.sync)),
                     std::min(1.0, elapsed / options_.time_s), std::max(0.0, options_.time_s - elapsed)});
}

/// The best few recipes, the best of every algorithm and access, and all that are predicted to be close to the best. Of
/// recipes that expand to the same schedule, the first.
std::vector<RankedRecipe> TuningCampaign::select(const std::vector<RankedRecipe>& all, std::size_t bytes) const {
  const auto ranked = state_.selector->distinct(all, bytes);
  std::vector<RankedRecipe> chosen;
  if (ranked.empty()) return chosen;
  const double best = ranked.front().predicted_ns;
  std::set<std::pair<std::string, Access>> seen;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    const auto& [recipe, predicted] = ranked[i];
    const bool textbook = seen.insert({recipe.algorithm, recipe.access}).second && predicted < 20.0 * best;
    if (i < 4 || textbook || (predicted < 1.5 * best && chosen.size() < most_contenders)) chosen.push_back(ranked[i]);
  }
  return chosen;
}

std::optional<Recipe> TuningCampaign::incumbent(const TunerCall& call) const {
  if (options_.incumbent == nullptr) return std::nullopt;
  const auto* cell = options_.incumbent->find(call.operation, call.sync, shape_, call.bytes);
  return cell == nullptr ? std::nullopt : std::optional(cell->recipe);
}

/// Adds the incumbent, which is preferred if nothing is faster.
void TuningCampaign::add_incumbent(TuningCell& cell) const {
  const auto recipe = incumbent(cell.call);
  if (!recipe) return;
  auto& all = cell.contenders;
  const auto known = std::find_if(all.begin(), all.end(), [&](const auto& each) {
    return state_.selector->same_schedule(each.recipe, *recipe, cell.call.bytes);
  });
  if (known != all.end()) {
    known->recipe = *recipe;  // with the name that the profile uses
    std::rotate(all.begin(), known, known + 1);
  } else if (const double ns = predicted_ns(*recipe, cell.call.bytes); ns > 0.0) {
    all.insert(all.begin(), {*recipe, ns});
  }
}

/// 0 if the recipe does not fit this group.
double TuningCampaign::predicted_ns(const Recipe& recipe, std::size_t bytes) const {
  const auto request = make_request(state_.machine, state_.group, recipe);
  if (!request) return 0.0;
  const auto times = simulate(state_.machine, state_.group, *request, bytes, 1, state_.selector->config().reach);
  return times ? times->total_ns : 0.0;
}

double TuningCampaign::estimate_s(const TuningCell& cell) const {
  double rounds_ns = 0.0;
  const double writing = static_cast<double>(cell.call.bytes) * write_ns_per_byte;
  for (std::size_t i = 0; i < cell.contenders.size(); ++i) {
    const double turn = std::max(turn_ns, 2.5 * (cell.contenders[i].predicted_ns + writing));
    rounds_ns += turn * (i < 4 ? 16.0 : 3.0);
  }
  return (team_.both_ways(cell.call) ? 2.0 : 1.0) * rounds_ns * 1e-9;
}

Result<void> TuningCampaign::make_cells() {
  const auto& operations = options_.operations.empty() ? tunable_operations() : options_.operations;
  const std::vector<Sync> both = {Sync::loose, Sync::strict};
  const auto& syncs = options_.syncs.empty() ? both : options_.syncs;
  const auto sizes = size_grid(options_.least_bytes, options_.most_bytes);
  const int ranks = state_.group.size();
  for (const auto operation : operations) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      auto ranked = state_.selector->ranked(operation, sizes[i]);
      if (!ranked) return ranked.error();
      for (const auto sync : syncs) {
        TuningCell cell{.call = {operation, sync, sizes[i]}, .rules = {.first_look = first_look}};
        cell.value = value_of(cell.call, i);
        cell.contenders = select(*ranked, sizes[i]);
        add_incumbent(cell);
        cell.need_s = estimate_s(cell);
        const auto bytes = TunerTeam::buffer_bytes(cell.call, ranks);
        cell.raceable = bytes <= most_rank_bytes && bytes * static_cast<std::size_t>(ranks) <= most_bytes_in_all;
        if (!cell.contenders.empty()) cells_[{operation, sync}][sizes[i]] = std::move(cell);
      }
    }
  }
  return {};
}

/// Whether there is time for the smallest sample: a warm-up call and a timed one.
bool TuningCampaign::fits(const TunerCall& call, double each_ns, double until_s) {
  const double call_ns = each_ns + static_cast<double>(call.bytes) * write_ns_per_byte;
  return now_s() + 2.0 * call_ns * 1e-9 < until_s;
}

/// Ratio of measured to predicted time of the recipe in the next smaller cell that has timed it; 1 if none has.
double TuningCampaign::slowness(const TuningCell& cell, const Recipe& recipe) const {
  const auto& by_size = cells_.at({cell.call.operation, cell.call.sync});
  for (auto at = by_size.lower_bound(cell.call.bytes); at != by_size.begin();) {
    const TuningCell& smaller = (--at)->second;
    for (std::size_t i = 0; i < smaller.times_ns.size(); ++i) {
      const auto& [other, predicted_ns] = smaller.contenders[i];
      const bool same = other.algorithm == recipe.algorithm && other.access == recipe.access;
      if (same && smaller.times_ns[i] > 0.0) return smaller.times_ns[i] / predicted_ns;
    }
  }
  return 1.0;
}

/// Times a barrier.
Status TuningCampaign::time_barrier(double& ns) {
  const Status timed = team_.time_barrier(ns);
  barrier_.add(now_s(), ns);
  return timed;
}

/// Sleeps until the machine is as usual. Sleeping helps, as hosts move idle PUs more often than busy ones.
Status TuningCampaign::await_usual(double& barrier_ns) {
  const double start_s = now_s(), waited_s = waited_s_;
  Status status = time_barrier(barrier_ns);
  while (status == Status::ok && !barrier_.is_usual(barrier_ns) && !stopped(end_s_) &&
         waited_s_ < waiting_share * (now_s() - start_s_)) {
    std::this_thread::sleep_for(nap);
    status = time_barrier(barrier_ns);
    waited_s_ = waited_s + now_s() - start_s;
  }
  return status;
}

/// Runs a round of all remaining contenders for which there is time; no round if there is none. `again`: whether the
/// round does not count, since the machine changed meanwhile.
Status TuningCampaign::round(TuningCell& cell, double barrier_ns, double until_s, bool& again) {
  std::vector<double> times(cell.contenders.size(), 0.0);
  const bool windows = team_.uses_windows(cell.call);
  const double around = window_ns + static_cast<double>(cell.call.bytes) * write_ns_per_byte;
  team_.move_to(static_cast<int>(cell.race->all_rounds()));
  for (const auto i : cell.race->next_order()) {
    if (stopped(until_s)) break;
    const double each = std::max(20.0, cell.estimates_ns[i]);
    if (!fits(cell.call, each, until_s)) continue;
    const int per_sample = windows ? 1 : static_cast<int>(std::clamp(batch_ns / each, 1.0, 500.0));
    const double sample_ns = windows ? each + around : each * per_sample;
    int count = static_cast<int>(std::clamp(turn_ns / sample_ns, 2.0, 32.0));
    if (cell.race->all_rounds() == 0 || each > 5e6) count = 1;
    const double now = now_s();
    const TunerTeam::TimeLimits patience{std::min(20.0 * turn_ns * 1e-9, until_s - now), end_s_ - now};
    const auto status = team_.typical(cell.call, cell.contenders[i].recipe, count, per_sample, patience, times[i]);
    if (status != Status::ok) return status;
    if (times[i] > 0.0) cell.estimates_ns[i] = times[i];
  }
  if (std::none_of(times.begin(), times.end(), [](double time) { return time > 0.0; })) return Status::ok;
  double after_ns = 0.0;
  if (const Status status = time_barrier(after_ns); status != Status::ok) return status;
  again = retakes_.again(floor_moved(barrier_ns, after_ns));
  if (again) return Status::ok;
  ++rounds_;
  // Kept although the floor moved each time. The round is unusual if the time before or after it is.
  cell.race->add_round(barrier_.is_usual(after_ns) ? barrier_ns : after_ns, std::move(times), barrier_);
  return Status::ok;
}

/// The loose cell that corresponds to a strict one; nullptr if there is none.
const TuningCell* TuningCampaign::loose_twin(const TuningCell& cell) const {
  const auto table = cells_.find({cell.call.operation, Sync::loose});
  if (cell.call.sync == Sync::loose || table == cells_.end()) return nullptr;
  const auto found = table->second.find(cell.call.bytes);
  return found == table->second.end() ? nullptr : &found->second;
}

/// Drops contenders that were far behind in the loose cell, since a strict call is a loose one between two barriers.
void TuningCampaign::learn_from_loose(TuningCell& cell) const {
  const TuningCell* const loose = loose_twin(cell);
  if (loose == nullptr || !loose->result) return;
  const double most = strict_prospect * loose->result->measured_ns;
  auto left = cell.contenders;
  std::erase_if(left, [&](const RankedRecipe& each) {
    for (std::size_t i = 0; i < loose->contenders.size(); ++i) {
      if (loose->contenders[i].recipe == each.recipe) return loose->times_ns[i] > most;
    }
    return false;
  });
  if (!left.empty()) cell.contenders = std::move(left);
}

/// Starts or continues a race until so many rounds count, provided that no further round is unusual.
Status TuningCampaign::race(TuningCell& cell, double until_s, int rounds) {
  report(cell.call);
  if (!cell.race) {
    learn_from_loose(cell);
    cell.estimates_ns.resize(cell.contenders.size());
    cell.times_ns.assign(cell.contenders.size(), 0.0);
    cell.race.emplace(cell.contenders.size(), cell.rules, options_.seed + ++races_);
  }
  for (std::size_t i = 0; i < cell.contenders.size(); ++i) {
    const auto& [recipe, predicted_ns] = cell.contenders[i];
    if (cell.times_ns[i] == 0.0) cell.estimates_ns[i] = predicted_ns * slowness(cell, recipe);
  }
  for (int left = rounds - cell.race->rounds(); left > 0;) {
    const auto before = cell.race->all_rounds();
    double barrier_ns = 0.0;
    bool again = false;
    const double waited_s = waited_s_;
    if (const Status status = await_usual(barrier_ns); status != Status::ok) return status;
    until_s = std::min(end_s_, until_s + waited_s_ - waited_s);
    if (const Status status = round(cell, barrier_ns, until_s, again); status != Status::ok) return status;
    if (again && !stopped(until_s)) continue;
    if (cell.race->all_rounds() == before || cell.race->decided() || stopped(until_s)) break;
    --left;
  }
  conclude(cell);
  return Status::ok;
}

/// Replays all races, as other rounds may count by now.
void TuningCampaign::reconsider(TuningCell& cell) const {
  if (cell.race && cell.race->replay(barrier_)) conclude(cell);
}

/// Stores the result of the rounds that count.
void TuningCampaign::conclude(TuningCell& cell) const {
  (void)cell.race->replay(barrier_);
  const auto [race, conclusive] = cell.race->verdict();
  cell.times_ns.clear();
  for (std::size_t i = 0; i < cell.contenders.size(); ++i) cell.times_ns.push_back(race.time_ns(i));
  cell.result.reset();
  if (!conclusive) return;  // the model decides
  const auto winner = race.winner(preference(cell));
  if (race.time_ns(winner) > 0.0) cell.result = judge(cell, race, winner);
}

/// The order of preference: the recipe of the earlier profile, for a strict cell that of the loose one, then the order
/// of the model.
std::vector<std::size_t> TuningCampaign::preference(const TuningCell& cell) const {
  std::vector<std::size_t> order(cell.contenders.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const TuningCell* const loose = loose_twin(cell);
  if (loose == nullptr || !loose->result || incumbent(cell.call)) return order;
  const auto same = std::find_if(order.begin(), order.end(),
                                 [&](std::size_t i) { return cell.contenders[i].recipe == loose->result->recipe; });
  if (same != order.end()) std::rotate(order.begin(), same, same + 1);
  return order;
}

ProfileCell TuningCampaign::judge(const TuningCell& cell, const AlgorithmRace& race, std::size_t winner) const {
  ProfileCell result = unmeasured(cell);
  result.recipe = cell.contenders[winner].recipe;
  result.predicted_ns = cell.contenders[winner].predicted_ns;
  result.measured_ns = rounded(race.time_ns(winner), 10.0);
  result.predicted_ns = rounded(result.predicted_ns, 10.0);
  result.spread = rounded(race.spread(winner), 1000.0);
  for (std::size_t i = 0; i < cell.contenders.size(); ++i) {
    const double time = race.time_ns(i);
    if (i == winner || time <= 0.0) continue;
    const auto name = to_string(cell.contenders[i].recipe);
    // Before the first look no contender is out.
    const bool told_apart = race.standing(i) == AlgorithmRace::Standing::out;
    const bool equal = !told_apart && (race.looked() ? race.compared(i) : race.holds_up(i));
    if (equal) result.equals.push_back(name);
    if (result.runner_up.empty() || time < result.runner_up_ns) {
      result.runner_up = name;
      result.runner_up_ns = rounded(time, 10.0);
      result.equal = equal;
    }
  }
  return result;
}

ProfileCell TuningCampaign::unmeasured(const TuningCell& cell) const {
  ProfileCell result;
  result.operation = cell.call.operation;
  result.sync = cell.call.sync;
  result.shape = shape_;
  result.from_bytes = cell.call.bytes;
  result.recipe = cell.contenders.front().recipe;
  result.predicted_ns = rounded(cell.contenders.front().predicted_ns, 10.0);
  return result;
}

/// A strict cell waits for the result of the loose cell of its size, or for the last pass.
bool TuningCampaign::may_begin(const TuningCell& cell, bool last_pass) const {
  const TuningCell* const loose = loose_twin(cell);
  return cell.race || last_pass || loose == nullptr || loose->result;
}

/// Divides the time until `end` among the undecided cells of `order`.
Status TuningCampaign::pass(const std::vector<TuningCell*>& order, double end, int rounds) {
  const bool last = rounds == *std::rbegin(passes);
  std::vector<TuningCell*> cells;
  for (TuningCell* cell : order) {
    reconsider(*cell);
    if (!(cell->race && cell->race->decided()) && may_begin(*cell, last)) cells.push_back(cell);
  }
  std::size_t cells_left = cells.size();
  double need = 0.0;
  for (const TuningCell* cell : cells) need += cell->need_s / std::size(passes);
  for (TuningCell* cell : cells) {
    const double left = end - now_s();
    // A few decided cells are better than many undecided ones, so the last cells may get no time.
    const double share = std::max(0.4, left / need);
    // On a busy machine even small calls take longer than expected.
    const double even = 0.6 * left / static_cast<double>(cells_left--);
    const double own = cell->need_s / std::size(passes);
    const double until = std::min(end, now_s() + std::max(even, share * own));
    need = std::max(1e-9, need - own);
    if (stopped(end)) break;
    const Status status = race(*cell, until, rounds);
    if (status != Status::ok) return status;
  }
  return Status::ok;
}

std::vector<TuningCell*> TuningCampaign::by_value() {
  std::vector<TuningCell*> order;
  for (auto& [key, by_size] : cells_) {
    for (auto& [bytes, cell] : by_size) {
      if (cell.raceable) order.push_back(&cell);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const TuningCell* a, const TuningCell* b) { return a->value > b->value; });
  return order;
}

/// Races in several passes, so that the rounds of a cell cover different moments of the machine (other load, clock
/// rates).
Status TuningCampaign::race_all() {
  const auto order = by_value();
  const double end = start_s_ + main_share * (end_s_ - start_s_);
  for (std::size_t i = 0; i < std::size(passes); ++i) {
    const double part = 1.0 / static_cast<double>(std::size(passes) - i);
    const Status status = pass(order, now_s() + part * (end - now_s()), passes[i]);
    if (status != Status::ok) return status;
  }
  for (TuningCell* cell : order) {
    if (cell->race) conclude(*cell);  // loose cells before strict ones, which depend on them
  }
  return Status::ok;
}

/// The recipes that are acceptable in a cell, its winner first. A cell of the earlier profile has only that one's
/// recipe.
std::vector<std::size_t> TuningCampaign::able(const TuningCell& cell, const AlgorithmRace& race) const {
  std::vector<std::size_t> result = {race.winner(preference(cell))};
  if (incumbent(cell.call)) return result;
  for (std::size_t i = 0; i < cell.contenders.size(); ++i) {
    if (i != result.front() && race.holds_up(i)) result.push_back(i);
  }
  return result;
}

/// Gives neighbouring sizes the same recipe if it is acceptable in each of them. The races of neighbours may have
/// separated recipes that one race could not.
void TuningCampaign::settle() {
  for (auto& [key, by_size] : cells_) {
    std::vector<TuningCell*> cells;
    std::vector<AlgorithmRace> races;
    std::vector<std::vector<std::size_t>> able_by_cell;
    for (auto& [bytes, cell] : by_size) {
      if (!cell.result) continue;
      cells.push_back(&cell);
      races.push_back(cell.race->verdict().race);
      able_by_cell.push_back(able(cell, races.back()));
    }
    const auto taken = fewest_changes(able_by_cell, [&](std::size_t i, std::size_t a, std::size_t k, std::size_t b) {
      return state_.selector->same_schedule(cells[i]->contenders[a].recipe, cells[k]->contenders[b].recipe,
                                            cells[k]->call.bytes);
    });
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i]->result = judge(*cells[i], races[i], taken[i]);
  }
}

/// `third`: a recipe other than those at both ends won in between, so there are two crossovers to find.
Status TuningCampaign::bisect(const Key& key, std::size_t low, std::size_t high, bool& third) {
  auto& by_size = cells_[key];
  const ProfileCell below = *by_size.at(low).result, above = *by_size.at(high).result;
  Status status = Status::ok;
  third = false;
  const auto is_equal = [&](const ProfileCell& cell, const Recipe& recipe) {
    if (state_.selector->same_schedule(cell.recipe, recipe, cell.from_bytes)) return true;
    return std::any_of(cell.equals.begin(), cell.equals.end(), [&](const std::string& text) {
      return state_.selector->same_schedule(*parse_recipe(text), recipe, cell.from_bytes);
    });
  };
  const auto probe = [&](std::size_t bytes) -> std::optional<int> {
    if (status != Status::ok || stopped(end_s_)) return std::nullopt;
    auto ranked = state_.selector->ranked(key.first, bytes);
    if (!ranked) return std::nullopt;
    TuningCell cell{.call = {key.first, key.second, bytes}};
    const std::set<std::string> wanted = {to_string(below.recipe), to_string(above.recipe), below.runner_up,
                                          above.runner_up};
    for (std::size_t i = 0; i < ranked->size(); ++i) {
      if (i < 2 || wanted.contains(to_string((*ranked)[i].recipe))) cell.contenders.push_back((*ranked)[i]);
    }
    cell.contenders = state_.selector->distinct(cell.contenders, bytes);
    add_incumbent(cell);
    cell.need_s = estimate_s(cell);
    status = race(cell, std::min(end_s_, now_s() + 1.5 * cell.need_s), RaceRules().most_rounds);
    if (!cell.result) return std::nullopt;
    const ProfileCell found = *cell.result;
    by_size[bytes] = std::move(cell);
    const bool lower = is_equal(found, below.recipe), upper = is_equal(found, above.recipe);
    if (lower && upper) {
      either_.insert({key, bytes});
      return 0;
    }
    if (!lower && !upper) third = true;
    return upper - lower;
  };
  find_crossover(low, high, resolution, probe);
  return status;
}

Status TuningCampaign::bisect_all() {
  bool found = true;
  std::set<std::pair<Key, std::size_t>> done;  // by the upper end
  while (found) {
    found = false;
    for (auto& [key, by_size] : cells_) {
      std::vector<std::size_t> sizes;
      for (const auto& [bytes, cell] : by_size) {
        if (cell.result) sizes.push_back(bytes);
      }
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
        if (stopped(end_s_)) return Status::ok;
        const auto &a = *by_size.at(sizes[i]).result, &b = *by_size.at(sizes[i + 1]).result;
        const bool near = static_cast<double>(sizes[i + 1]) <= resolution * static_cast<double>(sizes[i]);
        if (near || state_.selector->same_schedule(a.recipe, b.recipe, sizes[i + 1]) ||
            !done.insert({key, sizes[i + 1]}).second)
          continue;
        bool third = false;
        if (const Status status = bisect(key, sizes[i], sizes[i + 1], third); status != Status::ok) return status;
        found |= third;
        if (third) done.erase({key, sizes[i + 1]});
      }
    }
  }
  return Status::ok;
}

Result<void> TuningCampaign::run() {
  if (auto made = make_cells(); !made) return made;
  Status status = race_all();
  settle();
  if (status == Status::ok) status = bisect_all();
  // The remaining time goes to cells that have used up their share.
  if (status == Status::ok) status = pass(by_value(), end_s_, *std::rbegin(passes));
  settle();
  if (status == Status::ok) return {};
  return make_error(status, "tune: {}", team_.failure());
}

/// The cells that an earlier profile has measured from a cell's size up to `end`.
std::vector<ProfileCell> TuningCampaign::known(const TuningCell& cell, std::size_t end) const {
  std::vector<ProfileCell> found;
  if (options_.incumbent == nullptr) return found;
  for (const auto& each : options_.incumbent->cells) {
    const bool same = each.operation == cell.call.operation && each.sync == cell.call.sync && each.shape == shape_;
    if (!same || each.from_bytes < cell.call.bytes || each.from_bytes >= end) continue;
    if (found.empty() && (each.from_bytes != cell.call.bytes || each.measured_ns <= 0.0)) break;
    found.push_back(each);
  }
  return found;
}

/// A crossover between two sizes with different winners that there was no time to find.
std::optional<ProfileCell> TuningCampaign::half_way(const std::map<std::size_t, TuningCell>& by_size,
                                                    std::map<std::size_t, TuningCell>::const_iterator at) const {
  const auto next = std::next(at);
  if (next == by_size.end() || !next->second.result) return std::nullopt;
  const auto &below = *at->second.result, &above = *next->second.result;
  const auto bytes = middle_bytes(at->first, next->first);
  const bool near = static_cast<double>(next->first) <= resolution * static_cast<double>(at->first);
  if (near || bytes <= at->first || bytes >= next->first) return std::nullopt;
  const Key key{at->second.call.operation, at->second.call.sync};
  if (either_.contains({key, at->first}) || either_.contains({key, next->first})) return std::nullopt;
  if (state_.selector->same_schedule(below.recipe, above.recipe, bytes)) return std::nullopt;
  ProfileCell change = unmeasured(next->second);
  change.from_bytes = bytes;
  change.recipe = above.recipe;
  change.predicted_ns = rounded(predicted_ns(above.recipe, bytes), 10.0);
  return change;
}

Profile TuningCampaign::take() {
  Profile profile{state_.machine.fingerprint, utc_now(), {}};
  for (auto& [key, by_size] : cells_) {
    for (auto at = by_size.begin(); at != by_size.end(); ++at) {
      auto& cell = at->second;
      if (cell.result) {
        profile.cells.push_back(*cell.result);
        if (auto change = half_way(by_size, at)) profile.cells.push_back(*change);
        continue;
      }
      const auto after = std::next(at);
      const auto earlier = known(cell, after == by_size.end() ? SIZE_MAX : after->first);
      profile.cells.insert(profile.cells.end(), earlier.begin(), earlier.end());
      if (!earlier.empty()) continue;
      auto next = std::find_if(at, by_size.end(), [](const auto& each) { return each.second.result.has_value(); });
      auto guess = unmeasured(cell);
      const TuningCell* const loose = loose_twin(cell);
      if (loose != nullptr && loose->result && !incumbent(cell.call)) {
        guess.recipe = loose->result->recipe;
        guess.predicted_ns = loose->result->predicted_ns;
        profile.cells.push_back(guess);
        continue;
      }
      const bool agree = at != by_size.begin() && next != by_size.end() && std::prev(at)->second.result &&
                         std::prev(at)->second.result->recipe == next->second.result->recipe;
      if (!agree) profile.cells.push_back(guess);
    }
  }
  Profile sorted{profile.fingerprint, profile.measured_at, {}};
  sorted.merge(profile);
  return sorted;
}

/// Rejects options that would lead to an empty profile.
Result<void> check_options(const TuneOptions& options) {
  if (!(options.timeout_s > 0.0)) {
    return make_error(Status::invalid_argument, "tune: a rank must be given more than 0 s to arrive");
  }
  if (!(options.time_s > 0.0)) return make_error(Status::invalid_argument, "tune: time must be more than 0 s");
  if (options.least_bytes > options.most_bytes || options.most_bytes < 8 ||
      options.most_bytes > (std::size_t{1} << 30)) {
    return make_error(Status::invalid_argument, "tune: sizes {}..{} bytes: must ascend, and end at 8 to 2^30",
                      options.least_bytes, options.most_bytes);
  }
  const auto& known = tunable_operations();
  for (const auto operation : options.operations) {
    if (std::find(known.begin(), known.end(), operation) == known.end()) {
      return make_error(Status::invalid_argument, "tune: {}: there is nothing to choose from", to_string(operation));
    }
  }
  return {};
}

}  // namespace
}  // namespace smelt::comm

namespace smelt {

const std::vector<Operation>& tunable_operations() {
  static const std::vector<Operation> operations = {
      Operation::broadcast, Operation::reduce,   Operation::allreduce,      Operation::scatter, Operation::gather,
      Operation::allgather, Operation::alltoall, Operation::reduce_scatter, Operation::scan,    Operation::exscan};
  return operations;
}

namespace comm {
namespace {

CommunicatorOptions communicator_options(const TuneOptions& options) {
  CommunicatorOptions result;
  result.profile = "none";
  result.timeout_s = options.timeout_s;
  return result;
}

/// Number of communicators. Fewer with many ranks, whose memory is at many different addresses anyway.
constexpr int most_ranks_of_places = 16, many_places = 3;

int places_for(const Group& group) { return group.size() <= most_ranks_of_places ? many_places : 1; }

void add(const TuneCounts& more, TuneCounts& to) noexcept {
  to.rounds += more.rounds;
  to.retaken += more.retaken;
  to.unsteady += more.unsteady;
}

/// Unknown if it cannot be measured.
Floor floor_now(const Machine& machine, const Group& group) {
  std::vector<int> pus;
  for (const int index : group.pus) pus.push_back(machine.pus[static_cast<std::size_t>(index)].os_index);
  const auto floor = probe_floor(pus);
  return floor ? *floor : Floor{};
}

/// If the floor moved during the campaign, the faster one is stored, since races are decided by the machine's best
/// moments. Cells taken from an earlier profile have that profile's floor.
void keep_floor(Profile& profile, const Profile* earlier, const Floor& before, const Floor& after) {
  const bool first = !after.known() || (before.known() && before.line_ns <= after.line_ns);
  Floor floor = first ? before : after;
  floor = {rounded(floor.line_ns, 100.0), rounded(floor.work_ns, 10.0)};
  for (auto& cell : profile.cells) {
    const bool kept = earlier != nullptr && cell.measured_ns > 0.0 &&
                      std::find(earlier->cells.begin(), earlier->cells.end(), cell) != earlier->cells.end();
    if (!kept) cell.floor = floor;
  }
}

/// Runs the ranks of this process until rank 0 has finished. The process of rank 0 gets the profile.
Result<Profile> campaign_on(std::vector<Communicator>& places, const TuneOptions& options, double start_s) {
  Result<Profile> answer = Profile{};
  Result<void> campaigned;
  const auto ran = places.front().run([&](Rank& rank) {
    std::vector<Rank> others;
    std::vector<Endpoint*> endpoints = {&TunerAccess::endpoint(rank)};
    auto& state = endpoints.front()->state();
    for (std::size_t i = 1; i < places.size(); ++i) {
      auto other = places[i].attach(rank.rank());
      if (!other) {
        if (rank.rank() == 0) campaigned = other.error();
        return state.fail(other.error().status, other.error().message);
      }
      others.push_back(std::move(*other));
      endpoints.push_back(&TunerAccess::endpoint(others.back()));
    }
    TunerTeam team(std::move(endpoints), state.parallelism < state.group.size());
    if (rank.rank() != 0) {
      (void)team.serve();
      return;
    }
    TuningCampaign campaign(team, state, options, start_s);
    campaigned = campaign.run();
    (void)team.dismiss();
    answer = campaign.take();
    if (options.counts != nullptr) add(campaign.counts(), *options.counts);
  });
  if (!campaigned) return campaigned.error();
  if (!ran) return ran.error();
  return answer;
}

Result<Profile> tune_threads(const Machine& machine, const Group& group, const TuneOptions& options, double start_s) {
  std::vector<Communicator> places;
  for (int i = 0; i < places_for(group); ++i) {
    auto communicator = Communicator::create(machine, group, communicator_options(options));
    if (!communicator) return communicator.error();
    places.push_back(std::move(*communicator));
  }
  return campaign_on(places, options, start_s);
}

/// Runs one process, from the rendezvous to the end.
Result<Profile> work_as(int rank, const std::vector<RendezvousMemory>& meeting_places, const Machine& machine,
                        const Group& group, const TuneOptions& options, double start_s) {
  const int own[] = {rank};
  std::vector<Communicator> places;
  for (const auto& meeting_place : meeting_places) {
    auto state =
        CommunicatorState::create_shared(meeting_place.fd(), machine, group, own, communicator_options(options));
    if (!state) return state.error();
    places.push_back(TunerAccess::communicator(std::move(*state)));
  }
  return campaign_on(places, options, start_s);
}

/// The rendezvous is over unnamed memory, so that nothing is left behind however the processes end.
Result<Profile> tune_processes(const Machine& machine, const Group& group, const TuneOptions& options, double start_s) {
  std::vector<RendezvousMemory> meeting_places;
  for (int i = 0; i < places_for(group); ++i) {
    auto meeting_place = RendezvousMemory::create();
    if (!meeting_place) return meeting_place.error();
    meeting_places.push_back(std::move(*meeting_place));
  }
  auto pool = ProcessPool::fork(
      group.size(), [&](int rank) { return work_as(rank, meeting_places, machine, group, options, start_s) ? 0 : 1; });
  if (!pool) return make_error(pool.error().status, "tune: {}", pool.error().message);
  auto answer = work_as(0, meeting_places, machine, group, options, start_s);
  pool->end(answer ? 5.0 : 0.0);
  return answer;
}

}  // namespace
}  // namespace comm

Result<Profile> tune(const Machine& machine, const Group& group, const TuneOptions& options) {
  const double start_s = comm::now_s();
  if (auto checked = comm::check_options(options); !checked) return checked.error();
  const Floor before = comm::floor_now(machine, group);
  auto profile = options.processes ? comm::tune_processes(machine, group, options, start_s)
                                   : comm::tune_threads(machine, group, options, start_s);
  if (profile) comm::keep_floor(*profile, options.incumbent, before, comm::floor_now(machine, group));
  return profile;
}

}  // namespace smelt
