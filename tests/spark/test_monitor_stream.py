"""Monitors over streams: exactly once, whatever is repeated, killed or changed in between."""

import pytest

from tests.spark.monitor_answers import Story, StoryStream


def run(spark, stream, steps, **options):
    """Take steps of a story while its stream runs; return the query, which has ended."""
    query = None
    for step in steps:
        is_new = stream.take(step)
        if query is None:
            query = stream.start(stream.monitor(spark, **options))
        if is_new:
            query.processAllAvailable()
    query.processAllAvailable()
    query.stop()
    return query


@pytest.mark.parametrize(
    ("profile", "seed"), [("hysteresis and rule changes", 5), ("large batches", 7)]
)
def test_a_stream_is_stopped_and_continued(spark, tmp_path, profile, seed):
    stream = StoryStream(Story(seed, profile, steps=20), tmp_path)
    steps = [*stream.story.steps, ("update", stream.story.ticks())]
    run(spark, stream, steps[: len(steps) // 2])
    run(spark, stream, steps[len(steps) // 2 :])
    output = stream.output(spark)
    assert output == stream.expected(spark)
    assert len(output) > 40
