"""The class behind the protocol of indexes; see the package for what a BE*-tree is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from tocsin.errors import RuleError
from tocsin.index.appending import AppendedConjunctions, copy_with_room
from tocsin.index.array_index import ArrayIndex
from tocsin.index.bestar.insertion import build_root, insert, update_statistics
from tocsin.index.bestar.layout import (
    ALPHA,
    ATTRIBUTE_SUMMARIES,
    BETA,
    BOXES,
    BUCKET,
    BUCKETS,
    CLASSES,
    COMMON_PREDICATES,
    ENTRIES,
    EXHAUSTIVE,
    FREE_BUCKET,
    FREE_PNODE,
    HISTOGRAM,
    LEAF_CAPACITY,
    MEMBERS,
    MOST_MEMBERS,
    NEEDED,
    OPTIONS,
    PENDING,
    PNODE,
    PNODES,
    RAISING,
    RIGID,
    SEPARATION,
    STATE,
    SUMMARIES,
    SUMMARY,
    Tree,
)
from tocsin.index.bestar.matching import propose
from tocsin.index.bestar.packing import pack_tree
from tocsin.index.bestar.removal import remove_members, shrink_pending
from tocsin.index.bestar.topk import FAILED, compile_score, find_best
from tocsin.index.bestar.tuning import (
    count_in_vain,
    mark_misplaced,
    update_extensions,
    update_losses,
)
from tocsin.index.bestar.validation import check_tree
from tocsin.index.finish import BestRules, EventWeights
from tocsin.index.options import Option, check_options, choice, flag, integer, number
from tocsin.index.protocol import Summary
from tocsin.jit import freeze
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.encoding import HIGHEST, NULL
from tocsin.model.keys import EventBatch
from tocsin.model.validation import typed_arrays

# The arrays whose lengths are counted by a word of `state`, and how many elements a record has.
_RECORDS = {
    BUCKETS: (("bucket", BUCKET), ("max_sums", 2), ("summary", SUMMARY), ("leaf_gain", 1)),
    PNODES: (("pnode", PNODE), ("loss", 1), ("gain", 1)),
    ENTRIES: (("target", 1), ("required", 1)),
    BOXES: (("box", 1),),
    SUMMARIES: (("summary_attribute", 1), ("summary_weight", 1)),
}
_OPTIONAL = {  # and which of them are empty without an option
    "summary": ATTRIBUTE_SUMMARIES,
    "summary_attribute": ATTRIBUTE_SUMMARIES,
    "summary_weight": ATTRIBUTE_SUMMARIES,
    "leaf_gain": COMMON_PREDICATES,
    "gain": COMMON_PREDICATES,
}
_SPARSE = 4  # chosen: packed when there were so many times more members than are left


class BEStar(ArrayIndex):
    """Conjunctions in a tree of p-nodes and buckets that changes in place."""

    name: ClassVar[str] = "bestar"
    version: ClassVar[int] = 4

    # Table II(a): leaves of 5 where events match less than 1 in 100 rules, of 20 up to 1 in 10, of
    # 160 above.
    options: ClassVar[Mapping[str, Option]] = {
        "leaf_capacity": integer("members of a leaf before it overflows", 5, 1, 2**31 - 1),
        "alpha": number("least share of a bucket's members on each side of a split", 0.1, 0, 0.5),
        "beta": number(
            "times that a bucket may grow before another is put above it", 4.0, 1, np.inf
        ),
        "splitting": choice("where buckets are split", "exhaustive", "approximate"),
        "rigid": flag("whether buckets are halved, as in the BE-tree", False),
        "gain": choice("what the gain of a p-node counts", "conjunctions", "predicates"),
        "loss": choice(
            "how the loss of an attribute is estimated before any event", "popularity", "histogram"
        ),
        "separation": number(
            "distance between siblings, in average lengths of events' ranges (see `tune`)",
            0.0,
            0,
            1000,
        ),
        "summary": choice(
            "what the bound on the scores below a node is computed from", "sums", "attributes"
        ),
    }
    layout_class = Tree
    supports_ranges = True
    prunes = True
    learns = True
    changes_in_place = True
    summary = Summary(
        holds="a tree of attributes, and of intervals on them: the BE*-tree as published",
        cost="a cache miss per bucket on its path, and 1 ns per member of their leaves",
        suits="research; rules that change in place, used without `Rules`",
        slow_when="there are many rules: use `keyed`",
    )

    def __init__(self, conjunctions: Conjunctions, layout: Tree):
        super().__init__(conjunctions, layout)
        self._appended: AppendedConjunctions | None = None  # from the first insertion on

    def proves_all(self) -> bool:
        """Return True: members of leaves are evaluated on the spot."""
        return True

    @classmethod
    def build(cls, conjunctions: Conjunctions, floats: np.ndarray, **options: Any) -> Self:
        """Build the tree of all conjunctions at once (the paper's BE*-B).

        For a tree that grows by insertions alone (BE*), build it of no conjunctions and insert.
        """
        chosen = check_options(cls.name, cls.options, options)
        words = np.zeros(OPTIONS)
        words[LEAF_CAPACITY], words[ALPHA] = chosen["leaf_capacity"], chosen["alpha"]
        words[BETA], words[RIGID] = chosen["beta"], chosen["rigid"]
        words[COMMON_PREDICATES] = chosen["gain"] == "predicates"
        words[HISTOGRAM], words[SEPARATION] = chosen["loss"] == "histogram", chosen["separation"]
        words[ATTRIBUTE_SUMMARIES] = chosen["summary"] == "attributes"
        words[EXHAUSTIVE] = chosen["splitting"] == "exhaustive"
        return cls._build(conjunctions, words)

    @classmethod
    def _build(
        cls, conjunctions: Conjunctions, options: np.ndarray, learnt: Tree | None = None
    ) -> Self:
        """Build the tree; `learnt` is one from which what it has learnt is taken."""
        index = cls(conjunctions, _empty_tree(conjunctions, options))
        numbers = np.arange(conjunctions.size, dtype=np.int32)
        index._add_attributes(conjunctions)
        if learnt is not None:
            for name in ("loss_rate", "extension"):
                old, new = getattr(learnt, name), getattr(index.layout, name)
                known = min(len(old), len(new))
                new[:known] = old[:known]
        update_statistics(index.layout, conjunctions, freeze(numbers, np.int32))
        build_root(index.layout, conjunctions)
        index._insert(numbers[:0])
        index.layout = pack_tree(index.layout, conjunctions.size)
        return index

    @classmethod
    def from_arrays(cls, conjunctions: Conjunctions, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the index whose arrays these are, over copies: a tree is written to."""
        copies = {name: np.array(array) for name, array in typed_arrays(Tree, arrays).items()}
        return cls(conjunctions, Tree(**copies))

    def validate(self, attributes: int) -> None:
        """Raise unless every node hangs in one place, and leaves have no more than there is."""
        check_tree(self.layout, self.conjunctions.size, attributes)

    def candidates(self, batch: EventBatch, offsets: np.ndarray, out: np.ndarray) -> int:
        """Propose what holds; see `Index.candidates`."""
        return propose(self.layout, self.conjunctions, batch, offsets, out)

    def best(
        self,
        batch: EventBatch,
        weights: EventWeights,
        removed: np.ndarray,
        best: BestRules,
        combine: Callable[[float, float], float] | None = None,
    ) -> tuple[int, int]:
        """Merge what holds into the lists of the k best; see `PruningIndex.best`.

        The score of a rule is the sum of rule weight x event weight over its attributes, as
        everywhere, or any monotonic function of these products (footnote 3): `combine(total,
        product)` returns the score with one more product. See `topk` for what it must promise.
        It is compiled at its first use: variables that it uses are constants from then on. Define
        it once, since each function object is compiled and kept.

        Raise a RuleError if it cannot be compiled, is not monotonic, or fails.
        """
        address = 0
        if combine is not None:
            greatest = max(weights.common.max(initial=0.0), weights.weight.max(initial=0.0))
            own = self.conjunctions.weight.max() if len(self.conjunctions.weight) else 1.0
            address = compile_score(combine, float(own * greatest))
        found = find_best(self.layout, self.conjunctions, batch, weights, removed, best, address)
        if found[0] == FAILED:
            raise RuleError("combine(total, product) raised an exception or returned NaN")
        return found

    def insert(self, more: Conjunctions) -> None:
        """Insert further conjunctions, one after the other; they are numbered on.

        This costs what each changes. (The first call also copies all conjunctions, once.)
        """
        before = self.conjunctions.size
        if self._appended is None:
            self._appended = AppendedConjunctions(self.conjunctions)
        self.conjunctions = self._appended.append(more)
        size, t = self.conjunctions.size, self.layout
        if size > len(t.home):
            self.layout = t = t._replace(
                home=copy_with_room(t.home, size),
                place=copy_with_room(t.place, size),
                only_intervals=copy_with_room(t.only_intervals, size),
            )
            t.home[before:] = -1
        self._add_attributes(more)
        numbers = np.arange(before, size, dtype=np.int32)
        update_statistics(self.layout, self.conjunctions, freeze(numbers, np.int32))
        self._insert(numbers)

    def remove(self, numbers: np.ndarray) -> None:
        """Remove conjunctions; their numbers stay theirs.

        Once three quarters of the members are gone, memory is released.
        """
        self._remove(self.check_removed(numbers))
        state = self.layout.state
        if _SPARSE * state[MEMBERS] < state[MOST_MEMBERS]:
            self.layout = pack_tree(self.layout, self.conjunctions.size)

    def tune(self, batch: EventBatch) -> None:
        """Learn ranks from events, and reinsert what is below p-nodes of negative rank.

        By default these are the p-nodes below which more predicates fail for an event than there
        are conjunctions. With the option `separation`, siblings are also moved apart by the average
        length of events' ranges (footnote 4).
        """
        if batch.size == 0:
            return
        in_vain = np.zeros(int(self.layout.state[BUCKETS]), np.int64)
        count_in_vain(self.layout, self.conjunctions, batch, in_vain)
        update_losses(self.layout, freeze(in_vain, np.int64), batch.size)
        marked = np.zeros(self.conjunctions.size, np.uint8)
        if self.layout.options[SEPARATION] > 0:
            update_extensions(self.layout, batch)
        mark_misplaced(self.layout, marked)
        moved = np.flatnonzero(marked).astype(np.int32)
        self._remove(moved)
        update_statistics(self.layout, self.conjunctions, freeze(moved, np.int32))
        self._insert(moved)

    def tuned(self, batch: EventBatch) -> Self:
        """Return another tree of these conjunctions that has learnt from events; see `tune`.

        It is built anew, with what this one has learnt: this one may come from a store, and changes
        rely on more than `validate` checks.
        """
        t = self.layout
        other = self._build(self.conjunctions, t.options.copy(), t)
        removed = np.flatnonzero(t.home[: self.conjunctions.size] < 0)
        if len(removed):
            other.remove(removed)
        other.tune(batch)
        return other

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays of the layout by name: packed, as `validate` requires it."""
        return pack_tree(self.layout, self.conjunctions.size)._asdict()

    def _insert(self, numbers: np.ndarray) -> None:
        """Insert numbered conjunctions, with longer arrays whenever the kernel stops for room."""
        numbers = freeze(numbers, np.int32)
        done = 0
        while True:
            done = insert(self.layout, self.conjunctions, numbers, done)
            if done == len(numbers) and (self.layout.state[[PENDING, RAISING]] < 0).all():
                return
            self._grow()

    def _remove(self, numbers: np.ndarray) -> None:
        remove_members(self.layout, self.conjunctions, freeze(numbers, np.int32))
        while not shrink_pending(self.layout, self.conjunctions):
            self._grow()

    def _grow(self) -> None:
        """Make arrays that are too short as long as needed, and at least half as long again."""
        t, longer = self.layout, {}
        for word, fields in _RECORDS.items():
            needed = int(t.state[NEEDED + word])
            for name, words in fields:
                old = getattr(t, name)
                if name in _OPTIONAL and t.options[_OPTIONAL[name]] == 0:
                    continue
                if needed * words > len(old):
                    size = max(needed * words, 3 * len(old) // 2 // words * words)
                    longer[name] = _lengthen(old, size)
        self.layout = t._replace(**longer)

    def _add_attributes(self, more: Conjunctions) -> None:
        """Make the arrays of attributes as long as further conjunctions need."""
        attributes = int(more.attribute.max(initial=-1)) + 1
        t = self.layout
        if attributes > len(t.loss_rate):
            space = np.tile([HIGHEST, NULL], attributes)
            space[: len(t.space)] = t.space
            self.layout = t._replace(
                popularity=_lengthen(t.popularity, attributes),
                loss_rate=_lengthen(t.loss_rate, attributes),
                extension=_lengthen(t.extension, attributes),
                usual_weight=_lengthen(t.usual_weight, attributes),
                scored_when_null=_lengthen(t.scored_when_null, attributes),
                space=space,
            )


def _lengthen(array: np.ndarray, size: int) -> np.ndarray:
    longer = np.zeros(size, array.dtype)
    longer[: len(array)] = array
    return longer


def _empty_tree(conjunctions: Conjunctions, options: np.ndarray) -> Tree:
    """Return a tree with room for a root, and for all conjunctions in its leaf."""
    n = conjunctions.size
    state = np.zeros(STATE, np.int64)
    state[[FREE_BUCKET, FREE_PNODE, PENDING, RAISING]] = -1
    summarised = options[ATTRIBUTE_SUMMARIES] != 0
    attributes = int(conjunctions.attribute.max(initial=-1)) + 3 if summarised else 0
    nothing = np.empty(0)
    room = 2 * n + 8
    return Tree(
        bucket=np.zeros(BUCKET, np.int64),
        max_sums=np.zeros(2),
        pnode=np.zeros(0, np.int64),
        loss=nothing,
        leaf_gain=np.zeros(int(options[COMMON_PREDICATES] != 0)),
        gain=nothing,
        target=np.empty(room, np.int32),
        required=np.empty(room, np.int32),
        box=np.zeros(0, np.int64),
        home=np.full(n, -1, np.int32),
        place=np.full(n, -1, np.int32),
        only_intervals=np.zeros(n, np.uint8),
        popularity=np.zeros(0, np.int64),
        loss_rate=nothing,
        extension=nothing,
        usual_weight=nothing,
        scored_when_null=np.zeros(0, np.uint8),
        space=np.zeros(0, np.int64),
        summary=np.zeros(SUMMARY * int(summarised), np.int64),
        summary_attribute=np.zeros(4 * attributes, np.int32),
        summary_weight=np.zeros(4 * attributes),
        free=np.full(3 * CLASSES, -1, np.int64),
        state=state,
        options=options,
    )
