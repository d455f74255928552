"""One router: what it forwards, in which order, and when it acknowledges."""

import pytest

from tocsin import ConditionError, CoverError, EventError, RoutingError
from tocsin.routing import Boxes, Conditions, Overlay, Router
from tocsin.routing.router import (
    Client,
    Established,
    Neighbour,
    Notification,
    Outgoing,
    Publish,
    Subscribe,
    Unsubscribe,
)


def to(name, message):
    return Outgoing(Neighbour(name), message)


def told(client, id):
    return Outgoing(Client(client), Established(id))


def wide(id):
    return Subscribe(id, [[0], [10]])


def test_a_covered_subscription_is_not_forwarded():
    router = Router("a", ["b", "c"], Boxes(1))
    assert router.subscribe("ann", 1, [0], [10]) == [to("b", wide("a/1")), to("c", wide("a/1"))]
    assert router.subscribe("ann", 2, [2], [3]) == []
    assert router.forwarded("b") == ["a/1"]
    assert router.table_sizes() == {"": 2, "b": 0, "c": 0}
    assert router.sent == {"subscribe": 2}


def test_without_covering_all_are_forwarded():
    router = Router("a", ["b"], Boxes(1), covering=False)
    router.subscribe("ann", 1, [0], [10])
    assert router.subscribe("ann", 2, [2], [3]) == [to("b", Subscribe("a/2", [[2], [3]]))]
    assert router.unsubscribe("ann", 1) == [to("b", Unsubscribe("a/1"))]


def test_what_a_neighbour_sent_does_not_cover_what_it_should_know():
    """Each neighbour has a graph of what did not come from it."""
    router = Router("a", ["b", "c"], Boxes(1))
    router.receive("b", wide("b/1"))
    assert router.subscribe("ann", 1, [2], [3]) == [to("b", Subscribe("a/1", [[2], [3]]))]


def test_promotions_leave_before_the_withdrawal():
    router = Router("a", ["b"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("ann", 2, [2], [3])
    expected = [to("b", Subscribe("a/2", [[2], [3]])), to("b", Unsubscribe("a/1"))]
    assert router.unsubscribe("ann", 1) == expected


def test_a_larger_subscription_leaves_before_what_it_replaces():
    router = Router("a", ["b"], Boxes(1), withdraw_covered=True)
    router.subscribe("ann", 1, [2], [3])
    expected = [to("b", Subscribe("a/2", [[0], [10]])), to("b", Unsubscribe("a/1"))]
    assert router.subscribe("ann", 2, [0], [10]) == expected
    # The acknowledgement of what covers it settles the withdrawn one, too.
    assert router.receive("b", Established("a/2")) == [told("ann", 2), told("ann", 1)]


def test_established_when_all_neighbours_have_acknowledged():
    router = Router("a", ["b", "c"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("ann", 2, [2], [3])
    assert router.receive("b", Established("a/1")) == []
    assert router.pending == 2
    assert router.receive("c", Established("a/1")) == [told("ann", 1), told("ann", 2)]
    assert router.pending == 0
    assert router.subscribe("ann", 3, [4], [5]) == [told("ann", 3)]
    assert router.receive("c", Established("a/1")) == []


def test_a_neighbour_is_told_when_it_is_established_beyond():
    router = Router("b", ["a", "c"], Boxes(1))
    assert router.receive("a", wide("a/1")) == [to("c", wide("a/1"))]
    assert router.receive("c", Established("a/1")) == [to("a", Established("a/1"))]
    leaf = Router("c", ["b"], Boxes(1))
    assert leaf.receive("b", wide("a/1")) == [to("b", Established("a/1"))]


def test_a_subscription_that_waits_for_what_covers_it_can_outlive_it():
    router = Router("a", ["b"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("ann", 2, [2], [3])
    router.unsubscribe("ann", 1)
    assert router.receive("b", Established("a/1")) == []  # too late: it is gone
    assert router.receive("b", Established("a/2")) == [told("ann", 2)]


def test_a_late_acknowledgement_is_not_taken_for_a_new_subscription():
    router = Router("a", ["b"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.unsubscribe("ann", 1)
    assert router.subscribe("ann", 1, [0], [10]) == [to("b", wide("a/2"))]
    assert router.receive("b", Established("a/1")) == []


def test_a_new_edge_from_a_settled_subscription_settles():
    """When what covers it goes, another one that is settled covers it."""
    router = Router("a", ["b"], Boxes(1), k=1)
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("ann", 2, [2], [3])
    router.subscribe("ann", 3, [-1], [11])  # stays beside the first one
    assert router.receive("b", Established("a/3")) == [told("ann", 3)]
    assert router.unsubscribe("ann", 1) == [told("ann", 2), to("b", Unsubscribe("a/1"))][::-1]


def test_notifications_go_everywhere_once_but_not_back():
    router = Router("a", ["b", "c"], Boxes(1))
    router.receive("b", wide("b/1"))
    router.receive("b", Subscribe("b/2", [[1], [9]]))
    router.receive("c", wide("c/1"))
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("ann", 2, [2], [3])
    ann = Outgoing(Client("ann"), Notification([2], [1, 2]))
    assert router.publish([2]) == [to("b", Publish([2])), to("c", Publish([2])), ann]
    assert router.receive("b", Publish([2])) == [to("c", Publish([2])), ann]
    assert router.publish([11]) == []


def test_a_neighbour_that_restarts_gets_what_is_forwarded():
    router = Router("a", ["b", "c"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.receive("b", Subscribe("b/1", [[-5], [20]]))
    router.receive("b", Established("a/1"))
    expected = [to("c", Unsubscribe("b/1")), to("b", wide("a/1"))]
    assert router.restart("b") == expected
    assert router.receive("c", Established("a/1")) == []
    assert router.receive("b", Established("a/1")) == [told("ann", 1)]


def test_a_client_leaves():
    router = Router("a", ["b"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    router.subscribe("bob", 1, [2], [3])
    expected = [to("b", Subscribe("a/2", [[2], [3]])), to("b", Unsubscribe("a/1"))]
    assert router.remove_client("ann") == expected
    assert router.remove_client("ann") == []


def test_conditions():
    router = Router("a", ["b"], Conditions({"x": "number", "price": "decimal(12,2)", "at": "time"}))
    assert len(router.subscribe("ann", "wide", "x > 3")) == 1
    assert router.subscribe("ann", "narrow", "x > 5 AND price < 2.5") == []
    event = {"x": 6, "price": "2.49", "at": "2024-05-01T12:00:00Z"}
    (outgoing,) = router.publish(event)
    assert outgoing.message.event == event
    assert set(outgoing.message.ids) == {"wide", "narrow"}
    with pytest.raises(EventError, match="'x' is a number, but the event has str 'six'"):
        router.publish({"x": "six"})
    with pytest.raises(EventError, match="an event must be a dict"):
        router.publish([6])


@pytest.mark.parametrize(
    ("event", "expected"),
    [([5], "abcd"), ([None], "d"), ([float("nan")], "bd"), ([7], "bd"), ([-1], "cd")],
)
def test_open_boxes(event, expected):
    router = Router("a", [], Boxes(1))
    for id, low, high in [("a", 0, 6), ("b", 5, None), ("c", None, 6), ("d", None, None)]:
        router.subscribe("ann", id, [low], [high])
    (outgoing,) = router.publish(event)
    assert outgoing.message.ids == list(expected)


def test_what_is_refused_changes_nothing():
    router = Router("a", ["b"], Conditions({"x": "number"}))
    with pytest.raises(ConditionError, match=r"subscription 'wide' of client 'ann': .*unknown"):
        router.subscribe("ann", "wide", "y > 3")
    assert router.table_sizes() == {"": 0, "b": 0}
    boxes = Router("a", ["b"], Boxes(2))
    with pytest.raises(CoverError, match="needs 2 lower and 2 upper bounds"):
        boxes.subscribe("ann", "flat", [0], [1])
    assert boxes.table_sizes() == {"": 0, "b": 0}
    assert boxes.pending == 0
    assert boxes.subscribe("ann", "flat", [0, 0], [1, 1])[0].message.id == "a/1"


def test_errors():
    router = Router("a", ["bob", "c"], Boxes(1))
    router.subscribe("ann", 1, [0], [10])
    with pytest.raises(RoutingError, match="client 'ann' already has a subscription 1; unsubscr"):
        router.subscribe("ann", 1, [0], [10])
    with pytest.raises(RoutingError, match="client 'ann' has no subscription 2"):
        router.unsubscribe("ann", 2)
    with pytest.raises(RoutingError, match="has no neighbour 'bop'; did you mean 'bob'"):
        router.receive("bop", Publish([1]))
    with pytest.raises(RoutingError, match="router 'c' withdraws 'c/1', which is not known"):
        router.receive("c", Unsubscribe("c/1"))
    with pytest.raises(RoutingError, match="sent what no router sends"):
        router.receive("c", Notification([1], []))
    router.receive("bob", wide("d/1"))
    with pytest.raises(RoutingError, match="'d/1' came from 'bob' and from 'c': routers must be"):
        router.receive("c", wide("d/1"))
    with pytest.raises(RoutingError, match="cannot be its own neighbour"):
        Router("a", ["a"], Boxes(1))
    with pytest.raises(EventError, match="must be a list of 1 numbers; got 5"):
        router.publish(5)
    with pytest.raises(EventError, match="must be numbers or None; got 'x'"):
        router.publish(["x"])


def test_overlays_must_be_trees():
    for edges in [[], [("a", "b"), ("c", "d")], [("a", "b"), ("b", "c"), ("c", "a")], [("a", "a")]]:
        with pytest.raises(RoutingError, match="tree"):
            Overlay(edges, Boxes(1))
    overlay = Overlay([("a", "b"), ("b", "c")], Boxes(1))
    with pytest.raises(RoutingError, match="there is no router 'd'"):
        overlay.publish("d", [1])
    with pytest.raises(RoutingError, match="there is no link between 'a' and 'c'"):
        overlay.disconnect("a", "c")
    with pytest.raises(RoutingError, match="delay must be two times"):
        Overlay([("a", "b")], Boxes(1), loss=1)


def test_a_link_that_is_down_delays_the_acknowledgement():
    overlay = Overlay([("a", "b"), ("b", "c")], Boxes(1))
    overlay.run()
    overlay.disconnect("b", "c")
    overlay.subscribe("a", "ann", 1, [0], [10])
    overlay.run()
    assert not overlay.is_established("a", "ann", 1)
    overlay.connect("b", "c")
    overlay.run()
    assert overlay.is_established("a", "ann", 1)


def test_the_same_seed_gives_the_same_result():
    def run(seed):
        overlay = Overlay([("a", "b"), ("b", "c")], Boxes(1), seed=seed, loss=0.3)
        overlay.subscribe("a", "ann", 1, [0], [10])
        overlay.run()
        overlay.publish("c", [1])
        overlay.run()
        return overlay.deliveries

    assert run(1) == run(1) != run(2)
