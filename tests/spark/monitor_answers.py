"""Random walks on Spark: the events of `tocsin.spark.monitor`, and those of the oracle."""

import datetime
import math

import pyarrow as pa

import tocsin
import tocsin.spark
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.walks import walk

COLUMNS = ("object", "rule", "event", "time", "since", "reason")


class Story:
    """A walk whose updates have all columns, in types that Spark has."""

    def __init__(self, seed, profile):
        self.walk = walk(seed, profile)
        self.options = self.walk.options
        self.types = {
            name: pa.timestamp("us", type_.tz) if pa.types.is_timestamp(type_) else type_
            for name, type_ in self.walk.types.items()
        }
        self.rules = tocsin.Rules(self.walk.schema)
        self.naive_rules = NaiveRules(self.walk.schema)
        self.change(self.walk.edits)

    def change(self, edits):
        apply_edits(SqlRules(self.rules), edits)
        apply_edits(self.naive_rules, edits)

    def table(self, rows):
        schema = pa.schema(list(self.types.items()))
        return pa.Table.from_pylist([self.complete(row) for row in rows], schema)

    def complete(self, row):
        return {name: row.get(name) for name in self.types}

    def rows(self):
        """Return the rows of all updates."""
        steps = self.walk.steps
        return [self.complete(row) for call, rows in steps if call == "update" for row in rows]

    def ticks(self):
        """Return rows of other objects, so many and so late that all timers of all are due."""
        times = [row["t"] for row in self.rows() if self.is_valid(row)]
        is_time = isinstance(times[0], datetime.datetime)
        later = datetime.timedelta(hours=1) if is_time else 3600
        is_text = pa.types.is_string(self.types["object"])
        keys = [f"tick {n}" if is_text else 10**7 + n for n in range(40)]
        return [self.complete({"object": key, "t": max(times) + later}) for key in keys]

    def is_valid(self, row):
        time = row["t"]
        is_finite = not isinstance(time, float) or math.isfinite(time)
        return None not in (row["object"], time) and is_finite

    def oracle(self):
        return NaiveMonitor(self.naive_rules, **self.options)


def rows_of(events, columns=COLUMNS):
    """Return events as tuples, in a fixed order."""
    return in_order(zip(*(events.column(name).to_pylist() for name in columns), strict=True))


def in_order(rows):
    """Return tuples in a fixed order; times lose their zone, which is UTC or none."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=str)


def _plain(value):
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value
