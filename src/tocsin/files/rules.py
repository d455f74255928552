"""Read rules and schemas from files, and as they are written on the command line.

The suffix of a file tells its format:

* Parquet has types, which are kept.
* JSON lines are read with Python's json. Strings that bound a time are parsed.
* CSV has no types. An `id` stays text ("007" is not 7), unless the rules that it is added to have
  integer ids. `where` and bounds of categories are text, and `weights` is a JSON object. Arrow
  infers the types of all other columns. An empty field is null.

Messages number rows from 1, without the header, and lines of JSON by the line in the file. In
Python, rows are numbered from 0.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tocsin.errors import RuleError, SchemaError, TocsinError
from tocsin.files.paths import FORMATS, detect_format, is_url, naming_rows, reading

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.engine.rules import Rules
    from tocsin.model.schema import Schema


def parse_object(text: str) -> dict[str, Any]:
    """Return a JSON object; raise ValueError if the text is none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f'not a JSON object such as {{"x": 3}}: {text.strip()}')
    return value


# ------------------------------------------------------------ schemas


def _split_schema(text: str) -> list[str]:
    """Split a text at its commas, but not at those of decimal(12,2) or struct<a: int, b: int>."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "(<") - (char in ")>")
        if char == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def read_schema(text: str) -> Schema:
    """Return the schema in "x=number,tier=category", or that of the events in a file."""
    from tocsin.model.schema import Schema

    if is_url(text):
        raise SchemaError(f"the schema {text!r} is a URL; only local files are supported")
    if os.path.isfile(text):  # unlike Path.is_file, also for texts that are too long for a path
        path = Path(text)
        from tocsin.files.events import open_events

        nothing = Schema({})
        events = open_events([path], detect_format(path), nothing, nothing, lambda count: None)
        return Schema(events.schema)
    schema = Schema({})
    for part in _split_schema(text):
        name, equals, kind = part.partition("=")
        if not equals:
            raise SchemaError(
                f"the schema {text!r} is neither a file nor written as x=number,tier=category"
            )
        schema.add(name.strip(), kind.strip())
    return schema


# ------------------------------------------------------------ rules


def open_rules(path: Path | str, schema: str | None, version: int | None = None) -> Rules:
    """Return the rules of a store or a file; a file needs a schema."""
    from tocsin.engine.rules import Rules

    if isinstance(path, str) or path.is_dir():
        if schema is not None:
            raise TocsinError("--schema is for a file of rules; a store has its own schema")
        return Rules.open(path, version)
    check_format(path)
    if version is not None:
        raise TocsinError(f"--version is for a rule store, but {path} is a file")
    rules = Rules(open_schema(path, schema))
    add_file(rules, path)
    return rules


def open_schema(path: Path, schema: str | None) -> Schema:
    """Return the schema that is given for a file of rules; raise if the file or schema is none."""
    check_format(path)
    if schema is None:
        raise TocsinError(
            f"{path} has no schema; give one, as in --schema x=number,tier=category or "
            "--schema events.parquet"
        )
    return read_schema(schema)


def add_file(rules: Rules, path: Path) -> None:
    """Add the rules of a file: all of them, or none if one is wrong."""
    with reading(path, RuleError):
        rows, name_row = read_rows(path, rules)
        with naming_rows(name_row):
            rules.add_many(rows)


def sync_file(rules: Rules, path: Path) -> None:
    """Make rules those of a file; nothing changes if one is wrong."""
    with reading(path, RuleError):
        rows, name_row = read_rows(path, rules)
        with naming_rows(name_row):
            rules.sync(rows)


def write_rules(rules: Rules, path: Path) -> None:
    """Write rules to a file, in the form that `add_file` and `sync_file` read."""
    import pyarrow as pa

    from tocsin.files.writer import FileWriter, can_be_written

    if path.suffix.lower() not in FORMATS:
        raise TocsinError(f"{path}: the name of a file must end in .csv, .jsonl or .parquet")
    file_format, table = FORMATS[path.suffix.lower()], rules.to_arrow().combine_chunks()
    if file_format == "csv" and "weights" in table.column_names:
        place, column = table.column_names.index("weights"), table.column("weights")
        texts = [None if w is None else json.dumps(dict(w)) for w in column.to_pylist()]
        table = table.set_column(place, "weights", pa.array(texts, pa.string()))
    for field in table.schema:
        if not can_be_written(field.type, file_format):
            raise TocsinError(
                f"{path}: CSV cannot hold the payload column {field.name!r}, which is of type "
                f"{field.type}; write .jsonl or .parquet"
            )
    with FileWriter(path, file_format, table.schema) as writer:
        for batch in table.to_batches():
            writer.write(batch)


def read_rows(path: Path, rules: Rules) -> tuple[Any, Callable[[int], str]]:
    """Return a file's table of rules, and the function that names its rows in messages."""
    if _is_geojson(path):
        return _read_geojson(path), lambda row: f"feature {row + 1}"
    readers = {"csv": _read_csv, "json": _read_json, "parquet": _read_parquet}
    rows, lines = readers[detect_format(path)](path, rules)
    return rows, lambda row: f"line {lines[row]}" if lines else f"row {row + 1}"


def _is_geojson(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() == ".geojson"


def check_format(path: Path) -> None:
    """Raise unless a file, by its name, is one of rules."""
    if not _is_geojson(path):
        detect_format(path)


def _read_geojson(path: Path) -> list[dict[str, Any]]:
    """Return the features of a file; their properties are payload."""
    content = parse_object(path.read_text(encoding="utf-8"))
    features = content.get("features") if content.get("type") == "FeatureCollection" else None
    if not isinstance(features, list):
        raise RuleError("it must be a GeoJSON FeatureCollection, with a feature for each rule")
    rows = []
    for number, feature in enumerate(features, 1):
        if not isinstance(feature, dict) or not isinstance(feature.get("properties") or {}, dict):
            raise RuleError(f"feature {number}: it is not a GeoJSON feature")
        properties = dict(feature.get("properties") or {})
        id_ = feature.get("id", properties.get("id"))
        if id_ is None:
            raise RuleError(
                f"feature {number}: it has no id; give it one, or a property 'id', which is the "
                "rule's"
            )
        rows.append(properties | {"id": id_, "shape": feature.get("geometry")})
    return rows


def _read_parquet(path: Path, rules: Rules) -> tuple[pa.Table, None]:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path), None


def _read_json(path: Path, rules: Rules) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the objects of a file, and the numbers of their lines; blank lines are skipped."""
    rows, numbers = [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = parse_object(line)
            except ValueError as error:
                raise RuleError(f"line {number}: {error}") from None
            rows.append({key: _parse_bound(key, value, row, rules) for key, value in row.items()})
            numbers.append(number)
    return rows, numbers


def _parse_bound(key: str, value: Any, row: dict[str, Any], rules: Rules) -> Any:
    """Return a value of a row; a string that bounds a time becomes a time."""
    if not isinstance(value, str):
        return value
    name = row.get("attribute") if key in ("low", "high") else None
    if key.lower().endswith(("_low", "_high")):
        name = key[: key.rindex("_")]
    if not isinstance(name, str):
        return value
    from tocsin.model.json_values import parse_value

    return parse_value(name, value, rules.schema)


def _read_csv(path: Path, rules: Rules) -> tuple[pa.Table, None]:
    import pyarrow as pa
    import pyarrow.csv

    from tocsin.model.decimals import MAX_DIGITS, is_decimal

    types = dict.fromkeys(("id", "where", "weights", "attribute", "shape"), pa.string())
    for name in pyarrow.csv.open_csv(path).schema.names:
        stem = name[: name.rindex("_")] if name.lower().endswith(("_low", "_high")) else ""
        kind = rules.schema.kind(stem) if stem in rules.schema else ""
        if kind == "category":
            types[name] = pa.string()
        elif is_decimal(kind):
            types[name] = pa.decimal128(38, MAX_DIGITS)  # a float has fewer digits
    # By default, Arrow reads 'NA' and 'null' as null, but they may be categories.
    options = pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, convert_options=options, parse_options=parsing)
    columns = table.column_names
    if "id" in columns and rules.id_type is not None and pa.types.is_integer(rules.id_type):
        ids = [None if i is None else parse_id(i, rules) for i in table.column("id").to_pylist()]
        table = table.set_column(columns.index("id"), "id", pa.array(ids, pa.int64()))
    if "weights" in columns:
        weights = []
        for row, text in enumerate(table.column("weights").to_pylist(), 1):
            try:
                weights.append(None if text is None else list(parse_object(text).items()))
            except ValueError as error:
                raise RuleError(f"row {row}: the weights are {error}") from None
        maps = pa.array(weights, pa.map_(pa.string(), pa.float64()))
        table = table.set_column(columns.index("weights"), "weights", maps)
    return table, None


def parse_id(text: str, rules: Rules) -> Any:
    """Return an id: an integer if the ids of the rules are integers, otherwise the text."""
    import pyarrow as pa

    if rules.id_type is None or not pa.types.is_integer(rules.id_type):
        return text
    if not re.fullmatch(r"-?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
        raise RuleError(f"the ids of these rules are integers of 64 bits, got {text!r}")
    return int(text)
