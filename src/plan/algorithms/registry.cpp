#include "plan/algorithms/registry.hpp"

#include <algorithm>

namespace smelt::plan {
namespace {

const Algorithm* const all_algorithms[] = {
    &barrier_dissemination,
    &broadcast_tree,
    &broadcast_scatter_allgather,
    &broadcast_pipeline,
    &broadcast_split,
    &reduce_tree,
    &reduce_flat,
    &reduce_halves,
    &reduce_slices,
    &reduce_scatter_gather,
    &allreduce_recursive_doubling,
    &allreduce_tree,
    &allreduce_reduce_scatter_allgather,
    &allreduce_ring,
    &allreduce_flat,
    &allreduce_slices,
    &allreduce_hybrid,
    &scatter_flat,
    &scatter_shared,
    &scatter_linear,
    &scatter_binomial,
    &gather_flat,
    &gather_put,
    &gather_shared,
    &gather_linear,
    &gather_binomial,
    &allgather_flat,
    &allgather_put,
    &allgather_ring,
    &allgather_recursive_doubling,
    &allgather_bruck,
    &alltoall_flat,
    &alltoall_put,
    &alltoall_pairwise,
    &alltoall_bruck,
    &reduce_scatter_flat,
    &reduce_scatter_pairwise,
    &reduce_scatter_recursive_halving,
    &scan_flat,
    &scan_chain,
    &scan_recursive_doubling,
    &scan_slices,
    &exscan_flat,
    &exscan_chain,
    &exscan_recursive_doubling,
    &exscan_slices,
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
