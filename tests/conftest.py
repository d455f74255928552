"""What all tests share: a Spark session, and how hard Hypothesis tries."""

import functools
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
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


ROOT = Path(__file__).parents[1]
# Files of few tests that take long.
SLOW = (
    "tests/index/test_extreme_bounds.py",
    "tests/experiments/test_figures.py",
    "tests/test_benchmarks.py",
    "tests/engine/test_untrusted_store.py",
)


def group_of(nodeid: str) -> str:
    """Return which tests belong together if they run on several cores.

    Tests on Spark share a session, wherever they are. Others share the fixtures of their file.
    """
    file, _, test = nodeid.partition("::")
    if file.startswith("tests/spark/") or test.partition("[")[0] in users_of_spark(file):
        return "spark"
    return file


@functools.cache
def users_of_spark(file: str) -> set[str]:
    """Return the functions of a file that use the fixture `spark`, perhaps by another fixture.

    They are found in the text: the process that distributes tests does not collect them.
    """
    path = ROOT / file
    text = path.read_text() if path.suffix == ".py" else ""
    users = {"spark"}
    for module, names in re.findall(r"^from (tests[.\w]*[.]test_\w+) import (.*)$", text, re.M):
        imported = (ROOT / (module.replace(".", "/") + ".py")).read_text()
        users |= find_users(users, imported) & set(re.findall(r"\w+", names))
    return find_users(users, text)


def find_users(fixtures: set[str], text: str) -> set[str]:
    """Return some fixtures and the functions in a text that take them, also indirectly."""
    functions = re.findall(r"^def (\w+)\(([^)]*)\)", text, re.M)
    users = set(fixtures)
    while more := {n for n, taken in functions if users & set(re.findall(r"\w+", taken))} - users:
        users |= more
    return users


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the largest groups first, so that no core is idle in the end.

    Tests that wait for Spark Connect come last in theirs: it has the time of the others.
    """
    groups = [group_of(item.nodeid) for item in items]
    sizes = Counter(groups)

    def order(item: pytest.Item) -> tuple[Any, ...]:
        group = group_of(item.nodeid)
        waits = "connect_folder" in getattr(item, "fixturenames", ())
        return group != "spark", group not in SLOW, -sizes[group], group, waits

    items.sort(key=order)


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
def bucket() -> Iterator[str]:
    """The URL of an S3 bucket, on a server in this process; the environment has its keys."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.WARNING)  # one line a request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    keys = {"AWS_ACCESS_KEY_ID": "AKIAKEY", "AWS_SECRET_ACCESS_KEY": "a secret of tests"}
    region = {"AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (keys | region).items():
            patch.setenv(name, value)
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ALLOW_HTTP", "true")
        boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="tocsin-tests")
        yield "s3://tocsin-tests"
    server.stop()


@pytest.fixture(scope="session")
def spark(bucket: str) -> "Iterator[SparkSession]":
    """A small local Spark with its default meaning of SQL, in UTC; its workers can use buckets."""
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
