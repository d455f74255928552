"""Run all queries on Spark Connect, in a process of its own.

    python -m tests.spark.connect_answers FOLDER

A process cannot use both Classic and Connect. So the results are written to a folder, where the
tests read them.
"""

import json
import signal
import sys
from pathlib import Path

from pyarrow import feather

import tocsin
import tocsin.spark
from tests.spark import (
    answers,
    lint_answers,
    similarity_answers,
    test_live_rules,
    tune_answers,
    uncertain_answers,
)
from tests.spark.connect_server import connect_session
from tests.spark.refusals import refuse_frame


def run_with_changing_rules(spark, path):
    """Run a stream with a store whose rules change between micro-batches."""
    (path / "events").mkdir(parents=True)
    store = tocsin.RuleStore.create(path / "store", test_live_rules.SCHEMA)
    store.add("all", "n >= 0")
    query = test_live_rules.stream(spark, path).trigger(processingTime="0 seconds").start()
    try:
        for number in range(4):
            test_live_rules.write_events(path, number)
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
        for way, query, table in answers.run_on_spark(spark, folder / "data"):
            feather.write_feather(table, folder / "answers" / f"{way}.{query}")
        run_with_changing_rules(spark, folder / "live")
        errors = {name: str(error) for name, error in answers.errors(spark, folder / "errors")}
        (folder / "errors.json").write_text(json.dumps(errors))
        joined = similarity_answers.join_on_spark(spark, partitions=3)
        (folder / "similarity.json").write_text(json.dumps(joined))
        (folder / "lint.json").write_text(json.dumps(lint_answers.lint_on_spark(spark)))
        tuned = tune_answers.tune_on_spark(spark, folder / "tuned")
        (folder / "tune.json").write_text(json.dumps(tuned))
        queries = ["in_range", "value", *uncertain_answers.ENTITY, *uncertain_answers.VALUES]
        asked = uncertain_answers.ask_spark(spark, uncertain_answers.ALL, 3, queries)
        (folder / "uncertain.json").write_text(json.dumps(asked))
        uncertain_answers.run_stream(spark, folder / "watch")
        (folder / "refusals.json").write_text(json.dumps(refuse_frame(spark)))
        (folder / "zoned.json").write_text(json.dumps(answers.match_in_another_zone(spark)))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and stop the server
    main(Path(sys.argv[1]))
