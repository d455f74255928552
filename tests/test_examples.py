"""Examples run, and print what their documents say."""

from examples import ad_targeting, range_join


def test_ad_targeting(capsys):
    ad_targeting.main(campaigns=2_000)
    printed = capsys.readouterr().out
    assert "0.360  platinum card\n  0.330  student loan" in printed
    assert "Why 'student loan' lost to 'platinum card'" in printed
    assert "would add 0.16 = 0.8 x 0.2" in printed


def test_range_join(spark):
    points, boxes = range_join.city(spark, 2_000, 50)
    ways = [
        range_join.as_sql(points, boxes),
        range_join.binned(points, boxes, 30),
        range_join.with_tocsin(points, boxes),
    ]
    found = [sorted(map(tuple, way.collect())) for way in ways]
    assert len(found[0]) > 0
    assert found[0] == found[1] == found[2]
