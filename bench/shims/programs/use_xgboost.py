import hashlib, os, time
import numpy as np
import xgboost
random = np.random.default_rng(0)
X = random.normal(size=(2000, 20))
y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + random.normal(size=2000) * 0.1
options = dict(tree_method="hist", max_depth=6, seed=1, nthread=int(os.environ["OMP_NUM_THREADS"]))
start = time.perf_counter()
model = xgboost.train(options, xgboost.DMatrix(X, y), 100)
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(model.predict(xgboost.DMatrix(X)).tobytes()).hexdigest())
