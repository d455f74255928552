"""Similarity joins: all pairs of points closer than epsilon."""

from tocsin.similarity.joins import METHODS, count, join, join_blocks, self_join
from tocsin.similarity.pairs import SimilarPairs

__all__ = ["METHODS", "SimilarPairs", "count", "join", "join_blocks", "self_join"]
