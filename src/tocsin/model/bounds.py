"""Encodes the bounds in tables of rules as keys. Both bounds are inclusive; null is unbounded."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError, RuleError
from tocsin.model import encoding
from tocsin.model.categories import Categories
from tocsin.model.columns import CategoryEncoder, check_column_type, write_keys
from tocsin.model.decimal_columns import round_bounds
from tocsin.model.decimals import digits_of
from tocsin.model.schema import Schema


class BoundEncoder:
    """Encodes columns of bounds as keys, for attributes of one kind. Errors name the row."""

    def __init__(
        self,
        schema: Schema,
        attributes: np.ndarray,
        categories: Categories,
        ids: pa.Array,
        rows: np.ndarray,
    ):
        self._schema = schema
        self._attributes = attributes  # [rows] all of one kind
        self._kind = schema.kind(int(attributes[0])) if len(attributes) else "number"
        self._digits = digits_of(self._kind)
        self._categories = categories
        self._ids = ids
        self._rows = rows

    def keys(
        self, low: pa.Array | None, high: pa.Array | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the low keys, the high keys, and whether there is any bound, per row."""
        low_keys, no_low = self._encode(low, False)
        high_keys, no_high = self._encode(high, True)
        crossed = np.flatnonzero((low_keys > high_keys) & ~no_low & ~no_high)
        for i in crossed:
            # 2.3 to 2.7 contains no integer, and perhaps no decimal, but is not an error.
            a, b = low[int(i)].as_py(), high[int(i)].as_py()  # type: ignore[index]
            if (self._digits or self._kind in ("integer", "number")) and a <= b:
                continue
            if self._kind != "category":
                name = self._name(int(i))
                self._fail(
                    int(i), f"{name} from {a!r} to {b!r}: the low bound is above the high bound"
                )
        if self._kind == "category":
            differ = np.flatnonzero((low_keys != high_keys) | no_low | no_high)
            for i in differ:
                if not (no_low[i] and no_high[i]):
                    self._fail(
                        int(i),
                        f"attribute {self._name(int(i))!r} is a category and has no order, so low "
                        "and high must be the same value",
                    )
        low_keys[no_low] = encoding.LOWEST
        high_keys[no_high] = encoding.HIGHEST
        return low_keys, high_keys, ~(no_low & no_high)

    def _encode(self, column: pa.Array | None, is_high: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of a column of bounds, and where it is null."""
        n = len(self._rows)
        if column is None or t.is_null(column.type) or n == 0:
            return np.zeros(n, np.int64), np.ones(n, bool)
        out = np.empty(n, np.int64)
        is_null = np.asarray(column.is_null())
        if t.is_floating(column.type):
            values = np.asarray(column.cast(pa.float64()).fill_null(0.0))
            bad = np.flatnonzero(np.isnan(values))
            if len(bad):
                i = int(bad[0])
                self._fail(i, f"a bound of {self._name(i)} is NaN; null means unbounded")
            if self._kind == "integer":
                return self._round(values, is_high), is_null
        if self._kind == "category":
            for text in column.unique().to_pylist():
                if isinstance(text, str):
                    self._categories.add(text)
        name = self._name(0)
        try:
            if self._digits is not None:
                check_column_type(column.type, self._kind, name)
                return self._round_decimals(column, is_null, is_high), is_null
            write_keys(
                column, self._kind, self._schema, CategoryEncoder(self._categories), out, name
            )
        except EventError as error:
            message = str(error).replace("the events' column is", "its column of bounds is")
            raise RuleError(message) from None
        if self._kind in ("integer", "time"):
            self._check_seam(out, is_null)
        return out, is_null

    def _round(self, values: np.ndarray, is_high: bool) -> np.ndarray:
        """Return the integer keys of float bounds: low bounds round up, high bounds down."""
        rounded = np.floor(values) if is_high else np.ceil(values)
        out = np.full(len(values), encoding.HIGHEST, np.int64)
        inside = (rounded >= -(2.0**63)) & (rounded < 2.0**63)
        whole = rounded[inside].astype(np.int64)
        out[inside] = whole + (whole <= encoding.SEAM)
        out[rounded < -(2.0**63)] = encoding.NULL if is_high else encoding.LOWEST
        if not is_high and (rounded >= 2.0**63).any():
            i = int(np.argmax(rounded >= 2.0**63))
            self._fail(i, f"no integer is as high as {values[i]}, the low bound of {self._name(i)}")
        return out

    def _round_decimals(self, column: pa.Array, is_null: np.ndarray, is_high: bool) -> np.ndarray:
        """Return the decimal keys of bounds: low bounds round up, high bounds down."""
        assert self._digits is not None
        keys, limit = round_bounds(column, self._digits, is_high), self._digits.limit
        too_high = (keys >= limit) & ~is_null
        if not is_high and too_high.any():
            i = int(np.argmax(too_high))
            value, name = column[i].as_py(), self._name(i)
            self._fail(i, f"no {self._kind} is as high as {value}, the low bound of {name}")
        lowest = encoding.NULL if is_high else encoding.LOWEST
        return np.where(too_high, encoding.HIGHEST, np.where(keys <= -limit, lowest, keys))

    def _check_seam(self, keys: np.ndarray, is_null: np.ndarray) -> None:
        at_seam = np.flatnonzero((keys == encoding.SEAM + 1) & ~is_null)
        if len(at_seam):
            i = int(at_seam[0])
            self._fail(
                i,
                f"a bound of {self._name(i)} cannot be the integer {encoding.SEAM} or the next: "
                "these two share a key, unlike all other 64-bit integers",
            )

    def _name(self, i: int) -> str:
        return self._schema.name(int(self._attributes[i]))

    def _fail(self, i: int, message: str) -> None:
        row = int(self._rows[i])
        raise RuleError(f"row {row} (rule {self._ids[row].as_py()!r}): {message}")
