// Classes of pairs of PUs that cost the same, each represented by a sample.
//
// Rule: pairs with the same closest common level (core, L2, L3, NUMA node, package, machine), between the same two NUMA
// nodes and kinds of core, are expected to cost the same. Of each class, a representative and some random pairs are
// timed. If they differ by more than `tolerance`, the class is split by the next finer unit (NUMA node, L3, L2, core,
// PU), until its parts agree:
//
//     L3 of NUMA nodes 0-0 . . . . . . . . .  homogeneous: 3 timed pairs represent 1000s
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

/// Two different PUs (indices). All pairs of a class have the same direction.
struct Pair {
  int a = 0;
  int b = 0;

  bool operator==(const Pair&) const = default;
};

using PairCosts = PerCost<Estimate>;

class PairClasses {
 public:
  /// A class is inhomogeneous if latencies differ by more than this, relatively.
  static constexpr double tolerance = 0.15;
  /// The largest number of pairs that are timed per class.
  static constexpr std::size_t max_samples = 24;

  /// Distinguishes NUMA nodes, or only packages, or only levels: the finest that gives at most `class_limit` classes.
  /// Cost: O(n^2).
  PairClasses(std::vector<Pu> pus, std::size_t class_limit, std::uint64_t seed = 1);

  std::size_t class_count() const noexcept { return leaves_; }
  std::size_t pair_count() const noexcept { return pus_.size() * (pus_.size() - 1) / 2; }

  /// Pairs to time next so that every class has `samples` timed pairs, or all its pairs if it has fewer. The first
  /// pairs of all classes come before the second ones.
  std::vector<Pair> wanted(std::size_t samples) const;

  /// Records the costs of a pair in the direction (pair.a, pair.b). Replaces earlier ones.
  void record(Pair pair, const PairCosts& costs);

  /// Splits inhomogeneous classes as long as there are at most `class_limit` classes in all. Returns whether a class
  /// was split. Cost: O(n^2).
  bool refine(std::size_t class_limit);

  /// Prepares costs(). Call it after the last record().
  void finish();

  /// The costs of a pair in the direction (i, j). These are its own if it was timed and either `own` is set or its
  /// class is not homogeneous; otherwise the medians of the smallest timed class that contains it. Requires i != j,
  /// finish(), and at least one record().
  PairCosts costs(int i, int j, bool own) const;

  /// Every pair; the random samples of all classes come first. Cost: O(n^2).
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
    int unit = 0;  ///< the unit that its pairs have in common: an index into the list of units, coarse to fine
    Level level = Level::machine;
    std::size_t members = 0;
    std::vector<Pair> candidates;  ///< a uniform sample of its pairs, in random order
    std::vector<int> timed;        ///< indices into results_
    bool split = false;
    bool final = false;  ///< is not split further
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
  std::vector<PairCosts> level_median_;  ///< by Level; for a level without timed pairs, that of the nearest level
};

}  // namespace smelt::measure
