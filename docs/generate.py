#!/usr/bin/env python3
"""Writes the generated parts of the documents: API pages, settings, tables of results.

    python3 docs/generate.py            writes them
    python3 docs/generate.py --check    names what is stale, with exit code 1

A generated part stands between two comments: <!-- generated: WHAT [WORD ...] --> and <!-- end of generated -->. What
WHAT may be is the table GENERATORS below. Needs Python 3.11 and nothing else.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
sys.dont_write_bytecode = True

import api_pages  # noqa: E402
import results  # noqa: E402
import state_results  # noqa: E402

GENERATORS = {
    "c-api": api_pages.c_api,
    "cpp-api": api_pages.cpp_api,
    "settings": api_pages.settings,
    "rooms": api_pages.rooms,
    "mpi-functions": api_pages.mpi_functions,
    "machines": results.machine_list,
    "across": lambda kind: results.across(results.ACROSS[kind]()),
    "summary": lambda: results.across([*results.summary_rows(), *state_results.summary_rows(), *results.graph_rows()]),
    "mpi-suite": results.suite,
    "programs": results.programs,
    "memory-programs": results.memory_programs,
    "memory-arrays": results.memory_arrays,
    "table": results.plain,
    "tree-predictions": results.tree_predictions,
    "operation-predictions": results.operation_predictions,
    "team-times": results.team_times,
    "team-trees": results.team_trees,
    "many-core-maps": results.many_core_maps,
    "many-core-kernels": results.many_core_kernels,
    "many-core-programs": results.many_core_programs,
    "many-core-mpi": results.many_core_mpi,
    "maps": state_results.maps,
    "ycsb": state_results.ycsb,
    "logs": state_results.logs,
    "state-summary": state_results.summary,
    "state-costs": state_results.costs,
}
PART = re.compile(r"(<!-- generated: ([^>]*?) -->\n).*?(<!-- end of generated -->)", re.DOTALL)


def pages():
    return [ROOT / "README.md", ROOT / "bench/results/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def written(page):
    """The text of a page with its generated parts as they should be."""

    def part(match):
        what, *words = match[2].split()
        if what not in GENERATORS:
            sys.exit(f"{page.relative_to(ROOT)}: nothing generates '{what}'")
        return match[1] + "\n" + "\n".join(GENERATORS[what](*words)) + "\n\n" + match[3]

    return PART.sub(part, page.read_text())


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    stale = [page for page in pages() if page.read_text() != written(page)]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'stale; run docs/generate.py' if sys.argv[1:] else 'written'}")
        if not sys.argv[1:]:
            page.write_text(written(page))
    sys.exit(bool(stale and sys.argv[1:]))


if __name__ == "__main__":
    main()
