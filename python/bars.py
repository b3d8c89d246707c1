#!/usr/bin/env python3
"""The project's performance bars, measured here in one go.

    python3 python/bars.py [--set mpi] [--smelt build/release/bin/smelt] [--out DIRECTORY] [--time 12s]

Runs `smelt measure` and `smelt bench` for what the bars of the chosen sets need, saves every JSON document in the
directory, and prints one line per bar: what was measured, the limit, and whether it holds.
Each ratio is the median of the ratios of interleaved starts, beside it an interval that holds it with 98 % and whether that
decides the bar; time is spent where it does not, and what was taken while the machine's floor moved is taken again
(noise.py). Only where a bar compares two operations it is one of medians. Exit status: 0 if all bars hold, 1 if one does not, 2 if one could not be measured.

The sets:
    basic           barriers, small collectives and channels of threads, against what users write them with
    mpi             every operation between 2 processes, 8 bytes to 16 MiB, against Open MPI and MPICH
    oversubscribed  8 and 16 processes on the PUs that there are, 8 bytes and 64 KiB, against the same
    bandwidth       broadcast and allreduce of 16 MiB against memcpy and a vector sum by two threads
    sync            back-to-back reductions, loosely against strictly synchronized
    tuned           smelt's choice, tuned in the same run, against each of its algorithms, all operations and sizes
    repeat          two runs of smelt tune, threads and processes: whether they come to the same plans
    late            a rank that enters late: what is left to do once it is there, planned for it and not
    openmp          overheads of OpenMP's constructs, 2 and 8 threads, both runtimes, with the preload library and without
    pthread         programs that use pthread barriers, with `smelt run` and without, by turns
    uneven          threads that come late to barriers, beside programs that compute, with the preload libraries and without
    shim-mpi        every operation of Open MPI and MPICH, 2 processes, with the preload library and without, by turns
    state           maps and logs against those of other libraries, crates and servers (bench/state/run.py)
    mpi-suite       MPI programs under `smelt run` and alone, timed as Intel's MPI Benchmarks do, five MPI libraries
"""

import argparse
import json
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import noise
import state_results

CK = ["ck-dissemination", "ck-mcs", "ck-tournament", "ck-centralized", "ck-combining"]
OPENMP = ["gomp", "libomp"]
EVERYDAY = ["pthread", "std-barrier", "gomp", "libomp"]
QUEUES = ["boost-spsc", "moodycamel-spsc", "moodycamel-concurrent", "tbb-bounded"]
MPI = ["openmpi", "mpich"]

SIZED = ["broadcast", "reduce", "allreduce", "scatter", "gather", "allgather", "alltoall", "reduce-scatter", "scan",
         "exscan", "two-phase-commit"]
OPERATIONS = ["barrier", *SIZED]
LARGEST = 16 << 20
SIZES = [8 * 4**k for k in range(11)] + [LARGEST]
SETS = ["basic", "mpi", "oversubscribed", "bandwidth", "sync", "tuned", "repeat", "late", "pthread", "openmp",
        "uneven", "shim-mpi", "state", "mpi-suite"]
# Seconds for each benchmark of a set, the start of the contestants not counted; basic: smelt bench's own.
TIMES = {"mpi": "1.5s", "oversubscribed": "3s", "bandwidth": "6s", "sync": "2s", "tuned": "2s", "late": "2s"}
# New processes for each contestant within that time: where their memory lies decides times of some hundred bytes by 15 %.
STARTS = {"basic": 7}
FIRST_STARTS = 3  # of the others
UNEVEN = [f"{runtime}-{threads}" for runtime in ("pthread", "gomp", "libomp") for threads in (2, 4, 8)]
UNEVEN_LIMIT = 0.75  # how far medians of means are apart that differ by nothing: whole time slices go here or there
TUNING = 60  # seconds of `smelt tune`
LATE_MACHINES = [["--packages", "2", "--cores", "8", "--l3", "2"], ["--packages", "4", "--cores", "8"]]
# A contestant that is not decided against the limit is measured again at the end of the set against smelt alone, until it
# is, with MOST_STARTS starts at most; all starts count. Each is AGAIN_LONGER times as long as at first: the fastest of many
# owes a part of its lead to the luck of that moment, and by how much who leads may change from one minute to the next.
AGAIN_LONGER, MOST_STARTS = 2, 40

# Round trips of two models that say the same, and after how many models the last one counts.
STEADY, MEASUREMENTS = 1.3, 5


class Missing(Exception):
    """A number that a bar needs is not there."""


class Row:
    """A bar's outcome, one line of the table."""

    def __init__(self, what, measured, limit, holds, remark):
        self.what, self.measured, self.limit, self.holds, self.remark = what, measured, limit, holds, remark

    @classmethod
    def missing(cls, what, reason):
        return cls(what, None, None, None, str(reason))

    def cells(self):
        number = lambda value: "-" if value is None else f"{value:.2f}"
        verdict = "?" if self.holds is None else "yes" if self.holds else "NO"
        return self.what, number(self.measured), number(self.limit), verdict, self.remark


def interval_text(ratio):
    """Of a noise.Interval."""
    return f"[{ratio.low:.2f}, {ratio.high:.2f}] of {ratio.count} starts"


def seconds(text):
    return float(text[:-2]) / 1000 if text.endswith("ms") else float(text.rstrip("s"))


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


class Bench:
    """Runs `smelt` and keeps what it says."""

    def __init__(self, smelt, directory, time):
        self.smelt, self.directory, self.time = smelt, directory, time
        self.documents = {}
        self.floors = []  # of all starts
        self.retaken = self.unsteady = 0

    def measure(self):
        """A hypervisor may move PUs away from each other for some seconds: a model counts that the next one confirms."""
        before = None
        for _ in range(MEASUREMENTS):
            subprocess.run([self.smelt, "measure"], stdout=subprocess.DEVNULL, check=True)
            model = json.loads(subprocess.run([self.smelt, "show", "--json"], stdout=subprocess.PIPE, check=True).stdout)
            trips = [each for row in model.get("rtt_ns", []) for each in row if each]
            now = statistics.median(trips) if trips else None
            if now is None or before is not None and max(now, before) < STEADY * min(now, before):
                return
            before = now

    def run(self, benchmark, *arguments):
        document = self.ask("bench", benchmark, *arguments, "--floor")
        self.retaken += document["retaken"]
        self.unsteady += document["unsteady"]
        for result in document["results"]:
            if result["name"] == "floor":
                self.floors += [each for each in result["starts_ns"] if each]
        return document

    def ask(self, *words):
        """What `smelt WORDS... --json` answers."""
        command = [self.smelt, *words, "--json"]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            raise Missing(f"smelt {' '.join(words[:2])}: " + (run.stderr.strip() or f"status {run.returncode}"))
        document = json.loads(run.stdout)
        document["remarks"] = run.stderr.strip().splitlines()
        return document

    def save(self, name, document):
        (self.directory / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")

    def document(self, benchmark, threads, size=8, only=()):
        """Of threads, run once for all bars that ask."""
        key = f"{benchmark}-{threads}-threads-{size}-bytes"
        if key not in self.documents:
            print(f"running {key}", file=sys.stderr)
            self.measure()  # clock rates drift: a prediction is held against timings of the same minute
            arguments = ["--threads", str(threads), "--bytes", str(size), "--starts", str(STARTS["basic"])]
            arguments += ["--time", self.time] if self.time else []
            arguments += ["--only", ",".join(only)] if only else []
            self.documents[key] = self.run(benchmark, *arguments)
            self.save(key, self.documents[key])
        return self.documents[key]

    def value(self, name, field, *where, **options):
        return value_in(self.document(*where, **options), name, field)

    def median(self, name, *where, **options):
        return self.value(name, "median_ns", *where, **options)

    def best(self, names, field, pick, *where, **options):
        """(value, name) of the best of the peers that ran."""
        found = []
        for name in names:
            try:
                found.append((self.value(name, field, *where, **options), name))
            except Missing:
                pass
        if not found:
            raise Missing("none of " + ", ".join(names))
        return pick(found)


def value_in(document, name, field="median_ns"):
    for result in document["results"]:
        if result["name"] == name and result.get(field) is not None:
            return result[field]
    reasons = [line for line in document.get("remarks", []) if f": {name}: " in line]
    raise Missing(reasons[0].split("left out: ")[-1] if reasons else f"no {field} of {name}")


def usual_starts(document, floors):
    """Which starts count: those in which a cache line takes about as long to the other PU and back as at the lower quartile
    of `floors`, of all starts so far, or where there are none, as in most of this document's. The host of a virtual machine
    moves its PUs, which makes it another machine; smelt tune knows its usual moments by the same rule."""
    own = value_in(document, "floor", "starts_ns")
    known = [each for each in own if each]
    for usual in (sorted(floors)[len(floors) // 4] if floors else 0.0, statistics.median(known) if known else 0.0):
        usual_ones = [not each or usual / 2 < each < usual * 2 for each in own]
        if any(usual_ones):
            break
    return usual_ones


class Matrix:
    """Benchmarks over operations, sizes and numbers of ranks: how many times as long others take as smelt.
    `others`: of whom there is a table, and who is missed where absent."""

    def __init__(self, bench, name, limit, others, processes=True, own="smelt"):
        self.bench, self.name, self.limit, self.others = bench, name, limit, others
        self.processes, self.own = processes, own
        self.time = seconds(bench.time or TIMES[name])
        self.starts = STARTS.get(name, FIRST_STARTS)
        self.documents, self.ratios, self.missing = [], {}, []
        self.cells, self.by_start, self.ran, self.reasons = {}, {}, {}, {}
        self.leaders = {}  # by cell: who is "best"

    def cell(self, operation, size, ranks, contestants, *more):
        """Measures one; `contestants` without smelt itself."""
        self.cells[operation, size, ranks] = contestants, more
        self.measure((operation, size, ranks), contestants)

    def measure(self, where, rivals, longer=1, starts=None):
        """Adds to what is known of a cell's rivals."""
        starts = starts or self.starts
        operation, size, ranks = where
        print(f"{self.name}: {operation} {size_text(size)}, {ranks} ranks", file=sys.stderr)
        arguments = ["--threads", str(ranks), "--bytes", str(size), *self.cells[where][1]]
        arguments += ["--processes"] if self.processes else []
        try:
            document = self.bench.run(operation, *arguments, "--only", ",".join([self.own, *rivals]),
                                      "--time", f"{self.time / self.starts * longer * starts}s", "--starts", str(starts))
            self.documents.append(document)
            self.ran[where] = self.without_sample(document) | {each["name"] for each in document["results"]}
            for name, ratios in self.compare(document, rivals).items():
                self.by_start.setdefault((where, name), []).extend(ratios)
        except Missing as reason:
            self.reasons[where] = str(reason)

    def known(self, where, name):
        """Ratios so far."""
        return self.by_start.get((where, name), [])

    def is_open(self, where, name):
        """Whether more starts could tell on which side of the limit it is; one that was disturbed each time is open, too."""
        ratios = self.known(where, name)
        return noise.against(ratios, self.limit) is None if ratios else name in self.ran.get(where, ())

    def again(self):
        """Whoever is not decided is measured again; then the ratios are there."""
        count = self.starts
        while count < MOST_STARTS:
            count, before = min(MOST_STARTS, noise.next_look(count)), count
            for where, (contestants, _) in self.cells.items():
                rivals = [name for name in contestants if self.is_open(where, name)]
                if rivals:
                    self.measure(where, rivals, AGAIN_LONGER, count - before)
        for where, (contestants, _) in self.cells.items():
            found = {name: statistics.median(self.by_start[where, name]) for name in contestants
                     if (where, name) in self.by_start}
            absent = [name for name in contestants if name not in found]
            if found or not contestants:
                self.ratios[where] = found
            if absent and (self.others is not None or not found):
                operation, size, ranks = where
                reason = self.reasons.get(where, f"nothing measured of {', '.join(absent)}")
                self.missing.append(f"{operation} {size_text(size)}, {ranks} ranks: {reason}")

    @staticmethod
    def without_sample(document):
        """Who ran, but was disturbed each time."""
        ending = ": left out: no valid sample"
        return {line.split(": ")[-3] for line in document.get("remarks", []) if line.endswith(ending)}

    def compare(self, document, contestants):
        """How many times as long as smelt others take, by start: what the machine does in the minute of one start concerns
        all who run in it."""
        own, usual, ratios = value_in(document, self.own, "starts_ns"), usual_starts(document, self.bench.floors), {}
        for name in contestants:
            try:
                pairs = zip(value_in(document, name, "starts_ns"), own, usual)
                # 0: less than the clock's own time, nothing was measured.
                both = [theirs / ours for theirs, ours, counts in pairs if counts and theirs is not None and ours]
            except Missing:
                continue
            if both:
                ratios[name] = both
        return ratios

    def finding(self, where, name):
        """By the rule, on smelt; of "best" that of the one that leads."""
        leader = self.leaders.get(where, name) if name == "best" else name
        return noise.judge(self.known(where, leader))

    def verdicts(self):
        """How many cells there are of each."""
        found = [self.finding(where, name).verdict for where, ratios in self.ratios.items() for name in ratios]
        return {verdict: found.count(verdict) for verdict in (noise.FASTER, noise.EQUAL, noise.SLOWER, noise.UNDECIDED)}

    def of(self, name, ranks=None):
        """(ratio, operation, size) of all cells in which a contestant ran."""
        return [(ratios[name], where[0], where[1]) for where, ratios in self.ratios.items()
                if name in ratios and ranks in (None, where[2])]

    def report(self):
        """Saves the documents, and prints a table of ratios: operations down, sizes across."""
        cells = [{"operation": where[0], "bytes": where[1], "ranks": where[2], "times_as_long": ratios,
                  "findings": {name: self.finding(where, name).document() for name in ratios}}
                 for where, ratios in self.ratios.items()]
        self.bench.save(self.name, {"set": self.name, "cells": cells, "missing": self.missing,
                                    "retaken": self.bench.retaken, "unsteady": self.bench.unsteady,
                                    "verdicts": self.verdicts(), "documents": self.documents})
        print(f"{self.name}: " + ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts().items()) +
              f"; {self.bench.retaken} starts taken again because the floor moved, {self.bench.unsteady} kept all the same")
        for ranks in sorted({where[2] for where in self.ratios}):
            for name in self.others or []:
                if self.of(name, ranks):
                    self.print_ratios(name, ranks)

    def print_ratios(self, name, ranks):
        print(f"{name} / {self.own}, {ranks} ranks")
        sizes = sorted({where[1] for where in self.ratios if where[0] != "barrier"})
        rows = [["", *(size_text(size) for size in sizes)]]
        for operation in OPERATIONS:
            cells = {size: ratio for ratio, each, size in self.of(name, ranks) if each == operation}
            if cells:
                rows.append([operation, *(f"{cells[size]:.2f}" if size in cells else "" for size in sizes)])
        print_table(rows)
        print()

    def worst(self, name, ranks=None):
        """Row arguments: the smallest ratio against its limit, and how often smelt is behind at all."""
        found = self.of(name, ranks)
        if not found:
            raise Missing(self.missing[0] if self.missing else "nothing ran")
        ratio, operation, size = min(found)
        behind = sum(each[0] < 1.0 for each in found)
        where = next(each for each in self.ratios if each[:2] == (operation, size) and ranks in (None, each[2]))
        interval = interval_text(self.finding(where, name).ratio)
        remark = f"{operation} {size_text(size)} {interval}; below 1 in {behind} of {len(found)} cells"
        return ratio, self.limit, ratio >= self.limit, remark

    def mean(self, name, limit):
        found = self.of(name)
        if not found:
            raise Missing(self.missing[0] if self.missing else "nothing ran")
        mean = math.exp(sum(math.log(each[0]) for each in found) / len(found))
        return mean, limit, mean >= limit, f"geometric mean over {len(found)} cells"

    def complete(self, what):
        """A row for what could not be measured, or none."""
        return [Row.missing(f"{what}: {len(self.missing)} not measured", self.missing[0])] if self.missing else []


def row(what, measure):
    try:
        return Row(what, *measure())
    except (Missing, OSError, ValueError, subprocess.CalledProcessError) as reason:
        return Row.missing(what, reason)


def chosen_sizes(operation, choice):
    return [8] if operation == "barrier" else choice.sizes


def mpi_bars(bench, choice):
    bench.measure()
    matrix = Matrix(bench, "mpi", 0.95, MPI)
    for operation in choice.operations:
        for size in chosen_sizes(operation, choice):
            matrix.cell(operation, size, 2, MPI)
    matrix.again()
    matrix.report()
    for name in MPI:
        yield row(f"2 processes, {name} / smelt, mean", lambda name=name: matrix.mean(name, 1.5))
        yield row(f"2 processes, {name} / smelt, worst", lambda name=name: matrix.worst(name))
    yield from matrix.complete("2 processes")


def oversubscribed_bars(bench, choice):
    bench.measure()
    matrix = Matrix(bench, "oversubscribed", 1.0, MPI)
    for ranks in (8, 16):
        for operation in choice.operations:
            for size in [8] if operation == "barrier" else [8, 64 << 10]:
                matrix.cell(operation, size, ranks, MPI)
    matrix.again()
    matrix.report()
    for ranks in (8, 16):
        for name in MPI:
            yield row(f"{ranks} processes, {name} / smelt, worst",
                      lambda name=name, ranks=ranks: matrix.worst(name, ranks))
    yield from matrix.complete("8 and 16 processes")


def bandwidth_bars(bench, _):
    bench.measure()
    for processes in (False, True):
        matrix = Matrix(bench, "bandwidth", 0.9, None, processes)
        references = (("broadcast", "memcpy"), ("allreduce", "vector-add"))
        for operation, reference in references:
            matrix.cell(operation, LARGEST, 2, [reference])
        matrix.again()
        for operation, reference in references:
            what = f"{operation} of 16 MiB, 2 {'processes' if processes else 'threads'}, {reference} / smelt"
            yield row(what, lambda reference=reference: matrix.worst(reference))
        bench.save(f"bandwidth-{'processes' if processes else 'threads'}", {"documents": matrix.documents})


def sync_bars(bench, choice):
    bench.measure()
    matrix = Matrix(bench, "sync", 1.0, ["smelt/strict"], processes=False, own="smelt/loose")
    for operation in [each for each in choice.operations if each in ("reduce", "allreduce")]:
        for size in choice.sizes:
            matrix.cell(operation, size, 2, ["smelt/strict"], "--method", "back-to-back")
    matrix.again()
    matrix.report()
    yield row("back-to-back reductions, strict / loose, worst", lambda: matrix.worst("smelt/strict"))
    yield row("back-to-back reductions, strict / loose, mean", lambda: matrix.mean("smelt/strict", 1.0))
    yield from matrix.complete("back-to-back reductions")


def tunable(choice):
    return [each for each in choice.operations if each not in ("barrier", "two-phase-commit")]


def tuned_bars(bench, choice):
    """The fixed algorithm that smelt has chosen anyway is no rival: what it takes under its own name shows the noise."""
    bench.measure()
    operations = tunable(choice)
    if choice.tune_time:
        bench.ask("tune", "--fresh", "--for", "threads", "--ops", ",".join(operations), "--time", choice.tune_time)
    algorithms = bench.ask("explain", "--algorithms")["algorithms"]
    matrix, same = Matrix(bench, "tuned", 1 / 1.03, None, processes=False), []
    for operation in operations:
        fixed = {f"smelt/{each['name']}": f"{each['name']}+{each['access'][0]}" for each in algorithms
                 if each["operation"] == operation}
        for size in choice.sizes:
            runs = bench.ask("explain", operation, "--bytes", str(size), "--ranks", "2")["recipe"]
            matrix.cell(operation, size, 2, [name for name, recipe in fixed.items() if recipe != runs])
            same += placebo(bench, matrix, operation, size, [name for name, recipe in fixed.items() if recipe == runs])
    matrix.again()
    best = {where: min(ratios.items(), key=lambda each: each[1]) for where, ratios in matrix.ratios.items() if ratios}
    matrix.ratios = {where: {"best": ratio} for where, (_, ratio) in best.items()}
    matrix.leaders = {where: name for where, (name, _) in best.items()}
    matrix.others = ["best"]
    matrix.report()
    yield row("best other fixed algorithm / smelt's choice, worst", lambda: matrix.worst("best"))
    if same:
        yield Row("the same algorithm under its own name / smelt's choice, worst", min(same), None, True,
                  f"noise: {len(same)} cells, median {sorted(same)[len(same) // 2]:.2f}")
    yield from matrix.complete("fixed algorithms")


def placebo(bench, matrix, operation, size, names):
    if not names:
        return []
    try:
        document = bench.run(operation, "--threads", "2", "--bytes", str(size), "--only", ",".join(["smelt", *names]),
                             "--time", f"{matrix.time}s", "--starts", str(matrix.starts))
        return [statistics.median(ratios) for ratios in matrix.compare(document, names).values()]
    except Missing:
        return []  # the matrix has said so


def repeat_bars(bench, choice):
    bench.measure()
    files = [str(bench.directory / f"repeat-{name}.profile.json") for name in ("first", "second")]
    time = choice.tune_time or f"{TUNING}s"
    longest = 0.0
    for file in files:
        pathlib.Path(file).unlink(missing_ok=True)
        print(f"repeat: tuning for {time}", file=sys.stderr)
        tuned = bench.ask("tune", "--fresh", "--time", time, "-o", file, "--ops", ",".join(tunable(choice)))
        longest = max(longest, tuned["elapsed_s"])
    compared = bench.ask("tune", "--compare", *files)
    bench.save("repeat", compared)
    counts = ", ".join(f"{compared[kind]} {kind}" for kind in ("same", "same-schedule", "equal", "different"))
    yield Row(f"tune --time {time}: seconds", longest, seconds(time), longest <= seconds(time), "the longer of two runs")
    yield Row("a second run comes to the same or an equal plan", compared["agreement"], 0.95,
              compared["agreement"] >= 0.95, f"{compared['cells']} cells: {counts}")


def late_bars(bench, choice):
    """No bar: tables of what is left to do when the last rank comes."""
    bench.measure()
    found, missing = {"measured": [], "simulated": []}, []
    for operation in [each for each in choice.operations if each in ("broadcast", "reduce", "allreduce")]:
        for size in [each for each in choice.sizes if each in (8, 32768)]:
            for rank, late in ((0, 10_000), (0, 100_000), (1, 10_000), (1, 100_000)):
                try:
                    found["measured"].append(late_measured(bench, operation, size, rank, late))
                except Missing as reason:
                    missing.append(f"{operation} {size_text(size)}, rank {rank}: {reason}")
            for machine in LATE_MACHINES:
                found["simulated"] += [late_simulated(bench, machine, operation, size, late)
                                       for late in (1_000, 10_000, 100_000)]
    bench.save("late", {**found, "missing": missing})
    print("measured, 2 threads: us left once the late rank is there")
    print_table([["operation", "size", "late rank", "by us", "not known", "planned for"], *(
        [each["operation"], size_text(each["bytes"]), str(each["rank"]), f"{each['late_ns'] / 1000:g}",
         f"{each['unaware_ns'] / 1000:.2f}", f"{each['aware_ns'] / 1000:.2f}"] for each in found["measured"])])
    print("\nsimulated, every rank but the root late in turn: us left, mean and worst")
    print_table([["operation", "size", "ranks", "by us", "not known", "", "planned for", ""], *(
        [each["operation"], size_text(each["bytes"]), str(each["ranks"]), f"{each['late_ns'] / 1000:g}",
         *(f"{each[who][what] / 1000:.2f}" for who in ("unaware_ns", "aware_ns") for what in ("mean", "worst"))]
        for each in found["simulated"])])
    print()
    cells = [(each["unaware_ns"]["mean"] / each["aware_ns"]["mean"], each) for each in found["simulated"]
             if each["aware_ns"]["mean"] > 0]
    if cells:
        ratio, worst = min(cells, key=lambda each: each[0])
        yield Row("simulated, left without planning for the late rank / with, worst", ratio, 0.99, ratio >= 0.99,
                  f"{worst['operation']} {size_text(worst['bytes'])}, {worst['ranks']} ranks, {worst['late_ns']} ns")
    if missing:
        yield Row.missing(f"late ranks: {len(missing)} not measured", missing[0])


def late_measured(bench, operation, size, rank, late_ns):
    print(f"late: {operation} {size_text(size)}, rank {rank} by {late_ns} ns", file=sys.stderr)
    document = bench.run(operation, "--threads", "2", "--bytes", str(size), "--late", str(rank), "--late-ns",
                         str(late_ns), "--only", "smelt,smelt/late", "--time", bench.time or TIMES["late"])
    return {"operation": operation, "bytes": size, "rank": rank, "late_ns": late_ns,
            "unaware_ns": value_in(document, "smelt"), "aware_ns": value_in(document, "smelt/late")}


def late_simulated(bench, spec, operation, size, late_ns):
    model = bench.directory / f"late-{'-'.join(spec).replace('--', '')}.json"
    if not model.exists():
        subprocess.run([bench.smelt, "synth", *spec, "-o", str(model)], stdout=subprocess.DEVNULL, check=True)
    left = {"aware_ns": [], "unaware_ns": []}
    ranks = bench.ask("explain", operation, "--bytes", str(size), "-m", str(model))["ranks"]
    for rank in range(1, ranks):
        told = bench.ask("explain", operation, "--bytes", str(size), "-m", str(model), "--late", str(rank), "--late-ns",
                         str(late_ns))
        left["aware_ns"].append(max(0.0, told["predicted_ns"] - late_ns))
        left["unaware_ns"].append(max(0.0, told["unaware"]["predicted_ns"] - late_ns))
    summary = {who: {"mean": sum(times) / len(times), "worst": max(times)} for who, times in left.items()}
    return {"operation": operation, "bytes": size, "ranks": ranks, "late_ns": late_ns, **summary}
class Programs:
    """Programs beside the smelt command, run by turns as they are and with smelt inside."""

    def __init__(self, bench, first, most):
        self.bench = bench
        self.contest = noise.Contest(lambda: noise.floor_now(bench.smelt), first, most)
        self.directory = pathlib.Path(bench.smelt).resolve().parent
        self.samples = {}

    def run(self, command):
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        if run.returncode != 0:
            raise Missing(f"{command[0]}: " + (run.stderr.strip() or f"status {run.returncode}"))
        return run.stdout

    def compare(self, name, program, arguments, read, limit):
        """read(output, seconds) is the measured number. Row arguments of vanilla / smelt against the limit; time is spent
        until it is decided."""
        path = self.directory / program
        if not path.exists():
            raise Missing(f"{path} is not built")
        print(f"running {name}", file=sys.stderr)
        command = [str(path), *arguments]

        def once(words):
            start = time.perf_counter()
            output = self.run(words)
            return read(output, time.perf_counter() - start)

        def take():
            """(with smelt, vanilla), who is first by turns."""
            take.turn = not take.turn
            found = {}
            for with_smelt in (take.turn, not take.turn):
                found[with_smelt] = once([self.bench.smelt, "run", *command] if with_smelt else command)
            return found[True], found[False]
        take.turn = True
        finding, samples = self.contest.compare(take, lambda ratios: noise.against(ratios, limit) is not None)
        self.samples[name] = {"vanilla": [pair[1] for pair in samples["pairs"]],
                              "smelt": [pair[0] for pair in samples["pairs"]], **finding.document(),
                              "retaken": samples["retaken"], "unsteady": samples["unsteady"]}
        return finding.ratio

    def medians(self, name):
        """Of vanilla, of smelt."""
        return tuple(statistics.median(self.samples[name][who]) for who in ("vanilla", "smelt"))

    def save(self, name):
        machine = json.loads(self.run([self.bench.smelt, "show", "--json"]))
        self.bench.save(name, {"set": name, "samples": self.samples, **self.contest.summary(),
                               "machine": {"name": machine.get("name"), "fingerprint": machine.get("fingerprint")},
                               "commit": self.run([self.bench.smelt, "--version"]).strip()})


def pthread_bars(bench, _):
    programs = Programs(bench, 7, 28)
    span = str(seconds(bench.time)) if bench.time else "0.5"

    def barrier(threads, limit):
        def measure():
            read = lambda output, _: json.loads(output)["round_ns"]
            name = f"barrier-{threads}"
            ratio = programs.compare(name, "bench_pthread_barrier", [str(threads), span], read, limit)
            vanilla, own = programs.medians(name)
            remark = f"{vanilla:.0f} ns / {own:.0f} ns {interval_text(ratio)}"
            return ratio.median, limit, ratio.median >= limit, remark
        return measure

    def clustering(program, limit):
        def measure():
            clusters = set()

            def read(output, elapsed):
                clusters.add(re.match(r"clusters .*, cost \d+", output).group())
                return elapsed
            ratio = programs.compare(program, program, ["--threads", "2", "--chunk", "200"], read, limit)
            vanilla, own = programs.medians(program)
            remark = f"{vanilla:.3f} s / {own:.3f} s {interval_text(ratio)}, " \
                     + ("same clusters" if len(clusters) == 1 else "OTHER CLUSTERS")
            return ratio.median, limit, ratio.median >= limit and len(clusters) == 1, remark
        return measure

    def start_up():
        library = programs.directory.parent / "lib" / "libsmelt_pthread.so"
        if not library.exists():
            raise Missing(f"{library} is not built")
        spent = {"vanilla": [], "preloaded": [], "smelt run": []}
        preloaded = {**os.environ, "LD_PRELOAD": str(library)}
        for _ in range(200):
            for who, words, environment in (("vanilla", ["/bin/true"], None), ("preloaded", ["/bin/true"], preloaded),
                                            ("smelt run", [bench.smelt, "run", "/bin/true"], None)):
                start = time.perf_counter()
                subprocess.run(words, env=environment, check=True)
                spent[who].append((time.perf_counter() - start) * 1e3)
        programs.samples["start-up of true, ms"] = spent
        median = {who: statistics.median(each) for who, each in spent.items()}
        more = median["preloaded"] - median["vanilla"]
        return more, 2.0, more <= 2.0, f"ms; smelt run itself {median['smelt run'] - median['vanilla']:.2f} ms"

    for threads, limit in ((2, 15.0), (8, 2.0), (64, 1.5)):
        yield row(f"pthread barrier, {threads} threads, vanilla / smelt", barrier(threads, limit))
    yield row("clustering, pthread, 2 threads, vanilla / smelt", clustering("clustering_pthread", 1.3))
    yield row("start-up of a program that uses none of it", start_up)
    programs.save("pthread")


CONSTRUCTS = ["barrier", "for", "single", "copyprivate", "reduction", "parallel"]


def openmp_limits(runtime, threads):
    limits = {construct: 0.6 if threads == 2 else 1.0 for construct in CONSTRUCTS}
    if threads == 8 and runtime == "libgomp":
        limits["barrier"] = 0.5
    return limits


def openmp_bars(bench, _):
    programs = Programs(bench, 3, 14)
    library = programs.directory.parent / "lib" / "libsmelt_openmp.so"

    def overheads(program, threads, limits):
        """All constructs in one run: smelt / vanilla of each start, until every one is decided against its limit."""
        path = programs.directory / program
        if not path.exists() or not library.exists():
            raise Missing(f"{path} or {library} is not built")
        print(f"running {program}, {threads} threads", file=sys.stderr)
        runs = {"vanilla": [], "smelt": []}
        command = [str(path), str(threads), *(("20",) if threads <= 2 else ("5", "200"))]

        def take():
            found = {}
            for who, preload in (("vanilla", {}), ("smelt", {"LD_PRELOAD": str(library)})):
                run = subprocess.run(command, env={**os.environ, **preload}, stdout=subprocess.PIPE, check=True)
                found[who] = json.loads(run.stdout)
            return found

        def times(who, construct):
            return [run["overheads"][construct]["median_ns"] for run in runs[who]]

        def ratios(construct):
            return [own / vanilla for own, vanilla in zip(times("smelt", construct), times("vanilla", construct)) if vanilla]

        retakes, target = noise.Retakes(), programs.contest.first
        while True:
            while len(runs["smelt"]) < target:
                found, _ = programs.contest.steady(take, retakes)
                for who in runs:
                    runs[who].append(found[who])
            is_open = any(noise.against(ratios(construct), limits[construct]) is None for construct in CONSTRUCTS)
            if not is_open or target >= programs.contest.most:
                break
            target = min(programs.contest.most, noise.next_look(target))
        programs.samples[f"{program}-{threads}"] = {**runs, "retaken": retakes.taken_again, "unsteady": retakes.unsteady}
        return {construct: (noise.median_interval(ratios(construct)), statistics.median(times("vanilla", construct)),
                            statistics.median(times("smelt", construct))) for construct in CONSTRUCTS}

    for program, runtime in (("bench_openmp_gomp", "libgomp"), ("bench_openmp_libomp", "libomp")):
        for threads in (2, 8):
            limits = openmp_limits(runtime, threads)
            try:
                found = overheads(program, threads, limits)
            except (Missing, subprocess.CalledProcessError) as reason:
                yield Row.missing(f"OpenMP, {threads} threads, smelt / {runtime}", reason)
                continue
            for construct, (ratio, vanilla, own) in found.items():
                yield Row(f"OpenMP {construct}, {threads} threads, smelt / {runtime}", ratio.median, limits[construct],
                          ratio.median <= limits[construct], f"{own:.0f} ns / {vanilla:.0f} ns {interval_text(ratio)}")
    programs.save("openmp")


def uneven_bars(bench, arguments):
    span = str(seconds(bench.time)) if bench.time else "0.5"
    read = lambda output, _: json.loads(output)["mean_ns"]

    def least(programs, program, construct, threads, others, works):
        """The cell that gains least, of those with so many threads beside so many programs."""
        def measure():
            cells = []
            for work_us, late in works:
                words = [construct, str(threads), str(work_us), late, str(others), span]
                name = " ".join([program, *words])
                ratio = programs.compare(name, program, words, read, UNEVEN_LIMIT)
                vanilla, own = programs.medians(name)
                cells.append((ratio.median, f"{work_us} us late, {late}: {vanilla / 1e3:.0f} us / {own / 1e3:.0f} us "
                              + interval_text(ratio)))
            ratio, cell = min(cells)
            return ratio, UNEVEN_LIMIT, ratio >= UNEVEN_LIMIT, cell
        return measure

    by_turns = [(work, "turns") for work in (10, 100, 1000)]
    kinds = {"pthread": {"barrier": [(0, "turns"), *by_turns, *((work, "same") for work, _ in by_turns)]},
             "gomp": {"barrier": by_turns, "parallel": by_turns}, "libomp": {"barrier": by_turns, "parallel": by_turns}}
    for part in arguments.uneven:
        programs = Programs(bench, 3, 14)
        runtime, threads = part.split("-")
        for construct, works in kinds[runtime].items():
            for others in (0, 1, 2):
                yield row(f"{runtime} {construct}, {threads} threads, beside {others} programs, least vanilla / smelt",
                          least(programs, f"bench_uneven_{runtime}", construct, int(threads), others, works))
        programs.save(f"uneven-{part}")


def basic_bars(bench, _):
    for what, measure in basic(bench):
        yield row(what, measure)


def basic(bench):
    """Every bar as (what, function): the function returns (measured, limit, holds, remark)."""

    def against(names, threads, factor, only=()):
        def measure():
            peer, name = bench.best(names, "median_ns", min, "barrier", threads, only=only)
            ratio = bench.median("smelt", "barrier", threads, only=only) / peer
            return ratio, factor, ratio <= factor, f"x {name}"
        return measure

    def relative_to_barrier(operation):
        def measure():
            ratio = bench.median("smelt", operation, 2) / bench.median("smelt", "barrier", 2)
            return ratio, 1.25, ratio <= 1.25, "x 2-thread barrier"
        return measure

    def round_trip():
        ratio = bench.median("smelt", "channel", 2) / bench.median("flag", "channel", 2)
        return ratio, 1.10, ratio <= 1.10, "x bare flag ping-pong"

    def throughput(size):
        def measure():
            peer, name = bench.best(QUEUES, "throughput_mmsg_s", max, "channel", 2, size)
            ratio = bench.value("smelt", "throughput_mmsg_s", "channel", 2, size) / peer
            return ratio, 1.0, ratio >= 1.0, f"x {name}, at least"
        return measure

    def prediction(operation):
        def measure():
            measured = bench.median("smelt", operation, 2)
            ratio = bench.value("smelt", "predicted_ns", operation, 2) / measured
            return ratio, 1.10, 0.9 <= ratio <= 1.1, "predicted / measured, within 10 %"
        return measure

    yield "barrier, 2 threads, against Concurrency Kit", against(CK, 2, 1.05)
    for name in OPENMP:
        yield f"barrier, 2 threads, against {name}", against([name], 2, 0.6)
    yield "broadcast of 8 bytes, 2 threads", relative_to_barrier("broadcast")
    yield "allreduce of one double, 2 threads", relative_to_barrier("allreduce")
    for threads in (8, 16, 64):
        yield f"barrier, {threads} threads", against(EVERYDAY, threads, 1.0, only=["smelt", *EVERYDAY])
    yield "channel round trip", round_trip
    for size in (8, 56):
        yield f"channel throughput, {size}-byte messages", throughput(size)
    for operation in ("broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"):
        yield f"prediction of {operation}, 2 ranks", prediction(operation)


def shim_mpi_bars(bench, _):
    """Every operation that the MPI shims take over, 2 ranks: never slower, and 1.5 times as fast in the mean."""
    script = pathlib.Path(__file__).resolve().parent.parent / "bench" / "shims" / "mpi.py"
    build = pathlib.Path(bench.smelt).resolve().parent.parent
    found = {}

    def results(mpi):
        if mpi not in found:
            run = subprocess.run([sys.executable, script, "--build", build, "--mpi", mpi], stdout=subprocess.PIPE,
                                 text=True, check=False)
            if run.returncode != 0:
                raise Missing(f"{script.name}: status {run.returncode}")
            found[mpi] = json.loads(run.stdout)
            bench.save(f"shim-mpi-{mpi}", found[mpi])
        return found[mpi]

    def mean(mpi):
        ratio = results(mpi)["geometric_mean"]
        found = results(mpi)
        return ratio, 1.5, ratio >= 1.5, f"geometric mean over operations and sizes; {found['retaken']} taken again"

    def least(mpi):
        worst = min(results(mpi)["results"], key=lambda each: each["ratio"])
        interval = f"[{worst['low']:.2f}, {worst['high']:.2f}] of {worst['starts']} starts"
        return worst["ratio"], 1.0, worst["ratio"] >= 1.0, f"{worst['operation']} {size_text(worst['bytes'])} {interval}"

    for mpi in MPI:
        yield row(f"{mpi} with the shim, times as fast, mean", lambda: mean(mpi))
        yield row(f"{mpi} with the shim, times as fast, least", lambda: least(mpi))


def mpi_suite_bars(bench, _):
    """Bars of each library: geometric mean, how many cells are behind, the least cell."""
    script = pathlib.Path(__file__).resolve().parent.parent / "bench" / "shims" / "mpi_suite.py"
    run = subprocess.run([sys.executable, script, "--smelt", bench.smelt, "--out", bench.directory, "--json"],
                         stdout=subprocess.PIPE, text=True, check=False)
    if not run.stdout:
        raise Missing(f"{script.name}: status {run.returncode}")
    document = json.loads(run.stdout)
    for library in document["libraries"]:
        for each in library["bars"]:
            remark = f"{len(library['cells'])} cells, {library['retaken']} taken again, {library['unsteady']} unsteady"
            yield Row(f"{library['library']} alone / smelt run, {each['bar']}", each["measured"], each["limit"],
                      each["holds"], remark)
    for library in document["missing"]:
        yield Row.missing(f"{library['library']} alone / smelt run", library["reason"])


def state_bars(bench, _):
    script = pathlib.Path(__file__).parent.parent / "bench/state/run.py"
    subprocess.run([sys.executable, script, "--out", bench.directory, "--build",
                    pathlib.Path(bench.smelt).resolve().parent.parent], stdout=sys.stderr, check=True)
    for what, measured, limit in state_results.bars(bench.directory.resolve()):
        if measured is None:
            yield Row.missing(what, "no such other one here")
        else:
            yield Row(what, measured, limit, measured >= limit, "")


BARS = {"basic": basic_bars, "mpi": mpi_bars, "oversubscribed": oversubscribed_bars, "bandwidth": bandwidth_bars,
        "sync": sync_bars, "tuned": tuned_bars, "repeat": repeat_bars, "late": late_bars,
        "pthread": pthread_bars, "openmp": openmp_bars, "uneven": uneven_bars, "shim-mpi": shim_mpi_bars,
        "state": state_bars, "mpi-suite": mpi_suite_bars}


def print_table(rows):
    """First column to the left, the others too where a header names them, else to the right."""
    widths = [max(len(cells[column]) for cells in rows) for column in range(len(rows[0]))]
    for cells in rows:
        print("  ".join([cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:]))]))


def list_of(allowed):
    def read(text):
        names = [allowed[0].__class__(name) for name in text.split(",")]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name}: one of " + ", ".join(map(str, allowed)))
        return names
    return read


def arguments_from_command_line():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", type=lambda text: SETS if text == "all" else list_of(SETS)(text), default="all",
                        help="all, or some of " + ",".join(SETS) + " (default: %(default)s)")
    parser.add_argument("--smelt", default="build/release/bin/smelt", help="the smelt command (default: %(default)s)")
    parser.add_argument("--out", default="build/bars", type=pathlib.Path, help="where the JSON goes (default: %(default)s)")
    parser.add_argument("--time", help="time per benchmark, such as 5s (default: by the set)")
    parser.add_argument("--tune-time", default=f"{TUNING}s", help="time of smelt tune, such as 6s; of the set tuned also "
                        "'' for the profile that is there (default: %(default)s)")
    parser.add_argument("--operations", type=list_of(OPERATIONS), default=OPERATIONS,
                        help="of the matrices, such as barrier,scan (default: all)")
    parser.add_argument("--uneven", type=list_of(UNEVEN), default=UNEVEN,
                        help="of the set uneven, by runtime and threads, 2 minutes each (default: " + ",".join(UNEVEN) + ")")
    parser.add_argument("--sizes", type=list_of(SIZES), default=SIZES,
                        help="of the matrices, in bytes (default: " + ",".join(map(str, SIZES)) + ")")
    return parser.parse_args()


def main():
    arguments = arguments_from_command_line()
    arguments.out.mkdir(parents=True, exist_ok=True)

    # After idling, a hypervisor may have put two virtual PUs on one core; load spreads them again.
    print("warming up", file=sys.stderr)
    subprocess.run([arguments.smelt, "bench", "barrier", "--time", "10s"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    rows = []
    for name in arguments.set:
        bench = Bench(arguments.smelt, arguments.out, arguments.time)
        try:
            rows += BARS[name](bench, arguments)
        except (Missing, OSError, ValueError, subprocess.CalledProcessError) as reason:
            rows.append(Row.missing(name, reason))
    lines = [("bar", "measured", "limit", "holds", ""), *(each.cells() for each in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)) + "  " + line[4])
    return 2 if any(each.holds is None for each in rows) else 1 if not all(each.holds for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
