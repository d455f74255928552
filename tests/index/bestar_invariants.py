"""What must be true of a BE*-tree after every operation (section IV-C), checked in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tocsin.index.bestar.index import BEStar
from tocsin.index.bestar.layout import (
    ABOVE,
    ATTRIBUTE,
    ATTRIBUTE_SUMMARIES,
    BELOW,
    BOX,
    BOXES,
    BUCKET,
    BUCKETS,
    CAPACITY,
    CLASSES,
    COMMON_PREDICATES,
    COUNT,
    CUT,
    DIRECTORY,
    DIRECTORY_CLASS,
    ENTRIES,
    FREE,
    FREE_BUCKET,
    FREE_PNODE,
    HIGH,
    LEAF,
    LEAF_CAPACITY,
    LEAF_CLASS,
    LEFT,
    LEVEL,
    LONGEST_LEAF,
    LOW,
    MEMBERS,
    NEXT_FREE,
    NEXT_PENDING,
    NODE,
    NODES,
    NOT_PENDING,
    OWN,
    PARENT,
    PENDING,
    PNODE,
    PNODES,
    RAISING,
    RIGHT,
    RIGID,
    ROOT,
    SEPARATION,
    SIZE,
    SPACE_HIGH,
    SPACE_LOW,
    SUMMARIES,
    SUMMARY,
    Tree,
)
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, LOWEST, NULL
from tocsin.model.predicates import INTERVAL, SET

_Spans = list[tuple[int, int]]


class _Below(NamedTuple):
    """What is below a bucket."""

    numbers: list[int]
    max_sums: tuple[float, float]  # the greatest sums of a conjunction, -1 if there is none
    weights: dict[int, float]  # the greatest weight for each attribute, without zeros
    spans: _Spans  # the interval around all of them, for each attribute of a path
    gain: int = 0  # attributes that all members of a leaf test, times the members; of all leaves

    def joined(self, other: _Below) -> _Below:
        """Return both; of the other the attributes of this one's path count."""
        spans = [
            (min(a[0], b[0]), max(a[1], b[1]))
            for a, b in zip(self.spans, other.spans, strict=False)
        ]
        sums = zip(self.max_sums, other.max_sums, strict=True)
        first, second = (max(both) for both in sums)
        weights = {
            a: max(self.weights.get(a, 0.0), other.weights.get(a, 0.0))
            for a in self.weights | other.weights
        }
        numbers, gain = self.numbers + other.numbers, self.gain + other.gain
        return _Below(numbers, (first, second), weights, spans, gain)


def check_invariants(index: BEStar) -> None:
    """Raise AssertionError, saying what is wrong, unless the tree is as it must be."""
    _Check(index.layout, index.conjunctions).all()


def _must(condition: bool, words: str) -> None:
    if not condition:
        raise AssertionError(words)


class _Check:
    def __init__(self, tree: Tree, conjunctions: Conjunctions):
        self.t, self.c = tree, conjunctions
        self.buckets = tree.bucket.reshape(-1, BUCKET).tolist()
        self.pnodes = tree.pnode.reshape(-1, PNODE).tolist()
        self.capacity = int(tree.options[LEAF_CAPACITY])
        self.rigid = bool(tree.options[RIGID])
        self.visited: set[int] = set()
        self.followed: set[int] = set()
        self.runs: list[tuple[int, int]] = []
        self.boxes: list[tuple[int, int]] = []
        self.summaries: list[tuple[int, int]] = []
        self.summarised = bool(tree.options[ATTRIBUTE_SUMMARIES])

    def all(self) -> None:
        state = self.t.state
        _must(state[PENDING] == -1, "buckets are still pending")
        _must(state[RAISING] == -1, "summaries are still being raised")
        below = self.bucket(0, [], LOWEST, HIGHEST)
        there = np.flatnonzero(self.t.home >= 0).tolist()
        _must(sorted(below.numbers) == there, "the leaves do not hold just what is in the tree")
        _must(state[MEMBERS] == len(there), "the number of members is wrong")
        free = set(self.chain(self.buckets, state[FREE_BUCKET], PARENT))
        _must(
            not free & self.visited and len(free) + len(self.visited) == state[BUCKETS],
            "buckets are lost, or free and in use at once",
        )
        _must(all(self.buckets[b][NODE] == FREE for b in free), "a free bucket is not marked")
        free = set(self.chain(self.pnodes, state[FREE_PNODE], NEXT_FREE))
        _must(
            not free & self.followed and len(free) + len(self.followed) == state[PNODES],
            "p-nodes are lost, or free and in use at once",
        )
        self.tiled(self.runs, 0, self.t.target, int(state[ENTRIES]), "runs")
        self.tiled(self.boxes, CLASSES, self.t.box, int(state[BOXES]), "boxes")
        end, links = int(state[SUMMARIES]), self.t.summary_attribute
        self.tiled(self.summaries, 2 * CLASSES, links, end, "summaries")

    def chain(self, records: list[list[int]], first: int, word: int) -> Iterator[int]:
        while first >= 0:
            yield int(first)
            first = records[first][word]

    def tiled(
        self, used: list[tuple[int, int]], kind: int, links: np.ndarray, end: int, what: str
    ) -> None:
        """Free runs and those in use lie side by side, without gaps."""
        for k in range(CLASSES):
            start = int(self.t.free[kind + k])
            while start >= 0:
                used.append((start, 1 << k))
                start = int(links[start])
        at = 0
        for start, size in sorted(used):
            _must(start == at, f"{what} overlap or are lost at {at}")
            at = start + size
        _must(at == end, f"{what} are lost at the end")

    def spans(self, number: int) -> dict[int, tuple[int, int]]:
        """Return the intervals of a conjunction on the attributes that it could be below."""
        found: dict[int, tuple[int, int]] = {}
        c = self.c
        for row in range(c.offsets[number], c.offsets[number + 1]):
            kind, low, high = int(c.kind[row]), int(c.low[row]), int(c.high[row])
            if kind != INTERVAL:
                points = c.points[low:high].tolist()
                if kind == SET:
                    low, high = (points[0], points[-1]) if points else (NULL, NULL)
                else:
                    low, high = (LOWEST, HIGHEST) if NULL in points else (NULL, NULL)
            if NULL < low <= high:
                found.setdefault(int(c.attribute[row]), (low, high))
        return found

    def weights(self, number: int) -> dict[int, float]:
        """Return the weights of a conjunction by attribute; none if it has a score of its own."""
        c, found, last = self.c, {}, -1
        if len(c.score) and not np.isnan(c.score[number]):
            return found
        for row in range(c.offsets[number], c.offsets[number + 1]):
            attribute = int(c.attribute[row])
            if attribute != last and not (c.kind[row] == INTERVAL and c.high[row] == NULL):
                found[attribute] = float(c.weight[row]) if len(c.weight) else 1.0
            last = attribute
        return found

    def sums(self, number: int, weights: dict[int, float]) -> tuple[float, float]:
        """Return the sum of a conjunction's weights, and of the weights times the usual ones."""
        if len(self.c.score) and not np.isnan(self.c.score[number]):
            return float(self.c.score[number]), float(self.c.score[number]) * 2.0**30
        plain = by_usual = 0.0
        for attribute, weight in weights.items():
            plain += weight
            by_usual += weight * float(self.t.usual_weight[attribute])
        return plain, by_usual

    def bucket(self, b: int, path: list[int], space_low: int, space_high: int) -> _Below:
        """Check a bucket and all below; `path` are the attributes tested so far."""
        record = self.buckets[b]
        name = f"bucket {b}"
        _must(b not in self.visited, f"{name} is in the tree twice")
        self.visited.add(b)
        _must(record[NEXT_PENDING] == NOT_PENDING, f"{name} is still pending")
        all_below = own = self.members(b, path)
        split = record[CUT] != NULL
        children = {side: record[side] for side in (LEFT, RIGHT) if record[side] >= 0}
        _must(split or not children, f"{name} is not split, but has children")
        for side, child in children.items():
            _must(self.buckets[child][PARENT] == b, f"bucket {child} does not know {name}")
            _must(self.buckets[child][NODE] == record[NODE], f"bucket {child}: another p-node")
            halves = (space_low, record[CUT] - 1) if side == LEFT else (record[CUT] + 1, space_high)
            below = self.bucket(child, path, *halves)
            _must(bool(below.numbers), f"bucket {child} is empty")
            all_below = all_below.joined(below)
        if len(children) == 2:
            left, right = self.buckets[children[LEFT]], self.buckets[children[RIGHT]]
            _must(left[HIGH] < right[LOW], f"the children of {name} do not repel each other")
            apart = self.t.options[SEPARATION] * self.t.extension[path[-1]]
            _must(
                self.rigid or right[LOW] - left[HIGH] > int(min(apart, 2.0**62)),
                f"the children of {name} are too close together",
            )
        if self.rigid and children:
            for side, child in children.items():
                low, high = self.buckets[child][LOW], self.buckets[child][HIGH]
                inside = high < record[CUT] if side == LEFT else low > record[CUT]
                _must(inside, f"bucket {child} is beyond the cut of {name}")
        for below in self.directory(b, path):
            all_below = all_below.joined(below)
        if b > 0 and record[NODES] > 0:
            one_value = record[LOW] == record[HIGH] or (self.rigid and space_low >= space_high)
            _must(split or one_value, f"{name} is partitioned before it was split")
        if split and record[NODES] == 0:
            leaves = all(
                self.buckets[child][CUT] == NULL and self.buckets[child][NODES] == 0
                for child in children.values()
            )
            together = record[SIZE] + sum(self.buckets[child][SIZE] for child in children.values())
            _must(
                not leaves or 2 * together > self.capacity,
                f"{name} and its children underflow and are not merged",
            )
        self.box(b, path, all_below)
        if self.summarised:
            self.summary(b * SUMMARY + OWN, own, f"the leaf of {name}")
            if b > 0 and (split or record[NODES] > 0):
                self.summary(b * SUMMARY + BELOW, all_below, name)
            else:
                _must(self.t.summary[b * SUMMARY + BELOW] == -1, f"{name} has a spare summary")
        return all_below

    def summary(self, word: int, below: _Below, name: str) -> None:
        """A summary is exact: the greatest weight of those below, for every attribute."""
        start, size = self.t.summary[word : word + 2].tolist()
        _must((start >= 0) == (size > 0), f"{name} has a summary without a run")
        if start >= 0:
            self.summaries.append((start, max(4, 1 << (size - 1).bit_length())))
        stop = start + size
        attributes = self.t.summary_attribute[start:stop].tolist()
        stored = dict(zip(attributes, self.t.summary_weight[start:stop].tolist(), strict=True))
        _must(attributes == sorted(set(attributes)), f"the summary of {name} is not in order")
        _must(stored == below.weights, f"{name} has a wrong summary of weights")

    def members(self, b: int, path: list[int]) -> _Below:
        """Check the leaf of a bucket, and return what is in it."""
        record = self.buckets[b]
        start, size = record[LEAF], record[SIZE]
        _must(size <= record[CAPACITY], f"the leaf of bucket {b} overflows")
        _must(
            size <= self.t.state[LONGEST_LEAF], f"the leaf of bucket {b} is longer than the longest"
        )
        _must(record[CAPACITY] >= self.capacity, f"bucket {b} has too little capacity")
        _must((start >= 0) >= (size > 0), f"bucket {b} has members, but no run")
        below = _Below([], (-1.0, -1.0), {}, [(HIGHEST, NULL)] * len(path))
        if start < 0:
            return below
        self.runs.append((start, 1 << record[LEAF_CLASS]))
        _must(size <= 1 << record[LEAF_CLASS], f"the leaf of bucket {b} is longer than its run")
        directory = set(self.entries(b)[1])
        numbers = self.t.target[start : start + size].tolist()
        for place, number in enumerate(numbers):
            name = f"conjunction {number} in bucket {b}"
            _must(int(self.t.home[number]) == b, f"{name} is said to be elsewhere")
            _must(int(self.t.place[number]) == place, f"{name} is said to be at another place")
            spans = self.spans(number)
            _must(set(path) <= set(spans), f"{name} lacks an attribute of its path")
            need = int(self.t.required[start + place])
            spare = set(spans) - set(path)
            _must(need - 1 in spare if spare else need == 0, f"{name} does not need {need - 1}")
            beside = {need for a in spans if (need := a + 1) in directory}
            _must(not beside, f"{name} belongs below a p-node of the bucket")
            weights = self.weights(number)
            positive = {a: weight for a, weight in weights.items() if weight > 0}
            below = below.joined(
                _Below([], self.sums(number, weights), positive, [spans[a] for a in path])
            )
        tested = [
            set(self.c.attribute[self.c.offsets[n] : self.c.offsets[n + 1]].tolist())
            for n in numbers
        ]
        common = len(set.intersection(*tested)) if tested else 0
        return below._replace(numbers=numbers, gain=common * size)

    def entries(self, b: int) -> tuple[list[int], list[int]]:
        start, nodes = self.buckets[b][DIRECTORY], self.buckets[b][NODES]
        return (
            self.t.target[start : start + nodes].tolist(),
            self.t.required[start : start + nodes].tolist(),
        )

    def directory(self, b: int, path: list[int]) -> Iterator[_Below]:
        """Check the p-nodes of a bucket and all below."""
        record = self.buckets[b]
        _must((record[DIRECTORY] >= 0) >= (record[NODES] > 0), f"bucket {b} has no directory")
        if record[DIRECTORY] < 0:
            return
        self.runs.append((record[DIRECTORY], 1 << record[DIRECTORY_CLASS]))
        pnodes, needs = self.entries(b)
        _must(needs == sorted(set(needs)), f"the directory of bucket {b} is not in order")
        for p, need in zip(pnodes, needs, strict=True):
            pnode = self.pnodes[p]
            _must(p not in self.followed, f"p-node {p} is in the tree twice")
            self.followed.add(p)
            _must(pnode[ATTRIBUTE] == need - 1, f"p-node {p} has another attribute")
            _must(pnode[ABOVE] == b, f"p-node {p} does not know its bucket")
            _must(pnode[LEVEL] == len(path) + 1, f"p-node {p} has a wrong level")
            _must(need - 1 not in path, f"p-node {p} uses an attribute twice")
            root = pnode[ROOT]
            _must(self.buckets[root][PARENT] == b, f"bucket {root} does not know the one above")
            _must(self.buckets[root][NODE] == p, f"bucket {root} does not know its p-node")
            below = self.bucket(root, [*path, need - 1], pnode[SPACE_LOW], pnode[SPACE_HIGH])
            _must(len(below.numbers) == pnode[COUNT], f"p-node {p} has a wrong count")
            _must(bool(below.numbers), f"p-node {p} is empty")
            if self.t.options[COMMON_PREDICATES]:
                _must(self.t.gain[p] == below.gain, f"p-node {p} has a wrong gain")
            yield below

    def box(self, b: int, path: list[int], below: _Below) -> None:
        """A bucket's box is the least around all below, in every dimension of its path."""
        record = self.buckets[b]
        stored_sums = tuple(self.t.max_sums[2 * b : 2 * b + 2].tolist())
        _must(stored_sums == below.max_sums, f"bucket {b} has a wrong weight summary")
        words = 2 * (len(path) - 1)
        if words > 0:
            self.boxes.append((record[BOX], 1 << (words - 1).bit_length()))
        for j, attribute in enumerate(path):
            if j == len(path) - 1:
                stored = (record[LOW], record[HIGH])
            else:
                start = record[BOX] + 2 * j
                stored = (int(self.t.box[start]), int(self.t.box[start + 1]))
            _must(stored == below.spans[j], f"bucket {b} has a wrong box on attribute {attribute}")
