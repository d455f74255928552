"""Workloads to judge the planner's choice of an index, written without knowing how it chooses."""

from typing import NamedTuple

import pyarrow as pa


class Family(NamedTuple):
    """The rules that one kind of user keeps, and the events that arrive."""

    name: str
    what: str
    schema: dict[str, str]
    """Attribute to kind: number, integer, category, flag or time."""
    rules: pa.Table
    """Columns id and where."""
    events: pa.Table
