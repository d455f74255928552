"""Nodes of parsed SQL: chains of one operator, and the text and position of a node in messages."""

from __future__ import annotations

import re

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from tocsin.errors import ConditionError, shorten

# sqlglot expects names or numbers as some arguments, and fails on others.
PARSER_ERRORS = (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_CALLED, _BRACKETS = re.compile(r"\w+\s*\($"), re.compile(r"(?:\s*[()\]]){0,20}")


def flatten(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of a chain of one operator, such as a AND b AND c, in their order."""
    operands: list[exp.Expr] = []
    stack = [node]
    while stack:  # a long chain is a deep left branch: do not recurse into it
        child = stack.pop()
        if type(child) is type(node):
            stack += [child.expression, child.this]
        else:
            operands.append(child)
    return operands


def expand_like(node: exp.Expr) -> exp.Expr | None:
    """Return x [NOT] LIKE ANY or ALL (a, b) as several LIKE, or None for all else."""
    quantified = node.args.get("expression")
    if not isinstance(node, exp.Like | exp.ILike) or not isinstance(quantified, exp.Any | exp.All):
        return None
    inner = quantified.this
    if isinstance(inner, exp.Paren) and isinstance(inner.this, exp.Array):
        inner = inner.this  # as in Postgres
    if isinstance(inner, exp.Tuple | exp.Array):
        patterns = inner.expressions
    elif isinstance(inner, exp.Paren):
        patterns = [inner.this]
    else:
        return None
    likes = [
        type(node)(this=node.this.copy(), expression=pattern.copy(), negate=node.args.get("negate"))
        for pattern in patterns
    ]
    expanded: exp.Expr | None = None
    junction = exp.Or if isinstance(quantified, exp.Any) else exp.And
    for like in likes:
        expanded = like if expanded is None else junction(this=expanded, expression=like)
    return None if expanded is None else exp.Paren(this=expanded)


def position(node: exp.Expr) -> int | None:
    """Return the offset of a node in the text, or None if the parser does not have it."""
    starts = [n.meta["start"] for n in node.walk() if "start" in n.meta]
    return min(starts) if starts else None


def to_sql(node: exp.Expr) -> str:
    """Return a node as it is written, or else as Spark's SQL, short enough for a message."""
    found = _find(node)
    if found:
        return shorten(node.root().meta["text"][slice(*found)].strip(), 100)
    # What the dialect lacks is no matter of a message; sqlglot would log it.
    return shorten(node.sql("spark", unsupported_level=ErrorLevel.IGNORE), 100)


def error_at(message: str, node: exp.Expr) -> ConditionError:
    """Return an error that points at a node of the parsed text."""
    start, stop = _find(node) or (position(node), _stop(node))
    return ConditionError(message, start, stop - start if start is not None else 1)


def _find(node: exp.Expr) -> tuple[int, int] | None:
    """Return where the text of a node begins and ends, or None if that is not found.

    The parser keeps the places of names and constants, but not those of brackets and keywords. So
    what may be the text is parsed again: it is the text if that returns the node.
    """
    text, first, last = node.root().meta.get("text"), position(node), _stop(node)
    if text is None or first is None or last - first > 200:
        return None
    called = _CALLED.search(text, max(first - 50, 0), first)
    brackets = _BRACKETS.match(text, last)
    stops = range(brackets.end() if brackets else last, last - 1, -1)
    for start in (first, called.start()) if called else (first,):
        for stop in stops:  # the longest first, because the parser also reads "f(x"
            try:
                if sqlglot.parse_one(text[start:stop], dialect="spark") == node:
                    return start, stop
            except PARSER_ERRORS:
                continue
    return None


def _stop(node: exp.Expr) -> int:
    return max((n.meta["end"] + 1 for n in node.walk() if "end" in n.meta), default=0)
