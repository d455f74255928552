"""Contact tracing: who met whom during a day, as a self-join in space and time.

    python -m examples.contact_tracing [--people 2000] [--out docs/contacts.png]

People walk between their homes and a few places, and their position is known once a minute. Two
people met if they were within two metres of each other within the same minute. In the metric linf
that is a distance below 1 of points (x / 2 m, y / 2 m, minute).
"""

from __future__ import annotations

import argparse

import numpy as np

from tocsin import similarity

TOWN = 2_000  # metres
MINUTES = 24 * 60
METRES = 2.0


def walk(people: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each person in each minute [people * MINUTES, 3], and who it is."""
    rng = np.random.default_rng(seed)
    places = rng.random((40, 2)) * TOWN  # offices, shops and schools
    homes = rng.random((people, 2)) * TOWN
    work = places[rng.integers(0, len(places), people)]
    leave, back = rng.normal(8 * 60, 45, people), rng.normal(17 * 60, 60, people)
    minute = np.arange(MINUTES)
    # On the way for half an hour, in a straight line.
    way = np.clip((minute - leave[:, None]) / 30, 0, 1) - np.clip(
        (minute - back[:, None]) / 30, 0, 1
    )
    position = homes[:, None] + way[:, :, None] * (work - homes)[:, None]
    position += rng.normal(0, 15, position.shape) * (way[:, :, None] > 0)  # in the building
    time = np.broadcast_to(minute[None, :, None], (people, MINUTES, 1))
    points = np.concatenate([position, time], axis=2).reshape(-1, 3)
    return points, np.repeat(np.arange(people), MINUTES)


def find_contacts(points: np.ndarray, person: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of rows at which two different people met."""
    scaled = points / [METRES, METRES, 1.0]
    first, second = similarity.self_join(scaled, epsilon=1, metric="linf").pairs()
    different = person[first] != person[second]
    return first[different], second[different]


def draw(points: np.ndarray, first: np.ndarray, path: str) -> None:
    """Draw where people met, and how often in each hour."""
    import matplotlib.pyplot as plt

    figure, (town, hours) = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
    town.plot(*points[:: max(len(points) // 20_000, 1), :2].T, ",", color="0.8")
    town.plot(*points[first, :2].T, ".", markersize=1, color="tab:red")
    town.set(title="Where people met", xlabel="metres", ylabel="metres", aspect="equal")
    hours.hist(points[first, 2] / 60, bins=24, range=(0, 24), color="tab:red")
    hours.set(title="When", xlabel="hour of the day", ylabel="meetings")
    figure.savefig(path, dpi=110)


def main(people: int = 2_000, out: str | None = None) -> None:
    """Find and draw the contacts of a day."""
    points, person = walk(people)
    print(f"{people:,} people, {len(points):,} positions")
    first, second = find_contacts(points, person)
    met = np.unique(np.sort(np.stack([person[first], person[second]]), axis=0), axis=1)
    print(f"{len(first):,} meetings of {met.shape[1]:,} pairs of people")
    if out:
        draw(points, first, out)
        print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=2_000)
    parser.add_argument("--out")
    main(**vars(parser.parse_args()))
