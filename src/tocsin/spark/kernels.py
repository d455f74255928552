"""Compile kernels in the driver before workers start, so that workers load them from the cache."""

from __future__ import annotations

import functools
import importlib

# What a job imports, and whose kernels its workers run.
_PACKAGES = {
    "matching": ("tocsin.engine.rules", ("tocsin.engine", "tocsin.index", "tocsin.model")),
    "lint": ("tocsin.engine.lint", ("tocsin.covering", "tocsin.engine", "tocsin.model")),
    "similarity": ("tocsin.similarity.partitioning", ("tocsin.similarity",)),
    "uncertain": ("tocsin.uncertain", ("tocsin.uncertain",)),
}


@functools.cache
def compile_kernels(job: str) -> None:
    """Compile the kernels of a job: "matching", "lint", "similarity" or "uncertain".

    The first time this takes a minute or two; later they are loaded from the cache.
    """
    from tocsin import jit

    module, packages = _PACKAGES[job]
    importlib.import_module(module)
    jit.compile_all(packages)
