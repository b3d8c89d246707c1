// Compares each built-in program with plain sequential code on 50 small graphs and Kronecker graphs with 1, 2, 3 and 8
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <random>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "graph/run/small_graphs.hpp"
#include "smelt/graph_algorithms.hpp"

namespace smelt::graph {
namespace {

using test::Plain;
using test::small_graphs;
using test::thread_counts;
using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;

constexpr std::int32_t infinite = INT32_MAX;

BuildOptions options(bool undirected, bool simple) {
  BuildOptions result;
  result.undirected = undirected;
  result.simple = simple;
  return result;
}

#ifdef SMELT_SANITIZED  // slower by a factor of 10
constexpr int large_scale = 11;
#else
constexpr int large_scale = 16;
#endif

/// With fewer edges where a program's own work or result grows with the square of the nodes, or of their degrees. Where
/// each node is searched from: as many edges of fewer nodes, so that each search is as large, but their number is not.
std::string kronecker_for(const std::string& name) {
  struct Size {
    int scale = large_scale, degree = 0;
  };
  static const std::map<std::string, Size> sizes = {{"clustering", {.degree = 4}},
                                                    {"eccentricity", {.scale = large_scale - 3, .degree = 8}},
                                                    {"potential_friends", {.degree = 1}},
                                                    {"vertex_cover", {.degree = 1}}};
  const auto found = sizes.find(name);
  const auto size = found == sizes.end() ? Size{} : found->second;
  return "kron:" + std::to_string(size.scale) + (size.degree == 0 ? "" : ":degree=" + std::to_string(size.degree)) +
         ":directed";
}

Plain kronecker(const std::string& spec, const BuildOptions& build) {
  const auto generated = test::plain_graph(*generate(*parse_generator(spec)));
  std::vector<double> weight(generated.from.size());
  std::mt19937_64 random(3);
  for (double& each : weight) each = static_cast<double>(1 + random() % 20);
  return test::plain_graph(*make_graph(generated.nodes, generated.from, generated.to, weight, build));
}

/// The graphs that a program is run on, made once for all programs that run on the same.
const std::vector<Plain>& graphs_for(const std::string& name, const BuildOptions& build) {
  static std::map<std::tuple<std::string, bool, bool>, std::vector<Plain>> made;
  const auto spec = kronecker_for(name);
  auto& graphs = made[{spec, build.undirected, build.simple}];
  if (graphs.empty()) {
    graphs = small_graphs(build);
    graphs.push_back(kronecker(spec, build));
  }
  return graphs;
}

/// Runs a program on all graphs with all numbers of threads; check(plain, result) for each.
template <class Prepare, class Check>
void for_all(const std::string& name, const BuildOptions& build, Prepare&& prepare, Check&& check) {
  const auto program = builtin_program(name);
  ASSERT_TRUE(program) << program.error().message;
  ASSERT_TRUE(program->good()) << program->formatted_messages();
  const auto compiled = program->compile(4, 4);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->compile_seconds(), 0) << "not the one that the build compiled";
  int number = 0;
  for (const auto& plain : graphs_for(name, build)) {
    SCOPED_TRACE("graph " + std::to_string(number++) + " of " + std::to_string(plain.nodes) + " nodes, " +
                 std::to_string(plain.from.size()) + " edges");
    for (const int threads : thread_counts) {
      SCOPED_TRACE(std::to_string(threads) + " threads");
      Arguments arguments;
      arguments.graphs.emplace("G", plain.graph);
      if (!prepare(plain, arguments)) continue;
      RunOptions run_options;
      run_options.threads = threads;
      const auto result = compiled->run(program->main_procedure(), arguments, run_options);
      ASSERT_TRUE(result) << result.error().message;
      check(plain, *result);
      if (testing::Test::HasFailure()) return;
    }
  }
}

const auto no_arguments = [](const Plain&, Arguments&) { return true; };
const auto from_node_0 = [](const Plain& plain, Arguments& arguments) {
  arguments.values["root"] = std::int64_t{0};
  return plain.nodes > 0;
};

/// A reference's result, computed once per graph and not for each number of threads, or each value of an argument that
/// it does not depend on.
template <class Compute>
class OncePerGraph {
 public:
  using Value = std::invoke_result_t<Compute, const Plain&>;

  explicit OncePerGraph(Compute compute) : compute_(std::move(compute)) {}
  const Value& of(const Plain& plain) {
    const auto found = values_.find(&plain);
    return found != values_.end() ? found->second : values_.emplace(&plain, compute_(plain)).first->second;
  }

 private:
  Compute compute_;
  std::map<const Plain*, Value> values_;  // by address: graphs_for keeps its graphs
};

template <class T>
std::vector<T> column(const RunResult& result, const std::string& name) {
  const auto values = result.columns.at(name).values<T>();
  return {values.begin(), values.end()};
}

std::int64_t whole(const Value& value) { return std::get<std::int64_t>(value); }
double real(const Value& value) { return std::get<double>(value); }

std::vector<std::int32_t> hops(const std::vector<std::vector<std::uint64_t>>& lists, std::uint64_t root) {
  std::vector<std::int32_t> distance(lists.size(), infinite);
  std::queue<std::uint64_t> queue;
  queue.push(root);
  distance[root] = 0;
  while (!queue.empty()) {
    const auto node = queue.front();
    queue.pop();
    for (const auto next : lists[node]) {
      if (distance[next] != infinite) continue;
      distance[next] = distance[node] + 1;
      queue.push(next);
    }
  }
  return distance;
}

std::vector<std::int32_t> hops_from_node_0(const Plain& plain) { return hops(plain.out(), 0); }

std::vector<double> shortest_paths(const Plain& plain, std::uint64_t root) {
  std::vector<double> distance(plain.nodes, std::numeric_limits<double>::infinity());
  distance[root] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < plain.from.size(); ++i) {
      const double through = distance[plain.from[i]] + plain.weight[i];
      if (through < distance[plain.to[i]]) {
        distance[plain.to[i]] = through;
        changed = true;
      }
    }
  }
  return distance;
}

std::vector<double> shortest_paths_from_node_0(const Plain& plain) { return shortest_paths(plain, 0); }

Column whole_weights(const Plain& plain) {
  std::vector<std::int64_t> weights;
  for (const double weight : plain.weight) weights.push_back(static_cast<std::int64_t>(weight));
  return Column::of<std::int64_t>("len", weights);
}

// --- GAP's six

TEST(Programs, Bfs) {
  OncePerGraph reference(hops_from_node_0);
  for (const bool undirected : {false, true}) {
    for_all("bfs", options(undirected, false), from_node_0, [&](const Plain& plain, const RunResult& result) {
      const auto& lists = plain.out();
      const auto& distance = reference.of(plain);
      const auto parent = column<std::int64_t>(result, "parent");
      for (std::uint64_t node = 0; node < plain.nodes; ++node) {
        if (distance[node] == infinite) {
          ASSERT_EQ(parent[node], -1) << node;
        } else if (node == 0) {
          ASSERT_EQ(parent[node], 0);
        } else {
          ASSERT_GE(parent[node], 0) << node;
          const auto by = static_cast<std::uint64_t>(parent[node]);
          ASSERT_EQ(distance[by] + 1, distance[node]) << node;
          ASSERT_TRUE(std::binary_search(lists[by].begin(), lists[by].end(), node)) << node;
        }
      }
    });
  }
}

/// The converged ranks, which do not depend on the order of updates.
std::vector<double> converged_ranks(const Plain& plain) {
  const auto n = static_cast<double>(plain.nodes);
  std::vector<double> degree(plain.nodes), rank(plain.nodes, 1 / n);
  for (const auto from : plain.from) ++degree[from];
  for (int i = 0; i < 300; ++i) {
    std::vector<double> next(plain.nodes, 0.15 / n);
    for (std::size_t e = 0; e < plain.from.size(); ++e)
      next[plain.to[e]] += 0.85 * rank[plain.from[e]] / degree[plain.from[e]];
    rank = next;
  }
  return rank;
}

TEST(Programs, Pagerank) {
  OncePerGraph reference(converged_ranks);
  for_all(
      "pagerank", {},
      [](const Plain&, Arguments& arguments) {
        arguments.values = {{"damping", 0.85}, {"tolerance", 1e-9}, {"max_iterations", std::int64_t{1000}}};
        return true;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& rank = reference.of(plain);
        const auto found = column<float>(result, "rank");
        for (std::uint64_t node = 0; node < plain.nodes; ++node) ASSERT_NEAR(found[node], rank[node], 1e-5);
      });
}

std::vector<std::int64_t> smallest_of_components(const Plain& plain) {
  std::vector<std::int64_t> smallest(plain.nodes);
  for (std::uint64_t node = 0; node < plain.nodes; ++node) smallest[node] = static_cast<std::int64_t>(node);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t e = 0; e < plain.from.size(); ++e) {
      const auto least = std::min(smallest[plain.from[e]], smallest[plain.to[e]]);
      changed |= smallest[plain.from[e]] != least || smallest[plain.to[e]] != least;
      smallest[plain.from[e]] = smallest[plain.to[e]] = least;
    }
  }
  return smallest;
}

TEST(Programs, Components) {
  OncePerGraph reference(smallest_of_components);
  for (const bool undirected : {false, true}) {
    for_all(
        "components", options(undirected, false),
        [&](const Plain&, Arguments& arguments) {
          arguments.values["directed"] = !undirected;
          return true;
        },
        [&](const Plain& plain, const RunResult& result) {
          ASSERT_EQ(column<std::int64_t>(result, "comp"), reference.of(plain));
        });
  }
}

std::vector<double> brandes(const Plain& plain, const std::vector<std::uint64_t>& sources) {
  const auto& lists = plain.out();
  std::vector<double> centrality(plain.nodes);
  for (const auto source : sources) {
    const auto distance = hops(lists, source);
    std::vector<std::uint64_t> order;
    for (std::uint64_t node = 0; node < plain.nodes; ++node) {
      if (distance[node] != infinite) order.push_back(node);
    }
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return distance[a] < distance[b]; });
    std::vector<double> sigma(plain.nodes), delta(plain.nodes);
    sigma[source] = 1;
    for (const auto node : order) {
      for (const auto next : lists[node]) {
        if (distance[next] == distance[node] + 1) sigma[next] += sigma[node];
      }
    }
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
      for (const auto next : lists[*at]) {
        if (distance[next] == distance[*at] + 1) delta[*at] += sigma[*at] / sigma[next] * (1 + delta[next]);
      }
      if (*at != source) centrality[*at] += delta[*at];
    }
  }
  return centrality;
}

TEST(Programs, Betweenness) {
  OncePerGraph reference([](const Plain& plain) { return brandes(plain, {0, plain.nodes / 2}); });
  for (const bool undirected : {false, true}) {
    for_all(
        "betweenness", options(undirected, false),
        [](const Plain& plain, Arguments& arguments) {
          arguments.items["sources"] = {0, plain.nodes / 2};
          return plain.nodes > 0;
        },
        [&](const Plain& plain, const RunResult& result) {
          const auto& expected = reference.of(plain);
          const auto found = column<float>(result, "BC");
          for (std::uint64_t node = 0; node < plain.nodes; ++node)
            ASSERT_NEAR(found[node], expected[node], 1e-4 * (1 + expected[node]));
        });
  }
}

TEST(Programs, Sssp) {
  OncePerGraph reference(shortest_paths_from_node_0);
  for (const std::int64_t delta : {1, 7, 1000}) {
    for_all(
        "sssp", {},
        [&](const Plain& plain, Arguments& arguments) {
          arguments.values = {{"root", std::int64_t{0}}, {"delta", delta}};
          arguments.columns.emplace("len", whole_weights(plain));
          return plain.nodes > 0;
        },
        [&](const Plain& plain, const RunResult& result) {
          const auto& expected = reference.of(plain);
          const auto found = column<std::int32_t>(result, "dist");
          for (std::uint64_t node = 0; node < plain.nodes; ++node) {
            ASSERT_EQ(found[node] == infinite ? std::numeric_limits<double>::infinity() : found[node], expected[node])
                << node;
          }
        });
  }
}

/// Of a simple undirected graph: each edge leads from the node of less degree to the other one, so that hubs have few.
std::int64_t count_triangles(const Plain& plain) {
  const auto& lists = plain.out();
  const auto before = [&](auto a, auto b) { return std::pair(lists[a].size(), a) < std::pair(lists[b].size(), b); };
  std::vector<std::vector<std::uint64_t>> onward(plain.nodes);
  for (std::size_t e = 0; e < plain.from.size(); ++e) {
    if (before(plain.from[e], plain.to[e])) onward[plain.from[e]].push_back(plain.to[e]);
  }
  std::vector<bool> marked(plain.nodes);
  std::int64_t count = 0;
  for (const auto& list : onward) {
    for (const auto b : list) marked[b] = true;
    for (const auto b : list)
      count += std::count_if(onward[b].begin(), onward[b].end(), [&](auto c) { return marked[c]; });
    for (const auto b : list) marked[b] = false;
  }
  return count;
}

TEST(Programs, Triangles) {
  OncePerGraph reference(count_triangles);
  for_all("triangles", options(true, true), no_arguments,
          [&](const Plain& plain, const RunResult& result) { ASSERT_EQ(whole(result.returned), reference.of(plain)); });
}

TEST(Programs, TrianglesOfSkewedGraphsAreCountedInAnotherOrder) {
  const auto plain = test::plain_graph(*generate(*parse_generator("kron:9:degree=20")));
  for (const int threads : thread_counts) {
    RunOptions run_options;
    run_options.threads = threads;
    EXPECT_EQ(*triangles(plain.graph, run_options), static_cast<std::uint64_t>(count_triangles(plain)));
  }
}

// --- the others

TEST(Programs, PagerankExact) {
  for_all(
      "pagerank_exact", {},
      [](const Plain&, Arguments& arguments) {
        arguments.values = {{"tolerance", 0.0}, {"damping", 0.85}, {"max_iterations", std::int64_t{20}}};
        return true;
      },
      [](const Plain& plain, const RunResult& result) {
        const auto n = static_cast<double>(plain.nodes);
        std::vector<double> rank(plain.nodes, 1 / n), degree(plain.nodes);
        for (const auto from : plain.from) ++degree[from];
        for (std::int64_t step = 0; step < whole(result.returned); ++step) {
          std::vector<double> next(plain.nodes, 0.15 / n);
          for (std::size_t e = 0; e < plain.from.size(); ++e)
            next[plain.to[e]] += 0.85 * rank[plain.from[e]] / degree[plain.from[e]];
          rank = next;
        }
        const auto found = column<double>(result, "rank");
        for (std::uint64_t node = 0; node < plain.nodes; ++node) ASSERT_NEAR(found[node], rank[node], 1e-12);
      });
}

TEST(Programs, HopDist) {
  OncePerGraph reference(hops_from_node_0);
  for (const bool undirected : {false, true}) {
    for_all("hop_dist", options(undirected, false), from_node_0, [&](const Plain& plain, const RunResult& result) {
      ASSERT_EQ(column<std::int32_t>(result, "dist"), reference.of(plain));
    });
  }
}

TEST(Programs, SsspPaths) {
  OncePerGraph reference(shortest_paths_from_node_0);
  for_all(
      "sssp_paths", {},
      [](const Plain& plain, Arguments& arguments) {
        arguments.values = {{"root", std::int64_t{0}}, {"end", static_cast<std::int64_t>(plain.nodes) - 1}};
        arguments.columns.emplace("len", *plain.graph.edge_values("weight"));
        return plain.nodes > 0;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& expected = reference.of(plain);
        const auto end = plain.nodes - 1;
        ASSERT_EQ(column<double>(result, "dist"), expected);
        ASSERT_EQ(real(result.returned), expected[end]);
        const auto before = column<std::int64_t>(result, "before"), edge = column<std::int64_t>(result, "before_edge");
        ASSERT_EQ(before[0], -1);
        for (std::uint64_t node = 1; node < plain.nodes; ++node) {
          ASSERT_EQ(before[node] < 0, std::isinf(expected[node])) << node;
          ASSERT_EQ(edge[node] < 0, std::isinf(expected[node])) << node;
          if (before[node] < 0) continue;
          const auto e = static_cast<std::size_t>(edge[node]);
          ASSERT_EQ(static_cast<std::int64_t>(plain.from[e]), before[node]);
          ASSERT_EQ(plain.to[e], node);
          ASSERT_EQ(expected[plain.from[e]] + plain.weight[e], expected[node]);
        }
        const auto& path = result.items.at("path").items;
        if (std::isinf(expected[end])) {
          ASSERT_TRUE(path.empty());
        } else {
          ASSERT_EQ(path.front(), 0u);
          ASSERT_EQ(path.back(), end);
          for (std::size_t i = 1; i < path.size(); ++i)
            ASSERT_EQ(static_cast<std::uint64_t>(before[path[i]]), path[i - 1]);
        }
      });
}

std::vector<std::int64_t> numbers(const Plain& plain, std::int64_t modulus) {
  std::vector<std::int64_t> values(plain.nodes);
  for (std::uint64_t node = 0; node < plain.nodes; ++node)
    values[node] = static_cast<std::int64_t>(node * 7 + 3) % modulus;
  return values;
}

TEST(Programs, Conductance) {
  for_all(
      "conductance", {},
      [](const Plain& plain, Arguments& arguments) {
        arguments.values["num"] = std::int64_t{1};
        arguments.columns.emplace("member", Column::of<std::int64_t>("member", numbers(plain, 3)));
        return true;
      },
      [](const Plain& plain, const RunResult& result) {
        const auto member = numbers(plain, 3);
        int inside = 0, outside = 0, cross = 0;
        for (std::size_t e = 0; e < plain.from.size(); ++e) {
          (member[plain.from[e]] == 1 ? inside : outside) += 1;
          cross += member[plain.from[e]] == 1 && member[plain.to[e]] != 1;
        }
        const double m = std::min(inside, outside);
        const double expected = m == 0 ? (cross == 0 ? 0.0 : std::numeric_limits<double>::infinity()) : cross / m;
        ASSERT_EQ(real(result.returned), expected);
      });
}

/// Communities after at most 8 rounds, and how many rounds it took.
std::pair<std::vector<std::int64_t>, std::int64_t> communities_after_8_rounds(const Plain& plain) {
  const auto& lists = plain.out();
  std::vector<std::int64_t> comm(plain.nodes);
  for (std::uint64_t node = 0; node < plain.nodes; ++node) comm[node] = static_cast<std::int64_t>(node);
  std::int64_t rounds = 0;
  for (bool finished = false; !finished && rounds < 8; ++rounds) {
    finished = true;
    auto next = comm;
    for (std::uint64_t node = 0; node < plain.nodes; ++node) {
      std::map<std::int64_t, int> counts;
      for (const auto neighbour : lists[node]) ++counts[comm[neighbour]];
      std::pair<int, std::int64_t> best = {0, 0};
      for (const auto& [community, count] : counts) {
        if (count > best.first) best = {count, community};
      }
      if (counts.empty() || counts[comm[node]] >= best.first) continue;
      next[node] = best.second;
      finished = false;
    }
    comm = next;
  }
  return {comm, rounds};
}

TEST(Programs, Communities) {
  OncePerGraph reference(communities_after_8_rounds);
  for_all(
      "communities", {},
      [](const Plain&, Arguments& arguments) {
        arguments.values["max_rounds"] = std::int64_t{8};
        return true;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& [comm, rounds] = reference.of(plain);
        ASSERT_EQ(column<std::int64_t>(result, "comm"), comm);
        ASSERT_EQ(whole(result.returned), rounds);
      });
}

/// The number of each node's strongly connected component [Tarjan 1972], without recursion.
std::vector<std::int32_t> strong_components_by_tarjan(const Plain& plain) {
  const auto& lists = plain.out();
  constexpr std::uint64_t unseen = ~std::uint64_t{0};
  std::vector<std::uint64_t> order(plain.nodes, unseen), lowest(plain.nodes), open, at(plain.nodes);
  std::vector<std::int32_t> component(plain.nodes, -1);
  std::uint64_t seen = 0;
  std::int32_t components = 0;
  for (std::uint64_t root = 0; root < plain.nodes; ++root) {
    if (order[root] != unseen) continue;
    std::vector<std::uint64_t> path = {root};
    while (!path.empty()) {
      const auto node = path.back();
      if (order[node] == unseen) {
        order[node] = lowest[node] = seen++;
        open.push_back(node);
      }
      if (at[node] < lists[node].size()) {
        const auto next = lists[node][at[node]++];
        if (order[next] == unseen) {
          path.push_back(next);
        } else if (component[next] < 0) {
          lowest[node] = std::min(lowest[node], order[next]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) lowest[path.back()] = std::min(lowest[path.back()], lowest[node]);
      if (lowest[node] != order[node]) continue;
      for (std::uint64_t member = unseen; member != node; open.pop_back()) {
        member = open.back();
        component[member] = components;
      }
      ++components;
    }
  }
  return component;
}

TEST(Programs, Kosaraju) {
  OncePerGraph reference(strong_components_by_tarjan);
  for_all("kosaraju", {}, no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& expected = reference.of(plain);
    const auto found = column<std::int32_t>(result, "mem");
    const std::set<std::int32_t> all(found.begin(), found.end());
    ASSERT_EQ(static_cast<std::int64_t>(all.size()), whole(result.returned));
    // The same parts under other numbers: each number stands for one of the other kind.
    std::map<std::int32_t, std::int32_t> other;
    for (std::uint64_t node = 0; node < plain.nodes; ++node)
      ASSERT_EQ(other.emplace(found[node], expected[node]).first->second, expected[node]) << node;
    const std::set<std::int32_t> all_expected(expected.begin(), expected.end());
    ASSERT_EQ(all.size(), all_expected.size());
  });
}

TEST(Programs, VertexCover) {
  struct Cover {
    std::vector<bool> selected;
    std::int64_t size = 0;
  };
  OncePerGraph reference([](const Plain& plain) {
    std::vector<bool> covered(plain.nodes);
    std::vector<int> degree(plain.nodes);  // of edges whose ends are not covered
    std::vector<std::size_t> open(plain.from.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
    const auto is_covered = [&](std::size_t e) { return covered[plain.from[e]] || covered[plain.to[e]]; };
    Cover cover{std::vector<bool>(plain.from.size())};
    for (;;) {
      std::fill(degree.begin(), degree.end(), 0);
      for (const auto e : open) {
        ++degree[plain.from[e]];
        ++degree[plain.to[e]];
      }
      const auto less = [&](auto a, auto b) {
        return degree[plain.from[a]] + degree[plain.to[a]] < degree[plain.from[b]] + degree[plain.to[b]];
      };
      const auto best = std::max_element(open.begin(), open.end(), less);  // the first of the largest
      if (best == open.end()) return cover;
      const auto from = plain.from[*best], to = plain.to[*best];
      cover.selected[*best] = covered[from] = covered[to] = true;
      cover.size += from == to ? 1 : 2;
      std::erase_if(open, is_covered);
    }
  });
  for_all("vertex_cover", {}, no_arguments, [&](const Plain& plain, const RunResult& result) {
    ASSERT_EQ(whole(result.returned), reference.of(plain).size);
    ASSERT_EQ(column<bool>(result, "select"), reference.of(plain).selected);
  });
}

TEST(Programs, Teenagers) {
  for_all(
      "teenagers", {},
      [](const Plain& plain, Arguments& arguments) {
        arguments.values["K"] = std::int64_t{20};
        arguments.columns.emplace("age", Column::of<std::int64_t>("age", numbers(plain, 47)));
        return true;
      },
      [](const Plain& plain, const RunResult& result) {
        const auto age = numbers(plain, 47);
        std::vector<std::int32_t> teens(plain.nodes);
        for (std::size_t e = 0; e < plain.from.size(); ++e)
          teens[plain.to[e]] += age[plain.from[e]] >= 10 && age[plain.from[e]] < 20;
        double sum = 0, count = 0;
        for (std::uint64_t node = 0; node < plain.nodes; ++node) {
          if (age[node] <= 20) continue;
          sum += teens[node];
          ++count;
        }
        ASSERT_EQ(column<std::int32_t>(result, "teen_cnt"), teens);
        ASSERT_FLOAT_EQ(static_cast<float>(real(result.returned)), static_cast<float>(count == 0 ? 0 : sum / count));
      });
}

TEST(Programs, Dijkstra) {
  OncePerGraph reference(shortest_paths_from_node_0);
  for_all(
      "dijkstra", {},
      [](const Plain& plain, Arguments& arguments) {
        arguments.values = {{"root", std::int64_t{0}}, {"dest", static_cast<std::int64_t>(plain.nodes) - 1}};
        arguments.columns.emplace("cost", *plain.graph.edge_values("weight"));
        return plain.nodes > 0;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& expected = reference.of(plain);
        const auto dest = plain.nodes - 1;
        ASSERT_EQ(std::get<bool>(result.returned), std::isinf(expected[dest]));
        ASSERT_EQ(real(result.values.at("length")), expected[dest]);
        if (std::isinf(expected[dest])) return;
        const auto parent = column<std::int64_t>(result, "parent"), edge = column<std::int64_t>(result, "parent_edge");
        double length = 0;
        for (auto node = dest; node != 0; node = static_cast<std::uint64_t>(parent[node])) {
          const auto e = static_cast<std::size_t>(edge[node]);
          ASSERT_EQ(plain.to[e], node);
          ASSERT_EQ(static_cast<std::int64_t>(plain.from[e]), parent[node]);
          length += plain.weight[e];
        }
        ASSERT_EQ(length, expected[dest]);
      });
}

/// The sum over the neighbours of each edge's first node that are neighbours of the second one, too.
std::vector<double> common_of_edges(const Plain& plain) {
  const auto& lists = plain.out();
  std::vector<double> sums(plain.from.size());
  std::vector<int> times(plain.nodes);  // that a node is among the neighbours of the edge's first one
  std::uint64_t marked = plain.nodes;
  for (std::size_t e = 0; e < plain.from.size(); ++e) {
    if (marked != plain.from[e]) {
      if (marked < plain.nodes) {
        for (const auto node : lists[marked]) times[node] = 0;
      }
      marked = plain.from[e];
      for (const auto node : lists[marked]) ++times[node];
    }
    std::uint64_t last = plain.nodes;
    for (const auto node : lists[plain.to[e]]) {
      if (node != last && times[node] > 0) sums[e] += times[node] / std::log(lists[node].size());
      last = node;
    }
  }
  return sums;
}

TEST(Programs, AdamicAdar) {
  OncePerGraph reference(common_of_edges);
  for_all("adamic_adar", {}, no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& expected = reference.of(plain);
    const auto found = column<double>(result, "aa");
    for (std::size_t e = 0; e < plain.from.size(); ++e) {
      if (std::isinf(expected[e])) {
        ASSERT_EQ(found[e], expected[e]);
      } else {
        ASSERT_NEAR(found[e], expected[e], 1e-9 * (1 + std::abs(expected[e]))) << e;
      }
    }
  });
}

TEST(Programs, PotentialFriends) {
  using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  OncePerGraph reference([](const Plain& plain) {
    const auto& lists = plain.out();
    Pairs pairs;
    for (std::uint64_t v = 0; v < plain.nodes; ++v) {
      std::vector<std::uint64_t> others;
      for (const auto friend_of_v : lists[v])
        others.insert(others.end(), lists[friend_of_v].begin(), lists[friend_of_v].end());
      std::sort(others.begin(), others.end());
      others.erase(std::unique(others.begin(), others.end()), others.end());
      for (const auto other : others) {
        if (other != v && !std::binary_search(lists[v].begin(), lists[v].end(), other)) pairs.emplace_back(v, other);
      }
    }
    return pairs;
  });
  for_all("potential_friends", {}, no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& items = result.items.at("potential");
    Pairs found;
    for (std::size_t i = 0; i < items.items.size(); ++i) found.emplace_back(items.owners[i], items.items[i]);
    std::sort(found.begin(), found.end());
    ASSERT_EQ(found, reference.of(plain));
    ASSERT_EQ(whole(result.returned), static_cast<std::int64_t>(found.size()));
  });
}

TEST(Programs, Matching) {
  const auto is_left = [](std::uint64_t node) { return node % 2 == 0; };
  for_all(
      "matching", {},
      [&](const Plain& plain, Arguments& arguments) {
        std::vector<std::int64_t> left(plain.nodes);
        for (std::uint64_t node = 0; node < plain.nodes; ++node) left[node] = is_left(node) ? 1 : 0;
        arguments.columns.emplace("isLeft", Column::of<std::int64_t>("isLeft", left));
        return true;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto match = column<std::int64_t>(result, "Match");
        const auto& lists = plain.out();
        std::int64_t pairs = 0;
        for (std::uint64_t node = 0; node < plain.nodes; ++node) {
          if (match[node] < 0) continue;
          const auto other = static_cast<std::uint64_t>(match[node]);
          ASSERT_EQ(match[other], static_cast<std::int64_t>(node));
          ASSERT_NE(is_left(node), is_left(other));
          const auto left = is_left(node) ? node : other, right = is_left(node) ? other : node;
          ASSERT_NE(std::find(lists[left].begin(), lists[left].end(), right), lists[left].end());
          pairs += is_left(node);
        }
        ASSERT_EQ(whole(result.returned), pairs);
        for (std::size_t e = 0; e < plain.from.size(); ++e) {
          if (!is_left(plain.from[e]) || is_left(plain.to[e])) continue;
          ASSERT_TRUE(match[plain.from[e]] >= 0 || match[plain.to[e]] >= 0);
        }
      });
}

/// The node of least degree is taken away, one after the other; its degree, or that of one before, is its number.
std::vector<std::int32_t> cores_by_peeling(const Plain& plain) {
  const auto& lists = plain.out();
  std::set<std::pair<std::size_t, std::uint64_t>> left;
  std::vector<std::size_t> degree(plain.nodes);
  for (std::uint64_t node = 0; node < plain.nodes; ++node) {
    degree[node] = lists[node].size();
    left.emplace(degree[node], node);
  }
  std::vector<std::int32_t> core(plain.nodes, -1);
  for (std::size_t most = 0; !left.empty();) {
    const auto [least, node] = *left.begin();
    left.erase(left.begin());
    most = std::max(most, least);
    core[node] = static_cast<std::int32_t>(most);
    for (const auto other : lists[node]) {
      if (core[other] >= 0) continue;
      left.erase({degree[other], other});
      left.emplace(--degree[other], other);
    }
  }
  return core;
}

TEST(Programs, CoreNumbers) {
  OncePerGraph reference(cores_by_peeling);
  for_all("core_numbers", options(true, true), no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& expected = reference.of(plain);
    ASSERT_EQ(column<std::int32_t>(result, "core"), expected);
    ASSERT_EQ(whole(result.returned), expected.empty() ? 0 : *std::max_element(expected.begin(), expected.end()));
  });
}

/// Triangles at each node: each is found once, from its node that comes first by degree.
std::vector<std::int64_t> triangles_of_nodes(const Plain& plain) {
  const auto& lists = plain.out();
  const auto comes_before = [&](std::uint64_t a, std::uint64_t b) {
    return std::pair(lists[a].size(), a) < std::pair(lists[b].size(), b);
  };
  std::vector<std::vector<std::uint64_t>> later(plain.nodes);
  for (std::size_t e = 0; e < plain.from.size(); ++e) {
    if (comes_before(plain.from[e], plain.to[e])) later[plain.from[e]].push_back(plain.to[e]);
  }
  std::vector<std::int64_t> count(plain.nodes);
  std::vector<bool> marked(plain.nodes);
  for (std::uint64_t a = 0; a < plain.nodes; ++a) {
    for (const auto c : later[a]) marked[c] = true;
    for (const auto b : later[a]) {
      for (const auto c : later[b]) {
        if (!marked[c]) continue;
        ++count[a];
        ++count[b];
        ++count[c];
      }
    }
    for (const auto c : later[a]) marked[c] = false;
  }
  return count;
}

TEST(Programs, Clustering) {
  OncePerGraph reference(triangles_of_nodes);
  for_all("clustering", options(true, true), no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& triangles = reference.of(plain);
    std::vector<std::int64_t> degrees(plain.nodes);
    for (const auto from : plain.from) ++degrees[from];
    const auto found = column<double>(result, "cc");
    double sum = 0;
    for (std::uint64_t v = 0; v < plain.nodes; ++v) {
      const auto degree = static_cast<double>(degrees[v]);
      const double expected = degree < 2 ? 0.0 : 2 * static_cast<double>(triangles[v]) / (degree * (degree - 1));
      ASSERT_DOUBLE_EQ(found[v], expected);
      sum += expected;
    }
    ASSERT_NEAR(real(result.returned), plain.nodes == 0 ? 0.0 : sum / static_cast<double>(plain.nodes), 1e-12);
  });
}

TEST(Programs, RandomWalk) {
  std::map<std::string, std::vector<std::uint64_t>> first;
  for_all(
      "random_walk", {},
      [](const Plain&, Arguments& arguments) {
        arguments.values = {{"N", std::int64_t{10}}, {"jump", 0.1}};
        return true;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& items = result.items.at("S").items;
        ASSERT_LE(items.size(), 10u);
        ASSERT_EQ(std::set(items.begin(), items.end()).size(), items.size());
        for (const auto item : items) ASSERT_LT(item, plain.nodes);
        ASSERT_TRUE(plain.nodes < 10 || items.size() == 10);
        // The same seed, the same walk.
        const auto key = std::to_string(plain.nodes) + "/" + std::to_string(plain.from.size());
        const auto [place, added] = first.emplace(key, items);
        ASSERT_EQ(place->second, items);
      });
}

TEST(Programs, Topological) {
  for_all("topological", {}, no_arguments, [](const Plain& plain, const RunResult& result) {
    std::vector<int> open(plain.nodes);
    for (const auto to : plain.to) ++open[to];
    const auto& lists = plain.out();
    std::vector<std::uint64_t> order;
    std::vector<std::int32_t> depth(plain.nodes);
    for (std::uint64_t node = 0; node < plain.nodes; ++node) {
      if (open[node] == 0) order.push_back(node);
    }
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const auto next : lists[order[i]]) {
        depth[next] = std::max(depth[next], depth[order[i]] + 1);
        if (--open[next] == 0) order.push_back(next);
      }
    }
    ASSERT_EQ(result.items.at("order").items, order);
    ASSERT_EQ(column<std::int32_t>(result, "depth"), depth);
    ASSERT_EQ(std::get<bool>(result.returned), order.size() == plain.nodes);
  });
}

/// From 64 nodes at a time, each of which has a bit in what is known of every node.
std::vector<std::int32_t> eccentricities(const Plain& plain) {
  const auto& lists = plain.out();
  std::vector<std::int32_t> farthest(plain.nodes);
  std::vector<std::uint64_t> front(plain.nodes), next(plain.nodes);
  for (std::uint64_t first = 0; first < plain.nodes; first += 64) {
    std::vector<std::uint64_t> reached(plain.nodes), nodes;
    for (std::uint64_t node = first; node < std::min(plain.nodes, first + 64); ++node) {
      reached[node] = front[node] = std::uint64_t{1} << (node - first);
      nodes.push_back(node);
    }
    for (std::int32_t step = 1; !nodes.empty(); ++step) {
      std::vector<std::uint64_t> later;
      std::uint64_t moved = 0;
      for (const auto node : nodes) {
        for (const auto neighbour : lists[node]) {
          const auto added = front[node] & ~reached[neighbour];
          if (added != 0 && next[neighbour] == 0) later.push_back(neighbour);
          next[neighbour] |= added;
          moved |= added;
        }
      }
      for (const auto node : later) reached[node] |= next[node];
      for (std::uint64_t i = 0; i < 64; ++i) {
        if ((moved >> i & 1) != 0) farthest[first + i] = step;
      }
      for (const auto node : nodes) front[node] = 0;
      std::swap(front, next);
      nodes = std::move(later);
    }
  }
  return farthest;
}

TEST(Programs, Eccentricity) {
  OncePerGraph reference(eccentricities);
  for_all("eccentricity", {}, no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto& expected = reference.of(plain);
    ASSERT_EQ(column<std::int32_t>(result, "ecc"), expected);
    ASSERT_EQ(whole(result.returned), expected.empty() ? 0 : *std::max_element(expected.begin(), expected.end()));
  });
}

/// Hubs and authorities after 6 steps.
std::pair<std::vector<double>, std::vector<double>> hubs_and_authorities(const Plain& plain) {
  std::vector<double> hub(plain.nodes, 1), auth(plain.nodes, 1);
  const auto normalize = [](std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    for (double& value : values) value /= sum > 0 ? std::sqrt(sum) : 1.0;
  };
  for (int step = 0; step < 6; ++step) {
    std::fill(auth.begin(), auth.end(), 0);
    for (std::size_t e = 0; e < plain.from.size(); ++e) auth[plain.to[e]] += hub[plain.from[e]];
    normalize(auth);
    std::fill(hub.begin(), hub.end(), 0);
    for (std::size_t e = 0; e < plain.from.size(); ++e) hub[plain.from[e]] += auth[plain.to[e]];
    normalize(hub);
  }
  return {hub, auth};
}

TEST(Programs, Hits) {
  OncePerGraph reference(hubs_and_authorities);
  for_all(
      "hits", {},
      [](const Plain&, Arguments& arguments) {
        arguments.values["steps"] = std::int64_t{6};
        return true;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& [hub, auth] = reference.of(plain);
        const auto found_hub = column<double>(result, "hub"), found_auth = column<double>(result, "auth");
        for (std::uint64_t node = 0; node < plain.nodes; ++node) {
          ASSERT_NEAR(found_hub[node], hub[node], 1e-9);
          ASSERT_NEAR(found_auth[node], auth[node], 1e-9);
        }
      });
}

TEST(Programs, IndependentSet) {
  std::map<std::string, std::vector<bool>> first;
  for_all("independent_set", options(true, false), no_arguments, [&](const Plain& plain, const RunResult& result) {
    const auto inside = column<bool>(result, "inside");
    const auto& lists = plain.out();
    for (std::uint64_t node = 0; node < plain.nodes; ++node) {
      bool blocked = false;
      for (const auto other : lists[node]) {
        if (other == node) continue;
        ASSERT_FALSE(inside[node] && inside[other]);
        blocked |= inside[other];
      }
      ASSERT_TRUE(inside[node] || blocked);
    }
    ASSERT_EQ(whole(result.returned), std::count(inside.begin(), inside.end(), true));
    // Random numbers belong to the chunk, not to the thread.
    const auto [place, added] =
        first.emplace(std::to_string(plain.nodes) + "/" + std::to_string(plain.from.size()), inside);
    ASSERT_EQ(place->second, inside);
  });
}

TEST(Programs, Levels) {
  OncePerGraph reference(hops_from_node_0);
  for_all(
      "levels", {},
      [](const Plain& plain, Arguments& arguments) {
        arguments.values = {{"root", std::int64_t{0}}, {"limit", std::int64_t{5}}};
        return plain.nodes > 0;
      },
      [&](const Plain& plain, const RunResult& result) {
        const auto& distance = reference.of(plain);
        std::vector<std::set<std::uint64_t>> expected(5), found(5);
        for (std::uint64_t node = 0; node < plain.nodes; ++node) {
          if (distance[node] < 5) expected[static_cast<std::size_t>(distance[node])].insert(node);
        }
        const auto& all = result.items.at("all");
        for (std::size_t i = 0; i < all.items.size(); ++i) found.at(all.owners[i]).insert(all.items[i]);
        ASSERT_EQ(found, expected);
        std::size_t widest = 0, count = 0;
        for (const auto& level : expected) {
          widest = std::max(widest, level.size());
          count += !level.empty();
        }
        ASSERT_EQ(result.items.at("widest").items.size(), widest);
        ASSERT_EQ(whole(result.returned), static_cast<std::int64_t>(count));
      });
}

TEST(Programs, Report) {
  for (const std::string title : {"degrees", "# degrees!", "ab"}) {
    for_all(
        "report", {},
        [&](const Plain& plain, Arguments& arguments) {
          arguments.values["title"] = title;
          arguments.columns.emplace("kinds", Column::of<std::int64_t>("kinds", numbers(plain, 4)));
          return plain.nodes > 0;
        },
        [&](const Plain& plain, const RunResult& result) {
          std::map<std::string, std::int64_t> counts;
          for (const auto kind : numbers(plain, 4)) ++counts[kind == 0 ? "none" : kind == 1 ? "one" : "many"];
          ASSERT_EQ(whole(result.returned), counts["none"] + 10 * counts["one"] + 100 * counts["many"]);
          std::size_t most = 0;
          for (const auto& list : plain.out()) most = std::max(most, list.size());
          std::string printed = title == "# degrees!" ? "" : title + " " + std::to_string(plain.nodes) + "\n";
          if (title != "ab") printed += std::to_string(most) + "\n";
          ASSERT_EQ(result.printed, printed);
          std::pair<std::int64_t, std::string> best = {0, ""};
          for (const auto& [name, count] : counts) {
            if (count > best.first) best = {count, name};
          }
          ASSERT_EQ(std::get<std::string>(result.values.at("longest")), title == "# degrees!" ? title : best.second);
        });
  }
}

TEST(Programs, AllOfThemAreTested) {
  std::set<std::string> tested;
  const auto* suite = testing::UnitTest::GetInstance()->GetTestSuite(0);
  for (int i = 0; i < testing::UnitTest::GetInstance()->total_test_suite_count(); ++i) {
    suite = testing::UnitTest::GetInstance()->GetTestSuite(i);
    if (std::string(suite->name()) == "Programs") break;
  }
  for (int i = 0; i < suite->total_test_count(); ++i) {
    std::string name;
    for (const char c : std::string(suite->GetTestInfo(i)->name())) {
      if (std::isupper(static_cast<unsigned char>(c)) && !name.empty()) name += '_';
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    tested.insert(name);
  }
  for (const auto& name : builtin_programs()) EXPECT_TRUE(tested.contains(name)) << name;
  EXPECT_GE(builtin_programs().size(), 20u);
}

// --- as functions

TEST(Algorithms, AreFunctions) {
  const auto spec = parse_generator("kron:7:weights=20");
  const Graph graph = *generate(*spec);
  const auto plain = [&] {
    Plain result;
    result.nodes = graph.num_nodes();
    const auto out = graph.out<std::uint32_t, std::uint32_t>();
    for (std::uint64_t node = 0; node < result.nodes; ++node) {
      for (auto edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
        result.from.push_back(node);
        result.to.push_back(out.node_idx[edge]);
        result.weight.push_back(graph.edge_values("weight")->values<std::int32_t>()[edge]);
      }
    }
    return result;
  }();
  EXPECT_EQ(*hop_distance(graph, 5), hops(plain.out(), 5));
  EXPECT_EQ(static_cast<std::int64_t>(*triangles(graph)), count_triangles(plain));
  const auto distance = *sssp(graph, 5);
  const auto expected = shortest_paths(plain, 5);
  for (std::uint64_t node = 0; node < plain.nodes; ++node) {
    EXPECT_EQ(distance[node] == unreachable, std::isinf(expected[node]));
    EXPECT_TRUE(distance[node] == unreachable || distance[node] == expected[node]) << node;
  }
  EXPECT_EQ(bfs(graph, 5)->at(5), 5);
  EXPECT_GT(pagerank(graph)->iterations, 1);
  EXPECT_EQ(connected_components(graph)->size(), plain.nodes);
  EXPECT_EQ(strong_components(graph)->size(), plain.nodes);
  EXPECT_EQ(core_numbers(graph)->size(), plain.nodes);
  EXPECT_EQ(communities(graph)->size(), plain.nodes);
  EXPECT_EQ(clustering(graph)->size(), plain.nodes);
  const std::vector<std::uint64_t> sources = {5};
  const auto centrality = *betweenness(graph, sources);
  const auto reference = brandes(plain, {5});
  for (std::uint64_t node = 0; node < plain.nodes; ++node)
    EXPECT_NEAR(centrality[node], reference[node], 1e-3 * (1 + reference[node]));
  EXPECT_EQ(bfs(graph, 1000).error().status, Status::invalid_argument);
  EXPECT_EQ(sssp(graph, 0, "length").error().status, Status::invalid_argument);
  const std::vector<std::uint64_t> one = {0}, other = {1};
  EXPECT_EQ(triangles(*make_graph(2, one, other)).error().status, Status::invalid_argument);
  EXPECT_EQ(builtin_program("none").error().status, Status::not_found);
}

// Whatever the order of the nodes: without the scaling, these graphs need 12 to 16 iterations.
TEST(Algorithms, PagerankNeedsFewIterationsWithAnyNumberOfThreads) {
  for (const char* spec : {"kron:10", "kron:12", "kron:12:directed"}) {
    const Graph graph = *generate(*parse_generator(spec));
    for (const int threads : {1, 2, 3, 8, 16}) {
      RunOptions run_options;
      run_options.threads = threads;
      EXPECT_LE(pagerank(graph, {}, run_options)->iterations, 8) << spec << ", " << threads << " threads";
    }
  }
}

TEST(Algorithms, PagerankOfGraphsWhereNothingIsPassedOn) {
  const std::vector<std::uint64_t> none, from = {0, 1}, to = {1, 2};
  EXPECT_TRUE(pagerank(*make_graph(0, none, none))->rank.empty());
  EXPECT_THAT(pagerank(*make_graph(2, none, none))->rank, Each(FloatEq(0.15f / 2)));
  const Graph path = *make_graph(3, from, to);  // no rank comes back
  EXPECT_THAT(pagerank(path, {0.5, 1e-7, 100})->rank,
              ElementsAre(FloatEq(1.0f / 6), FloatEq(1.0f / 4), FloatEq(7.0f / 24)));
  EXPECT_THAT(pagerank(path, {0.0, 1e-7, 100})->rank, Each(FloatEq(1.0f / 3)));
  EXPECT_THAT(pagerank(path, {1.0, 1e-7, 100})->rank, Each(0.0f));
}

TEST(Algorithms, LengthsThatDoNotFitAreRefused) {
  const std::vector<std::uint64_t> from = {0, 1, 2}, to = {1, 2, 0};
  const auto distances = [&](auto... each) {
    const std::vector lengths = {each...};
    const auto column = Column::of<typename decltype(lengths)::value_type>("weight", lengths);
    return sssp(*make_graph(3, from, to)->with_edge_values(column), 0);
  };
  const auto message = [&](auto... each) { return distances(each...).error().message; };
  EXPECT_EQ(*distances(5, 0, 7), (std::vector<std::int32_t>{0, 5, 5}));
  EXPECT_EQ(*distances(1.0, 0.0, 3.0), (std::vector<std::int32_t>{0, 1, 1}));
  const std::string wrong = ": lengths must be whole numbers from 0 to 2147483646";
  EXPECT_EQ(message(5, -7, -1), "'weight' of edge 1 is -7" + wrong);
  EXPECT_EQ(message(5.0, 3.0, -1.0), "'weight' of edge 2 is -1" + wrong);
  EXPECT_EQ(message(0.5F, 3.0F, 1.0F), "'weight' of edge 0 is 0.5" + wrong);
  EXPECT_EQ(message(2147483647.0, 3.0, 1.0), "'weight' of edge 0 is 2147483647" + wrong);
  EXPECT_EQ(message(2000000000, 2000000000, 1),
            "a shortest path is longer than 2147483646; divide the lengths 'weight'");
  EXPECT_EQ(*distances(2000000000, 147483646, 1), (std::vector<std::int32_t>{0, 2000000000, 2147483646}));
}

}  // namespace
}  // namespace smelt::graph
