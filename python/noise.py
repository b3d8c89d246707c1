"""What timings taken on a machine that others use, too, allow to say: the rule of src/base/comparison.hpp in Python, for
benchmarks that run whole programs. Both are held to tests/noise/cases.json.

    contest = Contest(probe=lambda: floor_now("build/release/bin/smelt"))
    finding = contest.compare(take)      # take() runs both by turns once and returns (reference, rival) in any unit

Two contestants run by turns. The floor is looked at before and after; what was taken while it moved by more than 20 % is
taken again, three times at most. What is said rests on the median of the ratios rival / reference, and on two order
statistics of them that enclose it with a confidence of 98 % or more (the sign test turned round; Conover, Practical
Nonparametric Statistics, 3rd edition, 3.1 and 3.2): faster, equal (within the margin), slower, or not decided. Time is
spent where it is not decided, up to a limit.
"""

import dataclasses
import json
import math
import statistics
import subprocess

MARGIN, CLEAR, DOUBT, FEWEST = 0.05, 1.4, 0.02, 3
MOST_FLOOR_CHANGE = 1.2
MOST_RETAKES = 3
LOOKS = [3, 7, 10, 14, 20, 28, 40, 56, 80]
FASTER, EQUAL, SLOWER, UNDECIDED = "faster", "equal", "slower", "not decided"


@dataclasses.dataclass
class Interval:
    low: float = 0.0
    median: float = 0.0
    high: float = 0.0
    confidence: float = 0.0
    count: int = 0


def median_interval(samples, doubt=DOUBT):
    """Of the median of what the samples were drawn from, with at least 1 - doubt; the range of too few."""
    if not samples:
        return Interval()
    ordered, n = sorted(samples), len(samples)
    k, tail = 0, 0.5**n
    while k + 1 < n // 2:
        more = tail + math.comb(n, k + 1) * 0.5**n
        if 2 * more > doubt:
            break
        k, tail = k + 1, more
    return Interval(ordered[k], statistics.median(ordered), ordered[n - 1 - k], max(0.0, 1 - 2 * tail), n)


@dataclasses.dataclass
class Finding:
    """A verdict on the reference, that all ratios are divided by."""

    ratio: Interval
    verdict: str = UNDECIDED

    def document(self):
        return {"ratio": dataclasses.asdict(self.ratio), "verdict": self.verdict}


def judge(ratios, margin=MARGIN, clear=CLEAR, doubt=DOUBT, fewest=FEWEST):
    finding = Finding(median_interval(ratios, doubt))
    low, median, high = finding.ratio.low, finding.ratio.median, finding.ratio.high
    if finding.ratio.count < fewest:
        return finding
    if finding.ratio.confidence < 1 - doubt:
        if low > clear:
            finding.verdict = FASTER
        if high < 1 / clear:
            finding.verdict = SLOWER
    elif low >= 1 - margin and high <= 1 + margin:
        finding.verdict = EQUAL
    elif low > 1 and median > 1 + margin:
        finding.verdict = FASTER
    elif high < 1 and median < 1 - margin:
        finding.verdict = SLOWER
    return finding


def against(ratios, limit):
    """Whether a ratio is at least `limit`: True, False, or None where that is not decided."""
    verdict = judge([ratio / limit for ratio in ratios], margin=0.0).verdict
    return {FASTER: True, SLOWER: False}.get(verdict)


def next_look(count):
    """After how many ratios to look again, if `count` of them have not decided."""
    return next((look for look in LOOKS if look > count), 2 * count)


def floor_moved(*floors):
    """Whether of several floors, numbers or documents of `smelt show --floor`, two are further apart than 20 %."""
    if any(isinstance(floor, dict) for floor in floors):
        keys = ("line_ns", "work_ns")
        return any(floor_moved(*(floor[key] for floor in floors if floor and floor.get(key))) for key in keys)
    known = [floor for floor in floors if floor]
    return bool(known) and max(known) > MOST_FLOOR_CHANGE * min(known)


class Retakes:
    """What is taken again because the floor moved, of one cell, and how often that was."""

    def __init__(self):
        self.in_a_row = self.taken_again = self.unsteady = 0

    def again(self, moved):
        """It has been taken. Whether to take it again now."""
        if moved and self.in_a_row < MOST_RETAKES:
            self.in_a_row += 1
            self.taken_again += 1
            return True
        if moved:
            self.unsteady += 1
        self.in_a_row = 0
        return False


def floor_now(smelt):
    """{"line_ns", "work_ns"}, or None where it cannot be looked at. Cost: some 50 ms."""
    run = subprocess.run([smelt, "show", "--floor", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True, check=False)
    return json.loads(run.stdout)["floor"] if run.returncode == 0 else None


class Contest:
    """One cell after the other, each taken `first` times, and again while its verdict is open, `most` times at most."""

    def __init__(self, probe=lambda: None, first=3, most=28):
        self.probe, self.first, self.most = probe, first, most
        self.cells = self.retaken = self.unsteady = 0

    def steady(self, take, retakes):
        """One taking that counts, with the floor before it."""
        while True:
            before = self.probe()
            taken = take()
            if not retakes.again(floor_moved(before, self.probe())):
                return taken, before

    def compare(self, take, decided=None):
        """(finding, samples): of take() -> (reference, rival). `decided`(ratios): whether the question is answered; by
        default, whether there is a verdict. A sample of 0 is no sample."""
        decided = decided or (lambda ratios: judge(ratios).verdict != UNDECIDED)
        retakes, taken, floors, target = Retakes(), [], [], self.first
        while True:
            while len(taken) < target:
                pair, floor = self.steady(take, retakes)
                taken.append(pair)
                floors.append(floor)
            ratios = [rival / own for own, rival in taken if own > 0 and rival > 0]
            if decided(ratios) or len(taken) >= self.most:
                break
            target = min(self.most, next_look(len(taken)))
        self.cells += 1
        self.retaken += retakes.taken_again
        self.unsteady += retakes.unsteady
        samples = {"pairs": taken, "floors": floors, "retaken": retakes.taken_again, "unsteady": retakes.unsteady}
        return judge(ratios), samples

    def summary(self):
        return {"cells": self.cells, "retaken": self.retaken, "unsteady": self.unsteady}
