#!/usr/bin/env python3
"""The tables of bench/results/README.md, as Markdown, from what bars.py has saved.

    python3 python/tables.py bench/results/intel-xeon-2-pu [mpi] [oversubscribed] [openmp] [shim-mpi]

Each ratio says how many times as long the other takes as smelt; of openmp, smelt's overhead over the plain runtime's.
"""

import json
import math
import pathlib
import statistics
import sys

SETS = ["mpi", "oversubscribed", "openmp", "shim-mpi"]
PEERS = {"openmpi": "Open MPI", "mpich": "MPICH"}


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def table(rows, columns, value):
    """Rows and columns are lists of (key, text); value(row, column) is a number or None."""
    print("| | " + " | ".join(text for _, text in columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for row, text in rows:
        numbers = (value(row, column) for column, _ in columns)
        print(f"| {text} | " + " | ".join("" if each is None else f"{each:.2f}" for each in numbers) + " |")
    print()


def mean(numbers):
    return math.exp(statistics.fmean(math.log(each) for each in numbers))


def matrix(title, cells, operations):
    """cells: {(operation, bytes): ratio}."""
    low = sorted((ratio, *where) for where, ratio in cells.items() if ratio < 1)
    which = ", ".join(f"{operation} {size_text(size)} {ratio:.2f}" for ratio, operation, size in low) or "none"
    print(f"{title}: geometric mean {mean(cells.values()):.2f} of {len(cells)} cells; below 1: {which}.\n")
    sizes = sorted({size for _, size in cells})
    table([(each, each) for each in operations], [(each, size_text(each)) for each in sizes],
          lambda row, column: cells.get((row, column)))


def in_order(items):
    return list(dict.fromkeys(items))


def mpi(directory):
    found = json.loads((directory / "mpi.json").read_text())["cells"]
    for peer, name in PEERS.items():
        cells = {(each["operation"], each["bytes"]): each["times_as_long"][peer]
                 for each in found if peer in each["times_as_long"]}
        matrix(name, cells, in_order(operation for operation, _ in cells))


def oversubscribed(directory):
    found = json.loads((directory / "oversubscribed.json").read_text())["cells"]
    for peer, name in PEERS.items():
        ratios = {(each["operation"], each["ranks"], each["bytes"]): each["times_as_long"][peer]
                  for each in found if peer in each["times_as_long"]}
        least = min(ratios, key=ratios.get)
        print(f"{name}: least {ratios[least]:.2f} ({least[0]}, {least[1]} ranks, {size_text(least[2])}), "
              f"geometric mean {mean(ratios.values()):.2f}\n")
        columns = sorted({(ranks, size) for _, ranks, size in ratios})
        table([(each, each) for each in in_order(operation for operation, _, _ in ratios)],
              [(each, f"{each[0]} ranks, {size_text(each[1])}") for each in columns],
              lambda row, column: ratios.get((row, *column)))


def openmp(directory):
    samples = json.loads((directory / "openmp.json").read_text())["samples"]
    overheads = {}
    for program, ways in samples.items():
        ways = {way: ways[way] for way in ("vanilla", "smelt")}
        for way, runs in ways.items():
            for construct in runs[0]["overheads"]:
                values = [run["overheads"][construct]["median_ns"] for run in runs]
                overheads[program, construct, way] = statistics.median(values)
    constructs = [each for each in in_order(construct for _, construct, _ in overheads) if each != "reference"]
    table([(each, each) for each in constructs], [(each, each.removeprefix("bench_openmp_")) for each in samples],
          lambda row, column: overheads[column, row, "smelt"] / overheads[column, row, "vanilla"])


def shim_mpi(directory):
    found = [each for file in sorted(directory.glob("shim-mpi*.json"), reverse=True)
             for each in json.loads(file.read_text())["results"]]
    for peer, name in PEERS.items():
        cells = {(each["operation"], each["bytes"]): each["ratio"] for each in found if each["mpi"] == peer}
        if cells:
            matrix(f"{name} alone / with smelt", cells, in_order(operation for operation, _ in cells))


def main():
    if len(sys.argv) < 2 or any(each not in SETS for each in sys.argv[2:]):
        sys.exit(__doc__)
    for each in sys.argv[2:] or SETS:
        print(f"## {each}\n")
        {"mpi": mpi, "oversubscribed": oversubscribed, "openmp": openmp, "shim-mpi": shim_mpi}[each](
            pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
