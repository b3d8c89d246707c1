#!/usr/bin/env python3
"""What does `smelt run --memory` do to the time and the resident memory of programs?

    python3 bench/shims/memory.py [--build build/release] [--starts 7] [--mib 512] [--only NAMES] [--json FILE]
    python3 bench/shims/memory.py --add 'NAME=COMMAND' ...

Each program is started plain, with the C library's tunable glibc.malloc.hugetlb=1, and under `smelt run --memory`, by turns,
in an order that rotates. Output has to be the same in all of them. Ratios: time (or peak resident memory) of the plain start
over that of the others in the same turn, the median over the turns with its quartiles; above 1 is faster (smaller).

Programs: those of memory_programs.cpp, a random gather in NumPy if Python has it, and the commands of --add.

Exit status: 1 if an output differs, a program is below 0.97 of plain by more than its quartiles, or resident memory grows
by more than 5 % and 64 MiB; else 0.
"""

import argparse
import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import time

GATHER = (
    "import numpy as n; r=n.random.default_rng(1); a=n.arange({mib}<<17); i=r.integers(0,len(a),20_000_000);"
    "print(sum(int(a[i].sum()) for _ in range(3)))"
)
TUNABLE = "glibc.malloc.hugetlb=1"
LEAST, MORE_SHARE, MORE_KIB = 0.97, 1.05, 64 << 10


def programs(build, mib):
    binary = str(build / "bin" / "memory_programs")
    found = {name: [binary, name, str(mib)] for name in ("gather", "join", "pages", "sort")}
    found["sparse"] = [binary, "sparse", str(8 * mib)]
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode == 0:
        found["numpy"] = [sys.executable, "-c", GATHER.format(mib=mib)]
    return found


def start(command, environment):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit status {process.returncode}")
    return {"s": time.perf_counter() - begin, "kib": usage.ru_maxrss, "output": output}


def quartiles(values):
    if len(values) < 2:
        return [values[0]] * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def measure(command, smelt, starts):
    plain = dict(os.environ)
    tunable = dict(plain, GLIBC_TUNABLES=TUNABLE)
    ways = [("plain", command, plain), ("tunable", command, tunable), ("smelt", [smelt, "run", "--memory", *command], plain)]
    turns = []
    for turn in range(starts):
        order = ways[turn % 3 :] + ways[: turn % 3]
        turns.append({name: start(words, environment) for name, words, environment in order})
    same = len({each["output"] for turn in turns for each in turn.values()}) == 1
    result = {"same_output": same, "starts": starts, "plain_s": statistics.median(turn["plain"]["s"] for turn in turns)}
    for name in ("tunable", "smelt"):
        result[name] = quartiles([turn["plain"]["s"] / turn[name]["s"] for turn in turns])
        result[name + "_kib"] = statistics.median(turn[name]["kib"] for turn in turns)
    result["plain_kib"] = statistics.median(turn["plain"]["kib"] for turn in turns)
    return result


def complaints(name, result):
    if not result["same_output"]:
        yield f"{name}: the output differs"
    if result["smelt"][2] < LEAST:
        yield f"{name}: slower than {LEAST} of plain"
    if result["smelt_kib"] > result["plain_kib"] * MORE_SHARE + MORE_KIB:
        yield f"{name}: resident memory grows from {result['plain_kib']} to {result['smelt_kib']} KiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/release"))
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--only", default="")
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    chosen = programs(arguments.build.resolve(), arguments.mib)
    for each in arguments.add:
        name, _, command = each.partition("=")
        chosen[name] = shlex.split(command)
    if arguments.only:
        chosen = {name: chosen[name] for name in arguments.only.split(",")}
    smelt = str(arguments.build.resolve() / "bin" / "smelt")
    results, wrong = {}, []
    print(f"{'program':12} {'plain':>9} {'tunable':>8} {'smelt':>8} {'quartiles':>14} {'memory':>8}")
    for name, command in chosen.items():
        result = results[name] = measure(command, smelt, arguments.starts)
        low, middle, high = result["smelt"]
        print(
            f"{name:12} {result['plain_s']:8.2f}s {result['tunable'][1]:8.3f} {middle:8.3f}   {low:.3f} - {high:.3f}"
            f" {result['smelt_kib'] / result['plain_kib']:8.2f}",
            flush=True,
        )
        wrong += complaints(name, result)
    mean = {way: math.exp(statistics.mean(math.log(each[way][1]) for each in results.values())) for way in ("tunable", "smelt")}
    print(f"geometric mean: tunable {mean['tunable']:.3f}, smelt {mean['smelt']:.3f}")
    if arguments.json:
        document = {"programs": results, "geometric_mean": mean, "mib": arguments.mib}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
