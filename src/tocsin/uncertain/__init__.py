"""Probabilistic queries over uncertain values: answers with probabilities, and their quality."""

from tocsin.uncertain.answers import Answer
from tocsin.uncertain.disks import Disks
from tocsin.uncertain.distributions import Distribution
from tocsin.uncertain.extremes import highest, lowest, value
from tocsin.uncertain.queries import in_range, maximum, minimum, nearest
from tocsin.uncertain.readings import Growing, Readings
from tocsin.uncertain.sums import average, total

__all__ = [
    "Answer",
    "Disks",
    "Distribution",
    "Growing",
    "Readings",
    "average",
    "highest",
    "in_range",
    "lowest",
    "maximum",
    "minimum",
    "nearest",
    "total",
    "value",
]
