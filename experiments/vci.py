"""Virtual construct intervals: Wu, Chen, Yu, Indexing continual range queries, section 2.5."""

from __future__ import annotations

import numpy as np

from experiments import drawing
from experiments.measuring import PointSearch, boxes, check_equal, search_times
from experiments.rivals import Constructs, NestedList, SegmentTree
from experiments.verdicts import Finding, at_least, at_most
from tocsin.index.constructs.intervals.index import Intervals

_RANGE = 5000  # the paper's R
_MOST = 500  # the longest interval
_LONGEST = 64  # L
_SIZES = {
    "tiny": dict(counts=[500, 1000], events=300, few=100, checked=100, seconds=0.0),
    "full": dict(
        counts=[16_000, 32_000, 64_000, 128_000], events=20_000, few=1_000, checked=300, seconds=0.4
    ),
}


def search_and_storage(size: str) -> Finding:
    s = _SIZES[size]
    times: dict[str, list[float]] = {}
    storage: dict[str, list[float]] = {}
    matches = 0.0
    for n in s["counts"]:
        rng = np.random.default_rng(3)
        low = rng.integers(0, _RANGE, n)
        high = np.minimum(low + rng.integers(0, _MOST, n), _RANGE - 1)
        points = rng.integers(0, _RANGE, s["events"])
        shipped = Intervals.build(*boxes(low[None], high[None], False))
        structures = {
            "LCI": Constructs(low, high, points, _LONGEST, True),
            "SCI": Constructs(low, high, points, _LONGEST, False),
            "direct list": Constructs(low, high, points, 1, False),
            "segment tree": SegmentTree(low, high, points),
            "ncls": NestedList(low, high, points),
            "intervals (Tocsin)": PointSearch(shipped, points[None], False),
        }
        matches = check_equal(structures, s["checked"])
        for name, t in search_times(structures, s["seconds"], {"ncls": s["few"]}).items():
            times.setdefault(name, []).append(1e6 * t)
            if structures[name].nbytes:
                storage.setdefault(name, []).append(structures[name].nbytes / 1e6)
    picture, axes = drawing.panels(2, "Intervals: constructs against lists and trees (VCI, 6-7)")
    x = ("number of queries", s["counts"])
    drawing.lines(
        axes[0], f"time of a search: {matches:,.0f} matches at the right", x, "microseconds", times
    )
    drawing.lines(axes[1], "storage", x, "megabytes", storage)

    def last(series: dict[str, list[float]], name: str) -> float:
        return series[name][-1]

    prior, logarithmic = last(storage, "segment tree"), last(storage, "LCI")
    fastest = min(v[-1] for v in times.values())
    return Finding(
        "vci-search-and-storage",
        "Virtual construct intervals, time and storage",
        "VCI, Figs. 6-7",
        "The direct list is the fastest but takes much storage. Logarithmic constructs (LCI) are "
        "nearly as fast and take the least storage, less than simple constructs (SCI). The "
        "interval skip list, the best index before, is worse in both.",
        f"Intervals of 1 to {_MOST} on {_RANGE:,} values, L = {_LONGEST}. Numbers and lengths are "
        "our choice, as the text gives only the range. LCI, SCI and the direct list follow the "
        "paper literally, without its bit vectors. A segment tree stands for the skip list: it has "
        "the same markers without the randomness. ncls gets many points at once and returns new "
        "pairs. `Intervals` is Tocsin's index: a coarser lattice, sorted ends, and its own L.",
        [
            at_most("the direct list is the fastest", last(times, "direct list") / fastest, 1.1),
            at_most(
                "LCI is nearly as fast as the direct list",
                last(times, "LCI") / last(times, "direct list"),
                2,
            ),
            at_least(
                "the direct list takes much more storage than LCI",
                last(storage, "direct list") / logarithmic,
                3,
            ),
            at_least(
                "SCI takes more storage than LCI at the fewest queries",
                storage["SCI"][0] / storage["LCI"][0],
                1.0,
            ),
            at_least("a tree with markers takes more storage than LCI", prior / logarithmic, 1.1),
            at_least(
                "a tree with markers is slower than LCI",
                last(times, "segment tree") / last(times, "LCI"),
                1.1,
            ),
            at_least(
                "the library's nested list is slower than LCI",
                last(times, "ncls") / last(times, "LCI"),
                2,
            ),
        ],
        picture,
    )


FIGURES = {"vci-search-and-storage": search_and_storage}
