"""Terms: typed expressions over columns, such as `hour(ts)`, `speed * 3.6` or `loc.lat`.

`read_term` turns parsed SQL into a `Term`, a tree that identifies it. `evaluate` computes terms
over whole Arrow columns, with Arrow's kernels, and with NumPy for what Arrow lacks.

The meaning is that of Spark 4 with its default settings (`spark.sql.ansi.enabled`, and the time
zone of the session is the schema's), with one exception: what is an error in Spark is null.
So `a / b` means `try_divide(a, b)`, `a + b` means `try_add(a, b)`, and `CAST` means `try_cast`. A
term is computed for every event, even if a rule guards it with `b <> 0 AND`, and one event must
not stop a stream. Expressions are computed as they are written: Spark's optimizer reorders sums and
products of integers, so in Spark `m + (n + 1)` may overflow in `m + n`.

Further differences: a text that is a time of day without a date is null as a timestamp (in Spark it
is a time of today), a double is converted to a decimal by its shortest text, as in Java 19 and
later, and `concat` and `replace` return null instead of very long texts (`functions/texts.py`), so
that no short rule needs gigabytes. Whatever a function raises is null for that event alone.

Source columns have five types besides decimals, structs and maps: an integer column is a bigint
(also a Spark `int`), a number a double, a category a string, a flag a boolean, a time a timestamp.

Text is never converted to a number implicitly, nor a number to text, except in `concat`; write a
cast. A text literal that is compared with a time is read as a time.
"""

from __future__ import annotations

from tocsin.model.terms.evaluation import evaluate
from tocsin.model.terms.functions.table import describe_functions, function_names
from tocsin.model.terms.reading import read_pattern, read_term
from tocsin.model.terms.serialization import EVALUATOR_VERSION, from_json, to_json
from tocsin.model.terms.sources import as_source
from tocsin.model.terms.tree import Term
from tocsin.model.terms.types import Type, arrow_type, nested_type, source_type

__all__ = [
    "EVALUATOR_VERSION",
    "Term",
    "Type",
    "arrow_type",
    "as_source",
    "describe_functions",
    "evaluate",
    "from_json",
    "function_names",
    "nested_type",
    "read_pattern",
    "read_term",
    "source_type",
    "to_json",
]
