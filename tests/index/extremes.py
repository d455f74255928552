"""Rules and events at the ends of what floats and 64-bit integers hold, and what they mean.

What a rule means is decided here, by comparing values in NumPy.
"""

import math
import os
import sys

import numpy as np
import pyarrow as pa

import tocsin
from tests import naive
from tests.conformance.boxes import HIGHEST, LOWEST, NULL, float_keys
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import dense_keys

LARGEST = sys.float_info.max
FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1e308, -1e308, LARGEST, -LARGEST, math.inf, -math.inf),
    *(5e-324, -5e-324, sys.float_info.min, 1e-310, 1e-300, 1e300, -1e300, 2.0**960, -(2.0**960)),
    *(math.nextafter(1.0, 2.0), math.nextafter(1e308, 0.0), math.nextafter(LARGEST, 0.0)),
    *(2.0**-960, 1e-289, 2.0**53, 2.0**62, 2.0**63, 1e150, -1e150),
]
INTEGERS = [
    *(0, 1, -1, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**62 - 1, -(2**62) - 1),
    *(2**63 - 1, 2**63 - 2, 2**63 - 3, -(2**63), -(2**63) + 1, -(2**63) + 2, 10**18, -(10**18)),
]
SEAM = -5_819_204_377_310_644_129  # integers up to it have keys that are one higher
ARROW = {"number": pa.float64(), "integer": pa.int64(), "time": pa.timestamp("us", tz="UTC")}
# A thousand wide boxes are millions of constructs on the lattices that the papers use.
LONG = os.environ.get("TOCSIN_PROFILE") == "long"
SIZES = [1, 2, 5, 40, 64, 130, 150, 300, *([400, 700, 1000, 3000] if LONG else [])]
EVENTS = 80


class Leaf:
    """What a rule asks of an attribute: both bounds included (None: open), points, or null.

    One that is no box has a text, with the attribute left out.
    """

    def __init__(self, low=None, high=None, points=None, negated=False, null=False, text=None):
        self.low, self.high, self.points = low, high, points
        self.negated, self.null, self.text = negated, null, text

    def holds(self, kind, low, high, missing):
        """Tell for which events some value from low to high will do; NaN is above all numbers."""
        if self.null:
            return missing
        fits = ~missing
        if self.points is None:
            if self.low is not None:
                fits &= (high >= self.low) | (high != high)
            if self.high is not None:
                fits &= low <= self.high
            return fits
        inside = np.zeros(len(low), np.int64)
        for point in set(self.points):
            inside += (low <= point) & (point <= high)
        if not self.negated:
            return fits & (inside > 0)
        # Not if every value of the range is a point.
        first, last = (keys_of(kind, ends).astype(object) for ends in (low, high))
        return fits & (inside <= last - first).astype(bool)

    def row(self, kind):
        """Return the predicate in keys: its kind, low, high and points."""
        if self.null:
            return 0, NULL, NULL, []
        if self.points is not None:
            points = set(keys_of(kind, self.points).tolist())
            return (2, 0, 0, sorted(points | {NULL})) if self.negated else (1, 0, 0, sorted(points))
        low = LOWEST if self.low is None else int(keys_of(kind, [self.low])[0])
        high = HIGHEST if self.high is None else int(keys_of(kind, [self.high])[0])
        return 0, low, high, []


def keys_of(kind, values):
    if kind == "number":
        return float_keys(np.asarray(values, np.float64) + 0.0)  # -0.0 is 0.0
    values = np.asarray(values, np.int64)
    return values + (values <= SEAM)


def next_to(kind, value, step):
    if kind == "number":
        return math.nextafter(value, math.inf * step)
    return min(max(value + step, -(2**63)), 2**63 - 1)


def literal(value):
    return naive._literal(value, None)


class Case:
    """Rules over a few attributes, events, and which rules hold for which events.

    Bounds and events are drawn from a pool of values for each attribute. A rule leaves an attribute
    out by the chance `untested`, and asks something else than a closed box of it by `odd`.
    """

    def __init__(self, rng, kinds, pools, size, untested=0.0, odd=0.0):
        self.rng, self.size, self.untested, self.odd = rng, size, untested, odd
        self.schema, self.pools = dict(zip("xyz", kinds)), pools
        rules = [self.rule() for _ in range(size)]
        # Boxes first: they are added as a table, the others one by one.
        boxes = [not any(leaf and leaf.text for leaf in leaves) for leaves in rules]
        self.boxes = sum(boxes)
        self.rules = [rules[i] for i in np.argsort(np.invert(boxes), kind="stable")]
        extremes = (
            [0.0, 5e-324, 1.0, 1e308, LARGEST] if rng.random() < 0.2 else [0.0, 0.25, 1.0, 2.0]
        )
        self.weights = rng.choice(extremes, (size, len(kinds)))
        self.events = [self.column(*each) for each in zip(kinds, pools)]
        self.ranges = [self.range_column(*each) for each in zip(kinds, pools)]

    def rule(self):
        kinds = list(self.schema.values())
        leaves = [self.leaf(*each) for each in zip(kinds, self.pools)]
        if any(leaf and leaf.text for leaf in leaves):
            # Texts cannot say times that are so far out.
            for a, leaf in enumerate(leaves):
                if leaf and not leaf.text and kinds[a] == "time":
                    leaves[a] = Leaf(text="{0} IS NOT NULL")
        return leaves

    def leaf(self, kind, pool):
        rng = self.rng
        if rng.random() < self.untested:
            return None
        low, high = sorted(pool[i] for i in rng.integers(0, len(pool), 2))
        if rng.random() < 0.1:
            high = low
        if rng.random() >= self.odd:
            open_end = rng.random() if self.odd else 1.0
            return Leaf(None if open_end < 0.1 else low, None if 0.1 <= open_end < 0.2 else high)
        form = rng.integers(0, 5)
        if form == 0:
            return Leaf(null=True, text="{0} IS NULL")
        if form == 1 or kind == "time":
            return Leaf(text="{0} IS NOT NULL")
        points = [pool[i] for i in rng.integers(0, len(pool), rng.choice([1, 2, 4, 12]))]
        listed = ", ".join(map(literal, points))
        if form == 2:
            return Leaf(points=points, text=f"{{0}} IN ({listed})")
        if form == 3:
            return Leaf(points=points, negated=True, text=f"{{0}} NOT IN ({listed})")
        above, below = next_to(kind, low, 1), next_to(kind, high, -1)
        if low < above <= below < high:
            return Leaf(above, below, text=f"{{0}} > {literal(low)} AND {{0}} < {literal(high)}")
        return Leaf(low, None, text=f"{{0}} >= {literal(low)}")

    def values(self, kind, pool):
        """Return values for events: of the pool, next to those, and a few others."""
        values = []
        for i, way in zip(self.rng.integers(0, len(pool), EVENTS), self.rng.random(EVENTS)):
            value = pool[i]
            if way < 0.3:
                value = next_to(kind, value, 1 if way < 0.15 else -1)
            elif way < 0.4:
                value = self.rng.choice(FLOATS if kind == "number" else INTEGERS)
            values.append(value)
        return np.array(values, np.float64 if kind == "number" else np.int64)

    def column(self, kind, pool):
        """Return lows, highs, which are the same, and what is null."""
        values = self.values(kind, pool)
        if kind == "number":
            values[self.rng.random(EVENTS) < 0.06] = np.nan
        return values, values, self.rng.random(EVENTS) < 0.08

    def range_column(self, kind, pool):
        low, high = np.sort([self.values(kind, pool), self.values(kind, pool)], axis=0)
        single = self.rng.random(EVENTS) < 0.3
        return low, np.where(single, low, high), self.rng.random(EVENTS) < 0.08

    def truth(self, columns):
        """Return which rules hold, [events, rules]."""
        truth = np.ones((EVENTS, self.size), bool)
        for number, leaves in enumerate(self.rules):
            for leaf, kind, column in zip(leaves, self.schema.values(), columns):
                if leaf:
                    truth[:, number] &= leaf.holds(kind, *column)
        return truth

    def scores(self):
        """Return each rule's score: its weights of what it tests, but not of what must be null."""
        counted = [[bool(leaf and not leaf.null) for leaf in leaves] for leaves in self.rules]
        total = np.zeros(self.size)
        with np.errstate(over="ignore"):
            for weights in np.where(counted, self.weights, 0.0).T:
                total += weights
        return total

    # -------------------------------------------------------- as an index is given them

    def conjunctions(self, numbers):
        counts, attribute, rows, points = [], [], [], []
        for number in numbers:
            counts.append(0)
            for a, kind in enumerate(self.schema.values()):
                leaf = self.rules[number][a]
                if leaf:
                    what, low, high, own_points = leaf.row(kind)
                    if what:
                        low, high = len(points), len(points) + len(own_points)
                        points += own_points
                    attribute.append(a)
                    rows.append((what, low, high))
                    counts[-1] += 1
        what, low, high = np.array(rows, np.int64).reshape(-1, 3).T
        return freeze_fields(
            Conjunctions, offsets=np.append(0, np.cumsum(counts)), attribute=attribute, kind=what,
            low=low, high=high, points=np.array(points, np.int64), weight=[], rule=numbers,
        )  # fmt: skip

    def floats(self):
        return np.array([kind == "number" for kind in self.schema.values()], np.uint8)

    def keys(self, columns):
        low, high = [], []
        for kind, (first, last, missing) in zip(self.schema.values(), columns):
            low.append(np.where(missing, NULL, keys_of(kind, first)))
            high.append(np.where(missing, NULL, keys_of(kind, last)))
        return dense_keys(np.array(low), np.arange(len(low)), np.array(high))

    # -------------------------------------------------------- as a user gives them

    def engine(self, index):
        rules = tocsin.Rules(self.schema, index=index)
        weights = [
            {
                name: float(weight)
                for name, weight, leaf in zip(self.schema, self.weights[number], leaves)
                if leaf
            }
            for number, leaves in enumerate(self.rules)
        ]
        boxes = {"id": pa.array(range(self.boxes), pa.int64())}
        for a, (name, kind) in enumerate(self.schema.items()):
            leaves = [leaves[a] or Leaf() for leaves in self.rules[: self.boxes]]
            boxes[f"{name}_low"] = pa.array([leaf.low for leaf in leaves], ARROW[kind])
            boxes[f"{name}_high"] = pa.array([leaf.high for leaf in leaves], ARROW[kind])
        entries = [list(each.items()) for each in weights[: self.boxes]]
        boxes["weights"] = pa.array(entries, pa.map_(pa.string(), pa.float64()))
        rules.add_many(pa.table(boxes))
        for number in range(self.boxes, self.size):
            rules.add(number, self.text(number), weights=weights[number] or None)
        rules.merge()
        return rules

    def text(self, number):
        parts = []
        for name, leaf in zip(self.schema, self.rules[number]):
            if leaf and leaf.text:
                parts.append(leaf.text.format(name))
            elif leaf:
                parts += [f"{name} >= {literal(leaf.low)}"] * (leaf.low is not None)
                parts += [f"{name} <= {literal(leaf.high)}"] * (leaf.high is not None)
        return " AND ".join(parts)

    def table(self, columns):
        """Return events as a table, with ranges as structs."""
        table = {}
        for (name, kind), (low, high, missing) in zip(self.schema.items(), columns):
            table[name] = pa.array(low, ARROW[kind], mask=missing, from_pandas=False)
            if columns is self.ranges:
                ends = [table[name], pa.array(high, ARROW[kind], mask=missing)]
                nulls = pa.array(missing)
                table[name] = pa.StructArray.from_arrays(ends, ["low", "high"], mask=nulls)
        return pa.table(table)


def any_case(seed):
    rng = np.random.default_rng(seed)
    kinds = rng.choice(list(ARROW), rng.integers(1, 4), p=[0.6, 0.25, 0.15]).tolist()
    pools = [any_pool(rng, kind) for kind in kinds]
    untested, odd = rng.choice([0.0, 0.3, 0.7]), rng.choice([0.0, 0.1, 0.6])
    return Case(rng, kinds, pools, int(rng.choice(SIZES)), untested, odd)


def any_pool(rng, kind):
    """Return a few extremes, in half of the cases among others: usual ones, or of any size."""
    extremes = FLOATS if kind == "number" else INTEGERS
    few = [extremes[i] for i in rng.permutation(len(extremes))[: rng.integers(1, 8)]]
    if rng.random() < 0.5:
        return few
    n = int(rng.integers(1, 200))
    if kind == "number":
        exponent = rng.uniform(-323, 308, n) if rng.random() < 0.5 else np.zeros(n)
        return few + (rng.uniform(-1, 1, n) * 10.0**exponent).tolist()
    reach = 2 ** int(rng.integers(1, 64))
    return few + rng.integers(-reach, reach, n).tolist()


def plane_case(seed):
    """Return hundreds of boxes of a few extremes over two attributes, for which grids are made."""
    rng = np.random.default_rng(seed)
    kind, extremes = ("integer", INTEGERS) if seed % 4 == 3 else ("number", FLOATS)
    pool = [extremes[0], 1, *rng.choice(extremes, rng.integers(1, 4)).tolist()]
    if seed < 3:
        pool = [0.0, 1.0, 1e308 if seed else LARGEST]  # each of these crashed once
    return Case(
        rng, [kind] * 2, [pool] * 2, int(rng.choice([150, 300, *([400, 1000] if LONG else [])]))
    )
