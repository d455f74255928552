"""Bits of int and bigint, in two's complement as in Java."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.terms.arrays import Value, from_values, plain, validity
from tocsin.model.terms.coercion import Resolved, TermBuilder, TermError, Written, describe
from tocsin.model.terms.functions.function import Function
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import BIGINT, INT, NULL, Type, arrow_type


def _need_integer(term: Term, what: str) -> Type:
    if not term.type.is_integral and term.type != NULL:
        raise TermError(f"{what} needs integers, but {describe(term)}")
    return term.type


def _resolve_bits(
    name: str, build: TermBuilder, arguments: Sequence[Term], written: Written
) -> Resolved:
    types = [_need_integer(term, name) for term in arguments]
    common = BIGINT if BIGINT in types else INT
    return tuple(build.cast(term, common) for term in arguments), common


def _resolve_shift(build: TermBuilder, arguments: Sequence[Term], written: Written) -> Resolved:
    number, places = arguments
    type_ = _need_integer(number, "a shift")
    if places.type not in (INT, NULL):
        raise TermError(f"a shift needs an int, but {describe(places)}; cast it to int")
    type_ = INT if type_ == NULL else type_
    return (build.cast(number, type_), build.cast(places, INT)), type_


def _shift(name: str, call: Any, number: Value, places: Value) -> pa.Array:
    type_ = arrow_type(call.term.type)
    dtype = np.dtype(type_.to_pandas_dtype())
    a, b = np.asarray(plain(number), dtype), np.asarray(plain(places), np.int32)
    b = (b & (8 * dtype.itemsize - 1)).astype(dtype)  # like Java, by the last bits
    if name == "<<":
        shifted = a << b
    elif name == ">>":
        shifted = a >> b
    else:
        unsigned = np.dtype(f"u{dtype.name}")
        shifted = (a.view(unsigned) >> b.astype(unsigned)).view(dtype)
    return from_values(np.atleast_1d(shifted), type_, validity(number, places))


BITS: list[Function] = [
    *(
        Function(
            name,
            f"a {name} b",
            "int, or bigint",
            note,
            2,
            2,
            functools.partial(_resolve_bits, name),
            lambda call, a, b, kernel=kernel: kernel(a, b),
        )
        for name, kernel, note in (
            ("&", pc.bit_wise_and, "before ^, which is before \\|; all after << and +"),
            ("|", pc.bit_wise_or, ""),
            ("^", pc.bit_wise_xor, ""),
        )
    ),
    Function(
        "~",
        "~a",
        "int, or bigint",
        "",
        1,
        1,
        functools.partial(_resolve_bits, "~"),
        lambda call, a: pc.bit_wise_not(a),
    ),
    *(
        Function(
            name,
            written,
            "type of a",
            note,
            2,
            2,
            _resolve_shift,
            functools.partial(_shift, name),
            aliases=aliases,
        )
        for name, written, note, aliases in (
            ("<<", "a << n", "n modulo 32 or 64, as in Java", ("shiftleft",)),
            (">>", "a >> n", "copies the sign", ("shiftright",)),
            ("shiftrightunsigned", "shiftrightunsigned(a, n)", "inserts zeros", ()),
        )
    ),
]
