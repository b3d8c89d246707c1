// The algorithms of the three programs whose tables [Kaestle16] 3.4.2 prints, for tests: the arrays have the tables'
// names.
#pragma once

namespace smelt::graph::language {

inline constexpr const char* pagerank = R"(
Procedure pagerank(G: Graph, e, d: Double, max: Int; pg_rank: Node_Prop<Double>) {
  Double nodes = G.NumNodes();
  Int rounds = 0;
  Double moved;
  G.pg_rank = 1 / nodes;
  Do {
    moved = 0.0;
    Foreach (v: G.Nodes) {
      Double rank = (1 - d) / nodes + d * Sum(from: v.InNbrs){from.pg_rank / from.OutDegree()};
      moved += |rank - v.pg_rank|;
      v.pg_rank <= rank @ v;
    }
    rounds++;
  } While (moved > e && rounds < max);
}
)";

inline constexpr const char* hop_dist = R"(
Procedure hop_dist(G: Graph, dist: N_P<Int>, root: Node) {
  N_P<Int> dist_nxt;
  N_P<Bool> updated, updated_nxt;
  Bool done = False;
  G.dist = (G == root) ? 0 : +INF;
  G.updated = (G == root) ? True : False;
  G.dist_nxt = G.dist;
  G.updated_nxt = G.updated;
  While (!done) {
    Foreach (v: G.Nodes)(v.updated) {
      Foreach (to: v.Nbrs) {
        <to.dist_nxt; to.updated_nxt> min= <v.dist + 1; True>;
      }
    }
    G.dist = G.dist_nxt;
    G.updated = G.updated_nxt;
    G.updated_nxt = False;
    done = !Exist(v: G.Nodes){v.updated};
  }
}
)";

inline constexpr const char* triangle_counting = R"(
Procedure triangle_counting(G: Graph) : Long {
  Long triangles;
  Foreach (a: G.Nodes) {
    Foreach (b: a.Nbrs)(b > a) {
      Foreach (c: a.Nbrs)(c > b) {
        If (c.HasEdgeTo(b)) triangles += 1;
      }
    }
  }
  Return triangles;
}
)";

}  // namespace smelt::graph::language
