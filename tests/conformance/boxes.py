"""Thousands of boxes of every shape, and what NumPy says of them."""

import numpy as np

from tocsin.index.accept import accept
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, dense_keys

NULL, LOWEST, HIGHEST = -(2**63), -(2**63) + 1, 2**63 - 1
NAN = 0x7FF8 << 48


def float_keys(values):
    bits = np.asarray(values, np.float64).view(np.int64)
    keys = np.where(bits >= 0, bits, NULL - bits)
    return np.where(np.isnan(values), NAN, keys)


class Boxes:
    """Boxes [low, high] over a few attributes (NULL to HIGHEST: not tested), and events."""

    def __init__(self, low, high, events, floats):
        self.low, self.high, self.events = (np.asarray(a, np.int64) for a in (low, high, events))
        self.floats = np.array(floats, np.uint8)
        width, n = self.low.shape
        tested = (self.low != NULL) | (self.high != HIGHEST)
        rows = tested.T.reshape(-1)
        self.conjunctions = freeze_fields(
            Conjunctions,
            offsets=np.concatenate([[0], np.cumsum(tested.sum(axis=0))]),
            attribute=np.tile(np.arange(width), n)[rows],
            kind=np.zeros(rows.sum()),
            low=self.low.T.reshape(-1)[rows],
            high=self.high.T.reshape(-1)[rows],
            points=[],
            weight=[],
            rule=np.arange(n),
        )
        self.keys = dense_keys(self.events, np.arange(width))

    def truth(self):
        inside = np.ones((self.events.shape[1], self.low.shape[1]), bool)
        for low, high, key in zip(self.low, self.high, self.events, strict=True):
            inside &= (low <= key[:, None]) & (key[:, None] <= high)
        return inside


def floats(low, high, points):
    """Make boxes over attributes that are all numbers; NaN bounds are open."""
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    low_keys = np.where(np.isnan(low), LOWEST, float_keys(low))
    high_keys = np.where(np.isnan(high), HIGHEST, float_keys(high))
    events = np.asarray(points, np.float64)
    return Boxes(low_keys, high_keys, float_keys(events), [1] * len(low))


def uniform(rng, n=4000, side=0.02, dimensions=2):
    low = rng.random((dimensions, n))
    return low, low + side


def squares(rng):
    low, high = uniform(rng)
    return floats(low, high, rng.random((2, 500)) * 1.4 - 0.2)


def points_on_bounds(rng):
    low, high = uniform(rng, side=0.1)
    pick = rng.integers(0, 4000, 500)
    return floats(low, high, np.stack([low[0, pick], high[1, pick]]))


def whole_numbers(rng):
    """Columns of floats whose values are whole: most events are on bounds, and some are outside.

    Some events between them are on none. Runs of both are longer than what is computed together.
    """
    low = rng.integers(0, 40, (2, 3000)).astype(float)
    low[rng.random((2, 3000)) < 0.02] += 0.5
    events = rng.integers(-10, 60, (2, 600)).astype(float)
    events[:, 300:400] += 0.25
    events[:, 500:][:, rng.random(100) < 0.5] += 0.25
    return floats(low, low + rng.integers(0, 4, (2, 3000)), events)


def clusters(rng):
    centres = rng.random((5, 2))
    low = centres[rng.integers(0, 5, 4000)].T + rng.normal(0, 0.1, (2, 4000))
    return floats(
        low, low + 0.01, centres[rng.integers(0, 5, 500)].T + rng.normal(0, 0.05, (2, 500))
    )


def half_in_a_corner(rng):
    low, side = rng.random((2, 6000)), np.full(6000, 0.01)
    low[:, 3000:] *= 1e-4
    side[3000:] = 1e-6
    points = rng.random((2, 600))
    points[:, 300:] *= 1e-4
    return floats(low, low + side, points)


def corner_in_a_corner(rng):
    scale = 10.0 ** -rng.integers(0, 12, 6000)
    low = rng.random((2, 6000)) * scale
    scales = 10.0 ** -rng.integers(0, 12, 600)
    return floats(low, low + 0.02 * scale, rng.random((2, 600)) * scales)


def identical(rng):
    low = np.tile([[0.3], [0.4]], 1000)
    points = np.concatenate([rng.random((2, 300)), [[0.3, 0.5, 0.3], [0.4, 0.6, 0.6]]], axis=1)
    return floats(low, low + 0.2, points)


def one_giant(rng):
    low, high = uniform(rng, side=0.001)
    low[:, 7], high[:, 7] = -5, 5
    return floats(low, high, rng.random((2, 500)) * 3 - 1)


def all_sizes(rng):
    side = 10.0 ** rng.uniform(-5, 0, (2, 4000))
    low = rng.random((2, 4000)) - side / 2
    return floats(low, low + side, rng.random((2, 500)))


def elongated(rng):
    low = rng.random((2, 4000))
    side = np.where(np.arange(4000) % 2, [[0.5], [0.0005]], [[0.0005], [0.5]])
    return floats(low, low + side, rng.random((2, 500)))


def half_planes(rng):
    low, high = uniform(rng, side=0.1)
    low[rng.random((2, 4000)) < 0.4] = np.nan
    high[rng.random((2, 4000)) < 0.4] = np.nan
    points = rng.random((2, 500)) * 3 - 1
    points[0, :4] = [np.inf, -np.inf, np.nan, 0.0]
    return floats(low, high, points)


def degenerate(rng):
    low = rng.integers(0, 40, (2, 4000)) / 8
    return floats(low, low, rng.integers(-2, 42, (2, 500)) / 8)


def outliers(rng):
    low, high = uniform(rng)
    low[:, :6] = [[1e300, -1e300, 1e-300, -np.inf, 5e-324, -1e308]] * 2
    high[:, :6] = [[1e301, -1e299, 2e-300, np.inf, 1e-323, 1e308]] * 2
    points = rng.random((2, 500))
    points[:, :6] = [[5e300, -5e299, 1.5e-300, np.inf, 5e-324, 0.0]] * 2
    return floats(low, high, points)


def with_nulls(rng):
    made = squares(rng)
    made.low[:, ::5], made.high[:, ::5] = NULL, NULL  # IS NULL
    made.low[0, 1::5], made.high[0, 1::5] = NULL, HIGHEST  # not tested
    events = made.events.copy()
    events[0, ::3] = NULL
    events[1, ::4] = NULL
    return Boxes(made.low, made.high, events, [1, 1])


def integers(rng):
    """The workload of the rectangle papers: 300 x 200, sides up to 40 x 20, most in the middle."""
    size, n = np.array([[300], [200]]), 5000
    middle = rng.random(n) < 0.9
    low = (rng.random((2, n)) * size).astype(np.int64)
    low[:, middle] = (size * 0.35 + rng.random((2, middle.sum())) * size * 0.3).astype(np.int64)
    high = low + rng.integers(0, [[40], [20]], (2, n))
    events = np.stack([rng.integers(-3, 345, 500), rng.integers(-3, 225, 500)])
    return Boxes(low, high, events, [0, 0])


def huge_integers(rng):
    low = rng.integers(-(2**62), 2**62, (2, 3000))
    low[:, ::2] = 2**61 + rng.integers(0, 300, (2, 1500))
    high = low + rng.integers(0, 9, (2, 3000))
    events = 2**61 + rng.integers(-5, 310, (2, 500))
    return Boxes(low, high, events, [0, 0])


def beyond_2_62(rng):
    """Domains that lie wholly where neither floats nor differences of integers are exact."""
    low = 2**63 - 1 - rng.integers(1, 10**6, (2, 3000))
    low[1] = -low[1]
    events = np.array(
        [[2**62, -(2**62), 2**63 - 1, NULL + 2, 0], [-(2**62), 2**62, NULL + 2, 0, 0]]
    )
    inside = low[:, :400] + rng.integers(-2, 12, (2, 400))
    return Boxes(low, low + 10, np.concatenate([events, inside], axis=1), [0, 0])


def a_city_in_a_country(rng):
    """Small fences in one place, a few over all of it, some far away."""
    low = rng.normal(0.5, 0.001, (2, 5000))
    side = np.full(5000, 1e-5)
    low[:, :50], side[:50] = 0.495, 0.01
    low[:, 50:150] = rng.random((2, 100))
    return floats(low, low + side, rng.normal(0.5, 0.001, (2, 500)))


def large_on_pixels(rng):
    corners = np.sort(rng.integers(0, [[[1920]], [[1080]]], (2, 2, 1000)), axis=1)
    events = np.stack([rng.integers(0, 1920, 300), rng.integers(0, 1080, 300)])
    return Boxes(corners[:, 0], corners[:, 1], events, [0, 0])


def times(rng):
    start = 1_700_000_000_000_000
    low = start + rng.integers(0, 10**12, (1, 3000))
    place = float_keys(rng.random((1, 3000)))
    events = np.concatenate(
        [start + rng.integers(0, 10**12, (1, 500)), float_keys(rng.random((1, 500)))]
    )
    high = np.concatenate([low + 10**10, place + 10**14])
    return Boxes(np.concatenate([low, place]), high, events, [0, 1])


def three_attributes(rng):
    low, high = uniform(rng, side=0.3, dimensions=3)
    return floats(low, high, rng.random((3, 400)))


def one_attribute(rng):
    low, high = uniform(rng, side=0.01, dimensions=1)
    return floats(low, high, rng.random((1, 500)))


def one_each(rng):
    """Rules that test x, rules that test y, and rules that test neither."""
    made = squares(rng)
    made.low[0, ::2], made.high[0, ::2] = NULL, HIGHEST
    made.low[1, 1::2], made.high[1, 1::2] = NULL, HIGHEST
    made.low[:, ::50], made.high[:, ::50] = NULL, HIGHEST
    return Boxes(made.low, made.high, made.events, [1, 1])


SHAPES = [
    squares, points_on_bounds, whole_numbers, clusters, half_in_a_corner, corner_in_a_corner,
    identical, one_giant, all_sizes, elongated, half_planes, degenerate, outliers, with_nulls,
    integers, huge_integers, beyond_2_62, a_city_in_a_country, large_on_pixels, times,
    three_attributes, one_attribute, one_each,
]  # fmt: skip


def check_equal_to_numpy(index, work):
    truth = work.truth()
    assert truth.any()
    width, n = work.events.shape
    size = work.conjunctions.size
    out, offsets = np.empty(size * n, np.int32), np.zeros(n + 1, np.int64)
    first, found = 0, []
    while first < n:
        stop = index.candidates(EventBatch(work.keys, width, first, n), offsets, out)
        accept(work.conjunctions, EventBatch(work.keys, width, first, stop), offsets, out)
        found += [out[offsets[i] : offsets[i + 1]].copy() for i in range(stop - first)]
        first = stop
    for event, numbers in enumerate(found):
        assert sorted(numbers.tolist()) == np.flatnonzero(truth[event]).tolist()
    if index.proven and index.counts:
        counts = np.zeros(n, np.int64)
        index.count(EventBatch.whole(work.keys, width), counts)
        assert counts.tolist() == truth.sum(axis=1).tolist()
