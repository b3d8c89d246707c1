import os, sys, time
import xllamacpp
threads = int(os.environ["OMP_NUM_THREADS"])
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 512, 1, False, 0
server = xllamacpp.Server(params)
start = time.perf_counter()
answer = server.handle_completions({"prompt": "hello world " * 8, "n_predict": 150, "temperature": 0.0, "seed": 1,
                                    "cache_prompt": False, "ignore_eos": True})
print("seconds", time.perf_counter() - start)
print([choice["text"] for choice in answer["choices"]])
