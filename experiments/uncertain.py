"""Refreshing uncertain readings: Kalashnikov, Efficient querying of evolving data, section 5.7."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from experiments import drawing
from experiments.uncertain_runs import (
    DISTINCT,
    GLB,
    LIMITED,
    LOC,
    MAX,
    MEE,
    MIN,
    QUERIED,
    SCORE,
    TARGET,
    THESIS,
    TINY,
    Seeds,
    Sweep,
    differences,
    ratios,
    size_of,
    sweep,
)
from experiments.verdicts import Check, Finding, at_least, at_most, main, reaches

_OTHERS = (GLB, LOC, MAX, MEE)
_LABELS = {
    "bandwidth": "bandwidth, messages per second",
    "arrival_rate": "queries per second (the thesis: best at 25)",
}
_MEASURES = {  # label, sign, whether on a logarithmic scale
    "score": ("minus EMinQ score (0 is perfect)", -1, True),
    "value_score": ("VMinQ score, bits (more is better)", 1, False),
    "width": ("uncertainty: width of B", 1, True),
    "response_time": ("seconds", 1, True),
}
DIFFERS = "parameters that contradict each other are read [in one way](#refresh-readings)"
# The text has bandwidths of 200 and 350 only.
BY_BANDWIDTH = f"{DIFFERS}; bandwidths are ours"
_VALUES = (
    "The score is that of the lowest value's distribution, from the same runs. MinExpEntropy uses "
    "the entropy of the EMinQ answer: that of a value which may be exact is infinite."
)
_ENTROPY = "MinExpEntropy uses the entropy of EMinQ"


def describe(s: Sweep) -> str:
    return (
        f"Table 5.2's defaults otherwise; {s.seeds} seeds, each with {s.seconds:g} seconds of "
        "queries after a warm-up: lines and numbers are medians over seeds, and bands and "
        "parentheses go from the least to the greatest. All policies meet the same walks and "
        "queries. A query ends when its updates have arrived, at the latest 5 seconds after its "
        "arrival; queries in excess of 10 wait; an update takes two messages; sensors report on "
        "their own after 10 seconds ([why](#refresh-readings)). Glb_RR refreshes all sensors in "
        "turn with all bandwidth, regardless of queries (5.6); limited, it refreshes the next "
        "one whenever a query may request an update, as many as the other policies."
    )


def parameters(s: Sweep, ends: str = "with at most 5 updates") -> str:
    """Return the parameters of a sweep, for its picture."""
    fixed = "350 messages" if s.parameter == "arrival_rate" else "20 queries"
    return (
        f"1,000 sensors, {fixed} per second, queries over 100 sensors for up to 5 seconds "
        f"{ends}, walks of up to 0.1 per second; {s.seeds} seeds"
    )


def draw(axes: Any, title: str, s: Sweep, names: tuple[str, ...], measure: str) -> None:
    """Draw a measure of some policies, with bands over seeds."""
    label, sign, is_log = _MEASURES[measure]
    least = TINY if is_log else -np.inf
    series = {name: list(np.maximum(sign * s.get(name, measure), least)) for name in names}
    x = (_LABELS[s.parameter], list(s.xs))
    drawing.lines(axes, title, x, label, series, powers=False, zero=not is_log)
    if not is_log:
        axes.set_ylim(min(0.0, *(np.min(v) for v in series.values())), axes.get_ylim()[1])


def picture_of(title: str, s: Sweep, measure: str, *ends: str) -> Any:
    picture, axes = drawing.panels(2, title, 4.8, parameters(s, *ends))
    draw(axes[0], "the thesis' policies", s, (GLB, LIMITED, LOC, MAX, MEE, MIN), measure)
    draw(axes[1], "MinMin and what Tocsin adds", s, (MIN, SCORE, DISTINCT), measure)
    return picture


def steps(s: Sweep, measure: str, names: tuple[str, ...] = THESIS) -> Seeds:
    """Return a measure of some policies over what it was at the parameter's value before."""
    return {
        f"{name}, from {s.xs[i]:g} to {s.xs[j]:g}": size_of(s.get(name, measure)[j])
        / size_of(s.get(name, measure)[i])
        for name in names
        for i, j in itertools.pairwise(range(len(s.xs)))
    }


# ------------------------------------------------------------ bandwidth
# A step may be 5% in the wrong direction, or 0.1 bits: where more bandwidth changes nothing, walks
# do. These limits are older than the runs.


def score_by_bandwidth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    best = size_of(s.get(MIN, "score"))
    return Finding(
        "refresh-bandwidth-score",
        "EMinQ score by bandwidth",
        "thesis, Fig. 5.10",
        "Scores improve with bandwidth for all policies, approaching 0. MinMin is best. All "
        "policies that favor sensors being queried significantly outperform Glb_RR, which updates "
        "all sensors in turn using the available bandwidth. MinExpEntropy is worse than MinMin and "
        "MaxUnc.",
        f"{describe(s)} The thesis has no MinExpEntropy at 200, which took it too long.",
        [
            main(
                at_least(
                    "MinMin has the best score at every bandwidth (another, over MinMin)",
                    ratios(s, _OTHERS, (MIN,), "score"), 1,
                )
            ),
            at_most(
                "scores improve with bandwidth for all policies (after over before)",
                steps(s, "score", (*THESIS, LIMITED)), 1.05,
            ),
            at_most(
                "MinMin approaches 0 (at the highest bandwidth, over the lowest)",
                best[-1] / best[0], 0.25,
            ),
            at_least(
                "policies that favor queried sensors significantly outperform Glb_RR",
                ratios(s, (GLB,), QUERIED, "score"), 1.5,
            ),
            at_least(
                "also if Glb_RR is limited", ratios(s, (LIMITED,), QUERIED, "score"), 1.5
            ),
            at_least(
                "MinExpEntropy is worse than MaxUnc at every bandwidth",
                ratios(s, (MEE,), (MAX,), "score"), 1,
            ),
        ],
        picture_of("EMinQ score by bandwidth (thesis, 5.10)", s, "score"),
        differs=BY_BANDWIDTH,
    )  # fmt: skip


def value_score_by_bandwidth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    rises = {
        f"{name}, from {s.xs[i]:g} to {s.xs[j]:g}": s.get(name, "value_score")[j]
        - s.get(name, "value_score")[i]
        for name in (*THESIS, LIMITED)
        for i, j in itertools.pairwise(range(len(s.xs)))
    }
    return Finding(
        "refresh-bandwidth-value",
        "VMinQ score by bandwidth",
        "thesis, Fig. 5.11",
        "As for EMinQ: scores improve with bandwidth, MinMin is best, and Glb_RR is worst by far.",
        f"{describe(s)} {_VALUES}",
        [
            main(
                at_least(
                    "MinMin has the best score at every bandwidth (lead)",
                    differences(s, (MIN,), _OTHERS, "value_score"), 0, " bits",
                )
            ),
            at_least(
                "scores improve with bandwidth for all policies (after minus before)",
                rises, -0.1, " bits",
            ),
            at_least(
                "policies that favor queried sensors outperform Glb_RR, limited or not (lead)",
                differences(s, QUERIED, (GLB, LIMITED), "value_score"), 0, " bits",
            ),
        ],
        picture_of("VMinQ score by bandwidth (thesis, 5.11)", s, "value_score"),
        differs=f"{BY_BANDWIDTH}; {_ENTROPY}",
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
                at_most(
                    "B gets narrower with bandwidth for all policies (after over before)",
                    steps(s, "width"), 1.05,
                )
            ),
            at_most("also if Glb_RR is limited", steps(s, "width", (LIMITED,)), 1.05),
            at_least(
                "MinMin has the narrowest B at every bandwidth (another, over MinMin)",
                ratios(s, _OTHERS, (MIN,), "width"), 1,
            ),
            at_least(
                "policies that favor queried sensors have a narrower B than Glb_RR, limited or not",
                ratios(s, (GLB, LIMITED), QUERIED, "width"), 1,
            ),
            at_least(
                "MinExpEntropy has a wider B than MaxUnc at every bandwidth",
                ratios(s, (MEE,), (MAX,), "width"), 1,
            ),
        ],
        picture_of("Uncertainty by bandwidth (thesis, 5.12)", s, "width"),
        differs=BY_BANDWIDTH,
    )  # fmt: skip


def response_by_bandwidth(size: str) -> Finding:
    return _response(
        sweep("target", size),
        "refresh-response",
        "Response time by bandwidth",
        "thesis, Fig. 5.13",
        "Here a query requests updates until it reaches the target, or its 5 seconds are over.",
        f"or until a score of {TARGET}",
    )


def response_with_five_updates(size: str) -> Finding:
    return _response(
        sweep("target, five updates", size),
        "refresh-response-limited",
        "Response time by bandwidth, with five updates",
        "thesis, Fig. 5.13, read in another way",
        "Here a query requests at most 5 updates, as in the other figures, and then waits for its "
        "target, which the updates of other queries may bring, until its 5 seconds are over. This "
        "reading was added after the results of the other were known; the checks are the same.",
        f"or until a score of {TARGET}, with at most 5 updates",
    )


def _response(s: Sweep, name: str, title: str, source: str, how: str, ends: str) -> Finding:
    leads = ratios(s, _OTHERS, (MIN,), "response_time")
    first, last = (
        {other: leads[f"{other} over {MIN} at {x:g}"] for other in _OTHERS}
        for x in (s.xs[0], s.xs[-1])
    )
    reached = ", ".join(
        f"{100 * share:.0f}% at {x:g}" for x, share in zip(s.xs, s.median(MIN, "reached"))
    )
    return Finding(
        name,
        title,
        source,
        f"If a query ends when its score reaches {TARGET}, MinMin is fastest. The difference is "
        "greatest for small bandwidths, where MinMin is almost twice as fast as the others. "
        "Response times decrease with bandwidth.",
        f"{describe(s)} {how} With a target, the thesis names no limit of time; without one, "
        "queries would wait ever longer where bandwidth is small. Those that do not reach it count "
        f"with their 5 seconds. With MinMin, queries reach it: {reached}.",
        [
            main(
                at_least(
                    "MinMin is fastest at every bandwidth (another, over MinMin)", leads, 1
                )
            ),
            at_least(
                "also if Glb_RR is limited", ratios(s, (LIMITED,), (MIN,), "response_time"), 1
            ),
            reaches("almost twice as fast at the smallest bandwidth", first, 2),
            at_least(
                "the lead is greatest at the smallest bandwidth (over that at the highest)",
                {other: first[other] / last[other] for other in _OTHERS}, 1,
            ),
            at_most(
                "response times decrease with bandwidth for all policies (after over before)",
                steps(s, "response_time", (*THESIS, LIMITED)), 1.05,
            ),
        ],
        picture_of(f"{title} (thesis, 5.13)", s, "response_time", ends),
        differs=f"{BY_BANDWIDTH}; queries also end after 5 seconds",
    )  # fmt: skip


# ------------------------------------------------------------ arrival rate


# In these figures, queries that request more updates must improve scores. Glb_RR refreshes all
# sensors whatever queries request, so that it takes part as the limited one.
_REQUESTED = (LIMITED, *QUERIED)
_BY_RATE = f"{DIFFERS}; the scores of Glb_RR, which do not depend on queries, need not improve"


def rank_correlations(s: Sweep, measure: str, names: tuple[str, ...]) -> Seeds:
    """Return the rank correlations between the order of policies at 20 and at other rates."""
    values = np.array([s.get(name, measure) for name in names])
    ranks = values.argsort(axis=0).argsort(axis=0).astype(float)  # [policies, rates, seeds]
    usual = ranks[:, s.at(20)]
    return {
        f"{x:g} queries per second": np.round(
            [np.corrcoef(a, b)[0, 1] for a, b in zip(usual.T, ranks[:, i].T, strict=True)], 6
        )
        for i, x in enumerate(s.xs)
    }


def best_rate(s: Sweep, measure: str, is_smallest: bool) -> Check:
    """Check that policies are best at 25 queries per second, or next to it."""
    best = {}
    for name in QUERIED:
        values = s.get(name, measure)
        best[name] = np.array(s.xs)[(values.argmin if is_smallest else values.argmax)(axis=0)]
    at = {
        f"{name}, best at {np.median(rates):g}": np.abs(rates - 25) for name, rates in best.items()
    }
    says = (
        "policies that favor queried sensors are best at 25 queries per second, or at the rate "
        "measured next to it (distance from 25)"
    )
    return main(at_most(says, at, 5, ""))


def from_to(s: Sweep, names: tuple[str, ...], measure: str, a: float, b: float) -> Seeds:
    """Return a measure at one rate over that at another."""
    return {
        name: size_of(s.get(name, measure)[s.at(a)]) / size_of(s.get(name, measure)[s.at(b)])
        for name in names
    }


def gain(s: Sweep, names: tuple[str, ...], measure: str, a: float, b: float) -> Seeds:
    """Return the difference between a measure at one rate and at another."""
    return {name: s.get(name, measure)[s.at(a)] - s.get(name, measure)[s.at(b)] for name in names}


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
                "scores improve from 5 to 25 for all policies (Glb_RR: limited)",
                from_to(s, _REQUESTED, "score", 5, 25), 1,
            ),
            at_least(
                "and get worse from 25 to 45 for all that favor queried sensors",
                from_to(s, QUERIED, "score", 45, 25), 1,
            ),
            at_least(
                "at 25 the entire bandwidth is used (MinMin)",
                100 * s.get(MIN, "bandwidth_used")[s.at(25)], 95, "%",
            ),
            at_least(
                "the order of policies is the same at all rates (rank correlation with 20)",
                rank_correlations(s, "score", THESIS), 0.9, "",
            ),
            at_least(
                "also if Glb_RR is limited",
                rank_correlations(s, "score", _REQUESTED), 0.9, "",
            ),
            at_least(
                "MinMin is best at every rate (another, over MinMin)",
                ratios(s, (*_OTHERS, LIMITED), (MIN,), "score"), 1,
            ),
        ],
        picture_of("EMinQ score by arrival rate (thesis, 5.14)", s, "score"),
        differs=_BY_RATE,
    )  # fmt: skip


def value_score_by_rate(size: str) -> Finding:
    s = sweep("arrival_rate", size)
    return Finding(
        "refresh-rate-value",
        "VMinQ score by arrival rate",
        "thesis, Fig. 5.15",
        "As for EMinQ: scores improve up to 25 queries per second and get worse beyond, and the "
        "relative performance of policies remains the same.",
        f"{describe(s)} {_VALUES}",
        [
            best_rate(s, "value_score", False),
            at_least(
                "scores improve from 5 to 25 for all policies (Glb_RR: limited)",
                gain(s, _REQUESTED, "value_score", 25, 5), 0, " bits",
            ),
            at_least(
                "and get worse from 25 to 45 for all that favor queried sensors",
                gain(s, QUERIED, "value_score", 25, 45), 0, " bits",
            ),
            at_least(
                "the order of policies is the same at all rates (rank correlation with 20)",
                rank_correlations(s, "value_score", THESIS), 0.9, "",
            ),
            at_least(
                "also if Glb_RR is limited",
                rank_correlations(s, "value_score", _REQUESTED), 0.9, "",
            ),
            at_least(
                "MinMin is best at every rate (lead)",
                differences(s, (MIN,), (*_OTHERS, LIMITED), "value_score"), 0, " bits",
            ),
        ],
        picture_of("VMinQ score by arrival rate (thesis, 5.15)", s, "value_score"),
        differs=f"{_BY_RATE}; {_ENTROPY}",
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
                "it decreases from 5 to 25 for all policies (Glb_RR: limited)",
                from_to(s, _REQUESTED, "width", 5, 25), 1,
            ),
            at_least(
                "and increases from 25 to 45 for all that favor queried sensors",
                from_to(s, QUERIED, "width", 45, 25), 1,
            ),
            at_least(
                "the order of policies is the same at all rates (rank correlation with 20)",
                rank_correlations(s, "width", THESIS), 0.9, "",
            ),
            at_least(
                "also if Glb_RR is limited",
                rank_correlations(s, "width", _REQUESTED), 0.9, "",
            ),
            at_least(
                "MinMin has the narrowest B at every rate (another, over MinMin)",
                ratios(s, (*_OTHERS, LIMITED), (MIN,), "width"), 1,
            ),
        ],
        picture_of("Uncertainty by arrival rate (thesis, 5.16)", s, "width"),
        differs=_BY_RATE,
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
