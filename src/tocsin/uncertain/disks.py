"""Places in two or three dimensions that are uncertain: uniform within a disk or a ball."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.errors import UncertainError


class Disks:
    """Uncertain places, one per id; make them with `Readings.disks`. For `nearest`."""

    def __init__(self, ids: pa.Array, centers: np.ndarray, radii: np.ndarray):
        self.ids, self.centers, self.radii = ids, centers, radii

    def __len__(self) -> int:
        return len(self.ids)

    def read_place(self, q: Any) -> np.ndarray:
        """Return a query point as an array; raise unless it has a number for each dimension."""
        if not len(self):
            raise UncertainError("there are no readings; this query needs at least one")
        try:
            place = np.asarray(q, np.float64)
        except (TypeError, ValueError):
            raise UncertainError(f"q must be a point, got {q!r}") from None
        d = self.centers.shape[1]
        if place.shape != (d,) or not np.isfinite(place).all():
            raise UncertainError(f"q must be a point of {d} finite coordinates, got {q!r}")
        return place

    def __repr__(self) -> str:
        shape = "disk" if self.centers.shape[1] == 2 else "ball"
        return f"Disks: {len(self):,} {shape}{'s' * (len(self) != 1)}"
