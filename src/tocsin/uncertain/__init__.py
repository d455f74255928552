"""Probabilistic queries over uncertain values: answers with probabilities, and their quality."""

from tocsin.uncertain.readings import Growing, Readings

__all__ = ["Growing", "Readings"]
