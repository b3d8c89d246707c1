#!/usr/bin/env python3
"""Training with wheels that bring an OpenMP runtime, plain and under smelt run: times by turns, a table on stdout.

    PYTHON -m pip install lightgbm scikit-learn
    PYTHON bench/shims/wheels.py [--smelt build/release/bin/smelt] [--threads 2,8] [--starts 3] [--most-starts 14]
                                 [--pus 0,1]

ratio: the median of plain time over time under smelt, start by start; above 1 smelt is faster. Training goes on while its
verdict is open, and what was taken while the machine's floor moved is taken again (python/noise.py). Status 1 if a model
differs from the plain one in a bit.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
import noise  # noqa: E402

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
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--most-starts", type=int, default=14)
    parser.add_argument("--pus", default="0,1")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {int(pu) for pu in arguments.pus.split(",")})
    smelt = [str(pathlib.Path(arguments.smelt).resolve()), "run", "--"]
    contest = noise.Contest(lambda: noise.floor_now(smelt[0]), arguments.starts, arguments.most_starts)
    different = False
    print(f"{'training':22}{'threads':>8}{'plain s':>10}{'smelt s':>10}{'ratio':>8}{'interval':>16}  same  smelt is")
    for training in TRAINING:
        for threads in map(int, arguments.threads.split(",")):
            digests = set()

            def take():
                (plain, of_plain), (ours, of_ours) = (once(training, threads, before) for before in ([], smelt))
                digests.update((of_plain, of_ours))
                return ours, plain

            finding, samples = contest.compare(take)
            ours, plain = (statistics.median(times) for times in zip(*samples["pairs"]))
            ratio, same = finding.ratio, len(digests) == 1
            different |= not same
            print(f"{training:22}{threads:8}{plain:10.3f}{ours:10.3f}{ratio.median:8.2f}"
                  f"{f'{ratio.low:.2f}..{ratio.high:.2f}':>16}  {'yes' if same else 'NO':4}  {finding.verdict}", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
