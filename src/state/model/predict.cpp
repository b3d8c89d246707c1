// From costs to throughput: (3.1), (3.2), (3.6), (3.57) to (3.60), and the choice of algorithm and servers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "smelt/map_model.hpp"
#include "state/maps.hpp"
#include "state/model/messages.hpp"

namespace smelt {
namespace {

using state::MapCosts;
using state::MapDefinition;
using state::MapSetting;

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr int most_cores = 4096;
constexpr int most_words = 65536;
constexpr double least_updates = 1e-6;  ///< smallest share of updates that best_ranges() considers

double weighted(double lookups, double lookup, double update) { return lookups * lookup + (1.0 - lookups) * update; }

/// The busiest server has the most popular key and an equal share of all others.
double servers_worth(const MapLoad& load, int servers) {
  if (load.skew == 0.0 || servers == 0) return servers;
  const double hottest = hottest_key_share(load.keys, load.skew);
  std::vector<double> shares(static_cast<std::size_t>(servers), (1.0 - hottest) / servers);
  shares.front() += hottest;
  return effective_servers(shares);
}

MapPrediction predict(const MapDefinition& map, const MapSetting& setting) {
  const MapCosts costs =
      setting.platform.software_cycle > 0.0 ? state::as_built_costs(map, setting) : map.costs(setting);
  const double p = setting.load.lookups, cycle_ns = setting.platform.cycle_ns;
  const double overlapped = state::overlap(costs);
  const double client = weighted(p, costs.client_lookup, costs.client_update) + costs.lost - overlapped;
  const double server = weighted(p, costs.server_lookup, costs.server_update);
  const double per_second = 1e9 / cycle_ns;
  MapPrediction result;
  result.algorithm = map.facts.name;
  result.clients = setting.clients;
  result.servers = setting.servers;
  result.lookup_ns = costs.client_lookup * cycle_ns;
  result.update_ns = costs.client_update * cycle_ns;
  result.overlapped_ns = overlapped * cycle_ns;
  result.clients_per_s = setting.clients / client * per_second;                                             // (3.6)
  result.servers_per_s = server > 0.0 ? servers_worth(setting.load, setting.servers) / server * per_second  // (3.60)
                         : costs.serial > 0.0 ? per_second / costs.serial
                                              : unlimited;
  result.per_s = std::min(result.clients_per_s, result.servers_per_s);  // (3.2)
  return result;
}

MapPrediction predict_with_best_servers(const MapDefinition& map, const MapPlatform& platform, const MapLoad& load,
                                        int cores) {
  if (!map.facts.needs_servers) return predict(map, {platform, load, cores, 0});
  MapPrediction best = predict(map, {platform, load, cores - 1, 1});
  const bool one = platform.software_cycle > 0.0 && map.facts.name.starts_with("rep_");  // the sequencer
  for (int servers = 2; servers < cores && !one; ++servers) {
    MapPrediction next = predict(map, {platform, load, cores - servers, servers});
    if (next.per_s > best.per_s) best = std::move(next);
  }
  return best;
}

MapPrediction predict_colocated(const MapPlatform& platform, const MapLoad& load, int cores, int servers) {
  const state::MessageCosts on(platform);
  const MapMessages& m = load.messages;
  const double p = load.lookups;
  MapCosts costs = state::part_simple_costs({platform, load, cores, servers});
  const double interrupt = platform.interrupt;  // servers' cores wait for answers, not for requests
  const double client = weighted(p, costs.client_lookup, costs.client_update) + interrupt;
  const double server = weighted(p, costs.server_lookup, costs.server_update) + interrupt;
  const double idle =
      weighted(p, on.interrupting_round_trip(m.lookup, m.value) - on.send(m.lookup) - on.receive(m.value),
               on.interrupting_round_trip(m.update, m.acknowledge) - on.send(m.update) - on.receive(m.acknowledge));
  costs.idle[0] = {idle, 1.0};
  costs.interrupts[0] = {server, 1.0};
  // A request that comes at any moment of an operation finds the client waiting with probability idle / operation.
  const double overlapped = state::overlap(costs) * idle / (client + server);
  const double from_clients = std::min((cores - servers) / client, servers / server);  // (3.57)
  const double from_servers = servers / (client + server - overlapped);                // (3.58)
  const double serving = from_clients * server / servers;                              // (3.59)
  const double per_second = 1e9 / platform.cycle_ns;
  MapPrediction result;
  result.algorithm = "part_simple";
  result.clients = cores;
  result.servers = servers;
  result.lookup_ns = (costs.client_lookup + interrupt) * platform.cycle_ns;
  result.update_ns = (costs.client_update + interrupt) * platform.cycle_ns;
  result.overlapped_ns = overlapped * platform.cycle_ns;
  result.clients_per_s = (from_clients + (1.0 - serving) * from_servers) * per_second;
  result.servers_per_s = unlimited;
  result.per_s = result.clients_per_s;
  return result;
}

// ---- checks ---------------------------------------------------------------------------------

Error invalid(const std::string& what) { return {Status::invalid_argument, "map model: " + what}; }

std::optional<Error> check_load(const MapLoad& load) {
  const auto share = [](double value) { return value >= 0.0 && value <= 1.0; };
  const auto cycles = [](double value) { return value >= 0.0 && std::isfinite(value); };
  if (!share(load.lookups)) return invalid("lookups: a share from 0 to 1");
  if (!(load.keys >= 1.0) || !std::isfinite(load.keys)) return invalid("keys: at least 1");
  if (!cycles(load.bytes_per_key)) return invalid("bytes_per_key: not negative");
  if (!(load.skew >= 0.0 && load.skew <= 10.0)) return invalid("skew: from 0 to 10");
  if (load.hot_clients < 0) return invalid("hot_clients: not negative");
  if (!share(load.hot_share)) return invalid("hot_share: a share from 0 to 1");
  if (!cycles(load.hash.value_or(0.0))) return invalid("hash: cycles, not negative");
  if (!cycles(load.access.value_or(0.0))) return invalid("access: cycles, not negative");
  const MapMessages& m = load.messages;
  const auto [fewest, most] =
      std::minmax({m.lookup, m.value, m.update, m.acknowledge, m.count, m.number, m.replicate, m.replicated, m.valid,
                   m.vote_request, m.vote, m.commit, m.invalidate, m.invalidated});
  if (fewest < 0 || most > most_words) return invalid("messages: from 0 to 65536 words");
  return std::nullopt;
}

std::optional<Error> check_cores(const MapAlgorithm& facts, int cores, std::optional<int> servers) {
  if (cores < 1 || cores > most_cores) return invalid("cores: from 1 to 4096");
  if (!facts.needs_servers) return std::nullopt;
  if (cores < 2) return invalid(facts.name + ": cores: it takes two, one of which serves");
  if (!servers || (*servers >= 1 && *servers < cores)) return std::nullopt;
  return invalid(facts.name + ": servers: from 1 to " + std::to_string(cores - 1) + ", so that a client is left");
}

bool can_run(const MapPlatform& platform, const MapAlgorithm& facts) {
  return facts.name != "shared" || platform.line.has_value();
}

bool suits(const MapPlatform& platform, const MapLoad& load, int cores, const MapAlgorithm& facts) {
  return can_run(platform, facts) && facts.consistency >= load.consistency && facts.survives >= load.faults &&
         (cores > 1 || !facts.needs_servers);
}

// ---- ranges ---------------------------------------------------------------------------------

/// The fastest of some algorithms as a function of the share of updates.
class FastestMap {
 public:
  FastestMap(const MapPlatform& platform, const MapLoad& load, int cores, std::span<const std::string_view> among)
      : platform_(platform), load_(load), cores_(cores) {
    for (const auto& map : state::map_definitions()) {
      const bool asked = among.empty() || std::ranges::find(among, map.facts.name) != among.end();
      if (asked && suits(platform, load, cores, map.facts)) maps_.push_back(&map);
    }
  }

  bool empty() const { return maps_.empty(); }

  const MapDefinition* winner(double updates) {
    load_.lookups = 1.0 - updates;
    const MapDefinition* best = nullptr;
    double most = -1.0;
    for (const auto* map : maps_) {
      const double per_s = predict_with_best_servers(*map, platform_, load_, cores_).per_s;
      if (per_s > most) most = per_s, best = map;
    }
    return best;
  }

  /// The largest share of updates below `high`, to a 10^-6th, at which the fastest algorithm differs from that at
  /// `high`.
  double change(double low, double high) {
    const auto* before = winner(high);
    while (high - low > least_updates / 2.0) {
      const double middle = (low + high) / 2.0;
      (winner(middle) == before ? high : low) = middle;
    }
    return low;
  }

 private:
  const MapPlatform& platform_;
  MapLoad load_;
  int cores_;
  std::vector<const MapDefinition*> maps_;
};

}  // namespace

Result<MapPrediction> predict_map(const MapPlatform& platform, std::string_view algorithm, const MapLoad& load,
                                  int cores, std::optional<int> servers) {
  const auto* map = state::find_map(algorithm);
  if (map == nullptr) return invalid(std::string(algorithm) + ": no such algorithm; see map_algorithms()");
  if (const auto error = check_load(load)) return *error;
  if (const auto error = check_cores(map->facts, cores, servers)) return *error;
  if (!can_run(platform, map->facts)) {
    return Error{Status::not_supported, "map model: shared: the platform '" + platform.name + "' has no shared memory"};
  }
  if (!servers || !map->facts.needs_servers) return predict_with_best_servers(*map, platform, load, cores);
  return predict(*map, {platform, load, cores - *servers, *servers});
}

Result<std::vector<MapPrediction>> rank_maps(const MapPlatform& platform, const MapLoad& load, int cores) {
  if (const auto error = check_load(load)) return *error;
  if (cores < 1 || cores > most_cores) return invalid("cores: from 1 to 4096");
  std::vector<MapPrediction> ranking;
  for (const auto& map : state::map_definitions()) {
    if (suits(platform, load, cores, map.facts)) {
      ranking.push_back(predict_with_best_servers(map, platform, load, cores));
    }
  }
  if (ranking.empty()) return invalid("no algorithm keeps what the load asks for on these cores");
  std::ranges::stable_sort(ranking, [](const auto& a, const auto& b) { return a.per_s > b.per_s; });
  return ranking;
}

Result<MapPrediction> best_map(const MapPlatform& platform, const MapLoad& load, int cores) {
  auto ranking = rank_maps(platform, load, cores);
  if (!ranking) return ranking.error();
  return ranking->front();
}

Result<std::vector<MapRange>> best_ranges(const MapPlatform& platform, const MapLoad& load, int cores,
                                          std::span<const std::string_view> among) {
  if (const auto error = check_load(load)) return *error;
  if (cores < 1 || cores > most_cores) return invalid("cores: from 1 to 4096");
  FastestMap contest(platform, load, cores, among);
  if (contest.empty()) return invalid("no algorithm keeps what the load asks for on these cores");
  std::vector<MapRange> ranges = {{0.0, contest.winner(1.0)->facts.name}};
  constexpr int steps_per_decade = 16;
  double before = 1.0;
  for (int step = 1; before > least_updates; ++step) {
    const double updates = std::max(std::pow(10.0, -static_cast<double>(step) / steps_per_decade), least_updates);
    while (contest.winner(updates)->facts.name != ranges.back().algorithm) {
      const double change = contest.change(updates, before);
      ranges.push_back({1.0 - change, contest.winner(change)->facts.name});
      before = change;
    }
    before = updates;
  }
  return ranges;
}

Result<MapPrediction> colocated(const MapPlatform& platform, const MapLoad& load, int cores,
                                std::optional<int> servers) {
  if (const auto error = check_load(load)) return *error;
  if (cores < 1 || cores > most_cores) return invalid("cores: from 1 to 4096");
  if (servers && (*servers < 1 || *servers > cores)) {
    return invalid("colocated: servers: from 1 to " + std::to_string(cores));
  }
  if (servers) return predict_colocated(platform, load, cores, *servers);
  MapPrediction best = predict_colocated(platform, load, cores, 1);
  for (int count = 2; count <= cores; ++count) {
    MapPrediction next = predict_colocated(platform, load, cores, count);
    if (next.per_s > best.per_s) best = std::move(next);
  }
  return best;
}

double effective_servers(std::span<const double> shares) {
  double most = 0.0, sum = 0.0;
  for (const double share : shares) {
    most = std::max(most, share);
    sum += share;
  }
  return sum / most;
}

}  // namespace smelt
