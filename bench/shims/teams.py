#!/usr/bin/env python3
"""Question: what do the preload libraries change as a program gets more threads, or ranks of MPI?

Method: OpenMP's constructs, rounds of a pthread barrier and a clustering with either, then the collectives of an MPI
program; each alone and under `smelt run` by turns. A ratio is the median time alone over that with smelt.

Expected: no ratio below 1.

    shims/teams.py SMELT FILE [--threads 2,4,8,16] [--rounds 3] [--mpi "MPIEXEC ..." --suite PROGRAM]

The programs lie beside SMELT. PROGRAM is shims/mpi_suite.c, compiled for the MPI library of MPIEXEC.
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys

RUNTIMES = ("gomp", "libomp")
OPERATIONS = ("barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall", "reduce_scatter")
SIZES = (8, 1024, 32768, 262144)


def said(words, limit_s=120):
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit_s)
    except (OSError, subprocess.TimeoutExpired) as reason:
        sys.exit(f"teams.py: {words[0]}: {reason}")
    if done.returncode != 0:
        sys.exit(f"teams.py: {shlex.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def constructs(text):
    overheads = json.loads(text)["overheads"]
    return {name: each["median_ns"] for name, each in overheads.items() if name != "reference"}


def thread_programs(here, threads):
    """(name, words, reader of {what: ns})"""
    for runtime in RUNTIMES:
        yield f"OpenMP, {'libgomp' if runtime == 'gomp' else runtime}", \
            [here / f"bench_openmp_{runtime}", threads, 5, 200], constructs
    yield "pthread barrier", [here / "bench_pthread_barrier", threads, 0.3], \
        lambda text: {"round": json.loads(text)["round_ns"]}
    for kind in ("pthread", "openmp"):
        yield f"clustering, {kind}", [here / f"clustering_{kind}", "--threads", threads, "--chunk", 200], \
            lambda text: {"whole": float(text.split()[-2]) * 1e9}


def mpi_programs(launcher, suite, ranks):
    def read(text):
        lines = [line.split() for line in text.splitlines()]
        return {f"{words[0]} {words[1]}": float(words[3]) * 1e3 for words in lines if len(words) == 8 and words[0] in OPERATIONS}
    for operation in OPERATIONS:
        sizes = (0,) if operation == "barrier" else SIZES
        yield "MPI", [*launcher, "-n", ranks, suite, "-n", ranks, "-t", 30, operation, *sizes], read


def numbers(text):
    """Of an option: 2,4,8."""
    found = [int(each) for each in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt", type=pathlib.Path)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--threads", type=numbers, default=",".join(str(1 << k) for k in range(1, 20) if 1 << k <= os.cpu_count()))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpi", default="", help="the launcher with its options")
    parser.add_argument("--suite", help="mpi_suite.c, compiled")
    options = parser.parse_args()
    if not options.file.parent.is_dir():
        parser.error(f"{options.file.parent} is no directory")
    if options.mpi and not options.suite:
        parser.error("--mpi needs --suite")

    smelt = str(options.smelt.resolve())
    teams = sorted(set(options.threads), reverse=True)
    measured = {}  # (program, what, threads): {"alone": [ns], "smelt": [ns]}
    said([smelt, "measure"])
    document = {"question": __doc__.split("\n\n")[0].removeprefix("Question: "), "version": said([smelt, "--version"]).strip(),
                "machine": json.loads(said([smelt, "show", "--json"]))["name"]}
    for _ in range(options.rounds):
        for threads in teams:
            programs = list(thread_programs(options.smelt.resolve().parent, threads))
            if options.mpi:
                programs += mpi_programs(shlex.split(options.mpi), options.suite, threads)
            for program, words, read in programs:
                for way, front in (("alone", []), ("smelt", [smelt, "run"])):
                    for what, time_ns in read(said([*front, *map(str, words)])).items():
                        measured.setdefault((program, what, threads), {"alone": [], "smelt": []})[way].append(time_ns)
        document["cells"] = [{"program": program, "what": what, "threads": threads,
                              **{f"{way}_ns": [round(each, 1) for each in times] for way, times in ways.items()}}
                             for (program, what, threads), ways in measured.items()]
        options.file.write_text(json.dumps(document, indent=1) + "\n")
    for cell in document["cells"]:
        alone, with_smelt = (statistics.median(cell[way]) for way in ("alone_ns", "smelt_ns"))
        print(f"{cell['program']:20} {cell['what']:22} {cell['threads']:3} {alone:12.0f} {with_smelt:12.0f} {alone / with_smelt:6.2f}")


main()
