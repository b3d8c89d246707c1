// Access patterns compared with the tables of the thesis, row by row; races and bindings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/analysis/accesses.hpp"
#include "graph/analysis/patterns.hpp"
#include "graph/analysis/races.hpp"
#include "graph/analysis/values.hpp"
#include "graph/language/checker.hpp"
#include "graph/language/parser.hpp"
#include "graph/language/thesis_programs.hpp"
#include "memory/choice/published.hpp"

namespace smelt::graph::language {
namespace {

using testing::HasSubstr;

std::unique_ptr<Program> checked(const std::string& text, std::string* said = nullptr) {
  auto program = std::make_unique<Program>(Source("a.gm", text));
  Diagnostics diagnostics(program->source);
  parse(*program, diagnostics);
  if (!diagnostics.has_errors()) check(*program, diagnostics);
  if (!diagnostics.has_errors()) check_races(*program, diagnostics);
  if (!diagnostics.has_errors()) find_values(*program);
  diagnostics.sort();
  if (said != nullptr) {
    for (const auto& each : diagnostics.all()) {
      if (each.severity == Severity::note) continue;
      *said += std::to_string(program->source.place(each.span.begin).line) + ": " + to_string(each.severity) + ": " +
               each.message + "\n";
    }
  } else {
    EXPECT_EQ(format(diagnostics), "");
  }
  return program;
}

std::string races_of(const std::string& text) {
  std::string said;
  checked(text, &said);
  return said;
}

/// The messages about statements in a procedure, whose first line is 1.
std::string races_of_sentences(const std::string& sentences) {
  return races_of("Procedure p(G: Graph, A, B: N_P<Int>, L: E_P<Int>, C: N_P<Node_Set>, n: Node) {\n" + sentences +
                  "\n}");
}

/// A row of table 3.2 and, if the array is used, of table 3.3.
struct Row {
  const char* array;
  const char* properties;  ///< node, edge, used, ro, std, dyn, indexed
  const char* reads;
  const char* writes;
};

std::string properties_of(const ArrayPattern& pattern) {
  std::string text;
  const auto add = [&](bool holds, const char* name) {
    if (holds) text += std::string(text.empty() ? "" : " ") + name;
  };
  add(pattern.node, "node");
  add(pattern.edge, "edge");
  add(pattern.used, "used");
  add(pattern.read_only, "ro");
  add(pattern.standard, "std");
  add(pattern.dynamic, "dyn");
  add(pattern.indexed, "indexed");
  return text;
}

void expect_rows(const char* text, const std::vector<Row>& rows) {
  const auto program = checked(text);
  const auto patterns = access_patterns(*program->procedures.front());
  EXPECT_EQ(patterns.size(), rows.size());
  for (const auto& row : rows) {
    SCOPED_TRACE(row.array);
    const auto found =
        std::find_if(patterns.begin(), patterns.end(), [&](const auto& each) { return each.name == row.array; });
    ASSERT_NE(found, patterns.end());
    EXPECT_EQ(properties_of(*found), row.properties);
    EXPECT_EQ(to_string(found->reads), row.reads);
    EXPECT_EQ(to_string(found->writes), row.writes);
  }
}

TEST(Patterns, PageRankAsInTables32And33) {
  expect_rows(pagerank, {{"begin", "node used ro std", "kE + kE", "0"},
                         {"node_idx", "edge", "0", "0"},
                         {"pg_rank", "node used", "kE + kN", "N + kN"},
                         {"pg_rank_nxt", "node used dyn indexed", "kN", "kN"},
                         {"r_begin", "node used ro std", "kN + kN", "0"},
                         {"r_node_idx", "edge used ro std", "kE", "0"}});
}

TEST(Patterns, HopDistanceAsInTables32And33) {
  expect_rows(hop_dist, {{"begin", "node used ro std", "kN + kN", "0"},
                         {"dist", "node used indexed", "N + kE", "N + kN"},
                         {"dist_nxt", "node used dyn", "kE + kE + kN", "N + kE"},
                         {"node_idx", "edge used ro std", "kE", "0"},
                         {"r_begin", "node", "0", "0"},
                         {"r_node_idx", "edge", "0", "0"},
                         {"updated", "node used dyn indexed", "N + kN + kN", "N + kN"},
                         {"updated_nxt", "node used dyn", "kN", "N + kE + kN"}});
}

TEST(Patterns, TriangleCountingAsInTables32And33) {
  expect_rows(triangle_counting, {{"begin", "node used ro std", "N + N + E + E + EE", "0"},
                                  {"node_idx", "edge used ro std", "E + EE + EE", "0"},
                                  {"r_begin", "node", "0", "0"},
                                  {"r_node_idx", "edge", "0", "0"}});
}

/// The simulation of figures 4.7 to 4.10 uses the arrays that the compiler finds, with the properties that it finds.
TEST(Patterns, AreThoseThatTheGainOfPlacementIsSimulatedWith) {
  const char* texts[] = {pagerank, hop_dist, triangle_counting};
  const auto simulated = memory::graph_programs();
  ASSERT_EQ(simulated.size(), std::size(texts));
  for (std::size_t i = 0; i < simulated.size(); ++i) {
    SCOPED_TRACE(simulated[i].name);
    const auto program = checked(texts[i]);
    std::vector<std::string> found, expected;
    for (const auto& pattern : access_patterns(*program->procedures.front())) {
      if (!pattern.used) continue;
      found.push_back(pattern.name + (pattern.read_only ? " ro" : "") + (pattern.dynamic ? " dyn" : "") +
                      (pattern.indexed ? " indexed" : ""));
    }
    for (const auto& use : simulated[i].arrays) {
      const bool dynamic = std::count(simulated[i].dynamic.begin(), simulated[i].dynamic.end(), use.name) > 0;
      expected.push_back(use.name + (use.read_only ? " ro" : "") + (dynamic ? " dyn" : "") +
                         (use.loop_index ? " indexed" : ""));
    }
    EXPECT_THAT(expected, testing::UnorderedElementsAreArray(found));
  }
}

TEST(Patterns, FormulasHaveValues) {
  Frequency often;
  often.iterations = often.edges = 1;
  EXPECT_EQ(often.value(10, 30, 5, 2), 150);
  EXPECT_EQ(Frequency{}.value(10, 30, 5, 2), 1);
}

TEST(Races, ProgramsWithoutRacesGetNoMessage) {
  EXPECT_EQ(races_of(pagerank), "");
  EXPECT_EQ(races_of(hop_dist), "");
  EXPECT_EQ(races_of(triangle_counting), "");
  EXPECT_EQ(
      races_of_sentences(
          "Foreach (v: G.Nodes) { v.A = v.B; v.B += 1; Int c = 0; Foreach (t: v.Nbrs) { c += t.Degree(); } v.A = c; }"),
      "");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { Edge e = t.ToEdge(); e.L = v.A; } }"), "");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { Foreach (e: v.OutEdges) { e.L = v.A; } }"), "");
  EXPECT_EQ(races_of_sentences("Foreach (e: G.Edges) { e.L = 1; }"), "");
  EXPECT_EQ(races_of_sentences("Node_Set S; Foreach (v: S.Items) { v.A = 1; }"), "");
  EXPECT_EQ(races_of_sentences("Bool b = True; Foreach (v: G.Nodes) { If (v.A > 1) b = False; }"), "");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { v.C.Add(n); For (t: v.C.Items) { v.A += t.A; } }").substr(0, 10),
            "2: warning");
  EXPECT_EQ(races_of_sentences("InBFS (v: G.Nodes From n) { v.A = Sum(w: v.UpNbrs){w.A}; } InReverse { v.B = Sum(w: "
                               "v.DownNbrs){w.B + w.A}; }"),
            "");
  EXPECT_EQ(races_of_sentences("Node_Set S; Foreach (v: G.Nodes) { S.Add(v); }"), "");
}

TEST(Races, WarningsNameTheReason) {
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { t.A = v.B; } }"),
            "2: warning: several instances of the loop over 'v' may write the same 'A': a data race\n");
  EXPECT_EQ(
      races_of_sentences("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { Foreach (e: t.OutEdges) { e.L = v.A; } } }"),
      "2: warning: several instances of the loop over 'v' may write the same 'L': a data race\n");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) {\n v.A = Sum(t: v.Nbrs){t.A}; }"),
            "3: warning: one instance of the loop over 'v' writes 'A' while another one reads it: a data race\n");
  EXPECT_EQ(races_of_sentences("G.A = Sum(t: G.Nbrs){t.A};"),
            "2: warning: one instance of the loop over 'G' writes 'A' while another one reads it: a data race\n");
  EXPECT_EQ(races_of_sentences("G.B = n.B;"),
            "2: warning: one instance of the loop over 'G' writes 'B' while another one reads it: a data race\n");
  EXPECT_EQ(races_of_sentences("Int x; Foreach (v: G.Nodes) { x = v.A; }"),
            "2: warning: several instances of the loop over 'v' may write the same 'x': a data race\n");
  EXPECT_EQ(races_of_sentences("Node_Seq S; Foreach (v: S.Items) { v.A = v.B; }"),
            "2: warning: several instances of the loop over 'v' may write the same 'A': a data race\n");
  EXPECT_EQ(races_of_sentences("Node_Set S; Foreach (v: G.Nodes) { If (!S.Has(v)) S.Add(v); }"),
            "2: warning: one instance of the loop over 'v' adds to 'S' while another one reads it: a data race\n");
  EXPECT_EQ(races_of_sentences("InBFS (v: G.Nodes From n) { v.A = Sum(w: v.Nbrs){w.A}; }"),
            "2: warning: one instance of the loop over 'v' writes 'A' while another one reads it: a data race\n");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { n.A <= v.B @ v; }"),
            "2: warning: several instances of the loop over 'v' may assign to the same 'A': a data race\n");
}

TEST(Races, UndefinedBehaviourIsAnError) {
  EXPECT_EQ(
      races_of_sentences("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { t.A += v.A @ v; } }"),
      "2: error: one instance of the loop over 'v' reduces 'A' while another one reads it; that is not defined\n");
  EXPECT_EQ(
      races_of_sentences("Int x; Foreach (v: G.Nodes) { x += v.A @ v; x = 2; }"),
      "2: error: one instance of the loop over 'v' reduces 'x' while another one writes it; that is not defined\n");
  EXPECT_EQ(
      races_of_sentences("Int x; Foreach (v: G.Nodes) { x += v.A; x *= 2; }"),
      "2: error: one instance of the loop over 'v' reduces 'x' while another one reduces it; that is not defined\n");
  EXPECT_EQ(races_of_sentences("Int x; Node m; Foreach (v: G.Nodes) { <x; m> max= <v.A; v>; x max= 3; }").substr(0, 61),
            "2: error: one instance of the loop over 'v' reduces 'x' while");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { n.A <= v.B @ v; n.A = 2; }").substr(0, 8), "2: error");
  EXPECT_EQ(races_of_sentences("Node_Set S; Foreach (v: G.Nodes) { S.Add(v); S.Remove(n); }"),
            "2: error: one instance of the loop over 'v' adds to 'S' while another one removes from it; that is not "
            "defined\n");
  EXPECT_EQ(races_of_sentences("Node_Set S; For (v: S.Items) { S.Add(v); }"),
            "2: error: 'S' changes while the loop over 'v' runs over it\n");
  EXPECT_EQ(races_of_sentences("Int x; x <= 2;"),
            "2: error: '<=' assigns at the end of a loop, and there is none around it\n");
  EXPECT_EQ(races_of_sentences("Foreach (v: G.Nodes) { Int x = 0; x += 1 @ v; }"),
            "2: error: 'x' is declared within the loop of 'v', so it is over before that loop ends\n");
  EXPECT_EQ(races_of_sentences("Int x; Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { x += 1 @ t; } x += 2 @ v; }"),
            "2: error: 'x' is bound to this inner loop here, and to a loop around it elsewhere\n");
}

/// The iterators of the loops that the reductions and deferred assignments are bound to, by their order.
std::string bindings_of(const std::string& sentences) {
  std::string said;
  const auto program = checked("Procedure p(G: Graph, A, B: N_P<Int>, n: Node) {\n" + sentences + "\n}", &said);
  std::string text;
  walk_statements(*program->procedures.front()->body, [&](const Statement& statement) {
    if (statement.assign_kind == AssignKind::set || !statement.target) return;
    text += (text.empty() ? "" : " ") +
            (statement.bound_loop == nullptr ? "-" : statement.bound_loop->iteration->name.name);
  });
  return text;
}

TEST(Bindings, AreTheOutermostLoopThatAddsNoRace) {
  EXPECT_EQ(bindings_of("Int x; Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { x += 1; } }"), "v");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Int x; Foreach (t: v.Nbrs) { x += 1; } v.A = x; }"), "t");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { v.A += 1; } v.B = v.A; }"), "t");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { t.A += 1; } }"), "v");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Int d = v.A; Foreach (t: v.Nbrs) { t.A min= d; } }"), "t");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { v.A += 1; }"), "-");
  EXPECT_EQ(bindings_of("For (v: G.Nodes) { v.A += 1; }"), "-");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { v.A <= Sum(t: v.Nbrs){t.A}; }"), "v");
  EXPECT_EQ(bindings_of("For (v: G.Nodes) { v.A <= Sum(t: v.Nbrs){t.A}; }"), "v");
  EXPECT_EQ(bindings_of("Foreach (s: G.Nodes) { InBFS (v: G.Nodes From s) { v.A += 1; } }"), "s");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { v.A += 1; t.A += 1; } }"), "v v");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { v.A += 1; Foreach (t: v.Nbrs) { t.A += 1; } }"), "v v");
  EXPECT_EQ(bindings_of("Foreach (v: G.Nodes) { Foreach (t: v.Nbrs) { v.A += 1; t.B += 1; } }"), "t v");
  EXPECT_EQ(bindings_of("Foreach (s: G.Nodes) { InBFS (v: G.Nodes From s) { v.A += 1 @ s; } }"), "s");
}

TEST(Values, FindWhereInfAndNilMayOccur) {
  const auto program = checked(
      "Procedure p(G: Graph, K: N_P<Int>, k: Long, P, Q: N_P<Node>, n: Node) {\n"
      "  N_P<Int> A, B, D; G.A = +INF; G.D = G.A; Int x = Min(v: G.Nodes){v.B}; Int y = x + 1; Int z = 3;\n"
      "  G.P = G; G.Q = NIL; Node m = n; Foreach (v: G.Nodes) { Node w = v; v.B = z; } }");
  const auto symbol = [&](const std::string& name) {
    for (const auto& each : program->procedures.front()->symbols) {
      if (each->name == name) return each.get();
    }
    return static_cast<Symbol*>(nullptr);
  };
  for (const char* name : {"A", "D", "x", "y", "K", "k"}) EXPECT_TRUE(symbol(name)->may_be_infinite) << name;
  for (const char* name : {"B", "z"}) EXPECT_FALSE(symbol(name)->may_be_infinite) << name;
  for (const char* name : {"Q", "m", "n"}) EXPECT_TRUE(symbol(name)->may_be_nil) << name;
  EXPECT_FALSE(symbol("w")->may_be_nil);
}

TEST(Values, FindPropertiesThatAreAssignedFirst) {
  const auto is_first = [](const std::string& sentences) {
    std::string said;
    const auto program = checked("Procedure p(G: Graph, n: Node) { N_P<Node> A;\n" + sentences + "\n}", &said);
    for (const auto& each : program->procedures.front()->symbols) {
      if (each->name == "A") return is_assigned_first(*each);
    }
    return false;
  };
  for (const char* sentences : {
           "Int x = 2;",
           "G.A = NIL;",
           "Int x = 2; { G.A = G; } n = n.A;",
           "Foreach (v: G.Nodes) { v.A = v; n = v.A; }",
           "Foreach (v: G.Nodes) v.A = n;",
       })
    EXPECT_TRUE(is_first(sentences)) << sentences;
  for (const char* sentences : {
           "n = n.A;",
           "n.A = n;",
           "G.A = n.A;",
           "If (n != NIL) G.A = NIL;",
           "Node_Set S; S.A = n;",
           "Foreach (v: G.Nodes)(v != n) { v.A = v; }",
           "Foreach (v: G.Nodes) { If (v != n) v.A = v; }",
           "Foreach (v: G.Nodes) { v.A = v.A; }",
           "Foreach (v: G.Nodes) { v.A = v; Foreach (t: v.Nbrs) n = t.A; }",
           "Foreach (v: G.Nodes) { n.A = v; }",
           "InBFS (v: G.Nodes From n) { v.A = v; }",
       })
    EXPECT_FALSE(is_first(sentences)) << sentences;
}

}  // namespace
}  // namespace smelt::graph::language
