#!/usr/bin/env python3
"""What does `smelt run --memory` do to the time and the resident memory of programs?

    python3 bench/memory/programs.py [--build build/release] [--starts 7] [--only NAMES] [--json FILE] [--data FOLDER]
    python3 bench/memory/programs.py --add 'NAME=COMMAND' ...      # and a program of yours

Each program is started plain, with the C library's tunable glibc.malloc.hugetlb=1, and under `smelt run --memory`, by
turns, in an order that rotates. Output has to be the same in all of them. Ratios: time of the plain start over that of the
others in the same turn; the median over the turns with the interval of python/noise.py; above 1 is faster. Memory: the
largest peak of resident memory over that of the plain starts.

Programs: those of native.cpp and bench/shims/clustering.cpp, timed as a whole; those of kernels.py, whose libraries come
from PyPI into a virtual environment in FOLDER, timed without imports and the reading of input; the commands of --add. What
cannot be had is left out, and said. With --json, what FILE knows of other programs stays there; with --more, its
starts of the same program and commit count as well, so that they can be taken some at a time.

Exit status: 1 if an output differs, a program is below 0.97 of plain by more than its interval, or resident memory grows
by more than 5 % and 64 MiB; else 0.
"""

import argparse
import hashlib
import json
import math
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import noise  # noqa: E402

TUNABLE = "glibc.malloc.hugetlb=1"
LEAST, MORE_SHARE, MORE_KIB = 0.97, 1.05, 64 << 10
NATIVE = {"gather": 512, "join": 1024, "pages": 256, "sort": 256, "sparse": 4096}  # MiB
CLUSTERING = ["--points", "100000", "--chunk", "50000", "--dimensions", "64"]
WHEELS = {
    "networkit": ("networkit",),
    "graphblas": ("python-graphblas", "suitesparse-graphblas"),
    "numpy": (),
    "duckdb": ("duckdb",),
    "scipy": (),
    "lightgbm": ("lightgbm",),
}
KERNELS = ("networkit_pagerank", "networkit_bfs", "networkit_components", "graphblas_triangles", "graphblas_vectors",
           "numpy_gather", "duckdb_join", "scipy_products", "scipy_vectors", "lightgbm_training")


def native_programs(build):
    found = {name: [str(build / "bin/memory_programs"), name, str(mib)] for name, mib in NATIVE.items()}
    found["clustering"] = [str(build / "bin/clustering_pthread"), *CLUSTERING]
    for name, command in list(found.items()):
        if not pathlib.Path(command[0]).is_file():
            print(f"{name}: left out: {command[0]} is not built")
            del found[name]
    return found


def install(python, wheels):
    """Whether they are there, installed now if need be."""
    command = [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *wheels]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def python_programs(data, wanted):
    names = [name for name in KERNELS if not wanted or name in wanted]
    if not names:
        return {}
    python = str(data / "venv/bin/python")
    if not pathlib.Path(python).exists():
        venv.create(data / "venv", with_pip=True)
    found = {}
    for library in dict.fromkeys(name.split("_")[0] for name in names):
        if subprocess.run([python, "-c", f"import numpy, scipy, {library}"], capture_output=True).returncode == 0 or install(
                python, ("numpy", "scipy", *WHEELS[library])):
            found |= {name: [python, str(HERE / "kernels.py"), name, str(data)]
                      for name in names if name.startswith(library + "_")}
        else:
            print(f"{library}: left out: pip has no wheels of {' '.join(WHEELS[library]) or library} for this Python")
    if found:
        subprocess.run([python, str(HERE / "kernels.py"), "prepare", str(data)], check=True)
    return found


def start(command, environment):
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit status {process.returncode}")
    # The time that a program tells itself is not part of its result.
    own = re.search(r"^seconds ([0-9.]+)$|, ([0-9.]+) s$", output, re.MULTILINE)
    if own:
        seconds = float(own[1] or own[2])
        output = output.replace(own[0], "")
    return {"s": seconds, "kib": usage.ru_maxrss, "output": output}


def measure(command, smelt, starts):
    plain = dict(os.environ, OMP_NUM_THREADS=str(len(os.sched_getaffinity(0))))
    tunable = dict(plain, GLIBC_TUNABLES=TUNABLE)
    ways = [("plain", command, plain), ("tunable", command, tunable),
            ("smelt", [smelt, "run", "--memory", *command], plain)]
    turns = []
    for turn in range(starts):
        order = ways[turn % 3:] + ways[:turn % 3]
        turns.append({name: start(words, environment) for name, words, environment in order})
    outputs = [each["output"] for turn in turns for each in turn.values()]
    result = {"same_output": len(set(outputs)) == 1, "output": hashlib.sha256(outputs[0].encode()).hexdigest()[:16]}
    for name in ("plain", "tunable", "smelt"):
        result[name] = {"s": [turn[name]["s"] for turn in turns],
                        "kib": max(turn[name]["kib"] for turn in turns)}
    return result


def joined(before, result):
    """Both as one result; of the same program and the same output."""
    result["same_output"] = result["same_output"] and before["same_output"] and before["output"] == result["output"]
    for name in ("plain", "tunable", "smelt"):
        kib = max(before[name]["kib"], result[name]["kib"])
        result[name] = {"s": before[name]["s"] + result[name]["s"], "kib": kib}
    return result


def ratio(result, way):
    """Plain time over that of `way`, an interval."""
    return noise.median_interval([plain / other for plain, other in zip(result["plain"]["s"], result[way]["s"])])


def complaints(name, result):
    if not result["same_output"]:
        yield f"{name}: the output differs"
    if ratio(result, "smelt").high < LEAST:
        yield f"{name}: slower than {LEAST} of plain"
    if result["smelt"]["kib"] > result["plain"]["kib"] * MORE_SHARE + MORE_KIB:
        yield f"{name}: resident memory grows from {result['plain']['kib']} to {result['smelt']['kib']} KiB"


def line(name, result):
    ours, tunable = ratio(result, "smelt"), ratio(result, "tunable")
    return (f"{name:22} {statistics.median(result['plain']['s']):8.2f} s {tunable.median:8.3f} {ours.median:8.3f}"
            f"   {ours.low:.3f} - {ours.high:.3f} {result['smelt']['kib'] / result['plain']['kib']:8.2f}")


def machine_name():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    return found[1] if found else platform.machine()


def commit():
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/memory-programs")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--add", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--more", action="store_true")
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in arguments.only.split(",") if name]
    chosen = native_programs(arguments.build.resolve())
    for each in arguments.add:
        name, _, command = each.partition("=")
        chosen[name] = shlex.split(command)
    chosen = {name: command for name, command in chosen.items() if not wanted or name in wanted}
    chosen |= python_programs(arguments.data.resolve(), wanted)
    smelt = str(arguments.build.resolve() / "bin/smelt")
    results = {}
    if arguments.json and arguments.json.exists():
        results = json.loads(arguments.json.read_text())["programs"]
    wrong = []
    print(f"{'program':22} {'plain':>10} {'tunable':>8} {'smelt':>8} {'interval':>15} {'memory':>8}")
    for name, command in chosen.items():
        result = measure(command, smelt, arguments.starts) | {"commit": commit()}
        if arguments.more and results.get(name, {}).get("commit") == result["commit"]:
            result = joined(results[name], result)
        results[name] = result
        print(line(name, result), flush=True)
        wrong += complaints(name, result)
        if arguments.json:
            document = {"benchmark": "memory-programs", "machine": machine_name(), "programs": results}
            arguments.json.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    mean = {way: math.exp(statistics.mean(math.log(ratio(each, way).median) for each in results.values()))
            for way in ("tunable", "smelt")}
    print(f"geometric mean: tunable {mean['tunable']:.3f}, smelt {mean['smelt']:.3f}")
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
