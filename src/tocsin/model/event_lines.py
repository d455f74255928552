"""Reads a single event, a dict or a row, into memory that is used again for the next one.

For one event, making arrays takes longer than matching. So a version prepares, for the attributes
that its rules test, functions that encode their values, and lines of keys, whose named tuples are
made once. A line is in use from `read` to `give_back`: a nested match (in a signal handler, in a
finalizer) takes another one, as do other threads.

Only what events usually have is read here. `read` returns None for all else (terms, NumPy's values,
values that are errors), and `Events` reads it, with its messages.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.jit import freeze
from tocsin.model import encoding
from tocsin.model.categories import Categories
from tocsin.model.decimals import decimal_key, digits_of
from tocsin.model.event_densities import EventBlock, read_usual_density
from tocsin.model.keys import dense_keys
from tocsin.model.schema import RANGE, Kind, Schema, can_be_range

_MOST_COLUMNS = 64  # chosen; beyond it, the keys of absent attributes cost more than they save
_DECIMAL = pa.decimal128(1).id
_MOST_SPELLINGS = 1024  # of names in events, with those that no rule tests; chosen

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

ToKey = Callable[[Any], int]  # raises an exception for values that `Events` has to read
_Column = tuple[int, Kind, bool, ToKey]  # its row, its kind, and whether it can have ranges


class EventLine:
    """The keys of one event: a batch of one, as `Events` is of many."""

    def __init__(self, attributes: np.ndarray):
        size = len(attributes)
        low, high = np.empty(size, np.int64), np.empty(size, np.int64)
        # Items of a memoryview are set faster than those of an array.
        self.integers: memoryview[int] = low.data
        self.floats: memoryview[Any] = low.view(np.float64).data
        self._high: memoryview[int] = high.data
        columns = low.reshape(size, 1)
        values = dense_keys(columns, attributes)
        ranges = values._replace(columns_high=freeze(high.reshape(size, 1), np.int64))
        self._values, self._ranges = (EventBlock(values, None),), (EventBlock(ranges, None),)
        self.has_ranges = False

    def __len__(self) -> int:
        return 1

    def set_highs(self, highs: Mapping[int, int]) -> None:
        """Set the high ends of ranges by row. A value is its own high end."""
        self._high[:] = self.integers
        for row, key in highs.items():
            self._high[row] = key
            self.has_ranges |= key != self.integers[row]

    def blocks(self) -> Iterator[EventBlock]:
        """Yield the event."""
        return iter(self._ranges if self.has_ranges else self._values)


class LineReader:
    """Reads events for the rules of one version; `used` are the attributes that these test."""

    def __init__(self, schema: Schema, used: Mapping[int, int], categories: Categories):
        self._attributes = np.array(list(used), np.int32)
        self._code_of = categories.get
        self._columns: dict[str, _Column | None] = {}  # by spelling, so as not to fold names again
        self._by_name: dict[str, _Column] = {}  # by lowercase name
        self._has_spellings = False  # whether an attribute came with two spellings
        self._blank = np.full(len(used), encoding.NULL).data
        self._free: list[EventLine] = []
        # `Events` reads events with terms, and those of many columns, where blank ones cost much.
        self._types = {schema.name(a): _usual_type(schema.kind(a)) for a in used}
        self._is_able = len(used) <= _MOST_COLUMNS and not any(a in schema.terms for a in used)
        if self._is_able:
            for row, attribute in enumerate(used):
                kind = schema.kind(attribute)
                column = row, kind, can_be_range(kind), _to_key(kind, schema)
                self._by_name[schema.name(attribute).lower()] = column

    def read(self, event: dict[Any, Any], with_ranges: bool) -> EventLine | None:
        """Return the keys of an event, or None if `Events` has to read it.

        Give the line back after use. An event with ranges is read only `with_ranges`.
        """
        if not self._is_able:
            return None
        try:
            line = self._free.pop()
        except IndexError:
            line = EventLine(self._attributes)
        integers, floats, columns = line.integers, line.floats, self._columns
        integers[:] = self._blank
        highs: dict[int, int] = {}
        try:
            for name, value in event.items():
                column = columns[name] if name in columns else self._find(name)
                if column is None:
                    continue
                row, kind, can_be_range, to_key = column
                if type(value) is float and kind == "number":
                    if value > 0.0:
                        floats[row] = value  # its bits are its key, see `encoding`
                    elif value < 0.0:
                        floats[row] = -value
                        integers[row] = -integers[row]
                    else:
                        integers[row] = 0 if value == 0.0 else encoding.NAN
                elif type(value) is str and kind == "category":
                    integers[row] = self._code_of(value, encoding.OTHER)
                elif type(value) is int and kind == "integer" and value > encoding.SEAM:
                    integers[row] = value  # its own key; one that does not fit is an error
                elif value is None:
                    integers[row] = encoding.NULL
                elif type(value) is dict and with_ranges and can_be_range:
                    integers[row], highs[row] = _range_keys(value, kind, to_key)
                else:
                    integers[row] = to_key(value)
            line.has_ranges = False
            if highs:
                if self._has_spellings:  # of which the last one counts
                    raise ValueError("a range, and perhaps another value of the attribute")
                line.set_highs(highs)
        except Exception:  # of which `Events` will make a message
            self._free.append(line)
            return None
        return line

    def read_row(self, table: pa.Table) -> EventLine | None:
        """Return the keys of a table's only row, or None if `Events` has to read it."""
        if not self._is_able or not self._types:
            return None
        schema = table.schema
        columns: list[pa.ChunkedArray] = []
        for name, type_ in self._types.items():
            at = schema.get_field_index(name)
            if at < 0:  # none, or several
                return None
            column = table.column(at)
            if column.type != type_ and (type_ is not None or column.type.id != _DECIMAL):
                return None
            columns.append(column)
        try:
            values = [column[0].as_py() for column in columns]
        except (ValueError, OverflowError):  # a time that Python does not have, or a bad text
            return None
        return self.read(dict(zip(self._types, values, strict=True)), with_ranges=False)

    def give_back(self, line: EventLine) -> None:
        """Use a line for another event."""
        self._free.append(line)

    def _find(self, name: Any) -> _Column | None:
        """Return where the values with a name belong, or None if no rule tests them."""
        if not isinstance(name, str):
            return None
        column = self._by_name.get(name.lower())
        if column is not None and any(column is known for known in self._columns.values()):
            self._has_spellings = True
        if type(name) is str and len(self._columns) < _MOST_SPELLINGS:
            self._columns[name] = column
        elif column is not None:
            self._has_spellings = True
        return column


def _range_keys(value: dict[Any, Any], kind: Kind, to_key: ToKey) -> tuple[int, int]:
    """Return the keys of the ends of a range."""
    usual = read_usual_density(value) if kind == "number" else None
    if usual is not None:
        return usual[:2]
    low, high = value["low"], value["high"]
    if len(value) != len(RANGE):
        raise ValueError("not a plain range")
    if low is None and high is None:
        return encoding.NULL, encoding.NULL
    low_key, high_key = to_key(low), to_key(high)
    if low_key > high_key or high != high:
        raise ValueError("not a range")
    return low_key, high_key


def _usual_type(kind: Kind) -> pa.DataType | None:
    """Return Arrow's type whose values are read here as Python's; None for any decimal128."""
    return {
        "number": pa.float64(),
        "integer": pa.int64(),
        "category": pa.string(),
        "flag": pa.bool_(),
        "time": pa.timestamp("us", "UTC"),
    }.get(kind)


def _to_key(kind: Kind, schema: Schema) -> ToKey:
    """Return a function that encodes the usual values of a kind, see `python_values`."""
    digits, zone = digits_of(kind), schema.zone

    def check(value: Any, *types: type) -> None:
        if type(value) not in types:
            raise TypeError("not a usual value")

    def number(value: Any) -> int:
        check(value, float, int)
        return encoding.number_key(float(value))

    def integer(value: Any) -> int:
        check(value, int)
        if value < -(2**63):
            raise OverflowError("no 64-bit integer")
        return encoding.integer_key(value)

    def flag(value: Any) -> int:
        check(value, bool)
        return int(value)

    def time(value: Any) -> int:
        check(value, datetime.datetime, datetime.date)
        if type(value) is datetime.datetime and value.tzinfo is datetime.UTC:
            since = value - _EPOCH
            return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return encoding.integer_key(encoding.to_microseconds(value, zone))

    def decimal_(value: Any) -> int:
        assert digits is not None
        check(value, decimal.Decimal, int, float)
        return decimal_key(value, digits)

    def none(value: Any) -> int:
        raise TypeError("texts are read before")

    if digits is not None:
        return decimal_
    usual: dict[Kind, ToKey] = {"number": number, "integer": integer, "flag": flag, "time": time}
    return usual.get(kind, none)
