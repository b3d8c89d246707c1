#!/usr/bin/env python3
"""Training with wheels that bring an OpenMP runtime, plain and under smelt run: times by turns, a table on stdout.

    PYTHON -m pip install lightgbm scikit-learn
    PYTHON bench/shims/wheels.py [--smelt build/release/bin/smelt] [--threads 2,8] [--starts 7] [--pus 0,1]

ratio: the median of plain time over time under smelt, start by start; above 1 smelt is faster. Status 1 if a model
differs from the plain one in a bit.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

DATA = """
import hashlib, time
import numpy as np
random = np.random.default_rng(0)
X = random.normal(size=(2000, 20))
y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + random.normal(size=2000) * 0.1
"""
TRAINING = {
    "LightGBM": """
import lightgbm
options = dict(objective="regression", num_leaves=31, verbose=-1, deterministic=True, force_row_wise=True, seed=1)
start = time.perf_counter()
model = lightgbm.train(options, lightgbm.Dataset(X, y), 100)
""",
    "HistGradientBoosting": """
from sklearn.ensemble import HistGradientBoostingRegressor
start = time.perf_counter()
model = HistGradientBoostingRegressor(max_iter=100, random_state=0).fit(X, y)
""",
}
RESULT = """
seconds = time.perf_counter() - start
print(seconds, hashlib.sha256(model.predict(X).tobytes()).hexdigest())
"""


def once(training, threads, before):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    done = subprocess.run([*before, sys.executable, "-c", DATA + TRAINING[training] + RESULT], env=environment,
                          check=True, stdout=subprocess.PIPE, text=True)
    seconds, digest = done.stdout.split()
    return float(seconds), digest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smelt", default="build/release/bin/smelt")
    parser.add_argument("--threads", default="2,8")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--pus", default="0,1")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(pu) for pu in arguments.pus.split(",")})
    smelt = [str(pathlib.Path(arguments.smelt).resolve()), "run", "--"]
    different = False
    print(f"{'training':22}{'threads':>8}{'plain s':>10}{'smelt s':>10}{'ratio':>8}  same")
    for training in TRAINING:
        for threads in map(int, arguments.threads.split(",")):
            starts = [(once(training, threads, []), once(training, threads, smelt)) for _ in range(arguments.starts)]
            ratio = statistics.median(plain[0] / ours[0] for plain, ours in starts)
            plain, ours = (statistics.median(start[i][0] for start in starts) for i in (0, 1))
            same = len({digest for start in starts for _, digest in start}) == 1
            different |= not same
            print(f"{training:22}{threads:8}{plain:10.3f}{ours:10.3f}{ratio:8.2f}  {'yes' if same else 'NO'}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
