#!/usr/bin/env python3
"""Question: how does the cost of planning grow with the number of PUs?

Method: for synthetic machines of 64 to 16384 PUs, of up to 16 packages, the command is run once for each step: write the
model file, show it, plan each operation that has a tree, explain each operation among all PUs, for 8 bytes, where the
command takes as many ranks. Processor time and the largest resident size are those of the process, so that reading the
file and printing are included, and other work on the machine is not.

Expected: at 4096 PUs a file of at most 5 MB, every plan within 1 s and 200 MiB.

    scale.py SMELT [PUS ...] > bench/results/simulated/planning-by-pus.json
"""
import json
import os
import subprocess
import sys
import tempfile

PLANNED = ["broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"]
EXPLAINED = ["broadcast", "reduce", "allreduce", "alltoall"]
OTHERS = ["scatter", "gather", "allgather", "reduce-scatter", "scan", "exscan"]
MOST_EXPLAINED = 4096  # ranks
SHAPES = {64: (2, 16, 2, 2), 256: (4, 32, 2, 4), 1024: (8, 64, 2, 8), 4096: (16, 128, 2, 16), 16384: (16, 512, 2, 32)}


def run(command):
    """Seconds of processor time and MiB resident of a command that succeeds."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {child.returncode}")
    return round(usage.ru_utime + usage.ru_stime, 3), round(usage.ru_maxrss / 1024, 1)


def row(smelt, directory, pus):
    packages, cores, smt, l3 = SHAPES[pus]
    file = os.path.join(directory, f"{pus}.json")
    run([smelt, "synth", "--packages", str(packages), "--cores", str(cores), "--smt", str(smt), "--l3", str(l3),
         "-o", file])
    show_s, _ = run([smelt, "show", file])
    plans = [run([smelt, "plan", "-m", file, "--op", operation]) for operation in PLANNED]

    def explained(operation):
        if pus > MOST_EXPLAINED:
            return None, 0
        return run([smelt, "explain", operation, "--bytes", "8", "-m", file, "--ranks", str(pus)])

    explains = [explained(operation) for operation in EXPLAINED]
    others = [explained(operation) for operation in OTHERS]
    return [pus, os.path.getsize(file), show_s] + [seconds for seconds, _ in plans + explains] + [
        max(seconds for seconds, _ in others) if pus <= MOST_EXPLAINED else None, max(mib for _, mib in plans + explains + others)]


def main():
    smelt = sys.argv[1]
    sizes = [int(size) for size in sys.argv[2:]] or sorted(SHAPES)
    with tempfile.TemporaryDirectory() as directory:
        rows = [row(smelt, directory, pus) for pus in sizes]
    json.dump({"question": "Processor time in seconds of smelt show, plan and explain, file and memory, by number of PUs.",
               "version": subprocess.run([smelt, "--version"], capture_output=True, text=True).stdout.strip(),
               "columns": ["pus", "file_bytes", "show_s", *(f"plan {name}_s" for name in PLANNED),
                           *(f"explain {name}_s" for name in EXPLAINED), "explain another_s", "resident_mib"],
               "rows": rows}, sys.stdout, indent=2)
    print()


main()
