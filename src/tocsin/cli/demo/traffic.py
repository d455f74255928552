"""Two hours of traffic: vehicles that drive from hot spot to hot spot, pinging as they go.

Every vehicle heads for a goal, prefers avenues and dislikes turning; at a crossing it
draws its next street with those odds. Drones fly straight. All vehicles move at once, in
NumPy; the loop is over the moments at which they ping.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.cli.demo.city import HEIGHT, WIDTH, City

MOMENTS = 128  # pings of each vehicle
START, END = 7.0, 9.0  # o'clock
KINDS = {  # share of the vehicles, top speed in km/h, share that is electric
    "car": (0.42, 75, 0.3),
    "van": (0.17, 65, 0.4),
    "taxi": (0.10, 75, 0.5),
    "scooter": (0.09, 24, 1.0),
    "bike": (0.07, 21, 0.0),
    "truck": (0.06, 58, 0.0),
    "bus": (0.04, 55, 0.5),
    "drone": (0.04, 60, 1.0),
    "fire engine": (0.01, 80, 0.0),
}
FLEETS = {  # whose vehicles they are; private cars are nobody's
    "van": ["Hermes", "Pannier", "Nightpost", "Brook & Sons", "Freshcart", "Tidewater"],
    "truck": ["Tidewater", "Brook & Sons", "Harbour Haulage"],
    "taxi": ["Checkered", "Blue Lantern", "Owl Cabs"],
    "scooter": ["Zip", "Glide", "Hopper"],
    "bike": ["Pedalo", "Zip"],
    "bus": ["City Transit"],
    "drone": ["Skylark", "Nightpost"],
    "fire engine": ["Fire Brigade"],
}
SCHEMA = {  # what rules can speak of
    "x": "number",
    "y": "number",
    "speed": "number",
    "hour": "number",
    "battery": "number",
    "kind": "category",
    "fleet": "category",
}
COLUMNS = (  # the events' columns, as Spark spells them
    "ping BIGINT, vehicle BIGINT, hour DOUBLE, x DOUBLE, y DOUBLE, speed DOUBLE, "
    "kind STRING, fleet STRING, battery DOUBLE"
)


def drive(city: City, events: int, seed: int) -> pa.Table:
    """Return so many pings in the order of time; the same city and seed give the same."""
    rng = np.random.default_rng([seed, 2])
    n = -(-events // MOMENTS)
    names = np.array(list(KINDS))
    shares, tops, electric = np.array(list(KINDS.values())).T
    kind = rng.choice(len(names), n, p=shares / shares.sum())
    fleet = [
        rng.choice(FLEETS[name]) if name in FLEETS and rng.random() < 0.95 else None
        for name in names[kind]
    ]
    # A vehicle's own pace; one in eight has a heavy foot.
    pace = rng.uniform(0.7, 1.0, n) * np.where(rng.random(n) < 0.12, 1.3, 1.0)
    charge = np.where(rng.random(n) < electric[kind], rng.uniform(12, 100, n), np.nan)

    crew = _Crew(city, rng, kind == list(KINDS).index("drone"))
    moments = np.linspace(START, END, MOMENTS, endpoint=False)
    seconds = (END - START) * 3600 / MOMENTS
    frames = []
    for hour in moments:
        limit = np.where(crew.flies, 60.0, np.where(crew.on_avenue(), 58.0, 36.0))
        rush = 0.8 + 0.2 * abs(hour - 8.1)  # slowest shortly after eight
        speed = np.minimum(limit * rng.uniform(0.75, 1.15, n) * rush, tops[kind]) * pace
        speed[rng.random(n) < 0.16] = 0.0  # lights, doorbells, passengers
        crew.move(speed * seconds / 3600)
        charge -= speed * seconds / 3600 * rng.uniform(0.4, 1.2, n)
        charge[charge < 3] = 95.0  # a fresh battery
        wobble = rng.normal(0, 0.008, (n, 2))
        frames.append(np.column_stack([crew.places() + wobble, speed, charge]))

    x, y, speed, battery = np.concatenate(frames)[:events].T
    vehicle = np.tile(np.arange(n), MOMENTS)[:events]
    return pa.table(
        {
            "ping": np.arange(events),
            "vehicle": vehicle,
            "hour": np.repeat(moments, n)[:events].round(4),
            "x": x.clip(0, WIDTH).round(4),
            "y": y.clip(0, HEIGHT).round(4),
            "speed": speed.round(1),
            "kind": pa.array(names[kind]).take(pa.array(vehicle)),
            "fleet": pa.array(fleet, pa.string()).take(pa.array(vehicle)),
            "battery": pa.array(battery.round(1), from_pandas=True),
        }
    )


class _Crew:
    """All vehicles at once: the street each is on, how far along it, and where it wants to go."""

    def __init__(self, city: City, rng: np.random.Generator, flies: np.ndarray):
        self.city, self.rng, self.flies = city, rng, flies
        self.exits, self.exit_avenue = _exits(city)
        # Everybody sets out near a hot spot, or from anywhere.
        starts = self._near(self._goals(len(flies)))
        self.behind = starts
        self.ahead = self.exits[starts, 0]
        self.ahead_avenue = self.exit_avenue[starts, 0]
        self.along = np.zeros(len(flies))
        self.air = city.nodes[starts].copy()
        self.goal = self._goals(len(flies))

    def on_avenue(self) -> np.ndarray:
        return self.ahead_avenue

    def places(self) -> np.ndarray:
        """Return where everybody is, float64[n, 2]; on the right side of the street."""
        a, b = self.city.nodes[self.behind], self.city.nodes[self.ahead]
        length = np.hypot(*(b - a).T)[:, None]
        way = (b - a) / length
        side = 0.012 * np.column_stack([way[:, 1], -way[:, 0]])
        return np.where(self.flies[:, None], self.air, a + way * self.along[:, None] + side)

    def move(self, distance: np.ndarray) -> None:
        """Move everybody so many kilometres on, through as many crossings as that takes."""
        towards = self.goal - self.air
        away = np.hypot(*towards.T)
        step = (distance / np.maximum(away, 1e-9)).clip(max=1.0)[:, None]
        self.air += towards * step * self.flies[:, None]
        self.along += np.where(self.flies, 0.0, distance)
        while True:
            a, b = self.city.nodes[self.behind], self.city.nodes[self.ahead]
            length = np.hypot(*(b - a).T)
            past = np.flatnonzero(self.along >= length)
            if not len(past):
                break
            self.along[past] -= length[past]
            self._turn(past)
        here = np.where(self.flies[:, None], self.air, self.city.nodes[self.ahead])
        # Some change their minds, or they would circle for ever opposite a goal across the river.
        bored = self.rng.random(len(here)) < 0.04
        there = np.flatnonzero((np.hypot(*(self.goal - here).T) < 0.25) | bored)
        self.goal[there] = self._goals(len(there))

    def _turn(self, who: np.ndarray) -> None:
        """Draw the next street of vehicles that are at a crossing."""
        nodes, came, at = self.city.nodes, self.behind[who], self.ahead[who]
        options = self.exits[at]
        way = nodes[options] - nodes[at][:, None]
        length = np.hypot(way[..., 0], way[..., 1])
        straight = nodes[at] - nodes[came]
        straight /= np.hypot(*straight.T)[:, None]
        wish = self.goal[who] - nodes[at]
        wish /= np.maximum(np.hypot(*wish.T), 1e-9)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            unit = way / length[..., None]
        odds = 1.2 * (unit @ straight[..., None])[..., 0] + 1.8 * (unit @ wish[..., None])[..., 0]
        odds += 1.1 * self.exit_avenue[at] - 6.0 * (options == came[:, None])
        odds += self.rng.gumbel(0, 0.7, odds.shape)
        chosen = np.where(options == at[:, None], -np.inf, odds).argmax(axis=1)
        rows = np.arange(len(who))
        self.behind[who] = at
        self.ahead[who] = options[rows, chosen]
        self.ahead_avenue[who] = self.exit_avenue[at, chosen]

    def _goals(self, n: int) -> np.ndarray:
        """Draw goals: hot spots by rank, every third time anywhere."""
        hubs, nodes = self.city.hubs, self.city.nodes
        rank = 1 / np.arange(2, len(hubs) + 2)
        hub = hubs[self.rng.choice(len(hubs), n, p=rank / rank.sum())]
        anywhere = nodes[self.rng.integers(len(nodes), size=n)]
        spread = self.rng.normal(0, 0.25, (n, 2))
        return np.where(self.rng.random(n)[:, None] < 0.33, anywhere, hub + spread)

    def _near(self, points: np.ndarray) -> np.ndarray:
        """Return the crossing nearest to each point."""
        nodes = self.city.nodes
        return np.array([np.hypot(*(nodes - p).T).argmin() for p in points], dtype=np.int64)


def _exits(city: City) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours of each crossing, padded with itself, and which ways are avenues."""
    both = np.concatenate([city.edges, city.edges[:, ::-1]])
    avenue = np.tile(city.avenue, 2)
    order = np.argsort(both[:, 0], kind="stable")
    both, avenue = both[order], avenue[order]
    start = np.searchsorted(both[:, 0], np.arange(len(city.nodes)))
    place = np.arange(len(both)) - start[both[:, 0]]
    exits = np.tile(np.arange(len(city.nodes))[:, None], (1, place.max() + 1))
    is_avenue = np.zeros(exits.shape, dtype=bool)
    exits[both[:, 0], place] = both[:, 1]
    is_avenue[both[:, 0], place] = avenue
    return exits, is_avenue
