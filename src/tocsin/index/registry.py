"""All indexes by name. This is the only list of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.errors import RuleError, suggest
from tocsin.index.bestar.index import BEStar
from tocsin.index.cells.grid import Grid
from tocsin.index.cells.ntree import NTree
from tocsin.index.constructs.intervals.index import Intervals
from tocsin.index.constructs.rectangles.index import Rectangles
from tocsin.index.counting.index import Counting
from tocsin.index.exhaustive.index import Exhaustive
from tocsin.index.keyed.index import Keyed
from tocsin.index.nested.index import Nested
from tocsin.index.options import check_options
from tocsin.index.protocol import Index

_CLASSES: list[type[Index]] = [
    Exhaustive,
    Grid,
    NTree,
    Intervals,
    Rectangles,
    Counting,
    Keyed,
    BEStar,
    Nested,
]
INDEXES = {index.name: index for index in _CLASSES}


def known_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are still valid: a store may be from another version of Tocsin."""
    declared = INDEXES[name].options if name in INDEXES else {}
    return {
        option: value
        for option, value in options.items()
        if option in declared and declared[option].is_allowed(value)
    }


def check_index(name: Any, options: Any) -> None:
    """Raise if there is no such index, or if it does not have these options."""
    if name != "auto" and (not isinstance(name, str) or name not in INDEXES):
        raise RuleError(
            f"there is no index {name!r}{suggest(name, INDEXES)} (auto, {', '.join(INDEXES)})"
        )
    if not isinstance(options, Mapping):
        raise RuleError(f"options of an index must be a dict of names and values; got {options!r}")
    if name != "auto":
        check_options(name, INDEXES[name].options, options)
    elif options:
        raise RuleError(
            "options need an index by name, since 'auto' may choose any; "
            f"got {', '.join(map(str, options))}: say index='...' as well"
        )
