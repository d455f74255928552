"""The table of messages in docs/routing.md is what the simulation gives."""

from scripts.routing_table import DOCUMENT, renew


def test_the_table_is_up_to_date():
    text = DOCUMENT.read_text()
    assert text == renew(text), "run: make tables"
    assert "| no covering |" in text
