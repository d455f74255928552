"""The demo runs, its output is correct, and it leaves other folders alone."""

import importlib.util
import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import tocsin
from tocsin.cli.demo import city as cities
from tocsin.cli.demo import fences, stream, traffic
from tocsin.cli.demo.command import demo

EVENTS, BATCHES = 5_000, 8


def run(folder, *options):
    return CliRunner().invoke(demo, ["--out", str(folder), *options])


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "BATCHES", BATCHES)
        return folder, run(folder, "--events", str(EVENTS))


def expected_alarms():
    """Return which events match the changed rule, computed by NumPy without Tocsin."""
    pings = traffic.simulate(cities.build(7), EVENTS, 7)
    x, y, speed = (pings[n].to_numpy() for n in ("x", "y", "speed"))
    kind = np.array(pings["kind"].to_pylist())
    x_off, y_off = abs(x - cities.GASWORKS[0]), abs(y - cities.GASWORKS[1])
    before = (x_off <= 0.42) & (y_off <= 0.36) & (speed > 45)
    after = (x_off <= 0.95) & (y_off <= 0.8) & (kind != "fire engine")
    return np.where(np.arange(EVENTS) < EVENTS // 2, before, after)


def test_it_runs(finished):
    _, result = finished
    assert result.exit_code == 0, result.output
    assert "The busiest rules" in result.output
    assert re.search(r"checked: [\d,]+ matches are equal", result.output)
    assert re.search(r"then: [\d,]+ events/s", result.output)
    assert "tocsin rules list" in result.output
    controls = {c for c in result.output if ord(c) < 32 and c != "\n"}
    assert not controls


def test_the_change_takes_effect(finished):
    folder, result = finished
    alarms = expected_alarms()
    early, late = alarms[: EVENTS // 2].sum(), alarms[EVENTS // 2 :].sum()
    assert late > 10 * max(early, 1)
    assert f"in total {early:,} matches before, {late:,} after" in result.output
    rows = re.findall(r"^ +(\d+) +(\d+) +(\d+) +([\d,]+)   ", result.output, re.MULTILINE)
    size = EVENTS // BATCHES
    assert [(int(n), int(v)) for n, _, v, _ in rows] == [
        (n, 2 if n < 4 else 3) for n in range(1, 7)
    ]
    for number, events, _, matches in rows:
        first = int(number) * size
        assert (int(events), int(matches)) == (size, alarms[first : first + size].sum())
    difference = tocsin.RuleStore(folder / "rules").diff(2)
    assert str(difference).startswith(f"1 changed: {fences.ALARM}\n")


def test_the_matches_in_the_folder(finished, spark):
    folder, result = finished
    matches = spark.read.parquet(str(folder / "matches")).toArrow()
    assert f"{len(matches):,} matches are equal" in result.output
    alarms = matches.filter(pc.equal(matches["rule"], fences.ALARM))
    assert sorted(alarms["ping"].to_pylist()) == np.flatnonzero(expected_alarms()).tolist()
    assert pc.all(
        pc.equal(pc.equal(matches["rules_version"], 3), pc.greater_equal(matches["ping"], 2500))
    ).as_py()


def test_the_picture(finished):
    from PIL import Image

    folder, _ = finished
    assert (folder / "demo.png").stat().st_size < 500_000
    with Image.open(folder / "demo.png") as image:
        assert image.size == (1600, 1000)
        colours = image.convert("RGB").getcolors(1 << 20)
    assert len(colours) > 60
    assert max(count for count, _ in colours) < 0.6 * 1600 * 1000


def test_it_runs_again_in_its_own_folder(finished, spark, monkeypatch):
    folder, _ = finished
    other_file = folder / "other.txt"
    other_file.write_text("keep")
    monkeypatch.setattr(stream, "BATCHES", 2)
    result = run(folder, "--events", "1000", "--seed", "5")
    assert result.exit_code == 0, result.output
    assert "1,000 events" in result.output
    assert other_file.read_text() == "keep"


def test_it_refuses_other_folders(tmp_path):
    (tmp_path / "rules").mkdir()
    result = run(tmp_path)
    assert result.exit_code == 1
    assert "was not created by the demo" in result.output
    assert [p.name for p in tmp_path.iterdir()] == ["rules"]


def test_it_names_missing_packages(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n, *a: None if n == "matplotlib" else real(n, *a)
    )
    result = run(tmp_path / "out")
    assert result.exit_code == 1
    assert "needs matplotlib; install with: pip install 'tocsin[demo]'" in result.output
    assert not (tmp_path / "out").exists()


def test_an_interrupt_ends_it(tmp_path, spark, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(stream, "run", interrupted)
    result = run(tmp_path / "out", "--events", "1000")
    assert result.exit_code == 130
    assert "stopped" in result.output


def test_the_same_seed_gives_the_same_city():
    one, two, other = cities.build(3), cities.build(3), cities.build(4)
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert not np.array_equal(one.nodes, other.nodes)
    assert fences.build(one, 3) == fences.build(two, 3)
    assert traffic.simulate(one, 2_000, 3).equals(traffic.simulate(two, 2_000, 3))
    assert not traffic.simulate(one, 2_000, 3).equals(traffic.simulate(one, 2_000, 4))


def test_the_check_notices_differences(tmp_path):
    """It notices a missing match, a wrong one, a duplicate, and one of another version."""
    city = cities.build(7)
    store = stream.publish(tmp_path / "rules", fences.build(city, 7))
    part = traffic.simulate(city, 1_000, 7)
    pairs = store.rules().match(part).to_arrow()
    good = pa.table(
        {
            "ping": part["ping"].take(pairs["event"]),
            "rule": pairs["rule"].cast(pa.string()),
            "rules_version": pa.array([2] * len(pairs), pa.int64()),
        }
    )
    wrong_rule = good.slice(0, 1).set_column(1, "rule", pa.array(["sky/opera"]))
    wrong_version = good.slice(0, 1).set_column(2, "rules_version", pa.array([3]))

    def is_equal(matches):
        return stream.check(store, [part], [stream.Batch(0, 1_000, 1.0, 2, matches)]).is_equal

    assert len(good) > 50
    assert is_equal(good)
    assert not is_equal(good.slice(1))
    assert not is_equal(pa.concat_tables([good, wrong_rule]))
    assert not is_equal(pa.concat_tables([good, good.slice(0, 1)]))
    assert not is_equal(pa.concat_tables([good.slice(1), wrong_version]))
    assert not stream.check(store, [part, part], [stream.Batch(0, 1_000, 1.0, 2, good)]).is_equal
