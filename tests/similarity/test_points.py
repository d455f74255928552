"""Points in any form, and errors that say what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tocsin
from tocsin import similarity

A = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
TABLE = pa.table({"x": A[:, 0], "y": A[:, 1]})

FORMS = {
    "lists": A.tolist(),
    "float32": A.astype(np.float32),
    "integers": A.astype(np.int64),
    "unsigned": A.astype(np.uint8),
    "Fortran order": np.asfortranarray(A),
    "every other row": np.repeat(A, 2, axis=0)[::2],
    "reversed": A[::-1][::-1],
    "table": TABLE,
    "batch": TABLE.to_batches()[0],
    "chunks": pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
    "slice": pa.concat_tables([TABLE.slice(1), TABLE]).slice(2),
    "pandas": pd.DataFrame(A, columns=["x", "y"], index=[7, 8, 9]),
    "polars": pl.DataFrame({"x": A[:, 0], "y": A[:, 1]}),
    "lists of fixed size": pa.FixedSizeListArray.from_arrays(A.reshape(-1), 2),
    "a column of lists": pa.table({"v": pa.FixedSizeListArray.from_arrays(A.reshape(-1), 2)}),
    "a slice of lists": pa.FixedSizeListArray.from_arrays(
        np.concatenate([[9.0, 9.0], A.reshape(-1), [9.0, 9.0]]), 2
    ).slice(1, 3),
    "chunks of lists": pa.chunked_array([pa.FixedSizeListArray.from_arrays(A.reshape(-1), 2)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    found = similarity.join(FORMS[form], A, 0.5)
    assert sorted(found) == [(0, 0), (1, 1), (2, 2)]


def test_tables_are_matched_by_name():
    other = TABLE.select(["y", "x"])
    assert sorted(similarity.join(TABLE, other, 0.5)) == [(0, 0), (1, 1), (2, 2)]


BAD = {
    "nan": ([[0.0, np.nan]], A, "a has nan in row 0, coordinate 1"),
    "infinite": (A, [[0.0, 1.0], [np.inf, 0.0]], "b has inf in row 1, coordinate 0"),
    "nan in a table": (pa.table({"x": [np.nan], "y": [0.0]}), TABLE, "nan in row 0, x"),
    "null": (pa.table({"x": [1.0, None], "y": [0.0, 0.0]}), TABLE, "'x' is null in row 1"),
    "null list": (
        pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)), A, "a has 1 nulls",
    ),
    "no coordinates": (np.empty((3, 0)), A, "have no coordinates"),
    "mismatched": (A, np.zeros((2, 3)), "a have 2 coordinates, those of b have 3"),
    "other columns": (TABLE, TABLE.rename_columns(["x", "z"]), "a has the columns x, y, but b has"),
    "one dimension": (np.zeros(3), A, "a.reshape(-1, 1)"),
    "three dimensions": (np.zeros((3, 2, 2)), A, "its shape is (3, 2, 2)"),
    "texts": ([["a", "b"]], A, "array of numbers"),
    "flags": (np.zeros((2, 2), bool), A, "of bool"),
    "objects": ([[None, 1.0]], A, "array of numbers"),
    "ragged": ([[1.0], [1.0, 2.0]], A, "its rows differ in length"),
    "text column": (pa.table({"x": [1.0], "y": ["a"]}), TABLE, "'y' is of type string"),
    "long integers": (np.array([[2**60, 0]]), A, "beyond 2^53"),
    "variable lists": (pa.array([[1.0, 2.0]]), A, "fixed-size lists"),
    "null in a list": (
        pa.chunked_array([pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)),
                          pa.array([[1.0, 2.0], [3.0, None]], pa.list_(pa.float64(), 2))]),
        A, "is null in row 2",
    ),
    "empty lists": (pa.array([[], []], pa.list_(pa.float64(), 0)), A, "have no coordinates"),
    "masked": (np.ma.masked_equal(A, 5.0), A, "a has masked values"),
    "columns of one name": (
        pa.Table.from_arrays([pa.array([1.0])] * 3, ["x", "x", "y"]),
        pa.Table.from_arrays([pa.array([1.0])] * 3, ["x", "y", "x"]), "have the same name",
    ),
    "a number": (5, A, "must have two dimensions"),
    "nothing": (None, A, "array of numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_points(case):
    a, b, message = BAD[case]
    with pytest.raises(tocsin.SimilarityError) as error:
        similarity.join(a, b, 1.0)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 0}, "above 0, got 0.0; for equal points use closed=True"),
        ({"epsilon": -1}, "above 0"),
        ({"epsilon": float("nan")}, "finite"),
        ({"epsilon": float("inf")}, "finite"),
        ({"epsilon": 1e155}, "the square of epsilon, 1e+155, is too large"),
        ({"epsilon": "1"}, "must be a number, got '1'"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": 1, "metric": "l3"}, "one of l2, l1, linf; got 'l3'"),
        ({"epsilon": 1, "metric": None}, "one of l2"),
        ({"epsilon": 1, "method": "cell"}, "did you mean 'cells'?"),
        ({"epsilon": 1, "method": ["cells"]}, "got ['cells']"),
        ({"epsilon": 10**400}, "finite"),
        ({"epsilon": np.complex128(1)}, "must be a number"),
        ({"epsilon": np.timedelta64(1, "s")}, "must be a"),
    ],
)
def test_bad_arguments(arguments, message):
    for function in (similarity.join, similarity.count):
        with pytest.raises(tocsin.SimilarityError) as error:
            function(A, A, **arguments)
        assert message in str(error.value)


@pytest.mark.parametrize("method", ["auto", *similarity.METHODS])
def test_no_points_have_no_pairs(method):
    none = np.empty((0, 2))
    for a, b in [(none, A), (A, none), (none, none), (TABLE.slice(0, 0), TABLE)]:
        found = similarity.join(a, b, 1, method)
        assert len(found) == 0
        assert found.to_arrow().num_rows == 0
        assert similarity.count(a, b, 1, method) == 0
        assert list(similarity.join_blocks(a, b, 1, method)) == []
    assert list(similarity.self_join(none, 1, method)) == []


def test_no_points_still_have_coordinates():
    with pytest.raises(tocsin.SimilarityError, match="a have 3 coordinates, those of b have 2"):
        similarity.join(np.empty((0, 3)), A, 1)
    with pytest.raises(tocsin.SimilarityError, match="the method must be"):
        similarity.join(A[:0], A, 1, "nonsense")
    with pytest.raises(tocsin.SimilarityError, match="b has no points, so there is nothing to"):
        similarity.estimate(A, A[:0], 1)


def test_epsilon_0_finds_equal_points():
    a = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0000000001]]
    for method in similarity.METHODS:
        assert list(similarity.self_join(a, 0, method, closed=True)) == [(0, 1)]


def test_blocks_have_a_least_size():
    for size in (10, 2000.5, "2000"):
        with pytest.raises(tocsin.SimilarityError, match="block_size must be an integer, at least"):
            similarity.join_blocks(A, A, 1, block_size=size)


def test_errors_of_blocks_come_before_the_first_one():
    with pytest.raises(tocsin.SimilarityError, match="a has nan"):
        similarity.join_blocks([[0.0, np.nan]], A, 1)
