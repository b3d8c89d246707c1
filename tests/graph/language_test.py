#!/usr/bin/env python3
"""Runs the programs in programs/ on small graphs with several numbers of threads, by the command, and compares what comes out
with references.py.

    language_test.py SMELT [--only PROCEDURE]
"""
import argparse
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import references

HERE = pathlib.Path(__file__).parent
SCALARS = {"lim": 4, "min": 1, "max": 6, "a": 7, "b": -3, "f": 2.5, "d": 1.75, "t": True, "s": "abcd", "limit": 7, "most": 3, "k": 3}


def graphs():
    """Empty, one node, loops, repeated edges, parts without connection, and random ones."""
    random.seed(1)
    yield references.Graph(0, [])
    yield references.Graph(1, [])
    yield references.Graph(1, [(0, 0, 5), (0, 0, 2)])
    yield references.Graph(5, [(0, 1, 4), (1, 0, 4), (0, 1, 9), (3, 3, 1), (4, 3, 7)])
    for nodes, edges in ((7, 12), (20, 30), (20, 200), (300, 1500)):
        yield references.Graph(nodes, [(random.randrange(nodes), random.randrange(nodes), random.randrange(10)) for _ in range(edges)])


def write(graph, file):
    with open(file, "w") as stream:
        print("%%MatrixMarket matrix coordinate integer general", file=stream)
        print(graph.n, graph.n, len(graph.edges), file=stream)
        for from_, to, weight in graph.edges:
            print(from_ + 1, to + 1, weight, file=stream)


def made_up(name, graph):
    if name == "A":
        return [random.randrange(10) for _ in range(graph.n)]
    if name == "B":
        return [random.randrange(64) / 16 for _ in range(graph.n)]
    return [random.choice([None, random.randrange(graph.n)]) for _ in range(graph.n)]  # nodes, some NIL


def written(value):
    return "NIL" if value is None else str(value)


def node_or_nil(value):
    return None if value in (-1, "NIL") else value


def same(expected, found):
    """Numbers that are not whole may differ in their last digits; a missing node is -1 or NIL."""
    if isinstance(expected, list):
        return len(expected) == len(found) and all(same(a, b) for a, b in zip(expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return bool(expected) == bool(found)
    if expected is None:
        return node_or_nil(found) is None
    if isinstance(expected, float) and not isinstance(found, str):
        return math.isclose(expected, found, rel_tol=1e-5, abs_tol=1e-9)
    return expected == found


def same_items(expected, found):
    """Items of a property or Collection come with what they belong to, unless all belong to number 0."""
    pairs = [tuple(each) if isinstance(each, list) else (0, each) for each in found]
    if isinstance(expected, set):
        return sorted(expected) == sorted(found)
    if expected and isinstance(expected[0], set):  # items of all parts, each with its part's number
        expected = [(part, item) for part, each in enumerate(expected) for item in sorted(each)]
        return expected == sorted(pairs)
    if expected and isinstance(expected[0], tuple):
        return expected == sorted(pairs)
    return list(expected) == found


def output(document, name):
    for group in ("values", "properties", "collections"):
        if name in document[group]:
            return document[group][name]
    raise KeyError(name)


class Failed(Exception):
    pass


def run(smelt, file, name, graph_file, arguments, threads, environment):
    command = [smelt, "graph", "run", str(HERE / "programs" / file), graph_file, *arguments, "--procedure", name, "--threads", str(threads), "--values", "all", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def compare(expected, document, what):
    for name, value in expected.items():
        found = document["returned"] if name == "returned" else output(document, name)
        if isinstance(found, dict) and "items" in found:
            good = same_items(value, found["items"])
        else:
            good = same(value, found["values"] if isinstance(found, dict) else found)
        if not good:
            raise Failed(f"{what}: {name} is\n  {found}\nand should be\n  {value}")


def check(smelt, entry, graph, directory, environment):
    file, name, values, root, reference = entry
    if root and graph.n == 0:
        return
    wanted = reference.__code__.co_varnames[1 : reference.__code__.co_argcount]
    properties = {each: made_up(each, graph) for each in values}
    scalars = {each: SCALARS[each] for each in wanted if each in SCALARS}
    if root:
        scalars["root"] = graph.n // 2
    expected = reference(graph, **properties, **{each: value for each, value in scalars.items() if each in wanted})
    if expected is None:
        return
    arguments = [f"{each}={value}" for each, value in scalars.items() if each in wanted]
    for each, column in properties.items():
        path = os.path.join(directory, each)
        pathlib.Path(path).write_text("".join(written(value) + "\n" for value in column))
        arguments.append(f"{each}=@{path}")
    graph_file = os.path.join(directory, "graph.mtx")
    write(graph, graph_file)
    for threads in (1, 2, 3, 8):
        document = run(smelt, file, name, graph_file, arguments, threads, environment)
        compare(expected, document, f"{file}: {name} on {graph.n} nodes and {len(graph.edges)} edges with {threads} threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt")
    parser.add_argument("--only")
    options = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "XDG_CACHE_HOME": directory}
        for entry in references.PROGRAMS:
            if options.only not in (None, entry[1]):
                continue
            try:
                for graph in graphs():
                    check(options.smelt, entry, graph, directory, environment)
            except (Failed, LookupError, TypeError) as failure:
                failures += 1
                print(f"{entry[1]}: {failure!r}" if not isinstance(failure, Failed) else failure, file=sys.stderr)
    print(f"{len(references.PROGRAMS)} procedures, {failures} of them with other results")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
