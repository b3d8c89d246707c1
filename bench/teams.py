#!/usr/bin/env python3
"""Question: what do operations cost as threads are added, beside those of other libraries, and what was predicted?

Method: the machine is measured once. Then, for each number of threads and each operation of 8 bytes, all contestants of
`smelt bench` take turns: smelt with its own choice and with every tree, and the peers that are installed. A ratio is the
median over starts of the time of the fastest other library over that of smelt.

Expected: a prediction within a fifth, and no library faster.

    teams.py SMELT FILE [--threads 2,4,8,16] [--operations LIST] [--time 3s] [--starts 3]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

ALL = "barrier,broadcast,reduce,allreduce"


def numbers(text):
    """Of an option: 2,4,8."""
    found = [int(each) for each in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--threads", type=numbers, default=",".join(str(1 << k) for k in range(1, 20) if 1 << k <= os.cpu_count()))
    parser.add_argument("--operations", default=ALL)
    parser.add_argument("--time", default="3s")
    parser.add_argument("--starts", default="3")
    options = parser.parse_args()
    if not options.file.parent.is_dir():
        parser.error(f"{options.file.parent} is no directory")

    def smelt(*words):
        try:
            done = subprocess.run([options.smelt, *words], capture_output=True, text=True)
        except OSError as reason:
            sys.exit(f"teams.py: {options.smelt}: {reason.strerror}")
        if done.returncode != 0:
            sys.exit(f"smelt {' '.join(words)}: {done.stderr}")
        return done.stdout

    smelt("measure")
    document = {"question": __doc__.split("\n\n")[0].removeprefix("Question: "), "version": smelt("--version").strip(),
                "machine": json.loads(smelt("show", "--json"))["name"], "cells": []}
    for threads in options.threads:
        for operation in options.operations.split(","):
            told = json.loads(smelt("bench", operation, "--threads", str(threads), "--bytes", "8", "--time", options.time,
                                    "--starts", options.starts, "--json"))
            if not told["results"]:
                sys.exit(f"teams.py: {operation}, {threads} threads: nothing was measured; do other programs run here?")
            results = [{key: each[key] for key in ("name", "median_ns", "starts_ns", "predicted_ns", "recipe") if key in each}
                       for each in told["results"]]
            document["cells"].append({"operation": operation, "threads": threads, "bytes": told["bytes"],
                                      "floor_ns": told["floor_ns"], "commit": told["commit"], "results": results})
            print(operation, threads, round(results[0]["median_ns"] or 0) or "not timed", file=sys.stderr, flush=True)
            options.file.write_text(json.dumps(document, indent=1) + "\n")


main()
