// Sources of the model's costs: a table of the text, or a measured machine.
#include <cmath>
#include <set>

#include "plan/trees/costs.hpp"
#include "smelt/map_model.hpp"

namespace smelt {
namespace {

constexpr double line_bytes = 64.0;
constexpr double mebibyte = 1024.0 * 1024.0;
constexpr double large_table_bytes = 64.0 * mebibyte;
/// docs/reference/model.md, "Copies": a core that copies waits for that many lines at once. One that looks up a key
/// waits for one.
constexpr double lines_in_flight = 12.0;
constexpr double private_cache_bytes = mebibyte;  ///< if copies were not measured
constexpr double hash_cycles = 12.0;              ///< [Shahmirzadi14] 3.5.3: shifts and additions
constexpr double select_cycles = 4.0;             ///< a multiplication and a shift, for any number of servers
constexpr double assumed_ghz = 3.0;               ///< if the machine does not say

struct Mean {
  double sum = 0.0;
  int count = 0;
  void add(double value) { sum += value, ++count; }
  double value() const { return count == 0 ? 0.0 : sum / count; }
};

/// Costs of messages in one direction between two ranks.
struct LinkCosts {
  Mean send, receive, latency, line;
};

void add_pair(const plan::RankCosts& costs, int from, int to, LinkCosts& way) {
  const Machine& machine = costs.machine();
  const auto writer = static_cast<std::size_t>(costs.group().pus[static_cast<std::size_t>(from)]);
  const auto reader = static_cast<std::size_t>(costs.group().pus[static_cast<std::size_t>(to)]);
  const double busy = costs.send(from, to) + costs.recv(from, to);
  way.send.add(costs.send(from, to));
  way.receive.add(costs.recv(from, to));
  // Between two messages of a map, both sides do other work, and the receiver has polled the line meanwhile. So a
  // message takes as long as a lone one, and not only half of a round trip whose answers follow at once.
  const double trip = machine.rtt_ns ? (*machine.rtt_ns)(writer, reader) / 2.0 - busy : 0.0;
  const double latency = std::max({costs.propagation(from, to), trip, 0.0});
  way.latency.add(latency);
  // Not less than a message, as a copy waits for several lines at once.
  way.line.add(std::max(copy_ns(machine, writer, reader, line_bytes), busy + latency));
}

}  // namespace

MapPlatform tile_gx() {
  MapPlatform platform;
  platform.name = "tile-gx";
  platform.cycle_ns = 1.0 / 1.2;
  platform.send = 8.0;
  platform.send_word = 1.0;
  platform.receive_word = 2.0;
  platform.interrupt = 138.0;
  platform.latency = 16.0;
  platform.hash = hash_cycles;
  platform.select_power_of_two = 17.0;
  platform.select_other = 90.0;
  platform.cached_access = 11.0;
  platform.memory_access = 88.0;
  platform.cache_bytes = 256.0 * 1024.0;
  return platform;
}

MapPlatform intermediate_platform() {
  MapPlatform platform = tile_gx();
  platform.name = "intermediate";
  platform.interrupt = 4.0;
  return platform;
}

MapPlatform ideal_platform() {
  MapPlatform platform = intermediate_platform();
  platform.name = "ideal";
  platform.broadcast = MapBroadcast::hardware;
  return platform;
}

Result<MapPlatform> platform_of(const Machine& machine, const Group& group) {
  if (!machine.has_costs()) {
    return Error{Status::invalid_argument, "the machine has no measured costs; run `smelt measure` on it"};
  }
  for (const int pu : group.pus) {
    if (pu >= 0 && static_cast<std::size_t>(pu) < machine.size()) continue;
    return Error{Status::invalid_argument, "group: PU " + std::to_string(pu) + " is not in the machine"};
  }
  const plan::RankCosts costs(machine, group);
  LinkCosts way;
  Mean own, far;
  std::set<int> numa_nodes;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto pu = static_cast<std::size_t>(group.pus[static_cast<std::size_t>(rank)]);
    numa_nodes.insert(machine.pus[pu].numa_node);
    own.add(copy_ns(machine, pu, pu, line_bytes));
    far.add(copy_ns(machine, pu, pu, large_table_bytes) / (large_table_bytes / line_bytes) * lines_in_flight);
    for (int other = 0; other < group.size(); ++other) {
      if (group.pus[static_cast<std::size_t>(other)] != group.pus[static_cast<std::size_t>(rank)]) {
        add_pair(costs, rank, other, way);
      }
    }
  }
  if (way.send.count == 0) {
    return Error{Status::invalid_argument, "maps take two ranks on different PUs"};
  }
  MapPlatform platform;
  platform.name = machine.name;
  platform.send = way.send.value();
  platform.receive = way.receive.value();
  platform.latency = way.latency.value();
  platform.line = way.line.value();
  platform.broadcast = MapBroadcast::tree;
  platform.replicas = static_cast<int>(numa_nodes.size());
  const double cycle_ns = 1.0 / (machine.tsc_ghz > 0.0 ? machine.tsc_ghz : assumed_ghz);
  platform.hash = hash_cycles * cycle_ns;
  platform.select_power_of_two = platform.select_other = select_cycles * cycle_ns;
  platform.cached_access = own.value();
  platform.memory_access = std::max(own.value(), far.value());
  platform.software_cycle = cycle_ns;
  // Lookups of different keys overlap, so they take no longer in a shared cache than in a private one.
  platform.cache_bytes = machine.copy ? machine.copy->shared_bytes : private_cache_bytes;
  return platform;
}

}  // namespace smelt
