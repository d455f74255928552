"""Which subscriptions to forward: the relation graph (paper, III).

An edge goes from a subscription to one that it covers. A subscription without incoming edges is
forwarded, and all others are covered by a forwarded one, directly or through a chain. There are
three kinds (III-A, B and D):

* `k`, the paper's G_k: up to k incoming edges. A search for up to k subscriptions that cover s,
  cov_k, when s comes, and for each one that has lost its last incoming edge when another one goes.
* `star`, the paper's G*: all edges. No search when a subscription goes.
* `poset`: G* without edges that a path implies, as in Siena.

Where the paper is followed and where not:

* Of equal subscriptions an older one covers a newer one, never the other way round. As printed,
  each of two equal ones can be what covers the other, and when the last edge from outside goes,
  neither is forwarded.
* III-C adds edges only to a subscription that has none. So a subscription that lost one of its k
  edges has fewer than k, although others may cover it: III-B's "exactly k" does not hold, here as
  in the paper. `star` and `poset` have all edges at any time.
* A subscription that is forwarded and then covered by a newer one stays forwarded in G_k, as in the
  paper; so Property 1, as printed, does not survive a newer, larger subscription. With
  `withdraw_covered`, the newer one is forwarded first, and the older one withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, Protocol

from tocsin.covering.cover_index import CoverIndex
from tocsin.covering.point_index import check_count, check_id
from tocsin.errors import CoverError

KINDS = ("k", "star", "poset")


class Index(Protocol):
    """Subscriptions in the form that a cover reads them in, and which of them cover one."""

    def add(self, id: Hashable, subscription: Any, /) -> None:
        """Add a subscription."""
        ...

    def remove(self, id: Hashable) -> None:
        """Remove a subscription."""
        ...

    def covering(self, subscription: Any, k: int, /) -> list[Any]:
        """Return the ids of up to k that cover a subscription."""
        ...

    def covering_id(self, id: Hashable, k: int) -> list[Any]:
        """Return the ids of up to k others that cover one; of equal ones, only older ones."""
        ...

    def covered(self, subscription: Any, /) -> list[Any]:
        """Return the ids of all that a subscription covers."""
        ...


class Cover(Protocol):
    """What reads subscriptions and finds those that cover one; `CoverIndex` does for boxes."""

    @property
    def index(self) -> Index:
        """The subscriptions."""
        ...

    @property
    def read(self) -> Callable[..., Any]:
        """What reads a subscription."""
        ...


class Change(NamedTuple):
    """What to tell other routers, in this order: first what to forward, then what to withdraw."""

    forward: list[Any]
    withdraw: list[Any]


class RelationGraph:
    """Subscriptions, which of them to forward, and what covers the others.

    Parameters
    ----------
    k
        How many covering subscriptions to look for; kind "k" only.
    kind
        "k", "star" or "poset".
    withdraw_covered
        Also withdraw forwarded subscriptions that a new one covers.
    cover
        What finds covering subscriptions. By default, a `CoverIndex` of as many dimensions as the
        first subscription has.

    >>> graph = RelationGraph(k=1)
    >>> graph.subscribe("wide", [0, 0], [10, 10])
    Change(forward=['wide'], withdraw=[])
    >>> graph.subscribe("narrow", [2, 3], [4, 5])
    Change(forward=[], withdraw=[])
    >>> graph.unsubscribe("wide")
    Change(forward=['narrow'], withdraw=['wide'])
    """

    def __init__(
        self,
        k: int = 1,
        kind: str = "k",
        withdraw_covered: bool = False,
        cover: Cover | None = None,
    ):
        if kind not in KINDS:
            raise CoverError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
        self.k, self.kind, self.withdraw_covered = check_count("k", k), kind, withdraw_covered
        self.cover = cover
        self.searches = 0  # calls of cov_k, to count what a command costs
        self._above: dict[Any, dict[Any, None]] = {}  # for each subscription, what covers it
        self._below: dict[Any, dict[Any, None]] = {}
        self._forwarded: dict[Any, None] = {}

    def __len__(self) -> int:
        return len(self._above)

    def __contains__(self, id: Hashable) -> bool:
        return id in self._above

    @property
    def forwarded(self) -> list[Any]:
        """The ids of all forwarded subscriptions, in the order in which they were forwarded."""
        return list(self._forwarded)

    def is_forwarded(self, id: Hashable) -> bool:
        """Return whether a subscription is forwarded."""
        return id in self._forwarded

    def edges_into(self, id: Hashable) -> list[Any]:
        """Return the ids of subscriptions that cover this one, by the edges of the graph."""
        return list(self._known(id, self._above))

    def edges_from(self, id: Hashable) -> list[Any]:
        """Return the ids of subscriptions that this one covers, by the edges of the graph."""
        return list(self._known(id, self._below))

    def subscribe(self, id: Hashable, *subscription: Any) -> Change:
        """Add a subscription, by default a box's lower and upper bounds.

        Return what to tell other routers.
        """
        check_id(id)
        if id in self._above:
            raise CoverError(f"there is already a subscription {id!r}; unsubscribe it first")
        if self.cover is None:
            if len(subscription) != 2 or not hasattr(subscription[0], "__len__"):
                raise CoverError(
                    "a subscription is a list of lower bounds and one of upper bounds; got "
                    f"{subscription!r}"
                )
            self.cover = CoverIndex(len(subscription[0]))
        read, index, inner = self.cover.read(*subscription), self.cover.index, []
        self.searches += 1
        if self.kind == "k":
            covering = index.covering(read, self.k)
            if self.withdraw_covered and not covering:
                inner = [each for each in index.covered(read) if self.is_forwarded(each)]
        else:
            covering = index.covering(read, max(1, len(self)))
            equal_or_larger = set(covering)
            inner = [each for each in index.covered(read) if each not in equal_or_larger]
        index.add(id, read)
        self._above[id], self._below[id] = {}, {}
        if self.kind == "poset":
            self._insert_between(id, covering, inner)
        elif covering or inner:
            self._connect(covering, [id])
            self._connect([id], inner)
        if covering:
            return Change([], [])
        withdrawn = []
        if self.withdraw_covered:
            withdrawn = [each for each in inner if self.is_forwarded(each)]
            for each in withdrawn:
                del self._forwarded[each]
        self._forwarded[id] = None
        return Change([id], withdrawn)

    def unsubscribe(self, id: Hashable) -> Change:
        """Remove a subscription; return what to tell other routers."""
        above, below = self._known(id, self._above), self._known(id, self._below)
        assert self.cover is not None
        self.cover.index.remove(id)
        for each in above:
            del self._below[each][id]
        for each in below:
            del self._above[each][id]
        del self._above[id], self._below[id]
        if self.kind == "poset":
            self._reconnect(above, below)
        promoted = []
        for each in below:
            if self._above[each] or self.is_forwarded(each):
                continue
            if self.kind == "k":
                self.searches += 1
                self._connect(self.cover.index.covering_id(each, self.k), [each])
            if not self._above[each]:
                promoted.append(each)
                self._forwarded[each] = None
        was_forwarded = id in self._forwarded
        self._forwarded.pop(id, None)
        return Change(promoted, [id] if was_forwarded else [])

    def _known(self, id: Hashable, edges: dict[Any, dict[Any, None]]) -> dict[Any, None]:
        check_id(id)
        if id not in edges:
            raise CoverError(f"there is no subscription {id!r}")
        return edges[id]

    def _connect(self, covering: Iterable[Any], covered: Iterable[Any]) -> None:
        covered = list(covered)
        for above in covering:
            for below in covered:
                self._below[above][below] = None
                self._above[below][above] = None

    def _insert_between(self, id: Any, covering: list[Any], covered: list[Any]) -> None:
        """Connect a subscription with the smallest that cover it and the largest it covers."""
        larger, smaller = set(covering), set(covered)
        parents = [each for each in covering if larger.isdisjoint(self._below[each])]
        children = [each for each in covered if smaller.isdisjoint(self._above[each])]
        for parent in parents:
            for child in children:
                self._below[parent].pop(child, None)
                self._above[child].pop(parent, None)
        self._connect(parents, [id])
        self._connect([id], children)

    def _reconnect(self, parents: Iterable[Any], children: Iterable[Any]) -> None:
        """Connect those that only a path over the removed subscription connected."""
        for child in children:
            reached, waiting = set(), list(self._above[child])
            while waiting:
                each = waiting.pop()
                if each not in reached:
                    reached.add(each)
                    waiting.extend(self._above[each])
            self._connect([each for each in parents if each not in reached], [child])
