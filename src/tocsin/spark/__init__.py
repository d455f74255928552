"""Tocsin on Spark: DataFrame in, DataFrame out. The only folder that imports pyspark."""

from tocsin.spark.matching import match
from tocsin.spark.session import session

__all__ = ["match", "session"]
