#!/usr/bin/env python3
"""Question: does the model predict whole operations on a many-core machine from the costs of its pairs?

Method: a directory of published measurements of a machine ([Smelt16], [Kaestle16]) holds the costs of its pairs and, in
measured.csv, how long broadcasts and reductions took along several trees. Its pairs are imported, each tree is planned by
its rule from rank 0, and what the simulator predicts, with the completion message that the measurements include, stands
beside what was measured. The same is predicted without each term of the model in turn, and by the published formula, which
has none of them. Times are in thousands of cycles, as published.

Expected: a mean error of at most 0.15, Kendall's tau of at least 0.8, and nothing off by more than a factor of 2.

    many_core.py SMELT DIRECTORY > bench/results/simulated/many-core.json
"""
import csv
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

TREES = {"binary": "bintree", "cluster": "cluster", "bad": "badtree", "sequential": "sequential", "mst": "mst",
         "fibonacci": "fibonacci", "adaptive": "AT"}
OPERATIONS = {"broadcast": "ab", "reduce": "reduction"}
TERMS = ("propagation_ns", "send_gap_ns", "recv_gap_ns")
MODELS = {"all terms": (), "no propagation": ("propagation_ns",), "no send gap": ("send_gap_ns",),
          "no receive gap": ("recv_gap_ns",), "published formula": TERMS}


def predicted(smelt, model, operation, tree):
    command = [smelt, "plan", "-m", model, "--op", operation, "--topology", tree, "--root", "0", "--completion", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["predicted_ns"] / 1000


def rank_correlation(pairs):
    signs = [(a - c) * (b - d) for (a, b), (c, d) in itertools.combinations(pairs, 2)]
    return sum((each > 0) - (each < 0) for each in signs) / len(signs)


def main():
    smelt, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    measured = {row["algorithm"]: row for row in csv.DictReader(open(directory / "measured.csv"))}
    with tempfile.TemporaryDirectory() as place:
        full = json.loads(subprocess.run([smelt, "import", "machinedb", directory], check=True, capture_output=True,
                                         text=True).stdout)
        models = {}
        for name, without in MODELS.items():
            models[name] = f"{place}/{name}.json"
            pathlib.Path(models[name]).write_text(json.dumps({k: v for k, v in full.items() if k not in without}))
        rows, pairs = [], {name: [] for name in MODELS}
        for operation, tree in itertools.product(OPERATIONS, TREES):
            truth = float(measured[OPERATIONS[operation]][TREES[tree]])
            times = {name: predicted(smelt, model, operation, tree) for name, model in models.items()}
            for name, time in times.items():
                pairs[name].append((time, truth))
            rows.append([operation, tree, truth, round(times["all terms"], 2),
                         *(round(time / truth, 2) for time in times.values())])

    def last(title, of):
        rows.append([title, "", "", "", *(round(of(each), 2) for each in pairs.values())])

    last("mean error", lambda each: sum(abs(a / b - 1) for a, b in each) / len(each))
    last("Kendall's tau", rank_correlation)
    last("furthest off, factor", lambda each: max(max(a / b, b / a) for a, b in each))
    json.dump({"question": __doc__.split("\n\n")[0].removeprefix("Question: "), "machine": full["name"],
               "version": subprocess.run([smelt, "--version"], capture_output=True, text=True).stdout.strip(),
               "columns": ["operation", "tree", "measured", "predicted", *MODELS], "rows": rows}, sys.stdout, indent=1)
    print()


main()
