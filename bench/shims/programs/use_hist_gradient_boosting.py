import hashlib, time
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
random = np.random.default_rng(0)
X = random.normal(size=(2000, 20))
y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + random.normal(size=2000) * 0.1
start = time.perf_counter()
model = HistGradientBoostingRegressor(max_iter=100, random_state=0).fit(X, y)
print("seconds", time.perf_counter() - start)
print(hashlib.sha256(model.predict(X).tobytes()).hexdigest())
