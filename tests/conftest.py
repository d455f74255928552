"""What all tests share: a Spark session, and how hard Hypothesis tries."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Before tocsin is imported: kernels check what they are called with.
os.environ.setdefault("TOCSIN_CHECKED_CALLS", "1")
# Spark's code runs briefly here: compiling it well takes a third of the processors' time.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# The quick profile has the same examples in each run; looking for new ones is for the long one.
settings.register_profile("quick", max_examples=60, deadline=None, derandomize=True)
settings.register_profile("long", max_examples=1500, deadline=None)
settings.load_profile(os.environ.get("TOCSIN_PROFILE", "quick"))


# Files of few tests that take long.
SLOW = (
    "tests/index/test_extreme_bounds.py",
    "tests/experiments/test_figures.py",
    "tests/test_benchmarks.py",
    "tests/engine/test_untrusted_store.py",
)


def group_of(item: pytest.Item) -> str:
    """Return which tests belong together if they run on several cores.

    Tests on Spark share a session, wherever they are. Others share the fixtures of their file.
    """
    if "spark" in getattr(item, "fixturenames", ()):
        return "spark"
    return item.nodeid.partition("::")[0]


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group tests, and run the largest groups first, so that no core is idle in the end.

    Tests that wait for Spark Connect come last in theirs: it has the time of the others.
    """
    sizes = Counter(map(group_of, items))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))

    def order(item):
        group = group_of(item)
        waits = "connect_folder" in getattr(item, "fixturenames", ())
        return group != "spark", group not in SLOW, -sizes[group], group, waits

    items.sort(key=order)


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A small local Spark with its default meaning of SQL, in UTC."""
    # Workers must run this interpreter; what `python` means on the path is anyone's guess.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("tocsin-tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
