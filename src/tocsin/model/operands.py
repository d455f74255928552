"""What a test is about: a column, or a term, which becomes an attribute of its own."""

from __future__ import annotations

from sqlglot import exp

from tocsin.errors import ConditionError
from tocsin.model.attributes import Attributes, kind_of_term
from tocsin.model.nodes import error_at, to_sql
from tocsin.model.terms import Term, read_term

_SHAPE_FUNCTIONS = {
    *("st_covers", "st_contains", "st_coveredby", "st_within", "st_dwithin", "st_distancesphere"),
    *("st_point", "st_geomfromtext"),
}
_SHAPE_ADVICE = {
    "st_intersects": "; for a point, ST_Covers means the same",
    "st_disjoint": "; for a point, NOT ST_Covers means the same",
    "st_distance": "; write ST_DWithin(ST_Point(x, y), ST_Point(2.35, 48.86), 0.01)",
    "st_makepoint": "; write ST_Point",
}
SHAPE_FUNCTIONS = (
    "of the functions about shapes, conditions can have ST_Covers, ST_Contains, ST_CoveredBy, "
    "ST_Within, ST_DWithin and ST_DistanceSphere, of ST_Point and ST_GeomFromText"
)


class Operands:
    """Finds the attributes of columns and terms in parsed conditions; adds new terms."""

    def __init__(self, schema: Attributes):
        self.schema = schema

    def attribute(self, node: exp.Expr) -> int:
        """Return the attribute of a column."""
        try:
            return self.schema.index(node.name)
        except ConditionError as error:
            raise error_at(str(error), node) from None

    def operand(self, node: exp.Expr) -> int:
        """Return the attribute that a node tests: a column, or a term, which is added."""
        node = unwrap(node)
        if not has_columns(node):
            raise unsupported_error(node)
        if isinstance(node, exp.Column) and not node.args.get("table"):
            return self.attribute(node)
        return self.add_term(self.read_term(node), node)

    def read_term(self, node: exp.Expr) -> Term:
        """Return the term of a node."""
        refuse_subqueries(node)
        refuse_shapes(node)
        for column in node.find_all(exp.Column):
            root = column.parts[0].name
            if len(column.parts) > 1 and root.lower() not in self.schema.nested:
                raise error_at(
                    f"{to_sql(column)} is a qualified name, and {root!r} is not a struct; write "
                    "the attribute's name alone, in backquotes if it has a dot",
                    column,
                )
        return read_term(node, self.schema.sources(), self.schema.zone)

    def add_term(self, term: Term, node: exp.Expr) -> int:
        """Return the attribute of a term; raise if its values cannot be compared."""
        if term.function == "column":  # a cast, for example, may have changed nothing
            attribute = self.schema.find(str(term.value))
            if attribute is not None:
                return attribute
        if kind_of_term(term) is None:
            raise error_at(
                f"{to_sql(node)} is of type {term.type}, which cannot be compared with a value; "
                "cast it, or take a part of it",
                node,
            )
        try:
            return self.schema.add_term(term)
        except ConditionError as error:
            raise error_at(str(error), node) from None

    def check_columns(self, *columns: exp.Expr) -> None:
        """Raise for a column with an unknown name, which may be a text without quotes."""
        for column in columns:
            if (
                isinstance(column, exp.Column)
                and len(column.parts) == 1
                and column.name.lower() not in self.schema.sources()
                and self.schema.find(column.name) is None
            ):
                raise error_at(
                    f"unknown attribute {column.name!r}; if the text is meant, write "
                    f"'{column.name}' in quotes",
                    column,
                )


def name_of_shape_function(node: exp.Expr) -> str | None:
    """Return the name of a function about shapes in lower case, None for all else."""
    if isinstance(node, exp.Func):
        name = str(node.this if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        return name if name.startswith("st_") else None
    return None


def refuse_shapes(node: exp.Expr) -> None:
    """Raise if a term contains a function about shapes."""
    for each in node.find_all(exp.Func):
        name = name_of_shape_function(each)
        if name is None:
            continue
        if name not in _SHAPE_FUNCTIONS:
            raise shape_function_error(each, name)
        raise error_at(
            f"{to_sql(each)} cannot be part of an expression: a test of a shape is a condition "
            "by itself, under AND, OR and NOT",
            each,
        )


def shape_function_error(node: exp.Expr, name: str) -> ConditionError:
    """Return the error for a function about shapes that conditions do not have."""
    advice = _SHAPE_ADVICE.get(name, "")
    return error_at(f"{title(node)} is not supported; {SHAPE_FUNCTIONS}{advice}", node)


def title(node: exp.Expr) -> str:
    """Return the name of a function as it is usually written."""
    return str(node.this) if isinstance(node, exp.Anonymous) else to_sql(node).partition("(")[0]


def has_columns(node: exp.Expr) -> bool:
    """Return whether a node is about the event at all."""
    return node.find(exp.Column) is not None


def unwrap(node: exp.Expr) -> exp.Expr:
    """Return what is inside of parentheses."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def refuse_subqueries(node: exp.Expr) -> None:
    """Raise if a node is or contains a subquery."""
    query = node.find(exp.Query, exp.Subquery, exp.Exists)
    if query is not None:
        raise unsupported_error(query)


def unsupported_error(node: exp.Expr) -> ConditionError:
    """Return the error for an expression that conditions do not support."""
    shown = to_sql(node)
    if isinstance(node, exp.Any | exp.All) and not node.find(exp.Query):
        return quantifier_error(node)
    if isinstance(node, exp.Query | exp.Exists | exp.Subquery | exp.All | exp.Any):
        return error_at(
            f"{shown} is a subquery; a condition tests attributes against constants. "
            "Join the events beforehand, or keep the values as rules of their own",
            node,
        )
    if isinstance(node, exp.Literal):
        advice = "; write an attribute's name bare or in backquotes" if node.is_string else ""
        return error_at(
            f"{shown} is a constant, not a condition; compare an attribute with it{advice}", node
        )
    return error_at(
        f"{shown} is not a condition; expected tests such as x > 5, tier IN ('gold') or x IS NULL, "
        "joined by AND, OR and NOT",
        node,
    )


def quantifier_error(node: exp.Expr) -> ConditionError:
    """Return the error for a use of ANY or ALL that conditions do not support."""
    return error_at(
        f"{to_sql(node)} is not supported; of ANY and ALL, a condition can have "
        "x = ANY(ARRAY[1, 2]), which is x IN (1, 2), and x <> ALL(ARRAY[1, 2]), which is "
        "x NOT IN (1, 2). Write other tests out, joined by OR or AND",
        node,
    )
