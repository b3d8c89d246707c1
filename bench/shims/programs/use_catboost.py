import time
import catboost
import numpy as np
random = np.random.default_rng(0)
x = random.normal(size=(2000, 10))
model = catboost.CatBoostRegressor(iterations=100, verbose=False, thread_count=2, allow_writing_files=False)
start = time.perf_counter()
model.fit(x, x[:, 0] * x[:, 1])
print("seconds", time.perf_counter() - start)
print(model.predict(x).sum())
