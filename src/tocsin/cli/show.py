"""Tables on stdout: fitted to the width of a terminal, and one line per row everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

# In a pipe, a row is one line however long, because a program may read it.
_UNLIMITED_WIDTH = 1_000_000


def show_table(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print rows under headings; columns of integers are right-aligned."""
    lines = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, heading in enumerate(headings):
        is_integer = lines and all(isinstance(row[number], int) for row in lines)
        table.add_column(heading, justify="right" if is_integer else "left", overflow="fold")
    for row in lines:
        # Text, because rich would read [brackets] in a str as markup.
        table.add_row(*(Text(f"{v:,}" if isinstance(v, int) else str(v)) for v in row))
    width = None if sys.stdout.isatty() else _UNLIMITED_WIDTH
    Console(width=width, highlight=False).print(table)
