"""Finish: turn accepted conjunctions into live rules, scored and ordered.

`removed` has a bit per conjunction, the lowest bit of a byte first, or is empty if none is removed.

The conjunctions of a rule are alternatives: if several hold, the rule matches once, with the
score of the best. A conjunction scores the sum, in attribute order, of rule weight x event weight
over the attributes that it tests; IS NULL adds nothing. A rule with a score of its own has this
score. Ties go to the rule added first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tocsin.index.sorting import sort
from tocsin.jit import (
    Float64Out,
    Float64s,
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8s,
    kernel,
    prefetch,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.facts import adds_to_score, has_own_score

_AHEAD = 8  # conjunctions whose rules are prefetched; chosen
_FAR_AHEAD = 16  # the same, where a conjunction takes less time; chosen


class EventWeights(NamedTuple):
    """The weights of attributes: common to all events, and overrides of single events."""

    common: Float64s  # [attributes of the schema]
    offsets: Int64s  # [events + 1] of each event's own weights; [0] if none has any
    attribute: Int32s
    weight: Float64s

    def of_events(self, first: int, stop: int) -> EventWeights:
        """Return the weights of the events from `first` up to `stop`."""
        return self._replace(offsets=self.offsets[first : stop + 1]) if len(self.offsets) else self


class BestRules(NamedTuple):
    """The k best rules of each event: those of event i start at i * k, best first."""

    k: int
    unique: bool  # no rule is offered twice for an event: each has a single conjunction
    sizes: Int64Out  # [events] number of rules so far
    rules: Int32Out  # [events * k] positions
    scores: Float64Out  # [events * k]

    def of_events(self, first: int, stop: int) -> BestRules:
        """Return the lists of the events from `first` up to `stop`."""
        if stop - first == len(self.sizes):  # all: no copies for a single event
            return self
        begin, end = first * self.k, stop * self.k
        return self._replace(
            sizes=self.sizes[first:stop],
            rules=self.rules[begin:end],
            scores=self.scores[begin:end],
        )


@step
def is_removed(removed, conjunction):
    """Return whether the bit of a conjunction is set; `removed` must not be empty."""
    c = np.uint64(conjunction)
    return (removed[c >> np.uint64(3)] >> np.uint8(c & np.uint64(7))) & np.uint8(1) != 0


@kernel
def to_rules(rule: Int32s, removed: UInt8s, offsets: Int64Out, accepted: Int32Out) -> None:
    """Turn accepted conjunctions in place into positions of rules with one conjunction each."""
    any_removed = removed.shape[0] > 0
    start = kept = np.uint64(offsets[0])
    for i in range(offsets.shape[0] - 1):
        stop = np.uint64(offsets[i + 1])
        for at in range(start, stop):
            if at + np.uint64(_FAR_AHEAD) < stop:
                ahead = np.int64(accepted[at + np.uint64(_FAR_AHEAD)])
                prefetch(rule, ahead)
                if any_removed:
                    prefetch(removed, ahead >> 3)
            conjunction = np.uint64(accepted[at])
            accepted[kept] = rule[conjunction]
            kept += np.uint64(not (any_removed and is_removed(removed, conjunction)))
        start = stop
        offsets[i + 1] = kept


@kernel
def fold(c: Conjunctions, removed: UInt8s, offsets: Int64Out, accepted: Int32Out) -> None:
    """Turn accepted conjunctions in place into positions of rules, each once per event.

    Where an event may match several conjunctions of one rule, its rules are sorted to find
    duplicates. Marking rules instead would need an array over all rules.
    """
    rule_of, any_removed = c.rule, removed.shape[0] > 0
    start = offsets[0]
    kept = start
    for i in range(offsets.shape[0] - 1):
        stop = offsets[i + 1]
        duplicates = False
        count = 0
        for at in range(start, stop):
            if at + _AHEAD < stop:
                prefetch(rule_of, np.int64(accepted[at + _AHEAD]))
            conjunction = accepted[at]
            if any_removed and is_removed(removed, conjunction):
                continue
            rule = rule_of[conjunction]
            if conjunction > 0 and rule_of[conjunction - 1] == rule:
                duplicates = True
            accepted[kept + count] = rule
            count += 1
        if duplicates:
            sort(accepted[kept : kept + count])
            found, count = count, 0
            for j in range(kept, kept + found):
                if count == 0 or accepted[j] != accepted[kept + count - 1]:
                    accepted[kept + count] = accepted[j]
                    count += 1
        kept += count
        start = stop
        offsets[i + 1] = kept


@step
def score(attribute, kind, high, weight, own_score, rows, conjunction, weights):
    """Return the score of a conjunction by the weights of an event; `rows` are its offsets."""
    if has_own_score(own_score, conjunction):
        return own_score[conjunction]
    begin, stop = rows[conjunction], rows[conjunction + 1]
    total = 0.0
    for row in range(begin, stop):
        if adds_to_score(attribute, kind, high, begin, row):
            total += (weight[row] if weight.shape[0] > 0 else 1.0) * weights[attribute[row]]
    return total


@step
def ranks_before(score, rule, other_score, other_rule):
    """Return whether one match ranks before another; ties go to the rule added first."""
    return score > other_score or (score == other_score and rule < other_rule)


@step
def keep(rule, value, unique, k, base, size, rules, scores):
    """Insert a match into an event's list of the k best, at `base`; return the list's size.

    If no rule is offered twice (`unique`), the rule cannot be in the list already.
    """
    if size == k and not ranks_before(value, rule, scores[base + k - 1], rules[base + k - 1]):
        return size
    low, high = base, base + size  # bisected: the first place whose match ranks after this one
    while low < high:
        middle = (low + high) >> 1
        if ranks_before(value, rule, scores[middle], rules[middle]):
            high = middle
        else:
            low = middle + 1
    end = base + min(size, k - 1)  # the place whose match is dropped, or a new place
    present = False
    if not unique:
        for j in range(base, base + size):
            if rules[j] == rule:
                present, end = True, j
    if present and end < low:
        return size  # already present with a better score
    for j in range(end, low, -1):
        rules[j] = rules[j - 1]
        scores[j] = scores[j - 1]
    rules[low] = rule
    scores[low] = value
    return size if present or size == k else size + 1


@kernel
def keep_best(
    c: Conjunctions,
    removed: UInt8s,
    event_weights: EventWeights,
    offsets: Int64s,
    accepted: Int32s,
    best: BestRules,
) -> None:
    """Merge accepted conjunctions into each event's list of its k best rules.

    A list may already hold rules of another segment.
    """
    weights = event_weights.common.copy()
    rows, tested, kind, high, weight = c.offsets, c.attribute, c.kind, c.high, c.weight
    rule_of, own_score, any_removed = c.rule, c.score, removed.shape[0] > 0
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    has_own = event_weights.offsets.shape[0] > 0
    for i in range(offsets.shape[0] - 1):
        if has_own:
            for j in range(event_weights.offsets[i], event_weights.offsets[i + 1]):
                weights[event_weights.attribute[j]] = event_weights.weight[j]
        base, size = i * k, sizes[i]
        end = offsets[i + 1]
        for at in range(offsets[i], end):
            # Every conjunction is somewhere else: first its offsets are prefetched, then its rows.
            if at + _FAR_AHEAD < end:
                prefetch(rows, np.int64(accepted[at + _FAR_AHEAD]))
            if at + _AHEAD < end:
                ahead = np.int64(accepted[at + _AHEAD])
                prefetch(rule_of, ahead)
                first_row = rows[ahead]
                prefetch(tested, first_row)
                prefetch(kind, first_row)
                prefetch(high, first_row)
                prefetch(weight, first_row)
                prefetch(own_score, ahead)
            conjunction = accepted[at]
            if any_removed and is_removed(removed, conjunction):
                continue
            rule = rule_of[conjunction]
            value = score(tested, kind, high, weight, own_score, rows, conjunction, weights)
            size = keep(rule, value, unique, k, base, size, rules, scores)
        sizes[i] = size
        if has_own:
            for j in range(event_weights.offsets[i], event_weights.offsets[i + 1]):
                attribute = event_weights.attribute[j]
                weights[attribute] = event_weights.common[attribute]
