"""The oracle of moving objects gives what a person expects, for each line of docs/monitor.md."""

import re
from pathlib import Path

import pytest

from tests.moving.examples import EXAMPLES, Example, apply_edits, play
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules

PAGE = Path(__file__).parents[2] / "docs" / "monitor.md"
LINES = re.findall(r"^\| ([A-Z]\d) \|", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples(example: Example):
    rules = NaiveRules(example.schema)
    apply_edits(rules, example.edits())
    monitor = NaiveMonitor(rules, **example.options)
    assert play(example, monitor, rules) == []


def test_every_line_of_the_page_has_examples_and_every_example_a_line():
    assert len(LINES) > 20
    assert list(dict.fromkeys(example.line for example in EXAMPLES)) == LINES


def test_the_oracle_refers_to_lines_of_the_page():
    source = (Path(__file__).parent / "naive_monitor.py").read_text()
    named = set(re.findall(r"\b[A-Z]\d\b", source))
    assert len(named) > 15
    assert named <= set(LINES)
