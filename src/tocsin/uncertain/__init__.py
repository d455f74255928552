"""Probabilistic queries over uncertain values: answers with probabilities, and their quality."""

from tocsin.uncertain.answers import Answer
from tocsin.uncertain.disks import Disks
from tocsin.uncertain.distributions import Distribution
from tocsin.uncertain.extremes import highest, lowest, value
from tocsin.uncertain.queries import in_range, maximum, minimum, nearest
from tocsin.uncertain.readings import Growing, Readings
from tocsin.uncertain.refresh import QueryState, next_refresh, policies
from tocsin.uncertain.simulation import simulate
from tocsin.uncertain.simulation_result import SimulationResult
from tocsin.uncertain.sums import average, total

__all__ = [
    "Answer",
    "Disks",
    "Distribution",
    "Growing",
    "QueryState",
    "Readings",
    "SimulationResult",
    "average",
    "highest",
    "in_range",
    "lowest",
    "maximum",
    "minimum",
    "nearest",
    "next_refresh",
    "policies",
    "simulate",
    "total",
    "value",
]
