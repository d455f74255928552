"""The grid query index: the plane in equal cells, a second tier where a cell is crowded.

Kalashnikov, thesis 3.2.3 to 3.2.5 and 3.3.6; how cells lie in memory and how an event is
answered is told in `cells`, which reads first.

The cell's side is the paper's (3.2.4): where a part list has one entry on average, a finer
grid gains nothing. That asks for much memory if queries overlap much (100,000 squares of side
0.01: 4000 x 4000 cells), so a budget is kept (3.2.5): the grid gets coarser until the lists fit
80 bytes a box. On today's processors that is no loss; cells of a half or a third of a box's
side, which fit the cache, are the fastest.

Unlike the paper:

* cells have the boxes' shape, so that elongated boxes lie in as few lists as square ones;
* boxes that are much larger than the rest are filed in a coarser grid of their own (a second
  *root*), so that a few of them do not fill every list, nor make the grid coarse for all;
* a crowded cell gets a grid of its own, over the bounds in it, rather than the whole grid
  becoming a directory; and that as deep as it pays, at most four tiers.

With more than two attributes the grid lies over the two that leave the fewest candidates, and
accept tests the rest.

When it is slow: boxes that all overlap each other (every cell is in most of them, and nothing
can be skipped, but then most of them match as well); and conditions that hardly restrict any
two attributes together: use `keyed` for those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index.cells import (
    BITS,
    CODES,
    Boxes,
    Cells,
    Nodes,
    boxes_of,
    cells_of,
    count_entries,
    crowds,
    encode,
    fill_lists,
    propose,
    tally,
)
from tocsin.jit import frozen
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, key_column
from tocsin.model.line import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import NOT_SET, SET

_BYTES_A_BOX = 80
_LEAST_BYTES = 4 << 20
_ENTRY_BYTES = 12
_CROWDED = 48  # a part list may be so long, and four times the average
_TIERS = 4
_LEVELS = 4
_FAR = 1e300  # what lies further out is outlying, and differences stay finite
_EXACT = 2.0**53  # integers below are exact as floats


def cell_side(m: Any, q: Any) -> Any:
    """Return the paper's side of a cell for m squares of side q in a domain of side 1 (3.2.4).

    >>> round(1 / cell_side(25_000, 0.01))
    1000
    """
    m, q = np.maximum(m, 1.0), np.asarray(q, np.float64)
    with np.errstate(divide="ignore"):
        return np.where(q > 0.5 / np.sqrt(m), 1 / (4 * q * m), 1 / np.sqrt(m) - q)[()]


def resolution(m: Any, qx: Any, qy: Any, entries: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return how many cells to have across x and y for m boxes of sides qx, qy of the domain.

    At most about `entries` list entries, or cells, come of it (3.2.5).
    """
    m, qx, qy, entries = np.broadcast_arrays(m, qx, qy, np.asarray(entries, np.float64))
    side = np.sqrt(qx * qy)
    shape = np.where((qx > 0) & (qy > 0), np.sqrt(np.maximum(qx, 1e-12) / np.maximum(qy, 1e-12)), 1)
    cell = cell_side(m, side)
    # An axis that the boxes cover by half has nothing to tell.
    nx = np.where(qx >= 0.5, 1.0, np.maximum(1 / (cell * shape), 1.0))
    ny = np.where(qy >= 0.5, 1.0, np.maximum(shape / cell, 1.0))
    for _ in range(200):
        over = (m * (qx * nx + 1) * (qy * ny + 1) > entries) | (nx * ny > entries)
        over &= (nx > 1) | (ny > 1)
        if not over.any():
            break
        nx = np.where(over, np.maximum(nx * 0.85, 1.0), nx)
        ny = np.where(over, np.maximum(ny * 0.85, 1.0), ny)
    return np.maximum(nx + 0.5, 1).astype(np.int64), np.maximum(ny + 0.5, 1).astype(np.int64)


class Grid:
    """Boxes in the cells of a grid over two attributes."""

    name: ClassVar[str] = "grid"

    def __init__(self, conjunctions: Conjunctions, cells: Cells):
        self.conjunctions = conjunctions
        self.cells = cells
        self.proven = bool(cells.settled[0])

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray) -> Self:
        """Choose axes and cell sizes, and file the boxes."""
        x, y = chosen_axes(conjunctions, floats)
        boxes = boxes_over(conjunctions, x, y, floats)
        return cls(conjunctions, Filing(boxes).cells(x, y))

    def candidates(
        self, keys: Keys, width: int, first: int, stop: int, offsets: np.ndarray, out: np.ndarray
    ) -> int:
        """Propose the full list of an event's cell and what its part list lets through."""
        x, y = (key_column(keys, int(a)) for a in self.cells.attribute)
        return propose(self.cells, self.conjunctions, x, y, first, stop, offsets, out)

    def count(self, keys: Keys, width: int, counts: np.ndarray) -> None:
        """Add the number of matches to `counts`; see `Index.count`."""
        x, y = (key_column(keys, int(a)) for a in self.cells.attribute)
        tally(self.cells, self.conjunctions, x, y, counts)

    @property
    def nbytes(self) -> int:
        """Bytes of heads, lists and words."""
        return sum(array.nbytes for array in self.cells)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the layout's arrays by name."""
        return self.cells._asdict()

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose arrays these are."""
        return cls(conjunctions, cells_of([arrays[name] for name in Cells._fields]))


# ------------------------------------------------------------ which axes


def chosen_axes(c: Conjunctions, floats: np.ndarray) -> tuple[int, int]:
    """Return the two attributes whose intervals leave the fewest candidates; -1 for none.

    An interval counts by the share of the attribute's domain that it rules out.
    """
    rows = np.flatnonzero(c.kind != NOT_SET)
    rows = rows[np.argsort(c.attribute[rows], kind="stable")]
    attributes, first = np.unique(c.attribute[rows], return_index=True)
    ruled_out: list[tuple[float, int]] = []
    for attribute, mine in zip(attributes.tolist(), np.split(rows, first[1:])):
        low, high = c.low[mine].copy(), c.high[mine].copy()
        sets = c.kind[mine] == SET
        low[sets], high[sets] = c.points[low[sets]], c.points[high[sets] - 1]
        is_float = bool(floats[attribute])
        begin, end = domain(low, high, is_float)
        width = np.clip(values(high, is_float), begin, end)
        width -= np.clip(values(low, is_float), begin, end)
        extent = end - begin if end > begin else 1.0
        ruled_out.append((float((1 - width / extent).sum()), attribute))
    best = [a for _, a in sorted(ruled_out, reverse=True)[:2]]
    x, y = (*best, -1, -1)[:2]
    return x, y


def boxes_over(c: Conjunctions, x: int, y: int, floats: np.ndarray) -> Boxes:
    """Return all conjunctions as boxes over two attributes."""
    low, high = np.empty(2 * c.size, np.int64), np.empty(2 * c.size, np.int64)
    settled = np.empty(c.size, np.uint8)
    boxes_of(c, x, y, low, high, settled)
    both = np.array([a >= 0 and floats[a] for a in (x, y)], np.uint8)
    return Boxes(
        frozen(low, np.int64), frozen(high, np.int64), frozen(settled, np.uint8),
        frozen(both, np.uint8),
    )  # fmt: skip


def met_share(boxes: Boxes) -> tuple[float, float]:
    """Return what share of the boxes an event meets, about, and what share of them is settled."""
    n = boxes.size
    if n == 0:
        return 0.0, 1.0
    met = np.ones(n)
    for axis in (0, 1):
        met *= _sides(boxes, axis)[2]
    return float(met.mean()), float(boxes.settled.mean())


def _sides(boxes: Boxes, axis: int) -> tuple[float, float, np.ndarray]:
    """Return the domain of an axis, and each box's side as a share of it."""
    mine = slice(axis * boxes.size, (axis + 1) * boxes.size)
    low, high, is_float = boxes.low[mine], boxes.high[mine], bool(boxes.floats[axis])
    begin, end = domain(low, high, is_float)
    if end <= begin:
        return begin, end, np.ones(boxes.size)
    side = np.clip(values(high, is_float), begin, end)
    side -= np.clip(values(low, is_float), begin, end)
    return begin, end, side / (end - begin)


def values(keys: np.ndarray, is_float: bool) -> np.ndarray:
    """Return what keys stand for as floats, infinite where an end is open."""
    if is_float:
        found = np.where(keys >= 0, keys, NULL - keys).view(np.float64).copy()
        found[np.isnan(found)] = np.inf
    else:
        found = keys.astype(np.float64)
    found[keys <= LOWEST] = -np.inf
    found[keys == HIGHEST] = np.inf
    return found


def keys_of(numbers: np.ndarray, is_float: bool) -> np.ndarray:
    """Return the keys of finite numbers."""
    if is_float:
        bits = np.asarray(numbers, np.float64).view(np.int64)
        return np.where(bits >= 0, bits, NULL - bits)
    return np.clip(numbers, -(2.0**62), 2.0**62).astype(np.int64)


def domain(low: np.ndarray, high: np.ndarray, is_float: bool) -> tuple[float, float]:
    """Return where nearly all finite ends lie; far outliers are left outside."""
    ends = np.concatenate([values(low, is_float), values(high, is_float)])
    ends = np.clip(ends[np.isfinite(ends)], -_FAR, _FAR)
    if not len(ends):
        return 0.0, 0.0
    begin, end = float(ends.min()), float(ends.max())
    if len(ends) > 200:
        near, far = np.quantile(ends, [0.005, 0.995]).tolist()
        spread = far - near
        if spread > 0:
            begin, end = max(begin, near - spread), min(end, far + spread)
    return begin, end


# ------------------------------------------------------------ filing


class Filing:
    """Files boxes into nodes, tier by tier."""

    def __init__(self, boxes: Boxes):
        self.boxes = boxes
        self.budget = max(_LEAST_BYTES, _BYTES_A_BOX * boxes.size) / _ENTRY_BYTES
        self.nodes: list[Nodes] = []
        self.heads: list[np.ndarray] = []
        self.ids: list[np.ndarray] = []
        self.words: list[np.ndarray] = []
        self.node_count = self.cell_count = self.id_count = self.word_count = 0

    def cells(self, x: int, y: int) -> Cells:
        """Return the finished layout."""
        nodes, box, node = self.roots()
        roots = len(nodes.base)
        for tier in range(_TIERS):
            nodes, box, node = self.file(nodes, box, node, tier + 1 < _TIERS)
            if not len(box):
                break
        ends = np.array([self.id_count, self.id_count, self.word_count, -1])
        whole = bool(self.boxes.settled.all())
        fields = (np.concatenate([getattr(n, f) for n in self.nodes]) for f in Nodes._fields)
        return cells_of(
            [
                np.array([x, y]), self.boxes.floats, np.array([whole]), np.array([roots]), *fields,
                np.concatenate([*self.heads, ends]), np.concatenate(self.ids),
                np.concatenate(self.words),
            ]
        )  # fmt: skip

    def roots(self) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """Return the roots and which boxes go to which: the large ones apart from the small."""
        n = self.boxes.size
        begin_x, end_x, side_x = _sides(self.boxes, 0)
        begin_y, end_y, side_y = _sides(self.boxes, 1)
        level = np.zeros(n, np.int32)
        rest = np.arange(n)
        made: list[tuple[int, int]] = []
        while True:
            qx, qy = side_x[rest], side_y[rest]
            entries = self.budget * max(len(rest) / max(n, 1), 0.1)
            middle_x, middle_y = (np.median(q) if len(q) else 1.0 for q in (qx, qy))
            nx, ny = (int(v) for v in resolution(len(rest), middle_x, middle_y, entries))
            covered = (qx * nx + 1) * (qy * ny + 1)
            large = covered > 64 + 8 * np.median(covered) if len(rest) else np.zeros(0, bool)
            # A few may stay: what they cost is little beside the others.
            if covered[large].sum() < covered.sum() / 4:
                large[:] = False
            if len(made) + 1 == _LEVELS:
                large[:] = False
            if not large.any():
                while covered.sum() > 2 * entries + len(rest) and nx * ny > 1:
                    nx, ny = max(nx * 3 // 4, 1), max(ny * 3 // 4, 1)
                    covered = (qx * nx + 1) * (qy * ny + 1)
            level[rest] = len(made)
            made.append((nx, ny))
            rest = rest[large]
            if not len(rest):
                break
        across = np.array(made)
        begin = np.tile([[begin_x, begin_y]], (len(made), 1))
        end = np.tile([[end_x, end_y]], (len(made), 1))
        return self.made_nodes(begin, end, across), np.arange(n, dtype=np.int32), level

    def made_nodes(self, begin: np.ndarray, end: np.ndarray, across: np.ndarray) -> Nodes:
        """Return nodes over domains, [n, 2] each, with about so many cells across."""
        axes = [
            _axis(bool(self.boxes.floats[axis]), begin[:, axis], end[:, axis], across[:, axis])
            for axis in (0, 1)
        ]
        woven = [np.stack(pair, axis=1).reshape(-1) for pair in zip(*axes, strict=True)]
        cells = woven[4].reshape(-1, 2).prod(axis=1)
        base = self.cell_count + np.cumsum(cells) - cells
        types = (np.int64, np.int64, np.float64, np.float64, np.int64, np.int64, np.int64)
        return Nodes(*(frozen(a, t) for a, t in zip([*woven, base], types, strict=True)))

    def file(
        self, nodes: Nodes, box: np.ndarray, node: np.ndarray, may_split: bool
    ) -> tuple[Nodes, np.ndarray, np.ndarray]:
        """File boxes under nodes of one tier; return the nodes below and the boxes for them."""
        # Numbers of nodes and cells are global; within this tier they start at 0.
        local = nodes._replace(base=frozen(nodes.base - self.cell_count, np.int64))
        cells = int(nodes.across.reshape(-1, 2).prod(axis=1).sum())
        full, part = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        codes = np.empty(4 * len(box), np.int64)
        encode(local, self.boxes, box, node, codes)
        count_entries(local, node, codes, full, part)
        below = further = None
        if may_split:
            below, further = self.split(local, box, node, codes, part)
        if below is None:
            below = np.full(cells, -1, np.int32)
        moved = np.where(below >= 0, part, 0)
        stay = part - moved
        sizes = full.astype(np.int64) + stay
        starts = np.cumsum(sizes) - sizes
        word_starts = np.cumsum(stay, dtype=np.int64) - stay
        total, word_total = int(sizes.sum()), int(stay.sum())
        ids, words = np.empty(total, np.int32), np.empty(word_total, np.uint64)
        next_box, next_node = (
            np.empty(int(moved.sum()), np.int32),
            np.empty(int(moved.sum()), np.int32),
        )
        cursors = starts.copy(), starts + full, word_starts.copy()
        fill_lists(
            local, self.boxes, box, node, codes, below, *cursors, ids, words, next_box, next_node
        )
        first_below = self.node_count + len(nodes.base)
        heads = np.empty((cells, 4), np.int32)
        heads[:, 0] = starts + self.id_count
        heads[:, 1] = starts + full + self.id_count
        heads[:, 2] = word_starts + self.word_count
        heads[:, 3] = np.where(below >= 0, below + first_below, -1)
        self.nodes.append(nodes)
        self.heads.append(heads.reshape(-1))
        self.ids.append(ids)
        self.words.append(words)
        self.node_count = first_below
        self.cell_count += cells
        self.id_count += total
        self.word_count += word_total
        if further is None:
            return nodes, next_box, next_node
        return self.made_nodes(*further), next_box, next_node

    def split(
        self, nodes: Nodes, box: np.ndarray, node: np.ndarray, codes: np.ndarray, part: np.ndarray
    ) -> tuple[Any, Any]:
        """Return per cell the number of the node below or -1, and what these nodes are."""
        crowded = np.flatnonzero(part > max(_CROWDED, 4 * part.sum() / max(len(part), 1)))
        if not len(crowded):
            return None, None
        number = np.full(len(part), -1, np.int32)
        number[crowded] = np.arange(len(crowded))
        begin, end = np.full(2 * len(crowded), np.inf), np.full(2 * len(crowded), -np.inf)
        crowds(nodes, self.boxes, box, node, codes, number, begin, end, np.empty(0))
        begin[~np.isfinite(begin)] = 0.0
        end = np.maximum(end, begin)
        widths = np.zeros(2 * len(crowded))
        crowds(nodes, self.boxes, box, node, codes, number, begin, end, widths)
        m = part[crowded].astype(np.float64)
        extent = (end - begin).reshape(-1, 2)
        q = widths.reshape(-1, 2) / m[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            q = np.where(extent > 0, q / extent, 1.0)
        nx, ny = resolution(m, q[:, 0], q[:, 1], 8 * m)
        # Worth it if an event has less than half of the boxes left to test.
        cx, cy = 1 / nx, 1 / ny
        left = (q[:, 0] + cx) * (q[:, 1] + cy)
        left -= np.maximum(q[:, 0] - cx, 0) * np.maximum(q[:, 1] - cy, 0)
        worth = left < 0.5
        below = np.full(len(part), -1, np.int32)
        below[crowded[worth]] = np.arange(int(worth.sum()))
        across = np.stack([nx, ny], axis=1)
        if not worth.any():
            return None, None
        return below, (begin.reshape(-1, 2)[worth], end.reshape(-1, 2)[worth], across[worth])


def _axis(
    is_float: bool, begin: np.ndarray, end: np.ndarray, across: np.ndarray
) -> tuple[Any, ...]:
    """Return first, last, origin, scale, across and gap of one axis of several nodes."""
    if not is_float:
        begin, end = np.floor(begin), np.ceil(end)
    first, last = keys_of(begin, is_float), keys_of(end, is_float)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        scale = across * float(CODES) / (end - begin)
    scale[~np.isfinite(scale)] = 0.0
    gap = np.zeros(len(begin), np.int64)
    if not is_float:
        # Whole numbers: a power of two of them to a cell, each with codes of its own, bounds
        # in between; as long as they are exact and a cell has codes enough.
        bits = np.ceil(np.log2(np.maximum((end - begin + 1) / across, 1))).astype(np.int64)
        exact = (bits <= BITS - 2) & (np.abs(begin) < _EXACT) & (np.abs(end) < _EXACT)
        bits = np.where(exact, bits, 0)
        gap = np.where(exact, CODES >> bits, 0)
        scale = np.where(exact, gap, scale)
        whole = np.where(exact, end - begin, 0).astype(np.int64)
        across = np.where(exact, (whole >> bits) + 1, across)
    return first, last, begin, scale, across, gap
