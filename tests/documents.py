"""Examples in documents: the fenced blocks of Python that are not doctests.

pytest runs the doctests itself. Of the other examples of a page, each continues the one before, and
they may use names that the text around them describes; a test prepares these.
"""

import contextlib
import io
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A block of Python, and what it prints, if a block without a language follows."""

    line: int
    source: str
    output: str | None


def examples(page):
    """Return the examples of a page that are not doctests."""
    text = (ROOT / page).read_text()
    return [
        Example(text.count("\n", 0, found.start(1)), found[1], found[2])
        for found in _EXAMPLE.finditer(text)
        if ">>> " not in found[1]
    ]


def pages():
    """Return all pages."""
    every = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [str(page.relative_to(ROOT)) for page in every]


def fences(page):
    """Return what begins and ends the blocks of a page, in all ways that Markdown knows."""
    return re.findall(r"^[ >]*(?:```|~~~).*$", (ROOT / page).read_text(), re.MULTILINE)


def _rows(text):
    """Return the lines of tables, in any order and with nine digits: the last ones may differ."""
    text = re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.9g}", text)
    lines = [" ".join(re.sub(r"([|+])|-{2,}", r" \1 ", line).split()) for line in text.split("\n")]
    return sorted(filter(None, lines))


def run_examples(page, names, replacements):
    """Run the examples of a page in one namespace, and return what they print.

    `replacements` are texts, such as paths and addresses, that are others here.
    """
    printed = []
    for line, source, output in examples(page):
        for old, new in replacements.items():
            source = source.replace(old, new)
        code = compile("\n" * line + source, ROOT / page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        printed.append(out.getvalue())
        if output is not None:
            assert _rows(printed[-1]) == _rows(output), f"line {line} of {page}"
    return printed
