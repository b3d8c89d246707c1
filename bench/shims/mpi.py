#!/usr/bin/env python3
"""MPI collectives with and without the shim, in turns: one JSON document on stdout, a table on stderr.

    python3 bench/shims/mpi.py [--build build/release] [--ranks 2] [--rounds 3] [--most-rounds 14] [--time-us 20000]
                               [--mpi openmpi,mpich] [--operations a,b] [--sizes 8,4096]

ratio: time of the library alone over time with the shim, the median over rounds; above 1 the shim is faster. A cell goes on
while its verdict is open, and what was taken while the machine's floor moved is taken again (python/noise.py).
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
import noise  # noqa: E402

OPERATIONS = ["barrier", "bcast", "reduce", "allreduce", "scatter", "gather", "allgather", "alltoall",
              "reduce_scatter_block", "scan", "exscan", "reduce_scatter", "scatterv", "gatherv", "allgatherv",
              "alltoallv", "alltoallw"]
# Blocking, nonblocking, the same with computation between start and wait, persistent.
OPERATIONS = [before + each + after for before, after in (("", ""), ("i", ""), ("i", "+work"), ("p", ""))
              for each in OPERATIONS]
# No contest: these of MPICH 4.0 do not move all data again at every start. Receivers keep what they got at the first,
# the root of a gather its own block of the time of MPI_Gather_init, which takes part of the copies out of each start.
WRONG = {"mpich": ["pscatter", "pgather", "pallgather"]}
SIZES = [8, 128, 2048, 32768, 524288, 4 << 20]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--most-rounds", type=int, default=14)
    parser.add_argument("--time-us", type=int, default=20000)
    parser.add_argument("--mpi", default="openmpi,mpich")
    parser.add_argument("--operations", default=",".join(OPERATIONS))
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    arguments = parser.parse_args()
    build = pathlib.Path(arguments.build).resolve()
    results = []
    contest = noise.Contest(lambda: noise.floor_now(str(build / "bin" / "smelt")), arguments.rounds, arguments.most_rounds)
    for mpi in arguments.mpi.split(","):
        program, shim = build / "bin" / f"shim_bench_mpi_{mpi}", build / "lib/libsmelt_mpi.so"
        if not program.exists() or not shim.exists():
            print(f"{mpi}: not built, left out", file=sys.stderr)
            continue
        for operation in arguments.operations.split(","):
            if operation in WRONG.get(mpi, []):
                print(f"{mpi:8} {operation:21} left out: wrong results without the shim", file=sys.stderr)
                continue
            for size in ["0"] if "barrier" in operation else arguments.sizes.split(","):
                def take():
                    plain, ours = (once(mpi, arguments, program, with_shim, operation, size) for with_shim in (None, shim))
                    return ours, plain
                finding, samples = contest.compare(take)
                ours, plain = (statistics.median(times) for times in zip(*samples["pairs"]))
                ratio = finding.ratio
                results.append({"mpi": mpi, "operation": operation, "bytes": int(size), "ranks": arguments.ranks,
                                "plain_ns": plain, "shim_ns": ours, "ratio": ratio.median, "low": ratio.low,
                                "high": ratio.high, "starts": ratio.count, "verdict": finding.verdict})
                print(f"{mpi:8} {operation:21} {size:>8} B {plain:12.0f} ns {ours:12.0f} ns {ratio.median:6.2f} "
                      f"[{ratio.low:.2f}, {ratio.high:.2f}] {finding.verdict}", file=sys.stderr)
    if not results:
        sys.exit(2)
    mean = math.exp(statistics.fmean(math.log(each["ratio"]) for each in results))
    print(f"geometric mean {mean:.2f}, least {min(each['ratio'] for each in results):.2f}", file=sys.stderr)
    print(json.dumps({"benchmark": "shim-mpi", "geometric_mean": mean, **contest.summary(), "results": results}, indent=1))


def once(mpi, arguments, program, shim, operation, size):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    preload = ["env", f"LD_PRELOAD={shim}"] if shim else []
    run = subprocess.run([f"mpirun.{mpi}", "-n", str(arguments.ranks), *preload, program, operation, size,
                          str(arguments.time_us)], env=environment, capture_output=True, text=True, check=True,
                         timeout=60)
    return float(run.stdout.split()[-1])


if __name__ == "__main__":
    main()
