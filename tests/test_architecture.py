"""The walks in ARCHITECTURE.md are true: every hop exists, and runs take the hops in this order.

A hop is a function that a row names. Walks go only forward: whoever follows a run meets the hops
for the first time in the order of the page, from left to right and from top to bottom.
"""

import ast
import functools
import re
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import types as st

import tocsin
import tocsin.spark
from tocsin.jit import Kernel
from tocsin.spark.kernels import compile_kernels, kernels_of

ROOT = Path(__file__).parent.parent
SRC = Path(tocsin.__file__).parent

# ------------------------------------------------------------ the page


class Hop(NamedTuple):
    """A function or a class that a row names, and the files that it names."""

    step: str
    name: str
    files: tuple[str, ...]

    def is_call(self, file, function):
        """Return whether a call of a function in a file is this hop."""
        return file in self.files and f"{function}.".startswith(f"{self.name}.")


def read_walk(title):
    text = (ROOT / "ARCHITECTURE.md").read_text()
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("| ")][1:]
    return [
        Hop(step.strip(), name, tuple(re.findall(r"`([\w/]+\.py)`", files)))
        for step, files, functions in rows
        for name in re.findall(r"`([\w.]+)`", functions)
    ]


def definitions(file):
    """Return the names of all functions and classes of a file, and of their methods."""
    names = set()
    for node in ast.parse((SRC / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            members = (each for each in node.body if isinstance(each, ast.FunctionDef))
            names.update(f"{node.name}.{each.name}" for each in members)
    return names


# ------------------------------------------------------------ runs of it


def first_calls(run):
    """Return the functions of the package, kernels too, in the order in which a run meets them."""
    calls = {}

    def record(frame, event, _):
        code = frame.f_code
        if event == "call" and code is Kernel.__call__.__code__:
            code = frame.f_locals["self"].function.__code__
        if event == "call" and code.co_filename.startswith(f"{SRC}/"):
            calls[code.co_filename.removeprefix(f"{SRC}/"), code.co_qualname] = None

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(calls)


def boxes(first, count):
    """Return squares, and as many ranges of prices: an index for each."""
    x, y = np.random.default_rng(first).random((2, count))
    is_square = np.arange(count) % 2 == 0
    columns = {"id": np.arange(first, first + count)}
    for name, low in {"x": x, "y": y, "price": x}.items():
        untested = is_square if name == "price" else ~is_square
        columns[f"{name}_low"] = pa.array(low, mask=untested)
        columns[f"{name}_high"] = pa.array(low + 0.02, mask=untested)
    return pa.table(columns)


def some_rules(boxes_count=0):
    schema = dict.fromkeys(("x", "y", "price", "speed"), "number") | {"tier": "category"}
    rules = tocsin.Rules(schema)
    if boxes_count:
        rules.add_many(boxes(0, boxes_count))
    return rules


CONDITION = "speed * 3.6 > 50 AND NOT (x > 0.5 OR tier = 'gold') AND x > 0.1"


def runs_of_an_event(folder):
    rules = some_rules(4_000)
    rules.add(-1, CONDITION)
    rules.add(-2, "y > 0.5 OR price > 0.5")
    rules.merge()
    filtered = some_rules()
    filtered.add(-1, "y > 0.5 OR price > 0.5", at_least=0.5)
    filtered.merge()
    event = dict.fromkeys(("x", "y", "price", "speed"), 0.5) | {"tier": "red"}
    values = pa.Table.from_pylist([event] * 2)
    ranges = pa.Table.from_pylist([event | {"y": {"low": 0.2, "high": 0.9}}] * 2)
    return [
        lambda: rules.match(values).to_arrow(),
        lambda: filtered.match(ranges).to_arrow(),
    ]


def runs_of_a_rule(folder):
    def merge_at_once():
        rules = some_rules()
        rules.add(-1, CONDITION)
        rules.match({"x": 0.2})
        rules.add_many(boxes(0, 3_000))
        rules.save(folder / "at once")

    base = some_rules(4_000)

    def merge_on_a_thread():
        base.add(-1, CONDITION)
        base.match({"x": 0.2})
        base.add_many(boxes(4_000, 1_024))
        base.save(folder / "thread")

    return [merge_at_once, merge_on_a_thread]


class Stream:
    """What `tocsin.spark.match` needs of a streaming DataFrame; it keeps the job of the workers."""

    schema = st.StructType([st.StructField("x", st.DoubleType())])
    isStreaming = True  # noqa: N815

    def selectExpr(self, *_):  # noqa: N802
        return self

    def mapInArrow(self, job, _):  # noqa: N802
        self.job = job


class Task:
    """The first micro-batch of a stream, as Spark describes it to a worker."""

    def getLocalProperty(self, name):  # noqa: N802
        return {"sql.streaming.queryId": "a-query", "streaming.sql.batchId": "0"}.get(name)


def runs_of_a_micro_batch(folder):
    rules = some_rules()
    rules.add("warm", "x > 0.1", payload={"team": "a"})
    rules.save(folder / "store")
    compile_kernels(kernels_of(rules.snapshot(), "all"))  # to record what Numba does takes long

    def run():
        stream = Stream()
        tocsin.spark.match(stream, folder / "store", payload=["team"])
        (result,) = stream.job([pa.RecordBatch.from_pydict({"c0": [0.5, 0.0]})])
        assert result.to_pylist() == [{"x": 0.5, "rule": "warm", "team": "a"}]

    return [run]


def runs_of_a_position(folder):
    def positions(time, *objects):
        rows = [(name, time, x, 0.5) for name, x in objects]
        return pa.table(dict(zip(("object", "t", "x", "y"), zip(*rows))))

    def prepare(**options):
        rules = tocsin.Rules({"x": "number", "y": "number"})
        rules.add("dock", "x < 5 AND y < 5")
        monitor = tocsin.Monitor(rules, dwell=2, margin=0.5, **options)
        monitor.update(positions(0, ("a", 1.0), ("b", 2.0), ("c", 9.0)))
        rules.replace("dock", "x < 4 AND y < 5")
        return monitor

    def run(monitor):
        events = monitor.update(positions(5, ("b", 9.0), ("b", 8.0), ("c", 9.0)))
        assert events.column("event").to_pylist() == ["dwell", "dwell", "leave"]

    every = ({}, {"safe_regions": "rect"})
    for options in every:
        run(prepare(**options))  # to record what Numba does takes long
    return [functools.partial(run, prepare(**options)) for options in every]


WALKS = {
    "The path of an event": runs_of_an_event,
    "The path of a rule": runs_of_a_rule,
    "The path of a position": runs_of_a_position,
    "The path of a micro-batch": runs_of_a_micro_batch,
}

# ------------------------------------------------------------ tests


@pytest.mark.parametrize("walk", WALKS)
def test_every_hop_exists(walk):
    hops = read_walk(walk)
    assert len({hop.step for hop in hops}) >= 8
    for hop in hops:
        assert any(hop.name in definitions(file) for file in hop.files), hop


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_goes_only_forward(walk, tmp_path, monkeypatch):
    monkeypatch.setattr(pyspark.TaskContext, "get", Task)
    hops = read_walk(walk)
    taken = set()
    for run in WALKS[walk](tmp_path):
        calls = first_calls(run)
        furthest, before = -1, None
        for hop in hops:
            places = [place for place, call in enumerate(calls) if hop.is_call(*call)]
            if places:
                taken.add(hop)
                assert places[0] > furthest, f"{hop} is called before {before}"
                furthest, before = places[0], hop
    assert [hop for hop in hops if hop not in taken] == [], "these hops are not called"
