"""The demo's picture: the city by night, its fences, where rules rang, and the zone that changed.

Pings are light: their density, on a logarithmic scale, makes the streets glow, and matches
glow in the colour of their family on top. The two panels show the same neighbourhood in the
first and in the second hour.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from tocsin.cli.demo import fences
from tocsin.cli.demo.city import GASWORKS, HEIGHT, RIVER_WIDTH, WIDTH, City, coast, river

PIXELS = (1600, 1000)
NIGHT, WATER, PARK = "#0a0f1e", "#0f2136", "#0f2420"
STREET, TEXT, FAINT, ALARM = "#1d2942", "#eef2fb", "#93a1bd", "#ff4433"
_PANEL = (0.33, 0.38)  # width and height, as shares of the picture
_ZOOM = np.array([1.3 * _PANEL[0] * WIDTH / (_PANEL[1] * HEIGHT), 1.3])  # half of what it shows


def paint(
    path: Path,
    city: City,
    rules: list[fences.Fence],
    events: pa.Table,
    matches: pa.Table,
    first_after: int,
) -> None:
    """Write the picture; `first_after` is the first ping after the change."""
    figure = Figure(figsize=(PIXELS[0] / 100, PIXELS[1] / 100), dpi=100, facecolor=NIGHT)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1), facecolor=NIGHT)
    _ground(axes, city, 1.0)
    _outlines(axes, rules)
    axes.imshow(
        _glow(events, matches), extent=(0, WIDTH, 0, HEIGHT), origin="lower", zorder=4,
        interpolation="bilinear", aspect="auto",
    )  # fmt: skip
    _frame(axes, (0, WIDTH, 0, HEIGHT))
    _words(axes, len(rules), events, matches)
    _where_we_zoom(axes)
    first = pc.less(events["ping"], first_after)
    rang = pc.equal(matches["rule"], fences.ALARM)
    early = pc.less(matches["ping"], first_after)
    for bottom, fence, when, seen, hits in (
        (0.497, fences.before(), "7 to 8", first, pc.and_(rang, early)),
        (0.055, fences.after(), "8 to 9", pc.invert(first), pc.and_not(rang, early)),
    ):
        panel = figure.add_axes((0.655, bottom, *_PANEL))
        _panel(panel, city, fence, when, events.filter(seen), matches.filter(hits))
    canvas.draw()
    _small(Image.frombuffer("RGBA", PIXELS, bytes(canvas.buffer_rgba()))).save(path, optimize=True)


def _small(image: Image.Image) -> Image.Image:
    """Return an image in 128 colours: a quarter of the bytes, and nobody sees it.

    The plain areas and the legend keep their exact colours; light shares the rest.
    """
    image = image.convert("RGB")
    exact = [NIGHT, WATER, PARK, STREET, TEXT, FAINT, ALARM, *fences.FAMILIES.values()]
    few = image.reduce(2).quantize(128 - len(exact), method=Image.Quantize.MAXCOVERAGE)
    chosen = few.getpalette() or []
    ours = [round(255 * part) for colour in exact for part in to_rgb(colour)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*chosen[: 3 * (128 - len(exact))], *ours])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def _ground(axes: Axes, city: City, scale: float) -> None:
    """Draw land, water, parks and streets."""
    y = np.linspace(0, HEIGHT, 200)
    x = np.linspace(0, WIDTH, 400)
    axes.fill_betweenx(y, coast(y), WIDTH, color=WATER, zorder=1, lw=0)
    axes.plot(coast(y), y, color="#1f4468", lw=1.4 * scale, zorder=2)
    wet = x < coast(river(x)) + 0.05
    half = RIVER_WIDTH / 2 * 0.9
    axes.fill_between(
        x[wet], river(x[wet]) - half, river(x[wet]) + half, color=WATER, zorder=1, lw=0
    )
    for low_x, high_x, low_y, high_y in city.parks:
        size = (high_x - low_x, high_y - low_y)
        axes.add_patch(Rectangle((low_x, low_y), *size, color=PARK, zorder=1, lw=0))
    ends = city.nodes[city.edges]
    widths = np.where(city.avenue, 2.4, 0.8) * scale
    axes.add_collection(LineCollection(list(ends), colors=STREET, linewidths=widths, zorder=2))


def _outlines(axes: Axes, rules: list[fences.Fence]) -> None:
    """Draw the fences, faintly: there are thousands."""
    for family, colour in fences.FAMILIES.items():
        boxes = np.array([f.box for f in rules if f.family == family and f.box])
        if not len(boxes):
            continue
        a, b, c, d = boxes.T
        loops = np.stack([[a, c], [b, c], [b, d], [a, d], [a, c]]).transpose(2, 0, 1)
        large = family in ("clean air", "no fly")
        alpha = 0.7 if large else 0.4
        lines = LineCollection(list(loops), colors=colour, linewidths=0.9 if large else 0.5)
        lines.set_alpha(alpha)
        lines.set_zorder(3)
        axes.add_collection(lines)


def _glow(events: pa.Table, matches: pa.Table) -> np.ndarray:
    """Return light to lay over the map, float[h, w, 4]: pings white, matches in colour."""
    light = _density(events, 1.0)[..., None] * np.array(to_rgb("#7f9cff")) * 0.45
    colours = {**fences.FAMILIES, "alarm": ALARM}
    for family, colour in colours.items():
        if family == "fleets":  # everywhere, so nowhere
            continue
        found = matches.filter(pc.equal(matches["family"], family))
        light += _density(found, 1.5)[..., None] * np.array(to_rgb(colour)) * 0.9
    strength = light.max(axis=2).clip(0, 1)
    with np.errstate(invalid="ignore"):
        hue = np.nan_to_num(light / light.max(axis=2, keepdims=True))
    return np.dstack([hue, strength])


def _density(points: pa.Table, radius: float) -> np.ndarray:
    """Return how bright each pixel is, 0 to about 1, with a soft edge of some pixels."""
    wide, high = PIXELS
    counts, _, _ = np.histogram2d(
        points["y"].to_numpy(), points["x"].to_numpy(),
        bins=(high, wide), range=((0, HEIGHT), (0, WIDTH)),
    )  # fmt: skip
    counts = counts.astype(np.float32)
    for axis in (0, 1):  # a Gaussian is one along x and one along y; wrapping round is harmless
        offsets = range(-int(3 * radius), int(3 * radius) + 1)
        counts = sum(np.exp(-((o / radius) ** 2) / 2) * np.roll(counts, o, axis) for o in offsets)
    top = np.quantile(counts[counts > 0.05], 0.995) if (counts > 0.05).any() else 1.0
    bright = np.log1p(counts * 3) / np.log1p(top * 3)
    return np.where(bright < 0.1, 0.0, bright).clip(0, 1.2)


def _words(axes: Axes, rules: int, events: pa.Table, matches: pa.Table) -> None:
    """Write the title, and the families as a legend in their colours."""
    axes.text(10.48, 9.43, "Tocsin", color=TEXT, fontsize=32, fontweight="bold", zorder=9)
    line = f"{rules:,} rules   {len(events):,} events\n{len(matches):,} matches"
    axes.text(15.76, 9.84, line, color=FAINT, fontsize=14.5, ha="right", va="top", zorder=9)
    axes.add_patch(Rectangle((0, 0), WIDTH, 0.36, color=NIGHT, alpha=0.82, zorder=8, lw=0))
    counted = pc.value_counts(matches["family"]).to_pylist()
    hits = {entry["values"]: entry["counts"] for entry in counted}
    shown = [f for f in fences.FAMILIES if f != "fleets"]
    for place, family in enumerate(shown):
        x = 0.25 + place * 1.97
        axes.plot([x], [0.18], "s", color=fences.FAMILIES[family], ms=10, zorder=9)
        words = f"{family} {hits.get(family, 0):,}"
        axes.text(x + 0.15, 0.18, words, color=TEXT, fontsize=13.5, va="center", zorder=9)


def _where_we_zoom(axes: Axes) -> None:
    corner = GASWORKS - _ZOOM
    frame = Rectangle(corner, *(2 * _ZOOM), fill=False, ec=TEXT, lw=1.3, zorder=7)
    axes.add_patch(frame)
    axes.text(
        corner[0] + 0.08, corner[1] + 0.1, "the gasworks", color=TEXT, fontsize=15, zorder=9,
        bbox={"facecolor": NIGHT, "alpha": 0.75, "lw": 0, "pad": 2},
    )  # fmt: skip


def _panel(
    axes: Axes, city: City, fence: fences.Fence, when: str, seen: pa.Table, hits: pa.Table
) -> None:
    """Draw the neighbourhood of the gasworks in one of the two hours."""
    _ground(axes, city, 3.0)
    axes.set_facecolor(NIGHT)
    axes.scatter(seen["x"], seen["y"], s=2.0, color="#8fa6e8", alpha=0.16, lw=0, zorder=4)
    axes.scatter(hits["x"], hits["y"], s=5, color="#ffc2ad", alpha=0.6, lw=0, zorder=6)
    assert fence.box is not None
    a, b, c, d = fence.box
    axes.add_patch(Rectangle((a, c), b - a, d - c, fc=ALARM, alpha=0.2, lw=0, zorder=3))
    axes.add_patch(Rectangle((a, c), b - a, d - c, fill=False, ec=ALARM, lw=2.4, zorder=7))
    versions = pc.unique(hits["rules_version"]).to_pylist()
    version = f"rules version {versions[0]}" if versions else ""
    axes.text(
        0.025, 0.05, version, transform=axes.transAxes, color=FAINT, fontsize=16, zorder=9,
    )  # fmt: skip
    axes.text(
        0.0, 1.035, f"{when}: {fence.says}", transform=axes.transAxes,
        color=TEXT, fontsize=16, zorder=9,
    )  # fmt: skip
    axes.text(
        0.975, 0.05, f"{len(hits):,} hits", transform=axes.transAxes, ha="right",
        color=TEXT, fontsize=22, fontweight="bold", zorder=9,
    )  # fmt: skip
    (low_x, low_y), (high_x, high_y) = GASWORKS - _ZOOM, GASWORKS + _ZOOM
    _frame(axes, (low_x, high_x, low_y, high_y))


def _frame(axes: Axes, view: tuple[float, float, float, float]) -> None:
    axes.set_xlim(view[0], view[1])
    axes.set_ylim(view[2], view[3])
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#40506f")
