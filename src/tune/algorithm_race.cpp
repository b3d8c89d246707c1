#include "tune/algorithm_race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace smelt::comm {
namespace {

constexpr int looks[] = {7, 10, 14, 20, 28, 40, 56, 80};
constexpr double most_doubt = 0.02;  ///< of an interval

std::vector<double> present(const std::vector<double>& times) {
  std::vector<double> values;
  for (double time : times) {
    if (time > 0.0) values.push_back(time);
  }
  return values;
}

}  // namespace

double midmean_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const auto quarter = static_cast<std::ptrdiff_t>(values.size() / 4);
  const auto begin = values.begin() + quarter, end = values.end() - quarter;
  return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
}

AlgorithmRace::AlgorithmRace(std::size_t contenders, const RaceRules& rules, std::uint64_t seed)
    : rules_(rules), random_(seed), contenders_(contenders), decided_(contenders <= 1) {
  if (contenders == 1) contenders_[0].standing = Standing::leader;
}

std::vector<std::size_t> AlgorithmRace::next_order() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    if (contenders_[i].standing != Standing::out) order.push_back(i);
  }
  std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void AlgorithmRace::add_round(const std::vector<double>& times) {
  for (std::size_t i = 0; i < contenders_.size(); ++i) contenders_[i].times.push_back(times[i]);
  ++rounds_;
  find_leader();
  drop_hopeless();
  if (looked() && std::find(std::begin(looks), std::end(looks), rounds_) != std::end(looks)) look();
  if (rounds_ >= rules_.most_rounds || next_order().size() <= 1) decided_ = true;
}

std::vector<double> AlgorithmRace::ratios(std::size_t a, std::size_t b) const {
  std::vector<double> result;
  for (std::size_t round = 0; round < contenders_[a].times.size(); ++round) {
    const double over = contenders_[a].times[round], under = contenders_[b].times[round];
    if (over > 0.0 && under > 0.0) result.push_back(over / under);
  }
  return result;
}

void AlgorithmRace::find_leader() {
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    auto& contender = contenders_[i];
    if (contender.standing == Standing::out) continue;
    contender.standing = Standing::open;
    const double median = median_of(present(contender.times));
    if (median > 0.0 && median < best) {
      best = median;
      leader_ = i;
    }
  }
  contenders_[leader_].standing = Standing::leader;
}

void AlgorithmRace::drop_hopeless() {
  const double best = median_of(present(contenders_[leader_].times));
  for (auto& contender : contenders_) {
    const auto values = present(contender.times);
    // Never by a single time, which may contain an interrupt.
    if (contender.standing != Standing::open || values.size() < 2) continue;
    const double limit = values.size() >= 3 ? rules_.hopeless : 3.0 * rules_.hopeless;
    if (*std::min_element(values.begin(), values.end()) > limit * best) contender.standing = Standing::out;
  }
}

void AlgorithmRace::look() {
  // The ratios of all rounds so far. Clear cases were dropped as hopeless before, so only the confidence decides here.
  const VerdictRules rules{.margin = rules_.margin, .doubt = most_doubt, .fewest = 7};
  bool all_equal = true;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    if (i == leader_ || contenders_[i].standing == Standing::out) continue;
    switch (judge(ratios(i, leader_), rules).verdict) {
      case Verdict::faster: contenders_[i].standing = Standing::out; break;
      case Verdict::equal: contenders_[i].standing = Standing::equal; break;
      default: all_equal = false;
    }
  }
  decided_ = all_equal;
}

double AlgorithmRace::time_ns(std::size_t contender) const {
  const double best = median_of(present(contenders_[leader_].times));
  if (contender == leader_) return best;
  return best * median_of(ratios(contender, leader_));
}

double AlgorithmRace::spread(std::size_t contender) const {
  auto values = present(contenders_[contender].times);
  if (values.size() < 4) return 0.0;
  std::sort(values.begin(), values.end());
  const auto at = [&](double q) {
    return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
  };
  return (at(0.75) - at(0.25)) / at(0.5);
}

bool AlgorithmRace::compared(std::size_t contender) const {
  return contender == leader_ || ratios(contender, leader_).size() >= 3;
}

bool AlgorithmRace::holds_up(std::size_t contender) const {
  const auto& rival = contenders_[contender];
  if (contender == leader_) return true;
  if (rival.standing == Standing::out) return false;
  if (!looked()) {
    const auto mine = present(rival.times), best = present(contenders_[leader_].times);
    if (mine.empty() || best.empty()) return false;
    return *std::min_element(mine.begin(), mine.end()) <=
           (1.0 + rules_.early_margin) * *std::min_element(best.begin(), best.end());
  }
  const double margin = rival.standing == Standing::open ? rules_.open_margin : rules_.margin;
  return compared(contender) && median_of(ratios(contender, leader_)) <= 1.0 + margin;
}

std::size_t AlgorithmRace::winner(const std::vector<std::size_t>& preference) const {
  const auto found = std::find_if(preference.begin(), preference.end(), [&](auto i) { return holds_up(i); });
  return found == preference.end() ? leader_ : *found;
}

std::vector<std::size_t> AlgorithmRace::not_slower() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < contenders_.size(); ++i) {
    if (contenders_[i].standing != Standing::out) result.push_back(i);
  }
  return result;
}

std::size_t middle_bytes(std::size_t low, std::size_t high) {
  const auto middle = static_cast<std::size_t>(std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
  const std::size_t grain = middle >= 1024 ? 64 : 8;
  return (middle + grain / 2) / grain * grain;
}

std::size_t find_crossover(std::size_t low, std::size_t high, double resolution,
                           const std::function<std::optional<int>(std::size_t)>& probe) {
  while (static_cast<double>(high) > resolution * static_cast<double>(low)) {
    const auto middle = middle_bytes(low, high);
    if (middle <= low || middle >= high) break;
    const auto verdict = probe(middle);
    if (!verdict || *verdict == 0) return middle;
    (*verdict < 0 ? low : high) = middle;
  }
  return high;
}

std::vector<std::size_t> fewest_changes(
    const std::vector<std::vector<std::size_t>>& able,
    const std::function<bool(std::size_t, std::size_t, std::size_t, std::size_t)>& same) {
  std::vector<std::size_t> taken(able.size());
  for (std::size_t begin = 0, end = 0; begin < able.size(); begin = end) {
    auto common = able[begin];
    const auto at = [&](std::size_t step, std::size_t one) {
      return std::find_if(able[step].begin(), able[step].end(), [&](auto a) { return same(begin, one, step, a); });
    };
    for (end = begin + 1; end < able.size(); ++end) {
      auto left = common;
      std::erase_if(left, [&](auto one) { return at(end, one) == able[end].end(); });
      if (left.empty()) break;
      common = std::move(left);
    }
    taken[begin] = common.front();
    for (std::size_t step = begin + 1; step < end; ++step) taken[step] = *at(step, common.front());
  }
  return taken;
}

}  // namespace smelt::comm
