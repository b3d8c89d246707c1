// The equations of [Shahmirzadi14] ch. 3, by their numbers there, and those of `shared` and `kv`
// (docs/reference/map-model.md).
#include "state/model/throughput.hpp"

#include <algorithm>
#include <cmath>

#include "state/model/messages.hpp"

namespace smelt::state {
namespace {

/// The terms that all algorithms have in common. `p` is the share of lookups, as in the text.
struct Terms {
  explicit Terms(const MapSetting& setting)
      : m(setting.load.messages),
        on(setting.platform),
        clients(setting.clients),
        p(setting.load.lookups),
        hash(setting.load.hash.value_or(setting.platform.hash)),
        select(select_cost(setting)) {}

  static double select_cost(const MapSetting& setting) {
    const int servers = setting.servers;
    if (servers == 0) return 0.0;
    const bool power_of_two = (servers & (servers - 1)) == 0;
    return power_of_two ? setting.platform.select_power_of_two : setting.platform.select_other;
  }

  const MapMessages& m;
  MessageCosts on;
  int clients;
  double p;
  double hash;    ///< o_pre
  double select;  ///< o_sel
};

/// o_lup, o_upd: one access to a table with that share of the keys.
double access_cost(const MapSetting& setting, double share_of_keys) {
  if (setting.load.access) return *setting.load.access;
  const MapPlatform& platform = setting.platform;
  const double bytes = setting.load.keys * setting.load.bytes_per_key * share_of_keys;
  const double cached = bytes <= platform.cache_bytes ? 1.0 : platform.cache_bytes / bytes;
  return cached * platform.cached_access + (1.0 - cached) * platform.memory_access;
}

/// The same in a client's copies of that share of the keys. If the load specifies the cost of an access, copies
/// are taken to stay in the client's cache all the same: figure 3.21b comes out only so.
double copy_access_cost(const MapSetting& setting, double share_of_keys) {
  if (setting.load.access) return std::min(*setting.load.access, setting.platform.cached_access);
  return access_cost(setting, share_of_keys);
}

/// Sums `term(f)` over clients that issue the share f of the operations on a key (the text's pmf_key).
template <class Term>
double sum_over_clients(const MapSetting& setting, Term term) {
  const MapLoad& load = setting.load;
  const int clients = setting.clients;
  const int hot = std::min(load.hot_clients, clients);
  if (hot == 0) return clients * term(1.0 / clients);
  if (hot == clients) return hot * term(1.0 / hot);
  const double others = load.hot_share < 1.0 ? (clients - hot) * term((1.0 - load.hot_share) / (clients - hot)) : 0.0;
  return load.hot_share > 0.0 ? hot * term(load.hot_share / hot) + others : others;
}

}  // namespace

double access_of(const MapSetting& setting) { return access_cost(setting, 1.0); }
double hash_of(const MapSetting& setting) { return setting.load.hash.value_or(setting.platform.hash); }

double overlap(const MapCosts& costs) {
  const auto total = [](const std::array<Periods, 2>& periods) {
    Periods mean;
    for (const auto& each : periods) {
      mean.count += each.count;
      mean.cycles += each.count * each.cycles;
    }
    if (mean.count > 0.0) mean.cycles /= mean.count;  // (3.24), (3.25)
    return mean;
  };
  const Periods idle = total(costs.idle), interrupt = total(costs.interrupts);
  if (interrupt.cycles <= 0.0) return 0.0;
  const double fitting = std::floor(idle.cycles / interrupt.cycles);                     // k, (3.14)
  const double whole = std::min(fitting * idle.count, interrupt.count);                  // (3.15)
  const double parts = std::min(interrupt.count - whole, idle.count);                    // (3.16)
  return whole * interrupt.cycles + parts * (idle.cycles - fitting * interrupt.cycles);  // (3.17)
}

MapCosts part_simple_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0 / setting.servers);
  MapCosts costs;
  costs.server_lookup = t.on.receive(t.m.lookup) + access + t.on.send(t.m.value);  // (3.3)
  costs.server_update = t.on.receive(t.m.update) + access + t.on.send(t.m.acknowledge);
  costs.client_lookup = t.hash + t.select + t.on.round_trip(t.m.lookup, t.m.value) + access;  // (3.4)
  costs.client_update = t.hash + t.select + t.on.round_trip(t.m.update, t.m.acknowledge);     // (3.5)
  return costs;
}

MapCosts rep_remote_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0);
  const double others = t.clients - 1;
  const double round_trip = t.on.round_trip(t.m.count, t.m.number);
  const double delivery = t.on.interrupted(t.m.replicate) + access;
  MapCosts costs;
  costs.server_lookup = costs.server_update = t.on.receive(t.m.count) + t.on.send(t.m.number);  // (3.7)
  costs.client_lookup = t.hash + t.select + access + round_trip;                                // (3.8)
  costs.client_update =
      t.hash + t.select + access + round_trip + t.on.broadcast(t.m.replicate, others) + others * delivery;  // (3.9)
  costs.idle[0] = {round_trip - t.on.send(t.m.count) - t.on.receive(t.m.number), 1.0};  // (3.10), (3.11)
  costs.interrupts[0] = {delivery, others * (1.0 - t.p)};                               // (3.12), (3.13)
  return costs;
}

MapCosts rep_local_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0);
  const double others = t.clients - 1, q = 1.0 - t.p;
  const double round_trip = t.on.round_trip(t.m.count, t.m.number);
  const double all_round_trip = t.on.broadcast_round_trip(t.m.replicate, t.m.replicated, t.clients - 1);
  const double own_part = t.on.broadcast(t.m.replicate, others) + access + others * t.on.receive(t.m.replicated);
  const double announced = t.on.interrupted(t.m.replicate) + t.on.send(t.m.replicated);
  const double applied = t.on.interrupted(t.m.valid) + access;
  MapCosts costs;
  costs.idle[0] = {round_trip - t.on.send(t.m.count) - t.on.receive(t.m.number), q};  // (3.18), (3.20)
  costs.idle[1] = {std::max(all_round_trip - own_part, 0.0), q};                      // (3.19), (3.20)
  costs.interrupts[0] = {announced, others * q};                                      // (3.21), (3.23)
  costs.interrupts[1] = {applied, others * q};                                        // (3.22), (3.23)
  costs.server_update = t.on.receive(t.m.count) + t.on.send(t.m.number);              // (3.26)
  costs.client_update = t.hash + t.select + round_trip + std::max(all_round_trip, own_part) +
                        t.on.broadcast(t.m.valid, others) + others * (announced + applied);  // (3.27)
  costs.client_lookup = t.hash + access;                                                     // (3.28)
  return costs;
}

MapCosts rep_2pc_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0);
  const double others = t.clients - 1, q = 1.0 - t.p;
  const double voting = t.on.broadcast_round_trip(t.m.vote_request, t.m.vote, t.clients - 1);
  const double committing = t.on.broadcast_round_trip(t.m.commit, t.m.replicated, t.clients - 1);
  const double own_votes = t.on.broadcast(t.m.vote_request, others) + others * t.on.receive(t.m.vote);
  const double own_commit = t.on.broadcast(t.m.commit, others) + access + others * t.on.receive(t.m.replicated);
  const double voted = t.on.interrupted(t.m.vote_request) + t.on.send(t.m.vote);
  const double applied = t.on.interrupted(t.m.commit) + t.on.send(t.m.replicated) + access;
  const double answers = t.on.receive(t.m.vote) + t.on.receive(t.m.replicated);
  MapCosts costs;
  costs.idle[0] = {std::max(voting - own_votes, 0.0), q};       // (3.29), (3.31)
  costs.idle[1] = {std::max(committing - own_commit, 0.0), q};  // (3.30), (3.31)
  costs.interrupts[0] = {voted, others * q};                    // (3.32), (3.34)
  costs.interrupts[1] = {applied, others * q};                  // (3.33), (3.34)
  costs.client_update =
      t.hash + voting + std::max(committing, own_commit) + others * (voted + applied + answers);  // (3.35)
  costs.client_lookup = t.hash + access;                                                          // (3.36)
  return costs;
}

namespace {

// (3.49) has one o_rcv for updates and answers to invalidations; with fewer words for the answers the throughput would
// leave the axis of figure 3.22b.
/// `issuer`: the weight of a copy that the issuer of an update holds itself.
MapCosts part_caching(const MapSetting& setting, double issuer, const PartCachingSoftware& software) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0 / setting.servers);
  const double p = t.p, q = 1.0 - p;
  const auto hit = [&](double f) { return f == 0.0 ? 0.0 : p * f * f / (1.0 - p * (1.0 - f)); };
  const auto held = [&](double f) { return f == 0.0 ? 0.0 : (1.0 - f + issuer * f) * p * f / (1.0 - p * (1.0 - f)); };
  const double hits = sum_over_clients(setting, hit);     // P_ll, (3.38), (3.39)
  const double copies = sum_over_clients(setting, held);  // n_inv: (3.37) without its division by 1 - p
  const double copy = copy_access_cost(setting, hits);
  const double round_trip = t.on.round_trip(t.m.lookup, t.m.value);
  const double update_trip = t.on.round_trip(t.m.update, t.m.acknowledge);
  const double own_part = copy + t.on.send(t.m.update) + t.on.receive(t.m.acknowledge);
  const double dropping = t.on.multicast_round_trip(t.m.invalidate, t.m.invalidated, copies);
  const double dropped = t.on.interrupted(t.m.invalidate) + t.on.send(t.m.invalidated) + copy;
  MapCosts costs;
  costs.idle[0] = {access + round_trip - t.on.send(t.m.lookup) - t.on.receive(t.m.value),
                   p * (1.0 - hits)};                                     // (3.40), (3.41)
  costs.idle[1] = {std::max(0.0, update_trip + dropping - own_part), q};  // (3.42), (3.43)
  costs.interrupts[0] = {dropped, q * copies};                            // (3.44), (3.45)
  costs.client_lookup =
      t.hash + copy +
      (1.0 - hits) * (software.lookup + access + t.select + round_trip + copy + software.copying);  // (3.46)
  costs.server_lookup =
      (1.0 - hits) * (t.on.receive(t.m.lookup) + software.lookup + access + t.on.send(t.m.value));  // (3.47)
  costs.client_update = t.hash + t.select + std::max(own_part, update_trip + dropping + software.update) +
                        copies * dropped + software.copying;  // (3.48)
  costs.server_update = (copies + 1.0) * t.on.receive(t.m.update) + t.on.multicast(t.m.invalidate, copies) +
                        t.on.send(t.m.acknowledge) + software.update + access;  // (3.49)
  return costs;
}

}  // namespace

MapCosts part_caching_costs(const MapSetting& setting) { return part_caching(setting, 1.0, {}); }

MapCosts part_caching_as_built_costs(const MapSetting& setting, const PartCachingSoftware& software) {
  return part_caching(setting, 0.0, software);
}

MapCosts rep_sc_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0);
  const double others = t.clients - 1, q = 1.0 - t.p;
  const double round_trip = t.on.round_trip(t.m.count, t.m.number);
  const double own_part = t.on.send(t.m.count) + t.on.receive(t.m.number) + access;
  const double delivery = t.on.interrupted(t.m.replicate) + access;
  MapCosts costs;
  costs.idle[0] = {std::max(round_trip - own_part, 0.0), q};              // (3.50), (3.51)
  costs.interrupts[0] = {delivery, others * q};                           // (3.52), (3.53)
  costs.server_update = t.on.receive(t.m.count) + t.on.send(t.m.number);  // (3.54)
  costs.client_update = t.hash + t.select + std::max(round_trip, own_part) + t.on.broadcast(t.m.replicate, others) +
                        others * delivery;  // (3.55)
  costs.client_lookup = t.hash + access;    // (3.56)
  return costs;
}

// A lookup finds its line in the own cache unless another client has written it since. An update must have the line
// alone: it takes it from the others, unless this client has updated it since the last access by another.
MapCosts shared_costs(const MapSetting& setting) {
  const Terms t(setting);
  const double access = access_cost(setting, 1.0);
  const double line = std::max(access, *setting.platform.line);
  const double q = 1.0 - t.p;
  const auto written_elsewhere = [&](double f) {
    const double others = (1.0 - f) * q;
    return f == 0.0 ? 0.0 : f * others / (f + others);
  };
  const double stale = sum_over_clients(setting, written_elsewhere);
  const double taken = sum_over_clients(setting, [&](double f) {
    const double others = 1.0 - f;
    return others == 0.0 ? 0.0 : f * others / (others + f * q);
  });
  MapCosts costs;
  costs.client_lookup = t.hash + (1.0 - stale) * access + stale * line;
  costs.client_update = t.hash + access + (1.0 - taken) * access + taken * line;
  costs.serial = q * taken * hottest_key_share(setting.load.keys, setting.load.skew) * (access + line);
  return costs;
}

// Client -> leader -> acceptor -> all replicas, one of which is the client's. The clients' cores do the work of the
// leader and the acceptor while they wait. A linearizable lookup also reads the number of accepted entries.
MapCosts kv_costs(const MapSetting& setting) {
  const Terms t(setting);
  const MapPlatform& platform = setting.platform;
  const double access = access_cost(setting, 1.0);
  const int replicas = platform.replicas == 0 ? t.clients : std::min(platform.replicas, t.clients);
  const double elsewhere = 1.0 - 1.0 / t.clients, q = 1.0 - t.p;
  const double hop = t.on.send(t.m.update) + platform.latency + t.on.receive(t.m.update);
  const double learning = t.on.spread(t.m.replicate, replicas - 1) * (replicas - 1) / replicas;
  const double own_part = elsewhere * t.on.send(t.m.update) + access;
  const double leading = t.on.receive(t.m.update) + t.on.send(t.m.update);
  const double accepting = t.on.receive(t.m.update) + access + t.on.broadcast(t.m.replicate, replicas - 1);
  const double delivery = t.on.interrupted(t.m.replicate) + access;
  const double commit = elsewhere * hop + hop + access + learning;
  const bool asks = setting.load.consistency == Consistency::linearizable;
  const double asking = platform.line.value_or(t.on.interrupting_round_trip(t.m.count, t.m.number));
  MapCosts costs;
  costs.idle[0] = {std::max(commit - own_part, 0.0), q};
  costs.interrupts[0] = {leading + accepting, q};
  costs.interrupts[1] = {delivery, q * (replicas - 1)};
  costs.client_lookup = t.hash + access + (asks ? asking : 0.0);
  costs.client_update = t.hash + std::max(commit, own_part) + access + leading + accepting + (replicas - 1) * delivery;
  costs.serial =
      q * std::max(leading, t.on.receive(t.m.update) + access + t.on.root_sends(t.m.replicate, replicas - 1));
  return costs;
}

}  // namespace smelt::state

namespace smelt {

double hottest_key_share(double keys, double skew) {
  // The sum of k^-skew: its first terms, and the integral of the others with the trapezoidal rule's correction.
  const double exact = std::min(keys, 64.0);
  double sum = 0.0;
  for (double k = 1.0; k <= exact; ++k) sum += std::pow(k, -skew);
  if (keys > exact) {
    const double area = skew == 1.0 ? std::log(keys / exact)
                                    : (std::pow(keys, 1.0 - skew) - std::pow(exact, 1.0 - skew)) / (1.0 - skew);
    sum += area + (std::pow(keys, -skew) - std::pow(exact, -skew)) / 2.0;
  }
  return 1.0 / sum;
}

}  // namespace smelt
