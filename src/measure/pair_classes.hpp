// Classes of pairs: which pairs of PUs stand for which others.
//
// Rule: pairs whose closest common level (core, L2, L3, NUMA node, package, machine) is the same,
// between the same two NUMA nodes and kinds of core, are expected to cost the same. Each class is
// timed on one representative and on further pairs drawn at random; where those differ by more
// than `tolerance`, the class is split by the next finer unit (NUMA node, L3, L2, core, PU), and
// so on until its parts agree:
//
//     L3 of NUMA nodes 0-0 . . . . . . . . .  homogeneous: 3 pairs timed stand for 1000s
//     machine, NUMA nodes 0-1  --split-->  L3 0-4 | L3 0-5 | L3 1-4 | ...
//
// Pure: no threads, no clock; the same input and seed give the same pairs.
// Source: [Kaestle16] 2.4.2.2 (clusters in figures 2.5 and 2.6).
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "measure/pair_timer.hpp"
#include "measure/statistics.hpp"
#include "smelt/machine.hpp"

namespace smelt::measure {

/// The closest level that two PUs share.
enum class Level { core, l2, l3, numa_node, package, machine };
inline constexpr int level_count = 6;
Level closest_level(const Pu& a, const Pu& b);

/// Two different PUs (indices); all pairs of a class are oriented alike.
struct Pair {
  int a = 0;
  int b = 0;

  bool operator==(const Pair&) const = default;
};

using PairCosts = PerCost<Estimate>;

class PairClasses {
 public:
  /// Relative difference of latencies above which a class is taken to be inhomogeneous.
  static constexpr double tolerance = 0.15;
  /// Most pairs that are ever timed for one class.
  static constexpr std::size_t max_samples = 24;

  /// Classes between NUMA nodes, or only between packages, or only by level, whichever is the
  /// finest of which there are at most `class_limit`. Cost: O(n^2).
  PairClasses(std::vector<Pu> pus, std::size_t class_limit, std::uint64_t seed = 1);

  std::size_t class_count() const noexcept { return leaves_; }
  std::size_t pair_count() const noexcept { return pus_.size() * (pus_.size() - 1) / 2; }

  /// Pairs to time next so that every class has `samples` of them (or all its pairs, if fewer):
  /// every class's first before any class's second.
  std::vector<Pair> wanted(std::size_t samples) const;

  /// Takes up what was timed for a pair, in the order (pair.a, pair.b). A repetition replaces.
  void record(Pair pair, const PairCosts& costs);

  /// Splits every inhomogeneous class whose parts number at most `class_limit` in all; the
  /// others keep what they have. Returns whether a class was split. Cost: O(n^2).
  bool refine(std::size_t class_limit);

  /// Prepares costs(). Call it after the last record().
  void finish();

  /// The costs of a pair, in the order (i, j): its own where it was timed and `own` is set or its
  /// class is not homogeneous, else the medians of the smallest class around it that was timed.
  /// Requires i != j, finish(), and at least one record().
  PairCosts costs(int i, int j, bool own) const;

  /// Every pair, each class's random samples first. Cost: O(n^2).
  std::vector<Pair> all_pairs() const;

 private:
  struct Key {
    int parent;
    int kind;
    int unit_a;
    int unit_b;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Class {
    int parent = -1;
    int unit = 0;  ///< what its pairs have in common: an index into the list of units, coarse to fine
    Level level = Level::machine;
    std::size_t members = 0;
    std::vector<Pair> candidates;  ///< a uniform sample of its pairs, in random order
    std::vector<int> timed;        ///< indices into results_
    bool split = false;
    bool final = false;  ///< not to be split (any more)
    bool homogeneous = true;
    PairCosts median;
  };
  struct TimedPair {
    Pair pair;
    PairCosts costs;
  };

  Pair oriented(int i, int j) const;
  int kind_of(Pair pair) const;
  Key root_key(Pair pair, int unit) const;
  Key child_key(int parent, Pair pair) const;
  int leaf_of(Pair pair) const;
  void count_member(Key key, int unit, Pair pair);
  bool build_roots(int unit, std::size_t class_limit);
  bool is_homogeneous(const Class& one) const;
  std::vector<int> classes_to_split();
  void drop_children_of(const std::vector<int>& parents);

  std::vector<Pu> pus_;
  std::vector<Class> classes_;
  std::unordered_map<Key, int, KeyHash> index_;
  int root_unit_ = 0;
  std::size_t leaves_ = 0;
  std::uint64_t random_;
  std::vector<TimedPair> results_;
  std::unordered_map<std::uint64_t, int> result_of_;  ///< by pair
  std::vector<PairCosts> level_median_;               ///< by Level; of levels without a timed pair: the nearest
};

}  // namespace smelt::measure
