"""The BE*-tree behind the protocol of indexes; see the package for what it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.index.array_index import ArrayIndex
from tocsin.index.bestar.insertion import heap_up, insert, note
from tocsin.index.bestar.invariants import check
from tocsin.index.bestar.layout import (
    BOXES,
    BUCKET,
    BUCKETS,
    CLASSES,
    ENTRIES,
    FREE_BUCKET,
    FREE_PNODE,
    MEMBERS,
    NEED,
    PEAK,
    PNODE,
    PNODES,
    STATE,
    TODO,
    Tree,
)
from tocsin.index.bestar.matching import propose, watch
from tocsin.index.bestar.packing import packed
from tocsin.index.bestar.removal import shrink, take_out
from tocsin.index.bestar.topk import find_best
from tocsin.index.bestar.tuning import charge, mark_fallen
from tocsin.index.bestar.validation import check_tree
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.options import Option, check_options, choice, flag, integer, number
from tocsin.index.protocol import Summary
from tocsin.jit import frozen
from tocsin.model.conjunctions import Conjunctions, joined
from tocsin.model.keys import EventBatch
from tocsin.model.line import HIGHEST, NULL
from tocsin.model.validation import typed_arrays

# Which arrays a word of `state` tells the length of, and how many words each record has.
_RECORDS = {
    BUCKETS: (("bucket", BUCKET), ("most", 2)),
    PNODES: (("pnode", PNODE), ("loss", 1)),
    ENTRIES: (("target", 1), ("need", 1)),
    BOXES: (("box", 1),),
}
_SPARSE = 4  # times as many members as there are: then the tree is packed
_SPLITTING = ("approximate", "exhaustive")  # by number, as the tree keeps it


class BEStar(ArrayIndex):
    """Conjunctions in a tree of p-nodes and buckets that changes in place."""

    name: ClassVar[str] = "bestar"
    version: ClassVar[int] = 1

    # In the order of `Tree.options`. Table II(a): leaves of 5 where events match less than 1 in
    # 100 rules, of 20 up to 1 in 10, of 160 above.
    options: ClassVar[Mapping[str, Option]] = {
        "leaf_capacity": integer("members of a leaf before it overflows", 5, 1, 2**31 - 1),
        "alpha": number("least part of a bucket's members on each side of a split", 0.1, 0, 0.5),
        "beta": number(
            "times that a bucket may grow before another is put above it", 4.0, 1, np.inf
        ),
        "splitting": choice("where buckets are split", "exhaustive", "approximate"),
        "rigid": flag("whether buckets are halved, as in the BE-tree", False),
    }
    layout_class = Tree
    supports_ranges = True
    prunes = True
    changes_in_place = True
    learns = True
    summary = Summary(
        holds="a tree of attributes, and of intervals on them: the BE*-tree as published",
        cost="a cache miss a bucket on its path, and 1 ns a member of their leaves",
        suits="research; rules that change in place, used without `Rules`",
        slow_when="there are many rules: use `keyed`",
    )

    def proves_all(self) -> bool:
        """Tell that leaves are evaluated on the spot."""
        return True

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Build the tree of all conjunctions at once (the paper's BE*-B).

        For a tree that has grown by insertions alone (BE*), build it of none and insert.
        """
        chosen = check_options(cls.name, cls.options, options)
        chosen["splitting"] = _SPLITTING.index(chosen["splitting"])
        numbers = np.array(list(chosen.values()), np.float64)
        index = cls(conjunctions, _empty_tree(conjunctions, numbers))
        numbers = np.arange(conjunctions.size, dtype=np.int32)
        index._widen()
        note(index.layout, conjunctions, frozen(numbers, np.int32))
        heap_up(index.layout, conjunctions)
        index._insert(numbers[:0])
        index.layout = packed(index.layout)
        return index

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose arrays these are, over copies: a tree is written to."""
        copies = {name: np.array(array) for name, array in typed_arrays(Tree, arrays).items()}
        return cls(conjunctions, Tree(**copies))

    def validate(self, attributes: int) -> None:
        """Raise unless the tree is one, and its leaves hold no more than there is."""
        check_tree(self.layout, self.conjunctions.size, attributes)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose what holds; see `Index.candidates`."""
        return propose(self.layout, self.conjunctions, batch, offsets, out)

    def best(
        self, batch: EventBatch, weights: EventWeights, removed: np.ndarray, best: BestRules
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best; see `PruningIndex.best`."""
        counters = np.zeros(2, np.int64)
        find_best(self.layout, self.conjunctions, batch, weights, removed, best, counters)
        return int(counters[0]), int(counters[1])

    def insert(self, more: Conjunctions) -> None:
        """Insert further conjunctions, one after the other; they are numbered on.

        The tree costs what each changes; the conjunctions are copied once for all.
        """
        before = self.conjunctions.size
        self.conjunctions = joined([self.conjunctions, more])
        fresh = np.full(more.size, -1, np.int32)
        t = self.layout
        self.layout = t._replace(
            home=np.concatenate([t.home, fresh]),
            place=np.concatenate([t.place, fresh]),
            plain=_lengthened(t.plain, before + more.size),
        )
        self._widen()
        numbers = np.arange(before, before + more.size, dtype=np.int32)
        note(self.layout, self.conjunctions, frozen(numbers, np.int32))
        self._insert(numbers)

    def remove(self, numbers: np.ndarray) -> None:
        """Take conjunctions out; their numbers stay theirs.

        Once three quarters of what was there are gone, memory is given back.
        """
        self._remove(np.asarray(numbers))
        state = self.layout.state
        if _SPARSE * state[MEMBERS] < state[PEAK]:
            self.layout = packed(self.layout)

    def tune(self, batch: EventBatch) -> None:
        """Learn ranks from events, and insert anew what is below p-nodes that have not paid.

        These are the p-nodes below which an event evaluates more predicates in vain than there
        are conjunctions.
        """
        if batch.size == 0:
            return
        discarded = np.zeros(int(self.layout.state[BUCKETS]), np.int64)
        watch(self.layout, self.conjunctions, batch, discarded)
        charge(self.layout, frozen(discarded, np.int64), batch.size)
        marked = np.zeros(self.conjunctions.size, np.uint8)
        mark_fallen(self.layout, marked)
        fallen = np.flatnonzero(marked).astype(np.int32)
        self._remove(fallen)
        note(self.layout, self.conjunctions, frozen(fallen, np.int32))
        self._insert(fallen)

    def tuned(self, batch: EventBatch) -> Self:
        """Return a copy that has learnt from events; see `tune`."""
        copy = type(self).from_arrays(self.conjunctions, self.arrays())
        copy.tune(batch)
        return copy

    def check(self) -> None:
        """Raise AssertionError, saying what is wrong, unless the tree is as it must be."""
        check(self.layout, self.conjunctions)

    def _insert(self, numbers: np.ndarray) -> None:
        """Insert conjunctions that have numbers, giving the kernel longer arrays when it asks."""
        numbers = frozen(numbers, np.int32)
        done = 0
        while True:
            done = insert(self.layout, self.conjunctions, numbers, done)
            if done == len(numbers) and self.layout.state[TODO] < 0:
                return
            self._grow()

    def _remove(self, numbers: np.ndarray) -> None:
        take_out(self.layout, self.conjunctions, frozen(numbers, np.int32))
        while not shrink(self.layout, self.conjunctions):
            self._grow()

    def _grow(self) -> None:
        """Make the arrays as long as was asked for, and half as long again as they were."""
        t, longer = self.layout, {}
        for word, fields in _RECORDS.items():
            needed = int(t.state[NEED + word])
            for name, words in fields:
                old = getattr(t, name)
                if needed * words > len(old):
                    size = max(needed * words, 3 * len(old) // 2 // words * words)
                    longer[name] = _lengthened(old, size)
        self.layout = t._replace(**longer)

    def _widen(self) -> None:
        """Make room for all attributes that conjunctions test."""
        attributes = int(self.conjunctions.attribute.max(initial=-1)) + 1
        t = self.layout
        if attributes > len(t.rate):
            space = np.tile([HIGHEST, NULL], attributes)
            space[: len(t.space)] = t.space
            self.layout = t._replace(
                popularity=_lengthened(t.popularity, attributes),
                rate=_lengthened(t.rate, attributes),
                usual=_lengthened(t.usual, attributes),
                tolerant=_lengthened(t.tolerant, attributes),
                space=space,
            )


def _lengthened(array: np.ndarray, size: int) -> np.ndarray:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _empty_tree(conjunctions: Conjunctions, options: np.ndarray) -> Tree:
    """Return a tree with room for a root, and for all conjunctions in its leaf."""
    n = conjunctions.size
    state = np.zeros(STATE, np.int64)
    state[[FREE_BUCKET, FREE_PNODE, TODO]] = -1
    nothing = np.empty(0)
    room = 2 * n + 8
    return Tree(
        bucket=np.zeros(BUCKET, np.int64),
        most=np.zeros(2),
        pnode=np.zeros(0, np.int64),
        loss=nothing,
        target=np.empty(room, np.int32),
        need=np.empty(room, np.int32),
        box=np.zeros(0, np.int64),
        home=np.full(n, -1, np.int32),
        place=np.full(n, -1, np.int32),
        plain=np.zeros(n, np.uint8),
        popularity=np.zeros(0, np.int64),
        rate=nothing,
        usual=nothing,
        tolerant=np.zeros(0, np.uint8),
        space=np.zeros(0, np.int64),
        free=np.full(2 * CLASSES, -1, np.int64),
        state=state,
        options=options,
    )
