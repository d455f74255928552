"""Reads tables of rules. A table has one of four forms, recognised by its columns.

* text: `id`, `where` and optionally `weights` (a map from attribute to weight)
* boxes: `id` and `x_low`, `x_high`, ... for attributes x. Both bounds are inclusive, null is
  unbounded, and an attribute without any bound is not tested
* long: `id`, `attribute`, `low`, `high` and optionally `weight`. Each row is a predicate, and all
  rows of one id are one conjunction. For a category, `low` and `high` are its value
* shapes: `id` and `shape`; see `shape_tables`

All forms may have `at_least`, the probability that the rule requires, and `score`, the rule's own
in place of weights; null is none. All other columns are payload. Boxes and long rows are read
without a Python loop.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import ConditionError, EventError, RuleError, TocsinError, suggest
from tocsin.jit import freeze, freeze_fields
from tocsin.model.arrow import combine_chunks, decode, is_text, translate_errors
from tocsin.model.bounds import BoundEncoder
from tocsin.model.categories import Categories
from tocsin.model.columns import check_column_type
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder, Conjunctions
from tocsin.model.event_tables import is_sparse, map_entries, to_table
from tocsin.model.predicates import INTERVAL
from tocsin.model.residuals import Residual, Residuals, build_residuals
from tocsin.model.rule_numbers import WEIGHTS_OR_SCORE, merge_rule_numbers, read_rule_numbers
from tocsin.model.schema import Schema
from tocsin.model.shape_tables import (
    COLUMN,
    from_geopandas,
    read_shapes,
    to_shape_column,
    usual_point,
)
from tocsin.model.weights import check_weight_pairs

_RULES_ON_SPARK = (
    "tocsin.spark.match and tocsin.spark.lint take a DataFrame of rules; toArrow() collects one"
)


class RuleTable(NamedTuple):
    """The n rules of a table, in the order of the table."""

    ids: pa.Array  # [n] int64 or large_string
    id_type: pa.DataType  # of the column in the table
    rows: np.ndarray  # [n] the first row of each rule, for messages
    where: pa.Array  # [n] texts, null for boxes and long rows
    conjunctions: Conjunctions  # positions of rules count from `first`
    payload: pa.Table  # [n] rows
    impossible: np.ndarray  # places of the rules that never hold, or have a part that never does
    at_least: np.ndarray | None = None  # [n] what each rule requires, NaN without; None without any
    score: np.ndarray | None = None  # [n] each rule's own, likewise
    residuals: Residuals | None = None  # positions of rules count from `first`


def read_rules(
    source: Any, conditions: ConditionReader, categories: Categories, first: int
) -> RuleTable:
    """Return the rules of a table, with positions from `first` on; raise on the first bad row."""
    table = to_rule_table(source)
    names = table.column_names
    if not len(table) and not names:
        table = pa.table({"id": pa.array([], pa.string()), "where": pa.array([], pa.string())})
        names = table.column_names
    if "id" not in names:
        raise RuleError(f"a table of rules needs a column 'id'; {_describe_forms(names)}")
    if len(set(names)) < len(names):
        repeated = next(n for n in names if names.count(n) > 1)
        raise RuleError(f"the table of rules has two columns {repeated!r}; rename or drop one")
    id_column = decode(table.column("id"))
    ids = _check_ids(id_column)
    numbers = {name: read_rule_numbers(table, ids, name) for name in ("at_least", "score")}
    table = table.drop_columns([name for name in numbers if name in names])
    names = table.column_names
    boxes = _box_columns(names, conditions.attributes)
    form = _find_form(names, boxes, conditions.point)
    with translate_errors(RuleError, "the table of rules"):
        if form == "text":
            rules = _read_texts(table, ids, conditions, categories, first)
        elif form == "long":
            rules = _read_long(table, ids, conditions.attributes, categories, first)
        elif form == "shapes":
            rules = _read_shapes(table, ids, conditions, first)
        else:
            rules = _read_boxes(table, ids, boxes, conditions.attributes, categories, first)
        if form == "long":
            for name, each in numbers.items():
                if each is not None:
                    numbers[name] = merge_rule_numbers(name, each, number_rules(ids)[0], ids)
    score = numbers["score"]
    if score is not None:
        positions = np.arange(first, first + len(rules.ids))
        conjunctions = rules.conjunctions.with_scores(positions, score)
        _refuse_weights_and_score(conjunctions, positions, rules)
        rules = rules._replace(conjunctions=conjunctions)
    return rules._replace(
        id_type=id_column.type, at_least=numbers["at_least"], score=numbers["score"]
    )


def _refuse_weights_and_score(c: Conjunctions, positions: np.ndarray, rules: RuleTable) -> None:
    """Raise if a rule has weights other than 1, and a score of its own."""
    if not len(c.weight) or not len(c.score):
        return
    owner = np.repeat(np.arange(c.size), np.diff(c.offsets))
    both = np.flatnonzero((c.weight != 1) & ~np.isnan(c.score[owner]))
    if len(both):
        place = int(np.searchsorted(positions, c.rule[owner[both[0]]]))
        raise RuleError(
            f"row {int(rules.rows[place])} (rule {rules.ids[place].as_py()!r}): {WEIGHTS_OR_SCORE}"
        )


def _find_form(
    names: list[str],
    boxes: dict[int, tuple[str | None, str | None]],
    point: tuple[str, str] | None,
) -> str:
    """Return which of the four forms a table has; raise if it has none, or two at once."""
    bounds = [n for n in ("low", "high") if n in names]
    columns = {
        "text": ["where"] if "where" in names else [],
        "boxes": [name for ends in boxes.values() for name in ends if name],
        "long": ["attribute", *bounds] if "attribute" in names and bounds else [],
        "shapes": [COLUMN] if COLUMN in names and point is not None else [],
    }
    if not any(columns.values()) and COLUMN in names:
        return "shapes"  # of a usual point, if there is one
    forms = {form: listed for form, listed in columns.items() if listed}
    if not forms:
        stems = [n[: n.rindex("_")] for n in names if n.lower().endswith(("_low", "_high"))]
        unknown = f"; the schema has no attribute {stems[0]!r}" if stems else ""
        raise RuleError(_describe_forms(names) + unknown)
    if len(forms) > 1:
        both = " and ".join(f"{', '.join(map(repr, c))} ({form})" for form, c in forms.items())
        raise RuleError(
            f"the table mixes two forms of rules: {both}; use one of them, and rename payload "
            "columns that have these names"
        )
    return next(iter(forms))


def _check_ids(ids: pa.Array) -> pa.Array:
    """Return ids as int64 or large_string; raise on nulls and other types."""
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


def to_rule_table(source: Any) -> pa.Table:
    """Return a list of dicts or an Arrow-compatible table as a table of rules."""
    source = from_geopandas(source)
    if isinstance(source, list | tuple) and all(isinstance(r, dict) for r in source):
        names = dict.fromkeys(name for row in source for name in row)
        with translate_errors(RuleError, "the rows do not make a table"):
            return pa.table({n: _to_array(n, [row.get(n) for row in source]) for n in names})
    if isinstance(source, dict):
        raise RuleError(
            "a table of rules must be a list of dicts or an Arrow-compatible table, got a dict; "
            "for a dict of columns use pyarrow.table(...)"
        )
    try:
        return to_table(source, None, "rules", _RULES_ON_SPARK)
    except EventError as error:
        raise RuleError(str(error)) from None


def _to_array(name: str, values: list[Any]) -> pa.Array:
    if name == "weights" and any(isinstance(v, dict) for v in values):
        pairs = [list(v.items()) if isinstance(v, dict) else v for v in values]
        return pa.array(pairs, pa.map_(pa.string(), pa.float64()))
    if name == COLUMN:
        return to_shape_column(values)
    return pa.array(values)


def _read_payload(table: pa.Table, reserved: set[str]) -> pa.Table:
    """Return the columns that are not reserved; raise if Arrow cannot filter and merge one."""
    columns = {n: decode(table.column(n)) for n in table.column_names if n not in reserved}
    for name, column in columns.items():
        with translate_errors(RuleError, f"payload column {name!r} cannot be stored"):
            # Try what a merge does: it filters rows, and adds nulls for rules without the column.
            pa.concat_arrays([column.filter(pa.nulls(len(column), pa.bool_())), column.slice(0, 1)])
            for null in (pa.array([None], column.type), pa.nulls(1, column.type)):
                merged = pa.concat_arrays([null, column.slice(0, 1)]).cast(column.type)
                merged.validate(full=True)
    return pa.table(columns)


# ---------------------------------------------------------------- text


def _read_texts(
    table: pa.Table, ids: pa.Array, conditions: ConditionReader, categories: Categories, first: int
) -> RuleTable:
    column = table.column("where")
    try:
        check_column_type(column.type, "category", "where")
    except EventError:
        raise RuleError(f"the column 'where' must be texts, got type {column.type}") from None
    where = decode(column).cast(pa.large_string())
    weights = _weights_column(table)
    builder = ConjunctionBuilder()
    impossible: list[int] = []
    residuals: list[tuple[int, list[list[Residual]]]] = []
    names = ids.to_pylist()
    texts = where.to_pylist()
    with conditions.reading_ahead(texts):
        for row, text in enumerate(texts):
            try:
                if text is None:
                    raise ConditionError("the condition is null; write TRUE to match all events")
                conjunctions, attributes, own_residuals = conditions.read(text, categories)
                pairs = weights[row].as_py() if weights is not None else None
                by_attribute = (
                    check_weight_pairs(pairs, attributes, conditions.attributes) if pairs else None
                )
            except TocsinError as error:
                raise error.with_place(f"row {row} (rule {names[row]!r})") from None
            if conditions.has_impossible_part:
                impossible.append(row)
            builder.add(first + row, conjunctions, by_attribute)
            if own_residuals:
                residuals.append((first + row, own_residuals))
    payload = _read_payload(table, {"id", "where", "weights"})
    rows, places = np.arange(len(ids)), np.array(impossible, np.int64)
    rules = RuleTable(ids, ids.type, rows, where, builder.build(), payload, places)
    return rules._replace(residuals=build_residuals(residuals))


def _weights_column(table: pa.Table) -> pa.MapArray | None:
    """Return the column of weights, or None if there is none or its type is null."""
    if "weights" not in table.column_names or t.is_null(table.schema.field("weights").type):
        return None
    column = table.column("weights")
    if not is_sparse(column.type):
        raise RuleError(
            f"the column 'weights' must be a map from attribute to weight, got type {column.type}"
        )
    return decode(column)


# ---------------------------------------------------------------- boxes


def _box_columns(names: list[str], schema: Schema) -> dict[int, tuple[str | None, str | None]]:
    """Return the names of the low and the high column of each attribute that has one."""
    columns: dict[int, list[str | None]] = {}
    for name in names:
        for end, suffix in enumerate(("_low", "_high")):
            if name.lower().endswith(suffix):
                attribute = schema.find(name[: -len(suffix)])
                if attribute is not None:
                    ends = columns.setdefault(attribute, [None, None])
                    if ends[end] is not None:
                        raise RuleError(
                            f"columns {ends[end]!r} and {name!r} are the same bound, because names "
                            "are case-insensitive; drop one"
                        )
                    ends[end] = name
    return {a: (ends[0], ends[1]) for a, ends in sorted(columns.items())}


def _read_boxes(
    table: pa.Table,
    ids: pa.Array,
    boxes: dict[int, tuple[str | None, str | None]],
    schema: Schema,
    categories: Categories,
    first: int,
) -> RuleTable:
    n = len(ids)
    reserved = {"id", "weights"} | {name for ends in boxes.values() for name in ends if name}
    weights_column = _weights_column(table)
    _check_bound_columns([n for n in table.column_names if n not in reserved], boxes, schema)
    low = np.empty((n, len(boxes)), np.int64)
    high = np.empty((n, len(boxes)), np.int64)
    tested = np.empty((n, len(boxes)), bool)
    for i, (attribute, (low_name, high_name)) in enumerate(boxes.items()):
        encoder = BoundEncoder(schema, np.full(n, attribute), categories, ids, np.arange(n))
        low_column = decode(table.column(low_name)) if low_name else None
        high_column = decode(table.column(high_name)) if high_name else None
        low[:, i], high[:, i], tested[:, i] = encoder.keys(low_column, high_column)
    satisfiable = np.asarray((~tested | (low <= high)).all(axis=1))
    weights = None
    if weights_column is not None:
        weights = _box_weights(weights_column, tested, list(boxes), schema, ids)
    counts: np.ndarray = tested.sum(axis=1)
    if not satisfiable.all():
        tested &= satisfiable[:, None]
        counts = counts[satisfiable]
    attributes = np.broadcast_to(np.array(list(boxes), np.int32), tested.shape)
    all_tested = bool(tested.all())
    conjunctions = freeze_fields(
        Conjunctions,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        attribute=attributes.reshape(-1) if all_tested else attributes[tested],
        kind=np.full(int(counts.sum()), INTERVAL, np.uint8),
        low=low.reshape(-1) if all_tested else low[tested],
        high=high.reshape(-1) if all_tested else high[tested],
        points=[],
        weight=weights[tested] if weights is not None else [],
        rule=(first + np.flatnonzero(satisfiable)).astype(np.int32),
    )
    where = pa.nulls(n, pa.large_string())
    payload = _read_payload(table, reserved)
    impossible = np.flatnonzero(~satisfiable)
    rows = np.arange(n)
    return RuleTable(ids, ids.type, rows, where, conjunctions, payload, impossible)


def _check_bound_columns(
    others: list[str], boxes: dict[int, tuple[str | None, str | None]], schema: Schema
) -> None:
    """Raise if one of the other columns looks like a misspelled bound."""
    for name in others:
        stem, _, end = name.rpartition("_")
        if end.lower() in ("low", "high"):
            raise RuleError(
                f"column {name!r} looks like a box's bound, but the schema has no attribute "
                f"{stem!r}{suggest(stem, schema)}"
            )
    for attribute, ends in boxes.items():
        if None not in ends:
            continue
        missing = f"{schema.name(attribute)}_{'high' if ends[0] else 'low'}"
        for name in others:
            if suggest(name, [missing]):
                raise RuleError(
                    f"column {ends[0] or ends[1]!r} has no {missing!r} beside it, but there is a "
                    f"column {name!r}; if it is the other bound, rename it; if it is payload, add "
                    f"an empty column {missing!r}"
                )


def _box_weights(
    column: pa.MapArray,
    tested: np.ndarray,
    attributes: list[int],
    schema: Schema,
    ids: pa.Array,
) -> np.ndarray:
    """Return a weight per box and attribute, by default 1."""
    offsets, attribute, items = map_entries(column, schema, None)
    rows = np.repeat(np.arange(len(ids)), np.diff(offsets))
    values = np.asarray(items.cast(pa.float64()).fill_null(np.nan))
    column_of = np.full(len(schema), -1)
    column_of[attributes] = np.arange(len(attributes))
    unused = (column_of[attribute] < 0) | ~tested[rows, column_of[attribute]]
    _, first = np.unique(rows * len(schema) + attribute, return_index=True)
    repeated = np.ones(len(rows), bool)
    repeated[first] = False
    for i in np.flatnonzero(unused | repeated | ~(np.isfinite(values) & (values >= 0)))[:1]:
        known = frozenset(a for a in attributes if tested[rows[i], column_of[a]])
        try:
            entries = np.flatnonzero(rows[: i + 1] == rows[i])  # the last of them is wrong
            pairs = [(schema.name(int(attribute[j])), float(values[j])) for j in entries]
            check_weight_pairs(pairs, known, schema)
        except TocsinError as error:
            raise error.with_place(f"row {rows[i]} (rule {ids[int(rows[i])].as_py()!r})") from None
    weights = np.ones(tested.shape)
    weights[rows, column_of[attribute]] = values
    return weights


# ---------------------------------------------------------------- shapes


def _read_shapes(
    table: pa.Table, ids: pa.Array, conditions: ConditionReader, first: int
) -> RuleTable:
    attributes, n = conditions.attributes, len(ids)
    point = conditions.point or usual_point(attributes)
    if point is None:
        raise RuleError(
            f"the table has a column {COLUMN!r}, but it is not known which attributes are the "
            "point: say so, as in Rules(schema, point=('lon', 'lat'))"
        )
    c, residuals = read_shapes(table.column(COLUMN), ids, point, attributes, first)
    weights = _weights_column(table)
    if weights is not None and c.size:
        axes, columns = c.attribute[:2].tolist(), np.ones((n, 2), bool)
        matrix = _box_weights(weights, columns, axes, attributes, ids)
        c = c._replace(weight=freeze(matrix[c.rule - first].reshape(-1), np.float64))
    where = pa.nulls(n, pa.large_string())
    payload = _read_payload(table, {"id", COLUMN, "weights"})
    impossible = np.setdiff1d(np.arange(n), c.rule - first)
    read = RuleTable(ids, ids.type, np.arange(n), where, c, payload, impossible)
    return read._replace(residuals=residuals)


# ---------------------------------------------------------------- long


def _read_long(
    table: pa.Table, row_ids: pa.Array, schema: Schema, categories: Categories, first: int
) -> RuleTable:
    rows = len(row_ids)
    rule_of_row, starts = number_rules(row_ids)
    ids = row_ids.take(pa.array(starts))
    attribute = _read_attributes(table.column("attribute"), schema, row_ids)
    names = table.column_names
    ends = [decode(table.column(n)) if n in names else None for n in ("low", "high")]
    low, high = np.empty(rows, np.int64), np.empty(rows, np.int64)
    tested = np.empty(rows, bool)
    distinct = sorted(set(schema.kinds))
    kinds = np.array([distinct.index(kind) for kind in schema.kinds], np.int16)
    row_kind = kinds[attribute]
    for kind in np.unique(row_kind):
        of_kind = np.flatnonzero(row_kind == kind)
        encoder = BoundEncoder(schema, attribute[of_kind], categories, row_ids, of_kind)
        every_row, indices = len(of_kind) == rows, pa.array(of_kind)
        bounds = [end if end is None or every_row else end.take(indices) for end in ends]
        low[of_kind], high[of_kind], tested[of_kind] = encoder.keys(*bounds)
    weight = _long_weights(table, tested, row_ids)

    # Order rows by rule and attribute, and intersect rows on the same attribute.
    group = rule_of_row * len(schema) + attribute
    order = np.argsort(group, kind="stable") if (np.diff(group) < 0).any() else np.arange(rows)
    order = order[tested[order]]
    rule, attr = rule_of_row[order], attribute[order]
    low, high = low[order], high[order]
    weight = weight[order] if weight is not None else None
    is_head = np.ones(len(order), bool)
    is_head[1:] = (rule[1:] != rule[:-1]) | (attr[1:] != attr[:-1])
    if not is_head.all():
        heads = np.flatnonzero(is_head)
        low, high = np.maximum.reduceat(low, heads), np.minimum.reduceat(high, heads)
        rule, attr = rule[heads], attr[heads]
        if weight is not None:
            weight = _merge_weights(weight, heads, order, row_ids)
    if weight is not None:
        weight = np.where(np.isnan(weight), 1.0, weight)
    satisfiable = np.ones(len(ids), bool)
    satisfiable[rule[low > high]] = False
    if not satisfiable.all():
        keep = satisfiable[rule]
        rule, attr, low, high = rule[keep], attr[keep], low[keep], high[keep]
        weight = weight[keep] if weight is not None else None
    counts = np.bincount(rule, minlength=len(ids))[satisfiable]
    conjunctions = freeze_fields(
        Conjunctions,
        offsets=np.concatenate([[0], np.cumsum(counts)]),
        attribute=attr,
        kind=np.full(len(attr), INTERVAL, np.uint8),
        low=low,
        high=high,
        points=[],
        weight=weight if weight is not None else [],
        rule=(first + np.flatnonzero(satisfiable)).astype(np.int32),
    )
    payload = _read_payload(table, {"id", "attribute", "low", "high", "weight"})
    if payload.num_columns:
        payload = payload.take(pa.array(starts))
    where = pa.nulls(len(ids), pa.large_string())
    impossible = np.flatnonzero(~satisfiable)
    return RuleTable(ids, ids.type, starts, where, conjunctions, payload, impossible)


def number_rules(row_ids: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row the number of its rule, and for each rule its first row."""
    encoded = row_ids.dictionary_encode()
    numbers = np.asarray(encoded.indices).astype(np.int64)
    starts = np.full(len(encoded.dictionary), -1, np.int64)
    # Codes are in order of appearance: a rule starts where a code is a new maximum.
    if len(numbers):
        so_far = np.maximum.accumulate(numbers)
        new = np.flatnonzero(np.diff(so_far, prepend=-1))
        starts[numbers[new]] = new
    return numbers, starts


def _read_attributes(column: pa.ChunkedArray, schema: Schema, ids: pa.Array) -> np.ndarray:
    """Return the attribute of each row."""
    column = combine_chunks(column)
    if not len(column):
        return np.empty(0, np.int32)
    if not t.is_dictionary(column.type) or column.dictionary.null_count:
        column = decode(column).dictionary_encode()
    if not is_text(column.type.value_type):
        raise RuleError(f"the column 'attribute' must be names, got {column.type.value_type}")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise RuleError(f"row {row} (rule {ids[row].as_py()!r}): the attribute is null")
    indices = np.asarray(column.indices)
    attributes = np.zeros(len(column.dictionary), np.int32)
    for i, name in enumerate(column.dictionary.to_pylist()):
        try:
            attributes[i] = schema.index(name)
        except ConditionError as error:
            row = int(np.argmax(indices == i))
            raise error.with_place(f"row {row} (rule {ids[row].as_py()!r})") from None
    return attributes[indices]


def _merge_weights(
    weight: np.ndarray, heads: np.ndarray, order: np.ndarray, ids: pa.Array
) -> np.ndarray:
    """Return one weight for each group of rows on one attribute of a rule, or NaN without any.

    `order` are the numbers of the rows in the table, `heads` are the first rows of groups.
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
    """Return a weight per row, NaN where it is null, or None if there are no weights."""
    if "weight" not in table.column_names:
        return None
    column = decode(table.column("weight"))
    if column.null_count == len(column):
        return None
    if not (t.is_floating(column.type) or t.is_integer(column.type)):
        raise RuleError(f"the column 'weight' must be numbers, got type {column.type}")
    is_given = np.asarray(column.is_valid())
    weight = np.asarray(column.cast(pa.float64()).fill_null(np.nan))
    bad = np.flatnonzero(is_given & ~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        row = int(bad[0])
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): a weight must be a finite number, 0 or more; "
            f"got {weight[row]}"
        )
    unused = np.flatnonzero(is_given & ~tested)
    if len(unused):
        row = int(unused[0])
        raise RuleError(
            f"row {row} (rule {ids[row].as_py()!r}): a weight is given for an attribute that the "
            "condition does not test (low and high are both null)"
        )
    return weight


def _describe_forms(names: list[str]) -> str:
    return (
        "a table of rules has the columns id and where (texts), or id and <attribute>_low, "
        "<attribute>_high (boxes), or id, attribute, low and high (long), or id and shape; "
        f"this one has {', '.join(map(repr, names)) or 'none'}"
    )
