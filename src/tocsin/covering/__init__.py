"""Covering: which rules other rules make unnecessary."""

from tocsin.covering.cover_index import CoverIndex

__all__ = ["CoverIndex"]
