"""Rules to lint, in one process and on Spark, Classic or Connect."""

import numpy as np
import pyarrow as pa

import tocsin

SCHEMA = {"x": "number", "tier": "category"}


def tables():
    """Rules with payload, some of them redundant, and events."""
    rng = np.random.default_rng(5)
    low = np.round(rng.random(60) * 10, 1)
    wheres = [f"x BETWEEN {a} AND {a + w:.1f}" for a, w in zip(low, rng.random(60) * 9)]
    wheres += ["x > 3 AND tier = 'gold'", "x > 4 AND tier IN ('gold')", "x > 5 AND x < 3"]
    wheres += ["tier = 'glod'", "x > 1000 OR tier = 'gold'", "floor(x) = 50"]
    ids = [f"r{n}" for n in range(len(wheres))]
    teams = [["a", "b", None][n % 3] for n in range(len(wheres))]
    rules = pa.table({"id": ids, "where": wheres, "team": teams})
    events = pa.table({"x": [0.5, 12.0, None, 7.0], "tier": ["gold", None, "black", "gold"]})
    return rules, events


def lint_in_one_process(same=()):
    table, events = tables()
    rules = tocsin.Rules(SCHEMA)
    rules.add_many(table)
    return sorted(
        map(list, (row.values() for row in rules.lint(events, same).to_pylist())), key=str
    )


def lint_on_spark(spark, same=()):
    rules, events = map(spark.createDataFrame, tables())
    found = tocsin.spark.lint(rules, SCHEMA, same, events.repartition(2))
    return sorted(map(list, found.collect()), key=str)
