"""Insertion and removal in place: the same answers as an index built of what is left."""

import itertools

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tocsin.errors import RuleError
from tocsin.index import posting_lists
from tocsin.index.bestar.index import BEStar
from tocsin.index.cells.grid import Grid
from tocsin.index.cells.layout import END, FULL, HEAD, PARTIAL, WORDS
from tocsin.index.cells.ntree import NTree
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.model.keys import EventBatch

KINDS = {
    "grid": (Grid, {}),
    "ntree": (NTree, {}),
    "quad-tree": (NTree, {"fan_out": 2}),
    "intervals": (Intervals, {}),
    "simple intervals": (Intervals, {"longest": 4, "decomposition": "simple"}),
    "logarithmic intervals": (Intervals, {"longest": 4}),
    "published intervals": (Intervals, {"lattice": "published"}),
    "published simple intervals": (
        Intervals,
        {"lattice": "published", "longest": 4, "decomposition": "simple"},
    ),
    "rectangles": (Rectangles, {}),
    "hashed rectangles": (Rectangles, {"hashed": True}),
    "published rectangles": (Rectangles, {"lattice": "published"}),
    "hashed published rectangles": (
        Rectangles,
        {"lattice": "published", "longest": [4, 2], "decomposition": "overlapped", "hashed": True},
    ),
    "overlapped rectangles": (Rectangles, {"longest": 4, "decomposition": "overlapped"}),
    "bestar": (BEStar, {}),
    "bestar with summaries": (BEStar, {"summary": "attributes"}),
    "rigid bestar": (BEStar, {"rigid": True}),
}


def part(work, chosen):
    made = shapes.Boxes(work.low[:, chosen], work.high[:, chosen], work.events, work.floats)
    return made.conjunctions


def answers(index, work):
    """Return the pairs that an index finds, as a matrix."""
    from tocsin.index.accept import accept

    width, n = work.events.shape
    size = index.conjunctions.size
    out, offsets = np.empty(size * n + size, np.int32), np.zeros(n + 1, np.int64)
    assert index.candidates(EventBatch(work.keys, width, 0, n), offsets, out) == n
    accept(index.conjunctions, EventBatch(work.keys, width, 0, n), offsets, out)
    found = np.zeros((n, size), int)
    np.add.at(found, (np.repeat(np.arange(n), np.diff(offsets)), out[: offsets[-1]]), 1)
    assert found.max(initial=0) <= 1, "found twice"
    return found.astype(bool)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", shapes.SHAPES, ids=lambda s: s.__name__)
def test_inserted_and_removed(kind, shape):
    index_class, options = KINDS[kind]
    work = shape(np.random.default_rng(8))
    n = work.low.shape[1]
    batches = np.array_split(np.arange(n), [n // 3, n // 2, n // 2 + 1])
    index = index_class.build(part(work, batches[0]), work.floats, **options)
    truth = work.truth()
    rng = np.random.default_rng(9)
    alive = np.zeros(n, bool)
    alive[batches[0]] = True
    for batch in batches[1:]:
        index.insert(part(work, batch))
        alive[batch] = True
        gone = rng.choice(np.flatnonzero(alive), alive.sum() // 5, replace=False)
        index.remove(gone)
        alive[gone] = False
        size = index.conjunctions.size
        np.testing.assert_array_equal(answers(index, work), (truth & alive)[:, :size])
        if index_class is not BEStar:  # whose records are kept for later when they are free
            index.validate(len(work.floats))
    again = type(index).from_arrays(index.conjunctions, index.arrays())
    again.validate(len(work.floats))
    np.testing.assert_array_equal(answers(again, work), truth & alive)
    if index.proven and index.counts:
        counts = np.zeros(work.events.shape[1], np.int64)
        index.count(EventBatch.whole(work.keys, work.events.shape[0]), counts)
        assert counts.tolist() == (truth & alive).sum(axis=1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_into_nothing_and_out_of_all(kind):
    index_class, options = KINDS[kind]
    work = shapes.squares(np.random.default_rng(8))
    index = index_class.build(part(work, slice(0, 0)), work.floats, **options)
    index.insert(part(work, slice(0, 300)))
    np.testing.assert_array_equal(answers(index, work), work.truth()[:, :300])
    index.remove(np.arange(300))
    assert not answers(index, work).any()
    index.insert(part(work, slice(300, 600)))
    np.testing.assert_array_equal(answers(index, work)[:, 300:], work.truth()[:, 300:600])


# ------------------------------------------------------------ cells: lists with room

CELLS = {
    "grid": (Grid, {}),
    "published grid": (Grid, {"tiers": "one", "cells": 30, "full_lists": "all"}),
    "two tiers": (Grid, {"tiers": "two", "cells": 12, "full_lists": "all"}),
    "ntree": (NTree, {"fan_out": 8, "leaf_capacity": 5}),
    "quad-tree": (NTree, {"fan_out": 2, "leaf_capacity": 3}),
}
WIDE = [
    shapes.squares,
    shapes.all_sizes,
    shapes.half_in_a_corner,
    shapes.half_planes,
    shapes.with_nulls,
    shapes.integers,
    shapes.three_attributes,
    shapes.identical,
]


def check_rooms(index):
    """Rooms are disjoint, lists within them, and within what is used."""
    rooms = index._cells.rooms
    heads = rooms.heads.reshape(-1, HEAD)
    end = np.where(heads[:, END] < 0, heads[:, PARTIAL], heads[:, END])
    for begin, size, room, array, used in (
        (heads[:, FULL], end - heads[:, FULL], rooms.id_room, rooms.ids, rooms.used[0]),
        (heads[:, WORDS], end - heads[:, PARTIAL], rooms.word_room, rooms.words, rooms.used[1]),
    ):
        assert (size >= 0).all()
        assert (size <= room).all()
        taken = [(b, b + r) for b, r in zip(begin.tolist(), room.tolist(), strict=True) if r]
        taken.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(taken))
        assert taken == [] or taken[-1][1] <= used <= len(array)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("shape", WIDE, ids=lambda s: s.__name__)
def test_one_by_one_in_random_order(kind, shape):
    """Insertions and removals of one or a few, twice removed ones among them; stored in between."""
    index_class, options = CELLS[kind]
    rng = np.random.default_rng(3)
    work = shape(rng)
    n, truth = 200, work.truth()
    order = rng.permutation(work.low.shape[1])[:n]
    truth = truth[:, order]
    index = index_class.build(part(work, order[:50]), work.floats, **options)
    alive = np.zeros(n, bool)
    alive[:50] = True
    size = 50
    while size < n:
        more = int(rng.choice([1, 1, 1, 2, 30]))
        stop = min(size + more, n)
        index.insert(part(work, order[size:stop]))
        alive[size:stop] = True
        size = stop
        gone = rng.integers(0, size, int(rng.choice([0, 1, 1, 2, 40])))  # may be gone already
        index.remove(gone)
        alive[gone] = False
        if rng.random() < 0.1:
            index.validate(len(work.floats))
            check_rooms(index)
            np.testing.assert_array_equal(answers(index, work), (truth & alive)[:, :size])
        if rng.random() < 0.05:  # stored, and opened read-only
            arrays = {name: array.copy() for name, array in index.arrays().items()}
            for array in arrays.values():
                array.setflags(write=False)
            index = index_class.from_arrays(index.conjunctions, arrays)
            index.validate(len(work.floats))
    np.testing.assert_array_equal(answers(index, work), truth & alive)
    index.remove(np.arange(n))
    assert not answers(index, work).any()
    assert len(index.arrays()["ids"]) == 0


@pytest.mark.parametrize("kind", CELLS)
def test_a_change_is_not_seen_by_those_who_share_arrays(kind):
    index_class, options = CELLS[kind]
    work = shapes.squares(np.random.default_rng(8))
    index = index_class.build(part(work, slice(0, 300)), work.floats, **options)
    before = work.truth()[:, :300]
    built = index_class.from_arrays(index.conjunctions, index.arrays())
    index.insert(part(work, slice(300, 301)))
    changed = index_class.from_arrays(index.conjunctions, index.arrays())
    index.insert(part(work, slice(301, 900)))
    index.remove(np.arange(0, 600, 2))
    built.remove(np.array([7]))
    np.testing.assert_array_equal(answers(changed, work), work.truth()[:, :301])
    now = before.copy()
    now[:, 7] = False
    np.testing.assert_array_equal(answers(built, work), now)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_numbers_are_refused(kind):
    index_class, options = KINDS[kind]
    work = shapes.squares(np.random.default_rng(8))
    index = index_class.build(part(work, slice(0, 300)), work.floats, **options)
    for numbers in ([300], [-1], [5, 10**9]):
        with pytest.raises(IndexError, match="from 0 to 299"):
            index.remove(np.array(numbers))
    np.testing.assert_array_equal(answers(index, work), work.truth()[:, :300])


def test_a_failed_insertion_changes_nothing(monkeypatch):
    work = shapes.squares(np.random.default_rng(8))
    index = Grid.build(part(work, slice(0, 300)), work.floats)
    index.insert(part(work, slice(300, 301)))
    with monkeypatch.context() as patched:
        patched.setattr(posting_lists, "MAX_ENTRIES", len(index.layout.ids) + 10)
        with pytest.raises(RuleError, match="lists of more than"):
            index.insert(part(work, slice(301, 4000)))
    np.testing.assert_array_equal(answers(index, work), work.truth()[:, :301])
    index.insert(part(work, slice(301, 400)))
    np.testing.assert_array_equal(answers(index, work), work.truth()[:, :400])


@pytest.mark.parametrize("n", [2, 32])
def test_insertion_splits_the_leaves_of_a_tree(n):
    """From nothing, one by one: leaves as short as if the tree were built of all."""
    work = shapes.half_in_a_corner(np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(6000)[:700]
    index = NTree.build(part(work, order[:10]), work.floats, fan_out=n, leaf_capacity=12)
    for number in order[10:]:
        index.insert(part(work, [number]))
    check_rooms(index)
    index.validate(2)
    built = NTree.build(part(work, order), work.floats, fan_out=n, leaf_capacity=12)
    tested = []
    for tree in (index, built):
        heads = tree.layout.heads.reshape(-1, HEAD)
        size = np.maximum(heads[:, END] - heads[:, PARTIAL], 0)
        tested.append((size.astype(float) ** 2).sum() / size.sum())
    assert tested[0] < 3 * tested[1]
    assert len(index.layout.first_cell) >= 5
    np.testing.assert_array_equal(answers(index, work), work.truth()[:, order])
