"""Commands in documents run, and print what docs/command-line.md shows."""

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.commands import run, run_ok
from tests.documents import ROOT, pages

DOCUMENT = ROOT / "docs" / "command-line.md"
ELSEWHERE = ["docs/routing.md"]  # its commands are in tests/routing/test_nats.py


def transcript():
    """Yield the commands of the document, and their output."""
    blocks = re.findall(r"^```console\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            yield piece.split("\n", 1)


def without_timings(text):
    """Return the lines of a text without times and rates, which differ from run to run."""
    text = re.sub(r"in [\d,.]+ s \([\d,.]+ (events|positions)", r"in ... s (... \1", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "now", text)
    return [line.rstrip() for line in text.splitlines()]


def test_the_commands_of_the_document(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = list(transcript())
    assert len(shown) > 15
    for command, output in shown:
        program, *arguments = shlex.split(command)
        if program == "cat":
            file = Path(arguments[0])
            if not file.exists():  # no command has written it: it is input
                file.write_text(output)
            printed = file.read_text()
        else:
            assert program == "tocsin"
            printed = run(*arguments).output
        assert without_timings(printed) == without_timings(output), command


def commands(page):
    """Return the commands of a page that shows them without output."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    plain = "\n".join(block for language, block in blocks if not language)
    return re.findall(r"^tocsin .*$", plain, re.MULTILINE)


def test_commands_without_output(tmp_path, monkeypatch):
    """The files that they read are as the pages describe them."""
    shown = {page: commands(page) for page in pages() if commands(page)}
    assert sorted(shown) == ["README.md", "docs/fences.md", "docs/monitor.md", *ELSEWHERE]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.csv").write_text("id,where\ngold,tier = 'gold' AND x > 5\n")
    (tmp_path / "fences.csv").write_text("id,where\ndock-4,x < 10\n")
    (tmp_path / "positions.csv").write_text("object,t,x,y\nvan,2024-05-01T12:00:00Z,5,0\n")
    pq.write_table(pa.table({"x": [6.0, 8.0], "tier": ["gold"] * 2}), "events.parquet")
    noon = pa.array([1_714_564_800_000_000], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"vehicle": ["van"], "at": noon, "x": [5.0]}), "positions.parquet")
    printed = {command: run_ok(*shlex.split(command)[1:]) for command in shown["README.md"]}
    assert "x > 7" in printed[shown["README.md"][-1]]
    assert pq.read_table("matches.parquet").to_pylist() == [
        {"x": 8.0, "tier": "gold", "rule": "gold"}
    ]
    (monitor,) = shown["docs/monitor.md"]
    assert "enter" in run_ok(*shlex.split(monitor)[1:])
    ring = [[2, 48], [3, 48], [3, 49], [2, 48]]
    feature = {"id": "a", "geometry": {"type": "Polygon", "coordinates": [ring]}}
    features = [{"type": "Feature", "properties": {"name": "A"}} | feature]
    Path("zones.geojson").write_text(
        json.dumps({"type": "FeatureCollection", "features": features})
    )
    pq.write_table(pa.table({"lon": [2.9, 2.1], "lat": [48.1, 48.9]}), "positions.parquet")
    for command in shown["docs/fences.md"]:
        run_ok(*shlex.split(command)[1:])
    assert pq.read_table("inside.parquet").to_pylist() == [
        {"lon": 2.9, "lat": 48.1, "rule": "a", "name": "A"}
    ]
