"""The result of a simulation: how good answers are, by their scores and against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from tocsin.uncertain import simulation_state
from tocsin.uncertain.simulation_state import BINS, BUSY, LOGGED, MEASURES, Settings, State
from tocsin.uncertain.worlds import World

_MEANS = (
    "score", "value_score", "entropy", "width", "interval", "cardinality", "response_time",
    "updates", "likeliest_right", "log_score", "reached",
)  # fmt: skip


class SimulationResult:
    """Averages over the queries of a simulation, each measured when it ended.

    * `score`: of the EMinQ answer, minus the entropy times the width of B; `entropy` in bits and
      `width` are its factors. The width of B is what the thesis calls "the size of the uncertainty
      region of the result set", and draws as uncertainty. `interval` is the mean width of the
      intervals of the objects in the answer.
    * `value_score`: of the VMinQ answer, minus its differential entropy.
    * `cardinality`: objects in the answer.
    * `response_time`: seconds from arrival to end; `updates`: that arrived for a query.
    * `likeliest_right`: how often the likeliest object was the minimum; `log_score`: the binary
      logarithm of the probability that the answer gave to the object that was the minimum, where a
      probability below 2^-50 counts as that; `calibration_error`: how far probabilities were from
      frequencies, on average over all probabilities (see `calibration`).
    * `reached`: how often the target was reached.
    * `bandwidth_used`: share of the time that the network was busy; `rejected` and `unfinished`:
      shares of all queries.

    `queries` is an Arrow table with a row per query, `calibration` one with a row per bin of
    probabilities, and `log` one of all updates, if it was requested.
    """

    def __init__(
        self,
        policy: str,
        parameters: dict[str, Any],
        queries: pa.Table,
        calibration: pa.Table,
        log: pa.Table | None,
        shares: dict[str, float],
    ):
        self.policy, self.parameters = policy, parameters
        self.queries, self.calibration, self.log = queries, calibration, log
        self.bandwidth_used = shares["bandwidth_used"]
        self.rejected, self.unfinished = shares["rejected"], shares["unfinished"]
        for name in _MEANS:
            column = queries[name].to_numpy().astype(np.float64)
            # A minimum that may be a value without uncertainty has an infinite score.
            finite = column[np.isfinite(column)]
            setattr(self, name, float(finite.mean()) if len(finite) else float("nan"))

    score: float
    value_score: float
    entropy: float
    width: float
    interval: float
    cardinality: float
    response_time: float
    updates: float
    likeliest_right: float
    log_score: float
    reached: float

    @property
    def calibration_error(self) -> float:
        """The mean distance between probabilities and frequencies, weighted by numbers."""
        bins = self.calibration
        count = bins["count"].to_numpy()
        apart = np.abs(bins["probability"].to_numpy() - bins["frequency"].to_numpy())
        return float((apart * count)[count > 0].sum() / max(count.sum(), 1))

    def to_dict(self) -> dict[str, float]:
        """Return all averages."""
        shares = ("calibration_error", "bandwidth_used", "rejected", "unfinished")
        return {name: getattr(self, name) for name in (*_MEANS, *shares)}

    def to_arrow(self) -> pa.Table:
        """Return the queries, a row for each."""
        return self.queries

    def __len__(self) -> int:
        return self.queries.num_rows

    def __repr__(self) -> str:
        p = self.parameters
        lines = [
            f"Simulation of {self.policy}: {len(self):,} queries in {p['duration']:g} s, bandwidth "
            f"{p['bandwidth']:g}, seed {p['seed']}"
        ]
        width = max(map(len, self.to_dict()))
        for name, value in self.to_dict().items():
            if name == "reached" and p["target"] is None:
                continue
            lines.append(f"  {name:{width}}  {value:.4g}")
        return "\n".join(lines)


def collect(
    w: World, c: Settings, s: State, policy: str, parameters: dict[str, Any]
) -> SimulationResult:
    """Return the result of a simulation that has ended."""
    is_measured = (w.arrival >= c.measure_from) & (w.arrival < c.measure_until)
    done = np.flatnonzero(is_measured & np.isfinite(s.ended))
    answers = s.answer.reshape(-1, MEASURES)[done]
    columns = {
        "arrival": w.arrival[done],
        "response_time": s.ended[done] - w.arrival[done],
        "updates": s.received[done],
        "score": answers[:, simulation_state.SCORE] + 0.0,  # -0 becomes 0
        "value_score": answers[:, simulation_state.VALUE_SCORE],
        "entropy": answers[:, simulation_state.ENTROPY],
        "width": answers[:, simulation_state.WIDTH],
        "interval": answers[:, simulation_state.INTERVAL],
        "cardinality": answers[:, simulation_state.CARDINALITY].astype(np.int64),
        "likeliest_right": answers[:, simulation_state.IS_RIGHT] > 0,
        "log_score": answers[:, simulation_state.LOG_SCORE],
        "reached": answers[:, simulation_state.REACHED] > 0,
    }
    total = max(int(is_measured.sum()), 1)
    shares = {
        "bandwidth_used": float(s.clock[BUSY]) / (c.measure_until - c.measure_from),
        "rejected": float((is_measured & np.isposinf(s.ended)).sum()) / total,
        "unfinished": float((is_measured & np.isnan(s.ended)).sum()) / total,
    }
    log = _read_log(s) if len(s.log) else None
    return SimulationResult(
        policy, parameters, pa.table(columns), _calibrate(s.bins.reshape(BINS, 3)), log, shares
    )


def _calibrate(bins: np.ndarray) -> pa.Table:
    """Return the reliability of probabilities: how often what had them came true."""
    total, count, hits = bins.T
    with np.errstate(invalid="ignore"):
        probability, frequency = total / count, hits / count
    return pa.table(
        {
            "from": np.arange(BINS) / BINS,
            "to": np.arange(1, BINS + 1) / BINS,
            "probability": probability,
            "frequency": frequency,
            "count": count.astype(np.int64),
        }
    )


def _read_log(s: State) -> pa.Table:
    rows = s.log.reshape(-1, 4)[: s.counter[LOGGED]]
    query = rows[:, 1].astype(np.int64)
    return pa.table(
        {
            "sensor": rows[:, 0].astype(np.int64),
            "query": pa.array(query, mask=query < 0),  # null if it was not for a query
            "measured": rows[:, 2],
            "arrived": rows[:, 3],
        }
    )
