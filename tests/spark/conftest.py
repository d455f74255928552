"""The results of Spark Connect, computed once for all tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def connect_process(request, tmp_path_factory):
    """The process that computes `connect_answers`, while other tests run, and its folder."""
    names = [getattr(item, "fixturenames", ()) for item in request.session.items]
    if not any("connect_folder" in each for each in names):
        yield None
        return
    folder = tmp_path_factory.mktemp("connect")
    root = Path(__file__).parents[2]
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    with open(folder / "errors.log", "wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.connect_answers", str(folder)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            stdout=errors,
            stderr=errors,
        )
    yield process, folder
    # It stops its server when it is terminated.
    process.terminate()
    process.wait()


@pytest.fixture(scope="session")
def connect_folder(connect_process):
    """The folder with the results of `connect_answers`."""
    process, folder = connect_process
    assert process.wait(timeout=900) == 0, (folder / "errors.log").read_text()[-5000:]
    return folder
