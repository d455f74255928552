"""Types and callbacks of command-line options."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from tocsin.engine.storage import is_bucket
from tocsin.files.paths import is_url
from tocsin.files.rules import parse_object


class LocalPath(click.Path):
    """The path of a local file or folder; URLs are refused."""

    def __init__(self, **settings: Any):
        super().__init__(path_type=Path, **settings)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path."""
        # pathlib would turn s3://bucket into s3:/bucket, which exists nowhere.
        if isinstance(value, str) and is_url(value):
            self.fail(f"{value!r} is a URL; only local files and folders are supported", param, ctx)
        return super().convert(value, param, ctx)


class StorePath(LocalPath):
    """The path of a rule store, or its URL in a bucket."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the path, or the URL as it is."""
        if isinstance(value, str) and is_bucket(value):
            return value
        return super().convert(value, param, ctx)


def split_names(ctx: Any, param: Any, values: Sequence[str]) -> list[str] | None:
    """Return the comma-separated names of a repeatable option, None if it is not given."""
    if not values:
        return None
    return [name.strip() for value in values for name in value.split(",") if name.strip()]


def join_values(ctx: Any, param: Any, values: Sequence[str]) -> str | None:
    """Return the values of a repeatable option, separated by commas; None if it is not given."""
    return ",".join(values) if values else None


def json_option(name: str, **settings: Any) -> Callable[[Any], Any]:
    """Declare an option whose value is a JSON object; repeated options are merged."""
    return click.option(name, multiple=True, callback=_merge_objects, metavar="JSON", **settings)


def _merge_objects(ctx: Any, param: Any, values: Sequence[str]) -> dict[str, Any] | None:
    merged: dict[str, Any] = {}
    for value in values:
        try:
            parsed = parse_object(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        for name in parsed.keys() & merged.keys():
            raise click.BadParameter(f"{name!r} is given twice.", ctx, param)
        merged |= parsed
    return merged if values else None


def _parse_index_options(ctx: Any, param: Any, values: Sequence[str]) -> dict[str, Any]:
    """Return options by name; values are numbers, true, false, none, or else text."""
    options: dict[str, Any] = {}
    for each in values:
        name, equals, text = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} must be NAME=VALUE, as in fan_out=8", ctx, param)
        if name in options:
            raise click.BadParameter(f"{name!r} is given twice.", ctx, param)
        try:
            options[name] = None if text == "none" else json.loads(text)
        except ValueError:
            options[name] = text
    return options


index_option = click.option(
    "--index", default="auto", show_default=True, help="Which index holds the rules."
)
index_options_option = click.option(
    "--index-option",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_parse_index_options,
    help="An option of the index; can be repeated.",
)
