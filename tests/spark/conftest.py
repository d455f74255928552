"""The results of Spark Connect, computed once for all tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def connect_folder(tmp_path_factory):
    """The folder with the results of `connect_answers`."""
    folder = tmp_path_factory.mktemp("connect")
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_answers", str(folder)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    return folder
