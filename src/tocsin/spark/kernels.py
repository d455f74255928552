"""Compile kernels in the driver before workers start, so that workers load them from the cache."""

from __future__ import annotations

import functools


@functools.cache
def compile_kernels() -> None:
    """Compile all kernels; the first time takes a minute, later they are loaded from the cache."""
    # These import all kernels.
    import tocsin.engine.rules
    import tocsin.similarity.partitioning
    import tocsin.uncertain  # noqa: F401
    from tocsin import jit

    jit.compile_all()
