#!/usr/bin/env python3
"""The project's performance bars, measured here in one go.

    python3 python/bars.py [--smelt build/release/bin/smelt] [--out DIRECTORY] [--time 12s]

Runs `smelt measure` and `smelt bench` for each benchmark that a bar needs, saves every JSON document in the
directory, and prints one line per bar: what was measured, the limit, and whether it holds.
Each ratio is one of medians out of a single interleaved run, except where a bar compares two
operations. Exit status: 0 if all bars hold, 1 if one does not, 2 if one could not be measured.
"""

import argparse
import json
import pathlib
import subprocess
import sys

CK = ["ck-dissemination", "ck-mcs", "ck-tournament", "ck-centralized", "ck-combining"]
OPENMP = ["gomp", "libomp"]
EVERYDAY = ["pthread", "std-barrier", "gomp", "libomp"]
QUEUES = ["boost-spsc", "moodycamel-spsc", "moodycamel-concurrent", "tbb-bounded"]


class Missing(Exception):
    """A number that a bar needs is not there."""


class Bench:
    """Runs benchmarks once each, keeps their documents, and answers questions about them."""

    def __init__(self, smelt, directory, time):
        self.smelt, self.directory, self.time = smelt, directory, time
        self.documents = {}

    def document(self, benchmark, threads, size=8, only=()):
        key = f"{benchmark}-{threads}-threads-{size}-bytes"
        if key not in self.documents:
            print(f"running {key}", file=sys.stderr)
            # Clock rates drift: a prediction is held against timings of the same minute.
            subprocess.run([self.smelt, "measure"], stdout=subprocess.DEVNULL, check=True)
            command = [self.smelt, "bench", benchmark, "--threads", str(threads), "--bytes", str(size), "--floor", "--json"]
            command += ["--time", self.time] if self.time else []
            command += ["--only", ",".join(only)] if only else []
            run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if run.returncode != 0:
                raise Missing(f"smelt bench {benchmark} ended with status {run.returncode}")
            self.documents[key] = json.loads(run.stdout)
            (self.directory / f"{key}.json").write_text(run.stdout)
        return self.documents[key]

    def value(self, name, field, *where, **options):
        for result in self.document(*where, **options)["results"]:
            if result["name"] == name and result.get(field) is not None:
                return result[field]
        raise Missing(f"no {field} of {name}")

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


def bars(bench):
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smelt", default="build/release/bin/smelt", help="the smelt command (default: %(default)s)")
    parser.add_argument("--out", default="build/bars", type=pathlib.Path, help="where the JSON goes (default: %(default)s)")
    parser.add_argument("--time", help="time per benchmark, such as 5s (default: smelt bench's own)")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    # After idling, a hypervisor may have put two virtual PUs on one core; load spreads them again.
    print("warming up", file=sys.stderr)
    subprocess.run([arguments.smelt, "bench", "barrier", "--time", "10s"], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    bench = Bench(arguments.smelt, arguments.out, arguments.time)
    rows, failed, missing = [], False, False
    for what, measure in bars(bench):
        try:
            measured, limit, holds, remark = measure()
            rows.append((what, f"{measured:.2f}", f"{limit:.2f}", "yes" if holds else "NO", remark))
            failed |= not holds
        except (Missing, OSError, ValueError, subprocess.CalledProcessError) as reason:
            rows.append((what, "-", "-", "?", str(reason)))
            missing = True
    header = ("bar", "measured", "limit", "holds", "")
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(4)]
    for row in [header, *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) + "  " + row[4])
    return 2 if missing else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
