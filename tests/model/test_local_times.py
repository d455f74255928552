import datetime
import zoneinfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tocsin
from tocsin.model import local_times
from tocsin.model.local_times import DAY

INT64 = st.integers(-(2**63), 2**63 - 1)
USUAL = st.integers(-100 * 365 * DAY, 100 * 365 * DAY)
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata"]


@pytest.mark.parametrize("name", ZONES)
@given(times=st.lists(INT64 | USUAL | st.sampled_from([-(2**63), 2**63 - 1])))
def test_arrays_have_the_offsets_of_single_times(name, times):
    zone = zoneinfo.ZoneInfo(name)
    array = np.array(times, np.int64)
    local = [local_times.local_offset(time, zone) for time in times]
    assert local_times.local_offsets(array, zone).tolist() == local
    assert local_times.offsets_at(array, zone).tolist() == [
        local_times.offset_at(time, zone) for time in times
    ]


@pytest.mark.parametrize("name", ZONES)
@given(moment=st.datetimes(datetime.datetime(2, 1, 1), datetime.datetime(9999, 1, 1)))
def test_offsets_are_pythons(name, moment):
    zone = zoneinfo.ZoneInfo(name)
    microsecond = datetime.timedelta(microseconds=1)
    time = (moment - datetime.datetime(1970, 1, 1)) // microsecond
    in_utc = moment.replace(tzinfo=datetime.UTC).astimezone(zone)
    assert (
        local_times.local_offset(time, zone) * microsecond
        == moment.replace(tzinfo=zone).utcoffset()
    )
    assert local_times.offset_at(time, zone) * microsecond == in_utc.utcoffset()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_microseconds_of_columns(unit):
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    summer = [datetime.datetime(2024, 7, 1, 12), None]
    ten = datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC).timestamp() * 1e6
    naive = pa.array([None, *summer], pa.timestamp(unit)).slice(1)
    assert local_times.microseconds(naive, berlin)[0] == ten
    zoned = naive.cast(pa.int64()).view(pa.timestamp(unit, "No/Such_Zone"))
    assert local_times.microseconds(zoned, berlin)[0] == ten + 2 * DAY // 24
    for type_ in (pa.date32(), pa.date64()):
        dates = pa.array([datetime.date(2024, 7, 1)], type_)
        assert local_times.microseconds(dates, berlin)[0] == ten - DAY // 2


def test_terms_of_the_first_and_the_last_time():
    rules = tocsin.Rules(tocsin.Schema({"t": "time"}, timezone="Europe/Berlin"))
    rules.add("r", "t < '0001' AND hour(t) >= 0")
    ends = pa.array([-(2**63) + DAY, 2**63 - 1, -(2**63)], pa.timestamp("us", "UTC"))
    assert list(rules.match(pa.table({"t": ends}))) == [(0, "r"), (2, "r")]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("limit", [pd.Timestamp.min, pd.Timestamp.max])
def test_the_limits_of_pandas_timestamps(zone, limit):
    rules = tocsin.Rules(tocsin.Schema({"t": "time"}, timezone=zone))
    rules.add(1, "t < '1970-01-01'")
    assert len(rules.match({"t": limit})) == (limit == pd.Timestamp.min)
