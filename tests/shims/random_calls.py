#!/usr/bin/env python3
"""Random calls with and without smelt: the output has to be the same.

    python3 tests/shims/random_calls.py --smelt build/release/bin/smelt --program build/release/bin/memory_random_calls
                                        [--options=--memory] [--first 1] [--count 20] [--keep DIRECTORY]

The program makes calls by a number, and prints what they returned. It is run twice without smelt and twice with it. Where the
runs without smelt differ, or fail, the number says nothing about smelt, and is counted as left out. Exit status: 0 if no
output differs, 1 if one does, 2 if the program cannot be run at all, or no number was left.
"""

import argparse
import pathlib
import subprocess
import sys

TIMEOUT_S = 60


def run(command):
    """Status and output. A process that does not end may ignore all signals but one."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as process:
        try:
            output = process.communicate(timeout=TIMEOUT_S)[0]
            return process.returncode, output
        except subprocess.TimeoutExpired:
            process.kill()
            return f"not done after {TIMEOUT_S} s", ""


def difference(plain, with_smelt):
    """In words; empty: none."""
    if plain == with_smelt:
        return ""
    pairs = list(zip(plain[1].splitlines(), with_smelt[1].splitlines()))
    lines = [f"'{a}' without, '{b}' with smelt" for a, b in pairs if a != b]
    return f"status {with_smelt[0]} after {len(pairs)} lines; " + ", ".join(lines[:3])


def compare(number, options):
    """What differs, in words; empty: nothing; null: the program is not steady without smelt."""
    command = [options.program, str(number)]
    plain = run(command)
    if plain[0] != 0 or "WRONG" in plain[1] or run(command) != plain:
        return None
    for turn in range(2):
        with_smelt = run([options.smelt, "run", *options.options.split(), *command])
        found = difference(plain, with_smelt)
        if found and options.keep:
            directory = pathlib.Path(options.keep)
            directory.mkdir(parents=True, exist_ok=True)
            (directory / f"{number}.plain").write_text(plain[1], encoding="utf-8")
            (directory / f"{number}.smelt").write_text(with_smelt[1], encoding="utf-8")
        if found:
            return f"run {turn + 1}: {found}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smelt", required=True, help="the smelt command")
    parser.add_argument("--program", required=True, help="what makes the calls")
    parser.add_argument("--options", default="", help="of smelt run")
    parser.add_argument("--first", type=int, default=1, help="the first number")
    parser.add_argument("--count", type=int, default=20, help="of numbers")
    parser.add_argument("--keep", help="the directory for outputs that differ")
    options = parser.parse_args()
    compared = different = 0
    for number in range(options.first, options.first + options.count):
        try:
            found = compare(number, options)
        except OSError as error:
            print(f"random_calls.py: number {number}: {error}", file=sys.stderr)
            return 2
        compared += found is not None
        different += bool(found)
        if found:
            print(f"number {number}: {found}", flush=True)
    print(f"{options.count} numbers, {compared} compared, {different} differ")
    return 1 if different else 0 if compared else 2


if __name__ == "__main__":
    sys.exit(main())
