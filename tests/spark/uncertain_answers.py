"""Queries over uncertain readings on Spark, and the same in one process.

An answer is a dict from (group, id) or (group,) to numbers, as JSON keeps it: a list of pairs.
"""

import numpy as np
import pyarrow.dataset as ds

import tocsin.spark
from tocsin import uncertain

GROUPS = ["north", "south", "it's", None]
QUANTILES = [0.05, 0.5, 0.95]
RANGE = (18.0, 24.0)
Q = 21.3
AT, DOMAIN = 100.0, (0.0, 40.0)
FIELDS = (
    "id BIGINT, floor STRING, value DOUBLE, rate DOUBLE, time DOUBLE, low DOUBLE, high DOUBLE, "
    "mean DOUBLE, deviation DOUBLE, edges ARRAY<DOUBLE>, weights ARRAY<DOUBLE>"
)


def rows(families):
    """Return readings as dicts of the columns that are not null, of the given families in turn."""
    rng = np.random.default_rng(7)
    made = []
    for i in range(240):
        family = families[i % len(families)]
        middle, width = 15 + 10 * rng.random(), 8 * rng.random()
        low, high = middle - width, middle + width
        row = {"id": i, "floor": GROUPS[int(rng.integers(len(GROUPS)))]}
        if family == "point":
            row["value"] = round(middle)  # so some are equal
        elif family == "growing":
            row |= {"value": middle, "rate": 0.1 * width, "time": AT - 60 * rng.random()}
        elif family == "histogram":
            weights = rng.integers(0, 4, 5).astype(float)
            weights[2] += 1
            edges = np.sort(rng.uniform(low, high, 6))
            row |= {"edges": edges.tolist(), "weights": (weights / weights.sum()).tolist()}
        else:
            row |= {"low": low, "high": high}
            if family == "normal":
                row |= {"mean": rng.uniform(low - 5, high), "deviation": 0.1 + 4 * rng.random()}
        made.append(row)
    return made


FAMILIES = ["point", "growing", "uniform", "uniform", "histogram"]  # what needs no Python
ALL = [*FAMILIES, "normal", "normal"]


def make_frame(session, families):
    """Return the readings as a DataFrame."""
    names = [field.split()[0] for field in FIELDS.split(", ")]
    made = [tuple(row.get(name) for name in names) for row in rows(families)]
    typed = [
        tuple(float(x) if type(x) is int and i > 1 else x for i, x in enumerate(r)) for r in made
    ]
    return session.createDataFrame(typed, FIELDS)


def make_readings(made):
    """Return the readings of one process."""

    def columns(kind, *names):
        own = [row for row in made if set(row) - {"id", "floor"} == set(kind)]
        return [np.array([row["id"] for row in own], np.int64)] + [
            [row[name] for row in own] for name in names
        ]

    parts = [
        uncertain.Readings.points(*columns({"value"}, "value")),
        uncertain.Readings.growing(
            *columns({"value", "rate", "time"}, "value", "rate", "time"), DOMAIN
        ).at(AT),
        uncertain.Readings.uniform(*columns({"low", "high"}, "low", "high")),
        uncertain.Readings.normal(
            *columns({"low", "high", "mean", "deviation"}, "mean", "deviation", "low", "high")
        ),
        uncertain.Readings.histogram(*columns({"edges", "weights"}, "edges", "weights")),
    ]
    parts = [part for part in parts if len(part)]
    joined = parts[0]
    for part in parts[1:]:
        joined += part
    return joined


ENTITY = {
    "minimum": lambda module, r, **o: module.minimum(r, **o),
    "maximum": lambda module, r, **o: module.maximum(r, **o),
    "nearest": lambda module, r, **o: module.nearest(r, Q, **o),
    "likely": lambda module, r, **o: module.minimum(r, 0.1, **o),
}
VALUES = ["total", "average", "lowest", "highest"]


def ask_spark(session, families, partitions, queries):
    """Return the answers of Spark."""
    frame = make_frame(session, families).repartition(partitions)
    options = {"at": AT, "domain": DOMAIN}
    spark = tocsin.spark.uncertain
    found = {}
    for query in queries:
        if query == "in_range":
            answer = spark.in_range(frame, *RANGE, **options).select("floor", "id", "probability")
        elif query == "value":
            answer = spark.value(frame, QUANTILES, keep=["floor"], **options)
            answer = answer.selectExpr("floor", "id", "low", "high", "mean", "quality", "quantiles")
        elif query in ENTITY:
            answer = ENTITY[query](spark, frame, by=["floor"], **options)
        else:
            answer = getattr(spark, query)(frame, QUANTILES, by=["floor"], **options)
        keys = 1 if query in VALUES else 2
        found[query] = to_pairs(answer, keys)
    return found


def to_pairs(frame, keys):
    """Return pairs of keys and numbers; atoms are lists of two numbers."""
    pairs = []
    for row in frame.toArrow().to_pylist():
        values = list(row.values())
        if "atoms" in row:
            values[-1] = [[atom["value"], atom["probability"]] for atom in row["atoms"]]
        pairs.append([values[:keys], values[keys:]])
    return sorted(pairs, key=lambda pair: [str(key) for key in pair[0]])


def ask_one_process(families, queries):
    """Return the same answers, of one process."""
    made = rows(families)
    floors = {row["id"]: row["floor"] for row in made}
    found = {}
    for query in queries:
        pairs = []
        if query == "in_range":
            answer = uncertain.in_range(make_readings(made), *RANGE)
            pairs = [[[floors[id], id], [p]] for id, p in answer]
        elif query == "value":
            readings = make_readings(made)
            for id in readings.ids.to_pylist():
                pairs.append([[floors[id], id], describe(uncertain.value(readings, id))[:-1]])
        for group in GROUPS:
            own = make_readings([row for row in made if row["floor"] == group])
            if query in ENTITY:
                answer = ENTITY[query](uncertain, own)
                pairs += [[[group, id], [p, answer.quality]] for id, p in answer]
            elif query in VALUES:
                pairs.append([[group], describe(getattr(uncertain, query)(own))])
        found[query] = sorted(pairs, key=lambda pair: [str(key) for key in pair[0]])
    return found


def describe(found):
    atoms = np.column_stack(found.atoms).tolist()
    quantiles = found.quantile(QUANTILES).tolist()
    return [found.low, found.high, found.mean, found.quality, quantiles, atoms]


def assert_same(found, expected, tolerance=1e-9):
    """Compare two answers: the same keys, and numbers that differ by rounding only."""
    assert [pair[0] for pair in found] == [pair[0] for pair in expected]
    for (key, numbers), (_, others) in zip(found, expected, strict=True):
        for a, b in zip(numbers, others, strict=True):
            assert (a is None) == (b is None), key
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=str(key))


# ------------------------------------------------------------ a stream

REPORTS = [
    # (id, floor, value, rate, time), by micro-batch
    [("a", 1, 20.0, 0.5, 0.0), ("b", 1, 19.0, 0.5, 1.0), ("c", 2, 25.0, 0.0, 2.0)],
    [("b", 1, 23.0, 0.5, 4.0), ("b", 1, 18.0, 0.5, 3.0), ("d", 2, 24.5, 1.0, 3.5)],
    [("c", 2, 10.0, 0.0, 1.5), ("a", 1, 22.0, 0.5, 6.0)],  # the first is late
]
REPORT_FIELDS = "id STRING, floor BIGINT, value DOUBLE, rate DOUBLE, time DOUBLE"


def write_reports(session, folder, number):
    """Write the file of one micro-batch."""
    made = session.createDataFrame(REPORTS[number], REPORT_FIELDS).coalesce(1)
    made.write.mode("append").parquet(str(folder / "reports"))


def watch_reports(session, folder):
    """Return the writer of a stream that asks for the minimum of each floor."""
    (folder / "reports").mkdir(parents=True, exist_ok=True)
    reader = session.readStream.schema(REPORT_FIELDS).option("maxFilesPerTrigger", 1)
    path = str(folder)

    def save(readings, at, batch):
        import os

        from tocsin.spark.uncertain import minimum

        if os.path.exists(f"{path}/crash"):
            raise RuntimeError("crash")
        answer = minimum(readings, by=["floor"], at=at).selectExpr("*", f"{at}D AS at")
        answer.write.mode("overwrite").parquet(f"{path}/answers/batch={batch}")

    writer = tocsin.spark.uncertain.watch(
        reader.parquet(f"{path}/reports"), save, state=f"{path}/state"
    )
    return writer.option("checkpointLocation", f"{path}/checkpoint").trigger(availableNow=True)


def run_stream(session, folder):
    """Run a stream, a micro-batch at a time."""
    for number in range(len(REPORTS)):
        write_reports(session, folder, number)
        watch_reports(session, folder).start().awaitTermination()


def read_answers(folder):
    """Return (batch, at, floor, id, probability) of all answers."""
    table = ds.dataset(folder / "answers", partitioning="hive").to_table()
    names = ("batch", "at", "floor", "id", "probability")
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def expected_answers():
    """Return the same, of one process."""
    last, expected = {}, []
    for batch, reports in enumerate(REPORTS):
        for report in reports:
            if report[0] not in last or report[4] > last[report[0]][4]:
                last[report[0]] = report
        at = max(report[4] for report in last.values())
        for floor in (1, 2):
            own = list(zip(*(r for r in last.values() if r[1] == floor), strict=True))
            readings = uncertain.Readings.growing(own[0], *own[2:]).at(at)
            expected += [(batch, at, floor, id, p) for id, p in uncertain.minimum(readings)]
    return sorted(expected)
