"""Sequences of subscribes and unsubscribes (Shen, Tirthapura and Aluru, V-A), and their runs.

A *command* is an unsubscribe with probability p, and else a subscribe of the next box. As in the
paper, an unsubscribe removes a rule chosen at random; `ORDERS` has others. Commands are made
before anything is timed.
"""

from __future__ import annotations

import gc
import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.timing import clock
from tocsin.covering import RelationGraph
from tocsin.covering.cover_index import METHODS, PointIndex, Search, box_point

Ends = list[Any]
Command = tuple[int, Ends | None, Ends | None]  # an unsubscribe has no ends
Boxes = tuple[list[Ends], list[Ends]]  # low and high ends

COVERED_SAMPLE = 5_000  # rules, to estimate the share of those that others cover
ORDERS = ("random", "oldest", "newest", "largest")


# ------------------------------------------------------------ boxes


def uniform(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Each side is a random segment, as in the paper."""
    ends = np.sort(rng.random((n, d, 2)), axis=2)
    return ends[..., 0].tolist(), ends[..., 1].tolist()


def nested(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Chains of twenty boxes, each inside the one before, in random order of arrival."""
    length = 20
    ends = np.sort(rng.random((-(-n // length), d, 2)), axis=2)
    links = []
    for _ in range(length):
        links.append(ends)
        width = ends[..., 1:] - ends[..., :1]
        cut = 0.1 * rng.random(ends.shape) * width
        ends = ends + cut * np.array([1, -1])
    chosen = rng.permutation(np.concatenate(links))[:n]
    return chosen[..., 0].tolist(), chosen[..., 1].tolist()


def clustered(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Boxes around fifty centers, of which some are popular; about as wide as they are apart."""
    share = 1 / np.arange(1, 51)
    center = rng.random((50, d))[rng.choice(50, n, p=share / share.sum())]
    middle = center + 0.05 * rng.standard_normal((n, d))
    half = 0.05 * np.exp(0.5 * rng.standard_normal((n, d)))
    return (middle - half).tolist(), (middle + half).tolist()


def concentric(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Boxes around fifty centers, whose widths differ far more than their middles."""
    share = 1 / np.arange(1, 51)
    center = rng.random((50, d))[rng.choice(50, n, p=share / share.sum())]
    middle = center + 0.02 * rng.standard_normal((n, d))
    half = 0.1 * np.exp(rng.standard_normal((n, 1)) + 0.3 * rng.standard_normal((n, d)))
    return (middle - half).tolist(), (middle + half).tolist()


def equality(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """A range in the last attribute; one of twenty values, some popular, in others."""
    share = np.arange(1, 21) ** -1.5
    low = rng.choice(20, (n, d), p=share / share.sum()).astype(float)
    high = low.copy()
    ends = np.sort(rng.random((n, 2)), axis=1)
    low[:, -1], high[:, -1] = ends[:, 0], ends[:, 1]
    return low.tolist(), high.tolist()


def wildcard(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """A random segment in two attributes, and no ends in the others."""
    ends = np.sort(rng.random((n, d, 2)), axis=2).astype(object)
    is_bounded = rng.random((n, d)).argsort(axis=1) < 2
    ends[~is_bounded] = None
    return ends[..., 0].tolist(), ends[..., 1].tolist()


RULE_SETS: dict[str, Callable[[int, int, np.random.Generator], Boxes]] = {
    "uniform": uniform,
    "nested": nested,
    "clustered": clustered,
    "concentric": concentric,
    "equality": equality,
    "wildcard": wildcard,
}


# ------------------------------------------------------------ commands


def make_commands(
    n: int, d: int, p: float, seed: int, rules: str = "uniform", order: str = "random"
) -> list[Command]:
    """Return n commands; the id of a rule is the number of its subscribe."""
    rng = np.random.default_rng([seed, d])
    lows, highs = RULE_SETS[rules](n, d, rng)
    is_removal, choice = (rng.random(n) < p).tolist(), rng.random(n).tolist()
    live: list[Any] = []
    commands: list[Command] = []
    oldest = 0  # the place in `live` of the oldest, if rules go oldest first
    for i, low, high in zip(range(n), lows, highs, strict=True):
        if not is_removal[i] or len(live) == oldest:
            commands.append((i, low, high))
            if order == "largest":
                volume = np.prod(np.subtract(high, low))
                heapq.heappush(live, (-volume, i))
            else:
                live.append(i)
            continue
        if order == "oldest":
            gone, oldest = live[oldest], oldest + 1
        elif order == "newest":
            gone = live.pop()
        elif order == "largest":
            gone = heapq.heappop(live)[1]
        else:
            at = int(choice[i] * len(live))
            live[at], live[-1] = live[-1], live[at]
            gone = live.pop()
        commands.append((gone, None, None))
    return commands


# ------------------------------------------------------------ runs


class Stopwatch:
    """A search that is timed, and whose counters are split.

    Searches for a rule that is there already, so that its own entry does not count, are those that
    an unsubscribe makes.
    """

    def __init__(self, search: Search):
        self.search = search
        self.seconds = 0.0  # in all calls
        self.by_unsubscribes = np.zeros(2, np.int64)  # visited, compared

    @property
    def visited(self) -> int:
        return self.search.visited

    @property
    def compared(self) -> int:
        return self.search.compared

    def insert(self, point: np.ndarray, entry: int) -> None:
        start = clock()
        self.search.insert(point, entry)
        self.seconds += clock() - start

    def remove(self, point: np.ndarray, entry: int) -> None:
        start = clock()
        self.search.remove(point, entry)
        self.seconds += clock() - start

    def find_dominating(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        if but < 0:
            start = clock()
            n = self.search.find_dominating(point, but, found)
            self.seconds += clock() - start
            return n
        before = self.search.visited, self.search.compared
        start = clock()
        n = self.search.find_dominating(point, but, found)
        self.seconds += clock() - start
        self.by_unsubscribes += self.search.visited - before[0], self.search.compared - before[1]
        return n

    def find_dominated(self, point: np.ndarray, but: int, found: np.ndarray) -> int:
        start = clock()
        n = self.search.find_dominated(point, but, found)
        self.seconds += clock() - start
        return n


class TimedCover:
    """Like `CoverIndex`, with a stopwatch between the ids and the search."""

    def __init__(self, d: int, method: str | Callable[[int], Search], **options: int):
        make = METHODS[method] if isinstance(method, str) else method
        self.dimensions = d
        self.watch = Stopwatch(make(2 * d, **options))
        self.index = PointIndex(self.watch)

    def read(self, low: Sequence[Any], high: Sequence[Any]) -> np.ndarray:
        return box_point(low, high, self.dimensions)


@dataclass
class Run:
    """What a sequence of commands took and did; times are cumulative, up to each mark."""

    marks: list[int]
    seconds: list[float]
    index_seconds: list[float]  # without reading boxes, ids and the graph; needs a `TimedCover`
    rules: list[int]
    forwarded: list[int]
    messages: list[int]
    edges: list[int]
    subscribes: int = 0
    searches: int = 0
    visited: tuple[int, int] = (0, 0)  # by subscribes, by unsubscribes
    compared: tuple[int, int] = (0, 0)
    covered: list[float] = field(default_factory=list)  # share of a sample, if counted
    left: list[Any] = field(default_factory=list, repr=False)  # forwarded at the end

    @property
    def unsubscribes(self) -> int:
        return self.marks[-1] - self.subscribes

    @property
    def searches_by_unsubscribes(self) -> int:
        return self.searches - self.subscribes


def run(
    commands: list[Command],
    cover: Any,
    k: int = 1,
    kind: str = "k",
    marks: Sequence[int] = (),
    count_covered: bool = False,
) -> Run:
    """Run all commands, and take stock at each mark.

    To count covered rules takes searches, which the counters and times of the index then include.
    The garbage collector does not go through the commands, which no router would hold.
    """
    gc.freeze()
    graph = RelationGraph(k, kind, cover=cover)
    watch = getattr(cover, "watch", None)
    result = Run(list(marks) or [len(commands)], [], [], [], [], [], [])
    subscribe, unsubscribe = graph.subscribe, graph.unsubscribe
    seconds, messages = 0.0, 0
    for first, stop in itertools.pairwise([0, *result.marks]):
        part = commands[first:stop]
        start = clock()
        for id, low, high in part:
            change = unsubscribe(id) if low is None else subscribe(id, low, high)
            messages += len(change.forward) + len(change.withdraw)
        seconds += clock() - start
        result.seconds.append(seconds)
        result.index_seconds.append(watch.seconds if watch else 0.0)
        result.rules.append(len(graph))
        result.forwarded.append(len(graph.forwarded))
        result.messages.append(messages)
        live = [id for id, low, _ in commands[:stop] if low is not None and id in graph]
        result.edges.append(sum(len(graph.edges_into(id)) for id in live))
        if count_covered:
            sample = live[:: -(-len(live) // COVERED_SAMPLE)]
            covered = [bool(cover.index.covering_id(id, 1)) for id in sample]
            result.covered.append(sum(covered) / len(covered))
    gc.unfreeze()
    result.subscribes = sum(low is not None for _, low, _ in commands[: result.marks[-1]])
    result.searches, result.left = graph.searches, sorted(graph.forwarded)
    if watch:
        by = [int(count) for count in watch.by_unsubscribes]
        result.visited = watch.visited - by[0], by[0]
        result.compared = watch.compared - by[1], by[1]
    return result


def check_same_decisions(name: str, found: Run, expected: Run) -> None:
    """Raise unless two runs forwarded the same rules.

    A rule is forwarded if at some time since its subscribe no other rule covered it. So neither the
    method, nor k, nor the kind of graph makes a difference.
    """
    shared = min(len(found.marks), len(expected.marks))  # one may have run fewer commands
    same = all(
        getattr(found, each)[:shared] == getattr(expected, each)[:shared]
        for each in ("marks", "rules", "forwarded", "messages")
    )
    if not same or (found.marks == expected.marks and found.left != expected.left):
        raise AssertionError(f"{name} forwards other rules")
