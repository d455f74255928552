"""Which reading of section 5.7 fits, a policy of our own, and how answers compare with the truth.

The thesis has no such figures.
"""

from __future__ import annotations

import functools

import numpy as np

from experiments import drawing
from experiments.uncertain import describe
from experiments.uncertain_runs import (
    DISTINCT,
    FULL,
    GLB,
    LOC,
    MAX,
    MEE,
    MIN,
    QUERIED,
    RATES,
    SCORE,
    SIZES,
    TINY,
    Sweep,
    interval,
    least_difference,
    least_ratio,
    run,
    sweep,
)
from experiments.verdicts import Check, Finding, main
from tocsin.uncertain import simulate

# ------------------------------------------------------------ readings

_ASSUMED = "as assumed"
_READINGS = {
    _ASSUMED: {},
    "one message per update": {"messages_per_update": 1},
    "no own reports": {"report_after": None},
    "excess is rejected": {"excess": "reject"},
    "no limit of queries": {"max_queries": None},
    "always 5 seconds": {"ends": "time"},
    "5 seconds, rejected": {"ends": "time", "excess": "reject"},
    "shared updates": {"share_updates": True},
}


@functools.cache
def readings_sweep(size: str) -> Sweep:
    cases = {name: ("minmin", options) for name, options in _READINGS.items()}
    return run("arrival_rate", SIZES[size].points(RATES), cases, size)


def readings(size: str) -> Finding:
    s = readings_sweep(size)
    best = {name: s.xs[int(s.mean(name, "score").argmax())] for name in _READINGS}
    objects = {name: float(s.mean(name, "cardinality")[s.at(20)]) for name in _READINGS}
    fits = [n for n in _READINGS if 20 <= best[n] <= 30 and 3 <= objects[n] <= 10]
    picture, axes = drawing.panels(2, "Readings of the thesis' parameters, with MinMin", 5.2)
    picture.set_figwidth(15)
    x = ("queries per second", list(s.xs))
    for ax, measure, sign, label in (
        (axes[0], "score", -1, "minus EMinQ score (0 is perfect)"),
        (axes[1], "cardinality", 1, "objects in an answer"),
    ):
        series = {n: np.maximum(sign * s.mean(n, measure), 1e-4).tolist() for n in _READINGS}
        drawing.lines(ax, label.split(" (")[0], x, label, series, powers=False)
    table = "; ".join(f"{n}: best at {best[n]:g}, {objects[n]:.1f} objects" for n in _READINGS)
    return Finding(
        "refresh-readings",
        "Which reading of the parameters fits",
        "thesis, 5.7.1 and Table 5.2",
        "Quality is best at 25 queries per second, where the entire bandwidth of 350 messages per "
        "second is used, and the best policies' answers have 3 to 10 objects.",
        "The numbers contradict each other: 20 queries per second for 5 seconds are 100 at a time, "
        "not 10, and 25 x 5 updates are 125 messages, not 350. Assumed are: a query ends when its "
        "5 updates have arrived, at the latest 5 seconds after its arrival; queries in excess of "
        "10 wait; an update is a request and a reply; a sensor reports on its own after 10 "
        "seconds. Then 25 x 5 x 2 + 1000 / 10 = 350. The other readings change one or two of "
        f"these. With MinMin, {s.seeds} seeds; objects at 20 queries per second: {table}.",
        [
            main(
                Check(
                    "as assumed: best at 25 queries per second",
                    f"{best[_ASSUMED]:g} (required: 20 to 30)",
                    20 <= best[_ASSUMED] <= 30,
                )
            ),
            main(
                Check(
                    "as assumed: answers of 3 to 10 objects, at the defaults",
                    f"{objects[_ASSUMED]:.1f} (required: 3 to 10)",
                    3 <= objects[_ASSUMED] <= 10,
                )
            ),
            Check(
                "no other reading fits both",
                f"{len(fits) - (_ASSUMED in fits)} (required: 0)",
                not set(fits) - {_ASSUMED},
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ our own


def own_policy(size: str) -> Finding:
    bandwidth, rate = sweep("bandwidth", size), sweep("arrival_rate", size)
    at = rate.at(20)
    logs = np.log(np.abs(rate.get(MIN, "score") / np.minimum(rate.get(DISTINCT, "score"), -1e-9)))
    low, high = (float(np.exp(end)) for end in interval(logs[at]))
    lead = float(np.exp(logs[at].mean()))
    picture, axes = drawing.panels(2, "MinMin, and MinMin that avoids what is under way", 4.6)
    for ax, s, label in (
        (axes[0], bandwidth, "bandwidth, messages per second"),
        (axes[1], rate, "queries per second"),
    ):
        series = {
            name: np.maximum(-s.mean(name, "score"), 1e-6).tolist()
            for name in (MIN, SCORE, DISTINCT)
        }
        drawing.lines(
            ax,
            "EMinQ score",
            (label, list(s.xs)),
            "minus score (0 is perfect)",
            series,
            powers=False,
        )
    return Finding(
        "refresh-own",
        "A policy that beats MinMin",
        "not in the thesis",
        "Queries that are active at the same time have much the same sensors, and MinMin requests "
        "the same one for each of them. `minmin_distinct` takes the lowest of those that no query "
        "is waiting for.",
        f"{describe(rate)} The policy was chosen with other seeds, among about forty that rank the "
        "objects of a query by their ends, widths, rates, probabilities, expected entropies or "
        "scores, and products of these. None of those that look at nothing but the query's own "
        "intervals had a better EMinQ score than MinMin at the defaults.",
        [
            main(
                Check(
                    "its score is better than MinMin's at the defaults (MinMin, over it)",
                    f"{lead:.3g}x ({low:.3g} to {high:.3g}) (required: the interval above 1x)",
                    low > 1,
                )
            ),
            least_ratio(
                "at every bandwidth (MinMin, over it)", bandwidth, (MIN,), (DISTINCT,), "score"
            ),
            least_ratio(
                "at every arrival rate (MinMin, over it)", rate, (MIN,), (DISTINCT,), "score"
            ),
            least_difference(
                "also for VMinQ, at every bandwidth",
                bandwidth, (DISTINCT,), (MIN,), "value_score",
            ),
            least_ratio(
                "queries reach the target no later, at every bandwidth",
                sweep("target", size), (MIN,), (DISTINCT,), "response_time",
            ),
        ],
        picture,
    )  # fmt: skip


@functools.cache
def domain_sweep(size: str) -> Sweep:
    """Run policies at the defaults, if the server does not know the domain (0), and if it does."""
    names = {MAX: "maxunc", MEE: "minexpentropy", MIN: "minmin", SCORE: "expected_score"}
    cases = {name: (policy, {}) for name, policy in names.items()}
    return run("know_domain", (0, 1), cases, size)


def known_domain(size: str) -> Finding:
    s = domain_sweep(size)
    shown = tuple(s.results)
    picture, axes = drawing.panels(2, "If the server knows that values are in [0, 1]", 4.4)
    groups = ["intervals as in the thesis", "cut off at 0 and 1"]
    scores = {name: np.maximum(-s.mean(name, "score"), TINY).tolist() for name in shown}
    drawing.marks(axes[0], "EMinQ score", groups, "minus score (0 is perfect)", scores)
    wrong = {n: np.maximum(100 - 100 * s.mean(n, "likeliest_right"), 0.1).tolist() for n in shown}
    drawing.marks(axes[1], "the likeliest is wrong", groups, "percent", wrong)
    leads = np.log(s.get(MIN, "score") / np.minimum(s.get(SCORE, "score"), -TINY))
    low, high = (float(np.exp(end)) for end in interval(leads[1]))
    return Finding(
        "refresh-domain",
        "If the server knows the domain",
        "not in the thesis",
        "The thesis' intervals go beyond the domain. Cut off at its ends, many begin at 0, and "
        "MinMin cannot tell them apart. The expected score can.",
        f"Defaults of Table 5.2, {s.seeds} seeds; numbers in parentheses are 95% intervals.",
        [
            main(
                Check(
                    "the expected score is better than MinMin if the domain is known",
                    f"{np.exp(leads[1].mean()):.3g}x ({low:.3g} to {high:.3g}) (required: the "
                    "interval above 1x)",
                    low > 1,
                )
            ),
            Check(
                "and not if it is unknown",
                f"{np.exp(leads[0].mean()):.3g}x (required: at most 1x)",
                bool(leads[0].mean() <= 0),
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ the truth

_SHOWN = (GLB, FULL, LOC, MAX, MEE, MIN, SCORE, DISTINCT)


def truth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    at = s.at(350)
    picture, axes = drawing.panels(3, "Answers compared with the truth", 5.0)
    picture.set_figwidth(19)
    x = ("bandwidth, messages per second", list(s.xs))
    right = {n: (100 * s.mean(n, "likeliest_right")).tolist() for n in _SHOWN}
    drawing.lines(axes[0], "the likeliest is right", x, "percent", right, powers=False, zero=True)
    bits = {n: (-s.mean(n, "log_score")).tolist() for n in _SHOWN}
    bits = {n: [max(v, 1e-3) for v in values] for n, values in bits.items()}
    drawing.lines(axes[1], "minus log score", x, "bits (0 is perfect)", bits, powers=False)
    reliability, error = _reliability(size)
    centers = [0.05 + 0.1 * i for i in range(10)]
    series = {"perfect": centers, **{n: v for n, v in reliability.items() if len(v)}}
    drawing.lines(
        axes[2], "calibration at the defaults", ("probability of an object", centers),
        "how often it was the minimum", series, powers=False, zero=True,
    )  # fmt: skip
    parts = "; ".join(
        f"{n}: entropy {s.mean(n, 'entropy')[at]:.2f} bits, B {s.mean(n, 'width')[at]:.3f}, right "
        f"{100 * s.mean(n, 'likeliest_right')[at]:.0f}%, log score {s.mean(n, 'log_score')[at]:.2f}"
        for n in _SHOWN
    )
    others = tuple(n for n in QUERIED if n != MIN)
    return Finding(
        "refresh-truth",
        "Answers compared with the truth",
        "not in the thesis",
        "The thesis judges policies by a score that the server computes from its own intervals. If "
        "the score is good, answers should be right: the policy with the best score, MinMin, "
        "should also find the true minimum most often, and probabilities should be frequencies.",
        f"{describe(s)} Log score: the logarithm of the probability that the answer gave to the "
        f"true minimum. At {s.xs[at]:g} messages per second: {parts}. Values in an interval are "
        "not uniform, as the server assumes, but mostly near the last report.",
        [
            main(
                least_difference(
                    "MinMin's likeliest object is right most often, at every bandwidth",
                    s, (MIN,), others, "likeliest_right", "",
                )
            ),
            least_difference(
                "MinMin has the best log score, at every bandwidth",
                s, (MIN,), others, "log_score",
            ),
            least_difference(
                "answers of policies that favor queried sensors are right more often than Glb_RR's",
                s, QUERIED, (GLB, FULL), "likeliest_right", "",
            ),
            Check(
                "probabilities are frequencies (mean distance above 0.1, MinMin)",
                f"{error:.3g} (required: at most 0.05)",
                error <= 0.05,
            ),
        ],
        picture,
    )  # fmt: skip


@functools.cache
def _reliability(size: str) -> tuple[dict[str, list[float]], float]:
    """Return how often objects with some probability were the minimum, and MinMin's error."""
    chosen, series, error = SIZES[size], {}, 0.0
    for name, policy in ((MIN, "minmin"), (MEE, "minexpentropy")):
        tables = [
            simulate(policy, seed=seed, **chosen.options).calibration.to_pandas()
            for seed in range(1000, 1000 + chosen.seeds)
        ]
        count = sum(t["count"] for t in tables).to_numpy()
        hits = sum((t["frequency"] * t["count"]).fillna(0) for t in tables).to_numpy()
        total = sum((t["probability"] * t["count"]).fillna(0) for t in tables).to_numpy()
        used = np.maximum(count, 1)
        series[name] = (hits / used).tolist()
        if name == MIN:
            apart, weight = np.abs(hits - total)[1:], count[1:].sum()
            error = float(apart.sum() / max(weight, 1))
    return series, error


FIGURES = {
    "refresh-readings": readings,
    "refresh-own": own_policy,
    "refresh-domain": known_domain,
    "refresh-truth": truth,
}
