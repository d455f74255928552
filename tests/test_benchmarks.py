"""Benchmarks run; what they print at this size means nothing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def output_of(name):
    command = [sys.executable, "-m", f"benchmarks.{name}", "--size", "tiny"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_spine():
    output = output_of("spine")
    assert "sparse rules" in output
    assert "blocked NumPy" in output


def test_range_matching():
    output = output_of("range_matching")
    for name in ("W1", "W2", "W3", "W4", "W5", "W6", "mixed", "tree_join", "superintervals", "p99"):
        assert name in output
    assert "failed" not in output


def test_boolean_matching():
    output = output_of("boolean_matching")
    for name in ("A, uniform", "B, Zipf", "counting", "exhaustive", "exchanged", "p99", "Growth"):
        assert name in output


def test_threads():
    output = output_of("threads")
    for what in ("W2", "W5", "B, 3,000 events x 1,000 rules: top 5"):
        assert what in output


def test_spark_matching():
    output = output_of("spark_matching")
    assert "identity" in output
    assert "publish one changed rule" in output
