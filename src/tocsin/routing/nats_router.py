"""A router as a process that talks to its neighbours and clients over NATS."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

from tocsin.errors import RoutingError, TocsinError
from tocsin.routing.languages import Language
from tocsin.routing.nats_transport import (
    TICK,
    URL,
    Done,
    Envelope,
    Leave,
    Refused,
    Request,
    decode,
    new_epoch,
    open_connection,
    subject,
    transmit,
)
from tocsin.routing.router import (
    BACKLOG,
    Client,
    Established,
    Neighbour,
    Outgoing,
    Publish,
    Router,
    Subscribe,
    Unsubscribe,
)
from tocsin.routing.session import Session

SILENCE = 60.0  # seconds after which a client or neighbour that is silent is given up; chosen


class RouterProcess:
    """A router and its sessions.

    A client that is silent for `SILENCE` seconds, or does not keep up, loses its subscriptions, and
    gets an error if it comes back. Messages for a neighbour wait in memory until it acknowledges
    them. If it is silent for `SILENCE` seconds and more than `BACKLOG` wait, they are dropped, and
    so are its subscriptions; when it is back, both sides send each other theirs again.
    """

    def __init__(
        self,
        name: str,
        neighbours: Iterable[str],
        language: Language,
        report: Callable[[str], None],
    ):
        self._subjects: dict[Neighbour | Client, str] = {}
        self._own_subject = subject(name)
        self._epoch = new_epoch()
        self.router = Router(name, neighbours, language, first=self._epoch)
        self._report = report
        self._sessions: dict[Neighbour | Client, Session] = {}
        self._heard: dict[Neighbour | Client, float] = {}
        self._requests: dict[tuple[Client, Any], int] = {}  # subscriptions not yet established
        self._checked: set[Neighbour] = set()  # those with the same language
        self._reported: set[str] = set()
        self._left: set[Client] = set()
        self._touched: dict[Neighbour | Client, None] = {}  # sessions that may have packets
        self._connection: Any = None
        self._failure: Exception | None = None
        for each in map(Neighbour, neighbours):
            self._subjects[each] = subject(each.name)
            self._sessions[each] = Session(self._epoch)
            self._heard[each] = time.monotonic()

    async def run(self, url: str = URL, stop: asyncio.Event | None = None) -> None:
        """Route until `stop` is set; raise if routers turn out not to be a tree."""
        stop = stop or asyncio.Event()
        self._connection = await open_connection(url)
        try:
            await self._connection.subscribe(self._own_subject, cb=self._handle)
            await self._connection.flush()
            self._report(f"router {self.router.name} is ready")
            while not stop.is_set():
                if self._failure is not None:
                    raise self._failure
                await self._tick()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), TICK)
        finally:
            with contextlib.suppress(Exception):  # the server may be gone
                await asyncio.wait_for(self._connection.close(), 2)

    # ------------------------------------------------------------ packets

    async def _handle(self, received: Any) -> None:
        try:
            await self._accept(received.data)
        except Exception as error:  # nats-py would only log it
            self._failure = self._failure or error

    async def _accept(self, data: bytes) -> None:
        envelope = decode(data)
        if envelope is None:
            self._report_once("a message that no router sends was ignored")
            return
        source = self._source(envelope)
        if source is None:
            return
        session = self._sessions[source]
        waiting = session.unacknowledged
        messages, restarted = session.receive(envelope.packet)
        self._heard[source] = time.monotonic()
        if isinstance(source, Client):
            if restarted:
                self._remove_subscriptions(source)
            for each in messages:
                self._answer(source, each)
        else:
            if restarted:
                self._report(
                    f"router {source.name} has restarted; it gets all subscriptions again"
                    + (f", and {waiting:,} messages for it are dropped" if waiting else "")
                )
                self._send(self.router.restart(source.name))
            for each in messages:
                self._send(self.router.receive(source.name, each))
        self._touched[source] = None
        await self._transmit()

    def _source(self, envelope: Envelope) -> Neighbour | Client | None:
        """Return whom a packet comes from; None if it is not to be answered."""
        name = envelope.sender
        if envelope.is_client:
            client = Client(name)
            if client not in self._sessions:
                # A client that was forgotten learns of it by the larger epoch.
                self._sessions[client] = Session(new_epoch())
                self._subjects[client] = subject(self.router.name, name)
            return client
        neighbour = Neighbour(name)
        if neighbour not in self._sessions:
            self._report_once(
                f"router {name} takes this router for its neighbour, but was not given as one: "
                f"start this one with --neighbour {name}"
            )
            return None
        if neighbour not in self._checked:
            if envelope.language != self.router.language.name:
                self._report_once(
                    f"router {name} has another schema ({envelope.language}) and is ignored: start "
                    "it with the same one"
                )
                return None
            self._checked.add(neighbour)
        return neighbour

    async def _transmit(self) -> None:
        touched, self._touched = self._touched, {}
        for to in touched:
            if to in self._sessions:
                for packet in self._sessions[to].packets():
                    envelope = Envelope(False, self.router.name, self.router.language.name, packet)
                    await transmit(self._connection, self._subjects[to], envelope)

    async def _tick(self) -> None:
        self._forget_clients()
        self._give_up_neighbours()
        for to, session in self._sessions.items():
            session.tick()
            self._touched[to] = None
        await self._transmit()

    def _forget_clients(self) -> None:
        now = time.monotonic()
        for client, heard in list(self._heard.items()):
            if isinstance(client, Neighbour):
                continue
            waiting = self._sessions[client].unacknowledged
            if now - heard > SILENCE or waiting > BACKLOG:
                if client not in self._left:
                    self._report(
                        f"client {client.name} is forgotten: it was silent for {now - heard:.0f} "
                        f"s, and {waiting:,} messages wait for it"
                    )
                self._remove_subscriptions(client)
                self._left.discard(client)
                del self._sessions[client], self._subjects[client], self._heard[client]

    def _give_up_neighbours(self) -> None:
        now = time.monotonic()
        for to, session in self._sessions.items():
            if isinstance(to, Client):
                continue
            waiting = session.unacknowledged
            if not waiting:
                self._heard[to] = now  # there is nothing to answer
            most = BACKLOG + len(self.router.forwarded(to.name))
            if waiting > most and now - self._heard[to] > SILENCE:
                dropped = session.give_up(new_epoch())
                events = sum(isinstance(each, Publish) for each in dropped)
                self._report(
                    f"router {to.name} was silent for {now - self._heard[to]:.0f} s: {waiting:,} "
                    f"messages for it are dropped, {events:,} of them events; when it is back, it "
                    "gets all subscriptions again"
                )
                self._send(self.router.restart(to.name))

    def _remove_subscriptions(self, client: Client) -> None:
        self._send(self.router.remove_client(client.name))
        self._requests = {key: n for key, n in self._requests.items() if key[0] != client}

    # ------------------------------------------------------------ messages

    def _answer(self, client: Client, request: Request) -> None:
        number, message = request
        try:
            match message:
                case Subscribe(id, content):
                    outgoing = self.router.subscribe(client.name, id, *content)
                    self._requests[client, id] = number  # done when it is established
                    self._send(outgoing)
                    return
                case Unsubscribe(id):
                    self._send(self.router.unsubscribe(client.name, id))
                    waiting = self._requests.pop((client, id), None)
                    if waiting is not None:
                        self._sessions[client].send(Refused(waiting, f"{id!r} was unsubscribed"))
                case Publish(event):
                    self._send(self.router.publish(event))
                case Leave():
                    self._remove_subscriptions(client)
                    self._left.add(client)
                case _:
                    raise RoutingError(f"client {client.name!r} sent {message!r}")
        except (TocsinError, TypeError) as error:
            self._sessions[client].send(Refused(number, str(error)))
        else:
            self._sessions[client].send(Done(number))

    def _send(self, outgoing: list[Outgoing]) -> None:
        for to, message in outgoing:
            if isinstance(to, Client) and isinstance(message, Established):
                self._sessions[to].send(Done(self._requests.pop((to, message.id))))
            else:
                self._sessions[to].send(message)
            self._touched[to] = None

    def _report_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            self._report(message)
