"""A simulation of a tree of routers, in one process and with a clock of its own.

Links delay packets at random, so that they overtake each other. They can lose packets, and they can
be down for a while. Clients are at their router: nothing is delayed or lost between the two.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from tocsin.errors import RoutingError, suggest
from tocsin.routing.languages import Language
from tocsin.routing.router import BACKLOG, Client, Established, Notification, Outgoing, Router
from tocsin.routing.session import Packet, Session

_TICK = 3.0  # the time between ticks of a session, in multiples of the longest delay; chosen
_SILENCE = 10.0  # until a neighbour may be given up, in multiples of the longest delay; chosen


class Delivery(NamedTuple):
    """A notification that has reached a client, and which of its subscriptions it matches."""

    time: float
    router: str
    client: Hashable
    event: Any
    ids: list[Any]


class Overlay:
    """A tree of routers and their clients.

    Parameters
    ----------
    edges
        Pairs of names of routers: the links. They must form a tree.
    language
        What subscriptions and events are: `Boxes` or `Conditions`.
    covering
        If False, all subscriptions are forwarded.
    seed
        Of delays and losses. The same calls give the same result.
    delay
        The shortest and the longest time that a packet takes.
    loss
        The probability that a packet is lost.
    backlog
        A silent neighbour is given up when more than this number of messages wait for it.
    graph
        Parameters of the relation graphs: `k`, `kind`, `withdraw_covered`.

    Attributes
    ----------
    time
        The clock.
    deliveries
        All notifications that have reached their clients, in order.
    dropped
        How many messages waited for a neighbour when it was given up, by router and neighbour.

    >>> from tocsin.routing import Boxes
    >>> overlay = Overlay([("a", "b"), ("b", "c")], Boxes(1))
    >>> overlay.subscribe("a", "ann", "wide", [0], [10])
    >>> overlay.subscribe("a", "ann", "narrow", [2], [3])
    >>> overlay.run()
    >>> overlay.is_established("a", "ann", "narrow")
    True
    >>> overlay.publish("c", [2])
    >>> overlay.run()
    >>> [(each.client, each.event, each.ids) for each in overlay.deliveries]
    [('ann', [2], ['wide', 'narrow'])]
    >>> overlay.table_sizes()
    {'a': 2, 'b': 1, 'c': 1}
    """

    def __init__(
        self,
        edges: Iterable[tuple[str, str]],
        language: Language,
        covering: bool = True,
        seed: int = 0,
        delay: tuple[float, float] = (0.5, 1.5),
        loss: float = 0.0,
        backlog: int = BACKLOG,
        **graph: Any,
    ):
        neighbours = _neighbours(list(edges))
        if not 0 <= delay[0] <= delay[1] or not 0 <= loss < 1:
            raise RoutingError(
                "delay must be two times, the shortest first, and loss at least 0 and less than 1; "
                f"got {delay!r} and {loss!r}"
            )
        self._options: dict[str, Any] = {"language": language, "covering": covering, **graph}
        self.routers = {
            name: Router(name, each, **self._options) for name, each in neighbours.items()
        }
        self._sent: Counter[str] = Counter()  # by routers that have ended
        self.time = 0.0
        self.deliveries: list[Delivery] = []
        self._delay, self._loss, self._random = delay, loss, random.Random(seed)
        self.dropped: Counter[tuple[str, str]] = Counter()
        self._backlog, self._silence = backlog, _SILENCE * delay[1]
        self._established: set[tuple[str, Hashable, Hashable]] = set()
        self._epochs = itertools.count(1)
        first = next(self._epochs)
        # By router and neighbour.
        self._sessions = {
            (name, other): Session(first) for name, each in neighbours.items() for other in each
        }
        self._heard = dict.fromkeys(self._sessions, 0.0)  # when a neighbour answered, or owed none
        self._down: set[frozenset[str]] = set()
        self._ticking: set[tuple[str, str]] = set()
        self._agenda: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._counter = itertools.count()
        for name, other in self._sessions:
            self._transmit(name, other)

    # ------------------------------------------------------------ clients

    def subscribe(self, router: str, client: Hashable, id: Hashable, *subscription: Any) -> None:
        """Subscribe at a router."""
        self._send(router, self._router(router).subscribe(client, id, *subscription))

    def unsubscribe(self, router: str, client: Hashable, id: Hashable) -> None:
        """Unsubscribe at a router."""
        self._established.discard((router, client, id))
        self._send(router, self._router(router).unsubscribe(client, id))

    def publish(self, router: str, event: Any) -> None:
        """Publish an event at a router."""
        self._send(router, self._router(router).publish(event))

    def is_established(self, router: str, client: Hashable, id: Hashable) -> bool:
        """Return whether a subscription is established at all routers, and its client knows."""
        return (router, client, id) in self._established

    # ------------------------------------------------------------ links and time

    def disconnect(self, router: str, other: str) -> None:
        """Interrupt a link; packets on their way are lost."""
        self._down.add(self._edge(router, other))

    def connect(self, router: str, other: str) -> None:
        """Restore a link."""
        self._down.discard(self._edge(router, other))
        self._transmit(router, other)
        self._transmit(other, router)

    def restart(self, router: str) -> None:
        """End a router and start it again: it has lost its state, its clients and their events."""
        self._sent += self._router(router).sent
        epoch = next(self._epochs)
        neighbours = [other for name, other in self._sessions if name == router]
        self.routers[router] = Router(router, neighbours, first=epoch << 32, **self._options)
        self._established = {each for each in self._established if each[0] != router}
        for other in neighbours:
            self._sessions[router, other] = Session(epoch)
            self._heard[router, other] = self.time
            self._transmit(router, other)

    def run(self, until: float = float("inf")) -> None:
        """Let time pass until then, or until all is quiet.

        All is quiet if only links that are down keep messages from arriving.
        """
        while self._agenda and self._agenda[0][0] <= until:
            self.time, _, action, arguments = heapq.heappop(self._agenda)
            action(*arguments)
        if until < float("inf"):
            self.time = max(self.time, until)

    # ------------------------------------------------------------ results

    @property
    def messages(self) -> Counter[str]:
        """How many messages routers have sent, by kind; packets that were repeated count once."""
        return sum((each.sent for each in self.routers.values()), self._sent)

    def table_sizes(self) -> dict[str, int]:
        """Return how many subscriptions each router has, of clients and from neighbours."""
        return {name: sum(each.table_sizes().values()) for name, each in self.routers.items()}

    # ------------------------------------------------------------ steps

    def _send(self, router: str, outgoing: list[Outgoing]) -> None:
        touched: dict[str, None] = {}
        for to, message in outgoing:
            if isinstance(to, Client):
                self._tell(router, to.name, message)
            else:
                session = self._sessions[router, to.name]
                if not session.unacknowledged:
                    self._heard[router, to.name] = self.time
                session.send(message)
                touched[to.name] = None
        for each in touched:
            self._give_up_if_silent(router, each)
            self._transmit(router, each)

    def _give_up_if_silent(self, router: str, other: str) -> None:
        """Drop what waits for a neighbour that does not answer, if it is too much; see `Router`."""
        session = self._sessions[router, other]
        is_silent = self.time - self._heard[router, other] > self._silence
        most = self._backlog + len(self.routers[router].forwarded(other))
        if is_silent and session.unacknowledged > most:
            self.dropped[router, other] += len(session.give_up(next(self._epochs)))
            self._send(router, self.routers[router].restart(other))

    def _tell(self, router: str, client: Hashable, message: Any) -> None:
        match message:
            case Established(id):
                self._established.add((router, client, id))
            case Notification(event, ids):
                self.deliveries.append(Delivery(self.time, router, client, event, ids))

    def _transmit(self, router: str, other: str) -> None:
        session = self._sessions[router, other]
        if frozenset((router, other)) in self._down:
            return
        for packet in session.packets():
            if self._random.random() >= self._loss:
                self._after(self._random.uniform(*self._delay), self._arrive, other, router, packet)
        if not session.is_idle and (router, other) not in self._ticking:
            self._ticking.add((router, other))
            self._after(_TICK * self._delay[1], self._tick, router, other)

    def _tick(self, router: str, other: str) -> None:
        self._ticking.discard((router, other))
        self._sessions[router, other].tick()
        self._transmit(router, other)

    def _arrive(self, router: str, sender: str, packet: Packet) -> None:
        if frozenset((router, sender)) in self._down:
            return
        self._heard[router, sender] = self.time
        received = self._sessions[router, sender].receive(packet)
        if received.restarted:
            self._send(router, self.routers[router].restart(sender))
        for message in received.messages:
            self._send(router, self.routers[router].receive(sender, message))
        self._transmit(router, sender)

    def _after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        item = (self.time + delay, next(self._counter), action, arguments)
        heapq.heappush(self._agenda, item)

    def _router(self, name: str) -> Router:
        if name not in self.routers:
            raise RoutingError(f"there is no router {name!r}{suggest(name, self.routers)}")
        return self.routers[name]

    def _edge(self, router: str, other: str) -> frozenset[str]:
        if (router, other) not in self._sessions:
            raise RoutingError(f"there is no link between {router!r} and {other!r}")
        return frozenset((router, other))


def _neighbours(edges: list[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the neighbours of each router; raise unless the links form a tree."""
    neighbours: dict[str, list[str]] = {}
    for one, other in edges:
        neighbours.setdefault(one, []).append(other)
        neighbours.setdefault(other, []).append(one)
    reached: set[str] = set()
    waiting = deque(list(neighbours)[:1])
    while waiting:
        each = waiting.popleft()
        reached.add(each)
        waiting.extend(other for other in neighbours[each] if other not in reached)
    if not edges or len(reached) < len(neighbours) or len(edges) != len(neighbours) - 1:
        raise RoutingError(
            f"the links of {len(neighbours)} routers must form a tree: {len(neighbours) - 1} links "
            f"that connect all of them; got {len(edges)} links, which connect {len(reached)}"
        )
    return neighbours
