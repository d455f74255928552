"""Finish: from accepted conjunctions to rules that were not removed, scored and ordered.

`removed` has a bit per conjunction, the lowest of a byte first, or is empty if none was removed.

A rule's conjunctions are alternatives, so a rule that several of them match is one
match; it scores by the best of them. A conjunction scores the sum, in attribute
order, of rule weight x event weight over the attributes that it tests; one that must be
null adds nothing. Ties go to the rule that was added first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
from tocsin.model.facts import adds_to_score

_AHEAD = 8  # conjunctions whose rules are prefetched
_FAR_AHEAD = 16  # the same, where there is nothing else to do


class EventWeights(NamedTuple):
    """How much each attribute counts for events: for all of them alike, or for each its own."""

    common: Float64s  # [attributes of the schema]
    offsets: Int64s  # [events + 1] where the own weights of each lie; [0] where none has any
    attribute: Int32s
    weight: Float64s

    def of_events(self, first: int, stop: int) -> EventWeights:
        """Return the weights of the events from `first` up to `stop`."""
        return self._replace(offsets=self.offsets[first : stop + 1]) if len(self.offsets) else self


class BestRules(NamedTuple):
    """The k best rules of each event: those of event i lie at i * k, best first."""

    k: int
    unique: bool  # no rule is offered twice for an event: each is a single conjunction
    sizes: Int64Out  # [events] how many there are so far
    rules: Int32Out  # [events * k] positions
    scores: Float64Out  # [events * k]

    def of_events(self, first: int, stop: int) -> BestRules:
        """Return the lists of the events from `first` up to `stop`."""
        begin, end = first * self.k, stop * self.k
        lists = self.sizes[first:stop], self.rules[begin:end], self.scores[begin:end]
        return BestRules(self.k, self.unique, *lists)


@step
def is_removed(removed, conjunction):
    """Tell whether the bit of a conjunction is set; there are bits."""
    c = np.uint64(conjunction)
    return (removed[c >> np.uint64(3)] >> np.uint8(c & np.uint64(7))) & np.uint8(1) != 0


@kernel
def to_rules(rule: Int32s, removed: UInt8s, offsets: Int64Out, accepted: Int32Out) -> None:
    """Turn accepted conjunctions in place into positions of rules, each rule one conjunction."""
    some_removed = removed.shape[0] > 0
    start = kept = np.uint64(offsets[0])
    for i in range(offsets.shape[0] - 1):
        stop = np.uint64(offsets[i + 1])
        for at in range(start, stop):
            if at + np.uint64(_FAR_AHEAD) < stop:
                soon = np.int64(accepted[at + np.uint64(_FAR_AHEAD)])
                prefetch(rule, soon)
                if some_removed:
                    prefetch(removed, soon >> 3)
            conjunction = np.uint64(accepted[at])
            accepted[kept] = rule[conjunction]
            kept += np.uint64(not (some_removed and is_removed(removed, conjunction)))
        start = stop
        offsets[i + 1] = kept


@kernel
def fold(c: Conjunctions, removed: UInt8s, offsets: Int64Out, accepted: Int32Out) -> None:
    """Turn accepted conjunctions in place into positions of rules, each once per event.

    An event that meets several conjunctions of one rule has its rules sorted to find
    the doubles; a mark per rule would cost an array as long as there are rules.
    """
    rule_of, some_removed = c.rule, removed.shape[0] > 0
    start = offsets[0]
    kept = start
    for i in range(offsets.shape[0] - 1):
        stop = offsets[i + 1]
        doubled = False
        count = 0
        for at in range(start, stop):
            if at + _AHEAD < stop:
                prefetch(rule_of, np.int64(accepted[at + _AHEAD]))
            conjunction = accepted[at]
            if some_removed and is_removed(removed, conjunction):
                continue
            rule = rule_of[conjunction]
            if conjunction > 0 and rule_of[conjunction - 1] == rule:
                doubled = True
            accepted[kept + count] = rule
            count += 1
        if doubled:
            ordered = np.sort(accepted[kept : kept + count])
            count = 0
            for j in range(ordered.shape[0]):
                if j == 0 or ordered[j] != ordered[j - 1]:
                    accepted[kept + count] = ordered[j]
                    count += 1
        kept += count
        start = stop
        offsets[i + 1] = kept


@step
def score(attribute, kind, high, weight, begin, stop, weights):
    """Return the relevance to an event with these weights of a conjunction, rows begin to stop."""
    total = 0.0
    for row in range(begin, stop):
        if adds_to_score(attribute, kind, high, begin, row):
            total += (weight[row] if weight.shape[0] > 0 else 1.0) * weights[attribute[row]]
    return total


@step
def better(score, rule, other_score, other_rule):
    """Tell whether one match ranks before another; ties go to the rule added first."""
    return score > other_score or (score == other_score and rule < other_rule)


@step
def keep(rule, value, unique, k, base, size, rules, scores):
    """Put a match into an event's list of its k best, which lies at `base`; return its size.

    If no rule is offered twice (`unique`), the rule cannot be there already.
    """
    if size == k and not better(value, rule, scores[base + k - 1], rules[base + k - 1]):
        return size
    low, high = base, base + size  # the first place whose match ranks after this one
    while low < high:
        middle = (low + high) >> 1
        if better(value, rule, scores[middle], rules[middle]):
            high = middle
        else:
            low = middle + 1
    end = base + min(size, k - 1)  # the place that falls out, or is new
    present = False
    if not unique:
        for j in range(base, base + size):
            if rules[j] == rule:
                present, end = True, j
    if present and end < low:
        return size  # by a better conjunction
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
    rows, attribute_of, kind, high_of, weight = c.offsets, c.attribute, c.kind, c.high, c.weight
    rule_of, some_removed = c.rule, removed.shape[0] > 0
    k, unique, sizes, rules, scores = best.k, best.unique, best.sizes, best.rules, best.scores
    own = event_weights.offsets.shape[0] > 0
    for i in range(offsets.shape[0] - 1):
        if own:
            for j in range(event_weights.offsets[i], event_weights.offsets[i + 1]):
                weights[event_weights.attribute[j]] = event_weights.weight[j]
        base, size = i * k, sizes[i]
        for at in range(offsets[i], offsets[i + 1]):
            conjunction = accepted[at]
            if some_removed and is_removed(removed, conjunction):
                continue
            rule = rule_of[conjunction]
            begin, stop = rows[conjunction], rows[conjunction + 1]
            value = score(attribute_of, kind, high_of, weight, begin, stop, weights)
            size = keep(rule, value, unique, k, base, size, rules, scores)
        sizes[i] = size
        if own:
            for j in range(event_weights.offsets[i], event_weights.offsets[i + 1]):
                attribute = event_weights.attribute[j]
                weights[attribute] = event_weights.common[attribute]
