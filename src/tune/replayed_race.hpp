// ReplayedRace: an AlgorithmRace that keeps its rounds, so that it can be run again from those that count.
//
// Each round comes with what a barrier took just before it. Rounds of unusual moments (baseline_time.hpp) decide
// nothing, unless there are too few others. Which moments are usual may change as a campaign goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/algorithm_race.hpp"
#include "tune/baseline_time.hpp"

namespace smelt::comm {

class ReplayedRace {
 public:
  static constexpr int least_rounds = 3;  ///< for a verdict at all; one, if that decides

  ReplayedRace(std::size_t contenders, const RaceRules& rules, std::uint64_t seed);

  /// Who runs next, in which order.
  std::vector<std::size_t> next_order() { return race_.next_order(); }
  /// What they took, by contender (0: nothing), and what a barrier took before (0: not known).
  void add_round(double barrier_ns, std::vector<double> times_ns, const BaselineTime& barriers);
  /// Runs it again if other rounds count by now, and says whether.
  bool replay(const BaselineTime& barriers);

  bool decided() const noexcept { return race_.decided(); }
  /// That count.
  int rounds() const noexcept { return race_.rounds(); }
  std::size_t all_rounds() const noexcept { return rounds_.size(); }

  struct RaceVerdict {
    AlgorithmRace race;       ///< of the rounds that count, or of all
    bool conclusive = false;  ///< it has rounds enough
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
