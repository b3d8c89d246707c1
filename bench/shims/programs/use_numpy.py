import hashlib, time
import numpy as np
random = np.random.default_rng(0)
a, b = random.normal(size=(2, 800, 800))
start = time.perf_counter()
for _ in range(10):
    b = np.linalg.solve(a, b @ a)
    b /= abs(b).max()
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(b.tobytes()).hexdigest())
