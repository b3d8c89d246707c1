#include "machine/costs_by_class.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace smelt {
namespace {

constexpr double unset = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t pairs_per_residual = 8;  // at least, or classes do not describe the matrix

/// The level of the finest shared unit; -1 where nothing is shared.
int finest(SharedUnits shared) { return std::bit_width(unsigned{shared}) - 1; }

/// A value that occurs, so that costs that are all equal come out as they are.
double median_of(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

bool differ(double a, double b, double noise) { return std::abs(a - b) > noise * std::max(a, b); }

}  // namespace

std::string name_of(SharedUnits shared) {
  std::string name;
  for (int level = 0; level < unit_levels; ++level) {
    if ((shared >> level & 1) == 0) continue;
    name += name.empty() ? "" : "+";
    name += unit_names[static_cast<std::size_t>(level)];
  }
  return name.empty() ? "machine" : name;
}

std::optional<SharedUnits> shared_units_of(std::string_view name) {
  for (unsigned shared = 0; shared < unsigned{shared_count}; ++shared) {
    if (name_of(static_cast<SharedUnits>(shared)) == name) return static_cast<SharedUnits>(shared);
  }
  return std::nullopt;
}

// ---- places ---------------------------------------------------------------------------------

Places::Places(const std::vector<Pu>& pus) {
  for (const Pu& pu : pus) efficiency_classes_.push_back(pu.efficiency_class);
  std::sort(efficiency_classes_.begin(), efficiency_classes_.end());
  efficiency_classes_.erase(std::unique(efficiency_classes_.begin(), efficiency_classes_.end()),
                            efficiency_classes_.end());
  for (const Pu& pu : pus) {
    const auto kind = std::lower_bound(efficiency_classes_.begin(), efficiency_classes_.end(), pu.efficiency_class);
    kinds_of_.push_back(static_cast<std::uint8_t>(kind - efficiency_classes_.begin()));
  }
  for (std::size_t level = 0; level < ids_.size(); ++level) {
    for (const Pu& pu : pus) {
      const int id = pu.*unit_ids[level];
      ids_[level].push_back(static_cast<std::uint16_t>(id));
      units_[level] = std::max(units_[level], static_cast<std::size_t>(id) + 1);
    }
  }
}

void Places::shared_row(std::size_t a, SharedUnits* shared) const {
  const std::size_t n = size();
  std::fill_n(shared, n, SharedUnits{0});
  for (int level = 0; level < unit_levels; ++level) {
    const std::uint16_t* ids = ids_[static_cast<std::size_t>(level)].data();
    const std::uint16_t own = ids[a];
    const auto bit = static_cast<SharedUnits>(1 << level);
    for (std::size_t i = 0; i < n; ++i) shared[i] = static_cast<SharedUnits>(shared[i] | (ids[i] == own ? bit : 0));
  }
}

/// Levels so that every unit lies in one unit of the level before; nothing if there is no such order.
std::optional<std::vector<int>> Places::nested_levels() const {
  std::vector<int> levels(unit_levels);
  std::iota(levels.begin(), levels.end(), 0);
  std::array<std::size_t, unit_levels> used{};
  for (std::size_t level = 0; level < ids_.size(); ++level) {
    std::vector<bool> seen(units_[level], false);
    for (const auto id : ids_[level]) used[level] += seen[id] ? 0 : 1, seen[id] = true;
  }
  std::stable_sort(levels.begin(), levels.end(),
                   [&](int a, int b) { return used[static_cast<std::size_t>(a)] < used[static_cast<std::size_t>(b)]; });
  for (std::size_t k = 1; k < levels.size(); ++k) {
    const auto fine = static_cast<std::size_t>(levels[k]), coarse = static_cast<std::size_t>(levels[k - 1]);
    std::vector<int> around(units_[fine], -1);
    for (std::size_t pu = 0; pu < size(); ++pu) {
      int& unit = around[ids_[fine][pu]];
      if (unit >= 0 && unit != ids_[coarse][pu]) return std::nullopt;
      unit = ids_[coarse][pu];
    }
  }
  return levels;
}

std::vector<std::array<bool, shared_count>> Places::occurring() const {
  std::vector<std::array<bool, shared_count>> occurs(static_cast<std::size_t>(kinds() * kinds()));
  const auto levels = kinds() == 1 ? nested_levels() : std::nullopt;
  if (!levels) {
    std::vector<SharedUnits> shared(size());
    for (std::size_t a = 0; a < size(); ++a) {
      shared_row(a, shared.data());
      for (std::size_t b = 0; b < size(); ++b) {
        if (a != b) occurs[static_cast<std::size_t>(kind(a) * kinds() + kind(b))][shared[b]] = true;
      }
    }
    return occurs;
  }
  // A unit that has two parts has a pair that shares it, what is around it, and nothing finer.
  SharedUnits shared = 0;
  for (int depth = 0; depth <= unit_levels; ++depth) {
    std::map<int, int> part_of;
    for (std::size_t pu = 0; pu < size(); ++pu) {
      const int around = depth == 0 ? 0 : unit((*levels)[static_cast<std::size_t>(depth) - 1], pu);
      const int part = unit(depth == unit_levels ? pu_level : (*levels)[static_cast<std::size_t>(depth)], pu);
      if (part_of.emplace(around, part).first->second != part) occurs[0][shared] = true;
    }
    if (depth < unit_levels)
      shared = static_cast<SharedUnits>(shared | 1 << (*levels)[static_cast<std::size_t>(depth)]);
  }
  return occurs;
}

// ---- costs ----------------------------------------------------------------------------------

CostsByClass::CostsByClass(std::shared_ptr<const Places> places)
    : places_(std::move(places)),
      classes_(static_cast<std::size_t>(places_->kinds() * places_->kinds() * shared_count), unset) {}

void CostsByClass::set_residuals(int level, std::vector<Residual> residuals) {
  std::stable_sort(residuals.begin(), residuals.end(), [](const Residual& a, const Residual& b) {
    return a.from != b.from ? a.from < b.from : a.to < b.to;
  });
  const auto l = static_cast<std::size_t>(level);
  auto& own = residuals_[l];
  own.clear();
  for (const Residual& one : residuals) {
    if (!own.empty() && own.back().from == one.from && own.back().to == one.to) own.pop_back();
    own.push_back(one);
  }
  begin_[l].assign(own.empty() ? 0 : places_->units(level) + 1, 0);
  if (own.empty()) return;
  for (const Residual& one : own) ++begin_[l][static_cast<std::size_t>(one.from) + 1];
  std::partial_sum(begin_[l].begin(), begin_[l].end(), begin_[l].begin());
}

const Residual* CostsByClass::find(int level, int from, int to) const {
  const auto l = static_cast<std::size_t>(level);
  const auto& own = residuals_[l];
  if (own.empty()) return nullptr;
  const auto* first = own.data() + begin_[l][static_cast<std::size_t>(from)];
  const auto* last = own.data() + begin_[l][static_cast<std::size_t>(from) + 1];
  const auto* found = std::lower_bound(first, last, to, [](const Residual& one, int unit) { return one.to < unit; });
  return found != last && found->to == to ? found : nullptr;
}

double CostsByClass::operator()(std::size_t from, std::size_t to) const {
  if (from == to) {
    const auto* residual = find(pu_level, static_cast<int>(from), static_cast<int>(to));
    return residual != nullptr ? residual->cost : own_;
  }
  const SharedUnits shared = places_->shared(from, to);
  for (int level = pu_level; level >= std::max(0, finest(shared)); --level) {
    const auto* residual = find(level, places_->unit(level, from), places_->unit(level, to));
    if (residual != nullptr) return residual->cost;
  }
  return classes_[index(places_->kind(from), places_->kind(to), shared)];
}

void CostsByClass::copy_row(std::size_t from, double* costs) const {
  const std::size_t n = size();
  thread_local std::vector<SharedUnits> shared;
  shared.resize(n);
  places_->shared_row(from, shared.data());
  const double* classes = &classes_[index(places_->kind(from), 0, 0)];
  for (std::size_t to = 0; to < n; ++to) costs[to] = classes[places_->kind(to) * shared_count + shared[to]];
  std::vector<double> of_unit;
  for (int level = 0; level <= pu_level; ++level) {
    const auto l = static_cast<std::size_t>(level);
    if (residuals_[l].empty()) continue;
    const int unit = places_->unit(level, from);
    const auto first = begin_[l][static_cast<std::size_t>(unit)], last = begin_[l][static_cast<std::size_t>(unit) + 1];
    if (first == last) continue;
    of_unit.assign(places_->units(level), unset);
    for (auto i = first; i < last; ++i) of_unit[static_cast<std::size_t>(residuals_[l][i].to)] = residuals_[l][i].cost;
    for (std::size_t to = 0; to < n; ++to) {
      const double cost = of_unit[static_cast<std::size_t>(places_->unit(level, to))];
      if (!std::isnan(cost) && finest(shared[to]) <= level) costs[to] = cost;
    }
  }
  costs[from] = (*this)(from, from);
}

CostsByClass CostsByClass::transposed() const {
  CostsByClass result(places_);
  result.own_ = own_;
  for (int a = 0; a < places_->kinds(); ++a) {
    for (int b = 0; b < places_->kinds(); ++b) {
      for (int shared = 0; shared < shared_count; ++shared) {
        const auto units = static_cast<SharedUnits>(shared);
        result.set_class(b, a, units, class_cost(a, b, units));
      }
    }
  }
  for (int level = 0; level <= pu_level; ++level) {
    auto turned = residuals(level);
    for (Residual& one : turned) std::swap(one.from, one.to);
    result.set_residuals(level, std::move(turned));
  }
  return result;
}

CostsByClass CostsByClass::raised_by(double ns) const {
  CostsByClass result = *this;
  for (double& cost : result.classes_) cost += ns;
  for (int level = 0; level <= pu_level; ++level) {
    for (Residual& one : result.residuals_[static_cast<std::size_t>(level)]) {
      if (level != pu_level || one.from != one.to) one.cost += ns;
    }
  }
  return result;
}

bool CostsByClass::operator==(const CostsByClass& other) const {
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  return (places_ == other.places_ || *places_ == *other.places_) && own_ == other.own_ &&
         residuals_ == other.residuals_ && std::ranges::equal(classes_, other.classes_, same);
}

// ---- from all cells -------------------------------------------------------------------------

namespace {

/// Finds the classes and the residuals of a matrix that holds all cells.
class ClassFinder {
 public:
  ClassFinder(const Matrix& matrix, std::shared_ptr<const Places> places, double noise)
      : matrix_(matrix), noise_(noise), costs_(std::move(places)), places_(costs_.places()) {}

  std::shared_ptr<const CostsByClass> run() {
    set_classes();
    set_own();
    for (int level = 0; level < unit_levels; ++level) {
      if (!add_residuals(level)) return nullptr;
    }
    if (!add_pairs()) return nullptr;
    return std::make_shared<const CostsByClass>(std::move(costs_));
  }

 private:
  std::size_t room() const { return places_.size() * places_.size() / pairs_per_residual; }

  void set_classes() {
    std::map<std::array<int, 3>, std::vector<double>> values;
    std::vector<SharedUnits> shared(places_.size());
    for (std::size_t a = 0; a < places_.size(); ++a) {
      places_.shared_row(a, shared.data());
      std::vector<double>* last = nullptr;
      std::array<int, 3> last_key{-1, -1, -1};
      for (std::size_t b = 0; b < places_.size(); ++b) {
        if (a == b) continue;
        const std::array<int, 3> key{places_.kind(a), places_.kind(b), shared[b]};
        if (key != last_key) last = &values[key], last_key = key;
        last->push_back(matrix_(a, b));
      }
    }
    for (auto& [key, all] : values) {
      costs_.set_class(key[0], key[1], static_cast<SharedUnits>(key[2]), median_of(all));
    }
  }

  void set_own() {
    std::vector<double> own;
    for (std::size_t pu = 0; pu < places_.size(); ++pu) own.push_back(matrix_(pu, pu));
    costs_.set_own(median_of(own));
  }

  /// The pairs of each two units of a level, where their median differs from what is known so far.
  bool add_residuals(int level) {
    std::vector<std::vector<std::size_t>> members(places_.units(level));
    for (std::size_t pu = 0; pu < places_.size(); ++pu) {
      members[static_cast<std::size_t>(places_.unit(level, pu))].push_back(pu);
    }
    if (members.size() == places_.size()) return true;  // the PUs themselves come last
    std::vector<Residual> residuals;
    std::vector<double> values;
    for (std::size_t from = 0; from < members.size(); ++from) {
      for (std::size_t to = 0; to < members.size(); ++to) {
        values.clear();
        double known = 0.0;
        for (const auto a : members[from]) {
          for (const auto b : members[to]) {
            if (a == b || finest(places_.shared(a, b)) > level) continue;
            if (values.empty()) known = costs_(a, b);
            values.push_back(matrix_(a, b));
          }
        }
        if (values.empty()) continue;
        const double median = median_of(values);
        if (differ(median, known, noise_)) residuals.push_back({static_cast<int>(from), static_cast<int>(to), median});
      }
    }
    if (residuals.size() > room()) return false;
    costs_.set_residuals(level, std::move(residuals));
    return true;
  }

  bool add_pairs() {
    std::vector<Residual> residuals;
    std::vector<double> known(places_.size());
    for (std::size_t from = 0; from < places_.size(); ++from) {
      costs_.copy_row(from, known.data());
      for (std::size_t to = 0; to < places_.size(); ++to) {
        if (!differ(matrix_(from, to), known[to], noise_)) continue;
        if (residuals.size() >= room()) return false;
        residuals.push_back({static_cast<int>(from), static_cast<int>(to), matrix_(from, to)});
      }
    }
    costs_.set_residuals(pu_level, std::move(residuals));
    return true;
  }

  const Matrix& matrix_;
  double noise_;
  CostsByClass costs_;
  const Places& places_;
};

/// Whether one PU pays so few different costs that classes may describe all exactly. Spares measured matrices the
/// search.
bool looks_regular(const Matrix& matrix) {
  std::vector<double> row(matrix.size());
  matrix.copy_row(0, row.data());
  std::sort(row.begin(), row.end());
  const auto different = static_cast<std::size_t>(std::unique(row.begin(), row.end()) - row.begin());
  return different <= std::max(std::size_t{64}, matrix.size() / pairs_per_residual);
}

}  // namespace

std::shared_ptr<const CostsByClass> CostsByClass::of(const Matrix& matrix, std::shared_ptr<const Places> places,
                                                     double noise) {
  if (noise == 0.0 && !looks_regular(matrix)) return nullptr;
  return ClassFinder(matrix, std::move(places), noise).run();
}

Machine with_costs_by_class(Machine machine, double noise) {
  const auto places = std::make_shared<const Places>(machine.pus);
  const auto condense = [&](Matrix& matrix) {
    if (matrix.empty() || matrix.size() != machine.size() || matrix.classes() != nullptr) return;
    if (auto classes = CostsByClass::of(matrix, places, noise)) matrix = Matrix(std::move(classes));
  };
  for (auto* matrix : {&machine.send_ns, &machine.recv_ns}) condense(*matrix);
  for (auto* matrix : {&machine.rtt_ns, &machine.propagation_ns, &machine.exchange_ns, &machine.send_gap_ns,
                       &machine.recv_gap_ns, &machine.send_spread, &machine.recv_spread}) {
    if (*matrix) condense(**matrix);
  }
  if (!machine.copy) return machine;
  auto& copy = *machine.copy;
  for (auto* matrix : {&copy.startup_ns, &copy.chunk_ns_per_kib, &copy.cached_ns_per_kib, &copy.shared_ns_per_kib,
                       &copy.memory_ns_per_kib}) {
    condense(*matrix);
  }
  return machine;
}

// ---- the matrix -----------------------------------------------------------------------------

Matrix::Matrix(std::shared_ptr<const CostsByClass> classes) : size_(classes->size()), classes_(std::move(classes)) {}

double Matrix::class_cost(std::size_t row, std::size_t column) const { return (*classes_)(row, column); }

void Matrix::copy_row(std::size_t row, double* cells) const {
  if (classes_) return classes_->copy_row(row, cells);
  std::copy_n(cells_.data() + row * size_, size_, cells);
}

void Matrix::hold_all_cells() {
  std::vector<double> cells(size_ * size_);
  for (std::size_t row = 0; row < size_; ++row) classes_->copy_row(row, cells.data() + row * size_);
  cells_ = std::move(cells);
  classes_.reset();
}

Matrix Matrix::transposed() const {
  if (classes_) return Matrix(std::make_shared<const CostsByClass>(classes_->transposed()));
  Matrix result(size_);
  for (std::size_t row = 0; row < size_; ++row) {
    for (std::size_t column = 0; column < size_; ++column) result(row, column) = (*this)(column, row);
  }
  return result;
}

Matrix Matrix::raised_by(double ns) const {
  if (classes_) return Matrix(std::make_shared<const CostsByClass>(classes_->raised_by(ns)));
  Matrix result = *this;
  for (std::size_t row = 0; row < size_; ++row) {
    for (std::size_t column = 0; column < size_; ++column) {
      if (row != column) result(row, column) += ns;
    }
  }
  return result;
}

bool Matrix::operator==(const Matrix& other) const {
  if (size_ != other.size_) return false;
  if (!classes_ && !other.classes_) return cells_ == other.cells_;
  if (classes_ && other.classes_ && *classes_ == *other.classes_) return true;
  std::vector<double> one(size_), another(size_);
  for (std::size_t row = 0; row < size_; ++row) {
    copy_row(row, one.data());
    other.copy_row(row, another.data());
    if (one != another) return false;
  }
  return true;
}

}  // namespace smelt
