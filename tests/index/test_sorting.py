import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.index.sorting import sort


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=100)
    | st.lists(st.integers(0, 5), min_size=10, max_size=300)
)
def test_an_array_is_sorted_in_place(numbers):
    values = np.array(numbers, np.int64)
    sort(values)
    assert values.tolist() == sorted(numbers)


def test_large_arrays_are_sorted():
    rng = np.random.default_rng(0)
    for size in (15, 16, 17, 31, 32, 33, 48, 1000, 65_537):
        for values in rng.integers(0, size, size), np.arange(size), np.arange(size)[::-1].copy():
            expected = sorted(values.tolist())
            sort(values)
            assert values.tolist() == expected
