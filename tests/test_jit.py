import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tocsin import jit
from tocsin.jit import Int64Out, Int64s, frozen, kernel


@kernel
def doubled(values: Int64s, out: Int64Out) -> None:
    for i in range(values.shape[0]):
        out[i] = values[i] * 2


def test_a_kernel_has_exactly_one_signature():
    out = np.empty(3, np.int64)
    doubled(np.arange(3), out)
    doubled(frozen(np.arange(3), np.int64), out)
    assert out.tolist() == [0, 2, 4]
    assert len(doubled.compile().signatures) == 1
    with pytest.raises(TypeError):
        doubled(np.arange(3, dtype=np.int32), out)
    with pytest.raises(TypeError):
        doubled(np.arange(3), frozen(out, np.int64))


def test_frozen_arrays_are_read_only_and_leave_theirs_alone():
    array = np.arange(3)
    view = frozen(array, np.int64)
    assert not view.flags.writeable
    assert array.flags.writeable
    assert np.shares_memory(view, array)


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


CODE = """
import tocsin
rules = tocsin.Rules({"x": "number", "tier": "category"})
rules.add("a", "x > 5 OR tier IN ('g', 's')")
print(rules.match([{"x": 6}, {"tier": "s"}, {"x": 1}]).to_arrow().to_pydict())
"""


def test_cold_processes_share_an_empty_cache(tmp_path):
    """Processes that compile at once, into one empty cache, all get the right answer."""
    environment = os.environ | {"TOCSIN_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CODE], env=environment, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    answers = [process.communicate()[0].strip() for process in processes]
    assert answers == ["{'event': [0, 1], 'rule': ['a', 'a']}"] * 3
    assert [process.returncode for process in processes] == [0, 0, 0]
    (digest,) = tmp_path.iterdir()
    assert any(f.suffix == ".nbi" for f in digest.rglob("*"))
