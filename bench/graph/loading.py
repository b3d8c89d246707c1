#!/usr/bin/env python3
"""Question: how long does a graph take to be read from a text file of edges, in smelt and in other libraries, and from smelt's own
container?

Method: a generated graph is written once as an edge list of about the wanted size and once as smelt's container. Each library
reads the edge list from the page cache, in turns; the median counts. A library that is not installed is left out.

Expected: smelt at least 5 times as fast as the others' readers; its container within 0.1 s.

    loading.py LIBSMELT.so [--mib 256] [--rounds 3] [--json FILE]
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import tempfile
import time

from peers import Smelt, commit, machine


def read_smelt(ours, file):
    graph = ctypes.c_void_p()
    ours.check(ours.lib.smelt_graph_load(file.encode(), 0, ctypes.byref(graph)))
    ours.lib.smelt_graph_free(graph)


def readers(ours):
    found = {"smelt": lambda file: read_smelt(ours, file)}
    try:
        import networkit

        found["networkit"] = lambda file: networkit.graphio.EdgeListReader(" ", 0, directed=True).read(file)
    except ImportError:
        pass
    try:
        import igraph

        found["igraph"] = lambda file: igraph.Graph.Read_Edgelist(file, directed=True)
    except ImportError:
        pass
    return found


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def write_graph(ours, mib, text, container):
    """A line of the edge list takes about 14 bytes; an undirected edge is two lines."""
    scale = max(10, (mib * (1 << 20) // (14 * 30)).bit_length() - 1)
    graph = ctypes.c_void_p()
    ours.check(ours.lib.smelt_graph_generate(f"kron:{scale}".encode(), ctypes.byref(graph)))
    for file in (text, container):
        ours.check(ours.lib.smelt_graph_save(graph, file.encode()))
    ours.lib.smelt_graph_free(graph)
    return f"kron:{scale}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    options = parser.parse_args()
    ours = Smelt(options.library, 0)
    with tempfile.TemporaryDirectory() as directory:
        text, container = os.path.join(directory, "graph.el"), os.path.join(directory, "graph.smg")
        name = write_graph(ours, options.mib, text, container)
        size = os.path.getsize(text)
        times = {reader: [] for reader in readers(ours)}
        own = []
        for _ in range(options.rounds):
            for reader, read in readers(ours).items():
                times[reader].append(seconds(lambda: read(text)))
            own.append(seconds(lambda: read_smelt(ours, container)))
    medians = {reader: statistics.median(values) for reader, values in times.items()}
    print(f"{name}, an edge list of {size / (1 << 20):.0f} MiB")
    for reader, value in medians.items():
        print(f"  {reader:10} {value:7.2f} s  {size / (1 << 20) / value:7.0f} MiB/s  (x {value / medians['smelt']:.1f})")
    print(f"  container  {statistics.median(own):7.3f} s")
    if options.json:
        with open(options.json, "w") as stream:
            json.dump({"benchmark": "graph-loading", "machine": machine(), "commit": commit(), "date": datetime.date.today().isoformat(),
                       "graph": name, "bytes": size, "edge_list_s": medians, "container_s": statistics.median(own)}, stream, indent=1)


if __name__ == "__main__":
    main()
