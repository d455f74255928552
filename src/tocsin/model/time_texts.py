"""Reads texts as times, as Spark's casts do."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo

from tocsin.model.local_times import CYCLE, DAY, local_offset

BLANK = "".join(map(chr, (*range(33), 127)))  # what Spark trims around a value

# The year has a sign or more digits far away. A zone follows seconds only.
_TIME = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})"
    r"(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(\D.*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_DATE = re.compile(
    r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL
)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?:(:?)(\d{2})(?:\3(\d{2}))?)?", re.ASCII)
_SHORT_DIGITS = (
    (re.compile(r"([+-])(\d):", re.ASCII), r"\g<1>0\2:"),
    (re.compile(r"([+-])(\d\d):(\d)$", re.ASCII), r"\1\2:0\3"),
)
# Java's ZoneId.SHORT_IDS.
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}


def read_timestamp(text: str, zone: datetime.tzinfo) -> int | None:
    """Return the microseconds since 1970 UTC of a text, or None if it is not a timestamp.

    A time without a date, to which Spark adds the current date, is not one here.

    >>> read_timestamp("1970-01-01 00:00:01Z", datetime.UTC)
    1000000
    """
    match = _TIME.fullmatch(text.strip(BLANK))
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone_name = match.groups()
    days = _days(sign, year, month, day)
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    if zone_name is not None:
        named = _find_zone(zone_name.strip(BLANK))
        if named is None:
            return None
        zone = named
    seconds = (clock[0] * 60 + clock[1]) * 60 + clock[2]
    local = days * DAY + seconds * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    micros = local - local_offset(local, zone)
    return micros if -(2**63) <= micros < 2**63 else None


def read_date(text: str) -> int | None:
    """Return the days since 1970 of a text, or None if it is not a date.

    What follows the day after a blank or T is ignored.
    """
    match = _DATE.fullmatch(text.strip(BLANK))
    return None if match is None else _days(*match.groups())


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    number = int(sign + year)
    cycles, within = divmod(number - 1, 400)
    try:
        date = datetime.date(within + 1, int(month or 1), int(day or 1))
    except ValueError:
        return None
    days = date.toordinal() - 719_163 + cycles * CYCLE
    return days if -(2**31) <= days < 2**31 else None


@functools.lru_cache(maxsize=1024)
def _find_zone(name: str) -> datetime.tzinfo | None:
    """Return the time zone that Java finds by a name, or None."""
    for pattern, put in _SHORT_DIGITS:
        name = pattern.sub(put, name, count=1)
    name = _SHORT_NAMES.get(name, name)
    if name == "Z":
        return datetime.UTC
    for prefix in ("UTC", "GMT", "UT"):
        if name == prefix:
            return datetime.UTC
        if name.startswith((prefix + "+", prefix + "-")):
            name = name.removeprefix(prefix)
            break
    if name.startswith(("+", "-")):
        match = _OFFSET.fullmatch(name)
        if match is None or (len(match[2]) == 1 and match[4]):
            return None
        parts = [int(match[i] or 0) for i in (2, 4, 5)]
        seconds = (parts[0] * 60 + parts[1]) * 60 + parts[2]
        if parts[1] > 59 or parts[2] > 59 or seconds > 18 * 3600:
            return None
        delta = datetime.timedelta(seconds=seconds)
        return datetime.timezone(-delta if match[1] == "-" else delta)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
        return None
