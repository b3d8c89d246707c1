// AlgorithmRace: which of several ways to do the same thing is the fastest, decided from interleaved rounds.
//
// In a round every contender that is still in runs once, in random order, so that a slow moment of the machine
// is slow for all. Contenders are compared with the leader by the ratios of their times in the same rounds, by the rule
// of base/comparison.hpp with a margin of 2 %. Rank tests (Wilcoxon) would need fewer rounds, but assume symmetry, which
// times do not have; a bootstrap of medians is too optimistic with the few rounds that there is time for.
//
//   out      the leader is faster by that rule
//   equal    the interval lies within 1 -+ margin
//
// Looked at after 7, 10, 14, 20, 28, 40 rounds, each time with 98 % confidence.
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
  double margin = 0.02;        ///< a difference that does not matter
  double open_margin = 0.03;   ///< of medians, between contenders that could not be told apart
  double early_margin = 0.25;  ///< of the best times, before the first look
  int most_rounds = 40;
  int first_look = 7;     ///< rounds before which nobody is told apart
  double hopeless = 1.4;  ///< out if the best of its three or more times is worse by that, of two by thrice that
};

/// The mean of the middle half, 0 of nothing: as deaf to outliers as the median, and finer than the clock, which on
/// some CPUs advances in steps of 10 ns.
double midmean_of(std::vector<double> values);

class AlgorithmRace {
 public:
  explicit AlgorithmRace(std::size_t contenders, const RaceRules& rules = {}, std::uint64_t seed = 1);

  /// Who runs next, in which order.
  std::vector<std::size_t> next_order();
  /// Times by contender; 0: none.
  void add_round(const std::vector<double>& times);

  /// One is left, or all left are equal, or there were enough rounds.
  bool decided() const noexcept { return decided_; }
  int rounds() const noexcept { return rounds_; }
  /// There were enough rounds to tell contenders apart.
  bool looked() const noexcept { return rounds_ >= rules_.first_look; }

  /// Why a contender is where it is.
  enum class Standing { leader, equal, open, out };
  Standing standing(std::size_t contender) const { return contenders_[contender].standing; }
  std::size_t leader() const noexcept { return leader_; }

  /// Median of its times, made comparable: the leader's median times its median ratio to the leader in the rounds
  /// that both ran. 0: it never ran.
  double time_ns(std::size_t contender) const;
  /// Interquartile range / median of its times.
  double spread(std::size_t contender) const;

  /// Whether a contender may be kept although another one leads: equal, or close where they could not be told apart.
  bool holds_up(std::size_t contender) const;
  /// The first of `preference` that holds up; the leader if none does.
  std::size_t winner(const std::vector<std::size_t>& preference) const;
  /// Those that were not found to be slower than the leader, it included.
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

/// Sizes at which `upper` takes over from `lower`, which win at `low` and `high`, by bisection of the logarithm.
/// probe(bytes): negative if `lower` wins there, positive if `upper` does, 0 if they are equal, nothing if there is
/// no time to find out. Ends when the bounds are within `resolution` of each other. Returns a size at which `upper`
/// wins or both are equal; without time the middle.
std::size_t find_crossover(std::size_t low, std::size_t high, double resolution,
                           const std::function<std::optional<int>(std::size_t)>& probe);

/// What to take at each of several steps in a row, so that it changes as seldom as can be. `able`: by step, those that
/// would do there, the preferred one first, at least one. same(i, a, k, b): what is `a` at step i is `b` at step k.
/// Each stretch goes as far as one of them will do, and takes the one that its first step likes best of those: no
/// other division has fewer stretches.
std::vector<std::size_t> fewest_changes(
    const std::vector<std::vector<std::size_t>>& able,
    const std::function<bool(std::size_t, std::size_t, std::size_t, std::size_t)>& same);

/// The middle between two sizes (of the logarithm), a multiple of 8.
std::size_t middle_bytes(std::size_t low, std::size_t high);

}  // namespace smelt::comm
