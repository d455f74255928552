"""Tables of results, on the console and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def format_time(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms" if seconds < 10 else f"{seconds:,.1f} s"


class Section:
    """A table with a title; the last cell of a row may tell whether its target is met."""

    def __init__(self, title: str, *headings: str, note: str = ""):
        self.title, self.headings, self.note = title, headings, note
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: Any) -> None:
        texts = {True: "yes", False: "**no**", None: ""}
        self.rows.append(tuple(c if isinstance(c, str) else texts[c] for c in cells))
        assert len(cells) == len(self.headings)

    def add_limit(self, task: str, value: float, target: float, unit: str) -> None:
        """Add a row for a value that must be at most `target`."""
        self.add_row(task, f"{value:,.3g} {unit}", f"at most {target:g}", bool(value <= target))

    def add_value(self, task: str, value: str) -> None:
        self.add_row(task, value, "", None)

    def show(self, console: Console) -> None:
        table = Table(title=self.title, title_justify="left")
        for i, name in enumerate(self.headings):
            table.add_column(name, justify="left" if i == 0 else "right")
        for row in self.rows:
            table.add_row(*(cell.replace("*", "") for cell in row))
        console.print(table)

    def to_markdown(self) -> list[str]:
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
    """Write tables; rows of an earlier document with the same head stay unless measured again."""
    merged = {section.title: section for section in read(path, head)}
    for section in sections:
        new = Section(section.title, *section.headings, note=section.note)
        measured = {row[0].strip() for row in section.rows}
        old = merged.get(section.title, new).rows
        first = next((i for i, row in enumerate(old) if row[0] in measured), len(old))
        after = [row for row in old[first:] if row[0] not in measured]
        new.rows = [*old[:first], *section.rows, *after]
        merged[section.title] = new
    titles = [section.title for section in sections]
    if not set(merged) <= set(titles):
        titles = list(merged)  # some were not measured: keep the order of the document
    lines = [line for title in titles for line in merged[title].to_markdown()]
    path.write_text("\n".join([*head, *lines]) + "\n")


def read(path: Path, head: Sequence[str]) -> list[Section]:
    """Return the tables of a document that `write` wrote with this head."""
    if not path.exists():
        return []
    above, *parts = path.read_text().split("\n\n## ")
    if above != "\n".join(head):
        return []
    sections: list[Section] = []
    for part in parts:
        title, *lines = part.split("\n")
        cells = (line[1:-1].split(" | ") for line in lines if line.startswith("| "))
        rows = [tuple(cell.strip() for cell in row) for row in cells]
        notes = [line for line in lines if line and not line.startswith("|")]
        sections.append(Section(title, *rows[0], note="\n".join(notes)))
        sections[-1].rows = rows[1:]
    return sections
