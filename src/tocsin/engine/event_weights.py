"""Weights of events: how much each attribute counts in `top`, as users give them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import EventError, TocsinError
from tocsin.index.finish import EventWeights
from tocsin.jit import freeze_fields
from tocsin.model.arrow import translate_errors
from tocsin.model.attributes import Attributes
from tocsin.model.event_tables import is_sparse, map_entries
from tocsin.model.weights import check_weight


def read_event_weights(given: Any, events: int, schema: Attributes) -> EventWeights:
    """Read weights of events: None, a dict for all, or one per event (a list, an Arrow map)."""
    schema.update()  # weights may name columns that no rule tests yet
    if given is None:
        return _unit_weights(len(schema))
    if isinstance(given, pa.ChunkedArray):
        given = given.combine_chunks()
    try:
        if isinstance(given, Mapping):
            weights = _common_weights(given, schema)
        elif isinstance(given, pa.MapArray) and is_sparse(given.type):
            weights = _weights_of_maps(given, schema)
        elif isinstance(given, list | tuple):
            weights = _weights_of_dicts(given, schema)
        else:
            raise EventError(
                "expected a dict from attribute to weight, or one for each event (a list or an "
                f"Arrow array of maps); got {type(given).__name__}"
            )
        rows = len(weights.offsets) - 1
        if rows >= 0 and rows != events:
            raise EventError(f"there are {events} events, but weights for {rows}")
    except TocsinError as error:
        raise EventError(f"weights of events: {error}") from None
    return weights


@functools.lru_cache(maxsize=8)
def _unit_weights(attributes: int) -> EventWeights:
    """Return weights of 1; cached, since building them is a tenth of the work for one event."""
    return _event_weights(np.ones(attributes))


def _common_weights(weights: Mapping[str, Any], schema: Attributes) -> EventWeights:
    common = np.ones(len(schema))
    for attribute, weight in _check_weights(weights, schema):
        common[attribute] = weight
    return _event_weights(common)


def _weights_of_maps(maps: pa.MapArray, schema: Attributes) -> EventWeights:
    offsets, attributes, items = map_entries(maps, schema, None)
    with translate_errors(EventError, "maps must be from attribute to number"):
        weights = np.asarray(items.cast(pa.float64()).fill_null(1.0))
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        check_weight(schema.name(int(attributes[bad[0]])), float(weights[bad[0]]))
    return _event_weights(np.ones(len(schema)), offsets, attributes, weights)


def _weights_of_dicts(dicts: Sequence[Any], schema: Attributes) -> EventWeights:
    offsets, attributes, weights = [0], [], []
    for each in dicts:
        for attribute, weight in _check_weights(each or {}, schema):
            attributes.append(attribute)
            weights.append(weight)
        offsets.append(len(weights))
    return _event_weights(np.ones(len(schema)), offsets, attributes, weights)


def _check_weights(weights: Mapping[str, Any], schema: Attributes) -> Iterator[tuple[int, float]]:
    if not isinstance(weights, Mapping):
        raise EventError(f"expected a dict for each event, got {type(weights).__name__}")
    for name, weight in weights.items():
        if weight is not None:
            yield schema.index(str(name)), check_weight(name, weight)


def _event_weights(
    common: np.ndarray, offsets: Any = (), attributes: Any = (), weights: Any = ()
) -> EventWeights:
    return freeze_fields(
        EventWeights, common=common, offsets=offsets, attribute=attributes, weight=weights
    )
