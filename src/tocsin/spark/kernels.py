"""Compile in the driver, before workers start, so that they only load."""

from __future__ import annotations

import functools


@functools.cache
def compile_kernels() -> None:
    """Compile every kernel that matching uses; the first time takes a minute, later none."""
    import tocsin.engine.rules  # noqa: F401  (imports all kernels)
    from tocsin import jit

    jit.compile_all()
