"""Tables of benchmarks, on the console and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def milli(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


class Section:
    """A table under a title; the last cell of a row may be whether its target is met."""

    def __init__(self, title: str, *headings: str, note: str = ""):
        self.title, self.headings, self.note = title, headings, note
        self.rows: list[tuple[str, ...]] = []

    def row(self, *cells: Any) -> None:
        words = {True: "yes", False: "**no**", None: ""}
        self.rows.append(tuple(c if isinstance(c, str) else words[c] for c in cells))
        assert len(cells) == len(self.headings)

    def at_most(self, what: str, ours: float, target: float, unit: str) -> None:
        self.row(what, f"{ours:,.3g} {unit}", f"at most {target:g}", bool(ours <= target))

    def plain(self, what: str, ours: str) -> None:
        self.row(what, ours, "", None)

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(self.headings):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in self.rows:
            table.add_row(*(cell.replace("*", "") for cell in row))
        console.print(table)

    def lines(self) -> list[str]:
        head = ["", f"## {self.title}", ""] + ([self.note, ""] if self.note else [])
        ruler = "|---|" + "---:|" * (len(self.headings) - 1)
        rows = (" | ".join(cell.strip() for cell in row) for row in self.rows)
        return [*head, "| " + " | ".join(self.headings) + " |", ruler, *(f"| {r} |" for r in rows)]


def show(title: str, sections: Sequence[Section]) -> None:
    console = Console(width=200)
    console.print(title)
    for section in sections:
        section.show(console)


def write(path: Path, head: Sequence[str], sections: Sequence[Section]) -> None:
    lines = [line for section in sections for line in section.lines()]
    path.write_text("\n".join([*head, *lines]) + "\n")
