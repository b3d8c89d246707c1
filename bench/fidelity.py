#!/usr/bin/env python3
"""Question: does the model predict every operation on this machine, of 8 bytes to 1 MiB?

Method: the machine is measured, and at once the operations are timed by `smelt bench`, which says what the model predicts
for the recipe that it runs. A virtual machine is moved between cores from time to time, after which a line takes several
times as long or as short, and other programs take PUs away. So a line is timed before and after the model is measured and
with each operation. A model is measured again if its lines differ by more than a fifth, or are not those of its round
trip. A cell is taken again, twice at most, if its line differs from that of the model by more than a fifth, its samples
spread by more than their median, or other programs have computed for more than a tenth of the time of the PUs. If the line
still differs, the machine is measured anew, three times in a run at most. What then still differs is marked, and does not
count. A run is of one team; its cells replace those of that team in FILE. More ranks than PUs share them.

`trees` in place of a team times every tree between two threads, 8 bytes: their predictions and medians go to FILE.

Expected: a mean error of at most 0.15 for each team.

    fidelity.py SMELT FILE RANKS threads|processes [--sizes LIST] [OPERATION ...]
    fidelity.py SMELT FILE trees
"""
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

OPERATIONS = ["barrier", "broadcast", "reduce", "allreduce", "scatter", "gather", "allgather", "alltoall", "reduce-scatter",
              "scan", "exscan", "two-phase-commit"]
SIZES = ["8", "64", "512", "4K", "32K", "256K", "1M"]
PLANNED = ["broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"]
TREES = ["sequential", "binary", "fibonacci", "k-nomial", "chain", "cluster", "cluster-binary", "mst", "stream", "bad",
         "adaptive", "adaptive-optimized", "optimal"]
TURN_S = 0.2
MOST_LINE = 1.2
MOST_SPREAD = 1.0
MOST_OTHERS = 0.1
TRIES = 3
MOST_MODELS = 4
# A round trip of a message is two ways of a line and what the ranks do: 2.1 to 3.1 ways were seen.
ROUND_TRIPS = 1.5, 4.5


def busy_s():
    """Processor time of all programs so far, and of the children of this one."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = {3, 4}  # idle, waiting for input or output
    ticks = sum(int(field) for place, field in enumerate(fields[:8]) if place not in idle)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ticks / os.sysconf("SC_CLK_TCK"), children.ru_utime + children.ru_stime


class Team:
    def __init__(self, smelt, ranks, kind):
        self.smelt, self.ranks, self.kind = smelt, int(ranks), kind
        self.place = tempfile.TemporaryDirectory()
        self.environment = {**os.environ, "SMELT_CACHE_DIR": self.place.name}
        self.line_ns = None  # one way of a line, when the model was measured
        self.models = 0

    def run(self, *arguments):
        done = subprocess.run([self.smelt, *arguments], env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"smelt {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    def line(self):
        told = json.loads(self.run("bench", "barrier", "--threads", "2", "--only", "smelt", "--time", "0.05s", "--starts",
                                   "1", "--json"))
        return told["floor_ns"]

    def round_trip(self):
        return json.loads(self.run("show", "--json"))["rtt_ns"][0][1]

    def measure(self):
        """A model of a machine whose lines took as long before and meanwhile as after, if there is one within four
        attempts."""
        self.models += 1
        for _ in range(4):
            before = self.line()
            self.run("measure", "--budget", "10s")
            after = self.line()
            self.line_ns = (before + after) / 2
            ways = self.round_trip() / self.line_ns
            if 1 / MOST_LINE < before / after < MOST_LINE and ROUND_TRIPS[0] < ways < ROUND_TRIPS[1]:
                return

    def time_once(self, operation, size):
        command = ["bench", operation, "--threads", str(self.ranks), "--bytes", size, "--only", "smelt", "--time",
                   f"{TURN_S}s", "--starts", "1", "--json", *(["--processes"] if self.kind == "processes" else [])]
        start, (all_s, own_s) = time.monotonic(), busy_s()
        told = json.loads(self.run(*command))
        others = [after - before for after, before in zip(busy_s(), (all_s, own_s))]
        quiet = others[0] - others[1] < MOST_OTHERS * (time.monotonic() - start) * os.cpu_count()
        result = next((each for each in told["results"] if each["name"] == "smelt"), None)
        if result is None or not result["median_ns"] or not told["floor_ns"]:
            # it took too long, beside other programs, or what was subtracted left nothing
            return None
        line = told["floor_ns"] / self.line_ns
        return {"operation": operation, "bytes": told["bytes"], "predicted_ns": round(result["predicted_ns"], 1),
                "measured_ns": round(result["median_ns"], 1), "method": result["method"],
                "recipe": result.get("recipe", ""), "line": round(line, 2),
                "counts": quiet and 1 / MOST_LINE < line < MOST_LINE and result["spread"] < MOST_SPREAD}

    def time_some(self, operation, size):
        for _ in range(TRIES):
            cell = self.time_once(operation, size)
            if cell and cell["counts"]:
                break
        return cell

    def time(self, operation, size):
        cell = self.time_some(operation, size)
        while cell and not 1 / MOST_LINE < cell["line"] < MOST_LINE and self.models < MOST_MODELS:
            self.measure()
            cell = self.time_some(operation, size)
        ratio = round(cell["predicted_ns"] / cell["measured_ns"], 2) if cell else "nothing"
        print(operation, size, ratio, "" if cell and cell["counts"] else "does not count", file=sys.stderr, flush=True)
        return cell


def time_trees(team, operation):
    """All trees in turns. The machine is measured anew if its line differs from the model's."""
    names = ",".join(["smelt", *(f"smelt/{tree}" for tree in TREES)])
    for _ in range(TRIES):
        told = json.loads(team.run("bench", operation, "--threads", "2", "--bytes", "8", "--only", names, "--time", "3s",
                                   "--starts", "1", "--json"))
        if 1 / MOST_LINE < told["floor_ns"] / team.line_ns < MOST_LINE:
            break
        team.measure()
    return {"line": round(told["floor_ns"] / team.line_ns, 2),
            "results": [{"name": each["name"], "predicted_ns": round(each["predicted_ns"], 1),
                         "median_ns": round(each["median_ns"], 1)}
                        for each in told["results"] if each.get("predicted_ns") and each["median_ns"]]}


def write_trees(smelt, file):
    team = Team(smelt, 2, "threads")
    team.measure()
    document = {"question": "bench/fidelity.py, trees", "version": team.run("--version").strip(),
                "operations": {operation: time_trees(team, operation) for operation in PLANNED}}
    pathlib.Path(file).write_text(json.dumps(document, indent=1) + "\n")


def mean_error(cells):
    errors = [abs(each["predicted_ns"] / each["measured_ns"] - 1) for each in cells if each["counts"]]
    return round(statistics.fmean(errors), 3) if errors else None


def main():
    if sys.argv[1:] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    if sys.argv[3:] == ["trees"]:
        write_trees(*sys.argv[1:3])
        return
    if len(sys.argv) < 5 or not sys.argv[3].isdigit() or sys.argv[4] not in ("threads", "processes"):
        sys.exit("fidelity.py: expected SMELT FILE RANKS threads|processes, or SMELT FILE trees; --help says more")
    smelt, file, ranks, kind, *operations = sys.argv[1:]
    sizes = SIZES
    if operations[:1] == ["--sizes"]:
        if len(operations) < 2:
            sys.exit("fidelity.py: --sizes: a list is missing, such as 8,4K")
        sizes, operations = operations[1].split(","), operations[2:]
    team = Team(smelt, ranks, kind)
    team.measure()
    cells = [team.time(operation, size) for operation in operations or OPERATIONS
             for size in (sizes if operation != "barrier" else SIZES[:1])]
    cells = [each for each in cells if each]
    file = pathlib.Path(file)
    document = json.loads(file.read_text()) if file.exists() else {"question": "bench/fidelity.py", "teams": []}
    name = f"{ranks} {kind}"
    before = next((each for each in document["teams"] if each["team"] == name), {"cells": []})
    timed = {each["operation"] for each in cells}
    cells = [each for each in before["cells"] if each["operation"] not in timed] + cells
    document["teams"] = [each for each in document["teams"] if each["team"] != name]
    document["teams"].append({"team": name, "version": team.run("--version").strip(), "mean_error": mean_error(cells),
                              "cells": cells})
    document.pop("version", None)  # of files in which all teams had one
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{name}: mean error {mean_error(cells)} of {sum(each['counts'] for each in cells)} cells", file=sys.stderr)


main()
