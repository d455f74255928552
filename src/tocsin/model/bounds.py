"""Columns of closed bounds to keys, as boxes and long rows give them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as t

from tocsin.errors import EventError, RuleError
from tocsin.model import line
from tocsin.model.categories import Categories
from tocsin.model.columns import Coder, column_keys
from tocsin.model.schema import Schema


class Bounds:
    """Turns columns of closed bounds of one kind into keys, naming the row that is wrong."""

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
        self._categories = categories
        self._ids = ids
        self._rows = rows

    def keys(
        self, low: pa.Array | None, high: pa.Array | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return lows, highs, and whether there is any bound at all."""
        low_keys, no_low = self._end(low, False)
        high_keys, no_high = self._end(high, True)
        crossed = np.flatnonzero((low_keys > high_keys) & ~no_low & ~no_high)
        for i in crossed:
            # 2.3 to 2.7 holds no integer, but is no mistake.
            a, b = low[int(i)].as_py(), high[int(i)].as_py()  # type: ignore[index]
            if self._kind in ("integer", "number") and a <= b:
                continue
            if self._kind != "category":
                name = self._name(int(i))
                self._fail(int(i), f"{name} from {a!r} to {b!r}: the low bound is above the high")
        if self._kind == "category":
            differ = np.flatnonzero((low_keys != high_keys) | no_low | no_high)
            for i in differ:
                if not (no_low[i] and no_high[i]):
                    self._fail(
                        int(i),
                        f"attribute {self._name(int(i))!r} is a category and has no order, so low "
                        "and high must be the same value",
                    )
        low_keys[no_low] = line.LOWEST
        high_keys[no_high] = line.HIGHEST
        return low_keys, high_keys, ~(no_low & no_high)

    def _end(self, column: pa.Array | None, upper: bool) -> tuple[np.ndarray, np.ndarray]:
        n = len(self._rows)
        if column is None or t.is_null(column.type) or n == 0:
            return np.zeros(n, np.int64), np.ones(n, bool)
        out = np.empty(n, np.int64)
        empty = np.asarray(column.is_null())
        if t.is_floating(column.type):
            values = np.asarray(column.cast(pa.float64()).fill_null(0.0))
            bad = np.flatnonzero(np.isnan(values))
            if len(bad):
                i = int(bad[0])
                self._fail(i, f"a bound of {self._name(i)} is NaN; null means unbounded")
            if self._kind == "integer":
                return self._whole(values, upper), empty
        if self._kind == "category":
            for text in column.unique().to_pylist():
                if isinstance(text, str):
                    self._categories.add(text)
        name = self._name(0) if n else ""
        try:
            column_keys(column, self._kind, self._schema, Coder(self._categories), out, name)
        except EventError as error:
            message = str(error).replace("the events' column is", "its column of bounds is")
            raise RuleError(message) from None
        if self._kind in ("integer", "time"):
            self._check_seam(out, empty)
        return out, empty

    def _whole(self, values: np.ndarray, upper: bool) -> np.ndarray:
        """Return integer keys of float bounds: a low rounds up, a high rounds down."""
        rounded = np.floor(values) if upper else np.ceil(values)
        out = np.full(len(values), line.HIGHEST, np.int64)
        inside = (rounded >= -(2.0**63)) & (rounded < 2.0**63)
        whole = rounded[inside].astype(np.int64)
        out[inside] = whole + (whole <= line.SEAM)
        out[rounded < -(2.0**63)] = line.NULL if upper else line.LOWEST
        if not upper and (rounded >= 2.0**63).any():
            # No integer is that high; any high bound but an absent one lies below.
            i = int(np.argmax(rounded >= 2.0**63))
            self._fail(i, f"no integer is as high as {values[i]}, the low bound of {self._name(i)}")
        return out

    def _check_seam(self, keys: np.ndarray, empty: np.ndarray) -> None:
        suspicious = np.flatnonzero((keys == line.SEAM + 1) & ~empty)
        if len(suspicious):
            i = int(suspicious[0])
            self._fail(
                i,
                f"a bound of {self._name(i)} at the integer {line.SEAM} or the next cannot be "
                "kept: of all 64-bit integers these two share a key",
            )

    def _name(self, i: int) -> str:
        return self._schema.name(int(self._attributes[i]))

    def _fail(self, i: int, message: str) -> None:
        row = int(self._rows[i])
        raise RuleError(f"row {row} (rule {self._ids[row].as_py()!r}): {message}")
