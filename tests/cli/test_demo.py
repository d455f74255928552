"""The demo runs through, what it says is true, and it leaves other people's folders alone."""

import importlib.util
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import tocsin
from tocsin.cli.demo import city as plan
from tocsin.cli.demo import fences, stream, traffic
from tocsin.cli.demo.command import demo

EVENTS, BATCHES = 5_000, 8


def run(folder, *options):
    return CliRunner().invoke(demo, ["--out", str(folder), *options])


@pytest.fixture(scope="module")
def ran(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "BATCHES", BATCHES)
        return folder, run(folder, "--events", str(EVENTS))


def expected_alarms():
    """Return, for each event, whether the changed rule should ring: NumPy, no Tocsin."""
    pings = traffic.drive(plan.build(7), EVENTS, 7)
    x, y, speed = (pings[n].to_numpy() for n in ("x", "y", "speed"))
    kind = np.array(pings["kind"].to_pylist())
    x_off, y_off = abs(x - plan.GASWORKS[0]), abs(y - plan.GASWORKS[1])
    before = (x_off <= 0.42) & (y_off <= 0.36) & (speed > 45)
    after = (x_off <= 0.95) & (y_off <= 0.8) & (kind != "fire engine")
    return np.where(np.arange(EVENTS) < EVENTS // 2, before, after)


def test_it_runs_through(ran):
    _, result = ran
    assert result.exit_code == 0, result.output
    assert "The busiest rules" in result.output
    assert re.search(r"checked: [\d,]+ matches equal", result.output)
    assert re.search(r"then: [\d,]+ events/s", result.output)
    assert "tocsin rules list" in result.output
    controls = {c for c in result.output if ord(c) < 32 and c != "\n"}
    assert not controls


def test_the_change_is_seen_and_true(ran):
    folder, result = ran
    alarms = expected_alarms()
    early, late = alarms[: EVENTS // 2].sum(), alarms[EVENTS // 2 :].sum()
    assert late > 10 * max(early, 1)
    assert f"in all {early:,} hits before, {late:,} after" in result.output
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d,]+)   ", result.output, re.MULTILINE)
    size = EVENTS // BATCHES
    assert [(int(n), int(v)) for n, _, v, _ in rows] == [
        (n, 2 if n < 4 else 3) for n in range(1, 7)
    ]
    for number, events, _, hits in rows:
        at = int(number) * size
        assert (int(events), int(hits)) == (size, alarms[at : at + size].sum())
    assert str(tocsin.RuleStore(folder / "rules").diff(2)) == f"1 changed: {fences.ALARM}"


def test_what_stays_in_the_folder(ran, spark):
    folder, result = ran
    matches = spark.read.parquet(str(folder / "matches")).toArrow()
    assert f"{len(matches):,} matches equal" in result.output
    found = matches.filter(pc.equal(matches["rule"], fences.ALARM))
    assert sorted(found["ping"].to_pylist()) == np.flatnonzero(expected_alarms()).tolist()
    assert pc.all(
        pc.equal(pc.equal(matches["rules_version"], 3), pc.greater_equal(matches["ping"], 2500))
    ).as_py()


def test_the_picture(ran):
    from PIL import Image

    folder, _ = ran
    assert (folder / "demo.png").stat().st_size < 500_000
    with Image.open(folder / "demo.png") as image:
        assert image.size == (1600, 1000)
        colours = image.convert("RGB").getcolors(1 << 20)
    assert len(colours) > 60
    assert max(count for count, _ in colours) < 0.6 * 1600 * 1000


def test_it_runs_again_over_its_own_folder(ran, spark, monkeypatch):
    folder, _ = ran
    mine = folder / "mine.txt"
    mine.write_text("keep")
    monkeypatch.setattr(stream, "BATCHES", 2)
    result = run(folder, "--events", "1000", "--seed", "5")
    assert result.exit_code == 0, result.output
    assert "1,000 events" in result.output
    assert mine.read_text() == "keep"


def test_it_refuses_a_folder_of_someone_else(tmp_path):
    (tmp_path / "rules").mkdir()
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "no demo made it" in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["rules"]


def test_it_names_what_is_missing(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "matplotlib" else real(n, *a)
    )
    result = run(tmp_path / "out")
    assert result.exit_code == 1
    assert "needs matplotlib; install with: pip install 'tocsin[demo]'" in result.output
    assert not (tmp_path / "out").exists()


def test_an_interrupt_ends_it_quietly(tmp_path, spark, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(stream, "play", interrupted)
    result = run(tmp_path / "out", "--events", "1000")
    assert result.exit_code == 130
    assert "stopped" in result.output


def test_the_city_is_the_same_twice():
    one, two, other = plan.build(3), plan.build(3), plan.build(4)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one.nodes, other.nodes)
    assert fences.write(one, 3) == fences.write(two, 3)
    assert traffic.drive(one, 2_000, 3).equals(traffic.drive(two, 2_000, 3))
    assert not traffic.drive(one, 2_000, 3).equals(traffic.drive(one, 2_000, 4))


def test_the_check_notices(tmp_path):
    """One match dropped, one invented, one doubled, one of another version: all are seen."""
    city = plan.build(7)
    store = stream.publish(tmp_path / "rules", fences.write(city, 7))
    part = traffic.drive(city, 1_000, 7)
    pairs = store.rules().match(part).to_arrow()
    good = pa.table(
        {
            "ping": part["ping"].take(pairs["event"]),
            "rule": pairs["rule"].cast(pa.string()),
            "rules_version": pa.array([2] * len(pairs), pa.int64()),
        }
    )
    bad = good.slice(0, 1).set_column(1, "rule", pa.array(["sky/opera"]))
    of_another = good.slice(0, 1).set_column(2, "rules_version", pa.array([3]))

    def equal(matches):
        return stream.check(store, [part], [stream.Batch(0, 1_000, 1.0, 2, matches)]).equal

    assert len(good) > 50
    assert equal(good)
    assert not equal(good.slice(1))
    assert not equal(pa.concat_tables([good, bad]))
    assert not equal(pa.concat_tables([good, good.slice(0, 1)]))
    assert not equal(pa.concat_tables([good.slice(1), of_another]))
    assert not stream.check(store, [part, part], [stream.Batch(0, 1_000, 1.0, 2, good)]).equal
