"""Oracles in plain Python: evaluate conditions, match and rank rules, and write conditions as SQL.

This module shares no code with the library. A condition is a tree of frozen dataclasses. An event
is a dict of Python values: `int` for an integer (Spark's bigint), `float` for a number (double),
`Decimal` for a decimal, `str` for a category, `bool` for a flag and an aware `datetime` for a time.
`None`, or no entry, is null.

The Python type of a literal determines its SQL type: `int` is `5`, `Decimal` is the exact `5.5`,
`float` is the double `5.5D`, `date` is `DATE '...'`.

Spark differs in one case: it rounds if an integer and exact literals together need more than 38
digits. `engine/test_spark_is_the_judge.py` has examples.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from random import Random
from typing import Any

Literal = None | bool | int | float | Decimal | str | date | datetime
Event = Mapping[str, Any]
Truth = bool | None
_EXACT = Context(prec=400)  # digits


@dataclass(frozen=True)
class Constant:
    """TRUE, FALSE or NULL as a condition."""

    value: Truth


@dataclass(frozen=True)
class And:
    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Or:
    parts: "tuple[Condition, ...]"


@dataclass(frozen=True)
class Not:
    part: "Condition"


@dataclass(frozen=True)
class Compare:
    """`attribute operator literal`; the operator is one of < <= = <> >= >."""

    attribute: str
    operator: str
    literal: Literal


@dataclass(frozen=True)
class Outside:
    """A comparison (< <= >= >) of an integer with an exact literal beyond bigint.

    Spark's analyzer replaces it by TRUE or FALSE, also for null.
    """

    attribute: str
    operator: str
    literal: int | Decimal


@dataclass(frozen=True)
class Between:
    attribute: str
    low: Literal
    high: Literal


@dataclass(frozen=True)
class In:
    attribute: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True)
class IsNull:
    attribute: str


@dataclass(frozen=True)
class NullSafe:
    """`attribute <=> literal`: equality in which null equals null."""

    attribute: str
    literal: Literal


@dataclass(frozen=True)
class Flag:
    """A flag by itself: `active`."""

    attribute: str


@dataclass(frozen=True)
class Is:
    """`flag IS TRUE` or `flag IS FALSE`; never unknown."""

    attribute: str
    value: bool


@dataclass(frozen=True)
class Range:
    """All values from low to high, in place of a value of an event."""

    low: Any
    high: Any


Leaf = Constant | Compare | Outside | Between | In | IsNull | NullSafe | Flag | Is
Condition = Leaf | And | Or | Not


@dataclass(frozen=True)
class Rule:
    """The id, condition and weights of a rule, which are 1 by default, or a score of its own."""

    id: Any
    where: Condition
    weights: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None


# --- meaning ------------------------------------------------------------------------------------


def truth(node: Condition, event: Event) -> Truth:
    """Return the three-valued truth of a condition for an event; None is unknown."""
    match node:
        case Constant(value):
            return value
        case Not(part):
            inner = truth(part, event)
            return None if inner is None else not inner
        case And(parts):
            return _all([truth(part, event) for part in parts])
        case Or(parts):
            return _any([truth(part, event) for part in parts])
        case Compare(attribute, operator, literal):
            return _compare(event.get(attribute), operator, literal)
        case Outside(_, operator, literal):
            return _compare(0, operator, literal)  # the same for all integers
        case Between(attribute, low, high):
            # Each bound is compared in its own common type, as in two comparisons.
            value = event.get(attribute)
            return _all([_compare(value, ">=", low), _compare(value, "<=", high)])
        case In(attribute, literals):
            return _in(event.get(attribute), literals)
        case IsNull(attribute):
            return event.get(attribute) is None
        case NullSafe(attribute, literal):
            value = event.get(attribute)
            if value is None or literal is None:
                return value is literal
            return _compare(value, "=", literal)
        case Flag(attribute):
            return event.get(attribute)
        case Is(attribute, value):
            return event.get(attribute) is value
    raise TypeError(f"not a condition: {node!r}")


def _all(truths: list[Truth]) -> Truth:
    if any(t is False for t in truths):
        return False
    return None if None in truths else True


def _any(truths: list[Truth]) -> Truth:
    if any(t is True for t in truths):
        return True
    return None if None in truths else False


def _compare(value: Any, operator: str, literal: Literal) -> Truth:
    if value is None or literal is None:
        return None
    a, b = _to_common_type([value, literal])
    match operator:
        case "<":
            return a < b
        case "<=":
            return a <= b
        case "=":
            return a == b
        case "<>":
            return a != b
        case ">=":
            return a >= b
        case ">":
            return a > b
    raise ValueError(f"not an operator: {operator!r}")


def _in(value: Any, literals: Sequence[Literal]) -> Truth:
    if value is None:
        return None
    # The list has one common type: one double makes all of them doubles.
    first, *others = _to_common_type([value, *(x for x in literals if x is not None)])
    if first in others:
        return True
    return None if None in literals else False


def _to_common_type(values: Sequence[Any]) -> list[Any]:
    """Return values as Spark compares them: all as doubles if one is a double, else exactly."""
    if any(isinstance(value, float) for value in values):
        return [_double_order(value) for value in values]
    return [_to_time(value) for value in values]


def _double_order(value: int | float | Decimal) -> tuple[bool, float]:
    """Return a sort key for Spark's order of doubles: NaN equals NaN and is above everything."""
    number = float(value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _to_time(value: Any) -> Any:
    """Return midnight for a date, and any other value as it is."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


# --- matching and ranking -----------------------------------------------------------------------


def matches(rules: Iterable[Rule], events: Iterable[Event]) -> set[tuple[int, Any]]:
    """Return all pairs of (event number, rule id) where the condition is true."""
    rules = list(rules)
    return {
        (number, rule.id)
        for number, event in enumerate(events)
        for rule in rules
        if holds(rule.where, event)
    }


def holds(node: Condition, event: Event) -> bool:
    """Return whether a condition is true for an event, or for some event within its ranges."""
    if not any(isinstance(value, Range) for value in event.values()):
        return truth(node, event) is True
    return any(conjunction_holds(conjunction, event) for conjunction in conjunctions(node))


def conjunction_holds(leaves: Sequence[Condition], event: Event) -> bool:
    """Return whether for each attribute some value in its range satisfies all of its leaves."""
    for attribute in {_attribute(leaf) for leaf in leaves}:
        tests = [leaf for leaf in leaves if _attribute(leaf) == attribute]
        value = event.get(attribute) if attribute is not None else None
        values = _representatives(value, tests) if isinstance(value, Range) else [value]
        if not any(all(truth(leaf, {attribute: v}) is True for leaf in tests) for v in values):
            return False
    return True


def _representatives(range_: Range, leaves: Sequence[Condition]) -> list[Any]:
    """Return values of a range that stand for all others: its ends, and the values near literals.

    The truth of the leaves changes only at literals.
    """
    values = [range_.low, range_.high]
    for leaf in leaves:
        bare: Any = leaf.part if isinstance(leaf, Not) else leaf
        literals = [getattr(bare, name, None) for name in ("literal", "low", "high")]
        for literal in [*literals, *getattr(bare, "literals", ())]:
            if literal is not None:
                values += _neighbours(literal, range_.low)
    return [value for value in values if range_.low <= value <= range_.high]


def _neighbours(literal: Any, like: Any) -> list[Any]:
    """Return the values around a literal, of the type of another value; decimals of its scale."""
    type_ = type(like)
    if type_ is float:
        number = float(literal)
        return [number, math.nextafter(number, math.inf), math.nextafter(number, -math.inf)]
    if type_ is datetime:
        times = []
        for step in (-1, 0, 1):
            with suppress(OverflowError):  # at the ends of the calendar
                times.append(_to_time(literal) + timedelta(microseconds=step))
        return times
    if isinstance(literal, float) and not math.isfinite(literal):
        return []
    places = -int(like.as_tuple().exponent) if type_ is Decimal else 0
    unit = Fraction(1, 10**places)
    centres = [Fraction(literal) / unit]
    if isinstance(literal, float):
        # Values with many digits are rounded to a double, from half way to the next double.
        for direction in (-math.inf, math.inf):
            beyond = math.nextafter(literal, direction)
            if math.isfinite(beyond):
                centres.append((Fraction(literal) + Fraction(beyond)) / 2 / unit)
    integers = [math.floor(centre) + step for centre in centres for step in (-1, 0, 1, 2)]
    return [Decimal(i).scaleb(-places, _EXACT) if places else i for i in integers]


def conjunctions(node: Condition, negated: bool = False) -> list[tuple[Condition, ...]]:
    """Return a condition as an OR of ANDs of leaves or negated leaves.

    NOT is pushed to the leaves, BETWEEN is two comparisons, and AND is distributed over OR.
    Nothing is simplified, and IN is one leaf.
    """
    match node:
        case Not(part):
            return conjunctions(part, not negated)
        case Between(attribute, low, high):
            bounds = And((Compare(attribute, ">=", low), Compare(attribute, "<=", high)))
            return conjunctions(bounds, negated)
        case And(parts) | Or(parts):
            branches = [conjunctions(part, negated) for part in parts]
            if isinstance(node, Or) != negated:
                return [conjunction for branch in branches for conjunction in branch]
            return [sum(choice, ()) for choice in product(*branches)]
    return [(Not(node) if negated else node,)]


def conjunction_count(node: Condition, negated: bool = False) -> int:
    """Return `len(conjunctions(node))` without building them, as they can be too many."""
    match node:
        case Not(part):
            return conjunction_count(part, not negated)
        case Between():
            return 2 if negated else 1
        case And(parts) | Or(parts):
            counts = [conjunction_count(part, negated) for part in parts]
            return sum(counts) if isinstance(node, Or) != negated else math.prod(counts)
    return 1


def score(
    rule: Rule,
    event: Event,
    event_weights: Mapping[str, float] | None = None,
    order: Sequence[str] | None = None,
) -> float | None:
    """Return the score of the best matching conjunction of a rule, or None if none matches.

    `order` lists the attributes in the order of the schema, in which weights are added (it affects
    the last bit of a sum). The default is the order of the event's entries.
    """
    by_attribute = event_weights or {}
    best: float | None = None
    for conjunction in conjunctions(rule.where):
        if conjunction_holds(conjunction, event):
            tested = {_attribute(leaf) for leaf in conjunction} - {None}
            # An attribute that must be null adds nothing, even if other leaves test it.
            tested -= {_attribute(leaf) for leaf in conjunction if _is_null_test(leaf)}
            total = 0.0
            for attribute in order or [*event, *sorted(tested - set(event))]:
                if attribute in tested:
                    total += rule.weights.get(attribute, 1.0) * by_attribute.get(attribute, 1.0)
            if rule.score is not None:
                total = rule.score
            best = total if best is None else max(best, total)
    return best


def _attribute(leaf: Condition) -> str | None:
    """Return the attribute that a leaf or negated leaf tests, if any."""
    return getattr(leaf.part if isinstance(leaf, Not) else leaf, "attribute", None)


def _is_null_test(leaf: Condition) -> bool:
    return isinstance(leaf, IsNull) or leaf == NullSafe(_attribute(leaf) or "", None)


def scores(
    rules: Iterable[Rule],
    event: Event,
    event_weights: Mapping[str, float] | None = None,
    order: Sequence[str] | None = None,
) -> dict[Any, float]:
    """Return the score of every rule that matches, by rule id, in the order of addition."""
    by_id = {rule.id: score(rule, event, event_weights, order) for rule in rules}
    return {id_: value for id_, value in by_id.items() if value is not None}


def top(
    rules: Iterable[Rule],
    event: Event,
    k: int,
    event_weights: Mapping[str, float] | None = None,
    order: Sequence[str] | None = None,
) -> list[tuple[Any, float]]:
    """Return the k best (rule id, score), best first; ties go to the rule added first."""
    by_id = scores(rules, event, event_weights, order)
    return sorted(by_id.items(), key=lambda pair: -pair[1])[:k]  # sorted() is stable


# --- text ---------------------------------------------------------------------------------------

_MIRRORED = {"<": ">", "<=": ">=", "=": "=", "<>": "<>", ">=": "<=", ">": "<"}
_OR, _AND, _NOT, _PREDICATE = range(4)  # precedence of the outermost operator of a text


def sql(node: Condition, rng: Random | None = None) -> str:
    """Return a condition as SQL.

    Without `rng` it is in the plainest spelling. With `rng` it is in a random equivalent spelling:
    mirrored comparisons, synonyms of operators and literals, letter case, spaces and parentheses.
    """
    return _text(node, _OR, rng)


def _pick(rng: Random | None, plain: str, *others: str) -> str:
    return plain if rng is None else rng.choice((plain, *others))


def _often(rng: Random | None, plain: str, *others: str) -> str:
    """Return the plain spelling three times in four, otherwise one of the others."""
    return plain if rng is None or rng.random() < 0.75 else rng.choice(others)


def _join(rng: Random | None, *words: str) -> str:
    """Return the words with some white space between them."""
    text = words[0]
    for word in words[1:]:
        text += _often(rng, " ", "  ", "\n", "\t", " \n ") + word
    return text


def _keyword(rng: Random | None, *words: str) -> str:
    return _join(rng, *(_often(rng, word, word.lower(), word.capitalize()) for word in words))


def _text(node: Condition, outer: int, rng: Random | None) -> str:
    text, precedence = _bare_text(node, rng)
    if precedence < outer:
        return f"({text})"
    return _often(rng, text, f"({text})", f"( {text} )")


def _bare_text(node: Condition, rng: Random | None) -> tuple[str, int]:
    """Return a condition's text without parentheses around it, and its precedence."""
    match node:
        case And(parts) | Or(parts):
            word, precedence = ("AND", _AND) if isinstance(node, And) else ("OR", _OR)
            texts = [_text(part, precedence, rng) for part in parts]
            text = texts[0]
            for other in texts[1:]:
                text = _join(rng, text, _keyword(rng, word), other)
            return text, precedence
        case Not(Between() | In() | IsNull() | Is() | NullSafe() as leaf):
            # `x NOT IN (...)`, `NOT x IN (...)` and `NOT (x IN (...))` are equivalent.
            fused = _leaf_text(leaf, rng, "NOT")
            if fused is not None and _pick(rng, "fused", "apart") == "fused":
                return fused, _PREDICATE
            return _negation(leaf, rng)
        case Not(part):
            return _negation(part, rng)
    text = _leaf_text(node, rng)
    assert text is not None
    return text, _PREDICATE


def _negation(part: Condition, rng: Random | None) -> tuple[str, int]:
    inner = _text(part, _NOT, rng)
    if _often(rng, "NOT", "!") == "!":
        return f"!{inner}", _NOT
    # `NOT(` needs no space, `NOT x` does.
    if inner.startswith("(") and _often(rng, "space", "none") == "none":
        return _keyword(rng, "NOT") + inner, _NOT
    return _join(rng, _keyword(rng, "NOT"), inner), _NOT


def _leaf_text(leaf: Condition, rng: Random | None, negation: str = "") -> str | None:
    """Return a predicate's text, with the negation inside, or None if it has no such form."""
    negations = [negation] if negation else []
    match leaf:
        case Constant(value):
            return _literal(value, rng)
        case Flag(attribute):
            return _name(attribute, rng)
        case Compare(attribute, operator, literal) | Outside(attribute, operator, literal):
            left, right = _name(attribute, rng), _literal(literal, rng)
            if _often(rng, "straight", "mirrored") == "mirrored":
                left, operator, right = right, _MIRRORED[operator], left
            spellings = {"=": ("=", "=="), "<>": ("<>", "!=")}.get(operator, (operator,))
            return left + _space_around(rng, _pick(rng, *spellings)) + right
        case Between(attribute, low, high):
            return _join(
                rng,
                _name(attribute, rng),
                _keyword(rng, *negations, "BETWEEN"),
                _literal(low, rng),
                _keyword(rng, "AND"),
                _literal(high, rng),
            )
        case In(attribute, literals):
            comma = _often(rng, ", ", ",", " ,\n")
            inside = comma.join(_literal(literal, rng) for literal in literals)
            word = _keyword(rng, *negations, "IN")
            return _join(rng, _name(attribute, rng), word) + _often(rng, " ", "") + f"({inside})"
        case IsNull(attribute):
            return _join(rng, _name(attribute, rng), _keyword(rng, "IS", *negations, "NULL"))
        case Is(attribute, value):
            word = "TRUE" if value else "FALSE"
            return _join(rng, _name(attribute, rng), _keyword(rng, "IS", *negations, word))
        case NullSafe(attribute, literal):
            left, right = _name(attribute, rng), _literal(literal, rng)
            if negation:
                return _join(rng, left, _keyword(rng, "IS", "DISTINCT", "FROM"), right)
            if _often(rng, "<=>", "words") == "words":
                return _join(rng, left, _keyword(rng, "IS", "NOT", "DISTINCT", "FROM"), right)
            if _often(rng, "straight", "mirrored") == "mirrored":
                left, right = right, left
            return left + _space_around(rng, "<=>") + right
    raise TypeError(f"not a predicate: {leaf!r}")


def _space_around(rng: Random | None, operator: str) -> str:
    return _pick(rng, f" {operator} ", operator, f" {operator}", f"{operator}\t", f"\n{operator} ")


def _name(attribute: str, rng: Random | None) -> str:
    return _often(rng, attribute, attribute.upper(), attribute.title(), f"`{attribute}`")


def _literal(value: Literal, rng: Random | None) -> str:
    match value:
        case None:
            return _keyword(rng, "NULL")
        case bool():
            return _keyword(rng, "TRUE" if value else "FALSE")
        case int():
            return _signed(rng, str(value), str(value))
        case Decimal():
            plain = f"{value:f}" if "." in f"{value:f}" else f"{value:f}."
            short = plain.replace("0.", ".", 1) if plain.lstrip("-").startswith("0.") else plain
            return _signed(rng, plain, plain if short.endswith(".") else short)
        case float():
            return _double_literal(value, rng)
        case str():
            return _quoted(value, rng)
        case datetime():
            return _time_literal(value, rng)
        case date():
            return _join(rng, _keyword(rng, "DATE"), f"'{value.isoformat()}'")
    raise TypeError(f"not a literal: {value!r}")


def _signed(rng: Random | None, *spellings: str) -> str:
    text = _pick(rng, *spellings)
    return _often(rng, text, text.replace("-", "- ", 1) if text.startswith("-") else text)


def _double_literal(value: float, rng: Random | None) -> str:
    if not math.isfinite(value):
        name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return _keyword(rng, "CAST") + f"('{name}' {_keyword(rng, 'AS', 'DOUBLE')})"
    shortest = repr(value)  # parses to the same double, with or without an exponent
    if "e" in shortest:
        return _signed(rng, shortest, shortest.upper())
    return _signed(rng, f"{shortest}D", f"{shortest}e0", f"{shortest}d", f"{shortest}E+0")


def _quoted(value: str, rng: Random | None) -> str:
    escaped = value.replace("\\", "\\\\")
    return _pick(
        rng,
        "'" + escaped.replace("'", "''") + "'",
        "'" + escaped.replace("'", "\\'") + "'",
        '"' + escaped.replace('"', '\\"') + '"',
    )


def _time_literal(value: datetime, rng: Random | None) -> str:
    assert value.tzinfo is UTC
    plain = f"{value.date().isoformat()} {value.time().isoformat()}"
    text = _often(rng, plain, plain.replace(" ", "T"), f"{plain}Z", f"{plain}+00:00")
    if _pick(rng, "typed", "text") == "typed":
        return _join(rng, _keyword(rng, "TIMESTAMP"), f"'{text}'")
    return f"'{text}'"
