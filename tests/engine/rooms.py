"""Rules and events that several tests of uncertain values use."""

import pyarrow as pa

import tocsin

NUMBERS = pa.list_(pa.float64())
FLOATS = dict.fromkeys(["deviation", "low", "high", "mean"], pa.float64())
DENSITY = pa.struct(FLOATS | {"edges": NUMBERS, "weights": NUMBERS})
UNIT = {"low": 0.0, "high": 1.0}
COOL = "temp BETWEEN 20 AND 25"


def rooms(**options):
    rules = tocsin.Rules({"temp": "number", "room": "category"}, **options)
    rules.add("cool", COOL, at_least=0.8)
    rules.add("perhaps", COOL)
    return rules


MAYBE = {"temp": {"low": 18, "high": 26}}
SURELY = {"temp": {"low": 20, "high": 25.5}}


def found(rules, *events):
    return sorted(rules.match(list(events)))
