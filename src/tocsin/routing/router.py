"""One router of a tree of routers (paper, I and II).

Clients subscribe at a router, and routers forward subscriptions to their neighbours, so that a
notification finds its way back: a router sends it to the neighbours and clients that have
subscribed to it. Of the subscriptions that did not come from a neighbour, a router forwards to it
only those that no other one covers. One relation graph (III) for each neighbour tells which.

Where the paper leaves something open:

* **Order.** The paper forwards what is no longer covered (III-C, step 3) before it withdraws what
  covered it (step 4), but does not say why. It is needed: the neighbour must never be without both.
* **Acknowledgement.** The paper does not say when a subscriber begins to get all notifications.
  Here, a subscription is *established* at a router when all routers beyond each of its neighbours,
  except the one that it came from, send what it matches towards this router. The router then tells
  the neighbour or client that it came from. So a client learns when notifications that are
  published anywhere in the tree will reach it.

**When a subscription is settled.** A router calls a subscription settled at a neighbour if the
neighbour has acknowledged it, or if one that covers it by the edges of the graph is settled there.
It is established when it is settled at all neighbours except its source. This needs messages in
order between two neighbours (`session.py`), and holds until the subscription is removed:

1. From the time when the graph has a subscription s, the subscriptions that are forwarded always
   include one that covers s, after each single message: what covers s next is forwarded before what
   covers it now is withdrawn. So once the neighbour has received what was sent when s came, its
   table always has one that covers s, too.
2. Hence the neighbour's own graphs always have one that covers s, and the first step holds for what
   it forwards to its neighbours, and so on to the leaves of the tree.
3. When the neighbour acknowledges s, all routers beyond have received what they need for it. By the
   first two steps that stays true, even if s itself is withdrawn because a newer one covers it.
4. Whatever s covers is matched wherever s is. So it is settled, too.

So an acknowledgement that arrives after its subscription was withdrawn, and forwarded again, is
still valid. It must not be taken for that of a later subscription: ids are never used again.

A router has no sockets and no clock: methods take messages and return messages. It is not
thread-safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tocsin.covering.relation_graph import Change, RelationGraph
from tocsin.errors import RoutingError, TocsinError, suggest
from tocsin.routing.languages import Language, Table

BACKLOG = 100_000  # messages that wait for a client or neighbour before it is given up; chosen


class Subscribe(NamedTuple):
    """Please send me what matches this subscription."""

    id: str
    subscription: list[Any]


class Unsubscribe(NamedTuple):
    """I no longer need what matches this subscription."""

    id: str


class Established(NamedTuple):
    """Your subscription is established."""

    id: Hashable


class Publish(NamedTuple):
    """A notification on its way."""

    event: Any


class Notification(NamedTuple):
    """A notification for a client, and which of its subscriptions it matches."""

    event: Any
    ids: list[Any]


Message = Subscribe | Unsubscribe | Established | Publish | Notification


@dataclass(frozen=True)
class Neighbour:
    """Another router, by its name."""

    name: str


@dataclass(frozen=True)
class Client:
    """A client of this router, by its name."""

    name: Hashable


class Outgoing(NamedTuple):
    """A message and whom to send it to."""

    to: Neighbour | Client
    message: Message


@dataclass
class _Link:
    """What is known of a neighbour."""

    source: Neighbour
    graph: RelationGraph | _NoGraph
    settled: set[str] = field(default_factory=set)


@dataclass
class _Subscription:
    source: Neighbour | Client
    local_id: Any  # the client's id; None if it came from a neighbour
    content: list[Any]


class Router:
    """A router: its neighbours, its clients, and the subscriptions of all of them.

    Parameters
    ----------
    name
        Different from the names of all other routers of the tree.
    neighbours
        Names of the routers it is linked with.
    language
        What subscriptions and events are: `Boxes` or `Conditions`.
    covering
        If False, all subscriptions are forwarded.
    first
        The number of its first subscription. A router that is started again under the same name
        must not use numbers again.
    graph
        Parameters of the `RelationGraph` of each neighbour.

    >>> from tocsin.routing import Boxes
    >>> router = Router("a", ["b"], Boxes(1))
    >>> for message in router.subscribe("ann", "wide", [0], [10]):
    ...     print(message)
    Outgoing(to=Neighbour(name='b'), message=Subscribe(id='a/1', subscription=[[0], [10]]))
    >>> router.subscribe("ann", "narrow", [2], [3])
    []
    >>> for message in router.receive("b", Publish([2])):
    ...     print(message)
    Outgoing(to=Client(name='ann'), message=Notification(event=[2], ids=['wide', 'narrow']))
    """

    def __init__(
        self,
        name: str,
        neighbours: Iterable[str],
        language: Language,
        covering: bool = True,
        first: int = 1,
        **graph: Any,
    ):
        self.name, self.language = name, language
        self.sent: Counter[str] = Counter()  # messages by kind
        self._table: Table = language.table()
        self._links = {
            each: _Link(
                Neighbour(each),
                RelationGraph(cover=language.cover(), **graph) if covering else _NoGraph(),
            )
            for each in neighbours
        }
        if name in self._links:
            raise RoutingError(f"router {name!r} cannot be its own neighbour")
        self._subscriptions: dict[str, _Subscription] = {}
        self._ids: dict[tuple[Hashable, Hashable], str] = {}  # of a client's subscriptions
        self._pending: set[str] = set()  # subscriptions that are not established
        self._next = first
        self._outbox: list[Outgoing] = []

    # ------------------------------------------------------------ clients

    def subscribe(self, client: Hashable, id: Hashable, *subscription: Any) -> list[Outgoing]:
        """Add a subscription of a client; it gets an `Established` when all routers know it."""
        if (client, id) in self._ids:
            raise RoutingError(
                f"client {client!r} already has a subscription {id!r}; unsubscribe it first"
            )
        unique = f"{self.name}/{self._next}"
        try:
            self._add(unique, _Subscription(Client(client), id, list(subscription)))
        except TocsinError as error:
            raise error.with_place(f"subscription {id!r} of client {client!r}") from None
        self._next += 1
        self._ids[client, id] = unique
        return self._flush()

    def unsubscribe(self, client: Hashable, id: Hashable) -> list[Outgoing]:
        """Remove a subscription of a client."""
        if (client, id) not in self._ids:
            raise RoutingError(f"client {client!r} has no subscription {id!r}")
        self._remove(self._ids.pop((client, id)))
        return self._flush()

    def remove_client(self, client: Hashable) -> list[Outgoing]:
        """Remove all subscriptions of a client."""
        for owner, id in list(self._ids):
            if owner == client:
                self._remove(self._ids.pop((owner, id)))
        return self._flush()

    def publish(self, event: Any) -> list[Outgoing]:
        """Send a notification to all that subscribed to it."""
        self.language.check(event)
        self._route(event, None)
        return self._flush()

    # ------------------------------------------------------------ neighbours

    def receive(self, neighbour: str, message: Message) -> list[Outgoing]:
        """Handle a message of a neighbour."""
        link = self._link(neighbour)
        match message:
            case Subscribe(id, content):
                known = self._subscriptions.get(id)
                if known is not None:
                    raise RoutingError(
                        f"subscription {id!r} came from {known.source.name!r} and from "
                        f"{neighbour!r}: routers must be linked as a tree, each with its own name"
                    )
                self._add(id, _Subscription(link.source, None, content))
            case Unsubscribe(id):
                if id not in self._subscriptions:
                    raise RoutingError(f"router {neighbour!r} withdraws {id!r}, which is not known")
                self._remove(id)
            case Established(id):
                if id in self._subscriptions:  # otherwise it was removed in the meantime
                    self._settle(link, str(id))
            case Publish(event):
                self._route(event, link.source)
            case _:
                raise RoutingError(f"router {neighbour!r} sent what no router sends: {message!r}")
        return self._flush()

    def restart(self, neighbour: str) -> list[Outgoing]:
        """Forget what came from a neighbour that has lost its state, and send it ours again.

        What its subscriptions should have received meanwhile is lost. It is also called for a
        neighbour that is given up, whose queue has been emptied: nothing more is then queued for it
        than our subscriptions, since no event matches.
        """
        link = self._link(neighbour)
        for id, each in list(self._subscriptions.items()):
            if each.source == link.source:
                self._remove(id)
        link.settled.clear()
        for id in link.graph.forwarded:
            self._send(link.source, Subscribe(id, self._subscriptions[id].content))
        return self._flush()

    # ------------------------------------------------------------ state

    def table_sizes(self) -> dict[str, int]:
        """Return how many subscriptions came from each neighbour, and "" for all clients."""
        sizes = dict.fromkeys(["", *self._links], 0)
        for each in self._subscriptions.values():
            sizes[each.source.name if isinstance(each.source, Neighbour) else ""] += 1
        return sizes

    def forwarded(self, neighbour: str) -> list[str]:
        """Return the ids of the subscriptions that are forwarded to a neighbour."""
        return self._link(neighbour).graph.forwarded

    @property
    def pending(self) -> int:
        """How many subscriptions are not established yet."""
        return len(self._pending)

    # ------------------------------------------------------------ steps

    def _add(self, id: str, added: _Subscription) -> None:
        self._table.add(id, *added.content)
        self._subscriptions[id] = added
        self._pending.add(id)
        try:
            for link in self._links_but(added.source):
                self._tell(link, link.graph.subscribe(id, *added.content))
                self._settle_if_covered(link, id)
        except Exception:  # raised by the first graph, as all read subscriptions alike
            self._table.remove(id)
            del self._subscriptions[id]
            self._pending.discard(id)
            raise
        self._tell_if_established(id)

    def _remove(self, id: str) -> None:
        removed = self._subscriptions[id]
        for link in self._links_but(removed.source):
            below = link.graph.edges_from(id)
            self._tell(link, link.graph.unsubscribe(id))
            link.settled.discard(id)
            for each in below:  # it may have a new edge, from one that is settled
                self._settle_if_covered(link, each)
        self._table.remove(id)
        del self._subscriptions[id]
        self._pending.discard(id)

    def _tell(self, link: _Link, change: Change) -> None:
        for id in change.forward:
            self._send(link.source, Subscribe(id, self._subscriptions[id].content))
        for id in change.withdraw:
            self._send(link.source, Unsubscribe(id))

    def _settle_if_covered(self, link: _Link, id: str) -> None:
        if not link.settled.isdisjoint(link.graph.edges_into(id)):
            self._settle(link, id)

    def _settle(self, link: _Link, id: str) -> None:
        """Note that a subscription is settled at a neighbour, and so is what it covers."""
        waiting = [id]
        while waiting:
            each = waiting.pop()
            if each not in link.settled and each in link.graph:
                link.settled.add(each)
                waiting.extend(link.graph.edges_from(each))
                self._tell_if_established(each)

    def _tell_if_established(self, id: str) -> None:
        subscription = self._subscriptions[id]
        links = self._links_but(subscription.source)
        if id in self._pending and all(id in link.settled for link in links):
            self._pending.discard(id)
            is_own = isinstance(subscription.source, Client)
            self._send(subscription.source, Established(subscription.local_id if is_own else id))

    def _route(self, event: Any, source: Neighbour | None) -> None:
        matched: dict[Neighbour | Client, list[Any]] = {}
        for id in self._table.match(event):
            subscription = self._subscriptions[id]
            matched.setdefault(subscription.source, []).append(subscription.local_id)
        for to, ids in matched.items():
            if isinstance(to, Client):
                self._send(to, Notification(event, ids))
            elif to != source:
                self._send(to, Publish(event))

    def _send(self, to: Neighbour | Client, message: Message) -> None:
        self.sent[type(message).__name__.lower()] += 1
        self._outbox.append(Outgoing(to, message))

    def _flush(self) -> list[Outgoing]:
        outbox, self._outbox = self._outbox, []
        return outbox

    def _link(self, neighbour: str) -> _Link:
        if neighbour not in self._links:
            raise RoutingError(
                f"router {self.name!r} has no neighbour {neighbour!r}"
                + suggest(neighbour, self._links)
            )
        return self._links[neighbour]

    def _links_but(self, source: Neighbour | Client) -> list[_Link]:
        return [link for link in self._links.values() if link.source != source]


class _NoGraph:
    """In place of a relation graph: no subscription covers another one."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    @property
    def forwarded(self) -> list[str]:
        return list(self._ids)

    def __contains__(self, id: str) -> bool:
        return id in self._ids

    def subscribe(self, id: str, *subscription: Any) -> Change:
        self._ids[id] = None
        return Change([id], [])

    def unsubscribe(self, id: str) -> Change:
        del self._ids[id]
        return Change([], [id])

    def edges_into(self, id: str) -> list[str]:
        return []

    def edges_from(self, id: str) -> list[str]:
        return []
