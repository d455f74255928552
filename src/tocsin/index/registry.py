"""All indexes by name. A new one is listed here, and nowhere else."""

from __future__ import annotations

from typing import Any

from tocsin.errors import RuleError, near
from tocsin.index.bestar.index import BEStar
from tocsin.index.cells.grid import Grid
from tocsin.index.cells.ntree import NTree
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.index.counting.index import Counting
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.keyed.index import Keyed
from tocsin.index.protocol import Index

INDEXES: dict[str, type[Index]] = {
    each.name: each
    for each in (Exhaustive, Grid, NTree, Intervals, Rectangles, Counting, Keyed, BEStar)
}


def check_index(name: Any) -> None:
    """Raise if there is no such index."""
    if name != "auto" and (not isinstance(name, str) or name not in INDEXES):
        raise RuleError(
            f"there is no index {name!r}{near(name, INDEXES)} (auto, {', '.join(INDEXES)})"
        )
