// The front end: correct programs and their printed trees; wrong programs and their messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "graph/language/checker.hpp"
#include "graph/language/parser.hpp"
#include "graph/language/printer.hpp"
#include "graph/language/thesis_programs.hpp"

namespace smelt::graph::language {
namespace {

using testing::HasSubstr;

struct Checked {
  explicit Checked(const std::string& text) : program(Source("a.gm", text)), diagnostics(program.source) {
    parse(program, diagnostics);
    if (!diagnostics.has_errors()) check(program, diagnostics);
    diagnostics.sort();
  }
  std::string said() const { return format(diagnostics); }
  /// "LINE:COLUMN: SEVERITY: MESSAGE" of the first one.
  std::string first() const {
    if (diagnostics.all().empty()) return "";
    const auto& one = diagnostics.all().front();
    const auto place = program.source.place(one.span.begin);
    return std::to_string(place.line) + ":" + std::to_string(place.column) + ": " + to_string(one.severity) + ": " +
           one.message;
  }

  Program program;
  Diagnostics diagnostics;
};

std::string said_of(const std::string& text) { return Checked(text).said(); }
std::string first_of(const std::string& text) { return Checked(text).first(); }

/// The first message about statements in a procedure with arguments of many types, whose line is 1.
std::string first_of_sentences(const std::string& sentences) {
  return first_of(
      "Procedure p(G: Graph, n, m: Node, e: Edge, A: N_P<Int>, B: N_P<Double>, L: E_P<Int>, C: N_P<Node_Set>, s: "
      "String) {\n" +
      sentences + "\n}");
}

TEST(Language, TheProgramsOfTheThesis) {
  EXPECT_EQ(said_of(pagerank), "");
  EXPECT_EQ(said_of(hop_dist), "");
  EXPECT_EQ(said_of(triangle_counting), "");
}

TEST(Language, CallsThatChangeSomethingStandAlone) {
  const auto said = [](const std::string& argument, const std::string& change) {
    return first_of("Local f(G: Graph, x: " + argument + ") : Int { " + change + " Return 1; }\n" +
                    "Procedure p(G: Graph, x: " + argument + ") : Int { Return 1 + f(G, x); }");
  };
  const std::string refused = ": error: 'f' changes something, so it must stand alone or as all of an assigned value";
  for (const auto& [argument, change] : std::map<std::string, std::string>{
           {"Map<Int, Int>", "x[1] = 2;"}, {"Node_Set(G)", "x.Clear();"}, {"N_P<Int>(G)", "G.x = 0;"}}) {
    EXPECT_THAT(said(argument, change), testing::EndsWith(refused)) << argument;
    EXPECT_EQ(said(argument, ""), "") << argument;
  }
}

TEST(Language, TreesArePrintedWithTypesAndConversions) {
  EXPECT_EQ(to_text(Checked(pagerank).program),
            R"(Procedure pagerank(G: Graph, e: Double, d: Double, max: Int; pg_rank: Node_Prop<Double>)
{
  Double nodes = (Double) G.NumNodes();
  Int rounds = 0;
  Double moved;
  G.pg_rank = (Double) 1 / nodes;
  Do
    {
      moved = 0.0;
      Foreach (v: G.Nodes)
        {
          Double rank = ((Double) 1 - d) / nodes + d * Sum(from: v.InNbrs){from.pg_rank / (Double) from.OutDegree()};
          moved += |rank - v.pg_rank|;
          v.pg_rank <= rank @ v;
        }
      rounds += 1;
    }
  While (moved > e && rounds < max);
}
)");
}

TEST(Language, RealNumbersArePrintedAsRealNumbers) {
  const std::string text = to_text(Checked("Procedure p(): Double { Return 3.0 + 1e30 + 0.5 + 1.; }").program);
  EXPECT_NE(text.find("Return 3.0 + 1e+30 + 0.5 + 1.0;"), std::string::npos) << text;
}

TEST(Language, OperatorsBindAsTheirPrecedenceSays) {
  // Each level of precedence next to the following one, with necessary and unnecessary parentheses.
  const std::string text = to_text(Checked(R"(Procedure p(a, b, c: Bool, i, j, k: Int; x: Bool, y: Int) {
  x = (a || b) && c || (b && c);
  x = (a && b) == c && (a == b);
  x = (a == b) == (i < (j + k));
  y = (i + j) * k - (i * j);
  y = i - (j - k) % i;
})")
                                       .program);
  for (const auto* line : {"x = (a || b) && c || b && c;", "x = (a && b) == c && a == b;", "x = a == b == i < j + k;",
                           "y = (i + j) * k - i * j;", "y = i - (j - k) % i;"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Language, EveryConstruct) {
  EXPECT_EQ(said_of(R"(
/* All of the language, each construct at least once. */
Local helper(G: Graph, n: Node(G), A: Node_Property<Int>(G); total: Long, last: Node) : Bool {
  total = Sum(t: n.OutNbrs)(t != n){t.A};
  last = n;
  return total > 0;
}

Proc all(G: UGraph, root, other: Node(G), len: E_P<Double>(G), name: String, x: Float; D: N_P<Double>(G), path: N_Q(G)) : Double {
  Int i = 3, j;
  Long k = i;
  Float f = 1.5;
  Double d = f;
  Bool b = True && !False || i == j;
  Boolean c = (i < 3) != (d >= 2.0);
  String s = "text with \"escapes\"\n";
  Node n = NIL;
  Edge(G) edge;
  Node_Set(G) S;
  N_S R(G);
  Node_Order O;
  Node_Seq Q;
  Edge_Set ES;
  N_P<Node_Set>(G) sets;
  E_P<Bool> seen;
  N_P<Node> parent;
  Collection<Node_Set>(G) all_sets;
  Map<Node, Int> counts;
  Map<String, Double> named;

  j = (Int) d % 2 - -i * 4;
  k = |i - 7| + (Long) f;
  d = ||f - d| - 2.0|;
  d = i > 2 ? INF : -INF;
  G.D = (G == root) ? 0.0 : +INF;
  G.parent = NIL;
  G.seen = False;
  S.D = S.Degree() + 1.0;
  counts[root] = 2;
  counts[root] += 3;
  named["a"] = 0.5;
  i++;
  k += 2; k *= 3; d min= 2.5; d max= i; b &&= c; b ||= True; b &= c; b |= c;

  Foreach (v: G.Nodes)(v.D < INF) {
    Foreach (t: v.Nbrs) {
      Edge e = t.ToEdge();
      t.D min= v.D + e.len;
      <t.D; t.parent> min= <v.D + e.len; v>;
      t.D <d> max= v.D + e.len <2.0> @ v;
    }
  }
  Return d;
}
)"),
            "");
}

TEST(Language, EveryOtherConstruct) {
  EXPECT_EQ(said_of(R"(
Local helper(G: Graph, n: Node(G), A: Node_Property<Int>(G); total: Long, last: Node) : Bool {
  total = Sum(t: n.OutNbrs)(t != n){t.A};
  last = n;
  return total > 0;
}

Proc all(G: Graph, root, other: Node(G), A: N_P<Int>, len: E_P<Double>(G), name: String; D: N_P<Double>(G), path: N_Q(G)) : Double {
  Long k;
  Node n;
  Bool b;
  Double d;
  Node_Set S, R;
  Node_Order O;
  Node_Seq Q;
  N_P<Node_Set> sets;
  N_P<Float> P;
  Collection<Node_Set> all_sets;
  Map<Node, Int> counts;

  For (v: G.Nodes) { For (e: v.InEdges) { d += e.len; } }
  For (v: G^.Nodes) d = v.D;
  Foreach (e: G.Edges)(e.FromNode() != e.ToNode()) { e.len = 1.0; }
  Foreach (e: root.OutEdges) { d += e.len; }
  For (v: root.CommonNbrs(other)) Q.PushBack(v);
  For (v: S.Items) O.PushFront(v);
  For (v: O^.Items) { n = v; }
  S.Add(root); S.Add(R); S.Remove(root); S.Union(R); R = S.Intersect(R); R = S.Complement(R);
  b = S.Has(n) && S.IsSubsetOf(R) && S.Size() > 2;
  n = Q.PopFront(); n = Q.Pop(); n = Q.PopBack(); n = O.Front(); n = O.Back(); Q.Push(O); Q.Clear();
  root.sets = S;
  root.sets.Add(other);
  For (v: root.sets.Items) { k += v.Degree() + v.InDegree() + v.NumNbrs(); }
  all_sets.PushBack(S);
  For (T: all_sets.Items) { k += T.Size(); T.Add(root); }
  b = helper(G, root, A; k, #);
  helper(G, root, A; #, n);
  InBFS (v: G.Nodes From root)(v != root)[v.A > 0] {
    v.P = Sum(w: v.UpNbrs){w.P} + Count(w: v.DownNbrs);
  } InReverse (v != root) {
    Foreach (e: v.DownEdges) { v.P += 1; }
  }
  InBFS (v: G^.Nodes; root) { v.A = 1; }
  InRBFS (v: G.Nodes; root) v.A = 1;
  InDFS (v: G.Nodes From root)[v.A == 1] {} InPost (v.A > 0) { O.PushFront(v); }
  If (n == NIL) Print "none"; Else Print n;
  While (k > 0) { k += -1; k -= 1; k--; }
  Do { k = k + 1; } While (k < 5);
  k = counts.Size();
  If (counts.HasKey(root) && counts.GetValue(root) > 2 && counts.HasMaxValue(root)) counts.Remove(root);
  n = counts.GetMinKey(); k = counts.GetMaxValue(); n = counts.RemoveMinKey();
  b = name.Contains("x") && name.BeginsWith("a") || name == "b" && name < "c" && name.Length() > 3;
  d = Log(2) + Exp(d) + Pow(2, 3.5) + Sqrt(k) + Uniform() + Rand(10);
  n = G.PickRandom(); n = root.PickRandomNbr();
  b = root.HasEdgeTo(n) && root.HasEdgeFrom(n) && root.IsNbrFrom(n);
  d = Product(v: G.Nodes){v.D} + Min(v: G.Nodes)(v.A > 0){v.D} + Max(v: G.Nodes){v.A} + Avg(v: G.Nodes){v.A};
  b = Any(v: G.Nodes){v.A > 1} && All(v: G.Nodes)(v.A > 2) && Exist(v: G.Nodes)(v.A > 0){v.D > 0};
  $Foreign handle;
  [$handle.open($root, $n.A)] :: [n, A];
  k = [std::max<int>($k, a[3])];
  If (k == 0) Error "nothing";
  Return d;
}
)"),
            "");
}

TEST(Language, ErrorsShowTheLineAndWhatWasExpected) {
  EXPECT_EQ(said_of("Procedure p(G: Graph) {\n  Int x = G.NumNodes()\n  x = 2;\n}\n"),
            "a.gm:2:22: error: expected ';' at the end of the declaration, before 'x'\n"
            "    2 |   Int x = G.NumNodes()\n"
            "      |                      ^\n");
  EXPECT_EQ(said_of("Procedure p(G: Graph, A: N_P<Int>) : Int {\n  Int x = 2.5;\n  y = 1;\n  Return G.A;\n}\n"),
            "a.gm:2:11: error: Double does not become Int by itself; write (Int) before it\n"
            "    2 |   Int x = 2.5;\n"
            "      |           ^~~\n"
            "a.gm:3:3: error: 'y' is not declared\n"
            "    3 |   y = 1;\n"
            "      |   ^\n"
            "a.gm:4:10: error: 'A' as a whole has no value; a node's has, or a reduction over G.Nodes\n"
            "    4 |   Return G.A;\n"
            "      |          ^\n");
}

TEST(Language, SyntaxErrors) {
  EXPECT_EQ(first_of(""), "");
  EXPECT_EQ(first_of("x"), "1:1: error: expected 'Procedure', 'Proc' or 'Local', not 'x'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) {"), "1:23: error: this '{' has no '}'");
  EXPECT_EQ(first_of("Procedure p(G: Graph {}"), "1:22: error: expected ')' at the end of the arguments, not '{'");
  EXPECT_EQ(first_of("Procedure p(G) {}"), "1:14: error: expected ':' and the argument's type, not ')'");
  EXPECT_EQ(first_of("Procedure If(G: Graph) {}"),
            "1:11: error: expected the procedure's name; 'If' is a word of the language");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int 3x; }"), "1:29: error: '3x': a name must not start with a digit");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = 3 +; }"), "1:36: error: expected an expression, not ';'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = \"a; }"),
            "1:33: error: '\"a; }': this string has no end; '\"' is missing");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { /* "), "1:25: error: '/* ': this comment has no end; '*/' is missing");
  EXPECT_EQ(first_of(R"(Procedure p(G: Graph) { Print "a\x41"; })"),
            R"(1:31: error: '"a\x41"': behind '\' can be n, t, r, a, b, f, v, 0, ", ' or \)");
  EXPECT_EQ(first_of(R"(Procedure p(G: Graph) { Print "\n\t\r\a\b\f\v\0\"\'\\"; })"), "");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = 99999999999999999999; }"),
            "1:33: error: '99999999999999999999' is too large: a Long has 64 bits");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Else }"), "1:25: error: 'Else' belongs to nothing before it");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Foreach (n G.Nodes) {} }"),
            "1:36: error: expected ':' and what it runs over, not 'G'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Foreach (n: G) {} }"),
            "1:38: error: expected '.' and a range, such as Nodes, not ')'");
  EXPECT_EQ(
      first_of("Procedure p(G: Graph) { Int x; x ! 3; }"),
      "1:34: error: expected an assignment: '=', '<=', '+=', '*=', 'min=', 'max=', '&&=', '||=' or '++', not '!'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x; <x; y> += <1; 2>; }"),
            "1:39: error: expected 'min=' or 'max=', not '+='");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = Sum(n: G.Nodes)(n > 1); }"),
            "1:55: error: expected '{' and the reduction's body, not ';'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = [a; }"), "1:33: error: this '[' has no ']'");
  EXPECT_EQ(first_of("Procedure p(G: Graph) { Int x = |3; }"),
            "1:35: error: expected '|' at the end of the absolute value, not ';'");
  EXPECT_THAT(first_of("Procedure p(G: Graph) { Int x = " + std::string(5000, '(') + "1; }"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(first_of("Procedure p(G: Graph) " + std::string(5000, '{')), HasSubstr("nested too deeply"));
  EXPECT_THAT(first_of("Procedure p(G: Graph) { Int x = \xc3\xa9; }"), HasSubstr("this character has no meaning here"));
}

TEST(Language, SeveralErrorsInOneRun) {
  const std::string said = said_of(
      "Procedure p(G: Graph) {\n  Int 3;\n  While x {}\n  Foreach (n: G.Nodes { }\n  Int y = ;\n}\nProc q() { z = 1; "
      "}\nProc r( {}\n");
  for (const char* line :
       {"a.gm:2:7: error", "a.gm:3:9: error", "a.gm:4:23: error", "a.gm:5:11: error", "a.gm:8:9: error"}) {
    EXPECT_THAT(said, HasSubstr(line));
  }
  std::string many = "Procedure p(G: Graph) {\n";
  for (int i = 0; i < 100; ++i) many += "  x" + std::to_string(i) + " = 1;\n";
  EXPECT_THAT(said_of(many + "}\n"), HasSubstr("too many errors"));
}

TEST(Language, NamesThatDoNotFit) {
  EXPECT_EQ(first_of_sentences("Int x; x = y;"), "2:12: error: 'y' is not declared");
  EXPECT_EQ(first_of_sentences("Int count; cuont = 1;"), "2:12: error: 'cuont' is not declared; did you mean 'count'?");
  EXPECT_EQ(first_of_sentences("Int A;"), "2:5: error: 'A' has a meaning here already; a name cannot hide another one");
  EXPECT_EQ(first_of_sentences("Foreach (n: G.Nodes) {}"),
            "2:10: error: 'n' has a meaning here already; a name cannot hide another one");
  EXPECT_EQ(first_of_sentences("{ Int x; } { Int x; } { x = 1; }"), "2:25: error: 'x' is not declared");
  EXPECT_EQ(first_of_sentences("Foreach (v: G.Nods) {}"),
            "2:15: error: 'Nods' is no range of a graph; did you mean 'Nodes'? (it has Nodes, Edges)");
  EXPECT_EQ(first_of_sentences("n.Q = 1;"), "2:3: error: Node(G) has no 'Q': it is no property");
  EXPECT_EQ(first_of_sentences("Int x = n.Degree;"), "2:11: error: Degree is a function; write Degree()");
  EXPECT_EQ(first_of_sentences("Int x = n.Degre();"),
            "2:11: error: Node(G) has no function 'Degre'; did you mean 'Degree'?");
  EXPECT_EQ(first_of_sentences("Int x = foo(3);"), "2:9: error: no procedure 'foo' in this file");
  EXPECT_EQ(first_of_sentences("Intt x;"),
            "2:6: error: expected an assignment: '=', '<=', '+=', '*=', 'min=', 'max=', '&&=', '||=' or '++', not 'x'");
  EXPECT_EQ(first_of("Procedure p(G: Grph) {}"), "1:16: error: 'Grph' is no type; did you mean 'Graph'?");
  EXPECT_EQ(first_of("Procedure p(n: Node) {}"), "1:16: error: Node needs a graph, and no argument is one");
  EXPECT_EQ(first_of("Procedure p(G, H: Graph, n: Node) {}"),
            "1:29: error: of which graph? write Node(G): there are several");
  EXPECT_EQ(first_of("Procedure p() {} Procedure p() {}"), "1:28: error: a second procedure 'p'");
}

TEST(Language, TypesThatDoNotFit) {
  EXPECT_EQ(first_of_sentences("Int x = 1.5;"),
            "2:9: error: Double does not become Int by itself; write (Int) before it");
  EXPECT_EQ(first_of_sentences("Long y; Int x = y;"),
            "2:17: error: Long does not become Int by itself; write (Int) before it");
  EXPECT_EQ(first_of_sentences("Int x = True;"), "2:9: error: expected Int, not Bool");
  EXPECT_EQ(first_of_sentences("Int x = s;"), "2:9: error: expected Int, not String");
  EXPECT_EQ(first_of_sentences("Bool x = 1;"), "2:10: error: expected Bool, not Int; compare it with 0");
  EXPECT_EQ(first_of_sentences("Node x = e;"), "2:10: error: expected Node(G), not Edge(G)");
  EXPECT_EQ(first_of_sentences("If (n) {}"), "2:5: error: a condition must be a Bool, not Node(G)");
  EXPECT_EQ(first_of_sentences("Int x = n + 1;"), "2:9: error: '+' needs two numbers, not Node(G) and Int");
  EXPECT_EQ(first_of_sentences("Bool x = n == 1;"),
            "2:10: error: '==' needs two values of one type, not Node(G) and Int");
  EXPECT_EQ(first_of_sentences("Bool x = 1 && True;"), "2:10: error: '&&' needs two Bools, not Int and Bool");
  EXPECT_EQ(first_of_sentences("Double x = 1.0 % 2;"), "2:12: error: '%' needs two whole numbers, not Double and Int");
  EXPECT_EQ(first_of_sentences("Int x = True ? 1 : s;"),
            "2:9: error: both cases must have one type, not Int and String");
  EXPECT_EQ(first_of_sentences("Int x = e.A;"), "2:9: error: 'A' is a property of nodes, not of Edge(G)");
  EXPECT_EQ(first_of_sentences("A = 1;"), "2:1: error: 'A' is a property: assign to n.A or G.A");
  EXPECT_EQ(first_of_sentences("G.L = 1.5;"),
            "2:7: error: Double does not become Int by itself; write (Int) before it");
  EXPECT_EQ(first_of_sentences("s += s;"), "2:1: error: '+=' cannot assign to String");
  EXPECT_EQ(first_of_sentences("n.C <= n.C;"), "2:1: error: '<=' cannot assign to Node_Set(G)");
  EXPECT_EQ(first_of_sentences("Foreach (v: G.Nodes) { v = n; }"),
            "2:24: error: 'v' is an iterator, which only its loop changes");
  EXPECT_EQ(first_of_sentences("Foreach (v: s.Items) { }"),
            "2:13: error: String has nothing to iterate over; a graph, node or collection has");
  EXPECT_EQ(first_of_sentences("Int x = 3 + Sum(v: G.Nodes){v};"),
            "2:29: error: the body must be a number, not Node(G)");
  EXPECT_EQ(first_of_sentences("Int x = 9999999999;"), "2:9: error: 9999999999 does not fit into an Int");
  EXPECT_EQ(first_of_sentences("N_P<Graph> x;"), "2:5: error: N_P cannot have values of type Graph");
  EXPECT_EQ(first_of_sentences("N_P x;"), "2:1: error: expected N_P<TYPE> or E_P<TYPE>");
  EXPECT_EQ(first_of_sentences("Graph H;"), "2:1: error: a graph can be an argument only");
  EXPECT_EQ(first_of_sentences("Map<Int> x;"), "2:1: error: expected Map<KEY, VALUE>");
  EXPECT_EQ(first_of("Procedure p(G, H: Graph, n: Node(G), m: Node(H)) { Bool b = n == m; }"),
            "1:61: error: nodes and edges of different graphs, G and H, do not mix");
  EXPECT_EQ(first_of("Procedure p(G, H: Graph, A: N_P<Int>(H)) { G.A = 1; }"),
            "1:46: error: 'A' is a property of H, not of G");
}

TEST(Language, Warnings) {
  EXPECT_EQ(first_of_sentences("Long y; Double x = y;"), "2:20: warning: Long has more digits than Double holds");
  EXPECT_EQ(first_of_sentences("Int y; Float x = y;"), "2:18: warning: Int has more digits than Float holds");
  EXPECT_EQ(first_of_sentences("Double y; Float x = y;"),
            "2:21: warning: Double has more digits than Float holds; write (Float) before it if that is meant");
  EXPECT_EQ(
      first_of_sentences("Double x = 1 / G.NumNodes();"),
      "2:12: warning: the quotient of whole numbers is whole, then becomes Double; write (Double) before one of them");
  EXPECT_EQ(first_of_sentences("n.Degree();"), "2:1: warning: what Degree gives is not used");
  EXPECT_EQ(first_of_sentences("Float x = 0.1; Double y = G.NumNodes(); Int z = G.NumEdges() / 2;"), "");
  EXPECT_EQ(first_of_sentences("Int i; Double x = i + 1; Double y = i * i - 3;"), "");
}

TEST(Language, CallsThatDoNotFit) {
  const std::string callee =
      "Local f(G: Graph, n: Node, A: N_P<Int>; x: Int) : Int { x = 1; n.A = 2; Return 3; }\nLocal g(x: Int) : Int { "
      "Return x; }\n";
  const auto said = [&](const std::string& sentences) {
    return first_of(callee + "Procedure p(G: Graph, n: Node, A: N_P<Int>, B: N_P<Double>) {\n" + sentences + "\n}");
  };
  EXPECT_EQ(said("Int x; Int y = f(G, n, A; x); y = g(y) + g(2); f(G, n, A; #);"), "");
  EXPECT_EQ(said("f(G, n);"), "4:1: error: 'f' takes 3 arguments and, behind ';', 1 outputs");
  EXPECT_EQ(said("Int x; f(G, n, B; x);"), "4:16: error: 'A' is N_P<Int>(G), not N_P<Double>(G)");
  EXPECT_EQ(said("Double x; f(G, G, A; #);"), "4:16: error: expected Node(G), not Graph");
  EXPECT_EQ(said("Int x = 1 + f(G, n, A; #);"),
            "4:13: error: 'f' changes something, so it must stand alone or as all of an assigned value");
  EXPECT_EQ(first_of("Proc a(x: Int) : Int { Return b(x); } Proc b(x: Int) : Int { Return a(x); }"),
            "1:6: error: 'a' calls itself, maybe by others; the language has no recursion");
  EXPECT_EQ(first_of("Local f(G: Graph, A, B: N_P<Int>) { G.A = G.B; } Proc p(G: Graph, A: N_P<Int>) { f(G, A, A); }"),
            "1:90: error: 'A' is passed twice, and 'f' changes it");
  EXPECT_EQ(first_of("Proc a() : Int { If (True) Return 1; }"),
            "1:6: error: 'a' may end without the Int that it returns; a Return is missing");
  EXPECT_EQ(first_of("Proc a() { Return 1; }"),
            "1:19: error: 'a' returns nothing; write its type behind the arguments, as in ') : Int'");
  EXPECT_EQ(first_of("Proc a() {} Proc b() { Int x = a(); }"),
            "1:32: error: 'a' returns nothing that could be used here");
}

/// "first" with `count` times "more" behind it.
std::string chain(const std::string& first, int count, const std::string& more) {
  std::string text = first;
  for (int i = 0; i < count; ++i) text += more;
  return text;
}

TEST(Language, LongChainsAreRefusedBeforeTheyOverflowTheStack) {
  const std::string node = "N_P<Node> next; Int x; Bool t; ";
  for (const auto& [before, more, behind] : std::vector<std::array<std::string, 3>>{
           {"x = 1", "+1", ";"},
           {"x = 1", " * 1 - 1", ";"},
           {"t = n == m", " == (n == m)", ";"},
           {"t = True", " && True", ";"},
           {"t = False", " || False", ";"},
           {"x = 1", " < 1", ";"},
           {"n = n", ".next", ";"},
           {"x = s", ".Length()", ";"},
           {"n", ".next", " = m;"},
           {"Int y = s", "[1]", ";"},
           {"For (w: n", ".next", ".Nbrs) {}"},
           {"x = (Int) ((((-1", "+1", "))));"},
       }) {
    EXPECT_THAT(first_of_sentences(node + chain(before, 30'000, more) + behind),
                testing::EndsWith("error: this applies more than 1000 operations one after the other"))
        << before << more;
  }
  EXPECT_THAT(first_of_sentences(node + chain("x = (" + chain("1", 600, "+1") + ")", 600, "-1") + ";"),
              HasSubstr("more than 1000"));
  for (const auto& [before, more, behind] : std::vector<std::array<std::string, 3>>{{"", "If (n == m) {} Else ", "{}"},
                                                                                    {"x = ", " -", "1;"},
                                                                                    {"x = ", "(", "1;"},
                                                                                    {"x = ", "t ? 1 : ", "1;"},
                                                                                    {"t = ", "!", "t;"},
                                                                                    {"", "{", ""},
                                                                                    {"", "Map<Int, ", ""},
                                                                                    {"", "For (w: n.Nbrs) ", ";"}}) {
    EXPECT_THAT(first_of_sentences(node + chain(before, 30'000, more) + behind), HasSubstr("is nested too deeply"))
        << before << more;
  }
  EXPECT_EQ(first_of_sentences(node + chain("x = 1", 990, "+1") + ";" + chain("Node z = n", 990, ".next") + ";"), "");
}

TEST(Language, RulesOfNesting) {
  EXPECT_EQ(first_of_sentences("Foreach (t: n.UpNbrs) {}"),
            "2:15: error: UpNbrs has a meaning only within InBFS, which gives nodes their levels");
  EXPECT_EQ(first_of_sentences("Foreach (t: n.Nbrs) { t.A += 1 @ v; }"), "2:34: error: 'v' is not declared");
  EXPECT_EQ(first_of_sentences("Foreach (t: n.Nbrs) { } Int v; v += 1 @ v;"),
            "2:41: error: 'v' is no iterator of a loop around this sentence");
  EXPECT_EQ(first_of_sentences("Edge x = n.ToEdge();"),
            "2:10: error: ToEdge() is the edge by which a loop over neighbours came; only its iterator has it");
  EXPECT_EQ(first_of("Proc p(G: Graph) : Int { Foreach (n: G.Nodes) { Return 1; } Return 2; }"),
            "1:49: error: Return within a parallel loop; several instances could return");
  EXPECT_EQ(first_of_sentences("Node_Seq q; Node x = q.Pop() == n ? n : n;"),
            "2:22: error: Pop changes something, so it must stand alone or as all of an assigned value");
  EXPECT_EQ(first_of_sentences("Node_Set q; Foreach (x: q^.Items) {}"),
            "2:25: error: a Set has no order to be reversed");
}

}  // namespace
}  // namespace smelt::graph::language
