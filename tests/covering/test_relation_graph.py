"""Relation graphs: after each command, all is forwarded or covered through a chain."""

import os
import random

import pytest

import tocsin
from tests.covering.oracle import covers, random_box
from tocsin.covering import ConditionCover, RelationGraph

IS_LONG = os.environ.get("TOCSIN_PROFILE") == "long"
KINDS = [("k", 1), ("k", 2), ("k", 3), ("star", 1), ("poset", 1)]


def check_graph(graph, boxes, forwarded):
    assert set(graph.forwarded) == forwarded
    for id in boxes:
        above = {each for each in boxes if covers(boxes, each, id)}
        edges = set(graph.edges_into(id))
        assert edges <= above
        assert all(id in graph.edges_from(each) for each in edges)
        if not above:
            assert id in forwarded
        elif graph.withdraw_covered:
            assert id not in forwarded
        if graph.kind == "k":
            assert len(edges) <= graph.k
        elif graph.kind == "star":
            assert edges == above
        else:  # those that cover no other one that covers it
            assert edges == {a for a in above if not any(covers(boxes, a, b) for b in above)}
        chain = [id]
        while chain[-1] not in forwarded:
            chain.append(graph.edges_into(chain[-1])[0])
            assert len(chain) <= len(boxes)


@pytest.mark.parametrize("withdraw_covered", [False, True])
@pytest.mark.parametrize(("kind", "k"), KINDS)
@pytest.mark.parametrize("seed", range(200 if IS_LONG else 6))
def test_after_every_command(seed, kind, k, withdraw_covered):
    rng = random.Random(seed)
    graph, boxes, forwarded = RelationGraph(k, kind, withdraw_covered), {}, set()
    dimensions, size = rng.choice([1, 2, 3]), rng.choice([2, 4, 50])
    for number in range(120):
        if boxes and rng.random() < 0.45:
            id = rng.choice(list(boxes))
            del boxes[id]
            change = graph.unsubscribe(id)
        else:
            boxes[number] = random_box(rng, dimensions, size, 0.1)
            change = graph.subscribe(number, *boxes[number])
        for each in change.forward:
            assert each in boxes
            assert each not in forwarded
            forwarded.add(each)
        for each in change.withdraw:
            forwarded.remove(each)
        check_graph(graph, boxes, forwarded)


def test_equal_subscriptions_are_never_lost():
    """As printed, each of two equal ones can cover the other when what covered both goes."""
    graph = RelationGraph(k=1)
    graph.subscribe("wide", [0], [9])
    graph.subscribe("a", [1], [2])
    graph.subscribe("b", [1], [2])
    assert graph.unsubscribe("wide") == (["a"], ["wide"])
    assert graph.unsubscribe("a") == (["b"], ["a"])
    assert graph.unsubscribe("b") == ([], ["b"])


def test_a_larger_newcomer():
    """Property 1 does not survive it, unless what it covers is withdrawn."""
    graph = RelationGraph(k=1)
    graph.subscribe("narrow", [1], [2])
    assert graph.subscribe("wide", [0], [9]) == (["wide"], [])
    assert graph.edges_into("narrow") == []
    graph = RelationGraph(k=1, withdraw_covered=True)
    graph.subscribe("narrow", [1], [2])
    assert graph.subscribe("wide", [0], [9]) == (["wide"], ["narrow"])
    assert graph.unsubscribe("wide") == (["narrow"], ["wide"])


def test_fewer_than_k_edges():
    """III-B says exactly k; III-C adds edges only to a subscription that has none."""
    graph = RelationGraph(k=2)
    for id, end in (("a", 9), ("b", 8), ("c", 7)):
        graph.subscribe(id, [0], [end])
    graph.subscribe("s", [1], [2])
    first, second = graph.edges_into("s")
    graph.unsubscribe(first)
    assert graph.edges_into("s") == [second]  # although another one covers it, too


def test_searches_are_counted():
    graph = RelationGraph(k=1)
    graph.subscribe("wide", [0], [9])
    for id in "abc":
        graph.subscribe(id, [1], [2])
    assert graph.searches == 4
    assert graph.edges_from("wide") == ["a", "b", "c"]  # its out-degree is what its removal costs
    graph.unsubscribe("wide")
    assert graph.searches == 4 + 3


def test_conditions_as_subscriptions():
    graph = RelationGraph(cover=ConditionCover({"x": "number", "tier": "category"}))
    assert graph.subscribe(1, "x > 5").forward == [1]
    assert graph.subscribe(2, "x > 7 AND tier = 'gold'").forward == []
    assert graph.subscribe(3, "tier = 'gold' OR x > 9").forward == [3]
    assert graph.unsubscribe(1) == ([], [1])  # the third one covers the second, too
    assert graph.edges_into(2) == [3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: g.subscribe(1, [0], [1]), "already a subscription 1"),
        (lambda g: g.unsubscribe(2), "no subscription 2"),
        (lambda g: g.subscribe([2], [0], [1]), "an id must be hashable"),
        (lambda g: RelationGraph(k=0), "k must be"),
        (
            lambda g: RelationGraph().subscribe(1, 0, 1),
            r"lower bounds and one of upper.*got \(0, 1\)",
        ),
        (lambda g: RelationGraph().subscribe(1), "lower bounds and one of upper bounds"),
        (lambda g: RelationGraph(kind="graph"), "kind must be one of k, star, poset"),
        (lambda g: g.subscribe(3, [0, 0], [1, 1]), "needs 1 lower and 1 upper bounds; got 2 and 2"),
    ],
)
def test_errors(call, message):
    graph = RelationGraph()
    graph.subscribe(1, [0], [1])
    with pytest.raises(tocsin.CoverError, match=message):
        call(graph)
    assert len(graph) == 1
    assert graph.forwarded == [1]
