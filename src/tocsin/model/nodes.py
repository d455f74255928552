"""Nodes of parsed SQL: chains of one operator, and the text and position of a node in messages."""

from __future__ import annotations

from sqlglot import ErrorLevel, exp

from tocsin.errors import ConditionError, shorten

# Functions about shapes, as PostGIS writes them.
SHAPE_NAMES = ("ST_Covers", "ST_CoveredBy", "ST_Contains", "ST_Within", "ST_DWithin", "ST_Point",
               "ST_DistanceSphere", "ST_GeomFromText")  # fmt: skip


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
    """Return a node as SQL, short enough for a message."""
    # What the dialect lacks is no matter of a message; sqlglot would log it.
    text = node.sql("spark", unsupported_level=ErrorLevel.IGNORE)
    for name in SHAPE_NAMES if "ST_" in text else ():
        text = text.replace(name.upper(), name)
    return shorten(text, 100)


def error_at(message: str, node: exp.Expr) -> ConditionError:
    """Return an error that points at a node of the parsed text."""
    start = position(node)
    ends = [n.meta["end"] for n in node.walk() if "end" in n.meta]
    length = max(ends) + 1 - start if start is not None and ends else 1
    return ConditionError(message, start, length)
