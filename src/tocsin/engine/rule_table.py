"""Rules as a table, and what takes rules to those of another table.

A table of rules in text form has all that a rule is, in any storage and whatever form the rule was
added in. So rules can be kept as a file, compared line by line, and read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from tocsin.engine.explain import condition_text
from tocsin.engine.segment import LiveSegment
from tocsin.engine.version import Version
from tocsin.errors import RuleError
from tocsin.model.arrow import is_text

_OWN = ("id", "where", "weights", "score", "at_least")
_WEIGHTS = pa.map_(pa.string(), pa.float64())


def to_table(version: Version) -> pa.Table:
    """Return rules as the table in text form that `Rules.add_many` reads, in order.

    The columns `weights`, `score` and `at_least` are there if some rule has them; then come those
    of the payload.
    """
    for name in version.payload_schema.names:
        if name.lower() in _OWN:
            raise RuleError(
                f"the rules have a payload column {name!r}, and a table of rules has a column of "
                "that name already"
            )
    own = pa.schema([("id", version.id_type or pa.string()), ("where", pa.large_string())])
    own = own.append(pa.field("weights", _WEIGHTS))
    own = own.append(pa.field("score", pa.float64())).append(pa.field("at_least", pa.float64()))
    schema = pa.schema([*own, *version.payload_schema])
    table = pa.concat_tables(
        [
            schema.empty_table(),
            *(_segment_table(version, live, schema) for live in version.segments),
        ]
    )
    unused = [n for n in _OWN[2:] if table.column(n).null_count == len(table)]
    return table.drop_columns(unused)


def _segment_table(version: Version, live: LiveSegment, schema: pa.Schema) -> pa.Table:
    metadata, n = live.live_metadata(), len(live)
    where, weights = metadata.where, pa.nulls(n, _WEIGHTS)
    places = np.flatnonzero(live.alive())
    missing = np.flatnonzero(np.asarray(where.is_null()))
    if len(missing):
        texts = [
            condition_text(live.segment, place, version.attributes, version.categories)
            for place in places[missing].tolist()
        ]
        where = pc.replace_with_mask(where, where.is_null(), pa.array(texts, where.type))
    if any(len(part.conjunctions.weight) for part in live.segment.parts):
        settings = (live.segment.settings(place).weights for place in places.tolist())
        name = version.attributes.name
        pairs = [[(name(a), weight) for a, weight in each.items()] or None for each in settings]
        weights = pa.array(pairs, _WEIGHTS)
    columns = [
        metadata.ids.cast(schema.field("id").type),
        where,
        weights,
        _without(metadata.score, np.isnan, n),
        _without(metadata.at_least, lambda values: values == 0, n),
        *metadata.payload_as(version.payload_schema).columns,
    ]
    return pa.table(columns, schema=schema)


def _without(values: np.ndarray, is_none: Callable[[np.ndarray], np.ndarray], n: int) -> pa.Array:
    """Return numbers as a column with nulls; no numbers at all are n nulls."""
    if not len(values):
        return pa.nulls(n, pa.float64())
    return pa.array(values, pa.float64(), mask=is_none(values))


class Steps(NamedTuple):
    """What takes some rules to others: ids to remove, and a table of rules to add after that."""

    removed: pa.Array
    added: pa.Table


def find_steps(current: pa.Table, wanted: pa.Table) -> Steps:
    """Return what takes the rules of one table to those of another; changed rules are in both."""
    ids, own_type = wanted.column("id"), current.schema.field("id").type
    if not len(current) or not len(wanted) or is_text(ids.type) != is_text(own_type):
        return Steps(_ids(current), wanted)
    place = pc.index_in(current.column("id").cast(ids.type), ids)
    kept = place.is_valid()
    own, other = current.filter(kept), wanted.take(place.drop_null())
    is_same = np.ones(len(own), bool)
    for name in {*own.column_names, *other.column_names} - {"id"}:
        is_same &= _are_equal(_column(own, name), _column(other, name))
    stays = own.column("id").filter(pa.array(is_same))
    is_changed = pc.invert(pc.is_in(current.column("id"), stays))
    is_new = pc.invert(pc.is_in(ids, stays.cast(ids.type)))
    return Steps(_ids(current.filter(is_changed)), wanted.filter(is_new))


def _ids(table: pa.Table) -> pa.Array:
    return table.column("id").combine_chunks()


def _column(table: pa.Table, name: str) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(len(table))
    return table.column(name).combine_chunks()


def _are_equal(own: pa.Array, other: pa.Array) -> np.ndarray:
    """Return where two columns have the same value, or both have none."""
    try:
        equal = pc.equal(own, other.cast(own.type)).fill_null(False)
        both = pc.and_(own.is_null(), other.is_null())
        if t.is_floating(own.type):
            both = pc.or_(both, pc.and_(pc.is_nan(own), pc.is_nan(other)).fill_null(False))
        return np.asarray(pc.or_(equal, both))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # nested values, or other types
        pairs = zip(own.to_pylist(), other.to_pylist(), strict=True)
        return np.array([a == b for a, b in pairs], bool)
