"""What routers and their clients share that talk over NATS: subjects, JSON, the connection.

NATS delivers at most once, and loses what is sent while a process is not connected. So it carries
the packets of a `Session`. Each router and each client listens to a subject of its own; a packet
says whom it comes from.
"""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import json
import re
import time
from typing import Any, NamedTuple

from tocsin.errors import RoutingError
from tocsin.routing.router import (
    Established,
    Message,
    Notification,
    Publish,
    Subscribe,
    Unsubscribe,
)
from tocsin.routing.session import Packet

URL = "nats://127.0.0.1:4222"  # where a nats-server listens by default
TICK = 0.5  # seconds until what is not acknowledged is sent again, once or twice; chosen
_ANSWER = 5.0  # seconds to wait for a server's first answer; chosen


class Request(NamedTuple):
    """A client's message, numbered, so that there can be an answer."""

    number: int
    message: Message | Leave


class Leave(NamedTuple):
    """A client leaves: its subscriptions can be removed."""


class Done(NamedTuple):
    """A client's request is done: a subscription is established, an event is on its way."""

    number: int


class Refused(NamedTuple):
    """A client's request is refused."""

    number: int
    reason: str


_KINDS: dict[str, Any] = {
    kind.__name__.lower(): kind
    for kind in (
        *(Subscribe, Unsubscribe, Established, Publish, Notification),
        *(Request, Leave, Done, Refused),
    )
}


class Envelope(NamedTuple):
    """A packet, whom it comes from, and what the sender takes for a subscription."""

    is_client: bool
    sender: str
    language: str
    packet: Packet


def encode(envelope: Envelope) -> bytes:
    """Return an envelope as JSON."""
    packet = envelope.packet
    message = None if packet.number < 0 else _encode_message(packet.message)
    return json.dumps([*envelope[:3], [*packet[:4], message]], default=_encode_value).encode()


def decode(data: bytes) -> Envelope | None:
    """Return the envelope in JSON; None if there is none."""
    try:
        is_client, sender, language, (epoch, peer, received, number, fields) = json.loads(data)
        if not isinstance(is_client, bool) or not _is_name(sender):
            return None
        if not all(isinstance(each, int) for each in (epoch, peer, received, number)):
            return None
        message = None if number < 0 else _decode_message(fields)
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    return Envelope(is_client, sender, language, Packet(epoch, peer, received, number, message))


def _encode_message(message: Any) -> list[Any]:
    fields = [_encode_message(each) if type(each) in _KINDS.values() else each for each in message]
    return [type(message).__name__.lower(), *fields]


def _decode_message(fields: list[Any]) -> Any:
    kind, *values = fields
    if kind == "request":
        values[1] = _decode_message(values[1])
    return _KINDS[kind](*values)


def _encode_value(value: Any) -> Any:
    """Return a value that JSON does not have: times and decimals as texts, NumPy's as Python's."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if hasattr(value, "item"):
        return value.item()
    raise RoutingError(f"{type(value).__name__} {value!r} cannot be written as JSON")


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]+", name) is not None


def subject(*names: str) -> str:
    """Return the subject that a router, or a client of a router, listens to."""
    for each in names:
        if not _is_name(each):
            raise RoutingError(
                "the name of a router or client must consist of letters, digits, - and _; got "
                f"{each!r}"
            )
    return ".".join(("tocsin", "client" if len(names) > 1 else "router", *names))


def new_epoch() -> int:
    """Return a number that is larger than those of earlier processes of the same name."""
    return time.time_ns()


async def open_connection(url: str) -> Any:
    """Connect with a NATS server; the connection is restored whenever it is lost."""
    try:
        import nats
    except ModuleNotFoundError:
        raise RoutingError("routers need nats-py: pip install 'tocsin[nats]'") from None

    async def ignore(error: Exception) -> None:
        """Sessions send again what was lost."""

    connecting = nats.connect(
        url,
        error_cb=ignore,
        max_reconnect_attempts=-1,
        reconnect_time_wait=TICK,
        ping_interval=10,
    )
    try:
        return await asyncio.wait_for(connecting, _ANSWER)
    except (TimeoutError, OSError, ValueError, nats.errors.Error) as error:
        reason = f" ({error})" if str(error) else ""
        raise RoutingError(
            f"no NATS server answers at {url}{reason}: start one with `nats-server`, or give the "
            "address of another one"
        ) from None


async def transmit(connection: Any, to: str, envelope: Envelope) -> None:
    """Send a packet, or lose it."""
    import nats.errors

    if connection.is_connected:
        with contextlib.suppress(nats.errors.Error):  # the session sends it again
            await connection.publish(to, encode(envelope))
