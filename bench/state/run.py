#!/usr/bin/env python3
"""Measures maps and logs beside others, and keeps what came out: bench/state/maps.cpp and logs.cpp, bench/ycsb/ycsb.cpp.

    bench/state/run.py [--out bench/results/MACHINE] [--parts maps-threads,logs] [--build build/release]

Parts: see PARTS below. The programs are built before (cmake --build --preset release); the peers that are Rust crates are
built here, into build/bench-peers, where cargo and the registry can be had. A peer that is missing is named and left
out. --before gives words to put in front of each command, such as a command that keeps the machine to itself.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CRATES = ROOT / "build/bench-peers/release/libsmelt_bench_peers.so"


def ycsb(extra, slow):
    """Runs of bench_ycsb: long values where `slow` operations keep them below a minute."""
    return [["bench_ycsb", "--keys", keys, "--values", str(values), "--operations", str(slow if values == 1000 else 1 << 17),
             *extra] for keys in ("8", "string") for values in (16, 100, 1000)]


def maps(keys, *extra):
    return [["bench_maps", "--keys", str(each), *extra] for each in keys]


PARTS = {
    "maps-threads": (maps((100, 10_000, 1_000_000), "--rounds", "5", "--ms", "15"), "bench/state/maps.cpp"),
    "maps-8-threads": (maps((10_000,), "--clients", "8", "--rounds", "3", "--ms", "20"), "bench/state/maps.cpp"),
    "maps-processes": (maps((100, 10_000, 1_000_000), "--processes", "--rounds", "3", "--ms", "15"),
                       "bench/state/maps.cpp"),
    "maps-one-writer": (maps((100, 10_000), "--processes", "--one-writer", "--rounds", "5", "--ms", "15"),
                        "bench/state/maps.cpp"),
    "ycsb-threads": (ycsb((), 32768), "bench/ycsb/ycsb.cpp"),
    "ycsb-processes": (ycsb(("--processes",), 32768), "bench/ycsb/ycsb.cpp"),
    "logs": ([["bench_logs", "--rounds", "9", "--ms", "20"]], "bench/state/logs.cpp"),
}
WITH_CRATES = ("bench_logs", "bench_maps")


def build_crates():
    """The library of the Rust crates, or None, with a word about it."""
    if shutil.which("cargo") is None:
        print("cargo not found: without raft, omnipaxos, node-replication and iceoryx2", file=sys.stderr)
        return None
    built = subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--target-dir",
                            ROOT / "build/bench-peers"], cwd=ROOT / "bench/state/peers")
    if built.returncode != 0:
        print("cargo build failed: without raft, omnipaxos, node-replication and iceoryx2", file=sys.stderr)
        return None
    return CRATES


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout.strip()


def machine():
    """This machine in a line."""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, re.MULTILINE))
    kind = "virtual machine" if "hypervisor" in fields.get("flags", "") else "machine"
    return (f"{fields.get('model name', os.uname().machine)} (family {fields.get('cpu family', '?')}, model "
            f"{fields.get('model', '?')}), {kind} with {len(os.sched_getaffinity(0))} PUs, Linux "
            f"{'.'.join(os.uname().release.split('.')[:2])}, g++ {output('c++', '-dumpversion')}")


def measure(commands, build, before, crates):
    """The documents of the commands, in order."""
    runs = []
    for name, *words in commands:
        program = build / "bin" / name
        if not program.is_file():
            sys.exit(f"{program} not found: build it first (cmake --build --preset release)")
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            extra = ["--crates", crates] if crates and name in WITH_CRATES else []
            subprocess.run([*before, program, *words, *extra, "--json", file.name], check=True)
            runs.append(json.loads(pathlib.Path(file.name).read_text()))
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--before", default="")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := [each for each in parts if each not in PARTS]:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    crates = build_crates()
    for part in parts:
        commands, question = PARTS[part]
        runs = measure(commands, options.build.resolve(), shlex.split(options.before), crates)
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            document = {"machine": machine(), "commit": output("git", "describe", "--always", "--dirty"),
                        "question": question, "runs": runs}
            (options.out / f"{part}.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
