import hashlib, time
import lightgbm
import numpy as np
random = np.random.default_rng(0)
X = random.normal(size=(2000, 20))
y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + random.normal(size=2000) * 0.1
options = dict(objective="regression", num_leaves=31, verbose=-1, deterministic=True, force_row_wise=True, seed=1)
start = time.perf_counter()
model = lightgbm.train(options, lightgbm.Dataset(X, y), 100)
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(model.predict(X).tobytes()).hexdigest())
