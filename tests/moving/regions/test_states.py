"""Regions in the states of a stream: written as changes, read back, and gone on from."""

from random import Random

import pyarrow as pa
import pytest

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.regions.test_silence import rows_of
from tests.moving.test_bucket_states import forget_memory
from tests.moving.walks import SCHEMA, walk
from tocsin.engine.storage.memory import Memory
from tocsin.moving.bucket_states import BucketStates
from tocsin.moving.options import MonitorOptions
from tocsin.moving.tracker import Tracker


@pytest.mark.parametrize("kind", ["dist", "sphere", "rect"])
def test_a_tracker_that_is_read_back_is_as_one_that_was_never_stopped(kind):
    read = 0
    for seed in range(4):
        rng = Random(f"{kind} {seed}")
        scenario = walk(seed, "rule changes")
        edits = [argument for call, argument in scenario.steps if call == "rules"]
        rules = SqlRules(tocsin.Rules(SCHEMA))
        apply_edits(rules, scenario.edits)
        options = MonitorOptions(safe_regions=kind, margin=rng.choice((0.0, 0.5)), lost_after=9)
        states = BucketStates(Memory(), "q")
        states.settle({"buckets": "1"} | options.describe())
        never_stopped = Tracker(options)
        keys = range(8)
        places = {key: [rng.randint(0, 24) / 4 for _ in range(3)] for key in keys}
        others, now = {}, 0
        for batch in range(25):
            if edits and rng.random() < 0.3:
                apply_edits(rules, edits.pop(0))
            rows = [row for row in rows_of(rng, places, now, others) if rng.random() < 0.5]
            now += 4
            table = pa.Table.from_pylist(rows, scenario_schema())
            version = rules.rules.snapshot()
            if rng.random() < 0.7:
                forget_memory()
                read += 1
            tracker = states.read(0, batch, options)
            tracker.region_column = never_stopped.region_column = "region"
            events = tracker.update(table, version, None)
            assert events.equals(never_stopped.update(table, version, None)), (seed, batch)
            states.write(0, batch, tracker, f"{batch}")
            regions = [tracker.region(key) for key in keys]
            assert regions == [never_stopped.region(key) for key in keys]
            assert tracker.to_ask() == never_stopped.to_ask()
            assert tracker.counts == never_stopped.counts
    assert read > 50


def scenario_schema():
    types = {"object": pa.int64(), "t": pa.int64(), "n": pa.int64(), "vehicle": pa.string()}
    names = ("object", "t", "x", "y", "n", "speed", "vehicle")
    return pa.schema([(name, types.get(name, pa.float64())) for name in names])
