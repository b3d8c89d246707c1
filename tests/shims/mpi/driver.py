#!/usr/bin/env python3
"""Runs the programs of the MPI shim's tests under mpirun.

    driver.py --mpi openmpi|mpich --mpirun PROGRAM --shim LIBRARY --programs DIRECTORY TEST

Exit status 77: this machine does not permit the test; the reason is printed.
"""

import argparse
import contextlib
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SKIP = 77


def fail(text):
    print(text)
    sys.exit(1)


class Mpi:
    """One MPI library's mpirun."""

    def __init__(self, arguments):
        self.kind, self.mpirun, self.shim = arguments.mpi, arguments.mpirun, arguments.shim
        self.programs = pathlib.Path(arguments.programs)
        self.home = tempfile.mkdtemp(prefix="smelt-mpi-")

    def program(self, name):
        return str(self.programs / f"shim_mpi_{name}_{self.kind}")

    def environment(self, **more):
        kept = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "SMELT_MPI_AFTER": "1",
                "XDG_CACHE_HOME": self.home, "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_hwloc_base_binding_policy": "none",
                # The same for Open MPI 5, whose launcher is PRRTE.
                "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "PRTE_MCA_hwloc_default_binding_policy": "none"}
        return {**os.environ, **kept, **more}

    def command(self, ranks, *program, preload=None, options=(), gives_way=True):
        """gives_way: where MPICH has more ranks than PUs, they yield as they poll, so that turns do not take ticks."""
        preload = preload or self.shim
        if gives_way and self.kind == "mpich" and ranks > len(os.sched_getaffinity(0)):
            preload += f":{self.programs}/libshim_mpi_yields.so"
        return [self.mpirun, *options, "-n", str(ranks), "env", "LD_PRELOAD=" + preload, *program]

    def run(self, ranks, *program, within=180, expect=0, **more):
        """stdout and stderr of a run, which has to end in time and with that status (None: any but 0)."""
        variables = more.pop("variables", {})
        prefix = more.pop("prefix", [])
        command = [*prefix, *self.command(ranks, *program, **more)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", env=self.environment(**variables), start_new_session=True)
        try:
            text, _ = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            fail(f"{' '.join(command)}: not over after {within} s\n{text}")
        if process.returncode != expect and not (expect is None and process.returncode != 0):
            fail(f"{' '.join(command)}: status {process.returncode}\n{text}")
        return text


def ranks_are_alone(mpi):
    """Whether ranks do not find each other without smelt: Ubuntu 24.04's MPICH has a launcher that its library ignores."""
    words = [mpi.mpirun, "-n", "2", mpi.program("behaviour"), "size"]
    run = subprocess.run(words, env=mpi.environment(), capture_output=True, text=True, check=False, timeout=60)
    return "1 ranks" in run.stdout


def left_behind():
    return sorted(glob.glob("/dev/shm/smelt-*"))


def still_running(program):
    found = []
    for path in glob.glob("/proc/[0-9]*/exe"):
        try:
            if os.readlink(path) == program:
                found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def test_matrix(mpi):
    for ranks, rounds in ((2, 1500), (3, 700), (4, 300)):
        mpi.run(ranks, mpi.program("matrix"), str(rounds), str(10 * ranks + 1), gives_way=False)


def test_behaviour(mpi):
    for ranks in (2, 4):
        text = mpi.run(ranks, mpi.program("behaviour"), variables={"SMELT_VERBOSE": "1"})
        if "all right" not in text or not re.search(r"MPI_Allreduce: taken over [1-9]", text):
            fail(f"nothing was taken over:\n{text}")
        if "an intercommunicator" not in text:
            fail(f"calls on intercommunicators were not passed on visibly:\n{text}")
    text = mpi.run(2, mpi.program("behaviour"), variables={"SMELT_MPI": "0", "SMELT_VERBOSE": "1"})
    if "taken over" in text:
        fail(f"SMELT_MPI=0 was ignored:\n{text}")
    if "SMELT_MPI=0" not in text or "first calls" in text:
        fail(f"calls that SMELT_MPI=0 passes on have another reason:\n{text}")


def test_behind(mpi):
    """Long messages, in pieces, and a nonblocking collective of smelt, one of whose ranks calls nothing but smelt's
    blocking collectives."""
    smelt_alone = {"SMELT_MPI_RACE": "0", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
                   "OMPI_MCA_btl_sm_single_copy_mechanism": "none", "UCX_TLS": "posix,sysv,self"}
    # Without a note of what is under way the library gets on at every 16th collective.
    for way, most in (("message", 700), ("again", 700), ("window", 700), ("operation", 900),
                      ("matched", 20000)):
        text = mpi.run(2, mpi.program("behaviour"), "behind", way, variables=smelt_alone)
        calls = re.search(r"behind (\d+) collectives", text)
        if not calls or int(calls[1]) > most:
            fail(f"{way}: these should have got through by {most} collectives:\n{text}")


def test_corners(mpi):
    """What programs seldom do, and the test itself against the library."""
    program = mpi.program("corners")
    for ranks, variables in ((2, {"SMELT_MPI": "0"}), (2, {}), (3, {"SMELT_MPI_RACE": "0"}),
                             (3, {"SMELT_MPI_AFTER": "7", "SMELT_VERBOSE": "1"})):
        for mode in ("pairs", "callbacks", "absent", "wrong", "types", "lengths"):
            text = mpi.run(ranks, program, mode, within=60, variables=variables)
            if "all right" not in text:
                fail(f"{mode}: did not get through:\n{text}")
        text = mpi.run(ranks, program, "ending", within=60, variables={"SMELT_VERBOSE": "1", **variables})
        if text.count("ended well") != ranks or ("SMELT_MPI" not in variables) != bool(re.search("taken over [1-9]", text)):
            fail(f"not all ranks ended well, or there is no report of smelt's:\n{text}")


def test_repeats(mpi):
    """Calls like earlier ones, without the report's samples and with them; and the test itself against the library."""
    for ranks, variables in ((1, {}), (2, {}), (3, {}), (3, {"SMELT_VERBOSE": "1"}), (2, {"SMELT_MPI": "0"})):
        mpi.run(ranks, mpi.program("repeats"), variables=variables)


def test_race(mpi):
    """Who serves a call changes with the times of both; results do not."""
    often = {"SMELT_MPI_RACE": "1"}
    for ranks in (2, 3, 4):
        mpi.run(ranks, mpi.program("repeats"), variables=often)
        mpi.run(ranks, mpi.program("matrix"), str(1200 // ranks), str(ranks), variables=often)
        for mode in ("bits", "latebits", "ibits"):
            at_ease = {**often, "SMELT_MPI_AFTER": "64", "SMELT_VERBOSE": "1"}
            text = mpi.run(ranks, mpi.program("race"), mode, variables=at_ease)
            taken = len(re.findall(r"MPI_Allreduce: taken over [1-9]", text))
            # Sums of two numbers are the same in any order.
            if taken != (ranks if mode != "ibits" or ranks == 2 else 0):
                fail(f"{taken} of {ranks} ranks have had smelt's MPI_Allreduce:\n{text}")
            # The library serves none of them before, whatever their bits.
            if mode == "latebits" and ranks > 2 and text.count("MPI_Allreduce: taken over 2000 times") != ranks:
                fail(f"smelt did not serve all 5 * 400 reductions:\n{text}")
            firm = len(re.findall("MPI_Allreduce: passed on [1-9].*: the library has served such a reduction before", text))
            if firm != (ranks if mode == "ibits" else 0):
                fail(f"on {firm} of {ranks} ranks the library goes on serving what it has served:\n{text}")
    mpi.run(2, mpi.program("nonblocking"), "single", "60", "1", variables=often)
    mpi.run(2, mpi.program("race"), "threads", "100", variables=often)
    for ranks in (2, 3):
        text = mpi.run(ranks, mpi.program("race"), "settling", variables={"SMELT_VERBOSE": "1"})
        if len(re.findall(r"MPI_Allreduce: taken over [1-9]", text)) != ranks:
            fail(f"communicators did not get to smelt:\n{text}")
    # As on two machines, where the library creates communicators for smelt.
    script = 'export SMELT_MPI_MACHINE=$(( ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} % 2 )); exec "$0" "$@"'
    text = mpi.run(4, "sh", "-c", script, mpi.program("race"), "settling", variables={"SMELT_VERBOSE": "1"})
    if mpi.kind == "openmpi" and "where several threads call Open MPI" not in text:
        fail(f"communicators were created in several threads:\n{text}")
    # Ranks that sleep while they wait, and wake up late.
    preload = f"{mpi.programs}/libshim_mpi_slow.so:{mpi.shim}"
    ranks, said = 2, "MPI_Bcast: passed on [1-9]\\d+ times: the library is faster here from 64 KiB on, below 128 KiB"
    for variables, wanted in ((often, True), ({"SMELT_MPI_RACE": "0"}, False), ({"SMELT_MPI_RACE": "1000"}, False)):
        slow = {**variables, "SMELT_WAIT": "sleep", "SMELT_VERBOSE": "1"}
        text = mpi.run(ranks, mpi.program("race"), "long", "250" if wanted else "100", preload=preload, variables=slow)
        if len(re.findall(said, text)) != (ranks if wanted else 0):
            fail(f"with {variables} the library has to get MPI_Bcast on all ranks or on none:\n{text}")


def test_reduce_local(mpi):
    """What a rank combines alone; and the test itself against the library."""
    for ranks, variables in ((1, {}), (1, {"SMELT_MPI": "0"})):
        text = mpi.run(ranks, mpi.program("reduce_local"), variables=variables)
        if "all right" not in text:
            fail(f"did not get through:\n{text}")
    text = mpi.run(2, mpi.program("reduce_local"), variables={"SMELT_VERBOSE": "1"})
    for said in ("taken over [1-9]", "passed on [1-9].*: a type or operator whose result depends on who combines"):
        if len(re.findall(f"MPI_Reduce_local: {said}", text)) != 2:
            fail(f"both ranks should say '{said}':\n{text}")


def test_progress(mpi):
    """What the library calls at each turn of its progress; and the test itself against the library alone."""
    for ranks, variables in ((2, {}), (3, {}), (2, {"SMELT_MPI": "0"})):
        mpi.run(ranks, mpi.program("progress"), variables=variables)
    mpi.run(2, mpi.program("progress"), preload="libm.so.6")


def test_nonblocking(mpi):
    """Nonblocking collectives; and the test itself against the library alone."""
    program = mpi.program("nonblocking")
    mpi.run(2, program, "library", "30", "1", variables={"SMELT_MPI": "0"})
    for ranks, level, rounds in ((2, "single", 300), (3, "single", 60), (4, "single", 20), (2, "multiple", 100),
                                 (3, "multiple", 30)):
        text = mpi.run(ranks, program, level, str(rounds), str(ranks), variables={"SMELT_VERBOSE": "1"})
        if "all right" not in text:
            fail(f"did not get through:\n{text}")
        # A number, or that there were too few. What else is there may be a line that mpirun has cut for another rank's.
        if re.search(r"MPI_I\w+: taken over \d+ times; (\d|-|time saved: not measured\n)", text):
            fail(f"a time that was not measured:\n{text}")
        if not re.search(r"MPI_Ialltoallw: taken over [1-9]", text):
            fail(f"nothing was taken over:\n{text}")


def test_churn(mpi):
    """Where communicators are freed soon, later ones are not taken over unless they stay."""
    def taken(*arguments, **variables):
        text = mpi.run(2, mpi.program("churn"), *arguments, variables={"SMELT_VERBOSE": "1", "SMELT_MPI_RACE": "0", **variables})
        numbers = [int(number) for number in re.findall(r"MPI_Allreduce: taken over (\d+) times", text)]
        if len(set(numbers)) > 1:
            fail(f"the ranks do not agree:\n{text}")
        return numbers[0] if numbers else 0
    communicators, calls, after = 200, 100, 64
    soon = taken(str(communicators), str(calls), "0", SMELT_MPI_AFTER="")
    if not 0 < soon < communicators * (calls - after) // 2:
        fail(f"{soon} of {communicators} * {calls} calls were taken over")
    for seconds in ("5", "40"):  # the longer, the slower this machine is at the moment
        late = taken(str(communicators), str(calls), seconds, SMELT_MPI_AFTER="")
        if late >= 10 * communicators * calls:
            break
    else:
        fail(f"a communicator that stays was not taken over: {late} calls in all")
    told = taken(str(communicators), str(calls), "0", SMELT_MPI_AFTER=str(after))
    if told < communicators * (calls - after):
        fail(f"{told} calls were taken over, with SMELT_MPI_AFTER={after}")
    def numbers_of(call):
        return [int(number) for number in re.findall(rf"MPI_{call}: taken over (\d+) times", text)]
    for seconds in ("3", "40"):
        text = mpi.run(2, mpi.program("churn"), "maxima", str(communicators), seconds, variables={"SMELT_VERBOSE": "1"})
        if numbers_of("Reduce_scatter_block"):
            break
    for call, least, most in (("Allreduce", 1, communicators // 2), ("Reduce", 1, 1), ("Reduce_scatter_block", 1, 1)):
        numbers = numbers_of(call)
        if len(numbers) != 2 or not least <= min(numbers) == max(numbers) <= most:
            fail(f"MPI_{call} taken over {numbers} times, not {least} to {most}:\n{text}")


def test_throwing(mpi):
    """Exceptions of error handlers pass as they do without smelt."""
    program = mpi.program("throwing")
    plain = subprocess.run(mpi.command(2, program, preload="libm.so.6"), env=mpi.environment(), capture_output=True,
                           text=True, errors="replace", check=False, timeout=60)
    if plain.returncode != 0:
        print(f"skipped: without smelt, this library does not stand exceptions: {plain.stdout}{plain.stderr}")
        sys.exit(SKIP)
    for ranks, race in ((1, "1"), (2, "0"), (2, "1"), (3, "10")):
        text = mpi.run(ranks, program, variables={"SMELT_MPI_RACE": race, "SMELT_VERBOSE": "1"})
        if text.count("thrown") != ranks or (ranks > 1 and not re.search(r"MPI_Allreduce: taken over [1-9]", text)):
            fail(f"not all ranks came to the end, or smelt served nothing:\n{text}")


def test_unsettled(mpi):
    """Communicators that only nonblocking collectives use; and the test itself against the library alone."""
    program = mpi.program("unsettled")
    multiple = {"MPIR_CVAR_DEFAULT_THREAD_LEVEL": "MPI_THREAD_MULTIPLE"}  # MPICH's MPI_Init
    for ranks, after, level in ((2, "1", {}), (2, "5", {}), (3, "5", {}), (4, "1", {}), (2, "3", multiple), (3, "2", multiple)):
        verbose = {"SMELT_VERBOSE": "1", "SMELT_MPI_AFTER": after, **level}
        text = mpi.run(ranks, program, "only", variables=verbose)
        for function in ("Iallreduce", "Ibcast"):
            if len(re.findall(rf"MPI_{function}: taken over [1-9]", text)) != ranks:
                fail(f"MPI_{function} was not taken over on all ranks:\n{text}")
        mpi.run(ranks, program, "alone", f"{mpi.home}/{ranks}-{after}", variables=verbose)
        # MPICH's ranks do not give way to each other where there are more of them than PUs.
        number = "200" if ranks == 2 else "15"
        mpi.run(ranks, program, "mixed", str(10 * ranks + int(after)), number, variables=verbose)
    mpi.run(2, program, "fleeting", variables={"SMELT_MPI_AFTER": "3"})
    mpi.run(2, program, "mixed", "1", "50", variables={"SMELT_MPI": "0"})
    # One that cannot: the others keep the library's.
    text = mpi.run(2, "sh", "-c", f"SMELT_MPI=$((${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} % 2)) exec {program} only",
                   variables={"SMELT_VERBOSE": "1"})
    if "taken over" in text or "a nonblocking call before" not in text or "SMELT_MPI=0" not in text:
        fail(f"smelt was used where one rank has SMELT_MPI=0:\n{text}")
    if left_behind():
        fail(f"left behind: {left_behind()}")


def test_variables(mpi):
    """MPI_T's control variables; and the test itself against the library alone."""
    settings = {"SMELT_MPI_AFTER": "7", "SMELT_MPI_RACE": "9", "SMELT_MPI_MACHINE": "here", "SMELT_VERBOSE": "0"}
    mpi.run(1, mpi.program("variables"), "7", variables=settings)
    mpi.run(1, mpi.program("variables"), "0", preload="libm.so.6")


def test_fortran(mpi):
    """A program in Fortran, whose wrappers come down to the shim."""
    program = mpi.program("fortran")
    if not os.path.exists(program):
        print("skipped: no Fortran compiler when the tests were built")
        sys.exit(SKIP)
    mpi.run(2, program, variables={"SMELT_MPI": "0"})
    text = mpi.run(2, program, variables={"SMELT_VERBOSE": "1"})
    for function in ("Barrier", "Bcast", "Allreduce", "Iallreduce"):
        if not re.search(rf"MPI_{function}: taken over [1-9]", text):
            fail(f"MPI_{function} was not taken over:\n{text}")


def test_failures(mpi):
    """A rank is killed, or aborts: no rank goes on, and nothing is left behind."""
    before = left_behind()
    kill_one(mpi, mpi.program("behaviour"))
    kill_one(mpi, mpi.program("nonblocking"))
    program = mpi.program("behaviour")
    mpi.run(2, program, "abort", within=120, expect=None)
    time.sleep(0.2)
    for pid in still_running(program):
        os.kill(pid, signal.SIGKILL)
        fail("a rank went on after the end of its job")
    if left_behind() != before:
        fail(f"left behind: {left_behind()}")


def test_early(mpi):
    """A rank that has ended by MPI_Finalize while another one waits for it: that is told so, where smelt serves. The
    library, which without comparisons serves nothing here, waits for ever."""
    before = left_behind()
    text = mpi.run(2, mpi.program("behaviour"), "early", within=120, variables={"SMELT_MPI_RACE": "0"})
    times = [float(time) for time in re.findall(r"told after ([0-9.]+) s", text)]
    # A second is promised; the machine may be busy with something else.
    if len(times) != 6 or max(times) > 5:
        fail(f"six collectives were to be told within a second:\n{text}")
    if left_behind() != before:
        fail(f"left behind: {left_behind()}")


def test_mixed(mpi):
    """Where some rank lacks the preload library, or may, nobody has it: a rank of this machine; one elsewhere, where
    `smelt run` started the launcher."""
    here, served = {"SMELT_MPI_RANKS": "here", "SMELT_VERBOSE": "1"}, r"MPI_Allreduce: taken over [1-9]"
    program = mpi.program("mixed")
    text = mpi.run(2, program, "sums", variables=here)
    if len(re.findall(served, text)) != 2:
        fail(f"all ranks are here, and smelt does not serve them:\n{text}")
    # As on two machines, with one rank each, of which one does not have it.
    script = ('export OMPI_COMM_WORLD_LOCAL_SIZE=1 MPI_LOCALNRANKS=1; '
              '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" = 0 ] || unset LD_PRELOAD; exec "$0" "$@"')
    for said in ("here", "hre"):
        text = mpi.run(2, "sh", "-c", script, program, "sums", within=60, variables={**here, "SMELT_MPI_RANKS": said})
        if re.search(served, text) or "ranks elsewhere may lack smelt" not in text:
            fail(f"smelt serves ranks that are here alone, or does not say that it does not:\n{text}")
    # One rank of this machine does not have it; all have, in a script each, one of which is late.
    script = '[ "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" != %d ] || %s; "$0" "$@"; exit $?'
    for ranks, lacking in ((2, 0), (2, 1), (4, 2)):
        text = mpi.run(ranks, "sh", "-c", script % (lacking, "unset LD_PRELOAD"), program, "sums", within=60,
                       variables={"SMELT_VERBOSE": "1"})
        if re.search(served, text) or "not all ranks have smelt" not in text:
            fail(f"smelt serves where rank {lacking} lacks it, or does not say that it does not:\n{text}")
    for variables in ({}, here):
        text = mpi.run(2, "sh", "-c", script % (0, "sleep 1"), program, "sums", variables={"SMELT_VERBOSE": "1", **variables})
        if len(re.findall(served, text)) != 2:
            fail(f"all ranks have smelt, and it does not serve them:\n{text}")
    if mpi.kind == "mpich" or cannot_spawn(mpi, program):  # MPICH 4.0 reports an error in MPI_Comm_spawn
        return
    text = mpi.run(2, program, "spawn", within=60, variables=here)
    if len(re.findall(served, text)) != 2 or "ranks elsewhere may lack smelt" not in text:
        fail(f"smelt does not serve the ranks that are here, or a spawned one:\n{text}")


def cannot_spawn(mpi, program):
    """Whether spawned processes are out of reach without smelt: Open MPI 5 reaches them by network interfaces alone."""
    # Having said so, it may wait for ever.
    command = ["timeout", "-k", "5", "60", *mpi.command(2, program, "spawn", preload="libm.so.6")]
    plain = subprocess.run(command, env=mpi.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           errors="replace", start_new_session=True, check=False)
    unreachable = plain.returncode != 0 and "unable to reach each other" in plain.stdout
    if unreachable:
        print("spawning: not compared, as without smelt spawned processes are out of reach here")
    return unreachable


def kill_one(mpi, program):
    """mpirun has to notice. MPICH 4.2.1 does so every other time; that of another library, or version, always."""
    if status_of_killed(mpi, program, mpi.shim) != 0:
        return
    if all(status_of_killed(mpi, program, "libm.so.6") != 0 for _ in range(20)):
        fail("mpirun did not notice the killed rank, as it does without smelt")


def status_of_killed(mpi, program, preload):
    """What mpirun returns where one of two ranks is killed."""
    process = subprocess.Popen(mpi.command(2, program, "spin", preload=preload), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True, env=mpi.environment(), start_new_session=True)
    while "round 1000" not in process.stdout.readline():
        if process.poll() is not None:
            fail("the ranks did not get going")
    os.kill(still_running(program)[-1], signal.SIGKILL)
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        fail("a killed rank left the others waiting")
    return process.returncode


def test_tools(mpi):
    """A tool above the shim, wherever it is loaded."""
    tool = str(mpi.programs / f"libshim_mpi_tool_{mpi.kind}.so")
    for preload in (f"{tool}:{mpi.shim}", f"{mpi.shim}:{tool}"):
        text = mpi.run(2, mpi.program("broadcasts"), preload=preload, variables={"SMELT_VERBOSE": "1"})
        if text.count("tool: 100 broadcasts") != 2 or "MPI_Bcast: taken over" not in text:
            fail(f"LD_PRELOAD={preload}: the tool or the shim saw nothing:\n{text}")


class Machines:
    """Network namespaces m0, m1, ... on one bridge, each with a host name of its own."""

    def __init__(self, count):
        self.names = [f"smelt{os.getpid()}m{i}" for i in range(count)]
        self.hub = f"smelt{os.getpid()}hub"
        self.hosts = [f"10.77.0.{i + 1}" for i in range(count)]

    def __enter__(self):
        try:
            self.ip("netns", "add", self.hub)
            self.inside(self.hub, "ip", "link", "add", "bridge", "type", "bridge")
            self.inside(self.hub, "ip", "link", "set", "bridge", "up")
            for i, name in enumerate(self.names):
                self.ip("netns", "add", name)
                self.inside(name, "ip", "link", "set", "lo", "up")
                self.inside(name, "ip", "link", "add", "net0", "type", "veth", "peer", "name", f"port{i}", "netns", self.hub)
                self.inside(self.hub, "ip", "link", "set", f"port{i}", "master", "bridge", "up")
                self.inside(name, "ip", "address", "add", f"{self.hosts[i]}/24", "dev", "net0")
                self.inside(name, "ip", "link", "set", "net0", "up")
            subprocess.run(["unshare", "-u", "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as wrong:
            self.__exit__()
            detail = getattr(wrong, "stderr", b"") or b""
            print(f"skipped: network namespaces are not permitted here: {wrong} {detail.decode(errors='replace')}")
            sys.exit(SKIP)
        return self

    def __exit__(self, *_):
        for name in (*self.names, self.hub):
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def ip(self, *arguments):
        subprocess.run(["ip", *arguments], check=True, capture_output=True)

    def inside(self, name, *command):
        self.ip("netns", "exec", name, *command)

    def enter(self, index):
        """The command that runs another on a machine."""
        name = self.names[index]
        return ["ip", "netns", "exec", name, "unshare", "-u", "sh", "-c", f'hostname {name}; exec "$@"', "sh"]

    def agent(self, directory):
        """In the place of ssh: AGENT [options] HOST COMMAND..."""
        path = pathlib.Path(directory) / "agent"
        cases = "\n".join(f'{host}) name={name};;' for host, name in zip(self.hosts, self.names))
        path.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\ncase "$host" in\n'
                        f'{cases}\n*) echo "no machine $host" >&2; exit 1;;\nesac\n'
                        'export name command="$*"\n'
                        'exec ip netns exec "$name" unshare -u sh -c \'hostname $name; eval "$command"\'\n')
        path.chmod(0o755)
        return str(path)


def on_machines(mpi, spreads):
    """For each layout on each number of machines: it, and how to run it. "13": one rank and three; "1-3": the same,
    dealt out in turns."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        print("skipped: network namespaces need root and iproute2")
        sys.exit(SKIP)
    for count, layouts in spreads.items():
        with Machines(count) as machines:
            agent = machines.agent(mpi.home)
            for spread in layouts:
                options, variables = layout(mpi, machines, agent, spread)
                variables["SMELT_VERBOSE"] = "1"
                yield spread, {"options": options, "variables": variables, "prefix": machines.enter(0)}


ACROSS = {"Barrier", "Bcast", "Reduce", "Allreduce", "Reduce_scatter", "Reduce_scatter_block", "Scatter", "Gather",
          "Allgather", "Allgatherv", "Alltoall"}


def test_machines(mpi):
    """Blocking ones; machines with as many ranks each and with one and three, neighbours together and apart."""
    seen = ""  # where no communicator of several ranks is on one machine
    for seed, (spread, where) in enumerate(on_machines(mpi, {2: ("22", "1-3"), 3: ("222", "2-2-2")})):
        program = (mpi.program("matrix"), "60", str(seed + 1), "alike")
        if mpi.kind == "mpich":
            run_without_end(mpi, ranks_of(spread), program, " rounds\n", **where)
            continue
        text = mpi.run(ranks_of(spread), *program, **where)
        seen += text if spread in ("22", "222") else ""
    missing = ACROSS - set(re.findall(r"MPI_(\w+): taken over [1-9]", seen))
    if mpi.kind == "openmpi" and (missing or "between machines" not in seen):
        fail(f"{missing} not taken over between machines, or nothing passed on:\n{seen}")


def test_machines_nonblocking(mpi):
    for seed, (spread, where) in enumerate(on_machines(mpi, {2: ("13",), 3: ("2-2-2",)})):
        ranks, program = ranks_of(spread), (mpi.program("nonblocking"), "machines", "15", str(seed + 1))
        if mpi.kind == "mpich":
            run_without_end(mpi, ranks, program, "all right\n", within=120, **where)
            alone = (program[0], "machines-single", *program[2:])
            run_without_end(mpi, ranks, alone, "all right\n", within=120, **where)
            continue
        text = mpi.run(ranks, *program, within=120, **where)
        for prefix in ("MPI_I", "MPIX_"):  # which ones is drawn
            if len(set(re.findall(rf"{prefix}(\w+): taken over [1-9]", text))) < 6:
                fail(f"{prefix}... was not taken over between machines:\n{text}")
        if "an operation between machines" not in text:
            fail(f"nothing was passed on visibly between machines:\n{text}")


def run_without_end(mpi, ranks, program, end, options, variables, prefix, within=180):
    """Until the program says by the line `end` that it is through: MPICH 4.0 over UCX's TCP may hang in MPI_Finalize,
    also where no shim is loaded. Some ranks wait there for the others' answer to the closing of their connections, while these sleep
    in a barrier of PMI already."""
    process = subprocess.Popen([*prefix, *mpi.command(ranks, *program, options=options)], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                               env=mpi.environment(**variables))
    watchdog = threading.Timer(within, lambda: os.killpg(process.pid, signal.SIGKILL))
    watchdog.start()
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.endswith(end):
            break
    else:
        fail("".join(seen) + f"{' '.join(program)}: did not get through")
    watchdog.cancel()
    for pid in still_running(program[0]):
        with contextlib.suppress(ProcessLookupError):  # gone meanwhile
            os.kill(pid, signal.SIGKILL)
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)


def ranks_of(spread):
    return sum(int(each) for each in spread if each != "-")


def layout(mpi, machines, agent, spread):
    """mpirun's options and environment. `spread`: ranks on each machine, joined by "-" where neighbours are apart."""
    apart, slots = "-" in spread, spread.replace("-", "")
    hosts = ",".join(f"{host}:{number}" for host, number in zip(machines.hosts, slots))
    if mpi.kind == "openmpi":
        options = ["--host", hosts, "--map-by", "node" if apart else "slot", "--mca", "plm_rsh_agent", agent,
                   "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "btl_tcp_if_include", "net0",
                   "--mca", "oob_tcp_if_include", "net0"]
        for name in ("LD_PRELOAD", "SMELT_VERBOSE", "SMELT_MPI_AFTER", "XDG_CACHE_HOME"):
            if name != "LD_PRELOAD":
                options += ["-x", name]
        return options, {}
    # Hydra deals its hosts out in their order: one rank each where neighbours are apart, as long as there are any left.
    if apart:
        left = [int(number) for number in slots]
        turns = [i for turn in range(max(left)) for i, number in enumerate(left) if number > turn]
        hosts = ",".join(f"{machines.hosts[i]}:1" for i in turns)
    options = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", hosts, "-iface", "net0"]
    return options, {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "net0", "HYDRA_IFACE": "net0"}


def main():
    parser = argparse.ArgumentParser()
    for name in ("mpi", "mpirun", "shim", "programs"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("test")
    arguments = parser.parse_args()
    mpi = Mpi(arguments)
    try:
        globals()[f"test_{arguments.test}"](mpi)
    except SystemExit as end:
        if end.code == 1 and ranks_are_alone(mpi):
            print(f"{mpi.mpirun}: each rank is alone, without smelt as well")
            sys.exit(SKIP)
        raise
    finally:
        shutil.rmtree(mpi.home, ignore_errors=True)


if __name__ == "__main__":
    main()
