// Compiles and runs programs, and compares them with plain sequential code on the same graphs.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

#include "graph/language/thesis_programs.hpp"
#include "graph/run/compiler.hpp"
#include "graph/run/small_graphs.hpp"
#include "smelt/graph_algorithms.hpp"
#include "smelt/graph_program.hpp"

namespace smelt::graph {
namespace {

using test::run;
using test::small_graphs;
using test::thread_counts;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

GreenMarl program(const std::string& text) {
  const auto program = GreenMarl::parse("a.gm", text);
  EXPECT_TRUE(program.good()) << program.formatted_messages();
  return program;
}

CompiledProgram compiled(const std::string& text) {
  const auto result = program(text).compile(4, 4);
  if (!result) ADD_FAILURE() << result.error().message << "\n" << program(text).cpp();
  return *result;
}

TEST(Run, PageRankOfTheThesis) {
  const auto pagerank = compiled(language::pagerank);
  for (const auto& plain : small_graphs()) {
    const auto n = plain.nodes;
    std::vector<double> rank(n, 1.0 / static_cast<double>(n)), degree(n);
    for (const auto from : plain.from) ++degree[from];
    for (int step = 0; step < 20; ++step) {
      std::vector<double> next(n, 0.15 / static_cast<double>(n));
      for (std::size_t edge = 0; edge < plain.from.size(); ++edge)
        next[plain.to[edge]] += 0.85 * rank[plain.from[edge]] / degree[plain.from[edge]];
      rank = next;
    }
    for (const int threads : thread_counts) {
      Arguments arguments;
      arguments.graphs.emplace("G", plain.graph);
      arguments.values = {{"e", 0.0}, {"d", 0.85}, {"max", std::int64_t{20}}};
      const auto result = run(pagerank, "pagerank", arguments, threads);
      const auto values = result.columns.at("pg_rank").values<double>();
      for (std::uint64_t node = 0; node < n; ++node) ASSERT_NEAR(values[node], rank[node], 1e-12) << threads;
    }
  }
}

/// A sum over neighbours of what other nodes have; `LIST` is Nbrs or InNbrs.
std::string sums(const std::string& list) {
  return "Procedure sums(G: Graph, a: N_P<Float>, b: N_P<Double>; one, both: N_P<Double>) {\n"
         "  Foreach (v: G.Nodes) {\n"
         "    v.one = Sum(w: v." +
         list +
         "){w.b};\n"
         "    v.both = Sum(w: v." +
         list +
         "){w.a + w.b};\n"
         "  }\n"
         "}\n";
}

TEST(Run, FetchingAheadChangesNoBit) {
  auto graphs = small_graphs();
  graphs.resize(12);
  graphs.push_back(test::plain_graph(*generate(*parse_generator("kron:11:directed"), 2)));
  CompileOptions waiting;
  waiting.fetch_ahead = false;
  for (const std::string list : {"Nbrs", "InNbrs"}) {
    for (const bool precompute : {true, false}) {
      CompileOptions asking;
      asking.precompute = waiting.precompute = precompute;
      const auto ahead = *program(sums(list)).compile(4, 4, asking);
      const auto plain = *program(sums(list)).compile(4, 4, waiting);
      for (const auto& each : graphs) {
        Arguments arguments;
        arguments.graphs.emplace("G", each.graph);
        std::vector<float> a(each.nodes);
        std::vector<double> b(each.nodes);
        for (std::uint64_t node = 0; node < each.nodes; ++node) {
          a[node] = 1.0f / static_cast<float>(node + 1);
          b[node] = std::sqrt(static_cast<double>(node));
        }
        arguments.columns.emplace("a", Column::of<float>("a", a));
        arguments.columns.emplace("b", Column::of<double>("b", b));
        const auto expected = run(plain, "sums", arguments, 1);
        // 256 edges ahead, 64, and not at all.
        for (const RunOptions::Caches caches : {RunOptions::Caches{1, 1}, {1, 1 << 20}, {1 << 20, 1 << 20}}) {
          for (const int threads : {1, 3}) {
            RunOptions options;
            options.threads = threads;
            options.caches = caches;
            const auto result = ahead.run("sums", arguments, options);
            ASSERT_TRUE(result) << result.error().message;
            for (const char* name : {"one", "both"}) {
              const auto found = result->columns.at(name).values<double>(),
                         wanted = expected.columns.at(name).values<double>();
              ASSERT_TRUE(std::equal(found.begin(), found.end(), wanted.begin(), wanted.end())) << name << threads;
            }
          }
        }
      }
    }
  }
}

/// The output of `explain` about a program's statements, as one text.
std::string decisions_of(const std::string& text) {
  std::string all;
  for (const auto& decision : program(text).decisions())
    all += std::to_string(decision.line) + ": " + decision.text + "\n";
  return all;
}

TEST(Run, OutputsThatAreNotAssignedAreInitialized) {
  const auto compiled = *program(
                             "Local some(G: Graph, way: Int; n: Node, x: Int) { If (way > 0) { n = NIL; x = way; } }\n"
                             "Procedure f(G: Graph; n, m, p: Node, e: Edge, k, x: Int, b: Bool) : Bool {\n"
                             "  Bool same = n == NIL && e == NIL;\n"
                             "  m = G.PickRandom();\n"
                             "  p = m;\n"
                             "  x = 7;\n"
                             "  some(G, 0; m, x);\n"
                             "  some(G, 0; #, k);\n"
                             "  Return same && p != NIL;\n"
                             "}\n")
                             .compile(4, 4);
  Arguments arguments;
  arguments.graphs.emplace("G", small_graphs()[2].graph);
  const auto result = run(compiled, "f", arguments, 1);
  EXPECT_EQ(result.returned, Value(true));
  for (const char* name : {"n", "m", "e"}) EXPECT_EQ(result.values.at(name), Value(std::int64_t{-1})) << name;
  for (const char* name : {"k", "x"}) EXPECT_EQ(result.values.at(name), Value(std::int64_t{0})) << name;
  EXPECT_EQ(result.values.at("b"), Value(false));
}

TEST(Run, ArraysOfDeferredValuesHaveHintsOfTheirOwn) {
  // The values themselves are read at random, 160 times each; the deferred ones by the loop's index, when they are
  // copied.
  const std::string code = program(
                               "Procedure f(G: Graph; A: N_P<Int>) { Int i = 0; While (i < 3) { Foreach (n: G.Nodes) { "
                               "n.A <= Sum(t: n.Nbrs){t.A} @ n; } i++; } }")
                               .cpp();
  EXPECT_THAT(code, HasSubstr(R"({"A_nxt", true, false, true, true, 10, 10})"));
}

TEST(Run, OnlySumsThatVisitAllEdgesFetchAhead) {
  const std::string asked = "is asked for some edges before";
  EXPECT_THAT(decisions_of(sums("InNbrs")), HasSubstr("3: what the sum takes of neighbours 'w' " + asked));
  EXPECT_THAT(decisions_of("Procedure f(G: Graph, a: N_P<Float>; b: N_P<Float>) { G.b = Sum(w: G.Nbrs){w.a}; }"),
              HasSubstr(asked));
  for (const std::string loop : {
           "Foreach (v: G.Nodes)(v.a > 0) v.b = Sum(w: v.Nbrs){w.a};",         // lists with gaps between them
           "Foreach (v: G.Nodes) { Node u = v; v.b = Sum(w: u.Nbrs){w.a}; }",  // lists of other nodes
           "Foreach (v: G.Nodes) v.b = Sum(w: v.Nbrs)(w.a > 1){w.a};",         // not all neighbours
           "Foreach (v: G.Nodes) v.b = Sum(w: v.Nbrs){v.a};",                  // nothing of the neighbours
           "InBFS (v: G.Nodes From root) { v.b = Sum(w: v.Nbrs){w.a}; }",      // lists in another order
       }) {
    EXPECT_THAT(decisions_of("Procedure f(G: Graph, a: N_P<Float>, root: Node; b: N_P<Float>) { " + loop + " }"),
                Not(HasSubstr(asked)))
        << loop;
  }
}

TEST(Run, HowFarAheadDependsOnTheCaches) {
  program::Host host{};
  host.threads = 1;
  host.own_cache_bytes = 1000;
  host.shared_cache_bytes = 8000;
  const program::Run run(host);
  EXPECT_EQ(run.ahead(5000, 1000).distance, 0u);
  EXPECT_EQ(run.ahead(5000, 1001).distance, 64u);
  EXPECT_EQ(run.ahead(5000, 2000).distance, 64u);
  EXPECT_EQ(run.ahead(5000, 2001).distance, 256u);
  EXPECT_FALSE(run.ahead(5000, 1000).covers(0u));
  EXPECT_TRUE(run.ahead(5000, 2001).covers(4743u));
  EXPECT_FALSE(run.ahead(5000, 2001).covers(4744u)) << "would read behind the list";
  EXPECT_FALSE(run.ahead(256, 2001).covers(0u));
  EXPECT_TRUE(run.ahead(257, 2001).covers(0u));
}

TEST(Run, WhatIsFetchedIsWhatComesLater) {
  std::vector<std::uint32_t> list(500);
  std::iota(list.begin(), list.end(), 0u);
  const program::Ahead ahead{64, list.size() - 64};
  std::vector<std::uint32_t> fetched;
  const auto value = [](std::uint32_t node) { return static_cast<double>(node); };
  const auto fetch = [&](std::uint32_t node) { fetched.push_back(node); };
  EXPECT_EQ(program::sum_of<double>(list.data(), 10u, 17u, ahead, value, fetch), 91);
  EXPECT_EQ(fetched, (std::vector<std::uint32_t>{74, 75, 76, 77, 78, 79, 80}));
  fetched.clear();
  EXPECT_EQ(program::sum_of<double>(list.data(), 0u, 436u, ahead, value, fetch), 436 * 435 / 2);
  EXPECT_EQ(fetched.back(), 499u);
  fetched.clear();
  EXPECT_EQ(program::sum_of<double>(list.data(), 430u, 437u, ahead, value, fetch), 7 * 433);
  EXPECT_EQ(program::sum_of<double>(list.data(), 9u, 9u, ahead, value, fetch), 0);
  EXPECT_TRUE(fetched.empty());
}

/// Values in front of a page that nobody may read.
class BeforeAGuard {
 public:
  explicit BeforeAGuard(const std::vector<std::uint32_t>& values) {
    const std::size_t used = (values.size() * sizeof values[0] + page - 1) / page * page;
    bytes_ = used + page;
    memory_ =
        static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    first_ = reinterpret_cast<std::uint32_t*>(memory_ + used) - values.size();
    std::copy(values.begin(), values.end(), first_);
    mprotect(memory_ + used, page, PROT_NONE);
  }
  BeforeAGuard(const BeforeAGuard&) = delete;
  BeforeAGuard& operator=(const BeforeAGuard&) = delete;
  ~BeforeAGuard() { munmap(memory_, bytes_); }
  const std::uint32_t* data() const { return first_; }

 private:
  static constexpr std::size_t page = 4096;
  std::byte* memory_;
  std::size_t bytes_;
  std::uint32_t* first_;
};

/// A read behind the offsets or the list would end the program.
TEST(Run, FirstNeighboursAreFetchedWithinTheGraph) {
  for (const std::uint32_t nodes : {1u, 64u, 65u, 200u}) {
    std::vector<std::uint32_t> begin = {0}, list;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      for (std::uint32_t i = 0; i < node % 3; ++i) list.push_back((node + i) % nodes);
      begin.push_back(static_cast<std::uint32_t>(list.size()));
    }
    // Only the lists in front have edges: those of later nodes begin where the list ends.
    for (const std::uint32_t with_edges : {nodes, nodes / 2}) {
      list.resize(begin[with_edges]);
      for (auto& offset : begin) offset = std::min(offset, begin[with_edges]);
      const BeforeAGuard offsets(begin), neighbours(list);
      const std::vector<float> values(nodes);
      for (std::uint32_t node = 0; node < nodes; ++node)
        program::fetch_first(neighbours.data(), offsets.data(), node, nodes, list.size(), values.data());
    }
  }
}

TEST(Run, OnlyLoopsThatEndAfterSomeNeighboursFetchTheFirstOnes) {
  const std::string asked = "of the first neighbours 'm' is asked for";
  const auto decisions = [](const std::string& loop) {
    return decisions_of("Procedure f(G: Graph, a: N_P<Int>; b: N_P<Int>) { " + loop + " }");
  };
  const std::string body = " { If (m.a > 1) n.b = m.a; i++; }";
  EXPECT_THAT(decisions("Foreach (n: G.Nodes) { Int i = 0; For (m: n.Nbrs)(i < 2)" + body + " }"), HasSubstr(asked));
  EXPECT_THAT(decisions("Foreach (n: G.Nodes) { Int i = 0; For (m: n.InNbrs)(i < 2)" + body + " }"), HasSubstr(asked));
  for (const std::string& loop : {
           "Foreach (n: G.Nodes) { Int i = 0; For (m: n.Nbrs)" + body + " }",                  // all neighbours
           "Foreach (n: G.Nodes)(n.a > 0) { Int i = 0; For (m: n.Nbrs)(i < 2)" + body + " }",  // not all nodes
           "Foreach (n: G.Nodes) { Node u = n; Int i = 0; For (m: u.Nbrs)(i < 2)" + body + " }",
           std::string("Foreach (n: G.Nodes) { Int i = 0; For (m: n.Nbrs)(i < 2) { n.b = n.a; i++; } }"),
       }) {
    EXPECT_THAT(decisions(loop), Not(HasSubstr(asked))) << loop;
  }
}

// Several parts, which threads share, and no whole number of them.
TEST(Run, ValuesGoToArraysOfTheCaller) {
  constexpr std::uint64_t nodes = 150'001;
  const auto put = compiled(
      "Procedure put(G: Graph, given: N_P<Int>; next: N_P<Node>, twice: N_P<Double>, odd: N_P<Int>) {\n"
      "  Foreach (n: G.Nodes) {\n"
      "    n.twice = 2 * n.given;\n"
      "    n.odd = n.given % 2;\n"
      "    If (n.given % 2 == 1) n.next = n;\n"
      "  }\n"
      "}\n");
  std::vector<std::int32_t> given(nodes);
  std::iota(given.begin(), given.end(), 0);
  Arguments arguments;
  arguments.graphs.emplace("G", *make_graph(nodes, {}, {}));
  arguments.columns.emplace("given", Column::of<std::int32_t>("given", given));
  for (const int threads : thread_counts) {
    std::vector<std::int64_t> next(nodes + 1, -7);
    std::vector<double> twice(nodes + 1, -7);
    arguments.into = {{"next", next.data()}, {"twice", twice.data()}};
    const auto result = run(put, "put", arguments, threads);
    EXPECT_EQ(result.columns.at("next").data(), next.data());
    EXPECT_EQ(result.columns.at("twice").data(), twice.data());
    const auto odd = result.columns.at("odd").values<std::int32_t>();
    for (std::uint64_t node = 0; node < nodes; ++node) {
      ASSERT_EQ(next[node], node % 2 == 1 ? static_cast<std::int64_t>(node) : -1) << threads;
      ASSERT_EQ(twice[node], 2.0 * static_cast<double>(node)) << threads;
      ASSERT_EQ(odd[node], static_cast<std::int32_t>(node % 2)) << threads;
    }
    EXPECT_EQ(next[nodes], -7) << "beyond the end";
    EXPECT_EQ(twice[nodes], -7) << "beyond the end";
  }
  const auto message = [&](const std::string& name, void* to) {
    arguments.into = {{name, to}};
    return put.run("put", arguments, {}).error().message;
  };
  EXPECT_EQ(message("none", given.data()), "'put' has no argument 'none'");
  EXPECT_EQ(message("given", given.data()), "'given' is no property that 'put' changes, so that its values go nowhere");
  EXPECT_EQ(message("next", nullptr), "the array for the values of 'next' is null");
}

TEST(Run, ComparisonsAndAssignmentsOfOneElementAreOneStep) {
  // Each owner may be taken once. Without the atomic step, two instances could take the same owner.
  const std::string text = R"(
Procedure take(G: Graph; owner: N_P<Node>) : Int {
  Int taken = 0;
  G.owner = NIL;
  Foreach (n: G.Nodes) {
    Foreach (m: n.Nbrs) {
      If (m.owner == NIL) { m.owner = n; taken += 1; }
    }
  }
  Return taken;
}
)";
  EXPECT_THAT(decisions_of(text), HasSubstr("7: 'owner' is compared and assigned to in one step"));
  const auto take = compiled(text);
  const auto graph = *generate(*parse_generator("kron:13:degree=32"), 2);
  const auto out = graph.out<std::uint32_t, std::uint32_t>();
  std::int64_t wanted = 0;
  for (std::uint32_t node = 0; node < graph.num_nodes(); ++node) wanted += out.degree(node) > 0 ? 1 : 0;
  for (const int threads : {1, 2, 8}) {
    Arguments arguments;
    arguments.graphs.emplace("G", graph);
    const auto result = run(take, "take", arguments, threads);
    EXPECT_EQ(std::get<std::int64_t>(result.returned), wanted) << threads;
    const auto owner = result.columns.at("owner").values<std::int64_t>();
    for (std::uint32_t node = 0; node < graph.num_nodes(); ++node) ASSERT_EQ(owner[node] >= 0, out.degree(node) > 0);
  }
}

TEST(Run, OtherComparisonsAndAssignmentsAreNotOneStep) {
  for (const std::string sentence : {
           "If (m.owner == NIL) {}",
           "If (m.owner == NIL) m.other = n;",
           "If (n.owner == NIL) m.owner = n;",
           "If (m.owner != NIL) m.owner = n;",
           "If (m.owner == NIL || m.other == NIL) m.owner = n;",
           "If (m.owner == NIL && m.other == NIL) m.owner = n;",
           "If (m.IsNbrFrom(n)) m.owner = n;",
       }) {
    const auto text =
        decisions_of("Procedure f(G: Graph; owner, other: N_P<Node>) { Foreach (n: G.Nodes) { Foreach (m: n.Nbrs) { " +
                     sentence + " } } }");
    EXPECT_THAT(text, Not(HasSubstr("in one step"))) << sentence;
  }
}

/// Which searches assign to nodes when they are found, and which do without levels: from the body of an InBFS.
TEST(Run, SearchesThatOnlyAssignToWhatTheyFindKeepBitmaps) {
  const auto decisions = [](const std::string& head, const std::string& body) {
    return decisions_of(
        "Procedure p(G: Graph, root: Node, A: N_P<Int>; B: N_P<Int>, P: N_P<Node>, T: N_P<String>) {\n" + head + " {" +
        body + "}\n}");
  };
  const std::string search = "InBFS (v: G.Nodes From root)";
  const std::string bitmaps = "2: no level of a node is asked for: the search keeps bitmaps of nodes";
  for (const char* body : {"Foreach (w: v.DownNbrs) { w.P = v; }", "Foreach (w: v.DownNbrs) { w.P = v; w.B = v.A; }",
                           "Foreach (w: v.DownNbrs) { w.B = v.B + w.A; }"}) {
    EXPECT_THAT(decisions(search, body), HasSubstr(bitmaps)) << body;
  }
  for (const char* body : {
           "Foreach (w: v.DownNbrs)(w.A > 0) { w.P = v; }",  // not to all that are found
           "Foreach (w: v.DownNbrs) { w.B += 1; }",          // once for each that finds it
           "Foreach (w: v.DownNbrs) { v.P = w; }",           // to another one
           "Foreach (w: v.DownNbrs) { w.B = w.B + 1; }",     // reads what it writes
           "Foreach (w: v.DownNbrs) { w.T = \"found\"; }",   // no single step
           "Foreach (w: v.DownNbrs) { w.P = v; } v.B = 1;",  // more than that
           "Foreach (w: v.UpNbrs) { w.P = v; }",             // the other way
           "Foreach (w: v.Nbrs) { w.P = v; }",               // also to those that are known
           "Foreach (w: root.DownNbrs) { w.P = v; }",        // of another node
           "v.B = 1;",
       }) {
    EXPECT_THAT(decisions(search, body), Not(HasSubstr(bitmaps))) << body;
  }
  for (const char* value : {"Rand(9)", "G.PickRandom().A", "v.PickRandomNbr().A", "w.ToEdge() == NIL ? 1 : 2", "[ 1 ]",
                            "Count(x: v.DownNbrs)"}) {  // of no chunk, no edge or no complete level
    EXPECT_THAT(decisions(search, "Foreach (w: v.DownNbrs) { w.B = " + std::string(value) + "; }"),
                Not(HasSubstr("is assigned to by the node that finds it")))
        << value;
  }
  const char* simple = "Foreach (w: v.DownNbrs) { w.P = v; }";
  EXPECT_THAT(decisions(search + "(v.A > 0)", simple), Not(HasSubstr(bitmaps)));
  EXPECT_THAT(decisions(search + "[v.A > 0]", simple), Not(HasSubstr(bitmaps)));
  EXPECT_THAT(decisions(search, std::string(simple) + "} InReverse { v.B = 1;"), Not(HasSubstr(bitmaps)));
}

TEST(Run, LoopsEndWhenACountReachesItsBound) {
  const std::string text = R"(
Procedure first(G: Graph, most: Int; seen, sum: N_P<Int>) {
  Foreach (n: G.Nodes) {
    Int i = 0;
    Int total = 0;
    For (m: n.Nbrs)(i < most && m != n) {
      total += m.NumOutNbrs();
      i++;
    }
    n.seen = i;
    n.sum = total;
  }
}
)";
  EXPECT_THAT(decisions_of(text), HasSubstr("6: the loop over 'm' ends where its filter's bound is reached"));
  // A bound that changes in the loop does not count.
  const std::string moving = R"(
Procedure first(G: Graph, most: Int; seen: N_P<Int>) {
  Foreach (n: G.Nodes) {
    Int i = 0;
    Int bound = most;
    For (m: n.Nbrs)(i < bound) {
      i++;
      If (m < n) bound = bound + 1;
    }
    n.seen = i;
  }
}
)";
  EXPECT_THAT(decisions_of(moving), Not(HasSubstr("bound is reached")));
  const auto first = compiled(text);
  for (const auto& plain : small_graphs()) {
    const auto out = plain.graph.out<std::uint32_t, std::uint32_t>();
    Arguments arguments;
    arguments.graphs.emplace("G", plain.graph);
    arguments.values = {{"most", std::int64_t{2}}};
    const auto result = run(first, "first", arguments, 2);
    for (std::uint32_t node = 0; node < plain.nodes; ++node) {
      std::int32_t seen = 0, sum = 0;
      for (const auto neighbour : out.neighbours(node)) {
        if (seen == 2 || neighbour == node) continue;
        ++seen;
        sum += static_cast<std::int32_t>(out.degree(neighbour));
      }
      ASSERT_EQ(result.columns.at("seen").values<std::int32_t>()[node], seen);
      ASSERT_EQ(result.columns.at("sum").values<std::int32_t>()[node], sum);
    }
  }
}

/// Distances by a map of open nodes, `range` to go along, in units of `step`; open from the start: all nodes below
/// `first`.
std::string nearest(const std::string& range, const std::string& type) {
  return "Procedure nearest(G: Graph, first: Int, len: E_P<" + type + ">, step: Int; dist: N_P<" + type + ">) {\n" +
         R"(  Map<Node, Int> open;
  Int count = 0;
  G.dist = +INF;
  For (n: G.Nodes)(count < first) {
    n.dist = 10 * count;
    open[n] = 1000 * (first - count);
    count++;
  }
  While (open.Size() > 0) {
    Node v = open.RemoveMinKey();
    )" + type +
         " from = v.dist;\n    For (w: v." + range + ") {\n      Edge e = w.ToEdge();\n      " + type +
         R"( found = from + e.len;
      If (found < w.dist) { w.dist = found; open[w] = (Int) (found / step); }
    }
  }
}
)";
}

/// The same, by iteration over all edges until nothing changes.
std::vector<double> nearest_by_rounds(const test::Plain& plain, std::uint64_t first, bool reverse) {
  std::vector<double> distance(plain.nodes, std::numeric_limits<double>::infinity());
  for (std::uint64_t node = 0; node < std::min(first, plain.nodes); ++node)
    distance[node] = 10.0 * static_cast<double>(node);
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < plain.from.size(); ++i) {
      const auto from = reverse ? plain.to[i] : plain.from[i], to = reverse ? plain.from[i] : plain.to[i];
      if (distance[from] + plain.weight[i] >= distance[to]) continue;
      distance[to] = distance[from] + plain.weight[i];
      changed = true;
    }
  }
  return distance;
}

TEST(Run, TheOrderOfAMapIsRelaxedIfTheResultIsTheSame) {
  auto graphs = small_graphs();
  // Many nodes at a time; lengths that take many windows of bins.
  const auto large = *generate(*parse_generator("kron:11:weights=255"), 2);
  const auto weights = large.edge_values("weight")->values<std::int32_t>();
  std::vector<double> lengths(weights.begin(), weights.end());
  graphs.push_back(test::plain_graph(*large.with_edge_values(Column::of<double>("weight", lengths))));
  for (auto& each : lengths) each *= 1000;
  graphs.push_back(test::plain_graph(*large.with_edge_values(Column::of<double>("weight", lengths))));
  for (const std::string range : {"Nbrs", "InNbrs"}) {
    for (const std::string type : {"Int", "Double"}) {
      EXPECT_THAT(decisions_of(nearest(range, type)), HasSubstr("10: 'dist' ends up the same in whatever order"));
      const auto by_bins = compiled(nearest(range, type));
      CompileOptions one_by_one;
      one_by_one.bins = false;
      const auto sequential = type == "Int" ? *program(nearest(range, type)).compile(4, 4, one_by_one) : by_bins;
      for (const auto& plain : graphs) {
        const auto expected = nearest_by_rounds(plain, 3, range == "InNbrs");
        Arguments arguments;
        arguments.graphs.emplace("G", plain.graph);
        arguments.values = {{"first", std::int64_t{3}}, {"step", std::int64_t{2}}};
        if (type == "Int") {
          const std::vector<std::int32_t> whole(plain.weight.begin(), plain.weight.end());
          arguments.columns.emplace("len", Column::of<std::int32_t>("len", whole));
        } else {
          arguments.columns.emplace("len", *plain.graph.edge_values("weight"));
        }
        const auto check = [&](const CompiledProgram& ours, int threads) {
          const auto result = run(ours, "nearest", arguments, threads);
          for (std::uint64_t node = 0; node < plain.nodes; ++node) {
            const double found = type == "Int" ? result.columns.at("dist").values<std::int32_t>()[node]
                                               : result.columns.at("dist").values<double>()[node];
            const bool none = found == (type == "Int" ? std::numeric_limits<std::int32_t>::max()
                                                      : std::numeric_limits<double>::infinity());
            ASSERT_EQ(none ? std::numeric_limits<double>::infinity() : found, expected[node]) << node << " " << threads;
          }
        };
        for (const int threads : thread_counts) check(by_bins, threads);
        check(sequential, 2);
      }
    }
  }
  Arguments arguments;
  arguments.graphs.emplace("G", large);
  arguments.columns.emplace("len", *large.edge_values("weight"));
  arguments.values = {{"first", std::int64_t{1000}}, {"step", std::int64_t{0}}};
  RunOptions options;
  options.threads = 2;
  const auto failed = compiled(nearest("Nbrs", "Int")).run("nearest", arguments, options);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("division by zero"));
}

TEST(Run, TheOrderOfAMapIsKeptIfItMatters) {
  const auto decided = [](const std::string& body) {
    return decisions_of(R"(
Procedure f(G: Graph, root: Node, len: E_P<Int>; dist, other: N_P<Int>) : Int {
  Map<Node, Int> open;
  Int steps = 0;
  G.dist = +INF;
  G.other = 1;
  root.dist = 0;
  open[root] = 0;
  While (open.Size() > 0) {
    Node v = open.RemoveMinKey();
)" + body + "\n  }\n  Return steps;\n}\n");
  };
  const std::string end = " If (d < w.dist) { w.dist = d; open[w] = d; } }";
  EXPECT_THAT(decided("For (w: v.Nbrs) { Int d = v.dist + w.ToEdge().len;" + end), HasSubstr("whatever order"));
  EXPECT_THAT(decided("For (w: v.Nbrs) { Int d = w.other + v.dist - 1;" + end), HasSubstr("whatever order"));
  for (const std::string& body : {
           "For (w: v.Nbrs) { Int d = w.ToEdge().len;" + end,           // not the node's label
           "For (w: v.Nbrs) { Int d = w.other - v.dist;" + end,         // falls as it rises
           "For (w: v.Nbrs) { Int d = v.dist + w.dist;" + end,          // of what changes
           "For (w: v.Nbrs) { Int d = v.dist + steps; steps++;" + end,  // another effect
           "For (w: v.Nbrs) { Int d = v.dist + 1; d = d + 1;" + end,    // another value
           "For (w: v.Nbrs)(w.dist > 3) { Int d = v.dist + 1;" + end,   // a filter
           "For (w: v.Nbrs) { Int d = v.other + 1;" + end,              // another property
           "For (w: v.Nbrs) { Int d = v.dist + (Int) (10.0 * Uniform());" + end,
           "steps++; For (w: v.Nbrs) { Int d = v.dist + 1;" + end,
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (d < w.dist) { w.dist = d; } }"),
           // a comparison with another node's label, with a variable, of no variable
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (d < v.dist) { w.dist = d; open[w] = d; } }"),
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (d < steps) { w.dist = d; open[w] = d; } }"),
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (v.dist + 1 < w.dist) { w.dist = d; open[w] = d; } }"),
           std::string(
               "For (w: v.Nbrs) { Int d = v.dist + 1; If (d < w.dist) { w.dist = d; open[w] = d; w.other = d; } }"),
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (d < w.dist) { w.dist = d; open[v] = d; } }"),
           std::string("For (w: v.Nbrs) { Int d = v.dist + 1; If (d > w.dist) { w.dist = d; open[w] = d; } }"),
           std::string(
               "For (w: v.Nbrs) { Int d = v.dist + 1; If (d < w.dist) { w.dist = d; open[w] = d; } Else steps++; }"),
       }) {
    EXPECT_THAT(decided(body), Not(HasSubstr("whatever order"))) << body;
  }
}

TEST(Run, EdgesOfInNeighboursStartAtThem) {
  const auto of_neighbours = compiled(R"(
Procedure f(G: Graph, len: E_P<Double>, number: N_P<Double>; first, second, third: N_P<Double>) {
  Foreach (v: G.Nodes) {
    v.first = 0.0;
    For (w: v.InNbrs) {
      Edge e = w.ToEdge();
      v.first += e.len * (1.0 + w.number);
    }
    v.second = Sum(w: v.InNbrs){w.ToEdge().len};
    v.third = Sum(e: v.InEdges){e.len};
  }
}
)");
  for (const auto& plain : small_graphs()) {
    std::vector<double> first(plain.nodes), second(plain.nodes);
    for (std::size_t e = 0; e < plain.from.size(); ++e) {
      first[plain.to[e]] += plain.weight[e] * (1.0 + static_cast<double>(plain.from[e]));
      second[plain.to[e]] += plain.weight[e];
    }
    Arguments arguments;
    arguments.graphs.emplace("G", plain.graph);
    arguments.columns.emplace("len", *plain.graph.edge_values("weight"));
    std::vector<double> numbers(plain.nodes);
    std::iota(numbers.begin(), numbers.end(), 0.0);
    arguments.columns.emplace("number", Column::of<double>("number", numbers));
    const auto result = run(of_neighbours, "f", arguments, 2);
    for (std::uint64_t node = 0; node < plain.nodes; ++node) {
      ASSERT_EQ(result.columns.at("first").values<double>()[node], first[node]) << node;
      ASSERT_EQ(result.columns.at("second").values<double>()[node], second[node]) << node;
      ASSERT_EQ(result.columns.at("third").values<double>()[node], second[node]) << node;
    }
  }
}

TEST(Run, ValuesThatAreOnlyReadAreNotChanged) {
  const auto double_up = compiled(
      "Procedure f(G: Graph, a, b: N_P<Int>; c: N_P<Int>) { Foreach (n: G.Nodes) { n.c = n.a + n.b; n.b = 0; } }");
  const auto graph = *generate(*parse_generator("grid:3x3"), 1);
  const std::vector<std::int32_t> a(9, 1), b(9, 2);
  Arguments arguments;
  arguments.graphs.emplace("G", graph);
  arguments.columns.emplace("a", Column::of<std::int32_t>("a", a));
  arguments.columns.emplace("b", Column::of<std::int32_t>("b", b));
  const auto result = run(double_up, "f", arguments, 1);
  EXPECT_THAT(result.columns.at("c").values<std::int32_t>(), testing::Each(3));
  EXPECT_THAT(result.columns.at("b").values<std::int32_t>(), testing::Each(0));
  EXPECT_THAT(arguments.columns.at("b").values<std::int32_t>(), testing::Each(2)) << "the caller's own was changed";
  EXPECT_FALSE(result.columns.contains("a"));
}

TEST(Run, HopDistanceOfTheThesis) {
  const auto hop_dist = compiled(language::hop_dist);
  for (const auto& plain : small_graphs()) {
    if (plain.nodes == 0) continue;
    std::vector<std::int32_t> dist(plain.nodes, INT32_MAX);
    dist[0] = 0;
    for (std::uint64_t step = 0; step < plain.nodes; ++step) {
      for (std::size_t edge = 0; edge < plain.from.size(); ++edge) {
        if (dist[plain.from[edge]] != INT32_MAX)
          dist[plain.to[edge]] = std::min(dist[plain.to[edge]], dist[plain.from[edge]] + 1);
      }
    }
    for (const int threads : thread_counts) {
      Arguments arguments;
      arguments.graphs.emplace("G", plain.graph);
      arguments.values = {{"root", std::int64_t{0}}};
      const auto result = run(hop_dist, "hop_dist", arguments, threads);
      const auto values = result.columns.at("dist").values<std::int32_t>();
      ASSERT_TRUE(std::equal(values.begin(), values.end(), dist.begin()));
    }
  }
}

// Counting alone is done with bitmaps where lists are long; anything else visits each common neighbour.
TEST(Run, CliquesAreCountedAlikeWithAndWithoutBitmaps) {
  const auto counts = compiled(R"(
Procedure counts(G: Graph; twice: Int, ninths: Double, numbers: Long, cliques: Long): Long
{
  Long T = 5;
  Foreach(v: G.Nodes)
    Foreach(u: v.Nbrs)(u > v)
      Foreach(w: v.Nbrs)(w > u && w.HasEdgeTo(u)) T += 1;
  twice = 0;
  Foreach(v: G.Nodes)
    Foreach(u: v.Nbrs)(u > v)
      Foreach(w: v.Nbrs)(w > u) If (w.HasEdgeTo(u)) twice += 2;
  ninths = 0.5;
  Foreach(v: G.Nodes)
    Foreach(u: v.Nbrs)(u > v)
      Foreach(w: v.Nbrs)(w > u && w.HasEdgeFrom(u)) ninths += 9;
  numbers = 0;
  Foreach(v: G.Nodes)
    Foreach(u: v.Nbrs)(u > v)
      Foreach(w: v.Nbrs)(w > u && w.HasEdgeTo(u)) numbers += w.Degree() - w.Degree() + 1;
  cliques = 0;
  Foreach(a: G.Nodes)
    Foreach(b: a.Nbrs)(b > a)
      Foreach(c: a.Nbrs)(c > b && c.HasEdgeTo(b))
        Foreach(d: a.Nbrs)(d > c && d.HasEdgeTo(c) && d.HasEdgeTo(b)) cliques += 1;
  Return T;
})");
  // 64 nodes fill a bitmap's words; skewed degrees change the nodes' numbers.
  for (const char* spec : {"kron:8:degree=24", "uniform:6:degree=20", "kron:7:degree=3"}) {
    const auto plain = test::plain_graph(*generate(*parse_generator(spec)));
    std::vector<std::vector<char>> edges(plain.nodes, std::vector<char>(plain.nodes));
    for (std::size_t edge = 0; edge < plain.from.size(); ++edge) edges[plain.from[edge]][plain.to[edge]] = 1;
    std::int64_t triangles = 0, cliques = 0;
    for (std::uint64_t a = 0; a < plain.nodes; ++a) {
      for (auto b = a + 1; b < plain.nodes; ++b) {
        if (edges[a][b] == 0) continue;
        for (auto c = b + 1; c < plain.nodes; ++c) {
          if (edges[a][c] == 0 || edges[b][c] == 0) continue;
          ++triangles;
          for (auto d = c + 1; d < plain.nodes; ++d)
            cliques += edges[a][d] != 0 && edges[b][d] != 0 && edges[c][d] != 0;
        }
      }
    }
    ASSERT_GT(triangles, 100) << spec;
    for (const int threads : thread_counts) {
      Arguments arguments;
      arguments.graphs.emplace("G", plain.graph);
      const auto result = run(counts, "counts", arguments, threads);
      EXPECT_EQ(std::get<std::int64_t>(result.returned), 5 + triangles) << spec;
      EXPECT_EQ(std::get<std::int64_t>(result.values.at("twice")), 2 * triangles) << spec;
      EXPECT_EQ(std::get<double>(result.values.at("ninths")), 0.5 + 9.0 * static_cast<double>(triangles)) << spec;
      EXPECT_EQ(std::get<std::int64_t>(result.values.at("numbers")), triangles) << spec;
      EXPECT_EQ(std::get<std::int64_t>(result.values.at("cliques")), cliques) << spec;
    }
  }
}

/// The lists above the neighbours are read at random: each is asked for while those in front of it are compared.
TEST(Run, CliquesAreNotRenumberedWhereOtherNodesAreCompared) {
  const auto decisions = [](const std::string& neighbours, const std::string& filter) {
    return decisions_of(
        "Procedure f(G: Graph, p: Node) : Long {\n  Long T = 0;\n  Foreach (v: G.Nodes) Foreach (u: " + neighbours +
        ")(u > v) Foreach (w: v.CommonNbrs(u))(w > u" + filter + ") T += 1;\n  Return T;\n}\n");
  };
  EXPECT_THAT(decisions("v.Nbrs", ""), HasSubstr("counts cliques"));
  for (const char* filter : {" && w > p", " && w.HasEdgeTo(p)", " && p.HasEdgeTo(u)"})
    EXPECT_THAT(decisions("v.Nbrs", filter), Not(HasSubstr("counts cliques"))) << filter;
  for (const char* neighbours : {"p.Nbrs", "v.CommonNbrs(p)"})
    EXPECT_THAT(decisions(neighbours, " && u.HasEdgeTo(v)"), Not(HasSubstr("counts cliques"))) << neighbours;
}

TEST(Run, OnlySumsOverTheLoopsGraphArePrecomputed) {
  const auto decisions = [](const std::string& loop) {
    return decisions_of(
        "Procedure f(G: Graph, H: Graph, h: Node(H), X: N_P<Double>(H); Y: N_P<Double>(G), Z: "
        "N_P<Double>(H)) {\n" +
        loop + "\n}");
  };
  const char* precomputed = "is computed once per node before the loop";
  EXPECT_THAT(decisions("Foreach (v: H.Nodes) { v.Z = Sum(w: v.Nbrs){1 / w.X}; }"), HasSubstr(precomputed));
  EXPECT_THAT(decisions("Foreach (v: G.Nodes) { v.Y = Sum(w: h.Nbrs){1 / w.X}; }"), Not(HasSubstr(precomputed)));
}

TEST(Run, ListsOfCliquesAreFetchedInTheOrderInWhichTheyAreRead) {
  const Graph graph = *generate(*parse_generator("kron:7:degree=6"));
  const auto rows = graph.out<std::uint32_t, std::uint32_t>();
  const auto nodes = static_cast<std::uint32_t>(graph.num_nodes());
  const BeforeAGuard begin({rows.begin, rows.begin + nodes + 1}),
      node_idx({rows.node_idx, rows.node_idx + graph.num_edges()});
  program::GraphView<std::uint32_t, std::uint32_t> view;
  view.nodes = nodes;
  view.edges = graph.num_edges();
  view.simple = true;
  program::Host host{};
  host.threads = 1;
  program::Run run(host);
  using Above = program::NeighboursAbove<std::uint32_t, std::uint32_t>;
  const Above above(run, view, begin.data(), node_idx.data());
  for (std::uint32_t first = 0; first < nodes; ++first) {
    if (above.first(first) == above.last(first)) continue;
    std::vector<std::uint32_t> read, places;
    std::vector<const std::uint32_t*> lists, expected_lists;
    Above::Ahead ahead(above, first);
    for (auto node = first; node < nodes; ++node) {
      for (auto edge = above.first(node); edge < above.last(node); ++edge) {
        read.push_back(node_idx.data()[edge]);
        ahead.next();
      }
    }
    Above::Ahead recorded(above, first);
    for (std::size_t i = 0; i < read.size(); ++i) {
      recorded.next([&](std::uint32_t neighbour, const auto&) { places.push_back(neighbour); },
                    [&](const std::uint32_t* list) { lists.push_back(list); });
    }
    const auto without_first = [&](std::size_t count) {
      return std::vector<std::uint32_t>(read.begin() + static_cast<std::ptrdiff_t>(std::min(read.size(), count)),
                                        read.end());
    };
    for (const auto neighbour : without_first(Above::Ahead::lists_ahead + 1))
      expected_lists.push_back(node_idx.data() + above.first(neighbour));
    ASSERT_EQ(places, without_first(Above::Ahead::places_ahead + 1)) << first;
    ASSERT_EQ(lists, expected_lists) << first;
  }
  view.simple = false;  // then lists are merged, and nothing is known of them
  const Above none(run, view, begin.data(), node_idx.data());
  Above::Ahead nothing(none, 0);
  nothing.next([](std::uint32_t, const auto&) { FAIL(); }, [](const std::uint32_t*) { FAIL(); });
}

TEST(Run, OnlyLoopsThatReadAllListsOfCliquesFetchThem) {
  const std::string asked = "lists of neighbours that come later are asked for";
  const auto counting = [](const std::string& filter) {
    return "Procedure f(G: Graph) : Long { Long T = 0; Foreach (v: G.Nodes) Foreach (u: v.Nbrs)(" + filter +
           ") Foreach (w: v.Nbrs)(w > u && w.HasEdgeTo(u)) T += 1; Return T; }";
  };
  EXPECT_THAT(decisions_of(counting("u > v")), HasSubstr(asked));
  EXPECT_THAT(program(counting("u > v")).cpp(), HasSubstr("w_ahead.next();"));
  EXPECT_THAT(decisions_of(counting("u < v")), Not(HasSubstr(asked)));
  EXPECT_THAT(program(counting("u < v")).cpp(), Not(HasSubstr(".next();")));
}

TEST(Run, TriangleCountingOfTheThesis) {
  const auto triangles = compiled(R"(
Procedure triangle_counting(G: Graph): Long
{
  Long T;
  Foreach(v: G.Nodes)
    Foreach(u: v.Nbrs) (u > v) {
      Foreach(w: v.Nbrs) (w > u) {
        If ((w.HasEdgeTo(u)))
          T += 1;
      }
    }
  Return T;
})");
  BuildOptions undirected;
  undirected.undirected = true;
  for (const auto& plain : small_graphs(undirected)) {
    std::vector<std::vector<int>> edges(plain.nodes, std::vector<int>(plain.nodes));
    for (std::size_t edge = 0; edge < plain.from.size(); ++edge) ++edges[plain.from[edge]][plain.to[edge]];
    std::int64_t expected = 0;
    for (std::uint64_t v = 0; v < plain.nodes; ++v) {
      for (auto u = v + 1; u < plain.nodes; ++u) {
        for (auto w = u + 1; w < plain.nodes; ++w) expected += edges[v][u] * edges[v][w] * (edges[w][u] > 0 ? 1 : 0);
      }
    }
    for (const int threads : thread_counts) {
      Arguments arguments;
      arguments.graphs.emplace("G", plain.graph);
      EXPECT_EQ(std::get<std::int64_t>(run(triangles, "triangle_counting", arguments, threads).returned), expected);
    }
  }
}

/// The result of a procedure p with these statements on a graph of three nodes, 0 -> 1, 0 -> 2, 1 -> 2, twice 2 -> 2.
std::string result_of(const std::string& declaration, const std::string& sentences) {
  const auto program = GreenMarl::parse("a.gm", "Procedure p(G: Graph) : " + declaration + " {\n" + sentences + "\n}");
  if (!program.good()) return program.formatted_messages();
  const auto compiled = program.compile(4, 4);
  if (!compiled) return compiled.error().message;
  const std::vector<std::uint64_t> from = {0, 0, 1, 2, 2}, to = {1, 2, 2, 2, 2};
  Arguments arguments;
  arguments.graphs.emplace("G", *make_graph(3, from, to));
  RunOptions options;
  options.threads = 2;
  const auto result = compiled->run("p", arguments, options);
  if (!result) return result.error().message;
  if (const auto* whole = std::get_if<std::int64_t>(&result->returned)) return result->printed + std::to_string(*whole);
  if (const auto* real = std::get_if<double>(&result->returned)) return result->printed + std::to_string(*real);
  if (const auto* flag = std::get_if<bool>(&result->returned)) return result->printed + (*flag ? "True" : "False");
  return result->printed + std::get<std::string>(result->returned);
}

TEST(Run, NumbersBehaveAsDescribed) {
  EXPECT_EQ(result_of("Int", "Int x = +INF; Return x + 1 - 3;"), "2147483647");
  EXPECT_EQ(result_of("Long", "Int x = -INF; Long y = x; Return y - 5;"), "-9223372036854775807");
  EXPECT_EQ(result_of("Bool", "Int x = +INF; Double y = x; Return y == +INF && |-x| == +INF;"), "True");
  EXPECT_EQ(result_of("Int", "Int a = 7; Int b = 2; Return a / b * 10 + a % b;"), "31");
  EXPECT_EQ(result_of("Int", "Int zero = 0; Return 1 / zero;"), "a.gm:2: division by zero");
  EXPECT_EQ(result_of("Int", "Int zero = 0;\n Int x = G.NumNodes() % zero; Return x;"), "a.gm:3: division by zero");
  EXPECT_EQ(result_of("Int", "Return (Int) 2.9 + (Int) -2.9 + (Int) 1000000000000.0;"), "2147483647");
  EXPECT_EQ(result_of("Bool",
                      "Long k = 5000000000; Long huge = +INF; Node none;\n"
                      "Return (Int) k == +INF && (Int) -k < -2147483647 && (Int) -huge == -INF && (Int) 5000000000 "
                      "== +INF && (Int) none == +INF && (Long) (Int) k == 2147483647;"),
            "True");
  EXPECT_EQ(result_of("Double", "Float f = 1e39; Float g = -1e39; Return f == -g ? f : 0.0;"), "inf");
  EXPECT_EQ(result_of("Bool", "Double zero = 0; Print 0 / zero, -(0 / zero), Sqrt(-1); Return False;"),
            "nan nan nan\nFalse");
  EXPECT_EQ(result_of("Double", "Return Sqrt(16) + Pow(2, 3) + Exp(0) + Log(1) + |-1.5|;"), "14.500000");
  EXPECT_EQ(result_of("Int", "Int x = Min(n: G.Nodes)(n.Degree() > 9){1}; Return x;"), "2147483647");
  EXPECT_EQ(result_of("Double", "Return Avg(n: G.Nodes){n.Degree()} + Avg(n: G.Nodes)(False){1};"), "1.666667");
  EXPECT_EQ(result_of("Int", "Return Product(n: G.Nodes){2} + Count(n: G.Nodes)(n.InDegree() > 0);"), "10");
  EXPECT_EQ(result_of("Bool", "Return All(n: G.Nodes){n.Degree() > 0} && !Any(n: G.Nodes){n.Degree() > 2};"), "True");
}

TEST(Run, NilIsNoNode) {
  EXPECT_EQ(result_of("Int", "Node n; N_P<Int> A; G.A = 1;\n Return n.A;"),
            "a.gm:3: NIL has no properties and no neighbours");
  EXPECT_EQ(result_of("Bool", "Node n = NIL; Edge e; Return n == NIL && e == NIL && !(n != NIL);"), "True");
  EXPECT_EQ(result_of("Int",
                      "N_P<Node> A; N_P<Int> B; N_P<Edge> C; Node r; For (n: G.Nodes) If (n.InDegree() == 0) r = n;\n"
                      "InBFS (v: G.Nodes From r) { Foreach (w: v.DownNbrs) w.C = w.ToEdge(); }\n"
                      "Return Count(n: G.Nodes)(n.A == NIL && n.B == 0) * 100 + Count(n: G.Nodes)(n.C == NIL) * 10 + "
                      "Count(n: G.Nodes)(n.C != NIL && n.C.ToNode() == n);"),
            "312");
  EXPECT_EQ(result_of("Int", "Node_Seq q; Node n = q.Pop(); If (n == NIL) Return 5; Return 6;"), "5");
  EXPECT_EQ(result_of("Int", "Node_Set s; Node n; s.Add(n); Return 1;"), "a.gm:2: NIL cannot be in a collection");
  EXPECT_EQ(result_of("Int", "Error \"no \\\"good\\\"\";\n Return 1;"), "a.gm:2: no \"good\"");
}

TEST(Run, NilInAMapOfNodesByDistanceIsNoNode) {
  const std::string sentences =
      "N_P<Int> P; Map<Node, Int> open; Node root; G.P = +INF;\n"
      "open[G.PickRandom()] = 0; open[root] = 0;\n"
      "While (open.Size() > 0) {\n"
      "  Node v = open.RemoveMinKey();\n"
      "  For (w: v.Nbrs) { Int d = v.P + 1; If (d < w.P) { w.P = d; open[w] = d; } }\n"
      "} Return 1;";
  EXPECT_THAT(decisions_of("Procedure p(G: Graph) : Int {\n" + sentences + "}"), HasSubstr("whatever order"));
  EXPECT_EQ(result_of("Int", sentences), "a.gm:6: NIL has no properties and no neighbours");
}

TEST(Run, NodesMayBeFarApartInAMapByDistance) {
  const std::string sentences =
      "N_P<Int> P; Map<Node, Long> open; Long far = +INF; Node root; For (n: G.Nodes) { If (n.InDegree() == 0) root = "
      "n; } G.P = +INF; root.P = 0; open[root] = -far;\n"
      "While (open.Size() > 0) {\n"
      "  Node v = open.RemoveMinKey();\n"
      "  For (w: v.Nbrs) { Int d = v.P + 1; If (d < w.P) { w.P = d; open[w] = far; } }\n"
      "} Return Sum(n: G.Nodes){n.P};";
  EXPECT_THAT(decisions_of("Procedure p(G: Graph) : Int {\n" + sentences + "}"), HasSubstr("whatever order"));
  EXPECT_EQ(result_of("Int", sentences), "2");
}

TEST(Run, NodesThatASearchHasNotReachedAreOnNoLevel) {
  const std::string root = "Node r; For (n: G.Nodes) { If (n.InDegree() == 1) r = n; } Int nbrs, edges, back;\n";
  const std::string counts =
      "{ If (v == r) { nbrs += Count(u: v.UpNbrs); edges += Count(e: v.UpEdges); } } InReverse { If (v == r) back += "
      "Count(u: v.UpNbrs); } Return nbrs * 100 + edges * 10 + back;";
  for (const std::string search : {"InBFS", "InRBFS"})
    EXPECT_EQ(result_of("Int", root + search + " (v: G.Nodes From r) " + counts), "0") << search;
}

TEST(Run, NodesThatAConditionLeavesOutAreOnNoLevel) {
  const std::string start =
      "Node r, one; For (n: G.Nodes) { If (n.InDegree() == 0) r = n; If (n.InDegree() == 1) one = n; }\n"
      "N_P<Int> A; Int nbrs, edges, back;\n";
  const std::string counts =
      "{ nbrs += Count(w: v.DownNbrs); edges += Count(e: v.DownEdges); } InReverse { back += Count(w: v.DownNbrs); }\n";
  const std::string all = "Return nbrs * 100 + edges * 10 + back;";
  const std::string search = "InBFS (v: G.Nodes From r)";
  EXPECT_EQ(result_of("Int", start + search + "[v != one] " + counts + all), "111");
  EXPECT_EQ(result_of("Int", start + search + "[v != r] " + counts + all), "0");
  EXPECT_EQ(result_of("Int", start + search + "(Count(w: v.DownNbrs) == 1)[v != one] { nbrs += 1; } " + all), "100");
  EXPECT_EQ(
      result_of("Int", start + "InBFS (u: G.Nodes From r)(u == r) {" + search + "[v != one] " + counts + "}" + all),
      "111");
  // The condition sees what the level before has assigned.
  EXPECT_EQ(
      result_of("Int", start + search + "[v.A == 0] { Foreach (w: v.DownNbrs)(w == one) w.A = 1; nbrs += 1; }" + all),
      "200");
}

TEST(Run, LevelsAreThoseOfTheSearchThatTheNodeComesFrom) {
  EXPECT_EQ(result_of("Int",
                      "Node r; For (n: G.Nodes) { If (n.InDegree() == 0) r = n; } Int down, up, outer;\n"
                      "InBFS (v: G.Nodes From r) {\n"
                      "  InBFS (w: G.Nodes From v) {\n"
                      "    down += Count(x: w.DownNbrs); up += Count(x: w.UpNbrs); outer += Count(x: v.DownNbrs);\n"
                      "  }\n"
                      "}\n"
                      "Return down * 100 + up * 10 + outer;"),
            "336");
}

TEST(Run, RandomNumbersDifferFromLoopToLoop) {
  const auto random = compiled(R"(
Local draw(G: Graph) : Double { Return Uniform(); }
Local draw_in_loop(G: Graph) : Double { Return Sum(n: G.Nodes){Uniform()}; }
Procedure random(G, small: Graph) {
  N_P<Double>(G) X, Y, Z;
  N_P<Int>(G) C;
  Int i = 0;
  While (i < 3) {
    Foreach (v: G.Nodes) { v.X = draw(G); v.Y = Uniform(); v.Z = draw_in_loop(small); }
    Print Sum(v: G.Nodes){v.X}, "\n", Sum(v: G.Nodes){v.Y}, "\n", Sum(v: G.Nodes){v.Z};
    G.C = 0;
    Foreach (v: G.Nodes)(v.X > 0.9) Foreach (t: v.Nbrs) t.C += 1;
    i++;
  }
}
)");
  Arguments arguments;
  arguments.graphs.emplace("G", *generate(*parse_generator("uniform:13:degree=4"), 2));
  const std::vector<std::uint64_t> ends = {0, 1};
  arguments.graphs.emplace("small", *make_graph(2, ends, ends));
  const std::string printed = run(random, "random", arguments, 1).printed;
  std::set<std::string> sums;
  std::istringstream lines(printed);
  for (std::string line; lines >> line;) sums.insert(line);
  EXPECT_EQ(sums.size(), 9u) << printed;
  for (const int threads : thread_counts) EXPECT_EQ(run(random, "random", arguments, threads).printed, printed);
}

TEST(Run, RandomChoicesAreMadeOncePerInstance) {
  const auto decisions = [](const std::string& sentences) {
    return decisions_of("Procedure f(G: Graph, A: N_P<Int>; B: N_P<Int>) {\n" + sentences + "\n}");
  };
  const std::string gathered = "2: reductions at the neighbours 't' are written to them, or read from them";
  EXPECT_THAT(decisions("Foreach (v: G.Nodes)(v.A > 0) { Foreach (t: v.Nbrs) t.B += v.A; }"), HasSubstr(gathered));
  for (const char* random :
       {"Foreach (v: G.Nodes) { Node w = v.PickRandomNbr(); Foreach (t: v.Nbrs)(t == w) t.B += 1; }",
        "Foreach (v: G.Nodes) { Node w = G.PickRandom(); Foreach (t: v.Nbrs)(t == w) t.B += 1; }",
        "Foreach (v: G.Nodes)(v.PickRandomNbr().A > 0) { Foreach (t: v.Nbrs) t.B += 1; }",
        "Foreach (v: G.Nodes)(Rand(2) == 0) { Foreach (t: v.Nbrs) t.B += 1; }"})
    EXPECT_THAT(decisions(random), Not(HasSubstr(gathered))) << random;
}

TEST(Run, ALockIsReleasedByAnException) {
  const auto locks = std::make_shared<program::Locks>();
  EXPECT_THROW(locks->with(3, [] { throw program::ProgramError{}; }), program::ProgramError);
  std::packaged_task<void()> again([locks] { locks->with(3, [] {}); });
  const auto done = again.get_future();
  std::thread(std::move(again)).detach();  // it may never end
  EXPECT_EQ(done.wait_for(std::chrono::seconds(20)), std::future_status::ready);
}

TEST(Run, LongExpressionsAreCompiled) {
  std::string sum = "x";
  for (int i = 0; i < 300; ++i) sum += " + 1";
  const auto long_one = program("Procedure p(x: Int) : Int { Return " + sum + "; }");
  for (const std::string compiler : {"", "g++", "clang++", "clang++-14"}) {
    CompileOptions options;
    options.compiler = compiler;
    const auto compiled = long_one.compile(4, 4, options);
    if (!compiled && compiled.error().status == Status::not_found) continue;
    ASSERT_TRUE(compiled) << compiled.error().message;
    Arguments arguments;
    arguments.values = {{"x", std::int64_t{100}}};
    EXPECT_EQ(std::get<std::int64_t>(run(*compiled, "p", arguments, 1).returned), 400) << compiler;
  }
}

TEST(Run, Collections) {
  const std::string nodes = "Node a, b, c; For (n: G.Nodes) { c = b; b = a; a = n; }\n";  // c = 0, b = 1, a = 2
  EXPECT_EQ(
      result_of("Int", nodes +
                           "Node_Set s, t; s.Add(a); s.Add(a); s.Add(b); t.Add(b); t.Add(c); Node_Set u = s.Union(t);\n"
                           "Node_Set i = s.Intersect(t); Node_Set d = s.Complement(t); Node_Set r = s.Complement();\n"
                           "Bool right = i.Has(b) && d.Has(a) && r.Has(c) && i.IsSubsetOf(u) && !u.IsSubsetOf(i);\n"
                           "Return right ? u.Size() * 1000 + i.Size() * 100 + d.Size() * 10 + r.Size() : -1;"),
      "3111");
  EXPECT_EQ(
      result_of("Int",
                nodes +
                    "Node_Set s, t; s.Add(a); s.Add(b); t.Add(b); s.Remove(t); t.Union(s); s.Intersect(t); t.Clear();\n"
                    "Return s.Size() * 10 + t.Size();"),
      "10");
}

TEST(Run, OrdersAndSequences) {
  const std::string nodes = "Node a, b, c; For (n: G.Nodes) { c = b; b = a; a = n; }\n";  // c = 0, b = 1, a = 2
  EXPECT_EQ(
      result_of(
          "Int",
          nodes + "Node_Order o; o.PushBack(a); o.PushFront(b); o.Push(a); o.PushBack(c); Node_Seq q; q.Push(o); "
                  "q.Push(a);\n"
                  "For (n: q.Items) Print n; For (n: o^.Items) Print n; Node x = q.PopBack(); Node y = q.PopFront();\n"
                  "Print x, y, q.Front(), q.Back(); Return q.Size();"),
      "1\n2\n0\n2\n0\n2\n1\n2 1 2 0\n2");
  EXPECT_EQ(result_of("Int", "Edge_Set s; Foreach (e: G.Edges)(e.FromNode() == e.ToNode()) s.Add(e); Return s.Size();"),
            "2");
}

TEST(Run, Maps) {
  const std::string nodes = "Node a, b, c; For (n: G.Nodes) { c = b; b = a; a = n; }\n";  // c = 0, b = 1, a = 2
  EXPECT_EQ(result_of("Int", nodes + "Map<Node, Int> m; m[a] = 3; m[b] += 1; m[c] = 3; Print m.GetMaxKey(), "
                                     "m.GetMinKey(), m.GetMaxValue(), m[b];\n"
                                     "m[c] = 0; Print m.GetMinKey(), m.HasMaxValue(a) , m.HasMinValue(b); m.Remove(a); "
                                     "Node x = m.RemoveMinKey();\n"
                                     "Print x, m.HasKey(a), m.GetValue(a); Return m.Size();"),
            "0 1 3 1\n0 True False\n0 False 0\n1");
  EXPECT_EQ(
      result_of("Int",
                "Map<Node, Node> m; Node n = m[G.PickRandom()]; If (n != NIL) Return 1; n = m.GetMinKey(); Return 2;"),
      "a.gm:2: an empty Map has no keys");
}

TEST(Run, NanInMaps) {
  const std::string nodes = "Node a, b, c; For (n: G.Nodes) { c = b; b = a; a = n; }\n";  // c = 0, b = 1, a = 2
  const std::string none = "Double zero = 0.0; Double none = zero / zero;\n";
  EXPECT_EQ(result_of("Int", nodes + none +
                                 "Map<Node, Double> m; m[a] = none; m[b] = none; Print m.GetMaxKey(), m.GetMinKey(), "
                                 "m.HasMaxValue(a), m.HasMinValue(b);\n"
                                 "m[c] = 1.5; Print m.GetMaxKey(), m.GetMinKey(), m.GetMaxValue(), m.GetMinValue(), "
                                 "m.HasMaxValue(a);\n"
                                 "Node x = m.RemoveMaxKey(); Node y = m.RemoveMinKey(); Node z = m.RemoveMinKey();\n"
                                 "Print x, y, z; Return m.Size();"),
            "1 1 True True\n0 0 1.5 1.5 False\n0 1 2\n0");
  EXPECT_EQ(result_of("Int", none + "Map<Double, Int> m; m[none] = 3; m[none] += 1; m[1.0] = 2;\n"
                                    "Print m[none], m.HasKey(none), m.GetMaxValue(), m.GetMinKey(); Return m.Size();"),
            "4 True 4 1\n2");
}

TEST(Run, PartsOfAnExpressionMayBeLockedAsTheWholeIs) {
  EXPECT_EQ(result_of("Int",
                      "String s, r; Node_Seq q; Int c = 0;\n"
                      "Foreach (v: G.Nodes) { s = r; r = \"x\"; q.PushBack(v); If (q.Has(q.Front())) c += 10; }\n"
                      "Return q.Size() + c;"),
            "33");
}

TEST(Run, LoopsKeepWhatTheyBeganWith) {
  const std::string start =
      "N_P<Node_Seq> C; Node n, r; Int c = 0;\n"
      "For (v: G.Nodes) { If (v.InDegree() == 0) r = v; v.C.PushBack(v); } r.C.PushBack(r);\n";
  EXPECT_EQ(result_of("Int", start + "n = r; Foreach (t: n.Nbrs) { n = t; c += 1; }\n"
                                     "n = r; Foreach (t: n.C.Items) { n = G.PickRandom(); c += t == r ? 10 : 1000; }\n"
                                     "n = r; For (t: n.C^.Items) { n = NIL; c += t == r ? 100 : 1000; }\n"
                                     "InBFS (v: G.Nodes From r)(v == r) {\n"
                                     "  Node m = v; For (t: m.DownNbrs) { m = t; c += 1000; } }\n"
                                     "Return c;"),
            "2222");
}

TEST(Run, InstancesDoNotReplaceArraysThatOthersUse) {
  const auto decisions = [](const std::string& step) {
    return decisions_of("Local step(G: Graph, A: N_P<Int>) { Foreach (v: G.Nodes) { " + step +
                        " } }\nProcedure f(G: Graph; A: N_P<Int>) {\n Foreach (v: G.Nodes) { step(G, A); }\n}");
  };
  const char* sequential = "3: the loop over 'v' runs its instances one after the other";
  EXPECT_THAT(decisions("v.A <= Sum(t: v.Nbrs){t.A} @ v;"), HasSubstr(sequential));
  EXPECT_THAT(decisions("v.A = 1;"), Not(HasSubstr(sequential)));
}

TEST(Run, NodesOfALevelDoNotReplaceArraysThatOthersUse) {
  const auto levels = compiled(
      "Local step(G: Graph, A: N_P<Int>) { Foreach (v: G.Nodes) { v.A <= v.A + 1 @ v; } }\n"
      "Local steps(G: Graph, A: N_P<Int>) { step(G, A); }\n"
      "Procedure f(G: Graph, root: Node; A: N_P<Int>) : Int {\n"
      "  Int sum = 0;\n"
      "  InBFS (v: G.Nodes From root) { steps(G, A); sum += v.A; }\n"
      "  Return sum;\n"
      "}\n");
  Arguments arguments;
  arguments.graphs.emplace("G",
                           *make_graph(4, std::vector<std::uint64_t>{0, 0, 0}, std::vector<std::uint64_t>{1, 2, 3}));
  arguments.values["root"] = std::int64_t{0};
  const auto result = run(levels, "f", arguments, 2);
  EXPECT_EQ(result.returned, Value(std::int64_t{1 + 2 + 3 + 4}));
  EXPECT_THAT(result.columns.at("A").values<std::int32_t>(), testing::Each(4));
}

/// Whichever way the loop is translated.
TEST(Run, OfEqualValuesTheSmallestArgumentsWin) {
  const std::string start =
      "N_P<Int> L, A, B, C, D, E, F; Int x = 0; Int y = 9; Int z = 0; Int u = 9; Int w = 0; Node i, j, k;\n"
      "Map<Node, Int> m, o; G.A = 0; G.B = 0; G.C = 0; G.D = 0;\n"
      "For (v: G.Nodes) { v.L = v.InDegree() == 0 ? 5 : v.InDegree() == 1 ? 9 : 4; If (v.L == 5) k = v; }\n";
  EXPECT_EQ(result_of("Int", start + "Foreach (v: G.Nodes) Foreach (t: v.Nbrs) <t.A; t.B> max= <7; v.L>;\n"
                                     "Return Max(v: G.Nodes){v.B} * 10 + Count(v: G.Nodes)(v.B == 4);"),
            "51");
  EXPECT_EQ(
      result_of("Int",
                start +
                    "Foreach (v: G.Nodes) Foreach (t: v.Nbrs) <v.C; v.D> max= <7; t.L>;\n"
                    "Foreach (v: G.Nodes) { Int a = 0; Int b = 9; Foreach (t: v.Nbrs) <a; b> max= <7; t.L>; "
                    "v.E = b; }\n"
                    "Foreach (v: G.Nodes) { <x; y> max= <7; v.L>; If (v.L < 0) Print v; }\n"
                    "Foreach (s: G.Nodes) { If (s.L < 0) Print s; Foreach (v: G.Nodes) <z; u> max= <7; s.L>; }\n"
                    "G.A = 0;\n"
                    "Foreach (s: G.Nodes) { If (s.L < 0) Print s; Foreach (v: G.Nodes) <v.A; v.F> max= <7; s.L>; }\n"
                    "Foreach (v: G.Nodes) <m[k]; o[k]> max= <7; v.L>;\n"
                    "Foreach (v: G.Nodes) { <w; i> max= <v.L; v>; <w; j> max= <v.L + 1; v>; }\n"
                    "Print k.D, k.E, y, u, k.F, o[k], w; Return Max(v: G.Nodes){v.F};"),
      "4 4 4 4 4 4 10\n4");
}

TEST(Run, OfEqualValuesInATraversalThoseOfTheFirstLevelWin) {
  const std::string start =
      "N_P<Int> L, E; Int x, y, a, b; Node k;\n"
      "For (v: G.Nodes) { v.L = v.InDegree() == 0 ? 5 : v.InDegree() == 1 ? 9 : 4; If (v.L == 5) k = v; }\n"
      "InBFS (v: G.Nodes From k) { <x; y> max= <7; v.L>; }\n"
      "InDFS (v: G.Nodes From k) { <a; b> max= <7; v.L> @ v; }\n"
      "InBFS (v: G.Nodes From k)(v == k) {\n";
  const auto within = [&](const std::string& search) {
    return result_of("Int", start + "Int p, q; " + search + " v.E = q; } Return y * 100 + b * 10 + k.E;");
  };
  EXPECT_EQ(within("InBFS (w: G.Nodes From v) { <p; q> max= <7; w.L> @ w; }"), "545");
  EXPECT_EQ(within("InBFS (w: G.Nodes From v) {} InReverse { <p; q> max= <7; w.L> @ w; }"), "544");
  EXPECT_EQ(within("InDFS (w: G.Nodes From v) { <p; q> max= <7; w.L> @ w; }"), "544");
}

TEST(Run, DeferredAssignmentsAreSeenAtTheEndOfTheirLoop) {
  const std::string start = "N_P<Int> A; N_P<Int> B; G.A = 1; ";
  EXPECT_EQ(
      result_of("Int", start + "Foreach (n: G.Nodes) { n.A <= Sum(t: n.Nbrs){t.A}; } Return Sum(n: G.Nodes){n.A};"),
      "5");
  EXPECT_EQ(result_of("Int", start + "Foreach (n: G.Nodes)(n.Degree() == 1) { n.A <= 7; n.B = n.A; } Return Sum(n: "
                                     "G.Nodes){n.A} * 10 + Sum(n: G.Nodes)(n.Degree() == 1){n.B};"),
            "91");
  EXPECT_EQ(
      result_of(
          "Int",
          start + "For (n: G.Nodes) { n.A <= 5; n.B = Sum(t: G.Nodes){t.A}; } Return Sum(n: G.Nodes){n.A + n.B};"),
      "24");
  EXPECT_EQ(result_of("Int", "Int x = 1; Int y = 0; Foreach (n: G.Nodes) { x <= 4 @ n; y += x; } Return x * 10 + y;"),
            "43");
  const std::string root = start + "Node r; For (n: G.Nodes) If (n.InDegree() == 0) r = n;\n";
  const std::string sum = " Return Sum(n: G.Nodes){n.A * 10 + n.B};";
  EXPECT_EQ(
      result_of("Int",
                root + "InDFS (v: G.Nodes From r) { v.B = v.A; v.A <= 3 @ v; } InPost { v.B += v.A; v.A <= 5; }" + sum),
      "156");
  for (const std::string group :
       {"Node_Set S; S.Add(r); Foreach (v: G.Nodes)(v == r) { S", "InBFS (v: G.Nodes From r)(v == r) { G"})
    EXPECT_EQ(result_of("Int", root + group + ".A <= 4 @ v; v.B = v.A; } Return r.A * 10 + r.B;"), "41") << group;
  // At the end of each level.
  const std::string search =
      "InBFS (w: G.Nodes From r) { w.A <= Sum(u: w.UpNbrs){u.A} + 1 @ w; w.B = w.A; } InReverse { w.B = w.B + w.A; w.A "
      "<= "
      "w.A + 10 @ w; }";
  EXPECT_EQ(result_of("Int", root + search + sum), "358");
  EXPECT_EQ(result_of("Int", root + "InBFS (v: G.Nodes From r)(v == r) { " + search + " }" + sum), "358");
  EXPECT_EQ(result_of("Int", start + "G.B = 0; Foreach (n: G.Nodes) { For (t: n.Nbrs) { n.A <= 9 @ t; n.B += n.A; } } "
                                     "Return Sum(n: G.Nodes){n.A + n.B};"),
            "32");
}

TEST(Run, ColumnsOfOtherTypesAreConverted) {
  const auto takes = [](const std::string& type, const auto& values) -> std::string {
    using Value = typename std::decay_t<decltype(values)>::value_type;
    const auto compiled =
        program("Procedure p(G: Graph, A: N_P<" + type + ">) { For (n: G.Nodes) Print n.A; }").compile(4, 4);
    const std::vector<std::uint64_t> from = {0}, to = {1};
    Arguments arguments;
    arguments.graphs.emplace("G", *make_graph(2, from, to));
    arguments.columns.emplace("A", Column::of<Value>("A", values));
    const auto result = compiled->run("p", arguments);
    return result ? result->printed : result.error().message;
  };
  const std::vector<std::int32_t> ints = {3, 0};
  const std::vector<std::int64_t> longs = {5, 0};
  const std::vector<float> floats = {0.5F, 2};
  const std::vector<double> doubles = {1.5, 2};
  EXPECT_EQ(takes("Float", ints), takes("Float", std::vector<float>{3, 0}));
  EXPECT_EQ(takes("Float", doubles), takes("Float", std::vector<float>{1.5F, 2}));
  EXPECT_EQ(takes("Double", longs), takes("Double", std::vector<double>{5, 0}));
  EXPECT_EQ(takes("Double", floats), takes("Double", std::vector<double>{0.5, 2}));
  EXPECT_EQ(takes("Long", ints), takes("Long", std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(takes("Int", longs), takes("Int", std::vector<std::int32_t>{5, 0}));
  EXPECT_EQ(takes("Long", doubles), "'A' is N_P<Long>(G); its values are double");
  EXPECT_EQ(takes("Node", std::vector<std::int64_t>{-1, 1}), "NIL\n1\n");
  EXPECT_EQ(takes("Node", std::vector<std::int64_t>{0, -2}), "a value of 'A', -2, is no number of the graph");
  EXPECT_EQ(takes("Edge", std::vector<std::int64_t>{INT64_MIN, 0}),
            "a value of 'A', -9223372036854775808, is no number of the graph");
}

TEST(Run, ArgumentsThatDoNotFitAreRefused) {
  const auto compiled =
      program("Procedure p(G: Graph, n: Node, A: N_P<Int>, S: Node_Set, f: Float) : Int { Return S.Size(); }")
          .compile(4, 4);
  const std::vector<std::uint64_t> from = {0}, to = {1};
  const auto said = [&](auto&& change) {
    Arguments arguments;
    arguments.graphs.emplace("G", *make_graph(2, from, to));
    arguments.values = {{"n", std::int64_t{1}}, {"f", 0.5}};
    change(arguments);
    const auto result = compiled->run("p", arguments);
    return result ? std::to_string(std::get<std::int64_t>(result->returned)) : result.error().message;
  };
  EXPECT_EQ(said([](Arguments&) {}), "0");
  EXPECT_EQ(said([](Arguments& a) { a.items["S"] = {1, 1, 0}; }), "2");
  EXPECT_EQ(said([](Arguments& a) { a.items["S"] = {2}; }), "2 in 'S' is no number of the graph");
  EXPECT_EQ(said([](Arguments& a) { a.values["n"] = std::int64_t{2}; }), "'n' is 2, but the graph has 2 nodes");
  EXPECT_EQ(said([](Arguments& a) { a.values["n"] = 1.5; }), "the value of 'n' does not fit its type, Node(G)");
  EXPECT_EQ(said([](Arguments& a) { a.values.erase("f"); }), "'p' needs a value for 'f: Float'");
  EXPECT_EQ(said([](Arguments& a) { a.values["x"] = true; }), "'p' has no argument 'x'");
  EXPECT_EQ(said([](Arguments& a) { a.graphs.clear(); }), "'p' needs the graph 'G'");
  EXPECT_EQ(
      said([](Arguments& a) { a.columns.emplace("A", Column::of<std::int64_t>("A", std::vector<std::int64_t>{1})); }),
      "'A' has 1 values; the graph has 2 nodes");
  EXPECT_EQ(said([](Arguments& a) {
              a.columns.emplace("A", Column::of<std::int64_t>("A", std::vector<std::int64_t>{1, 2}));
            }),
            "0");
  EXPECT_EQ(compiled->run("q", {}).error().message, "a.gm: there is no procedure 'q'");
}

TEST(Run, TheSameTextForTheSameProgram) {
  const auto text = builtin_program("betweenness")->cpp();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(builtin_program("betweenness")->cpp(), text);
  EXPECT_THAT(text, HasSubstr("// 12 | v.delta = v.sigma * Sum(w: v.DownNbrs){(1 + w.delta) / w.sigma};"));
}

TEST(Run, PlacedArraysHoldTheSame) {
  // With one NUMA node, too: the graph's arrays are read from copies then.
  const auto graph = *generate(*parse_generator("kron:14:weights=255"), 2);
  Arguments arguments;
  arguments.graphs.emplace("G", graph);
  const auto result_of = [&](const char* name, const Arguments& given, RunOptions::Placement placement, int threads) {
    const auto program = builtin_program(name);
    RunOptions options;
    options.threads = threads;
    options.placement = placement;
    const auto result = program->compile(4, 4)->run(program->main_procedure(), given, options);
    EXPECT_TRUE(result) << result.error().message;
    return *result;
  };
  const auto compare = [&](const char* name, const Arguments& given, const char* output) {
    const auto plain = result_of(name, given, RunOptions::Placement::never, 2);
    EXPECT_TRUE(plain.placed.empty());
    std::map<std::string, std::string> placements;
    for (const int threads : {1, 2, 3}) {
      const auto placed = result_of(name, given, RunOptions::Placement::always, threads);
      for (const auto& each : placed.placed) placements[each.name] = each.placement;
      if (output == nullptr) {
        EXPECT_EQ(std::get<std::int64_t>(placed.returned), std::get<std::int64_t>(plain.returned));
        continue;
      }
      const auto &found = placed.columns.at(output), &wanted = plain.columns.at(output);
      EXPECT_EQ(std::memcmp(found.data(), wanted.data(), found.size() * size_of(found.type())), 0) << name;
    }
    return placements;
  };
  using testing::IsSupersetOf;
  using testing::Pair;
  Arguments ranks = arguments;
  ranks.values = {{"damping", 0.85}, {"tolerance", 0.0}, {"max_iterations", std::int64_t{5}}};
  EXPECT_THAT(
      compare("pagerank_exact", ranks, "rank"),
      IsSupersetOf({Pair("begin", "replicated"), Pair("rank", "interleaved"), Pair("rank_nxt", "partitioned")}));
  EXPECT_THAT(compare("triangles", arguments, nullptr), Contains(Pair("node_idx", "replicated")));
  Arguments paths = arguments;
  paths.values = {{"root", std::int64_t{1}}, {"delta", std::int64_t{16}}};
  paths.columns.emplace("len", *graph.edge_values("weight"));
  compare("sssp", paths, "dist");
  Arguments hops = arguments;
  hops.values = {{"root", std::int64_t{1}}};
  compare("hop_dist", hops, "dist");
  Arguments directed = arguments;
  directed.values = {{"directed", false}};
  compare("components", directed, "comp");
}

TEST(Run, TheCallerRunsWhereItRanBefore) {
  cpu_set_t before, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  RunOptions options;
  options.threads = 2;
  options.placement = RunOptions::Placement::always;
  ASSERT_TRUE(triangles(*generate(*parse_generator("kron:5")), options));
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

/// A directory in which the compiler's temporary files are, while this lives.
class TemporaryFiles {
 public:
  TemporaryFiles() : name_(std::filesystem::temp_directory_path() / ("smelt-run-test-" + std::to_string(getpid()))) {
    const char* before = std::getenv("TMPDIR");
    if (before != nullptr) before_ = before;
    std::filesystem::create_directories(name_);
    setenv("TMPDIR", name_.c_str(), 1);
  }
  ~TemporaryFiles() {
    before_ ? setenv("TMPDIR", before_->c_str(), 1) : unsetenv("TMPDIR");
    std::filesystem::remove_all(name_);
  }
  std::string path(const std::string& file) const { return name_ / file; }
  /// As a process leaves it that was killed while the compiler ran.
  std::string left_behind(const std::string& name) const {
    std::filesystem::create_directory(path(name));
    std::ofstream(path(name) + "/program.cpp") << "int x;";
    std::ofstream(path(name) + "/messages") << "";
    return path(name);
  }

 private:
  std::filesystem::path name_;
  std::optional<std::string> before_;
};

TEST(Run, WhatKilledProcessesLeftIsRemoved) {
  const TemporaryFiles files;
  const auto compiler = find_compiler("");
  ASSERT_TRUE(compiler) << compiler.error().message;
  const auto dead = files.left_behind("smelt-compile-abcdef"), alive = files.left_behind("smelt-compile-ghijkl"),
             other = files.left_behind("smelt-compile-else");
  const int lock = ::open(alive.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const auto done = compile_library(*compiler, "int y;", files.path("y.so"));
  EXPECT_TRUE(done) << done.error().message;
  EXPECT_TRUE(std::filesystem::exists(files.path("y.so")));
  EXPECT_FALSE(std::filesystem::exists(dead));
  EXPECT_TRUE(std::filesystem::exists(alive + "/program.cpp"));
  EXPECT_TRUE(std::filesystem::exists(other + "/program.cpp"));
  ::close(lock);
  ASSERT_TRUE(load_once(*compiler, "int z;"));
  std::set<std::string> left;
  for (const auto& each : std::filesystem::directory_iterator(files.path(""))) left.insert(each.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"smelt-compile-else", "y.so"}));
}

TEST(Run, TheCompilersMessageIsPassedOnAsItIs) {
  const TemporaryFiles files;
  const std::string script = files.path("compiler");
  std::ofstream(script) << "#!/bin/sh\nprintf 'a.cpp:1: error: \342\200\230x\342\200\231\\tis unknown\\n'\nexit 1\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  const auto refused = load_once({script, "of the test"}, "x");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("error: \xe2\x80\x98x\xe2\x80\x99 is unknown"));
}

TEST(Run, AMissingCompilerIsReported) {
  CompileOptions options;
  options.compiler = "no-such-compiler";
  EXPECT_THAT(program("Procedure p() : Int { Return 1; }").compile(4, 4, options).error().message,
              HasSubstr("no C++ compiler (no-such-compiler)"));
}

}  // namespace
}  // namespace smelt::graph
