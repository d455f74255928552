"""Compiles lists of plain literals: a function from the text of a list to the points of a set.

`IN (1, 5, 9)` is one literal of its text, so that texts share a form whatever the lengths of their
lists. What is rare raises an error here, after which the text is read by itself.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable

from sqlglot import exp

from tocsin.errors import ConditionError
from tocsin.model.categories import Categories
from tocsin.model.constants import Constant, Literals, compile_cuts, fit_one_decimal
from tocsin.model.encoding import HIGHEST, SEAM, number_key
from tocsin.model.scanning import split_texts
from tocsin.model.schema import Schema


def compile_points(
    attribute: int, slot: int, type_: str, schema: Schema, node: exp.Expr
) -> Callable[[Literals, Categories], list[int]]:
    """Return a function from literals to the keys of all elements of the list in a slot.

    `type_` is that of the elements: integer, decimal or text. It fits the attribute.
    """
    kind = schema.kind(attribute)
    if kind == "category":

        def codes(s: Literals, categories: Categories) -> list[int]:
            get, add = categories.get, categories.add  # most are known, and get is of a dict
            return [get(text, 0) or add(text) for text in split_texts(s[slot])]

        return codes
    if kind == "number":

        def numbers(s: Literals, _: Categories) -> list[int]:
            return [number_key(float(each)) for each in _split(s[slot])]

        return numbers
    if kind == "integer" and type_ == "integer":

        def integers(s: Literals, _: Categories) -> list[int]:
            values = list(map(int, _split(s[slot])))
            if min(values) <= SEAM + 1 or max(values) > HIGHEST:
                raise ConditionError("the keys of these integers are not the integers themselves")
            return values

        return integers
    if type_ == "text":
        text_cuts = compile_cuts(attribute, Constant("text", lambda s: s[0], node), schema)

        def times(s: Literals, categories: Categories) -> list[int]:
            cuts = [text_cuts([text], categories) for text in split_texts(s[slot])]
            return [point for cut in cuts for point in range(*cut)]

        return times
    cuts = compile_cuts(attribute, Constant("decimal", lambda s: s[0], node), schema)

    def exact_numbers(s: Literals, categories: Categories) -> list[int]:
        values = [decimal.Decimal(x) if "." in x else int(x) for x in _split(s[slot])]
        constants = [_constant(value, node) for value in values]
        if not fit_one_decimal(kind, constants, s):
            raise ConditionError("the values together need more than Spark's 38 digits")
        found = [cuts([value], categories) for value in values]  # type: ignore[list-item]
        return [point for cut in found for point in range(*cut)]

    return exact_numbers


def _constant(value: int | decimal.Decimal, node: exp.Expr) -> Constant:
    return Constant("integer" if isinstance(value, int) else "decimal", lambda _: value, node)


def _split(literal: str) -> list[str]:
    elements = literal.split(",")
    if len(literal) > 38 and max(map(len, elements)) > 38:
        raise ConditionError("a number may have more than Spark's 38 digits")
    return elements
