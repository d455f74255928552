"""Verdicts on the papers' figures follow from numbers, and one check decides."""

import pytest

from experiments.measuring import time_rounds
from experiments.verdicts import (
    Check,
    Claim,
    Finding,
    at_least,
    at_most,
    judge,
    reaches,
    speed_up,
)
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
    assert found.verdict == "cannot be tested here"
    assert found.line == "cannot be tested here: the data is not available"
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


FASTER = Claim("faster", "at least", 2)


def points(agreeing, others, undecided=0):
    """Return so many points that are certainly faster, that are not, and that may be."""
    cases = {"fast": [3.0, 2.5, 9.0], "slow": [1.5, 1.0, 1.8], "either": [1.0, 2.5, 3.0]}
    counts = {"fast": agreeing, "slow": others, "either": undecided}
    return {f"{name} {i}": cases[name] for name, n in counts.items() for i in range(n)}


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((1, 0), "reproduced"),
        ((9, 1), "reproduced"),
        ((8, 1), "partly"),
        ((1, 1), "partly"),
        ((4, 5), "not reproduced"),
        ((0, 1), "not reproduced"),
        ((9, 0, 1), "reproduced"),  # whatever the undecided point is
        ((8, 0, 2), "inconclusive"),
        ((6, 3, 1), "partly"),
        ((4, 5, 1), "inconclusive"),
        ((0, 0, 1), "inconclusive"),
        ((1, 8, 1), "not reproduced"),
    ],
)
def test_points_that_agree_are_counted(counts, expected):
    check = judge(FASTER, points(*counts))
    assert check.outcome == expected
    assert check.true == (expected == "reproduced")
    agreeing = counts[0] + sum(counts[2:])  # by their medians
    if sum(counts) > 1:
        assert check.measured.startswith(f"{agreeing} of {sum(counts)} agree")
    assert finding([main_check(check)]).verdict == expected


def test_the_worst_point_is_shown_and_does_not_decide():
    check = judge(FASTER, {**points(9, 0), "the last": [0.1, 0.2, 0.3]})
    assert check.outcome == "reproduced"
    assert check.measured == (
        "9 of 10 agree; the worst 0.2x (0.1 to 0.3) for the last; required: at least 2x"
    )


@pytest.mark.parametrize(
    ("needs", "value", "agrees"),
    [
        ("at least", 95.0, True),
        ("at least", 94.9, False),
        ("at least", 1e9, True),
        ("at most", 105.0, True),
        ("at most", 105.1, False),
        ("at most", -5.0, True),
        ("about", 95.0, True),
        ("about", 105.0, True),
        ("about", 94.9, False),
        ("about", 105.1, False),
    ],
)
def test_a_limit_has_a_tolerance(needs, value, agrees):
    check = judge(Claim("says", needs, 100, " s"), {"": value})
    assert check.outcome == ("reproduced" if agrees else "not reproduced")
    assert check.measured.endswith(f"; required: {needs} 100 s")


def test_a_limit_between_the_rounds_of_about_is_undecided_on_either_side():
    claim = Claim("says", "about", 100)
    assert judge(claim, {"": [100, 101, 110]}).outcome == "inconclusive"
    assert judge(claim, {"": [90, 99, 101]}).outcome == "inconclusive"
    assert judge(claim, {"": [96, 99, 104]}).outcome == "reproduced"
    assert judge(claim, {"": [106, 107, 200]}).outcome == "not reproduced"


def test_readings_that_disagree_are_inconclusive():
    yes, no = points(2, 0), points(0, 2)
    check = judge(FASTER, {"inside": yes, "anywhere": no})
    assert check.outcome == "inconclusive"
    assert check.measured == (
        "2 of 2 agree (inside), 0 of 2 agree (anywhere); the worst 1.5x (1 to 1.8) for slow 0 "
        "(anywhere); required: at least 2x"
    )
    assert judge(FASTER, {"inside": yes, "anywhere": yes}).outcome == "reproduced"
    assert judge(FASTER, {"inside": no, "anywhere": no}).outcome == "not reproduced"


def test_a_question_of_our_own_has_no_verdict():
    found = finding([main_check(judge(FASTER, points(1, 0)))], is_own=True)
    assert found.verdict == "our own question"
