"""How a table is printed: fitted to a terminal, whole lines everywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

# In a pipe a row is a line, however long: what reads it wants it whole.
_ANY_WIDTH = 1_000_000


def show_table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print rows under their heads; a column whose values are all integers is set right."""
    shown = [list(row) for row in rows]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, head in enumerate(heads):
        whole = shown and all(isinstance(row[number], int) for row in shown)
        table.add_column(head, justify="right" if whole else "left", overflow="fold")
    for row in shown:
        # Text, since in a str rich would read [brackets] as markup.
        table.add_row(*(Text(f"{v:,}" if isinstance(v, int) else str(v)) for v in row))
    width = None if sys.stdout.isatty() else _ANY_WIDTH
    Console(width=width, highlight=False).print(table)
