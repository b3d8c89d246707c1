#include "harness/contest.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <random>

#include "base/error.hpp"
#include "harness/process.hpp"
#include "harness/statistics.hpp"

namespace smelt::bench {
namespace {

using std::chrono::duration;
using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point start) { return duration<double>(steady_clock::now() - start).count(); }
Deadline deadline_in(double seconds) {
  return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(duration<double>(seconds));
}

/// Numbers separated by single blanks, all finite and >= 0; false for anything else.
template <class T>
bool parse_numbers(std::string_view text, std::vector<T>& values) {
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    if (*at++ != ' ') return false;
    T value{};
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc() || !(value >= 0) || !std::isfinite(static_cast<double>(value))) return false;
    values.push_back(value);
    at = next;
  }
  return true;
}

/// The median of a start's samples, if they timed anything.
std::optional<double> timed_median(const std::vector<double>& times_ns) {
  const double median_ns = summarize(times_ns).median;
  return median_ns < least_timed_ns ? std::nullopt : std::optional(median_ns);
}

/// A contestant in the running.
struct RunningContestant {
  Contestant contestant;
  std::unique_ptr<WorkerProcess> worker;  ///< null once it is out
  std::string reason;                     ///< why it is out
  std::map<std::string, std::string> facts;
  std::vector<std::vector<double>> times_ns;  ///< of each start
  std::vector<double> messages_ns;
  std::size_t messages_before = 0;  ///< this start
  double used_s = 0.0;              ///< since this start
  bool decided = false;             ///< nothing is open about it: it needs no further start

  bool has_samples() const {
    return std::any_of(times_ns.begin(), times_ns.end(), [](const auto& times) { return !times.empty(); });
  }
  void drop(const std::string& why) {
    reason = why;
    if (worker) worker->end(false);
    worker.reset();
  }
  void nonsense(const std::string& line) { drop("answered nonsense: " + line.substr(0, 60)); }

  bool take(const std::string& line);
  /// Reads lines until `last`; drops the entrant on anything wrong.
  void listen(const std::string& last, double limit_s);
};

/// One line other than the last; false if it makes no sense.
bool RunningContestant::take(const std::string& line) {
  const std::string_view text = line;
  if (text.starts_with("pids")) {
    std::vector<pid_t> team;
    return parse_numbers(text.substr(4), team) && worker->adopt(team);
  }
  if (text.starts_with("info ")) {
    const auto blank = line.find(' ', 5);
    if (blank == std::string::npos) return false;
    facts[line.substr(5, blank - 5)] = line.substr(blank + 1);
    return true;
  }
  if (text.starts_with("series time")) return parse_numbers(text.substr(11), times_ns.back());
  if (text.starts_with("series message")) return parse_numbers(text.substr(14), messages_ns);
  return false;
}

void RunningContestant::listen(const std::string& last, double limit_s) {
  const Deadline deadline = deadline_in(limit_s);
  for (;;) {
    auto line = worker->read_line(deadline);
    if (!line) {
      const bool late = line.error().status == Status::timed_out;
      return drop(late ? fmt::format("no answer within {:g} s", limit_s) : line.error().message);
    }
    if (*line == last) return;
    if (line->starts_with("error ")) return drop(line->substr(6));
    if (!take(*line)) return nonsense(*line);
  }
}

class Contest {
 public:
  Contest(const ContestOptions& options, const std::vector<Contestant>& contestants) : options_(options) {
    next_ = options.starts;
    for (const auto& contestant : contestants) {
      entrants_.push_back({});
      entrants_.back().contestant = contestant;
    }
  }

  void run() {
    while (count() < most_starts() && !SignalGuard::interrupted()) {
      if (!hold_start() || count() < next_) continue;
      if (!settle()) break;
      next_ = static_cast<int>(next_look(static_cast<std::size_t>(count())));
    }
  }

  ContestOutcome finish() {
    ContestOutcome outcome;
    for (auto& running : entrants_) {
      if (running.reason.empty() && !running.has_samples()) running.drop("no valid sample");
      if (running.reason.empty())
        outcome.results.push_back(result_of(running));
      else
        outcome.left_out.push_back({running.contestant.name, running.reason});
    }
    add_floor_ratios(outcome.results);
    add_comparisons(outcome);
    outcome.starts = count();
    outcome.retaken = retakes_.taken_again();
    outcome.unsteady = retakes_.unsteady();
    outcome.floors = floors_;
    return outcome;
  }

 private:
  /// Starts that count so far.
  int count() const noexcept { return static_cast<int>(floors_.size()); }
  int most_starts() const noexcept { return std::max(options_.starts, options_.most_starts); }

  /// False: it does not count, the floor moved.
  bool hold_start() {
    const Floor before = floor_now();
    start_all();
    play();
    end_all();
    if (has_rivals() && retakes_.again(floor_moved(before, floor_now()))) {
      forget_start();
      return false;
    }
    floors_.push_back(before);
    return true;
  }

  /// Whether anything but the floor itself was timed.
  bool has_rivals() const {
    return std::any_of(entrants_.begin(), entrants_.end(), [](const auto& running) {
      return running.reason.empty() && running.contestant.name != floor_name;
    });
  }

  Floor floor_now() const {
    if (!options_.probe) return {};
    const auto floor = options_.probe();
    return floor ? *floor : Floor{};  // not known: nothing moves then
  }

  /// The last one was held on a machine that became another one.
  void forget_start() {
    for (auto& running : entrants_) {
      running.times_ns.pop_back();
      running.messages_ns.resize(running.messages_before);
    }
  }

  const RunningContestant* reference() const {
    for (const auto& running : entrants_) {
      if (!options_.reference.empty() && running.contestant.name == options_.reference) return &running;
    }
    return nullptr;
  }

  /// Determines which contestants are decided. Returns whether no verdict is open.
  bool settle() {
    const RunningContestant* const own = reference();
    if (own == nullptr || !own->reason.empty()) return false;
    bool open = false;
    for (auto& running : entrants_) {
      if (&running == own || !running.reason.empty()) continue;
      const bool rival = running.contestant.name != floor_name;
      const auto verdict = judge(ratios(running, *own), options_.rules).verdict;
      running.decided = rival && verdict != Verdict::undecided;
      open |= rival && !running.decided;
    }
    return open;
  }

  /// Of the starts' medians, of those starts that timed both.
  static std::vector<double> ratios(const RunningContestant& rival, const RunningContestant& own) {
    std::vector<double> found;
    for (std::size_t start = 0; start < own.times_ns.size() && start < rival.times_ns.size(); ++start) {
      const auto theirs = timed_median(rival.times_ns[start]), ours = timed_median(own.times_ns[start]);
      if (theirs && ours) found.push_back(*theirs / *ours);
    }
    return found;
  }

  void add_comparisons(ContestOutcome& outcome) const {
    const RunningContestant* const own = reference();
    if (own == nullptr || !own->reason.empty()) return;
    outcome.reference = own->contestant.name;
    for (auto& result : outcome.results) {
      for (const auto& running : entrants_) {
        if (&running == own || running.contestant.name != result.name) continue;
        const auto compared = judge(ratios(running, *own), options_.rules);
        if (compared.ratio.count > 0) result.compared = compared;
      }
    }
  }

  /// One after the other: a start must not disturb another worker's calibration. Who failed in an earlier start stays
  /// out.
  void start_all() {
    for (auto& running : entrants_) {
      running.times_ns.emplace_back();
      running.messages_before = running.messages_ns.size();
      running.used_s = 0.0;
    }
    for (std::size_t e = 0; e < entrants_.size() && !SignalGuard::interrupted(); ++e) {
      if (!entrants_[e].reason.empty() || entrants_[e].decided) continue;
      report(entrants_[e], 0.2 * static_cast<double>(e) / static_cast<double>(entrants_.size()));
      start(entrants_[e]);
    }
  }

  /// As many rounds as turns of the asked length fit this start's part of the budget. A contestant whose operations
  /// take longer than such a turn sits out once it has had twice its share of the time.
  void play() {
    std::vector<RunningContestant*> order;
    for (auto& running : entrants_) {
      if (running.worker) order.push_back(&running);
    }
    const double share_s = options_.budget_s / most_starts() / std::max<double>(1.0, static_cast<double>(order.size()));
    const auto rounds = std::max(1L, std::lround(share_s * 1000 / options_.turn_ms));
    for (long round = 0; round < rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random_);
      for (RunningContestant* running : order) {
        if (SignalGuard::interrupted()) return;
        if (!running->worker || running->used_s > 2 * share_s) continue;
        report(*running, 0.2 + 0.8 * static_cast<double>(round) / static_cast<double>(rounds));
        turn(*running);
      }
    }
  }

  void end_all() {
    for (auto& running : entrants_) {
      if (running.worker) running.worker->end(true);
      running.worker.reset();
    }
  }

  void start(RunningContestant& running) {
    Contestant contestant = running.contestant;
    for (auto* texts : {&contestant.argv, &contestant.environment}) {
      for (auto& text : *texts) fill_in_scratch(text);
    }
    auto worker = WorkerProcess::start(contestant);
    if (!worker) return running.drop(worker.error().message);
    running.worker = std::make_unique<WorkerProcess>(*std::move(worker));
    running.listen("ready", options_.start_limit_s);
  }

  void turn(RunningContestant& running) {
    const auto start = steady_clock::now();
    if (!running.worker->write_line(fmt::format("round {:.0f}", options_.turn_ms * 1000))) {
      auto last_words = running.worker->read_line(deadline_in(0.2));
      return running.drop(last_words ? "stopped listening" : last_words.error().message);
    }
    running.listen("done", options_.turn_limit_s);
    running.used_s += seconds_since(start);
  }

  void fill_in_scratch(std::string& text) const {
    constexpr std::string_view mark = "{scratch}";
    if (const auto at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), scratch_.path());
  }

  /// `fraction`: of this start.
  void report(const RunningContestant& running, double fraction) {
    if (!options_.progress) return;
    const int expected = count() < options_.starts ? options_.starts : std::min(next_, most_starts());
    fraction = (count() + fraction) / expected;
    const double elapsed_s = seconds_since(started_);
    const double eta_s = fraction > 0.01 ? elapsed_s * (1 - fraction) / fraction : options_.budget_s;
    options_.progress({running.contestant.name, fraction, eta_s});
  }

  static ContestResult result_of(const RunningContestant& running) {
    std::vector<double> all, medians;
    ContestResult result;
    for (const auto& times : running.times_ns) {
      all.insert(all.end(), times.begin(), times.end());
      const auto start_ns = result.starts_ns.emplace_back(timed_median(times));
      if (start_ns) medians.push_back(*start_ns);
    }
    const Summary times = summarize(std::move(all));
    result.name = running.contestant.name;
    if (!medians.empty()) result.median_ns = summarize(std::move(medians)).median;
    result.p99_ns = times.p99;
    result.spread = times.spread;
    result.samples = times.count;
    if (!running.messages_ns.empty()) {
      result.message_ns = summarize(running.messages_ns).median;
      if (*result.message_ns > 0) result.throughput_mmsg_s = 1000.0 / *result.message_ns;
    }
    if (const auto fact = running.facts.find("method"); fact != running.facts.end()) result.method = fact->second;
    if (const auto fact = running.facts.find("recipe"); fact != running.facts.end()) result.recipe = fact->second;
    if (const auto fact = running.facts.find("predicted_ns"); fact != running.facts.end()) {
      std::vector<double> value;
      if (parse_numbers(" " + fact->second, value) && value.size() == 1) result.predicted_ns = value[0];
    }
    return result;
  }

  static void add_floor_ratios(std::vector<ContestResult>& results) {
    std::optional<double> floor_ns;
    for (const auto& result : results) {
      if (result.name == floor_name) floor_ns = result.median_ns;
    }
    if (!floor_ns) return;
    for (auto& result : results) {
      if (result.median_ns) result.floor_ratio = *result.median_ns / *floor_ns;
    }
  }

  const ContestOptions& options_;
  const steady_clock::time_point started_ = steady_clock::now();
  ScratchDirectory scratch_;  // outlives the workers, which use it
  std::vector<RunningContestant> entrants_;
  std::mt19937_64 random_{options_.seed};
  std::vector<Floor> floors_;  ///< of the starts that count
  Remeasurements retakes_;
  int next_ = 0;  ///< the number of starts after which to look at the verdicts again
};

}  // namespace

Result<ContestOutcome> run_contest(const ContestOptions& options, const std::vector<Contestant>& contestants) {
  if (contestants.empty()) return make_error(Status::invalid_argument, "no contestant to run");
  const SignalGuard guard;  // outlives the contest: its workers are gone when the signal is delivered
  Contest contest(options, contestants);
  contest.run();
  if (SignalGuard::interrupted()) return make_error(Status::broken, "interrupted");
  return contest.finish();
}

}  // namespace smelt::bench
