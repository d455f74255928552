"""Match files of events on a local Spark session, for more events than one process can handle."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tocsin.cli.job import Job, Outcome
from tocsin.cli.output import join_parts, tally_parts
from tocsin.cli.progress import Bar, follow_spark, redirect_stderr
from tocsin.engine.rules import Rules
from tocsin.engine.store_folder import StoreFolder
from tocsin.errors import TocsinError
from tocsin.files.csv_files import read_common_header
from tocsin.files.paths import is_store, list_data_files


def match_files(job: Job, folder: Path, bar: Bar) -> Outcome:
    """Match and write the output; `folder` is for its parts and Spark's log."""
    tocsin_spark = import_spark()
    files = list_data_files(job.events, partitioned=True)
    if job.format == "csv":
        read_common_header(files)  # raises if they differ: Spark would read columns by position
    log, parts = folder / "spark.log", folder / "parts"
    with follow_spark(log, bar) as step:
        step("starting Spark")
        spark = _session(tocsin_spark, log)
        start = time.perf_counter()
        step("reading events")
        known = StoreFolder(job.rules).open(job.version)[0].schema if is_store(job.rules) else None
        frame = tocsin_spark.files.read_files(spark, job.events, job.format, job.declared, known)
        rules: Any = job.rules
        if not is_store(job.rules):
            rules = job.read_rules(frame.schema)
        elif job.version is not None:
            rules = Rules.open(job.rules, job.version)
        frame, rows = tocsin_spark.files.observe_row_count(frame)
        matches = tocsin_spark.match(frame, rules, **vars(job.request))
        if job.out_format == "csv":
            job.refuse_columns(tocsin_spark.files.nested_columns(matches))
        step("matching")
        tocsin_spark.files.write_files(matches, parts, job.out_format)
        step(f"writing {job.out.name}")
        join_parts(parts, job.out_format, matches.columns, job.out)
        seconds = time.perf_counter() - start
        column = job.request.columns_added()[0]
        type_ = dict(matches.dtypes)[column]
        tally = tally_parts(parts, job.out_format, matches.columns, column, type_)
    return Outcome(rows.get["rows"], tally.matches, tally.by_rule, seconds)


def import_spark() -> Any:
    """Return `tocsin.spark`; raise with instructions if Spark is not installed."""
    try:
        import tocsin.spark.files
    except ModuleNotFoundError as error:
        raise TocsinError(
            f"--spark needs Spark, but {error.name} is not installed; pip install 'tocsin[spark]'"
        ) from None
    return tocsin.spark


def _session(tocsin_spark: Any, log: Path) -> Any:
    settings = {
        # Errors are raised as exceptions; the log would repeat them as pages of Java.
        "spark.log.level": "OFF",
        # Small tasks, so that the bar moves and all cores finish at about the same time.
        "spark.sql.files.maxPartitionBytes": "8m",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    try:
        with redirect_stderr(log), tocsin_spark.files.spark_errors("Spark did not start"):
            spark = tocsin_spark.session(config=settings)
            for name, value in tocsin_spark.files.SETTINGS.items():
                spark.conf.set(name, value)  # the session may have been running already
            return spark
    except TocsinError as error:
        log_end = log.read_text(errors="replace").strip().splitlines()[-3:]
        message = f"{error}; it needs Java 17 or newer"
        raise TocsinError("\n  ".join([message, *log_end])) from None
