"""Tune a store with events of Spark, on Classic and on Connect."""

import numpy as np
import pyarrow as pa

import tocsin
import tocsin.spark


def make_rules():
    """Return boxes that `auto` files under x, although events spread over y only."""
    rng = np.random.default_rng(5)
    x, y = rng.random(3000), rng.random(3000)
    rules = tocsin.Rules({"x": "number", "y": "number", "z": "number"})
    rules.add_many(
        pa.table(
            {"id": range(3000), "x_low": x, "x_high": x + 0.01, "y_low": y, "y_high": y + 0.02}
        )
    )
    return rules


def make_events():
    rng = np.random.default_rng(6)
    return pa.table({"Y": rng.random(30_000), "x": np.full(30_000, 0.5), "other": range(30_000)})


def tune_on_spark(spark, path):
    """Return the version, the plans and the matches of a store before and after tuning."""
    store = tocsin.RuleStore.create(path, make_rules().schema)
    store.add_many(pa.table(pa.table({"id": [1, 2], "where": ["x < 0.6", "y > 0.25"]})))
    rules = make_rules()
    before = str(rules.plan())
    events = spark.createDataFrame(make_events().to_pandas())
    assert tocsin.spark.tune(rules, events) is None
    version = tocsin.spark.tune(str(path), events)
    few = make_events().slice(0, 500)
    return {
        "version": version,
        "before": before,
        "after": str(rules.plan()),
        "matches": sorted(rules.match(few)),
        "stored": sorted(tocsin.open(path).match(few)),
    }
