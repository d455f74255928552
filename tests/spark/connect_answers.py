"""Everything that is asked of Spark Connect, in a process of its own.

    python -m tests.spark.connect_answers FOLDER

Classic and Connect do not go together in one process. So this writes what it got into a folder,
and tests look at that.
"""

import json
import sys
from pathlib import Path

from pyarrow import feather

import tocsin
import tocsin.spark
from tests.spark import answers, test_live_rules
from tests.spark.connect_server import connect_session


def changing_rules(spark, place):
    """A stream over a store whose rules change between its micro-batches."""
    (place / "events").mkdir(parents=True)
    store = tocsin.RuleStore.create(place / "store", test_live_rules.SCHEMA)
    store.add("all", "n >= 0")
    query = test_live_rules.stream(spark, place).trigger(processingTime="0 seconds").start()
    try:
        for number in range(4):
            test_live_rules.write_events(place, number)
            query.processAllAvailable()
            store.replace("all", f"n > {number}")
            store.add(f"gold {number}", "tier = 'gold'")
    finally:
        query.stop()


def main(folder):
    with connect_session(folder / "server.log") as spark:
        assert type(spark).__module__ == "pyspark.sql.connect.session"
        assert tocsin.spark.session() is spark
        (folder / "answers").mkdir()
        for way, question, table in answers.on_spark(spark, folder / "data"):
            feather.write_feather(table, folder / "answers" / f"{way}.{question}")
        changing_rules(spark, folder / "live")
        errors = {name: str(error) for name, error in answers.errors(spark, folder / "errors")}
        (folder / "errors.json").write_text(json.dumps(errors))
        (folder / "zoned.json").write_text(json.dumps(answers.zoned(spark)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
