"""The examples run, and print the output in the documents."""

from examples import ad_targeting, range_join


def test_ad_targeting(capsys):
    ad_targeting.main(campaigns=2_000)
    printed = capsys.readouterr().out
    assert "0.360  platinum card\n  0.330  student loan" in printed
    assert "Why 'student loan' lost to 'platinum card'" in printed
    assert "would add 0.16 = 0.8 x 0.2" in printed


def test_range_join(spark):
    points, boxes = range_join.generate_city(spark, 2_000, 50)
    ways = [
        range_join.join_on_condition(points, boxes),
        range_join.join_on_bins(points, boxes, 30),
        range_join.match_with_tocsin(points, boxes),
    ]
    pairs = [sorted(map(tuple, way.collect())) for way in ways]
    assert len(pairs[0]) > 0
    assert pairs[0] == pairs[1] == pairs[2]
