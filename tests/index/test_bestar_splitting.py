"""The BE*-tree: where buckets are split, and what an event then visits (V-A)."""

import numpy as np
import pytest

from tests.conformance import boxes as shapes
from tests.index.bestar_invariants import check_invariants
from tests.index.trees import (
    HIGHEST,
    LOWEST,
    NULL,
    best_of,
    between,
    directory_of,
    found,
    made,
    matching,
)
from tocsin.index.bestar import splitting
from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    CUT,
    HIGH,
    LEAF,
    LEFT,
    LOW,
    NODES,
    RIGHT,
    SIZE,
)


def hull(members, low, high):
    return (low[members].min(), high[members].max()) if len(members) else None


def measured(low, high, side):
    """Return the overlap and the coverage of a split, as section V-A3 defines them."""
    hulls = [hull(np.flatnonzero(side == s), low, high) for s in (1, 2, 0)]
    overlap = hulls[2][1] - hulls[2][0] if hulls[2] else 0
    covered = np.zeros(high.max() + 1, bool)
    for each in filter(None, hulls):
        covered[each[0] : each[1]] = True
    return overlap, covered.sum()


def by_the_definition(low, high, least):
    """Return the least overlap and coverage over all I, from the left and from the right."""
    m, found = len(low), []
    for from_left in (True, False):
        order = np.argsort(high if from_left else -low, kind="stable")
        for i in range(least, m - least + 1):
            side = np.zeros(m, int)
            side[order[:i]] = 1 if from_left else 2
            for rest in order[i:]:
                if from_left and low[rest] > high[order[:i]].max():
                    side[rest] = 2
                if not from_left and high[rest] < low[order[:i]].min():
                    side[rest] = 1
            if (side == 1).sum() >= least and (side == 2).sum() >= least:
                found.append(measured(low, high, side))
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(10))
def test_exhaustive_splits_are_the_best(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 45))
    low = rng.integers(0, rng.choice([12, 60]), m)
    high = low + rng.integers(0, rng.choice([1, 8, 30]), m)
    least = int(rng.integers(1, max(2, m // 4)))
    side = np.zeros(m, np.uint8)
    cut = splitting.split_exhaustively(low, high, least, 0, side)
    best = by_the_definition(low, high, least)
    if cut == NULL:
        assert best is None
        return
    left, right = np.flatnonzero(side == 1), np.flatnonzero(side == 2)
    assert min(len(left), len(right)) >= least
    assert high[left].max() < low[right].min()
    # Members that end together stay together, which can only be better.
    assert best is None or measured(low, high, side) <= best


def by_turns(low, high):
    """Return the sides of the approximate split, as section V-A3 defines them."""
    m = len(low)
    up, down = np.argsort(high, kind="stable"), np.argsort(low, kind="stable")[::-1]
    left, right = [], []
    for a, b in zip(up, down, strict=True):
        if a not in right and all(high[a] < low[r] for r in right):
            left.append(a)
        if b not in left and all(low[b] > high[x] for x in left):
            right.append(b)
    return [1 if i in left else 2 if i in right else 0 for i in range(m)]


@pytest.mark.parametrize("seed", range(10))
def test_approximate_splits_take_turns(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(5, 45))
    low = rng.permutation(200)[:m]
    high = low + rng.integers(0, rng.choice([1, 8, 60]), m)
    high = 100 * high + rng.permutation(m)  # no two end together
    low = 100 * low
    side = np.full(m, 9, np.uint8)
    assert splitting.split_approximately(low, high, 1, 0, side) != NULL
    assert side.tolist() == by_turns(low, high)
    left, right = np.flatnonzero(side == 1), np.flatnonzero(side == 2)
    assert high[left].max() < low[right].min()
    fewest = min(len(left), len(right))
    assert splitting.split_approximately(low, high, fewest, 0, side) != NULL
    assert splitting.split_approximately(low, high, fewest + 1, 0, side) == NULL


def test_space_clustering_puts_left_to_the_left():
    side = np.zeros(4, np.uint8)
    low, high = np.array([0, 4, 6, 5]), np.array([4, 6, 10, 5])
    middle = splitting.midpoint(0, 10)
    assert splitting.split_at(low, high, middle, 0, side) == middle == 5
    assert side.tolist() == [1, 0, 2, 0]
    assert splitting.midpoint(LOWEST, HIGHEST) == 0
    assert splitting.midpoint(HIGHEST - 1, HIGHEST) == HIGHEST - 1


def test_data_clustering_fails_and_space_clustering_does_not():
    """One far away of a hundred is less than alpha."""
    rules = [[between(0, 5, 5)] for _ in range(99)] + [[between(0, 9, 9)]]
    index = BEStar.build(made(rules), np.zeros(1, np.uint8))
    buckets, top = directory_of(index)
    assert buckets[top, CUT] == 7
    left, right = buckets[buckets[top, LEFT]], buckets[buckets[top, RIGHT]]
    assert (left[LOW], left[HIGH], left[SIZE]) == (5, 5, 99)
    assert (right[LOW], right[HIGH], right[SIZE]) == (9, 9, 1)


def test_an_event_goes_down_one_side_at_most():
    work = shapes.one_attribute(np.random.default_rng(3))
    buckets, _ = directory_of(BEStar.build(work.conjunctions, work.floats))
    both = buckets[(buckets[:, LEFT] >= 0) & (buckets[:, RIGHT] >= 0)]
    assert len(both) > 20
    assert (buckets[both[:, LEFT], HIGH] < buckets[both[:, RIGHT], LOW]).all()


def test_a_point_event_searches_two_thirds_of_what_is_divided():
    """Three rules to the left, three to the right, and three that span both."""
    rules = [[between(0, x, x)] for x in (0, 1, 2, 100, 101, 102)] + [[between(0, 1, 101)]] * 3
    index = BEStar.build(made(rules), np.zeros(1, np.uint8), alpha=0.3)
    buckets, top = directory_of(index)
    left, right = buckets[buckets[top, LEFT]], buckets[buckets[top, RIGHT]]
    assert (left[SIZE], buckets[top, SIZE], right[SIZE]) == (3, 3, 3)
    for key, other in ((1, right), (101, left)):
        event = {0: key}
        truth = matching(rules, range(9), event)
        _, (looked, _) = best_of(index, [event], 1, 9, [{}])
        assert looked == 6
        # What the other side holds would be found if it were read: now it says a rule that matches.
        leaf = slice(other[LEAF], other[LEAF] + 3)
        members = index.layout.target[leaf].copy()
        index.layout.target[leaf] = truth[0]
        assert sorted(*found(index, [event], 1)) == truth
        index.layout.target[leaf] = members


def test_a_rigid_tree_halves_the_space_wherever_rules_are():
    rules = [[between(0, x, x)] for x in (*range(10), 1000)]
    cuts = {}
    for rigid in (True, False):
        index = BEStar.build(made(rules), np.zeros(1, np.uint8), rigid=rigid)
        check_invariants(index)
        buckets, at = directory_of(index)
        cuts[rigid] = []
        while at >= 0 and buckets[at, CUT] != NULL:
            cuts[rigid].append(buckets[at, CUT])
            at = buckets[at, LEFT]
    assert cuts[True][:6] == [500, 249, 124, 61, 30, 14]
    assert cuts[False][0] < 10


def test_the_forced_split_rule():
    """A bucket that cannot be split for its data is split in the middle, then partitioned."""
    rules = [[between(0, 0, 10), between(1 + n % 2, n, n)] for n in range(40)]
    index = BEStar.build(made(rules), np.zeros(3, np.uint8))
    buckets, top = directory_of(index)
    assert index.layout.pnode[0] == 0
    assert buckets[top, CUT] == 5
    assert buckets[top, NODES] == 2
    assert buckets[top, LEFT] == buckets[top, RIGHT] == -1
