"""Tables of measured results, as lists of Markdown lines, from the documents under bench/results.

Used by docs/generate.py, which puts them into pages, and by python/tables.py, which prints the long ones.
A ratio says how many times as long the other takes as smelt, unless its row says otherwise. What a machine has not
measured is an empty cell.
"""

import functools
import itertools
import json
import math
import pathlib
import statistics
import tomllib

import noise

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
PEERS = {"openmpi": "Open MPI", "mpich": "MPICH"}
CK = ("ck-dissemination", "ck-mcs", "ck-tournament", "ck-centralized", "ck-combining")
QUEUES = ("boost-spsc", "moodycamel-spsc", "moodycamel-concurrent", "tbb-bounded")
MOST_COMMITS = 6  # that are named for a machine


@functools.cache
def load(machine, name):
    """A document of a machine, or None."""
    file = RESULTS / machine / f"{name}.json"
    return json.loads(file.read_text()) if file.is_file() else None


def machines(name="about"):
    """The machines that have a document of this name."""
    return sorted(each.name for each in RESULTS.iterdir() if (each / f"{name}.json").is_file())


def size_text(size):
    for shift, unit in ((20, "MiB"), (10, "KiB")):
        if size >= 1 << shift:
            return f"{size >> shift} {unit}"
    return f"{size} B"


def mean(numbers):
    return math.exp(statistics.fmean(math.log(each) for each in numbers))


def cell(value):
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 99.5 else f"{value:.0f}"
    return str(value)


def table(header, rows):
    """Markdown lines of a table; a row is a list of cells as long as the header."""
    return [f"| {' | '.join(header)} |".replace("|  |", "| |"), "|" + " --- |" * len(header),
            *(f"| {' | '.join(map(cell, row))} |" for row in rows)]


# ---- matrices: operations down, sizes across ---------------------------------------------------------------------------


def matrix(title, cells, behind=1.0):
    """cells: {(operation, bytes): ratio}."""
    low = sorted((ratio, *where) for where, ratio in cells.items() if ratio < behind)
    which = ", ".join(f"{operation} {size_text(size)} {ratio:.2f}" for ratio, operation, size in low) or "none"
    sizes = sorted({size for _, size in cells})
    operations = list(dict.fromkeys(operation for operation, _ in cells))
    return [f"{title}: geometric mean {mean(cells.values()):.2f} of {len(cells)} cells; below {behind:g}: {which}.", "",
            *table(["", *map(size_text, sizes)],
                   [[operation, *(cells.get((operation, size)) for size in sizes)] for operation in operations]), ""]


def cells_of(machine, name, rival):
    """{(operation, bytes): ratio} of a set of bars.py; sizes carry the ranks where a set has several."""
    found = load(machine, name)
    if not found:
        return {}
    return {(each["operation"], each["ranks"], each["bytes"]): each["times_as_long"][rival]
            for each in found["cells"] if rival in each["times_as_long"]}


def by_size(cells):
    return {(operation, size): ratio for (operation, _, size), ratio in cells.items()}


def suite_cells(library):
    return {(each["operation"], each["bytes"]): each["ratio"]["median"] for each in library["cells"]}


def shim_forms(machine):
    """{(mpi, form): {(operation, bytes): ratio}} of MPI programs with and without the preload library."""
    forms = {}
    names = ("shim-mpi", "shim-mpi-forms")
    for each in [result for name in names for result in (load(machine, name) or {"results": []})["results"]]:
        operation = each["operation"]
        form = "blocking"
        if operation.endswith("+work"):
            form = "nonblocking, with computation"
        elif operation[0] == "i":
            form = "nonblocking"
        elif operation[0] == "p":
            form = "persistent"
        forms.setdefault((each["mpi"], form), {})[operation, each["bytes"]] = each["ratio"]
    return forms


def long_tables(machine):
    """Everything of a machine that is a matrix, with a heading each."""
    lines = []
    for rival, name in PEERS.items():
        if cells := by_size(cells_of(machine, "mpi", rival)):
            lines += [f"## {name}, processes", "", *matrix(f"{name} / smelt", cells)]
        if cells := cells_of(machine, "oversubscribed", rival):
            for ranks in sorted({each for _, each, _ in cells}):
                part = {(operation, size): ratio for (operation, n, size), ratio in cells.items() if n == ranks}
                lines += [f"## {name}, {ranks} processes on the PUs", "", *matrix(f"{name} / smelt", part)]
    for (rival, form), cells in shim_forms(machine).items():
        lines += [f"## {PEERS[rival]} programs, {form}", "", *matrix(f"{PEERS[rival]} alone / with smelt", cells)]
    for library in (load(machine, "mpi-suite") or {"libraries": []})["libraries"]:
        lines += [f"## {library['library']} programs", "",
                  *matrix(f"{library['library']} alone / smelt run", suite_cells(library), 0.95)]
    if cells := by_size(cells_of(machine, "sync", "smelt/strict")):
        lines += ["## Loose and strict", "", *matrix("strict / loose, back to back", cells)]
    if cells := by_size(cells_of(machine, "tuned", "best")):
        lines += ["## Tuned choices", "", *matrix("best other algorithm / smelt's choice", cells)]
    return lines


# ---- one table for all machines ----------------------------------------------------------------------------------------


def result(machine, document, name):
    found = load(machine, document)
    return next((each for each in found["results"] if each["name"] == name), None) if found else None


def median(machine, document, name, field="median_ns"):
    found = result(machine, document, name)
    return found.get(field) if found else None


def over(machine, document, peers, own="smelt", field="median_ns", best=min):
    """The best of the peers over smelt; of a throughput, smelt over the best."""
    numbers = [each for each in (median(machine, document, peer, field) for peer in peers) if each]
    mine = median(machine, document, own, field)
    if not numbers or not mine:
        return None
    return best(numbers) / mine if best is min else mine / best(numbers)


def prediction(machine, operation):
    predicted = median(machine, f"{operation}-2-threads-8-bytes", "smelt", "predicted_ns")
    measured = median(machine, f"{operation}-2-threads-8-bytes", "smelt")
    return predicted / measured if predicted and measured else None


def timed_trees(machine):
    """The results of each operation: of bench/fidelity.py, or else of the benchmarks of threads."""
    if trees := load(machine, "trees"):
        return {operation: each["results"] for operation, each in trees["operations"].items()}
    operations = ("broadcast", "reduce", "barrier", "allreduce", "two-phase-commit")
    documents = {operation: load(machine, f"{operation}-2-threads-8-bytes") for operation in operations}
    return {operation: each["results"] for operation, each in documents.items() if each}


def tree_predictions():
    """Of two threads and 8 bytes, every tree that was timed: predicted / measured, and how far that is off in the mean."""
    timed = {machine: timed_trees(machine) for machine in [*machines("trees"), *machines("barrier-2-threads-8-bytes")]}
    where = [machine for machine, operations in timed.items() if operations]
    ratios = {}
    for machine in where:
        for operation, results in timed[machine].items():
            for each in results:
                if each["name"].startswith("smelt") and each.get("predicted_ns") and each["median_ns"]:
                    tree = each["name"].removeprefix("smelt").removeprefix("/") or "own choice"
                    ratios[operation, tree, machine] = each["predicted_ns"] / each["median_ns"]
    rows = [[operation, tree, *(ratios.get((operation, tree, machine)) for machine in where)]
            for operation, tree in dict.fromkeys(each[:2] for each in ratios)]
    off = [statistics.fmean(abs(ratio - 1) for key, ratio in ratios.items() if key[2] == machine) for machine in where]
    return table(["operation", "tree", *(load(machine, "about")["short"] for machine in where)],
                 [*rows, ["mean error", "", *off]])


def fastest_other(cell):
    """Of a cell of bench/teams.py: smelt's own choice, the fastest other library, and the median ratio over starts."""
    own = next(result for result in cell["results"] if result["name"] == "smelt")
    others = [result for result in cell["results"]
              if result["median_ns"] and not result["name"].startswith("smelt/") and result["name"] not in ("smelt", "floor", "memcpy", "vector-add")]
    best = min(others, key=lambda result: result["median_ns"])
    both = zip(best["starts_ns"], own["starts_ns"])
    return own, best, statistics.median(theirs / ours for theirs, ours in both if theirs and ours)


def team_ratios(machine):
    """By operation and number of threads: the time of the fastest other library over that of smelt."""
    cells = (load(machine, "teams") or {"cells": []})["cells"]
    return {(each["operation"], each["threads"]): fastest_other(each)[2] for each in cells}


def team_times(machine):
    """By operation and number of threads: smelt's choice, what was predicted, and the fastest other library."""
    rows = []
    for each in load(machine, "teams")["cells"]:
        own, best, ratio = fastest_other(each)
        rows.append([each["operation"], each["threads"], round(own["median_ns"]), own["predicted_ns"] / own["median_ns"],
                     best["name"], round(best["median_ns"]), ratio])
    return table(["8 bytes", "threads", "smelt, ns", "predicted / measured", "fastest other", "ns", "other / smelt"], rows)


def many_core_maps(machine):
    """Of bench_maps: millions of operations a second, and the fastest other map."""
    cells = load(machine, "many-core-maps")["cells"]
    rows = []
    for lookups, skew in dict.fromkeys((each["lookups"], each["skew"]) for each in cells):
        here = {each["map"]: each for each in cells if (each["lookups"], each["skew"]) == (lookups, skew)}
        others = [each for name, each in here.items() if not name.startswith("smelt")]
        best = max(others, key=lambda each: each["per_s"])
        rows.append([f"{lookups:g}", "Zipf 0.99" if skew else "uniform", round(here["smelt"]["per_s"] / 1e6), best["map"],
                     round(best["per_s"] / 1e6), best["smelt_ratio"]])
    return table(["lookups", "keys", "smelt, million/s", "fastest other", "million/s", "smelt / other"], rows)


def many_core_kernels(machine):
    """Of bench_graph_kernels: milliseconds, and those of OpenMP by hand."""
    kernels = load(machine, "many-core-kernels")["kernels"]
    return table(["kernel", "smelt, ms", "by hand, ms", "by hand / smelt"],
                 [[name, 1000 * each["smelt_s"], 1000 * each["reference_s"], each["reference/smelt"]]
                  for name, each in kernels.items()])


def preload_cells(machine, of_mpi):
    """Of bench/shims/teams.py: {(program, what, threads): median time alone / median time with smelt}."""
    document = load(machine, "many-core-programs") or {"cells": []}
    return {(each["program"], each["what"], each["threads"]):
            statistics.median(each["alone_ns"]) / statistics.median(each["smelt_ns"])
            for each in document["cells"] if (each["program"] == "MPI") == of_mpi}


def preload_table(heads, ratios, row_of):
    """A column per number of threads, and their geometric means."""
    threads = sorted({count for *_, count in ratios})
    rows = dict.fromkeys((program, what) for program, what, _ in ratios)
    means = [statistics.geometric_mean(ratio for (*_, count), ratio in ratios.items() if count == each) for each in threads]
    return table([*heads, *(str(count) for count in threads)],
                 [*([*row_of(*where), *(ratios.get((*where, count)) for count in threads)] for where in rows),
                  ["geometric mean", *[""] * (len(heads) - 1), *means]])


def many_core_programs(machine):
    """OpenMP and pthread programs: time alone / time with smelt, by the number of threads."""
    return preload_table(["program", "what"], preload_cells(machine, of_mpi=False), lambda program, what: [program, what])


def many_core_mpi(machine):
    """MPI's collectives: the same, by the number of ranks."""
    return preload_table(["operation", "size"], preload_cells(machine, of_mpi=True),
                         lambda _, what: [what.split()[0], size_text(int(what.split()[1]))])


def team_trees(machine):
    """Of every tree of a barrier: predicted / measured, by the number of threads."""
    ratios = {}
    for each in load(machine, "teams")["cells"]:
        for result in each["results"]:
            if each["operation"] == "barrier" and result["name"].startswith("smelt/") and result.get("predicted_ns"):
                ratios[result["name"].removeprefix("smelt/"), each["threads"]] = result["predicted_ns"] / result["median_ns"]
    threads = sorted({count for _, count in ratios})
    trees = dict.fromkeys(tree for tree, _ in ratios)
    off = [statistics.fmean(abs(ratios[tree, count] - 1) for tree in trees if (tree, count) in ratios) for count in threads]
    return table(["barrier over", *(f"{count} threads" for count in threads)],
                 [*([tree, *(ratios.get((tree, count)) for count in threads)] for tree in trees), ["mean error", *off]])


def operation_predictions(machine):
    """Of every operation and size that bench/fidelity.py timed: predicted / measured, by team, and the mean error."""
    teams = load(machine, "fidelity")["teams"]
    ratios = {(each["operation"], each["bytes"], team["team"]): each["predicted_ns"] / each["measured_ns"]
              for team in teams for each in team["cells"] if each["counts"]}
    cells = {(each["operation"], each["bytes"]) for team in teams for each in team["cells"]}
    names = [team["team"] for team in teams]
    rows = [[operation, size_text(size), *(ratios.get((operation, size, name)) for name in names)]
            for operation, size in sorted(cells)]
    return table(["operation", "size", *names], [*rows, ["mean error", "", *(team["mean_error"] for team in teams)]])


def summary_of(cells, behind=1.0):
    """'1.92 (0.94; 3 of 133)': geometric mean, least, how many are below."""
    if not cells:
        return None
    low = sum(ratio < behind for ratio in cells.values())
    return f"{cell(mean(cells.values()))} ({cell(min(cells.values()))}; {low} of {len(cells)})"


def thread_rows():
    """(what, function of a machine)."""
    barrier = "barrier-{}-threads-8-bytes"
    yield "barrier of 2 threads, ns", lambda m: rounded(median(m, barrier.format(2), "smelt"))
    yield "one way of a bare cache line, ns", lambda m: rounded(median(m, barrier.format(2), "floor"))
    yield "barrier, best of Concurrency Kit", lambda m: over(m, barrier.format(2), CK)
    yield "barrier, libgomp", lambda m: over(m, barrier.format(2), ["gomp"])
    yield "barrier, libomp", lambda m: over(m, barrier.format(2), ["libomp"])
    for threads in (8, 16, 64):
        yield (f"barrier of {threads} threads, best of pthread and `std::barrier`",
               lambda m, threads=threads: over(m, barrier.format(threads), ["pthread", "std-barrier"]))
    for operation in ("broadcast", "allreduce"):
        yield (f"{operation} of 8 bytes / smelt's barrier",
               lambda m, operation=operation: quotient(median(m, f"{operation}-2-threads-8-bytes", "smelt"),
                                                       median(m, barrier.format(2), "smelt")))
    yield "channel round trip, bare flags", lambda m: over(m, "channel-2-threads-8-bytes", ["flag"])
    for size in (8, 56):
        yield (f"channel, messages of {size} bytes per second: smelt / best queue",
               lambda m, size=size: over(m, f"channel-2-threads-{size}-bytes", QUEUES, field="throughput_mmsg_s", best=max))
    for operation in ("broadcast", "reduce", "barrier", "allreduce", "two-phase-commit"):
        yield (f"{operation}: predicted / measured", lambda m, operation=operation: prediction(m, operation))


def rounded(value):
    return None if value is None else f"{value:.0f}"


def quotient(above, below):
    return above / below if above and below else None


def bandwidth(machine, kind, operation, rival):
    found = load(machine, f"bandwidth-{kind}")
    ratios = []
    for each in (found or {"documents": []})["documents"]:
        times = {one["name"]: one["median_ns"] for one in each["results"] if one["median_ns"]}
        if each["benchmark"] == operation and "smelt" in times and rival in times:
            ratios.append(times[rival] / times["smelt"])
    return statistics.median(ratios) if ratios else None


def process_rows():
    for rival, name in PEERS.items():
        yield f"{name}, 2 processes, 8 B to 16 MiB", lambda m, rival=rival: summary_of(cells_of(m, "mpi", rival))
    for rival, name in PEERS.items():
        yield (f"{name}, 8 and 16 processes on 2 PUs",
               lambda m, rival=rival: summary_of(cells_of(m, "oversubscribed", rival)))
    for rival, name in PEERS.items():
        for form in ("blocking", "nonblocking", "nonblocking, with computation", "persistent"):
            yield (f"{name} programs, {form}: without / with smelt",
                   lambda m, key=(rival, form): summary_of(shim_forms(m).get(key)))


def choice_rows():
    for operation, rival in (("broadcast", "memcpy"), ("allreduce", "vector-add")):
        for kind in ("threads", "processes"):
            yield (f"{operation} of 16 MiB, {kind}, `{rival}` by threads",
                   lambda m, kind=kind, operation=operation, rival=rival: bandwidth(m, kind, operation, rival))
    yield "strict / loose, back to back", lambda m: summary_of(cells_of(m, "sync", "smelt/strict"))
    yield from tuning_rows()


def tuning_rows():
    yield "best other algorithm / tuned choice", lambda m: summary_of(cells_of(m, "tuned", "best"), 0.97)
    yield "cells in which two runs of `smelt tune` agree", agreement


def agreement(machine):
    found = load(machine, "repeat")
    found = found.get("comparison", found) if found else None
    return f"{100 * found['agreement']:.0f} %" if found and "agreement" in found else None


def openmp_ratios(machine, program):
    found = load(machine, "openmp")
    ways = found["samples"].get(program) if found else None
    if not ways:
        return {}
    times = {way: {construct: statistics.median(run["overheads"][construct]["median_ns"] for run in ways[way])
                   for construct in ways[way][0]["overheads"] if construct != "reference"} for way in ("vanilla", "smelt")}
    return {(construct, 0): times["vanilla"][construct] / times["smelt"][construct] for construct in times["smelt"]}


def pthread_ratio(machine, program):
    found = load(machine, "pthread")
    ways = found["samples"].get(program) if found else None
    return statistics.median(ways["vanilla"]) / statistics.median(ways["smelt"]) if ways else None


def program_rows():
    for threads in (2, 8, 64):
        yield (f"pthread barrier, {threads} threads",
               lambda m, threads=threads: pthread_ratio(m, f"barrier-{threads}"))
    yield "clustering, 2 threads, pthread barriers", lambda m: pthread_ratio(m, "clustering_pthread")
    for runtime, name in (("gomp", "libgomp"), ("libomp", "libomp")):
        for threads in (2, 8):
            yield (f"OpenMP constructs, {name}, {threads} threads",
                   lambda m, key=f"bench_openmp_{runtime}-{threads}": summary_of(openmp_ratios(m, key)))


def short_name(machine):
    return load(machine, "about")["short"]


def across(rows):
    """One table: a row per question, a column per machine that has an answer to any of them."""
    found = [(what, {machine: ask(machine) for machine in machines()}) for what, ask in rows]
    shown = [machine for machine in machines() if any(row[machine] is not None for _, row in found)]
    return table(["", *map(short_name, shown)],
                 [[what, *(row[machine] for machine in shown)] for what, row in found if any(row.values())])


def commits(machine):
    """The commits that the documents of a machine name."""
    found = set()

    def look(value):
        if isinstance(value, dict):
            if isinstance(value.get("commit"), str):
                found.add(value["commit"].removeprefix("smelt 0.1.0 (").removesuffix(")"))
            for each in value.values():
                look(each)
        elif isinstance(value, list):
            for each in value:
                look(each)

    for file in sorted((RESULTS / machine).glob("*.json")):
        look(load(machine, file.stem))
    return sorted(found)


def machine_list():
    lines = []
    for machine in machines():
        about = load(machine, "about")
        named = [f"`{each}`" for each in commits(machine)]
        more = [f"{len(named) - MOST_COMMITS} more"] if len(named) > MOST_COMMITS else []
        which = ", ".join([*named[:MOST_COMMITS], *more]) or "none named"
        lines += [f"- **{about['short']}** ([{machine}]({machine})): {about['description']} Commits: {which}.",
                  *(f"  {note}" for note in about.get("notes", []))]
    return lines


def suite(machine):
    """What `mpi_suite.py` found, a row per library, with its bars."""
    rows = []
    for library in load(machine, "mpi-suite")["libraries"]:
        cells = suite_cells(library)
        least = min(cells, key=cells.get)
        bars = {each["bar"]: each for each in library["bars"]}
        rows.append([library["library"], library["geometric_mean"], f"{bars['geometric mean']['limit']:g}",
                     f"{library['cells_behind']} of {len(cells)}",
                     f"{cells[least]:.2f} ({least[0]} {size_text(least[1])})",
                     "yes" if all(each["holds"] for each in bars.values()) else "no"])
    return table(["library", "geometric mean", "bar", "cells below 0.95", "least", "all bars"], rows)


def descriptions():
    """Title and kind of parallelism of each entry of programs.toml, by the name that programs.json has for it."""
    found = {}
    for name, program in tomllib.loads((ROOT / "bench/shims/programs.toml").read_text()).items():
        some = {number: f"{number} threads" for number in program.get("threads", {})}
        some |= {variant: variant for variant in program.get("variants", {})}
        for suffix, text in some.items():
            found[f"{name}-{suffix}"] = (f"{program['title']}, {text}", program["parallel"])
        if not some:
            found[name] = (program["title"], program["parallel"])
    return found


VERDICTS = {"faster": "gained", "not decided": "equal", "equal": "equal", "slower": "slower"}


def programs(machine):
    """Programs of Debian and PyPI, plain and under `smelt run`."""
    about = descriptions()
    rows = []
    for name, found in load(machine, "programs")["programs"].items():
        if "plain_s" not in found:
            continue
        title, parallel = about.get(name, (name, ""))
        ratio = found["ratio"]
        word = VERDICTS.get(found["verdict"], found["verdict"]) if found["taken_over"] else "left alone"
        rows.append([title, found["version"], parallel, found["plain_s"], found["smelt_s"],
                     f"{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]", word])
    return table(["program", "version", "in parallel by", "plain, s", "smelt, s", "ratio", ""], rows)


MEMORY_PROGRAMS = {
    "gather": "random reads of 512 MiB, 2 threads", "join": "hash join, table of 1 GiB",
    "pages": "256 MiB allocated, filled, read, given back, ten times", "sort": "`std::sort` of 256 MiB",
    "sparse": "one line in every 2 MiB of a zeroed table of 4 GiB", "clustering": "streamcluster-like, 100000 points",
    "numpy_gather": "NumPy, random gather of 512 MiB", "duckdb_join": "DuckDB, join of 10 and 20 million rows",
    "scipy_products": "SciPy, product of sparse matrices", "scipy_vectors": "SciPy, sparse matrix by vectors, scale 20",
    "graphblas_triangles": "SuiteSparse:GraphBLAS, masked product, scale 16",
    "graphblas_vectors": "SuiteSparse:GraphBLAS, matrix by vectors, scale 20",
    "networkit_pagerank": "NetworKit, PageRank, scale 20", "networkit_bfs": "NetworKit, breadth-first search, scale 20",
    "networkit_components": "NetworKit, connected components, scale 20",
    "networkit_pagerank_22": "NetworKit, PageRank, scale 22", "networkit_bfs_22": "NetworKit, breadth-first search, scale 22",
    "networkit_components_22": "NetworKit, connected components, scale 22", "lightgbm_training": "LightGBM, 15 trees"}


def memory_programs(machine):
    """Programs plain, with glibc's tunable and under `smelt run --memory` (bench/memory/programs.py)."""
    rows, means = [], {"tunable": [], "smelt": []}
    found = load(machine, "memory-programs")["programs"]
    for name in sorted(found, key=lambda each: list(MEMORY_PROGRAMS).index(each)):
        each, cells = found[name], []
        for way in ("tunable", "smelt"):
            ratio = noise.median_interval([one / other for one, other in zip(each["plain"]["s"], each[way]["s"])])
            means[way].append(ratio.median)
            cells.append(f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]")
        mib = [each[way]["kib"] / 1024 for way in ("plain", "tunable", "smelt")]
        rows.append([MEMORY_PROGRAMS[name], str(len(each["plain"]["s"])), statistics.median(each["plain"]["s"]), *cells,
                     *(f"{one:.0f}" for one in mib)])
    rows.append(["geometric mean", "", "", f"{mean(means['tunable']):.3f}", f"{mean(means['smelt']):.3f}", "", "", ""])
    return table(["program", "starts", "plain, s", "tunable", "`smelt run --memory`", "peak, MiB", "... tunable", "... smelt"],
                 rows)


# Groups of bench/memory/arrays.py, and the peers that their bars are about.
MEMORY_ARRAYS = {
    "dependent": ("dependent random reads", ("vector",)), "independent": ("independent random reads", ("vector",)),
    "take": ("a list of places, read by `take()` and by a loop", ("vector",)),
    "sum": ("sum in order", ("vector",)), "fill": ("fill, all PUs", ("std_fill", "threads", "openmp")),
    "copy": ("copy, all PUs", ("memcpy", "threads", "openmp")), "allocate": ("allocated, touched, given back", ("malloc_memset",)),
    "first": ("the same, the first time in a process", ("malloc_memset",))}


def memory_arrays(machine):
    """Arrays beside std::vector, malloc and other allocators (bench/memory/arrays.py)."""
    rows, found = [], load(machine, "memory-arrays")["groups"]
    for group in (each for each in MEMORY_ARRAYS if each in found):
        times, (text, barred) = found[group], MEMORY_ARRAYS[group]
        medians = {peer: statistics.median(each) for peer, each in times.items()}
        best = min((peer for peer in barred if peer in times), key=medians.get)
        ratio = noise.median_interval([other / own for own, other in zip(times["array"], times[best])])
        others = ", ".join(f"{peer} {medians[peer]:.0f}" for peer in sorted(medians) if peer not in ("array", best))
        rows.append([text, str(ratio.count), medians["array"], f"{best.replace('_', ' ')}, {medians[best]:.1f}",
                     f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]", others.replace("_", " ") or "-"])
    return table(["1 GiB", "starts", "array, ms", "best peer, ms", "times as fast", "others, ms"], rows)


# How a column of raw numbers is shown, by the end of its name. Other columns are shown as they are.
UNITS = {
    "_s": lambda value: f"{value:.2f} s",
    "_mib": lambda value: f"{value:.0f} MiB",
    "_bytes": lambda value: f"{value / 1e6:.2f} MB",
    "_fraction": lambda value: f"{value * 100:.1f} %",
}


def plain(machine, name):
    """A document that is a table itself: {columns, rows, source}."""
    found = load(machine, name)
    ends = [next((end for end in UNITS if column.endswith(end)), "") for column in found["columns"]]
    heads = [column.removesuffix(end).replace("_", " ") if end else column.replace("pus", "PUs")
             for column, end in zip(found["columns"], ends)]
    rows = [[UNITS[end](value) if end and value is not None else value for value, end in zip(row, ends)]
            for row in found["rows"]]
    return table(heads, [row for row, _ in itertools.groupby(rows)])


def summary_rows():
    """What the first page shows."""
    yield ("barrier of 2 threads: best of Concurrency Kit, libgomp, libomp",
           lambda m: over(m, "barrier-2-threads-8-bytes", [*CK, "gomp", "libomp"]))
    for rival, name in PEERS.items():
        yield (f"all collectives, 2 processes, 8 B to 16 MiB: {name}",
               lambda m, rival=rival: summary_of(cells_of(m, "mpi", rival)))
    yield ("the same, 8 and 16 processes on 2 PUs: Open MPI",
           lambda m: summary_of(cells_of(m, "oversubscribed", "openmpi")))
    yield ("constructs of OpenMP, 2 and 8 threads, libgomp and libomp: without / with smelt",
           lambda m: summary_of({(program, *where): ratio for program in OPENMP
                                 for where, ratio in openmp_ratios(m, program).items()}))
    yield ("barrier, broadcast, reduce, allreduce of 8 bytes, 2 to 16 threads: fastest other library",
           lambda m: summary_of(team_ratios(m)))
    yield "clustering by 2 threads, pthread barriers: without / with smelt", lambda m: pthread_ratio(m, "clustering_pthread")
    yield ("MPI programs timed as Intel's suite does, five libraries: without / with smelt",
           lambda m: summary_of({(library["library"], *where): ratio for library in (load(m, "mpi-suite") or NO_SUITE)["libraries"]
                                 for where, ratio in suite_cells(library).items()}))
    yield ("the same on 2 to 16 cores, MPICH 5: without / with smelt", lambda m: summary_of(preload_cells(m, of_mpi=True)))


def graph_reference_ratios(machine):
    """{(graph, kernel): reference / smelt}; a later file of a graph adds to an earlier one."""
    return {(found["graph"], kernel): times["reference/smelt"]
            for file in sorted((RESULTS / machine).glob("graph-kernels*.json"))
            for found in [json.loads(file.read_text())] for kernel, times in found["kernels"].items()}


def graph_library_ratios(machine):
    """{(graph, kernel): best other library / smelt}; of several files, the one with the closest libraries and more rounds."""
    found = {}
    for file in sorted((RESULTS / machine).glob("graph-peers*.json")):
        document = json.loads(file.read_text())
        for kernel, seconds in document["seconds"].items():
            medians = {name: statistics.median(each) for name, each in seconds.items()}
            ours = medians.pop("smelt")
            found.setdefault((document["graph"], kernel), min(medians.values()) / ours)  # "...-closest" sorts first
    return found


def graph_rows():
    yield ("graph kernels of the GAP suite, 2 threads: OpenMP by hand",
           lambda m: summary_of(graph_reference_ratios(m)))
    yield ("the same: best of Boost, NetworKit, igraph, graph-tool, SuiteSparse GraphBLAS, the crate graph",
           lambda m: summary_of(graph_library_ratios(m)))


NO_SUITE = {"libraries": []}
OPENMP = [f"bench_openmp_{runtime}-{threads}" for runtime in ("gomp", "libomp") for threads in (2, 8)]
ACROSS = {"threads": thread_rows, "processes": process_rows, "choices": choice_rows, "programs": program_rows,
          "tuning": tuning_rows}
