"""Tables of rules, in three forms told apart by their columns, to conjunctions.

* text: `id`, `where` and, if wanted, `weights` (a map from attribute to weight)
* boxes: `id` and `x_low`, `x_high`, ... for attributes x: both ends belong to the
  box, null is unbounded, and an attribute without either end is not tested
* long: `id`, `attribute`, `low`, `high` and, if wanted, `weight`: a row per predicate,
  all rows of one id are one conjunction; `low` and `high` of a category are its value

Further columns are payload. Boxes and long rows never pass through Python objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import ConditionError, EventError, RuleError, TocsinError, near
from tocsin.model.arrow import combined, is_text, plain, refusing
from tocsin.model.bounds import Bounds
from tocsin.model.categories import Categories
from tocsin.model.columns import check_type
from tocsin.model.condition import Conditions
from tocsin.model.conjunctions import Builder, Conjunctions, conjunctions
from tocsin.model.events import is_sparse, map_entries, to_table
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import KINDS, Schema
from tocsin.model.weights import weights_of_pairs

_NO_BOUNDS = np.empty(0)


class RuleTable(NamedTuple):
    """Rules read from a table: n of them, in the table's order."""

    ids: pa.Array  # [n] int64 or large text
    id_type: pa.DataType  # as they were given
    rows: np.ndarray  # [n] the table's row where each rule starts, for messages
    where: pa.Array  # [n] texts, null for boxes and long rows
    conjunctions: Conjunctions  # rules by number, from `first` on
    payload: pa.Table  # [n] rows


def read_rules(
    source: Any, conditions: Conditions, categories: Categories, first: int
) -> RuleTable:
    """Return the rules of a table, positions counted from `first`; raise on the first bad row."""
    try:
        table = _table(source)
    except EventError as error:
        raise RuleError(str(error)) from None
    names = table.column_names
    if not len(table) and not names:
        table = pa.table({"id": pa.array([], pa.string()), "where": pa.array([], pa.string())})
        names = table.column_names
    if "id" not in names:
        raise RuleError(f"a table of rules needs a column 'id'; {_forms(names)}")
    if len(set(names)) < len(names):
        double = next(n for n in names if names.count(n) > 1)
        raise RuleError(f"the table of rules has two columns {double!r}; rename or drop one")
    given = plain(table.column("id"))
    ids = _checked_ids(given)
    boxes = _box_columns(names, conditions.schema)
    form = _form(names, boxes)
    with refusing(RuleError, "the table of rules"):
        if form == "text":
            read = _read_texts(table, ids, conditions, categories, first)
        elif form == "long":
            read = _read_long(table, ids, conditions.schema, categories, first)
        else:
            read = _read_boxes(table, ids, boxes, conditions.schema, categories, first)
    return read._replace(id_type=given.type)


def _form(names: list[str], boxes: dict[int, tuple[str | None, str | None]]) -> str:
    """Return which of the three forms a table has; raise if it is none, or two at once."""
    bounds = [n for n in ("low", "high") if n in names]
    columns = {
        "text": ["where"] if "where" in names else [],
        "boxes": [name for ends in boxes.values() for name in ends if name],
        "long": ["attribute", *bounds] if "attribute" in names and bounds else [],
    }
    found = {form: own for form, own in columns.items() if own}
    if not found:
        stems = [n[: n.rindex("_")] for n in names if n.lower().endswith(("_low", "_high"))]
        unknown = f"; the schema has no attribute {stems[0]!r}" if stems else ""
        raise RuleError(_forms(names) + unknown)
    if len(found) > 1:
        what = " and ".join(f"{', '.join(map(repr, own))} ({form})" for form, own in found.items())
        raise RuleError(
            f"the table mixes two forms of rules: {what}; use one of them, and rename payload "
            "columns that have these names"
        )
    return next(iter(found))


def _checked_ids(ids: pa.Array) -> pa.Array:
    """Return ids as int64 or large text; raise on nulls and other types."""
    if ids.null_count:
        row = int(np.flatnonzero(np.asarray(ids.is_null()))[0])
        raise RuleError(f"row {row}: the id is null; every rule needs an id")
    if t.is_integer(ids.type):
        try:
            return ids.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise RuleError(f"an id does not fit 64 bits: {error}") from None
    if is_text(ids.type) or not len(ids):
        return ids.cast(pa.large_string())
    raise RuleError(f"ids must be integers or texts, got a column of type {ids.type}")


def _table(source: Any) -> pa.Table:
    if isinstance(source, list | tuple) and all(isinstance(r, dict) for r in source):
        names = dict.fromkeys(name for row in source for name in row)
        with refusing(RuleError, "the rows do not make a table"):
            return pa.table({n: _column(n, [row.get(n) for row in source]) for n in names})
    if isinstance(source, dict):
        raise RuleError(
            "a table of rules is a list of dicts or speaks Arrow; "
            "for a dict of columns use pyarrow.table(...)"
        )
    return to_table(source, None, "rules")


def _column(name: str, values: list[Any]) -> pa.Array:
    if name == "weights" and any(isinstance(v, dict) for v in values):
        pairs = [list(v.items()) if isinstance(v, dict) else v for v in values]
        return pa.array(pairs, pa.map_(pa.string(), pa.float64()))
    return pa.array(values)


def _payload(table: pa.Table, taken: set[str]) -> pa.Table:
    columns = {n: plain(table.column(n)) for n in table.column_names if n not in taken}
    for name, column in columns.items():
        with refusing(RuleError, f"payload column {name!r} cannot be kept"):
            # What a merge will do to it: rows are picked, and rows without it are null.
            pa.concat_arrays([column.filter(pa.nulls(len(column), pa.bool_())), column.slice(0, 1)])
            for nothing in (pa.array([None], column.type), pa.nulls(1, column.type)):
                together = pa.concat_arrays([nothing, column.slice(0, 1)]).cast(column.type)
                together.validate(full=True)
    return pa.table(columns)


# ---------------------------------------------------------------- text


def _read_texts(
    table: pa.Table, ids: pa.Array, conditions: Conditions, categories: Categories, first: int
) -> RuleTable:
    column = table.column("where")
    try:
        check_type(column.type, "category", "where")
    except EventError:
        raise RuleError(f"the column 'where' must be texts, got type {column.type}") from None
    where = plain(column).cast(pa.large_string())
    weights = _weights_column(table)
    builder = Builder()
    names = ids.to_pylist()
    for row, text in enumerate(where.to_pylist()):
        try:
            if text is None:
                raise ConditionError("the condition is null; write TRUE to match all events")
            bound, attributes = conditions.read(text, categories)
            own = weights[row].as_py() if weights is not None else None
            by_attribute = weights_of_pairs(own, attributes, conditions.schema) if own else None
        except TocsinError as error:
            raise error.at(f"row {row} (rule {names[row]!r})") from None
        builder.add(first + row, bound, by_attribute)
    payload = _payload(table, {"id", "where", "weights"})
    return RuleTable(ids, ids.type, np.arange(len(ids)), where, builder.build(), payload)


def _weights_column(table: pa.Table) -> pa.MapArray | None:
    """Return the column of weights, None if there is none or it is all null."""
    if "weights" not in table.column_names or t.is_null(table.schema.field("weights").type):
        return None
    column = table.column("weights")
    if not is_sparse(column.type):
        raise RuleError(
            f"the column 'weights' must be a map from attribute to weight, got type {column.type}"
        )
    return plain(column)


# ---------------------------------------------------------------- boxes


def _box_columns(names: list[str], schema: Schema) -> dict[int, tuple[str | None, str | None]]:
    """Return attribute -> names of its columns of lows and highs."""
    found: dict[int, list[str | None]] = {}
    for name in names:
        for end, suffix in enumerate(("_low", "_high")):
            if name.lower().endswith(suffix):
                attribute = schema.find(name[: -len(suffix)])
                if attribute is not None:
                    ends = found.setdefault(attribute, [None, None])
                    if ends[end] is not None:
                        raise RuleError(
                            f"columns {ends[end]!r} and {name!r} are one bound: names are "
                            "case-insensitive; drop one"
                        )
                    ends[end] = name
    return {a: (ends[0], ends[1]) for a, ends in sorted(found.items())}


def _read_boxes(
    table: pa.Table,
    ids: pa.Array,
    boxes: dict[int, tuple[str | None, str | None]],
    schema: Schema,
    categories: Categories,
    first: int,
) -> RuleTable:
    n = len(ids)
    taken = {"id", "weights"} | {name for ends in boxes.values() for name in ends if name}
    given_weights = _weights_column(table)
    _check_bound_columns([n for n in table.column_names if n not in taken], boxes, schema)
    low = np.empty((n, len(boxes)), np.int64)
    high = np.empty((n, len(boxes)), np.int64)
    tested = np.empty((n, len(boxes)), bool)
    for i, (attribute, (low_name, high_name)) in enumerate(boxes.items()):
        bounds = Bounds(schema, np.full(n, attribute), categories, ids, np.arange(n))
        low_column = plain(table.column(low_name)) if low_name else None
        high_column = plain(table.column(high_name)) if high_name else None
        low[:, i], high[:, i], tested[:, i] = bounds.keys(low_column, high_column)
    possible = np.asarray((~tested | (low <= high)).all(axis=1))
    weights = None
    if given_weights is not None:
        weights = _box_weights(given_weights, tested, list(boxes), schema, ids)
    counts: np.ndarray = tested.sum(axis=1)
    if not possible.all():
        tested &= possible[:, None]
        counts = counts[possible]
    attributes = np.broadcast_to(np.array(list(boxes), np.int32), tested.shape)
    full = bool(tested.all())
    made = conjunctions(
        np.concatenate([[0], np.cumsum(counts)]),
        attributes.reshape(-1) if full else attributes[tested],
        np.full(int(counts.sum()), INTERVAL, np.uint8),
        low.reshape(-1) if full else low[tested],
        high.reshape(-1) if full else high[tested],
        _NO_BOUNDS,
        weights[tested] if weights is not None else _NO_BOUNDS,
        (first + np.flatnonzero(possible)).astype(np.int32),
    )
    where = pa.nulls(n, pa.large_string())
    return RuleTable(ids, ids.type, np.arange(n), where, made, _payload(table, taken))


def _check_bound_columns(
    others: list[str], boxes: dict[int, tuple[str | None, str | None]], schema: Schema
) -> None:
    """Raise if one of the other columns looks like a bound that is misspelled."""
    for name in others:
        stem, _, end = name.rpartition("_")
        if end.lower() in ("low", "high"):
            raise RuleError(
                f"column {name!r} looks like a box's bound, but the schema has no attribute "
                f"{stem!r}{near(stem, schema)}"
            )
    for attribute, ends in boxes.items():
        if None not in ends:
            continue
        wanted = f"{schema.name(attribute)}_{'high' if ends[0] else 'low'}"
        for name in others:
            if near(name, [wanted]):
                raise RuleError(
                    f"there is a column {ends[0] or ends[1]!r} and none {wanted!r}, but one "
                    f"{name!r}; if it is the other bound, rename it, and if it is payload, add an "
                    f"empty column {wanted!r}"
                )


def _box_weights(
    column: pa.MapArray,
    tested: np.ndarray,
    attributes: list[int],
    schema: Schema,
    ids: pa.Array,
) -> np.ndarray:
    """Return a weight per box and attribute, 1 where none is given."""
    offsets, given, items = map_entries(column, schema, None)
    rows = np.repeat(np.arange(len(ids)), np.diff(offsets))
    values = np.asarray(items.cast(pa.float64()).fill_null(np.nan))
    place = np.full(len(schema), -1)
    place[attributes] = np.arange(len(attributes))
    unused = (place[given] < 0) | ~tested[rows, place[given]]
    _, first = np.unique(rows * len(schema) + given, return_index=True)
    repeated = np.ones(len(rows), bool)
    repeated[first] = False
    for i in np.flatnonzero(unused | repeated | ~(np.isfinite(values) & (values >= 0)))[:1]:
        known = frozenset(a for a in attributes if tested[rows[i], place[a]])
        try:
            own = np.flatnonzero(rows[: i + 1] == rows[i])  # the last of them is wrong
            pairs = [(schema.name(int(given[j])), float(values[j])) for j in own]
            weights_of_pairs(pairs, known, schema)
        except TocsinError as error:
            raise error.at(f"row {rows[i]} (rule {ids[int(rows[i])].as_py()!r})") from None
    weights = np.ones(tested.shape)
    weights[rows, place[given]] = values
    return weights


# ---------------------------------------------------------------- long


def _read_long(
    table: pa.Table, row_ids: pa.Array, schema: Schema, categories: Categories, first: int
) -> RuleTable:
    rows = len(row_ids)
    rule_of_row, starts = _numbered(row_ids)
    ids = row_ids.take(pa.array(starts))
    attribute = _attributes(table.column("attribute"), schema, row_ids)
    names = table.column_names
    ends = [plain(table.column(n)) if n in names else None for n in ("low", "high")]
    low, high = np.empty(rows, np.int64), np.empty(rows, np.int64)
    tested = np.empty(rows, bool)
    kinds = np.array([KINDS.index(schema.kind(a)) for a in range(len(schema))], np.int8)
    row_kind = kinds[attribute]
    for kind in np.unique(row_kind):
        chosen = np.flatnonzero(row_kind == kind)
        whole = len(chosen) == rows
        taken = pa.array(chosen)
        bounds = Bounds(schema, attribute[chosen], categories, row_ids, chosen)
        pieces = [e if e is None or whole else e.take(taken) for e in ends]
        low[chosen], high[chosen], tested[chosen] = bounds.keys(*pieces)
    weight = _long_weights(table, tested, row_ids)

    # Rows by rule and attribute; two rows on one attribute are met into one.
    place = rule_of_row * len(schema) + attribute
    order = np.argsort(place, kind="stable") if (np.diff(place) < 0).any() else np.arange(rows)
    order = order[tested[order]]
    rule, attr = rule_of_row[order], attribute[order]
    low, high = low[order], high[order]
    weight = weight[order] if weight is not None else None
    fresh = np.ones(len(order), bool)
    fresh[1:] = (rule[1:] != rule[:-1]) | (attr[1:] != attr[:-1])
    if not fresh.all():
        heads = np.flatnonzero(fresh)
        low, high = np.maximum.reduceat(low, heads), np.minimum.reduceat(high, heads)
        rule, attr = rule[heads], attr[heads]
        if weight is not None:
            weight = _one_weight(weight, heads, order, row_ids)
    if weight is not None:
        weight = np.where(np.isnan(weight), 1.0, weight)
    possible = np.ones(len(ids), bool)
    possible[rule[low > high]] = False
    if not possible.all():
        keep = possible[rule]
        rule, attr, low, high = rule[keep], attr[keep], low[keep], high[keep]
        weight = weight[keep] if weight is not None else None
    counts = np.bincount(rule, minlength=len(ids))[possible]
    made = conjunctions(
        np.concatenate([[0], np.cumsum(counts)]),
        attr,
        np.full(len(attr), INTERVAL, np.uint8),
        low,
        high,
        _NO_BOUNDS,
        weight if weight is not None else _NO_BOUNDS,
        (first + np.flatnonzero(possible)).astype(np.int32),
    )
    payload = _payload(table, {"id", "attribute", "low", "high", "weight"})
    if payload.num_columns:
        payload = payload.take(pa.array(starts))
    where = pa.nulls(len(ids), pa.large_string())
    return RuleTable(ids, ids.type, starts, where, made, payload)


def _numbered(row_ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of its rule, and for each rule its first row."""
    encoded = row_ids.dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    starts = np.full(len(encoded.dictionary), -1, np.int64)
    # Codes are given in order of appearance: a rule starts where a code is a new maximum.
    if len(numbers):
        so_far = np.maximum.accumulate(numbers)
        new = np.flatnonzero(np.diff(so_far, prepend=-1))
        starts[numbers[new]] = new
    return numbers, starts


def _attributes(column: pa.ChunkedArray, schema: Schema, ids: pa.Array) -> np.ndarray:
    column = combined(column)
    if not len(column):
        return np.empty(0, np.int32)
    if not t.is_dictionary(column.type) or column.dictionary.null_count:
        column = plain(column).dictionary_encode()
    if not is_text(column.type.value_type):
        raise RuleError(f"the column 'attribute' must be names, got {column.type.value_type}")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise RuleError(f"row {row} (rule {ids[row].as_py()!r}): the attribute is null")
    indices = np.asarray(column.indices)
    table = np.zeros(len(column.dictionary), np.int32)
    for i, name in enumerate(column.dictionary.to_pylist()):
        try:
            table[i] = schema.index(name)
        except ConditionError as error:
            row = int(np.argmax(indices == i))
            raise error.at(f"row {row} (rule {ids[row].as_py()!r})") from None
    return table[indices]


def _one_weight(
    weight: np.ndarray, heads: np.ndarray, order: np.ndarray, ids: pa.Array
) -> np.ndarray:
    """Return the one weight that rows of a rule and an attribute give, NaN where none does.

    `order` are the rows' numbers in the table, `heads` where each group of them begins.
    """
    least, most = np.fmin.reduceat(weight, heads), np.fmax.reduceat(weight, heads)
    for group in np.flatnonzero(least != most):
        if not np.isnan(least[group]):
            row = int(order[heads[group]])
            raise RuleError(
                f"row {row} (rule {ids[row].as_py()!r}): the rows for this attribute have "
                f"different weights, {least[group]:g} and {most[group]:g}; use the same in all"
            )
    return least


def _long_weights(table: pa.Table, tested: np.ndarray, ids: pa.Array) -> np.ndarray | None:
    """Return a weight per row, NaN where none is given; None if there are none at all."""
    if "weight" not in table.column_names:
        return None
    column = plain(table.column("weight"))
    if column.null_count == len(column):
        return None
    if not (t.is_floating(column.type) or t.is_integer(column.type)):
        raise RuleError(f"the column 'weight' must be numbers, got type {column.type}")
    given = np.asarray(column.is_valid())
    weight = np.asarray(column.cast(pa.float64()).fill_null(np.nan))
    bad = np.flatnonzero(given & ~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        row = int(bad[0])
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): a weight must be a finite number, 0 or more; "
            f"got {weight[row]}"
        )
    unused = np.flatnonzero(given & ~tested)
    if len(unused):
        row = int(unused[0])
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): a weight is given for an attribute that the "
            "condition does not test (low and high are both null)"
        )
    return weight


def _forms(names: list[str]) -> str:
    return (
        "a table of rules has the columns id and where (texts), or id and <attribute>_low, "
        "<attribute>_high (boxes), or id, attribute, low and high (long); "
        f"this one has {', '.join(map(repr, names)) or 'none'}"
    )
