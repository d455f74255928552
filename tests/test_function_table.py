"""The table of functions in docs/conditions.md says what functions there are."""

import contextlib

import tocsin
from scripts import index_tables
from scripts.function_table import BEGIN, DOCUMENT, table
from tocsin.model.terms import describe_functions
from tocsin.model.terms.functions.table import function_names


def renew(text):
    return index_tables.renew(text, "functions", table(), BEGIN)


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


def test_every_name_is_read():
    """Some arguments fit each function, and others raise nothing but a ConditionError."""
    arguments = [
        "x",
        "n",
        "n, n",
        "ts",
        "name",
        "name, 'a'",
        "name, 1",
        "ts, ts",
        "ts, 1",
        "'hour', ts",
    ]
    arguments += ["n, 1", "'a', name", "name, 'a', 1", "split(name, 'a'), 'a'"]
    arguments += ["x > 1, 1, 2", "name, 'a', 'b'", "tags, 'key'", ""]
    schema = {"x": "number", "n": "integer", "name": "category", "ts": "time"}
    schema["tags"] = "map<string, category>"
    for name in function_names():
        fitting = 0
        for each in arguments:
            with contextlib.suppress(tocsin.ConditionError):
                tocsin.Rules(schema).add("rule", f"{name}({each}) IS NOT NULL")
                fitting += 1
        assert fitting, name
