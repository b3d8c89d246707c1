// Costs of ordered pairs of PUs by class, which is how large machines hold them.
//
// Rule: pairs that share the same units of the topology (package, NUMA node, L3, L2, core) and have the same kinds of
// core are one class and cost the same. A residual is the cost of a pair of units that differs from its class:
//
//   class {package}            27.5 ns     two NUMA nodes of one package
//   residual NUMA node 0 -> 3  31.0 ns     ... except from this one to that one
//   residual PU 5 -> 200       35.0 ns     ... except for these two PUs
//
// The residual of the finest units wins. One of a unit with itself holds for the pairs that share this unit and nothing
// finer. A look-up compares five numbers, and searches the residuals of the units where there are any.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smelt/machine.hpp"

namespace smelt {

/// Units, coarse to fine; after the last come the PUs themselves.
inline constexpr int unit_levels = 5;
inline constexpr int pu_level = unit_levels;
inline constexpr std::array<int Pu::*, unit_levels> unit_ids = {&Pu::package, &Pu::numa_node, &Pu::l3, &Pu::l2,
                                                                &Pu::core};
inline constexpr std::array<const char*, unit_levels + 1> unit_names = {"package", "numa_node", "l3",
                                                                        "l2",      "core",      "pu"};

/// Bit l: the pair shares its unit of level l.
using SharedUnits = std::uint8_t;
inline constexpr int shared_count = 1 << unit_levels;

/// "package+numa_node"; "machine" where a pair shares nothing else.
std::string name_of(SharedUnits shared);
std::optional<SharedUnits> shared_units_of(std::string_view name);

/// Where the PUs of a machine lie. One is shared by all matrices of a machine.
class Places {
 public:
  /// Requires: ids of 0..max_id.
  explicit Places(const std::vector<Pu>& pus);

  std::size_t size() const noexcept { return kinds_of_.size(); }
  int unit(int level, std::size_t pu) const { return level == pu_level ? static_cast<int>(pu) : ids_[level][pu]; }
  /// One more than the largest id of that level.
  std::size_t units(int level) const { return level == pu_level ? size() : units_[static_cast<std::size_t>(level)]; }
  /// Kinds of core are numbered in the order of their efficiency classes.
  int kind(std::size_t pu) const { return kinds_of_[pu]; }
  int kinds() const noexcept { return static_cast<int>(efficiency_classes_.size()); }
  const std::vector<int>& efficiency_classes() const noexcept { return efficiency_classes_; }

  SharedUnits shared(std::size_t a, std::size_t b) const {
    unsigned shared = 0;
    for (int level = 0; level < unit_levels; ++level) shared |= unsigned{ids_[level][a] == ids_[level][b]} << level;
    return static_cast<SharedUnits>(shared);
  }
  /// The same for one PU and every PU, `size()` of them. Cost: O(size).
  void shared_row(std::size_t a, SharedUnits* shared) const;

  /// Whether any pair of different PUs with these kinds shares these units, by [kind_a * kinds + kind_b][shared].
  /// Cost: O(n) where units nest and all cores are of one kind, as on every server; else O(n^2).
  std::vector<std::array<bool, shared_count>> occurring() const;

  bool operator==(const Places&) const = default;

 private:
  std::optional<std::vector<int>> nested_levels() const;

  std::array<std::vector<std::uint16_t>, unit_levels> ids_;
  std::array<std::size_t, unit_levels> units_{};
  std::vector<std::uint8_t> kinds_of_;
  std::vector<int> efficiency_classes_;
};

struct Residual {
  int from = 0;
  int to = 0;
  double cost = 0.0;

  bool operator==(const Residual&) const = default;
};

class CostsByClass {
 public:
  /// Every class costs nothing. `places` is not null.
  explicit CostsByClass(std::shared_ptr<const Places> places);

  /// The classes that describe a matrix of all cells, as with_costs_by_class() has them; null where they do not.
  static std::shared_ptr<const CostsByClass> of(const Matrix& matrix, std::shared_ptr<const Places> places,
                                                double noise);

  const Places& places() const noexcept { return *places_; }
  std::size_t size() const noexcept { return places_->size(); }

  /// Of a class; NaN where it was never set.
  double class_cost(int kind_a, int kind_b, SharedUnits shared) const {
    return classes_[index(kind_a, kind_b, shared)];
  }
  void set_class(int kind_a, int kind_b, SharedUnits shared, double cost) {
    classes_[index(kind_a, kind_b, shared)] = cost;
  }
  /// Of a PU with itself: 0 but for copies.
  double own() const noexcept { return own_; }
  void set_own(double cost) { own_ = cost; }
  /// Sorted by (from, to).
  const std::vector<Residual>& residuals(int level) const { return residuals_[static_cast<std::size_t>(level)]; }
  bool has_residuals() const noexcept {
    for (const auto& level : residuals_) {
      if (!level.empty()) return true;
    }
    return false;
  }
  /// Takes over residuals in any order; of equal pairs the last counts. Requires: units of that level.
  void set_residuals(int level, std::vector<Residual> residuals);

  double operator()(std::size_t from, std::size_t to) const;
  /// All costs from one PU. Cost: O(size) for each level with residuals.
  void copy_row(std::size_t from, double* costs) const;

  CostsByClass transposed() const;
  CostsByClass raised_by(double ns) const;

  bool operator==(const CostsByClass& other) const;

 private:
  std::size_t index(int kind_a, int kind_b, SharedUnits shared) const {
    return static_cast<std::size_t>((kind_a * places_->kinds() + kind_b) * shared_count + shared);
  }
  const Residual* find(int level, int from, int to) const;

  std::shared_ptr<const Places> places_;
  std::vector<double> classes_;  // by kinds and shared units
  double own_ = 0.0;
  std::array<std::vector<Residual>, unit_levels + 1> residuals_;
  std::array<std::vector<std::uint32_t>, unit_levels + 1> begin_;  // per level and unit: its first residual
};

}  // namespace smelt
