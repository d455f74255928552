"""The demo's picture: the city at night, its fences, the matches, and the zone that changed.

The brightness of a street is the density of pings on a logarithmic scale. Matches have the colour
of their family. The two panels show the gasworks in the first and in the second hour.
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
_ZOOM = np.array([1.3 * _PANEL[0] * WIDTH / (_PANEL[1] * HEIGHT), 1.3])  # half width and height, km


def draw(
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
    _draw_ground(axes, city, 1.0)
    _draw_fences(axes, rules)
    axes.imshow(
        _render_light(events, matches), extent=(0, WIDTH, 0, HEIGHT), origin="lower", zorder=4,
        interpolation="bilinear", aspect="auto",
    )  # fmt: skip
    _draw_frame(axes, (0, WIDTH, 0, HEIGHT))
    _write_legend(axes, len(rules), events, matches)
    _mark_gasworks(axes)
    is_early_event = pc.less(events["ping"], first_after)
    is_early_match = pc.less(matches["ping"], first_after)
    is_alarm = pc.equal(matches["rule"], fences.ALARM)
    for bottom, fence, hours, event_mask, match_mask in (
        (0.497, fences.alarm_before(), "7 to 8", is_early_event,
         pc.and_(is_alarm, is_early_match)),
        (0.055, fences.alarm_after(), "8 to 9", pc.invert(is_early_event),
         pc.and_not(is_alarm, is_early_match)),
    ):  # fmt: skip
        panel = figure.add_axes((0.655, bottom, *_PANEL))
        _draw_panel(
            panel, city, fence, hours, events.filter(event_mask), matches.filter(match_mask)
        )
    canvas.draw()
    image = Image.frombuffer("RGBA", PIXELS, bytes(canvas.buffer_rgba()))
    _reduce_colours(image).save(path, optimize=True)


def _reduce_colours(image: Image.Image) -> Image.Image:
    """Return an image with 128 colours, which takes a quarter of the bytes and looks the same.

    Plain areas and the legend keep their exact colours.
    """
    image = image.convert("RGB")
    exact = [NIGHT, WATER, PARK, STREET, TEXT, FAINT, ALARM, *fences.FAMILIES.values()]
    reduced = image.reduce(2).quantize(128 - len(exact), method=Image.Quantize.MAXCOVERAGE)
    chosen = reduced.getpalette() or []
    kept = [round(255 * part) for colour in exact for part in to_rgb(colour)]
    palette = Image.new("P", (1, 1))
    palette.putpalette([*chosen[: 3 * (128 - len(exact))], *kept])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


def _draw_ground(axes: Axes, city: City, scale: float) -> None:
    """Draw land, water, parks and streets."""
    y = np.linspace(0, HEIGHT, 200)
    x = np.linspace(0, WIDTH, 400)
    axes.fill_betweenx(y, coast(y), WIDTH, color=WATER, zorder=1, lw=0)
    axes.plot(coast(y), y, color="#1f4468", lw=1.4 * scale, zorder=2)
    x = x[x < coast(river(x)) + 0.05]
    half = RIVER_WIDTH / 2 * 0.9
    axes.fill_between(x, river(x) - half, river(x) + half, color=WATER, zorder=1, lw=0)
    for low_x, high_x, low_y, high_y in city.parks:
        size = (high_x - low_x, high_y - low_y)
        axes.add_patch(Rectangle((low_x, low_y), *size, color=PARK, zorder=1, lw=0))
    ends = city.nodes[city.edges]
    widths = np.where(city.is_avenue, 2.4, 0.8) * scale
    axes.add_collection(LineCollection(list(ends), colors=STREET, linewidths=widths, zorder=2))


def _draw_fences(axes: Axes, rules: list[fences.Fence]) -> None:
    """Draw the outlines of the fences, faintly, because there are thousands."""
    for family, colour in fences.FAMILIES.items():
        boxes = np.array([f.box for f in rules if f.family == family and f.box])
        if not len(boxes):
            continue
        a, b, c, d = boxes.T
        loops = np.stack([[a, c], [b, c], [b, d], [a, d], [a, c]]).transpose(2, 0, 1)
        is_large = family in ("clean air", "no fly")
        alpha = 0.7 if is_large else 0.4
        lines = LineCollection(list(loops), colors=colour, linewidths=0.9 if is_large else 0.5)
        lines.set_alpha(alpha)
        lines.set_zorder(3)
        axes.add_collection(lines)


def _render_light(events: pa.Table, matches: pa.Table) -> np.ndarray:
    """Return an overlay of the map, float[h, w, 4]: pings in white, matches in colour."""
    light = _density(events, 1.0)[..., None] * np.array(to_rgb("#7f9cff")) * 0.45
    colours = {**fences.FAMILIES, "alarm": ALARM}
    for family, colour in colours.items():
        if family == "fleets":  # they apply everywhere
            continue
        in_family = matches.filter(pc.equal(matches["family"], family))
        light += _density(in_family, 1.5)[..., None] * np.array(to_rgb(colour)) * 0.9
    strength = light.max(axis=2).clip(0, 1)
    with np.errstate(invalid="ignore"):
        hue = np.nan_to_num(light / light.max(axis=2, keepdims=True))
    return np.dstack([hue, strength])


def _density(points: pa.Table, radius: float) -> np.ndarray:
    """Return the brightness of each pixel, from 0 to about 1, blurred by `radius` pixels."""
    width, height = PIXELS
    counts, _, _ = np.histogram2d(
        points["y"].to_numpy(), points["x"].to_numpy(),
        bins=(height, width), range=((0, HEIGHT), (0, WIDTH)),
    )  # fmt: skip
    counts = counts.astype(np.float32)
    for axis in (0, 1):  # a Gaussian blur is separable; wrapping around is harmless
        offsets = range(-int(3 * radius), int(3 * radius) + 1)
        counts = sum(np.exp(-((o / radius) ** 2) / 2) * np.roll(counts, o, axis) for o in offsets)
    top = np.quantile(counts[counts > 0.05], 0.995) if (counts > 0.05).any() else 1.0
    bright = np.log1p(counts * 3) / np.log1p(top * 3)
    return np.where(bright < 0.1, 0.0, bright).clip(0, 1.2)


def _write_legend(axes: Axes, rules: int, events: pa.Table, matches: pa.Table) -> None:
    """Write the title, and a legend of the families."""
    axes.text(10.48, 9.43, "Tocsin", color=TEXT, fontsize=32, fontweight="bold", zorder=9)
    line = f"{rules:,} rules   {len(events):,} events\n{len(matches):,} matches"
    axes.text(15.76, 9.84, line, color=FAINT, fontsize=14.5, ha="right", va="top", zorder=9)
    axes.add_patch(Rectangle((0, 0), WIDTH, 0.36, color=NIGHT, alpha=0.82, zorder=8, lw=0))
    value_counts = pc.value_counts(matches["family"]).to_pylist()
    counts = {entry["values"]: entry["counts"] for entry in value_counts}
    shown = [f for f in fences.FAMILIES if f != "fleets"]
    for position, family in enumerate(shown):
        x = 0.25 + position * 1.97
        axes.plot([x], [0.18], "s", color=fences.FAMILIES[family], ms=10, zorder=9)
        text = f"{family} {counts.get(family, 0):,}"
        axes.text(x + 0.15, 0.18, text, color=TEXT, fontsize=13.5, va="center", zorder=9)


def _mark_gasworks(axes: Axes) -> None:
    """Draw a frame around the part of the map that the panels show."""
    corner = GASWORKS - _ZOOM
    frame = Rectangle(corner, *(2 * _ZOOM), fill=False, ec=TEXT, lw=1.3, zorder=7)
    axes.add_patch(frame)
    axes.text(
        corner[0] + 0.08, corner[1] + 0.1, "the gasworks", color=TEXT, fontsize=15, zorder=9,
        bbox={"facecolor": NIGHT, "alpha": 0.75, "lw": 0, "pad": 2},
    )  # fmt: skip


def _draw_panel(
    axes: Axes, city: City, fence: fences.Fence, hours: str, events: pa.Table, matches: pa.Table
) -> None:
    """Draw the surroundings of the gasworks in one of the two hours."""
    _draw_ground(axes, city, 3.0)
    axes.set_facecolor(NIGHT)
    axes.scatter(events["x"], events["y"], s=2.0, color="#8fa6e8", alpha=0.16, lw=0, zorder=4)
    axes.scatter(matches["x"], matches["y"], s=5, color="#ffc2ad", alpha=0.6, lw=0, zorder=6)
    assert fence.box is not None
    a, b, c, d = fence.box
    axes.add_patch(Rectangle((a, c), b - a, d - c, fc=ALARM, alpha=0.2, lw=0, zorder=3))
    axes.add_patch(Rectangle((a, c), b - a, d - c, fill=False, ec=ALARM, lw=2.4, zorder=7))
    versions = pc.unique(matches["rules_version"]).to_pylist()
    version = f"rules version {versions[0]}" if versions else ""
    axes.text(
        0.025, 0.05, version, transform=axes.transAxes, color=FAINT, fontsize=16, zorder=9,
    )  # fmt: skip
    axes.text(
        0.0, 1.035, f"{hours}: {fence.description}", transform=axes.transAxes,
        color=TEXT, fontsize=16, zorder=9,
    )  # fmt: skip
    axes.text(
        0.975, 0.05, f"{len(matches):,} matches", transform=axes.transAxes, ha="right",
        color=TEXT, fontsize=22, fontweight="bold", zorder=9,
    )  # fmt: skip
    (low_x, low_y), (high_x, high_y) = GASWORKS - _ZOOM, GASWORKS + _ZOOM
    _draw_frame(axes, (low_x, high_x, low_y, high_y))


def _draw_frame(axes: Axes, view: tuple[float, float, float, float]) -> None:
    axes.set_xlim(view[0], view[1])
    axes.set_ylim(view[2], view[3])
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color("#40506f")
