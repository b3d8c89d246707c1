#!/usr/bin/env python3
"""What does `smelt run --memory` do to the time and the resident memory of programs?

    python3 bench/memory/programs.py [--build build/release] [--starts 7] [--only NAMES] [--json FILE] [--data FOLDER]
                                     [--add] [--seconds S]
    python3 bench/memory/programs.py --program 'NAME=COMMAND' ...      # and a program of yours

Each program is started plain, with the C library's tunable glibc.malloc.hugetlb=1, and under `smelt run --memory`, by
turns, in an order that rotates. Output has to be the same in all of them. Ratios: time of the plain start over that of the
others in the same turn; the median over the turns with the interval of python/noise.py; above 1 is faster. Memory: the
largest peak of resident memory over that of the plain starts.

Programs: those of native.cpp and bench/shims/clustering.cpp, timed as a whole; those of kernels.py, whose libraries come
from PyPI into a virtual environment in FOLDER, each kernel timed without imports and the reading of input; the commands of
--program. What cannot be had is left out, and said. The graph of scale 22 takes part where it is in FOLDER
(`kernels.py prepare-large FOLDER`).

With --json, FILE gets all times. With --add, those in it of the same preload library count, and the program with the
fewest goes on; --seconds ends it early. So a long run can be made in short slots.

Exit status: 1 if an output differs, a program is below 0.97 of plain by more than its interval, resident memory grows
by more than 5 % and 64 MiB, or the geometric mean is below 1.04 of plain or 1.02 of the tunable; else 0.
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
WAYS = ("plain", "tunable", "smelt")
LEAST, MORE_SHARE, MORE_KIB = 0.97, 1.05, 64 << 10
LEAST_MEAN, LEAST_OVER_TUNABLE = 1.04, 1.02
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


def has(python, modules):
    """Whether they are installed; without importing them, which takes seconds."""
    words = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {modules!r})))"
    return subprocess.run([python, "-c", words], capture_output=True, check=False).returncode == 0


def python_programs(data, wanted):
    libraries = [name for name in WHEELS if not wanted or any(each.split("_")[0] == name for each in wanted)]
    if not libraries:
        return {}
    python = str(data / "venv/bin/python")
    if not pathlib.Path(python).exists():
        venv.create(data / "venv", with_pip=True)
    found = {}
    for name in libraries:
        if has(python, ("numpy", "scipy", name)) or install(python, ("numpy", "scipy", *WHEELS[name])):
            found[name] = [python, str(HERE / "kernels.py"), name, str(data)]
        else:
            print(f"{name}: left out: pip has no wheels of {' '.join(WHEELS[name]) or name} for this Python")
    if found and not all((data / f"kronecker-{each}").exists() for each in ("16.npz", "20.npz", "20.nkb")):
        subprocess.run([python, str(HERE / "kernels.py"), "prepare", str(data)], check=True)
    if "networkit" in found and (data / "kronecker-22.nkb").exists():
        found["networkit_22"] = [python, str(HERE / "kernels.py"), "networkit_22", str(data)]
    return {name: command for name, command in found.items() if not wanted or name in wanted}


def start(name, command, environment):
    """{kernel: (seconds, result)} and the peak of resident memory in KiB; a program without kernels is one itself."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    output = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{shlex.join(command)}: exit status {process.returncode}")
    results = dict(re.findall(r"^result (\S+) (.*)$", output, re.MULTILINE))
    times = {kernel: float(s) for kernel, s in re.findall(r"^seconds (\S+) ([0-9.]+)$", output, re.MULTILINE)}
    if times:
        return {kernel: (s, results[kernel]) for kernel, s in times.items()}, usage.ru_maxrss
    # The time that a program tells itself is not part of its result.
    own = re.search(r"^seconds ([0-9.]+)$|, ([0-9.]+) s$", output, re.MULTILINE)
    if own:
        seconds = float(own[1] or own[2])
        output = output.replace(own[0], "")
    return {name: (seconds, output)}, usage.ru_maxrss


def take(name, command, smelt, results):
    """The next start of a program, into the results of its kernels. Results: by kernel."""
    way = next_way(name, results)
    environment = dict(os.environ, OMP_NUM_THREADS=str(len(os.sched_getaffinity(0))))
    if way == "tunable":
        environment["GLIBC_TUNABLES"] = TUNABLE
    words = [smelt, "run", "--memory", *command] if way == "smelt" else command
    kernels, kib = start(name, words, environment)
    for kernel, (seconds, output) in kernels.items():
        output = hashlib.sha256(output.encode()).hexdigest()[:16]
        result = results.setdefault(kernel, {
            "program": name, "commit": commit(), "output": output, "same_output": True,
            **{each: {"s": [], "kib": 0} for each in WAYS}})
        result["same_output"] &= result["output"] == output
        result[way]["s"].append(seconds)
        result[way]["kib"] = max(result[way]["kib"], kib)


def turns(name, results):
    """Whole turns that a program has had."""
    return min((len(result[way]["s"]) for result in results.values() if result["program"] == name for way in WAYS),
               default=0)


def next_way(name, results):
    done = turns(name, results)
    shift = done % len(WAYS)
    begun = [result for result in results.values() if result["program"] == name]
    return next(way for way in WAYS[shift:] + WAYS[:shift]
                if all(len(result[way]["s"]) == done for result in begun))


def ratio(result, way, over="plain"):
    """Time of `over` over that of `way`, an interval."""
    return noise.median_interval([each / other for each, other in zip(result[over]["s"], result[way]["s"])])


def mean_ratio(results, way, over="plain"):
    return math.exp(statistics.mean(math.log(ratio(each, way, over).median) for each in results.values()))


def complaints(results):
    for name, result in results.items():
        if not result["same_output"]:
            yield f"{name}: the output differs"
        if ratio(result, "smelt").high < LEAST:
            yield f"{name}: slower than {LEAST} of plain"
        if result["smelt"]["kib"] > result["plain"]["kib"] * MORE_SHARE + MORE_KIB:
            yield f"{name}: resident memory grows from {result['plain']['kib']} to {result['smelt']['kib']} KiB"
    for over, least in (("plain", LEAST_MEAN), ("tunable", LEAST_OVER_TUNABLE)):
        mean = mean_ratio(results, "smelt", over)
        if mean < least:
            yield f"geometric mean over {over}: {mean:.3f}, below {least}"


def line(name, result):
    ours, tunable = ratio(result, "smelt"), ratio(result, "tunable")
    return (f"{name:24} {ours.count:3} {statistics.median(result['plain']['s']):8.2f} s {tunable.median:8.3f}"
            f" {ours.median:8.3f}   {ours.low:.3f} - {ours.high:.3f}"
            f" {result['smelt']['kib'] / result['plain']['kib']:8.2f}")


def machine_name():
    cpuinfo = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*: (.*)$", cpuinfo, re.MULTILINE)
    return found[1] if found else platform.machine()


def commit():
    words = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False).stdout.strip()


def earlier_results(arguments, library):
    """What --add goes on from."""
    if not arguments.add or not arguments.json or not arguments.json.exists():
        return {}
    earlier = json.loads(arguments.json.read_text())
    if earlier.get("library") != library:
        raise SystemExit(f"{arguments.json}: of another build of libsmelt_memory.so; without --add it is written anew")
    return earlier["programs"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "build/memory-programs")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--program", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--add", action="store_true", help="go on from the times in --json's file")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no start after so long; the rest by --add")
    arguments = parser.parse_args()
    until = time.monotonic() + arguments.seconds
    arguments.data.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in arguments.only.split(",") if name]
    build = arguments.build.resolve()
    chosen = native_programs(build)
    for each in arguments.program:
        name, _, command = each.partition("=")
        chosen[name] = shlex.split(command)
    chosen = {name: command for name, command in chosen.items() if not wanted or name in wanted}
    chosen |= python_programs(arguments.data.resolve(), wanted)
    library = hashlib.sha256((build / "lib/libsmelt_memory.so").read_bytes()).hexdigest()[:16]
    results = earlier_results(arguments, library)
    while time.monotonic() < until:
        name = min(chosen, key=lambda each: turns(each, results), default=None)
        if name is None or turns(name, results) >= arguments.starts:
            break
        take(name, chosen[name], str(build / "bin/smelt"), results)
        if arguments.json:
            document = {"benchmark": "memory-programs", "machine": machine_name(), "library": library, "programs": results}
            arguments.json.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    whole = {name: result for name, result in results.items() if all(result[way]["s"] for way in WAYS)}
    if not whole:
        return 0
    print(f"{'program':28} {'plain':>10} {'tunable':>8} {'smelt':>8} {'interval':>15} {'memory':>8}")
    for name, result in whole.items():
        print(line(name, result))
    print(f"geometric mean: tunable {mean_ratio(whole, 'tunable'):.3f}, smelt {mean_ratio(whole, 'smelt'):.3f}, "
          f"smelt over the tunable {mean_ratio(whole, 'smelt', 'tunable'):.3f}")
    wrong = list(complaints(whole))
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
