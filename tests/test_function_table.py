"""The table of functions in docs/conditions.md says what functions there are."""

from scripts.function_table import DOCUMENT, renew, table
from tocsin.model.terms import describe_functions


def test_the_table_is_up_to_date():
    text = DOCUMENT.read_text()
    assert text == renew(text), "run: make tables"
    for _, written, _, _, _ in describe_functions():
        assert f"| `{written.replace('|', chr(92) + '|')}` |" in text


def test_what_is_around_the_table_stays():
    before, rest = DOCUMENT.read_text().split("<!-- functions: generated", 1)
    comment, after = rest.split("-->\n", 1)[0], rest.split("<!-- functions: end -->", 1)[1]
    old = f"{before}<!-- functions: generated{comment}-->\nold\n<!-- functions: end -->{after}"
    assert renew(old) == DOCUMENT.read_text()
    assert table() in renew(old)
