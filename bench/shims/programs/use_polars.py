import time
import numpy as np, polars as pl
random = np.random.default_rng(0)
frame = pl.DataFrame({"key": random.integers(0, 5000, 1_000_000), "value": random.integers(0, 10**6, 1_000_000)})
start = time.perf_counter()
for _ in range(5):
    sums = frame.group_by("key").agg(pl.col("value").sum(), pl.col("value").max().alias("top"))
    both = frame.join(sums, on="key").sort("key", "value")
print("seconds", time.perf_counter() - start)
print(both.select(pl.all().sum()).rows())
