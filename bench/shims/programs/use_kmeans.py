import hashlib, time
import numpy as np
from sklearn.cluster import KMeans
X = np.random.default_rng(0).normal(size=(20000, 16))
start = time.perf_counter()
labels = [KMeans(8, n_init=1, max_iter=50, tol=0, random_state=i).fit(X).labels_ for i in range(5)]
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(np.array(labels).tobytes()).hexdigest())
