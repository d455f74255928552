"""Benchmarks run; what they print at this size means nothing."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_spine():
    command = [sys.executable, "-m", "benchmarks.spine", "--size", "tiny"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "sparse rules" in run.stdout
    assert "blocked NumPy" in run.stdout
