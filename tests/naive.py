"""Oracles in plain Python: what a condition means, which rules match, which rank best.

Nothing here is shared with the library. A condition is a small tree of frozen dataclasses; an
event is a dict of Python values whose types are those of the attributes' kinds: `int` (integer,
Spark's bigint), `float` (number, double), `str` (category), `bool` (flag) and an aware `datetime`
(time). `None`, or no entry at all, is null.

A literal's Python type is its SQL type as well: `int` is `5`, `Decimal` is the exact `5.5`,
`float` is the double `5.5D`, `date` is `DATE '...'`.

Spark departs from the meaning given here where an integer and exact literals together need more
than its 38 digits: it rounds. `engine/test_spark_is_the_judge.py` has the examples.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

Literal = None | bool | int | float | Decimal | str | date | datetime
Event = Mapping[str, Any]
Truth = bool | None


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
    """An integer's < <= >= or > with an exact literal that no bigint reaches.

    Spark makes a constant of it while it finds types, which is then true or false for null too.
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
    """`attribute <=> literal`: equality for which null is a value like any other."""

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
    """What an event may have in place of a value: all values from low to high."""

    low: Any
    high: Any


Leaf = Constant | Compare | Outside | Between | In | IsNull | NullSafe | Flag | Is
Condition = Leaf | And | Or | Not


@dataclass(frozen=True)
class Rule:
    """A rule's id, condition and weights; a weight that is not given is 1."""

    id: Any
    where: Condition
    weights: Mapping[str, float] = field(default_factory=dict)


# --- meaning ------------------------------------------------------------------------------------


def truth(node: Condition, event: Event) -> Truth:
    """Three-valued truth of a condition for one event; None is unknown."""
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
            return _compare(0, operator, literal)  # as for any integer
        case Between(attribute, low, high):
            # Each bound meets the value in its own common type, as two comparisons do.
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
    a, b = _in_one_type([value, literal])
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
    # The list has one common type: a single double makes doubles of all of it.
    first, *others = _in_one_type([value, *(x for x in literals if x is not None)])
    if first in others:
        return True
    return None if None in literals else False


def _in_one_type(values: Sequence[Any]) -> list[Any]:
    """The values as Spark compares them: all as doubles if one is a double, otherwise exactly."""
    if any(isinstance(value, float) for value in values):
        return [_double(value) for value in values]
    return [_midnight(value) for value in values]


def _double(value: int | float | Decimal) -> tuple[bool, float]:
    """A sort key for Spark's order of doubles: NaN equals itself and is above everything."""
    number = float(value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _midnight(value: Any) -> Any:
    """A date is its first moment when it meets a time."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time(), UTC)
    return value


# --- matching and ranking -----------------------------------------------------------------------


def matches(rules: Iterable[Rule], events: Iterable[Event]) -> set[tuple[int, Any]]:
    """All pairs of (event number, rule id) where the rule's condition is true."""
    rules = list(rules)
    return {
        (number, rule.id)
        for number, event in enumerate(events)
        for rule in rules
        if holds(rule.where, event)
    }


def holds(node: Condition, event: Event) -> bool:
    """Whether a condition is true for an event, or for some event within its ranges."""
    if not any(isinstance(value, Range) for value in event.values()):
        return truth(node, event) is True
    return any(holds_together(conjunction, event) for conjunction in conjunctions(node))


def holds_together(leaves: Sequence[Condition], event: Event) -> bool:
    """Whether for each attribute some value in its range satisfies all leaves that test it."""
    for attribute in {_attribute(leaf) for leaf in leaves}:
        mine = [leaf for leaf in leaves if _attribute(leaf) == attribute]
        given = event.get(attribute) if attribute is not None else None
        values = _telling(given, mine) if isinstance(given, Range) else [given]
        if not any(all(truth(leaf, {attribute: v}) is True for leaf in mine) for v in values):
            return False
    return True


def _telling(range_: Range, leaves: Sequence[Condition]) -> list[Any]:
    """Values of a range among which there is one for every verdict that the leaves can give.

    Verdicts change only at literals: so its ends, and what lies around the literals.
    """
    found = [range_.low, range_.high]
    for leaf in leaves:
        bare: Any = leaf.part if isinstance(leaf, Not) else leaf
        literals = [getattr(bare, name, None) for name in ("literal", "low", "high")]
        for literal in [*literals, *getattr(bare, "literals", ())]:
            if literal is not None:
                found += _around_literal(literal, type(range_.low))
    return [value for value in found if range_.low <= value <= range_.high]


def _around_literal(literal: Any, kind: type) -> list[Any]:
    if kind is float:
        number = float(literal)
        return [number, math.nextafter(number, math.inf), math.nextafter(number, -math.inf)]
    if kind is datetime:
        found = []
        for step in (-1, 0, 1):
            with suppress(OverflowError):  # at the calendar's ends
                found.append(_midnight(literal) + timedelta(microseconds=step))
        return found
    if isinstance(literal, float) and not math.isfinite(literal):
        return []
    middles = [math.floor(literal), math.ceil(literal)]
    if isinstance(literal, float):
        # Large integers are rounded to a double: up to half way to the next.
        for way in (-math.inf, math.inf):
            beyond = math.nextafter(literal, way)
            if math.isfinite(beyond):
                middles.append((int(literal) + int(beyond)) // 2)
    return [middle + step for middle in middles for step in (-1, 0, 1)]


def conjunctions(node: Condition, negated: bool = False) -> list[tuple[Condition, ...]]:
    """The condition as an OR of ANDs of leaves, or of negated leaves.

    NOT goes to the leaves, BETWEEN is two comparisons, AND is distributed over OR; nothing is
    simplified, and an IN stays one leaf.
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
    """`len(conjunctions(node))` without making them, which may be too many to make."""
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
    """The score of the rule's best matching conjunction, or None where none matches.

    `order` lists the attributes in the schema's order, in which weights are summed (it decides
    the last bit of a sum); by default it is the order of the event's own entries.
    """
    given = event_weights or {}
    best: float | None = None
    for conjunction in conjunctions(rule.where):
        if holds_together(conjunction, event):
            tested = {_attribute(leaf) for leaf in conjunction} - {None}
            # Whatever else is asked of it: an attribute that must be null adds nothing.
            tested -= {_attribute(leaf) for leaf in conjunction if _asks_for_null(leaf)}
            total = 0.0
            for attribute in order or [*event, *sorted(tested - set(event))]:
                if attribute in tested:
                    total += rule.weights.get(attribute, 1.0) * given.get(attribute, 1.0)
            best = total if best is None else max(best, total)
    return best


def _attribute(leaf: Condition) -> str | None:
    """The attribute that a leaf of a conjunction tests, if any."""
    return getattr(leaf.part if isinstance(leaf, Not) else leaf, "attribute", None)


def _asks_for_null(leaf: Condition) -> bool:
    return isinstance(leaf, IsNull) or leaf == NullSafe(_attribute(leaf) or "", None)


def scores(
    rules: Iterable[Rule],
    event: Event,
    event_weights: Mapping[str, float] | None = None,
    order: Sequence[str] | None = None,
) -> dict[Any, float]:
    """The score of every rule that matches, by rule id, in the order of addition."""
    found = {rule.id: score(rule, event, event_weights, order) for rule in rules}
    return {id_: value for id_, value in found.items() if value is not None}


def top(
    rules: Iterable[Rule],
    event: Event,
    k: int,
    event_weights: Mapping[str, float] | None = None,
    order: Sequence[str] | None = None,
) -> list[tuple[Any, float]]:
    """The k best (rule id, score), best first; ties go to the rule added first."""
    found = scores(rules, event, event_weights, order)
    return sorted(found.items(), key=lambda pair: -pair[1])[:k]  # sorted() is stable


# --- text ---------------------------------------------------------------------------------------

_MIRRORED = {"<": ">", "<=": ">=", "=": "=", "<>": "<>", ">=": "<=", ">": "<"}
_OR, _AND, _NOT, _PREDICATE = range(4)  # how tightly the outermost operator of a text binds


def sql(node: Condition, rng: Random | None = None) -> str:
    """The condition as SQL text.

    Without `rng` it is the plainest spelling; with it, a random one of equal meaning: mirrored
    comparisons, other names of operators and literals, letter case, spaces and parentheses.
    """
    return _text(node, _OR, rng)


def _pick(rng: Random | None, plain: str, *others: str) -> str:
    return plain if rng is None else rng.choice((plain, *others))


def _often(rng: Random | None, plain: str, *others: str) -> str:
    """Like `_pick`, but the plain spelling three times in four."""
    return plain if rng is None or rng.random() < 0.75 else rng.choice(others)


def _join(rng: Random | None, *words: str) -> str:
    """The words with space between them: keywords need some, and any white space will do."""
    text = words[0]
    for word in words[1:]:
        text += _often(rng, " ", "  ", "\n", "\t", " \n ") + word
    return text


def _keyword(rng: Random | None, *words: str) -> str:
    return _join(rng, *(_often(rng, word, word.lower(), word.capitalize()) for word in words))


def _text(node: Condition, outer: int, rng: Random | None) -> str:
    text, binding = _bare_text(node, rng)
    if binding < outer:
        return f"({text})"
    return _often(rng, text, f"({text})", f"( {text} )")


def _bare_text(node: Condition, rng: Random | None) -> tuple[str, int]:
    """A condition's text without parentheses around it, and how tightly it binds."""
    match node:
        case And(parts) | Or(parts):
            word, binding = ("AND", _AND) if isinstance(node, And) else ("OR", _OR)
            texts = [_text(part, binding, rng) for part in parts]
            text = texts[0]
            for other in texts[1:]:
                text = _join(rng, text, _keyword(rng, word), other)
            return text, binding
        case Not(Between() | In() | IsNull() | Is() | NullSafe() as leaf):
            # `x NOT IN (...)`, `NOT x IN (...)` and `NOT (x IN (...))` are all one.
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
    """A predicate's text, with NOT inside of it if asked; None if it has no such form."""
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
            return left + _around(rng, _pick(rng, *spellings)) + right
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
            return left + _around(rng, "<=>") + right
    raise TypeError(f"not a predicate: {leaf!r}")


def _around(rng: Random | None, operator: str) -> str:
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
    shortest = repr(value)  # reads back as the same double, with or without an exponent
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
