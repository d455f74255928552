"""Workloads of Boolean expressions in many dimensions, after BEGen (BE*-tree, section VII).

    python -m benchmarks.boolean_workloads [--rules 100000]     prints actual match probabilities

A rule is a conjunction of ranges over a few of several hundred attributes; an event has a few
values. The settings are those of Table III. A dimension has clusters, each an interval of
`cluster_size` consecutive values somewhere in a large domain; values are drawn from clusters.

A random event would almost never match a rule of eight narrow ranges, so matches are planted with
*profiles*. A profile has as many attributes as the largest rule has predicates, and for each
attribute a *home*: consecutive values in one of its clusters. An event belongs to a profile. It has
values for all attributes of the profile, drawn from their homes, and values for other attributes,
drawn from their clusters. A planted rule also belongs to a profile. It tests 5 to 11 of the
profile's attributes; each range is inside the home, or contains it if it is wider. All other rules
are background: their attributes and ranges are drawn from the clusters. So no rule is made from an
event: an event matches a rule of its profile if all ranges happen to contain its values. The number
of profiles follows from the requested match probability. Where events are no larger than rules
(`partial_events`), as where both are texts, an event has only some attributes of its profile and no
others; it matches a rule of its profile only if it has all attributes that the rule tests.

BEGen is not available, so we do not know how it plants matches; profiles are our own. The weights
follow the paper, with an error in its formula corrected (see `add_weights`). Everything is seeded.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import comb

import numpy as np
import pyarrow as pa

from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, sparse_keys

_BATCH = 1 << 20  # rules or events drawn at once
_RESOLUTION = 1 << 16  # probabilities of attributes are multiples of 1 / this


@dataclass(frozen=True)
class Setting:
    """The parameters of a workload; pairs are the ends of a uniform distribution."""

    dimensions: int = 400
    cardinality: int = 250_000_000
    clusters: int = 4  # per dimension; 0: values anywhere in the domain
    cluster_size: int = 100
    rule_size: tuple[int, int] = (5, 11)
    event_size: tuple[int, int] = (13, 17)
    zipf: float = 0.0  # exponent for the choice of attributes; 0: uniform
    width: tuple[int, int] = (1, 9)  # values in a range
    home: int = 3  # values in a home
    match: float = 0.001  # share of all rules that match an event, on average
    planted: float = 0.5  # share of rules that are planted, approximately
    partial_events: bool = False  # an event has some of its profile's attributes, and no others
    seed: int = 1

    def __post_init__(self) -> None:
        if self.partial_events:
            if self.event_size[1] > self.rule_size[1]:
                raise ValueError("a partial event has at most the attributes of the largest rule")
        elif self.event_size[0] < self.rule_size[1]:
            raise ValueError("an event must have at least as many attributes as the largest rule")
        if self.dimensions < self.event_size[1]:
            raise ValueError("an event has more attributes than there are dimensions")

    @property
    def chance(self) -> float:
        """The probability that an event matches a rule of its profile."""
        widths = np.arange(self.width[0], self.width[1] + 1)
        inside = (np.minimum(widths, self.home) / self.home).mean()
        rules = range(self.rule_size[0], self.rule_size[1] + 1)
        # A partial event has all attributes of a rule in comb(event, rule) of the comb(all, rule)
        # cases; any other event has all attributes of its profile.
        most = self.rule_size[1]
        events = (
            range(self.event_size[0], self.event_size[1] + 1) if self.partial_events else [most]
        )
        tested = [
            np.mean([comb(event, rule) / comb(most, rule) for event in events]) for rule in rules
        ]
        return float(np.mean([inside**rule * share for rule, share in zip(rules, tested)]))

    @property
    def profiles(self) -> int:
        return max(1, round(self.planted * self.chance / self.match))

    @property
    def share(self) -> float:
        """The share of planted rules that gives the probability `match`."""
        return min(1.0, self.match * self.profiles / self.chance)


# The two families of the benchmark. In B, a range has 70 to 80 of the 100 values of a cluster, and
# a home is the whole cluster; the match probability is that of 50 profiles with half of the rules.
FAMILIES = {
    "A": Setting(),
    "B": Setting(width=(70, 80), home=100, match=0.00117),
}
ZIPF = 1.0


def family(name: str, zipf: bool, **changes) -> Setting:
    """Return the setting of a family."""
    return replace(FAMILIES[name], zipf=ZIPF if zipf else 0.0, **changes)


class World:
    """Dimensions with clusters, and profiles; draws rules and events."""

    def __init__(self, setting: Setting):
        self.setting = s = setting
        rng = self._rng(0)
        # The popularity of attributes must not follow their order, which is that of predicates.
        self.popular = _choice_table(s.dimensions, s.zipf, rng.permutation(s.dimensions))
        self.core = np.sort(_draw_distinct(rng, self.popular, s.rule_size[1], s.profiles), axis=0)
        # Clusters and homes have a seed of their own, so that worlds that differ only in the domain
        # have the same profiles, and their rules test the same attributes.
        rng = self._rng(4)
        margin = max(s.width[1], s.home)
        if s.clusters:
            top = s.cardinality - s.cluster_size - margin
            self.start = rng.integers(margin, top, (s.dimensions, s.clusters))
            cluster = rng.integers(0, s.clusters, self.core.shape)
            slack = rng.integers(0, s.cluster_size - s.home + 1, self.core.shape)
            self.home = self.start[self.core, cluster] + slack
        else:
            self.home = rng.integers(margin, s.cardinality - 2 * margin, self.core.shape)

    def _rng(self, *purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.setting.seed, *purpose])

    @property
    def names(self) -> list[str]:
        return [f"a{i}" for i in range(self.setting.dimensions)]

    @property
    def schema(self) -> dict[str, str]:
        return dict.fromkeys(self.names, "integer")

    @cached_property
    def floats(self) -> np.ndarray:
        """Whether attributes are floats; none is."""
        return np.zeros(self.setting.dimensions, np.uint8)

    # ------------------------------------------------------------ rules

    def rules(self, n: int, weighted: bool = False, draw: int = 0) -> Conjunctions:
        """Return n rules of one conjunction each; each `draw` gives different rules."""
        s = self.setting
        rng = self._rng(1, draw)
        sizes = rng.integers(*s.rule_size, n, dtype=np.uint8, endpoint=True)
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        rows = int(offsets[-1])
        attribute, low = np.empty(rows, np.int32), np.empty(rows, np.int64)
        high = np.empty(rows, np.int64)
        for begin in range(0, n, _BATCH):
            batch = sizes[begin : begin + _BATCH]
            is_planted = rng.random(len(batch)) < s.share
            kinds = ((self._draw_background, ~is_planted), (self._draw_planted, is_planted))
            for size in range(s.rule_size[0], s.rule_size[1] + 1):
                for draw_rules, is_kind in kinds:
                    chosen = np.flatnonzero((batch == size) & is_kind)
                    at = offsets[begin + chosen][:, None] + np.arange(size)
                    drawn = draw_rules(rng, size, len(chosen))
                    attribute[at], low[at], high[at] = (each.T for each in drawn)
        rules = freeze_fields(
            Conjunctions,
            offsets=offsets,
            attribute=attribute,
            kind=np.zeros(rows),
            low=low,
            high=high,
            points=[],
            weight=[],
            rule=np.arange(n),
        )
        return self.add_weights(rules, draw) if weighted else rules

    def _draw_widths(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.integers(*self.setting.width, shape, dtype=np.int32, endpoint=True)

    def _draw_background(
        self, rng: np.random.Generator, size: int, n: int
    ) -> tuple[np.ndarray, ...]:
        """Return attributes, lows and highs of n rules, [size, n] each."""
        s = self.setting
        attribute = np.sort(_draw_distinct(rng, self.popular, size, n), axis=0)
        width = self._draw_widths(rng, attribute.shape)
        if s.clusters:
            cluster = rng.integers(0, s.clusters, attribute.shape, dtype=np.uint16)
            low = self.start[attribute, cluster]
            low += _draw_below(rng, np.maximum(s.cluster_size - width, 0) + 1)
        else:
            low = rng.integers(0, s.cardinality - s.width[1], attribute.shape)
        return attribute, low, low + width - 1

    def _draw_planted(self, rng: np.random.Generator, size: int, n: int) -> tuple[np.ndarray, ...]:
        s = self.setting
        profile = rng.integers(0, s.profiles, n)
        position = np.sort(self._draw_positions(rng, size, n), axis=0)
        width = self._draw_widths(rng, position.shape)
        slack = _draw_below(rng, np.abs(s.home - width) + 1)
        low = self.home[position, profile] + np.where(width <= s.home, slack, -slack)
        return self.core[position, profile], low, low + width - 1

    def _draw_positions(self, rng: np.random.Generator, size: int, n: int) -> np.ndarray:
        """Return which attributes of a profile are chosen, [size, n]."""
        most = self.setting.rule_size[1]
        return _draw_distinct(rng, _choice_table(most, 0.0, np.arange(most)), size, n)

    def add_weights(self, c: Conjunctions, draw: int = 0) -> Conjunctions:
        """Return the rules with weights by inverse frequency (section VII-C, after Whang et al.).

        inv is 1 for the rarest attribute, and smaller for more frequent ones. Unlike the paper, a
        weight is the minimum of inv and a Gaussian around 0.8 inv with a deviation of 0.05 inv. The
        paper has the maximum, which would be inv in all but 0.003% of cases, so that rules over the
        same attributes would have the same score.
        """
        count = np.bincount(c.attribute, minlength=self.setting.dimensions)
        inverse = count[count > 0].min() / np.maximum(count, 1)
        noise = self._rng(2, draw).standard_normal(len(c.attribute))
        noise *= 0.05
        noise += 0.8
        weight = inverse[c.attribute]
        weight *= np.clip(noise, 0.0, 1.0, out=noise)
        weight.flags.writeable = False
        return c._replace(weight=weight)

    # ------------------------------------------------------------ events

    def events(self, n: int, draw: int = 0) -> Keys:
        """Return n events; each `draw` gives different events."""
        s = self.setting
        rng = self._rng(3, draw)
        sizes = rng.integers(*s.event_size, n, endpoint=True)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        attribute, key = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int64)
        for begin in range(0, n, _BATCH):
            batch = sizes[begin : begin + _BATCH]
            for size in range(s.event_size[0], s.event_size[1] + 1):
                chosen = np.flatnonzero(batch == size)
                profile = rng.integers(0, s.profiles, len(chosen))
                core, home = self.core[:, profile], self.home[:, profile]
                if s.partial_events:
                    position = self._draw_positions(rng, size, len(chosen))
                    core, home = self.core[position, profile], self.home[position, profile]
                attributes = _draw_distinct(rng, self.popular, size, len(chosen), core)
                others = attributes[len(core) :]
                values = np.empty(attributes.shape, np.int64)
                values[: len(core)] = home + rng.integers(0, s.home, core.shape)
                if s.clusters:
                    cluster = rng.integers(0, s.clusters, others.shape)
                    within = rng.integers(0, s.cluster_size, others.shape)
                    values[len(core) :] = self.start[others, cluster] + within
                else:
                    values[len(core) :] = rng.integers(0, s.cardinality, others.shape)
                # In random order, so that the profile's attributes are not always first.
                order = rng.random(attributes.shape, dtype=np.float32).argsort(axis=0)
                at = (offsets[begin + chosen][:, None] + np.arange(size)).T
                attribute[at] = np.take_along_axis(attributes, order, axis=0)
                key[at] = np.take_along_axis(values, order, axis=0)
        return sparse_keys(offsets, attribute, key)

    # ------------------------------------------------------------ tables and dicts

    def rule_table(self, c: Conjunctions, first: int = 0) -> pa.Table:
        """Return rules in the long form of `Rules.add_many`; ids start at `first`."""
        ids = np.repeat(np.arange(first, first + c.size), np.diff(c.offsets))
        names = pa.DictionaryArray.from_arrays(pa.array(c.attribute), pa.array(self.names))
        columns = {"id": ids, "attribute": names, "low": c.low, "high": c.high}
        return pa.table(columns | ({"weight": c.weight} if len(c.weight) else {}))

    def event_table(self, keys: Keys) -> pa.Table:
        """Return events as a table with a column of maps."""
        names = pa.DictionaryArray.from_arrays(pa.array(keys.attribute), pa.array(self.names))
        offsets = pa.array(keys.offsets.astype(np.int32))
        maps = pa.MapArray.from_arrays(offsets, names.cast(pa.string()), pa.array(keys.key))
        return pa.table({"attributes": maps})

    def event_dicts(self, keys: Keys) -> list[dict[str, int]]:
        """Return events as dicts."""
        names = np.array(self.names, object)[keys.attribute].tolist()
        values, bounds = keys.key.tolist(), keys.offsets.tolist()
        return [dict(zip(names[a:z], values[a:z])) for a, z in pairwise(bounds)]


def _choice_table(n: int, zipf: float, order: np.ndarray) -> np.ndarray:
    """Return a table that maps uniform 16-bit numbers to n choices with a Zipf distribution."""
    chance = 1.0 / np.arange(1, n + 1) ** zipf
    cumulative = np.cumsum(chance) / chance.sum()
    at = np.searchsorted(cumulative, (np.arange(_RESOLUTION) + 0.5) / _RESOLUTION)
    return order[np.minimum(at, n - 1)].astype(np.uint16)


def _draw_distinct(
    rng: np.random.Generator, table: np.ndarray, size: int, n: int, first: np.ndarray | None = None
) -> np.ndarray:
    """Return n columns of `size` distinct choices, [size, n]; the rows `first` are given."""
    start = 0 if first is None else len(first)
    choices = np.empty((size, n), np.uint16)
    if first is not None:
        choices[:start] = first
    for i in range(start, size):
        columns = np.arange(n)
        while len(columns):
            choices[i, columns] = table[rng.integers(0, _RESOLUTION, len(columns), dtype=np.uint16)]
            drawn, is_repeated = choices[i, columns], np.zeros(len(columns), bool)
            for j in range(i):
                is_repeated |= choices[j, columns] == drawn
            columns = columns[is_repeated]
    return choices


def _draw_below(rng: np.random.Generator, bound: np.ndarray) -> np.ndarray:
    """Return uniform integers below each of these small bounds."""
    return (rng.random(bound.shape, dtype=np.float32) * bound).astype(np.int32)


# ------------------------------------------------------------ match probabilities


def count_matches(c: Conjunctions, floats: np.ndarray, keys: Keys) -> np.ndarray:
    """Return the number of rules that match each event."""
    from benchmarks.index_search import IndexSearch
    from tocsin.index.counting.index import Counting

    search = IndexSearch(Counting.build(c, floats), keys, len(floats))
    return np.concatenate([np.diff(offsets) for _, offsets, _ in search.blocks(keys.size)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=2_000)
    arguments = parser.parse_args()
    for name in FAMILIES:
        for zipf in (False, True):
            world = World(family(name, zipf))
            s = world.setting
            start = time.perf_counter()
            c = world.rules(arguments.rules, weighted=True)
            seconds = time.perf_counter() - start
            counts = count_matches(c, world.floats, world.events(arguments.events))
            share = counts.mean() / arguments.rules
            print(
                f"{name}, {'Zipf' if zipf else 'uniform'}: {arguments.rules:,} rules in "
                f"{seconds:.1f} s, {s.share:.0%} of them planted in {s.profiles:,} profiles; an "
                f"event should match {s.match:.3%} of all rules and matches {share:.3%} "
                f"({counts.mean():,.1f}; from {counts.min():,} to {counts.max():,})"
            )


if __name__ == "__main__":
    main()
