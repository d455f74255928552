"""Simulate two hours of traffic: vehicles drive from hub to hub and send their positions.

A vehicle heads for a goal, prefers avenues and avoids turns; at a crossing it draws its next street
accordingly. Drones fly straight. All vehicles move at once, in NumPy; the loop is over the times at
which they send a ping.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tocsin.cli.demo.city import HEIGHT, WIDTH, City

PINGS = 128  # per vehicle
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
FLEETS = {  # owners of vehicles; private cars have none
    "van": ["Hermes", "Pannier", "Nightpost", "Brook & Sons", "Freshcart", "Tidewater"],
    "truck": ["Tidewater", "Brook & Sons", "Harbour Haulage"],
    "taxi": ["Checkered", "Blue Lantern", "Owl Cabs"],
    "scooter": ["Zip", "Glide", "Hopper"],
    "bike": ["Pedalo", "Zip"],
    "bus": ["City Transit"],
    "drone": ["Skylark", "Nightpost"],
    "fire engine": ["Fire Brigade"],
}
SCHEMA = {  # the attributes that rules can test
    "x": "number",
    "y": "number",
    "speed": "number",
    "hour": "number",
    "battery": "number",
    "kind": "category",
    "fleet": "category",
}
COLUMNS = (  # of the events, in Spark's syntax
    "ping BIGINT, vehicle BIGINT, hour DOUBLE, x DOUBLE, y DOUBLE, speed DOUBLE, "
    "kind STRING, fleet STRING, battery DOUBLE"
)


def simulate(city: City, events: int, seed: int) -> pa.Table:
    """Return pings in the order of time; the same arguments give the same pings."""
    rng = np.random.default_rng([seed, 2])
    n = -(-events // PINGS)
    names = np.array(list(KINDS))
    shares, top_speeds, electric = np.array(list(KINDS.values())).T
    kind = rng.choice(len(names), n, p=shares / shares.sum())
    fleet = [
        rng.choice(FLEETS[name]) if name in FLEETS and rng.random() < 0.95 else None
        for name in names[kind]
    ]
    # Every vehicle has its own pace; about one in eight drives too fast.
    pace = rng.uniform(0.7, 1.0, n) * np.where(rng.random(n) < 0.12, 1.3, 1.0)
    charge = np.where(rng.random(n) < electric[kind], rng.uniform(12, 100, n), np.nan)

    vehicles = _Vehicles(city, rng, kind == list(KINDS).index("drone"))
    hours = np.linspace(START, END, PINGS, endpoint=False)
    seconds = (END - START) * 3600 / PINGS
    frames = []
    for hour in hours:
        limit = np.where(vehicles.can_fly, 60.0, np.where(vehicles.is_on_avenue, 58.0, 36.0))
        rush = 0.8 + 0.2 * abs(hour - 8.1)  # slowest shortly after eight
        speed = np.minimum(limit * rng.uniform(0.75, 1.15, n) * rush, top_speeds[kind]) * pace
        speed[rng.random(n) < 0.16] = 0.0  # lights, deliveries, passengers
        vehicles.move(speed * seconds / 3600)
        charge -= speed * seconds / 3600 * rng.uniform(0.4, 1.2, n)
        charge[charge < 3] = 95.0  # a new battery
        noise = rng.normal(0, 0.008, (n, 2))
        frames.append(np.column_stack([vehicles.positions() + noise, speed, charge]))

    x, y, speed, battery = np.concatenate(frames)[:events].T
    vehicle = np.tile(np.arange(n), PINGS)[:events]
    return pa.table(
        {
            "ping": np.arange(events),
            "vehicle": vehicle,
            "hour": np.repeat(hours, n)[:events].round(4),
            "x": x.clip(0, WIDTH).round(4),
            "y": y.clip(0, HEIGHT).round(4),
            "speed": speed.round(1),
            "kind": pa.array(names[kind]).take(pa.array(vehicle)),
            "fleet": pa.array(fleet, pa.string()).take(pa.array(vehicle)),
            "battery": pa.array(battery.round(1), from_pandas=True),
        }
    )


class _Vehicles:
    """All vehicles: the street that each is on, its position there, and its goal."""

    def __init__(self, city: City, rng: np.random.Generator, can_fly: np.ndarray):
        self.city, self.rng, self.can_fly = city, rng, can_fly
        self.exits, self.is_avenue_exit = _find_exits(city)
        # Vehicles start near a hub, or anywhere.
        starts = self._nearest_crossings(self._draw_goals(len(can_fly)))
        self.behind = starts
        self.ahead = self.exits[starts, 0]
        self.is_on_avenue = self.is_avenue_exit[starts, 0]
        self.distance = np.zeros(len(can_fly))  # from the crossing behind, km
        self.air_position = city.nodes[starts].copy()
        self.goal = self._draw_goals(len(can_fly))

    def positions(self) -> np.ndarray:
        """Return the positions of all vehicles, float64[n, 2]; they drive on the right."""
        a, b = self.city.nodes[self.behind], self.city.nodes[self.ahead]
        length = np.hypot(*(b - a).T)[:, None]
        direction = (b - a) / length
        side = 0.012 * np.column_stack([direction[:, 1], -direction[:, 0]])
        on_street = a + direction * self.distance[:, None] + side
        return np.where(self.can_fly[:, None], self.air_position, on_street)

    def move(self, distance: np.ndarray) -> None:
        """Move each vehicle by a distance in kilometres, through any number of crossings."""
        to_goal = self.goal - self.air_position
        length = np.hypot(*to_goal.T)
        share = (distance / np.maximum(length, 1e-9)).clip(max=1.0)[:, None]
        self.air_position += to_goal * share * self.can_fly[:, None]
        self.distance += np.where(self.can_fly, 0.0, distance)
        while True:
            a, b = self.city.nodes[self.behind], self.city.nodes[self.ahead]
            length = np.hypot(*(b - a).T)
            arrived = np.flatnonzero(self.distance >= length)
            if not len(arrived):
                break
            self.distance[arrived] -= length[arrived]
            self._turn(arrived)
        here = np.where(self.can_fly[:, None], self.air_position, self.city.nodes[self.ahead])
        # Some change their goal; otherwise they might circle opposite a goal across the river.
        changes_goal = self.rng.random(len(here)) < 0.04
        done = np.flatnonzero((np.hypot(*(self.goal - here).T) < 0.25) | changes_goal)
        self.goal[done] = self._draw_goals(len(done))

    def _turn(self, vehicles: np.ndarray) -> None:
        """Draw the next street of vehicles that are at a crossing."""
        nodes, last, crossing = self.city.nodes, self.behind[vehicles], self.ahead[vehicles]
        exits = self.exits[crossing]
        street = nodes[exits] - nodes[crossing][:, None]
        length = np.hypot(street[..., 0], street[..., 1])
        straight = nodes[crossing] - nodes[last]
        straight /= np.hypot(*straight.T)[:, None]
        to_goal = self.goal[vehicles] - nodes[crossing]
        to_goal /= np.maximum(np.hypot(*to_goal.T), 1e-9)[:, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            direction = street / length[..., None]
        odds = 1.2 * (direction @ straight[..., None])[..., 0]
        odds += 1.8 * (direction @ to_goal[..., None])[..., 0]
        odds += 1.1 * self.is_avenue_exit[crossing] - 6.0 * (exits == last[:, None])
        odds += self.rng.gumbel(0, 0.7, odds.shape)
        chosen = np.where(exits == crossing[:, None], -np.inf, odds).argmax(axis=1)
        rows = np.arange(len(vehicles))
        self.behind[vehicles] = crossing
        self.ahead[vehicles] = exits[rows, chosen]
        self.is_on_avenue[vehicles] = self.is_avenue_exit[crossing, chosen]

    def _draw_goals(self, n: int) -> np.ndarray:
        """Draw goals: two thirds near hubs, by rank, and one third anywhere."""
        hubs, nodes = self.city.hubs, self.city.nodes
        rank = 1 / np.arange(2, len(hubs) + 2)
        hub = hubs[self.rng.choice(len(hubs), n, p=rank / rank.sum())]
        anywhere = nodes[self.rng.integers(len(nodes), size=n)]
        spread = self.rng.normal(0, 0.25, (n, 2))
        return np.where(self.rng.random(n)[:, None] < 0.33, anywhere, hub + spread)

    def _nearest_crossings(self, points: np.ndarray) -> np.ndarray:
        """Return the crossing nearest to each point."""
        nodes = self.city.nodes
        return np.array([np.hypot(*(nodes - p).T).argmin() for p in points], dtype=np.int64)


def _find_exits(city: City) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours of each crossing, padded with itself, and which exits are avenues."""
    directed = np.concatenate([city.edges, city.edges[:, ::-1]])
    is_avenue = np.tile(city.is_avenue, 2)
    order = np.argsort(directed[:, 0], kind="stable")
    directed, is_avenue = directed[order], is_avenue[order]
    start = np.searchsorted(directed[:, 0], np.arange(len(city.nodes)))
    column = np.arange(len(directed)) - start[directed[:, 0]]
    exits = np.tile(np.arange(len(city.nodes))[:, None], (1, column.max() + 1))
    is_avenue_exit = np.zeros(exits.shape, dtype=bool)
    exits[directed[:, 0], column] = directed[:, 1]
    is_avenue_exit[directed[:, 0], column] = is_avenue
    return exits, is_avenue_exit
