"""The step between accept and finish: keep the conjunctions of rules that are likely enough."""

from __future__ import annotations

import numpy as np

from tocsin.engine.probabilities.ranges import Uncertainty, measure, uniform_share
from tocsin.engine.probabilities.unions import MAX_WORK, union_probability
from tocsin.index.accept import holds
from tocsin.index.sorting import sort
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int64Out,
    Int64s,
    bare_step,
    freeze,
    kernel,
    prefetch,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.predicates import INTERVAL
from tocsin.uncertain.densities import UNIFORM

_AHEAD = 8  # conjunctions whose rows are prefetched; chosen, as in `finish`
_FAR_AHEAD = 16  # conjunctions whose thresholds and offsets are prefetched; chosen
_LEAST = 5e-324  # the least threshold: everything that is possible is likely enough


@bare_step
def is_alternative(rule, conjunction):
    """Return whether the rule of a conjunction has others."""
    own, last = rule[conjunction], rule.shape[0] - 1
    before = conjunction > 0 and rule[conjunction - 1] == own
    return before or (conjunction < last and rule[conjunction + 1] == own)


@bare_step
def find_span(rule, conjunction):
    """Return the first conjunction of a conjunction's rule, and how many the rule has."""
    first, stop = conjunction, conjunction + 1
    while first > 0 and rule[first - 1] == rule[conjunction]:
        first -= 1
    while stop < rule.shape[0] and rule[stop] == rule[conjunction]:
        stop += 1
    return first, stop - first


@bare_step
def load_densities(u, event, density_of):
    """Load the densities of an event by attribute; -1 is uniform."""
    if u.offsets.shape[0] > 0:
        for i in range(u.offsets[event], u.offsets[event + 1]):
            density_of[u.attribute[i]] = i if u.density.family[i] != UNIFORM else -1


@bare_step
def unload_densities(u, event, density_of):
    """Clear the densities of an event."""
    if u.offsets.shape[0] > 0:
        for i in range(u.offsets[event], u.offsets[event + 1]):
            density_of[u.attribute[i]] = -1


@kernel
def require_probability(
    c: Conjunctions,
    at_least: Float64s,
    single: bool,
    batch: EventBatch,
    u: Uncertainty,
    most_work: int,
    offsets: Int64Out,
    accepted: Int32Out,
    probability: Float64Out,
) -> int:
    """Compact accepted conjunctions in place to those of rules that are likely enough.

    `at_least` has the threshold of each conjunction's rule, 0 if there is none. All conjunctions of
    a rule are kept, or none; `single` is whether every rule has one. Unless `probability` is empty,
    it gets the probability of each conjunction's rule. Return -1, or a conjunction whose rule takes
    more than `most_work`.
    """
    rows, tested, kind, rule = c.offsets, c.attribute, c.kind, c.rule
    low, high, points = c.low, c.high, c.points
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    attribute, key, key_high = keys.attribute, keys.key, keys.key_high
    columns_high = keys.columns_high
    first, values, values_high = batch.first, blank(batch.width), blank(batch.width)
    scale, d = u.scale, u.density
    density_of = np.full(batch.width, -1, np.int64)
    start = offsets[0]
    kept = start
    for i in range(batch.stop - first):
        event, stop = first + i, offsets[i + 1]
        load(columns, column_attribute, sparse, attribute, key, event, values)
        load(columns_high, column_attribute, sparse, attribute, key_high, event, values_high)
        load_densities(u, event, density_of)

        # Rules of several conjunctions first: each is decided once.
        several = 0
        for at in range(start, stop if not single else start):
            conjunction = accepted[at]
            several += at_least[conjunction] > 0 and is_alternative(rule, conjunction)
        alternatives, likelihood = np.empty(several, np.int32), np.empty(several)
        if several > 0:
            n = 0
            for at in range(start, stop):
                conjunction = accepted[at]
                if at_least[conjunction] > 0 and is_alternative(rule, conjunction):
                    alternatives[n] = conjunction
                    n += 1
            sort(alternatives)
            for n in range(several):
                conjunction = alternatives[n]
                if n > 0 and rule[alternatives[n - 1]] == rule[conjunction]:
                    likelihood[n] = likelihood[n - 1]
                    continue
                begin, count = find_span(rule, conjunction)
                likelihood[n], work = union_probability(
                    c, begin, count, scale, d, density_of, values, values_high, most_work
                )
                if work > most_work:
                    return conjunction

        for at in range(start, stop):
            if at + _FAR_AHEAD < stop:
                ahead = np.int64(accepted[at + _FAR_AHEAD])
                prefetch(at_least, ahead)
                prefetch(rows, ahead)
            if at + _AHEAD < stop:
                begin = rows[accepted[at + _AHEAD]]
                prefetch(tested, begin)
                prefetch(kind, begin)
                prefetch(low, begin)
                prefetch(high, begin)
            conjunction = accepted[at]
            required = at_least[conjunction]
            if required > 0:
                if several > 0 and is_alternative(rule, conjunction):
                    share = likelihood[np.searchsorted(alternatives, conjunction)]
                else:
                    share = 1.0
                    row, end = rows[conjunction], rows[conjunction + 1]
                    while row < end:
                        own = tested[row]
                        after = row + 1 + np.int64(row + 1 < end and tested[row + 1] == own)
                        low_key, high_key = values[own], values_high[own]
                        if low_key < high_key:  # else accept has decided
                            # Calls that take arrays are slow, so the usual case is apart.
                            if kind[row] == INTERVAL and after == row + 1 and density_of[own] < 0:
                                share *= uniform_share(
                                    scale[own], low_key, high_key, max(low_key, low[row]),
                                    min(high_key, high[row]),
                                )  # fmt: skip
                            else:
                                share *= measure(
                                    kind, low, high, points, row, after, scale[own], d,
                                    density_of[own], low_key, high_key,
                                )  # fmt: skip
                        row = after
                if share < required:
                    continue
                if probability.shape[0] > 0:
                    probability[kept] = share
            accepted[kept] = conjunction
            kept += 1
        unload(sparse, attribute, event, values)
        unload(sparse, attribute, event, values_high)
        unload_densities(u, event, density_of)
        start = stop
        offsets[i + 1] = kept
    return -1


@kernel
def predicate_probabilities(
    c: Conjunctions,
    u: Uncertainty,
    event: int,
    values: Int64s,
    values_high: Int64s,
    out: Float64Out,
) -> None:
    """Write the probability of the predicate in each row.

    `values` and `values_high` are the keys of an event by attribute, and the high ends of its
    ranges.
    """
    density_of = np.full(values.shape[0], -1, np.int64)
    load_densities(u, event, density_of)
    for row in range(c.attribute.shape[0]):
        attribute = c.attribute[row]
        first, last = values[attribute], values_high[attribute]
        if first < last:
            out[row] = measure(
                c.kind, c.low, c.high, c.points, row, row + 1, u.scale[attribute], u.density,
                density_of[attribute], first, last,
            )  # fmt: skip
        else:
            true = holds(c.kind[row], c.low[row], c.high[row], c.points, first)
            out[row] = 1.0 if true else 0.0


def probability_of(c: Conjunctions, batch: EventBatch, u: Uncertainty, held: np.ndarray) -> float:
    """Return the probability of a rule, of which an event satisfies the conjunctions `held`."""
    if not batch.keys.has_ranges:
        return 1.0 if len(held) else 0.0
    offsets, accepted = np.array([0, len(held)]), held.copy()
    least, probability = freeze(np.full(c.size, _LEAST), np.float64), np.zeros(len(held))
    require_probability(c, least, c.size == 1, batch, u, MAX_WORK, offsets, accepted, probability)
    return float(probability[0]) if offsets[1] else 0.0
