"""Tocsin on Spark: DataFrame in, DataFrame out. The only folder that imports pyspark."""

try:
    import pyspark  # noqa: F401
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    raise ModuleNotFoundError(
        "tocsin.spark needs PySpark, which is not installed; pip install 'tocsin[spark]'",
        name="pyspark",
    ) from None

from tocsin.spark import uncertain
from tocsin.spark.linting import lint
from tocsin.spark.matching import match
from tocsin.spark.moving import monitor
from tocsin.spark.session import session
from tocsin.spark.similarity import similarity_join
from tocsin.spark.tuning import tune

__all__ = ["lint", "match", "monitor", "session", "similarity_join", "tune", "uncertain"]
