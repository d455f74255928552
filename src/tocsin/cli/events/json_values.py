"""Convert JSON values to Arrow columns of known types."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.cli.events.text_values import fits, parse, parse_decimals
from tocsin.cli.events.types import type_name
from tocsin.errors import EventError

_NOT_FINITE = {"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"}
_INT64 = range(-(2**63), 2**63)


def build_column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values of Python's json as an array; raise if one is of another type."""
    python_types = set(map(type, values)) - {type(None)}
    if t.is_struct(type_):
        _check(python_types <= {dict}, values, dict, type_)
        return _build_structs(values, type_)
    if t.is_list(type_):
        _check(python_types <= {list}, values, list, type_)
        return _build_lists(values, type_)
    if t.is_timestamp(type_):
        return _build_times(values, python_types, type_)
    if t.is_floating(type_):
        return _build_floats(values, python_types, type_)
    if t.is_decimal(type_):
        return _build_decimals(values, type_)
    expected = str if t.is_string(type_) else bool if t.is_boolean(type_) else int
    _check(python_types <= {expected}, values, expected, type_)
    if expected is int:
        for value in values:
            if value is not None and value not in _INT64:
                raise _misfit_error(value, type_)
    return pa.array(values, type_)


def _check(is_valid: bool, values: Sequence[Any], expected: type, type_: pa.DataType) -> None:
    if not is_valid:
        value = next(v for v in values if v is not None and type(v) is not expected)
        raise _misfit_error(value, type_)


def _misfit_error(value: Any, type_: pa.DataType) -> EventError:
    text = json.dumps(value, ensure_ascii=False)
    return EventError(f"expected {type_name(type_)}, got {text[:60]}")


def _build_structs(values: Sequence[Any], type_: pa.StructType) -> pa.Array:
    objects = [value or {} for value in values]
    children = [build_column([o.get(f.name) for o in objects], f.type) for f in type_]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)


def _build_lists(values: Sequence[Any], type_: pa.ListType) -> pa.Array:
    flat = list(itertools.chain.from_iterable(value or () for value in values))
    items = build_column(flat, type_.value_type)
    lengths = [len(value or ()) for value in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, items, type_, mask=mask)


def _build_times(values: Sequence[Any], python_types: set[type], type_: pa.DataType) -> pa.Array:
    for value in values if not python_types <= {str, int} else ():
        if type(value) not in (str, int, type(None)):
            raise _misfit_error(value, type_)
    texts = pa.array([v if type(v) is str else None for v in values], pa.string())
    if not fits(texts.drop_null(), type_):
        strings = texts.drop_null().to_pylist()
        raise _misfit_error(next(s for s in strings if not fits(pa.array([s]), type_)), type_)
    times = parse(texts, type_)
    if int not in python_types:
        return times
    seconds = pa.array([v if type(v) is int else None for v in values], pa.int64())
    return pc.coalesce(times, pc.multiply_checked(seconds, 10**6).cast(type_))


def _build_floats(values: Sequence[Any], python_types: set[type], type_: pa.DataType) -> pa.Array:
    for value in values if not python_types <= {float, int} else ():
        if type(value) not in (float, int, type(None)) and value not in _NOT_FINITE:
            raise _misfit_error(value, type_)
    if python_types <= {float}:
        return pa.array(values, type_)
    return pa.array([None if v is None else float(v) for v in values], type_)


def _build_decimals(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return integers, and verbatim texts of numbers, as decimals."""
    for value in values:
        if type(value) not in (int, str, type(None)):
            raise _misfit_error(value, type_)
    texts = [None if value is None else str(value) for value in values]
    try:
        return parse_decimals(pa.array(texts, pa.string()), type_)
    except ValueError as error:
        raise _misfit_error(error.args[0], type_) from None


# ------------------------------------------------------------ verbatim text

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def parse_verbatim(line: str, type_: pa.DataType) -> Any:
    """Return the value of a line; where the type is a string or decimal, values keep their text."""
    value, _ = _parse_at(line, _skip_space(line, 0), type_)
    json.loads(line)  # raises if anything follows the value
    return value


def _skip_space(line: str, start: int) -> int:
    space = _SPACE.match(line, start)
    return space.end() if space else start


def _parse_at(line: str, start: int, type_: pa.DataType) -> tuple[Any, int]:
    """Return the value that begins at `start`, and its end."""
    value, end = _DECODER.raw_decode(line, start)
    if value is None or isinstance(value, str):
        return value, end
    if t.is_string(type_) or t.is_decimal(type_):
        return line[start:end], end
    if isinstance(value, list) and t.is_list(type_):
        return [_parse_at(line, item, type_.value_type)[0] for item in _items(line, start)], end
    if isinstance(value, list) and t.is_struct(type_):  # several rows in a line
        return [_parse_at(line, item, type_)[0] for item in _items(line, start)], end
    if isinstance(value, dict) and t.is_struct(type_):
        for name, field in _fields(line, start):
            if type_.get_field_index(name) >= 0:
                value[name] = _parse_at(line, field, type_.field(name).type)[0]
    return value, end


def _items(line: str, start: int) -> Iterator[int]:
    """Yield the positions of the items of the list that begins at `start`."""
    position = _skip_space(line, start + 1)
    while line[position] != "]":
        yield position
        position = _skip_value(line, position)


def _fields(line: str, start: int) -> Iterator[tuple[str, int]]:
    """Yield the names and the positions of the values of the object that begins at `start`."""
    position = _skip_space(line, start + 1)
    while line[position] != "}":
        name, end = _DECODER.raw_decode(line, position)
        position = _skip_space(line, _skip_space(line, end) + 1)
        yield name, position
        position = _skip_value(line, position)


def _skip_value(line: str, position: int) -> int:
    """Return the position of the next item or field, or of the closing bracket."""
    position = _skip_space(line, _DECODER.raw_decode(line, position)[1])
    return _skip_space(line, position + 1) if line[position] == "," else position
