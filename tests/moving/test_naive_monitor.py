"""The oracle of moving objects gives what a person expects."""

import pytest

from tests.moving.examples import EXAMPLES, Example, apply_edits, play
from tests.moving.naive_monitor import NaiveMonitor, NaiveRules

LINES = [
    *("I1", "I2", "I3", "I4", "I5", "I6", "S1", "S2", "S3"),
    *("M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "R1", "R2"),
    *("C1", "C2", "C3", "C4", "C5", "C6", "O1"),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_examples(example: Example):
    rules = NaiveRules(example.schema)
    apply_edits(rules, example.edits())
    monitor = NaiveMonitor(rules, **example.options)
    assert play(example, monitor, rules) == []


def test_every_line_has_an_example():
    assert list(dict.fromkeys(example.line for example in EXAMPLES)) == LINES
