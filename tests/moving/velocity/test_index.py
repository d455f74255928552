"""What the index and its methods do, and the thesis' own examples."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tests.moving.velocity.oracle import Fleet, check
from tocsin import MonitorError
from tocsin.moving.velocity import VelocityIndex, VelocityTree
from tocsin.moving.velocity.building import SLACK, pack
from tocsin.moving.velocity.layout import FIRST

EVERYWHERE = [None, None], [None, None]


def grid(side, **options):
    """Return objects 0, 1, ... at the whole points of a square."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(side), np.arange(side)))
    options = {"v_max": 1.0, "at": 0.0} | options
    return VelocityIndex(np.arange(side * side), x, y, **options)


def boxes_of(tree, level):
    nodes = slice(tree.shape[FIRST + level], tree.shape[FIRST + level + 1])
    return np.stack([tree.low_x, tree.low_y, tree.high_x, tree.high_y], axis=1)[nodes]


# ------------------------------------------------------------ the thesis, 2.5


def test_a_node_has_the_largest_v_max_below_it():  # Fig. 2.3
    v_max = np.random.default_rng(0).integers(0, 100, 81) / 8
    tree = grid(9, v_max=v_max, capacity=3).tree._tree
    v = tree.v
    assert sorted(v) == sorted(v_max * SLACK)
    for level in range(4):
        v = [max(v[i : i + 3]) for i in range(0, len(v), 3)]
        assert tree.v_max[tree.shape[FIRST + level] : tree.shape[FIRST + level + 1]].tolist() == v
    assert len(v) == 1


def test_published_a_node_expands_everything_in_it_by_its_own_v_max():
    v_max = np.random.default_rng(0).integers(0, 100, 81) / 8
    own = grid(9, v_max=v_max, capacity=3).tree._tree
    published = grid(9, v_max=v_max, capacity=3, published=True).tree._tree
    assert published.v.tolist() == np.repeat(own.v_max[:27], 3).tolist()
    assert published.v_max[:27].tolist() == np.repeat(own.v_max[27:36], 3).tolist()
    assert published.v_max[-1] == own.v_max[-1]


def test_a_query_is_compared_with_expanded_boxes():  # Fig. 2.4
    # Three leaves: one meets the query, one when it is expanded, one does not.
    x, y = [0, 1, 4, 5, 20, 21], [0, 1, 4, 5, 20, 21]
    index = VelocityIndex([*"abcdef"], x, y, v_max=1, at=100, capacity=2)
    assert index.search([4, 4], [6, 6], 100)[1:] == ((1, 1, 1), 0, 2, 0)
    # After 2 seconds c, at the query's corner, may have left it, and d, and b may have come.
    index = VelocityIndex([*"abcdef"], x, y, v_max=1, at=100, capacity=2)
    answer = index.search([4, 4], [6, 6], 103)
    assert (answer.visited[0], answer.checked, answer.certain) == (2, 3, 0)
    # X of Fig. 2.4: nothing can be outside.
    answer = index.search([-10, -10], [10, 10], 102)
    assert (answer.checked, answer.certain) == (0, 4)


def test_positions_of_certain_objects_are_not_looked_up():
    x, y, seen = np.array([5.0, 9.5]), np.array([5.0, 5.0]), np.zeros(2)
    tree = VelocityTree(x, y, seen)
    tree.track([0, 1], [1.0, 1.0])
    tree.rebuild()
    x[:] = np.nan  # as if the table could not be read
    answer = tree.search((0, 0, 10, 10), 2.0)
    assert answer.rows.tolist() == [0]
    assert (answer.certain, answer.checked) == (1, 1)


def test_the_table_is_in_the_order_of_the_leaves():  # optimisation 3
    index = grid(30, capacity=10)
    assert index.tree._tree.row.tolist() == list(range(900))
    assert np.array_equal(index._x, index.tree._tree.x)
    loose = grid(30, capacity=10, clustered=False)
    assert loose.rows_of(np.arange(900)).tolist() == list(range(900))
    box = [[4, 4]], [[8, 8]], 2
    tight_pages, loose_pages = index.pages(*box), loose.pages(*box)
    assert tight_pages.objects == loose_pages.objects
    assert tight_pages.table_pages < loose_pages.table_pages


def test_objects_and_pages_count_once_for_all_queries():  # optimisations 1 and 2
    index = grid(30, capacity=10)
    one = index.pages([[4, 4]], [[8, 8]], 2)
    two = index.pages([[4, 4]] * 2, [[8, 8]] * 2, 2)
    assert two.looked_up == 2 * one.looked_up == 2 * one.objects
    assert one.visited == one.nodes
    assert two.visited == tuple(2 * visits for visits in one.visited)
    assert two[:3] == one[:3]
    answer = index.search([4, 4], [8, 8], 2)
    assert (answer.visited, answer.checked) == (one.nodes, one.objects)


def test_a_refresh_keeps_the_structure_and_computes_boxes():
    index = grid(9, capacity=3)
    before = index.tree._tree.row.copy()
    x, y = np.random.default_rng(1).random((2, 81))
    index.refresh(x, y, at=1000)
    tree = index.tree._tree
    assert np.array_equal(tree.row, before)
    for i, box in enumerate(boxes_of(tree, 0)):
        own = index.keys_at(before[3 * i : 3 * i + 3])
        assert box.tolist() == [x[own].min(), y[own].min(), x[own].max(), y[own].max()]
    boxes = boxes_of(tree, 0)
    assert boxes_of(tree, 3)[0].tolist() == [*boxes[:, :2].min(axis=0), *boxes[:, 2:].max(axis=0)]
    # As if rebuilt: right after it, no position is looked up.
    assert index.pages([[0, 0]], [[0.5, 0.5]], 1000).objects == 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 10, 27, 28, 1000])
def test_all_nodes_but_the_last_are_full(n):
    x, y = np.random.default_rng(n).random((2, n))
    order = pack(x, y, 3)
    assert sorted(order) == list(range(n))


def test_tiles_of_a_packed_tree_do_not_overlap():
    tree = grid(20, capacity=20, at=0.0).tree._tree
    leaves = boxes_of(tree, 0)
    for i, a in enumerate(leaves):
        for b in leaves[i + 1 :]:
            assert a[0] >= b[2] or a[2] <= b[0] or a[1] > b[3] or a[3] < b[1]


def test_the_table_is_scanned_if_too_many_leaves_are_left():
    index = grid(30, capacity=10)
    index.remove([0])
    index.insert([0, 900], [5, 5], [5, 5], v_max=None, at=0)
    early, late = index.search([5, 5], [6, 5], 1), index.search([5, 5], [6, 5], 30)
    assert sorted(index.keys_at(early.rows)) == sorted(index.keys_at(late.rows))
    assert early.checked < 30
    assert (late.checked, late.scanned) == (899, 2)
    # If objects cannot have left the box, nothing is looked up, however many there are.
    assert index.search([-99, -99], [99, 99], 30).checked == 0
    # What is published is a search of the tree.
    assert index.pages([[5, 5]], [[6, 5]], 30).objects == 901
    published = grid(30, capacity=10, published=True)
    assert published.search([5, 5], [6, 5], 10).checked < 900


# ------------------------------------------------------------ methods


def test_reports_change_the_answer_and_not_the_tree():
    index = VelocityIndex(["a", "b"], [1, 5], [1, 5], v_max=0.5, at=0)
    tree_x = index.tree._tree.x.copy()
    index.update("b", 2, 4, at=10)
    assert index.query([0, 0], [4, 4], now=10) == ["a", "b"]
    assert np.array_equal(index.tree._tree.x, tree_x)
    index.update(["b", "a", "b"], [3, 9, 9], [4, 9, 9], at=[20, 60, 60])
    assert index.query([0, 0], [4, 4], now=60) == []


def test_a_report_older_than_the_latest_is_ignored():
    index = VelocityIndex(["a"], [1], [1], v_max=1, at=10)
    index.update(["a", "a"], [2, 3], [1, 1], at=[20, 15])
    assert index.query([2, 1], [2, 1], now=20) == ["a"]
    assert index.counters["late"] == 1


def test_now_before_a_report_is_the_time_of_the_report():
    index = VelocityIndex(["a"], [0], [0], v_max=1, at=100)
    assert index.query([0, 0], [0, 0], now=-5) == ["a"]
    index.update("a", 50, 0, at=150)
    assert index.query([50, 0], [50, 0], now=100) == ["a"]
    assert index.query([0, 0], [0, 0], now=100) == []


def test_an_object_faster_than_its_v_max_is_counted_and_scanned():
    index = VelocityIndex(["a", "b"], [0, 9], [0, 9], v_max=1, at=0)
    index.update("a", 3, 4, at=4)
    assert index.query([3, 4], [3, 4], now=4) == ["a"]
    assert index.counters["too_fast"] == index.counters["listed"] == 1
    index.update("a", 1000, 0, at=5)  # it has no v_max any more
    assert index.query([1000, 0], [1000, 0], now=5) == ["a"]
    index.refresh()
    index.rebuild()
    assert index.counters["too_fast"] == index.counters["listed"] == 1
    index.rebuild(v_max=1000)
    assert index.counters["listed"] == 0
    assert set(index.query(*EVERYWHERE, now=5)) == {"a", "b"}


def test_a_step_at_v_max_is_not_too_fast():
    x, at, v_max = 0.1, 0.3, 0.7
    index = VelocityIndex([0], [x], [x], v_max, at)
    for _ in range(2000):
        x, at = x + v_max * 0.1, at + 0.1
        index.update(0, x, 0.1, at)
    assert index.query([x, 0.1], [x, 0.1], at) == [0]
    assert (index.counters["too_fast"], index.counters["strayed"], index.counters["listed"]) == (
        0, 0, 0,
    )  # fmt: skip


def test_an_object_whose_position_was_older_than_claimed_strays():
    index = VelocityIndex(["a", "b"], [0, 0], [0, 0], v_max=1, at=0)
    index.update("b", 0, 0, at=100)
    index.refresh(at=100)  # a was last seen at 0
    index.update("a", 50, 0, at=101)
    assert index.query([50, 0], [50, 0], now=101) == ["a"]
    assert (index.counters["too_fast"], index.counters["listed"]) == (1, 1)
    # With the times of the reports it is covered.
    index = VelocityIndex(["a", "b"], [0, 0], [0, 0], v_max=1, at=0)
    index.update("b", 0, 0, at=100)
    index.refresh()
    index.update("a", 50, 0, at=101)
    assert index.query([50, 0], [50, 0], now=101) == ["a"]
    assert (index.counters["too_fast"], index.counters["listed"]) == (0, 0)


def test_strays_come_back_with_a_refresh():
    x, y, seen = np.zeros(2), np.zeros(2), np.zeros(2)
    tree = VelocityTree(x, y, seen)
    tree.track([0, 1], [1.0, 1.0])
    tree.rebuild()
    tree.report([0], [np.nan], [0.0], [1.0])
    assert (tree.listed, tree.counters["strayed"]) == (1, 1)
    tree.refresh()
    assert tree.listed == 1
    tree.report([0], [5.0], [0.0], [2.0])
    assert tree.search((5, 0, 5, 0), 2.0).rows.tolist() == [0]
    tree.refresh()
    assert tree.listed == 0
    assert tree.search((5, 0, 5, 0), 2.0).rows.tolist() == [0]


def test_objects_come_and_go():
    index = VelocityIndex(["a", "b"], [1, 2], [1, 2], v_max=[1, None], at=0)
    assert index.counters["listed"] == 1
    index.insert("c", 3, 3, v_max=1, at=0)
    index.remove("a")
    assert index.keys == ["b", "c"]
    assert len(index) == 2
    assert sorted(index.query(*EVERYWHERE, now=0)) == ["b", "c"]
    index.insert(["a", "d"], [7, 8], [7, 8], v_max=None, at=1)
    assert index.keys == ["b", "c", "a", "d"]
    assert index.query([7, 7], [7, 7], now=1) == ["a"]
    index.refresh([1, 2, 3, 4], [0, 0, 0, 0], at=100)
    assert sorted(index.query([3, 0], [4, 0], now=100)) == ["a", "d"]
    index.rebuild()
    assert index.keys == ["b", "c", "a", "d"]
    assert sorted(index.query([3, 0], [4, 0], now=100)) == ["a", "d"]
    assert index.counters["listed"] == 3
    index.remove(["a", "b", "c", "d"])
    index.rebuild()
    assert index.query(*EVERYWHERE, now=100) == index.keys == []
    index.insert([1], [1], [1], 1, 1)  # keys of another type
    assert index.query(*EVERYWHERE, now=100) == [1]


def test_rows_of_a_shared_table():
    x, y, seen = np.zeros(3), np.zeros(3), np.zeros(3)
    tree = VelocityTree(x, y, seen)
    tree.track([2, 0], [1.0, 1.0])
    tree.rebuild()
    tree.report([2, 1], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0])
    assert x.tolist() == [0, 1, 1]  # the row that is not tracked, too
    assert tree.search((1, 0, 1, 0), 2.0).rows.tolist() == [2]
    longer = np.zeros((3, 5))
    longer[:, :3] = x, y, seen
    tree.share(*longer)
    longer[0, 4] = 1
    tree.track([4], [np.nan])
    assert tree.search((1, 0, 1, 0), 2.0).rows.tolist() == [2, 4]
    tree.forget([2])
    tree.track([2], [1.0])  # a row can be used again
    tree.refresh()
    assert tree.search((1, 0, 1, 0), 2.0).rows.tolist() == [4, 2]
    assert tree.is_tracked().tolist() == [True, False, True, False, True]


@pytest.mark.parametrize(
    "keys",
    [
        ["x", "y", "z"],
        (1, 2, 3),
        np.array([1, 2, 3], np.uint8),
        np.array(["x", "y", "z"]),
        pa.chunked_array([["x"], ["y", "z"]]),
        pa.array(["x", "y", "z"]).dictionary_encode(),
        pd.Series(["x", "y", "z"]),
        pl.Series([1, 2, 3]),
    ],
)
def test_keys_of_every_kind(keys):
    numbers = pa.chunked_array([[1, 2], [3]])
    index = VelocityIndex(keys, numbers, pl.Series([1.0, 2, 3]), pd.Series([1, 1, None]), at=0)
    assert index.query([1, 1], [2, 2], 0) == index.keys[:2]
    index.update(keys, [9, 9, 9], [9, 9, 9], at=20)
    assert set(index.query([9, 9], [9, 9], 20)) == set(index.keys)


def test_times_as_datetimes():
    noon = datetime.datetime(2024, 3, 1, 12)
    minute = datetime.timedelta(minutes=1)
    index = VelocityIndex(["a", "b"], [0, 0], [0, 0], v_max=1, at=noon)
    index.update("a", 60, 0, at=noon + minute)
    index.update(["a", "b"], [60, 1], [0, 0], at=pa.array([noon + minute, noon + 2 * minute]))
    assert index.query([1, 0], [60, 0], (noon + 2 * minute).replace(tzinfo=datetime.UTC)) == [
        "a",
        "b",
    ]
    assert index.counters["too_fast"] == 0
    index.update("b", 70, 0, at=np.datetime64(noon + 3 * minute))
    assert index.counters["too_fast"] == 1
    with pytest.raises(MonitorError, match=r"now is 5, but the times of this index are datetimes"):
        index.query([0, 0], [1, 1], now=5)


def test_microseconds_count():
    noon = datetime.datetime(2024, 3, 1, 12)
    index = VelocityIndex(["a"], [0.0], [0.0], v_max=1, at=noon)
    index.update("a", 3e-6, 0, at=noon + datetime.timedelta(microseconds=3))
    assert index.counters["too_fast"] == 0
    index.update("a", 6e-6, 0, at=noon + datetime.timedelta(microseconds=5))
    assert index.counters["too_fast"] == 1


def test_inputs_are_not_changed():
    x = y = np.arange(10.0)
    index = VelocityIndex(np.arange(10), x, y, 1, 0)
    index.update(np.arange(10), x + 1, y, at=1)
    assert x.tolist() == list(range(10))


def test_integers_beyond_floats_are_exact():
    fleet = Fleet()
    fleet.insert(0, 2.0**53, 0.0, 0)
    index = VelocityIndex([0], [2.0**53], [0.0], 0, 0)
    for low, high in [(2**53, 2**53), (2**53 + 1, 2**54), (0, 2**53 - 1), (-(10**400), 10**400)]:
        check(index, fleet, [low, 0], [high, 0], 0)


def test_an_object_that_cannot_move_in_more_time_than_a_float_can_count():
    most = 1.7976931348623157e308
    index = VelocityIndex(["a"], [1], [1], v_max=0, at=-most)
    assert index.query([1, 1], [1, 1], now=most) == ["a"]
    assert index.search([1, 1], [1, 1], now=most).certain == 1
