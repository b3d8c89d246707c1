#include "memory/choice/costs.hpp"

#include <algorithm>
#include <numeric>
#include <set>

namespace smelt {
namespace {

// Values for machines whose memory has not been measured, as of a typical server. They determine only the order of
// placements.
constexpr double local_ns = 95, package_ns = 120, remote_ns = 150, in_flight = 10;
constexpr double thread_gbs = 12, node_gbs = 60, link_share = 0.4;
constexpr double kib4 = 4096, mib2 = 2 << 20, gib1 = 1 << 30;

/// The package of a node's PUs. Nodes without PUs count as a separate package.
std::vector<int> packages_of(const Machine& machine, std::size_t nodes) {
  std::vector<int> packages(nodes, -1);
  for (const auto& pu : machine.pus) {
    const auto node = static_cast<std::size_t>(pu.numa_node);
    if (node < nodes) packages[node] = pu.package;
  }
  return packages;
}

MemoryCosts estimated_costs(const Machine& machine) {
  const std::size_t nodes = memory::node_count(machine);
  const auto packages = packages_of(machine, nodes);
  MemoryCosts costs;
  for (auto* matrix : {&costs.latency_ns, &costs.gather_ns, &costs.read_gbs, &costs.write_gbs, &costs.read_all_gbs,
                       &costs.write_all_gbs}) {
    *matrix = Matrix(nodes);
  }
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t m = 0; m < nodes; ++m) {
      const bool near = packages[a] >= 0 && packages[a] == packages[m];
      const double latency_ns = a == m ? local_ns : near ? package_ns : remote_ns;
      costs.latency_ns(a, m) = latency_ns;
      costs.gather_ns(a, m) = latency_ns / in_flight;
      costs.read_gbs(a, m) = costs.write_gbs(a, m) = thread_gbs * local_ns / latency_ns;
      costs.read_all_gbs(a, m) = costs.write_all_gbs(a, m) = a == m ? node_gbs : node_gbs * link_share;
    }
  }
  costs.interleaved_gbs = node_gbs * link_share * static_cast<double>(nodes);
  costs.page_bytes = {kib4, mib2, gib1};
  costs.walk_ns = {30, 8, 2};
  costs.gather_walk_ns = {6, 1.5, 0.4};
  costs.reach_bytes = {1536 * kib4, 1536 * mib2, 16 * gib1};
  costs.touch_ns_per_mib = {150e3, 60e3, 50e3};
  costs.copy_memcpy_gbs = costs.copy_nontemporal_gbs = costs.copy_string_gbs = thread_gbs / 2;
  costs.copy_threads_gbs = node_gbs / 3;
  return costs;
}

/// Imported costs contain nothing about pages.
void take_pages(MemoryCosts& costs, const MemoryCosts& estimated) {
  for (const auto list : {&MemoryCosts::page_bytes, &MemoryCosts::walk_ns, &MemoryCosts::gather_walk_ns,
                          &MemoryCosts::reach_bytes, &MemoryCosts::touch_ns_per_mib}) {
    costs.*list = estimated.*list;
  }
}

/// Bandwidth of one thread if only the latency is known (imported costs): lines in flight by Little's law.
void derive_from_latencies(MemoryCosts& costs, const MemoryCosts& estimated) {
  const std::size_t nodes = costs.latency_ns.size();
  for (std::size_t a = 0; a < nodes; ++a) {
    for (std::size_t m = 0; m < nodes; ++m) {
      const double known = costs.latency_ns(a, m);
      if (known <= 0.0) continue;
      const double share = estimated.latency_ns(a, m) / known;
      if (costs.gather_ns(a, m) <= 0.0) costs.gather_ns(a, m) = estimated.gather_ns(a, m) / share;
      if (costs.read_gbs(a, m) <= 0.0) costs.read_gbs(a, m) = estimated.read_gbs(a, m) * share;
      if (costs.write_gbs(a, m) <= 0.0) costs.write_gbs(a, m) = estimated.write_gbs(a, m) * share;
    }
  }
}

}  // namespace

MemoryCosts memory_costs(const Machine& machine) {
  auto estimated = estimated_costs(machine);
  if (!machine.memory || machine.memory->read_gbs.size() != memory::node_count(machine)) return estimated;
  auto costs = *machine.memory;
  if (costs.touch_ns_per_mib.empty() || costs.touch_ns_per_mib.front() <= 0.0) take_pages(costs, estimated);
  derive_from_latencies(costs, estimated);
  // Fills in pairs that could not be measured.
  for (const auto matrix : {&MemoryCosts::latency_ns, &MemoryCosts::gather_ns, &MemoryCosts::read_gbs,
                            &MemoryCosts::write_gbs, &MemoryCosts::read_all_gbs, &MemoryCosts::write_all_gbs}) {
    for (std::size_t a = 0; a < costs.read_gbs.size(); ++a) {
      for (std::size_t m = 0; m < costs.read_gbs.size(); ++m) {
        if ((costs.*matrix)(a, m) <= 0.0) (costs.*matrix)(a, m) = (estimated.*matrix)(a, m);
      }
    }
  }
  return costs;
}

namespace memory {

std::size_t node_count(const Machine& machine) {
  std::size_t nodes = std::max<std::size_t>(machine.numa_nodes.size(), 1);
  for (const auto& pu : machine.pus) nodes = std::max(nodes, static_cast<std::size_t>(pu.numa_node) + 1);
  return nodes;
}

std::vector<std::size_t> homes_of(const Machine& machine) {
  std::set<std::size_t> with_pus;
  for (const auto& pu : machine.pus) with_pus.insert(static_cast<std::size_t>(pu.numa_node));
  std::vector<std::size_t> homes;
  for (const std::size_t node : with_pus) {
    if (machine.numa_nodes.empty() || machine.numa_nodes[node].memory_bytes > 0) homes.push_back(node);
  }
  if (homes.empty()) {
    homes.resize(node_count(machine));
    std::iota(homes.begin(), homes.end(), std::size_t{0});
  }
  return homes;
}

std::vector<int> threads_per_node(const Machine& machine, int threads) {
  std::vector<std::set<int>> cores(node_count(machine));
  for (const auto& pu : machine.pus) cores[static_cast<std::size_t>(pu.numa_node)].insert(pu.core);
  int all_cores = 0;
  for (const auto& each : cores) all_cores += static_cast<int>(each.size());
  if (threads <= 0) threads = all_cores;
  std::vector<int> used(cores.size(), 0);
  for (int left = threads;
       left > 0 && all_cores > 0;) {  // with more threads than cores, the dealing starts again at the first node
    for (std::size_t node = 0; node < cores.size(); ++node) {
      const int here = std::min(left, static_cast<int>(cores[node].size()));
      used[node] += here;
      left -= here;
    }
  }
  return used;
}

double walk_ns(const MemoryCosts& costs, std::uint64_t page_bytes, std::uint64_t size_bytes) {
  for (std::size_t k = costs.page_bytes.size(); k-- > 0;) {
    if (costs.page_bytes[k] > static_cast<double>(page_bytes) && k > 0) continue;
    const double size = static_cast<double>(std::max<std::uint64_t>(size_bytes, 1));
    return costs.gather_walk_ns[k] * std::max(0.0, 1.0 - costs.reach_bytes[k] / size);
  }
  return 0.0;
}

Platform platform_of(const Machine& machine, int threads) {
  Platform platform{
      .costs = memory_costs(machine), .homes = homes_of(machine), .threads = threads_per_node(machine, threads)};
  platform.nodes = node_count(machine);
  platform.all_threads = std::max(1, std::accumulate(platform.threads.begin(), platform.threads.end(), 0));
  for (const std::size_t a : platform.homes) {
    for (const std::size_t m : platform.homes) {
      const double gbs = platform.costs.read_all_gbs(a, m);
      if (a != m && (platform.link_gbs == 0.0 || gbs < platform.link_gbs)) platform.link_gbs = gbs;
    }
  }
  return platform;
}

}  // namespace memory
}  // namespace smelt
