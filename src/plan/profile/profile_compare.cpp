// Two profiles of one machine, size by size.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "smelt/profile.hpp"

namespace smelt {
namespace {

using Kind = ProfileAgreement::Kind;

/// Knows which recipes come to the same, for groups as the machine makes them by itself.
class RecipeEquivalence {
 public:
  explicit RecipeEquivalence(const Machine* machine) : machine_(machine) {}

  bool same(const ProfileCell& cell, const Recipe& a, const Recipe& b, std::size_t bytes) {
    if (a == b) return true;
    const Group* const group = group_for(cell.shape);
    if (group == nullptr) return false;
    const auto request = make_request(*machine_, *group, a), other = make_request(*machine_, *group, b);
    return request && other && same_schedule(*request, *other, bytes, {.processes = cell.shape.processes});
  }

 private:
  /// nullptr: of another shape than that of the profile.
  const Group* group_for(const GroupShape& shape) {
    if (machine_ == nullptr) return nullptr;
    auto found = groups_.find(shape.ranks);
    if (found == groups_.end()) {
      Allowance whole;
      for (const auto& pu : machine_->pus) whole.pus.push_back(pu.os_index);
      auto group = default_group(*machine_, whole, shape.ranks);
      found = groups_.emplace(shape.ranks, group ? std::optional(*group) : std::nullopt).first;
    }
    const auto& group = found->second;
    return group && shape_of(*machine_, *group, shape.processes) == shape ? &*group : nullptr;
  }

  const Machine* machine_;
  std::map<int, std::optional<Group>> groups_;
};

bool lists(RecipeEquivalence& equivalence, const ProfileCell& cell, const Recipe& recipe, std::size_t bytes) {
  return std::any_of(cell.equals.begin(), cell.equals.end(), [&](const std::string& text) {
    const auto equal = parse_recipe(text);
    return equal && equivalence.same(cell, *equal, recipe, bytes);
  });
}

Kind relate(RecipeEquivalence& equivalence, const ProfileCell& a, const ProfileCell& b, std::size_t bytes) {
  if (a.recipe == b.recipe) return Kind::same;
  if (equivalence.same(a, a.recipe, b.recipe, bytes)) return Kind::same_schedule;
  if (lists(equivalence, a, b.recipe, bytes) || lists(equivalence, b, a.recipe, bytes)) return Kind::equal;
  return Kind::different;
}

}  // namespace

std::vector<ProfileAgreement> compare_profiles(const Profile& first, const Profile& second, const Machine* machine) {
  RecipeEquivalence equivalence(machine);
  std::vector<ProfileAgreement> result;
  for (auto at = first.cells.begin(); at != first.cells.end();) {
    const auto& table = *at;
    const auto same_table = [&](const ProfileCell& cell) {
      return cell.operation == table.operation && cell.sync == table.sync && cell.shape == table.shape;
    };
    const auto end = std::find_if_not(at, first.cells.end(), same_table);
    std::size_t largest = std::prev(end)->from_bytes;
    for (const auto& cell : second.cells) {
      if (same_table(cell)) largest = std::max(largest, cell.from_bytes);
    }
    std::set<std::size_t> sizes = {largest};
    for (std::size_t bytes = 8; 3 * bytes <= largest; bytes *= 4) sizes.insert(bytes);
    for (const auto bytes : sizes) {
      const auto* mine = first.find(table.operation, table.sync, table.shape, bytes);
      const auto* theirs = second.find(table.operation, table.sync, table.shape, bytes);
      if (theirs != nullptr) result.push_back({relate(equivalence, *mine, *theirs, bytes), bytes, *mine, *theirs});
    }
    at = end;
  }
  return result;
}

}  // namespace smelt
