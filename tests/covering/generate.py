"""Conditions over a few values, and all events over these values."""

import itertools

import pyarrow as pa

SCHEMA = {"x": "integer", "f": "flag", "t": "category", "y": "number"}
X = (
    "x = {}", "x < {}", "x >= {}", "x BETWEEN {} AND {}", "x IN ({}, {}, {})", "x <> {}",
    "x NOT IN ({}, {})", "x IS NULL", "x IS NOT NULL", "x > {} AND x <> {}",
)  # fmt: skip
F = ("f", "NOT f", "f IS NULL", "f <> TRUE", "f IS NOT NULL")
T = (
    "t = '{}'", "t <> '{}'", "t IN ('{}', '{}')", "t NOT IN ('{}', '{}')", "t IS NULL",
    "t IS NOT NULL", "NOT t <=> '{}'",
)  # fmt: skip
Y = ("y < {}", "y >= {}", "y > {}", "y = {}", "y IS NULL")

_VALUES = {
    "x": (None, -1, 0, 1, 2, 3, 4, 5),
    "f": (None, True, False),
    "t": (None, "a", "b", "c", "another"),
    "y": (None, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("nan")),
}
EVENTS = pa.table(dict(zip(_VALUES, zip(*itertools.product(*_VALUES.values())))))


def random_predicate(random):
    attribute = random.choice("xxftty")
    if attribute == "x":
        return random.choice(X).format(*(random.randrange(4) for _ in range(3)))
    if attribute == "t":
        return random.choice(T).format(*(random.choice("abc") for _ in range(2)))
    return random.choice(F if attribute == "f" else Y).format(random.randrange(3))


def random_condition(random, most_alternatives=2):
    def conjunction():
        return " AND ".join(random_predicate(random) for _ in range(random.randrange(1, 4)))

    alternatives = random.choice([1, 1, most_alternatives])
    return " OR ".join(f"({conjunction()})" for _ in range(alternatives))
