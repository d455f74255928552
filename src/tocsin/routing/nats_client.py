"""A client of a router, over NATS."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

from tocsin.errors import RoutingError
from tocsin.routing.nats_transport import (
    TICK,
    URL,
    Done,
    Envelope,
    Leave,
    Refused,
    Request,
    decode,
    encode,
    new_epoch,
    open_connection,
    subject,
    transmit,
)
from tocsin.routing.router import Notification, Publish, Subscribe, Unsubscribe
from tocsin.routing.session import Packet, Session

_ANSWER = 5.0  # seconds to wait for the router's first answer; chosen
_SIGN_OF_LIFE = 10.0  # seconds; a router forgets clients that are silent for six times as long
_ENVELOPE = 4096  # bytes of a message that are not the user's, at most


class RouterClient:
    """A client of a router: ``async with RouterClient("a") as client: ...``.

    Parameters
    ----------
    router
        The name of the router.
    url
        The address of the NATS server.
    name
        Different from those of the router's other clients; by default a random one.

    It is an asynchronous iterator over `Notification`. If the router has lost its state, or has
    forgotten this client, all that waits raises `RoutingError`; connect and subscribe again then.
    """

    def __init__(self, router: str, url: str = URL, name: str | None = None):
        self.router, self.name, self._url = router, name or uuid.uuid4().hex, url
        self._own_subject, self._subject = subject(router, self.name), subject(router)
        self._session = Session(new_epoch())
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._notifications: asyncio.Queue[Notification | None] = asyncio.Queue()
        self._ready = asyncio.Event()
        self._failure: str | None = None
        self._connection: Any = None
        self._ticking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> RouterClient:
        self._connection = await open_connection(self._url)
        await self._connection.subscribe(self._own_subject, cb=self._handle)
        self._ticking = asyncio.create_task(self._tick())
        try:
            await asyncio.wait_for(self._ready.wait(), _ANSWER)
        except TimeoutError:
            await self._close()
            raise RoutingError(
                f"router {self.router!r} does not answer: start it with `tocsin router "
                f"{self.router}`, on the same NATS server"
            ) from None
        return self

    async def __aexit__(self, *error: object) -> None:
        with contextlib.suppress(RoutingError, TimeoutError):
            await asyncio.wait_for(self._request(Leave()), 2)
        await self._close()

    async def subscribe(self, id: str, where: str) -> None:
        """Subscribe to events that satisfy a condition; return when all routers know it."""
        await self._request(Subscribe(id, [where]))

    async def unsubscribe(self, id: str) -> None:
        """Unsubscribe."""
        await self._request(Unsubscribe(id))

    async def publish(self, event: dict[str, Any]) -> None:
        """Publish an event; return when the router has it."""
        await self._request(Publish(event))

    def __aiter__(self) -> AsyncIterator[Notification]:
        return self

    async def __anext__(self) -> Notification:
        notification = await self._notifications.get()
        if notification is None:
            self._notifications.put_nowait(None)
            if self._failure is not None:
                raise RoutingError(self._failure)
            raise StopAsyncIteration
        return notification

    # ------------------------------------------------------------ steps

    async def _request(self, message: Any) -> None:
        if self._failure is not None:
            raise RoutingError(self._failure)
        if self._ticking is None or self._ticking.done():
            raise RoutingError(
                f"client {self.name!r} is not connected: use `async with RouterClient(...)`"
            )
        self._numbers += 1
        request = Request(self._numbers, message)
        size = len(encode(self._envelope(Packet(0, 0, 0, 0, request))))
        if size > self._connection.max_payload - _ENVELOPE:
            raise RoutingError(
                f"a message of {size:,} bytes is too large for the NATS server, whose max_payload "
                f"is {self._connection.max_payload:,}"
            )
        future = asyncio.get_running_loop().create_future()
        self._waiting[request.number] = future
        self._session.send(request)
        await self._transmit()
        await future

    async def _handle(self, received: Any) -> None:
        envelope = decode(received.data)
        if envelope is None or envelope.is_client or envelope.sender != self.router:
            return
        messages, restarted = self._session.receive(envelope.packet)
        if restarted:
            self._fail(
                f"router {self.router!r} has restarted, or has forgotten client {self.name!r}: "
                "connect and subscribe again"
            )
            return
        self._ready.set()
        for each in messages:
            match each:
                case Done(number):
                    self._resolve(number, None)
                case Refused(number, reason):
                    self._resolve(number, reason)
                case Notification():
                    self._notifications.put_nowait(each)
        await self._transmit()

    def _resolve(self, number: int, reason: str | None) -> None:
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            if reason is None:
                future.set_result(None)
            else:
                future.set_exception(RoutingError(reason))

    def _fail(self, reason: str) -> None:
        if self._failure is None:
            self._failure = reason
            for number in list(self._waiting):
                self._resolve(number, reason)
            self._notifications.put_nowait(None)

    async def _transmit(self) -> None:
        for packet in self._session.packets():
            await transmit(self._connection, self._subject, self._envelope(packet))

    def _envelope(self, packet: Packet) -> Envelope:
        return Envelope(True, self.name, "", packet)

    async def _tick(self) -> None:
        silence = 0.0
        while self._failure is None:
            silence += TICK
            if silence >= _SIGN_OF_LIFE:
                self._session.remind()
                silence = 0.0
            self._session.tick()
            await self._transmit()
            await asyncio.sleep(TICK)

    async def _close(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self._notifications.put_nowait(None)
        for number in list(self._waiting):
            self._resolve(number, "the client was closed")
        with contextlib.suppress(Exception):  # the server may be gone
            await asyncio.wait_for(self._connection.close(), 2)
