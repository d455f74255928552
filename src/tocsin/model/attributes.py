"""The attributes that rules test: the columns of a schema, and terms over them.

A condition may test a *term* instead of a column: `hour(ts)`, `speed * 3.6`, `lower(name)`. A term
is an attribute of its own, shared by all rules that test it, and computed once per event. Columns
and terms are numbered together, in the order in which they come. The user's schema has columns
only: several `Rules` may share it.

Like categories, attributes are only appended, so that a version may share them with later ones. A
change that fails truncates them again. A merge that finds terms without a rule makes new ones.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tocsin.errors import ConditionError
from tocsin.model.decimals import MAX_DIGITS, decimal_kind
from tocsin.model.schema import Kind, Schema
from tocsin.model.terms.tree import Term, quote_name

# Chosen: every event computes every term that some rule tests, for about 10 nanoseconds or more.
MAX_TERMS = 1024


def kind_of_term(term: Term) -> Kind | None:
    """Return the kind of a term, or None if its values cannot be keys.

    A decimal of more than 18 digits, such as `n * 3.6`, has the keys of one of 18 digits. Values
    beyond these saturate; see `decimal_columns.saturated_integers`.
    """
    if is_wide(term):
        return decimal_kind(MAX_DIGITS, term.type.scale)
    return term.type.kind


def is_wide(term: Term) -> bool:
    """Return whether a term is a decimal of more than 18 digits, some of them before the point."""
    type_ = term.type
    return type_.name == "decimal" and type_.digits > MAX_DIGITS > type_.scale


class Attributes(Schema):
    """The columns of a schema and the terms of rules, numbered together.

    >>> attributes = Attributes(Schema({"x": "number"}))
    >>> len(attributes), attributes.name(0), attributes.terms
    (1, 'x', {})
    """

    def __init__(self, schema: Schema):
        self.schema = schema
        # Shared with the schema, which may still grow.
        self.refused, self.nested = schema.refused, schema.nested
        self.zone, self.timezone = schema.zone, schema.timezone
        self._names: list[str] = []
        self._kinds: list[Kind] = []
        self._index: dict[str, int] = {}  # columns by name; terms are not found by name
        self._terms: dict[int, Term] = {}
        self._numbers: dict[Term, int] = {}
        self._columns = 0  # columns of the schema that are here
        self._lock = threading.Lock()
        self.truncations = 0  # how often terms were taken back, so that their numbers are reused
        self.update()

    @classmethod
    def restore(cls, schema: Schema, entries: Sequence[tuple[str, Kind] | Term]) -> Attributes:
        """Return attributes in the order of `entries`: (name, kind) of a column, or a term.

        Their columns are the first ones of the schema, in its order.
        """
        attributes = cls(Schema({}, schema.timezone))
        attributes.schema = schema
        attributes.refused, attributes.nested = schema.refused, schema.nested
        for entry in entries:
            attributes._append(entry)
        attributes._columns = len(attributes._names) - len(attributes._terms)
        return attributes

    # ------------------------------------------------------------ look

    @property
    def terms(self) -> Mapping[int, Term]:
        """The terms by attribute number."""
        return self._terms

    def entries(self, count: int) -> list[tuple[str, Kind] | Term]:
        """Return the first `count` attributes, as `restore` takes them."""
        return [
            self._terms.get(number) or (self._names[number], self._kinds[number])
            for number in range(count)
        ]

    def index(self, name: str) -> int:
        """Return the number of a column, or of a term by its text; raise if there is none."""
        if name.lower() not in self._index:
            for number, term in self._terms.items():
                if term.sql == name:
                    return number
        return super().index(name)

    def find(self, name: str) -> int | None:
        """Return the number of a column, or None if there is no such name."""
        return self._index.get(name.lower())

    def sql(self, number: int) -> str:
        """Return an attribute as SQL, such that it can be compared."""
        term = self._terms.get(number)
        return quote_name(self._names[number]) if term is None else term.sql

    def columns_of(self, attributes: Iterable[int]) -> list[str]:
        """Return the names of the columns that attributes are read or computed from."""
        names: dict[str, None] = {}
        for number in attributes:
            term = self._terms.get(number)
            names |= dict.fromkeys([self._names[number]] if term is None else term.columns)
        return list(names)

    # ------------------------------------------------------------ change

    def add(self, name: str, kind: str) -> None:
        """Append a column, also to the schema."""
        self.schema.add(name, kind)
        self.update()

    def update(self) -> None:
        """Append the columns that the schema has gained."""
        if self._columns < len(self.schema):
            with self._lock:
                for number in range(self._columns, len(self.schema)):
                    self._append((self.schema.name(number), self.schema.kind(number)))
                self._columns = len(self.schema)

    def add_term(self, term: Term) -> int:
        """Return the number of a term; it is appended if it is new."""
        number = self._numbers.get(term)
        if number is not None:
            return number
        if len(self._terms) >= MAX_TERMS:
            raise ConditionError(
                f"these rules already test {MAX_TERMS:,} different terms, the most that there can "
                f"be, and {term.sql} is another one: each is computed for every event. Compute "
                "it as a column of the events"
            )
        with self._lock:
            return self._append(term)

    def _append(self, entry: tuple[str, Kind] | Term) -> int:
        number = len(self._names)
        if isinstance(entry, Term):
            kind = kind_of_term(entry)
            assert kind is not None
            self._terms[number] = entry
            self._numbers[entry] = number
            self._kinds.append(kind)
            self._names.append(entry.sql)
        else:
            self._index[entry[0].lower()] = number
            self._kinds.append(entry[1])
            self._names.append(entry[0])
        return number

    def truncate(self, count: int) -> None:
        """Remove all attributes but the first `count`; columns come back when they are needed."""
        with self._lock:
            for number in range(len(self._names) - 1, count - 1, -1):
                term = self._terms.pop(number, None)
                name = self._names.pop()
                self._kinds.pop()
                if term is None:
                    del self._index[name.lower()]
                    self._columns -= 1
                else:
                    del self._numbers[term]
                self.truncations += 1

    def copy(self, count: int) -> Attributes:
        """Return an independent copy of the first `count` attributes."""
        return Attributes.restore(self.schema, self.entries(count))

    def drop_unused(self, used: Iterable[int]) -> tuple[Attributes, np.ndarray]:
        """Return attributes without the terms that are not `used`, and the new numbers."""
        keep = np.ones(len(self._names), bool)
        keep[list(self._terms)] = False
        keep[list(used)] = True
        entries = [e for e, kept in zip(self.entries(len(keep)), keep, strict=True) if kept]
        return Attributes.restore(self.schema, entries), (np.cumsum(keep) - 1).astype(np.int32)
