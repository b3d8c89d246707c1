#include "plan/algorithms/registry.hpp"

#include <algorithm>

namespace smelt::plan {
namespace {

const Algorithm* const all_algorithms[] = {
#define ALGORITHM(name) &name,
#include "plan/algorithms/registry.def"
#undef ALGORITHM
};

}  // namespace

const Algorithm* find_algorithm(std::string_view name) {
  const auto found = std::find_if(std::begin(all_algorithms), std::end(all_algorithms),
                                  [&](const Algorithm* each) { return each->info.name == name; });
  return found == std::end(all_algorithms) ? nullptr : *found;
}

int Builder::parent() const { return request.parents[static_cast<std::size_t>(rank)]; }

std::vector<int> Builder::everyone_else() const {
  std::vector<int> others;
  for (int distance = 1; distance < ranks; ++distance) others.push_back(neighbour(distance));
  return others;
}

int largest_power_of_two(int n) {
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

}  // namespace smelt::plan

namespace smelt {

const std::vector<AlgorithmInfo>& algorithms() {
  static const std::vector<AlgorithmInfo> infos = [] {
    std::vector<AlgorithmInfo> list;
    for (const auto* algorithm : plan::all_algorithms) list.push_back(algorithm->info);
    return list;
  }();
  return infos;
}

}  // namespace smelt
