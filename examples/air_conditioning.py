"""Air conditioning: which room is the coldest, when every thermometer is a little out of date.

    python -m examples.air_conditioning [--out docs/air-conditioning.png]

A floor has 24 rooms. Thermometers report now and then to save their batteries, and a temperature
changes by at most a known rate per minute. So each room's temperature is somewhere in an interval
that grows until its next report. The coldest room, the lowest temperature and the rooms that are
too warm are answers with probabilities.
"""

from __future__ import annotations

import argparse

import numpy as np

from tocsin import uncertain

ROWS, COLUMNS = 4, 6
NOW = 60.0  # minutes


def read_floor(seed: int = 4) -> uncertain.Readings:
    """Return the rooms' temperatures as they are known now."""
    rng = np.random.default_rng(seed)
    rooms = [f"{row + 1}{'ABCDEF'[column]}" for row in range(ROWS) for column in range(COLUMNS)]
    # Colder towards the windows in the north, warmer in the sun in the east.
    row, column = np.divmod(np.arange(len(rooms)), COLUMNS)
    values = 19.2 + 0.5 * row + 0.35 * column + rng.normal(0, 0.4, len(rooms))
    rates = rng.uniform(0.01, 0.05, len(rooms))  # degrees per minute
    times = NOW - rng.uniform(1, 45, len(rooms))
    return uncertain.Readings.growing(rooms, values, rates, times, domain=(10, 35)).at(NOW)


def draw(floor: uncertain.Readings, path: str) -> None:
    """Draw the intervals, the floor by probabilities, and the lowest temperature."""
    import matplotlib.pyplot as plt

    coldest, warm = uncertain.minimum(floor), uncertain.in_range(floor, 22, 35)
    lowest = uncertain.lowest(floor)
    chance = np.zeros(len(floor))
    chance[coldest.positions] = coldest.probabilities
    names = floor.ids.to_pylist()
    figure, (lines, rooms, density) = plt.subplots(
        1, 3, figsize=(12, 4.2), layout="constrained", width_ratios=(1.1, 1.4, 1)
    )
    order = np.argsort(floor.low)[::-1]
    shade = plt.get_cmap("Blues")(0.25 + 0.75 * chance[order] / chance.max())
    lines.hlines(range(len(order)), floor.low[order], floor.high[order], colors=shade, lw=4)
    lines.axvspan(*coldest.bounds, color="tab:blue", alpha=0.12, lw=0)
    lines.set_yticks(range(len(order)), [names[i] for i in order], fontsize=7)
    lines.set(title="What is known of each room", xlabel="degrees")
    shown = rooms.imshow(chance.reshape(ROWS, COLUMNS), cmap="Blues", vmin=0)
    too_warm = dict(warm)
    for i, name in enumerate(names):
        y, x = divmod(i, COLUMNS)
        color = "white" if chance[i] > 0.6 * chance.max() else "black"
        text = f"{name}\n{chance[i]:.0%}" if chance[i] >= 0.005 else name
        rooms.text(x, y, text, ha="center", va="center", fontsize=8, color=color)
        if too_warm.get(name, 0) >= 0.5:
            rooms.plot(x + 0.36, y - 0.36, "o", color="tab:red", markersize=6)
    rooms.set(title="The coldest room (red dots: likely above 22)", xticks=[], yticks=[])
    figure.colorbar(shown, ax=rooms, shrink=0.8, format="{x:.0%}")
    x = np.linspace(lowest.low, lowest.high, 400)
    density.fill_between(x, lowest.pdf(x), color="tab:blue", alpha=0.4)
    density.axvline(lowest.mean, color="tab:blue")
    density.set(title="The lowest temperature", xlabel="degrees", ylabel="density", ylim=0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(out: str | None = None) -> None:
    """Print the answers, and draw them."""
    floor = read_floor()
    coldest = uncertain.minimum(floor)
    print("Which room is the coldest?")
    print(coldest)
    print(f"  entropy {coldest.entropy:.2f} bits, between {coldest.bounds[0]:.2f} and "
          f"{coldest.bounds[1]:.2f} degrees")  # fmt: skip
    print(uncertain.in_range(floor, 22, 35, at_least=0.9))
    print(uncertain.lowest(floor))
    print(uncertain.average(floor))
    if out:
        draw(floor, out)
        print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    main(**vars(parser.parse_args()))
