"""Random schedules of an overlay, checked against what clients were promised.

A notification is due for a subscription if the client was told that it is established before the
notification was published, and if it is not removed before the notification arrives.

With failures, routers restart, and neighbours that do not answer are given up. Then a notification
is no longer due if its way leads through such a router or link, and if it was on its way at that
moment or is published before all is quiet again. Nothing else may be lost, and nothing may ever
arrive twice.

`python -m tests.routing.schedules 10000` runs that many.
"""

import random
import sys
import time
from collections import Counter, defaultdict
from dataclasses import dataclass

from tocsin.routing import Boxes, Conditions, Overlay

GRAPHS = [
    {"k": 1},
    {"k": 2},
    {"k": 3},
    {"kind": "star"},
    {"kind": "poset"},
    {"k": 1, "withdraw_covered": True},
    {"k": 2, "withdraw_covered": True},
    {"kind": "star", "withdraw_covered": True},
    {"kind": "poset", "withdraw_covered": True},
    {"covering": False},
]
SIDE = 6  # coordinates are integers below this: boxes often cover, equal or touch each other


class BoxWorkload:
    """Boxes over x and y. A third dimension without ends has the number of the event."""

    language = Boxes(3)

    @staticmethod
    def subscription(low, high):
        return [*low, None], [*high, None]

    @staticmethod
    def event(point, number):
        return [*point, number]

    @staticmethod
    def number(event):
        return event[2]


class ConditionWorkload:
    language = Conditions({"x": "integer", "y": "integer", "number": "integer"})

    @staticmethod
    def subscription(low, high):
        names = zip("xy", low, high, strict=True)
        return (" AND ".join(f"{name} BETWEEN {a} AND {b}" for name, a, b in names),)

    @staticmethod
    def event(point, number):
        return {"x": point[0], "y": point[1], "number": number}

    @staticmethod
    def number(event):
        return event["number"]


@dataclass
class Subscription:
    router: str
    client: str
    id: str
    low: list
    high: list
    first: int  # deliveries[first:last] happened while the client had it
    last: float = float("inf")

    def matches(self, point):
        return all(a <= x <= b for a, x, b in zip(self.low, point, self.high, strict=True))


class Schedule:
    """One random schedule: a tree, a kind of graph, and what happens when."""

    def __init__(self, seed, workload=BoxWorkload, failures=False):
        self.random, self.workload = random.Random(seed), workload
        names = "abcdef"[: self.random.randint(2, 6)]
        edges = [(self.random.choice(names[:i]), names[i]) for i in range(1, len(names))]
        self.graph = self.random.choice(GRAPHS)
        loss = self.random.choice([0, 0, 0.1, 0.3])
        options = {"backlog": self.random.choice([0, 2, 5])} if failures else {}
        self.overlay = Overlay(
            edges, workload.language, seed=seed, delay=(0.1, 2), loss=loss, **options, **self.graph
        )
        self.edges, self.counts, self.failures = edges, Counter(), failures
        self.active, self.all, self.published = {}, [], []
        self.failed = set()  # routers and links, since all was quiet
        self.dropped, self.first = Counter(), 0  # the first event since then

    def run(self):
        clock = 0.0
        for _ in range(self.random.randint(10, 50)):
            clock += self.random.expovariate(self.random.choice([0.3, 3, 30]))
            self.overlay.run(until=clock)
            self.notice_dropped()
            actions = [self.subscribe, self.unsubscribe, self.publish, self.interrupt, self.restore]
            weights = [35, 20, 35, 4, 6]
            if self.failures:
                actions, weights = [*actions, self.restart], [35, 20, 35, 5, 2, 3]
            self.random.choices(actions, weights)[0]()
            self.notice_dropped()
            if self.random.random() < 0.05:
                self.settle()
                clock = self.overlay.time
        self.settle()
        for name in self.overlay.routers:  # now everything is due
            self.publish(name)
        self.overlay.run()
        self.notice_dropped()
        self.check_deliveries()
        return self.counts

    def subscribe(self):
        client = self.random.choice(list(self.overlay.routers)), self.random.choice("mn")
        key = *client, self.random.choice("1234")
        if key in self.active:
            return
        low = [self.random.randrange(SIDE) for _ in range(2)]
        high = [self.random.randint(a, SIDE) for a in low]
        new = Subscription(*key, low, high, len(self.overlay.deliveries))
        self.active[key] = new
        self.all.append(new)
        self.overlay.subscribe(*key, *self.workload.subscription(low, high))
        self.counts["subscribed"] += 1

    def unsubscribe(self):
        if self.active:
            key = self.random.choice(list(self.active))
            self.active.pop(key).last = len(self.overlay.deliveries)
            self.overlay.unsubscribe(*key)
            self.counts["unsubscribed"] += 1

    def publish(self, router=None):
        point = [self.random.randrange(SIDE) for _ in range(2)]
        due = [
            each
            for key, each in self.active.items()
            if self.overlay.is_established(*key) and each.matches(point)
        ]
        event = self.workload.event(point, len(self.published))
        router = router or self.random.choice(list(self.overlay.routers))
        due = [each for each in due if self.failed.isdisjoint(self.way(router, each.router))]
        self.published.append((point, router, due))
        self.overlay.publish(router, event)
        self.counts["published"] += 1

    def interrupt(self):
        self.overlay.disconnect(*self.random.choice(self.edges))
        self.counts["interrupted"] += 1

    def restore(self):
        self.overlay.connect(*self.random.choice(self.edges))

    def restart(self):
        router = self.random.choice(list(self.overlay.routers))
        for key in [key for key in self.active if key[0] == router]:
            self.active.pop(key).last = len(self.overlay.deliveries)
        self.fail(router)
        self.overlay.restart(router)
        self.counts["restarted"] += 1

    def notice_dropped(self):
        for link in self.overlay.dropped - self.dropped:
            self.fail(frozenset(link))
            self.counts["given up"] += 1
        self.dropped = self.overlay.dropped.copy()

    def fail(self, place):
        """What is on its way through a router or a link is no longer due, nor what will be."""
        self.failed.add(place)
        arrived = {
            (each.router, each.client, self.workload.number(each.event))
            for each in self.overlay.deliveries
        }
        for number in range(self.first, len(self.published)):
            point, router, due = self.published[number]
            due = [
                each
                for each in due
                if place not in self.way(router, each.router)
                or (each.router, each.client, number) in arrived
            ]
            self.published[number] = point, router, due

    def way(self, start, end):
        """Return the routers and links on the way between two routers."""
        ways, waiting = {start: {start}}, [start]
        while waiting:
            here = waiting.pop()
            for edge in self.edges:
                if here in edge:
                    (there,) = set(edge) - {here}
                    if there not in ways:
                        ways[there] = ways[here] | {frozenset(edge), there}
                        waiting.append(there)
        return ways[end]

    def settle(self):
        for edge in self.edges:
            self.overlay.connect(*edge)
        self.overlay.run()
        self.notice_dropped()
        self.failed, self.first = set(), len(self.published)
        for key in self.active:
            assert self.overlay.is_established(*key), key
        self.check_routers()
        self.counts["quiet"] += 1

    def check_routers(self):
        """Each subscription is forwarded, or covered by a forwarded one; neighbours know these."""
        routers = self.overlay.routers
        for name, router in routers.items():
            assert not router.pending
            for other, link in router._links.items():
                expected = {
                    id for id, each in router._subscriptions.items() if each.source != link.source
                }
                assert set(link.settled) == expected
                for id in expected:
                    assert leads_to_forwarded(link.graph, id), (name, other, id)
                sent = set(router.forwarded(other))
                assert routers[other].table_sizes()[name] == len(sent)
                assert sent <= routers[other]._subscriptions.keys()

    def check_deliveries(self):
        by_client = defaultdict(dict)
        for i, each in enumerate(self.overlay.deliveries):
            number = self.workload.number(each.event)
            received = by_client[each.router, each.client]
            assert number not in received, "arrived twice"
            point = self.published[number][0]
            had = {
                s.id
                for s in self.all
                if (s.router, s.client) == (each.router, each.client)
                and s.first <= i < s.last
                and s.matches(point)
            }
            assert each.ids, "no subscription"
            assert set(each.ids) == had
            assert len(each.ids) == len(had)
            received[number] = each.ids
        for number, (_, _, due) in enumerate(self.published):
            for s in due:
                if s.last == float("inf"):
                    assert s.id in by_client[s.router, s.client].get(number, []), "lost"
                    self.counts["due"] += 1
        self.counts["delivered"] += len(self.overlay.deliveries)
        self.counts["messages"] += sum(self.overlay.messages.values())


def leads_to_forwarded(graph, id):
    reached, waiting = set(), [id]
    while waiting:
        each = waiting.pop()
        if each in graph.forwarded:
            return True
        if each not in reached:
            reached.add(each)
            waiting.extend(graph.edges_into(each))
    return False


def run_all(seeds, workload=BoxWorkload, failures=False):
    """Run schedules; return totals."""
    totals = Counter()
    for seed in seeds:
        try:
            totals += Schedule(seed, workload, failures).run()
        except Exception as error:
            error.add_note(f"schedule {seed}")
            raise
        totals["schedules"] += 1
    return totals


if __name__ == "__main__":
    start = time.perf_counter()
    for failures in (False, True):
        totals = run_all(range(int(sys.argv[1])), failures=failures)
        print(", ".join(f"{count:,} {name}" for name, count in totals.items()))
    print(f"{time.perf_counter() - start:.1f} s")
