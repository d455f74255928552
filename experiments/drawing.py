"""The style of all pictures: a colour per structure, and labels next to lines instead of legends.

The colours are those of Okabe and Ito, which colour-blind people can distinguish; markers also
differ.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

_BLUE, _ORANGE, _GREEN, _RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
_PURPLE, _SKY, _BLACK, _GREY = "#CC79A7", "#56B4E9", "#222222", "#8A8A8A"
_PAGE = 10.2  # inches: at 100 dots an inch as wide as the page of a document

STYLES = {  # name: colour, marker, line
    "W = 20": (_BLUE, "o", "-"),
    "W = 40": (_RED, "s", "-"),
    "VCR": (_BLUE, "o", "-"),
    "VCR (Tocsin)": (_SKY, "o", "--"),
    "uniform": (_GREEN, "v", "-"),
    "90-10": (_RED, "s", "-"),
    "R*-tree": (_RED, "s", "-"),
    "packed R-tree": (_ORANGE, "D", "-"),
    "shapely": (_GREY, "^", "--"),
    "direct": (_BLUE, "o", "-"),
    "hashed": (_RED, "s", "-"),
    "hashed (Tocsin)": (_ORANGE, "D", "--"),
    "simple": (_RED, "s", "-"),
    "overlapped": (_BLUE, "o", "-"),
    "LCI": (_BLUE, "o", "-"),
    "SCI": (_SKY, "v", "-"),
    "direct list": (_GREEN, "s", "-"),
    "LCI-BV": (_ORANGE, "D", "-"),
    "LCI-BV(DT)": (_BLACK, "o", "-"),
    "interval skip list": (_RED, "D", "-"),
    "ncls": (_GREY, "^", "--"),
    "intervals (Tocsin)": (_PURPLE, "P", "-"),
    "thesis' grid": (_BLUE, "o", "-"),
    "grid (Tocsin)": (_SKY, "o", "--"),
    "CR-tree": (_BLACK, "^", "-"),
    "skewed": (_BLUE, "o", "-"),
    "32-tree": (_GREEN, "v", "-"),
    "quad-tree": (_PURPLE, "P", "-"),
    "n x n cells": (_BLUE, "o", "-"),
    "unsorted": (_RED, "s", "-"),
    "Z-sorted": (_BLUE, "o", "-"),
    "SCAN": (_BLACK, "^", "-"),
    "k-index": (_RED, "s", "-"),
    "k-index, top-1": (_RED, "s", "--"),
    "BE-tree": (_ORANGE, "D", "-"),
    "BE*-tree, bulk": (_SKY, "v", "--"),
    "BE*-tree": (_BLUE, "o", "-"),
    "BE*-tree, top-1": (_BLUE, "o", "--"),
    "BE*-tree, top-5": (_SKY, "v", "--"),
    "two sums (Tocsin)": (_ORANGE, "D", "-"),
    "two sums (Tocsin), top-1": (_ORANGE, "D", "--"),
    "keyed (Tocsin)": (_GREEN, "P", "-"),
    "keyed (Tocsin), top-1": (_GREEN, "P", "--"),
    "below 1%": (_BLUE, "o", "-"),
    "1% to 10%": (_GREEN, "v", "-"),
    "10% and more": (_RED, "s", "-"),
    "the paper": (_GREY, "^", "-"),
    "a batch": (_BLUE, "o", "-"),
    "one by one": (_RED, "s", "-"),
    "a batch (Tocsin)": (_SKY, "o", "--"),
    "one by one (Tocsin)": (_ORANGE, "s", "--"),
    "RSJ": (_BLACK, "^", "-"),
    "RSJ, restricted": (_GREY, "^", "--"),
    "EGO": (_RED, "s", "-"),
    "EGO*": (_ORANGE, "D", "-"),
    "Grid": (_BLUE, "o", "-"),
    "Grid, unsorted": (_SKY, "o", "--"),
    "cells (Tocsin)": (_GREEN, "P", "-"),
    "blocks (Tocsin)": (_PURPLE, "v", "-"),
    "measured": (_BLACK, "o", "-"),
    "18 equations": (_RED, "s", "--"),
    "fitted (Tocsin)": (_GREEN, "P", "--"),
    "as shipped": (_SKY, "v", "-"),
    "polynomial": (_RED, "s", "--"),
    "counted": (_BLUE, "o", "-"),
    "from a sample (Tocsin)": (_GREEN, "P", "--"),
    "side of a cube": (_RED, "s", "-"),
    "selectivity": (_BLUE, "o", "-"),
    "Glb_RR": (_BLACK, "^", "-"),
    "Glb_RR, limited": (_GREY, "^", "--"),
    "Loc_RR": (_PURPLE, "v", "-"),
    "MaxUnc": (_ORANGE, "D", "-"),
    "MinExpEntropy": (_RED, "s", "-"),
    "MinMin": (_BLUE, "o", "-"),
    "expected score (Tocsin)": (_SKY, "P", "--"),
    "MinMin, distinct (Tocsin)": (_GREEN, "P", "--"),
    "as assumed": (_BLUE, "o", "-"),
    "one message per update": (_SKY, "v", "-"),
    "no own reports": (_ORANGE, "D", "-"),
    "excess is rejected": (_RED, "s", "-"),
    "no limit of queries": (_PURPLE, "P", "-"),
    "always 5 seconds": (_GREEN, "v", "--"),
    "5 seconds, rejected": (_BLACK, "^", "--"),
    "shared updates": (_GREY, "^", "-"),
    "perfect": (_GREY, "", "--"),
    "k-d tree": (_BLUE, "o", "-"),
    "Z-curve": (_ORANGE, "D", "-"),
    "naive": (_BLACK, "^", "-"),
    "naive, widest first (Tocsin)": (_GREEN, "P", "-"),
    "NumPy": (_PURPLE, "v", "--"),
    "rtree": (_RED, "s", "--"),
    "k-d tree, index alone": (_SKY, "o", "--"),
    "Z-curve, index alone": (_ORANGE, "D", "--"),
    "table size": (_BLUE, "o", ""),
    "messages": (_RED, "s", ""),
    "not covered": (_GREY, "^", ""),
    "visited, ours": (_BLUE, "o", "-"),
    "visited, paper": (_SKY, "", ":"),
    "compared, ours": (_RED, "s", "-"),
    "compared, paper": (_ORANGE, "", ":"),
    "random": (_BLUE, "o", "-"),
    "oldest first": (_GREEN, "v", "-"),
    "newest first": (_PURPLE, "P", "-"),
    "largest first": (_RED, "s", "-"),
    "G_1": (_BLUE, "o", "-"),
    "strict poset": (_GREEN, "v", "-"),
    "G*": (_RED, "s", "-"),
    "Reconstruct": (_RED, "s", "-"),
    "Insert/Delete": (_ORANGE, "D", "-"),
    "Modify": (_GREEN, "v", "-"),
    "Brute Force": (_BLACK, "^", "-"),
    "no clustering": (_RED, "s", "-"),
    "clustering": (_BLUE, "o", "-"),
    "pre-processing": (_GREY, "^", "-"),
    "packed (Tocsin)": (_GREEN, "P", "--"),
    "VCI, before a scan": (_ORANGE, "D", "-"),
    "VCI, best period": (_BLUE, "o", "-"),
    "brute force": (_BLACK, "^", "-"),
    "Q-index": (_RED, "s", "-"),
    "SafeDist": (_ORANGE, "D", "-"),
    "SafeSphere": (_SKY, "v", "-"),
    "SafeRect": (_BLUE, "o", "-"),
    "SafeDist, 500 mph": (_ORANGE, "D", "--"),
    "SafeSphere, 500 mph": (_SKY, "v", "--"),
    "SafeRect, 500 mph": (_BLUE, "o", "--"),
    "recompute": (_RED, "", "-"),
    "modify": (_BLUE, "", "-"),
    "velocity (Tocsin)": (_BLUE, "o", "-"),
    "scan": (_BLACK, "^", "-"),
    "grid, rebuilt": (_GREEN, "v", "-"),
}

plt.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": "#666666",
        "axes.labelcolor": "#333333",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.8,
        "xtick.color": "#444444",
        "ytick.color": "#444444",
        "lines.linewidth": 2.0,
        "lines.markersize": 6,
        "savefig.dpi": 100,
        "savefig.bbox": "tight",
        "figure.constrained_layout.use": True,
    }
)


def panels(
    count: int, title: str, height: float = 3.9, parameters: str = ""
) -> tuple[Any, list[Any]]:
    """Return a picture with panels, two side by side, and the parameters as a line below them."""
    columns = min(count, 2)
    rows = -(-count // columns)
    width = _PAGE if columns == 2 else 0.72 * _PAGE
    picture, axes = plt.subplots(rows, columns, figsize=(width, height * rows), squeeze=False)
    picture.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold")
    if parameters:
        text = textwrap.fill(parameters, int(width * 15))
        picture.supxlabel(text, x=0.01, ha="left", fontsize=8.5, color="#555555")
    flat = list(axes.reshape(-1))
    for unused in flat[count:]:
        unused.set_visible(False)
    return picture, flat[:count]


Series = Mapping[str, Sequence[Any]]  # for each point a number, or what it was in each round


def lines(
    axes: Any,
    title: str,
    x: tuple[str, list[float]],
    y_label: str,
    series: Series,
    powers: bool = True,
    zero: bool = False,
    ticks: list[str] | None = None,
    spread: dict[str, tuple[list[float], list[float]]] | None = None,
) -> None:
    """Draw a line per structure, with its name at its end.

    Where values are those of several rounds, the line is their median, with a band from the least
    to the greatest. `ticks` are labels of the x values, and `spread` has the ends of bands that are
    not those of rounds.
    """
    x_label, xs = x
    spread = dict(spread or {})
    medians: dict[str, list[float]] = {}
    for name, values in series.items():
        medians[name] = [float(np.median(v)) for v in values]
        if any(np.size(v) > 1 for v in values):
            ends = [np.min(v) for v in values], [np.max(v) for v in values]
            spread.setdefault(name, ends)
    for name, middle in medians.items():
        colour, marker, style = STYLES[name]
        axes.plot(xs[: len(middle)], middle, color=colour, marker=marker, linestyle=style)
        if name in spread:
            low, high = spread[name]
            axes.fill_between(xs[: len(low)], low, high, color=colour, alpha=0.15, linewidth=0)
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if powers:
        axes.set_xscale("log", base=2)
        axes.set_xticks(xs, ticks or [short(v) for v in xs])
        axes.xaxis.set_minor_locator(NullLocator())
    if zero:
        tops = [*medians.values(), *(high for _, high in spread.values())]
        axes.set_ylim(0, 1.08 * float(max(np.max(v) for v in tops)) or 1)
    else:
        axes.set_yscale("log")
        _log_ticks(axes)
    _label_ends(axes, xs, medians)


def paper(axes: Any, xs: Sequence[float], ys: Sequence[float], name: str) -> None:
    """Draw what the paper gives: hollow points, or a dotted line if they are two or more."""
    axes.plot(
        xs, ys, color=_BLACK, marker="o", markerfacecolor="white", markersize=7, linestyle=":",
        linewidth=1.2, zorder=5,
    )  # fmt: skip
    axes.annotate(
        f"paper: {name}", (xs[0], ys[0]), xytext=(6, 7), textcoords="offset points", fontsize=8.5,
        color=_BLACK, style="italic", zorder=6,
    )  # fmt: skip
    _include(axes, ys)


def limit(axes: Any, y: float, name: str) -> None:
    """Draw the limit of a check as a horizontal line."""
    axes.axhline(y, color=_BLACK, linestyle=":", linewidth=1.2)
    _include(axes, [y])
    axes.annotate(
        name, (0.01, y), xycoords=("axes fraction", "data"), xytext=(0, 3), fontsize=8.5,
        textcoords="offset points", color=_BLACK, style="italic", zorder=6,
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )  # fmt: skip


def marks(
    axes: Any,
    title: str,
    groups: list[str],
    x_label: str,
    series: Series,
    given: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Draw a row per group and structure: a mark on a logarithmic axis, with its name and value.

    A bar would have no length there, since the axis has no zero. A line through a mark goes from
    the least round to the greatest. `given` has the paper's numbers for some structures, drawn as
    hollow marks; NaN where there is none.
    """
    given = given or {}
    rows = len(series) + 1
    for i, (name, values) in enumerate(series.items()):
        colour, marker, _ = STYLES[name]
        for group, value in enumerate(values):
            at = group * rows + i
            middle = float(np.median(value))
            if not np.isfinite(middle):
                continue
            axes.plot([np.min(value), np.max(value)], [at, at], color=colour, linewidth=1.5)
            axes.plot([middle], [at], color=colour, marker=marker or "o", linestyle="none")
            label, end = f"{name}  {short(middle)}", np.max(value)
            if name in given and np.isfinite(given[name][group]):
                axes.plot(
                    [given[name][group]], [at], color=colour, marker="o", linestyle="none",
                    markerfacecolor="white", markersize=8,
                )  # fmt: skip
                label += f"  (paper {short(given[name][group])})"
                end = max(end, given[name][group])
            axes.annotate(
                label, (end, at), xytext=(8, 0), textcoords="offset points",
                va="center", fontsize=8, color="#333333",
            )  # fmt: skip
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_xscale("log")
    axes.set_yticks([g * rows + (rows - 2) / 2 for g in range(len(groups))], groups)
    axes.set_ylim(len(groups) * rows - 0.5, -1)
    axes.grid(visible=False, axis="y")
    low, high = axes.get_xlim()
    axes.set_xlim(low, high * (high / low) ** 0.8)  # room for names
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def dots(
    axes: Any, title: str, groups: list[str], x_label: str, series: dict[str, list[float]]
) -> None:
    """Draw a row per group and a marker per structure, from zero on."""
    rows = np.arange(len(groups))
    for i, (name, values) in enumerate(series.items()):
        colour, marker, _ = STYLES[name]
        at = rows + (i - (len(series) - 1) / 2) * 0.14
        axes.plot(values, at, color=colour, marker=marker, linestyle="none", label=name)
    axes.set_title(title)
    axes.set_xlabel(x_label)
    axes.set_yticks(rows, groups)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.08 * max(max(v) for v in series.values()))
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncol=2, frameon=False, fontsize=9)


def pairs(axes: Any, title: str, rows: list[tuple[str, float, float]]) -> None:
    """Draw two bars per row, the paper's number and ours, with their values."""
    colours = _GREY, _BLUE
    for i, (_, *numbers) in enumerate(rows):
        for j, (who, value, colour) in enumerate(zip(("paper", "ours"), numbers, colours)):
            at = i + (j - 0.5) * 0.36
            axes.barh(at, value, 0.33, color=colour)
            axes.annotate(
                f"{who} {short(value)}", (max(value, 0.0), at), xytext=(4, 0), va="center",
                textcoords="offset points", fontsize=8, color="#333333",
            )  # fmt: skip
    axes.set_title(title)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.invert_yaxis()
    axes.set_xlim(min(0.0, *(r[2] for r in rows)), 1.25 * max(max(r[1:]) for r in rows))
    axes.grid(visible=False, axis="y")


def point(axes: Any, x: float, y: float, name: str) -> None:
    """Mark a point."""
    axes.plot([x], [y], color=_RED, marker="*", markersize=13, linestyle="none")
    axes.annotate(
        name, (x, y), xytext=(9, -9), textcoords="offset points", ha="left", va="top",
        fontsize=9, color=_RED, fontweight="bold",
    )  # fmt: skip


def short(value: float) -> str:
    """Return a number with few characters."""
    for unit, suffix in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:.2g}" if abs(value) < 10 else f"{value:.3g}"


def _include(axes: Any, ys: Sequence[float]) -> None:
    """Extend the y axis to what is drawn after the lines, with room for a name above it."""
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":
        axes.set_ylim(min(low, min(ys) / 1.1), max(high, 1.25 * max(ys)))
        _log_ticks(axes)
    else:
        axes.set_ylim(min(low, min(ys)), max(high, 1.12 * max(ys)))


def _log_ticks(axes: Any) -> None:
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: short(v)))
    low, high = axes.get_ylim()
    if high / low < 300:  # too few powers of ten for ticks
        ticks = [m * 10.0**e for e in range(-9, 10) for m in (1, 2, 5)]
        axes.set_yticks([t for t in ticks if low <= t <= high])
        axes.set_ylim(low, high)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(NullLocator())


def _label_ends(axes: Any, xs: list[float], series: Mapping[str, list[float]]) -> None:
    """Write names at the ends of lines, moved apart if they overlap."""
    transform = axes.transData
    ends = sorted((transform.transform((xs[0], v[-1]))[1], name) for name, v in series.items())
    least = 13.0 * axes.figure.dpi / 72
    heights = _move_apart([e[0] for e in ends], least)
    for moved, (height, name) in zip(heights, ends, strict=True):
        values = series[name]
        axes.annotate(
            name, (xs[len(values) - 1], values[-1]), xytext=(9, (moved - height) * 72
            / axes.figure.dpi), textcoords="offset points", va="center", fontsize=9,
            color=STYLES[name][0], fontweight="bold", annotation_clip=False,
            path_effects=[withStroke(linewidth=3, foreground="white")],  # over longer lines
        )  # fmt: skip


def _move_apart(heights: list[float], least: float) -> list[float]:
    """Return ascending heights, moved as little as possible until they are `least` apart."""
    pools: list[list[float]] = []  # sum and number of heights that move together
    for i, height in enumerate(heights):
        pools.append([height - i * least, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += count
    level = [total / count for total, count in pools for _ in range(int(count))]
    return [height + i * least for i, height in enumerate(level)]
