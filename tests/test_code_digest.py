"""An edit of whatever a kernel uses changes its digest; comments, lines and docstrings do not."""

import importlib
import itertools
import os
import subprocess
import sys

import pytest

from tocsin import code_digest, jit

STEPS = """
import numpy as np
from tocsin.jit import bare_step, instruction, step
from numba import types

LIMIT = np.uint64(3)
PAIR = (1, 2.5)
TABLE = np.arange(3)
SET = frozenset({"a", "b"})

def _limit():
    return 7

@step
def inner(x):
    return x + LIMIT

@step
def outer(x):
    # A comment.
    if x < 0:
        return outer(x + 1)
    return inner(x)

@bare_step
def bare(x):
    return x * PAIR[1] + TABLE[0]

def scaled(factor):
    @step
    def scale(x, power=2):
        return x * factor
    return scale

scale = scaled(4)

def _seven(typing_context):
    \"\"\"Return seven.\"\"\"

    def emit(context, builder, signature, arguments):
        return context.get_constant(types.int64, _limit() + len(SET))

    return types.int64(), emit

seven = instruction(_seven)

def _unused():
    return 0
"""

KERNELS = """
from typing import NamedTuple
from tocsin.jit import Int64s, Int64Out, kernel
import steps
from steps import bare, outer, scale, seven

class Inside(NamedTuple):
    rows: Int64s
    limit: float

class Layout(NamedTuple):
    values: Int64s
    inside: Inside

class Pair(NamedTuple):
    left: int
    right: int

@kernel
def run(layout: Layout, out: Int64Out) -> None:
    \"\"\"Run.\"\"\"
    for i in range(out.shape[0]):
        pair = Pair(seven(), 2)
        out[i] = pair.left + outer(layout.values[i]) + bare(1) + scale(3)

@kernel
def other(out: Int64Out) -> None:
    out[0] = scale(2)
"""

folders = itertools.count()


@pytest.fixture
def digests(tmp_path, monkeypatch):
    """Return a function that writes the two modules, with an edit, and returns both digests."""

    def digest(before="", after=""):
        assert before in STEPS + KERNELS
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)
        for name, source in ("steps", STEPS), ("kernels", KERNELS):
            (folder / f"{name}.py").write_text(source.replace(before, after))
            sys.modules.pop(name, None)
        kernels = importlib.import_module("kernels")
        found = []
        for kernel in kernels.run, kernels.other:
            jit._KERNELS.remove(kernel)
            found.append(kernel.digest())
        return found

    yield digest
    for name in "steps", "kernels":
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ("", "", (False, False)),
        ("# A comment.", "# Another,\n    # longer one.", (False, False)),
        ('"""Run."""', '"""Run all of them."""', (False, False)),
        ('"""Return seven."""', '"""Return 7."""', (False, False)),
        ("    return 0", "    return 1", (False, False)),
        ("x + LIMIT", "x - LIMIT", (True, False)),
        ("x + 1", "x + 2", (True, False)),
        ("np.uint64(3)", "np.uint64(4)", (True, False)),
        ("np.uint64(3)", "np.int64(3)", (True, False)),
        ("PAIR = (1, 2.5)", "PAIR = (1, 3.5)", (True, False)),
        ("np.arange(3)", "np.arange(3) + 1", (True, False)),
        ('{"a", "b"}', '{"a", "c"}', (True, False)),
        ("@bare_step", "@step", (True, False)),
        ("return 7", "return 8", (True, False)),
        ("types.int64, _limit", "types.int32, _limit", (True, False)),
        ("types.int64(), emit", "types.int32(), emit", (True, False)),
        ("scaled(4)", "scaled(5)", (True, True)),
        ("power=2", "power=3", (True, True)),
        ("x * factor", "x + factor", (True, True)),
        ("    values: Int64s", "    values: Int64Out", (True, False)),
        ("rows: Int64s", "rows: Int64Out", (True, False)),
        ("rows: Int64s\n    limit: float", "limit: float\n    rows: Int64s", (True, False)),
        ("left: int\n    right: int", "right: int\n    left: int", (True, False)),
        ("other(out: Int64Out)", "other(out: Int64Out, more: int)", (False, True)),
        ("out[0] = scale(2)", "out[0] = scale(2)\n    out[1] = 1", (False, True)),
        # What cannot be described counts as all that the package contains.
        ("LIMIT = np.uint64(3)", "LIMIT = object()", (True, False)),
        ("out[0] = scale(2)", "out[0] = steps.scale(2)", (False, True)),
    ],
)
def test_a_digest_changes_with_what_a_kernel_uses(digests, before, after, changed):
    original, edited = digests(), digests(before, after)
    assert tuple(a != b for a, b in zip(original, edited, strict=True)) == changed


def test_a_module_counts_as_a_whole(digests, tmp_path):
    """A kernel that reaches a step as a module's attribute depends on the module's file."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "steps.py").write_text("def step(x):\n    return x\n")
    (folder / "user.py").write_text("from package import steps\ndef use(x): return steps.step(x)")
    sys.path.insert(0, str(tmp_path))
    found = []
    try:
        for edit in "", "# An edit.\n":
            (folder / "steps.py").write_text(f"{edit}def step(x):\n    return x + 1\n")
            for name in [name for name in sys.modules if name.partition(".")[0] == "package"]:
                del sys.modules[name]
            code_digest._digest_files.cache_clear()
            found.append(code_digest.digest_code(importlib.import_module("package.user").use))
    finally:
        sys.path.remove(str(tmp_path))
    assert found[0] != found[1]


def test_a_text_that_is_also_a_docstring_counts():
    def definition(text):
        scope = {"__name__": "somewhere"}
        exec(f"def define():\n    {text!r}\n    return {text!r}", scope)
        return scope["define"]

    one, two = definition("one"), definition("two")
    assert code_digest.digest_code(one) != code_digest.digest_code(two)


DIGESTS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
from tocsin import code_digest, jit
def digest_files(module):
    raise AssertionError(f"a kernel uses something in {module} that has no digest of its own")
code_digest._digest_files = digest_files
for kernel in jit._KERNELS:
    print(kernel.function.__module__, kernel.function.__qualname__, kernel.digest())
"""


def test_digests_are_the_same_in_every_process():
    """Nor does a kernel of this package depend on whole files."""
    modules = ["tocsin.engine.rules", "tocsin.engine.lint", "tocsin.similarity.partitioning"]
    modules += ["tocsin.uncertain"]
    command = [sys.executable, "-c", DIGESTS, *modules]
    processes = [
        subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in processes)
    assert first == second
    assert first.count("\n") > 100
