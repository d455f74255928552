"""Encodes events as keys. Events are a dict, a list of dicts, or any Arrow-compatible table.

Only attributes that a rule tests are read. A table must have a column for each of them, unless it
has a column of map type (text to value), whose entries are sparse attributes by name. If an
attribute also has its own column, the column is used. In a dict, an absent name is null. Terms are
computed from the columns that they mention, block by block.

An integer, decimal, number or time can be a range with inclusive ends. In Arrow this is a struct of
`low` and `high`, as a column or as the values of a map; in a dict it is a dict of the two. A
predicate holds for a range if some value in it satisfies the predicate. The range of a number can
have a density, see `event_densities`.

Events are encoded in blocks, so memory use does not depend on the number of events. The keys of an
event do not depend on its block, with one exception: in a block with a range, all events have high
ends. So threads may read any slices of tables without ranges (`can_split`), and other events as
`EncodedEvents`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.errors import EventError, suggest
from tocsin.model import encoding
from tocsin.model.arrow import decode, to_python
from tocsin.model.categories import Categories
from tocsin.model.columns import (
    CategoryEncoder,
    check_column_type,
    find_bad_range,
    has_densities,
    is_range,
    write_keys,
    write_range_keys,
)
from tocsin.model.computed import ComputedColumns
from tocsin.model.event_densities import (
    INFINITE,
    Density,
    DensityCollector,
    EventBlock,
    ValueDensities,
    check_ends,
    join_densities,
    uniform_densities,
    write_density_keys,
)
from tocsin.model.event_tables import (
    is_pandas,
    is_sparse,
    last_entries,
    map_entries,
    slice_column,
    to_table,
)
from tocsin.model.keys import (
    Keys,
    add_columns,
    combine_keys,
    compress,
    count_present,
    dense_keys,
    key_column,
    sparse_keys,
)
from tocsin.model.python_values import ValueEncoder
from tocsin.model.schema import Schema

BLOCK = 1 << 16  # events, at most
_MAX_KEYS = 1 << 22  # in one block, chosen: 32 MB; wide events have smaller blocks
_MAX_DENSE = 8  # attributes up to which dicts become columns, chosen
_MIN_SPARSE = 64  # columns above which mostly null events become compressed rows, chosen
_MATCH_ON_SPARK = (
    "use tocsin.spark.match, with how='count' or how='top' in place of count and top, or toArrow() "
    "for a few rows"
)


class Events:
    """Events of one call, read as keys in blocks. `len(events)` is the number of events.

    `used` are the attributes that rules test. If some rule has a threshold, `uncertain` returns the
    attributes that such rules test.
    """

    def __init__(
        self,
        schema: Schema,
        used: Iterable[int],
        categories: Categories,
        uncertain: Callable[[], set[int]] | None = None,
    ):
        self._schema = schema
        self._uncertain = uncertain
        # The row of each attribute. Callers that match single events pass the dict itself.
        self._used = used if isinstance(used, dict) else {a: row for row, a in enumerate(used)}
        terms = schema.terms and {a: schema.terms[a] for a in self._used if a in schema.terms}
        self._computed = ComputedColumns(terms, schema) if terms else None
        self._encoder = CategoryEncoder(categories)
        self._values = ValueEncoder(schema, categories)
        self._dicts: Sequence[Mapping[str, Any]] = ()
        self._columns: list[tuple[int, pa.ChunkedArray]] = []
        self._filled: list[tuple[int, pa.ChunkedArray]] = []  # the columns that are not all null
        self._is_sparse = False  # whether columns become compressed rows
        self._maps: list[tuple[str, pa.ChunkedArray]] = []
        self._has_sparse = False  # whether some attribute has no column of its own
        self._size = 0

    @classmethod
    def read(
        cls,
        source: Any,
        schema: Schema,
        used: Iterable[int],
        categories: Categories,
        uncertain: Callable[[], set[int]] | None = None,
        on_spark: str = _MATCH_ON_SPARK,
    ) -> Events:
        """Return the events in any supported input; `on_spark` is advice for a Spark DataFrame."""
        events = cls(schema, used, categories, uncertain)
        if isinstance(source, Mapping):
            source = [source]
        if isinstance(source, list | tuple):
            events._size = len(source)
            events._dicts = source
            return events
        computed = events._computed
        names = [schema.name(a) for a in used] + list(computed.sources if computed else ())
        table = to_table(source, names, "events", on_spark)
        events._size, names = table.num_rows, table.column_names
        if is_pandas(source):
            # The table has only the tested columns, and no rows if there are none.
            events._size, names = len(source), list(map(str, source.columns))
        events._bind(table, names)
        return events

    def __len__(self) -> int:
        return self._size

    def _bind(self, table: pa.Table, names: Sequence[str]) -> None:
        """Find the columns of the attributes; `names` are all columns that the events have."""
        by_name: dict[str, list[str]] = {}
        for name in table.column_names:
            by_name.setdefault(name.lower(), []).append(name)
        self._maps = [
            (f.name, table.column(i)) for i, f in enumerate(table.schema) if is_sparse(f.type)
        ]
        for attribute in self._used:
            if attribute in self._schema.terms:
                continue
            column = self._find_column(table, by_name, self._schema.name(attribute), names)
            if column is not None:
                check_column_type(
                    column.type, self._schema.kind(attribute), self._schema.name(attribute)
                )
                self._columns.append((attribute, column))
            else:
                self._has_sparse = True
        if self._computed:
            for name in self._computed.sources:
                column = self._find_column(table, by_name, name, names)
                if column is not None:
                    self._computed.check_type(name, column.type)
                    self._computed.bind(name, functools.partial(slice_column, column))
                else:
                    self._computed.bind(name, functools.partial(self._column_of_maps, name))
        # The same for all blocks, so that the keys of an event do not depend on its block.
        self._filled = [(a, c) for a, c in self._columns if c.null_count < len(c)]
        if len(self._filled) > _MIN_SPARSE and not self._has_sparse:
            present = sum(len(column) - column.null_count for _, column in self._filled)
            self._is_sparse = 4 * present <= len(self._filled) * self._size

    def _find_column(
        self, table: pa.Table, by_name: Mapping[str, list[str]], name: str, names: Sequence[str]
    ) -> pa.ChunkedArray | None:
        """Return the column with a name, or None if only a map can have it."""
        candidates = by_name.get(name.lower(), [])
        if len(candidates) > 1:
            candidates = [c for c in candidates if c == name] or candidates
        if len(candidates) > 1:
            raise EventError(
                f"the events have {len(candidates)} columns for attribute {name!r} "
                f"({', '.join(candidates)}); rename or drop all but one"
            )
        if not candidates and not self._maps:
            raise EventError(
                f"the events have no column {name!r}, which a rule tests"
                + (suggest(name, names) or f"; they have {_list_names(names)}")
            )
        return table.column(candidates[0]) if candidates else None

    @property
    def can_split(self) -> bool:
        """Whether any thread may read any slice of the events.

        Not of dicts, whose reading runs Python code, perhaps the user's own; nor of events with
        ranges.
        """
        types = [column.type for _, column in self._filled]
        types += [column.type.item_type for _, column in self._maps if self._has_sparse]
        return not self._dicts and not any(map(is_range, types))

    def blocks(self, first: int = 0, stop: int | None = None) -> Iterator[EventBlock]:
        """Yield all events, or those from `first` up to `stop`, in blocks."""
        size = max(256, min(BLOCK, _MAX_KEYS // max(1, len(self._used))))
        end = self._size if stop is None else stop
        for start in range(first, end, size):
            yield self.block(start, min(start + size, end))

    def block(self, start: int, stop: int) -> EventBlock:
        """Return the events from `start` up to `stop`."""
        if self._uncertain is None:
            return EventBlock(self.keys(start, stop), None)
        densities = DensityCollector()
        keys = self.keys(start, stop, densities)
        return EventBlock(keys, densities.build(stop - start))

    def keys(self, start: int, stop: int, densities: DensityCollector | None = None) -> Keys:
        """Return the keys of the events from `start` up to `stop`, and collect their densities."""
        if self._dicts:
            return self._keys_of_dicts(start, stop, densities)
        rows: list[tuple[int, pa.Array]] = []
        for attribute, column in self._filled:
            array = slice_column(column, start, stop)
            if not self._is_sparse or array.null_count < len(array):
                rows.append((attribute, array))
        computed = self._computed.compute(start, stop) if self._computed else []
        attributes = np.array([a for a, _ in rows + computed], np.int32)
        columns = np.empty((len(attributes), stop - start), np.int64)
        highs: list[np.ndarray | None] = [None] * len(columns)
        for i, (attribute, array) in enumerate(rows):
            describe = functools.partial(self._describe_value, attribute, start)
            high, found = self._write(array, attribute, columns[i], describe)
            highs[i] = high
            if densities is not None and high is not None and self._uncertain is not None:
                numbers = np.full(len(array), attribute)
                check_ends(self._schema, numbers, columns[i], high, self._uncertain, describe)
                if found is not None:
                    densities.add(np.arange(len(array)), numbers, found)
        for i, (attribute, array) in enumerate(computed, len(rows)):
            assert self._computed is not None
            self._computed.write(attribute, array, self._encoder, columns[i])
        keys = dense_keys(columns, attributes, _complete_highs(highs, columns))
        if self._has_sparse:
            parts = [
                self._keys_of_map(name, column, start, stop, densities)
                for name, column in self._maps
            ]
            keys = combine_keys(keys, merge_sparse(parts))
        elif self._is_sparse:
            keys = _compress(keys)
        return keys

    def _write(
        self, array: pa.Array, attribute: int, out: np.ndarray, describe: Callable[[int], str]
    ) -> tuple[np.ndarray | None, ValueDensities | None]:
        """Write the keys of an array; return those of high ends and densities, if it has them.

        All values are of the attribute's kind. `describe` returns the name of the value at an
        index of the array, for messages.
        """
        kind, name = self._schema.kind(attribute), self._schema.name(attribute)
        if not is_range(array.type):
            write_keys(array, kind, self._schema, self._encoder, out, name)
            return None, None
        if has_densities(array.type):
            return write_density_keys(array, out, describe)
        high = write_range_keys(array, kind, self._schema, self._encoder, out, name)
        bad = find_bad_range(kind, out, high)
        if bad is not None:
            i, reason = bad
            raise EventError(f"{describe(i)}: {reason}; got {to_python(array[i])!r}")
        return high, None

    def _describe_value(self, attribute: int, start: int, event: int) -> str:
        return f"event {start + event}: attribute {self._schema.name(attribute)!r}"

    def _describe_entry(
        self,
        offsets: np.ndarray,
        attributes: np.ndarray,
        mask: np.ndarray,
        start: int,
        i: int,
    ) -> str:
        """Describe the i-th of the map entries where `mask` is true."""
        entry = np.flatnonzero(mask)[i]
        event = int(np.searchsorted(offsets, entry, side="right")) - 1
        return self._describe_value(int(attributes[entry]), start, event)

    def count_ranges(self, attributes: Sequence[int]) -> int:
        """Return how many events have a range in place of a value of some of these attributes."""
        types = [column.type for attribute, column in self._columns if attribute in attributes]
        types += [column.type.item_type for _, column in self._maps]
        names = {self._schema.name(attribute).lower() for attribute in attributes}
        may_have = any(map(is_range, types)) or any(
            type(value) is dict and str(name).lower() in names
            for event in self._dicts
            if isinstance(event, Mapping)
            for name, value in event.items()
        )
        count = 0
        for keys, _ in self.blocks() if may_have else ():
            high, key_high = keys.highs
            ends = keys._replace(columns=high, key=key_high)
            different = [key_column(keys, a) != key_column(ends, a) for a in attributes]
            count += int(np.any(different, axis=0).sum())
        return count

    def value(self, attribute: int, row: int) -> Any:
        """Return the value that an event has for an attribute, as it was given."""
        value = self._raw_value(attribute, row)
        if isinstance(value, dict) and value.get("low") is None and value.get("edges") is None:
            return None  # a range without ends
        return value

    def _raw_value(self, attribute: int, row: int) -> Any:
        if self._computed and attribute in self._schema.terms:
            arrays = (
                self._computed.compute_dicts(self._dicts, row, row + 1, self._values.key_of_kind)
                if self._dicts
                else self._computed.compute(row, row + 1)
            )
            return to_python(dict(arrays)[attribute][0])
        name = self._schema.name(attribute).lower()
        if self._dicts:
            # The last of several spellings of a name counts, as in `keys`.
            values = [v for k, v in self._dicts[row].items() if str(k).lower() == name]
            return values[-1] if values else None
        for known, column in self._columns:
            if known == attribute:
                return to_python(column[row])
        values = [
            value
            for _, column in self._maps
            for key, value in to_python(column[row]) or ()
            if str(key).lower() == name
        ]
        return values[-1] if values else None

    def _keys_of_dicts(self, start: int, stop: int, densities: DensityCollector | None) -> Keys:
        found: dict[tuple[int, int], Density] = {}
        keys = self._given_keys_of_dicts(start, stop, found)
        if densities is not None and found:
            numbers, attributes = np.array(list(found)).T
            densities.add(numbers - start, attributes, join_densities(list(found.values())))
        if self._computed is None:
            return keys
        arrays = self._computed.compute_dicts(self._dicts, start, stop, self._values.key_of_kind)
        columns = np.empty((len(arrays), stop - start), np.int64)
        for (attribute, array), out in zip(arrays, columns, strict=True):
            self._computed.write(attribute, array, self._encoder, out)
        return add_columns(keys, columns, np.array(self._computed.attributes, np.int32))

    def _given_keys_of_dicts(
        self, start: int, stop: int, densities: dict[tuple[int, int], Density]
    ) -> Keys:
        """Return the keys of values that are in the dicts, without computed ones.

        Densities are added by event and attribute.
        """
        used = self._used
        if self._computed is not None:
            given = [a for a in used if a not in self._schema.terms]
            used = {attribute: row for row, attribute in enumerate(given)}
        if len(used) <= _MAX_DENSE:
            rows = [[encoding.NULL] * (stop - start) for _ in used]
            highs: list[list[int]] = []  # filled from the first range on
            for number, attribute, key, high in self._entries(used, start, stop, densities):
                row = used[attribute]
                rows[row][number - start] = key
                if key != high and not highs:
                    highs = [list(each) for each in rows]
                if highs:
                    highs[row][number - start] = high
            shape = len(used), stop - start
            columns = np.array(rows, np.int64).reshape(shape)
            columns_high = np.array(highs, np.int64).reshape(shape) if highs else None
            return dense_keys(columns, np.array(list(used), np.int32), columns_high)
        has_ranges = False
        counts = [0] * (stop - start + 1)
        attributes: list[int] = []
        keys: list[int] = []
        high_keys: list[int] = []
        for number, attribute, key, high in self._entries(used, start, stop, densities):
            counts[number - start + 1] += 1
            attributes.append(attribute)
            keys.append(key)
            high_keys.append(high)
            has_ranges |= key != high
        return sparse_keys(
            np.cumsum(counts),
            np.array(attributes, np.int32),
            np.array(keys, np.int64),
            np.array(high_keys, np.int64) if has_ranges else None,
        )

    def _entries(
        self,
        used: Mapping[int, int],
        start: int,
        stop: int,
        densities: dict[tuple[int, int], Density],
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield (event, attribute, low key, high key) for each used value in the dicts."""
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
                    # Not skipped, because the last of several spellings of a name counts.
                    yield number, attribute, encoding.NULL, encoding.NULL
                    continue
                if type(value) is dict:
                    low, high, density = self._values.range_keys(attribute, value, number)
                    if self._uncertain is not None and (low == INFINITE[0] or high == INFINITE[1]):
                        describe = functools.partial(self._describe_value, attribute, number)
                        ends = np.array([low]), np.array([high])
                        check_ends(self._schema, [attribute], *ends, self._uncertain, describe)
                    # A density that another spelling of the name has does not count.
                    densities.pop((number, attribute), None)
                    if density is not None:
                        densities[number, attribute] = density
                    yield number, attribute, low, high
                    continue
                # The usual types first: reading a single event takes as long as matching it.
                if type(value) is float and kinds[attribute] == "number":
                    key = encoding.number_key(value)
                elif type(value) is int and kinds[attribute] == "integer" and abs(value) < 2**63:
                    key = encoding.integer_key(value)
                else:
                    key = self._values.key(attribute, value, number)
                yield number, attribute, key, key

    def _column_of_maps(self, name: str, start: int, stop: int) -> pa.Array:
        """Return the values that maps have for a name; a later map counts, even if it has null."""
        attribute, values = self._schema.find(name), None
        if attribute is None:
            return pa.nulls(stop - start)
        for map_name, column in self._maps:
            entries = slice_column(column, start, stop)
            offsets, _, items = map_entries(entries, self._schema, frozenset([attribute]))
            if not len(items):
                continue
            assert self._computed is not None
            try:
                latest = self._computed.normalise(name, last_entries(offsets, decode(items)))
            except EventError as error:
                raise error.with_place(f"map column {map_name!r}") from None
            has_entry = pa.array(offsets[1:] > offsets[:-1])
            values = latest if values is None else pc.if_else(has_entry, latest, values)
        return pa.nulls(stop - start) if values is None else values

    def _keys_of_map(
        self,
        name: str,
        column: pa.ChunkedArray,
        start: int,
        stop: int,
        densities: DensityCollector | None,
    ) -> Keys:
        used = frozenset(self._used) - {a for a, _ in self._columns}
        entries = slice_column(column, start, stop)
        offsets, attributes, items = map_entries(entries, self._schema, used)
        keys, highs = np.empty(len(items), np.int64), np.empty(len(items), np.int64)
        present = [int(a) for a in np.unique(attributes)]
        for kind in {self._schema.kind(a) for a in present}:
            of_kind = [a for a in present if self._schema.kind(a) == kind]
            try:
                check_column_type(items.type, kind, self._schema.name(of_kind[0]))
            except EventError as error:
                raise error.with_place(f"map column {name!r}") from None
            mask = np.isin(attributes, of_kind)
            low = np.empty(int(mask.sum()), np.int64)
            values = items.filter(pa.array(mask))
            describe = functools.partial(self._describe_entry, offsets, attributes, mask, start)
            high, found = self._write(values, of_kind[0], low, describe)
            if densities is not None and high is not None and self._uncertain is not None:
                own = attributes[mask]
                check_ends(self._schema, own, low, high, self._uncertain, describe)
                events = np.searchsorted(offsets, np.flatnonzero(mask), side="right") - 1
                # Also those of plain ranges: this map may replace what another one has.
                densities.add(events, own, found or uniform_densities(low, high))
            keys[mask] = low
            highs[mask] = low if high is None else high
        return sparse_keys(offsets, attributes, keys, highs if is_range(items.type) else None)


def merge_sparse(parts: Sequence[Keys]) -> Keys:
    """Return compressed rows with the rows of all parts, event by event."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.sum([p.offsets for p in parts], axis=0)
    attribute = np.empty(int(offsets[-1]), np.int32)
    key, high = np.empty(int(offsets[-1]), np.int64), np.empty(int(offsets[-1]), np.int64)
    cursor = offsets[:-1].copy()
    for part in parts:
        lengths = np.diff(part.offsets)
        at = np.repeat(cursor - part.offsets[:-1], lengths) + np.arange(len(part.key))
        attribute[at], key[at], high[at] = part.attribute, part.key, part.highs[1]
        cursor += lengths
    return sparse_keys(offsets, attribute, key, high)


def _compress(keys: Keys) -> Keys:
    """Return columns as compressed rows."""
    counts = np.empty(keys.size, np.int64)
    count_present(keys.columns, counts)
    total = int(counts.sum())
    offsets = np.concatenate([[0], np.cumsum(counts)])
    attribute = np.empty(total, np.int64)
    key, high = np.empty(total, np.int64), None
    compress(keys.columns, keys.column_attribute, offsets[:-1].copy(), attribute, key)
    if keys.has_ranges:  # a high end is null where the low end is null
        high = np.empty(total, np.int64)
        compress(keys.columns_high, keys.column_attribute, offsets[:-1].copy(), attribute, high)
    return sparse_keys(offsets, attribute, key, high)


def _complete_highs(highs: list[np.ndarray | None], columns: np.ndarray) -> np.ndarray | None:
    """Return the high ends of all columns, or None if none has ranges. A value is its own."""
    if all(high is None for high in highs):
        return None
    rows = [low if high is None else high for high, low in zip(highs, columns, strict=True)]
    return np.array(rows)


def _list_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", ..." if len(names) > 8 else "") or "no columns"
