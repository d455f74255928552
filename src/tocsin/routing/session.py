"""A session: messages exactly once and in order, over a transport that loses and reorders packets.

Messages are numbered, and every packet tells how many have been received without a gap. What is not
acknowledged is sent again. At most `WINDOW` messages are on their way; others wait.

Each side has an *epoch*, a number that is larger after every start. No message is sent before the
epoch of the other side is known, and a packet is accepted only if it was meant for this epoch. So a
message to a process that has ended never reaches its successor. If the other side comes back with a
larger epoch, it has lost its state, and numbers begin again. A side that gives the other one up
does the same on purpose.

There are no sockets and no clock here. The owner transmits what `packets` returns after each call
of `send`, `receive` and `tick`, and calls `tick` from time to time.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

WINDOW = 256  # messages on their way; chosen: a few round trips of a busy link


class Packet(NamedTuple):
    """What goes over the transport."""

    epoch: int  # of the sender
    peer: int  # the receiver's epoch, as far as the sender knows; 0 if it does not
    received: int  # messages that the sender has received
    number: int  # of the message; -1 if there is none
    message: Any = None


class Received(NamedTuple):
    """What a packet brought."""

    messages: list[Any]
    restarted: bool  # the other side has lost its state; messages are of its new epoch


class Session:
    """One side of a session.

    >>> left, right = Session(epoch=1), Session(epoch=1)
    >>> for packet in left.packets():  # both sides introduce themselves
    ...     right.receive(packet)
    Received(messages=[], restarted=False)
    >>> for packet in right.packets():
    ...     left.receive(packet)
    Received(messages=[], restarted=False)
    >>> left.send("one"), left.send("two")
    (None, None)
    >>> first, second = left.packets()
    >>> right.receive(second)
    Received(messages=[], restarted=False)
    >>> right.receive(first)
    Received(messages=['one', 'two'], restarted=False)
    >>> right.receive(second)
    Received(messages=[], restarted=False)
    """

    def __init__(self, epoch: int, window: int = WINDOW):
        self.epoch, self._window = epoch, window
        self.peer = 0  # the other side's epoch, if known
        self._queue: deque[Any] = deque()  # messages that are not acknowledged
        self._must_answer = True
        self._begin()

    def _begin(self) -> None:
        """Begin to count from 0."""
        self._acknowledged = 0  # messages that the other side has received
        self._transmitted = 0
        self._old = 0  # messages that were transmitted before the last tick
        self._again = 0  # messages below this number are transmitted again
        self._received = 0
        self._early: dict[int, Any] = {}  # messages that came before their turn

    @property
    def unacknowledged(self) -> int:
        """The number of messages that the other side has not acknowledged."""
        return len(self._queue)

    @property
    def is_idle(self) -> bool:
        """Whether a tick would do nothing."""
        return bool(self.peer) and not self._queue

    def send(self, message: Any) -> None:
        """Queue a message."""
        self._queue.append(message)

    def receive(self, packet: Packet) -> Received:
        """Handle a packet; return the messages whose turn it is."""
        if packet.epoch < self.peer:
            return Received([], False)  # of a process that has ended
        restarted = packet.epoch > self.peer > 0
        if restarted:
            self._queue.clear()
            self._begin()
        if packet.epoch > self.peer:
            self.peer, self._must_answer = packet.epoch, True
        if packet.peer != self.epoch:
            self._must_answer = True  # it does not know this epoch yet
            return Received([], restarted)
        # No more than was transmitted, whatever a packet of someone else claims.
        while self._acknowledged < min(packet.received, self._transmitted):
            self._queue.popleft()
            self._acknowledged += 1
        messages = []
        if packet.number >= 0:
            self._must_answer = True  # also to a duplicate: the acknowledgement may be lost
            if packet.number >= self._received:
                self._early[packet.number] = packet.message
            while self._received in self._early:
                messages.append(self._early.pop(self._received))
                self._received += 1
        return Received(messages, restarted)

    def tick(self) -> None:
        """Have everything transmitted again that was transmitted before the last tick."""
        self._must_answer |= not self.peer
        self._again, self._old = self._old, self._transmitted

    def give_up(self, epoch: int) -> list[Any]:
        """Begin again with a larger epoch, as after a restart; return the messages not sent.

        The other side will take this one for restarted.
        """
        waiting = list(self._queue)
        self._queue.clear()
        self.epoch, self.peer, self._must_answer = epoch, 0, True
        self._begin()
        return waiting

    def remind(self) -> None:
        """Have a packet transmitted even if there is nothing to tell, as a sign of life."""
        self._must_answer = True

    def packets(self) -> list[Packet]:
        """Return the packets to transmit now."""
        if not self.peer:
            return [self._packet(-1)] if self._take_answer() else []
        last = self._acknowledged + min(len(self._queue), self._window)
        numbers = [*range(self._acknowledged, min(self._again, last))]
        numbers += range(max(self._transmitted, self._acknowledged), last)
        self._transmitted, self._again = max(self._transmitted, last), 0
        packets = [self._packet(each, self._queue[each - self._acknowledged]) for each in numbers]
        if self._take_answer() and not packets:
            packets.append(self._packet(-1))
        return packets

    def _take_answer(self) -> bool:
        must_answer, self._must_answer = self._must_answer, False
        return must_answer

    def _packet(self, number: int, message: Any = None) -> Packet:
        return Packet(self.epoch, self.peer, self._received, number, message)
