// The three programs of [Kaestle16], as it prints them, for tests.
#pragma once

namespace smelt::graph::language {

inline constexpr const char* pagerank = R"(
Procedure pagerank(G: Graph, e,d: Double, max: Int;
                  pg_rank: Node_Prop<Double>)
{
  Double diff;
  Int cnt = 0;
  Double N = G.NumNodes();
  G.pg_rank = 1 / N;
  Do {
    diff = 0.0;
    Foreach (t: G.Nodes) {
      Double val = (1-d) / N + d*
        Sum(w: t.InNbrs) {
          w.pg_rank / w.OutDegree()} ;

      diff += | val - t.pg_rank |;
      t.pg_rank <= val @ t;
    }
    cnt++;
  } While ((diff > e) && (cnt < max));
}
)";

inline constexpr const char* hop_dist = R"(
// This routine is, in fact, BFS
Procedure hop_dist(G:Graph, dist:N_P<Int>, root: Node)
{
    N_P<Bool> updated;
    N_P<Bool> updated_nxt;
    N_P<Int> dist_nxt;
    Bool fin = False;

    G.dist = (G == root) ? 0 : +INF;
    G.updated = (G == root) ? True: False;
    G.dist_nxt = G.dist;
    G.updated_nxt = G.updated;

    While(!fin) {
        fin = True;

        Foreach(n: G.Nodes)(n.updated) {
            Foreach(s: n.Nbrs) {
                // updated_nxt becomes true only if dist_nxt is actually updated
                <s.dist_nxt; s.updated_nxt> min= <n.dist + 1; True>;
            }
        }

        G.dist = G.dist_nxt;
        G.updated = G.updated_nxt;
        G.updated_nxt = False;
        fin = ! Exist(n: G.Nodes){n.updated};
    }
}
)";

inline constexpr const char* triangle_counting = R"(
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
}
)";

}  // namespace smelt::graph::language
