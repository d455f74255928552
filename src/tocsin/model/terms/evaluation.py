"""Evaluates terms over whole columns, common subterms once."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms import zones
from tocsin.model.terms.functions.table import FUNCTIONS
from tocsin.model.terms.tree import Term, is_null
from tocsin.model.terms.types import STRING, arrow_type


def evaluate(
    terms: Sequence[Term],
    column: Callable[[str], pa.Array],
    length: int,
    zone: datetime.tzinfo,
) -> list[pa.Array]:
    """Return the values of terms.

    `column` returns a source column by its declared name, of `length` values, in the Arrow type of
    its source type; see `as_source`. The results have the Arrow types of the terms. A value whose
    computation is an error in Spark (overflow, division by zero, a text that cannot be cast) is
    null.
    """
    evaluator = _Evaluator(column, length, zone)
    return [evaluator.to_array(evaluator.value(term), term) for term in terms]


def evaluate_constant(term: Term, zone: datetime.tzinfo) -> Any:
    """Return the value of a term without columns, in the form that literals have."""

    def no_column(name: str) -> pa.Array:
        raise AssertionError(name)

    scalar = _Evaluator(no_column, 1, zone).value(term)
    if not scalar.is_valid:
        return None
    if term.type.name == "timestamp":
        return scalar.value
    return scalar.cast(pa.int32()).as_py() if term.type.name == "date" else scalar.as_py()


@functools.lru_cache(maxsize=1 << 14)
def _to_scalar(term: Term) -> pa.Scalar:
    """Return the value of a literal; making a scalar costs as much as computing 10,000 values."""
    return pa.scalar(term.value, arrow_type(term.type))


def _texts_of(term: Term) -> set[Term]:
    """Return the literals, columns and parts of columns that a term has as texts."""
    if term.function in ("literal", "column", "field", "item"):
        return {term} if term.type == STRING and not is_null(term) else set()
    return {text for argument in term.arguments for text in _texts_of(argument)}


class Call:
    """One use of a function: its term, and what the evaluation shares."""

    __slots__ = ("_evaluator", "term")

    def __init__(self, term: Term, evaluator: _Evaluator):
        self.term = term
        self._evaluator = evaluator

    @property
    def zone(self) -> datetime.tzinfo:
        """The time zone of local times."""
        return self._evaluator.zone

    def local(self, instants: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
        """Return timestamps as local times, computed once for equal terms; see `zones.to_local`."""
        return self._evaluator.local(self.term.arguments[-1], instants)

    def text_bytes(self) -> Any:
        """Return how many bytes the texts have that the term is made of, for each event."""
        return self._evaluator.text_bytes(self.term)


class _Evaluator:
    def __init__(self, column: Callable[[str], pa.Array], length: int, zone: datetime.tzinfo):
        self._column = column
        self._length = length
        self.zone = zone
        self._values: dict[Term, Any] = {}
        self._local: dict[Term, tuple[pa.Array, np.ndarray | None]] = {}

    def value(self, term: Term) -> pa.Array | pa.Scalar:
        """Return the values of a term: a scalar if it is constant."""
        found = self._values.get(term)
        if found is None:
            found = self._values[term] = self._compute(term)
        return found

    def to_array(self, value: pa.Array | pa.Scalar, term: Term) -> pa.Array:
        """Return a value of a term as an array."""
        if isinstance(value, pa.Scalar):
            return pa.repeat(value, self._length)
        return value

    def local(self, term: Term, instants: pa.Array) -> tuple[pa.Array, np.ndarray | None]:
        """Return the timestamps that a term has as local times; see `zones.to_local`."""
        found = self._local.get(term)
        if found is None:
            found = zones.to_local(instants, self.zone)
            if not term.is_constant:
                self._local[term] = found
        return found

    def text_bytes(self, term: Term) -> Any:
        """Return how many bytes the different texts have that a term is made of, for each event."""
        total: Any = 0
        for text in _texts_of(term):
            if text.function == "literal":
                total += len(text.value.encode())
            else:
                total = total + pc.fill_null(pc.binary_length(self.value(text)), 0).to_numpy()
        return total

    def _compute(self, term: Term) -> pa.Array | pa.Scalar:
        if term.function == "column":
            return self._column(term.value)
        if term.function == "literal":
            return _to_scalar(term)
        if term.function == "field":
            (parent,) = term.arguments
            index = [name for name, _ in parent.type.fields].index(term.value)
            return pc.struct_field(self.value(parent), [index])
        if term.function == "item":
            parent, key = term.arguments
            return pc.map_lookup(
                self.value(parent), pa.scalar(key.value, pa.large_string()), "first"
            )
        return self._call(term, [self.value(a) for a in term.arguments])

    def _call(self, term: Term, arguments: list[pa.Array | pa.Scalar]) -> pa.Array | pa.Scalar:
        """Return a function of values; an event for which it raises gets null."""
        is_constant = all(isinstance(a, pa.Scalar) for a in arguments)
        if is_constant:
            arguments[0] = pa.repeat(arguments[0], 1)
        type_ = arrow_type(term.type)
        try:
            result = FUNCTIONS[term.function].compute(Call(term, self), *arguments)
            if isinstance(result, pa.ChunkedArray):
                result = result.combine_chunks()
            if result.type != type_:
                result = result.cast(type_)
        except Exception:
            # None is known to raise; but if one does, it must not stop the matching of all rules.
            if is_constant or self._length < 2:
                result = pa.nulls(1 if is_constant else self._length, type_)
            else:
                middle = self._length // 2
                halves = [(0, middle), (middle, self._length)]
                result = pa.concat_arrays([self._part(term, arguments, *h) for h in halves])
        return result[0] if is_constant else result

    def _part(
        self, term: Term, arguments: list[pa.Array | pa.Scalar], start: int, stop: int
    ) -> pa.Array:
        """Return a function of values for the events from `start` up to `stop`."""

        def cut(value: Any) -> Any:
            return value if isinstance(value, pa.Scalar) else value.slice(start, stop - start)

        part = _Evaluator(lambda name: cut(self._column(name)), stop - start, self.zone)
        return part._call(term, [cut(a) for a in arguments])
