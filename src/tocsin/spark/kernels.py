"""Compile kernels in the driver before workers start, so that workers load them from the cache.

Of the indexes, only those that hold rules are compiled. If a stream's rules change to another
index, the first worker compiles it, and the others wait for it.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.engine.version import Version

# What a job imports, and whose kernels its workers run.
_PACKAGES = {
    "matching": (
        "tocsin.engine.rules",
        (
            "tocsin.engine.ids", "tocsin.engine.matching", "tocsin.index.accept",
            "tocsin.index.exhaustive", "tocsin.index.finish", "tocsin.model",
        ),
    ),
    "lint": ("tocsin.engine.lint", ("tocsin.covering", "tocsin.engine", "tocsin.model")),
    "similarity": ("tocsin.similarity.partitioning", ("tocsin.similarity",)),
    "uncertain": ("tocsin.uncertain", ("tocsin.uncertain",)),
}  # fmt: skip


@functools.cache
def compile_kernels(job: str) -> None:
    """Compile the kernels of a job: "matching", "lint", "similarity" or "uncertain".

    The first time this takes from seconds to a minute; later they are loaded from the cache.
    Those of "matching" are the ones that all rules need.
    """
    from tocsin import jit

    module, packages = _PACKAGES[job]
    importlib.import_module(module)
    jit.compile_all(packages)


def compile_plan(version: Version, how: str) -> None:
    """Compile the kernels that match these rules; `how` is that of `match`."""
    compile_kernels("matching")
    parts = [part for live in version.segments for part in live.parts]
    packages = {".".join(type(p.part.index).__module__.split(".")[:3]) for p in parts}
    packages |= {each.package for part in parts for each in part.filters}
    _compile_packages(tuple(sorted(packages)), how == "top")


@functools.cache
def _compile_packages(packages: tuple[str, ...], best: bool) -> None:
    from tocsin import jit

    jit.compile_all(packages, leave_out=() if best else ("topk",))
