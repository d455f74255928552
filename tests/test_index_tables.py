"""Tables of indexes in documents say what the indexes declare."""

import pytest

from scripts.index_tables import BEGIN, DOCUMENTS, END, ROOT, renew, renew_all, table
from tocsin.index.registry import INDEXES


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_are_up_to_date(name):
    text = (ROOT / name).read_text()
    assert text == renew_all(text, DOCUMENTS[name]), "run: make tables"
    begin, end = BEGIN.format("indexes"), END.format("indexes")
    for index in INDEXES:
        assert text.partition(begin)[2].partition(end)[0].count(f"\n| `{index}` |") == 1


def test_every_option_is_in_the_documents():
    text = (ROOT / "docs/indexes.md").read_text()
    for name, index in INDEXES.items():
        for option in index.options:
            assert f"| `{name}` | `{option}` |" in text


def test_what_is_around_a_table_stays():
    begin, end = BEGIN.format("indexes"), END.format("indexes")
    ranges = table({"ranges": lambda index: index.supports_ranges})
    text = renew(f"before\n{begin}\nold\n{end}\nafter\n", "indexes", ranges)
    lines = text.splitlines()
    assert [lines[0], lines[1], lines[-2], lines[-1]] == ["before", begin, end, "after"]
    assert lines[2:5] == ["| index | ranges |", "| --- | --- |", "| `exhaustive` | yes |"]
    assert "| `grid` |  |" in lines
    assert "old" not in lines
    assert renew("nothing", "indexes", ranges) == "nothing"
