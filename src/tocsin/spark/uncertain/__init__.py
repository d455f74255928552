"""Queries over uncertain readings in DataFrames, with the names they have in one process.

A row of a DataFrame is a reading, and its columns say which density it has:

=====================================  ==========================================================
columns that are not null              the reading
=====================================  ==========================================================
`value`                                a value without uncertainty
`value`, `rate`, `time`                reported at `time`, and changing by at most `rate` per unit
                                       of time, or per second if `time` is a timestamp; the query
                                       has the argument `at`
`low`, `high`                          uniform
`low`, `high`, `mean`, `deviation`     normal, truncated to the interval
`edges`, `weights`                     a histogram; both are arrays
=====================================  ==========================================================

Rows of one DataFrame may have different densities. `in_range` and `value` look at each row by
itself. All other queries answer for each group of rows; what cannot matter is dropped by Spark, and
a worker evaluates the rest of a group as one process would. `watch` keeps the last readings of a
stream and answers in each micro-batch.
"""

from tocsin.spark.uncertain.groups import (
    average,
    highest,
    lowest,
    maximum,
    minimum,
    nearest,
    total,
)
from tocsin.spark.uncertain.rows import in_range, value
from tocsin.spark.uncertain.watching import watch

__all__ = [
    "average",
    "highest",
    "in_range",
    "lowest",
    "maximum",
    "minimum",
    "nearest",
    "total",
    "value",
    "watch",
]
