import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from tocsin import jit
from tocsin.jit import Int64Out, Int64s, freeze, kernel


@kernel
def doubled(values: Int64s, out: Int64Out) -> None:
    for i in range(values.shape[0]):
        out[i] = values[i] * 2


def test_a_kernel_has_exactly_one_signature():
    out = np.empty(3, np.int64)
    doubled(np.arange(3), out)
    doubled(freeze(np.arange(3), np.int64), out)
    assert out.tolist() == [0, 2, 4]
    assert len(doubled.compile().signatures) == 1
    with pytest.raises(TypeError):
        doubled(np.arange(3, dtype=np.int32), out)
    with pytest.raises(TypeError):
        doubled(np.arange(3), freeze(out, np.int64))


def test_frozen_arrays_are_read_only_and_leave_theirs_alone():
    array = np.arange(3)
    view = freeze(array, np.int64)
    assert not view.flags.writeable
    assert array.flags.writeable
    assert np.shares_memory(view, array)


class Alike(NamedTuple):
    first: Int64s
    second: Int64s


@kernel
def added(arrays: Alike, out: Int64Out) -> None:
    for i in range(out.shape[0]):
        out[i] = arrays.first[i] + arrays.second[i]


def test_the_arrays_of_a_tuple_may_all_be_of_one_type():
    out = np.empty(2, np.int64)
    added(jit.freeze_fields(Alike, first=[1, 2], second=[10, 20]), out)
    assert out.tolist() == [11, 22]


class Untyped(NamedTuple):
    first: np.ndarray


def test_a_layout_that_is_wrong_is_explained():
    with pytest.raises(TypeError, match=r"Alike has the fields first, second; check \['third'\]"):
        jit.freeze_fields(Alike, first=[1], second=[2], third=[3])
    with pytest.raises(TypeError, match=r"check \['second'\]"):
        jit.freeze_fields(Alike, first=[1])
    with pytest.raises(TypeError, match="field 'first' of Untyped must be an array: Int64s"):
        jit.freeze_fields(Untyped, first=[1])
    unannotated = kernel(lambda values: None)
    with pytest.raises(TypeError, match="parameter 'values' of kernel <lambda> has no type"):
        unannotated.compile()
    jit._KERNELS.remove(unannotated)


def test_unknown_annotations_are_refused():
    @kernel
    def strange(values: str) -> None: ...

    jit._KERNELS.remove(strange)
    with pytest.raises(TypeError, match="cannot take a parameter annotated"):
        strange("x")


def test_threads_compile_once():
    @kernel
    def tripled(values: Int64s, out: Int64Out) -> None:
        for i in range(values.shape[0]):
            out[i] = values[i] * 3

    outs = [np.empty(2, np.int64) for _ in range(4)]
    threads = [threading.Thread(target=tripled, args=(np.arange(2), out)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out.tolist() for out in outs] == [[0, 3]] * 4


# ------------------------------------------------------------ the cache

LONG = os.environ.get("TOCSIN_PROFILE") == "long"

OUT_OF_BOUNDS = """
import numpy as np
from tocsin.index.keyed.lanes import meeting_lanes
from tocsin.jit import Int64s, UInt16s, kernel

@kernel
def at(values: Int64s, index: int) -> int:
    return values[index]

@kernel
def eight_at(words: UInt16s, index: int) -> int:
    return meeting_lanes(words, np.uint64(index), np.uint16(0), np.uint16(0))

for function, array in (at, np.zeros(2, np.int64)), (eight_at, np.zeros(16, np.uint16)):
    for index in range(-1, 3):
        try:
            print(int(function(array, index)))
        except IndexError:
            print("out of bounds")
"""

MATCH = """
import tocsin
rules = tocsin.Rules({"x": "number", "tier": "category"})
rules.add("a", "x > 5 OR tier IN ('g', 's')")
print(rules.match([{"x": 6}, {"tier": "s"}, {"x": 1}]).to_arrow().to_pydict())
"""
MATCHED = "{'event': [0, 1], 'rule': ['a', 'a']}"

ALL_KERNELS = """
import tocsin.engine.rules
tocsin.jit.compile_all()
"""


def started(code, cache, **options):
    """Start Python with a cache of its own; nothing outside of `cache` is read or written."""
    places = {n: str(cache) for n in ("TOCSIN_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR")}
    environment = os.environ | places | options.pop("environment", {})
    command = [sys.executable, "-c", code]
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def answered(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


@pytest.mark.parametrize("repetition", range(20 if LONG else 1))
def test_cold_processes_share_an_empty_cache(tmp_path, repetition):
    """Four processes that compile at once, into one empty cache, all get the right answer.

    The long profile compiles every kernel, the quick one those that a match needs.
    """
    code = ALL_KERNELS + MATCH if LONG else MATCH
    processes = [started(code, tmp_path) for _ in range(4)]
    assert [answered(process) for process in processes] == [MATCHED] * 4
    (digest,) = tmp_path.iterdir()
    compiled = [len(list(folder.glob("*.nbc"))) for folder in digest.iterdir() if folder.is_dir()]
    assert set(compiled) == {1}, "each kernel is compiled once"
    assert not list(digest.rglob("*.tmp.*")), "no process was cut off"


def without_override():
    """Let root obey the modes of files: drop CAP_DAC_OVERRIDE for good, before the program runs."""
    if os.getuid() == 0:
        ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A cache with what a match needs."""
    cache = tmp_path_factory.mktemp("compiled")
    assert answered(started(MATCH, cache)) == MATCHED
    return cache


def test_a_read_only_cache_is_read(compiled, tmp_path):
    """A complete one needs no other place; of an incomplete one the rest is compiled elsewhere."""
    cache, other = tmp_path / "cache", tmp_path / "other"
    shutil.copytree(compiled, cache)
    other.mkdir()
    elsewhere = {"XDG_CACHE_HOME": str(other), "TMPDIR": str(other)}

    def matched_without_writing():
        entries = [cache, *sorted(cache.rglob("*"))]
        for entry in entries:
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        try:
            write = f"open({str(cache / 'new')!r}, 'w')"
            writer = started(write, cache, preexec_fn=without_override)
            if "PermissionError" not in writer.communicate()[1]:
                pytest.skip("this user may write everywhere")
            process = started(MATCH, cache, environment=elsewhere, preexec_fn=without_override)
            assert answered(process) == MATCHED
        finally:
            for entry in entries:
                entry.chmod(0o755)
        assert [cache, *sorted(cache.rglob("*"))] == entries

    matched_without_writing()
    assert list(other.iterdir()) == []

    (fold,) = cache.glob("*/*.fold-*")
    shutil.rmtree(fold)
    matched_without_writing()
    assert [f.name for f in other.glob("tocsin/*/*") if f.is_dir()] == [fold.name]


def test_a_cache_is_found_wherever_the_package_lies(compiled, tmp_path):
    """What was compiled from one copy of the package is read by another."""
    shutil.copytree(Path(jit.__file__).parent, tmp_path / "tocsin")
    before = {f: f.stat().st_mtime_ns for f in compiled.rglob("*.nb?")}
    code = MATCH + "print(tocsin.__file__)"
    out = answered(started(code, compiled, environment={"PYTHONPATH": str(tmp_path)}))
    assert out == f"{MATCHED}\n{tmp_path / 'tocsin' / '__init__.py'}"
    assert {f: f.stat().st_mtime_ns for f in compiled.rglob("*.nb?")} == before


def test_a_cache_of_someone_else_is_not_run(tmp_path, monkeypatch):
    assert jit._is_trusted(tmp_path)
    assert not jit._is_trusted(tmp_path / "missing")
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert jit._is_trusted(tmp_path) == (os.stat(tmp_path).st_uid == 0)
    monkeypatch.setattr(
        jit.Path, "stat", lambda self: os.stat_result([0, 0, 0, 0, 12345] + [0] * 5)
    )
    assert not jit._is_trusted(tmp_path)


def test_kernels_that_check_bounds_have_a_cache_of_their_own(tmp_path):
    """Also an index below zero is out of bounds, and so is what an instruction reads."""
    program, cache = tmp_path / "program.py", tmp_path / "cache"
    program.write_text(OUT_OF_BOUNDS)
    code = f"import runpy; runpy.run_path({str(program)!r})"
    out = answered(started(code, cache, environment={"TOCSIN_BOUNDS_CHECK": "1"}))
    beyond = "out of bounds"
    assert out.split("\n") == [beyond, "0", "0", beyond, beyond, "255", beyond, beyond]
    (digest,) = cache.iterdir()
    assert (digest.name == jit.cache_directories()[0].name) == jit._BOUNDS_CHECK


def test_kernels_that_are_not_used_are_removed(tmp_path):
    def add(name, days):
        lock = tmp_path / name / "lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        used = time.time() - days * 24 * 3600
        os.utime(lock, (used, used))

    add("one version/kernel-old", 31)
    add("one version/kernel-new", 29)
    add("another/kernel", 31)
    jit._remove_unused(tmp_path)
    assert [lock.parent.name for lock in tmp_path.glob("*/*/lock")] == ["kernel-new"]


def test_loading_a_kernel_counts_as_using_it(compiled):
    locks = sorted(compiled.rglob("lock"))
    before = time.time() - 20 * 24 * 3600
    for lock in locks:
        os.utime(lock, (before, before))
    assert answered(started(MATCH, compiled)) == MATCHED
    assert all(time.time() - lock.stat().st_mtime < 3600 for lock in locks)
