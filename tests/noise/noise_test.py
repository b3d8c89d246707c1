#!/usr/bin/env python3
"""python/noise.py on the cases that the C++ rule is held to as well, and its contests on a machine that is made up."""

import json
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "python"))
import noise  # noqa: E402

CASES = json.loads((HERE / "cases.json").read_text())


class Rule(unittest.TestCase):
    def test_verdicts_and_intervals(self):
        for case in CASES["cases"]:
            with self.subTest(case["why"]):
                finding = noise.judge(case["ratios"], **case["rules"])
                self.assertEqual(finding.verdict, case["verdict"])
                for key in ("low", "median", "high", "confidence"):
                    self.assertAlmostEqual(getattr(finding.ratio, key), case[key], 8)

    def test_looks(self):
        for count, look in CASES["looks"]:
            self.assertEqual(noise.next_look(count), look)

    def test_floors_and_retakes(self):
        for case in CASES["floors"]:
            self.assertEqual(noise.floor_moved(*case["floors"]), case["moved"])
        for case in CASES["retakes"]:
            retakes = noise.Retakes()
            self.assertEqual([retakes.again(moved) for moved in case["moved"]], case["again"])
            self.assertEqual((retakes.taken_again, retakes.unsteady), (case["taken_again"], case["unsteady"]))

    def test_floors_of_documents(self):
        floor = {"line_ns": 100, "work_ns": 1000}
        self.assertFalse(noise.floor_moved(floor, {"line_ns": 119, "work_ns": 850}))
        self.assertTrue(noise.floor_moved(floor, {"line_ns": 121, "work_ns": 1000}))
        self.assertTrue(noise.floor_moved(floor, {"line_ns": 100, "work_ns": 800}))
        self.assertFalse(noise.floor_moved(floor, {"line_ns": 0, "work_ns": 1000}))
        self.assertFalse(noise.floor_moved(floor, None))
        self.assertTrue(noise.floor_moved(100, 110, 125), "the two that are furthest apart")

    def test_against_a_limit(self):
        self.assertIs(noise.against([1.0] * 7, 0.95), True)
        self.assertIs(noise.against([0.9] * 7, 0.95), False)
        self.assertIsNone(noise.against([0.9] * 3 + [1.0] * 4, 0.95))
        self.assertIsNone(noise.against([1.0] * 6, 0.95), "six are not enough")


class Machine:
    """A floor by taking, and times of a reference and a rival; counts what is asked of it."""

    def __init__(self, floors, pairs):
        self.floors, self.pairs, self.probed, self.taken = floors, pairs, 0, 0

    def probe(self):
        self.probed += 1
        return self.floors(self.probed)

    def take(self):
        self.taken += 1
        return self.pairs(self.taken)


class Contests(unittest.TestCase):
    def contest(self, machine, **options):
        contest = noise.Contest(probe=machine.probe, **options)
        finding, samples = contest.compare(machine.take)
        return contest, finding, samples

    def test_what_is_clear_is_taken_three_times(self):
        machine = Machine(lambda _: 100, lambda n: (10, 20 + n))
        contest, finding, samples = self.contest(machine)
        self.assertEqual((finding.verdict, machine.taken, samples["retaken"]), (noise.FASTER, 3, 0))
        self.assertEqual(machine.probed, 6, "before and after each")
        self.assertEqual(contest.summary(), {"cells": 1, "retaken": 0, "unsteady": 0})

    def test_time_is_spent_where_it_is_open(self):
        machine = Machine(lambda _: 100, lambda n: (10, 9 if n == 2 else 12))
        _, finding, _ = self.contest(machine)
        self.assertEqual((finding.verdict, machine.taken), (noise.FASTER, 14), "3, 7, 10 and 14")

    def test_not_for_ever(self):
        machine = Machine(lambda _: 100, lambda n: (10, 7 if n % 2 else 13))
        _, finding, _ = self.contest(machine, most=12)
        self.assertEqual((finding.verdict, machine.taken), (noise.UNDECIDED, 12))

    def test_what_was_taken_while_the_floor_moved_is_taken_again(self):
        machine = Machine(lambda n: 100 if n <= 3 else 150, lambda n: (10, 20) if n != 2 else (10, 1))
        contest, finding, samples = self.contest(machine)
        self.assertEqual((finding.verdict, machine.taken), (noise.FASTER, 4))
        self.assertNotIn((10, 1), samples["pairs"])
        self.assertEqual(samples["floors"], [100, 150, 150])
        self.assertEqual(contest.summary(), {"cells": 1, "retaken": 1, "unsteady": 0})

    def test_a_floor_that_never_rests_stops_nobody(self):
        machine = Machine(lambda n: 100 if n % 2 else 200, lambda n: (10, 20))
        contest, finding, _ = self.contest(machine)
        self.assertEqual((finding.verdict, machine.taken), (noise.FASTER, 12), "three of four takings each")
        self.assertEqual(contest.summary(), {"cells": 1, "retaken": 9, "unsteady": 3})

    def test_samples_of_nothing_do_not_count(self):
        machine = Machine(lambda _: 100, lambda n: (0, 5) if n == 1 else (10, 20))
        _, finding, _ = self.contest(machine)
        self.assertEqual((finding.verdict, finding.ratio.count), (noise.FASTER, 6), "two were not enough")


if __name__ == "__main__":
    unittest.main()
