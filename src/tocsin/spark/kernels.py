"""Compile kernels in the driver before workers start, so that workers load them from the cache.

Of the indexes, only those that hold rules are compiled. If a stream's rules change to another
index, the first worker compiles it, and the others wait for it.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tocsin.engine.version import Version


class Kernels(NamedTuple):
    """The kernels that a job needs."""

    module: str  # what the job imports
    packages: tuple[str, ...]  # whose kernels its workers run
    leave_out: tuple[str, ...] = ()  # modules in these, by the end of their names


MATCHING = Kernels(  # those that all rules need
    "tocsin.engine.rules",
    (
        "tocsin.engine.ids", "tocsin.engine.matching", "tocsin.index.accept",
        "tocsin.index.exhaustive", "tocsin.index.finish", "tocsin.model",
    ),
)  # fmt: skip
LINT = Kernels("tocsin.engine.lint", ("tocsin.covering", "tocsin.engine", "tocsin.model"))
SIMILARITY = Kernels("tocsin.similarity.partitioning", ("tocsin.similarity",))
UNCERTAIN = Kernels("tocsin.uncertain", ("tocsin.uncertain",))


def kernels_of(version: Version, how: str, *more: str) -> Kernels:
    """Return the kernels that match these rules, and those of more packages.

    `how` is that of `match`.
    """
    parts = [part for live in version.segments for part in live.parts]
    packages = {".".join(type(p.part.index).__module__.split(".")[:3]) for p in parts}
    packages |= {each.package for part in parts for each in part.filters}
    leave_out = () if how == "top" else ("topk",)
    return Kernels(MATCHING.module, (*MATCHING.packages, *sorted(packages), *more), leave_out)


@functools.cache
def compile_kernels(kernels: Kernels) -> None:
    """Compile kernels.

    The first time this takes from seconds to a minute; later they are loaded from the cache.
    """
    from tocsin import jit

    importlib.import_module(kernels.module)
    jit.compile_all(kernels.packages, kernels.leave_out)
