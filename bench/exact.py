#!/usr/bin/env python3
"""Question: how long does the exact planner take to prove a tree optimal, under the model with rows of messages?

Method: `smelt plan --topology optimal` without a limit of time, for the first ranks of a machine, half of them on each
package. Processor time includes reading the file and printing.

Expected: broadcast, reduce, barrier and allreduce of 10 ranks are proved within 10 s.

    exact.py SMELT MODEL [RANKS ...] > bench/results/simulated/exact-planner.json
"""
import json
import os
import subprocess
import sys

PROVED = ["broadcast", "reduce", "barrier", "allreduce"]


def spread(pus, ranks):
    packages = {}
    for pu in pus:
        packages.setdefault(pu["package"], []).append(pu["os_index"])
    turns = [pu for turn in zip(*packages.values()) for pu in turn]
    return ",".join(str(pu) for pu in turns[:ranks])


def proved_in(smelt, model, operation, ranks):
    """Seconds of processor time of a proof."""
    child = subprocess.Popen([smelt, "plan", "-m", model, "--op", operation, "--topology", "optimal", "--ranks", ranks,
                              "--search-ms", "0", "--json"], stdout=subprocess.PIPE)
    told = json.load(child.stdout)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0 or not told["optimal"]:
        sys.exit(f"{operation} of ranks {ranks}: status {child.returncode}, no proof")
    return round(usage.ru_utime + usage.ru_stime, 3)


def main():
    smelt, model, *counts = sys.argv[1:]
    with open(model) as file:
        machine = json.load(file)
    rows = []
    for count in [int(each) for each in counts] or [8, 10, 12, 14, 16]:
        ranks = spread(machine["pus"], count)
        rows.append([count, *(proved_in(smelt, model, operation, ranks) for operation in PROVED)])
    json.dump({"question": "Processor time in seconds until the exact planner has proved a plan, by ranks on "
                           + machine["name"] + ".",
               "version": subprocess.run([smelt, "--version"], capture_output=True, text=True).stdout.strip(),
               "columns": ["ranks", *(f"{operation}_s" for operation in PROVED)], "rows": rows}, sys.stdout, indent=2)
    print()


main()
