"""Stores that someone has changed and sealed again: refused, or harmless; never a crash.

Answers may be wrong, since whoever can write to a store decides what its rules say. But no bytes
make a kernel read or write elsewhere, or run for ever: that is tried in processes of their own.
"""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import tocsin
from tests.engine import untrusted
from tests.engine.untrusted import Changed
from tocsin.index.registry import INDEXES

LONG = os.environ.get("TOCSIN_PROFILE") == "long"
ROOT = Path(__file__).parents[2]
_PATIENCE = 600  # seconds for one case, which takes some milliseconds: then it does not end


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stores")
    for name in untrusted.STORES:
        untrusted.make_store(folder / name, name)
    return folder


def outcomes(stores, scratch, seeds, **environment):
    """Try all stores with all seeds; return how many cases came out how, and those that failed."""
    inherited = {k: v for k, v in os.environ.items() if k != "TOCSIN_CHECKED_CALLS"}
    command = [sys.executable, "-m", "tests.engine.untrusted", str(stores), str(scratch)]
    counts, failures, process = Counter(), [], None
    for name in untrusted.STORES:
        for seed in seeds:
            if process is None:
                process = subprocess.Popen(
                    command, cwd=ROOT, env=inherited | environment, text=True,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                )  # fmt: skip
            limit = threading.Timer(_PATIENCE, process.kill)
            limit.start()
            print(seed, name, file=process.stdin, flush=True)
            answer = process.stdout.readline()
            limit.cancel()
            if answer:
                outcome, words = json.loads(answer)
            else:
                outcome, words = "crashed", f"the process ended with {process.wait()}"
                process.stdin.close()
                process.stdout.close()
                process = None
            counts[outcome] += 1
            if outcome in ("error", "crashed"):
                failures.append(f"{name}, seed {seed}: {words}")
    if process is not None:
        process.communicate()
    return counts, failures


def test_whatever_is_changed_a_store_is_refused_or_harmless(stores, tmp_path):
    counts, failures = outcomes(stores, tmp_path / "changed", range(200 if LONG else 3))
    assert not failures, "\n".join(failures)
    assert min(counts["refused"], counts["accepted"]) > sum(counts.values()) / 10


@pytest.mark.skipif(not LONG, reason="compiles all kernels once more, with bounds checks")
def test_no_kernel_leaves_its_arrays(stores, tmp_path, tmp_path_factory):
    """What lies beside an array is most often ours as well, and reading it goes unnoticed."""
    counts, failures = outcomes(
        stores,
        tmp_path / "changed",
        range(1000, 1100),
        NUMBA_BOUNDSCHECK="1",
        TOCSIN_BOUNDS_CHECK="1",
        TOCSIN_CACHE_DIR=str(tmp_path_factory.mktemp("checked kernels")),
    )
    assert not failures, "\n".join(failures)
    assert counts["accepted"] > 0


# ------------------------------------------------------------ what is said of it


@pytest.fixture
def changed(tmp_path):
    """A copy of a small store, to be changed: base, recent rules, text ids, a set, categories."""
    rules = tocsin.Rules({"x": "number", "tier": "category"})
    wheres = ["x > 5", "tier IN ('k', 'l')", "x IN (1, 7)"]
    rules.add_many(pa.table({"id": ["b", "a", "c"], "where": wheres}))
    rules.add("d", "tier = 'm' OR x = 3", payload={"rank": 4})
    rules.save(tmp_path / "store")
    return Changed(tmp_path / "store", tmp_path / "changed")


def refusal(changed, data=None):
    """Return what is said when a store is opened that was sealed again."""
    changed.seal(data)
    with pytest.raises(tocsin.StoreError) as refused:
        tocsin.open(changed.path)
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "at", "value", "words"),
    [
        ("0.conjunctions.offsets", 1, 99, "part 0 (exhaustive): 'offsets' must be 4 numbers"),
        ("0.conjunctions.attribute", 0, 2, "'attribute' must be at least 0 and less than 2, got 2"),
        ("0.conjunctions.rule", 2, 9, "a conjunction is of no rule"),
        ("0.conjunctions.high", 2, 9, "sets must divide the 2 points"),
        ("0.index.candidate", 0, -9, "part 0 (exhaustive): 'candidate' must be at least -3"),
        ("positions", 1, 0, "the positions of rules must ascend"),
        ("positions", 0, -1, "the positions of rules must ascend"),
        ("ids.codes", 1, 7, "'codes' must be those of the ids"),
        ("ids.order", 1, 0, "'order' must have each place once"),
        ("ids.order", 1, 3, "'order' must be at least 0 and less than 3"),
        ("ids.order", slice(None), [0, 1, 2], "in the order of their codes"),
    ],
)
def test_what_is_wrong_is_told(changed, name, at, value, words):
    with changed.arrays() as arrays:
        arrays(name)[at] = value
    changed.describe_files()
    message = refusal(changed)
    assert message.startswith(f"{changed.folder} is damaged, or Tocsin did not write it: ")
    assert words in message


def test_categories_must_be_among_the_values(changed):
    """Else explaining a rule would go through all numbers, and a merge through none."""
    with changed.arrays() as arrays:
        arrays("0.conjunctions.high")[1] = 2**40
    changed.describe_files()
    assert "codes of the 3 known values" in refusal(changed)


def test_workers_look_at_no_contents(changed):
    """They open what was checked before, as quickly as it can be mapped."""
    with changed.arrays() as arrays:
        arrays("ids.codes")[1] = 7
    changed.describe_files()
    changed.seal()
    assert len(tocsin.Rules.open(changed.path, verify=False)) == 4


def test_a_manifest_that_is_not_ours(changed):
    path = str(changed.folder / "manifest.json")
    for data, words in (
        (b"", "Expecting value"),
        (b"\xff", "can't decode byte"),
        (b"[" * 100_000, "recursion"),
        (b"[]", "not a JSON object"),
        (b'{"format": 1e999}', "is of format inf"),
        (b"9" * 5000, "4300 digits"),
    ):
        message = refusal(changed, data)
        assert message.startswith(path)
        assert words in message


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (["files"], None, "size and checksum of arrays.bin and rules.arrow"),
        (["files", "arrays.bin"], {}, "size and checksum"),
        (["files", "arrays.bin", "bytes"], -1, "size and checksum"),
        (["files", "rules.arrow", "sha256"], 5, "size and checksum"),
        (["rules"], None, "the number of rules"),
        (["rules"], True, "the number of rules"),
        (["rules"], 4, "as many positions and rows as rules, 4"),
        (["parts"], [], "the index of each part"),
        (["parts"], {"index": "grid"}, "the index of each part"),
        (["parts", 0], "grid", "the index of each part"),
        (["parts", 0, "index"], ["grid"], "the index of each part"),
        (
            ["parts", 0],
            {"index": "grid", "version": INDEXES["grid"].version, "why": ""},
            "part 0 (grid): array 'floats' is missing",
        ),
        (["parts", 0, "why"], 5, "the index of each part"),
        (["arrays"], [], "must list the arrays"),
        (["arrays", "positions"], None, "place of array 'positions'"),
        (["arrays", "positions", "dtype"], "|O", "place of array 'positions'"),
        (["arrays", "positions", "dtype"], ["<i4"], "place of array 'positions'"),
        (
            ["arrays", "positions", "dtype"],
            "|u1",
            "array 'positions' must be one-dimensional int32",
        ),
        (["arrays", "positions", "shape"], [-1], "place of array 'positions'"),
        (["arrays", "positions", "shape"], [2**62], "place of array 'positions'"),
        (["arrays", "positions", "shape"], [1, 3], "place of array 'positions'"),
        (["arrays", "positions", "shape"], [2.0], "place of array 'positions'"),
        (["arrays", "positions", "shape"], [2], "as many positions and rows as rules"),
        (["arrays", "positions", "offset"], -64, "place of array 'positions'"),
        (["arrays", "positions", "offset"], 1, "place of array 'positions'"),
        (["arrays", "positions", "offset"], 1 << 20, "place of array 'positions'"),
    ],
)
def test_a_manifest_of_another_form(changed, keys, value, words):
    holder = changed.manifest
    for key in keys[:-1]:
        holder = holder[key]
    holder[keys[-1]] = value
    message = refusal(changed)
    assert str(changed.folder) in message
    assert words in message


@pytest.mark.parametrize("name", ["manifest.json", "arrays.bin", "rules.arrow"])
def test_what_is_no_file_is_not_read(changed, name):
    for make in (Path.mkdir, os.mkfifo):  # a pipe that nobody writes to would be read for ever
        (changed.folder / name).unlink()
        make(changed.folder / name)
        with pytest.raises(tocsin.StoreError, match=f"{name} is missing, or is no file"):
            tocsin.open(changed.path)
        if make == Path.mkdir:
            (changed.folder / name).rmdir()
            (changed.folder / name).touch()


def test_a_missing_array(changed):
    for name in list(changed.manifest["arrays"]):
        place = changed.manifest["arrays"].pop(name)
        if name not in ("ids.codes", "ids.order"):
            assert f"array {name.split('.')[-1]!r} is missing" in refusal(changed)
        changed.manifest["arrays"][name] = place
    changed.seal()
    assert len(tocsin.open(changed.path)) == 4


def test_another_table_of_rules(changed):
    table = changed.table()
    texts = pa.array(["p", "q", "r"], pa.large_string())
    for other, words in (
        (table.rename_columns(["id", "id"]), "must have the columns id, where and payload.<name>"),
        (table.select(["where", "id"]), "must have the columns"),
        (table.append_column("rank", texts), "must have the columns"),
        (table.set_column(0, "id", pa.nulls(3, pa.large_string())), "an id is null"),
        (table.set_column(0, "id", pa.array([1, 2, 3], pa.int32())), "of type int32"),
        (table.set_column(0, "id", pa.array([1, 2, 3])), "'codes' must be those of the ids"),
        (table.set_column(1, "where", pa.array([1, 2, 3])), "cannot be of type int64"),
        (table[:2], "as many positions and rows as rules"),
        (table.append_column("payload.rank", texts), "not of the version's types"),
        (table.append_column("payload.new", texts), "columns must be ['rank']"),
    ):
        changed.write_table(other)
        changed.describe_files()
        assert words in refusal(changed)
    whole = (changed.folder / "rules.arrow").read_bytes()
    for bad in (b"", b"ARROW1", whole[:-20], whole.replace(b"where", b"\xff\xffere")):
        (changed.folder / "rules.arrow").write_bytes(bad)
        changed.describe_files()
        assert "rules.arrow cannot be read" in refusal(changed)
