"""Matching by covering: see the package for what it is."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.protocol import Summary
from tocsin.jit import (
    Int32Out,
    Int32s,
    Int64Out,
    Int64s,
    UInt8Out,
    freeze,
    freeze_fields,
    kernel,
    step,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.facts import EXACT, Facts, facts_of
from tocsin.model.keys import EventBatch, blank, load, unload
from tocsin.model.validation import (
    check_lengths,
    check_numbers,
    check_offsets,
    check_within,
    require,
)

_MOST = 16  # attributes, chosen: accept evaluates the others
_LOOKS = 4096  # roots to look at for the place of a box, chosen: 10 microseconds


class Layout(NamedTuple):
    """n boxes over d attributes, r of them roots, group by group."""

    attribute: Int32s  # [d] narrowest first
    group: Int64s  # [r + 2] the boxes of group i are group[i] to group[i + 1]; 0 has the roots
    low: Int64s  # [n * d] by group, attribute and box
    high: Int64s  # [n * d]
    candidate: Int32s  # [n] c if conjunction c is proven by its bounds, ~c if not


class Nested(ArrayIndex):
    """Looks at boxes that no other one contains, and below those that hold."""

    name: ClassVar[str] = "nested"
    version: ClassVar[int] = 1

    layout_class = Layout
    summary = Summary(
        holds="boxes that nothing contains, and those inside each of them",
        cost="1 ns per box that nothing contains, and per box inside one that holds",
        suits="ranges of three to eight attributes of which a few cover most others",
        slow_when="few rules are covered",
    )

    def proves_all(self) -> bool:
        """Tell whether all conjunctions are intervals of the attributes of boxes."""
        return bool((self.layout.candidate >= 0).all())

    @classmethod
    def build_layout(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Layout:
        """Put boxes below those that contain them. Keys are compared as they are."""
        c = conjunctions
        tests = np.bincount(c.attribute, minlength=1)
        usual = np.argsort(-tests, kind="stable")[:_MOST]
        attribute = np.sort(usual[tests[usual] > 0])
        n, d = c.size, len(attribute)
        low, high = np.full((n, d), NULL), np.full((n, d), HIGHEST)
        proven = np.empty(n, np.uint8)
        numbers = freeze(attribute, np.int32)
        write_boxes(c, facts_of(c), numbers, low.reshape(-1), high.reshape(-1), proven)
        widths = _widths(low, high)
        order = np.argsort(-widths.sum(axis=1), kind="stable")
        narrowest = np.argsort(widths.sum(axis=0), kind="stable")
        low, high = low[order][:, narrowest], high[order][:, narrowest]
        root = np.full(n, -1)
        find_roots(low.reshape(-1), high.reshape(-1), root)
        roots = np.flatnonzero(root < 0)
        # Roots are group 0; what is below root i of these is group i + 1.
        group = np.where(root < 0, 0, np.searchsorted(roots, root) + 1)
        grouped = np.argsort(group, kind="stable")
        ends = np.cumsum(np.bincount(group, minlength=len(roots) + 1))
        starts = np.concatenate([[0], ends])
        candidate = np.where(proven[order], order, ~order)
        return freeze_fields(
            Layout,
            attribute=attribute[narrowest],
            group=starts,
            low=_by_attribute(low[grouped], starts),
            high=_by_attribute(high[grouped], starts),
            candidate=candidate[grouped],
        )

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose the boxes that an event is inside; see `Index.candidates`."""
        return propose(self.layout, batch, offsets, out)

    def validate(self, attributes: int) -> None:
        """Raise unless the groups are safe to search; see `Index.validate`."""
        n, d, group = self.conjunctions.size, len(self.layout.attribute), self.layout.group
        require(len(group) >= 2, "there must be a group of roots")
        check_offsets("group", group, len(group) - 1, n)
        require(int(group[1]) == len(group) - 2, "there must be a group for each root")
        check_lengths(self.layout, n * d, "low", "high")
        check_lengths(self.layout, n, "candidate")
        check_within("attribute", self.layout.attribute, 0, attributes)
        check_numbers("candidate", self.layout.candidate, n)


def _widths(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return how many bounds each side spans, by rank: not more than a side that contains it."""
    widths = np.zeros(low.shape, np.int64)
    for j in range(low.shape[1]):
        widths[:, j] += np.unique(high[:, j], return_inverse=True)[1]
        widths[:, j] -= np.unique(low[:, j], return_inverse=True)[1]
    return widths


def _by_attribute(bounds: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return bounds by group, attribute and box; they come by box and attribute."""
    n, d = bounds.shape
    out = np.empty(n * d, np.int64)
    transpose(bounds.reshape(-1), freeze(starts, np.int64), out)
    return out


@kernel
def transpose(bounds: Int64s, starts: Int64s, out: Int64Out) -> None:
    """Write the bounds of each group by attribute."""
    n = starts[starts.shape[0] - 1]
    d = bounds.shape[0] // max(n, 1)
    for group in range(starts.shape[0] - 1):
        first, size = starts[group], starts[group + 1] - starts[group]
        for k in range(size):
            for j in range(d):
                out[first * d + j * size + k] = bounds[(first + k) * d + j]


@kernel
def write_boxes(
    c: Conjunctions,
    f: Facts,
    attributes: Int32s,
    low: Int64Out,
    high: Int64Out,
    proven: UInt8Out,
) -> None:
    """Write the bounds of each conjunction, and whether they are all of it."""
    d = attributes.shape[0]
    for i in range(proven.shape[0]):
        j = 0
        proven[i] = 1
        for row in range(c.offsets[i], c.offsets[i + 1]):
            while j < d and attributes[j] < c.attribute[row]:
                j += 1
            if f.worth[row] != EXACT or j == d or attributes[j] != c.attribute[row]:
                proven[i] = 0
            if j < d and attributes[j] == c.attribute[row]:
                low[i * d + j] = max(low[i * d + j], f.low[row])
                high[i * d + j] = min(high[i * d + j], f.high[row])


@kernel
def find_roots(low: Int64s, high: Int64s, root: Int64Out) -> None:
    """Write for each box one that contains it and is in no other, or -1.

    Boxes are in the order of their sizes.
    """
    n = root.shape[0]
    d = low.shape[0] // max(n, 1)
    roots, count = np.empty(_LOOKS, np.int64), 0
    for i in range(n):
        for k in range(count):
            each, j = roots[k], 0
            while (
                j < d
                and low[each * d + j] <= low[i * d + j]
                and high[i * d + j] <= high[each * d + j]
            ):
                j += 1
            if j == d:
                root[i] = each
                break
        if root[i] < 0 and count < _LOOKS:
            roots[count] = i
            count += 1


@step
def search_group(low, high, at, size, own, found):
    """Write which boxes of a group a point is inside; return how many."""
    n = size
    for k in range(size):
        found[k] = k
    for j in range(own.shape[0]):
        kept, key, bounds = 0, own[j], at + j * size
        for i in range(n):
            k = found[i]
            found[kept] = k
            kept += low[bounds + k] <= key and key <= high[bounds + k]
        n = kept
        if n == 0:
            break
    return n


@kernel
def propose(g: Layout, batch: EventBatch, offsets: Int64Out, out: Int32Out) -> int:
    """Write candidates event by event while there is room for all conjunctions."""
    attribute, group, low, high, candidate = g.attribute, g.group, g.low, g.high, g.candidate
    keys = batch.keys
    columns, column_attribute, sparse = keys.columns, keys.column_attribute, keys.offsets
    sparse_attribute, sparse_key = keys.attribute, keys.key
    n, size, d, roots = offsets[0], candidate.shape[0], attribute.shape[0], group[1]
    line, own = blank(batch.width), np.empty(d, np.int64)
    held, found = np.empty(size, np.int64), np.empty(size, np.int64)
    event = batch.first
    while event < batch.stop and n + size <= out.shape[0]:
        load(columns, column_attribute, sparse, sparse_attribute, sparse_key, event, line)
        for j in range(d):
            own[j] = line[attribute[j]]
        for i in range(search_group(low, high, 0, roots, own, held)):
            out[n] = candidate[held[i]]
            n += 1
            first = group[held[i] + 1]
            below = group[held[i] + 2] - first
            for k in range(search_group(low, high, first * d, below, own, found)):
                out[n] = candidate[first + found[k]]
                n += 1
        unload(sparse, sparse_attribute, event, line)
        event += 1
        offsets[event - batch.first] = n
    return event
