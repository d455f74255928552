"""Monitors over DataFrames: which objects enter, leave, and stay in which fences.

Objects are divided into *buckets* by the hash of their keys, as Spark divides rows that it
repartitions by a column. A bucket has a `Tracker`, as a `Monitor` has in one process: its timers
see the times of its own rows only.

The bucket is a column of the rows. The number of a task would not do: after a union or `coalesce`
they differ, and adaptive execution may give a task several buckets. These are independent of each
other, so a task takes one after the other.
"""

from tocsin.spark.moving.monitoring import monitor

__all__ = ["monitor"]
