// Groups: which PUs take part, and in which order of ranks.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "smelt/plan.hpp"

namespace smelt {

Result<Group> make_group(const Machine& machine, std::span<const int> os_indices) {
  if (os_indices.empty()) return make_error(Status::invalid_argument, "group is empty: name at least one PU");
  Group group;
  group.pus.reserve(os_indices.size());
  for (const int os_index : os_indices) {
    const int index = machine.index_of(os_index);
    if (index < 0) {
      return make_error(Status::not_found, "machine '{}' has no PU with os_index {}", machine.name, os_index);
    }
    group.pus.push_back(index);
  }
  return group;
}

Group whole_machine(const Machine& machine) {
  Group group;
  group.pus.resize(machine.size());
  std::iota(group.pus.begin(), group.pus.end(), 0);
  return group;
}

Result<Group> default_group(const Machine& machine, const Allowance& allowance, int ranks) {
  if (ranks < 0) return make_error(Status::invalid_argument, "number of ranks is {}: must be 0 or more", ranks);
  std::vector<std::tuple<int, int, int>> order;  // how many of its core came before, minus its class, index
  std::map<int, int> of_core;
  for (int index = 0; index < static_cast<int>(machine.size()); ++index) {
    const Pu& pu = machine.pus[index];
    if (!std::binary_search(allowance.pus.begin(), allowance.pus.end(), pu.os_index)) continue;
    order.emplace_back(of_core[pu.core]++, -pu.efficiency_class, index);
  }
  if (order.empty()) {
    return make_error(Status::invalid_argument, "none of the {} PUs of machine '{}' may be used by this process",
                      machine.size(), machine.name);
  }
  std::sort(order.begin(), order.end());
  if (ranks == 0) ranks = std::min(static_cast<int>(of_core.size()), allowance.parallelism());
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(std::get<2>(order[rank % order.size()]));
  return group;
}

}  // namespace smelt
