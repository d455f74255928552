"""A session delivers exactly once and in order, whatever the transport does."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.routing.session import Packet, Session

# What happens next: a side sends a message or ticks; a packet on its way to a side is delivered,
# delivered but kept (duplicated), or lost.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "tick", "deliver", "deliver", "duplicate", "lose"]),
        st.booleans(),
        st.integers(0, 10**6),
    ),
    max_size=120,
)


class Pair:
    """Two sides, and the packets on their way to each."""

    def __init__(self, window=4):
        self.sides = [Session(10, window), Session(20, window)]
        self.sent, self.received, self.packets = ([], []), ([], []), ([], [])
        self.transmit()

    def transmit(self):
        for side in (0, 1):
            self.packets[1 - side].extend(self.sides[side].packets())

    def receive(self, side, packet):
        messages, restarted = self.sides[side].receive(packet)
        self.received[side].extend(messages)
        assert not restarted

    def step(self, action, side, choice):
        waiting = self.packets[side]
        if action == "send":
            self.sent[side].append(len(self.sent[side]))
            self.sides[side].send(self.sent[side][-1])
        elif action == "tick":
            self.sides[side].tick()
        elif waiting:
            packet = waiting[choice % len(waiting)]
            if action != "duplicate":
                waiting.remove(packet)
            if action != "lose":
                self.receive(side, packet)
        self.transmit()

    def finish(self):
        for _ in range(100):
            for side in (0, 1):
                while self.packets[side]:
                    self.receive(side, self.packets[side].pop())
                    self.transmit()
                self.sides[side].tick()
            self.transmit()


@given(STEPS)
def test_exactly_once_and_in_order(steps):
    pair = Pair()
    for action, side, choice in steps:
        pair.step(action, int(side), choice)
        for side in (0, 1):
            received = pair.received[1 - side]
            assert received == pair.sent[side][: len(received)]
            assert len(pair.packets[side]) < 1000
    pair.finish()
    for side in (0, 1):
        assert pair.received[1 - side] == pair.sent[side]
        assert pair.sides[side].is_idle
        assert pair.sides[side].unacknowledged == 0
        assert not pair.packets[side]


def connected(left, right):
    for _ in range(2):
        for one, other in ((left, right), (right, left)):
            for packet in one.packets():
                other.receive(packet)


def test_nothing_is_sent_to_an_unknown_epoch():
    session = Session(1)
    session.send("hello")
    assert session.packets() == [Packet(1, 0, 0, -1)]
    assert session.packets() == []
    session.tick()
    assert session.packets() == [Packet(1, 0, 0, -1)]
    session.receive(Packet(7, 0, 0, -1))
    assert session.packets() == [Packet(1, 7, 0, 0, "hello")]


def test_what_was_sent_a_moment_ago_is_not_sent_again():
    left, right = Session(1), Session(2)
    connected(left, right)
    left.send("one")
    assert [each.message for each in left.packets()] == ["one"]
    left.tick()
    assert left.packets() == []
    left.tick()
    assert [each.message for each in left.packets()] == ["one"]


def test_a_window_limits_what_is_on_its_way():
    left, right = Session(1, window=2), Session(2)
    connected(left, right)
    for each in range(5):
        left.send(each)
    first = left.packets()
    assert [each.message for each in first] == [0, 1]
    assert left.packets() == []
    for each in first:
        right.receive(each)
    (acknowledgement,) = right.packets()
    left.receive(acknowledgement)
    assert [each.message for each in left.packets()] == [2, 3]


def test_the_other_side_restarts():
    left, right = Session(1), Session(2)
    connected(left, right)
    left.send("lost")
    late = left.packets()
    successor = Session(3)
    successor.send("first")
    for packet in successor.packets():
        assert left.receive(packet) == ([], True)
    for packet in late:  # it was meant for the predecessor
        assert successor.receive(packet).messages == []
    left.send("new")
    connected(successor, left)
    assert left.unacknowledged == successor.unacknowledged == 0
    stale = Packet(2, 1, 0, 0, "of the predecessor")
    assert left.receive(stale) == ([], False)


def test_a_sign_of_life():
    left, right = Session(1), Session(2)
    connected(left, right)
    left.tick()
    assert left.packets() == []
    left.remind()
    assert left.packets() == [Packet(1, 2, 0, -1)]
