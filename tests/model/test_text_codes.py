"""Codes of texts are those of a dict, in whatever layout Arrow has the texts."""

import sys
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tocsin.model import text_codes
from tocsin.model.categories import Categories
from tocsin.model.columns import CategoryEncoder
from tocsin.model.encoding import NULL, OTHER

# Few letters, so that texts often differ in one place only, and lengths on both sides of a word.
TEXTS = st.text("ab\0é🔔", max_size=20) | st.sampled_from(
    ["", "a" * 7, "a" * 8, "a" * 16, "a" * 17]
)


def encode(array, categories):
    out = np.full(len(array), 77, np.int64)
    CategoryEncoder(categories).write(array, out)
    return out.tolist()


def expected_codes(values, known):
    codes = {text: code for code, text in enumerate(known, 1)}
    return [NULL if v is None else codes.get(v, OTHER) for v in values]


def layouts(values):
    """Yield the same column in all of Arrow's layouts, whole and as a slice."""
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        yield pa.array(values, type_)
        around = [None, "before", *values, "after", "a long text after it"]
        yield pa.array(around, type_).slice(2, len(values))
    plain = pa.array(values, pa.string())
    yield plain.dictionary_encode()
    yield pa.array(["x", *values, None]).dictionary_encode().slice(1, len(values))
    yield pa.DictionaryArray.from_arrays(
        pa.array(range(len(values)), pa.int32()), plain.cast(pa.large_string())
    )
    yield pa.compute.run_end_encode(plain)


@given(st.lists(TEXTS, unique=True), st.lists(TEXTS | st.none()), st.integers(0, 3))
@example([], [None, ""], 0)
@example(["a" * 8 + "b" * 8], ["a" * 8 + "b" * 8, "a" * 8 + "b" * 7 + "c", "b" * 16], 0)
def test_codes_are_those_of_a_dict(known, values, copies):
    values = values + known * copies
    categories = Categories(known)
    for array in layouts(values):
        assert encode(array, categories) == expected_codes(values, known), array.type


def test_a_text_at_the_end_of_a_buffer():
    # There is nothing to read after the last byte.
    data = b"JFKLGAEWR"
    offsets = np.arange(0, 10, 3, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.string(), 3, buffers)
    assert encode(array, Categories(["EWR", "JFK"])) == [2, OTHER, 1]
    nothing = [None, pa.py_buffer(np.zeros(2, np.int32)), pa.py_buffer(b"")]
    empty = pa.Array.from_buffers(pa.string(), 1, nothing)
    assert encode(empty, Categories(["EWR", ""])) == [2]
    assert encode(pa.array([], pa.string()), Categories(["EWR"])) == []


def test_offsets_beyond_32_bits():
    data = np.zeros(2**31 + 18, np.uint8)  # only the last page is ever touched
    data[2**31 :] = np.frombuffer(b"goldblackgoldfinch", np.uint8)
    offsets = 2**31 + np.array([0, 4, 9, 18])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.large_string(), 3, buffers)
    assert encode(array, Categories(["goldfinch", "gold"])) == [2, OTHER, 1]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_views_into_several_buffers(count):
    texts = [f"a text that is not inline: {i % 7}" for i in range(60)]
    data = [bytearray(b"...") for _ in range(count)]
    views = b""
    for i, text in enumerate(texts):
        number, raw = i * 5 % count, text.encode()
        place = np.array([number, len(data[number])], np.int32).tobytes()
        views += np.int32(len(raw)).tobytes() + raw[:4] + place
        data[number] += raw
    buffers = [None, pa.py_buffer(views), *(pa.py_buffer(bytes(b)) for b in data)]
    array = pa.Array.from_buffers(pa.string_view(), len(texts), buffers)
    assert array.to_pylist() == texts
    known = [texts[3], "short", texts[0]]
    assert encode(array, Categories(known)) == expected_codes(texts, known)
    assert encode(array.slice(13), Categories(known)) == expected_codes(texts[13:], known)


def test_nulls_with_any_bytes():
    text = pa.array(["gold", "gold", "a text that is not inline"], pa.string_view())
    views = np.frombuffer(text.buffers()[1], np.uint8).copy()
    views[16:32] = 0xFF  # a length of -1, and a buffer that does not exist
    buffers = [pa.py_buffer(b"\x05"), pa.py_buffer(views), *text.buffers()[2:]]
    array = pa.Array.from_buffers(pa.string_view(), 3, buffers)
    known = ["a text that is not inline", "gold"]
    assert encode(array, Categories(known)) == [2, NULL, 1]
    views[16:32] = np.array([99, 0, 0, 10**6], np.int32).view(np.uint8)  # beyond its buffer
    buffers[1] = pa.py_buffer(views)
    array = pa.Array.from_buffers(pa.string_view(), 3, buffers)
    assert encode(array, Categories(known)) == [2, NULL, 1]
    plain = pa.array(["gold", "black"])
    masked = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), *plain.buffers()[1:]])
    assert encode(masked, Categories(["gold", "black"])) == [NULL, 2]


def test_texts_that_are_not_utf8():
    for type_ in (pa.string(), pa.large_string(), pa.string_view()):
        for text in (b"\xff", b"a long text, \xc3", b"\xe9t\xe9"):
            raw = pa.array([b"gold", text, b"gold"])
            plain = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
            array = plain if type_ == pa.string() else plain.cast(type_, safe=False)
            for part in (array, array.slice(1)):
                with pytest.raises(pa.ArrowInvalid, match="UTF8"):
                    encode(part, Categories(["gold"]))
            assert encode(array.slice(2), Categories(["gold"])) == [1]


def test_equal_words_are_not_equal_texts():
    texts = [f"a text of the same length {i:03}" for i in range(40)]
    table = text_codes.TextCodes.empty().extend(pa.array(texts, pa.large_string()))
    word, code = table._arrays[:2]
    slot = int(np.flatnonzero(word)[0])
    text = texts[code[slot] - 1]
    # As if another text had the same hash.
    code[slot] = code[slot] % 40 + 1
    out = np.empty(1, np.int64)
    table.write(pa.array([text]), out)
    assert out.tolist() == [OTHER]


@given(st.lists(st.lists(TEXTS, max_size=30), max_size=8))
def test_a_table_grows_with_its_categories(batches):
    categories, values = Categories(), []
    for batch in batches:
        for text in batch:
            categories.add(text)
        values += batch
        array = pa.array([*values, "unseen"], pa.string())
        assert encode(array, categories) == expected_codes([*values, "unseen"], list(categories))


def test_many_values_in_one_table():
    known = [f"value {i}" if i % 3 else f"v{i}" for i in range(50_000)]
    categories = Categories(known[:20_000])
    values = pa.array(known[::-1])
    assert encode(values, categories) == expected_codes(known[::-1], known[:20_000])
    for text in known[20_000:]:
        categories.add(text)
    assert encode(values, categories) == list(range(50_000, 0, -1))


def test_few_texts_do_not_build_a_large_table(monkeypatch):
    categories = Categories(f"v{i}" for i in range(10_000))
    with monkeypatch.context() as patch:
        patch.setattr(text_codes.TextCodes, "extend", None)  # fails if it is called
        for array in layouts([None, "v3", "other", "v9999"]):
            assert encode(array, categories) == [NULL, 4, OTHER, 10_000]
    assert encode(pa.array(["v3", "w"] * 2_000), categories) == [4, OTHER] * 2_000
    assert categories.table(1).size == 10_000


def test_removed_values_are_forgotten():
    categories = Categories(["a", "a longer text"])
    array = pa.array(["a", "a longer text", "b", "another longer text"])
    size = len(categories)
    categories.add("b")
    categories.add("another longer text")
    assert encode(array, categories) == [1, 2, 3, 4]
    categories.truncate(size)
    assert encode(array, categories) == [1, 2, OTHER, OTHER]
    categories.add("c")
    categories.add("another longer text")
    assert encode(array, categories) == [1, 2, OTHER, 4]


def test_values_of_an_aborted_insertion_are_forgotten(monkeypatch):
    categories = Categories(["a"])
    assert encode(pa.array(["a"]), categories) == [1]
    fill = text_codes.fill_slots

    def fill_and_fail(*arguments):
        fill(*arguments)
        raise KeyboardInterrupt

    categories.add("b")
    monkeypatch.setattr(text_codes, "fill_slots", fill_and_fail)
    with pytest.raises(KeyboardInterrupt):
        encode(pa.array(["b"]), categories)
    monkeypatch.undo()
    assert encode(pa.array(["a", "b"]), categories) == [1, 2]
    categories.truncate(1)
    categories.add("c")
    assert encode(pa.array(["a", "b", "c"]), categories) == [1, OTHER, 2]


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("frequent_switches")
def test_threads_look_texts_up_while_values_are_added_and_removed():
    known = [f"v{i}" if i % 2 else f"a longer text {i}" for i in range(300)]
    categories = Categories(known)
    array = pa.array([*known, "unseen"])
    errors, stop = [], threading.Event()

    def read():
        try:
            while not stop.is_set():
                assert encode(array, categories) == [*range(1, 301), OTHER]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for change in range(300):
        size = len(categories)
        for i in range(20):
            categories.add(f"{'w' if i % 2 else 'a new longer text '}{change}-{i}")
        encode(pa.array(["x"]), categories)
        if change % 3 == 0:
            categories.truncate(size)
    stop.set()
    for thread in threads:
        thread.join()
    assert errors == []
    added = list(categories)
    assert encode(pa.array(added), categories) == list(range(1, len(added) + 1))


@pytest.mark.parametrize("offsets", [[0, 4, 2], [1, 3, 2], [0, -8, 4]])
def test_offsets_beyond_the_bytes_are_refused(offsets):
    buffers = [None, pa.py_buffer(np.array(offsets)), pa.py_buffer(b"abcd")]
    array = pa.Array.from_buffers(pa.large_string(), 2, buffers)
    categories = Categories()
    categories.add("ab")
    with pytest.raises(pa.ArrowInvalid, match="offsets of texts"):
        CategoryEncoder(categories).write(array, np.empty(2, np.int64))


@pytest.mark.parametrize("view", [(99, 0, 10**6), (99, 0, -1), (99, 1, 0), (99, -1, 0), (-1, 0, 0)])
def test_views_beyond_the_bytes_are_refused(view):
    text = pa.array(["gold", "a text that is not inline"], pa.string_view())
    views = np.frombuffer(text.buffers()[1], np.int32).copy()
    views[[4, 6, 7]] = view  # length, buffer and offset
    buffers = [None, pa.py_buffer(views), *text.buffers()[2:]]
    array = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    with pytest.raises(pa.ArrowInvalid, match="of texts are not valid"):
        encode(array, Categories(["gold"]))


@pytest.mark.parametrize("part", [slice(0, 2), slice(3, 4)])
def test_offsets_of_a_slice_beyond_the_bytes_are_refused(part):
    """Arrow looks at the ends of the whole array."""
    buffers = [None, pa.py_buffer(np.array([0, 2, 9, -3, 4])), pa.py_buffer(b"abcd")]
    array = pa.Array.from_buffers(pa.large_string(), 4, buffers)[part]
    with pytest.raises(pa.ArrowInvalid, match="offsets of texts"):
        encode(array, Categories(["ab"]))
