"""A local Spark session that is quiet and whose workers find Python and compiled kernels."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from tocsin.spark.kernels import MATCHING, compile_kernels


def session(
    name: str = "tocsin", cores: int | str = "*", config: dict[str, Any] | None = None
) -> SparkSession:
    """Return a Spark session for matching: the active one unchanged, or a new local one.

    In a new session, workers run this Python, times are UTC, the console is quiet, and the
    kernels that all rules need are compiled meanwhile. `config` adds to these settings or
    overrides them.

    If `SPARK_REMOTE` (or `spark.remote` in `config`) names a Spark Connect server, the new session
    is on that server. `cores` is then ignored, and only session settings are applied.
    """
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        pass  # there is no active session
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        # Kernels are fastest on large batches; 10,000 rows, the default, cost a third of the speed.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    }
    builder = SparkSession.builder
    remote = (config or {}).get("spark.remote", os.environ.get("SPARK_REMOTE"))
    if remote is None:
        builder = builder.master(f"local[{cores}]")
    if remote is None or remote.startswith("local"):
        builder = builder.appName(name)
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
    for key, value in (settings | (config or {})).items():
        builder = builder.config(key, value)
    # Compile while Java starts.
    compiling = threading.Thread(target=compile_kernels, args=(MATCHING,))
    compiling.start()
    try:
        return builder.getOrCreate()
    finally:
        compiling.join()
