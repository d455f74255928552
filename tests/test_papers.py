"""PAPERS.md: what it names is there, and every row says how the code relates to the paper."""

import ast
import functools
import re
from pathlib import Path

import pytest

from experiments.__main__ import FIGURES

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "PAPERS.md").read_text().splitlines()
HEADER = "| in the paper | here | file | test | experiment |"
STATUS = re.compile(r"(as published\b|ours instead, because |not here, because )")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)#]+)\)")
PATH = re.compile(r"(\w+\.py|\w+(?:/[\w.-]+)+/?)(?:::(\w+))?")
FOLDERS = ("benchmarks", "docs", "experiments", "scripts", "src", "tests")  # others: in src/tocsin


def read_rows():
    """Return the numbers of lines and the cells of the tables with the header."""
    rows, is_inside = [], False
    for number, line in enumerate(LINES, 1):
        is_inside = line == HEADER or (is_inside and line.startswith("|"))
        if is_inside and line != HEADER and not line.startswith("|---"):
            rows.append((number, [cell.strip() for cell in line.strip("|").split("|")]))
    return rows


ROWS = read_rows()


@functools.cache
def functions_of(path):
    """Return the names of functions and classes at the top of a file."""
    return {getattr(node, "name", None) for node in ast.parse(path.read_text()).body}


def check_path(text):
    """Check a path, perhaps with a function after `::`; return whether the text is one."""
    match = PATH.fullmatch(text)
    if match is None:
        return False
    path, function = match.groups()
    path = (ROOT if path.split("/")[0] in FOLDERS else ROOT / "src" / "tocsin") / path
    assert path.exists(), f"{text} does not exist"
    if function is not None:
        assert function in functions_of(path), f"{text} does not exist"
    return True


def test_paths_exist():
    """Also beside tables."""
    text = "\n".join(LINES)
    assert sum(check_path(each) for each in CODE.findall(text) + LINK.findall(text)) > 100


@pytest.mark.parametrize(("number", "cells"), ROWS, ids=[f"line {number}" for number, _ in ROWS])
def test_rows(number, cells):
    assert len(cells) == 5
    source, here, files, tests, figures = cells
    assert source
    status = STATUS.match(here)
    assert status is not None, here
    for text in CODE.findall(files):
        assert check_path(text), f"{text} is not a path"
    names = CODE.findall(tests)
    for text in names:
        assert text.startswith("tests/")
        assert check_path(text), f"{text} is not a path"
    if status[0] != "not here, because ":
        assert files, "no file"
        assert names, "no test"
    for text in CODE.findall(figures):
        assert check_path(text) or text in FIGURES, f"{text} is not a figure"


def test_every_figure_is_named():
    text = "\n".join(LINES)
    assert [name for name in FIGURES if f"`{name}`" not in text] == []


def test_the_checks_find_mistakes():
    for text in ("engine/no_such_file.py", "tests/test_papers.py::no_such_function"):
        with pytest.raises(AssertionError, match="does not exist"):
            check_path(text)
    assert not check_path("withdraw_covered")
    for cells in (
        ["1", "as is", "`jit.py`", "", ""],
        ["1", "as published", "", "`tests/test_papers.py`", ""],
        ["1", "as published", "`engine/draft.py`", "", ""],
        ["1", "as published", "`engine/draft.py`", "`tests/test_papers.py`", "`no-figure`"],
    ):
        with pytest.raises(AssertionError):
            test_rows(0, cells)
