"""Tables of maps and logs beside others, as lists of Markdown lines, from the documents that bench/state/run.py keeps.

Used by docs/generate.py. A ratio says how many times as fast smelt is as the other one.
"""

import statistics

from results import load, mean, summary_of, table

OURS = ("smelt", "smelt, batches", "smelt, none", "smelt, crash")
SERVERS = ("memcached", "redis")


def runs(machine, name):
    found = load(machine, name)
    return found["runs"] if found else []


def peers_of(cells, without=()):
    """The cells of others; `without` names some that are left out."""
    return [each for each in cells if each.get("map", each.get("log")) not in (*OURS, *without)]


def source(machine, name):
    """One sentence on where and from what a table comes, and an empty line."""
    found = load(machine, name)
    return [f"{found['machine']}; commit {found['commit']}; `{found['question']}`.", ""] if found else []


# ---- maps: load by keys ------------------------------------------------------------------------------------------------


def map_groups(machine, name):
    """{(keys, lookups, skew): cells of all maps}."""
    groups = {}
    for run in runs(machine, name):
        for each in run["cells"]:
            groups.setdefault((run["keys"], each["lookups"], each["skew"]), []).append(each)
    return groups


def least(cells):
    """The ratio to the best of them, and its name; a cell is that of a map in one setting."""
    best = min(cells, key=lambda each: each["smelt_ratio"])
    return best["smelt_ratio"], best.get("map", best.get("log"))


def best_ratios(machine, name, only=None, without=()):
    """Of each setting, the ratio to the best other map that took part, or to `only`."""
    found = []
    for cells in map_groups(machine, name).values():
        some = [each for each in peers_of(cells, without) if only in (None, each["map"])]
        if some:
            found.append(least(some)[0])
    return found


def best_of(groups, without=()):
    return [least(peers_of(cells, without))[0] for cells in groups.values()]


def batch_ratios(machine, keys):
    """Batches of 64 against the best other map's single calls, at this many keys."""
    found = []
    for (many, _, _), cells in map_groups(machine, "maps-threads").items():
        batches = next((each for each in cells if each["map"] == "smelt, batches"), None)
        if many == keys and batches:
            found.append(batches["per_s"] / max(each["per_s"] for each in peers_of(cells)))
    return found


def maps(machine, name):
    """Rows: settings; columns: smelt's operations per second, and how many times as fast it is as each other map."""
    groups = map_groups(machine, name)
    names = list(dict.fromkeys(each["map"] for cells in groups.values() for each in peers_of(cells)))
    rows = []
    for (keys, lookups, skew), cells in groups.items():
        of = {each["map"]: each for each in cells}
        rows.append([f"{keys:,}", f"{lookups:g}", "Zipf .99" if skew else "uniform",
                     f"{of['smelt']['per_s'] / 1e6:.1f}",
                     *(of[each]["smelt_ratio"] if each in of else None for each in names)])
    return [*source(machine, name), *table(["keys", "lookups", "chosen", "smelt, million/s", *names], rows)]


# ---- YCSB --------------------------------------------------------------------------------------------------------------


def ycsb_groups(machine, name):
    """{(keys, value bytes, load): cells of all maps}."""
    groups = {}
    for run in runs(machine, name):
        for each in run["cells"]:
            groups.setdefault((run["keys"], run["value_bytes"], each["load"]), []).append(each)
    return groups


def ycsb(machine, name):
    """Two tables: the best other one in each setting, and each other one over all of them."""
    groups = ycsb_groups(machine, name)
    loads = sorted({load_name for _, _, load_name in groups})
    rows = []
    for keys, size in dict.fromkeys((keys, size) for keys, size, _ in groups):
        row = []
        for each in loads:
            cells = groups[keys, size, each]
            own = next(cell for cell in cells if cell["map"] == "smelt")
            ratio, other = least(peers_of(cells))
            row.append(f"{own['per_s'] / 1e6:.1f}; {ratio:.2f} ({other})")
        rows.append(["8 bytes" if keys == "8" else "strings", size, *row])
    return [*source(machine, name), *table(["keys", "value, bytes", *loads], rows), "", *over_all(groups)]


def over_all(groups):
    ratios = {}
    for cells in groups.values():
        for each in peers_of(cells):
            ratios.setdefault(each["map"], []).append(each["smelt_ratio"])
        ratios.setdefault("the best in each setting", []).append(least(peers_of(cells))[0])
    return table(["beside", "geometric mean", "least", "below 1"],
                 [[name, mean(found), min(found), f"{sum(each < 1 for each in found)} of {len(found)}"]
                  for name, found in ratios.items()])


# ---- logs --------------------------------------------------------------------------------------------------------------


def log_groups(machine):
    """{what: {log: cell}}, of several starts their medians."""
    starts = {}
    for run in runs(machine, "logs"):
        for each in run["cells"]:
            starts.setdefault(each["what"], {}).setdefault(each["log"], []).append(each)
    return {what: {log: {"log": log, **{field: statistics.median(each[field] for each in cells)
                                        for field in ("ns", "smelt_ratio")}} for log, cells in logs_of.items()}
            for what, logs_of in starts.items()}


def log_time(machine, what, log="smelt"):
    cell = log_groups(machine).get(what, {}).get(log)
    return cell["ns"] if cell else None


def logs(machine):
    """Rows: logs; columns: what is done; nanoseconds of one append, and how many times as long as smelt's."""
    groups = log_groups(machine)
    names = list(dict.fromkeys(log for cells in groups.values() for log in cells))
    rows = []
    for name in names:
        cells = [groups[what].get(name) for what in groups]
        rows.append([name, *(cell and f"{cell['ns']:.0f} ns ({cell['smelt_ratio']:.2f})" for cell in cells)])
    return [*source(machine, "logs"), *table(["log", *groups], rows)]


def log_ratio(machine, what, names):
    """Beside the best of the logs whose names begin so."""
    cells = [cell for log, cell in log_groups(machine).get(what, {}).items() if log.startswith(names)]
    return min(each["smelt_ratio"] for each in cells) if cells else None


# ---- all of it ---------------------------------------------------------------------------------------------------------


def range_of(ratios):
    return f"{mean(ratios):.2f} (least {min(ratios):.2f})" if ratios else None


def summary_rows():
    """(what, function of a machine): what the first page shows."""
    def all_of(ratios):
        return summary_of(dict(enumerate(ratios)))

    yield "map, 2 threads: best other map", lambda m: all_of(best_ratios(m, "maps-threads"))
    yield ("map, 2 processes: better of Boost.Interprocess and LMDB", lambda m: all_of(best_ratios(m, "maps-processes")))
    yield "map, loads of YCSB, 2 threads: best other map", lambda m: all_of(best_of(ycsb_groups(m, "ycsb-threads")))


def summary(machine):
    """A row for each comparison: the geometric mean of all settings, and the least."""
    consensus = ("raft", "omnipaxos")
    servers = [each["smelt_ratio"] for cells in ycsb_groups(machine, "ycsb-processes").values() for each in cells
               if each["map"] in SERVERS]
    rows = [
        ["map, threads, the best other map", range_of(best_ratios(machine, "maps-threads"))],
        ["map, threads, oneTBB", range_of(best_ratios(machine, "maps-threads", "tbb"))],
        ["batches of 64 of a million keys, the best other map's single calls", range_of(batch_ratios(machine, 1_000_000))],
        ["map, 8 threads on 2 PUs, the best other map", range_of(best_ratios(machine, "maps-8-threads"))],
        ["map, processes, the better of Boost.Interprocess and LMDB", range_of(best_ratios(machine, "maps-processes"))],
        ["map, processes, one writer: those and iceoryx2's blackboard by key",
         range_of(best_ratios(machine, "maps-one-writer", without=("iceoryx2, entries held",)))],
        ["the same, entries of the blackboard held", range_of(best_ratios(machine, "maps-one-writer"))],
        ["map, YCSB's loads, threads, the best other map", range_of(best_of(ycsb_groups(machine, "ycsb-threads")))],
        ["map, YCSB's loads, processes, the better of Boost.Interprocess and LMDB",
         range_of(best_of(ycsb_groups(machine, "ycsb-processes"), SERVERS))],
        ["map, YCSB's loads, memcached and Redis on UNIX sockets", range_of(servers)],
        ["log, three replicas, one append at a time, the better of raft and omnipaxos",
         log_ratio(machine, "three replicas, 1 under way", consensus)],
        *([f"the same, {window} under way", log_ratio(machine, f"three replicas, {window} under way", consensus)]
          for window in (64, 512)),
        ["log, two threads, one appends, node-replication", log_ratio(machine, "two threads, one appends", "node")],
        ["the same, both append", log_ratio(machine, "two threads, both append", "node")],
    ]
    return table(["smelt's ... beside ...", "times as fast"], [row for row in rows if row[1] is not None])


def bars(machine):
    """(what, measured or None, limit) of what the project promises about maps and logs."""
    servers = [each["smelt_ratio"] for cells in ycsb_groups(machine, "ycsb-processes").values() for each in cells
               if each["map"] in SERVERS]
    threads = best_ratios(machine, "maps-threads")
    held = "iceoryx2, entries held"
    consensus = ("raft", "omnipaxos")
    return [
        ("map, threads / best other, mean", some(mean, threads), 1.0),
        ("map, threads / best other, worst", some(min, threads), 0.85),
        ("map, threads / oneTBB, mean", some(mean, best_ratios(machine, "maps-threads", "tbb")), 1.5),
        ("batches of 64 of 10^6 keys / best other's single calls, mean", some(mean, batch_ratios(machine, 1_000_000)), 1.3),
        ("map, 8 threads / best other, mean", some(mean, best_ratios(machine, "maps-8-threads")), 0.8),
        ("map, processes / Boost.Interprocess, LMDB, mean", some(mean, best_ratios(machine, "maps-processes")), 3.0),
        ("map, processes, one writer / those, iceoryx2 by key, mean",
         some(mean, best_ratios(machine, "maps-one-writer", without=(held,))), 3.0),
        ("map, processes / memcached, Redis on UNIX sockets, mean", some(mean, servers), 20.0),
        ("log, 3 replicas, one at a time / raft, omnipaxos",
         log_ratio(machine, "three replicas, 1 under way", consensus), 10.0),
        ("log, 3 replicas, best number under way / raft, omnipaxos", best_log_ratio(machine, consensus), 10.0),
        ("log, one appends / node-replication", log_ratio(machine, "two threads, one appends", "node"), 0.8),
        ("log, both append / node-replication", log_ratio(machine, "two threads, both append", "node"), 0.8),
    ]


def some(function, numbers):
    return function(numbers) if numbers else None


def best_log_ratio(machine, names):
    """Three replicas, the number under way that suits each log best: the fastest other's time over smelt's."""
    cells = [(log, cell["ns"]) for what, cells in log_groups(machine).items() if what.startswith("three")
             for log, cell in cells.items()]
    theirs = [ns for log, ns in cells if log.startswith(names)]
    return min(theirs) / min(ns for log, ns in cells if log == "smelt") if theirs else None


def costs(machine, collectives):
    """What one call of each takes, in nanoseconds; `collectives`: the folder with a machine's collectives."""
    def per_call(lookups, keys, name):
        cells = map_groups(machine, name).get((keys, lookups, 0.0), [])
        return next((2e9 / each["per_s"] for each in cells if each["map"] == "smelt"), None)

    def collective(operation):
        found = load(collectives, f"{operation}-2-threads-8-bytes")
        return next((each["median_ns"] for each in found["results"] if each["name"] == "smelt"), None) if found else None

    rows = [
        ["map: a lookup of one of 10,000 keys, while another process looks up", per_call(1.0, 10_000, "maps-processes")],
        ["map: a call, half lookups and half updates, while another process does the same",
         per_call(0.5, 10_000, "maps-processes")],
        ["log of three replicas: an append by the leader", log_time(machine, "three replicas, 1 under way")],
        ["`Replicated<T>` of two threads: an update by the leader", log_time(machine, "two threads, one appends")],
        ["the same, an update while both update", log_time(machine, "two threads, both append")],
        ["collectives: an allreduce of 8 bytes of two threads", collective("allreduce")],
        ["collectives: a barrier of two threads", collective("barrier")],
    ]
    return table(["what", "ns"], [[what, f"{ns:.0f}"] for what, ns in rows if ns is not None])
