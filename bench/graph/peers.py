#!/usr/bin/env python3
"""Question: how long do the six kernels of the GAP benchmark suite take in smelt, and in other libraries, on the same graph?

Method: a made-up graph is written once as GAP's .wsg and handed to everybody. In each round every library runs each kernel
once, in turns, in this process, from the same source nodes; what it takes includes handing out the result. Results are
compared with smelt's, in a round that does not count. A kernel that takes a library longer than --patience seconds there is
not run again: that time is reported. Reported: the median, what each takes in multiples of smelt's, and the geometric mean of
those over the kernels that a library has.

Expected: smelt is first in each kernel, and at least twice as fast as any one library in the geometric mean. igraph, Boost and
some of graph-tool are sequential; betweenness is from 4 source nodes where a library can do that, and left out elsewhere.

    peers.py LIBSMELT.so [--boost LIBRARY] [--rust LIBRARY] [--scale 16] [--kind kron|uniform] [--threads N] [--rounds 5]
             [--run-by COMMAND] [--json FILE]

Peers that are not installed are left out: pip install networkit igraph python-graphblas numpy scipy, Debian's
python3-graph-tool, build/release/lib/libbench_graph_boost.so for --boost, and for --rust build/graph-peer/release/
libsmelt_bench_graph.so of cargo build --release --locked --manifest-path bench/graph/rust_peer/Cargo.toml --target-dir
build/graph-peer.
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

KERNELS = ("bfs", "pr", "cc", "bc", "sssp", "tc")
UNREACHABLE = 2**31 - 1


class Smelt:
    """smelt by its C interface."""

    name = "smelt"

    def __init__(self, library, threads):
        self.lib = ctypes.CDLL(library)
        self.lib.smelt_last_error.restype = ctypes.c_char_p
        self.lib.smelt_graph_num_nodes.restype = ctypes.c_uint64
        self.threads = threads

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.smelt_last_error().decode())

    def make(self, spec, file):
        graph = ctypes.c_void_p()
        self.check(self.lib.smelt_graph_generate(spec.encode(), ctypes.byref(graph)))
        self.check(self.lib.smelt_graph_save(graph, file.encode()))
        self.lib.smelt_graph_free(graph)

    def load(self, file, _csr):
        self.graph = ctypes.c_void_p()
        self.check(self.lib.smelt_graph_load(file.encode(), 3, ctypes.byref(self.graph)))
        self.nodes = self.lib.smelt_graph_num_nodes(self.graph)

    def array(self, kind):
        values = np.empty(self.nodes, kind)
        return values, values.ctypes.data_as(ctypes.c_void_p)

    def bfs(self, root):
        values, pointer = self.array(np.int64)
        self.check(self.lib.smelt_graph_bfs(self.graph, ctypes.c_uint64(root), self.threads, pointer))
        return int((values >= 0).sum())

    def pr(self):
        values, pointer = self.array(np.float32)
        self.check(self.lib.smelt_graph_pagerank(self.graph, ctypes.c_double(0.85), ctypes.c_double(1e-4), 20, self.threads, pointer, None))
        return int(values.argmax())

    def cc(self):
        values, pointer = self.array(np.int64)
        self.check(self.lib.smelt_graph_components(self.graph, self.threads, pointer))
        return int((values == np.arange(self.nodes)).sum())

    def bc(self, roots):
        values, pointer = self.array(np.float32)
        sources = (ctypes.c_uint64 * len(roots))(*roots)
        self.check(self.lib.smelt_graph_betweenness(self.graph, sources, ctypes.c_uint64(len(roots)), self.threads, pointer))
        return int(values.argmax())

    def sssp(self, root):
        values, pointer = self.array(np.int32)
        self.check(self.lib.smelt_graph_sssp(self.graph, ctypes.c_uint64(root), self.threads, pointer))
        return int(values[values != UNREACHABLE].sum(dtype=np.int64))

    def tc(self):
        found = ctypes.c_uint64()
        self.check(self.lib.smelt_graph_triangles(self.graph, self.threads, ctypes.byref(found)))
        return found.value


class NetworKit:
    name = "networkit"

    def __init__(self, threads):
        import networkit

        self.nk = networkit
        networkit.setNumberOfThreads(threads)

    def load(self, _file, csr):
        from scipy.sparse import csr_matrix

        begin, to, weight = csr
        nodes = len(begin) - 1
        matrix = csr_matrix((weight.astype(float), to, begin), shape=(nodes, nodes)).tocoo()
        once = matrix.row < matrix.col
        data = (matrix.data[once], (matrix.row[once], matrix.col[once]))
        self.weighted = self.nk.GraphFromCoo(data, n=nodes, weighted=True, directed=False)
        self.plain = self.nk.GraphFromCoo(data, n=nodes, weighted=False, directed=False)

    def bfs(self, root):
        run = self.nk.distance.BFS(self.plain, root, storePaths=False)
        distance = np.array(run.run().getDistances(asarray=True))
        return int((distance < 1e300).sum())

    def pr(self):
        run = self.nk.centrality.PageRank(self.plain, damp=0.85, tol=1e-4)
        run.norm = self.nk.centrality.Norm.L1_NORM if hasattr(self.nk.centrality, "Norm") else run.norm
        run.maxIterations = 20
        run.run()
        return int(np.argmax(run.scores()))

    def cc(self):
        run = self.nk.components.ParallelConnectedComponents(self.plain, False)
        return run.run().numberOfComponents()

    def sssp(self, root):
        distance = np.array(self.nk.distance.Dijkstra(self.weighted, root, storePaths=False).run().getDistances(asarray=True))
        return int(distance[distance < 1e300].sum())

    def tc(self):
        run = self.nk.sparsification.TriangleEdgeScore(self.plain)
        if not self.plain.hasEdgeIds():
            self.plain.indexEdges()
        return int(sum(run.run().scores())) // 3


class IGraph:
    name = "igraph"

    def __init__(self, _threads):
        import igraph

        self.ig = igraph

    def load(self, _file, csr):
        begin, to, weight = csr
        nodes = len(begin) - 1
        from_ = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(begin))
        once = from_ < to
        self.graph = self.ig.Graph(n=nodes, edges=np.column_stack((from_[once], to[once])), directed=False)
        self.weight = weight[once].astype(float).tolist()
        degree = np.diff(begin)
        self.paths = int((degree * (degree - 1) // 2).sum())

    def bfs(self, root):
        return len(self.graph.bfs(root)[0])

    def pr(self):
        return int(np.argmax(self.graph.pagerank(damping=0.85)))

    def cc(self):
        getattr(self.graph, "__invalidate_cache")()  # it remembers whether the graph is connected
        return len(self.graph.connected_components())

    def bc(self, roots):
        return int(np.argmax(self.graph.betweenness(directed=False, sources=roots)))

    def sssp(self, root):
        distance = np.array(self.graph.distances(source=[root], weights=self.weight)[0])
        return int(distance[np.isfinite(distance)].sum())

    def tc(self):
        # Its counting of triangles is behind the share of paths of two edges that they close.
        return round(self.graph.transitivity_undirected() * self.paths / 3)


class GraphTool:
    name = "graph-tool"

    def __init__(self, threads):
        import graph_tool.all as gt

        gt.openmp_set_num_threads(threads)
        self.gt = gt

    def load(self, _file, csr):
        begin, to, weight = csr
        nodes = len(begin) - 1
        from_ = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(begin))
        once = from_ < to
        self.graph = self.gt.Graph(directed=False)
        self.graph.add_vertex(nodes)
        self.graph.add_edge_list(np.column_stack((from_[once], to[once])))
        self.weight = self.graph.new_edge_property("int", vals=weight[once])

    def bfs(self, root):
        distance = self.gt.shortest_distance(self.graph, source=root).a
        return int((distance < UNREACHABLE).sum())

    def pr(self):
        return int(np.argmax(self.gt.pagerank(self.graph, damping=0.85, epsilon=1e-4, max_iter=20).a))

    def cc(self):
        return len(self.gt.label_components(self.graph)[1])

    def bc(self, roots):
        return int(np.argmax(self.gt.betweenness(self.graph, pivots=np.array(roots), norm=False)[0].a))

    def sssp(self, root):
        distance = self.gt.shortest_distance(self.graph, source=root, weights=self.weight).a
        return int(distance[distance < UNREACHABLE].sum(dtype=np.int64))

    def tc(self):
        return int(self.gt.global_clustering(self.graph, ret_counts=True)[1])


class SharedLibrary:
    """A peer behind functions in C. They take a graph as rows of neighbours, and arrays with a value per node."""

    def pass_graph(self, function, csr):
        arrays = [np.ascontiguousarray(values, kind) for values, kind in zip(csr, (np.int64, np.int64, np.int32))]
        self.nodes = len(arrays[0]) - 1
        return ctypes.c_void_p(function(ctypes.c_uint64(self.nodes), *(each.ctypes.data_as(ctypes.c_void_p) for each in arrays)))

    def array(self, kind=np.int32):
        values = np.empty(self.nodes, kind)
        return values, values.ctypes.data_as(ctypes.c_void_p)


class Boost(SharedLibrary):
    """The Boost Graph Library, by boost_peer.cpp."""

    name = "boost"

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.boost_graph.restype = ctypes.c_void_p
        self.lib.boost_cc.restype = ctypes.c_int64

    def load(self, _file, csr):
        self.graph = self.pass_graph(self.lib.boost_graph, csr)

    def bfs(self, root):
        values, pointer = self.array()
        self.lib.boost_bfs(self.graph, ctypes.c_uint64(root), pointer)
        return int((values >= 0).sum())

    def cc(self):
        return self.lib.boost_cc(self.graph, self.array()[1])

    def sssp(self, root):
        values, pointer = self.array()
        self.lib.boost_sssp(self.graph, ctypes.c_uint64(root), pointer)
        return int(values[values != UNREACHABLE].sum(dtype=np.int64))


class Rust(SharedLibrary):
    """The Rust crate `graph`, by rust_peer."""

    name = "rust graph"

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        self.lib.rust_graph.restype = ctypes.c_void_p
        self.lib.rust_tc.restype = ctypes.c_uint64

    def load(self, _file, csr):
        self.graphs = self.pass_graph(self.lib.rust_graph, csr)
        degree = np.diff(csr[0])
        self.skewed = int(degree.mean() > 1.3 * np.median(degree))  # when the GAP suite renumbers, too

    def pr(self):
        values, pointer = self.array(np.float32)
        self.lib.rust_pr(self.graphs, pointer)
        return int(values.argmax())

    def cc(self):
        values, pointer = self.array(np.uint32)
        self.lib.rust_cc(self.graphs, pointer)
        return int((values == np.arange(self.nodes)).sum())

    def sssp(self, root):
        values, pointer = self.array(np.float32)
        self.lib.rust_sssp(self.graphs, ctypes.c_uint64(root), ctypes.c_float(16), pointer)
        return int(values[values < 1e30].sum(dtype=np.float64))

    def tc(self):
        return self.lib.rust_tc(self.graphs, self.skewed)


class GraphBLAS:
    """SuiteSparse:GraphBLAS, the algorithms as LAGraph has them."""

    name = "graphblas"

    def __init__(self, threads):
        import graphblas

        graphblas.init("suitesparse", blocking=False)
        graphblas.ss.config["nthreads"] = threads
        self.gb = graphblas

    def load(self, _file, csr):
        begin, to, weight = csr
        nodes = len(begin) - 1
        make = self.gb.Matrix.from_csr
        self.plain = make(begin, to, np.ones(len(to), bool), ncols=nodes)
        self.weighted = make(begin, to, weight.astype(np.int32), ncols=nodes)
        self.degree = np.diff(begin)
        self.nodes = nodes

    def bfs(self, root):
        gb = self.gb
        parent = gb.Vector("INT64", self.nodes)
        frontier = gb.Vector("INT64", self.nodes)
        parent[root] = root
        frontier[root] = root
        while frontier.nvals > 0:
            frontier(~parent.S, replace=True) << gb.semiring.ss.any_secondi(frontier @ self.plain)
            parent(frontier.S) << frontier
        return parent.nvals

    def pr(self):
        gb = self.gb
        rank = gb.Vector.from_dense(np.full(self.nodes, 1 / self.nodes, np.float32))
        degree = gb.Vector.from_dense(np.maximum(self.degree, 1).astype(np.float32) / np.float32(0.85))
        for _ in range(20):
            share = gb.binary.truediv(rank & degree).new()
            following = gb.Vector.from_dense(np.full(self.nodes, 0.15 / self.nodes, np.float32))
            following(gb.binary.plus) << gb.semiring.plus_second(self.plain @ share)
            change = gb.binary.minus(following & rank).apply(gb.unary.abs).reduce(gb.monoid.plus).value
            rank = following
            if change < 1e-4:
                break
        return int(rank.to_dense(0).argmax())

    def cc(self):
        """FastSV. Numbers are taken and given by lists of indices outside of it, as LAGraph does."""
        gb = self.gb
        parent = np.arange(self.nodes)
        grandparent = parent
        while True:
            least = gb.semiring.min_second(self.plain @ gb.Vector.from_dense(grandparent)).new().to_dense(self.nodes)
            following = np.minimum(np.minimum(parent, least), grandparent)
            np.minimum.at(following, parent, least)
            parent, before, grandparent = following, grandparent, following[following]
            if np.array_equal(before, grandparent):
                return int((parent == np.arange(self.nodes)).sum())

    def bc(self, roots):
        """All source nodes at once, a row each."""
        gb = self.gb
        rows = len(roots)
        paths = gb.Matrix.from_scalar(0.0, rows, self.nodes, dtype="FP64")
        paths[np.arange(rows), roots](accum=gb.binary.plus) << gb.Matrix.from_coo(np.arange(rows), np.arange(rows), 1.0)
        front = gb.Matrix.from_coo(np.arange(rows), roots, 1.0, nrows=rows, ncols=self.nodes)
        seen = front.dup(bool)
        levels = []
        while front.nvals > 0:
            levels.append(front.dup(bool))
            front(~seen.S, replace=True) << gb.semiring.plus_first(front @ self.plain)
            seen(front.S) << True
            paths(gb.binary.plus) << front
        delta = gb.Matrix.from_scalar(1.0, rows, self.nodes, dtype="FP64")
        for level in range(len(levels) - 1, 0, -1):
            share = gb.Matrix("FP64", rows, self.nodes)
            share(levels[level].S) << gb.binary.truediv(delta & paths)
            share(levels[level - 1].S, replace=True) << gb.semiring.plus_first(share @ self.plain)
            delta(gb.binary.plus) << gb.binary.times(share & paths)
        sums = delta.reduce_columnwise(gb.monoid.plus).new().to_dense(0)
        for row, root in enumerate(roots):
            sums[root] -= delta[row, root].value - 1  # not of paths that begin there
        return int(sums.argmax())

    def sssp(self, root):
        gb = self.gb
        distance = gb.Vector("INT32", self.nodes)
        distance[root] = 0
        frontier = distance.dup()
        while frontier.nvals > 0:
            found = gb.semiring.min_plus(frontier @ self.weighted).new()
            better = gb.select.value(gb.binary.lt(found | distance, left_default=UNREACHABLE, right_default=UNREACHABLE).new() == True).new()
            frontier = gb.Vector("INT32", self.nodes)
            frontier(better.S) << found
            distance(gb.binary.min) << frontier
        return int(distance.reduce(gb.monoid.plus[gb.dtypes.INT64]).value)

    def tc(self):
        gb = self.gb
        order = np.argsort(self.degree, kind="stable")
        sorted_ = self.plain[order, order].new()
        lower = gb.select.tril(sorted_, -1).new()
        upper = gb.select.triu(sorted_, 1).new()
        counts = gb.semiring.plus_pair(lower @ upper.T).new("INT64", mask=lower.S)
        return int(counts.reduce_scalar(gb.monoid.plus).value)


def read_wsg(file):
    """begin, to and weight of GAP's format."""
    with open(file, "rb") as stream:
        stream.read(1)
        edges, nodes = np.fromfile(stream, np.int64, 2)
        begin = np.fromfile(stream, np.int64, nodes + 1)
        pairs = np.fromfile(stream, np.int32, 2 * edges).reshape(edges, 2)
    return begin, pairs[:, 0].astype(np.int64), pairs[:, 1].copy()


def commit():
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(["git", "-C", here, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def machine():
    with open("/proc/cpuinfo") as stream:
        for line in stream:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return "unknown"


class Alone:
    """Holds a command that keeps others off the machine, such as `flock FILE`, which runs cat meanwhile: half a minute at most,
    then others have their turn."""

    LONGEST = 30

    def __init__(self, run_by):
        self.run_by = run_by.split()
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.communicate()
            self.process = None

    def hold(self):
        """To be called before each measurement."""
        if self.process and time.monotonic() - self.since > self.LONGEST:
            self.__exit__()
        if self.run_by and not self.process:
            self.process = subprocess.Popen(self.run_by + ["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
            self.process.stdout.readline()
            self.since = time.monotonic()


def peers(threads, boost, rust, wanted):
    found = ([Boost(boost)] if boost else []) + ([Rust(rust)] if rust else [])
    for make in (NetworKit, IGraph, GraphTool, GraphBLAS):
        if wanted and make.name not in wanted.split(","):
            continue
        try:
            found.append(make(threads))
        except ImportError as error:
            print(f"without {make.name}: {error}", file=sys.stderr)
    return found


def report(title, times):
    print(title)
    ratios = {}
    for kernel, by_name in times.items():
        medians = {name: statistics.median(values) * 1e3 for name, values in by_name.items()}
        for name, value in medians.items():
            ratios.setdefault(name, []).append(value / medians["smelt"])
        print(f"  {kernel:5} " + "  ".join(f"{name} {value:.1f} (x {value / medians['smelt']:.2f})" for name, value in medians.items()))
    print("  mean  " + "  ".join(f"{name} x {statistics.geometric_mean(values):.2f}" for name, values in ratios.items()))


def call(peer, kernel, roots, turn):
    """Result and seconds."""
    given = {"bfs": (roots[turn],), "sssp": (roots[turn],), "bc": (roots[turn : turn + 4],)}.get(kernel, ())
    start = time.perf_counter()
    result = getattr(peer, kernel)(*given)
    return result, time.perf_counter() - start


def first_turn(everyone, roots, times, options, alone):
    """Compares results. Keeps the time of what takes too long to be run again, which it leaves out of what it returns."""
    patient = {kernel: [each for each in everyone if hasattr(each, kernel)] for kernel in times}
    for kernel, by_name in times.items():
        expected = None
        for each in list(patient[kernel]):
            alone.hold()
            result, elapsed = call(each, kernel, roots, 0)
            expected = result if expected is None else expected
            if result != expected:
                sys.exit(f"{each.name}: {kernel}: {result} instead of {expected}")
            if elapsed > options.patience:
                by_name[each.name].append(elapsed)
                patient[kernel].remove(each)
            print(f"{kernel:5} {each.name:12} {elapsed:.3f} s", file=sys.stderr)
    return patient


def measure(everyone, csr, options):
    """Seconds by kernel and name."""
    degree = np.diff(csr[0])
    roots = [int(node) for node in np.random.default_rng(1).permutation(np.flatnonzero(degree > 0))[: options.rounds + 5]]
    times = {kernel: {each.name: [] for each in everyone if hasattr(each, kernel)} for kernel in options.kernels.split(",")}
    with Alone(options.run_by) as alone:
        patient = first_turn(everyone, roots, times, options, alone)
        for turn in range(1, options.rounds + 1):
            for kernel, by_name in times.items():
                alone.hold()
                for each in patient[kernel]:
                    by_name[each.name].append(call(each, kernel, roots, turn)[1])
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--scale", type=int, default=16)
    parser.add_argument("--kind", choices=("kron", "uniform"), default="kron")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--patience", type=float, default=5)
    parser.add_argument("--boost", help="library made of boost_peer.cpp")
    parser.add_argument("--rust", help="library made of rust_peer")
    parser.add_argument("--run-by", default="", help="a command that keeps others off the machine while what it runs does")
    parser.add_argument("--peers", help="of those in Python only these, such as networkit,graphblas")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--json")
    options = parser.parse_args()

    ours = Smelt(options.library, options.threads)
    with tempfile.TemporaryDirectory() as directory:
        file = os.path.join(directory, "graph.wsg")
        ours.make(f"{options.kind}:{options.scale}:weights=255", file)
        csr = read_wsg(file)
        everyone = [ours] + peers(options.threads, options.boost, options.rust, options.peers)
        for each in everyone:
            each.load(file, csr)
            print(f"{each.name} has its graph", file=sys.stderr)
    times = measure(everyone, csr, options)
    report(f"{options.kind}:{options.scale}, {len(csr[0]) - 1} nodes, {len(csr[1])} edges, {options.threads} threads; median of {options.rounds}, ms", times)
    if options.json:
        with open(options.json, "w") as stream:
            json.dump({"machine": machine(), "commit": commit(), "date": datetime.date.today().isoformat(), "graph": f"{options.kind}:{options.scale}",
                       "threads": options.threads, "seconds": times}, stream, indent=1)


if __name__ == "__main__":
    main()
