"""What functions for one process say to a DataFrame of Spark, on Classic and on Connect alike."""

import pyarrow as pa

import tocsin
from tocsin import similarity, uncertain


def refuse_frame(spark):
    """Return the message of each function; the frame cannot be computed, so none has collected it.

    PySpark exports a DataFrame as an Arrow stream, which looks like any other table.
    """
    x = "CAST(raise_error('collected') AS DOUBLE)"
    frame = spark.sql(f"SELECT 1L AS id, {x} AS x, {x} AS x_low, {x} AS x_high")
    rules = tocsin.Rules({"x": "number"})
    rules.add(1, "x > 0")
    version, readings, ids = rules.snapshot(), uncertain.Readings, pa.array([1])
    calls = {
        "match": lambda: rules.match(frame),
        "match of a version": lambda: version.match(frame),
        "match_blocks": lambda: rules.match_blocks(frame),
        "count": lambda: rules.count(frame),
        "top": lambda: rules.top(frame, k=1),
        "plan": lambda: rules.plan(frame),
        "explain": lambda: rules.explain(frame, 1),
        "tune": lambda: rules.tune(frame),
        "lint": lambda: rules.lint(frame),
        "add_many": lambda: rules.add_many(frame),
        "join": lambda: similarity.join(frame, frame, 1.0),
        "join with an array": lambda: similarity.join([[1.0]], frame, 1.0),
        "self_join": lambda: similarity.self_join(frame, 1.0),
        "count pairs": lambda: similarity.count(frame, frame, 1.0),
        "join_blocks": lambda: similarity.join_blocks(frame, frame, 1.0),
        "estimate": lambda: similarity.estimate(frame, frame, 1.0),
        "minimum": lambda: uncertain.minimum(frame),
        "in_range": lambda: uncertain.in_range(frame, 0, 1),
        "total": lambda: uncertain.total(frame),
        "ids": lambda: readings.uniform(frame.select("id"), [0.0], [1.0]),
        "numbers": lambda: readings.uniform(ids, frame.select("x"), [1.0]),
        "lists": lambda: readings.histogram(ids, frame.select("x"), frame.select("x")),
    }
    return {name: _message(call) for name, call in calls.items()}


def _message(call):
    try:
        return f"not refused: {call()!r}"
    except tocsin.TocsinError as error:
        return str(error)
