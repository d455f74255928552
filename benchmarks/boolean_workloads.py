"""Workloads of Boolean expressions in many dimensions, after BEGen (BE*-tree, section VII).

    python -m benchmarks.boolean_workloads [--rules 100000]     what fresh events really see

A rule is a conjunction of ranges over a few of several hundred attributes, an event a few values.
The settings are those of Table III. A dimension has clusters, each an interval of `cluster_size`
consecutive values somewhere in a large domain; what is drawn is drawn from a cluster.

Left to chance no event would ever meet a rule of eight narrow ranges, so matches are planted, by
*profiles*. A profile is as many attributes as the largest rule has predicates, and for each of
them its *home*: some consecutive values of one of that dimension's clusters. An event belongs to
a profile: it has a value of all the profile's attributes, drawn from their homes, and values of
other attributes, drawn from their clusters. A planted rule belongs to a profile too: it takes 5
to 11 of the profile's attributes, and for each a range that lies within the home, or, if it is
the wider of the two, around it. All other rules are background: attributes and ranges drawn from
the clusters. So no rule is made from an event, and every event is a fresh draw that finds its
matches by chance: of the rules of its profile those all of whose ranges have its values. How many
profiles there are follows from the match probability that is asked for.

BEGen is not available, so we do not know how it plants matches; the profiles are our own. The
weights follow the paper, with an error in its formula corrected, see `weighted`. Everything is
seeded.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.keys import Keys, sparse_keys

_AT_ONCE = 1 << 20  # rules or events that are drawn together
_FINENESS = 1 << 16  # attributes are drawn with chances that are multiples of 1 / this


@dataclass(frozen=True)
class Setting:
    """What a workload is like; pairs are the least and the most of what is drawn evenly."""

    dimensions: int = 400
    cardinality: int = 250_000_000
    clusters: int = 4  # in each dimension; none: values anywhere in the domain
    cluster_size: int = 100
    rule_size: tuple[int, int] = (5, 11)
    event_size: tuple[int, int] = (13, 17)
    zipf: float = 0.0  # exponent for the choice of attributes; 0: all alike
    width: tuple[int, int] = (1, 9)  # values that a range has
    home: int = 3  # values that a profile's events take of an attribute
    match: float = 0.001  # of all rules that an event meets, on average
    planted: float = 0.5  # about this share of the rules
    seed: int = 1

    def __post_init__(self) -> None:
        if self.event_size[0] < self.rule_size[1]:
            raise ValueError("an event must have room for the largest rule")
        if self.dimensions < self.event_size[1]:
            raise ValueError("an event has more attributes than there are dimensions")

    @property
    def chance(self) -> float:
        """How likely an event meets a rule that is planted in its profile."""
        widths = np.arange(self.width[0], self.width[1] + 1)
        inside = (np.minimum(widths, self.home) / self.home).mean()
        return float((inside ** np.arange(self.rule_size[0], self.rule_size[1] + 1)).mean())

    @property
    def profiles(self) -> int:
        return max(1, round(self.planted * self.chance / self.match))

    @property
    def share(self) -> float:
        """How many of the rules are planted, so that `match` comes out."""
        return min(1.0, self.match * self.profiles / self.chance)


# The two families of the benchmark. In B a range is 70 to 80 of the 100 values of a cluster, and
# a profile's home is the whole cluster; the match probability is that of 50 profiles in which
# half of the rules are.
FAMILIES = {
    "A": Setting(),
    "B": Setting(width=(70, 80), home=100, match=0.00117),
}
ZIPF = 1.0


def family(name: str, zipf: bool, **changes) -> Setting:
    """Return the setting of a family of the benchmark."""
    return replace(FAMILIES[name], zipf=ZIPF if zipf else 0.0, **changes)


class World:
    """Dimensions, their clusters, and profiles; draws rules and events."""

    def __init__(self, setting: Setting):
        self.setting = s = setting
        rng = self._rng(0)
        # Which attributes are popular must not follow their order, in which predicates lie.
        self.popular = _table(s.dimensions, s.zipf, rng.permutation(s.dimensions))
        self.core = np.sort(_distinct(rng, self.popular, s.rule_size[1], s.profiles), axis=0)
        # Where clusters and homes lie has numbers of its own: worlds that differ in the domain
        # alone have the same profiles, and their rules test the same attributes.
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

    def _rng(self, *what: int) -> np.random.Generator:
        return np.random.default_rng([self.setting.seed, *what])

    @property
    def names(self) -> list[str]:
        return [f"a{i}" for i in range(self.setting.dimensions)]

    @property
    def schema(self) -> dict[str, str]:
        return dict.fromkeys(self.names, "integer")

    @cached_property
    def floats(self) -> np.ndarray:
        """What an index asks of attributes: none is a float."""
        return np.zeros(self.setting.dimensions, np.uint8)

    # ------------------------------------------------------------ rules

    def rules(self, n: int, weighted: bool = False, draw: int = 0) -> Conjunctions:
        """Return n rules of one conjunction each; another `draw` gives others."""
        s = self.setting
        rng = self._rng(1, draw)
        sizes = rng.integers(*s.rule_size, n, dtype=np.uint8, endpoint=True)
        offsets = np.zeros(n + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        rows = int(offsets[-1])
        attribute, low = np.empty(rows, np.int32), np.empty(rows, np.int64)
        high = np.empty(rows, np.int64)
        for begin in range(0, n, _AT_ONCE):
            some = sizes[begin : begin + _AT_ONCE]
            planted = rng.random(len(some)) < s.share
            for size in range(s.rule_size[0], s.rule_size[1] + 1):
                for draw_some, kind in ((self._background, ~planted), (self._planted, planted)):
                    chosen = np.flatnonzero((some == size) & kind)
                    at = offsets[begin + chosen][:, None] + np.arange(size)
                    drawn = draw_some(rng, size, len(chosen))
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
        return self.weighted(rules, draw) if weighted else rules

    def _widths(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.integers(*self.setting.width, shape, dtype=np.int32, endpoint=True)

    def _background(self, rng: np.random.Generator, size: int, n: int) -> tuple[np.ndarray, ...]:
        """Return attributes, lows and highs of n rules, [size, n] each."""
        s = self.setting
        attribute = np.sort(_distinct(rng, self.popular, size, n), axis=0)
        width = self._widths(rng, attribute.shape)
        if s.clusters:
            cluster = rng.integers(0, s.clusters, attribute.shape, dtype=np.uint16)
            low = self.start[attribute, cluster]
            low += _below(rng, np.maximum(s.cluster_size - width, 0) + 1)
        else:
            low = rng.integers(0, s.cardinality - s.width[1], attribute.shape)
        return attribute, low, low + width - 1

    def _planted(self, rng: np.random.Generator, size: int, n: int) -> tuple[np.ndarray, ...]:
        s = self.setting
        profile = rng.integers(0, s.profiles, n)
        core = _table(s.rule_size[1], 0.0, np.arange(s.rule_size[1]))
        place = np.sort(_distinct(rng, core, size, n), axis=0)
        width = self._widths(rng, place.shape)
        slack = _below(rng, np.abs(s.home - width) + 1)
        low = self.home[place, profile] + np.where(width <= s.home, slack, -slack)
        return self.core[place, profile], low, low + width - 1

    def weighted(self, c: Conjunctions, draw: int = 0) -> Conjunctions:
        """Return the rules with weights by inverse frequency (section VII-C, after Whang et al.).

        inv is 1 for the rarest attribute, and falls as others are more frequent. The paper
        prints the maximum of inv and a Gaussian around 0.8 inv with a deviation of 0.05 inv,
        which would be inv in all but 0.003% of cases and tell no two rules of the same
        attributes apart; the minimum is meant.
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
        """Return n fresh events; another `draw` gives others."""
        s = self.setting
        rng = self._rng(3, draw)
        sizes = rng.integers(*s.event_size, n, endpoint=True)
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        attribute, key = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.int64)
        for begin in range(0, n, _AT_ONCE):
            some = sizes[begin : begin + _AT_ONCE]
            for size in range(s.event_size[0], s.event_size[1] + 1):
                chosen = np.flatnonzero(some == size)
                profile = rng.integers(0, s.profiles, len(chosen))
                given = self.core[:, profile]
                all_of_them = _distinct(rng, self.popular, size, len(chosen), given)
                others = all_of_them[len(given) :]
                values = np.empty(all_of_them.shape, np.int64)
                at_home = self.home[:, profile]
                values[: len(given)] = at_home + rng.integers(0, s.home, given.shape)
                if s.clusters:
                    cluster = rng.integers(0, s.clusters, others.shape)
                    within = rng.integers(0, s.cluster_size, others.shape)
                    values[len(given) :] = self.start[others, cluster] + within
                else:
                    values[len(given) :] = rng.integers(0, s.cardinality, others.shape)
                # An event's attributes come in no order that would tell them apart.
                order = rng.random(all_of_them.shape, dtype=np.float32).argsort(axis=0)
                at = (offsets[begin + chosen][:, None] + np.arange(size)).T
                attribute[at] = np.take_along_axis(all_of_them, order, axis=0)
                key[at] = np.take_along_axis(values, order, axis=0)
        return sparse_keys(offsets, attribute, key)

    # ------------------------------------------------------------ as a user has them

    def rule_table(self, c: Conjunctions, first: int = 0) -> pa.Table:
        """Return rules in the long form that `Rules.add_many` takes; ids from `first` on."""
        ids = np.repeat(np.arange(first, first + c.size), np.diff(c.offsets))
        names = pa.DictionaryArray.from_arrays(pa.array(c.attribute), pa.array(self.names))
        columns = {"id": ids, "attribute": names, "low": c.low, "high": c.high}
        return pa.table(columns | ({"weight": c.weight} if len(c.weight) else {}))

    def event_table(self, keys: Keys) -> pa.Table:
        """Return events as a column of maps."""
        names = pa.DictionaryArray.from_arrays(pa.array(keys.attribute), pa.array(self.names))
        offsets = pa.array(keys.offsets.astype(np.int32))
        maps = pa.MapArray.from_arrays(offsets, names.cast(pa.string()), pa.array(keys.key))
        return pa.table({"attributes": maps})

    def event_dicts(self, keys: Keys) -> list[dict[str, int]]:
        """Return events as Python has them."""
        names = np.array(self.names, object)[keys.attribute].tolist()
        values, bounds = keys.key.tolist(), keys.offsets.tolist()
        return [dict(zip(names[a:z], values[a:z])) for a, z in pairwise(bounds)]


def _table(n: int, zipf: float, order: np.ndarray) -> np.ndarray:
    """Return what turns even 16-bit numbers into choices of n with chances as Zipf's."""
    chance = 1.0 / np.arange(1, n + 1) ** zipf
    upto = np.cumsum(chance) / chance.sum()
    at = np.searchsorted(upto, (np.arange(_FINENESS) + 0.5) / _FINENESS)
    return order[np.minimum(at, n - 1)].astype(np.uint16)


def _distinct(
    rng: np.random.Generator, table: np.ndarray, size: int, n: int, given: np.ndarray | None = None
) -> np.ndarray:
    """Return n columns of `size` choices, drawn one after the other until new; [size, n].

    What is `given` comes first.
    """
    begun = 0 if given is None else len(given)
    made = np.empty((size, n), np.uint16)
    if given is not None:
        made[:begun] = given
    for i in range(begun, size):
        open_ = np.arange(n)
        while len(open_):
            made[i, open_] = table[rng.integers(0, _FINENESS, len(open_), dtype=np.uint16)]
            drawn, old = made[i, open_], np.zeros(len(open_), bool)
            for j in range(i):
                old |= made[j, open_] == drawn
            open_ = open_[old]
    return made


def _below(rng: np.random.Generator, bound: np.ndarray) -> np.ndarray:
    """Return even whole numbers below each of these small bounds."""
    return (rng.random(bound.shape, dtype=np.float32) * bound).astype(np.int32)


# ------------------------------------------------------------ what events see


def met(c: Conjunctions, floats: np.ndarray, keys: Keys) -> np.ndarray:
    """Return how many rules each event meets."""
    from benchmarks.asking import Asked
    from tocsin.index.counting.index import Counting

    asked = Asked(Counting.build(c, floats), keys, len(floats))
    return np.concatenate([np.diff(offsets) for _, offsets, _ in asked.blocks(keys.size)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--events", type=int, default=2_000)
    asked = parser.parse_args()
    for name in FAMILIES:
        for zipf in (False, True):
            world = World(family(name, zipf))
            s = world.setting
            start = time.perf_counter()
            c = world.rules(asked.rules, weighted=True)
            took = time.perf_counter() - start
            counts = met(c, world.floats, world.events(asked.events))
            print(
                f"{name}, {'Zipf' if zipf else 'uniform'}: {asked.rules:,} rules in {took:.1f} s, "
                f"{s.share:.0%} of them planted in {s.profiles:,} profiles; of all rules a fresh "
                f"event should meet {s.match:.3%} and meets {counts.mean() / asked.rules:.3%} "
                f"({counts.mean():,.1f}; from {counts.min():,} to {counts.max():,})"
            )


if __name__ == "__main__":
    main()
