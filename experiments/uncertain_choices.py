"""Which reading of section 5.7 fits, a policy of our own, and how answers compare with the truth.

The thesis has no such figures: the questions and the claims are ours.
"""

from __future__ import annotations

import functools

import numpy as np

from experiments import drawing
from experiments.uncertain import DIFFERS, describe, parameters
from experiments.uncertain_runs import (
    DISTINCT,
    FIRST_SEED,
    GLB,
    LIMITED,
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
    differences,
    ratios,
    run,
    size_of,
    sweep,
)
from experiments.verdicts import Check, Finding, at_least, at_most, main, spread
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
    rates = {n: np.array(s.xs)[s.get(n, "score").argmax(axis=0)] for n in _READINGS}  # by seed
    best = {name: float(np.median(each)) for name, each in rates.items()}
    objects = {name: float(s.median(name, "cardinality")[s.at(20)]) for name in _READINGS}
    fits = [n for n in _READINGS if 20 <= best[n] <= 30 and 3 <= objects[n] <= 10]
    own = s.get(_ASSUMED, "cardinality")[s.at(20)]
    picture, axes = drawing.panels(
        2, "Readings of the thesis' parameters, with MinMin (not in the thesis)", 5.2, parameters(s)
    )
    x = ("queries per second", list(s.xs))
    for ax, measure, sign, label in (
        (axes[0], "score", -1, "minus EMinQ score (0 is perfect)"),
        (axes[1], "cardinality", 1, "objects in an answer"),
    ):
        series = {n: np.maximum(sign * s.median(n, measure), 1e-4).tolist() for n in _READINGS}
        drawing.lines(ax, label.split(" (")[0], x, label, series, powers=False)
    table = "; ".join(f"{n}: best at {best[n]:g}, {objects[n]:.1f} objects" for n in _READINGS)
    return Finding(
        "refresh-readings",
        "Which reading of the parameters fits",
        "not in the thesis",
        "The thesis says that quality is best at 25 queries per second, where the entire bandwidth "
        "of 350 messages per second is used, and that the best policies' answers have 3 to 10 "
        "objects (5.7.1, 5.7.2, Table 5.2). Our claim: this is so if its parameters are read as we "
        "assume.",
        "The numbers contradict each other: 20 queries per second for 5 seconds are 100 at a time, "
        "not 10, and 25 x 5 updates are 125 messages, not 350. Assumed are: a query ends when its "
        "5 updates have arrived, at the latest 5 seconds after its arrival; queries in excess of "
        "10 wait; an update is a request and a reply; a sensor reports on its own after 10 "
        "seconds. Then 25 x 5 x 2 + 1000 / 10 = 350. The other readings change one or two of "
        f"these. With MinMin, {s.seeds} seeds; objects at 20 queries per second: {table}.",
        [
            main(
                Check(
                    "as assumed, MinMin is best at 25 queries per second, or at the rate measured "
                    "next to it, with answers of 3 to 10 objects at the defaults",
                    f"best at {spread(rates[_ASSUMED])}, {spread(own)} objects; required: 20 to "
                    "30, and 3 to 10",
                    _ASSUMED in fits,
                )
            ),
            Check(
                "no other reading fits both",
                f"{len(fits) - (_ASSUMED in fits)} do; required: none",
                not set(fits) - {_ASSUMED},
            ),
        ],
        picture,
    )


# ------------------------------------------------------------ our own


def own_policy(size: str) -> Finding:
    bandwidth, rate = sweep("bandwidth", size), sweep("arrival_rate", size)
    at = rate.at(20)
    by_bandwidth = ratios(bandwidth, (MIN,), (DISTINCT,), "score")
    by_rate = ratios(rate, (MIN,), (DISTINCT,), "score")
    everywhere = {f"{name} messages per second": v for name, v in by_bandwidth.items()}
    everywhere |= {f"{name} queries per second": v for name, v in by_rate.items()}
    picture, axes = drawing.panels(
        2, "MinMin, and MinMin that avoids what is under way (not in the thesis)", 4.6,
        "otherwise 350 messages and 20 queries per second, 1,000 sensors, queries over 100 sensors "
        f"for at most 5 seconds with at most 5 updates; {rate.seeds} seeds",
    )  # fmt: skip
    for ax, s, label in (
        (axes[0], bandwidth, "bandwidth, messages per second"),
        (axes[1], rate, "queries per second"),
    ):
        series = {
            name: list(np.maximum(-s.get(name, "score"), 1e-6)) for name in (MIN, SCORE, DISTINCT)
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
        "is waiting for. Our claim: its scores are better than MinMin's.",
        f"{describe(rate)} The policy was chosen with other seeds, among about forty that rank the "
        "objects of a query by their ends, widths, rates, probabilities, expected entropies or "
        "scores, and products of these. None of those that look at nothing but the query's own "
        "intervals had a better EMinQ score than MinMin at the defaults.",
        [
            main(
                at_least(
                    "its score is better than MinMin's at every bandwidth and every arrival rate",
                    everywhere, 1,
                )
            ),
            at_least("at the defaults", list(by_rate.values())[at], 1),
            at_least(
                "also for VMinQ, at every bandwidth (lead)",
                differences(bandwidth, (DISTINCT,), (MIN,), "value_score"), 0, " bits",
            ),
            at_least(
                "queries reach the target no later, at every bandwidth",
                ratios(sweep("target", size), (MIN,), (DISTINCT,), "response_time"), 1,
            ),
        ],
        picture,
        differs=DIFFERS,
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
    picture, axes = drawing.panels(
        2, "If the server knows that values are in [0, 1] (not in the thesis)", 4.4,
        "350 messages and 20 queries per second, 1,000 sensors, queries over 100 sensors for at "
        f"most 5 seconds with at most 5 updates; {s.seeds} seeds",
    )  # fmt: skip
    groups = ["intervals\nas in the\nthesis", "cut off\nat 0 and 1"]
    scores = {name: list(np.maximum(-s.get(name, "score"), TINY)) for name in shown}
    drawing.marks(axes[0], "EMinQ score", groups, "minus score (0 is perfect)", scores)
    wrong = {n: list(np.maximum(100 - 100 * s.get(n, "likeliest_right"), 0.1)) for n in shown}
    drawing.marks(axes[1], "the likeliest is wrong", groups, "percent", wrong)
    unknown, known = size_of(s.get(MIN, "score")) / size_of(s.get(SCORE, "score"))
    return Finding(
        "refresh-domain",
        "If the server knows the domain",
        "not in the thesis",
        "The thesis' intervals go beyond the domain. Cut off at its ends, many begin at 0, and "
        "MinMin cannot tell them apart. Our claim: the expected score can.",
        f"Defaults of Table 5.2, {s.seeds} seeds.",
        [
            main(
                at_least(
                    "the expected score is better than MinMin if the domain is known (MinMin, over "
                    "it)",
                    known,
                    1,
                )
            ),
            at_most("and not if it is unknown", unknown, 1),
        ],
        picture,
        differs=DIFFERS,
    )


# ------------------------------------------------------------ the truth

_SHOWN = (GLB, LIMITED, LOC, MAX, MEE, MIN, SCORE, DISTINCT)


def truth(size: str) -> Finding:
    s = sweep("bandwidth", size)
    at = s.at(350)
    picture, axes = drawing.panels(
        3, "Answers compared with the truth (not in the thesis)", 4.6, parameters(s)
    )
    x = ("bandwidth, messages per second", list(s.xs))
    right = {n: (100 * s.median(n, "likeliest_right")).tolist() for n in _SHOWN}
    drawing.lines(axes[0], "the likeliest is right", x, "percent", right, powers=False, zero=True)
    bits = {n: (-s.median(n, "log_score")).tolist() for n in _SHOWN}
    bits = {n: [max(v, 1e-3) for v in values] for n, values in bits.items()}
    drawing.lines(axes[1], "minus log score", x, "bits (0 is perfect)", bits, powers=False)
    reliability, errors = _reliability(size)
    centers = [0.05 + 0.1 * i for i in range(10)]
    series = {"perfect": centers, **{n: v for n, v in reliability.items() if len(v)}}
    drawing.lines(
        axes[2], "calibration at the defaults", ("probability of an object", centers),
        "how often it was the minimum", series, powers=False, zero=True,
    )  # fmt: skip
    parts = "; ".join(
        f"{n}: entropy {s.median(n, 'entropy')[at]:.2f} bits, B {s.median(n, 'width')[at]:.3f}, "
        f"right {100 * s.median(n, 'likeliest_right')[at]:.0f}%, log score "
        f"{s.median(n, 'log_score')[at]:.2f}"
        for n in _SHOWN
    )
    others = tuple(n for n in QUERIED if n != MIN)
    return Finding(
        "refresh-truth",
        "Answers compared with the truth",
        "not in the thesis",
        "The thesis judges policies by a score that the server computes from its own intervals. "
        "Our question: if the score is good, are answers right? Then the policy with the best "
        "score, MinMin, should also find the true minimum most often, and probabilities should be "
        "frequencies.",
        f"{describe(s)} Log score: the logarithm of the probability that the answer gave to the "
        f"true minimum. At {s.xs[at]:g} messages per second: {parts}. Values in an interval are "
        "not uniform, as the server assumes, but mostly near the last report.",
        [
            main(
                at_least(
                    "MinMin's likeliest object is right most often, at every bandwidth (share of "
                    "queries, lead)",
                    differences(s, (MIN,), others, "likeliest_right"), 0, "",
                )
            ),
            at_least(
                "MinMin has the best log score, at every bandwidth (lead)",
                differences(s, (MIN,), others, "log_score"), 0, " bits",
            ),
            at_least(
                "answers of policies that favor queried sensors are right more often than Glb_RR's",
                differences(s, QUERIED, (GLB, LIMITED), "likeliest_right"), 0, "",
            ),
            at_most(
                "probabilities are frequencies (mean distance above 0.1, MinMin)",
                errors, 0.05, "",
            ),
        ],
        picture,
        differs=DIFFERS,
    )  # fmt: skip


@functools.cache
def _reliability(size: str) -> tuple[dict[str, list[float]], list[float]]:
    """Return how often objects with some probability were the minimum, and MinMin's errors."""
    chosen, series, errors = SIZES[size], {}, []
    for name, policy in ((MIN, "minmin"), (MEE, "minexpentropy")):
        counts, hits = np.zeros(10), np.zeros(10)
        for seed in range(FIRST_SEED, FIRST_SEED + chosen.seeds):
            table = simulate(policy, seed=seed, **chosen.options).calibration.to_pandas()
            count = table["count"].to_numpy()
            own = (table["frequency"] * count).fillna(0).to_numpy()
            expected = (table["probability"] * count).fillna(0).to_numpy()
            counts += count
            hits += own
            if name == MIN:
                error = np.abs(own - expected)[1:].sum() / max(count[1:].sum(), 1)
                errors.append(float(error))
        series[name] = (hits / np.maximum(counts, 1)).tolist()
    return series, errors


FIGURES = {
    "refresh-readings": readings,
    "refresh-own": own_policy,
    "refresh-domain": known_domain,
    "refresh-truth": truth,
}
