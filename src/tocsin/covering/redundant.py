"""Which of many rules another rule covers, all at once.

The ends of each attribute in a conjunction make a box; the boxes are points in a k-d tree
(`kd_tree`), and each rule searches the points that dominate the point of its first conjunction. A
rule there is a candidate, and `inclusion` decides, for all conjunctions of both.

A tree has the ends of at most `_MOST` attributes. If rules test more than that, there is a tree for
each attribute, of the conjunctions whose rarest attribute it is. A rule can only be covered by one
that tests no other attributes. So it searches the trees of the attributes that it tests, and of
those that test none.

A conjunction costs 8 bytes for each end of each dimension of its tree, and about 50 bytes. A search
costs what it costs in a k-d tree. But lists of values, and all values but some, can have the same
ends without being equal: after `_TESTS` candidates a rule counts as not covered.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tocsin.covering.inclusion import (
    Domain,
    ResidualNumbers,
    covers_all,
    includes_all,
    write_points,
)
from tocsin.covering.kd_tree import KdTree, Tree, Walk, begin, find_next, make_walk
from tocsin.jit import Float64s, Int32Out, Int32s, Int64s, bare_step, freeze, freeze_fields, kernel
from tocsin.model.conjunctions import Conjunctions, take
from tocsin.model.encoding import NULL
from tocsin.model.predicates import INTERVAL

_MOST = 12  # attributes of a tree, chosen: further ones hardly exclude a node that these do not
_TESTS = 4096  # candidates of a rule, chosen: a million rules then take minutes, not days


class RuleList(NamedTuple):
    """n rules to compare, oldest first."""

    first: Int64s  # [n + 1] conjunctions of rule r are first[r] to first[r + 1]
    at_least: Float64s  # [n] the probability that a rule requires, or 0
    group: Int64s  # [n] only rules of the same group cover each other


class Candidates(NamedTuple):
    """The conjunctions at each point of a tree: those of entry e are first[e] to first[e + 1]."""

    first: Int64s
    conjunction: Int32s


class _Part(NamedTuple):
    """A tree, with what is needed to search it."""

    attributes: np.ndarray  # dimensions
    anchor: int  # the attribute that all its conjunctions test, or -1
    tree: KdTree
    candidates: Candidates


class Redundancy:
    """Rules, and which of them another one covers."""

    def __init__(
        self,
        c: Conjunctions,
        count: int,
        domain: Domain,
        at_least: np.ndarray,
        group: np.ndarray,
        residuals: ResidualNumbers,
    ):
        """`c.rule` numbers the rules from 0 up to `count`; the arrays have an element for each."""
        numbers = np.arange(count + 1, dtype=c.rule.dtype)
        self.rules = freeze_fields(
            RuleList, first=np.searchsorted(c.rule, numbers), at_least=at_least, group=group
        )
        self.conjunctions, self.domain, self.residuals = c, domain, residuals
        self._parts = self._build()

    def find(self, rules: np.ndarray, by: np.ndarray) -> None:
        """Write to `by`, for each of these rules, a rule that covers it; it is -1 elsewhere.

        Of rules that cover each other, only an older one covers a newer one. Threads may call this
        for different rules.
        """
        satisfiable = self.rules.first[rules + 1] > self.rules.first[rules]
        left = rules[satisfiable]
        for part in self._parts:
            left = left[by[left] < 0]
            queries = left if part.anchor < 0 else left[self._tests(left, part.anchor)]
            if len(queries):
                search(
                    part.tree.tree,
                    part.candidates,
                    self.conjunctions,
                    self.residuals,
                    self.rules,
                    self.domain,
                    freeze(queries, np.int64),
                    self._points(self.rules.first[queries], queries, part.attributes).reshape(-1),
                    by,
                    make_walk(part.tree.tree),
                )

    def _tests(self, rules: np.ndarray, attribute: int) -> np.ndarray:
        """Return for each rule whether its first conjunction tests an attribute."""
        rows = np.flatnonzero(self.conjunctions.attribute == attribute)
        tested = np.zeros(self.conjunctions.size, bool)
        tested[np.searchsorted(self.conjunctions.offsets, rows, side="right") - 1] = True
        return tested[self.rules.first[rules]]

    def _build(self) -> list[_Part]:
        c = self.conjunctions
        # A row that holds for all keys tests nothing.
        is_test = ~(
            (c.kind == INTERVAL) & (c.low == NULL) & (c.high >= self.domain.high[c.attribute])
        )
        tests = np.bincount(c.attribute[is_test], minlength=len(self.domain.low))
        used = np.flatnonzero(tests)
        if len(used) <= _MOST:
            return [self._build_part(np.arange(c.size), used, -1)] if c.size else []
        rarity = np.where(is_test, tests[c.attribute], np.iinfo(np.int64).max)
        anchors = np.full(c.size, -1)
        owners = np.repeat(np.arange(c.size), np.diff(c.offsets))
        order = np.lexsort((rarity, owners))
        owner, at = np.unique(owners[order], return_index=True)
        rarest = order[at]
        anchors[owner[is_test[rarest]]] = c.attribute[rarest[is_test[rarest]]]
        parts = []
        for anchor in np.unique(anchors):
            members = np.flatnonzero(anchors == anchor)
            own = take(c, members).attribute
            usual = np.argsort(-np.bincount(own, minlength=len(tests)), kind="stable")[:_MOST]
            usual = usual[np.isin(usual, own)]
            if anchor >= 0 and anchor not in usual:
                usual[-1] = anchor
            parts.append(self._build_part(members, np.sort(usual), int(anchor)))
        return parts

    def _build_part(self, members: np.ndarray, attributes: np.ndarray, anchor: int) -> _Part:
        """Return a tree of conjunctions, by the ends of some attributes."""
        points = self._points(members, self.conjunctions.rule[members], attributes)
        width = points.shape[1]
        rows = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(8 * width), len(points), [None, pa.py_buffer(points)]
        )
        distinct = rows.dictionary_encode()
        entry = np.asarray(distinct.indices)
        stored = np.frombuffer(distinct.dictionary.buffers()[1], np.int64)
        stored = stored[: len(distinct.dictionary) * width].reshape(-1, width)
        tree = KdTree(width)
        tree.build(stored, np.arange(len(stored)))
        counts = np.bincount(entry, minlength=len(stored))
        candidates = freeze_fields(
            Candidates,
            first=np.concatenate([[0], np.cumsum(counts)]),
            conjunction=members[np.argsort(entry, kind="stable")],
        )
        return _Part(attributes, anchor, tree, candidates)

    def _points(
        self, conjunctions: np.ndarray, rules: np.ndarray, attributes: np.ndarray
    ) -> np.ndarray:
        """Return the points of conjunctions; the last dimension, twice, is the rule's group."""
        d = len(attributes)
        ends = np.empty((len(conjunctions), 2 * d), np.int64)
        numbers = freeze(conjunctions, np.int64)
        write_points(
            self.conjunctions, numbers, freeze(attributes, np.int32), self.domain, ends.reshape(-1)
        )
        group = self.rules.group[rules]
        if d and not self.rules.group.any():
            return ends
        return np.column_stack([ends, ~group, group])


@bare_step
def outranks(c, residuals, rules, domain, s, r):
    """Return whether rule s covers rule r, and not the other way round unless s is older."""
    if rules.group[s] != rules.group[r] or rules.at_least[s] > rules.at_least[r]:
        return False
    first, stop = rules.first[s], rules.first[s + 1]
    begin, end = rules.first[r], rules.first[r + 1]
    if not covers_all(c, residuals, first, stop, c, residuals, begin, end, domain):
        return False
    if s < r or rules.at_least[s] != rules.at_least[r]:
        return True
    return not covers_all(c, residuals, begin, end, c, residuals, first, stop, domain)


@kernel
def search(
    tree: Tree,
    candidates: Candidates,
    c: Conjunctions,
    residuals: ResidualNumbers,
    rules: RuleList,
    domain: Domain,
    queries: Int64s,
    points: Int64s,
    by: Int32Out,
    walk: Walk,
) -> None:
    """Write a rule that covers each rule of `queries`, whose points these are."""
    d = points.shape[0] // queries.shape[0]
    for n in range(queries.shape[0]):
        r, tests = queries[n], 0
        point = points[n * d : (n + 1) * d]
        begin(tree, walk)
        while by[r] < 0 and tests < _TESTS:
            entry = find_next(tree, 0, point, walk)
            if entry < 0:
                break
            for k in range(candidates.first[entry], candidates.first[entry + 1]):
                s = np.int64(c.rule[candidates.conjunction[k]])
                if s == r:
                    continue
                tests += 1
                if outranks(c, residuals, rules, domain, s, r):
                    by[r] = s
                    break
                if tests >= _TESTS:
                    break


@kernel
def write_equal(
    c: Conjunctions,
    residuals: ResidualNumbers,
    rules: RuleList,
    domain: Domain,
    queries: Int64s,
    by: Int32s,
    equal: Int32Out,
) -> None:
    """Write for each rule of `queries` 1 if it covers the rule that covers it, else 0."""
    for n in range(queries.shape[0]):
        r = queries[n]
        s = np.int64(by[r])
        begin, end = rules.first[r], rules.first[r + 1]
        first, stop = rules.first[s], rules.first[s + 1]
        is_covered = covers_all(c, residuals, begin, end, c, residuals, first, stop, domain)
        equal[n] = is_covered and rules.at_least[r] == rules.at_least[s]


@kernel
def write_always(
    c: Conjunctions,
    residuals: ResidualNumbers,
    rules: RuleList,
    domain: Domain,
    always: Int32Out,
) -> None:
    """Write for each rule 1 if all events satisfy it, as far as that is found, else 0.

    That is if a conjunction tests nothing, or if all test the same attribute with an interval each,
    and these leave no gap.
    """
    for r in range(always.shape[0]):
        first, stop = rules.first[r], rules.first[r + 1]
        always[r] = 0
        offsets = residuals.offsets
        if offsets.shape[0] > 0 and offsets[first] < offsets[stop]:
            continue
        for i in range(first, stop):
            is_empty = True
            for row in range(c.offsets[i], c.offsets[i + 1]):
                is_empty = is_empty and includes_all(c, row, domain)
            if is_empty:
                always[r] = 1
        if not always[r] and stop > first:
            always[r] = leaves_no_gap(c, first, stop, domain)


@bare_step
def leaves_no_gap(c, first, stop, domain):
    """Return whether the intervals of conjunctions, all of one attribute, have all keys."""
    attribute = np.int64(-1)
    for i in range(first, stop):
        row = c.offsets[i]
        if c.offsets[i + 1] - row != 1 or c.kind[row] != INTERVAL:
            return False
        if attribute >= 0 and c.attribute[row] != attribute:
            return False
        attribute = np.int64(c.attribute[row])
    if attribute < 0:
        return False
    last, lowest = domain.high[attribute], domain.low[attribute]
    following = np.int64(NULL)  # the least key that no interval has had
    while True:
        reach = following
        for i in range(first, stop):
            row = c.offsets[i]
            if c.low[row] <= following <= c.high[row]:
                if c.high[row] >= last:
                    return True
                reach = max(reach, max(c.high[row] + 1, lowest))
        if reach == following:
            return False
        following = reach
