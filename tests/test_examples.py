"""The examples run, and print the output in the documents."""

import numpy as np

from examples import (
    ad_targeting,
    air_conditioning,
    city_zones,
    contact_tracing,
    fleet,
    range_join,
    rule_review,
    safe_regions,
)


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


def test_contact_tracing(capsys, tmp_path):
    contact_tracing.main(people=60, out=str(tmp_path / "contacts.png"))
    assert "60 people, 86,400 positions" in capsys.readouterr().out
    assert (tmp_path / "contacts.png").stat().st_size > 10_000
    points, person = contact_tracing.walk(60)
    first, second = contact_tracing.find_contacts(points, person)
    assert len(first) > 100
    apart = np.abs(points[first] - points[second])
    assert (apart < [2, 2, 1]).all()
    assert (person[first] != person[second]).all()


def test_air_conditioning(capsys, tmp_path):
    air_conditioning.main(out=str(tmp_path / "floor.png"))
    printed = capsys.readouterr().out
    assert "1A: probability 0.546764" in printed
    assert "Distribution of the lowest value: in [17.7455, 20.0102], mean 18.6708" in printed
    assert (tmp_path / "floor.png").stat().st_size > 10_000


def test_rule_review(capsys, tmp_path):
    rule_review.main(count=300, out=str(tmp_path / "review.png"))
    printed = capsys.readouterr().out
    assert "302 rules: " in printed
    assert "dest = 'LXA', but no event has a matching value" in printed
    assert "arr_delay >= 5400, but arr_delay ranges from -86.0 to 1272.0" in printed
    assert (tmp_path / "review.png").stat().st_size > 10_000


def test_fleet(capsys, tmp_path):
    fleet.main(vehicles=9, out=str(tmp_path / "fleet.png"))
    printed = capsys.readouterr().out
    assert "9 vehicles, " in printed
    assert "  all     lost        1" in printed
    assert "2 events with margin=25.0" in printed
    assert (tmp_path / "fleet.png").stat().st_size > 10_000


def test_city_zones(capsys, tmp_path):
    city_zones.main(out=str(tmp_path / "zones.png"))
    printed = capsys.readouterr().out
    assert "4,000 taxis\nlow emission: 1,540\n" in printed
    assert "in the bounding box of the zone: 2,082" in printed
    assert "2.8555 m outside" in printed
    assert (tmp_path / "zones.png").stat().st_size > 10_000


def test_safe_regions(capsys, tmp_path):
    safe_regions.main(vehicles=6, out=str(tmp_path / "regions.png"))
    printed = capsys.readouterr().out
    assert "6 vehicles, 13 fences, " in printed
    assert printed.count("% saved\n") == 3
    assert "The events are the same." in printed
    assert (tmp_path / "regions.png").stat().st_size > 10_000
