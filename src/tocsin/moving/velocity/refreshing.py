"""How often a refresh pays, which the thesis leaves open (2.6.4).

A refresh costs R seconds of work. Right after it a query costs some constant, and g seconds more
for each unit of time that the index is old; there are q queries per unit of time. With a refresh
every T, the work per unit of time that depends on T is

    R / T + q g T / 2

which is least for T = sqrt(2 R / (q g)). At that age, what queries have cost beyond fresh ones
since the last refresh adds up to R. All three are measured: g by the line through cost over age
that fits best. The cost grows faster than a line, so g is that of the ages at which there were
queries. At each refresh, what was measured before loses half of its weight, so that T follows
changes.
"""

from __future__ import annotations

import math


def optimal_period(refresh_cost: float, query_rate: float, growth: float) -> float:
    """Return the time between refreshes that costs least; infinity if none pays.

    `refresh_cost` and the costs of queries can have any unit, such as seconds of work or pages:
    `growth` is by how much a query costs more for each unit of time that the index is older, and
    `query_rate` is the number of queries in a unit of time.

    >>> optimal_period(refresh_cost=0.02, query_rate=100, growth=1e-6)
    20.0
    """
    excess = query_rate * growth
    return math.sqrt(2 * refresh_cost / excess) if excess > 0 else math.inf


class RefreshCosts:
    """The costs of refreshes and of queries by age, as far as they were measured."""

    def __init__(self) -> None:
        self._refreshes, self._refresh_seconds = 0.0, 0.0
        # Sums over queries, for the line that fits best; `_span` is the time in which they came.
        self._queries = self._age = self._seconds = self._age2 = self._product = 0.0
        self._span = self._oldest = 0.0

    def note_refresh(self, seconds: float) -> None:
        """Take into account what a refresh has cost."""
        self._span += self._oldest
        self._oldest = 0.0
        for name in vars(self):
            setattr(self, name, getattr(self, name) / 2)
        self._refreshes += 1
        self._refresh_seconds += seconds

    def note_query(self, age: float, seconds: float) -> None:
        """Take into account what a query has cost when the index was this old."""
        self._queries += 1
        self._age += age
        self._seconds += seconds
        self._age2 += age * age
        self._product += age * seconds
        self._oldest = max(self._oldest, age)

    @property
    def refresh_cost(self) -> float:
        """Seconds of work for a refresh; NaN before the first one."""
        return self._refresh_seconds / self._refreshes if self._refreshes else math.nan

    @property
    def query_rate(self) -> float:
        """Queries per unit of time."""
        span = self._span + self._oldest
        return self._queries / span if span > 0 else 0.0

    @property
    def growth(self) -> float:
        """Seconds of work by which a query costs more for each unit of time that passes."""
        spread = self._queries * self._age2 - self._age * self._age
        # A sum of rounding errors is no spread.
        if not spread > 1e-9 * self._queries * self._age2:
            return 0.0
        return max(0.0, (self._queries * self._product - self._age * self._seconds) / spread)

    @property
    def period(self) -> float:
        """The time between refreshes that costs least, by these measurements."""
        if not self._refreshes:
            return math.inf
        return optimal_period(self.refresh_cost, self.query_rate, self.growth)
