"""What operators have in common: they check a DataFrame, and run a function in Spark's workers.

An operator takes DataFrames and returns one. `check_frame` refuses anything else. `map_batches`
sends columns to workers, batch by batch; `in_workers` wraps a function for `applyInArrow`, which
works on groups. Both compile kernels before workers start.

The code uses only features that Spark Classic and Spark Connect have. So expressions are strings:
`functions.col` creates a Classic or a Connect column depending on the process.
"""

from __future__ import annotations

import functools
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tocsin.errors import EventError, TocsinError
from tocsin.spark.kernels import Kernels, compile_kernels

# ------------------------------------------------------------ DataFrames


def is_frame(value: Any) -> bool:
    """Return whether this is a DataFrame of Spark, Classic or Connect."""
    return hasattr(value, "mapInArrow")


def check_frame(
    frame: Any,
    name: str,
    instead: str,
    error: type[TocsinError] = EventError,
    no_stream: str | None = None,
) -> None:
    """Raise unless an argument is a DataFrame; `instead` is the function for this process.

    `no_stream` says why it must not be a stream, or what to do about it; None if it may be one.
    """
    if not is_frame(frame):
        advice = f"spark.createDataFrame converts a table; for {name} in this process use {instead}"
        if hasattr(frame, "to_spark"):  # pandas on Spark
            advice = "convert it with to_spark"
        raise error(f"{name} must be a Spark DataFrame, got {describe_type(frame)}; {advice}")
    if no_stream is not None and frame.isStreaming:
        raise error(f"{name} must not be a stream; {no_stream}")


def describe_type(value: Any) -> str:
    """Return the type of a value and its library, because many libraries have a DataFrame."""
    library = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    return name if library in ("builtins", "__main__") else f"a {library} {name}"


# ------------------------------------------------------------ columns


def quote_column(name: str) -> str:
    """Return the name of a column as SQL."""
    return "`" + name.replace("`", "``") + "`"


def quote_columns(names: Iterable[str]) -> dict[str, str]:
    """Return SQL for columns by their names."""
    return {name: quote_column(name) for name in names}


def number_columns(names: Iterable[str], prefix: str) -> dict[str, str]:
    """Return SQL for columns by numbered names, which no other columns have."""
    return {f"{prefix}{i}": quote_column(name) for i, name in enumerate(names)}


def select(frame: Any, columns: Mapping[str, str]) -> Any:
    """Return a DataFrame with these columns, which are SQL."""
    return frame.selectExpr(*(f"{sql} AS {quote_column(name)}" for name, sql in columns.items()))


def draw_sample(frame: Any, names: Sequence[str], rows: int) -> pa.Table:
    """Return these columns of at most so many rows, which are drawn at random."""
    # Spark keeps the first rows of each partition in this order, and does not sort all.
    numbered = select(frame, {**number_columns(names, "c"), "drawn": "rand(0)"})
    sample = numbered.orderBy("drawn").limit(rows).drop("drawn").toArrow()
    return sample.rename_columns(list(names))


# ------------------------------------------------------------ workers


def map_batches(
    frame: Any,
    columns: Mapping[str, str],
    job: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
    result: Any,
    kernels: Kernels,
) -> Any:
    """Return the batches that a function in workers makes of the batches of some columns.

    `columns` are SQL by the names that the function sees. `job` is a function of a module, or a
    partial of one. `result` is the schema of its batches, whose columns are bound by position.
    """
    # mapInArrow fails for names with dots, and a batch without columns has no number of rows.
    numbered = {f"c{i}": sql for i, sql in enumerate(columns.values())} or {"c0": "0"}
    named = functools.partial(name_columns, list(columns) or [""], job)
    return select(frame, numbered).mapInArrow(in_workers(named, kernels), result)


def name_columns(names: list[str], job: Any, batches: Iterable[pa.RecordBatch]) -> Any:
    """Run a job on batches whose columns get these names."""
    return job(pa.RecordBatch.from_arrays(batch.columns, names) for batch in batches)


def in_workers(job: Callable[..., Any], kernels: Kernels, inputs: int = 1) -> Callable[..., Any]:
    """Return the same job for Spark's workers, with its kernels compiled.

    A module's function is pickled by name, so a worker without the module fails while Spark
    unpickles it, with `No module named 'tocsin'`. A nested function is pickled with its code. It
    cannot use the names of its module, so it imports what it needs. So workers without Tocsin get a
    helpful error.
    """
    compile_kernels(kernels)
    pickled, caller = pickle.dumps(job), sys.executable

    def run(*data: Any) -> Any:
        import pickle
        import sys

        try:
            job = pickle.loads(pickled)
        except (ImportError, AttributeError) as error:
            raise ImportError(
                f"Spark's workers run {sys.executable}, which cannot load tocsin: {error}. Before "
                "Spark starts, set PYSPARK_PYTHON to a Python that has the same version of tocsin "
                f"as the caller, which runs {caller} (tocsin.spark.session does so)"
            ) from None
        return job(*data)

    # Spark looks at the number of parameters.
    return (lambda a: run(a)) if inputs == 1 else (lambda a, b: run(a, b))
