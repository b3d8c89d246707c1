#!/usr/bin/env python3
"""All tables of one machine's results, operations down and sizes across, as Markdown.

    python3 python/tables.py bench/results/intel-xeon-2-pu

A ratio says how many times as long the other takes as smelt. The short tables are in bench/results/README.md.
"""

import pathlib
import sys

import results


def main():
    if len(sys.argv) != 2 or pathlib.Path(sys.argv[1]).name not in results.machines():
        sys.exit(__doc__)
    print("\n".join(results.long_tables(pathlib.Path(sys.argv[1]).name)))


if __name__ == "__main__":
    main()
