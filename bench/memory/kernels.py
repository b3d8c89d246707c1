#!/usr/bin/env python3
"""Programs for programs.py that use other people's libraries: kernels.py prepare|NAME DATA. They know nothing of smelt.

Each has one kernel or several, which it runs one after the other. Per kernel it prints the result ("result KERNEL TEXT")
and its seconds ("seconds KERNEL S"); imports and the reading of input are not in them. `prepare` writes into DATA the
graphs that are read later; `prepare-large` the one of networkit_22, with up to 8 GB of memory.
"""

import os
import pathlib
import sys
import time

THREADS = len(os.sched_getaffinity(0))
SCALE, LARGE = 20, 22
EDGES_PER_NODE = 16


def kronecker(scale, seed=1):
    """Sources and targets of a Kronecker graph as Graph500 and GAP define it."""
    import numpy

    random, count = numpy.random.default_rng(seed), EDGES_PER_NODE << scale
    source = numpy.zeros(count, dtype=numpy.int32)
    target = numpy.zeros(count, dtype=numpy.int32)
    for bit in range(scale):
        draw = random.random(count, dtype=numpy.float32)
        source |= (draw > 0.76).astype(numpy.int32) << bit
        target |= (((draw > 0.57) & (draw <= 0.76)) | (draw > 0.95)).astype(numpy.int32) << bit
    shuffled = random.permutation(1 << scale).astype(numpy.int32)
    return shuffled[source], shuffled[target]


def symmetric(scale):
    """The adjacency matrix of the undirected graph without loops, in compressed rows."""
    import numpy
    import scipy.sparse

    source, target = kronecker(scale)
    kept = source != target
    source, target = source[kept], target[kept]
    ones = numpy.ones(2 * len(source), dtype=numpy.float32)
    both = numpy.concatenate([source, target]), numpy.concatenate([target, source])
    matrix = scipy.sparse.coo_matrix((ones, both), shape=(1 << scale, 1 << scale)).tocsr()
    matrix.data[:] = 1
    matrix.sort_indices()
    return matrix


def graph_file(data, scale):
    return data / f"kronecker-{scale}.nkb"


def write_graph(data, scale):
    import networkit

    if not graph_file(data, scale).exists():
        graph = networkit.GraphFromCoo(symmetric(scale).tocoo(), directed=False, weighted=False)
        graph.removeMultiEdges()
        part = graph_file(data, scale).with_suffix(".part")
        networkit.writeGraph(graph, str(part), networkit.Format.NetworkitBinary)
        part.rename(graph_file(data, scale))


def prepare(data):
    import scipy.sparse

    for scale in (16, SCALE):
        if not (data / f"kronecker-{scale}.npz").exists():
            scipy.sparse.save_npz(data / f"kronecker-{scale}.npz", symmetric(scale), compressed=False)
    try:
        write_graph(data, SCALE)
    except ImportError:
        pass


def load(data, scale=SCALE):
    import scipy.sparse

    return scipy.sparse.load_npz(data / f"kronecker-{scale}.npz")


# Each kernel: (what is timed, what is to be printed of its result).


def networkit_pagerank(networkit, graph):
    def kernel():
        ranks = networkit.centrality.PageRank(graph, 0.85, 1e-7)
        ranks.run()
        return ranks.ranking()[:10]

    return kernel, lambda top: [(node, f"{rank:.6g}") for node, rank in top]


def networkit_bfs(networkit, graph):
    sources = [node for node in range(200) if graph.degree(node) > 0][:8]

    def kernel():
        searches = [networkit.distance.BFS(graph, source, False) for source in sources]
        for search in searches:
            search.run()
        return searches

    def shown(searches):
        return [sum(distance for distance in search.getDistances() if distance < 1e9) for search in searches]

    return kernel, shown


def networkit_components(networkit, graph):
    def kernel():
        sizes = []
        for _ in range(5):
            components = networkit.components.ParallelConnectedComponents(graph, False)
            components.run()
            sizes.append(components.numberOfComponents())
        return sizes

    return kernel, str


def networkit_kernels(data, scale):
    import networkit

    networkit.setNumberOfThreads(THREADS)
    graph = networkit.readGraph(str(graph_file(data, scale)), networkit.Format.NetworkitBinary)
    suffix = "" if scale == SCALE else f"_{scale}"
    return {f"{each.__name__}{suffix}": each(networkit, graph)
            for each in (networkit_pagerank, networkit_bfs, networkit_components)}


def graphblas_triangles(data):
    import graphblas

    graphblas.ss.config["nthreads"] = THREADS
    lower = graphblas.io.from_scipy_sparse(load(data, 16)).select("tril", -1).new()

    def kernel():
        return [int(lower.mxm(lower.T, "plus_pair").new(mask=lower.S).reduce_scalar("plus").value) for _ in range(2)]

    return kernel, str


def graphblas_vectors(data):
    import graphblas

    graphblas.ss.config["nthreads"] = THREADS
    matrix = graphblas.io.from_scipy_sparse(load(data))
    count = matrix.nrows

    def kernel():
        vector = graphblas.Vector.from_scalar(1.0, count, dtype="FP32")
        for _ in range(20):
            vector << matrix.mxv(vector, "plus_times")
            vector << vector.apply("times", right=1e-2)
        return float(vector.reduce("max").value)

    return kernel, lambda most: f"{most:.4g}"


def numpy_gather(data):
    import numpy

    random = numpy.random.default_rng(1)
    values = numpy.arange(64 << 20)
    places = random.integers(0, len(values), 20_000_000)
    return lambda: sum(int(values[places].sum()) for _ in range(6)), str


def duckdb_join(data):
    import duckdb

    base = duckdb.connect(config={"threads": THREADS})
    base.execute("CREATE TABLE build AS SELECT (range * 7919) % 20000003 AS k, range AS v FROM range(10000000)")
    base.execute("CREATE TABLE probe AS SELECT (range * 104729) % 20000003 AS k, range AS w FROM range(20000000)")
    query = "SELECT count(*), sum(v), sum(w), max(v + w) FROM probe JOIN build USING (k)"
    return lambda: [base.execute(query).fetchall() for _ in range(2)], str


def scipy_products(data):
    matrix = load(data, 16)

    def kernel():
        square = matrix[:6000] @ matrix
        return square.nnz, int(square.data.sum(dtype="float64"))

    return kernel, str


def scipy_vectors(data):
    import numpy

    matrix = load(data)

    def kernel():
        vector = numpy.ones(matrix.shape[0], dtype=numpy.float32)
        for _ in range(20):
            vector = matrix @ vector
            vector /= vector.max()
        return float(vector.sum(dtype="float64"))

    return kernel, lambda total: f"{total:.9g}"


def lightgbm_training(data):
    import lightgbm
    import numpy

    random = numpy.random.default_rng(1)
    points = random.standard_normal((400_000, 60), dtype=numpy.float32)
    values = points[:, 0] * points[:, 1] + numpy.sin(3 * points[:, 2])
    options = dict(objective="regression", num_leaves=255, verbose=-1, deterministic=True, force_row_wise=True,
                   num_threads=THREADS, seed=1)

    def kernel():
        model = lightgbm.train(options, lightgbm.Dataset(points, values), 15)
        return model.predict(points[:1000])

    return kernel, lambda predicted: f"{float(predicted.sum()):.12g}"


PROGRAMS = {
    "networkit": lambda data: networkit_kernels(data, SCALE),
    "networkit_22": lambda data: networkit_kernels(data, LARGE),
    "graphblas": lambda data: {each.__name__: each(data) for each in (graphblas_triangles, graphblas_vectors)},
    "scipy": lambda data: {each.__name__: each(data) for each in (scipy_products, scipy_vectors)},
    "numpy": lambda data: {"numpy_gather": numpy_gather(data)},
    "duckdb": lambda data: {"duckdb_join": duckdb_join(data)},
    "lightgbm": lambda data: {"lightgbm_training": lightgbm_training(data)},
}


def main():
    name, data = sys.argv[1], pathlib.Path(sys.argv[2])
    if name == "prepare":
        return prepare(data)
    if name == "prepare-large":
        return write_graph(data, LARGE)
    for kernel, (work, shown) in PROGRAMS[name](data).items():
        begin = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - begin
        print(f"result {kernel} {shown(result)}")
        print(f"seconds {kernel} {seconds:.6f}", flush=True)
        del result


if __name__ == "__main__":
    main()
