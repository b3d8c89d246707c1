#include "tune/replayed_race.hpp"

#include <utility>

namespace smelt::comm {

ReplayedRace::ReplayedRace(std::size_t contenders, const RaceRules& rules, std::uint64_t seed)
    : contenders_(contenders), rules_(rules), seed_(seed), race_(contenders, rules, seed) {}

void ReplayedRace::add_round(double barrier_ns, std::vector<double> times_ns, const BaselineTime& barriers) {
  const bool usual = barriers.is_usual(barrier_ns);
  if (usual) race_.add_round(times_ns);
  rounds_.push_back({barrier_ns, std::move(times_ns), usual});
}

bool ReplayedRace::replay(const BaselineTime& barriers) {
  bool changed = false;
  for (auto& round : rounds_) {
    const bool usual = barriers.is_usual(round.barrier_ns);
    changed |= usual != round.usual;
    round.usual = usual;
  }
  if (changed) race_ = run(false).race;
  return changed;
}

ReplayedRace::RaceVerdict ReplayedRace::run(bool all) const {
  // Another order than the first time.
  RaceVerdict verdict{AlgorithmRace(contenders_, rules_, seed_ + rounds_.size())};
  for (const auto& round : rounds_) {
    // A lone contender has won before it has run; how long it takes is asked all the same.
    if (verdict.race.decided() && verdict.race.rounds() > 0) break;
    if (!all && !round.usual) continue;
    verdict.race.add_round(round.times_ns);
  }
  verdict.conclusive = verdict.race.rounds() >= (verdict.race.decided() ? 1 : least_rounds);
  return verdict;
}

ReplayedRace::RaceVerdict ReplayedRace::verdict() const {
  auto counted = run(false);
  return counted.conclusive ? counted : run(true);
}

}  // namespace smelt::comm
