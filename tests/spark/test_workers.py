"""Packages that the caller or Spark's workers lack are reported in a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tocsin
import tocsin.spark
from tocsin import jit
from tocsin.engine import threads, version
from tocsin.engine.request import MatchRequest
from tocsin.engine.result import ResultBuilder
from tocsin.spark import kernels, matching, worker
from tocsin.spark.types import SPARK_TYPES

LONG = os.environ.get("TOCSIN_PROFILE") == "long"


def hide_module(folder, module, message=None):
    """Create a folder that hides an installed module if it is first on the path."""
    text = repr(message or f"No module named {module!r}")
    folder.mkdir()
    (folder / f"{module}.py").write_text(f"raise ModuleNotFoundError({text}, name={module!r})\n")
    return str(folder)


def test_import_without_pyspark(tmp_path):
    code = "import tocsin.spark"
    paths = [hide_module(tmp_path / "hidden", "pyspark"), str(Path(tocsin.__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert run.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: tocsin.spark needs PySpark, which is not installed; "
        "pip install 'tocsin[spark]'"
    )
    assert "During handling" not in run.stderr


def test_workers_without_tocsin(spark, tmp_path, monkeypatch):
    """Workers run another Python than the caller, as in a session that a user has created."""
    python = tmp_path / "python"
    hidden = hide_module(tmp_path / "hidden", "tocsin")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{hidden}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    rules = tocsin.Rules({"id": "integer"})
    rules.add("all", "id >= 0")
    with pytest.raises(Exception, match="No module named 'tocsin'") as caught:
        tocsin.spark.match(spark.range(3), rules).collect()
    message = str(caught.value)
    assert f"ImportError: Spark's workers run {sys.executable}, which cannot load tocsin" in message
    assert "set PYSPARK_PYTHON" in message


def test_sending_rules_needs_spark_4(spark, monkeypatch, tmp_path):
    rules = tocsin.Rules({"id": "integer"})
    rules.add("all", "id >= 0")
    frame = spark.sql("SELECT 1 AS id, 'id >= 0' AS where")
    monkeypatch.setattr(matching.pyspark, "__version__", "3.5.9")
    for source in (rules, frame):
        with pytest.raises(tocsin.RuleError, match=r"PySpark 3\.5\.9 cannot send .*Rules\.save"):
            tocsin.spark.match(spark.range(3), source)
    rules.save(tmp_path / "store")
    assert tocsin.spark.match(spark.range(3), tmp_path / "store").count() == 3


def test_workers_match_on_one_thread(tmp_path, monkeypatch):
    rules = tocsin.Rules({"id": "integer"})
    rules.add("all", "id >= 0")
    source = worker.RuleSource(str(tmp_path / "store"), rules.save(tmp_path / "store"), False)
    events = pa.RecordBatch.from_pydict({"id": range(3)})
    monkeypatch.setattr(threads, "LEAST_EVENTS", 1)
    monkeypatch.setattr(threads, "LEAST_IF_ASKED", 1)
    monkeypatch.setattr(version, "ThreadedRun", None)  # raises if it is used
    monkeypatch.setenv("TOCSIN_THREADS", "4")
    for how, k in (("all", None), ("count", None), ("top", 2)):
        request = MatchRequest(how, k)
        result = ResultBuilder.plan(request, rules.snapshot(), events.schema, SPARK_TYPES)
        (matches,) = worker.match_batches(source, result, [], [events])
        assert matches.num_rows == 3
    with pytest.raises(TypeError):
        rules.match(events)


OLDER = """
import sys, pyspark, tocsin, tocsin.spark
assert pyspark.__version__.startswith(sys.argv[1]), pyspark.__file__
spark = tocsin.spark.session(cores=1)
rules = tocsin.Rules({"x": "number"})
rules.add(1, "x > 0", payload={"team": "red"})
rules.copy().save(sys.argv[2])
events = spark.sql("SELECT 1D AS x UNION ALL SELECT -1D")
matches = tocsin.spark.match(events, sys.argv[2], payload=["team"])
assert list(map(tuple, matches.collect())) == [(1.0, 1, "red")], matches
texts = spark.sql("SELECT 1 AS id, 'x > 0' AS where")
for source in (rules, texts):
    try:
        print(tocsin.spark.match(events, source, keep=[]).collect())
    except tocsin.RuleError as error:
        print(error)
"""


@pytest.mark.skipif(not LONG, reason="downloads 300 MB each")
@pytest.mark.parametrize(
    ("version", "output"), [("3.5", "PySpark 3.5"), ("4.0", "[Row(rule=1)]")], ids=["3.5", "4.0"]
)
def test_older_versions_of_spark(tmp_path, version, output):
    """The path of a store works with all versions; sending rules needs 4.0."""
    if version == "3.5" and sys.version_info >= (3, 12):
        pytest.skip("Spark 3.5 imports distutils, which Python 3.12 does not have")
    arguments = [
        "install",
        "-q",
        "--no-deps",
        "--target",
        tmp_path / "spark",
        f"pyspark=={version}.*",
    ]
    subprocess.run([sys.executable, "-m", "pip", *map(str, arguments)], check=True)
    paths = [str(tmp_path / "spark"), str(Path(tocsin.__file__).parents[1])]
    run = subprocess.run(
        [sys.executable, "-c", OLDER, version, str(tmp_path / "store")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    lines = run.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith(output) for line in lines), lines


def test_kernels_of_other_indexes_are_not_compiled(monkeypatch):
    rules = tocsin.Rules({"x": "number"}, "counting")
    rules.add("high", "x > 3 OR x < 1")
    rules.merge()
    snapshot = rules.snapshot()
    rules.add("likely", "x > 3", at_least=0.5)
    uncertain = rules.snapshot()
    compiled = set()
    monkeypatch.setattr(
        jit.Kernel, "compile", lambda each, wait=True: compiled.add(each.function.__module__)
    )
    compile_kernels = kernels.compile_kernels.__wrapped__
    compile_kernels(kernels.kernels_of(snapshot, "all"))
    indexes = {module.split(".")[2] for module in compiled if "tocsin.index." in module}
    assert indexes == {"accept", "counting", "exhaustive", "finish"}
    assert not any(module.startswith("tocsin.engine.probabilities") for module in compiled)
    compile_kernels(kernels.kernels_of(uncertain, "all"))
    assert any(module.startswith("tocsin.engine.probabilities") for module in compiled)
