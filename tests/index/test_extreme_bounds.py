"""Bounds and events at the ends of what floats and 64-bit integers hold, under every index.

Extents of such bounds overflow, and the NaN that came of it became an index into an array. So the
fuzz runs in processes of its own: a crash is a failed test. Warnings are errors there, and with
`TOCSIN_BOUNDS_CHECK` kernels check every index. What a rule means is decided here, by comparing
values in NumPy.

To repeat a failure: `TOCSIN_BOUNDS_CHECK=1 python -m tests.index.test_extreme_bounds NAME SEED`.
"""

import math
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

import tocsin
from tests import naive
from tests.conformance.boxes import HIGHEST, LOWEST, NULL, float_keys
from tests.conformance.checks import NO_FLAGS
from tests.index.test_in_place import KINDS
from tocsin.engine.plan import INDEXES
from tocsin.index.accept import accept, accept_ranges
from tocsin.model.conjunctions import conjunctions
from tocsin.model.keys import dense

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
ROOT = Path(__file__).parents[2]

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
SIZES = [1, 2, 5, 40, 64, 130, 150, 300, 400, 700, 1000, 3000]
EVENTS = 80


# ------------------------------------------------------------ rules and events


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
        self.weights = rng.integers(0, 9, (size, len(kinds))) / 4  # so that sums are exact
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
        found = []
        for i, way in zip(self.rng.integers(0, len(pool), EVENTS), self.rng.random(EVENTS)):
            value = pool[i]
            if way < 0.3:
                value = next_to(kind, value, 1 if way < 0.15 else -1)
            elif way < 0.4:
                value = self.rng.choice(FLOATS if kind == "number" else INTEGERS)
            found.append(value)
        return np.array(found, np.float64 if kind == "number" else np.int64)

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
        found = np.ones((EVENTS, self.size), bool)
        for number, leaves in enumerate(self.rules):
            for leaf, kind, column in zip(leaves, self.schema.values(), columns):
                if leaf:
                    found[:, number] &= leaf.holds(kind, *column)
        return found

    def scores(self):
        """Return each rule's score: its weights of what it tests, but not of what must be null."""
        counted = [[bool(leaf and not leaf.null) for leaf in leaves] for leaves in self.rules]
        return np.where(counted, self.weights, 0.0).sum(axis=1)

    # -------------------------------------------------------- as an index is given them

    def conjunctions(self, numbers):
        counts, attribute, rows, points = [], [], [], []
        for number in numbers:
            counts.append(0)
            for a, kind in enumerate(self.schema.values()):
                leaf = self.rules[number][a]
                if leaf:
                    what, low, high, mine = leaf.row(kind)
                    if what:
                        low, high = len(points), len(points) + len(mine)
                        points += mine
                    attribute.append(a)
                    rows.append((what, low, high))
                    counts[-1] += 1
        what, low, high = np.array(rows, np.int64).reshape(-1, 3).T
        return conjunctions(
            np.append(0, np.cumsum(counts)), attribute, what, low, high,
            np.array(points, np.int64), np.empty(0), np.asarray(numbers),
        )  # fmt: skip

    def floats(self):
        return np.array([kind == "number" for kind in self.schema.values()], np.uint8)

    def keys(self, columns):
        low, high = [], []
        for kind, (first, last, missing) in zip(self.schema.values(), columns):
            low.append(np.where(missing, NULL, keys_of(kind, first)))
            high.append(np.where(missing, NULL, keys_of(kind, last)))
        return dense(np.array(low), np.arange(len(low)), np.array(high))

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
        given = [list(each.items()) for each in weights[: self.boxes]]
        boxes["weights"] = pa.array(given, pa.map_(pa.string(), pa.float64()))
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
        made = {}
        for (name, kind), (low, high, missing) in zip(self.schema.items(), columns):
            made[name] = pa.array(low, ARROW[kind], mask=missing, from_pandas=False)
            if columns is self.ranges:
                ends = [made[name], pa.array(high, ARROW[kind], mask=missing)]
                made[name] = pa.StructArray.from_arrays(
                    ends, ["low", "high"], mask=pa.array(missing)
                )
        return pa.table(made)


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
    pool = [0.0, 1.0, *rng.choice(FLOATS, rng.integers(1, 4)).tolist()]
    if seed < 4:
        pool = [0.0, 1.0, 1e308 if seed % 2 else LARGEST]  # as it was reported
    return Case(rng, ["number"] * 2, [pool] * 2, int(rng.choice([150, 300, 400, 1000])))


# ------------------------------------------------------------ what is checked


def answers(index, case, columns):
    """Return the pairs that an index finds, as a matrix."""
    keys, width, size = case.keys(columns), len(case.schema), index.conjunctions.size
    out, offsets = np.empty(size * EVENTS + size, np.int32), np.zeros(EVENTS + 1, np.int64)
    assert index.candidates(keys, width, 0, EVENTS, offsets, out) == EVENTS
    (accept_ranges if keys.ranged else accept)(
        index.conjunctions, NO_FLAGS, keys, width, 0, EVENTS, offsets, out
    )
    found = np.zeros((EVENTS, size), int)
    np.add.at(found, (np.repeat(np.arange(EVENTS), np.diff(offsets)), out[: offsets[-1]]), 1)
    assert found.max(initial=0) <= 1, "found twice"
    return found.astype(bool)


def check_index(index_class, options, case):
    truth, keys, width = case.truth(case.events), case.keys(case.events), len(case.schema)
    index = index_class.build(case.conjunctions(range(case.size)), case.floats(), **options)
    np.testing.assert_array_equal(answers(index, case, case.events), truth)
    if index.takes_ranges:
        found = answers(index, case, case.ranges)
        np.testing.assert_array_equal(found, case.truth(case.ranges))
    if index.proven:
        counts = np.zeros(EVENTS, np.int64)
        index.count(keys, width, counts)
        np.testing.assert_array_equal(counts, truth.sum(axis=1))
    # No more room than a single event may need.
    out, offsets = np.empty(case.size, np.int32), np.zeros(2, np.int64)
    for event in range(0, EVENTS, 7):
        index.candidates(keys, width, event, event + 1, offsets, out)
        found = out[: offsets[1]]
        assert set(np.flatnonzero(truth[event])) <= set(np.maximum(found, ~found))
    if not hasattr(index, "insert"):
        return
    first, second, third = np.array_split(case.rng.permutation(case.size), [2, case.size // 2 + 1])
    order = np.concatenate([first, second, third])
    index = index_class.build(case.conjunctions(first), case.floats(), **options)
    alive = np.ones(case.size, bool)
    for batch in (second, third):
        index.insert(case.conjunctions(batch))
        size = index.conjunctions.size
        gone = case.rng.choice(np.flatnonzero(alive[:size]), int(alive[:size].sum()) // 4, False)
        index.remove(gone)
        alive[gone] = False
        expected = truth[:, order[:size]] & alive[:size]
        np.testing.assert_array_equal(answers(index, case, case.events), expected)


def check_rules(name, case):
    rules, scores = case.engine(name), case.scores()
    plan = str(rules.plan())
    assert not re.search(r"\b(nan|inf)\b", plan), plan
    for columns in (case.events, case.ranges):
        truth, events = case.truth(columns), case.table(columns)
        matches = rules.match(events)
        found = np.zeros(truth.shape, int)
        np.add.at(found, matches.pairs(), 1)
        np.testing.assert_array_equal(found, truth)
        found[:] = 0
        for block in rules.match_blocks(events):
            np.add.at(found, block.pairs(), 1)
        np.testing.assert_array_equal(found, truth)
        np.testing.assert_array_equal(rules.count(events), truth.sum(axis=1))
        for event in (0, 7):
            alone = rules.match(events.slice(event, 1))
            assert sorted(alone.rules.tolist()) == np.flatnonzero(truth[event]).tolist()
        for k in (1, 6):
            top = rules.top(events, k)
            for event in range(EVENTS):
                best = np.flatnonzero(truth[event])
                best = best[np.lexsort((best, -scores[best]))][:k]
                mine = slice(top.offsets[event], top.offsets[event + 1])
                assert top.rules[mine].tolist() == best.tolist()
                assert top.scores[mine].tolist() == scores[best].tolist()


# Every index by itself, with what its paper varies, and in the engine.
CHECKS = {name: (check_index, *kind) for name, kind in KINDS.items()}
CHECKS |= {name: (check_index, INDEXES[name], {}) for name in INDEXES if name not in CHECKS}
CHECKS |= {f"rules:{name}": (check_rules, name) for name in ("auto", *INDEXES)}


def main(names, seeds):
    warnings.simplefilter("error")
    for seed in seeds:
        for made in (plane_case, any_case):
            case = made(seed)
            for name in names:
                print(made.__name__, seed, name, flush=True)
                check, *arguments = CHECKS[name]
                check(*arguments, case)


def run(names, seeds, **environment):
    """Check in another process, which may die."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.index.test_extreme_bounds"]
    process = subprocess.run(
        [*command, ",".join(names), *map(str, seeds)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    last = process.stdout.strip().rpartition("\n")[2]
    assert process.returncode == 0, f"{last}: {process.returncode}\n{process.stderr}"


def test_in_checked_kernels():
    """All that cuts a domain into cells; what the others need takes as long again to compile."""
    names = CHECKS if LONG else ["grid", "ntree", "quad-tree", "intervals", "rectangles"]
    run(names, range(150 if LONG else 4), TOCSIN_BOUNDS_CHECK="1")


def test_as_users_have_them():
    run(CHECKS, range(300 if LONG else 2))


if __name__ == "__main__":
    main(sys.argv[1].split(","), map(int, sys.argv[2:]))
