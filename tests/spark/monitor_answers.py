"""Random walks on Spark: the events of `tocsin.spark.monitor`, and those of the oracle."""

import copy
import datetime
import math

import pyarrow as pa
import pyarrow.parquet as pq

import tocsin
import tocsin.spark
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules
from tests.moving.walks import walk
from tests.spark.test_live_rules import files_of_batches

COLUMNS = ("object", "rule", "event", "time", "since", "reason")


class Story:
    """A walk whose updates have all columns, in types that Spark has."""

    def __init__(self, seed, profile, steps=None):
        self.walk = walk(seed, profile)
        self.steps = self.walk.steps[:steps]
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
        updates = (argument for call, argument in self.steps if call == "update")
        return [self.complete(row) for rows in updates for row in rows]

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


# ------------------------------------------------------------ streams

BUCKETS = 3


class StoryStream:
    """A story as a stream of files, one for each micro-batch, with rules that change in between."""

    def __init__(self, story, folder):
        self.story, self.folder = story, folder
        self.files = 0
        self.versions = {}  # of the store, as rules of the oracle
        (folder / "events").mkdir(parents=True)
        self.publish()

    def publish(self):
        """Make the rules of the story the next version of the store."""
        version = self.story.rules.save(self.folder / "store")
        self.versions[version] = copy.deepcopy(self.story.naive_rules)

    def write(self, rows):
        hidden = self.folder / "events" / f".{self.files}"
        pq.write_table(self.story.table(rows), hidden)
        hidden.rename(self.folder / "events" / f"{self.files:04d}.parquet")
        self.files += 1

    def take(self, step):
        """Take a step of the walk; return whether there are new rows."""
        match step:
            case ("rules", edits):
                self.story.change(edits)
                self.publish()
            case ("update", rows) if rows:
                self.write(rows)
                return True
        return False

    def positions(self, spark):
        if not self.files:
            self.write([])
        schema = spark.read.parquet(str(self.folder / "events")).schema
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / "events"))

    def monitor(self, spark, **options):
        """Return the events as a streaming DataFrame."""
        options = {"state": self.folder / "state", "buckets": BUCKETS} | options
        options = self.story.options | options
        return tocsin.spark.monitor(self.positions(spark), self.folder / "store", **options)

    def run(self, spark, steps, start=None):
        """Take steps while the stream runs; return the query, which has ended."""
        query = None
        for step in steps:
            is_new = self.take(step)
            query = query or (start or self.start)(self.monitor(spark))
            if is_new:
                query.processAllAvailable()
        query.processAllAvailable()
        query.stop()
        return query

    def start(self, events):
        writer = events.writeStream.format("parquet").trigger(processingTime="0 seconds")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.option("path", str(self.folder / "out")).start()

    def output(self, spark):
        events = spark.read.parquet(str(self.folder / "out")).toArrow()
        return rows_of(events, [*COLUMNS, "rules_version"])

    def expected(self, spark):
        """Return the events of an oracle for each bucket, with the versions that Spark used."""
        keys = spark.read.parquet(str(self.folder / "events")).select("object").distinct()
        hashed = keys.selectExpr("object", f"pmod(hash(object), {BUCKETS})").collect()
        bucket_of = dict(map(tuple, hashed))
        (log,) = (self.folder / "store" / "log").iterdir()
        monitors, events = {}, []
        for batch, files in files_of_batches(self.folder).items():
            rows = [r for f in files for r in pq.read_table(self.folder / "events" / f).to_pylist()]
            for bucket in range(BUCKETS):
                own = [r for r in rows if self.story.is_valid(r)]
                own = [r for r in own if bucket_of[r["object"]] == bucket]
                if own:
                    version = int((log / str(batch)).read_text())
                    monitor = monitors.setdefault(bucket, self.story.oracle())
                    monitor._rules = self.versions[version]
                    events += [(*event, version) for event in monitor.update(own)]
        return in_order(events)


def rows_of(events, columns=COLUMNS):
    """Return events as tuples, in a fixed order."""
    return in_order(zip(*(events.column(name).to_pylist() for name in columns), strict=True))


def in_order(rows):
    """Return tuples in a fixed order; times lose their zone, which is UTC or none."""
    return sorted((tuple(map(_plain, row)) for row in rows), key=str)


def _plain(value):
    return value.replace(tzinfo=None) if isinstance(value, datetime.datetime) else value
