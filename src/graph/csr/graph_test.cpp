// Graphs from edges in memory and from generators, compared with plain sequential code.
#include "smelt/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>

#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/csr/weight_of.hpp"

namespace smelt::graph {
namespace {

using test::weight_of;
using testing::ElementsAre;

/// (from, to, weight) of all edges in the order of their numbers.
using Edges = std::vector<std::tuple<std::uint64_t, std::uint64_t, double>>;

Edges out_edges(const Graph& graph) {
  return with_ids(graph, [&](auto node_id, auto edge_id) {
    const auto out = graph.out<decltype(node_id), decltype(edge_id)>();
    Edges edges;
    for (std::uint64_t node = 0; node < graph.num_nodes(); ++node) {
      for (std::uint64_t edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
        edges.emplace_back(node, out.node_idx[edge], weight_of(graph, edge));
      }
    }
    return edges;
  });
}

/// The in edges with their weights.
Edges in_edges(const Graph& graph) {
  return with_ids(graph, [&](auto node_id, auto edge_id) {
    using EdgeId = decltype(edge_id);
    const auto in = *graph.in<decltype(node_id), EdgeId>(2);
    const auto* numbers = *graph.in_edge_numbers<EdgeId>(2);
    Edges edges;
    for (std::uint64_t node = 0; node < graph.num_nodes(); ++node) {
      for (std::uint64_t i = in.begin[node]; i < in.begin[node + 1]; ++i) {
        edges.emplace_back(in.node_idx[i], node, weight_of(graph, numbers == nullptr ? i : numbers[i]));
      }
    }
    return edges;
  });
}

struct Input {
  std::uint64_t nodes = 0;
  std::vector<std::uint64_t> from, to;
  std::vector<double> weight;
};

Input random_input(std::uint64_t nodes, std::size_t edges, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Input input{nodes, {}, {}, {}};
  for (std::size_t edge = 0; edge < edges; ++edge) {
    input.from.push_back(random() % nodes);
    input.to.push_back(random() % nodes);
    input.weight.push_back(static_cast<double>(random() % 1000) / 8);
  }
  return input;
}

/// A plain reference for make_graph.
Edges expected(const Input& input, const BuildOptions& options) {
  Edges edges;
  for (std::size_t i = 0; i < input.from.size(); ++i) {
    const double weight = input.weight.empty() ? 0.0 : input.weight[i];
    edges.emplace_back(input.from[i], input.to[i], weight);
    if (options.undirected && input.from[i] != input.to[i]) edges.emplace_back(input.to[i], input.from[i], weight);
  }
  const auto ends = [](const auto& edge) { return std::pair(std::get<0>(edge), std::get<1>(edge)); };
  std::stable_sort(edges.begin(), edges.end(), [&](const auto& a, const auto& b) { return ends(a) < ends(b); });
  if (!options.simple) return edges;
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> kept;
  for (const auto& edge : edges) {
    if (std::get<0>(edge) == std::get<1>(edge)) continue;
    const auto [place, added] = kept.emplace(ends(edge), std::get<2>(edge));
    if (!added) place->second = std::min(place->second, std::get<2>(edge));
  }
  edges.clear();
  for (const auto& [pair, weight] : kept) edges.emplace_back(pair.first, pair.second, weight);
  return edges;
}

TEST(Graph, IsEmptyAtFirst) {
  const Graph graph;
  EXPECT_EQ(graph.num_nodes(), 0u);
  EXPECT_EQ(out_edges(graph), Edges{});
  EXPECT_EQ(in_edges(graph), Edges{});
}

TEST(Graph, FromEdgesInMemoryEqualsThePlainReference) {
  for (const std::uint64_t nodes : {1u, 2u, 7u, 1500u}) {
    for (const std::size_t count : {0u, 1u, 50u, 6000u}) {
      for (const int choice : {0, 1, 2, 3, 4, 5, 6, 7}) {
        auto input = random_input(nodes, count, nodes + count);
        if (choice / 4 == 1) input.weight.clear();
        BuildOptions options;
        options.undirected = choice % 2 == 1;
        options.simple = choice / 2 % 2 == 1;
        const auto edges = expected(input, options);
        auto turned = edges;
        std::stable_sort(turned.begin(), turned.end(), [](const auto& a, const auto& b) {
          return std::pair(std::get<1>(a), std::get<0>(a)) < std::pair(std::get<1>(b), std::get<0>(b));
        });
        for (const int threads : {1, 3}) {
          options.threads = threads;
          const auto graph = make_graph(nodes, input.from, input.to, input.weight, options);
          ASSERT_TRUE(graph) << graph.error().message;
          ASSERT_EQ(out_edges(*graph), edges) << nodes << " nodes, " << count << " edges, choice " << choice;
          ASSERT_EQ(in_edges(*graph), turned) << nodes << " nodes, " << count << " edges, choice " << choice;
        }
      }
    }
  }
}

TEST(Graph, NodesAreRenumberedInTheirOrder) {
  const std::vector<std::uint64_t> from = {1000000, 7, 7}, to = {7, 500, 1000000};
  BuildOptions options;
  options.renumber = true;
  const auto graph = make_graph(2000000, from, to, {}, options);
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->num_nodes(), 3u);
  EXPECT_EQ(out_edges(*graph), (Edges{{0, 1, 0.0}, {0, 2, 0.0}, {2, 0, 0.0}}));
  ASSERT_NE(graph->node_values("id"), nullptr);
  const auto ids = graph->node_values("id")->values<std::int64_t>();
  EXPECT_THAT(std::vector(ids.begin(), ids.end()), ElementsAre(7, 500, 1000000));
}

TEST(Graph, WideNumbersMakeTheSameGraph) {
  const auto input = random_input(300, 4000, 5);
  const auto team = ThreadTeam::create(2);
  ListOptions options;
  options.nodes = input.nodes;
  const auto build = [&](bool wide) {
    EdgeList<std::uint32_t, WeightBits>::Part part;
    for (std::size_t i = 0; i < input.from.size(); ++i) {
      EXPECT_TRUE(part.add({static_cast<std::uint32_t>(input.from[i]), static_cast<std::uint32_t>(input.to[i]), i}));
    }
    EdgeList<std::uint32_t, WeightBits> list;
    list.append(part);
    options.wide = wide;
    return *build_graph(**team, std::move(list), {.max = 4000}, options);
  };
  const Graph narrow = build(false), wide = build(true);
  EXPECT_EQ(narrow.node_id_bytes(), 4);
  EXPECT_EQ(wide.node_id_bytes(), 8);
  EXPECT_EQ(wide.edge_id_bytes(), 8);
  EXPECT_EQ(out_edges(narrow), out_edges(wide));
  EXPECT_EQ(in_edges(narrow), in_edges(wide));
}

TEST(Graph, RefusesEdgesThatDoNotFit) {
  const std::vector<std::uint64_t> from = {0, 3}, to = {1, 1}, one = {0};
  EXPECT_THAT(make_graph(3, from, to).error().message, testing::HasSubstr("edge 1 leads from node 3 to 1"));
  EXPECT_EQ(make_graph(3, from, one).error().status, Status::invalid_argument);
  const std::vector<double> weight = {1.0};
  EXPECT_EQ(make_graph(4, from, to, weight).error().status, Status::invalid_argument);
}

TEST(Graph, ValuesHaveNamesAndTheRightLength) {
  const std::vector<std::uint64_t> from = {0, 1}, to = {1, 0};
  const auto graph = *make_graph(2, from, to);
  const std::vector<float> two = {1, 2}, three = {1, 2, 3};
  EXPECT_EQ(graph.with_node_values(Column::of<float>("a", three)).error().status, Status::invalid_argument);
  const auto with = *graph.with_node_values(Column::of<float>("a", two));
  EXPECT_EQ(with.node_values("a")->values<float>()[1], 2.0f);
  EXPECT_EQ(with.edge_values("a"), nullptr);
  EXPECT_EQ(graph.node_values("a"), nullptr);
}

TEST(Generate, TheSameForAnyNumberOfThreads) {
  for (const char* text :
       {"kron:12", "kron:9:degree=3:seed=5:weights=100:directed:multi", "uniform:11:seed=2", "uniform:0",
        "kron:0:multi", "kron:5:degree=0", "grid:17x9", "grid:1x1", "grid:1x40:directed:weights=3"}) {
    const auto spec = parse_generator(text);
    ASSERT_TRUE(spec) << spec.error().message;
    const auto one = generate(*spec, 1), three = generate(*spec, 3);
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ(out_edges(*one), out_edges(*three)) << text;
    EXPECT_EQ(one->undirected(), !spec->directed);
    auto other = *spec;
    ++other.seed;
    if (spec->kind != GeneratorSpec::Kind::grid && one->num_edges() > 100) {
      EXPECT_NE(out_edges(*generate(other)), out_edges(*one)) << text;
    }
  }
}

TEST(Generate, KroneckerHasTheSharesOfItsQuadrants) {
  // The permutation hides the numbers, so the degrees are compared: the
  // mean degree of the node with the most edges is edges x (.57 + .19)^scale.
  GeneratorSpec spec;
  spec.scale = 10;
  spec.directed = spec.multi = true;
  const auto found = statistics(*generate(spec));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->num_edges, 16u << 10);
  const double most = (16 << 10) * std::pow(0.76, 10);
  EXPECT_NEAR(static_cast<double>(found->out.max), most, 6 * std::sqrt(most));
  EXPECT_NEAR(static_cast<double>(found->in.max), most, 6 * std::sqrt(most));
  EXPECT_GT(found->out.top_percent_share, 0.1);
}

TEST(Generate, UniformHasNoPreference) {
  const auto found = statistics(*generate(*parse_generator("uniform:12:directed:multi")));
  ASSERT_TRUE(found);
  EXPECT_LT(found->out.max, 50u);
  EXPECT_LT(found->out.top_percent_share, 0.03);
}

TEST(Generate, AGridLinksNeighbours) {
  const auto graph = generate(*parse_generator("grid:2x3"));
  ASSERT_TRUE(graph);
  EXPECT_EQ(out_edges(*graph), (Edges{{0, 1, 0},
                                      {0, 3, 0},
                                      {1, 0, 0},
                                      {1, 2, 0},
                                      {1, 4, 0},
                                      {2, 1, 0},
                                      {2, 5, 0},
                                      {3, 0, 0},
                                      {3, 4, 0},
                                      {4, 1, 0},
                                      {4, 3, 0},
                                      {4, 5, 0},
                                      {5, 2, 0},
                                      {5, 4, 0}}));
}

TEST(Generate, WeightsAreThoseOfTheReverse) {
  const auto graph = generate(*parse_generator("kron:8:weights=20"));
  std::map<std::pair<std::uint64_t, std::uint64_t>, double> weights;
  for (const auto& [from, to, weight] : out_edges(*graph)) weights[{from, to}] = weight;
  for (const auto& [ends, weight] : weights) {
    EXPECT_EQ(weight, (weights[{ends.second, ends.first}]));
    EXPECT_TRUE(weight >= 1 && weight <= 20);
  }
}

TEST(Generate, RefusesAtOnceWhatDoesNotFitIntoMemory) {
  for (const char* text : {"uniform:40", "kron:40:directed:weights=9", "grid:1000000x1000000"}) {
    const auto graph = generate(*parse_generator(text), 1,
                                [&](const std::string&, double) { ADD_FAILURE() << text << ": has begun"; });
    ASSERT_FALSE(graph) << text;
    EXPECT_EQ(graph.error().status, Status::out_of_memory);
    EXPECT_NE(graph.error().message.find("do not fit into memory"), std::string::npos) << graph.error().message;
  }
}

TEST(Generate, SaysWhatIsWrong) {
  for (const char* text :
       {"", "kron", "kron:", "kron:41", "kron:-1", "kron:x", "corn:3", "grid:3", "grid:0x4", "grid:x",
        "uniform:3:degree=9999999999", "kron:3:depth=2", "kron:3::", "grid:99999999999x2"}) {
    const auto spec = parse_generator(text);
    ASSERT_FALSE(spec) << text;
    EXPECT_EQ(spec.error().status, Status::invalid_argument);
  }
}

TEST(Statistics, CountWhatIsThere) {
  // 0 -> 1 twice, 1 -> 0 twice, a loop at 2; 3 alone.
  const std::vector<std::uint64_t> from = {0, 0, 1, 1, 2}, to = {1, 1, 0, 0, 2};
  const auto found = statistics(*make_graph(4, from, to));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->loops, 1u);
  EXPECT_EQ(found->repeated, 2u);
  EXPECT_EQ(found->isolated, 1u);
  EXPECT_TRUE(found->symmetric);
  EXPECT_EQ(found->out.max, 2u);
  EXPECT_EQ(found->out.min, 0u);
  EXPECT_DOUBLE_EQ(found->out.mean, 1.25);
  const std::vector<std::uint64_t> one = {0}, other = {1};
  EXPECT_FALSE(statistics(*make_graph(2, one, other))->symmetric);
}

}  // namespace
}  // namespace smelt::graph
