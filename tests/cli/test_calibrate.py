"""`tocsin calibrate` writes the costs that joins are priced by."""

import json

from click.testing import CliRunner

from tocsin.cli.main import tocsin
from tocsin.similarity import calibration


def test_calibrate(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "_REPETITIONS", 1)
    measure = calibration.calibrate
    monkeypatch.setattr(calibration, "calibrate", lambda: measure(shrink=200))
    path = tmp_path / "costs.json"
    run = CliRunner().invoke(tocsin, ["calibrate", "--out", str(path)])
    assert run.exit_code == 0, run.output
    assert f"wrote {path}" in run.stdout
    assert "measured cells" in run.stderr
    costs = json.loads(path.read_text())
    assert {"exhaustive", "cells", "blocks", "pair", "grid"} <= costs.keys()
