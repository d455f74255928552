"""Refreshing uncertain readings: Kalashnikov, Efficient querying of evolving data, section 5.7."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import drawing
from experiments.uncertain_runs import (
    DISTINCT,
    FULL,
    GLB,
    LOC,
    MAX,
    MEE,
    MIN,
    QUERIED,
    SCORE,
    TARGET,
    THESIS,
    TINY,
    Sweep,
    least_difference,
    least_ratio,
    sweep,
)
from experiments.verdicts import Check, Finding, at_least, at_most, main

_OTHERS = (GLB, LOC, MAX, MEE)
_LABELS = {"bandwidth": "bandwidth, messages per second", "arrival_rate": "queries per second"}
_MEASURES = {  # label, sign, whether on a logarithmic scale
    "score": ("minus EMinQ score (0 is perfect)", -1, True),
    "value_score": ("VMinQ score, bits (more is better)", 1, False),
    "width": ("uncertainty: width of B", 1, True),
    "response_time": ("seconds", 1, True),
}


def describe(s: Sweep) -> str:
    return (
        f"Table 5.2's defaults otherwise; {s.seeds} seeds, each with {s.seconds:g} seconds of "
        "queries after a warm-up; bands and numbers in parentheses are 95% intervals over seeds. "
        "All policies meet the same walks and queries. A query ends when its updates have arrived, "
        "at the latest 5 seconds after its arrival; queries in excess of 10 wait; an update takes "
        "two messages; sensors report on their own after 10 seconds ([why](#refresh-readings)). "
        "Glb_RR requests as many updates as the others, and, with all bandwidth, refreshes all "
        "sensors in turn without a pause."
    )


def draw(axes: Any, title: str, s: Sweep, names: tuple[str, ...], measure: str) -> None:
    """Draw a measure of some policies, with intervals over seeds."""
    label, sign, is_log = _MEASURES[measure]
    series, spread = {}, {}
    for name in names:
        low, high = (sign * end for end in s.interval(name, measure))
        low, high = np.minimum(low, high), np.maximum(low, high)
        values = sign * s.mean(name, measure)
        if is_log:
            # The interval of a mean may go below what it cannot go below.
            values, high = np.maximum(values, TINY), np.maximum(high, TINY)
            low = np.maximum(low, values / 3)
        series[name] = values.tolist()
        spread[name] = (low.tolist(), high.tolist())
    x = (_LABELS[s.parameter], list(s.xs))
    drawing.lines(axes, title, x, label, series, powers=False, zero=not is_log, spread=spread)
    if not is_log:
        axes.set_ylim(min(0.0, *(min(v) for v in series.values())), axes.get_ylim()[1])


def picture_of(title: str, s: Sweep, measure: str) -> Any:
    picture, axes = drawing.panels(2, title, 4.8)
    picture.set_figwidth(14)
    draw(axes[0], "the thesis' policies", s, (GLB, FULL, LOC, MAX, MEE, MIN), measure)
    draw(axes[1], "MinMin and what Tocsin adds", s, (MIN, SCORE, DISTINCT), measure)
    return picture


def steps(says: str, s: Sweep, names: tuple[str, ...], measure: str, limit: float = 1.05) -> Check:
    """Check that a measure falls from each value of the parameter to the next, but for noise."""
    values = np.abs([s.mean(name, measure) for name in names])
    return at_most(says, float((values[:, 1:] / np.maximum(values[:, :-1], TINY)).max()), limit)


def rises(says: str, s: Sweep, names: tuple[str, ...], measure: str) -> Check:
    values = np.array([s.mean(name, measure) for name in names])
    return at_least(says, float(np.diff(values, axis=1).min()), -0.1, " bits")


# ------------------------------------------------------------ bandwidth


def score_by_bandwidth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    best = np.abs(s.mean(MIN, "score"))
    return Finding(
        "refresh-bandwidth-score",
        "EMinQ score by bandwidth",
        "thesis, Fig. 5.10",
        "Scores improve with bandwidth for all policies, approaching 0. MinMin is best. All "
        "policies that favor sensors being queried significantly outperform Glb_RR. MinExpEntropy "
        "is worse than MinMin and MaxUnc.",
        describe(s),
        [
            main(
                least_ratio(
                    "MinMin has the best score at every bandwidth (the next, over MinMin)",
                    s, _OTHERS, (MIN,), "score",
                )
            ),
            steps("scores improve with bandwidth for all policies (worst step)", s, THESIS,
                  "score"),
            at_most(
                "MinMin approaches 0 (at the highest bandwidth, over the lowest)",
                float(best[-1] / max(best[0], TINY)),
                0.25,
            ),
            least_ratio(
                "policies that favor queried sensors significantly outperform Glb_RR (least)",
                s, (GLB,), QUERIED, "score", 1.5,
            ),
            least_ratio(
                "also if Glb_RR has all bandwidth (least)", s, (FULL,), QUERIED, "score", 1.5
            ),
            least_ratio(
                "MinExpEntropy is worse than MaxUnc at every bandwidth", s, (MEE,), (MAX,), "score"
            ),
        ],
        picture_of("EMinQ score by bandwidth (thesis, 5.10)", s, "score"),
    )  # fmt: skip


def value_score_by_bandwidth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    return Finding(
        "refresh-bandwidth-value",
        "VMinQ score by bandwidth",
        "thesis, Fig. 5.11",
        "As for EMinQ: scores improve with bandwidth, MinMin is best, and Glb_RR is worst by far.",
        f"{describe(s)} The score is that of the lowest value's distribution, from the same runs. "
        "MinExpEntropy goes by the entropy of the EMinQ answer: that of a value which may be exact "
        "is infinite.",
        [
            main(
                least_difference(
                    "MinMin has the best score at every bandwidth (lead over the next)",
                    s, (MIN,), _OTHERS, "value_score",
                )
            ),
            rises("scores improve with bandwidth for all policies (worst step)", s, THESIS,
                  "value_score"),
            least_difference(
                "policies that favor queried sensors outperform Glb_RR (least)",
                s, QUERIED, (GLB, FULL), "value_score",
            ),
        ],
        picture_of("VMinQ score by bandwidth (thesis, 5.11)", s, "value_score"),
    )  # fmt: skip


def width_by_bandwidth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    return Finding(
        "refresh-bandwidth-width",
        "Uncertainty by bandwidth",
        "thesis, Fig. 5.12",
        "Uncertainty regions shrink with bandwidth. MinMin's are the smallest, and MinExpEntropy's "
        "are larger than MaxUnc's.",
        f"{describe(s)} Uncertainty is the width of the bounding interval B: the thesis calls the "
        "factor of the score that.",
        [
            main(
                least_ratio(
                    "MinMin has the narrowest B at every bandwidth (the next, over MinMin)",
                    s, _OTHERS, (MIN,), "width",
                )
            ),
            steps("B gets narrower with bandwidth for all policies (worst step)", s, THESIS,
                  "width"),
            least_ratio(
                "policies that favor queried sensors have a narrower B than Glb_RR (least)",
                s, (GLB, FULL), QUERIED, "width",
            ),
            least_ratio(
                "MinExpEntropy has a wider B than MaxUnc at every bandwidth",
                s, (MEE,), (MAX,), "width",
            ),
        ],
        picture_of("Uncertainty by bandwidth (thesis, 5.12)", s, "width"),
    )  # fmt: skip


def response_by_bandwidth(size: str) -> Finding:
    return _response(
        sweep("target", size),
        "refresh-response",
        "Response time by bandwidth",
        "Here a query requests updates until it reaches the target, or its 5 seconds are over.",
    )


def response_with_five_updates(size: str) -> Finding:
    return _response(
        sweep("target, five updates", size),
        "refresh-response-limited",
        "Response time by bandwidth, with five updates",
        "Here a query requests at most 5 updates, as in the other figures, and then waits for its "
        "target, which the updates of other queries may bring, until its 5 seconds are over. This "
        "reading was added after the results of the other were known; the checks are the same.",
    )


def _response(s: Sweep, name: str, title: str, how: str) -> Finding:
    ratios = np.min(
        [
            s.get(name, "response_time") / np.maximum(s.get(MIN, "response_time"), TINY)
            for name in _OTHERS
        ],
        axis=0,
    ).mean(axis=1)
    reached = ", ".join(
        f"{100 * share:.0f}% at {x:g}" for x, share in zip(s.xs, s.mean(MIN, "reached"))
    )
    return Finding(
        name,
        title,
        "thesis, Fig. 5.13",
        f"If a query ends when its score reaches {TARGET}, MinMin is fastest. The difference is "
        "greatest for small bandwidths, where MinMin is almost twice as fast as the others. "
        "Response times decrease with bandwidth.",
        f"{describe(s)} {how} With MinMin, queries reach it: {reached}.",
        [
            main(
                least_ratio(
                    "MinMin is fastest at every bandwidth (the next, over MinMin)",
                    s, _OTHERS, (MIN,), "response_time",
                )
            ),
            at_least(
                "almost twice as fast at the smallest bandwidth (the next, over MinMin)",
                float(ratios[0]), 1.5,
            ),
            at_least(
                "the lead is greatest at the smallest bandwidth (over that at the highest)",
                float(ratios[0] / ratios[-1]), 1,
            ),
            steps(
                "response times decrease with bandwidth for all policies (worst step)",
                s, THESIS, "response_time",
            ),
        ],
        picture_of(f"{title} (thesis, 5.13)", s, "response_time"),
    )  # fmt: skip


# ------------------------------------------------------------ arrival rate


def rank_correlation(s: Sweep, measure: str) -> float:
    """Return the least rank correlation between the order of policies at 20 and at other rates."""
    values = np.array([s.mean(name, measure) for name in THESIS])
    ranks = values.argsort(axis=0).argsort(axis=0).astype(float)
    usual = ranks[:, s.at(20)]
    return round(float(min(np.corrcoef(usual, each)[0, 1] for each in ranks.T)), 6)


def best_rate(s: Sweep, measure: str, is_smallest: bool) -> Check:
    """Check that MinMin is best at 25 queries per second, or next to it."""
    values = s.mean(MIN, measure)
    best = s.xs[int(values.argmin() if is_smallest else values.argmax())]
    says = "MinMin is best at 25 queries per second"
    return main(Check(says, f"{best:g} (required: 20 to 30)", 20 <= best <= 30))


def apart(s: Sweep, names: tuple[str, ...], measure: str, a: float, b: float) -> float:
    """Return the least ratio between a measure at one rate and at another."""
    ratios = [
        np.abs(s.mean(name, measure)[s.at(a)] / max(abs(s.mean(name, measure)[s.at(b)]), TINY))
        for name in names
    ]
    return float(min(ratios))


def gain(s: Sweep, names: tuple[str, ...], measure: str, a: float, b: float) -> float:
    """Return the least difference between a measure at one rate and at another."""
    return float(min(s.mean(n, measure)[s.at(a)] - s.mean(n, measure)[s.at(b)] for n in names))


def score_by_rate(size: str) -> Finding:
    s = sweep("arrival_rate", size)
    return Finding(
        "refresh-rate-score",
        "EMinQ score by arrival rate",
        "thesis, Fig. 5.14",
        "As the arrival rate grows from 5 to 25, more queries request updates, and scores improve. "
        "At 25 the entire bandwidth is used; beyond, queries get fewer updates in time, and scores "
        "get worse. The relative performance of policies remains the same.",
        describe(s),
        [
            best_rate(s, "score", False),
            at_least(
                "scores improve from 5 to 25 for all policies (least)",
                apart(s, THESIS, "score", 5, 25), 1,
            ),
            at_least(
                "and get worse from 25 to 45 for all that favor queried sensors (least)",
                apart(s, QUERIED, "score", 45, 25), 1,
            ),
            at_least(
                "at 25 the entire bandwidth is used (MinMin)",
                float(100 * s.mean(MIN, "bandwidth_used")[s.at(25)]), 95, "%",
            ),
            at_least(
                "the order of policies is the same at all rates (least rank correlation)",
                rank_correlation(s, "score"), 0.9, "",
            ),
            least_ratio(
                "MinMin is best at every rate (the next, over MinMin)", s, _OTHERS, (MIN,), "score"
            ),
        ],
        picture_of("EMinQ score by arrival rate (thesis, 5.14)", s, "score"),
    )  # fmt: skip


def value_score_by_rate(size: str) -> Finding:
    s = sweep("arrival_rate", size)
    return Finding(
        "refresh-rate-value",
        "VMinQ score by arrival rate",
        "thesis, Fig. 5.15",
        "As for EMinQ: scores improve up to 25 queries per second and get worse beyond, and the "
        "relative performance of policies remains the same.",
        describe(s),
        [
            best_rate(s, "value_score", False),
            at_least(
                "scores improve from 5 to 25 for all policies (least)",
                gain(s, THESIS, "value_score", 25, 5), 0, " bits",
            ),
            at_least(
                "and get worse from 25 to 45 for all that favor queried sensors (least)",
                gain(s, QUERIED, "value_score", 25, 45), 0, " bits",
            ),
            at_least(
                "the order of policies is the same at all rates (least rank correlation)",
                rank_correlation(s, "value_score"), 0.9, "",
            ),
            least_difference(
                "MinMin is best at every rate (lead over the next)",
                s, (MIN,), _OTHERS, "value_score",
            ),
        ],
        picture_of("VMinQ score by arrival rate (thesis, 5.15)", s, "value_score"),
    )  # fmt: skip


def width_by_rate(size: str) -> Finding:
    s = sweep("arrival_rate", size)
    return Finding(
        "refresh-rate-width",
        "Uncertainty by arrival rate",
        "thesis, Fig. 5.16",
        "Uncertainty decreases up to 25 queries per second and increases beyond, and the relative "
        "performance of policies remains the same.",
        f"{describe(s)} Uncertainty is the width of B.",
        [
            best_rate(s, "width", True),
            at_least(
                "it decreases from 5 to 25 for all policies (least)",
                apart(s, THESIS, "width", 5, 25), 1,
            ),
            at_least(
                "and increases from 25 to 45 for all that favor queried sensors (least)",
                apart(s, QUERIED, "width", 45, 25), 1,
            ),
            at_least(
                "the order of policies is the same at all rates (least rank correlation)",
                rank_correlation(s, "width"), 0.9, "",
            ),
            least_ratio(
                "MinMin has the narrowest B at every rate (the next, over MinMin)",
                s, _OTHERS, (MIN,), "width",
            ),
        ],
        picture_of("Uncertainty by arrival rate (thesis, 5.16)", s, "width"),
    )  # fmt: skip


FIGURES = {
    "refresh-bandwidth-score": score_by_bandwidth,
    "refresh-bandwidth-value": value_score_by_bandwidth,
    "refresh-bandwidth-width": width_by_bandwidth,
    "refresh-response": response_by_bandwidth,
    "refresh-response-limited": response_with_five_updates,
    "refresh-rate-score": score_by_rate,
    "refresh-rate-value": value_score_by_rate,
    "refresh-rate-width": width_by_rate,
}
