"""Insertion and removal in place: the same answers as an index built of what is left."""

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tocsin.index.bestar.index import BEStar
from tocsin.index.cells.grid import Grid
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
    "rectangles": (Rectangles, {}),
    "hashed rectangles": (Rectangles, {"hashed": True}),
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
