"""The wording of errors: what must be what, what it is, and what to do."""

import math

import numpy as np
import pytest

from tocsin import MonitorError
from tocsin.moving.velocity import VelocityIndex, VelocityTree

GOOD = {"keys": ["a", "b"], "x": [1, 2], "y": [1, 2], "v_max": 1, "at": 0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keys": ["a", "a"]}, "object 'a' is in the rows 0 and 1; keys must be distinct"),
        ({"keys": ["a", None]}, "the key in row 1 is null; every object needs one"),
        ({"keys": [1.5, 2]}, "keys must be texts or integers, got double"),
        ({"keys": ["a", 1]}, "keys cannot be read: "),
        ({"keys": 1.5}, "keys must be a list or an array, got 1.5"),
        ({"x": [1]}, "x has 1 values, but there are 2 objects; they must be in the same order"),
        ({"y": ["1", "2"]}, "y must be numbers, got string"),
        ({"y": [True, False]}, "y must be numbers, got bool"),
        ({"v_max": -1}, "object 'a': v_max is -1, but it must not be negative; leave it null if"),
        ({"v_max": [1, -0.5]}, "object 'b': v_max is -0.5, but it must not be negative"),
        ({"at": math.nan}, "at must be a time, as seconds or a datetime, got nan"),
        ({"at": None}, "at must be a list or an array, got None"),
        ({"at": [0, None]}, "the time in row 1 of at is null or not finite; a position has a time"),
        ({"at": [0]}, "at has 1 values, but there are 2 objects"),
        ({"capacity": 1}, "capacity must be from 2 to 1,048,575 entries, got 1"),
    ],
)
def test_what_an_index_is_made_of(change, message):
    with pytest.raises(MonitorError) as error:
        VelocityIndex(**GOOD | change)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i: i.query([0], [1, 1], 0), "low must be a point [x, y], got [0]"),
        (lambda i: i.query([0, 0], 1, 0), "high must be a point [x, y], got 1"),
        (
            lambda i: i.query([0, math.nan], [1, 1], 0),
            "an end of the box, in low, is nan; ends must be numbers. Use None or an infinity",
        ),
        (lambda i: i.query([0, 0], ["1", 1], 0), "an end of the box, in high, is '1'"),
        (lambda i: i.query([0, 0], [1, 1], None), "now must be a time, as seconds or a datetime"),
        (lambda i: i.update("c", 1, 1, 0), "there is no object 'c'; insert it first"),
        (lambda i: i.update(1, 1, 1, 0), "the keys of this index are texts, got 1"),
        (lambda i: i.remove(["a", "c"]), "there is no object 'c'; insert it first"),
        (
            lambda i: i.insert("a", 1, 1, 1, 0),
            "object 'a' is already in the index; use update for reports",
        ),
        (
            lambda i: i.refresh([1, 2], [1, 2]),
            "x, y and at are given together: positions, and the time they are of",
        ),
        (lambda i: i.rebuild(v_max=[1]), "v_max has 1 values, but there are 2 objects"),
    ],
)
def test_what_methods_are_given(call, message):
    index = VelocityIndex(**GOOD)
    with pytest.raises(MonitorError) as error:
        call(index)
    assert str(error.value).startswith(message)
    assert index.query([1, 1], [2, 2], 0) == ["a", "b"]  # nothing was changed


def test_a_table_that_cannot_be_shared():
    good = np.zeros(4)
    for bad in (np.zeros(4, np.float32), np.zeros(8)[::2], np.zeros(3)):
        with pytest.raises(MonitorError, match="y must be a writable, contiguous float64 array"):
            VelocityTree(good, bad, good.copy())
    tree = VelocityTree(good, good.copy(), good.copy())
    with pytest.raises(MonitorError, match=r"with at least 4 rows; got float64 of shape \(3,\)"):
        tree.share(*np.zeros((3, 3)))


def test_rows_that_the_table_does_not_have():
    index = VelocityIndex(**GOOD)
    with pytest.raises(MonitorError, match="there is no row 2, the table has 2; rows change when"):
        index.update_rows(np.array([0, 2]), [1, 1], [1, 1], 0)
    with pytest.raises(MonitorError, match="there is no row -1"):
        index.tree.forget([-1])
    with pytest.raises(
        MonitorError, match="2 rows are reported with 2 and 2 coordinates at 1 time"
    ):
        index.tree.report([0, 1], [1, 1], [1, 1], [0])


def test_a_rebuild_that_fails_changes_nothing():
    index = VelocityIndex(**GOOD)
    with pytest.raises(MonitorError, match="y has 1 values"):
        index.rebuild([1, 2], [1], 5, v_max=[0, None])
    index.update("b", 2.5, 2, 1)
    assert index.counters["too_fast"] == 0
    index.rebuild()
    assert index.counters["listed"] == 0
