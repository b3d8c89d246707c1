// Tree planners against slow ones that follow the rule word for word, and costs against the machine they come from.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "plan/plan_test_util.hpp"
#include "plan/trees/bounds.hpp"
#include "plan/trees/builders.hpp"
#include "plan/trees/exact.hpp"
#include "plan/trees/greedy.hpp"
#include "plan/trees/hierarchy.hpp"
#include "plan/trees/tree.hpp"
#include "plan/trees/treestate.hpp"

namespace smelt {
namespace {

using plan::CostTable;
using plan::DirectedCosts;
using plan::Direction;
using plan::RankCosts;

/// A machine with its group and their tables.
struct Case {
  Case(Machine of, Group by) : machine(std::move(of)), group(std::move(by)), ranks(machine, group) {}
  Machine machine;
  Group group;
  RankCosts ranks;
  CostTable table(Direction direction) const { return CostTable(DirectedCosts(ranks, direction)); }
};

Case random_case(int n, std::uint32_t seed, int nodes = 2) {
  Machine machine = test::random_machine(n, seed, nodes);
  Group group = whole_machine(machine);
  return {std::move(machine), std::move(group)};
}

PlanOptions quickly(const char* topology = "best", std::optional<int> root = {}, double search_ms = 0.0) {
  PlanOptions options;
  options.topology = topology;
  options.root = root;
  options.search_ms = search_ms;
  return options;
}

// ---- costs ----------------------------------------------------------------------------------

void expect_tables_of(const Case& one) {
  const auto& pus = one.group.pus;
  for (const Direction direction : {Direction::broadcast, Direction::reduce}) {
    const CostTable table = one.table(direction);
    const DirectedCosts exact(one.ranks, direction);
    ASSERT_EQ(table.size(), one.group.size());
    std::vector<float> sends, latencies, edges;
    for (int p = 0; p < table.size(); ++p) {
      for (int c = 0; c < table.size(); ++c) {
        if (p == c) {
          EXPECT_EQ(table.edge(p, c), 0.0F);
          continue;
        }
        const bool down = direction == Direction::broadcast;
        const auto from = static_cast<std::size_t>(pus[down ? p : c]), to = static_cast<std::size_t>(pus[down ? c : p]);
        if (from != to) {
          const double way = one.machine.propagation_ns ? (*one.machine.propagation_ns)(from, to) : 0.0;
          const double sent = one.machine.send_ns(from, to), taken = one.machine.recv_ns(from, to);
          const auto& gaps = down ? one.machine.send_gap_ns : one.machine.recv_gap_ns;
          const double gap = gaps ? (*gaps)(from, to) : down ? sent : taken;
          ASSERT_DOUBLE_EQ(exact.send(p, c), gap);
          ASSERT_NEAR(exact.latency(p, c), sent + way + taken - gap, 1e-9);
          ASSERT_DOUBLE_EQ(one.ranks.message(down ? p : c, down ? c : p), sent + way + taken);
        }
        ASSERT_FLOAT_EQ(table.send(p, c), static_cast<float>(exact.send(p, c))) << p << ' ' << c;
        ASSERT_FLOAT_EQ(table.latency(p, c), static_cast<float>(exact.latency(p, c))) << p << ' ' << c;
        ASSERT_EQ(table.edge(p, c), table.edge_row(p, edges)[c]);
        ASSERT_EQ(table.send(p, c), table.send_row(p, sends)[c]);
        ASSERT_EQ(table.latency(p, c), table.latency_row(p, latencies)[c]);
        ASSERT_FLOAT_EQ(table.edge(p, c), table.send_row(p, sends)[c] + table.latency_row(p, latencies)[c]);
      }
    }
  }
}

/// What of a machine's costs in a row is known beside those of lone messages.
enum class Measured { nothing, propagation, sends, receives, both };

Machine random_machine_with(int n, Measured measured) {
  Machine machine = test::random_machine(n, static_cast<std::uint32_t>(n));
  if (measured == Measured::nothing) return machine;
  machine.propagation_ns = test::random_machine(n, 99).recv_ns;
  if (measured == Measured::propagation) return machine;
  machine = test::with_gaps(std::move(machine), 7);
  if (measured == Measured::sends) machine.recv_gap_ns.reset();
  if (measured == Measured::receives) machine.send_gap_ns.reset();
  return machine;
}

// Sizes around those of the tiles in which tables are made.
TEST(Costs, TablesAreFromTheParentsView) {
  for (const int n : {1, 2, 31, 32, 33, 65, 70}) {
    for (const Measured measured :
         {Measured::nothing, Measured::propagation, Measured::sends, Measured::receives, Measured::both}) {
      const Machine machine = random_machine_with(n, measured);
      Group shuffled = whole_machine(machine), shared = shuffled, reversed = shuffled, gap = shuffled;
      std::shuffle(shuffled.pus.begin(), shuffled.pus.end(), std::minstd_rand(3));
      std::reverse(reversed.pus.begin(), reversed.pus.end());
      for (int& pu : shared.pus) pu /= 2;
      if (n > 2) gap.pus.erase(gap.pus.begin() + n / 2);
      for (const Group& group : {whole_machine(machine), shuffled, shared, reversed, gap}) {
        expect_tables_of({machine, group});
      }
    }
  }
}

// Whichever pair it is, and in whatever order.
TEST(Costs, RanksThatShareAPuPayWhatTheCheapestPairPays) {
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      Machine machine = test::uniform_machine(5, 50.0, 60.0);
      const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
      machine.send_ns(i, j) = 7.0;
      machine.recv_ns(i, j) = 9.0;
      machine.send_ns(4, 0) = machine.recv_ns(4, 0) = 1.0;  // of a PU that takes no part
      machine.exchange_ns = Matrix(5, 3.0);
      machine.propagation_ns = Matrix(5, 2.0);
      const Group group{{0, 1, 2, 3, a}};
      const RankCosts costs(machine, group);
      EXPECT_TRUE(costs.shares_pus());
      EXPECT_EQ(costs.send(a, 4), 7.0);
      EXPECT_EQ(costs.recv(4, a), 9.0);
      EXPECT_EQ(costs.propagation(4, a), 0.0);
      EXPECT_EQ(costs.message(4, a), 16.0);
      EXPECT_EQ(costs.exchange(4, a), 16.0);
      EXPECT_EQ(costs.exchange(a, b), 3.0);
      EXPECT_EQ(costs.send(4, b), 7.0) << "as the PU that it is on";
    }
  }
  const Machine machine = test::uniform_machine(2, 50.0, 60.0);
  EXPECT_EQ(RankCosts(machine, Group{{1, 1}}).message(0, 1), 20.0) << "nothing is known";
  EXPECT_FALSE(RankCosts(machine, Group{{1, 0}}).shares_pus());
}

// Which have no table of all pairs.
TEST(Costs, RowsOfLargeGroupsOnMachinesOfClasses) {
  Machine machine = *synthesize_machine({.packages = 2, .numa_per_package = 2, .cores = 160, .l3 = 4});
  ASSERT_NE(machine.send_ns.classes(), nullptr);
  const int size = static_cast<int>(machine.size()), ranks = CostTable::most_dense_ranks + 3;
  Group group;
  for (int rank = 0; rank < ranks; ++rank) group.pus.push_back(rank * 7 % size);
  const Case one(std::move(machine), std::move(group));
  for (const Direction direction : {Direction::broadcast, Direction::reduce}) {
    const CostTable table = one.table(direction);
    const DirectedCosts exact(one.ranks, direction);
    std::vector<float> sends, latencies, edges;
    for (const int p : {0, 5, ranks - 1}) {
      const float *send = table.send_row(p, sends), *latency = table.latency_row(p, latencies),
                  *edge = table.edge_row(p, edges);
      for (int c = 0; c < ranks; ++c) {
        if (c == p) continue;
        ASSERT_FLOAT_EQ(send[c], static_cast<float>(exact.send(p, c))) << p << ' ' << c;
        ASSERT_FLOAT_EQ(latency[c], static_cast<float>(exact.latency(p, c))) << p << ' ' << c;
        ASSERT_FLOAT_EQ(edge[c], send[c] + latency[c]) << p << ' ' << c;
        ASSERT_EQ(table.send(p, c), send[c]);
        ASSERT_EQ(table.latency(p, c), latency[c]);
      }
    }
  }
}

TEST(Costs, CallsOfBarriersHaveTheirOwnCostAndSingleRanksNone) {
  Machine machine = test::uniform_machine(3, 5.0, 6.0);
  EXPECT_EQ(RankCosts(machine, Group{{0, 1}}).call(Operation::reduce), 0.0);
  machine.call_ns = 9.0;
  EXPECT_EQ(RankCosts(machine, Group{{0, 1}}).call(Operation::reduce), 9.0);
  EXPECT_EQ(RankCosts(machine, Group{{0}}).call(Operation::reduce), 0.0);
  EXPECT_EQ(RankCosts(machine, Group{{0, 1}}).call(Operation::barrier), 0.0);
  const Group group = whole_machine(machine);
  const PlanOptions options = quickly("sequential", 0);
  const auto plan = *make_plan(machine, group, Operation::broadcast, options);
  EXPECT_EQ(plan.arrival_ns, (std::vector<double>{0.0, 20.0, 25.0})) << "the root has it before";
  const auto run = *simulate(machine, plan);
  EXPECT_EQ(run.arrival_ns, plan.arrival_ns);
  EXPECT_EQ(run.total_ns, 25.0);
  EXPECT_EQ(run.completion_ns, 25.0 + 11.0);
  EXPECT_EQ(run.timeline.front().start_ns, 9.0);
  EXPECT_EQ(run.timeline.front().end_ns, 14.0);
  EXPECT_EQ(make_plan(machine, group, Operation::barrier, options)->predicted_ns, 17.0 + 16.0);
  machine.barrier_call_ns = 4.0;
  EXPECT_EQ(make_plan(machine, group, Operation::barrier, options)->predicted_ns, 4.0 + 17.0 + 16.0);
  EXPECT_EQ(RankCosts(machine, Group{{0, 1}}).call(Operation::reduce), 9.0);
  EXPECT_EQ(RankCosts(machine, Group{{0}}).call(Operation::barrier), 0.0);
}

// ---- textbook trees -------------------------------------------------------------------------

int digit_cleared(int position, int radix) {
  int weight = 1;
  while (position / weight % radix == 0) weight *= radix;
  return position - position % (weight * radix);
}

TEST(Rules, ParentsByPosition) {
  for (const int n : {1, 2, 3, 8, 9, 27, 50}) {
    for (const int root : {0, n / 2, n - 1}) {
      const auto expect_parents = [&](const Tree& tree, const std::function<int(int)>& parent_of) {
        EXPECT_EQ(tree.root, root);
        const auto parents = tree.parents();
        for (int position = 1; position < n; ++position) {
          EXPECT_EQ(parents[static_cast<std::size_t>((root + position) % n)], (root + parent_of(position)) % n) << n;
        }
        EXPECT_EQ(parents[static_cast<std::size_t>(root)], -1);
      };
      expect_parents(plan::sequential_tree(n, root), [](int) { return 0; });
      expect_parents(plan::chain_tree(n, root), [](int position) { return position - 1; });
      expect_parents(plan::binary_tree(n, root), [](int position) { return (position - 1) / 2; });
      for (const int radix : {2, 3, 4, 7}) {
        expect_parents(plan::k_nomial_tree(n, root, radix),
                       [=](int position) { return digit_cleared(position, radix); });
      }
    }
  }
}

/// Size of the subtree; fails unless it is a Fibonacci tree of that order: of orders k - 1 and k - 2 below.
int check_fibonacci(const Tree& tree, int rank, int order) {
  const auto& children = tree.children[static_cast<std::size_t>(rank)];
  EXPECT_EQ(children.size(), static_cast<std::size_t>(std::max(0, std::min(2, order - 1))));
  int size = 1, below = order - 1;
  for (const int child : children) size += check_fibonacci(tree, child, below--);
  return size;
}

TEST(Rules, FibonacciTreesAreOfTheOrdersBelow) {
  for (const auto& [order, size] : {std::pair{1, 1}, {2, 2}, {3, 4}, {4, 7}, {5, 12}, {6, 20}, {7, 33}}) {
    EXPECT_EQ(check_fibonacci(plan::fibonacci_tree(size, 0), 0, order), size);
  }
}

TEST(Rules, LateRanksAreLeavesOfTheRoot) {
  const Tree chain = plan::chain_tree(6, 0);
  EXPECT_EQ(plan::with_late_leaves(chain, {0, 0, 0, 0, 0, 0}), chain);
  EXPECT_EQ(plan::with_late_leaves(chain, {1, 2, 3, 4, 5, 6}), chain) << "nobody is in time";
  const Tree two = plan::with_late_leaves(chain, {0, 9, 0, 0, 4, 0});
  EXPECT_EQ(two, (Tree{0, {{2, 5, 4, 1}, {}, {3}, {}, {}, {}}}));
  const Tree turned = plan::with_late_leaves(chain, {5, 0, 0, 7, 0, 0});
  EXPECT_EQ(turned, (Tree{1, {{}, {2, 4, 0, 3}, {}, {}, {5}, {}}}));
}

TEST(Rules, SpanningIsChecked) {
  EXPECT_TRUE(plan::is_spanning({0, {{1}, {2}, {}}}));
  EXPECT_TRUE(plan::is_spanning({0, {{}}}));
  for (const Tree& tree :
       {Tree{}, Tree{0, {{1}, {}, {}}}, Tree{0, {{1, 2}, {2}, {}}}, Tree{0, {{1}, {0}, {}}}, Tree{0, {{1, 3}, {2}, {}}},
        Tree{0, {{1, -1}, {2}, {}}}, Tree{3, {{1}, {2}, {}}}, Tree{-1, {{1}, {2}, {}}}}) {
    EXPECT_FALSE(plan::is_spanning(tree));
  }
  const Machine machine = test::uniform_machine(3, 1.0, 1.0);
  const Group group = whole_machine(machine);
  const Tree chain = plan::chain_tree(3, 0);
  EXPECT_EQ(reroot(machine, group, chain, 3), chain);
  EXPECT_EQ(reroot(machine, group, chain, -1), chain);
  EXPECT_EQ(reroot(machine, Group{{0, 1}}, chain, 1), chain);
  EXPECT_EQ(reroot(machine, group, chain, 2), (Tree{2, {{}, {0}, {1}}}));
}

// ---- trees from costs -----------------------------------------------------------------------

Tree slow_prim(const CostTable& costs, int root, bool dearest) {
  std::vector<int> parents(static_cast<std::size_t>(costs.size()), -1);
  std::vector<int> inside{root};
  while (static_cast<int>(inside.size()) < costs.size()) {
    int from = -1, to = -1;
    for (const int p : inside) {
      for (int c = 0; c < costs.size(); ++c) {
        if (std::find(inside.begin(), inside.end(), c) != inside.end()) continue;
        const float edge = costs.edge(p, c);
        if (from < 0 || (dearest ? edge > costs.edge(from, to) : edge < costs.edge(from, to))) {
          from = p;
          to = c;
        }
      }
    }
    parents[static_cast<std::size_t>(to)] = from;
    inside.push_back(to);
  }
  return plan::from_parents(parents);
}

Tree slow_greedy(const CostTable& costs, int root) {
  Tree tree{root, std::vector<std::vector<int>>(static_cast<std::size_t>(costs.size()))};
  std::vector<float> idle(tree.children.size(), -1.0F);  // -1: has nothing
  idle[static_cast<std::size_t>(root)] = 0.0F;
  for (int count = 1; count < costs.size(); ++count) {
    int from = -1, to = -1;
    const auto end = [&](int p, int c) { return idle[static_cast<std::size_t>(p)] + costs.edge(p, c); };
    for (int p = 0; p < costs.size(); ++p) {
      for (int c = 0; c < costs.size(); ++c) {
        if (idle[static_cast<std::size_t>(p)] < 0 || idle[static_cast<std::size_t>(c)] >= 0) continue;
        if (from < 0 || end(p, c) < end(from, to)) {
          from = p;
          to = c;
        }
      }
    }
    const auto f = static_cast<std::size_t>(from), t = static_cast<std::size_t>(to);
    tree.children[f].push_back(to);
    idle[f] += costs.send(from, to);
    idle[t] = idle[f] + costs.latency(from, to);
  }
  return tree;
}

/// Whoever is idle first looks at all that wait, but for those of other nodes to which a message is on its way. The
/// dearest decides on the node: its own rank is served, or the one of the other node to which a send costs least.
Tree slow_adaptive(const RankCosts& ranks, const CostTable& costs, int root) {
  const auto n = static_cast<std::size_t>(costs.size());
  const auto node = [&](std::size_t rank) { return ranks.pu(static_cast<int>(rank)).numa_node; };
  Tree tree{root, std::vector<std::vector<int>>(n)};
  std::vector<double> idle(n, -1.0);  // -1: has nothing
  std::vector<bool> waits(n, true), over(n, false);
  std::set<int> active = {node(static_cast<std::size_t>(root))};
  idle[static_cast<std::size_t>(root)] = 0.0;
  waits[static_cast<std::size_t>(root)] = false;
  for (;;) {
    std::size_t from = n, dearest = n;
    for (std::size_t rank = 0; rank < n; ++rank) {
      if (idle[rank] >= 0 && !over[rank] && (from == n || idle[rank] < idle[from])) from = rank;
    }
    if (from == n) return tree;
    const int p = static_cast<int>(from);
    for (std::size_t rank = 0; rank < n; ++rank) {
      if (!waits[rank] || (active.contains(node(rank)) && node(rank) != node(from))) continue;
      if (dearest == n || costs.edge(p, static_cast<int>(rank)) > costs.edge(p, static_cast<int>(dearest)))
        dearest = rank;
    }
    if (dearest == n) {
      over[from] = true;
      continue;
    }
    std::size_t to = dearest;
    for (std::size_t rank = 0; rank < n && node(dearest) != node(from); ++rank) {
      const bool there = waits[rank] && node(rank) == node(dearest);
      if (there && costs.send(p, static_cast<int>(rank)) < costs.send(p, static_cast<int>(to))) to = rank;
    }
    const int c = static_cast<int>(to);
    active.insert(node(to));
    waits[to] = false;
    tree.children[from].push_back(c);
    const double now = idle[from];
    idle[from] = now + costs.send(p, c);
    idle[to] = now + costs.send(p, c) + costs.latency(p, c);
  }
}

/// Shortest paths over edges that are at most as dear as the dearest of a minimum spanning tree.
std::vector<float> slow_stream(const CostTable& costs, int root) {
  const Tree spanning = slow_prim(costs, root, false);
  float most = 0.0F;
  for (int p = 0; p < costs.size(); ++p) {
    for (const int c : spanning.children[static_cast<std::size_t>(p)]) most = std::max(most, costs.edge(p, c));
  }
  std::vector<float> distance(static_cast<std::size_t>(costs.size()), std::numeric_limits<float>::infinity());
  distance[static_cast<std::size_t>(root)] = 0.0F;
  for (int round = 0; round < costs.size(); ++round) {
    for (int p = 0; p < costs.size(); ++p) {
      for (int c = 0; c < costs.size(); ++c) {
        if (p == c || costs.edge(p, c) > most) continue;
        auto& known = distance[static_cast<std::size_t>(c)];
        known = std::min(known, distance[static_cast<std::size_t>(p)] + costs.edge(p, c));
      }
    }
  }
  return distance;
}

float path_cost(const CostTable& costs, const Tree& tree, int rank) {
  const auto parents = tree.parents();
  float sum = 0.0F;
  for (int at = rank; parents[static_cast<std::size_t>(at)] >= 0; at = parents[static_cast<std::size_t>(at)]) {
    sum += costs.edge(parents[static_cast<std::size_t>(at)], at);
  }
  return sum;
}

TEST(FromCosts, TreesFollowTheirRules) {
  for (std::uint32_t seed = 1; seed <= 25; ++seed) {
    const int n = 1 + static_cast<int>(seed % 12);
    const Case one = random_case(n, seed, 1 + static_cast<int>(seed % 3));
    const CostTable table = one.table(seed % 2 == 0 ? Direction::broadcast : Direction::reduce);
    for (const int root : {0, n - 1}) {
      EXPECT_EQ(plan::prim_tree(table, root, false), slow_prim(table, root, false));
      EXPECT_EQ(plan::prim_tree(table, root, true), slow_prim(table, root, true));
      EXPECT_EQ(plan::greedy_tree(table, root), slow_greedy(table, root));
      EXPECT_EQ(plan::adaptive_tree(one.ranks, table, root), slow_adaptive(one.ranks, table, root));
      const Tree stream = plan::stream_tree(table, root);
      const auto distances = slow_stream(table, root);
      EXPECT_TRUE(plan::is_spanning(stream));
      for (int rank = 0; rank < n; ++rank) {
        EXPECT_FLOAT_EQ(path_cost(table, stream, rank), distances[static_cast<std::size_t>(rank)]);
      }
    }
    int cheapest = 0;
    std::vector<double> sums(static_cast<std::size_t>(n), 0.0);
    for (int p = 0; p < n; ++p) {
      for (int c = 0; c < n; ++c) sums[static_cast<std::size_t>(p)] += table.send(p, c);
      if (sums[static_cast<std::size_t>(p)] < sums[static_cast<std::size_t>(cheapest)]) cheapest = p;
    }
    EXPECT_EQ(plan::cheapest_sender(table), cheapest);
  }
}

TEST(FromCosts, AdaptiveTreesOfManyNodes) {
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    const int n = 10 + 3 * static_cast<int>(seed);
    const Case one = random_case(n, seed, 2 + static_cast<int>(seed % 6));
    for (const Direction direction : {Direction::broadcast, Direction::reduce}) {
      const CostTable table = one.table(direction);
      for (const int root : {0, n / 2, n - 1}) {
        EXPECT_EQ(plan::adaptive_tree(one.ranks, table, root), slow_adaptive(one.ranks, table, root)) << n;
      }
    }
  }
}

// Whoever is idle first sends to whoever is done last, as long as that helps.
TEST(FromCosts, ShufflingStopsWhereItNoLongerHelps) {
  int better = 0;
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const Case one = random_case(3 + static_cast<int>(seed % 12), seed, 1 + static_cast<int>(seed % 3));
    const CostTable table = one.table(Direction::broadcast);
    Tree ordered = plan::adaptive_tree(one.ranks, table, 0);
    const double before = plan::order_sends(table, ordered);
    Tree tree = plan::optimize_adaptive(table, ordered);
    EXPECT_TRUE(plan::is_spanning(tree));
    const double time = plan::tree_time(table, tree);
    EXPECT_LE(time, before);
    better += time < before;
    const auto times = plan::schedule(table, tree);
    const auto first = std::min_element(times.idle.begin(), times.idle.end()) - times.idle.begin();
    const auto last = std::max_element(times.arrival.begin(), times.arrival.end()) - times.arrival.begin();
    if (first == last) continue;
    Tree next = tree;
    std::erase(next.children[static_cast<std::size_t>(tree.parents()[static_cast<std::size_t>(last)])],
               static_cast<int>(last));
    next.children[static_cast<std::size_t>(first)].push_back(static_cast<int>(last));
    if (!plan::is_spanning(next)) continue;  // it would be its own parent's
    const bool promising = table.edge(static_cast<int>(first), static_cast<int>(last)) <
                           times.arrival[static_cast<std::size_t>(last)] - times.idle[static_cast<std::size_t>(first)];
    if (promising) {
      EXPECT_GE(plan::order_sends(table, next), time);
    }
  }
  EXPECT_GT(better, 5);
}

TEST(FromCosts, ReadyTimesDelayWhatARankServes) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> late(0.0, 200.0);
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const Case one = random_case(8, seed);
    const CostTable table = one.table(Direction::reduce);
    std::vector<double> ready(8);
    for (double& each : ready) each = late(random);
    Tree tree = plan::k_nomial_tree(8, 0, 2 + static_cast<int>(seed % 3));
    const double time = plan::order_sends(table, tree, ready);
    const std::function<double(int)> need = [&](int p) {
      double sent = 0.0, most = 0.0;
      for (const int c : tree.children[static_cast<std::size_t>(p)]) {
        sent += table.send(p, c);
        most = std::max(most, sent + table.latency(p, c) + need(c));
      }
      return std::max(most, ready[static_cast<std::size_t>(p)] + sent);
    };
    EXPECT_NEAR(time, need(0), 1e-9);
    const plan::TreeState state(table, tree, std::vector<float>(ready.begin(), ready.end()));
    EXPECT_NEAR(state.time(), time, 1e-3);
    EXPECT_GE(time, ready[0]);
  }
}

// The last rank on the way that takes longest is picked, or one served before it.
TEST(FromCosts, CriticalRanksDetermineTheTime) {
  const Case one = random_case(12, 6);
  const CostTable table = one.table(Direction::broadcast);
  Tree tree = plan::k_nomial_tree(12, 0, 2);
  plan::order_sends(table, tree);
  const plan::TreeState state(table, tree);
  const auto at = test::arrivals(one.machine, tree);
  const auto last = static_cast<int>(std::max_element(at.begin(), at.end()) - at.begin());
  std::set<int> critical;
  const auto parents = tree.parents();
  for (int rank = last; rank != 0; rank = parents[static_cast<std::size_t>(rank)]) {
    for (const int sibling : tree.children[static_cast<std::size_t>(parents[static_cast<std::size_t>(rank)])]) {
      critical.insert(sibling);
      if (sibling == rank) break;
    }
  }
  plan::Random random(1);
  std::set<int> picked;
  for (int i = 0; i < 2000; ++i) picked.insert(state.pick_critical(random));
  EXPECT_EQ(picked, critical);
}

TEST(FromCosts, ExactTreesTakeWhatTheySay) {
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    const int n = 2 + static_cast<int>(seed % 7);
    const Case one = random_case(n, seed, 2);
    plan::ExactTrees exact(DirectedCosts(one.ranks, Direction::broadcast));
    ASSERT_TRUE(exact.solve([] { return false; }));
    for (int root = 0; root < n; ++root) {
      const Tree tree = exact.tree(root);
      EXPECT_EQ(tree.root, root);
      EXPECT_NEAR(test::time_of(one.machine, tree), exact.time(root), 1e-9);
    }
  }
  const Case ten = random_case(10, 1);
  EXPECT_FALSE(plan::ExactTrees(DirectedCosts(ten.ranks, Direction::broadcast)).solve([] { return true; }));
  EXPECT_DOUBLE_EQ(plan::ExactTrees::steps(4), 4 * 27.0);
}

// ---- several levels -------------------------------------------------------------------------

/// Costs that depend on the level alone at which two PUs are apart: cores of an L3, L3s of a package, packages.
Machine leveled_machine(int packages, int caches, int cores) {
  const int n = packages * caches * cores;
  Machine machine = test::random_machine(n, 1);
  for (int i = 0; i < n; ++i) {
    Pu& pu = machine.pus[static_cast<std::size_t>(i)];
    pu.package = pu.numa_node = i / (caches * cores);
    pu.l3 = i / cores;
    pu.core = i;
  }
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      const auto &a = machine.pus[static_cast<std::size_t>(i)], &b = machine.pus[static_cast<std::size_t>(j)];
      const double scale = i == j ? 0.0 : a.l3 == b.l3 ? 1.0 : a.package == b.package ? 2.0 : 5.0;
      machine.send_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)) = 4.0 * scale;
      machine.recv_ns(static_cast<std::size_t>(i), static_cast<std::size_t>(j)) = 10.0 * scale;
    }
  }
  return machine;
}

using Counts = std::vector<int>;  ///< per level: units still to be informed

/// The least time by the recurrence of hierarchy.cpp, for levels of `parts` each whose messages cost `scale` times
/// 4, 10.
double time_by_counts(const Counts& left, const Counts& parts, const std::vector<double>& scale,
                      std::map<Counts, double>& known) {
  if (const auto found = known.find(left); found != known.end()) return found->second;
  double best = left == Counts(left.size(), 0) ? 0.0 : std::numeric_limits<double>::infinity();
  for (std::size_t level = 0; level < left.size(); ++level) {
    if (left[level] == 0) continue;
    Counts handed(left.size(), 0), rest = left;
    for (std::size_t below = 0; below < level; ++below) handed[below] = parts[below] - 1;
    --rest[level];
    const auto every_split = [&](auto&& self, std::size_t at) -> void {
      if (at == left.size()) {
        const double reached = 10.0 * scale[level] + time_by_counts(handed, parts, scale, known);
        best = std::min(best, 4.0 * scale[level] + std::max(reached, time_by_counts(rest, parts, scale, known)));
        return;
      }
      const int all = rest[at];
      for (int given = 0; given <= all; ++given) {
        handed[at] = given;
        rest[at] = all - given;
        self(self, at + 1);
      }
      handed[at] = 0;
      rest[at] = all;
    };
    every_split(every_split, level);
  }
  return known[left] = best;
}

TEST(Levels, HierarchicalTreesAreThoseOfTheCounts) {
  for (const auto& [packages, caches, cores] :
       {std::tuple{2, 1, 4}, {2, 2, 2}, {1, 3, 3}, {3, 1, 3}, {2, 1, 5}, {2, 3, 4}, {4, 2, 2}, {1, 1, 7}}) {
    const Machine machine = leveled_machine(packages, caches, cores);
    const Case one(machine, whole_machine(machine));
    const CostTable table = one.table(Direction::broadcast);
    Counts parts;
    std::vector<double> scale;
    for (const auto& [count, dearer] : {std::pair{cores, 1.0}, {caches, 2.0}, {packages, 5.0}}) {
      if (count == 1) continue;
      parts.push_back(count);
      scale.push_back(dearer);
    }
    Counts all = parts;
    for (int& count : all) --count;
    std::map<Counts, double> known;
    const double expected = time_by_counts(all, parts, scale, known);
    const plan::HierarchyPlanner planner(one.ranks, table);
    for (const int root : {0, one.group.size() / 2}) {
      const Tree tree = planner.tree(root);
      ASSERT_TRUE(plan::is_spanning(tree));
      EXPECT_NEAR(plan::tree_time(table, tree), expected, 1e-3) << packages << caches << cores;
    }
  }
}

TEST(Levels, UnevenGroupsAreSpanned) {
  const Machine machine = leveled_machine(3, 2, 4);
  std::mt19937 random(2);
  for (int turn = 0; turn < 20; ++turn) {
    Group group = whole_machine(machine);
    std::shuffle(group.pus.begin(), group.pus.end(), random);
    group.pus.resize(1 + random() % group.pus.size());
    const Case one(machine, group);
    const CostTable table = one.table(Direction::reduce);
    const plan::HierarchyPlanner planner(one.ranks, table);
    for (int root = 0; root < group.size(); ++root) EXPECT_TRUE(plan::is_spanning(planner.tree(root)));
  }
}

// On machines of one level both bounds are sharp; on others the message to the farthest rank is one.
TEST(Bounds, AreSharpWhereCostsAreUniform) {
  for (int n = 1; n <= 9; ++n) {
    for (const auto& [send, recv] : {std::pair{3.0, 7.0}, {7.0, 3.0}, {1.0, 1.0}}) {
      const Machine machine = test::uniform_machine(n, send, recv);
      const Case one(machine, whole_machine(machine));
      plan::ExactTrees exact(DirectedCosts(one.ranks, Direction::broadcast));
      ASSERT_TRUE(exact.solve([] { return false; }));
      for (const std::optional<int> root : {std::optional<int>{}, std::optional<int>{n - 1}}) {
        EXPECT_NEAR(plan::lower_bound(one.table(Direction::broadcast), one.ranks, root, true), exact.time(0), 1e-3);
      }
    }
  }
}

TEST(Bounds, ReachTheFarthestRank) {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    const int n = 2 + static_cast<int>(seed % 6);
    const Case one = random_case(n, seed, 1 + static_cast<int>(seed % 2));
    const CostTable table = one.table(Direction::broadcast);
    std::vector<float> cheapest;
    for (int c = 0; c < n; ++c) {
      float least = std::numeric_limits<float>::infinity();
      for (int p = 0; p < n; ++p) least = p == c ? least : std::min(least, table.edge(p, c));
      cheapest.push_back(least);
    }
    for (int root = -1; root < n; ++root) {
      auto reached = cheapest;
      if (root < 0) {
        std::sort(reached.begin(), reached.end());
        reached.pop_back();
      } else {
        reached.erase(reached.begin() + root);
      }
      const float reach = *std::max_element(reached.begin(), reached.end());
      const auto given = root < 0 ? std::nullopt : std::optional<int>(root);
      EXPECT_GE(plan::lower_bound(table, one.ranks, given, false), reach * (1 - 1e-5F));
    }
  }
}

// Two levels: with the costs of each level as they are the bound knows how often the far one is crossed.
TEST(Bounds, GrowLevelByLevel) {
  for (const auto& [packages, caches, cores] : {std::tuple{2, 1, 4}, {3, 1, 3}, {2, 2, 2}, {1, 3, 3}}) {
    const Machine machine = leveled_machine(packages, caches, cores);
    const Case one(machine, whole_machine(machine));
    plan::ExactTrees exact(DirectedCosts(one.ranks, Direction::broadcast));
    ASSERT_TRUE(exact.solve([] { return false; }));
    const double bound = plan::lower_bound(one.table(Direction::broadcast), one.ranks, 0, true);
    EXPECT_LE(bound, exact.time(0));
    EXPECT_GE(bound, 0.75 * exact.time(0))
        << packages << caches << cores << " bound " << bound << " of " << exact.time(0);
  }
}

// ---- search ---------------------------------------------------------------------------------

// What a search without a budget finds is close to the optimum, and what it says of it is so.
TEST(Search, IsCloseToTheOptimum) {
  double worst = 1.0;
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    const int n = 9 + static_cast<int>(seed % 3);
    const Machine machine = test::random_machine(n, seed, 2);
    const Group group = whole_machine(machine);
    for (const auto operation : {Operation::broadcast, Operation::reduce}) {
      const auto best = *make_plan(machine, group, operation, quickly());
      const auto optimal = *make_plan(machine, group, operation, quickly("optimal"));
      EXPECT_TRUE(optimal.optimal);
      EXPECT_EQ(optimal.topology, "optimal");
      EXPECT_DOUBLE_EQ(*optimal.lower_bound_ns, optimal.predicted_ns);
      EXPECT_GE(best.predicted_ns, optimal.predicted_ns * (1 - 1e-12));
      EXPECT_LE(*best.lower_bound_ns, optimal.predicted_ns * (1 + 1e-12));
      worst = std::max(worst, best.predicted_ns / optimal.predicted_ns);
    }
  }
  EXPECT_LT(worst, 1.25);
}

TEST(Search, KeepsTheRootThatIsGiven) {
  const Machine machine = test::random_machine(14, 2, 3);
  for (const auto operation : {Operation::broadcast, Operation::reduce, Operation::barrier, Operation::allreduce,
                               Operation::two_phase_commit}) {
    for (const double search_ms : {0.0, 20.0}) {
      for (const int root : {0, 5, 13}) {
        const auto plan = *make_plan(machine, whole_machine(machine), operation, quickly("best", root, search_ms));
        for (const auto* tree : {&plan.broadcast_tree, &plan.reduce_tree}) {
          if (*tree) {
            EXPECT_EQ((*tree)->root, root);
          }
        }
      }
    }
  }
}

TEST(Search, ATimeBudgetIsUsedAndPaysOff) {
  const Machine machine = test::random_machine(30, 2, 3);
  const Group group = whole_machine(machine);
  for (const auto operation : {Operation::broadcast, Operation::barrier, Operation::two_phase_commit}) {
    const auto quick = *make_plan(machine, group, operation, quickly());
    const auto longer = *make_plan(machine, group, operation, quickly("best", {}, 60.0));
    EXPECT_LE(longer.predicted_ns, quick.predicted_ns * 1.02);
    EXPECT_GE(longer.search_ms, 40.0);
  }
}

TEST(Search, IsNeverWorseThanNone) {
  constexpr double hardly_any_ms = 0.001;
  for (const int ranks : {14, 30, 100}) {
    const Machine machine = test::random_machine(ranks, 2, 3);
    const Group group = whole_machine(machine);
    for (const auto operation : {Operation::broadcast, Operation::barrier, Operation::two_phase_commit}) {
      const auto none = *make_plan(machine, group, operation, quickly());
      const auto some = *make_plan(machine, group, operation, quickly("best", {}, hardly_any_ms));
      EXPECT_LE(some.predicted_ns, none.predicted_ns) << ranks << ' ' << static_cast<int>(operation);
    }
  }
}

TEST(Comparisons, AreSortedAndOfAllThatFits) {
  for (const int n : {5, 12, 13}) {
    const Machine machine = test::random_machine(n, 2, 2);
    const auto barrier =
        *compare_topologies(machine, whole_machine(machine), Operation::barrier, quickly("best", {}, 1.0));
    const auto reduce = *compare_topologies(machine, whole_machine(machine), Operation::reduce, quickly());
    const auto has = [](const std::vector<Comparison>& list, const std::string& name) {
      return std::any_of(list.begin(), list.end(), [&](const Comparison& each) { return each.topology == name; });
    };
    EXPECT_TRUE(has(barrier, "dissemination"));
    EXPECT_FALSE(has(reduce, "dissemination"));
    EXPECT_EQ(has(reduce, "optimal"), n <= 12);
    EXPECT_EQ(reduce.size(), topologies().size() - (n <= 12 ? 1 : 2));
    for (std::size_t i = 1; i < reduce.size(); ++i) EXPECT_LE(reduce[i - 1].predicted_ns, reduce[i].predicted_ns);
  }
}

TEST(Reasons, SayWhatWasFound) {
  const Machine machine = test::random_machine(6, 2, 2);
  const auto reason = [&](const Machine& of, int n, Operation operation) {
    Group group;
    for (int i = 0; i < n; ++i) group.pus.push_back(i);
    return make_plan(of, group, operation, quickly())->reason;
  };
  EXPECT_EQ(reason(machine, 1, Operation::broadcast), "one rank: nothing to communicate");
  const auto proved = reason(machine, 6, Operation::broadcast);
  EXPECT_TRUE(proved.ends_with("; proved optimal")) << proved;
  const Machine two = test::uniform_machine(2, 3.0, 4.0);
  EXPECT_EQ(reason(two, 2, Operation::broadcast), "sequential is as fast as anything found (7 ns); proved optimal");
  Machine calls = two;
  calls.call_ns = 10.0;
  EXPECT_EQ(reason(calls, 2, Operation::broadcast), "sequential is as fast as anything found (17 ns); proved optimal");
  // What is not proved: how far it may be from the optimum, with what a call costs on both sides.
  Machine many = test::random_machine(30, 2, 2);
  many.call_ns = 500.0;
  const auto plan = *make_plan(many, whole_machine(many), Operation::broadcast, quickly());
  ASSERT_TRUE(plan.lower_bound_ns);
  const double bound_ns = *plan.lower_bound_ns;
  ASSERT_GT(plan.predicted_ns, bound_ns);
  EXPECT_GT(bound_ns, many.call_ns);
  const auto rounded = [](double number) { return std::to_string(std::lround(number)); };
  EXPECT_NE(plan.reason.find(" " + rounded(plan.predicted_ns) + " ns"), std::string::npos) << plan.reason;
  EXPECT_TRUE(plan.reason.ends_with("; at most " + rounded((plan.predicted_ns / bound_ns - 1.0) * 100.0) +
                                    " % above the lower bound of " + rounded(bound_ns) + " ns"))
      << plan.reason;
}

}  // namespace
}  // namespace smelt
