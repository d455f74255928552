"""Covering: which rules other rules make unnecessary."""

from tocsin.covering.conditions import ConditionCover
from tocsin.covering.cover_index import CoverIndex
from tocsin.covering.relation_graph import Change, RelationGraph

__all__ = ["Change", "ConditionCover", "CoverIndex", "RelationGraph"]
