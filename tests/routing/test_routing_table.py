"""The table of messages in docs/routing.md is what the simulation gives."""

from scripts.routing_table import BEGIN, DOCUMENT, table


def test_the_table_is_up_to_date():
    text = DOCUMENT.read_text()
    assert f"{BEGIN.format('messages')}\n{table()}\n" in text, "run: make tables"
