// ReplayedRace: an AlgorithmRace that keeps its rounds, so that it can be replayed with those that count.
//
// Each round records the time of a barrier just before it. Rounds of unusual moments (baseline_time.hpp) do not count,
// unless there are too few others. Which moments are usual may change during a campaign.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/algorithm_race.hpp"
#include "tune/baseline_time.hpp"

namespace smelt::comm {

class ReplayedRace {
 public:
  static constexpr int least_rounds = 3;  ///< for a verdict; one suffices if it decides

  ReplayedRace(std::size_t contenders, const RaceRules& rules, std::uint64_t seed);

  /// The contenders of the next round, in the order in which they run.
  std::vector<std::size_t> next_order() { return race_.next_order(); }
  /// Adds a round: times by contender (0: did not run), and the time of a barrier before (0: unknown).
  void add_round(double barrier_ns, std::vector<double> times_ns, const BaselineTime& barriers);
  /// Replays the race if the set of rounds that count has changed. Returns whether it did.
  bool replay(const BaselineTime& barriers);

  bool decided() const noexcept { return race_.decided(); }
  /// Number of rounds that count.
  int rounds() const noexcept { return race_.rounds(); }
  std::size_t all_rounds() const noexcept { return rounds_.size(); }

  struct RaceVerdict {
    AlgorithmRace race;       ///< over the rounds that count, or over all
    bool conclusive = false;  ///< it has enough rounds
  };
  RaceVerdict verdict() const;

 private:
  struct Round {
    double barrier_ns;
    std::vector<double> times_ns;
    bool usual;
  };
  RaceVerdict run(bool all) const;

  std::size_t contenders_;
  RaceRules rules_;
  std::uint64_t seed_;
  std::vector<Round> rounds_;
  AlgorithmRace race_;
};

}  // namespace smelt::comm
