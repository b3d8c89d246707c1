import hashlib, time
import faiss, numpy as np
random = np.random.default_rng(0)
points = random.normal(size=(20000, 32)).astype(np.float32)
start = time.perf_counter()
index = faiss.index_factory(32, "IVF64,Flat")
index.train(points)
index.add(points)
index.nprobe = 8
for _ in range(200):
    _, found = index.search(points[:64], 10)
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(found.tobytes()).hexdigest())
