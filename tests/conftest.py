"""What all tests share: a Spark session, and how hard Hypothesis tries."""

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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


def group_of(nodeid: str) -> str:
    """Return which tests belong together if they run on several cores.

    Tests on Spark share a session, and those of a file share compiled kernels and fixtures.
    """
    file = nodeid.partition("::")[0]
    return "spark" if "spark" in file else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the largest group first, so that no core is idle in the end."""
    items.sort(key=lambda item: group_of(item.nodeid) != "spark")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each group to one process, in the order of tests."""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


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
