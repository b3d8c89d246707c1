#!/usr/bin/env python3
"""Question: how long does a graph take to be read from a text file of edges, in smelt and in other libraries; from binary files,
beside memory; and how much memory does it take meanwhile?

Method: a generated graph is written once as an edge list of about the wanted size and once in each binary format. Each reader
reads its file from the page cache, in turns, each time in a process of its own; the median counts. A library that is not
installed is left out. Memory: the largest resident size of that process beyond what it had before, which counts mapped pages of
the file; in multiples of the graph's arrays, which is the size of smelt's container. The rate of memory: the same bytes read
into new memory by as many threads, which is what any reader has to do.

Expected: smelt at least 5 times as fast as the others' readers with at most 2.5 times the graph's memory; binary formats at 0.8
of memory's rate; its container within 0.1 s.

    loading.py LIBSMELT.so [--mib 256] [--rounds 3] [--directory /tmp] [--json FILE]
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
import threading
import time

from peers import Alone, Smelt, commit, machine

BYTES_PER_LINE = 14
EDGES_PER_NODE = 30


def smelt_reader(library):
    ours = Smelt(library, 0)

    def read(file):
        graph = ctypes.c_void_p()
        ours.check(ours.lib.smelt_graph_load(file.encode(), 0, ctypes.byref(graph)))
        return graph

    return read


def networkit_reader(_library):
    import networkit

    return lambda file: networkit.graphio.EdgeListReader(" ", 0, directed=True).read(file)


def igraph_reader(_library):
    import igraph

    return lambda file: igraph.Graph.Read_Edgelist(file, directed=True)


def graph_tool_reader(_library):
    import graph_tool.all as gt

    return lambda file: gt.load_graph_from_csv(file, directed=True, hashed=False, csv_options={"delimiter": " "})


def memory_reader(_library):
    import mmap

    def read(file):
        size, threads = os.path.getsize(file), os.cpu_count()
        memory = mmap.mmap(-1, size)
        descriptor = os.open(file, os.O_RDONLY)

        def part(number):
            at, end = size * number // threads, size * (number + 1) // threads
            while at < end:
                at += os.preadv(descriptor, [memoryview(memory)[at : min(end, at + (1 << 20))]], at)

        workers = [threading.Thread(target=part, args=(number,)) for number in range(threads)]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        os.close(descriptor)
        return memory

    return read


READERS = {"smelt": smelt_reader, "networkit": networkit_reader, "igraph": igraph_reader, "graph-tool": graph_tool_reader, "memory": memory_reader}


def status(field):
    with open("/proc/self/status") as stream:
        return next(int(line.split()[1]) << 10 for line in stream if line.startswith(field))


def read_once(reader, library, file):
    """In this process: prints seconds and the bytes by which its resident size grew at most."""
    try:
        read = READERS[reader](library)
    except ImportError:
        print("null")
        return
    before = status("VmRSS")
    start = time.perf_counter()
    graph = read(file)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "bytes": status("VmHWM") - before}), flush=True)
    del graph
    os._exit(0)  # what a library takes to end is not the question


def measure(reader, library, file):
    """Seconds and bytes of a reader in a process of its own; nothing if it is not installed."""
    done = subprocess.run([sys.executable, os.path.abspath(__file__), library, "--one", reader, file], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def write_graph(library, mib, directory):
    """A file by format; an undirected edge is two lines of the list, which come back as directed edges."""
    ours = Smelt(library, 0)
    scale = max(10, round((mib << 20) / (BYTES_PER_LINE * EDGES_PER_NODE)).bit_length() - 1)
    degree = round((mib << 20) / (BYTES_PER_LINE * 2 << scale))
    spec = f"kron:{scale}:degree={degree}"
    files = {name: os.path.join(directory, "graph." + name) for name in ("el", "sg", "ebin", "smg")}
    graph = ctypes.c_void_p()
    ours.check(ours.lib.smelt_graph_generate(spec.encode(), ctypes.byref(graph)))
    ours.check(ours.lib.smelt_graph_save(graph, files["el"].encode()))
    ours.check(ours.lib.smelt_graph_save(graph, files["sg"].encode()))
    ours.lib.smelt_graph_free(graph)
    graph = smelt_reader(library)(files["el"])
    for name in ("ebin", "smg"):
        ours.check(ours.lib.smelt_graph_save(graph, files[name].encode()))
    ours.lib.smelt_graph_free(graph)
    return spec, files


def summary(samples, size, arrays):
    return {"seconds": statistics.median(each["seconds"] for each in samples), "samples": len(samples), "bytes": size,
            "memory": max(each["bytes"] for each in samples) / arrays}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-rounds", type=int, help="of the others, if not as many")
    parser.add_argument("--readers", default=",".join(READERS), help="those of the edge list (default all)")
    parser.add_argument("--run-by", default="", help="a command that keeps others off the machine while what it runs does")
    parser.add_argument("--directory", help="for the files, which take some 2.5 times as much as the edge list")
    parser.add_argument("--json")
    parser.add_argument("--one", nargs=2, metavar=("READER", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        read_once(options.one[0], options.library, options.one[1])
        return
    peer_rounds = options.rounds if options.peer_rounds is None else options.peer_rounds
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        spec, files = write_graph(options.library, options.mib, directory)
        sizes = {name: os.path.getsize(file) for name, file in files.items()}
        cases = [(reader, "el") for reader in READERS if reader in options.readers.split(",") and reader != "memory"]
        cases += [(reader, name) for name in ("sg", "ebin", "smg") for reader in ("smelt", "memory")]
        samples = {case: [] for case in cases}
        with Alone(options.run_by) as alone:
            for turn in range(options.rounds):
                for case in cases:
                    if turn < peer_rounds or case[0] in ("smelt", "memory"):
                        alone.hold()
                        samples[case].append(measure(case[0], options.library, files[case[1]]))
                        print(case, samples[case][-1], file=sys.stderr)
    found = {case: summary(values, sizes[case[1]], sizes["smg"]) for case, values in samples.items() if values and None not in values}
    text = {reader: each for (reader, name), each in found.items() if name == "el"}
    print(f"{spec}, an edge list of {sizes['el'] / (1 << 20):.0f} MiB")
    for reader, each in text.items():
        print(f"  {reader:10} {each['seconds']:7.2f} s  {each['bytes'] / (1 << 20) / each['seconds']:6.0f} MiB/s  memory x {each['memory']:.2f}"
              f"  (x {each['seconds'] / text['smelt']['seconds']:.1f})")
    binary = {name: {"smelt": found["smelt", name], "memory": found["memory", name]} for name in ("sg", "ebin", "smg")}
    for name, each in binary.items():
        print(f"  {name:10} {each['smelt']['seconds']:7.3f} s  {sizes[name] / (1 << 20) / each['smelt']['seconds']:6.0f} MiB/s  memory x {each['smelt']['memory']:.2f}"
              f"  ({each['memory']['seconds'] / each['smelt']['seconds']:.2f} of memory's rate)")
    if options.json:
        with open(options.json, "w") as stream:
            json.dump({"benchmark": "graph-loading", "machine": machine(), "commit": commit(), "date": datetime.date.today().isoformat(), "graph": spec,
                       "threads": os.cpu_count(), "edge_list": text, "binary": binary}, stream, indent=1)
            stream.write("\n")


if __name__ == "__main__":
    main()
