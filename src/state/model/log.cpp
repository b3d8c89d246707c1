// Occupancies of the roles of agreement by messages: [Smelt16] 5.6, [Kaestle16] 5.5.8.
#include <algorithm>
#include <optional>

#include "plan/trees/costs.hpp"
#include "smelt/log_model.hpp"

namespace smelt {
namespace {

constexpr double nanoseconds = 1e9;

Error wrong(const std::string& what) { return {Status::invalid_argument, "log model: " + what}; }

/// The replicas and the client, as the last rank.
struct LogSetting {
  Group all;
  int client;
};

LogSetting with_client(const Machine& machine, const Group& replicas) {
  LogSetting setting{replicas, replicas.size()};
  int free = 0;
  while (std::ranges::find(replicas.pus, free) != replicas.pus.end()) ++free;
  setting.all.pus.push_back(free < static_cast<int>(machine.size()) ? free : replicas.pus.front());
  return setting;
}

/// The replica with the cheapest messages from and to another rank.
int nearest_to(const plan::RankCosts& costs, int rank, int replicas) {
  int best = -1;
  for (int other = 0; other < replicas; ++other) {
    if (other == rank) continue;
    const auto both = [&](int a) { return costs.message(a, rank) + costs.message(rank, a); };
    if (best < 0 || both(other) < both(best)) best = other;
  }
  return best;
}

void add_message(const plan::RankCosts& costs, std::vector<double>& busy_ns, int from, int to) {
  busy_ns[static_cast<std::size_t>(from)] += costs.send(from, to);
  busy_ns[static_cast<std::size_t>(to)] += costs.recv(from, to);
}

LogPrediction predict(const Machine& machine, const Group& replicas, const std::string& algorithm, const Plan& plan) {
  const LogSetting setting = with_client(machine, replicas);
  const plan::RankCosts costs(machine, setting.all);
  const Tree& tree = *plan.broadcast_tree;
  const int root = tree.root, client = setting.client;
  LogPrediction made;
  made.algorithm = algorithm;
  made.topology = plan.topology;
  made.replicas = replicas.size();
  const bool has_acceptor = algorithm == "1paxos";
  made.acceptor = has_acceptor ? root : -1;
  made.leader = has_acceptor ? nearest_to(costs, root, replicas.size()) : root;
  std::vector<double> busy_ns(static_cast<std::size_t>(setting.all.size()), 0.0);
  double sends_ns = 0.0;
  for (int rank = 0; rank < tree.size(); ++rank) {
    for (const int child : tree.children[static_cast<std::size_t>(rank)]) {
      add_message(costs, busy_ns, rank, child);
      if (rank == root) sends_ns += costs.send(rank, child);
    }
  }
  add_message(costs, busy_ns, client, made.leader);
  add_message(costs, busy_ns, made.leader, client);
  made.response_ns = costs.message(client, made.leader) + costs.message(made.leader, client);
  if (has_acceptor) {
    add_message(costs, busy_ns, made.leader, root);
    made.response_ns += costs.message(made.leader, root) + plan.arrival_ns[static_cast<std::size_t>(made.leader)];
  } else {
    made.response_ns += sends_ns;
  }
  busy_ns.pop_back();  // there are as many clients as needed
  made.busiest = static_cast<int>(std::ranges::max_element(busy_ns) - busy_ns.begin());
  made.busiest_ns = busy_ns[static_cast<std::size_t>(made.busiest)];
  made.per_s = nanoseconds / made.busiest_ns;
  made.busy_ns = std::move(busy_ns);
  return made;
}

}  // namespace

Result<LogPrediction> predict_log(const Machine& machine, const Group& replicas, const std::string& algorithm,
                                  const std::string& topology) {
  if (algorithm != "1paxos" && algorithm != "broadcast") {
    return wrong("algorithm '" + algorithm + "': must be 1paxos or broadcast");
  }
  if (replicas.size() < (algorithm == "1paxos" ? 2 : 1)) return wrong("too few replicas for " + algorithm);
  PlanOptions options;
  options.topology = topology;
  options.search_ms = 0;
  const auto plan = make_plan(machine, replicas, Operation::broadcast, options);
  if (!plan) return plan.error();
  if (!plan->broadcast_tree) return wrong("topology '" + topology + "' is not a tree");
  return predict(machine, replicas, algorithm, *plan);
}

}  // namespace smelt
