"""Events in, keys out: a dict, a list of dicts, or anything that speaks Arrow.

Only attributes that some rule tests are looked at. A table must have a column for
each of them, unless it has a column of map type (text to value), whose entries are
sparse attributes by name; where an attribute has a column of its own as well, the
column counts. In dicts a name that is absent is a missing value.

An integer, number or time may be given as a range: in Arrow a struct of `low` and `high`, as a
column or as the values of a map, in dicts a dict of the two. Both ends belong to it. A predicate
then holds if some value in the range satisfies it.

Keys are made block by block, so that what is alive at once stays small however
many events there are. The keys of an event do not depend on its block, with one exception: in a
block with a range every event has high ends besides. So threads may read tables without ranges
in any pieces (`can_split`), and other events as `CodedEvents`.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError, near
from tocsin.model import line
from tocsin.model.arrow import combined, is_text, plain, python_value, refusing
from tocsin.model.categories import Categories
from tocsin.model.columns import (
    Coder,
    bad_range,
    check_type,
    column_keys,
    is_range,
    range_keys,
)
from tocsin.model.keys import Keys, compress, count_present, dense, sparse, together
from tocsin.model.schema import ARTICLE, RANGE, RANGE_KINDS, Kind, Schema

BLOCK = 1 << 16
_CELLS = 1 << 22  # keys of one block, so that wide events come in smaller blocks
_FEW = 8  # attributes, and dicts become columns
_MANY = 64  # columns from which events that are mostly null become compressed rows


class Events:
    """Events that can be read as keys, block by block.

    `used` are the attributes that rules test; `len(events)` counts rows.
    """

    def __init__(self, schema: Schema, used: Iterable[int], categories: Categories):
        self._schema = schema
        # By attribute its row; whoever asks often, for one event each, gives it so.
        self._used = used if isinstance(used, dict) else {a: row for row, a in enumerate(used)}
        self._coder = Coder(categories)
        self._dicts: Sequence[Mapping[str, Any]] = ()
        self._columns: list[tuple[int, pa.ChunkedArray]] = []
        self._filled: list[tuple[int, pa.ChunkedArray]] = []  # those that are not all null
        self._compressed = False  # whether columns become compressed rows
        self._maps: list[tuple[str, pa.ChunkedArray]] = []
        self._size = 0

    @classmethod
    def read(
        cls, source: Any, schema: Schema, used: Iterable[int], categories: Categories
    ) -> Events:
        """Return events over whatever a user may hand in."""
        events = cls(schema, used, categories)
        if isinstance(source, Mapping):
            source = [source]
        if isinstance(source, list | tuple):
            events._size = len(source)
            events._dicts = source
            return events
        table = to_table(source, [schema.name(a) for a in used], "events")
        events._size, given = table.num_rows, table.column_names
        if is_pandas(source):
            # The table has only columns that are tested and, without any, no rows.
            events._size, given = len(source), list(map(str, source.columns))
        events._bind(table, given)
        return events

    def __len__(self) -> int:
        return self._size

    def _bind(self, table: pa.Table, given: Sequence[str]) -> None:
        """Find the columns of attributes in a table; `given` are all that the events have."""
        by_name: dict[str, list[str]] = {}
        for name in table.column_names:
            by_name.setdefault(name.lower(), []).append(name)
        self._maps = [
            (f.name, table.column(i)) for i, f in enumerate(table.schema) if is_sparse(f.type)
        ]
        for attribute in self._used:
            name = self._schema.name(attribute)
            candidates = by_name.get(name.lower(), [])
            if len(candidates) > 1:
                candidates = [c for c in candidates if c == name] or candidates
            if len(candidates) > 1:
                raise EventError(
                    f"the events have {len(candidates)} columns for attribute {name!r} "
                    f"({', '.join(candidates)}); rename or drop all but one"
                )
            if candidates:
                column = table.column(candidates[0])
                check_type(column.type, self._schema.kind(attribute), name)
                self._columns.append((attribute, column))
            elif not self._maps:
                raise EventError(
                    f"the events have no column {name!r}, which a rule tests"
                    + (near(name, given) or f"; they have {_some(given)}")
                )
        # For all blocks alike, so that no event's keys depend on what else is in its block.
        self._filled = [(a, c) for a, c in self._columns if c.null_count < len(c)]
        if len(self._filled) > _MANY and not self._maps:
            present = sum(len(column) - column.null_count for _, column in self._filled)
            self._compressed = 4 * present <= len(self._filled) * self._size

    @property
    def can_split(self) -> bool:
        """Whether any piece of the events may be read by itself, by any thread.

        Not dicts, which run Python's code, a user's own perhaps, and not events with ranges.
        """
        types = [column.type for _, column in self._filled]
        types += [column.type.item_type for _, column in self._maps]
        return not self._dicts and not any(map(is_range, types))

    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[Keys]:
        """Yield the keys of successive events, of all or from `first` up to `stop`."""
        block = max(256, min(BLOCK, _CELLS // max(1, len(self._columns))))
        end = self._size if stop is None else stop
        for start in range(first, end, block):
            yield self.keys(start, min(start + block, end))

    def keys(self, start: int, stop: int) -> Keys:
        """Return the keys of the events from `start` up to `stop`."""
        if self._dicts:
            return self._keys_of_dicts(start, stop)
        rows: list[tuple[int, pa.Array]] = []
        for attribute, column in self._filled:
            array = slice_of(column, start, stop)
            if not self._compressed or array.null_count < len(array):
                rows.append((attribute, array))
        attributes = np.array([a for a, _ in rows], np.int32)
        columns = np.empty((len(rows), stop - start), np.int64)
        highs = []
        for (attribute, array), out in zip(rows, columns, strict=True):
            named = functools.partial(self._place, attribute, start)
            highs.append(self._write(array, attribute, out, named))
        keys = dense(columns, attributes, _all_highs(highs, columns))
        if self._maps:
            parts = [self._keys_of_map(name, column, start, stop) for name, column in self._maps]
            keys = together(keys, merge_sparse(parts))
        elif self._compressed:
            keys = _compress(keys)
        return keys

    def _write(
        self, array: pa.Array, attribute: int, out: np.ndarray, named: Callable[[int], str]
    ) -> np.ndarray | None:
        """Write the keys of an attribute, or others of its kind; return high ends if it has ranges.

        `named` says of a place in the array where that is.
        """
        kind, name = self._schema.kind(attribute), self._schema.name(attribute)
        if not is_range(array.type):
            column_keys(array, kind, self._schema, self._coder, out, name)
            return None
        high = range_keys(array, kind, self._schema, self._coder, out, name)
        bad = bad_range(kind, out, high)
        if bad is not None:
            place, why = bad
            raise EventError(f"{named(place)}: {why}; got {python_value(array[place])!r}")
        return high

    def _place(self, attribute: int, before: int, number: int) -> str:
        return f"event {before + number}: attribute {self._schema.name(attribute)!r}"

    def _entry(
        self,
        offsets: np.ndarray,
        attributes: np.ndarray,
        chosen: np.ndarray,
        before: int,
        place: int,
    ) -> str:
        entry = np.flatnonzero(chosen)[place]
        event = int(np.searchsorted(offsets, entry, side="right")) - 1
        return self._place(int(attributes[entry]), before, event)

    def value(self, attribute: int, row: int) -> Any:
        """Return the value that an event has for an attribute, as it was given."""
        value = self._given(attribute, row)
        if isinstance(value, dict) and value["low"] is None:
            return None  # a range without ends
        return value

    def _given(self, attribute: int, row: int) -> Any:
        name = self._schema.name(attribute).lower()
        if self._dicts:
            # Of several spellings of a name the last counts, here as in `keys`.
            given = [v for k, v in self._dicts[row].items() if str(k).lower() == name]
            return given[-1] if given else None
        for known, column in self._columns:
            if known == attribute:
                return python_value(column[row])
        found = [
            value
            for _, column in self._maps
            for key, value in python_value(column[row]) or ()
            if str(key).lower() == name
        ]
        return found[-1] if found else None

    def _keys_of_dicts(self, start: int, stop: int) -> Keys:
        used = self._used
        if len(used) <= _FEW:
            rows = [[line.NULL] * (stop - start) for _ in used]
            highs: list[list[int]] = []  # made when the first range comes
            for number, attribute, key, high in self._entries(used, start, stop):
                row = used[attribute]
                rows[row][number - start] = key
                if key != high and not highs:
                    highs = [list(each) for each in rows]
                if highs:
                    highs[row][number - start] = high
            shape = len(used), stop - start
            columns = np.array(rows, np.int64).reshape(shape)
            upper = np.array(highs, np.int64).reshape(shape) if highs else None
            return dense(columns, np.array(list(used), np.int32), upper)
        ranged = False
        counts = [0] * (stop - start + 1)
        attributes: list[int] = []
        keys: list[int] = []
        high_keys: list[int] = []
        for number, attribute, key, high in self._entries(used, start, stop):
            counts[number - start + 1] += 1
            attributes.append(attribute)
            keys.append(key)
            high_keys.append(high)
            ranged |= key != high
        return sparse(
            np.cumsum(counts),
            np.array(attributes, np.int32),
            np.array(keys, np.int64),
            np.array(high_keys, np.int64) if ranged else None,
        )

    def _entries(
        self, used: Mapping[int, int], start: int, stop: int
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield event, attribute, low and high key of what dicts say of the attributes in use."""
        find, kinds = self._schema.find, self._schema.kinds
        for number in range(start, stop):
            event = self._dicts[number]
            if not isinstance(event, Mapping):
                raise EventError(
                    f"event {number} must be a dict of attribute values, got "
                    f"{type(event).__name__}; for columns use a table, as in pyarrow.table(...)"
                )
            for name, value in event.items():
                if not isinstance(name, str):
                    continue
                attribute = find(name)
                if attribute is None or attribute not in used:
                    continue
                if value is None:
                    # Not passed over: of several spellings of a name the last counts.
                    yield number, attribute, line.NULL, line.NULL
                    continue
                if type(value) is dict:
                    yield number, attribute, *self._range(attribute, value, number)
                    continue
                # The usual ones first: a single event takes as long to read as to match.
                if type(value) is float and kinds[attribute] == "number":
                    key = line.number_key(value)
                elif type(value) is int and kinds[attribute] == "integer" and abs(value) < 2**63:
                    key = line.integer_key(value)
                else:
                    key = self._key(attribute, value, number)
                yield number, attribute, key, key

    def _range(self, attribute: int, value: dict[str, Any], number: int) -> tuple[int, int]:
        """Return the keys of a range's ends."""
        kind = self._schema.kind(attribute)
        trouble = (
            f"the attribute is {ARTICLE[kind]}, and only integers, numbers and times have ranges"
            if kind not in RANGE_KINDS
            else "a range is a dict of low and high"
        )
        if kind in RANGE_KINDS and set(value) == set(RANGE):
            low, high = (
                line.NULL if value[end] is None else self._key(attribute, value[end], number)
                for end in RANGE
            )
            bad = bad_range(kind, np.array([low]), np.array([high]))
            if bad is None:
                return low, high
            trouble = bad[1]
        raise EventError(f"{self._place(attribute, 0, number)}: {trouble}; got {value!r}")

    def _key(self, attribute: int, value: Any, number: int) -> int:
        kind: Kind = self._schema.kind(attribute)
        if isinstance(value, np.generic):
            if isinstance(value, np.datetime64):
                value = value.astype("datetime64[us]")
            value = value.item()
            if value is None:  # NumPy's NaT
                return line.NULL
        if kind == "number" and type(value) in (float, int):
            try:
                return line.number_key(float(value))
            except OverflowError:
                raise EventError(
                    f"event {number}: attribute {self._schema.name(attribute)!r} is a number of "
                    "64 bits, and the event's integer is too large for one"
                ) from None
        if kind == "category" and isinstance(value, str):
            return self._coder.categories.get(value, line.OTHER)
        if kind == "flag" and isinstance(value, bool):
            return int(value)
        if kind == "integer" and type(value) is int:
            if not -(2**63) <= value < 2**63:
                raise EventError(
                    f"event {number}: attribute {self._schema.name(attribute)!r} is an integer of "
                    f"64 bits, and {value} does not fit"
                )
            return line.integer_key(value)
        if kind == "time" and isinstance(value, datetime.date):
            if value != value:  # pandas' NaT
                return line.NULL
            return line.integer_key(line.time_key(value, self._schema.zone))
        raise EventError(
            f"event {number}: attribute {self._schema.name(attribute)!r} is {ARTICLE[kind]}, "
            f"but the event has {type(value).__name__} {value!r}" + _advice(kind, value)
        )

    def _keys_of_map(self, name: str, column: pa.ChunkedArray, start: int, stop: int) -> Keys:
        used = frozenset(self._used) - {a for a, _ in self._columns}
        offsets, attributes, items = map_entries(slice_of(column, start, stop), self._schema, used)
        keys, highs = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
        present = [int(a) for a in np.unique(attributes)]
        for kind in {self._schema.kind(a) for a in present}:
            of_kind = [a for a in present if self._schema.kind(a) == kind]
            shown = self._schema.name(of_kind[0])
            try:
                check_type(items.type, kind, shown)
            except EventError as error:
                raise error.at(f"map column {name!r}") from None
            chosen = np.isin(attributes, of_kind)
            some = np.empty(int(chosen.sum()), np.int64)
            values = items.filter(pa.array(chosen))
            named = functools.partial(self._entry, offsets, attributes, chosen, start)
            high = self._write(values, of_kind[0], some, named)
            keys[chosen] = some
            highs[chosen] = some if high is None else high
        return sparse(offsets, attributes, keys, highs if is_range(items.type) else None)


def map_entries(
    array: pa.MapArray, schema: Schema, used: frozenset[int] | None
) -> tuple[np.ndarray, np.ndarray, pa.Array]:
    """Return a map column's entries as compressed rows: offsets, attributes and items.

    Only entries whose names are attributes in `used`; if that is None, every name must be an
    attribute.
    """
    offsets = np.asarray(array.offsets).astype(np.int64)[: len(array) + 1]
    first, entries = int(offsets[0]), int(offsets[-1] - offsets[0])
    offsets -= first
    names = plain(array.keys.slice(first, entries)).dictionary_encode()
    attribute_of = np.full(len(names.dictionary), -1, np.int32)
    for i, name in enumerate(names.dictionary.to_pylist()):
        attribute = schema.index(name) if used is None else schema.find(name)
        if attribute is not None and (used is None or attribute in used):
            attribute_of[i] = attribute
    attributes = attribute_of[np.asarray(names.indices)]
    keep = attributes >= 0
    if array.null_count:
        keep &= np.repeat(np.asarray(array.is_valid()), np.diff(offsets))
    before = np.concatenate([[0], np.cumsum(keep)])
    items = array.items.slice(first, entries).filter(pa.array(keep))
    return before[offsets], attributes[keep], items


def merge_sparse(parts: Sequence[Keys]) -> Keys:
    """Return compressed rows that hold, event by event, the rows of all parts."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.sum([p.offsets for p in parts], axis=0)
    attribute = np.empty(int(offsets[-1]), np.int32)
    key, high = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]), np.int64)
    cursor = offsets[:-1].copy()
    for part in parts:
        lengths = np.diff(part.offsets)
        to = np.repeat(cursor - part.offsets[:-1], lengths) + np.arange(len(part.key))
        attribute[to], key[to], high[to] = part.attribute, part.key, part.highs[1]
        cursor += lengths
    return sparse(offsets, attribute, key, high)


def to_table(source: Any, names: Sequence[str] | None, what: str) -> pa.Table:
    """Return an Arrow table of whatever speaks Arrow.

    Of a pandas frame only the named columns (and the mixed ones that Arrow could
    not hold are left alone); `names` is None to take all.
    """
    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if is_pandas(source):
        if names is not None:
            wanted = {n.lower() for n in names}
            source = source.loc[:, [str(c).lower() in wanted for c in source.columns]]
        with refusing(EventError, f"the {what} have columns that Arrow cannot hold"):
            return pa.Table.from_pandas(source, preserve_index=False)
    if hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        with refusing(EventError, f"the {what} are not a table"):
            return pa.table(source)
    raise EventError(
        f"the {what} must be a dict, a list of dicts, or a table that speaks Arrow (pyarrow, "
        f"pandas, polars, duckdb); got {type(source).__name__}"
    )


def is_pandas(source: Any) -> bool:
    """Tell whether something is a pandas frame, without importing pandas."""
    return type(source).__module__.partition(".")[0] == "pandas" and hasattr(source, "columns")


def is_sparse(type_: pa.DataType) -> bool:
    """Tell whether a column holds sparse attributes: a map from text to a value."""
    return t.is_map(type_) and is_text(type_.key_type)


def slice_of(column: pa.ChunkedArray, start: int, stop: int) -> pa.Array:
    """Return rows of a column as one array, copied only if they span several chunks."""
    return combined(column.slice(start, stop - start))


def _compress(keys: Keys) -> Keys:
    """Return columns as compressed rows."""
    counts = np.empty(keys.size, np.int64)
    count_present(keys.columns, counts)
    total = int(counts.sum())
    offsets = np.concatenate([[0], np.cumsum(counts)])
    attribute = np.empty(total, np.int64)
    key, high = np.empty(total, np.int64), None
    compress(keys.columns, keys.column_attribute, offsets[:-1].copy(), attribute, key)
    if keys.ranged:  # with null where the low end is null
        high = np.empty(total, np.int64)
        compress(keys.columns_high, keys.column_attribute, offsets[:-1].copy(), attribute, high)
    return sparse(offsets, attribute, key, high)


def _all_highs(highs: list[np.ndarray | None], columns: np.ndarray) -> np.ndarray | None:
    """Return the high ends of all columns, which for values are the values."""
    if all(high is None for high in highs):
        return None
    rows = [low if high is None else high for high, low in zip(highs, columns, strict=True)]
    return np.array(rows)


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "") or "no columns"


def _advice(kind: Kind, value: Any) -> str:
    if isinstance(value, list | tuple | np.ndarray):
        return "; a dict is one event: for columns use a table, as in pyarrow.table(...)"
    if kind == "time" and isinstance(value, str):
        return "; parse it first, as in datetime.fromisoformat(...)"
    if kind == "integer" and isinstance(value, float):
        return "; declare the attribute as a number, or give an int"
    return ""
