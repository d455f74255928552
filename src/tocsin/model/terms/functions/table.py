"""All functions of terms by name: the one table for reading, evaluating and documenting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tocsin.model.terms.coercion import Resolved, TermBuilder, TermError, Written
from tocsin.model.terms.functions.bits import BITS
from tocsin.model.terms.functions.casts import compute_cast
from tocsin.model.terms.functions.function import Function
from tocsin.model.terms.functions.logic import LOGIC
from tocsin.model.terms.functions.numbers import NUMBERS
from tocsin.model.terms.functions.parts import PARTS
from tocsin.model.terms.functions.texts import TEXTS
from tocsin.model.terms.functions.times import TIMES
from tocsin.model.terms.tree import Term


def _resolve_cast(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    raise TermError("a cast needs a type")  # the builder casts


CASTS = [
    Function(
        "cast",
        "CAST(a AS type), a :: type",
        "the type",
        "to int, bigint, double, decimal(p, s), string, boolean, timestamp or date; try_cast is "
        "the same",
        1,
        1,
        _resolve_cast,
        compute_cast,
    )
]

FAMILIES: dict[str, list[Function]] = {
    "numbers": [*NUMBERS, *BITS],
    "texts": [*TEXTS, *PARTS],
    "times": TIMES,
    "logic and choice": LOGIC,
    "casts": CASTS,
}

FUNCTIONS: dict[str, Function] = {
    function.name: function for functions in FAMILIES.values() for function in functions
}

# Written as functions, but translated to one or more other functions.
REWRITTEN = (
    "if", "nvl", "ifnull", "nvl2", "nullif", "isnotnull", "to_date", "try_to_date",
    "try_cast", "try_element_at", "element_at", "extract", "date_part", "ilike", "like",
)  # fmt: skip

_KEYWORDS = ("and", "or", "not", "in", "case", "cast", "try_cast", "div", "extract", "split")

ALIASES: dict[str, str] = {
    alias: function.name for function in FUNCTIONS.values() for alias in function.aliases
}


def function_names() -> list[str]:
    """Return the names of all functions that are written as name(arguments)."""
    names = {*FUNCTIONS, *ALIASES, *REWRITTEN}
    return sorted(n for n in names if n.replace("_", "").isalpha() and n not in _KEYWORDS)


def describe_functions() -> Iterator[tuple[str, str, str, str, str]]:
    """Yield for each function its family, how it is written, other names, result and a note."""
    for family, functions in FAMILIES.items():
        for function in functions:
            others = ", ".join(function.aliases)
            yield family, function.arguments, others, function.result, function.note
