// Throughput model of concurrent maps: how many operations per second each algorithm serves on a machine whose
// messages have known costs. Pure functions.
//
//   const auto best = smelt::best_map(smelt::platform_of(*machine, *group), {.lookups = 0.99, .keys = 1e6}, 16);
//   std::puts(best->algorithm.c_str());
//
// The equations, with what they assume: docs/reference/map-model.md. Source: [Shahmirzadi14] ch. 3, (3.1) to (3.60).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/map_algorithms.hpp"
#include "smelt/plan.hpp"

namespace smelt {

/// How one core sends a message to all others.
enum class MapBroadcast {
  sends,     ///< one after the other
  tree,      ///< receivers forward it, in the fastest tree for equal costs
  hardware,  ///< one send reaches all
};

/// Costs of messages and memory for the cores of a machine, equal for all pairs. Times are in cycles of `cycle_ns`; a
/// word has 8 bytes.
struct MapPlatform {
  std::string name;
  double cycle_ns = 1.0;

  double send = 0.0;  ///< o_send = send + words * send_word: the sender is busy
  double send_word = 0.0;
  double receive = 0.0;  ///< o_rcv: the receiver is busy once the message is there
  double receive_word = 0.0;
  double interrupt = 0.0;  ///< o_arcv - o_rcv: additional cost if the receiver was not waiting
  double latency = 0.0;    ///< L: from the end of a send until the message can be received
  MapBroadcast broadcast = MapBroadcast::sends;

  double hash = 0.0;                 ///< o_pre of a key of one word
  double select_power_of_two = 0.0;  ///< o_sel: finding the server of a key if their number is a power of two
  double select_other = 0.0;         ///< ... for other numbers of servers

  double cached_access = 0.0;  ///< o_lup and o_upd in a table that fits into cache_bytes
  double memory_access = 0.0;  ///< ... in a table that is much larger
  double cache_bytes = 0.0;    ///< a core's own cache

  /// Reading a cache line that another core wrote last, or taking it over to write. Absent: no shared memory.
  std::optional<double> line;
  int replicas = 0;  ///< of the map `kv`; 0: one for every client

  /// Duration of a cycle of software on a machine on which smelt runs. If it is set, the model describes smelt's
  /// implementations with their software costs. 0: the algorithms as published.
  double software_cycle = 0.0;
};

/// The platforms of the text, at 1.2 GHz: the Tilera TILE-Gx8036; the same with interrupts of 4 cycles; that with a
/// broadcast in hardware. Source: [Shahmirzadi14] table 3.2, 3.5.3.
MapPlatform tile_gx();
MapPlatform intermediate_platform();
MapPlatform ideal_platform();

/// The model's parameters for a measured machine, in nanoseconds: means over the ordered pairs of the group's PUs.
/// A message fills one cache line, and takes as long as a lone one, or half of a round trip if that is longer.
/// Requirements: a group that fits the machine.
/// Errors: a machine without costs; fewer than two different PUs. Cost: O(n^2) in the size of the group.
Result<MapPlatform> platform_of(const Machine& machine, const Group& group);

/// Words of each message. [Shahmirzadi14] states only those of an update in part_simple. With lookups of two words, its
/// figure 3.19a has the published optimum.
struct MapMessages {
  int lookup = 2, value = 1, update = 4, acknowledge = 1;  ///< with a server: part_simple, part_caching
  int count = 3, number = 1;                               ///< with a sequencer: rep_remote, rep_local, rep_sc
  int replicate = 5, replicated = 1, valid = 2;            ///< between replicas: rep_*, kv; `valid`: rep_local
  int vote_request = 3, vote = 2, commit = 4;              ///< rep_2pc
  int invalidate = 3, invalidated = 2;                     ///< part_caching
};

/// The load of a map.
struct MapLoad {
  double lookups = 0.9;  ///< share of lookups, 0 to 1; the others are updates
  double keys = 1000;
  double bytes_per_key = 64;  ///< in the table
  double skew = 0.0;          ///< the k-th most popular key is used in proportion to k^-skew; 0: all keys equally

  /// hot_clients of the clients issue hot_share of the operations on any key, [Shahmirzadi14] figure 3.22. 0: all
  /// clients alike.
  int hot_clients = 0;
  double hot_share = 0.0;

  std::optional<double> hash{};  ///< cycles, in place of the platform's
  /// Cycles, in place of what the size of the table comes to. Copies at the clients of part_caching then stay in their
  /// caches.
  std::optional<double> access{};
  MapMessages messages{};

  Consistency consistency = Consistency::linearizable;  ///< at least; best_map() and rank_maps() go by it
  Faults faults = Faults::none;                         ///< at least; likewise
};

/// The model's prediction for one algorithm. Rates are in operations per second, for all clients together.
struct MapPrediction {
  std::string algorithm{};
  int clients = 0;
  int servers = 0;
  double lookup_ns = 0.0;      ///< of a client's time, per lookup
  double update_ns = 0.0;      ///< ... per update, with what other clients' updates cost this one
  double overlapped_ns = 0.0;  ///< of this, per operation, is done while the client would wait
  /// Limit by the clients: T^c. On measured machines with what is in none of the times above: for `kv` the time in
  /// which ranks with a replica serve others, for `rep_2pc` the wait for others' updates.
  double clients_per_s = 0.0;
  double servers_per_s = 0.0;  ///< limit by servers or another shared resource, otherwise infinite: T^s
  double per_s = 0.0;          ///< the smaller of them: T
};

/// The throughput of an algorithm on `cores` cores, `servers` of which serve (nullopt: as many as are best; ignored
/// where the algorithm needs none). Source: (3.1) to (3.56), (3.60); docs/reference/map-model.md for shared and kv.
/// Errors: invalid_argument for an unknown algorithm, for numbers out of range, or where no client or no server is
/// left; not_supported for `shared` on a platform without shared memory.
/// Cost: microseconds; times `cores` where servers are to be found.
Result<MapPrediction> predict_map(const MapPlatform& platform, std::string_view algorithm, const MapLoad& load,
                                  int cores, std::optional<int> servers = std::nullopt);

/// Every algorithm that the platform can run and that keeps what the load asks for, the fastest first, each with its
/// best number of servers. Errors: as predict_map(), and where no algorithm is left.
Result<std::vector<MapPrediction>> rank_maps(const MapPlatform& platform, const MapLoad& load, int cores);

/// The fastest of rank_maps().
Result<MapPrediction> best_map(const MapPlatform& platform, const MapLoad& load, int cores);

/// The ranges of shares of lookups in which each algorithm is the fastest.
struct MapRange {
  double from_lookups = 0.0;
  std::string algorithm{};
};

/// rank_maps() over all shares of lookups from 0 to 1 - 10^-6, to 10^-6. The load's own share is not used.
/// `among`: only these algorithms; empty: all. Cost: some hundred times rank_maps().
Result<std::vector<MapRange>> best_ranges(const MapPlatform& platform, const MapLoad& load, int cores,
                                          std::span<const std::string_view> among = {});

/// part_simple where the servers' cores are clients, too: `servers` (nullopt: as many as are best) of all `cores`.
/// `servers_per_s` is then infinite. A client waits for an answer during a part of each operation; a request that its
/// core gets meanwhile costs it nothing, one that comes at another moment interrupts it. Requests come at any moment
/// (docs/reference/map-model.md explains this interpretation of the printed formula). Errors: as predict_map().
/// Source: (3.57) to (3.59).
Result<MapPrediction> colocated(const MapPlatform& platform, const MapLoad& load, int cores,
                                std::optional<int> servers = std::nullopt);

/// How many evenly loaded servers serve as much as these, which get the given shares of the requests (>= 0, one at
/// least > 0; they need not add up to 1). Source: (3.60).
double effective_servers(std::span<const double> shares);

/// The share of the requests that go to the most popular of `keys` keys with that skew. Cost: O(1).
double hottest_key_share(double keys, double skew);

}  // namespace smelt
