// The cost function. For a thread t on node a and an array x: w(a, m) = share of a's accesses that the memory of m
// serves.
//
//   thread(t) = sum over x, m:  w * (sequential / read_gbs(a, m) + random * (gather_ns(a, m) + walk(page, size)))
//   T         = max(slowest thread, over m: served bytes / controller(m), over a: bytes into a and out of a / link)
//               + written * (replicas - 1) / link + size / link / phases
//
// A random access moves 64 bytes. Interleaved over n nodes: ceil(pages / n) pages on the fullest node. Partitioned:
// each part has its own pages, except for those shared by two parts. Replicas are created once, by all nodes at the
// same time. Writes go to all replicas.
#include <algorithm>
#include <cmath>

#include "memory/choice/costs.hpp"

namespace smelt {
namespace memory {
namespace {

constexpr double access_bytes = 64.0;

/// w(a, m) for all m, by index of node.
void set_shares(const Platform& platform, const ArrayUse& use, const PlacementCandidate& placed, std::size_t a,
                std::size_t home, std::vector<double>& shares) {
  const auto& homes = platform.homes;
  std::fill(shares.begin(), shares.end(), 0.0);
  const bool at_home = std::find(homes.begin(), homes.end(), a) != homes.end();
  const std::size_t nearest = at_home ? a : homes.front();
  if (placed.placement == Placement::replicated || placed.placement == Placement::writable_replicas) {
    shares[nearest] = 1.0;
    return;
  }
  if (placed.placement == Placement::single_node) {
    shares[home] = 1.0;
    return;
  }
  const double n = static_cast<double>(homes.size());
  const double pages =
      std::max(1.0, std::ceil(static_cast<double>(use.size_bytes) / static_cast<double>(placed.page_bytes)));
  const bool own_parts = (placed.placement == Placement::partitioned || placed.placement == Placement::first_touch) &&
                         use.loop_index && pages >= n;
  if (own_parts) {
    const double edge = std::min(1.0, n / pages);  // pages that two parts share
    for (const std::size_t m : homes) shares[m] = edge / n;
    shares[nearest] += 1.0 - edge;
    return;
  }
  for (std::size_t k = 0; k < homes.size(); ++k) {  // round robin
    shares[homes[k]] = std::ceil(std::max(0.0, pages - static_cast<double>(k)) / n) / pages;
  }
}

struct Load {
  std::vector<double> thread_ns, served, into, out;
  double copies_ns = 0.0;

  explicit Load(std::size_t nodes) : thread_ns(nodes), served(nodes), into(nodes), out(nodes) {}
};

void add_accesses(const Platform& platform, const ArrayUse& use, const PlacementCandidate& placed, std::size_t home,
                  Load& load) {
  std::vector<double> shares(platform.nodes);
  const double walk = walk_ns(platform.costs, placed.page_bytes, use.size_bytes);
  for (std::size_t a = 0; a < platform.nodes; ++a) {
    if (platform.threads[a] == 0) continue;
    set_shares(platform, use, placed, a, home, shares);
    const double part = platform.threads[a] / static_cast<double>(platform.all_threads);
    for (std::size_t m = 0; m < platform.nodes; ++m) {
      const double sequential = use.sequential_bytes * part * shares[m],
                   random = use.random_accesses * part * shares[m];
      load.thread_ns[a] +=
          (sequential / platform.costs.read_gbs(a, m) + random * (platform.costs.gather_ns(a, m) + walk)) /
          platform.threads[a];
      const double traffic = sequential + random * access_bytes;
      load.served[m] += traffic;
      if (a == m) continue;
      load.into[a] += traffic;
      load.out[m] += traffic;
    }
  }
}

double replica_ns(const Platform& platform, const ArrayUse& use, const PlacementCandidate& placed) {
  const bool replicas = placed.placement == Placement::replicated || placed.placement == Placement::writable_replicas;
  if (!replicas || platform.link_gbs <= 0.0) return 0.0;  // no link: one node
  const double others = static_cast<double>(platform.homes.size() - 1);
  const double making_bytes = static_cast<double>(use.size_bytes) / std::max(1.0, use.phases);
  return (use.written_bytes * others + making_bytes) / platform.link_gbs;
}

}  // namespace

double phase_on(const Platform& platform, std::span<const ArrayUse> arrays, std::span<const PlacementCandidate> placed,
                std::size_t home) {
  Load load(platform.nodes);
  for (std::size_t x = 0; x < arrays.size(); ++x) {
    add_accesses(platform, arrays[x], placed[x], home, load);
    load.copies_ns += replica_ns(platform, arrays[x], placed[x]);
  }
  double slowest_ns = *std::max_element(load.thread_ns.begin(), load.thread_ns.end());
  for (std::size_t m = 0; m < platform.nodes; ++m) {
    slowest_ns = std::max(slowest_ns, load.served[m] / platform.costs.read_all_gbs(m, m));
    if (platform.link_gbs > 0.0)
      slowest_ns = std::max(slowest_ns, std::max(load.into[m], load.out[m]) / platform.link_gbs);
  }
  return slowest_ns + load.copies_ns;
}

}  // namespace memory

double phase_ns(const Machine& machine, std::span<const ArrayUse> arrays, std::span<const PlacementCandidate> placed,
                int threads, int home) {
  return memory::phase_on(memory::platform_of(machine, threads), arrays, placed, static_cast<std::size_t>(home));
}

}  // namespace smelt
