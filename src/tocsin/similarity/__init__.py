"""Similarity joins: all pairs of points closer than epsilon."""

from tocsin.similarity.closeness import METRICS
from tocsin.similarity.joins import METHODS, count, estimate, join, join_blocks, self_join
from tocsin.similarity.pairs import SimilarPairs

__all__ = [
    "METHODS",
    "METRICS",
    "SimilarPairs",
    "count",
    "estimate",
    "join",
    "join_blocks",
    "self_join",
]
