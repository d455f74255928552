"""What measures: costs that count, and results that differ are reported."""

from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.covering_workloads import (
    check_same_decisions,
    make_commands,
    run,
)
from experiments import (
    similarity_cases,
)
from experiments.answer_sets import AnswerSets, Cycle, count_matches, cycle_times
from experiments.measuring import check_equal
from experiments.rtree_join import build_tree
from experiments.similarity_cases import Case, digest, measure
from experiments.similarity_costs import SIZES, _judged_points, _total_points, solve
from tests.experiments.plain_boxes import PlainBoxes
from tocsin.covering import CoverIndex


def test_differences_are_reported():
    low = np.zeros((2, 3))
    points = np.full((2, 4), 0.5)
    one, other = PlainBoxes(low, low + 1, points), PlainBoxes(low, low + 0.1, points)
    with pytest.raises(AssertionError, match="other finds other rules than one"):
        check_equal({"one": one, "other": other}, 4)


def test_a_cycle_ends_with_the_objects_of_every_query():
    rng = np.random.default_rng(1)
    low, points = rng.random((2, 50)), rng.random((2, 400))
    high = low + 0.3
    structure = PlainBoxes(low, high, points)
    answers = AnswerSets(50, count_matches(structure))
    cycle = Cycle(structure, answers)
    at = points[:, None]
    inside = ((low[:, :, None] <= at) & (at <= high[:, :, None])).all(axis=0)
    assert inside.sum(axis=1).max() > 32  # sets grow several times
    for _ in range(3):
        cycle.run()
        begin, end = answers.sets[0::3], answers.sets[1::3]
        for query in range(50):
            found = answers.objects[begin[query] : end[query]]
            assert found.tolist() == np.flatnonzero(inside[query]).tolist()
    objects = np.arange(400)
    np.testing.assert_array_equal(answers.summarise(), [inside.sum(axis=1), inside @ objects])


def test_cycles_that_find_other_objects_are_reported():
    low = np.zeros((2, 3))
    points = np.full((2, 4), 0.5)
    one, other = PlainBoxes(low, low + 1, points), PlainBoxes(low, low + 0.1, points)
    for alike in (True, False):
        with pytest.raises(AssertionError, match="other finds other objects than one"):
            cycle_times({"one": one, "other": other}, 0.0, alike)


def test_other_decisions_are_reported():
    one = run(make_commands(100, 2, 0.2, 0), CoverIndex(2))
    other = run(make_commands(100, 2, 0.2, 1), CoverIndex(2))
    with pytest.raises(AssertionError, match="other forwards other rules"):
        check_same_decisions("other", other, one)


def test_digests_differ_for_other_pairs():
    left, right = np.array([1, 2, 3]), np.array([4, 5, 6])
    assert digest(left, right) == digest(left[::-1], right[::-1])
    assert digest(left, right) != digest(left, right[::-1])
    assert digest(left, right) != digest(right, left)


def test_joins_that_find_other_pairs_are_reported(monkeypatch):
    class Nothing(similarity_cases.CellJoin):
        def fill(self, out):
            out.state[0] = 0
            return True

    monkeypatch.setattr(similarity_cases, "CellJoin", Nothing)
    points = np.random.default_rng(0).random((100, 2))
    case = Case("few", points, None, (0.5,), (similarity_cases.BLOCKS, similarity_cases.CELLS))
    with pytest.raises(AssertionError, match=r"few: cells \(Tocsin\) finds other pairs"):
        measure(case)


def test_no_cost_of_a_join_is_ignored(monkeypatch):
    """4.4: sorting, building and finding count; only RSJ's trees are built in advance."""
    clock = [0.0]
    monkeypatch.setattr(similarity_cases, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow_down(name, building, finding):
        class Slow(getattr(similarity_cases, name)):
            def __init__(self, *arguments):
                clock[0] += building
                super().__init__(*arguments)

            def fill(self, out):
                clock[0] += finding
                return super().fill(out)

        monkeypatch.setattr(similarity_cases, name, Slow)

    slow_down("BlockJoin", 100, 10)
    slow_down("RTreeJoin", 0, 1)

    def build_slowly(points):
        clock[0] += 1000
        return build_tree(points)

    monkeypatch.setattr(similarity_cases, "build_tree", build_slowly)
    points = np.random.default_rng(0).random((60, 2))
    methods = (similarity_cases.BLOCKS, similarity_cases.RSJ)
    measured = measure(Case("few", points, points, (0.1,), methods))
    assert [set(measured.seconds[m][0].tolist()) for m in methods] == [{110.0}, {1.0}]


def test_equations_are_solved_exactly():
    numbers = [[1.0, 2e9], [3.0, 4e9]]
    np.testing.assert_allclose(solve(numbers, [5.0, 11.0]), [1.0, 2e-9])


def test_the_cost_model_is_judged_where_the_thesis_judges_it():
    """4.3.4, Figs. 4.7 and 4.8; 4.3.5, Fig. 4.9; 4.3.7, Figs. 4.10 and 4.11."""
    sizes = SIZES["full"]
    for name, first, last in (("small", 10, 100), ("large", 100, 1000), ("across", 10, 190)):
        assert (sizes[name][0], sizes[name][-1]) == (first, last)
    assert sizes["near"] == list(range(70, 81))
    inside, _ = _judged_points("full")
    assert {(n, m) for n, _, m, _ in inside} == {(150, 75_000)}
    assert (inside[0][1], inside[-1][1]) == (0.001, 0.02)
    totals = _total_points("full")
    assert all(point == (n, 0.001, 20_000, 10_000) for n, point in totals.items())
