"""Virtual construct intervals: Wu, Chen, Yu, Indexing continual range queries, section 2.5."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from experiments import drawing
from experiments.bit_vectors import BitVectorSearch
from experiments.interval_skip_list import SkipListSearch
from experiments.measuring import PointSearch, Structure, boxes, check_equal, search_times
from experiments.rivals import DirectList, NestedList
from experiments.verdicts import Finding, Rounds, at_least, at_most, main
from tocsin.index.constructs.intervals.index import Intervals

_RANGE = 5000  # the paper's R
_MOST = 500  # the length of the longest interval
_LONGEST = 64  # L
_SIZES = {
    "tiny": dict(counts=[500, 1000], events=300, few=100, checked=100, seconds=0.0),
    "full": dict(
        counts=[2_000, 8_000, 32_000, 128_000], events=20_000, few=1_000, checked=300, seconds=0.4
    ),
}
_DIRECT, _SKIP_LIST, _TABLE = "direct list", "interval skip list", "LCI-BV(DT)"
_PAPER = [_DIRECT, _SKIP_LIST, "SCI", "LCI", "LCI-BV", _TABLE]  # what the paper's figures have
_COUNTS = "number of queries"
_PARAMETERS = (
    f"R = {_RANGE:,}, intervals of length 1 to {_MOST} with whole ends, L = {_LONGEST}; events are "
    "whole numbers."
)
_SETTING = (
    f"Intervals of length 1 to {_MOST} between whole numbers, events uniform on the {_RANGE:,} "
    f"values, L = {_LONGEST}. SCI and LCI are the index `intervals` with `lattice` = published; "
    "`intervals` (Tocsin) is the same index as it is by default, with a coarser lattice, sorted "
    "ends, and its own L. The interval skip list is that of Hanson and Johnson; all lists are flat "
    "arrays. "
)
_DIFFERS = (
    "the text gives the range alone: numbers and lengths of intervals, and L, are our choice; the "
    "bit vectors are our reading of the names LCI-BV and LCI-BV(DT), whose description is in "
    "another paper; all lists are flat arrays"
)


class Measured(NamedTuple):
    """What was measured, for each structure and number of queries."""

    counts: list[int]
    times: dict[str, list[np.ndarray]]  # microseconds of an event, in each round
    storage: dict[str, list[float]]  # megabytes
    matches: float  # of an event, with the most queries

    def ratios(self, name: str, other: str) -> dict[str, Rounds]:
        """Return how many times as long as another a structure takes, for each count."""
        pairs = zip(self.counts, self.times[name], self.times[other], strict=True)
        return {f"{n:,} queries": mine / theirs for n, mine, theirs in pairs}

    def sizes(self, name: str, other: str) -> dict[str, Rounds]:
        """Return how many times the storage of another a structure takes, for each count."""
        pairs = zip(self.counts, self.storage[name], self.storage[other], strict=True)
        return {f"{n:,} queries": mine / theirs for n, mine, theirs in pairs}


def draw_intervals(n: int, events: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the low and high ends of n intervals, and the values of events."""
    rng = np.random.default_rng(3)
    low = rng.integers(0, _RANGE - 1, n)
    high = np.minimum(low + rng.integers(1, _MOST + 1, n), _RANGE - 1)
    return low, high, rng.integers(0, _RANGE, events)


def build_all(low: np.ndarray, high: np.ndarray, points: np.ndarray) -> dict[str, Structure]:
    """Return all structures over intervals."""
    rules = boxes(low[None], high[None], False)
    published = {"lattice": "published", "longest": _LONGEST}
    lci = Intervals.build(*rules, **published)
    sci = Intervals.build(*rules, **published, decomposition="simple")
    return {
        _DIRECT: DirectList(low, high, points),
        _SKIP_LIST: SkipListSearch(low, high, points),
        "SCI": PointSearch(sci, points[None], False),
        "LCI": PointSearch(lci, points[None], False),
        "LCI-BV": BitVectorSearch(lci.layout, len(low), points, table=False),
        _TABLE: BitVectorSearch(lci.layout, len(low), points, table=True),
        "ncls": NestedList(low, high, points),
        "intervals (Tocsin)": PointSearch(Intervals.build(*rules), points[None], False),
    }


@functools.cache
def measure(size: str) -> Measured:
    """Measure time and storage; both figures are of the same run."""
    s = _SIZES[size]
    times: dict[str, list[np.ndarray]] = {}
    storage: dict[str, list[float]] = {}
    matches = 0.0
    for n in s["counts"]:
        structures = build_all(*draw_intervals(n, s["events"]))
        matches = check_equal(structures, s["checked"])
        for name, t in search_times(structures, s["seconds"], {"ncls": s["few"]}).items():
            times.setdefault(name, []).append(1e6 * t)
            if structures[name].nbytes:
                storage.setdefault(name, []).append(structures[name].nbytes / 1e6)
    return Measured(s["counts"], times, storage, matches)


# ------------------------------------------------------------ Fig. 6


def search_time(size: str) -> Finding:
    m = measure(size)
    near = 2.0  # times the best: what we call near-best
    picture, axes = drawing.panels(
        2,
        "Intervals: time of a search (VCI, Fig. 6)",
        parameters=f"{_PARAMETERS} Bands: all rounds.",
    )
    x = (_COUNTS, m.counts)
    title = f"{m.matches:,.0f} matches at the right"
    drawing.lines(axes[0], title, x, "microseconds", m.times)
    shown = ["LCI", "LCI-BV", _TABLE, _SKIP_LIST, "intervals (Tocsin)"]
    relative = {name: list(m.ratios(name, _DIRECT).values()) for name in shown}
    drawing.lines(axes[1], "relative to the direct list", x, "times as long", relative)
    drawing.limit(axes[1], near, f"near-best: at most {near:g} times the direct list")
    others = [name for name in _PAPER if name != _DIRECT]
    return Finding(
        "vci-search",
        "Virtual construct intervals, time of a search",
        "VCI, Fig. 6",
        "The direct list has the best search performance. LCI-BV(DT), the best of the optimised "
        "variants of LCI, has a near-best one. The interval skip list, the best index before, does "
        "not have a good one.",
        _SETTING + "ncls gets many points at once and returns new pairs.",
        [
            main(
                at_most(
                    "LCI-BV(DT) takes little longer than the best, the direct list",
                    m.ratios(_TABLE, _DIRECT),
                    near,
                )
            ),
            at_most(
                "the direct list is the fastest of the paper's structures",
                {
                    f"{name} and {count}": ratio
                    for name in others
                    for count, ratio in m.ratios(_DIRECT, name).items()
                },
                1.1,
            ),
            at_least(
                "the interval skip list takes longer than LCI-BV(DT)",
                m.ratios(_SKIP_LIST, _TABLE),
                1.1,
            ),
            at_least("a bit vector makes LCI faster", m.ratios("LCI", _TABLE), 1.1),
            at_least("so does the table of differences", m.ratios("LCI-BV", _TABLE), 1.0),
            at_least(
                "ncls, a library that the paper does not have, takes longer than LCI",
                m.ratios("ncls", "LCI"),
                1.1,
            ),
        ],
        picture,
        differs=_DIFFERS,
    )


# ------------------------------------------------------------ Fig. 7


def storage(size: str) -> Finding:
    m = measure(size)
    picture, axes = drawing.panels(2, "Intervals: storage (VCI, Fig. 7)", parameters=_PARAMETERS)
    x = (_COUNTS, m.counts)
    drawing.lines(axes[0], "storage", x, "megabytes", m.storage)
    relative = {name: list(m.sizes(name, _TABLE).values()) for name in m.storage if name != _TABLE}
    drawing.lines(axes[1], "relative to LCI-BV(DT)", x, "times as much", relative)
    drawing.limit(axes[1], 1.0, "LCI-BV(DT): the lowest")
    others = [name for name in _PAPER if name != _TABLE]
    return Finding(
        "vci-storage",
        "Virtual construct intervals, storage",
        "VCI, Fig. 7",
        "LCI-BV(DT) has the lowest storage cost. That of the direct list is rather high, and that "
        "of the interval skip list is not low. LCI takes less than SCI in general (2.3).",
        _SETTING
        + "Counted are ids (4 bytes), pointers to lists (8 bytes), bits with their ranks, tables "
        "of differences, and the nodes and edges of the skip list with their markers, all without "
        "slack. Where all constructs are activated, a bit vector only adds to the pointers.",
        [
            main(
                at_least(
                    "LCI-BV(DT) has the lowest storage cost of the paper's structures",
                    {
                        f"{name} and {count}": ratio
                        for name in others
                        for count, ratio in m.sizes(name, _TABLE).items()
                    },
                    1.0,
                )
            ),
            at_least(
                "the direct list takes much more than LCI-BV(DT)", m.sizes(_DIRECT, _TABLE), 3
            ),
            at_least(
                "the interval skip list takes more than LCI-BV(DT)",
                m.sizes(_SKIP_LIST, _TABLE),
                1.1,
            ),
            at_least("SCI takes more than LCI with the same L", m.sizes("SCI", "LCI"), 1.0),
        ],
        picture,
        differs=_DIFFERS,
    )


FIGURES = {"vci-search": search_time, "vci-storage": storage}
