#!/usr/bin/env python3
"""Question: does the model predict every operation on this machine, of 8 bytes to 1 MiB?

Method: the machine is measured, and at once the operations are timed by `smelt bench`, which says what the model predicts
for the recipe that it runs. A virtual machine's lines become slower or faster between two starts of a program, so that a
line is timed with each operation. A cell whose line differs from that of the model by more than a fifth, or during which
other programs used a tenth of a PU, is taken again; where that happens each time it is marked, and does not count. A run
is of one team; its cells replace the same ones in the file.

Expected: a mean error of at most 0.15 for each team.

    fidelity.py SMELT FILE RANKS threads|processes [OPERATION ...]
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

OPERATIONS = ["barrier", "broadcast", "reduce", "allreduce", "scatter", "gather", "allgather", "alltoall", "reduce-scatter",
              "scan", "exscan", "two-phase-commit"]
SIZES = ["8", "64", "512", "4K", "32K", "256K", "1M"]
TURN_S = 0.25
STEADY = 1.2
TRIES = 3
OTHERS = 0.1


def others_busy_s():
    """Seconds in which PUs ran anything but this program and its children."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, open("/proc/stat").readline().split()[1:])
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK") - own


class Team:
    def __init__(self, smelt, ranks, processes):
        self.smelt, self.ranks, self.processes = smelt, ranks, processes
        self.place = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "SMELT_CACHE_DIR": self.place.name}

    def run(self, *arguments):
        done = subprocess.run([self.smelt, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"smelt {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def measure(self):
        self.run("measure", "--json", "--budget", "10s")

    def time(self, operation, size):
        """The cell, how long one way of a line took meanwhile, and how many PUs were busy with other programs."""
        began, busy = time.monotonic(), others_busy_s()
        told = json.loads(self.run("bench", operation, "--threads", str(self.ranks), "--bytes", size, "--only", "smelt",
                                   "--time", f"{TURN_S}s", "--starts", "1", "--json",
                                   *(["--processes"] if self.processes else [])))
        result = next(each for each in told["results"] if each["name"] == "smelt")
        return {"operation": operation, "bytes": told["bytes"], "predicted_ns": result.get("predicted_ns"),
                "measured_ns": result["median_ns"], "spread": result["spread"], "method": result["method"]}, told["floor_ns"], (others_busy_s() - busy) / (time.monotonic() - began)


def main():
    smelt, file, ranks, kind, *operations = sys.argv[1:]
    team = Team(smelt, int(ranks), kind == "processes")
    team.measure()
    cells, line_ns = [], None
    for operation in ["barrier", *(operations or OPERATIONS)]:
        for size in SIZES if operation != "barrier" else SIZES[:1]:
            for _ in range(TRIES):
                cell, now_ns, others = team.time(operation, size)
                line_ns = line_ns or now_ns
                cell["line"], cell["others"] = round(now_ns / line_ns, 2), round(others, 2)
                cell["counts"] = 1 / STEADY < cell["line"] < STEADY and others < OTHERS
                if cell["counts"]:
                    break
            cells.append(cell)
            if os.environ.get("SHOW"):
                print(operation, size, f"{cell['predicted_ns']:.0f} {cell['measured_ns']:.0f}",
                      f"{cell['predicted_ns'] / cell['measured_ns']:.2f} line {cell['line']} {cell['others']}", file=sys.stderr)
    errors = [abs(each["predicted_ns"] / each["measured_ns"] - 1) for each in cells if each["counts"]]
    print(f"{ranks} {kind}: mean error {statistics.fmean(errors):.3f} of {len(errors)} cells", file=sys.stderr)


main()
