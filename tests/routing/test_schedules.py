"""Nothing that is due is lost or arrives twice, whatever happens to links and when."""

import os

import pytest

from tests.routing.schedules import BoxWorkload, ConditionWorkload, run_all
from tocsin.routing.router import Router, Subscribe, Unsubscribe
from tocsin.routing.session import Received, Session

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
SCHEDULES = {BoxWorkload: 10_000 if LONG else 300, ConditionWorkload: 300 if LONG else 15}


@pytest.mark.parametrize("workload", SCHEDULES, ids=lambda each: each.__name__)
def test_what_is_due_arrives_once(workload):
    totals = run_all(range(SCHEDULES[workload]), workload)
    print(dict(totals))
    assert totals["due"] > totals["schedules"]


@pytest.mark.parametrize("workload", SCHEDULES, ids=lambda each: each.__name__)
def test_failures_lose_what_is_on_its_way_through_them_and_nothing_else(workload):
    totals = run_all(range(SCHEDULES[workload]), workload, failures=True)
    print(dict(totals))
    assert totals["due"] > totals["schedules"]
    assert totals["restarted"] > 0
    assert workload is ConditionWorkload or totals["given up"] > 0


def withdraw_first(monkeypatch):
    def tell(self, link, change):
        for id in change.withdraw:
            self._send(link.source, Unsubscribe(id))
        for id in change.forward:
            self._send(link.source, Subscribe(id, self._subscriptions[id].content))

    monkeypatch.setattr(Router, "_tell", tell)


def acknowledge_at_once(monkeypatch):
    add = Router._add

    def add_and_settle(self, id, added):
        add(self, id, added)
        for link in self._links_but(added.source):
            self._settle(link, id)

    monkeypatch.setattr(Router, "_add", add_and_settle)


def settle_what_is_covered(monkeypatch):
    """Take a subscription for settled if it is covered, though what covers it may not be."""

    def settle_if_covered(self, link, id):
        if link.graph.edges_into(id):
            self._settle(link, id)

    monkeypatch.setattr(Router, "_settle_if_covered", settle_if_covered)


def never_send_again(monkeypatch):
    monkeypatch.setattr(Session, "tick", lambda self: None)
    monkeypatch.setattr(Session, "is_idle", True)  # or the simulation would never end


def forget_what_came_early(monkeypatch):
    receive = Session.receive

    def receive_in_order(self, packet):
        if packet.number > self._received:  # pretend that there was no gap
            self._received = packet.number
        return receive(self, packet)

    monkeypatch.setattr(Session, "receive", receive_in_order)


def accept_duplicates(monkeypatch):
    receive = Session.receive

    def receive_again(self, packet):
        messages, restarted = receive(self, packet)
        duplicate = 0 <= packet.number < self._received and not messages
        return Received(messages + [packet.message] * duplicate, restarted)

    monkeypatch.setattr(Session, "receive", receive_again)


@pytest.mark.parametrize(
    "defect",
    [
        withdraw_first,
        acknowledge_at_once,
        settle_what_is_covered,
        never_send_again,
        forget_what_came_early,
        accept_duplicates,
    ],
    ids=lambda each: each.__name__,
)
def test_schedules_find_defects(defect, monkeypatch):
    defect(monkeypatch)
    with pytest.raises(Exception) as failure:  # noqa: PT011
        run_all(range(SCHEDULES[BoxWorkload]))
    print(repr(failure.value), failure.value.__notes__)


def keep_what_the_ended_one_sent(monkeypatch):
    def restart(self, neighbour):
        link = self._link(neighbour)
        link.settled.clear()
        for id in link.graph.forwarded:
            self._send(link.source, Subscribe(id, self._subscriptions[id].content))
        return self._flush()

    monkeypatch.setattr(Router, "restart", restart)


def send_nothing_again(monkeypatch):
    restart = Router.restart
    monkeypatch.setattr(Router, "restart", lambda self, other: restart(self, other) and [])


def accept_packets_of_the_ended_one(monkeypatch):
    receive = Session.receive

    def receive_old(self, packet):
        received = receive(self, packet)
        if 0 < packet.epoch < self.peer and packet.number >= 0:
            received.messages.append(packet.message)
        return received

    monkeypatch.setattr(Session, "receive", receive_old)


def keep_the_queue(monkeypatch):
    """What waits for a process that has ended is sent to its successor."""
    receive = Session.receive

    def receive_and_keep(self, packet):
        waiting = list(self._queue)
        received = receive(self, packet)
        if received.restarted:
            self._queue.extend(waiting)
        return received

    monkeypatch.setattr(Session, "receive", receive_and_keep)


@pytest.mark.parametrize(
    "defect",
    [
        keep_what_the_ended_one_sent,
        send_nothing_again,
        accept_packets_of_the_ended_one,
        keep_the_queue,
    ],
    ids=lambda each: each.__name__,
)
def test_failures_find_defects(defect, monkeypatch):
    defect(monkeypatch)
    with pytest.raises(Exception) as failure:  # noqa: PT011
        run_all(range(SCHEDULES[BoxWorkload]), failures=True)
    print(repr(failure.value), failure.value.__notes__)
