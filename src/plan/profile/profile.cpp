#include "smelt/profile.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace smelt {
namespace {

auto key_of(const ProfileCell& cell) {
  const auto& s = cell.shape;
  return std::tuple(cell.operation, cell.sync, s.ranks, s.packages, s.l3_caches, s.ranks_per_pu, s.processes);
}

}  // namespace

const char* to_string(Sync sync) noexcept { return sync == Sync::loose ? "loose" : "strict"; }

GroupShape shape_of(const Machine& machine, const Group& group, bool processes) {
  std::set<int> packages, l3_caches;
  std::map<int, int> on_pu;
  for (int index : group.pus) {
    const Pu& pu = machine.pus[static_cast<std::size_t>(index)];
    packages.insert(pu.package);
    l3_caches.insert(pu.l3);
    ++on_pu[index];
  }
  int most = 1;
  for (const auto& [pu, ranks] : on_pu) most = std::max(most, ranks);
  return {group.size(), static_cast<int>(packages.size()), static_cast<int>(l3_caches.size()), most, processes};
}

const std::vector<std::size_t>& model_sizes() {
  static const auto sizes = [] {
    std::vector<std::size_t> powers;
    for (std::size_t bytes = 8; bytes <= std::size_t{128} << 20; bytes *= 2) powers.push_back(bytes);
    return powers;
  }();
  return sizes;
}

std::size_t model_size(std::size_t bytes) noexcept {
  std::size_t last = 0;
  for (const auto size : model_sizes()) {
    const double half_way = std::sqrt(static_cast<double>(last) * static_cast<double>(size));
    if (last != 0 && bytes < static_cast<std::size_t>(half_way)) return last;
    last = size;
  }
  return last;
}

const ProfileCell* Profile::find(Operation operation, Sync sync, const GroupShape& shape,
                                 std::size_t bytes) const noexcept {
  const ProfileCell* found = nullptr;
  for (const auto& cell : cells) {
    if (cell.operation != operation || cell.sync != sync || cell.shape != shape) continue;
    // Below the smallest tuned size, that size's recipe is the best guess.
    if (found == nullptr || cell.from_bytes <= bytes) found = &cell;
  }
  return found;
}

void Profile::merge(const Profile& newer) {
  std::set<decltype(key_of(cells.front()))> replaced;
  for (const auto& cell : newer.cells) replaced.insert(key_of(cell));
  std::erase_if(cells, [&](const auto& cell) { return replaced.contains(key_of(cell)); });
  cells.insert(cells.end(), newer.cells.begin(), newer.cells.end());
  std::stable_sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) {
    return std::tuple(key_of(a), a.from_bytes) < std::tuple(key_of(b), b.from_bytes);
  });
  if (!newer.fingerprint.empty()) fingerprint = newer.fingerprint;
  measured_at = newer.measured_at;
}

FloorCheck check_floor(const Profile& profile, const Floor& now) {
  FloorCheck check;
  std::set<decltype(key_of(profile.cells.front()))> tables, moved;
  for (const auto& cell : profile.cells) {
    if (!cell.floor.known()) continue;
    const bool elsewhere = floor_moved(cell.floor, now);
    if (tables.empty() || (elsewhere && moved.empty())) check.then = cell.floor;
    tables.insert(key_of(cell));
    if (elsewhere) moved.insert(key_of(cell));
  }
  check.tables = static_cast<int>(tables.size());
  check.moved = static_cast<int>(moved.size());
  return check;
}

}  // namespace smelt
