#!/usr/bin/env python3
"""Random OpenMP programs with and without smelt: the output has to be the same.

    python3 tests/shims/openmp/random_programs.py --smelt build/release/bin/smelt --compiler gcc [--first 1] [--count 20]
                                                  [--settings 3] [--keep DIRECTORY]

A program is made from its number, in C. It counts and sums in each construct what does not depend on how its threads are
scheduled, and prints the sums; it also checks orders and numbers of threads itself. It is run twice without smelt and twice
with it, under some settings of the environment. Where the runs without smelt differ, or fail, the program says nothing about
smelt, and is counted as left out. Exit status: 0 if no output differs, 1 if one does, 2 if programs cannot be compiled or run
at all, or no program was left.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

TIMEOUT_S = 60

BEGIN = """#include <omp.h>
#include <pthread.h>
#include <stdio.h>
enum { sums = %d };
static long sum[sums + 1], plain[sums + 1], place[sums + 1], failures;
static char done[200];
static int zero, one = 1, bound = 33;
static omp_lock_t lock;
static omp_nest_lock_t nest;
static void add(int at, long value) { __atomic_fetch_add(&sum[at], value, __ATOMIC_RELAXED); }
static void check(int good) {
  if (!good) __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
}
/* What every thread of a team sees; numbers of threads further out only where the same thread comes by each time. */
static void look(int at, int outer) {
  add(at, omp_get_num_threads() * 7 + omp_get_thread_num() * 131 + omp_get_level() * 17 + omp_get_active_level() * 1009 +
              omp_in_parallel() * 5 + omp_get_max_threads() * 3);
  for (int level = 0; level <= omp_get_level(); level++) {
    if (outer) add(at, (level + 1) * (omp_get_ancestor_thread_num(level) * 19 + omp_get_team_size(level) * 23));
    check(omp_get_ancestor_thread_num(level) < omp_get_team_size(level));
  }
  check(omp_get_thread_num() == omp_get_ancestor_thread_num(omp_get_level()));
}
"""

END = """
static void* run(void* argument) {
  for (long step = 0; step < %d; step++) {
    %s
  }
  return argument;
}
int main(void) {
  pthread_t others[%d];
  const int count = sizeof others / sizeof others[0];
  omp_init_lock(&lock);
  omp_init_nest_lock(&nest);
  for (int i = 1; i < count; i++) check(pthread_create(&others[i], 0, run, 0) == 0);
  run(0);
  for (int i = 1; i < count; i++) pthread_join(others[i], 0);
  for (int at = 0; at < sums; at++) printf("%%d %%ld %%ld\\n", at, sum[at], plain[at]);
  printf("failures %%ld\\n", failures);
  return 0;
}
"""


class Program:
    """The text of a program. Every construct has a number, under which it sums."""

    def __init__(self, number, clang):
        self.random = random.Random(number)
        self.clang = clang
        self.numbers = 0
        self.left = 0             # constructs until nothing more is nested
        self.functions, self.globals = [], []
        self.inside = False       # of a region
        self.roots = 2 if number % 5 == 4 else 1  # threads that run the whole
        self.once = self.roots == 1  # at most one team runs the code at a time
        self.same_thread = True   # each time the code is run by the same thread of the team around

    def pick(self, *words):
        return self.random.choice(words)

    def chance(self, probability):
        return self.random.random() < probability

    def number(self):
        self.numbers += 1
        return self.numbers - 1

    # ---- clauses ----------------------------------------------------------------------------------

    def schedule(self, ordered=False):
        kind = self.pick("", "static", "static", "dynamic", "dynamic", "guided", "runtime", "auto")
        if not kind:
            return ""
        modifier = ""
        if kind in ("dynamic", "guided") and self.chance(.3):
            modifier = self.pick("monotonic:", "monotonic:" if ordered else "nonmonotonic:")
        chunk = f",{self.pick(1, 2, 3, 7, 16)}" if kind in ("static", "dynamic", "guided") and self.chance(.6) else ""
        return f" schedule({modifier}{kind}{chunk})"

    def condition(self):
        return self.pick("", "", "", " if(one)", " if(zero)", f" if((step + {self.pick(0, 1, 2)}) % {self.pick(2, 3)})")

    def region_clauses(self):
        condition = self.condition()
        threads = self.pick("", "", "", "", " num_threads(1)", " num_threads(2)", " num_threads(3)",
                            " num_threads(2 + step % 3)", " num_threads(5)")
        if self.clang and condition:
            threads = ""  # before LLVM 17 it may hold for another region, whichever the thread comes to first
        return condition + threads + self.pick("", "", "", "", "", " proc_bind(close)", " proc_bind(spread)")

    def iterations(self):
        return self.pick("0", "1", "2", "5", "17", "64", "100", "bound", "bound + 3")

    # ---- regions ----------------------------------------------------------------------------------

    def region(self, depth, first=False, moved=False):
        """A region; `moved`: whichever thread comes to it runs it."""
        at = self.number()
        self.left -= 1
        if self.left < 0:
            return f"add({at}, 2);"
        form = self.pick("parallel", "parallel", "parallel", "parallel", "for", "sections", "reduction", "task_reduction")
        clauses = self.region_clauses()
        around = self.inside, self.once, self.same_thread
        self.inside, self.once, self.same_thread = True, self.once and first, self.same_thread and not moved
        if form == "for":
            text = (f'_Pragma("omp parallel for{self.schedule()}{clauses}") for (int i = 0; i < {self.iterations()}; i++) '
                    f"{{ {self.iteration(at, depth)} }}")
        elif form == "sections":
            parts = "".join(f'_Pragma("omp section") {{ add({at}, {i + 1}); }} ' for i in range(self.pick(1, 2, 3, 5)))
            text = f'_Pragma("omp parallel sections{clauses}") {{ {parts}}}'
        elif form == "reduction":
            text = (f'{{ long t = 1; _Pragma("omp parallel for reduction(+: t){self.schedule()}{clauses}") '
                    f"for (int i = 0; i < {self.iterations()}; i++) {{ t += i * 7 + 1; }} add({at}, t); }}")
        elif form == "task_reduction":
            text = (f'{{ long t = 1; _Pragma("omp parallel reduction(task, +: t){clauses}") '
                    f'{{ _Pragma("omp task in_reduction(+: t)") t += 2; }} add({at}, t); }}')
        else:
            declared, used = self.many_variables(at)
            text = (f'{{ {declared} _Pragma("omp parallel{clauses}") {{ look({at}, {int(self.same_thread)}); {used} '
                    f"{self.constructs(depth, self.pick(1, 2, 3, 4))} }} }}")
        self.inside, self.once, self.same_thread = around
        return text

    def nested(self, depth, probability):
        """A region within something that any thread may run; or nothing."""
        return self.region(depth - 1, moved=True) if depth > 0 and self.chance(probability) else ""

    def many_variables(self, at):
        """Now and then so many shared variables that the list of arguments is long."""
        if not self.chance(.06):
            return "", ""
        names = [f"v{at}_{i}" for i in range(self.pick(20, 70))]
        return "long " + ", ".join(f"{name} = {i}" for i, name in enumerate(names)) + ";", f"add({at}, {' + '.join(names)});"

    def function(self, depth):
        """A function with constructs that belong to the region of whoever calls it."""
        if not self.functions or self.chance(.5):
            around = self.inside, self.once, self.same_thread
            self.inside = self.once = self.same_thread = False
            self.functions.append(self.constructs(min(depth, 1), self.pick(1, 2, 3)))
            self.inside, self.once, self.same_thread = around
            return f"f{len(self.functions) - 1}(step);"
        return f"f{self.random.randrange(len(self.functions))}(step);"

    # ---- constructs, which all threads of a team come by ---------------------------------------------

    def constructs(self, depth, count):
        return " ".join(self.construct(depth) for _ in range(count))

    def construct(self, depth):
        self.left -= 1
        kind = self.pick("loop", "loop", "loop", "loop", "collapsed", "ordered", "doacross", "sections", "single", "single",
                         "copyprivate", "barrier", "one", "exclusive", "reduction", "lastprivate", "scan", "tasks", "tasks",
                         "taskgroup", "dependences", "task_reduction", "taskloop", "call", "look", "inner", "inner", "inner")
        return getattr(self, kind)(self.number(), depth)

    def iteration(self, at, depth):
        text = f"add({at}, (long)i * 31 + 7);"
        if self.chance(.1):
            return text + f' _Pragma("omp task") {{ add({self.number()}, 11); }}'
        return text + " " + self.nested(depth, .1)

    def nowait(self):
        return self.pick("", "", " nowait")

    def loop(self, at, depth):
        pragma = f'_Pragma("omp for{self.schedule()}{self.nowait()}")'
        form = self.pick("up", "up", "up", "down", "unsigned")
        last = self.iterations()
        if form == "up":
            return f"{pragma} for (int i = 0; i < {last}; i++) {{ {self.iteration(at, depth)} }}"
        if form == "down":
            return f"{pragma} for (long i = {last}; i > -3; i -= {self.pick(1, 2, 3)}) {{ {self.iteration(at, depth)} }}"
        return (f"{pragma} for (unsigned long u = 1ul << 63; u < (1ul << 63) + {last}; u += {self.pick(1, 2)}) "
                f"{{ long i = (long)(u - (1ul << 63)); {self.iteration(at, depth)} }}")

    def collapsed(self, at, _):
        return (f'_Pragma("omp for collapse(2){self.schedule()}{self.nowait()}") for (int i = 0; i < {self.iterations()}; i++) '
                f"for (int j = 0; j < {self.iterations()}; j++) {{ add({at}, (long)i * 31 + j + 7); }}")

    def ordered(self, at, depth):
        if not self.once:
            return self.loop(at, depth)
        return (f'_Pragma("omp single") place[{at}] = 0; _Pragma("omp for ordered{self.schedule(ordered=True)}") '
                f"for (int i = 0; i < {self.iterations()}; i++) {{ add({at}, i + 1); "
                f'_Pragma("omp ordered") {{ check(place[{at}] == i); place[{at}] = i + 1; }} }}')

    def doacross(self, at, depth):
        if not self.once:
            return self.loop(at, depth)
        return ('_Pragma("omp single") { for (int k = 0; k < 200; k++) done[k] = 0; } '
                f'_Pragma("omp for ordered(1){self.schedule(ordered=True)}") for (int i = 0; i < {self.pick(3, 17, 40)}; i++) {{ '
                '_Pragma("omp ordered depend(sink: i - 1)") check(i == 0 || done[i - 1]); done[i] = 1; '
                f'_Pragma("omp ordered depend(source)") add({at}, i + 3); }}')

    def sections(self, at, depth):
        parts = "".join(f'_Pragma("omp section") {{ add({at}, {i * 5 + 1}); {self.nested(depth, .15)} }} '
                        for i in range(self.pick(1, 2, 3, 6)))
        return f'_Pragma("omp sections{self.nowait()}") {{ {parts}}}'

    def single(self, at, depth):
        return f'_Pragma("omp single{self.nowait()}") {{ add({at}, 1); {self.nested(depth, .2)} }}'

    def copyprivate(self, at, _):
        return (f'{{ long p = -1, q = -2; _Pragma("omp single copyprivate(p, q)") {{ p = {at} + 5; q = step; }} '
                f"add({at}, p * 3 + q); }}")

    def barrier(self, at, _):
        return f'_Pragma("omp barrier") add({at}, 1);'

    def one(self, at, depth):
        threads = "master" if self.clang else self.pick("master", "master", "masked filter(one)", "scope")
        return f'_Pragma("omp {threads}") {{ add({at}, 3); {self.nested(depth, .2)} }}'

    def exclusive(self, at, _):
        return self.pick(
            f'_Pragma("omp critical(c{at})") plain[{at}] += 2;', f'_Pragma("omp atomic") plain[{at}] += 4;',
            f"omp_set_lock(&lock); omp_set_nest_lock(&nest); omp_set_nest_lock(&nest); plain[{at}] += 3; "
            "omp_unset_nest_lock(&nest); omp_unset_nest_lock(&nest); omp_unset_lock(&lock);")

    def shared_result(self, at, start, loop):
        """A loop whose result is a variable that all threads share, s; only where no other team is in it."""
        self.globals.append(f"static long s{at};")
        return f'{{ _Pragma("omp single") s{at} = {start}; {loop} add({at}, s{at}); _Pragma("omp barrier") }}'

    def reduction(self, at, depth):
        if not self.once:
            return self.loop(at, depth)
        return self.shared_result(at, "step", f'_Pragma("omp for reduction(+: s{at}){self.schedule()}") '
                                  f"for (int i = 0; i < {self.iterations()}; i++) {{ s{at} += i * 3 + 1; }}")

    def lastprivate(self, at, depth):
        if not self.once or self.clang:  # clang 14's threads may see the value of before the loop
            return self.loop(at, depth)
        return self.shared_result(at, "-1", f'_Pragma("omp for lastprivate(s{at}){self.schedule()}") '
                                  f"for (int i = 0; i < {self.pick(1, 17, 64)}; i++) {{ s{at} = i * 3; }}")

    def scan(self, at, depth):
        if not self.once or self.clang:  # clang 14's results vary
            return self.loop(at, depth)
        return self.shared_result(at, "0", f'_Pragma("omp for reduction(inscan, +: s{at})") for (int i = 0; i < 40; i++) '
                                  f'{{ s{at} += i; _Pragma("omp scan inclusive(s{at})") add({at}, s{at} * (i + 1)); }}')

    def tasks(self, at, depth):
        clauses = self.condition() + self.pick("", "", " untied", " mergeable", " final(one)", " priority(3)")
        task = f'_Pragma("omp task firstprivate(k){clauses}") {{ add({at}, k + 2); {self.nested(depth, .3)} }}'
        loop = f"for (int k = 0; k < {self.pick(1, 3, 20)}; k++) {{ {task} }}"
        if self.chance(.5):
            return f'_Pragma("omp single{self.nowait()}") {{ {loop} }}'
        return loop + self.pick("", ' _Pragma("omp taskwait")')

    def taskgroup(self, at, _):
        return f'_Pragma("omp taskgroup") {{ _Pragma("omp task") {{ add({at}, 2); _Pragma("omp task") {{ add({at}, 3); }} }} }}'

    def dependences(self, at, _):
        return (f'_Pragma("omp single{self.nowait()}") {{ long d = 1; _Pragma("omp taskgroup") {{ for (int k = 0; k < 7; k++) {{ '
                f'_Pragma("omp task depend(inout: d) shared(d) firstprivate(k)") d = d * 3 + k; }} }} add({at}, d); }}')

    def task_reduction(self, at, depth):
        if not self.inside:  # GCC 12's runtime may hang there
            return self.taskgroup(at, depth)
        return ('_Pragma("omp single") { long t = 0; _Pragma("omp taskgroup task_reduction(+: t)") { '
                f'for (int k = 0; k < 9; k++) {{ _Pragma("omp task in_reduction(+: t)") t += k; }} }} add({at}, t); }}')

    def taskloop(self, at, _):
        clauses = self.pick("", " grainsize(3)", " num_tasks(5)", " nogroup") + self.condition()
        return (f'_Pragma("omp {self.pick("single", "master")}") {{ _Pragma("omp taskloop{clauses}") '
                f"for (int i = 0; i < {self.pick(1, 17, 50)}; i++) {{ add({at}, i * 5 + 1); }} }}")

    def call(self, at, depth):
        return f"add({at}, 1); " + (self.function(depth) if self.left > 0 else "")

    def inner(self, at, depth):
        return self.region(depth - 1) if depth > 0 and self.left > 0 else f"add({at}, 1);"

    def look(self, at, _):
        return f"look({at}, {int(self.same_thread)});"

    # ---- the whole ------------------------------------------------------------------------------------

    def statement(self):
        """Of the program outside of regions."""
        self.left = max(self.left, 12)
        kind = self.random.random()
        if kind < .12:
            return f"omp_set_num_threads({self.pick(1, 2, 3, 4)});"
        if kind < .18:
            return f'omp_set_schedule(omp_sched_{self.pick("static", "dynamic", "guided")}, {self.pick(0, 1, 5)});'
        if kind < .24:
            return f"omp_set_max_active_levels({self.pick(1, 2, 3)});"
        if kind < .30:
            return self.function(1)
        if kind < .45:
            return self.construct(1)
        return self.region(2, first=True)

    def text(self):
        main = "\n    ".join(self.statement() for _ in range(self.pick(3, 4, 5, 6, 7, 8)))
        names = [f"static void f{i}(long step)" for i in range(len(self.functions))]
        return "\n".join([BEGIN % self.numbers, *self.globals, *(name + ";" for name in names),
                          *(f"{name} {{ (void)step; {body} }}" for name, body in zip(names, self.functions)),
                          END % (self.pick(3, 6, 12, 30), main, self.roots)])


def settings_of(chosen):
    """Of the environment; a limit on threads would make teams smaller at random."""
    settings = {"OMP_NUM_THREADS": chosen.choice(["1", "2", "2", "3", "4", "2,2", "3,2"]), "OMP_DYNAMIC": "false",
                "OMP_MAX_ACTIVE_LEVELS": chosen.choice("123"), "OMP_WAIT_POLICY": chosen.choice(["active", "passive", "passive"]),
                "OMP_SCHEDULE": chosen.choice(["static", "dynamic", "guided,2", "dynamic,4"])}
    if chosen.random() < .2:
        settings["OMP_PROC_BIND"] = chosen.choice(["true", "close", "spread", "false"])
    return settings


def run(command, settings):
    """Status and output."""
    try:
        done = subprocess.run(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"not done after {TIMEOUT_S} s", ""
    return done.returncode, done.stdout


def compare(program, smelt, settings):
    """What differs, in words; empty: nothing; null: the program is not steady without smelt."""
    plain = run([program], settings)
    if plain[0] != 0 or "failures 0" not in plain[1] or run([program], settings) != plain:
        return None
    for _ in range(2):
        with_smelt = run([smelt, "run", program], settings)
        if with_smelt != plain:
            pairs = zip(plain[1].splitlines(), with_smelt[1].splitlines())
            return f"status {with_smelt[0]}; " + ", ".join(f"'{a}' without, '{b}' with smelt" for a, b in pairs if a != b)
    return ""


def test(number, directory, options):
    """How many comparisons were made, and what differed."""
    clang = "clang" in pathlib.Path(options.compiler).name
    source, program = directory / f"{number}.c", directory / str(number)
    source.write_text(Program(number, clang).text(), encoding="ascii")
    subprocess.run([options.compiler, "-fopenmp", "-pthread", "-O1", "-w", source, "-o", program], check=True, timeout=TIMEOUT_S)
    chosen = random.Random(number)
    compared, differences = 0, []
    for _ in range(options.settings):
        settings = settings_of(chosen)
        difference = compare(program, options.smelt, settings)
        compared += difference is not None
        if difference:
            words = " ".join(f"{name}={value}" for name, value in settings.items())
            differences.append(f"program {number} ({options.compiler}), {words}: {difference}")
    program.unlink()
    return compared, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smelt", required=True, help="the smelt command")
    parser.add_argument("--compiler", default="gcc", help="gcc or clang, with its runtime")
    parser.add_argument("--first", type=int, default=1, help="the number of the first program")
    parser.add_argument("--count", type=int, default=20, help="of programs")
    parser.add_argument("--settings", type=int, default=3, help="of the environment, for each program")
    parser.add_argument("--keep", help="the directory for the programs' texts")
    options = parser.parse_args()
    compared, differences = 0, []
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(options.keep or scratch)
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(options.first, options.first + options.count):
            try:
                made, found = test(number, directory, options)
            except (OSError, subprocess.SubprocessError) as error:
                print(f"random_programs.py: program {number}: {error}", file=sys.stderr)
                return 2
            compared += made
            differences += found
            for difference in found:
                print(difference, flush=True)
    print(f"{options.count} programs, {compared} of {options.count * options.settings} runs compared, {len(differences)} differ")
    return 1 if differences else 0 if compared else 2


if __name__ == "__main__":
    sys.exit(main())
