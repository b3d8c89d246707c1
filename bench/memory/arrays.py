#!/usr/bin/env python3
"""What do smelt's arrays gain over std::vector, malloc and other allocators?

    python3 bench/memory/arrays.py [--build build/release] [--starts 7] [--only GROUPS] [--json FILE] [--add] [--seconds S]

Runs the rows of bench/google/memory_arrays.cpp (build/release/bin/question_memory_arrays), a group of them in one start:
smelt's array and its peers by turns, in an order that is drawn each time. Ratios: median time of a peer over that of the
array, above 1 is faster; the best peer that a bar is about decides. With --json, FILE gets all times, and of random reads in
which pages each array lay. With --add, times in it of the same program count, and the group with the fewest goes on; groups
that are not asked for stay. --seconds ends it early.

Exit status: 1 if a bar does not hold; else 0.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from programs import ROOT, commit, machine_name, noise  # noqa: E402

# Group: how often the best of its peers the array has to be as fast, and which these are; the others are shown.
BARS = {
    "dependent": (1.4, ("vector",)),
    "independent": (1.15, ("vector",)),
    "take": (1.15, ("vector",)),
    "sum": (0.99, ("vector",)),
    "fill": (0.98, ("std_fill", "threads", "openmp")),
    "copy": (0.98, ("memcpy", "threads", "openmp")),
    "allocate": (1 / 0.7, ("malloc_memset",)),
    "first": (0.0, ("malloc_memset",)),  # no bar: in a virtual machine it waits for the host
}
# Per cent of an array in huge pages, and in small ones that follow each other in physical memory.
PAGES = ("huge_percent", "contiguous_percent")
# jemalloc needs room for its thread-local memory where it is loaded late.
ENVIRONMENT = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=20000"}


def take(program, group):
    """{row: its milliseconds, and where counted, in which pages its memory lay} of one start."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run([program, f"--benchmark_filter=^{group}/", "--benchmark_enable_random_interleaving=true",
                        "--benchmark_min_time=0.2", f"--benchmark_out={out.name}", "--benchmark_out_format=json"],
                       env=dict(os.environ, **ENVIRONMENT), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        rows = json.loads(pathlib.Path(out.name).read_text())["benchmarks"]
    return {row["name"].split("/")[1]: (row["real_time"], [round(row[key], 1) for key in PAGES if key in row]) for row in rows}


def ratios(times):
    """{peer: an interval of its time over the array's}."""
    return {peer: noise.median_interval([other / own for own, other in zip(times["array"], each)])
            for peer, each in times.items() if peer != "array"}


def best(group, times):
    """The fastest peer that the group's bar is about, and the interval of its ratio."""
    limit, peers = BARS[group]
    found = {peer: ratio for peer, ratio in ratios(times).items() if peer in peers}
    peer = min(found, key=lambda each: statistics.median(times[each]))
    return peer, found[peer], limit


def earlier_document(arguments, wanted, program):
    """What the file has of other groups, and of those wanted by this program."""
    document = {"groups": {}, "pages": {}, "programs": {}}
    if arguments.add and arguments.json and arguments.json.exists():
        earlier = json.loads(arguments.json.read_text())
        for group, own in earlier["programs"].items():
            if group in wanted and own != program:
                continue
            for key in document:
                if group in earlier[key]:
                    document[key][group] = earlier[key][group]
    return document


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--only", default="", help="of " + ",".join(BARS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--add", action="store_true", help="go on from the times in --json's file")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no start after so long; the rest by --add")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    program = arguments.build.resolve() / "bin/question_memory_arrays"
    identity = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    wanted = [group for group in BARS if not arguments.only or group in arguments.only.split(",")]
    if not wanted:
        parser.error("--only: one of " + ", ".join(BARS))
    document = earlier_document(arguments, wanted, identity)
    groups, pages = document["groups"], document["pages"]

    def starts(group):
        return min(map(len, groups[group].values())) if group in groups else 0

    while time.monotonic() < until:
        group = min(wanted, key=starts)
        if starts(group) >= arguments.starts:
            break
        for row, (ms, lay) in take(str(program), group).items():
            groups.setdefault(group, {}).setdefault(row, []).append(ms)
            if lay:
                pages.setdefault(group, {}).setdefault(row, []).append(lay)
        document["programs"][group] = identity
        if arguments.json:
            found = {"benchmark": "memory-arrays", "machine": machine_name(), "commit": commit(), "mib": 1024,
                     "percent": PAGES, **document}
            arguments.json.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    wrong = []
    for group, times in groups.items():
        peer, ratio, limit = best(group, times)
        print(f"{group:12} array {statistics.median(times['array']):8.2f} ms, {peer} {ratio.median:.2f} times that "
              f"[{ratio.low:.2f}, {ratio.high:.2f}], bar {limit:.2f}; "
              + ", ".join(f"{each} {found.median:.2f}" for each, found in ratios(times).items() if each != peer))
        if ratio.median < limit:
            wrong.append(f"{group}: {ratio.median:.2f} of {peer}, below {limit:.2f}")
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
