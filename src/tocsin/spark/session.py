"""A local Spark session that is quiet and whose workers find their Python and their kernels."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from tocsin.spark.kernels import compile_kernels


def session(
    name: str = "tocsin", cores: int | str = "*", config: dict[str, Any] | None = None
) -> SparkSession:
    """Return a local Spark session for matching.

    Workers run this Python, times are UTC, the console is quiet, and kernels are compiled
    before the first worker asks. `config` adds to, or overrides, what is set here. If a
    session is running already, it is returned as it is.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # Kernels like whole batches; 10,000 rows, the default, leave a third of the speed unused.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    } | (config or {})
    builder = SparkSession.builder.appName(name).master(f"local[{cores}]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    compile_kernels()
    return builder.getOrCreate()
