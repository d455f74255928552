"""One data set and several queries, which are run in process, on Spark and from the command line.

A result is an Arrow table in a canonical order.
"""

import datetime
import decimal
import os
import random
import string

import pyarrow as pa
import pyarrow.parquet as pq

import tocsin
import tocsin.spark
from tests import generate, naive
from tests.properties.test_meaning import attributes

EVENTS = 3000
SCHEMA = generate.SCHEMA | {
    "cost": "decimal(10,2)",
    "spot": "struct<lat: double, label: string>",
    "marks": "map<string, string>",
}
TERMS = [
    *("price * 3.6 > 10", "visits % 7 = 3", "visits * 1.5 > ratio", "ratio / price > 0.5"),
    *("hour(seen) >= 12", "dayofweek(born) IN (1, 7)", "date_trunc('month', seen) > born"),
    *("datediff(seen, born) BETWEEN -100 AND 100", "to_date(seen) > DATE '2024-01-01'"),
    *("lower(tier) LIKE 'g%'", "tier LIKE '%ld'", "city RLIKE '^[A-M]'", "length(city) > 5"),
    *("concat(tier, '-', city) = 'gold-Zürich'", "left(city, 1) <> upper(left(tier, 1))"),
    *("cost > 9.99", "cost * 1.19 >= 11.9", "round(cost) = 10", "cost IN (0.05, 12.50)"),
    *("spot.lat BETWEEN 40 AND 41", "spot.label = 'ny' OR spot.lat IS NULL", "marks['a'] = 'x'"),
    *(
        "coalesce(marks['b'], tier) = 'gold'",
        "NOT marks['A'] LIKE 'n%'",
        "if(active, price, ratio) > 5",
    ),
    *(
        "CASE WHEN premium THEN visits ELSE stock END > 4",
        "CAST(price AS INT) = 5",
        "price <> ratio",
    ),
    "ST_Covers(ST_GeomFromText('POLYGON((0 0, 12 0, 0 12, 0 0))'), ST_Point(price, ratio))",
    "NOT ST_Within(ST_Point(visits, cost), ST_GeomFromText('POLYGON((0 0, 9 0, 0 9, 0 0))'))",
    "ST_DWithin(ST_Point(visits, stock), ST_Point(3, 4), 5) AND tier = 'gold' OR active",
    "ST_DistanceSphere(ST_Point(visits * 1.5e0, spot.lat), ST_Point(179.9, 40.2)) < 19000000",
    *("seen > born", "tier = city", "nullif(tier, 'gold') IS NULL", "visits > 100 / 3.6"),
]

# Arguments of tocsin.spark.match besides events and rules.
QUERIES = {
    "all": {"keep": ["row"], "payload": ["team", "rank"]},
    "top": {"keep": ["row"], "how": "top", "k": 4, "weights": {"visits": 3.0, "tier": 0.5}},
    "count": {"keep": ["row"], "how": "count"},
    "lists": {"keep": ["row"], "output": "lists"},
    "best": {"keep": ["row"], "how": "top", "k": 3, "output": "lists"},
}
PASS_THROUGH = {"kept": {}}
LONG = os.environ.get("TOCSIN_PROFILE") == "long"
STREAMED = {*QUERIES, *PASS_THROUGH} if LONG else {"all", "top", "kept"}


def rules():
    """Return a few hundred rules: conditions with weights and payload, boxes, and long rows."""
    rng = random.Random(2024)
    rules = tocsin.Rules(SCHEMA)
    for number in range(200):
        condition = generate.condition(rng, 2)
        weights = {
            name: rng.choice((0.0, 1.0, rng.random())) for name in sorted(attributes(condition))
        }
        payload = {"team": rng.choice(("red", "blue")), "rank": number} if number % 3 else None
        score = rng.random() * 4 if number % 5 == 0 else None
        weights = weights if score is None else None
        rules.add(f"text {number}", naive.sql(condition, rng), weights, payload, score=score)
    for number, where in enumerate(TERMS):
        rules.add(f"term {number}", where)
    visits = [_ends(rng, "integer") for _ in range(80)]
    prices = [_ends(rng, "number") for _ in range(80)]
    rules.add_many(
        pa.table(
            {
                "id": [f"box {n}" for n in range(80)],
                "visits_low": pa.array([low for low, _ in visits], pa.int64()),
                "visits_high": pa.array([high for _, high in visits], pa.int64()),
                "price_low": pa.array([low for low, _ in prices], pa.float64()),
                "price_high": pa.array([high for _, high in prices], pa.float64()),
                "team": ["green"] * 80,
            }
        )
    )
    rules.add_many(
        pa.table(
            {
                "id": [f"long {n // 2}" for n in range(60)],
                "attribute": ["ratio", "price"] * 30,
                "low": [rng.choice((-1.0, 0.0, 0.5, 5.0)) for _ in range(60)],
                "high": [rng.choice((5.0, 6.0, 1e300, None)) for _ in range(60)],
                "weight": [rng.choice((0.5, 2.0)) for _ in range(60)],
            }
        )
    )
    return rules


def _ends(rng, kind):
    """Return the ends of an interval, which may be unbounded; bounds cannot be NaN."""
    low, high = (generate.value(rng, kind) for _ in range(2))
    low, high = (None if end != end else end for end in (low, high))
    return (low, high) if None in (low, high) else tuple(sorted((low, high)))


def events():
    """Return several thousand events, with null, NaN and integers above 2^53, numbered by `row`."""
    rng = random.Random(7)
    table = generate.arrow_table([generate.event(rng) for _ in range(EVENTS)])
    costs = [None, *(decimal.Decimal(cents).scaleb(-2) for cents in (0, 5, 999, 1000, 1250, -4200))]
    spots = [None, {"lat": 40.5, "label": "ny"}, {"lat": None, "label": "ny"}, {"lat": 41.5}]
    marks = [None, [], [("a", "x")], [("A", "yes"), ("b", "gold")], [("b", None), ("a", "z")]]
    spot_type = pa.struct({"lat": pa.float64(), "label": pa.string()})
    added = {
        "cost": pa.array(rng.choices(costs, k=EVENTS), pa.decimal128(10, 2)),
        "spot": pa.array(rng.choices(spots, k=EVENTS), spot_type),
        "marks": pa.array(rng.choices(marks, k=EVENTS), pa.map_(pa.string(), pa.string())),
        "row": pa.array(range(EVENTS)),
    }
    for name, column in added.items():
        table = table.append_column(name, column)
    return table


def run_in_process(rules, events, query):
    """Return the result of `Rules`, in the columns of Spark's result."""
    options = QUERIES[query]
    if options.get("how") == "count":
        return pa.table({"row": events["row"], "matches": rules.count(events)})
    if options.get("how") == "top":
        matches = rules.top(events, options["k"], weights=options.get("weights"))
    else:
        matches = rules.match(events)
    ids = matches.ids().cast(pa.string())
    if options.get("output") == "lists":
        offsets = pa.array(matches.offsets, pa.int32())
        columns = {"row": events["row"], "rules": pa.ListArray.from_arrays(offsets, ids)}
        if matches.scores is not None:
            columns["scores"] = pa.ListArray.from_arrays(offsets, pa.array(matches.scores))
        return pa.table(columns)
    columns = {"row": events["row"].take(pa.array(matches.events)), "rule": ids}
    if matches.scores is not None:
        columns["score"] = pa.array(matches.scores)
    payload = matches.payload(
        pa.schema([rules.payload_schema.field(name) for name in options.get("payload", ())])
    )
    return pa.table(columns | {name: payload[name] for name in payload.column_names})


def to_canonical(table, query):
    """Return a result in a fixed order and type; the lists of "best" keep their order."""
    if query == "lists":
        lists = [sorted(ids) for ids in table["rules"].to_pylist()]
        table = table.set_column(1, "rules", pa.array(lists, pa.list_(pa.string())))
    keys = [n for n in ("row", "rule") if n in table.column_names]
    list_types = {"rules": pa.list_(pa.string()), "scores": pa.list_(pa.float64())}
    schema = pa.schema([(f.name, list_types.get(f.name, f.type)) for f in table.schema])
    return table.cast(schema).sort_by([(n, "ascending") for n in keys]).combine_chunks()


# ------------------------------------------------------------ columns that only pass through


def awkward():
    """Return events with columns of types that a conversion may change."""
    rng = random.Random(5)
    utc = datetime.UTC
    pools = {
        "money": [decimal.Decimal("12.50"), decimal.Decimal("-99999999999999999999999999.99")],
        "at": [
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, utc),
            datetime.datetime(2024, 5, 1, 12, tzinfo=utc),
            datetime.datetime(1582, 10, 10, tzinfo=utc),
        ],
        "clock": [datetime.datetime(2024, 3, 31, 2, 30), datetime.datetime(9999, 12, 31, 23, 59)],
        "day": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
        "raw": [b"", b"\x00\xff", bytes(range(256))],
        "nested": [
            {"p": "q", "r": [1.5, None, float("nan")], "s": None},
            {"p": None, "r": [], "s": {"t": 1}},
        ],
        "array": [[1, None], [], [2**53 + 1]],
        "map": [[("a", 1), ("b", None)], []],
        "small": [-128, 127],
        "single": [1.5, float("inf")],
        "big": [2**63 - 1, -(2**63)],
        "text": ["", "Zürich 🔔", string.punctuation],
        "flag": [True, False],
    }
    types = {
        "money": pa.decimal128(38, 2),
        "at": pa.timestamp("us", tz="UTC"),
        "clock": pa.timestamp("us"),
        "day": pa.date32(),
        "raw": pa.binary(),
        "nested": pa.struct(
            {"p": pa.string(), "r": pa.list_(pa.float64()), "s": pa.struct({"t": pa.int32()})}
        ),
        "array": pa.list_(pa.int64()),
        "map": pa.map_(pa.string(), pa.int64()),
        "small": pa.int8(),
        "single": pa.float32(),
        "big": pa.int64(),
        "text": pa.string(),
        "flag": pa.bool_(),
    }
    columns = {
        name: pa.array([rng.choice([None, *pool]) for _ in range(60)], types[name])
        for name, pool in pools.items()
    }
    return pa.table({"row": pa.array(range(60)), "x": [float(n % 10) for n in range(60)]} | columns)


def awkward_rules():
    rules = tocsin.Rules({"x": "number"})
    rules.add("any", "x >= 0")
    rules.add("high", "x > 5")
    return rules


# ------------------------------------------------------------ on Spark

# With the number of partitions. A stream takes seconds to start.
WAYS = ["batch-1", "batch-3", "stream-3", *(["stream-1"] if LONG else [])]


def run_on_spark(spark, path):
    """Run all queries on Spark, Classic or Connect; yield the way, the query and the result.

    Rules are sent as an archive for the queries "all" and "kept", otherwise as the path of a store.
    """
    all_rules = rules()
    all_rules.copy().save(path / "store")
    archived = {"all": all_rules, "kept": awkward_rules()}
    for name, table, queries in (("e", events(), QUERIES), ("a", awkward(), PASS_THROUGH)):
        folder = path / name
        folder.mkdir()
        pq.write_table(table, folder / "0.parquet")
        batch = spark.read.parquet(str(folder))
        stream = spark.readStream.schema(batch.schema).parquet(str(folder))
        for way in WAYS:
            kind, partitions = way.split("-")
            frame = (batch if kind == "batch" else stream).repartition(int(partitions))
            for query, options in queries.items():
                # Most queries are streamed only in long runs.
                if kind == "stream" and query not in STREAMED:
                    continue
                source = archived.get(query, path / "store")
                matches = tocsin.spark.match(frame, source, **options)
                if matches.isStreaming:
                    matches = run_stream(spark, matches, path / f"{way}-{query}")
                yield way, query, matches.toArrow()


def run_stream(spark, matches, path):
    """Run a stream to its end and return its rows. (A memory sink shifts times before 1582.)"""
    writer = matches.writeStream.option("checkpointLocation", str(path / "checkpoint"))
    writer = writer.trigger(availableNow=True).format("parquet").option("path", str(path / "out"))
    writer.start().awaitTermination()
    return spark.read.parquet(str(path / "out"))


def match_in_another_zone(spark):
    """Return the matching rules of a DataFrame in a session whose zone is not UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.sql("SELECT TIMESTAMP '2024-05-01 12:00:00Z' AS ts")
        rules = spark.sql(
            """SELECT * FROM VALUES (0, "ts = '2024-05-01 08:00:00'"),
            (1, "ts = TIMESTAMP '2024-05-01 12:00:00'") AS t(id, where)"""
        )
        return [row.rule for row in tocsin.spark.match(frame, rules).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def errors(spark, path):
    """Yield errors that only a worker can notice."""
    frame = spark.sql("SELECT 7D AS x, map('x', -1D) AS w")
    try:
        tocsin.spark.match(frame, awkward_rules(), how="top", k=1, weights="w").collect()
    except Exception as error:
        yield "batch", error
    store = tocsin.RuleStore.create(path / "store", {"x": "number"})
    store.add(1, "x < 0")
    (path / "events").mkdir()
    pq.write_table(pa.table({"x": [1.0]}), path / "events" / "0.parquet")
    frame = spark.readStream.schema("x DOUBLE").parquet(str(path / "events"))
    matches = tocsin.spark.match(frame, store.path)
    with store.change() as rules:
        rules.remove(1)
        rules.merge()
        rules.add("late", "x > 0")  # integers were planned
    try:
        run_stream(spark, matches, path)
    except Exception as error:
        yield "stream", error
