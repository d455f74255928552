"""Tables of indexes in documents say what the indexes declare."""

import pytest

from scripts.index_tables import BEGIN, DOCUMENTS, END, ROOT, renewed
from tocsin.index.registry import INDEXES


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_table_is_up_to_date(name):
    text = (ROOT / name).read_text()
    assert text == renewed(text, DOCUMENTS[name]), "run: python -m scripts.index_tables"
    for index in INDEXES:
        assert text.count(f"\n| `{index}` |") == 1


def test_what_is_around_a_table_stays():
    columns = {"ranges": lambda index: index.supports_ranges}
    text = renewed(f"before\n{BEGIN}\nold\n{END}\nafter\n", columns)
    lines = text.splitlines()
    assert [lines[0], lines[1], lines[-2], lines[-1]] == ["before", BEGIN, END, "after"]
    assert lines[2:5] == ["| index | ranges |", "| --- | --- |", "| `exhaustive` | yes |"]
    assert "| `grid` |  |" in lines
    assert "old" not in lines


def test_a_document_without_a_place_for_the_table():
    with pytest.raises(ValueError, match="the document has no"):
        renewed("nothing", {})
