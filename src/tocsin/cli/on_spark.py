"""Match files of events on a local Spark, for what is too large for one process."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tocsin.cli.events.csv_files import common_header
from tocsin.cli.files import data_files
from tocsin.cli.job import Job, Outcome
from tocsin.cli.output import join_parts, tally
from tocsin.cli.progress import Bar, following_spark, stderr_into
from tocsin.errors import TocsinError


def match_files(job: Job, folder: Path, bar: Bar) -> Outcome:
    """Do it; parts of the output, and Spark's log, lie in `folder` until it is complete."""
    tocsin_spark = import_spark()
    files = data_files(job.events, partitioned=True)
    if job.format == "csv":
        common_header(files)  # Spark takes columns by their places, whatever other headers say
    log, parts = folder / "spark.log", folder / "parts"
    with following_spark(log, bar) as step:
        step("starting Spark")
        spark = _session(tocsin_spark, log)
        start = time.perf_counter()
        step("reading events")
        frame = tocsin_spark.files.read_files(spark, job.events, job.format, job.declared)
        rules = job.rules if job.rules.is_dir() else job.read_rules(frame.schema)
        frame, rows = tocsin_spark.files.counted(frame)
        found = tocsin_spark.match(
            frame,
            rules,
            how=job.how,
            k=job.k,
            keep=job.keep,
            output=job.output,
            payload=job.payload,
        )
        if job.out_format == "csv":
            job.refuse(tocsin_spark.files.nested(found))
        step("matching")
        tocsin_spark.files.write_files(found, parts, job.out_format)
        step(f"writing {job.out.name}")
        join_parts(parts, job.out_format, found.columns, job.out)
        seconds = time.perf_counter() - start
        column = "matches" if job.how == "count" else "rule" if job.output == "rows" else "rules"
        type_ = dict(found.dtypes)[column]
        tallied = tally(parts, job.out_format, found.columns, column, type_)
    return Outcome(rows.get["rows"], tallied.matches, tallied.by_rule, seconds)


def import_spark() -> Any:
    """Return `tocsin.spark`, or say what to install."""
    try:
        import tocsin.spark.files
    except ModuleNotFoundError as error:
        raise TocsinError(
            f"--spark needs Spark, and {error.name} is not installed; pip install 'tocsin[spark]'"
        ) from None
    return tocsin.spark


def _session(tocsin_spark: Any, log: Path) -> Any:
    settings = {
        # Errors come as exceptions; the log would say them again, as pages of Java.
        "spark.log.level": "OFF",
        # Small tasks: the bar moves, and the last core does not keep the others waiting.
        "spark.sql.files.maxPartitionBytes": "8m",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    try:
        with stderr_into(log), tocsin_spark.files.telling("Spark did not start"):
            spark = tocsin_spark.session(config=settings)
            for name, value in tocsin_spark.files.SETTINGS.items():
                spark.conf.set(name, value)  # also where a session was running already
            return spark
    except TocsinError as error:
        said = log.read_text(errors="replace").strip().splitlines()[-3:]
        raise TocsinError("\n  ".join([f"{error}; it needs Java 17 or newer", *said])) from None
