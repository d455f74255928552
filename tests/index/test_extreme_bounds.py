"""Bounds and events at the ends of what floats and 64-bit integers hold, under every index.

Extents of such bounds overflow, and the NaN that came of it became an index into an array. So the
fuzz runs in processes of its own: a crash is a failed test. Warnings are errors there, and with
`TOCSIN_BOUNDS_CHECK` kernels check every index.

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
import pytest

from tests.conformance.boxes import HIGHEST, LOWEST, NULL
from tests.index.extremes import (
    EVENTS,
    FLOATS,
    INTEGERS,
    LONG,
    any_case,
    keys_of,
    next_to,
    plane_case,
)
from tests.index.test_in_place import KINDS
from tocsin.index.accept import accept, accept_ranges
from tocsin.index.cells.codes import encode_key, fit_axis
from tocsin.index.cells.layout import BITS
from tocsin.index.registry import INDEXES
from tocsin.model.keys import FAR, FAR_INTEGER, EventBatch

ROOT = Path(__file__).parents[2]


def answers(index, case, columns):
    """Return the pairs that an index finds, as a matrix."""
    keys, width, size = case.keys(columns), len(case.schema), index.conjunctions.size
    out, offsets = np.empty(size * EVENTS + size, np.int32), np.zeros(EVENTS + 1, np.int64)
    assert index.candidates(EventBatch(keys, width, 0, EVENTS), offsets, out) == EVENTS
    (accept_ranges if keys.has_ranges else accept)(
        index.conjunctions, EventBatch(keys, width, 0, EVENTS), offsets, out
    )
    found = np.zeros((EVENTS, size), int)
    np.add.at(found, (np.repeat(np.arange(EVENTS), np.diff(offsets)), out[: offsets[-1]]), 1)
    assert found.max(initial=0) <= 1, "found twice"
    return found.astype(bool)


def check_index(index_class, options, case):
    truth, keys, width = case.truth(case.events), case.keys(case.events), len(case.schema)
    index = index_class.build(case.conjunctions(range(case.size)), case.floats(), **options)
    np.testing.assert_array_equal(answers(index, case, case.events), truth)
    if index.supports_ranges:
        found = answers(index, case, case.ranges)
        np.testing.assert_array_equal(found, case.truth(case.ranges))
    if index.proven and index.counts:
        counts = np.zeros(EVENTS, np.int64)
        index.count(EventBatch.whole(keys, width), counts)
        np.testing.assert_array_equal(counts, truth.sum(axis=1))
    # No more room than a single event may need.
    out, offsets = np.empty(case.size, np.int32), np.zeros(2, np.int64)
    for event in range(0, EVENTS, 7):
        index.candidates(EventBatch(keys, width, event, event + 1), offsets, out)
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
                place = slice(top.offsets[event], top.offsets[event + 1])
                assert top.rules[place].tolist() == best.tolist()
                assert top.scores[place].tolist() == scores[best].tolist()


# Every index by itself, with what its paper varies, and in the engine.
CHECKS = {name: (check_index, *kind) for name, kind in KINDS.items()}
CHECKS |= {name: (check_index, INDEXES[name], {}) for name in INDEXES if name not in CHECKS}
CHECKS |= {f"rules:{name}": (check_rules, name) for name in ("auto", *INDEXES)}


def main(names, seeds):
    warnings.simplefilter("error")
    for seed in seeds:
        for make_case in (plane_case, any_case):
            case = make_case(seed)
            for name in names:
                print(make_case.__name__, seed, name, flush=True)
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


def test_with_bounds_checks():
    """In the quick profile only what cuts a domain into cells: the rest takes long to compile."""
    names = CHECKS if LONG else ["grid", "quad-tree", "intervals", "rectangles"]
    run(names, range(120) if LONG else [0, 1, 2, 3, 20], TOCSIN_BOUNDS_CHECK="1")


def test_in_the_kernels_that_users_run():
    run(CHECKS, range(120) if LONG else [0, 1])


@pytest.mark.parametrize("kind", ["number", "integer"])
def test_codes_ascend_with_keys(kind):
    """However a domain is cut, and whatever the values: else an index would miss events."""
    is_float = kind == "number"
    far = FAR if is_float else FAR_INTEGER
    extremes = [v for v in (FLOATS if is_float else INTEGERS) if abs(v) < math.inf]
    values = {next_to(kind, v, step) for v in extremes for step in (-1, 0, 1)}
    keys = np.sort(np.append(keys_of(kind, sorted(values)), [NULL, LOWEST, HIGHEST]))
    ends = np.unique(np.clip(np.array(sorted(values), np.float64), -far, far))
    begin, end = (e.ravel() for e in np.meshgrid(ends, ends))
    begin, end = begin[begin <= end], end[begin <= end]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for across in (1, 7, 5000):
            axes = fit_axis(is_float, begin, end, np.full(len(begin), across))
            assert np.isfinite(axes["origin"]).all()
            assert np.isfinite(axes["scale"]).all()
            for values in zip(*axes.values()):
                axis = dict(zip(axes, values))
                codes = [encode_key(key, is_float, **axis) for key in keys]
                assert codes == sorted(codes)
                assert codes[0] >= 0
                assert codes[-1] >> BITS < axis["across"]


if __name__ == "__main__":
    main(sys.argv[1].split(","), map(int, sys.argv[2:]))
