"""Verdicts on the papers' figures follow from numbers, and one check decides."""

import pytest

from experiments.measuring import time_rounds
from experiments.verdicts import Check, Finding, at_least, at_most, reaches, speed_up
from experiments.verdicts import main as main_check

YES, NO = Check("a", "1", True), Check("b", "2", False)


def finding(checks, **more):
    return Finding("n", "t", "s", "c", "h", checks, **more)


@pytest.mark.parametrize(
    ("checks", "expected"),
    [
        ([YES, main_check(NO), YES], "does not hold"),
        ([NO, NO, main_check(YES)], "holds"),
        ([main_check(NO)], "does not hold"),
    ],
)
def test_the_main_check_alone_decides(checks, expected):
    found = finding(checks)
    assert found.verdict == expected
    assert found.checks[0].is_main
    assert found.line.startswith(f"{expected}: {found.checks[0].says}: ")
    assert found.record()["verdict"] == expected


@pytest.mark.parametrize("checks", [[], [YES, NO], [main_check(YES), main_check(NO)]])
def test_a_figure_has_one_main_check(checks):
    with pytest.raises(ValueError, match="n: a figure that can be tested has one main check"):
        finding(checks)


def test_what_cannot_be_tested_says_why():
    found = finding([YES], untested="the data is not available")
    assert found.verdict == "cannot be tested"
    assert found.line == "cannot be tested: the data is not available"
    with pytest.raises(ValueError, match="one that cannot has none; this one has 1"):
        finding([main_check(YES)], untested="the data is not available")


def test_limits():
    assert at_least("faster", 2.0, 2).true
    assert not at_least("faster", 1.99, 2).true
    assert at_most("smaller", 3.0, 3).true
    assert not at_most("smaller", 3.01, 3).true
    assert at_least("faster", 1234.5, 2).measured == "1,234x; required: at least 2x"


def test_the_worst_point_of_a_sweep_decides_by_its_median():
    points = {"few": [3.0, 1.5, 9.0], "many": [2.5, 2.5, 2.6]}
    check = at_least("faster", points, 2)
    assert check.true
    assert check.measured == "2.5x (2.5 to 2.6) for many, the worst of 2; required: at least 2x"
    check = at_least("faster", points, 2.8)
    assert not check.true
    check = at_most("slower", points, 2.8)
    assert not check.true
    assert check.measured == (
        "3x (1.5 to 9) for few, the worst of 2; required: at most 2.8x, which lies within the "
        "spread"
    )
    assert at_most("slower", points, 3).true


def test_speed_ups_are_compared_with_speed_ups():
    assert speed_up(90) == pytest.approx(10)
    check = reaches("faster", 5.4, speed_up(90))
    assert check.says == "faster (in the paper 10 times)"
    assert not check.true
    assert reaches("faster", 5.5, speed_up(90)).true
    assert not reaches("faster", 1.0, 1.1).true


def test_times_are_those_of_all_rounds():
    calls = []
    times = time_rounds([lambda: calls.append(0), lambda: calls.append(1)], 0.0, least=4)
    assert times.shape == (2, 4)
    assert calls == [0, 1] * 4
