#!/usr/bin/env python3
"""Real programs, plain and under `smelt run`: is the output the same, and what does it do to the time?

    python3 bench/shims/programs.py [--smelt build/release/bin/smelt] [--only NAMES] [--without NAMES] [--install]
                                    [--most 14] [--place build/programs] [--json FILE] [--add]
    python3 bench/shims/programs.py --list

programs.toml lists the programs, one table each; its head says what the fields mean. Wheels go into a virtual environment
in --place, where everything else is built and run, too. Debian's packages are installed with --install, as root; without
it a program whose packages are missing is skipped, and the reason is told. A bare root that is gone afterwards:

    tests/bare/run --user root './x build && bench/shims/programs.py --install'

A start is the program once plain and once under `smelt run`, by turns in both orders, each in an empty directory.
Output, standard error, exit status and the files that the entry names have to be the same in all of them. Starts are taken as
python/noise.py says: first seven, then more while the verdict is open, --most in all; those during which the floor moved are
taken again. ratio: plain time over time under smelt, the median over the starts with its interval; above 1 smelt is faster.
One more run with SMELT_VERBOSE=1 tells what was taken over. With --add, programs that FILE has already stay there.

Exit status: 1 if a program under smelt put out something else, failed, hung, or is slower than 0.97 by more than its
interval; else 0.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
INPUTS = HERE / "programs"
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "python"))
import noise  # noqa: E402

FIRST, MOST = 7, 14
LEAST, MARGIN = 0.97, 0.03
TIMEOUT_S = 300
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][-+]?\d+)?")


class Missing(Exception):
    """A program that cannot be had or does not run here."""


@dataclasses.dataclass
class Program:
    name: str
    title: str
    parallel: str
    command: str
    debian: list = dataclasses.field(default_factory=list)
    pypi: list = dataclasses.field(default_factory=list)
    wheels: str = "common"
    prepare: str = ""
    environment: dict = dataclasses.field(default_factory=dict)
    results: list = dataclasses.field(default_factory=list)
    silent: bool = False
    ignore: list = dataclasses.field(default_factory=list)
    tolerance: float = 0.0
    timed: str = ""
    note: str = ""
    status: int = 0
    refused: bool = False
    threads: dict = dataclasses.field(default_factory=dict)
    variants: dict = dataclasses.field(default_factory=dict)
    least: float = LEAST

    def each(self):
        """What the entry stands for."""
        if not self.threads and not self.variants:
            return [self]
        some = [(number, f"{number} threads", {"OMP_NUM_THREADS": number}, least) for number, least in self.threads.items()]
        some += [(word, word, environment, LEAST) for word, environment in self.variants.items()]
        return [dataclasses.replace(self, name=f"{self.name}-{suffix}", title=f"{self.title}, {text}", least=least,
                                    environment={**self.environment, **environment}, threads={}, variants={})
                for suffix, text, environment, least in some]


def programs_of(file):
    entries = tomllib.loads(file.read_text()).items()
    return [each for name, fields in entries for each in Program(name, **fields).each()]


def run(words, **options):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **options)


# ---- installing --------------------------------------------------------------------------------------------------

def is_installed(package):
    found = run(["dpkg-query", "-W", "-f", "${db:Status-Status}", package])
    return found.stdout == b"installed"


def need_packages(packages, install):
    missing = [package for package in packages if not is_installed(package)]
    if not missing:
        return
    if not install or os.geteuid() != 0:
        raise Missing(f"not installed: {' '.join(missing)} (--install, as root)")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], env=environment)
    if done.returncode != 0:
        raise Missing(f"apt-get install {' '.join(missing)}: {done.stderr.decode(errors='replace').strip()[-200:]}")


def need_wheels(place, name, packages):
    """The environment `name` with these packages; its python."""
    environment = place / f"wheels-{name}"
    python = environment / "bin/python3"
    if not python.exists():
        run([sys.executable, "-m", "venv", environment])
    done = run([python, "-m", "pip", "install", "-q", *packages]) if packages else run([python, "-c", ""])
    if done.returncode != 0:
        raise Missing(f"pip install {' '.join(packages)}: {done.stderr.decode(errors='replace').strip()[-200:]}")
    return python


def version_of(program, python):
    """Of the first package that it needs, the wheel if there is one."""
    if program.pypi:
        ask = f"import importlib.metadata as m; print(m.version({program.pypi[0]!r}))"
        return run([python, "-c", ask]).stdout.decode().strip()
    if not program.debian:
        return ""
    version = run(["dpkg-query", "-W", "-f", "${source:Upstream-Version}", program.debian[0]]).stdout.decode()
    return re.sub(r"[+~].*", "", version)


# ---- running -----------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Outcome:
    seconds: float
    status: int | None  # None: it took too long
    texts: dict         # what is compared, by where it was put out
    report: str         # all of its standard error

    def reason_against(self, plain, tolerance):
        """Why this is not the same as the plain outcome; empty if it is."""
        if self.status != plain.status:
            ends = ["took too long" if each is None else f"status {each}" for each in (self.status, plain.status)]
            return f"{ends[0]} instead of {ends[1]}"
        for where, text in plain.texts.items():
            if not same(text, self.texts[where], tolerance):
                return f"{where} differs: {first_difference(text, self.texts[where], tolerance)}"
        return ""


def same(text, other, tolerance):
    if text == other or tolerance == 0:
        return text == other
    # A sign takes a place in front of a number.
    if re.sub(rb" *#", b"#", NUMBER.sub(b"#", text)) != re.sub(rb" *#", b"#", NUMBER.sub(b"#", other)):
        return False
    pairs = zip(NUMBER.findall(text), NUMBER.findall(other))
    value = lambda word: float(word.lower().replace(b"d", b"e"))  # noqa: E731
    return all(a == b or abs(value(a) - value(b)) <= tolerance * max(abs(value(a)), abs(value(b)), 1) for a, b in pairs)


def first_difference(text, other, tolerance):
    lines, others = text.splitlines() or [b""], other.splitlines() or [b""]
    for line, its in zip(lines + [b""] * len(others), others + [b""] * len(lines)):
        if not same(line, its, tolerance):
            return f"{line[:80]!r}, with smelt {its[:80]!r}"
    return "at its end"


class Runner:
    """A program that is installed, prepared and ready to start."""

    def __init__(self, program, place, smelt, install):
        self.program = program
        need_packages(program.debian, install)
        self.python = need_wheels(place, program.wheels, program.pypi)
        self.directory = place / program.name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                            "LC_ALL": "C.UTF-8", "PATH": f"{self.python.parent}:{os.environ['PATH']}",
                            "HERE": str(self.directory), "INPUTS": str(INPUTS)}
        self.environment.update({name: str(value) for name, value in program.environment.items()})
        self.smelt = smelt
        places = {"{here}": str(self.directory), "{inputs}": str(INPUTS), "{threads}": self.environment.get("OMP_NUM_THREADS", "")}
        self.words = [re.sub(r"\{\w+\}", lambda found: places.get(found[0], found[0]), word)
                      for word in shlex.split(program.command)]
        if program.prepare:
            done = run(["bash", "-e", "-c", program.prepare], cwd=self.directory, env=self.environment)
            if done.returncode != 0:
                raise Missing(f"preparing: {done.stderr.decode(errors='replace').strip()[-300:]}")

    def start(self, with_smelt, **more):
        """Runs it once, in an empty directory."""
        directory = self.directory / "run"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        words = [*([self.smelt, "run"] if with_smelt else []), *self.words]
        before = time.perf_counter()
        process = subprocess.Popen(words, cwd=directory, env={**self.environment, **more}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = None
        seconds = time.perf_counter() - before
        if self.program.timed and (found := re.search(self.program.timed.encode(), out + err, re.MULTILINE)):
            seconds = float(found[1])
        texts = {} if self.program.silent else {"standard output": self.settled(out), "standard error": self.settled(err)}
        for pattern in self.program.results:
            for file in sorted(directory.glob(pattern)):
                texts[file.name] = self.settled(file.read_bytes())
            if not any(directory.glob(pattern)):
                texts[pattern] = b""
        return Outcome(seconds, status, texts, err.decode(errors="replace"))

    def settled(self, text):
        """Without what differs from run to run by its nature."""
        text = text.replace(str(self.directory).encode(), b"")
        for pattern in [self.program.timed, *self.program.ignore]:
            if pattern:
                text = re.sub(pattern.encode(), b"", text, flags=re.MULTILINE)
        return text


class Differs(Exception):
    """It is not the same with smelt."""


class Starts:
    """Takes starts, and holds every outcome against the first plain one."""

    def __init__(self, runner):
        self.runner, self.plain, self.count = runner, None, 0

    def take(self):
        """(seconds under smelt, seconds plain)."""
        self.count += 1
        seconds = {}
        for with_smelt in [False, True] if self.count % 2 else [True, False]:
            outcome = self.runner.start(with_smelt)
            seconds[with_smelt] = outcome.seconds
            self.hold(outcome, with_smelt)
        return seconds[True], seconds[False]

    def hold(self, outcome, with_smelt):
        program = self.runner.program
        if self.plain is None:
            if outcome.status != program.status:
                raise Missing(f"does not run here: status {outcome.status}: "
                              f"{outcome.report.strip()[-300:]}")
            self.plain = outcome
        reason = outcome.reason_against(self.plain, program.tolerance)
        if reason:
            raise (Differs if with_smelt else Missing)(reason if with_smelt else f"differs from itself: {reason}")


def taken_over(text):
    """{function: calls taken over} and {reason: calls passed on}, of all processes."""
    taken, passed = {}, {}
    for function, count in re.findall(r"^  (.+?): taken over (\d+) times", text, re.MULTILINE):
        taken[function] = taken.get(function, 0) + int(count)
    for count, reason in re.findall(r": passed on (\d+) times: (.+)$", text, re.MULTILINE):
        passed[reason] = passed.get(reason, 0) + int(count)
    return taken, passed


def refusal(runner):
    """For a program into which nothing can be preloaded: smelt's one line about it."""
    outcome = runner.start(True)
    text = outcome.report
    if outcome.status != 126 or text.count("\n") != 1:
        raise Differs(f"not refused: status {outcome.status}: {text[:200]}")
    return {"verdict": "refused", "why": text.strip().replace(f"{runner.directory}/", "")}


def measure(runner, most, smelt):
    program = runner.program
    if program.refused:
        plain = runner.start(False)
        if plain.status != program.status:
            raise Missing(f"does not run here: status {plain.status}")
        return refusal(runner)
    starts = Starts(runner)
    contest = noise.Contest(probe=lambda: noise.floor_now(smelt), first=min(FIRST, most), most=most)
    decided = lambda ratios: noise.judge(ratios, margin=MARGIN).verdict != noise.UNDECIDED  # noqa: E731
    _, samples = contest.compare(starts.take, decided)
    ratios = [plain / ours for ours, plain in samples["pairs"]]
    finding = noise.judge(ratios, margin=MARGIN)
    taken, passed = taken_over(runner.start(True, SMELT_VERBOSE="1").report)
    return {"verdict": finding.verdict, "ratio": dataclasses.asdict(finding.ratio),
            "plain_s": statistics.median(plain for _, plain in samples["pairs"]),
            "smelt_s": statistics.median(ours for ours, _ in samples["pairs"]),
            "pairs": samples["pairs"], "retaken": samples["retaken"], "unsteady": samples["unsteady"],
            "taken_over": taken, "passed_on": passed,
            "least": program.least, "slow": finding.ratio.count >= FIRST and finding.ratio.high < program.least}


def examine(program, arguments):
    try:
        runner = Runner(program, arguments.place, arguments.smelt, arguments.install)
        return {"version": version_of(program, runner.python)} | measure(runner, arguments.most, arguments.smelt)
    except Missing as why:
        return {"verdict": "skipped", "why": str(why)}
    except Differs as why:
        return {"verdict": "differs", "why": str(why)}


# ---- telling -----------------------------------------------------------------------------------------------------

def line_about(found):
    if "ratio" not in found:
        return f"{found['verdict']}: {found['why']}"
    ratio = found["ratio"]
    return (f"{found['plain_s']:9.3f} {found['smelt_s']:9.3f} {ratio['median']:8.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]  "
            f"{found['verdict']}{', SLOW' if found['slow'] else ''}")


def is_bad(found):
    return found["verdict"] == "differs" or found.get("slow", False)


def head():
    return run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]).stdout.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smelt", default=str(ROOT / "build/release/bin/smelt"))
    parser.add_argument("--only", default="", help="names, separated by commas; a name that ends in - is a beginning")
    parser.add_argument("--without", default="")
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--most", type=int, default=MOST)
    parser.add_argument("--place", type=pathlib.Path, default=ROOT / "build/programs")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.place = arguments.place.resolve()
    arguments.smelt = str(pathlib.Path(arguments.smelt).resolve())
    programs = programs_of(HERE / "programs.toml")
    chosen = chosen_of(programs, arguments)
    if arguments.list:
        for program in chosen:
            print(f"{program.name:24} {program.title}; {program.parallel}")
        return 0
    known = json.loads(arguments.json.read_text())["programs"] if arguments.add and arguments.json.exists() else {}
    found = {}
    for program in chosen:
        found[program.name] = {"commit": head(), **examine(program, arguments)}
        print(f"{program.name:24} {line_about(found[program.name])}", flush=True)
        if arguments.json:
            both = {**known, **found}
            in_order = {each.name: both[each.name] for each in programs if each.name in both}
            arguments.json.write_text(json.dumps({"programs": in_order}, indent=1) + "\n")
    return 1 if any(map(is_bad, found.values())) else 0


def chosen_of(programs, arguments):
    def named(program, names):
        return any(program.name == name or (name.endswith("-") and program.name.startswith(name)) for name in names)
    only, without = ([name for name in names.split(",") if name] for names in (arguments.only, arguments.without))
    unknown = [name for name in only + without if not any(named(program, [name]) for program in programs)]
    if unknown:
        sys.exit(f"programs.py: no such program: {', '.join(unknown)} (--list tells which there are)")
    return [program for program in programs if (not only or named(program, only)) and not named(program, without)]


if __name__ == "__main__":
    sys.exit(main())
