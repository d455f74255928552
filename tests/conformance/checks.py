"""What every index must pass: one `check_*` for each promise of `tocsin.index.protocol`.

The oracle here reads the conjunctions' arrays in plain Python.
"""

import numpy as np
import pytest

from tests import generate, naive
from tocsin.index.accept import accept
from tocsin.index.finish import BestRules, EventWeights, fold, to_rules
from tocsin.jit import freeze
from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder
from tocsin.model.events import Events
from tocsin.model.keys import EventBatch, dense_keys, sparse_keys
from tocsin.model.schema import Schema

NULL = -(2**63)
NO_BITS = np.empty(0, np.uint8)


class Workload:
    """Conjunctions and events, and which hold for which, found one by one."""

    def __init__(self, conditions, events):
        self.schema = Schema(generate.SCHEMA)
        categories, reader, builder = (
            Categories(),
            ConditionReader(self.schema),
            ConjunctionBuilder(),
        )
        for number, condition in enumerate(conditions):
            builder.add(number, reader.read(naive.sql(condition), categories)[0])
        self.conjunctions = builder.build()
        self.width = len(self.schema)
        used = range(self.width)
        self.keys = Events.read(
            generate.arrow_table(events), self.schema, used, categories
        ).keys(0, len(events))  # fmt: skip
        as_dicts = Events.read(list(events), self.schema, used, categories)
        self.sparse_keys = as_dicts.keys(0, len(events))
        self.truths = [
            {c for c in range(self.conjunctions.size) if self.holds(c, self.line(e))}
            for e in range(len(events))
        ]

    def line(self, event):
        line = dict.fromkeys(range(self.width), NULL)
        for row, attribute in enumerate(self.keys.column_attribute.tolist()):
            line[attribute] = int(self.keys.columns[row, event])
        return line

    def holds(self, conjunction, line):
        c = self.conjunctions
        for row in range(c.offsets[conjunction], c.offsets[conjunction + 1]):
            key, low, high = line[int(c.attribute[row])], int(c.low[row]), int(c.high[row])
            if c.kind[row] == 0:
                true = low <= key <= high
            else:
                true = (key in c.points[low:high].tolist()) == (c.kind[row] == 1)
            if not true:
                return False
        return True


def proposed(index, keys, width, room=None):
    """Return each event's candidates, asking as often as the buffer makes necessary."""
    n = index.conjunctions.size
    out = np.empty(n + (1 << 16 if room is None else room), np.int32)
    offsets = np.zeros(keys.size + 1, np.int64)
    found, first = [], 0
    while first < keys.size:
        offsets[0] = 0
        stop = index.candidates(EventBatch(keys, width, first, keys.size), offsets, out)
        written = out[: offsets[stop - first]]
        assert written.min(initial=0) >= -n, "a candidate is no conjunction"
        assert written.max(initial=-1) < n, "a candidate is no conjunction"
        assert stop > first, "an index must answer at least one event"
        found += [out[offsets[i] : offsets[i + 1]].tolist() for i in range(stop - first)]
        first = stop
    return found


def whole(index, keys, work):
    """Return what is proposed, nothing that holds being missed."""
    found = proposed(index, keys, work.width)
    for candidates, truth in zip(found, work.truths, strict=True):
        assert truth <= {c if c >= 0 else ~c for c in candidates}, "missed"
    return found


def check_proposes_what_holds(index, work):
    for candidates, truth in zip(proposed(index, work.keys, work.width), work.truths, strict=True):
        proven = [c for c in candidates if c >= 0]
        numbers = [c if c >= 0 else ~c for c in candidates]
        assert len(numbers) == len(set(numbers)), "proposed twice"
        assert truth <= set(numbers), "missed"
        assert set(proven) <= truth, "proven, but false"
        assert not index.proven or len(proven) == len(numbers)


def check_accepts_exactly(index, work):
    n, size = index.conjunctions.size, work.keys.size
    out, offsets = np.empty(n * size + n, np.int32), np.zeros(size + 1, np.int64)
    assert index.candidates(EventBatch(work.keys, work.width, 0, size), offsets, out) == size
    candidates, proven = int(offsets[-1]), int((out[: offsets[-1]] >= 0).sum())
    evaluated = accept(index.conjunctions, EventBatch(work.keys, work.width, 0, size), offsets, out)
    assert evaluated == candidates - proven
    for event, truth in enumerate(work.truths):
        assert set(out[offsets[event] : offsets[event + 1]].tolist()) == truth


def check_leaves_out_what_was_removed(index, work):
    n, size = index.conjunctions.size, work.keys.size
    removed = np.arange(n) % 3 == 0
    bits = np.packbits(removed, bitorder="little")
    c = index.conjunctions
    for folding in (False, True):
        out, offsets = np.empty(n * size + n, np.int32), np.zeros(size + 1, np.int64)
        batch = EventBatch.whole(work.keys, work.width)
        index.candidates(batch, offsets, out)
        accept(c, batch, offsets, out)
        if folding:
            fold(c, bits, offsets, out)
        else:
            to_rules(c.rule, bits, offsets, out)
        for event, truth in enumerate(work.truths):
            kept = out[offsets[event] : offsets[event + 1]].tolist()
            assert set(kept) == {c.rule[each] for each in truth if not removed[each]}
            assert not folding or len(kept) == len(set(kept))


def check_batch_equals_single(index, work):
    together = whole(index, work.keys, work)
    assert together == proposed(index, work.keys, work.width), "not the same order again"
    for event, expected in enumerate(together):
        alone = dense_keys(work.keys.columns[:, event : event + 1], work.keys.column_attribute)
        assert proposed(index, alone, work.width) == [expected]


def check_sparse_equals_dense(index, work):
    apart = whole(index, work.sparse_keys, work)
    together = whole(index, work.keys, work)
    assert list(map(sorted, apart)) == list(map(sorted, together))


def check_of_two_values_the_last_counts(index, work):
    keys = work.sparse_keys
    pairs = [[(a, 5) for a in range(work.width)] for _ in range(keys.size)]
    for event, mine in enumerate(pairs):
        own = range(keys.offsets[event], keys.offsets[event + 1])
        present = {int(keys.attribute[i]) for i in own}
        mine += [(a, NULL) for a in range(work.width) if a not in present]
        mine += [(int(keys.attribute[i]), int(keys.key[i])) for i in own]
    flat = [pair for mine in pairs for pair in mine]
    doubled = sparse_keys(
        np.cumsum([0, *map(len, pairs)]),
        np.array([a for a, _ in flat], np.int32),
        np.array([k for _, k in flat]),
    )
    apart = whole(index, doubled, work)
    assert list(map(sorted, apart)) == list(map(sorted, proposed(index, keys, work.width)))


def check_small_buffers(index, work):
    together = whole(index, work.keys, work)
    for room in (0, 1, 7):
        assert proposed(index, work.keys, work.width, room) == together


def check_stops_where_told(index, work):
    together = whole(index, work.keys, work)
    out = np.empty(index.conjunctions.size + (1 << 16), np.int32)
    offsets = np.zeros(work.keys.size + 1, np.int64)
    assert index.candidates(EventBatch(work.keys, work.width, 1, 2), offsets, out) == 2
    assert out[: offsets[1]].tolist() == together[1]


def check_counts(index, work):
    if not index.counts:
        pytest.skip(f"{index.name} does not declare that it counts")
    if not index.proven:
        return  # of some workloads accept has to evaluate candidates
    for keys in (work.keys, work.sparse_keys):
        counts = np.full(keys.size, 5, np.int64)
        index.count(EventBatch.whole(keys, work.width), counts)
        assert counts.tolist() == [5 + len(truth) for truth in work.truths]
        some = EventBatch(keys, work.width, 1, min(3, keys.size))
        counts = np.full(some.size, 5, np.int64)
        index.count(some, counts)
        assert counts.tolist() == [5 + len(truth) for truth in work.truths[1:3]]


def check_finds_the_best(index, work):
    if not index.prunes:
        pytest.skip(f"{index.name} does not declare that it prunes")
    rng = np.random.default_rng(0)
    size, width, floats = work.keys.size, work.width, work.schema.floats()
    rows = len(work.conjunctions.kind)
    is_removed = np.arange(work.conjunctions.size) % 5 == 0
    removed = np.packbits(is_removed, bitorder="little")
    own = [{int(a): float(w) for a, w in zip(rng.integers(0, width, 4), rng.random(4))}
           for _ in range(size)]  # fmt: skip
    common = rng.integers(0, 3, width).astype(np.float64)
    # Each rule has weights, or a score of its own: some less than its weights, some greater.
    positions = 1 + work.conjunctions.rule.max(initial=0)
    own_scores = rng.choice([np.nan, 0.0, 0.25, 1.5, 7.0, 1e300], positions)
    own_score = own_scores[work.conjunctions.rule]
    for weight, score in (
        (np.empty(0), np.empty(0)),
        (rng.integers(0, 4, rows) / 2, np.empty(0)),
        (rng.random(rows), np.empty(0)),
        (rng.random(rows), own_score),
    ):
        c = work.conjunctions._replace(
            weight=freeze(weight, np.float64), score=freeze(score, np.float64)
        )
        ranked = type(index).build(c, floats)
        for bits in (NO_BITS, removed):
            for weights, of_event in (
                (weights_of(np.ones(width), []), lambda e: np.ones(width)),
                (weights_of(common, own), lambda e: weights_line(common, own[e])),
            ):
                for keys in (work.keys, work.sparse_keys):
                    for k in (1, 3, 1000):
                        # Another index has found something already; and not from the first on.
                        sizes = np.ones(size - 1, np.int64)
                        rules = np.full((size - 1) * k, -7, np.int32)
                        scores = np.full((size - 1) * k, 1.5)
                        unique = len(np.unique(c.rule)) == c.size
                        ranked.best(
                            EventBatch(keys, width, 1, size),
                            weights.of_events(1, size),
                            bits,
                            BestRules(k, unique, sizes, rules, scores),
                        )
                        for event in range(1, size):
                            best = {-7: 1.5}
                            for each in work.truths[event]:
                                if not (len(bits) and is_removed[each]):
                                    rule = int(c.rule[each])
                                    score = naive_score(c, each, of_event(event))
                                    best[rule] = max(best.get(rule, -1.0), score)
                            expected = sorted(best.items(), key=lambda b: (-b[1], b[0]))[:k]
                            at = (event - 1) * k
                            found = slice(at, at + sizes[event - 1])
                            assert rules[found].tolist() == [r for r, _ in expected]
                            assert scores[found].tolist() == [s for _, s in expected]


def weights_of(common, own):
    return EventWeights(
        freeze(common, np.float64),
        freeze(np.cumsum([0, *map(len, own)]) if own else np.empty(0), np.int64),
        freeze(np.array([a for each in own for a in each]), np.int32),
        freeze(np.array([w for each in own for w in each.values()]), np.float64),
    )


def weights_line(common, own):
    line = common.copy()
    for attribute, weight in own.items():
        line[attribute] = weight
    return line


def naive_score(c, conjunction, weights):
    if len(c.score) and not np.isnan(c.score[conjunction]):
        return c.score[conjunction]
    total, seen = 0.0, set()
    for row in range(c.offsets[conjunction], c.offsets[conjunction + 1]):
        attribute = int(c.attribute[row])
        if attribute in seen or (c.kind[row] == 0 and c.high[row] == NULL):
            continue
        seen.add(attribute)
        total += (c.weight[row] if len(c.weight) else 1.0) * weights[attribute]
    return total


def check_arrays_round_trip(index, work, folder):
    arrays = index.arrays()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    mapped = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in arrays}
    again = type(index).from_arrays(index.conjunctions, mapped)
    assert again.name == index.name
    assert again.proven == index.proven
    assert again.nbytes == index.nbytes
    assert proposed(again, work.keys, work.width) == whole(index, work.keys, work)


def check_what_was_built_is_valid(index, work):
    """What is opened from a store is checked; nothing that we build may be refused then."""
    index.conjunctions.validate(work.width)
    index.validate(work.width)
    again = type(index).from_arrays(index.conjunctions, index.arrays())
    again.validate(work.width + 1)


def check_inputs_are_untouched(index, work):
    before = [a.tobytes() for a in (*work.conjunctions, *work.keys)]
    type(index).build(work.conjunctions, work.schema.floats())
    proposed(index, work.keys, work.width)
    assert [a.tobytes() for a in (*work.conjunctions, *work.keys)] == before
    assert not any(a.flags.writeable for a in work.conjunctions)


def check_bytes_are_told(index, work):
    assert index.nbytes == sum(a.nbytes for a in index.arrays().values())
