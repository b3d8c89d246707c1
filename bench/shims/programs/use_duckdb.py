import time
import duckdb
start = time.perf_counter()
base = duckdb.connect()
base.execute("set threads=2")
base.execute("create table t as select i % 1000 as k, (i * 7919) % 100003 as v from range(10000000) r(i)")
rows = base.execute("select k, sum(v), max(v), count(distinct v) from t group by k order by k").fetchall()
print("seconds", time.perf_counter() - start)
print(rows[:10], sum(row[1] for row in rows))
