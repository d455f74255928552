"""JSON values as columns of Arrow, of types that are known."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.cli.events.text_values import fits, parse
from tocsin.cli.events.types import type_name
from tocsin.errors import EventError

_NOT_FINITE = {"NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF"}
_WHOLE = range(-(2**63), 2**63)


def column(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Return values as Python's json gives them as an array; raise if one is of another type."""
    kinds = set(map(type, values)) - {type(None)}
    if t.is_struct(type_):
        _check(kinds <= {dict}, values, dict, type_)
        return _structs(values, type_)
    if t.is_list(type_):
        _check(kinds <= {list}, values, list, type_)
        return _lists(values, type_)
    if t.is_timestamp(type_):
        return _times(values, kinds, type_)
    if t.is_floating(type_):
        return _numbers(values, kinds, type_)
    wanted = str if t.is_string(type_) else bool if t.is_boolean(type_) else int
    _check(kinds <= {wanted}, values, wanted, type_)
    if t.is_decimal(type_):
        values = [None if v is None else Decimal(v) for v in values]
    elif wanted is int:
        for value in values:
            if value is not None and value not in _WHOLE:
                raise _misfit(value, type_)
    return pa.array(values, type_)


def _check(holds: bool, values: Sequence[Any], wanted: type, type_: pa.DataType) -> None:
    if not holds:
        raise _misfit(next(v for v in values if v is not None and type(v) is not wanted), type_)


def _misfit(value: Any, type_: pa.DataType) -> EventError:
    shown = json.dumps(value, ensure_ascii=False)
    return EventError(f"expected {type_name(type_)}, got {shown[:60]}")


def _structs(values: Sequence[Any], type_: pa.StructType) -> pa.Array:
    present = [value or {} for value in values]
    children = [column([p.get(f.name) for p in present], f.type) for f in type_]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)


def _lists(values: Sequence[Any], type_: pa.ListType) -> pa.Array:
    items = column(list(itertools.chain.from_iterable(v or () for v in values)), type_.value_type)
    lengths = [len(value or ()) for value in values]
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(offsets, items, type_, mask=mask)


def _times(values: Sequence[Any], kinds: set[type], type_: pa.DataType) -> pa.Array:
    for value in values if not kinds <= {str, int} else ():
        if type(value) not in (str, int, type(None)):
            raise _misfit(value, type_)
    texts = pa.array([v if type(v) is str else None for v in values], pa.string())
    if not fits(texts.drop_null(), type_):
        given = (v for v in texts.drop_null().to_pylist())
        raise _misfit(next(v for v in given if not fits(pa.array([v]), type_)), type_)
    times = parse(texts, type_)
    if int not in kinds:
        return times
    seconds = pa.array([v if type(v) is int else None for v in values], pa.int64())
    return pc.coalesce(times, pc.multiply_checked(seconds, 10**6).cast(type_))


def _numbers(values: Sequence[Any], kinds: set[type], type_: pa.DataType) -> pa.Array:
    for value in values if not kinds <= {float, int} else ():
        if type(value) not in (float, int, type(None)) and value not in _NOT_FINITE:
            raise _misfit(value, type_)
    if kinds <= {float}:
        return pa.array(values, type_)
    return pa.array([None if v is None else float(v) for v in values], type_)


# ------------------------------------------------------------ as it is written

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def read_exactly(line: str, type_: pa.DataType) -> Any:
    """Return what a line holds; where the type is text, any value is the text it is written as."""
    value, _ = _read(line, _skip(line, 0), type_)
    json.loads(line)  # what follows the value is an error
    return value


def _skip(line: str, at: int) -> int:
    found = _SPACE.match(line, at)
    return found.end() if found else at


def _read(line: str, at: int, type_: pa.DataType) -> tuple[Any, int]:
    """Return the value at a place in a line, and where it ends."""
    value, end = _DECODER.raw_decode(line, at)
    if value is None or isinstance(value, str):
        return value, end
    if t.is_string(type_):
        return line[at:end], end
    if isinstance(value, list) and t.is_list(type_):
        return [_read(line, place, type_.value_type)[0] for place in _items(line, at)], end
    if isinstance(value, list) and t.is_struct(type_):  # several rows in a line
        return [_read(line, place, type_)[0] for place in _items(line, at)], end
    if isinstance(value, dict) and t.is_struct(type_):
        for name, place in _fields(line, at):
            if type_.get_field_index(name) >= 0:
                value[name] = _read(line, place, type_.field(name).type)[0]
    return value, end


def _items(line: str, at: int) -> Iterator[int]:
    """Yield where the items of the list begin that begins at a place."""
    place = _skip(line, at + 1)
    while line[place] != "]":
        yield place
        place = _next(line, place)


def _fields(line: str, at: int) -> Iterator[tuple[str, int]]:
    """Yield the names in the object that begins at a place, and where their values begin."""
    place = _skip(line, at + 1)
    while line[place] != "}":
        name, end = _DECODER.raw_decode(line, place)
        place = _skip(line, _skip(line, end) + 1)
        yield name, place
        place = _next(line, place)


def _next(line: str, place: int) -> int:
    """Return where the item or field after the value at a place begins, or the end is."""
    place = _skip(line, _DECODER.raw_decode(line, place)[1])
    return _skip(line, place + 1) if line[place] == "," else place
