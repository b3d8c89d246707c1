// AlgorithmRace: finds the fastest of several algorithms from interleaved rounds.
//
// In a round every remaining contender runs once, in random order, so that slow moments of the machine affect all of
// them. Contenders are compared with the leader by the ratios of their times in the same rounds, by the rule of
// base/comparison.hpp with a margin of 2 %. Rank tests (Wilcoxon) would need fewer rounds, but assume symmetric
// distributions, which times do not have. Bootstrapped medians are too optimistic for so few rounds.
//
//   out      the leader is faster by that rule
//   equal    the interval lies within 1 -+ margin
//
// Contenders are judged after 7, 10, 14, 20, 28 and 40 rounds, each time with 98 % confidence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "base/comparison.hpp"

namespace smelt::comm {

struct RaceRules {
  double margin = 0.02;        ///< smaller differences do not matter
  double open_margin = 0.03;   ///< the same for medians of contenders without a verdict
  double early_margin = 0.25;  ///< the same for best times, before the first look
  int most_rounds = 40;
  int first_look = 7;     ///< rounds before the first verdict
  double hopeless = 1.4;  ///< out if the best of three or more times is worse by this factor; of two, by three times it
};

/// The mean of the middle half of the values, 0 if there are none. As robust against outliers as the median, and finer
/// than the clock, which on some CPUs advances in steps of 10 ns.
double midmean_of(std::vector<double> values);

class AlgorithmRace {
 public:
  explicit AlgorithmRace(std::size_t contenders, const RaceRules& rules = {}, std::uint64_t seed = 1);

  /// The contenders of the next round, in the order in which they run.
  std::vector<std::size_t> next_order();
  /// Times by contender; 0: none.
  void add_round(const std::vector<double>& times);

  /// One contender is left, or all that are left are equal, or there were enough rounds.
  bool decided() const noexcept { return decided_; }
  int rounds() const noexcept { return rounds_; }
  /// There were enough rounds for a first verdict.
  bool looked() const noexcept { return rounds_ >= rules_.first_look; }

  /// The verdict on a contender.
  enum class Standing { leader, equal, open, out };
  Standing standing(std::size_t contender) const { return contenders_[contender].standing; }
  std::size_t leader() const noexcept { return leader_; }

  /// Comparable median of a contender's times: the leader's median times the median ratio to the leader in the rounds
  /// that both ran. 0: it never ran.
  double time_ns(std::size_t contender) const;
  /// Interquartile range / median of its times.
  double spread(std::size_t contender) const;

  /// Whether it ran in at least three rounds together with the leader. Fewer say nothing: on a busy machine, many
  /// rounds end before all contenders have had their turn.
  bool compared(std::size_t contender) const;
  /// Whether a contender may be used although another one leads: it is equal, or close without a verdict.
  bool holds_up(std::size_t contender) const;
  /// The first of `preference` that holds up; the leader if none does.
  std::size_t winner(const std::vector<std::size_t>& preference) const;
  /// The leader and all contenders that were not found to be slower.
  std::vector<std::size_t> not_slower() const;

 private:
  struct RaceEntry {
    std::vector<double> times;  ///< by round; 0: none
    Standing standing = Standing::open;
  };
  std::vector<double> ratios(std::size_t a, std::size_t b) const;
  void find_leader();
  void drop_hopeless();
  void look();

  RaceRules rules_;
  std::mt19937_64 random_;
  std::vector<RaceEntry> contenders_;
  std::size_t leader_ = 0;
  int rounds_ = 0;
  bool decided_ = false;
};

/// Finds the size at which the recipe that wins at `high` overtakes the one that wins at `low`, by bisection of the
/// logarithm. probe(bytes): negative if the lower one wins, positive if the upper one does, 0 if they are equal, empty
/// if there is no time left. Ends when the bounds are within `resolution` of each other. Returns a size at which the
/// upper one wins or both are equal; the middle if there was no time.
std::size_t find_crossover(std::size_t low, std::size_t high, double resolution,
                           const std::function<std::optional<int>(std::size_t)>& probe);

/// Chooses an option for each of several consecutive steps, with as few changes as possible. `able`: by step, the
/// options that are acceptable there, at least one, the preferred one first. same(i, a, k, b): option `a` of step i is
/// option `b` of step k. Each range extends as far as one option is acceptable, and uses the option that its first step
/// prefers. This greedy division has the fewest ranges.
std::vector<std::size_t> fewest_changes(
    const std::vector<std::vector<std::size_t>>& able,
    const std::function<bool(std::size_t, std::size_t, std::size_t, std::size_t)>& same);

/// The middle between two sizes (of the logarithm), a multiple of 8.
std::size_t middle_bytes(std::size_t low, std::size_t high);

}  // namespace smelt::comm
