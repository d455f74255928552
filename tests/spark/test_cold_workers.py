"""Spark's workers start at the same time with an empty compile cache."""

import json
import os
import subprocess
import sys

import pytest

LONG = os.environ.get("TOCSIN_PROFILE") == "long"

CODE = """
import json, os, sys
from pathlib import Path
import tocsin.spark

cache = sys.argv[1]
# Only the workers use the empty cache; the driver has its own.
spark = tocsin.spark.session(cores=4, config={"spark.executorEnv.TOCSIN_CACHE_DIR": cache})
rules = tocsin.Rules({"id": "integer"})
rules.add("even", "id IN (0, 2, 4, 6)")
rules.add("high", "id >= 995 OR id IS NULL")
events = spark.range(0, 1000, 1, 4)
matches = tocsin.spark.match(events, rules)
pairs = sorted(map(tuple, matches.collect()))

def has_cache(process):
    try:
        return cache.encode() in (process / "environ").read_bytes()
    except OSError:
        return False

processes = [p for p in Path("/proc").glob("[0-9]*") if has_cache(p)]
print(json.dumps([pairs, len(processes)]))
"""
PAIRS = [[n, "even"] for n in (0, 2, 4, 6)] + [[n, "high"] for n in range(995, 1000)]


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="counts workers by /proc")
@pytest.mark.skipif(not LONG, reason="compiles everything; test_jit has the same without Spark")
@pytest.mark.parametrize("repetition", range(20))
def test_four_cold_workers(tmp_path, repetition):
    run = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    pairs, processes = json.loads(run.stdout)
    assert pairs == PAIRS
    assert processes == 1 + 4, "Spark's daemon, and a worker for each partition"
    (digest,) = tmp_path.iterdir()
    compiled = [len(list(folder.glob("*.nbc"))) for folder in digest.iterdir() if folder.is_dir()]
    assert compiled
    assert set(compiled) == {1}, "each kernel is compiled once"
