"""The examples in documents run: those that are not doctests, most of which need Spark."""

import datetime
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tocsin
from tests.documents import examples, fences, pages, run_examples

EVENTS = "event BIGINT, x DOUBLE, y DOUBLE, tier STRING"
REPORTS = "sensor STRING, floor BIGINT, value DOUBLE, rate DOUBLE, time DOUBLE"
FENCES = "id STRING, x_low DOUBLE, x_high DOUBLE, y_low DOUBLE, y_high DOUBLE"
ELSEWHERE = ["docs/routing.md"]  # in tests/routing/test_nats.py


def read_stream(spark, folder, schema, **columns):
    """Return a stream of one micro-batch."""
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "0.parquet")
    return spark.readStream.schema(schema).parquet(str(folder))


def prepare_matching(spark, folder):
    """Return what README.md and docs/spark.md describe in words."""
    rules = tocsin.Rules({"x": "number", "tier": "category"})
    rules.add("gold", "tier = 'gold' AND x > 5")
    rows = {"event": [1, 2], "x": [4.0, 6.0], "y": [4.0, 8.5], "tier": [None, "gold"]}
    return {
        "tocsin": tocsin,
        "rules": rules,
        "events": spark.createDataFrame(list(zip(*rows.values())), EVENTS),
        "fences": spark.createDataFrame([("dock-4", 3.0, 8.0, 3.0, 9.0)], FENCES),
        "stream": read_stream(spark, folder / "stream", EVENTS, **rows),
    }


def prepare_live_rules(spark, folder):
    names = prepare_matching(spark, folder)
    names["rules"].save(folder / "shared" / "rules")
    return names


def prepare_similarity(spark, folder):
    points = spark.createDataFrame([(0.0, 0.0), (0.05, 0.0), (3.0, 4.0)], "x DOUBLE, y DOUBLE")
    return {"a": points, "b": points}


def prepare_payments(spark, folder):
    payments = spark.createDataFrame([(20_000.0,), (5.0,)], "amount DOUBLE")
    return {"tocsin": tocsin, "payments": payments}


def prepare_reports(spark, folder):
    reports = {
        "sensor": ["a", "b", "a"],
        "floor": [1, 1, 1],
        "value": [20.0, 23.0, 18.0],
        "rate": [0.5, 0.5, 0.5],
        "time": [0.0, 1.0, 2.0],
    }
    return {"stream": read_stream(spark, folder / "stream", REPORTS, **reports)}


def prepare_positions(spark, folder):
    rules = tocsin.Rules({"x": "number"})
    rules.add("dock-4", "x < 10")
    rules.save(folder / "shared" / "fences")
    noon = datetime.datetime(2024, 5, 1, 12)
    times = [noon, noon.replace(minute=20)]
    rows = {"object": ["van", "van"], "t": pa.array(times, pa.timestamp("us", "UTC"))}
    schema = "object STRING, t TIMESTAMP, x DOUBLE"
    return {"positions": read_stream(spark, folder / "stream", schema, x=[5.0, 50.0], **rows)}


PREPARE = {
    "README.md": prepare_matching,
    "docs/monitor.md": prepare_positions,
    "docs/rule-stores.md": prepare_payments,
    "docs/similarity.md": prepare_similarity,
    "docs/spark.md": prepare_live_rules,
    "docs/uncertain-spark.md": prepare_reports,
}


@pytest.fixture
def run_page(spark, tmp_path, bucket):
    """A function that runs a page; its paths are in the test's folder, and its streams end."""

    def run(page):
        names = PREPARE[page](spark, tmp_path)
        paths = {f'"{path}': f'"{tmp_path}{path}' for path in ("/shared/", "/data/")}
        places = paths | {f"f{old}": f"f{new}" for old, new in paths.items()}
        run_examples(page, names, places | {"s3://acme-rules": f"{bucket}/{tmp_path.name}"})
        for query in spark.streams.active:
            while query.isActive and not query.recentProgress:
                time.sleep(0.05)
            query.stop()
            assert query.exception() is None
        return names

    yield run
    for query in spark.streams.active:
        query.stop()


def test_every_example_is_run():
    assert [page for page in pages() if examples(page)] == sorted([*PREPARE, *ELSEWHERE])
    for page in pages():
        assert set(fences(page)) <= {"```", "```python", "```console"}, "other blocks are not found"


def test_readme(run_page):
    names = run_page("README.md")
    assert names["alerts"].isStreaming
    assert names["store"].rules()["gold"].where == "tier = 'gold' AND x > 7"


def test_monitor(run_page, spark, tmp_path):
    run_page("docs/monitor.md")
    found = spark.read.parquet(f"{tmp_path}/data/fleet-events").orderBy("time").collect()
    events = [(row.object, row.rule, row.event, row.rules_version) for row in found]
    assert events == [("van", "dock-4", event, 1) for event in ("enter", "dwell", "leave")]


def test_rule_stores(run_page):
    assert run_page("docs/rule-stores.md")["matches"].count() == 1


def test_similarity(run_page):
    names = run_page("docs/similarity.md")
    assert names["pairs"].count() == 5


def test_spark(run_page, spark, tmp_path):
    run_page("docs/spark.md")
    (row,) = spark.read.parquet(f"{tmp_path}/data/matches").collect()
    assert (row.event, row.rule, row.rules_version) == (2, "gold", 1)
    assert spark.read.parquet(f"{tmp_path}/data/alerts").first().rule == "gold"
    counted = spark.read.parquet(f"{tmp_path}/data/counts").collect()
    assert {row.event: row.matches for row in counted} == {1: 0, 2: 1}
    streams = tocsin.RuleStore(tmp_path / "shared" / "rules").streams()
    assert "alerts" in [stream.query for stream in streams]


def test_uncertain(run_page, spark, tmp_path):
    run_page("docs/uncertain-spark.md")
    (row,) = spark.read.parquet(f"{tmp_path}/data/coldest").collect()
    assert (row.floor, row.sensor, row.probability) == (1, "a", 1.0)
