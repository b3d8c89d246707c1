#include "measure/pair_classes.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace smelt::measure {
namespace {

/// The units by which classes are split, coarse to fine.
constexpr int Pu::*units[] = {nullptr, &Pu::package, &Pu::numa_node, &Pu::l3, &Pu::l2, &Pu::core};
constexpr int numa_unit = 2;
constexpr int pu_unit = 6;  // beyond the list: the PU itself

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

std::uint64_t pair_id(Pair pair) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.a)) << 32 | static_cast<std::uint32_t>(pair.b);
}

/// The latencies by which two pairs are compared. Sums are used because the split of a latency into send and receive is
/// less stable.
std::array<double, 4> latencies(const PairCosts& costs) {
  return {costs[Cost::send_forward].value + costs[Cost::recv_forward].value,
          costs[Cost::send_backward].value + costs[Cost::recv_backward].value, costs[Cost::round_trip].value,
          costs[Cost::exchange].value};
}

double largest_error(const PairCosts& costs) {
  double error = 0.0;
  for (const auto& estimate : costs.values) error = std::max(error, estimate.error);
  return error;
}

PairCosts median_costs(const std::vector<const PairCosts*>& all) {
  PairCosts result;
  std::vector<double> values(all.size()), spreads(all.size()), errors(all.size());
  for (std::size_t c = 0; c < cost_count; ++c) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      values[i] = all[i]->values[c].value;
      spreads[i] = all[i]->values[c].spread;
      errors[i] = all[i]->values[c].error;
    }
    result.values[c] = {median(values), median(spreads), median(errors)};
  }
  return result;
}

}  // namespace

Level closest_level(const Pu& a, const Pu& b) {
  if (a.core == b.core) return Level::core;
  if (a.l2 == b.l2) return Level::l2;
  if (a.l3 == b.l3) return Level::l3;
  if (a.numa_node == b.numa_node) return Level::numa_node;
  if (a.package == b.package) return Level::package;
  return Level::machine;
}

std::size_t PairClasses::KeyHash::operator()(const Key& key) const noexcept {
  const auto upper =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.parent)) << 32 | static_cast<std::uint32_t>(key.kind);
  const auto lower =
      static_cast<std::uint64_t>(static_cast<std::uint32_t>(key.unit_a)) << 32 | static_cast<std::uint32_t>(key.unit_b);
  return static_cast<std::size_t>(mix(upper ^ mix(lower)));
}

PairClasses::PairClasses(std::vector<Pu> pus, std::size_t class_limit, std::uint64_t seed)
    : pus_(std::move(pus)), random_(seed) {
  for (root_unit_ = numa_unit; root_unit_ > 0; --root_unit_) {
    if (build_roots(root_unit_, class_limit)) return;
  }
  build_roots(0, pair_count());
}

bool PairClasses::build_roots(int unit, std::size_t class_limit) {
  classes_.clear();
  index_.clear();
  const int n = static_cast<int>(pus_.size());
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      const Pair pair = oriented(i, j);
      count_member(root_key(pair, unit), unit, pair);
    }
    if (classes_.size() > class_limit) return false;
  }
  leaves_ = classes_.size();
  return true;
}

/// Orients a pair by the places of its PUs, so that all pairs between two units have the same direction.
Pair PairClasses::oriented(int i, int j) const {
  const auto place = [&](int index) {
    const Pu& pu = pus_[static_cast<std::size_t>(index)];
    return std::tuple(pu.efficiency_class, pu.package, pu.numa_node, pu.l3, pu.l2, pu.core, index);
  };
  return place(i) < place(j) ? Pair{i, j} : Pair{j, i};
}

/// Encodes the closest level and the kinds of core.
int PairClasses::kind_of(Pair pair) const {
  const Pu& a = pus_[static_cast<std::size_t>(pair.a)];
  const Pu& b = pus_[static_cast<std::size_t>(pair.b)];
  return (a.efficiency_class * 256 + b.efficiency_class) * level_count + static_cast<int>(closest_level(a, b));
}

PairClasses::Key PairClasses::root_key(Pair pair, int unit) const {
  Key key{-1, kind_of(pair), 0, 0};
  if (unit > 0) {
    key.unit_a = pus_[static_cast<std::size_t>(pair.a)].*units[unit];
    key.unit_b = pus_[static_cast<std::size_t>(pair.b)].*units[unit];
  }
  return key;
}

PairClasses::Key PairClasses::child_key(int parent, Pair pair) const {
  const int unit = classes_[static_cast<std::size_t>(parent)].unit + 1;
  if (unit == pu_unit) return {parent, 0, pair.a, pair.b};
  return {parent, 0, pus_[static_cast<std::size_t>(pair.a)].*units[unit],
          pus_[static_cast<std::size_t>(pair.b)].*units[unit]};
}

/// Adds a pair to the class of that key, which is created if necessary. Keeps a uniform sample of the members
/// (reservoir sampling).
void PairClasses::count_member(Key key, int unit, Pair pair) {
  const auto [place, added] = index_.try_emplace(key, static_cast<int>(classes_.size()));
  if (added) {
    Class fresh;
    fresh.parent = key.parent;
    fresh.unit = unit;
    fresh.level = closest_level(pus_[static_cast<std::size_t>(pair.a)], pus_[static_cast<std::size_t>(pair.b)]);
    classes_.push_back(std::move(fresh));
  }
  Class& one = classes_[static_cast<std::size_t>(place->second)];
  ++one.members;
  random_ = mix(random_);
  const auto slot = static_cast<std::size_t>(random_ % one.members);
  if (one.candidates.size() < max_samples) {
    // Insertion at a random position keeps the order random. The first candidate is the representative.
    one.candidates.insert(one.candidates.begin() + static_cast<std::ptrdiff_t>(slot), pair);
  } else if (slot < max_samples) {
    one.candidates[slot] = pair;
  }
}

int PairClasses::leaf_of(Pair pair) const {
  int leaf = index_.at(root_key(pair, root_unit_));
  while (classes_[static_cast<std::size_t>(leaf)].split) leaf = index_.at(child_key(leaf, pair));
  return leaf;
}

std::vector<Pair> PairClasses::wanted(std::size_t samples) const {
  std::vector<Pair> result;
  samples = std::min(samples, max_samples);
  for (std::size_t turn = 1; turn <= samples; ++turn) {
    for (const Class& one : classes_) {
      if (one.split || one.timed.size() >= turn) continue;
      // Takes the first candidates that have not been timed until the class has `turn` samples.
      std::size_t missing = turn - one.timed.size();
      for (Pair pair : one.candidates) {
        if (result_of_.contains(pair_id(pair)) || --missing > 0) continue;
        result.push_back(pair);
        break;
      }
    }
  }
  return result;
}

void PairClasses::record(Pair pair, const PairCosts& costs) {
  const Pair right = oriented(pair.a, pair.b);
  const TimedPair timed{right, right == pair ? costs : swapped(costs)};
  const auto [place, added] = result_of_.try_emplace(pair_id(right), static_cast<int>(results_.size()));
  if (!added) {
    results_[static_cast<std::size_t>(place->second)] = timed;
    return;
  }
  results_.push_back(timed);
  int at = leaf_of(right);
  for (; at >= 0; at = classes_[static_cast<std::size_t>(at)].parent) {
    classes_[static_cast<std::size_t>(at)].timed.push_back(place->second);
  }
}

bool PairClasses::is_homogeneous(const Class& one) const {
  if (one.timed.size() < 2) return true;
  double error = 0.0;
  std::array<double, 4> low, high;
  low.fill(INFINITY);
  high.fill(0.0);
  for (int index : one.timed) {
    const PairCosts& costs = results_[static_cast<std::size_t>(index)].costs;
    const auto values = latencies(costs);
    error = std::max(error, largest_error(costs));
    for (std::size_t k = 0; k < values.size(); ++k) {
      low[k] = std::min(low[k], values[k]);
      high[k] = std::max(high[k], values[k]);
    }
  }
  for (std::size_t k = 0; k < low.size(); ++k) {
    if (high[k] > low[k] * (1.0 + tolerance + 2.0 * error)) return false;
  }
  return true;
}

std::vector<int> PairClasses::classes_to_split() {
  std::vector<int> result;
  for (std::size_t c = 0; c < classes_.size(); ++c) {
    Class& one = classes_[c];
    if (one.split || one.final || is_homogeneous(one)) continue;
    if (one.unit == pu_unit || one.members == 1) {
      one.final = true;
    } else {
      result.push_back(static_cast<int>(c));
    }
  }
  return result;
}

void PairClasses::drop_children_of(const std::vector<int>& parents) {
  const auto is_dropped = [&](int parent) { return std::binary_search(parents.begin(), parents.end(), parent); };
  std::erase_if(index_, [&](const auto& entry) { return is_dropped(entry.first.parent); });
  for (int parent : parents) {
    classes_[static_cast<std::size_t>(parent)].split = false;
    classes_[static_cast<std::size_t>(parent)].final = true;
  }
  // The slots of dropped classes stay unused. An empty class is never found and needs no samples.
  for (Class& one : classes_) {
    if (is_dropped(one.parent)) {
      one.candidates.clear();
      one.timed.clear();
      one.final = true;
    }
  }
}

bool PairClasses::refine(std::size_t class_limit) {
  const auto parents = classes_to_split();
  if (parents.empty()) return false;
  std::vector<std::size_t> children(classes_.size(), 0);
  std::vector<bool> splitting(classes_.size(), false);
  for (int parent : parents) splitting[static_cast<std::size_t>(parent)] = true;

  const int n = static_cast<int>(pus_.size());
  std::size_t total = 0;
  std::vector<int> given_up;
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      const Pair pair = oriented(i, j);
      const auto leaf = static_cast<std::size_t>(leaf_of(pair));
      if (!splitting[leaf]) continue;
      const auto before = classes_.size();
      count_member(child_key(static_cast<int>(leaf), pair), classes_[leaf].unit + 1, pair);
      children[leaf] += classes_.size() - before;
      total += classes_.size() - before;
      if (total <= class_limit) continue;
      // There would be too many parts, so the split of this class is undone.
      splitting[leaf] = false;
      total -= children[leaf];
      given_up.push_back(static_cast<int>(leaf));
    }
  }
  std::sort(given_up.begin(), given_up.end());
  if (!given_up.empty()) drop_children_of(given_up);

  bool any = false;
  for (int parent : parents) {
    if (!splitting[static_cast<std::size_t>(parent)]) continue;
    any = true;
    classes_[static_cast<std::size_t>(parent)].split = true;
    leaves_ += children[static_cast<std::size_t>(parent)] - 1;
    for (int index : classes_[static_cast<std::size_t>(parent)].timed) {
      const int child = index_.at(child_key(parent, results_[static_cast<std::size_t>(index)].pair));
      classes_[static_cast<std::size_t>(child)].timed.push_back(index);
    }
  }
  return any;
}

void PairClasses::finish() {
  std::vector<std::vector<const PairCosts*>> by_level(level_count);
  for (const TimedPair& timed : results_) {
    const auto level =
        closest_level(pus_[static_cast<std::size_t>(timed.pair.a)], pus_[static_cast<std::size_t>(timed.pair.b)]);
    by_level[static_cast<std::size_t>(level)].push_back(&timed.costs);
  }
  for (Class& one : classes_) {
    std::vector<const PairCosts*> costs;
    for (int index : one.timed) costs.push_back(&results_[static_cast<std::size_t>(index)].costs);
    one.median = median_costs(costs);
    one.homogeneous = is_homogeneous(one);
  }
  level_median_.resize(level_count);
  for (int level = 0; level < level_count; ++level) {
    int nearest = -1;
    for (int other = 0; other < level_count; ++other) {
      if (by_level[static_cast<std::size_t>(other)].empty()) continue;
      // Of two equally near levels, the farther one is used: an overestimate is safer.
      if (nearest < 0 || std::abs(other - level) <= std::abs(nearest - level)) nearest = other;
    }
    if (nearest >= 0) {
      level_median_[static_cast<std::size_t>(level)] = median_costs(by_level[static_cast<std::size_t>(nearest)]);
    }
  }
}

PairCosts PairClasses::costs(int i, int j, bool own) const {
  const Pair pair = oriented(i, j);
  int at = leaf_of(pair);
  const Class& leaf = classes_[static_cast<std::size_t>(at)];
  PairCosts result = level_median_[static_cast<std::size_t>(leaf.level)];
  const auto timed = own || !leaf.homogeneous ? result_of_.find(pair_id(pair)) : result_of_.end();
  if (timed != result_of_.end()) {
    result = results_[static_cast<std::size_t>(timed->second)].costs;
  } else {
    while (at >= 0 && classes_[static_cast<std::size_t>(at)].timed.empty()) {
      at = classes_[static_cast<std::size_t>(at)].parent;
    }
    if (at >= 0) result = classes_[static_cast<std::size_t>(at)].median;
  }
  return pair.a == i ? result : swapped(result);
}

std::vector<Pair> PairClasses::all_pairs() const {
  std::vector<Pair> result;
  result.reserve(pair_count());
  std::unordered_map<std::uint64_t, bool> first;
  for (std::size_t turn = 0; turn < 3; ++turn) {
    for (const Class& one : classes_) {
      if (one.split || turn >= one.candidates.size()) continue;
      result.push_back(one.candidates[turn]);
      first.emplace(pair_id(one.candidates[turn]), true);
    }
  }
  const auto samples = static_cast<std::ptrdiff_t>(result.size());
  const int n = static_cast<int>(pus_.size());
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) {
      const Pair pair = oriented(i, j);
      if (!first.contains(pair_id(pair))) result.push_back(pair);
    }
  }
  // Random order, so that a drift of the machine is not mistaken for structure.
  std::uint64_t random = random_;
  for (auto k = static_cast<std::ptrdiff_t>(result.size()) - 1; k > samples; --k) {
    random = mix(random);
    const auto other = samples + static_cast<std::ptrdiff_t>(random % static_cast<std::uint64_t>(k - samples + 1));
    std::swap(result[static_cast<std::size_t>(k)], result[static_cast<std::size_t>(other)]);
  }
  return result;
}

}  // namespace smelt::measure
