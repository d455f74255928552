import sys
import threading

import numpy as np
import pyarrow as pa
import pytest

from tocsin.errors import StoreError
from tocsin.model.categories import Categories, check_codes, recode
from tocsin.model.condition import ConditionReader
from tocsin.model.conjunctions import ConjunctionBuilder
from tocsin.model.encoding import NULL, OTHER
from tocsin.model.predicates import INTERVAL
from tocsin.model.schema import Schema


def test_codes_count_from_one_in_the_order_of_addition():
    categories = Categories()
    assert [categories.add(text) for text in ("b", "a", "b", "", "a", "c")] == [1, 2, 1, 3, 2, 4]
    assert list(categories) == ["b", "a", "", "c"]
    assert len(categories) == 4
    assert [categories.get(text, OTHER) for text in ("a", "", "new", "A")] == [2, 3, OTHER, OTHER]
    assert len(categories) == 4, "a lookup adds nothing"


def test_texts_of_codes():
    categories = Categories(["b", "a"])
    categories.add("c")
    assert [categories.text(code) for code in (1, 2, 3)] == ["b", "a", "c"]
    assert [categories.text(code) for code in (OTHER, 4, -1, NULL)] == [None] * 4


def test_repeated_values_have_one_code():
    categories = Categories(["b", "a", "b", "c"])
    assert list(categories) == ["b", "a", "c"]
    assert [categories.get(text, OTHER) for text in "abc"] == [2, 1, 3]


def test_values_as_an_arrow_array():
    categories = Categories(["b", "", "é"])
    assert categories.to_arrow().equals(pa.array(["b", "", "é"], pa.large_string()))
    assert categories.to_arrow(1, 2).equals(pa.array([""], pa.large_string()))
    assert categories.to_arrow(3, 3).equals(pa.array([], pa.large_string()))


# ------------------------------------------------------------ truncation and concurrent readers


def test_truncate_removes_the_last_values():
    categories = Categories(["a", "b"])
    get, size = categories.get, len(categories)
    for text in ("b", "c", "d"):
        categories.add(text)
    categories.truncate(size)
    assert list(categories) == ["a", "b"]
    assert [get(text, OTHER) for text in "abcd"] == [1, 2, OTHER, OTHER]
    assert categories.text(3) is None
    assert categories.add("d") == 3, "its code is free again"
    assert (categories.text(3), get("d", OTHER), get("c", OTHER)) == ("d", 3, OTHER)


class InterruptError(Exception):
    """Raised between appending a text and storing its code."""


def test_truncate_after_an_interrupted_addition():
    categories = Categories(["a"])

    class InterruptingDict(dict):
        def __setitem__(self, text, code):
            assert categories.text(code) == text, "the text exists before its code"
            raise InterruptError

    codes, categories._codes = categories._codes, InterruptingDict(categories._codes)
    with pytest.raises(InterruptError):
        categories.add("b")
    categories._codes = codes
    categories.truncate(1)
    assert list(categories) == ["a"]
    assert categories.add("b") == 2


def test_a_copy_of_the_first_values_is_independent():
    categories = Categories(["a", "b"])
    before = len(categories)
    categories.add("c")
    assert categories.to_arrow(0, before).to_pylist() == ["a", "b"]
    copied = categories.copy(before)
    assert list(copied) == ["a", "b"]
    assert copied.add("d") == 3
    assert categories.get("d", OTHER) == OTHER, "the copy has its own values"
    assert copied.get("c", OTHER) == OTHER


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize("fails", [False, True], ids=["changes succeed", "every other fails"])
def test_a_reader_on_another_thread_while_values_are_added(fails):
    known = [f"v{i}" for i in range(2_000)]
    categories = Categories(known)
    started, stop = threading.Event(), threading.Event()
    errors = []

    def look_up():
        assert [categories.get(text, OTHER) for text in known[:50]] == list(range(1, 51))
        assert [categories.text(code) for code in range(1_951, 2_001)] == known[-50:]
        assert categories.to_arrow(0, 2_000).to_pylist() == known
        assert [text for text in categories][:2_000] == known  # noqa: C416  (test the iterator)
        if not fails:  # otherwise it may be removed again
            for i in range(len(categories), len(categories) + 1_000):
                code = categories.get(f"w{i}", OTHER)
                assert code == OTHER or categories.text(code) == f"w{i}"

    def read():
        try:
            while not stop.is_set():
                look_up()
                started.set()
        except BaseException as error:
            errors.append(error)
            started.set()

    thread = threading.Thread(target=read)
    thread.start()
    started.wait(60)
    for change in range(200):
        size = len(categories)
        for i in range(size, size + 100):
            categories.add(f"w{i}")
        if fails and change % 2:
            categories.truncate(size)
    stop.set()
    thread.join()
    assert errors == []
    assert len(categories) == 2_000 + 100 * (100 if fails else 200)
    assert all(categories.text(categories.add(text)) == text for text in list(categories))


# ------------------------------------------------------------ recoding


SCHEMA = Schema({"c": "category", "d": "category", "n": "integer"})
CONDITIONS = [
    "c = 'v40'",
    "c IN ('v100', 'v101', 'v102')",
    "c IN ('v5', 'v2500', 'v4999') AND n BETWEEN 40 AND 2500",
    "d NOT IN ('v7', 'v101') AND n IN (7, 101)",
    "c IS NULL AND d IS NOT NULL",
    "NOT d <=> 'v2500'",
    "n = 4999",
]


def read_conditions(categories):
    reader, builder = ConditionReader(SCHEMA), ConjunctionBuilder()
    for number, condition in enumerate(CONDITIONS):
        builder.add(number, reader.read(condition, categories)[0])
    return builder.build()


def decode_rows(c, categories):
    """Return (attribute, kind, keys) for each row, with texts in place of codes."""
    rows = []
    for attribute, kind, low, high in zip(c.attribute, c.kind, c.low, c.high, strict=True):
        ends = [int(low), int(high)]
        keys = ends if kind == INTERVAL else c.points[low:high].tolist()
        if attribute < 2:
            if kind == INTERVAL and low > 0:
                keys = range(low, high + 1)
            keys = [categories.text(key) or key for key in keys]
        rows.append((int(attribute), int(kind), list(keys)))
    return rows


def test_recode_keeps_the_conditions_and_drops_unused_values():
    categories = Categories(f"v{i}" for i in range(5_000))
    c = read_conditions(categories)
    before = [each.tobytes() for each in c]
    recoded, fewer = recode(c, categories, SCHEMA)
    assert list(fewer) == [f"v{i}" for i in (5, 7, 40, 100, 101, 102, 2500, 4999)]
    rows = decode_rows(c, categories)
    assert decode_rows(recoded, fewer) == rows
    assert {key for *_, keys in rows for key in keys} >= {"v5", "v102", "v4999"}
    check_codes(recoded, len(fewer), SCHEMA)
    with pytest.raises(StoreError, match="codes of the 7 known values"):
        check_codes(recoded, len(fewer) - 1, SCHEMA)
    assert len(categories) == 5_000, "versions may still use them"
    assert [each.tobytes() for each in c] == before
    assert not any(each.flags.writeable for each in recoded)


def test_recode_changes_nothing_if_most_values_are_used():
    categories = Categories(f"v{i}" for i in range(1_000))
    c = read_conditions(categories)
    recoded, same = recode(c, categories, SCHEMA)
    assert same is categories
    assert all(np.shares_memory(a, b) or not a.size for a, b in zip(recoded, c, strict=True))
