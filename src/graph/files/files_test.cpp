// Graph files: saves and loads every format, compressed and damaged, and compares with graphs made in memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "graph/csr/build.hpp"
#include "graph/csr/structure.hpp"
#include "graph/csr/weight_of.hpp"
#include "graph/files/container.hpp"
#include "graph/files/crc32c.hpp"
#include "graph/files/ebin.hpp"
#include "smelt/graph.hpp"

namespace smelt::graph {
namespace {

namespace fs = std::filesystem;
using test::weight_of;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class Files : public testing::Test {
 protected:
  Files() : directory_(fs::temp_directory_path() / ("smelt-graph-" + std::to_string(getpid()))) {
    fs::create_directories(directory_);
  }
  ~Files() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string content(const std::string& name) const {
    std::ifstream stream(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// The error message of a load, without the directory.
  std::string error(const std::string& name, const std::string& text, const LoadOptions& options = {}) const {
    const auto graph = load(file(name, text), options);
    if (graph) return "no error";
    auto message = graph.error().message;
    const auto at = message.find(directory_.string() + "/");
    if (at != std::string::npos) message.erase(at, directory_.string().size() + 1);
    return message;
  }

 private:
  fs::path directory_;
};

/// "0>1:5 1>0:7 ..." by node, with weights if there are any.
std::string text_of(const Graph& graph) {
  return with_ids(graph, [&](auto node_id, auto edge_id) {
    const auto out = graph.out<decltype(node_id), decltype(edge_id)>();
    const bool weighted = graph.edge_values("weight") != nullptr;
    std::ostringstream text;
    const char* before = "";
    for (std::uint64_t node = 0; node < graph.num_nodes(); ++node) {
      for (std::uint64_t edge = out.begin[node]; edge < out.begin[node + 1]; ++edge) {
        text << before << node << '>' << std::uint64_t{out.node_idx[edge]};
        if (weighted) text << ':' << weight_of(graph, edge);
        before = " ";
      }
    }
    return text.str();
  });
}

std::string loaded(const std::string& file, const LoadOptions& options = {}) {
  const auto graph = load(file, options);
  return graph ? text_of(*graph) : graph.error().message;
}

enum class Weights { none, whole, large, real };

Graph random_graph(std::uint64_t nodes, std::size_t edges, Weights weights, const BuildOptions& options = {}) {
  std::mt19937_64 random(nodes * 31 + edges);
  EdgeList<std::uint32_t, WeightBits>::Part part;
  EdgeList<std::uint32_t, NoPayload>::Part plain;
  WeightRange range;
  range.real = weights == Weights::real;
  for (std::size_t i = 0; i < edges; ++i) {
    const auto from = static_cast<std::uint32_t>(random() % nodes), to = static_cast<std::uint32_t>(random() % nodes);
    const auto whole = static_cast<std::int64_t>(random() % 512) - 200;
    const auto weight = weights == Weights::large ? whole << 40 : whole;
    const auto bits =
        range.real ? std::bit_cast<WeightBits>(static_cast<double>(whole) / 16) : static_cast<WeightBits>(weight);
    range.min = std::min(range.min, weight);
    range.max = std::max(range.max, weight);
    EXPECT_TRUE(weights == Weights::none ? plain.add({from, to, {}}) : part.add({from, to, bits}));
  }
  ListOptions list_options;
  static_cast<BuildOptions&>(list_options) = options;
  list_options.nodes = nodes;
  const auto team = ThreadTeam::create(2);
  if (weights == Weights::none) {
    EdgeList<std::uint32_t, NoPayload> list;
    list.append(plain);
    return *build_graph(**team, std::move(list), list_options);
  }
  EdgeList<std::uint32_t, WeightBits> list;
  list.append(part, 0, range.real);
  return *build_graph(**team, std::move(list), range, list_options);
}

TEST_F(Files, EveryFormatRoundTrips) {
  for (const std::uint64_t nodes : {1u, 2u, 40u, 3000u}) {
    for (const std::size_t edges : {0u, 1u, 100u, 4000u}) {
      for (const auto weights : {Weights::none, Weights::whole, Weights::large, Weights::real}) {
        for (const bool undirected : {false, true}) {
          BuildOptions options;
          options.undirected = undirected;
          const Graph graph = random_graph(nodes, edges, weights, options);
          const auto text = text_of(graph);
          for (const char* name : {"a.el", "a.mtx", "a.gr", "a.graph", "a.sg", "a.wsg", "a.ebin", "a.adj", "a.smg"}) {
            const std::string ending = fs::path(name).extension();
            const auto saved = save(graph, path(name));
            const auto* column = graph.edge_values("weight");
            if (ending == ".wsg" && (column == nullptr || column->type() != ValueType::int32)) {
              EXPECT_EQ(saved.error().status, Status::invalid_argument);
              continue;
            }
            ASSERT_TRUE(saved) << saved.error().message;
            LoadOptions load_options;
            load_options.threads = 3;
            load_options.adj_edge_values = weights == Weights::none ? 0 : 1;
            const auto again = load(path(name), load_options);
            ASSERT_TRUE(again) << again.error().message;
            if (ending == ".sg") {
              EXPECT_EQ(again->num_edges(), graph.num_edges());
            } else if (ending == ".gr" && weights == Weights::none) {
              EXPECT_TRUE(edges == 0 || weight_of(*again, 0) == 1.0);
            } else if (edges > 0) {
              ASSERT_EQ(text_of(*again), text) << name << ": " << nodes << " nodes, " << edges << " edges";
            }
            EXPECT_EQ(again->num_nodes(), ending == ".el" ? again->num_nodes() : graph.num_nodes()) << name;
            if (ending == ".mtx" || ending == ".sg" || ending == ".smg") {
              EXPECT_EQ(again->undirected(), undirected) << name;
            }
          }
        }
      }
    }
  }
}

TEST_F(Files, EdgeListsAsPeopleWriteThem) {
  EXPECT_EQ(loaded(file("a.el", "")), "");
  EXPECT_EQ(loaded(file("a.el", "# nothing\n\n%\n")), "");
  EXPECT_EQ(loaded(file("a.el", "# Nodes: 3 Edges: 2\n\n2 0\n 0\t1 \n")), "0>1 2>0");
  EXPECT_EQ(loaded(file("a.el", "0,1\r\n1;0\r\n")), "0>1 1>0");
  EXPECT_EQ(loaded(file("a.el", "0 1")), "0>1");
  EXPECT_EQ(loaded(file("a.csv", "0 , 1 , 5")), "0>1:5");
  EXPECT_EQ(loaded(file("a.wel", "% c\n0 1 5\n1 0 -3\n# c\n1 1 0.5 77 further\n")), "0>1:5 1>0:-3 1>1:0.5");
  EXPECT_EQ(loaded(file("a.wel", "0 1 1e3\n1 0 +2\n")), "0>1:1000 1>0:2");
  EXPECT_EQ(loaded(file("noname", "1 0\n")), "1>0");
  EXPECT_EQ(load(file("a.el", "0 1 4\n1 0 9999999999\n"))->edge_values("weight")->type(), ValueType::int64);
  EXPECT_EQ(load(file("a.el", "0 1 4\n1 0 -4\n"))->edge_values("weight")->type(), ValueType::int32);
}

TEST_F(Files, LinesThatEndWithCarriageReturnsAloneAreRefused) {
  for (const char* text : {"0 1\r1 2\r2 0\r", "# c\r0 1\r", "0 1 5\r1 0 5\r\n"}) {
    EXPECT_THAT(error("a.el", text), HasSubstr("a.el:1: lines end with CR alone"));
  }
}

TEST_F(Files, AByteOrderMarkIsNoText) {
  for (const char* text : {"\xEF\xBB\xBF"
                           "0 1\r\n1 0\r\n",
                           "\xEF\xBB\xBF# comment\n0 1\n1 0"}) {
    EXPECT_EQ(loaded(file("a.el", text)), "0>1 1>0");
  }
  EXPECT_EQ(loaded(file("a.el", "\xEF\xBB\xBF")), "");
  EXPECT_THAT(error("a.el",
                    "\xEF\xBB"
                    "0 1\n"),
              HasSubstr("is not a node's number"));
}

TEST_F(Files, RepeatedEdgesKeepTheOrderOfTheFile) {
  EXPECT_EQ(loaded(file("a.el", "0 1 5\n1 0 7\n0 1 3\n0 1 4\n")), "0>1:5 0>1:3 0>1:4 1>0:7");
  LoadOptions options;
  options.simple = true;
  EXPECT_EQ(loaded(path("a.el"), options), "0>1:3 1>0:7");
  options.undirected = true;
  EXPECT_EQ(loaded(path("a.el"), options), "0>1:3 1>0:3");
}

TEST_F(Files, LargeNumbersOfNodesAreRenumberedOnRequest) {
  const std::string text = "10000000000 3\n3 70000000000\n";
  EXPECT_THAT(error("a.el", text), HasSubstr("--renumber"));
  LoadOptions options;
  options.renumber = true;
  const auto graph = load(path("a.el"), options);
  ASSERT_TRUE(graph) << graph.error().message;
  EXPECT_EQ(text_of(*graph), "0>2 1>0");
  EXPECT_EQ(graph->node_values("id")->values<std::int64_t>()[2], 70000000000);
  EXPECT_THAT(error("a.el", "0 5000000000\n"), HasSubstr("a.el: numbers its nodes up to 5000000000"));
  const auto largest = load(file("a.el", "1234567890123456789 9223372036854775807 -1700000000000000001\n"), options);
  ASSERT_TRUE(largest) << largest.error().message;
  EXPECT_EQ(largest->node_values("id")->values<std::int64_t>()[0], 1234567890123456789);
  EXPECT_EQ(largest->node_values("id")->values<std::int64_t>()[1], 9223372036854775807);
  ASSERT_EQ(largest->edge_values("weight")->type(), ValueType::int64);
  EXPECT_EQ(largest->edge_values("weight")->values<std::int64_t>()[0], -1700000000000000001);
  EXPECT_EQ(error("a.el", "9223372036854775808 0\n"), "a.el:1: '9223372036854775808' is not a node's number");
}

TEST_F(Files, ErrorsNameTheLineAndTheReason) {
  EXPECT_EQ(error("a.el", "0 1\n1 x\n"), "a.el:2: 'x' is not a node's number");
  EXPECT_EQ(error("a.el", "0 1\n\n# c\n1\n"), "a.el:4: a node's number is missing");
  EXPECT_EQ(error("a.el", "0 1\n-1 0\n"), "a.el:2: '-1' is not a node's number");
  EXPECT_EQ(error("a.el", "0 1\n1.5 0\n"), "a.el:2: '1.5' is not a node's number");
  EXPECT_EQ(error("a.el", "0 1 2\n1 0\n"), "a.el:2: a weight like that of the first edge is missing");
  EXPECT_EQ(error("a.el", "0 1 2\n1 0 nan\n"), "a.el:2: 'nan' is not a weight like that of the first edge");
  EXPECT_EQ(error("a.el", "0 1\n9999999999999999999 0\n"), "a.el:2: '9999999999999999999' is not a node's number");
  EXPECT_EQ(error("a.el", std::string("0 1\n\0\x01 0\n", 9)),
            "a.el:2: '?"
            "?' is not a node's number");
  EXPECT_EQ(error("a.mtx", "x\n"), "a.mtx:1: must start with '%%MatrixMarket matrix coordinate ...'");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix array real general\n"),
            "a.mtx:1: 'array' matrices are no graphs; coordinate ones are");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix coordinate complex general\n1 1 1\n"),
            "a.mtx:1: 'complex' values cannot be weights; pattern, integer or real ones can");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n%\n2 3 1\n1 2\n"),
            "a.mtx:3: a graph's matrix is square, not 2 x 3");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 3\n"),
            "a.mtx:3: entry (1, 3) is not in a matrix of 1 to 2");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n0 1\n"),
            "a.mtx:3: entry (0, 1) is not in a matrix of 1 to 2");
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 2\n"),
            "a.mtx: has 1 edges; its header says 2");
  EXPECT_EQ(error("a.gr", "c\np sp 2 1\nb 1 2 3\n"), "a.gr:3: 'b': lines start with 'a' or 'c'");
  EXPECT_EQ(error("a.gr", "p sp 2 1\na 1 3 3\n"), "a.gr:2: edge 1 3: nodes are numbered 1 to 2");
  EXPECT_EQ(error("a.gr", "p max 2 1\n"), "a.gr:1: must be 'p sp NODES EDGES' or 'p edge NODES EDGES'");
  EXPECT_EQ(error("a.graph", "2 1\n2\n1\n1\n"), "a.graph:4: a line too many: the header says 2 nodes");
  EXPECT_EQ(error("a.graph", "3 1\n2\n1\n"), "a.graph: has lines for 2 nodes; its header says 3");
  EXPECT_EQ(error("a.graph", "2 1\n2\n3\n"), "a.graph:3: neighbour 3: nodes are numbered 1 to 2");
  EXPECT_EQ(error("a.graph", "3 1\n2\n3\n\n"),
            "a.graph: an edge is listed at one of its nodes only; the format wants both");
  EXPECT_EQ(error("a.graph", "2 5\n2\n1\n"), "a.graph: has 2 edges; its header says 5");
  EXPECT_EQ(error("a.smg", "x"), "a.smg: does not start as a graph file of smelt does");
  EXPECT_EQ(error("a.sg", "x"), "a.sg: ends at byte 1, although more must follow");
  EXPECT_THAT(load(path("missing")).error().message, HasSubstr("missing: cannot be opened: No such file"));
  EXPECT_EQ(load(path("missing")).error().status, Status::not_found);
  EXPECT_EQ(load(path(".")).error().status, Status::invalid_argument);
}

/// GAP's serialized graph of these rows; undirected unless told.
std::string serialized(const std::vector<std::vector<std::uint32_t>>& rows, bool directed = false) {
  std::string bytes(1, directed ? '\1' : '\0'), offsets, nodes;
  const auto append = [](std::string& to, auto value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::int64_t edges = 0;
  append(offsets, edges);
  for (const auto& row : rows) {
    edges += static_cast<std::int64_t>(row.size());
    append(offsets, edges);
    for (const auto node : row) append(nodes, node);
  }
  append(bytes, edges);
  append(bytes, static_cast<std::int64_t>(rows.size()));
  bytes += offsets + nodes;
  return directed ? bytes + offsets + nodes : bytes;
}

TEST_F(Files, UndirectedGraphsOfGapHaveAllReverses) {
  EXPECT_EQ(loaded(file("a.sg", serialized({{1, 1, 2}, {0, 0, 1}, {0}}))), "0>1 0>1 0>2 1>0 1>0 1>1 2>0");
  EXPECT_TRUE(load(path("a.sg"))->undirected());
  EXPECT_EQ(loaded(file("a.sg", serialized({{2, 1}, {0}, {0}}))), "0>1 0>2 1>0 2>0");  // not sorted
  for (const auto& rows :
       {std::vector<std::vector<std::uint32_t>>{{1}, {}}, {{1, 1}, {0}}, {{1, 2}, {0, 0}, {}}, {{1}, {2}, {0}}}) {
    EXPECT_EQ(error("b.sg", serialized(rows)),
              "b.sg: says that it is undirected, but the reverse of an edge is missing");
    EXPECT_EQ(error("b.sg", serialized(rows, true)), "no error");
  }
  EXPECT_EQ(error("c.sg", serialized({{1}, {3}})), "c.sg: an edge leads to a node that is not there");
}

TEST_F(Files, RowsOfManyPiecesAreSorted) {
  // A piece of the file has 2^18 nodes: rows that end with it, go on behind it, and descend there only.
  constexpr std::uint32_t piece = 1u << 18;
  for (const std::uint32_t first_row : {piece - 1, piece, piece + 1}) {
    for (const bool descends : {false, true}) {
      std::vector<std::vector<std::uint32_t>> rows(2 * piece);
      for (std::uint32_t i = 0; i < first_row; ++i) rows[0].push_back(i + 10);
      for (std::uint32_t i = 0; i < 3; ++i) rows[1].push_back(i + (descends && first_row == piece ? 3 - 2 * i : 0));
      if (descends && first_row != piece) std::swap(rows[0][piece - 2], rows[0].back());
      if (descends && first_row == piece + 1) std::swap(rows[0][piece - 2], rows[0][piece - 1]);
      const auto graph = load(file("a.sg", serialized(rows, true)));
      ASSERT_TRUE(graph);
      const auto out = graph->out<std::uint32_t, std::uint32_t>();
      ASSERT_EQ(out.degree(0), first_row);
      EXPECT_TRUE(std::is_sorted(out.node_idx, out.node_idx + first_row)) << first_row;
      EXPECT_TRUE(std::is_sorted(out.node_idx + first_row, out.node_idx + first_row + 3)) << first_row;
    }
  }
}

TEST_F(Files, TheFirstOfManyErrorsIsNamed) {
  std::string text;
  for (int i = 0; i < 1200000; ++i) text += i >= 800000 && i % 5 == 0 ? "bad\n" : "12345 67890\n";
  LoadOptions options;
  options.threads = 4;
  EXPECT_EQ(error("a.el", text, options), "a.el:800001: 'bad' is not a node's number");
}

TEST_F(Files, MetisInBothInterpretations) {
  EXPECT_EQ(loaded(file("a.graph", "% c\n3 2\n2 3\n% c\n1\n1\n\n")), "0>1 0>2 1>0 2>0");
  EXPECT_TRUE(load(path("a.graph"))->undirected());
  EXPECT_EQ(loaded(file("a.graph", "3 2\n2 3\n\n\n")), "0>1 0>2");
  EXPECT_FALSE(load(path("a.graph"))->undirected());
  EXPECT_EQ(loaded(file("a.graph", "2 1 1\n2 7\n1 7\n")), "0>1:7 1>0:7");
  EXPECT_EQ(loaded(file("a.graph", "2 1 11\n9 2 7\n9 1 7\n")), "0>1:7 1>0:7");
  EXPECT_EQ(loaded(file("a.graph", "2 1 10 2\n8 9 2\n8 9 1\n")), "0>1 1>0");
  EXPECT_EQ(loaded(file("a.graph", "2 1 100\n5 2\n5 1\n")), "0>1 1>0");     // node sizes
  EXPECT_EQ(loaded(file("a.graph", "2 3 100\n1 2 2\n\n")), "0>0 0>1 0>1");  // loops and repeated edges
}

TEST_F(Files, DimacsAndMatrixMarketOfUndirectedGraphs) {
  EXPECT_EQ(loaded(file("a.col", "c x\np edge 3 2\ne 1 2\ne 2 3\n")), "0>1 1>0 1>2 2>1");
  EXPECT_EQ(loaded(file("a.col", "p edge 2 1\ne 1 2\ne 2 1\n")), "0>1 1>0");
  EXPECT_EQ(loaded(file("a.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 0.5\n2 1 4\n")),
            "0>0:0.5 0>1:4 1>0:4");
  EXPECT_EQ(loaded(file("b", "%%MatrixMarket MATRIX Coordinate Pattern General\n\n2 2 1\n\n2 1\n")), "1>0");
}

TEST_F(Files, AdjOfGreenMarl) {
  LoadOptions options;
  EXPECT_EQ(loaded(file("a.adj", "2 0 1\n0 2\n\n7\n"), options), "0>2 2>0 2>1");
  EXPECT_EQ(load(path("a.adj"), options)->num_nodes(), 8u);
  options.adj_node_values = 2;
  options.adj_edge_values = 1;
  EXPECT_EQ(loaded(file("a.adj", "0 x 1.5 1 5 2 6\n1 y 2\n"), options), "0>1:5 0>2:6");
  EXPECT_EQ(error("a.adj", "0 x\n", options), "a.adj:1: a value of the node is missing");
  EXPECT_EQ(error("a.adj", "0 x 1 1 5 2\n", options), "a.adj:1: an edge's value is missing");
}

TEST_F(Files, CompressedTextIsTheSame) {
  const Graph graph = random_graph(3000, 200000, Weights::whole);
  const auto text = text_of(graph);
  ASSERT_TRUE(save(graph, path("a.wel")));
  for (const char* command : {"gzip -kf ", "zstd -qkf "}) {
    ASSERT_EQ(std::system((command + path("a.wel")).c_str()), 0);
  }
  // Two members are one file.
  ASSERT_EQ(std::system(("cat " + path("a.wel.gz") + " " + path("a.wel.gz") + " > " + path("b.wel.gz")).c_str()), 0);
  for (const int threads : {1, 3}) {
    LoadOptions options;
    options.threads = threads;
    EXPECT_EQ(loaded(path("a.wel.gz"), options), text);
    EXPECT_EQ(loaded(path("a.wel.zst"), options), text);
    EXPECT_EQ(load(path("b.wel.gz"), options)->num_edges(), 2 * graph.num_edges());
  }
  for (const std::string name : {"a.wel.gz", "a.wel.zst"}) {
    auto damaged = content(name);
    damaged.resize(damaged.size() / 2);
    EXPECT_THAT(error("short" + name, damaged), HasSubstr("ends too early"));
    for (std::size_t i = 1000; i < damaged.size(); i += 97) damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    EXPECT_THAT(error("damaged" + name, damaged), HasSubstr("damaged near byte"));
  }
}

TEST_F(Files, MessagesShowForeignTextAsPrintable) {
  EXPECT_THAT(parse_format("w\x1c\n").error().message, StartsWith("'w?"
                                                                  "?': no such format"));
  EXPECT_EQ(error("a.mtx", "%%MatrixMarket matrix \xff" + std::string(40, 'x') + " real general\n"),
            "a.mtx:1: '?" + std::string(39, 'x') + "...' matrices are no graphs; coordinate ones are");
  EXPECT_EQ(error("b.mtx", "%%MatrixMarket matrix coordinate a\x7f general\n"),
            "b.mtx:1: 'a?' values cannot be weights; pattern, integer or real ones can");
  EXPECT_EQ(error("c.mtx", "%%MatrixMarket matrix coordinate real \x01\n"),
            "c.mtx:1: a '?' matrix is no graph; a general or symmetric one is");
}

TEST_F(Files, ASmallFileCannotAskForALargeWindow) {
  file("a.el", "0 1\n1 2\n");
  const auto through_pipe = [&](const std::string& options) {
    const std::string command = "zstd -q " + options + " < " + path("a.el") + " > " + path("a.el.zst");
    ASSERT_EQ(std::system(command.c_str()), 0);
  };
  through_pipe("");
  EXPECT_EQ(loaded(path("a.el.zst"), {}), "0>1 1>2");
  through_pipe("-19");  // needs a window of 8 MiB
  const auto refused = load(path("a.el.zst"), {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, Status::not_supported);
  EXPECT_THAT(refused.error().message, HasSubstr("decompress it first"));
}

TEST_F(Files, TheContainerKeepsAllAndNoticesDamage) {
  Graph graph = random_graph(2000, 50000, Weights::real);
  std::vector<std::int64_t> values(graph.num_nodes());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i) * 3;
  graph = *graph.with_node_values(Column::of<std::int64_t>("three times", values));
  ASSERT_TRUE((graph.in<std::uint32_t, std::uint32_t>()));
  ASSERT_TRUE(graph.in_edge_numbers<std::uint32_t>());
  ASSERT_TRUE(save(graph, path("a.smg")));
  const auto again = load(path("a.smg"));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(text_of(*again), text_of(graph));
  EXPECT_EQ(again->node_values("three times")->values<std::int64_t>()[1999], 5997);
  EXPECT_TRUE(again->structure().in_ready.load());
  const auto in = *graph.in<std::uint32_t, std::uint32_t>(), in_again = *again->in<std::uint32_t, std::uint32_t>();
  EXPECT_TRUE(std::equal(in.node_idx, in.node_idx + graph.num_edges(), in_again.node_idx));
  EXPECT_TRUE(std::equal(*graph.in_edge_numbers<std::uint32_t>(),
                         *graph.in_edge_numbers<std::uint32_t>() + graph.num_edges(),
                         *again->in_edge_numbers<std::uint32_t>()));
  const auto good = content("a.smg");
  for (const std::size_t at : {std::size_t{100}, std::size_t{5000}, good.size() / 2, good.size() - 1}) {
    auto damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(load(file("damaged.smg", damaged)).error().status, Status::bad_format) << at;
  }
  EXPECT_THAT(error("short.smg", good.substr(0, good.size() - 5)), HasSubstr("it is not complete"));
  auto other_version = good;
  other_version[8] = 9;
  EXPECT_THAT(error("version.smg", other_version), HasSubstr("has version 9"));
}

/// A container with correct checksums again, after a change of its header and content.
std::string repaired(std::string file, const container::Header& header) {
  auto* data = reinterpret_cast<std::byte*>(file.data());
  auto* to = data + header.crcs_offset;
  for (std::uint64_t first = container::alignment; first < header.crcs_offset; first += container::block_bytes) {
    const auto last = std::min(first + container::block_bytes, header.crcs_offset);
    const auto crcs = crc32c_lanes(data + first, (last - first) / crc_lanes);
    std::memcpy(to, crcs.data(), sizeof crcs);
    to += sizeof crcs;
  }
  container::Header changed = header;
  changed.crc = 0;
  changed.crc = crc32c(reinterpret_cast<const std::byte*>(&changed), container::header_bytes(changed.sections));
  std::memcpy(data, &changed, sizeof changed);
  return file;
}
container::Header header_of(const std::string& file) {
  container::Header header;
  std::memcpy(&header, file.data(), sizeof header);
  return header;
}
std::uint32_t* edges_of(std::string& file) {
  const auto header = header_of(file);
  const auto section = std::find_if(header.section, header.section + header.sections,
                                    [](const auto& each) { return each.kind == container::SectionKind::out_node_idx; });
  return reinterpret_cast<std::uint32_t*>(file.data() + section->offset);
}

TEST_F(Files, TheContainerIsWhatItsHeaderSays) {
  const auto says = [&](const std::string& text, auto&& change) {
    EXPECT_TRUE(save(*load(file("a.el", text)), path("a.smg")));
    const auto whole = content("a.smg");
    auto header = header_of(whole);
    change(header);
    return error("b.smg", repaired(whole, header));
  };
  const auto undirected = [](container::Header& header) { header.undirected = 1; };
  const auto simple = [](container::Header& header) { header.simple = 1; };
  EXPECT_EQ(says("0 1\n1 0\n1 2\n2 1\n2 2\n", undirected), "no error");
  const std::string one_way = "b.smg: says that it is undirected, but the reverse of an edge is missing";
  for (const char* text : {"0 1\n", "0 1\n1 0\n1 0\n", "0 1\n1 2\n2 0\n"}) EXPECT_EQ(says(text, undirected), one_way);
  EXPECT_EQ(says("0 1\n1 0\n1 2\n", simple), "no error");
  const std::string repeats = "b.smg: says that it is simple, but has a loop or repeats an edge";
  for (const char* text : {"0 0\n", "0 1\n0 1\n", "0 1\n1 0\n1 1\n"}) EXPECT_EQ(says(text, simple), repeats);
}

TEST_F(Files, TheContainersEdgesAscendAcrossItsBlocks) {
  constexpr std::uint64_t nodes = 450'000;
  // Node 0 has so many edges; if these are not all, node 1 has others.
  const auto saved = [&](std::uint64_t first_row) {
    std::vector<std::uint64_t> from(first_row, 0), to(first_row);
    std::iota(to.begin(), to.end(), 1u);
    for (std::uint64_t i = 2; i < nodes && first_row < nodes - 1; ++i) {
      from.push_back(1);
      to.push_back(i);
    }
    EXPECT_TRUE(save(*make_graph(nodes, from, to, {}), path("a.smg")));
    return content("a.smg");
  };
  auto file = saved(nodes - 1);
  const auto header = header_of(file);
  auto* edges = edges_of(file);
  const auto into_block =
      static_cast<std::uint64_t>(reinterpret_cast<char*>(edges) - file.data()) - container::alignment;
  const auto border = (container::block_bytes - into_block % container::block_bytes) / sizeof *edges;
  const std::string not_sorted = "b.smg: has a node whose edges do not ascend";
  for (const std::uint64_t at : {border - 1, border, border + 1}) {
    for (const std::uint64_t next : {at, at + container::block_bytes / sizeof *edges}) {
      auto changed = file;
      std::swap(edges_of(changed)[next - 1], edges_of(changed)[next]);
      EXPECT_EQ(error("b.smg", repaired(changed, header)), not_sorted) << next;
      changed = file;
      edges_of(changed)[next] = edges_of(changed)[next - 1];
      EXPECT_EQ(error("b.smg", repaired(changed, header)), "no error") << next;
      auto simple = header;
      simple.simple = 1;
      EXPECT_THAT(error("b.smg", repaired(changed, simple)), HasSubstr("simple")) << next;
    }
    auto two_rows = saved(at);
    auto simple = header_of(two_rows);
    simple.simple = 1;
    EXPECT_EQ(error("b.smg", repaired(two_rows, simple)), "no error") << at;
  }
}

TEST_F(Files, TheContainersEdgesAreNumberedAsWideAsItsNodes) {
  ListOptions options;
  options.nodes = 3;
  options.wide = true;
  ASSERT_TRUE(
      save(*build_graph(**ThreadTeam::create(1), EdgeList<std::uint32_t, NoPayload>(), options), path("a.smg")));
  const auto whole = content("a.smg");
  auto header = header_of(whole);
  header.edge_bytes = 4;
  for (std::uint32_t i = 0; i < header.sections; ++i) {
    if (header.section[i].kind == container::SectionKind::out_begin) header.section[i].size_bytes = 4 * 4;
  }
  EXPECT_EQ(error("b.smg", repaired(whole, header)), "b.smg: has a header that contradicts itself");
}

TEST_F(Files, WideGraphsKeepTheirWidth) {
  ListOptions options;
  options.nodes = 3;
  options.wide = true;
  EdgeList<std::uint32_t, NoPayload>::Part part;
  ASSERT_TRUE(part.add({2, 1, {}}));
  EdgeList<std::uint32_t, NoPayload> list;
  list.append(part);
  const auto graph = build_graph(**ThreadTeam::create(1), std::move(list), options);
  for (const char* name : {"a.smg", "a.ebin", "a.sg", "a.el"}) {
    ASSERT_TRUE(save(*graph, path(name)));
    const auto again = load(path(name));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(text_of(*again), "2>1");
    EXPECT_EQ(again->node_id_bytes(), std::string(name) == "a.smg" ? 8 : 4);
  }
}

TEST_F(Files, BoolsOfABinaryFileAreTrueOrFalse) {
  // Two nodes, one edge, a value for each node and for the edge.
  const auto loads = [&](char node_value, char edge_value) {
    std::string bytes;
    const auto append = [&](std::initializer_list<std::uint32_t> numbers) {
      for (const auto number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    append({ebin::magic, 4, 4, 2, 1, 0, 1, 1, 1, 1, 0});
    bytes += {'\0', node_value};
    append({1, 0});
    bytes += edge_value;
    append({ebin::end_mark});
    return error("a.ebin", bytes);
  };
  EXPECT_EQ(loads(1, 1), "no error");
  EXPECT_EQ(loads(2, 1), "a.ebin: a value is neither true nor false");
  EXPECT_EQ(loads(0, 77), "a.ebin: a value is neither true nor false");
}

TEST_F(Files, ABinaryFileThatEndsAmongItsNodesIsTooShort) {
  ASSERT_TRUE(save(*make_graph(1000, {}, {}), path("a.ebin")));
  EXPECT_EQ(load(path("a.ebin"))->num_nodes(), 1000u);
  const auto whole = content("a.ebin");
  for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{600}}) {
    const auto cut = load(file("b.ebin", whole.substr(0, size)));
    ASSERT_FALSE(cut) << size;
    EXPECT_EQ(cut.error().status, Status::bad_format) << size;
  }
}

TEST_F(Files, ChangesOnTheWay) {
  const Graph graph = random_graph(100, 3000, Weights::whole);
  for (const char* name : {"a.el", "a.mtx", "a.wsg", "a.ebin", "a.smg"}) {
    ASSERT_TRUE(save(graph, path(name)));
    LoadOptions options;
    options.undirected = options.simple = true;
    EXPECT_EQ(loaded(path(name), options), text_of(random_graph(100, 3000, Weights::whole, options))) << name;
  }
}

TEST_F(Files, NothingIsLeftBehind) {
  const Graph graph = random_graph(10, 20, Weights::none);
  EXPECT_EQ(save(graph, path("no/such/a.el")).error().status, Status::not_found);
  EXPECT_EQ(save(graph, path("a.xyz")).error().status, Status::invalid_argument);
  EXPECT_EQ(save(graph, path("a.wsg")).error().status, Status::invalid_argument);
  EXPECT_THAT(save(graph, "/dev/full").error().status, testing::Ne(Status::ok));
  EXPECT_TRUE(fs::is_empty(path("")));
}

TEST_F(Files, DevicesPipesAndLinksStayWhatTheyAre) {
  const Graph graph = random_graph(10, 20, Weights::none);
  SaveOptions as_edge_list;
  as_edge_list.format = Format::edge_list;
  if (fs::is_character_file("/dev/full")) {
    const auto full = save(graph, "/dev/full", as_edge_list);
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, testing::HasSubstr("/dev/full: cannot be written"));
    EXPECT_TRUE(fs::is_character_file("/dev/full"));
  }
  const auto pipe = path("pipe"), copy = path("copy.el"), link = path("link.el");
  ASSERT_EQ(std::system(("mkfifo " + pipe).c_str()), 0);
  std::thread reader([&] { EXPECT_EQ(std::system(("cat " + pipe + " > " + copy).c_str()), 0); });
  EXPECT_TRUE(save(graph, pipe, as_edge_list));
  reader.join();
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(loaded(copy), text_of(graph));
  fs::create_symlink(copy, link);
  ASSERT_TRUE(save(random_graph(20, 50, Weights::none), link));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(loaded(copy), text_of(random_graph(20, 50, Weights::none)));
}

TEST_F(Files, ReadFromAPipe) {
  const auto name = path("pipe");
  ASSERT_EQ(std::system(("mkfifo " + name + " && (printf '0 1\\n1 0' > " + name + " &)").c_str()), 0);
  EXPECT_EQ(loaded(name), "0>1 1>0");
}

TEST(Formats, HaveNames) {
  for (const char* name : {"edge-list", "matrix-market", "dimacs", "metis", "gap", "ebin", "adj", "smelt"}) {
    ASSERT_TRUE(parse_format(name));
    EXPECT_STREQ(to_string(*parse_format(name)), name);
  }
  EXPECT_THAT(parse_format("gml").error().message, HasSubstr("one of edge-list, matrix-market"));
}

TEST(Crc32c, IsCastagnolis) {
  const std::string nine = "123456789";
  EXPECT_EQ(crc32c(reinterpret_cast<const std::byte*>(nine.data()), nine.size()), 0xE3069283u);
  for (const std::size_t lane : {0u, 1u, 7u, 8u, 33u, 1000u}) {
    std::vector<std::byte> data(4 * lane);
    std::mt19937 random(static_cast<unsigned>(lane));
    for (auto& byte : data) byte = static_cast<std::byte>(random());
    const auto lanes = crc32c_lanes(data.data(), lane);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(lanes[i], crc32c(data.data() + i * lane, lane));
  }
}

// A small graph that is stored beside the project in many formats.
TEST(SharedGraphs, AreTheSameGraph) {
  const fs::path shared = fs::path(SMELT_SOURCE_DIR) / ".." / "shared" / "graphs";
  if (!fs::exists(shared / "4.el")) GTEST_SKIP() << "no graphs beside the project";
  LoadOptions simple;
  simple.simple = true;
  const auto weighted = load(shared / "4.wel");
  ASSERT_TRUE(weighted) << weighted.error().message;
  EXPECT_EQ(weighted->num_nodes(), 14u);
  EXPECT_EQ(weighted->num_edges(), 256u);
  EXPECT_EQ(loaded(shared / "4.gr"), text_of(*weighted));
  EXPECT_EQ(loaded(shared / "4.mtx"), loaded(shared / "4.el"));
  EXPECT_EQ(loaded(shared / "4.graph"), loaded(shared / "4.el", simple));
  EXPECT_EQ(load(shared / "4w.mtx")->num_edges(), 256u);
  EXPECT_EQ(load(shared / "4w.graph")->num_edges(), 53u);
}

}  // namespace
}  // namespace smelt::graph
