"""Which texts share a shape, and which literals they have."""

import pytest

from tocsin.model.categories import Categories
from tocsin.model.condition import ConditionReader
from tocsin.model.scanning import is_plain, locate, scan, split_texts
from tocsin.model.schema import Schema

SCHEMA = Schema(
    {"n": "integer", "p": "number", "tier": "category", "seen": "time", "a1": "integer"}
)


@pytest.fixture
def parses(monkeypatch):
    """The texts that were parsed."""
    parsed = []
    compile_text = ConditionReader._compile

    def counting(self, text, slots):
        parsed.append(text)
        return compile_text(self, text, slots)

    monkeypatch.setattr(ConditionReader, "_compile", counting)
    return parsed


@pytest.mark.parametrize(
    ("text", "literals"),
    [
        ("n IN (1, 5,-9)", ["1, 5,-9"]),
        ("n IN ( 1 )", ["1"]),
        ("tier IN ('a', 'b,c') AND p > 3.5e2", ["'a', 'b,c'", "3.5e2"]),
        ("p IN (1, 2.5, -3.)", ["1, 2.5, -3."]),
        ("n IN (1, NULL, 2)", ["1", "2"]),
        ("p IN (1, 2e0)", ["1", "2e0"]),
        ("tier IN ('a', 5)", ["a", "5"]),
        ("n IN (- 5, 3)", ["5", "3"]),
        ("n = ANY(ARRAY[1, 2])", ["1, 2"]),
        ("a1 > 5 AND `b 2` = 'x`' AND c = .5", ["5", "x`", ".5"]),
        ("n > 5L AND n < 1_0", ["5", "1"]),
    ],
)
def test_literals(text, literals):
    assert scan(text)[1] == literals


def test_skeletons_tell_types_and_nothing_else_of_a_literal():
    def skeleton(text):
        return scan(text)[0]

    assert skeleton("n IN (1, 2)") == skeleton("n IN (-7)") != skeleton("n IN (1, NULL)")
    assert skeleton("n IN (1, 2)") != skeleton("n IN (1, 2.0)") == skeleton("n IN (1.5, 3, 4)")
    assert skeleton("n IN (1)") != skeleton("n IN ('1')") != skeleton("n = '1'")
    assert len({skeleton(f"n > {number}") for number in ("5", "5.0", "5e0", "'5'", "(5)")}) == 5
    assert skeleton("n > 5") != skeleton("n > i")
    assert skeleton("n > 5") == skeleton("n > 77")
    assert skeleton("`n 1` > 5") != skeleton("`n 2` > 5")


def test_offsets_of_literals_are_those_of_the_parser():
    text = "n IN (1, -15) AND tier = 'x' AND tier IN ('a', 'b')"
    found = {offset: tuple(slot) for offset, slot in locate(text).items()}
    assert found == {
        text.index("1"): (0, "1", 2),
        text.index("15"): (0, "-15", 2),
        text.index("'x'"): (1, "x", 0),
        text.index("'a'"): (2, "a", 2),
        text.index("'b'"): (2, "b", 2),
    }


def test_texts_of_a_list():
    assert split_texts("'a', 'b,c',' d '") == ["a", "b,c", " d "]


@pytest.mark.parametrize(
    "text", ["a = ''", 'a = "b"', r"a = '\n'", "a > 5 -- why", "a /* */ > 5", "\0"]
)
def test_what_is_not_plain(text):
    assert not is_plain(text)


def test_lists_of_all_lengths_share_a_shape(parses):
    reader = ConditionReader(SCHEMA)
    categories = Categories()
    for size in range(1, 13):
        numbers = ", ".join(str(7 * i - 20) for i in range(size))
        texts = ",".join(f"'t{i}'" for i in range(size))
        prices = ", ".join(f"{i}.5" if i % 2 == 0 else f"-{i}" for i in range(size))
        times = ", ".join(f"'2024-05-{i + 1}'" for i in range(size))
        text = (
            f"n IN ({numbers}) AND tier NOT IN ({texts}) AND p IN ({prices}) AND "
            f"seen IN ({times}) AND n NOT IN ({prices}) AND p > {size}.5"
        )
        found = reader.read(text, categories)
        assert len(parses) == 1
        assert found == ConditionReader(SCHEMA)._read_unshared(text, categories)
        parses.pop()


def test_literals_that_are_no_constants_are_fixed(parses):
    """The precision of a decimal belongs to the shape; the number that is cast does not."""
    reader, categories = ConditionReader(SCHEMA), Categories()

    def read(value, digits):
        return reader.read(f"p > CAST('{value}' AS DECIMAL({digits}, 1))", categories)

    first = read("1.5", 4)
    assert read("2.5", 4) != first
    assert len(parses) == 1
    assert read("2.5", 5) == read("2.5", 4)
    assert len(parses) == 2
    read("3.5", 5)
    read("3.5", 4)
    assert len(parses) == 2


def test_numbers_at_the_ends_are_read_alone_and_right():
    reader, categories = ConditionReader(SCHEMA), Categories()
    reader.read("n IN (1, 2)", categories)
    for values in (
        "-9223372036854775808",
        "9223372036854775808, 5",
        "-9223372036854775809",
        "0" * 40,
    ):
        text = f"n IN ({values})"
        alone = ConditionReader(SCHEMA)
        if len(values) == 40:
            with pytest.raises(Exception, match="more than Spark's 38 digits"):
                reader.read(text, categories)
        else:
            assert reader.read(text, categories) == alone._read_unshared(text, categories)


def test_the_cache_is_bounded(parses, monkeypatch):
    monkeypatch.setattr("tocsin.model.condition._MAX_CACHED", 3)
    reader, categories = ConditionReader(SCHEMA), Categories()
    for digits in range(4, 9):
        reader.read(f"p > CAST('1.5' AS DECIMAL({digits}, 1))", categories)
    assert len(parses) == 5
    reader.read("p > CAST('1.5' AS DECIMAL(8, 1))", categories)
    assert len(parses) == 5
    reader.read("p > CAST('1.5' AS DECIMAL(4, 1))", categories)
    assert len(parses) == 6
