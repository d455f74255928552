"""Rules, schemas and events as people hand them to a command: files and short texts.

A file's suffix says what is in it. Rules are read here, without Spark:

* Parquet has types, and they count.
* JSON lines are read as Python reads them. Texts that bound a time are parsed.
* CSV has only texts. An `id` stays as it is written ("007" is not 7), unless the rules it is
  added to have integer ids; `where` and bounds of categories are texts, `weights` is a JSON
  object, and of all other columns Arrow finds the types. Empty is null.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tocsin.errors import EventError, RuleError, SchemaError, TocsinError, suggest

if TYPE_CHECKING:
    import pyarrow as pa

    from tocsin.engine.rules import Rules
    from tocsin.model.schema import Schema

# Spark's own folders of JSON lines hold files that end in .json.
FORMATS = {".csv": "csv", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}


# ------------------------------------------------------------ options that may be given again


def names(ctx: Any, param: Any, values: Sequence[str]) -> list[str] | None:
    """Return the names in an option's values, which commas separate; None if there are none."""
    if not values:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def joined(ctx: Any, param: Any, values: Sequence[str]) -> str | None:
    """Return what an option was given several times as if given once, with commas."""
    return ",".join(values) if values else None


def json_option(name: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare an option whose value is a JSON object; several add up to one."""
    return click.option(name, multiple=True, callback=_merged, metavar="JSON", **settings)


def _merged(ctx: Any, param: Any, values: Sequence[str]) -> dict[str, Any] | None:
    merged: dict[str, Any] = {}
    for value in values:
        try:
            given = _object(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        for name in given.keys() & merged.keys():
            raise click.BadParameter(f"{name!r} is given twice.", ctx, param)
        merged |= given
    return merged if values else None


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f'not a JSON object such as {{"x": 3}}: {text.strip()}')
    return value


def format_of(path: Path) -> str:
    """Return what is in a file, or in all files of a folder, by suffix: csv, json or parquet."""
    if not path.exists():
        raise TocsinError(f"there is no file or folder {path}")
    if path.is_dir():
        found = {format_of(file) for file in _files_below(path)}
        if len(found) == 1:
            return found.pop()
        what = f"files of several kinds ({', '.join(sorted(found))})" if found else "no files"
        raise TocsinError(f"the folder {path} has {what}; expected CSV, JSON lines or Parquet")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise TocsinError(
            f"{path}: a file ends in .csv, .jsonl (JSON lines) or .parquet"
            + (suggest(suffix, FORMATS) if suffix else "")
        )
    return FORMATS[suffix]


def data_files(path: Path, partitioned: bool = False) -> list[Path]:
    """Return a file, or those of a folder in the order of their names.

    Folders in a folder are refused, unless it may be `partitioned` and they are called as in
    day=1/, all alike.
    """
    if not path.is_dir():
        return [path]
    files = _files_below(path)
    for file in files:
        parts = file.relative_to(path).parts[:-1]
        if partitioned and all("=" in part for part in parts):
            if len(parts) == len(files[0].relative_to(path).parts[:-1]):
                continue
        elif not parts:
            continue
        raise TocsinError(
            f"the folder {path} has files in folders of its own, such as {file.relative_to(path)}; "
            + (
                "Spark reads them only if all are in partitions, as in day=1/"
                if partitioned
                else "only --spark reads these, if they are partitions, as in day=1/"
            )
        )
    return files


def _files_below(folder: Path) -> list[Path]:
    # As Spark does: what begins with a dot or an underscore is not data.
    return sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not any(part[0] in "._" for part in file.relative_to(folder).parts)
    )


# ------------------------------------------------------------ schemas


def read_schema(text: str) -> Schema:
    """Return a schema from "x=number,tier=category", or that of the events in a file."""
    from tocsin.model.schema import Schema

    path = Path(text)
    if path.is_file():
        from tocsin.cli.events import open_events

        return Schema(open_events([path], format_of(path), Schema({}), lambda count: None).schema)
    schema = Schema({})
    for part in text.split(","):
        name, equals, kind = part.partition("=")
        if not equals:
            raise SchemaError(
                f"the schema {text!r} is neither a file nor written as x=number,tier=category"
            )
        schema.add(name.strip(), kind.strip())  # type: ignore[arg-type]  # it looks
    return schema


# ------------------------------------------------------------ rules


def open_rules(path: Path, schema: str | None, version: int | None = None) -> Rules:
    """Return the rules of a store, or of a file, which needs a schema."""
    from tocsin.engine.rules import Rules

    if path.is_dir():
        if schema is not None:
            raise TocsinError("--schema is for rules in a file; a store has a schema")
        return Rules.open(path, version)
    format_of(path)
    if version is not None:
        raise TocsinError(f"--version is for a rule store, and {path} is a file")
    if schema is None:
        raise TocsinError(
            f"{path} has no schema; give one, as in --schema x=number,tier=category or "
            "--schema events.parquet"
        )
    rules = Rules(read_schema(schema))
    add_file(rules, path)
    return rules


def add_file(rules: Rules, path: Path) -> None:
    """Add the rules of a file: all, or none if any is wrong."""
    readers = {"csv": _read_csv, "json": _read_json, "parquet": _read_parquet}
    reader = readers[format_of(path)]
    with reading(path, RuleError):
        rules.add_many(reader(path, rules))


@contextlib.contextmanager
def reading(path: Path, kind: type[TocsinError]) -> Iterator[None]:
    """Say of every error which file it is about; those of Arrow and the system become ours."""
    from tocsin.model.arrow import translate_errors

    try:
        with translate_errors(kind, "cannot be read"):
            yield
    except OSError as error:
        raise kind(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise kind(f"{path}: cannot be read: values are nested too deeply") from None
    except TocsinError as error:
        raise error.with_place(str(path)) from None


def _read_parquet(path: Path, rules: Rules) -> pa.Table:
    import pyarrow.parquet

    return pyarrow.parquet.read_table(path)


def _read_json(path: Path, rules: Rules) -> list[dict[str, Any]]:
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = _object(line)
            except ValueError as error:
                raise RuleError(f"line {number}: {error}") from None
            rows.append({key: _bound(key, value, row, rules) for key, value in row.items()})
    return rows


def _bound(key: str, value: Any, row: dict[str, Any], rules: Rules) -> Any:
    """Return a value of a row as it is, unless it is a text that bounds a time."""
    if not isinstance(value, str):
        return value
    name = row.get("attribute") if key in ("low", "high") else None
    if key.lower().endswith(("_low", "_high")):
        name = key[: key.rindex("_")]
    if not isinstance(name, str):
        return value
    return typed(name, value, rules.schema)


def _read_csv(path: Path, rules: Rules) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv

    texts = {"id", "where", "weights", "attribute"}
    for name in pyarrow.csv.open_csv(path).schema.names:
        stem = name[: name.rindex("_")] if name.lower().endswith(("_low", "_high")) else ""
        if stem in rules.schema and rules.schema.kind(stem) == "category":
            texts.add(name)
    # Of Arrow's many spellings of null only the empty one: 'NA' and 'null' are categories, too.
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(texts, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    table = pyarrow.csv.read_csv(path, convert_options=options, parse_options=parsing)
    columns = table.column_names
    if "id" in columns and rules.id_type is not None and pa.types.is_integer(rules.id_type):
        ids = [None if i is None else as_id(i, rules) for i in table.column("id").to_pylist()]
        table = table.set_column(columns.index("id"), "id", pa.array(ids, pa.int64()))
    if "weights" in columns:
        weights = []
        for number, text in enumerate(table.column("weights").to_pylist()):
            try:
                weights.append(None if text is None else list(_object(text).items()))
            except ValueError as error:
                raise RuleError(f"row {number}: the weights are {error}") from None
        of_map = pa.array(weights, pa.map_(pa.string(), pa.float64()))
        table = table.set_column(columns.index("weights"), "weights", of_map)
    return table


def as_id(text: str, rules: Rules) -> Any:
    """Return an id that was written as a text: an integer if those of the rules are."""
    import pyarrow as pa

    if rules.id_type is None or not pa.types.is_integer(rules.id_type):
        return text
    if not re.fullmatch(r"-?[0-9]+", text) or not -(2**63) <= int(text) < 2**63:
        raise RuleError(f"the ids of these rules are integers of 64 bits, got {text!r}")
    return int(text)


# ------------------------------------------------------------ values


def typed(name: str, value: Any, schema: Schema) -> Any:
    """Return an attribute's value out of JSON; times are texts there."""
    if isinstance(value, dict):
        return {end: typed(name, each, schema) for end, each in value.items()}
    if not isinstance(value, str) or name not in schema or schema.kind(name) != "time":
        return value
    try:
        time = datetime.datetime.fromisoformat(value)
    except ValueError:
        raise EventError(
            f"attribute {name!r} is a time, got {value!r}; write it as 2024-05-01T12:00:00Z"
        ) from None
    local = time if time.tzinfo else time.replace(tzinfo=schema.zone)
    return local.astimezone(datetime.UTC)
