"""What tests of terms share: sources, and short ways to read and evaluate."""

from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import sqlglot

from tocsin.model import terms

STRUCT = pa.struct([("lat", pa.float64()), ("Tag", pa.string())])
SOURCES = {
    name: (name, terms.source_type(kind))
    for name, kind in {
        "n": "integer",
        "m": "integer",
        "x": "number",
        "y": "number",
        "name": "category",
        "f": "flag",
        "ts": "time",
        "d": "decimal(10,2)",
    }.items()
}
SOURCES["loc"] = ("Loc", terms.nested_type(STRUCT))
SOURCES["tags"] = ("tags", terms.nested_type(pa.map_(pa.string(), pa.string())))
UTC = ZoneInfo("UTC")


def read(text: str, zone: ZoneInfo = UTC) -> terms.Term:
    return terms.read_term(sqlglot.parse_one(text, dialect="spark"), SOURCES, zone)


def evaluate(text: str, zone: ZoneInfo = UTC, **values: Any) -> list[Any]:
    """Return the values of a term over lists of values, or Arrow arrays, by column."""
    term = read(text, zone)
    types = dict(SOURCES.values())
    arrays = {
        name: terms.as_source(
            column
            if isinstance(column, pa.Array)
            else pa.array(column, terms.arrow_type(types[name])),
            types[name],
            zone,
        )
        for name, column in values.items()
    }
    length = len(next(iter(arrays.values()), [0]))
    (result,) = terms.evaluate([term], arrays.__getitem__, length, zone)
    assert result.type == terms.arrow_type(term.type)
    result.validate(full=True)
    return result.to_pylist()


def constant(text: str, zone: ZoneInfo = UTC) -> Any:
    """Return the value of a term that is folded."""
    term = read(text, zone)
    assert term.function == "literal", term
    return term.value
