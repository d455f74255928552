"""The columns of results."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as st

from tocsin.engine.result import check_names
from tocsin.errors import UncertainError
from tocsin.uncertain.readings import read_number

_NUMBER = st.DoubleType()


def distribution_fields(quantiles: Sequence[float]) -> list[st.StructField]:
    """Return the columns that describe a distribution."""
    fields = [st.StructField(name, _NUMBER, False) for name in ("low", "high", "mean", "quality")]
    if quantiles:
        fields.append(st.StructField("quantiles", st.ArrayType(_NUMBER, False), False))
    atom = st.StructType([st.StructField(n, _NUMBER, False) for n in ("value", "probability")])
    return [*fields, st.StructField("atoms", st.ArrayType(atom, False), False)]


def answer_fields() -> list[st.StructField]:
    """Return the columns of an object that may be the answer."""
    return [
        st.StructField("probability", _NUMBER, False),
        st.StructField("quality", _NUMBER),
    ]


def read_quantiles(quantiles: object) -> list[float]:
    """Return the probabilities of quantiles; raise unless they are from 0 to 1."""
    if isinstance(quantiles, str) or not isinstance(quantiles, Sequence):
        raise UncertainError(f"quantiles takes probabilities in a list, got {quantiles!r}")
    numbers = [read_number(q, "a quantile") for q in quantiles]
    for number in numbers:
        if not 0 <= number <= 1:
            raise UncertainError(f"a quantile is of a probability from 0 to 1, got {number:.12g}")
    return numbers


def check_result(names: Sequence[str], added: Sequence[st.StructField] = ()) -> None:
    """Raise if two columns of a result, some of the readings' and those added, have one name."""
    added_names = [field.name for field in added]
    columns = [("added by the query", added_names), ("of the readings", names)]
    check_names(columns, UncertainError)
