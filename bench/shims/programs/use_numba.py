import hashlib, time
import numba, numpy as np

@numba.njit(parallel=True)
def step(a):
    b = np.zeros_like(a)
    for i in numba.prange(a.shape[0]):
        x = a[i]
        for _ in range(20):
            x = x * 1.0000001 + 0.5
        b[i] = x
    return b

a = np.arange(4096, dtype=np.float64)
step(a)
start = time.perf_counter()
for _ in range(5000):
    a = step(a)
print("seconds", time.perf_counter() - start)
print(numba.threading_layer(), hashlib.sha256(a.tobytes()).hexdigest())
