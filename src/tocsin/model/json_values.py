"""Reads values of JSON, which has neither times nor decimals."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

from tocsin.errors import EventError
from tocsin.model.decimals import is_decimal
from tocsin.model.schema import Schema


def parse_value(name: str, value: Any, schema: Schema) -> Any:
    """Return a JSON value of an attribute; strings of times and decimals become these."""
    if isinstance(value, dict):
        return {end: parse_value(name, each, schema) for end, each in value.items()}
    if not isinstance(value, str) or name not in schema:
        return value
    if is_decimal(schema.kind(name)):
        try:
            return decimal.Decimal(value)
        except decimal.InvalidOperation:
            return value
    if schema.kind(name) != "time":
        return value
    try:
        time = datetime.datetime.fromisoformat(value)
    except ValueError:
        raise EventError(
            f"attribute {name!r} is a time, got {value!r}; write it as 2024-05-01T12:00:00Z"
        ) from None
    local = time if time.tzinfo else time.replace(tzinfo=schema.zone)
    return local.astimezone(datetime.UTC)
