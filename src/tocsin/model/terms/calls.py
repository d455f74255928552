"""Which nodes of the parser are which functions, and the error for those that are none."""

from __future__ import annotations

from sqlglot import exp

from tocsin.errors import ConditionError, suggest
from tocsin.model.nodes import error_at, to_sql
from tocsin.model.terms.functions.table import function_names

# The node's class, the function's name, and which of the node's parts are its arguments.
CALLS: dict[type, tuple[str, tuple[str, ...]]] = {
    exp.Add: ("+", ("this", "expression")),
    exp.SafeAdd: ("+", ("this", "expression")),
    exp.Sub: ("-", ("this", "expression")),
    exp.SafeSubtract: ("-", ("this", "expression")),
    exp.Mul: ("*", ("this", "expression")),
    exp.SafeMultiply: ("*", ("this", "expression")),
    exp.Div: ("/", ("this", "expression")),
    exp.SafeDivide: ("/", ("this", "expression")),
    exp.Mod: ("%", ("this", "expression")),
    exp.IntDiv: ("div", ("this", "expression")),
    exp.EQ: ("=", ("this", "expression")),
    exp.NEQ: ("<>", ("this", "expression")),
    exp.LT: ("<", ("this", "expression")),
    exp.LTE: ("<=", ("this", "expression")),
    exp.GT: (">", ("this", "expression")),
    exp.GTE: (">=", ("this", "expression")),
    exp.NullSafeEQ: ("<=>", ("this", "expression")),
    exp.Not: ("not", ("this",)),
    exp.Negative: ("negative", ("this",)),
    exp.Abs: ("abs", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.BitwiseNot: ("~", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StartsWith: ("startswith", ("this", "expression")),
    exp.EndsWith: ("endswith", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.StrPosition: ("instr", ("this", "substr", "position")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.Concat: ("concat", ("expressions",)),
    exp.Coalesce: ("coalesce", ("this", "expressions")),
    exp.Greatest: ("greatest", ("this", "expressions")),
    exp.Least: ("least", ("this", "expressions")),
    exp.IsNan: ("isnan", ("this",)),
    exp.Year: ("year", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfYear: ("dayofyear", ("this",)),
    exp.WeekOfYear: ("weekofyear", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.DateDiff: ("datediff", ("this", "expression")),
    exp.UnixSeconds: ("unix_seconds", ("this",)),
    exp.UnixMillis: ("unix_millis", ("this",)),
    exp.UnixMicros: ("unix_micros", ("this",)),
}
HARMLESS = {"safe", "typed", "coalesce", "ignore_nulls", "_type"}  # parts without a meaning here
EXTRACTED = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day", "WEEK": "weekofyear",
    "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "DOY": "dayofyear", "HOUR": "hour",
    "MINUTE": "minute",
}  # fmt: skip
_CHANGING = frozenset(
    ("now", "current_timestamp", "current_date", "localtimestamp", "curdate", "rand", "random",
     "randn", "uuid", "current_timezone", "monotonically_increasing_id", "spark_partition_id",
     "input_file_name", "current_user", "shuffle")
)  # fmt: skip


def _written_name(node: exp.Func) -> str:
    """Return the name of a function as it is written; the parser knows many by another."""
    text, start = node.root().meta.get("text"), node.meta.get("start")
    if text is not None and start is not None:
        return str(text[start : node.meta["end"] + 1])
    return str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()


def unsupported(node: exp.Expr) -> ConditionError:
    """Return the error for what terms do not support."""
    shown = to_sql(node)
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery | exp.All | exp.Any):
        return error_at(
            f"{shown} is a subquery; a condition tests one event. Join the events beforehand, or "
            "keep the values as rules of their own",
            node,
        )
    if isinstance(node, exp.DDL | exp.DML | exp.Drop | exp.Command):
        return error_at(f"{shown} is a statement; a condition is true or false of an event", node)
    if isinstance(node, exp.Window | exp.AggFunc):
        return error_at(f"{shown} needs several events; a condition tests one event", node)
    if isinstance(node, exp.Interval):
        return error_at(f"{shown}: intervals are not supported; use date_add or datediff", node)
    if isinstance(node, exp.Placeholder | exp.Parameter):
        return error_at(f"the placeholder {shown} has no value; write the value", node)
    if isinstance(node, exp.Func):
        name = _written_name(node).lower()
        if name in _CHANGING:
            return error_at(
                f"{shown} is not the same at all times; a condition depends on the event alone. "
                "Put the value into a column of the events",
                node,
            )
        if name in shown.lower():  # not of an operator
            known = function_names()
            hint = suggest(name, known) or f"; there are {', '.join(known)}"
            return error_at(f"the function {name} is not supported{hint}", node)
    return error_at(
        f"{shown} is not supported in an expression; compute it as a column of the events", node
    )
