"""What a stranger's `import tocsin` does, and what holds for the package as a whole."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tocsin

SOURCES = sorted(Path(tocsin.__file__).parent.rglob("*.py"))


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


def test_import_brings_in_neither_spark_nor_numba():
    heavy = "{'pyspark', 'numba', 'pyarrow', 'numpy', 'sqlglot', 'pandas'}"
    assert run(f"import sys, tocsin; print(*({heavy} & set(sys.modules)))") == []


def test_matching_does_not_import_spark():
    code = (
        "import sys, tocsin; r = tocsin.Rules({'x': 'number'}); r.add(1, 'x > 5'); "
        "r.match({'x': 6}); print(*({'pyspark', 'polars', 'duckdb'} & set(sys.modules)))"
    )
    assert run(code) == []


def test_schema_does_not_import_numba():
    code = "import sys, tocsin; tocsin.Schema({'x': 'number'}); print('numba' in sys.modules)"
    assert run(code) == ["False"]


def test_every_public_name_is_there():
    assert {"Rules", "Schema", "Matches", "TocsinError"} <= set(tocsin.__all__)
    for name in tocsin.__all__:
        assert getattr(tocsin, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Rulez'"):
        _ = tocsin.Rulez


def test_every_error_is_a_tocsin_error():
    defined = {
        name
        for name, value in vars(tocsin.errors).items()
        if isinstance(value, type) and issubclass(value, tocsin.TocsinError)
    }
    assert defined == {n for n in tocsin.__all__ if n.endswith("Error")}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_only_jit_decides_how_to_compile(path):
    if path.name == "jit.py":
        return
    imported = {
        name.name.partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        (node.module or "").partition(".")[0]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
    }
    assert "numba" not in imported
