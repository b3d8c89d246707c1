#include "measure/campaign.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "base/error.hpp"
#include "measure/pair_classes.hpp"
#include "measure/statistics.hpp"

namespace smelt::measure {
namespace {

/// A lower bound for the cost of a message. Clocks with a coarse step may time a whole batch of sends as 0.
constexpr double least_cost_ns = 0.1;

constexpr int burst_channels = 16;
constexpr int least_row = 3;                        // receivers, for a row of sends of which each has one of its own
constexpr int most_lines = 256;                     // of a message that is timed; more than a ring has
constexpr std::size_t send_buffered = 4;            // sends of a burst that a store buffer may hide
constexpr std::size_t first_samples_per_class = 3;  // a representative and two to check it by
constexpr double precision_ns = 0.5;                // a cost need not be known better: the clock cannot tell
constexpr double progress_every_s = 0.2;

/// How many samples are taken, and how precise the result should be.
struct MeasurementEffort {
  double precision;      ///< wanted half-width of the confidence interval
  int rounds_per_visit;  ///< rounds per visit of a pair
  int max_visits;        ///< visits per pair
  double warm_up_s;      ///< before the first timed round of a visit, so that the PUs reach their clock rates
  double visit_s;        ///< expected duration of a visit on a slow machine
  double minimum_s;      ///< least duration, so that the estimates include slow drifts
  double burst_s;
};
constexpr MeasurementEffort normal_effort{0.03, 11, 100, 0.001, 0.012, 1.0, 0.5};
constexpr MeasurementEffort quick_effort{0.10, 3, 10, 0.0005, 0.003, 0.1, 0.05};

/// Reports progress to the caller a few times per second. The reported fraction never decreases.
class Progress {
 public:
  Progress(PairTimer& timer, const MeasureOptions& options)
      : timer_(timer), options_(options), start_s_(timer.now_s()), next_s_(start_s_) {}

  void report(const char* phase, double fraction) {
    fraction_ = std::clamp(fraction, fraction_, 1.0);
    const double now = timer_.now_s();
    if (!options_.progress || (now < next_s_ && fraction_ < 1.0)) return;
    next_s_ = now + progress_every_s;
    const double spent = now - start_s_;
    const double left = std::max(0.0, options_.budget_s - spent);
    const double eta = fraction_ > 0.0 ? std::min(left, spent * (1.0 - fraction_) / fraction_) : left;
    options_.progress({phase, fraction_, eta});
  }

 private:
  PairTimer& timer_;
  const MeasureOptions& options_;
  const double start_s_;
  double next_s_;
  double fraction_ = 0.0;
};

class MeasurementCampaign {
 public:
  MeasurementCampaign(const Machine& topology, PairTimer& timer, const MeasureOptions& options)
      : machine_(topology),
        timer_(timer),
        effort_(options.quick ? quick_effort : normal_effort),
        progress_(timer, options),
        start_s_(timer.now_s()),
        // Leaves time to fill in large matrices and to end the last round.
        deadline_s_(start_s_ + options.budget_s - std::min(0.2 * options.budget_s, 0.1 + 6e-7 * pair_count())),
        classes_(topology.pus, affordable_pairs(0.5) / first_samples_per_class) {}

  Result<Machine> run() {
    if (auto done = measure_pu(); !done) return done.error();
    if (machine_.size() > 1) {
      if (auto done = measure_bursts(); !done) return done.error();
      const bool everything = pair_count() <= static_cast<double>(affordable_pairs(0.8));
      if (auto done = everything ? measure_all_pairs() : measure_classes(); !done) return done.error();
      if (series_.empty()) {
        return make_error(Status::timed_out,
                          "no pair of PUs could be measured in time; allow a larger budget, or free the PUs from "
                          "other work");
      }
    }
    if (auto done = measure_switches(); !done) return done.error();
    fill_in();
    progress_.report("done", 1.0);
    return std::move(machine_);
  }

 private:
  using PairSeries = PerCost<Series>;

  double pair_count() const {
    return 0.5 * static_cast<double>(machine_.size()) * (static_cast<double>(machine_.size()) - 1.0);
  }
  bool in_time() { return timer_.now_s() < deadline_s_; }

  /// The number of visits that fit into a share of the remaining budget.
  std::size_t affordable_pairs(double share) {
    const double left = std::max(0.0, deadline_s_ - timer_.now_s());
    const double visit_s = visits_ >= 8 ? visits_s_ / visits_ : effort_.visit_s;
    return static_cast<std::size_t>(share * left / visit_s);
  }

  /// Costs on a single PU: polling empty channels and switching between threads. They stay unknown if time is short.
  Result<void> measure_pu() {
    const auto polls = timer_.time_polls(0, burst_channels);
    if (!polls) return polls.error();
    machine_.poll_ns = *polls;
    return measure_switches();
  }

  /// Another program that runs on the PU for a while only ever adds to switches. So the least time counts, of several
  /// moments: this is called before and after the pairs are measured.
  Result<void> measure_switches() {
    constexpr int rounds = 4;
    for (int round = 0; round < rounds; ++round) {
      const double last_s = timer_.now_s() + 0.02 * (deadline_s_ - start_s_);
      const auto turn = timer_.time_switch(0, last_s);
      if (auto kept = keep_least(turn, machine_.switch_ns); !kept) return kept;
      const auto process_turn = timer_.time_process_switch(0, last_s);
      if (auto kept = keep_least(process_turn, machine_.process_switch_ns); !kept) return kept;
    }
    return {};
  }

  static Result<void> keep_least(const Result<double>& timed, std::optional<double>& least) {
    if (!timed && timed.error().status != Status::timed_out) return timed.error();
    if (timed) least = std::min(*timed, least.value_or(*timed));
    return {};
  }

  Result<void> measure_bursts() {
    const int n = static_cast<int>(machine_.size());
    // The other ends are spread evenly over all PUs but PU 0.
    const int threads = std::min(n - 1, burst_channels);
    for (int t = 0; t < threads; ++t)
      burst_pus_.push_back(1 + static_cast<int>(static_cast<long>(t) * (n - 1) / threads));
    const int sent = threads >= least_row ? threads : burst_channels;
    auto sends = burst([&](double last_s) { return timer_.time_burst(0, burst_pus_, sent, last_s); });
    if (!sends) return sends.error();
    machine_.send_burst_ns = std::move(*sends);
    auto receives =
        burst([&](double last_s) { return timer_.time_receive_burst(0, burst_pus_, burst_channels, last_s); });
    if (!receives) return receives.error();
    machine_.recv_burst_ns = std::move(*receives);
    if (threads >= least_row) {
      auto row = burst([&](double last_s) { return timer_.time_receive_row(0, burst_pus_, last_s); });
      if (!row) return row.error();
      machine_.recv_row_ns = std::move(*row);
      auto later = repeat_while_all_ran([&](double last_s) { return timer_.time_fan_out(0, burst_pus_, last_s); });
      if (!later) return later.error();
      machine_.fan_out_ns = std::move(*later);
    }
    return measure_lines();
  }

  /// Messages of several lines: the mean over the other ends. To some of them long messages take twice as long as to
  /// others that are as near, and which ones changes. Longer messages never take less.
  Result<void> measure_lines() {
    std::vector<double> sums;
    double pairs = 0.0;
    const double last_s = timer_.now_s() + 0.1 * (deadline_s_ - start_s_);
    for (const int pu : burst_pus_) {
      if (pairs > 0.0 && timer_.now_s() > last_s) break;  // a busy machine
      const double share = 1.0 / static_cast<double>(burst_pus_.size());
      const auto lengths = repeat([&](double end_s) { return timer_.time_lines(0, pu, most_lines, end_s); }, share);
      if (!lengths) return lengths.error();
      if (lengths->empty()) break;
      sums.resize(lengths->size(), 0.0);
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += (*lengths)[k];
      ++pairs;
    }
    for (std::size_t k = 0; k < sums.size(); ++k) {
      sums[k] = std::max(sums[k] / pairs, k == 0 ? 0.0 : sums[k - 1]);
    }
    machine_.lines_ns = std::move(sums);
    return {};
  }

  /// The cost of each message of a burst; none without time.
  template <class TimeRound>
  Result<std::vector<double>> burst(TimeRound&& time_round) {
    auto medians = repeat_while_all_ran(time_round);
    return medians ? burst_costs(*medians) : medians;
  }

  /// repeat() of many threads; none also where other programs never let all of them run.
  template <class TimeRound>
  Result<std::vector<double>> repeat_while_all_ran(TimeRound&& time_round) {
    auto medians = repeat(time_round);
    if (medians && std::ranges::any_of(*medians, [](double ns) { return ns >= least_absence_ns; })) medians->clear();
    return medians;
  }

  /// The medians of rounds, while_all_ran(), that take the time at which they must end; none without time. `share`: of
  /// the time that such rounds may take.
  template <class TimeRound>
  Result<std::vector<double>> repeat(TimeRound&& time_round, double share = 1.0) {
    const double budget_s = 0.1 * (deadline_s_ - start_s_);
    const double last_s = timer_.now_s() + budget_s;  // time for a first round on a busy machine
    const double end_s = timer_.now_s() + share * std::min(effort_.burst_s, budget_s);
    std::vector<std::vector<double>> totals;
    while (timer_.now_s() < end_s) {
      progress_.report("bursts", 0.0);
      const auto round = time_round(last_s);
      if (!round) {
        if (round.error().status != Status::timed_out) return round.error();
        break;
      }
      totals.resize(round->size());
      for (std::size_t k = 0; k < totals.size(); ++k) totals[k].push_back((*round)[k]);
    }
    std::vector<double> medians;
    for (auto& one : totals) medians.push_back(settled_median(while_all_ran(std::move(one))));
    return medians;
  }

  /// Times some rounds of a pair. Returns whether the estimates are precise enough.
  Result<bool> visit(Pair pair) {
    const double visit_start_s = timer_.now_s();
    const auto deadline_of_warm_up = visit_start_s + effort_.warm_up_s;
    PairSeries fresh;
    int counted = 0;
    for (bool warm = false; counted < effort_.rounds_per_visit && in_time();
         warm = timer_.now_s() >= deadline_of_warm_up) {
      auto round = timer_.time_pair(pair.a, pair.b, deadline_s_);
      if (!round) {
        if (round.error().status == Status::timed_out) break;
        return round.error();
      }
      if (!warm) continue;
      PairSeries& series = series_[{pair.a, pair.b}];
      for (std::size_t c = 0; c < cost_count; ++c) series.values[c].add_round(std::move(round->values[c]));
      ++counted;
    }
    visits_s_ += timer_.now_s() - visit_start_s;
    ++visits_;
    const auto found = series_.find({pair.a, pair.b});
    if (found == series_.end()) return false;
    PairCosts costs;
    bool known = true;
    for (std::size_t c = 0; c < cost_count; ++c) {
      const Estimate estimate = found->second.values[c].estimate();
      costs.values[c] = estimate;
      known = known && estimate.error * estimate.value <= std::max(precision_ns, effort_.precision * estimate.value);
    }
    classes_.record(pair, costs);
    return known;
  }

  Result<void> measure_all_pairs() {
    own_costs_ = true;
    std::vector<Pair> pending = classes_.all_pairs();
    const double total = static_cast<double>(pending.size());
    std::vector<Pair> known;
    for (int sweep = 0; sweep < effort_.max_visits && in_time(); ++sweep) {
      std::vector<Pair> unknown;
      double done = 0.0;
      for (Pair pair : pending) {
        if (!in_time()) break;
        const auto enough = visit(pair);
        if (!enough) return enough.error();
        (*enough ? known : unknown).push_back(pair);
        // With many pairs, the first sweep is most of the work, because few pairs remain for the next ones.
        const double part = (done += 1.0) / static_cast<double>(pending.size());
        progress_.report("pairs", std::max(sweep == 0 ? 0.7 * part : 0.7, 0.99 * time_share(total)));
      }
      pending = std::move(unknown);
      if (!pending.empty()) continue;
      if (timer_.now_s() - start_s_ >= std::min(effort_.minimum_s, 0.25 * (deadline_s_ - start_s_))) break;
      pending = std::exchange(known, {});
    }
    return {};
  }

  /// Elapsed share of the least duration of a small machine's measurement; 0 for large machines.
  double time_share(double pairs) const {
    if (pairs * effort_.visit_s > effort_.minimum_s) return 0.0;
    return (timer_.now_s() - start_s_) / effort_.minimum_s;
  }

  Result<void> measure_classes() {
    by_class_ = true;
    for (std::size_t samples = first_samples_per_class;; samples *= 2) {
      do {
        for (Pair pair : classes_.wanted(samples)) {
          if (!in_time()) return {};
          if (auto done = visit_until_known(pair); !done) return done;
          progress_.report("classes of pairs", 0.99 * used_share());
        }
      } while (in_time() && classes_.refine(affordable_pairs(0.8) / first_samples_per_class));
      // All classes look homogeneous so far. If there is time, sample more pairs of each.
      const bool all_sampled = samples >= PairClasses::max_samples;
      if (all_sampled || classes_.class_count() * samples > affordable_pairs(1.0)) return {};
    }
  }

  Result<void> visit_until_known(Pair pair) {
    constexpr int visits_at_once = 3;
    for (int k = 0; k < visits_at_once && in_time(); ++k) {
      const auto enough = visit(pair);
      if (!enough) return enough.error();
      if (*enough) break;
    }
    return {};
  }

  double used_share() { return (timer_.now_s() - start_s_) / (deadline_s_ - start_s_); }

  void fill_in() {
    const std::size_t n = machine_.size();
    machine_.send_ns = machine_.recv_ns = Matrix(n);
    machine_.rtt_ns = machine_.propagation_ns = machine_.exchange_ns = Matrix(n);
    machine_.send_spread = machine_.recv_spread = Matrix(n);
    machine_.method = by_class_ ? "measured-by-class" : "measured";
    if (n < 2) return;
    classes_.finish();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = i + 1; j < n; ++j) {
        const auto costs = classes_.costs(static_cast<int>(i), static_cast<int>(j), own_costs_);
        set_one_way(i, j, costs);
        set_one_way(j, i, swapped(costs));
      }
    }
    if (own_costs_ && static_cast<double>(series_.size()) < pair_count()) machine_.method = "measured-by-class";
    fill_in_gaps();
  }

  /// Gaps were measured for one PU only. Other pairs get the same share of their own costs: a receive of its own cost,
  /// a send that waits until the line of the one before has come from its receiver, of the cost of a whole message.
  void fill_in_gaps() {
    const bool rows = burst_pus_.size() >= least_row;
    machine_.send_gap_ns =
        gaps(machine_.send_burst_ns, rows ? 1 : send_buffered, rows ? messages() : machine_.send_ns, true);
    machine_.recv_gap_ns = gaps(machine_.recv_burst_ns, 1, machine_.recv_ns, false);
  }

  /// Costs of lone messages.
  Matrix messages() const {
    Matrix all(machine_.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        all(i, j) = machine_.send_ns(i, j) + (*machine_.propagation_ns)(i, j) + machine_.recv_ns(i, j);
      }
    }
    return all;
  }

  std::optional<Matrix> gaps(const std::vector<double>& burst, std::size_t first, const Matrix& costs,
                             bool sends) const {
    if (burst.size() <= first) return std::nullopt;
    double gap = 0.0, whole = 0.0;
    for (std::size_t k = first; k < burst.size(); ++k) gap += burst[k] / static_cast<double>(burst.size() - first);
    for (const int pu : burst_pus_) {
      const auto other = static_cast<std::size_t>(pu);
      whole += (sends ? costs(0, other) : costs(other, 0)) / static_cast<double>(burst_pus_.size());
    }
    Matrix all(costs.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) {
        all(i, j) = std::max(gap / whole * costs(i, j), sends ? machine_.send_ns(i, j) : 0.0);
      }
    }
    return all;
  }

  void set_one_way(std::size_t i, std::size_t j, const PairCosts& costs) {
    const Estimate send = costs[Cost::send_forward];
    const Estimate recv = costs[Cost::recv_forward];
    const double rtt = costs[Cost::round_trip].value;
    machine_.send_ns(i, j) = std::max(least_cost_ns, send.value);
    machine_.recv_ns(i, j) = std::max(least_cost_ns, recv.value);
    machine_.send_spread.value()(i, j) = send.spread;
    machine_.recv_spread.value()(i, j) = recv.spread;
    machine_.rtt_ns.value()(i, j) = rtt;
    machine_.exchange_ns.value()(i, j) = costs[Cost::exchange].value;
    const double lone = (costs[Cost::lone_forward].value + costs[Cost::lone_backward].value) / 2.0;
    machine_.propagation_ns.value()(i, j) = std::max(0.0, lone - send.value - recv.value);
  }

  Machine machine_;
  PairTimer& timer_;
  const MeasurementEffort effort_;
  Progress progress_;
  const double start_s_;
  const double deadline_s_;
  double visits_s_ = 0.0;
  int visits_ = 0;
  PairClasses classes_;
  std::map<std::pair<int, int>, PairSeries> series_;
  std::vector<int> burst_pus_;  ///< the other ends of bursts from and to PU 0
  bool own_costs_ = false;
  bool by_class_ = false;
};

}  // namespace

std::vector<double> burst_costs(std::span<const double> totals_ns) {
  struct Block {
    double mean;
    std::size_t size;
  };
  std::vector<Block> blocks;
  for (double total : totals_ns) {
    blocks.push_back({std::max(0.0, total), 1});
    while (blocks.size() > 1 && blocks[blocks.size() - 2].mean > blocks.back().mean) {
      const Block last = blocks.back();
      blocks.pop_back();
      Block& into = blocks.back();
      const auto size = into.size + last.size;
      into.mean = (into.mean * static_cast<double>(into.size) + last.mean * static_cast<double>(last.size)) /
                  static_cast<double>(size);
      into.size = size;
    }
  }
  std::vector<double> costs;
  double before = 0.0;
  for (const Block& block : blocks) {
    for (std::size_t k = 0; k < block.size; ++k) {
      costs.push_back(block.mean - before);
      before = block.mean;
    }
  }
  return costs;
}

Result<Machine> run_campaign(const Machine& topology, PairTimer& timer, const MeasureOptions& options) {
  return MeasurementCampaign(topology, timer, options).run();
}

}  // namespace smelt::measure
