// The costs of the maps as smelt runs them on machines with shared memory, where these differ from the printed
// equations: a sequencer sends updates down a tree itself, the log is in memory, and calls and messages have software
// costs. docs/reference/map-model.md, "As built".
#include <algorithm>

#include "state/maps.hpp"
#include "state/model/messages.hpp"
#include "state/model/throughput.hpp"

namespace smelt::state {
namespace {

// Software costs in cycles, for processors of the last ten years. `smelt bench map` and `smelt bench log` show how well
// they fit.
constexpr double call_cycles = 18.0;     ///< an operation that may send messages
constexpr double message_cycles = 50.0;  ///< to parse a message, find its receiver, and create the next one
/// To execute an operation in a table for which a message waits: others overlap with what follows. An update has the
/// longer message, and compares and writes.
constexpr double executed_lookup_cycles = 50.0;
constexpr double executed_update_cycles = 100.0;
constexpr double copying_cycles = 100.0;     ///< to note at both ends that there is a copy, or that it is gone
constexpr double log_lookup_cycles = 45.0;   ///< to learn that all entries of the log have been applied
constexpr double log_append_cycles = 165.0;  ///< to append, decide, deliver
/// A rank with a replica looks for others' messages at each update and at each eighth lookup
/// (Member::step_now_and_then).
constexpr double lookups_between_looks = 8.0;
/// A processor continues while it waits for a line, so about one of two remote accesses is waited for.
constexpr double lines_waited_for = 0.5;

double cycles(const MapSetting& setting, double count) { return count * setting.platform.software_cycle; }

/// Costs of the tree from a sequencer to all clients.
struct DownwardTree {
  explicit DownwardTree(const MapSetting& setting, double words)
      : on(setting.platform),
        arrival(on.spread(words, setting.clients)),
        root(on.root_sends(words, setting.clients)),
        forward(std::max(0.0, setting.clients * on.send(words) - root) / setting.clients) {}
  MessageCosts on;
  double arrival;  ///< when the last client has the message
  double root;     ///< the root's sends
  double forward;  ///< a client's forwarding, on average
};

MapCosts with_calls(const MapSetting& setting, MapCosts costs) {
  costs.client_lookup += cycles(setting, call_cycles);
  costs.client_update += cycles(setting, call_cycles);
  return costs;
}

/// rep_remote, rep_sc: an update comes back down the tree.
MapCosts sequenced(const MapSetting& setting, MapCosts printed) {
  const MapMessages& m = setting.load.messages;
  const DownwardTree down(setting, m.replicate);
  const double access = access_of(setting) + cycles(setting, executed_update_cycles);
  const double others = setting.clients - 1, q = 1.0 - setting.load.lookups;
  const double hop = down.on.send(m.update) + setting.platform.latency + down.on.receive(m.update);
  const double delivery = down.on.interrupted(m.replicate) + access + down.forward;
  MapCosts costs = printed;
  costs.server_update = down.on.receive(m.update) + down.root;
  costs.client_update = hash_of(setting) + hop + down.arrival + access + down.forward + others * delivery;
  costs.idle[1] = {std::max(0.0, hop + down.arrival - down.on.send(m.update) - delivery), q};
  costs.interrupts[0] = {delivery, others * q};
  return costs;
}

/// part_simple: an update is answered after it has been executed.
MapCosts executed_before_answer(const MapSetting& setting, MapCosts printed) {
  MapLoad load = setting.load;
  load.keys = setting.load.keys / setting.servers;
  const double lookup = cycles(setting, executed_lookup_cycles), update = cycles(setting, executed_update_cycles);
  printed.client_lookup += lookup;
  printed.client_update += update + access_of({setting.platform, load, setting.clients, setting.servers});
  printed.server_lookup += lookup;
  printed.server_update += update;
  return printed;
}

/// rep_2pc: one update after the other has its turn. The next one's request and all votes but one are there before: its
/// turn begins when the issuer before it votes.
struct TwoPhasesAsBuilt {
  TwoPhasesAsBuilt(const MapSetting& setting, const MapCosts& printed)
      : clients(setting.clients), p(setting.load.lookups), lookup(printed.client_lookup) {
    const MessageCosts on(setting.platform);
    const MapMessages& m = setting.load.messages;
    const double executing = cycles(setting, executed_update_cycles);
    const double executed = std::min(clients, 2.0) * (executing + access_of(setting));  // by the issuer, then by others
    const double others = clients - 1.0, q = 1.0 - p;
    const double at_once = printed.client_update + executed + others * executing;
    busy = p * lookup / (p * lookup + q * at_once);
    const double between_looks = std::min(lookups_between_looks, 1.0 / std::max(q, 1e-9)) * lookup;
    // Each round waits for the last of the others that are busy.
    const double unnoticed = 2.0 * between_looks * others * busy / (others * busy + 1.0);
    update = at_once + unnoticed;
    const double last_vote = others > 0.0 ? on.send(m.vote) + setting.platform.latency + on.receive(m.vote) : 0.0;
    turn =
        last_vote + on.broadcast_round_trip(m.commit, m.replicated, setting.clients - 1) + executed + unnoticed / 2.0;
  }

  /// Until it is a client's turn, on average over its operations: mean value analysis of a station to which each
  /// client returns after `elsewhere`.
  double waiting() const {
    const double q = 1.0 - p;
    if (q <= 0.0) return 0.0;
    const double elsewhere = p / q * lookup + std::max(0.0, update - turn);
    double there = turn, queue = 0.0;
    for (double n = 1.0; n <= clients; ++n) {
      there = turn * (1.0 + queue);
      queue = n * there / (elsewhere + there);
    }
    return q * (there - turn);
  }

  double clients, p, lookup;
  double busy = 0.0;    ///< share of its time that a client spends with lookups
  double update = 0.0;  ///< of a client that nobody is before
  double turn = 0.0;    ///< of an update, where the next one waits
};

MapCosts two_phases_as_built(const MapSetting& setting, MapCosts costs) {
  const TwoPhasesAsBuilt phases(setting, costs);
  costs.client_update = phases.update;
  costs.serial = (1.0 - phases.p) * phases.turn;
  // Requests come at any moment, and while a client is busy, they take it time.
  costs.lost = phases.waiting() + phases.busy * overlap(costs);
  return costs;
}

/// kv: clients with a replica, and those that send their operations to one.
struct KvAsBuilt {
  explicit KvAsBuilt(const MapSetting& setting)
      : clients(setting.clients),
        replicas(std::min<double>(setting.platform.replicas == 0 ? clients : setting.platform.replicas, clients)),
        p(setting.load.lookups),
        line(setting.platform.line.value_or(setting.platform.latency)) {
    const MessageCosts on(setting.platform);
    const MapMessages& m = setting.load.messages;
    const double hash = hash_of(setting), access = access_of(setting), call = cycles(setting, call_cycles);
    const double changes = (replicas - 1.0) * (1.0 - p);  // by others, for each of this rank's accesses
    const bool asks = setting.load.consistency == Consistency::linearizable;
    const double asking = asks ? cycles(setting, log_lookup_cycles) + changes / (changes + 1.0) * line : 0.0;
    const double appending = cycles(setting, log_append_cycles) + (replicas > 1.0 ? 2.0 * line : 0.0);
    lookup = hash + call + access + asking;
    update = hash + call + access + appending + (replicas - 1.0) * (line + access);
    far_lookup = on.round_trip(m.lookup, m.value) + lookup;
    far_update = on.round_trip(m.update, m.acknowledge) + update;
    // Whoever looks for a message that has just arrived waits for its whole line.
    serving =
        line - call +
        mean(on.receive(m.lookup) + lookup + on.send(m.value), on.receive(m.update) + update + on.send(m.acknowledge));
  }

  double mean(double of_lookup, double of_update) const { return p * of_lookup + (1.0 - p) * of_update; }
  /// Of all clients, if these are the times of one with a replica and of one without.
  double of_all(double near, double far) const { return clients / (replicas / near + (clients - replicas) / far); }

  /// Cycles per operation of all clients that are lost because a rank with a replica serves others: its own operations
  /// take longer, and theirs wait until it looks. Between two operations of its own it serves each of them once at
  /// most.
  double lost() const {
    const double others = clients / replicas - 1.0;
    const double near = mean(lookup, update), far = mean(far_lookup, far_update);
    if (others <= 0.0) return 0.0;
    const double until_look = std::min(lookups_between_looks, 1.0 / std::max(1.0 - p, 1e-9)) / 2.0 * near;
    const double share = others * serving / (far + until_look);  // of its time
    const double most = near + others * serving;
    const double longer = share < 1.0 ? std::min(near / (1.0 - share), most) : most;
    return of_all(longer, std::max(far + until_look, longer)) -
           mean(of_all(lookup, far_lookup), of_all(update, far_update));
  }

  double clients, replicas, p, line;
  double lookup = 0.0, update = 0.0;          ///< of a client with a replica
  double far_lookup = 0.0, far_update = 0.0;  ///< of one without, if nobody waits
  double serving = 0.0;                       ///< what one of these costs the rank with the replica
};

MapCosts kv_as_built(const MapSetting& setting) {
  const KvAsBuilt kv(setting);
  MapCosts costs;
  costs.client_lookup = kv.of_all(kv.lookup, kv.far_lookup);
  costs.client_update = kv.of_all(kv.update, kv.far_update);
  costs.lost = kv.lost();
  costs.serial = (1.0 - kv.p) * (cycles(setting, log_append_cycles) / 2.0 + (kv.replicas > 1.0 ? kv.line : 0.0));
  return costs;
}

}  // namespace

MapCosts as_built_costs(const MapDefinition& map, const MapSetting& asked) {
  const std::string& algorithm = map.facts.name;
  MapPlatform platform = asked.platform;
  platform.receive += cycles(asked, message_cycles);
  const MapSetting setting{platform, asked.load, asked.clients, asked.servers};
  const MapMessages& m = setting.load.messages;
  MapCosts printed = map.costs(setting);
  const MessageCosts on(platform);
  const double access = access_of(setting) + cycles(setting, executed_update_cycles), q = 1.0 - setting.load.lookups;
  if (algorithm == "part_simple") return with_calls(setting, executed_before_answer(setting, printed));
  if (algorithm == "part_caching") {
    const PartCachingSoftware software = {cycles(setting, copying_cycles), cycles(setting, executed_lookup_cycles),
                                          cycles(setting, executed_update_cycles)};
    return with_calls(setting, part_caching_as_built_costs(setting, software));
  }
  if (algorithm == "rep_remote") return with_calls(setting, sequenced(setting, printed));
  if (algorithm == "rep_sc") {
    printed.idle[0] = {};
    return with_calls(setting, sequenced(setting, printed));
  }
  if (algorithm == "rep_local") {
    const double others = setting.clients - 1;
    const DownwardTree down(setting, m.replicate), commit(setting, m.valid);
    const double confirmed = on.spread(m.replicated, setting.clients);
    const double deliveries = on.interrupted(m.replicate) + on.interrupted(m.valid) + on.send(m.replicated) + access +
                              down.forward + commit.forward;
    MapCosts costs = sequenced(setting, printed);
    costs.client_update +=
        confirmed + commit.arrival + others * (deliveries - on.interrupted(m.replicate) - access - down.forward);
    costs.server_update += on.receive(m.replicated) + commit.root;
    costs.idle[0] = {confirmed + commit.arrival, q};
    costs.interrupts[0] = {deliveries, others * q};
    costs.interrupts[1] = {};
    return with_calls(setting, costs);
  }
  if (algorithm == "rep_2pc") return two_phases_as_built(setting, with_calls(setting, printed));
  if (algorithm == "shared") {
    MapPlatform overlapping = platform;
    overlapping.line = *platform.line * lines_waited_for;
    return shared_costs({overlapping, setting.load, setting.clients, setting.servers});
  }
  return kv_as_built(setting);
}

}  // namespace smelt::state
