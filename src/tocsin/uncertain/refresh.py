"""Which object to refresh next, so that an answer gets better: refresh policies (thesis, 5.6).

A policy is called with a `QueryState` and returns the position of the object to refresh, or None if
no refresh would change the answer. `policies` has those of the thesis and others by name; any
function or object that can be called like that is a policy. A class is instantiated without
arguments, so a policy can remember what it chose.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from tocsin.errors import UncertainError, suggest
from tocsin.uncertain import choosing
from tocsin.uncertain.disks import Disks
from tocsin.uncertain.distances import (
    Bounded,
    bound_disks,
    bound_values,
    lengths,
    write_reach,
)
from tocsin.uncertain.evaluation import evaluate
from tocsin.uncertain.queries import check_readings, in_range
from tocsin.uncertain.readings import Readings, read_number

QUERIES = ("minimum", "maximum", "nearest", "in_range")


class QueryState:
    """What is known when a policy chooses: readings, a query over them, and updates under way.

    Arrays have an element per reading. `near` and `far` are the smallest and the largest distance
    of each value: from the lowest end of all intervals for the minimum, from the highest for the
    maximum, from q for the nearest. `bound` is the smallest of `far`; what is not nearer has no
    chance. For a range, all three are None.
    """

    def __init__(
        self,
        readings: Readings | Disks,
        query: str = "minimum",
        *,
        q: Any = None,
        low: Any = None,
        high: Any = None,
        pending: Iterable[Any] = (),
    ):
        if query not in QUERIES:
            names = ", ".join(map(repr, QUERIES))
            raise UncertainError(
                f"query must be one of {names}, got {query!r}{suggest(query, QUERIES)}"
            )
        _check_arguments(query, q=q, low=low, high=high)
        is_range = query == "in_range"
        if not isinstance(readings, Disks):
            check_readings(readings, may_be_empty=is_range)
        elif query != "nearest":
            raise UncertainError(f"{query} needs values on a line; disks are for nearest")
        self.readings, self.query = readings, query
        self._answer = in_range(readings, low, high) if is_range else None  # type: ignore[arg-type]
        self._q = q
        self.near: np.ndarray | None = None
        self.far: np.ndarray | None = None
        if not is_range:
            self.near, self.far, self._is_nearer = _reach(readings, query, q)
        self.bound = None if self.far is None else float(self.far.min())
        #: Whether an update was requested and has not arrived; in a simulation, for any query.
        self.under_way: np.ndarray = np.zeros(len(readings), bool)
        for id in pending:
            self.under_way[Readings.position(readings, id)] = True  # type: ignore[arg-type]
        #: Whether it was requested for this query; such objects are no candidates.
        self.pending = self.under_way.copy()

    def __len__(self) -> int:
        return len(self.readings)

    @functools.cached_property
    def width(self) -> np.ndarray:
        """The widths of the intervals; the diameters of disks."""
        if isinstance(self.readings, Disks):
            return 2 * self.readings.radii
        return self.readings.high - self.readings.low

    @functools.cached_property
    def candidates(self) -> np.ndarray:
        """The positions of objects to refresh: uncertain, not pending, and perhaps in the answer.

        For a range, those that are neither certainly inside nor certainly outside.
        """
        if self.near is None:
            matters = (self.probabilities > 0) & (self.probabilities < 1)
        else:
            matters = self._is_nearer & (self.width > 0)
        return np.flatnonzero(matters & ~self.pending)

    @functools.cached_property
    def probabilities(self) -> np.ndarray:
        """The probability of each object to satisfy the query."""
        if self._answer is not None:
            all_of = np.zeros(len(self))
            all_of[self._answer.positions] = self._answer.probabilities
            return all_of
        return evaluate(self._bounded, None)

    @property
    def expected_entropy(self) -> np.ndarray:
        """The mean entropy of the answer after each object has been refreshed, in bits."""
        return self._expected[0]

    @property
    def expected_score(self) -> np.ndarray:
        """The mean score of the answer after each object has been refreshed."""
        return self._expected[1]

    @functools.cached_property
    def _bounded(self) -> Bounded:
        return _bound(self.readings, self.query, self._q)

    @functools.cached_property
    def _expected(self) -> tuple[np.ndarray, np.ndarray]:
        if self.near is None or self.far is None:
            raise UncertainError("the entropy of a range query is not defined; use 'range'")
        # Here, so that Spark does not compile these kernels for its workers.
        from tocsin.uncertain.expected import expect_refresh

        return expect_refresh(self._bounded, self.near, self.far, self.query == "nearest")

    def __repr__(self) -> str:
        return f"QueryState: {self.query} of {len(self):,}, {len(self.candidates):,} candidates"


Policy = Callable[[QueryState], "int | None"]


class _Builtin:
    name: ClassVar[str]
    code: ClassVar[int]  # in the simulation's kernel
    queries: ClassVar[tuple[str, ...]] = QUERIES

    def __call__(self, state: QueryState) -> int | None:
        """Return the position of the object to refresh, or None."""
        if state.query not in self.queries:
            raise UncertainError(
                f"the policy {self.name!r} is for {', '.join(self.queries)}; for {state.query} "
                f"take {'range' if state.query == 'in_range' else 'minmin'!r}"
            )
        return self.choose(state)

    def choose(self, state: QueryState) -> int | None:
        """Choose among the candidates; ties go to the first."""
        return self.best_of(state, state.candidates)

    def best_of(self, state: QueryState, positions: np.ndarray) -> int | None:
        """Return the position of the smallest rank."""
        return int(positions[self.rank(state)[positions].argmin()]) if len(positions) else None

    def rank(self, state: QueryState) -> np.ndarray:
        """Return a number per object; the smallest is chosen."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<policy {self.name}>"


class GlobalRoundRobin(_Builtin):
    """Glb_RR: all objects in turn, whatever the query. In a simulation, all sensors."""

    name, code = "glb_rr", choosing.GLB_RR

    def __init__(self) -> None:
        self.last = -1

    def choose(self, state: QueryState) -> int | None:
        """Choose the next object that is not pending."""
        return self._take(state, np.flatnonzero(~state.pending))

    def _take(self, state: QueryState, positions: np.ndarray) -> int | None:
        if not len(positions):
            return None
        following = positions[positions > self.last]
        self.last = int(following[0] if len(following) else positions[0])
        return self.last


class LocalRoundRobin(GlobalRoundRobin):
    """Loc_RR: the objects that may be in the answer, in turn."""

    name, code = "loc_rr", choosing.LOC_RR

    def choose(self, state: QueryState) -> int | None:
        """Choose the next candidate."""
        return self._take(state, state.candidates)


class MinMin(_Builtin):
    """MinMin: the object that begins at the lower end of B, so that B gets narrower."""

    name, code = "minmin", choosing.MINMIN
    queries = QUERIES[:3]

    def rank(self, state: QueryState) -> np.ndarray:
        """Return the nearest distances."""
        return state.near  # type: ignore[return-value]


class MinMinDistinct(MinMin):
    """MinMin among the objects that no query is waiting for; if there are none, MinMin.

    Queries at the same time have much the same objects, and MinMin requests the same one for each.
    """

    name, code = "minmin_distinct", choosing.MINMIN_DISTINCT

    def choose(self, state: QueryState) -> int | None:
        """Choose among the candidates that are not under way, if there are any."""
        distinct = state.candidates[~state.under_way[state.candidates]]
        return self.best_of(state, distinct if len(distinct) else state.candidates)


class MaxUnc(_Builtin):
    """MaxUnc: the widest interval. Of the objects that may be in the answer, as with Loc_RR."""

    name, code = "maxunc", choosing.MAXUNC

    def rank(self, state: QueryState) -> np.ndarray:
        """Return the negative widths."""
        return -state.width


class MinExpEntropy(_Builtin):
    """MinExpEntropy: the object after whose refresh the expected entropy is smallest."""

    name, code = "minexpentropy", choosing.MINEXPENTROPY
    queries = QUERIES[:3]

    def rank(self, state: QueryState) -> np.ndarray:
        """Return the expected entropies."""
        return state.expected_entropy


class ExpectedScore(_Builtin):
    """The object after whose refresh the expected score is best: entropy times the width of B."""

    name, code = "expected_score", choosing.EXPECTED_SCORE
    queries = QUERIES[:3]

    def rank(self, state: QueryState) -> np.ndarray:
        """Return the negative expected scores."""
        return -state.expected_score


class Range(_Builtin):
    """For a range: the object that is least certainly inside or outside (Formula 5.8)."""

    name, code = "range", -1
    queries = ("in_range",)

    def rank(self, state: QueryState) -> np.ndarray:
        """Return |p - 0.5|."""
        return np.abs(state.probabilities - 0.5)


_ALL: tuple[type[_Builtin], ...] = (
    GlobalRoundRobin, LocalRoundRobin, MinMin, MaxUnc, MinExpEntropy, Range, ExpectedScore,
    MinMinDistinct,
)  # fmt: skip
#: Refresh policies by name; call one to make it.
policies: Mapping[str, type[_Builtin]] = MappingProxyType({each.name: each for each in _ALL})


def next_refresh(
    readings: Readings | Disks,
    query: str = "minimum",
    policy: Any = None,
    *,
    q: Any = None,
    low: Any = None,
    high: Any = None,
    pending: Iterable[Any] = (),
) -> Any:
    """Return the id of the object to refresh next, or None if no refresh would change the answer.

    `query` is "minimum", "maximum", "nearest" (with `q`) or "in_range" (with `low` and `high`).
    `policy` is a name in `policies`, or a policy; the default is "range" for a range and "minmin"
    otherwise. `pending` are ids that were requested already. A round robin has to remember its
    place: make it once, as in `turn = policies["loc_rr"]()`, and pass it each time.

    >>> from tocsin import uncertain
    >>> rooms = uncertain.Readings.uniform(["hall", "lab", "attic"], [18, 17, 21], [22, 26, 23])
    >>> uncertain.next_refresh(rooms, "minimum")
    'lab'
    >>> uncertain.next_refresh(rooms, "in_range", low=20, high=25)
    'hall'
    """
    state = QueryState(readings, query, q=q, low=low, high=high, pending=pending)
    if policy is None:
        policy = "range" if query == "in_range" else "minmin"
    position = check_choice(make_policy(policy)(state), len(state), policy)
    return None if position is None else readings.ids[position].as_py()


def make_policy(policy: Any) -> Policy:
    """Return a policy for its name, for a class of policies, or for itself."""
    if isinstance(policy, str):
        if policy not in policies:
            known = ", ".join(map(repr, policies))
            raise UncertainError(
                f"no policy is named {policy!r}"
                + (suggest(policy, policies) or f"; there are {known}")
            )
        return policies[policy]()
    if isinstance(policy, type):
        policy = policy()
    if not callable(policy):
        raise UncertainError(
            f"a policy is a name or a function of a QueryState, got {type(policy).__name__}"
        )
    return policy


def check_choice(position: Any, count: int, policy: Any) -> int | None:
    """Return what a policy chose; raise unless it is a position or None."""
    if position is None:
        return None
    is_number = isinstance(position, int | np.integer) and not isinstance(position, bool)
    if not is_number or not 0 <= position < count:
        raise UncertainError(
            f"policy {policy!r} must return None or a position from 0 to {count - 1}, got "
            f"{position!r}; a position is the place of a reading, not its id"
        )
    return int(position)


def _check_arguments(query: str, **given: Any) -> None:
    needed = {"nearest": ["q"], "in_range": ["low", "high"]}.get(query, [])
    for name, value in given.items():
        if name in needed and value is None:
            raise UncertainError(f"{query} needs {' and '.join(needed)}; {name} is missing")
        if name not in needed and value is not None:
            raise UncertainError(f"{query} takes no {name}")


def _bound(readings: Readings | Disks, query: str, q: Any) -> Bounded:
    if isinstance(readings, Disks):
        return bound_disks(readings.centers, readings.radii, readings.read_place(q))
    return bound_values(readings.densities, _query_point(readings, query, q))


def _reach(
    readings: Readings | Disks, query: str, q: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the smallest and largest distances, and which begin before the smallest of these."""
    if isinstance(readings, Disks):
        with np.errstate(over="ignore"):
            away = lengths(readings.centers - readings.read_place(q))
            near, far = np.maximum(away - readings.radii, 0), away + readings.radii
        return near, far, near < far.min()
    near, near_rest, far, far_rest = np.empty((4, len(readings)))
    write_reach(
        readings.densities, _query_point(readings, query, q), 1.0, near, near_rest, far, far_rest
    )
    bound = far.min()
    rest = far_rest[far == bound].min()
    return near, far, (near < bound) | ((near == bound) & (near_rest < rest))


def _query_point(readings: Readings, query: str, q: Any) -> float:
    if query == "minimum":
        return float(readings.low.min())
    return float(readings.high.max()) if query == "maximum" else read_number(q, "q")
