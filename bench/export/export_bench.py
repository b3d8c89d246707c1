#!/usr/bin/env python3
"""Is what `smelt export` writes slower than the defaults of Open MPI and MPICH?

Question   median time of a collective with the exported settings against the defaults
Method     the same program (mpi_collectives.c), one process group after the other: default, exported, exported,
           default, ...; per group the median over its calls. Per cell the median of the ratios of neighbouring groups, an
           interval and a verdict; rounds during which the machine's floor moved are taken again (python/noise.py)
Shape      ratios of 1 where the settings leave a size to the runtime, above 1 where they decide it

usage: export_bench.py [--smelt PATH] [--model FILE] [--ranks 2,4] [--rounds 7] [--calls 200] [--json FILE]
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "python"))
import noise  # noqa: E402

SIZES = [8, 4096, 262144, 4194304]


def first_program(*names):
    return next((found for found in map(shutil.which, names) if found), None)


class OpenMpi:
    name = "openmpi"
    compiler = first_program("mpicc.openmpi")
    launcher = first_program("mpirun.openmpi")

    def command(self, ranks, crowded, settings):
        words = [self.launcher, "--oversubscribe", "-n", str(ranks)]
        words += ["--bind-to", "none"] if crowded else ["--bind-to", "core"]
        if os.geteuid() == 0:
            words.append("--allow-run-as-root")
        if settings:
            words += ["--mca", "coll_tuned_use_dynamic_rules", "1",
                      "--mca", "coll_tuned_dynamic_rules_filename", settings]
        return words, {}


class Mpich:
    name = "mpich"
    compiler = first_program("mpicc.mpich")
    launcher = first_program("mpiexec.mpich")

    def command(self, ranks, crowded, settings):
        words = [self.launcher, "-n", str(ranks)] + ([] if crowded else ["-bind-to", "core"])
        return words, {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": settings} if settings else {}


def run_group(runtime, program, ranks, settings, arguments):
    crowded = ranks > len(os.sched_getaffinity(0))
    words, environment = runtime.command(ranks, crowded, settings)
    calls = max(10, arguments.calls // (10 if crowded else 1))
    result = subprocess.run(words + [program, str(calls)] + [str(size) for size in arguments.sizes],
                            env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)
    if result.returncode != 0:
        sys.exit(f"{runtime.name}: {' '.join(words)}: {result.stderr.strip()}")
    return {(op, int(size)): float(ns) for op, size, ns in map(str.split, result.stdout.splitlines())}


def export(runtime, ranks, arguments, folder):
    settings = os.path.join(folder, f"{runtime.name}-{ranks}")
    words = [arguments.smelt, "export", "--for", runtime.name, "--ranks", str(ranks), "-o", settings]
    subprocess.run(words + (["-m", arguments.model] if arguments.model else []), check=True, stderr=subprocess.DEVNULL)
    return settings


def contest(runtime, ranks, arguments, folder):
    program = os.path.join(folder, runtime.name)
    subprocess.run([runtime.compiler, "-O2", "-o", program, os.path.join(HERE, "mpi_collectives.c")], check=True)
    settings = {"default": None, "exported": export(runtime, ranks, arguments, folder)}
    watch, retakes, rounds = noise.Contest(lambda: noise.floor_now(arguments.smelt)), noise.Retakes(), []
    while len(rounds) < arguments.rounds:
        order = list(settings) if len(rounds) % 2 == 0 else list(settings)[::-1]
        taken, _ = watch.steady(
            lambda: {name: run_group(runtime, program, ranks, settings[name], arguments) for name in order}, retakes)
        rounds.append(taken)
    if retakes.taken_again:
        print(f"{runtime.name}, {ranks} ranks: {retakes.taken_again} rounds taken again, as the floor moved")
    rows = []
    for cell in rounds[0]["default"]:
        samples = {name: [taken[name][cell] for taken in rounds] for name in settings}
        finding = noise.judge([default / exported for default, exported in zip(samples["default"], samples["exported"])])
        rows.append({"runtime": runtime.name, "ranks": ranks, "operation": cell[0], "bytes": cell[1],
                     "default_ns": statistics.median(samples["default"]),
                     "exported_ns": statistics.median(samples["exported"]), "ratio": finding.ratio.median,
                     "low": finding.ratio.low, "high": finding.ratio.high, "verdict": finding.verdict,
                     "default_samples": samples["default"], "exported_samples": samples["exported"]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=shutil.which("smelt") or "smelt")
    parser.add_argument("--model", help="machine file; default: the measured model of this machine")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--json", help="file for all samples")
    arguments = parser.parse_args()
    arguments.sizes = [int(size) for size in arguments.sizes.split(",")]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for runtime in (OpenMpi(), Mpich()):
            if not runtime.compiler or not runtime.launcher:
                print(f"{runtime.name}: not installed, left out")
                continue
            for ranks in map(int, arguments.ranks.split(",")):
                rows += contest(runtime, ranks, arguments, folder)
    print(f"{'runtime':8} {'ranks':>5} {'operation':10} {'bytes':>9} {'default us':>11} {'exported us':>11} {'ratio':>6} "
          f"{'interval':>12}  exported is")
    for row in rows:
        print(f"{row['runtime']:8} {row['ranks']:5} {row['operation']:10} {row['bytes']:9} "
              f"{row['default_ns'] / 1e3:11.2f} {row['exported_ns'] / 1e3:11.2f} {row['ratio']:6.2f} "
              f"{row['low']:5.2f}..{row['high']:5.2f}  {row['verdict']}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "smelt-export-bench/1", "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
