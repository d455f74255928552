"""The three searches, against each other and comparing all boxes, while boxes come and go."""

import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tocsin
from tests.covering.oracle import contains, covers, random_box
from tocsin.covering import CoverIndex
from tocsin.covering.cover_index import METHODS, box_point
from tocsin.covering.z_curve import cell_key

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"
ALL = 10_000


def make_searches(random, dimensions):
    """One of each method, with small limits, so that splits, merges and jumps are frequent."""
    overflow = random.choice([2, 4, 16])
    return [
        CoverIndex(
            dimensions, "kd", overflow=overflow, underflow=random.choice([0, overflow // 2])
        ),
        CoverIndex(dimensions, "z", bits=random.choice([1, 3, 8])),
        CoverIndex(dimensions, "naive"),
    ]


def check_answers(searches, boxes, box):
    covering = {each for each in boxes if contains(boxes[each], box)}
    covered = {each for each in boxes if contains(box, boxes[each])}
    for search in searches:
        found = search.covering(*box, k=ALL)
        assert (set(found), len(found)) == (covering, len(covering)), search.method
        some = search.covering(*box, k=2)
        assert len(some) == min(2, len(covering)), search.method
        assert set(some) <= covering, search.method
        found = search.covered(*box)
        assert (set(found), len(found)) == (covered, len(covered)), search.method
        assert len(search) == len(boxes)


def run_commands(seed, commands=400):
    rng = random.Random(seed)
    dimensions = rng.choice([1, 2, 3, 5, 8])
    size, missing = rng.choice([3, 8, 1000]), rng.choice([0.0, 0.3])
    grows = rng.random() < 0.3  # each box contains the ones before: the worst order for a tree
    searches, boxes = make_searches(rng, dimensions), {}
    for number in range(commands):
        box = random_box(rng, dimensions, size, missing)
        if grows:
            box = [-number] * dimensions, [number] * dimensions
        leaves = 0.35 if number < commands * 2 // 3 else 0.8  # in the end nearly all go
        if boxes and rng.random() < leaves:
            gone = rng.choice(list(boxes))
            del boxes[gone]
            for search in searches:
                search.remove(gone)
        else:
            boxes[number] = box
            for search in searches:
                search.add(number, *box)
        if number % 3 == 0:
            check_answers(searches, boxes, box)
        if boxes:
            some = rng.choice(list(boxes))
            above = {each for each in boxes if covers(boxes, each, some)}
            for search in searches:
                assert set(search.index.covering_id(some, ALL)) == above


@pytest.mark.parametrize("seed", range(500 if IS_LONG else 12))
def test_all_searches_agree(seed):
    run_commands(seed)


@pytest.mark.skipif(not IS_LONG, reason="compiles all kernels again, which takes a minute")
def test_with_bounds_checks(tmp_path):
    code = (
        "from tests.covering.test_searches import run_commands\nfor s in range(6): run_commands(s)"
    )
    environment = os.environ | {"TOCSIN_BOUNDS_CHECK": "1", "TOCSIN_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, check=True)


def test_the_papers_keys():
    assert cell_key((3, 5), 3) == 0b1_011011
    assert cell_key((3, 5), 3) - 2**6 == 27
    assert cell_key((0, 0), 1) == 0b100
    assert cell_key((0, 0), 2) == 0b10000


def test_the_papers_subscription():
    """IV: ([1, 1], [0, 30], [90, 100]) does not have the notification (1, 59, 87)."""
    subscription = [1, 0, 90], [1, 30, 100]
    for method in METHODS:
        cover = CoverIndex(3, method)
        cover.add("s", *subscription)
        assert cover.covering((1, 59, 87), (1, 59, 87)) == []
        assert cover.covering((1, 30, 90), (1, 30, 90)) == ["s"]


@pytest.mark.parametrize("method", METHODS)
def test_large_and_special_numbers(method):
    huge, tiny, inf = sys.float_info.max, 5e-324, np.inf
    cover = CoverIndex(1, method)
    cover.add("finite", [-huge], [huge])
    cover.add("infinite", [-inf], [inf])
    cover.add("any", [None], [None])
    cover.add("negative zero", [-0.0], [0.0])
    cover.add("tiny", [-tiny], [tiny])
    cover.add("above", [inf], [inf])
    assert set(cover.covering([0.0], [-0.0], k=9)) == {
        "finite", "infinite", "any", "negative zero", "tiny",
    }  # fmt: skip
    assert set(cover.covering([huge], [inf], k=9)) == {"infinite", "any"}
    assert set(cover.covering([None], [9.0], k=9)) == {"any"}
    assert set(cover.covering([inf], [inf], k=9)) == {"infinite", "any", "above"}
    assert set(cover.covered([-1], [1])) == {"negative zero", "tiny"}


@pytest.mark.parametrize("method", METHODS)
def test_null_and_open_ends(method):
    cover = CoverIndex(1, method)
    cover.add("at most 9", [None], [9])
    assert cover.covering([None], [None]) == []  # null is not at most 9
    assert cover.covering([None], [9]) == ["at most 9"]
    assert cover.covering([None], [np.nextafter(9, 10)]) == []


def test_equal_boxes_are_found_oldest_first():
    cover = CoverIndex(1)
    for id in "cab":
        cover.add(id, [0], [1])
    assert cover.covering([0], [1], k=3) == ["c", "a", "b"]
    assert cover.index.covering_id("a", 3) == ["c"]
    cover.remove("c")
    cover.add("c", [0], [1])
    assert cover.index.covering_id("c", 3) == ["a", "b"]


def test_counters():
    cover = CoverIndex(2)
    for number in range(1000):
        cover.add(number, [number, 0], [number + 1, 1])
    assert (cover.visited, cover.compared) == (0, 0)
    cover.covering([5, 0], [6, 1])
    assert 0 < cover.visited < 200
    assert 0 < cover.compared < 200


def test_a_deep_tree_is_rebuilt():
    cover = CoverIndex(1)
    for number in range(5000):
        cover.add(number, [-number], [number])
    cover.covering([0], [0])
    assert cover.visited < 100


def test_boxes_in_arrays_and_columns():
    boxes = np.sort(np.random.default_rng(1).random((50, 2, 3)), axis=1)
    cover = CoverIndex(3)
    for number, box in enumerate(boxes[::-1]):
        cover.add(number, *box[:, ::-1])  # slices with negative steps
    low, high = boxes[3]
    assert 46 in cover.covering(low[::-1].astype(np.float32) * 0 + low[::-1], high[::-1], k=50)


def test_threads_take_turns():
    """Kernels release the interpreter's lock; without the index's own this crashes."""
    cover, failures = CoverIndex(3), []
    boxes = np.sort(np.random.default_rng(2).random((4000, 2, 3)), axis=1)

    def work(first):
        try:
            for number in range(first, 4000, 4):
                cover.add(number, *boxes[number])
                assert number in cover.covering(*boxes[number], k=4000)
                if number % 3 == 0:
                    cover.remove(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert len(cover) == sum(number % 3 != 0 for number in range(4000))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.add("a", [0, 0], [1, 1]), "already a box with the id 'a'"),
        (lambda c: c.remove("z"), "no box with the id 'z'"),
        (lambda c: c.add("b", [0], [1]), "needs 2 lower and 2 upper bounds; got 1 and 1"),
        (lambda c: c.add("b", [0, 2], [1, 1]), "dimension 1 has the bounds 2 and 1"),
        (lambda c: c.add("b", [0, float("nan")], [1, 1]), "neither can be NaN"),
        (lambda c: c.add("b", ["x", 0], [1, 1]), "numbers or None"),
        (lambda c: c.add("b", [0, 0], [1, 2**53 + 1]), "9007199254740993 is not a float64"),
        (lambda c: c.covering([0, 0], [1, 1], k=0), "k must be an integer, 1 or more"),
        (lambda c: CoverIndex(0), "dimensions must be"),
        (lambda c: CoverIndex(2, "kdd"), "method must be one of kd, z, naive"),
        (lambda c: CoverIndex(2, "z", overflow=3), "has no option 'overflow'"),
        (lambda c: CoverIndex(2, overflow=1), "overflow must be an integer from 2"),
        (
            lambda c: CoverIndex(2, overflow=4, underflow=5),
            "must not be above overflow; got 5 and 4",
        ),
        (lambda c: CoverIndex(2, underflow=17), "must not be above overflow; got 17 and 16"),
        (lambda c: c.add(["b"], [0, 0], [1, 1]), r"an id must be hashable.*got \['b'\]"),
        (lambda c: c.remove(["b"]), "an id must be hashable"),
        (lambda c: c.add("b", (n for n in "ab"), [1, 1]), "bounds of a box must be numbers"),
    ],
)
def test_errors(call, message):
    cover = CoverIndex(2)
    cover.add("a", [0, 0], [1, 1])
    with pytest.raises(tocsin.CoverError, match=message):
        call(cover)
    assert cover.covering([0, 0], [1, 1], k=9) == ["a"]


def test_points_of_boxes():
    point = box_point([1, None], [2, None], 2)
    assert point.tolist()[0] == ~np.float64(1).view(np.int64)
    assert point.tolist()[2:] == [2**63 - 1, 2**63 - 1]
