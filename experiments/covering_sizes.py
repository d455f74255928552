"""Indexes for covering, and other rule sets: Shen, Tirthapura and Aluru, Indexing for Subscription
Covering, V-C."""

from __future__ import annotations

import functools

import numpy as np

from benchmarks.covering_workloads import RULE_SETS, Run, check_same_decisions, make_commands, run
from experiments import drawing
from experiments.covering_runs import (
    CHOSEN,
    FIRST_SEED,
    HOW,
    IN_PYTHON,
    KD,
    METHODS,
    NAIVE,
    NUMPY,
    OWN_NAIVE,
    RTREE,
    SIZES,
    Z,
    run_all,
    warm_up,
)
from experiments.verdicts import Check, Finding, at_least, at_most, main, number, reaches, spread

_P = 0.15
_PAPER = (KD, Z, NAIVE)
_OURS = (*_PAPER, OWN_NAIVE)
_PEERS = {OWN_NAIVE: 0.5, NUMPY: 0.3, RTREE: 0.1}  # shares of the commands, for they are slow
_FIGURE = {3: 10, 6: 11, 8: 12}
_NAIVE_IS = (
    "Naive is a sequential scan in order of arrival, which stops at the first rule that covers, as "
    "we read the paper (the last rule takes the place of a removed one); Tocsin's own compares the "
    "widest boxes first, 128 at a time with vector instructions. NumPy compares columns of one "
    "array. The R*-tree of the package rtree holds points of twice as many dimensions, with its "
    "best nodes (16 or 100); it cannot stop at the first result."
)


@functools.cache
def runs_by_size(d: int, size: str) -> dict[str, list[Run]]:
    """Return the runs of each method, one per seed; peers have fewer marks, and some one seed."""
    s = SIZES[size]
    warm_up(d)
    found: dict[str, list[Run]] = {name: [] for name in (*_PAPER, *_PEERS)}
    for seed in range(FIRST_SEED, FIRST_SEED + s.seeds):
        commands = make_commands(s.marks[-1], d, _P, seed)
        for name, r in run_all(commands, d, _PAPER, marks=s.marks).items():
            found[name].append(r)
        for name, share in _PEERS.items():
            if name != OWN_NAIVE and seed > FIRST_SEED:
                continue
            marks = [mark for mark in s.marks if mark <= share * s.marks[-1]] or [s.marks[0]]
            found[name].append(run(commands[: marks[-1]], METHODS[name](d), marks=marks))
            check_same_decisions(name, found[name][-1], found[KD][-1])
    return found


def ratios(
    found: dict[str, list[Run]], slow: str, fast: str, inside: bool = False
) -> dict[str, np.ndarray]:
    """Return how many times as fast a method is, seed by seed, for each number of commands."""
    times = [
        np.array([r.index_seconds if inside else r.seconds for r in found[name]])
        for name in (slow, fast)
    ]
    marks = min((found[name][0].marks for name in (slow, fast)), key=len)
    return {
        f"{slow} over {fast} at {mark:,} commands": times[0][:, i] / times[1][:, i]
        for i, mark in enumerate(marks)
    }


def _table(d: int, size: str, found: dict[str, list[Run]]) -> list[list[str]]:
    s = SIZES[size]
    rows = [["commands", *found, "rules covered", "table size", "messages"]]
    commands = make_commands(s.marks[-1], d, _P, FIRST_SEED)
    counted = run(commands, METHODS[KD](d), marks=s.marks, count_covered=True)
    for i, mark in enumerate(s.marks):
        cells = []
        for runs in found.values():
            seconds = [r.seconds[i] for r in runs if i < len(r.marks)]
            cells.append("" if not seconds else spread(seconds))
            if len(seconds) == 1:
                cells[-1] = number(seconds[0])
        rules = counted.rules[i]
        rows.append(
            [
                f"{mark:,}", *cells, f"{counted.covered[i]:.1%}",
                f"{counted.forwarded[i] / rules:.1%}", f"{counted.messages[i] / mark:.1%}",
            ]
        )  # fmt: skip
    return rows


def by_size(d: int, size: str) -> Finding:
    s = SIZES[size]
    found = runs_by_size(d, size)
    xs = [mark / 1000 for mark in s.marks]
    picture, axes = drawing.panels(
        2, f"Total time, dimension {2 * d} (covering, Fig. {_FIGURE[d]})", 5.0,
        f"{d} attributes, uniform boxes, p = {_P:.0%}, k = 1, {s.seeds} seeds",
    )  # fmt: skip
    series = {name: list(zip(*(r.seconds for r in runs))) for name, runs in found.items()}
    x = ("thousand commands", xs)
    drawing.lines(axes[0], "time", x, "total seconds", series, powers=False)
    relative = {name: list(ratios(found, NAIVE, name).values()) for name in (KD, Z, OWN_NAIVE)}
    relative |= {
        f"{name}, index alone": list(ratios(found, NAIVE, name, inside=True).values())
        for name in (KD, Z)
    }
    drawing.lines(
        axes[1], "compared with naive", x, "times as fast as naive", relative, powers=False
    )
    if d == 8:
        drawing.limit(axes[1], 10, "paper: k-d tree, 10 times")
    main_check, others = _checks(d, size, found)
    return Finding(
        f"cover-dimension-{2 * d}",
        f"Indexes for covering, dimension {2 * d}",
        f"covering, Fig. {_FIGURE[d]}",
        "Both indexes give substantial improvements over the naive algorithm; k-d trees perform "
        "better than the Z-curve."
        + (
            " In dimension 16, the k-d tree is 10 times as fast as the naive algorithm, and about "
            "2 times as fast as the Z-curve. The gain grows with the dimension, and the naive "
            "algorithm is better in lower dimensions."
            if d == 8
            else ""
        ),
        f"{s.marks[0]:,} to {s.marks[-1]:,} commands, p = {_P:.0%}, {d} attributes, k = 1, "
        f"{s.seeds} seeds (one for NumPy and rtree). Tocsin's own naive method runs the first "
        f"{_PEERS[OWN_NAIVE]:.0%} of the commands only, NumPy {_PEERS[NUMPY]:.0%} and rtree "
        f"{_PEERS[RTREE]:.0%}, for they are slow. Seconds are total "
        f"times. {HOW} {_NAIVE_IS} A uniform box covers "
        f"another with probability 6^-{d}: *rules covered* are those of a sample that another one "
        "covers; *table size*, rules that are forwarded, over all; *messages*, over those without "
        "covering, one per command.",
        [main(main_check), *others],
        picture,
        _table(d, size, found),
        differs=f"{IN_PYTHON}; {CHOSEN}; naive is our reading"
        + ("; for which number of commands it is 10 times, the paper does not say" * (d == 8)),
    )


def _checks(d: int, size: str, found: dict[str, list[Run]]) -> tuple[Check, list[Check]]:
    def order(inside: bool) -> dict[str, np.ndarray]:
        return ratios(found, NAIVE, Z, inside) | ratios(found, Z, KD, inside)

    says = "the Z-curve is faster than naive, and k-d faster than the Z-curve, at every size"
    ordered = at_least(says, order(False), 1)
    others = [
        at_least("the same, inside the index", order(True), 1),
        at_least("k-d is faster than naive at every size", ratios(found, NAIVE, KD), 1),
        at_least(
            "k-d is faster than Tocsin's own naive method at every size",
            ratios(found, OWN_NAIVE, KD),
            1,
        ),
    ]
    if d != 8:
        return ordered, others
    lead = {n: list(ratios(runs_by_size(n, size), NAIVE, KD).values()) for n in (3, 6, 8)}
    naive = {n: np.array([r.seconds for r in runs_by_size(n, size)[NAIVE]]) for n in (3, 6, 8)}
    ten = "k-d is 10 times as fast as"
    return reaches(f"{ten} naive, at every size", ratios(found, NAIVE, KD), 10), [
        reaches("the same, inside the index", ratios(found, NAIVE, KD, inside=True), 10),
        reaches(
            f"{ten} Tocsin's own naive method, inside the index",
            ratios(found, OWN_NAIVE, KD, inside=True),
            10,
        ),
        reaches("k-d is 2 times as fast as the Z-curve at every size", ratios(found, Z, KD), 2),
        ordered,
        *others,
        at_least(
            "the gain over naive grows with the dimension, at every size (after over before)",
            {
                f"{2 * a} to {2 * b} at {mark:,} commands": lead[b][i] / lead[a][i]
                for a, b in ((3, 6), (6, 8))
                for i, mark in enumerate(SIZES[size].marks)
            },
            1,
        ),
        at_least(
            "naive takes longer in a higher dimension, at every size (after over before)",
            {
                f"{2 * a} to {2 * b} at {mark:,} commands": naive[b][:, i] / naive[a][:, i]
                for a, b in ((3, 6), (6, 8))
                for i, mark in enumerate(SIZES[size].marks)
            },
            1,
        ),
    ]


# ------------------------------------------------------------ other rule sets

_ABOUT = {
    "uniform": "as in the paper",
    "nested": "chains of twenty, each inside the one before",
    "clustered": "around fifty centers, some popular, about as wide as they are apart",
    "concentric": "around fifty centers, widths of several orders of magnitude",
    "equality": "one of twenty values, some popular, in all attributes but one",
    "wildcard": "no ends in all attributes but two",
}


def rule_sets(size: str) -> Finding:
    s, d = SIZES[size], 5
    found: dict[str, dict[str, list[Run]]] = {name: {} for name in RULE_SETS}
    covered = {}
    for name in RULE_SETS:
        for seed in range(FIRST_SEED, FIRST_SEED + s.seeds):
            commands = make_commands(s.few, d, _P, seed, name)
            for method, r in run_all(commands, d, _OURS).items():
                found[name].setdefault(method, []).append(r)
        commands = make_commands(s.few, d, _P, FIRST_SEED, name)
        covered[name] = run(commands, METHODS[KD](d), count_covered=True)

    def micros(name: str, method: str, inside: bool = False) -> np.ndarray:
        seconds = [(r.index_seconds if inside else r.seconds)[-1] for r in found[name][method]]
        return np.array(seconds) * 1e6 / s.few

    groups = list(RULE_SETS)
    table_size = [covered[g].forwarded[-1] / covered[g].rules[-1] for g in groups]
    messages = [covered[g].messages[-1] / covered[g].marks[-1] for g in groups]
    share = [covered[g].covered[-1] for g in groups]
    picture, axes = drawing.panels(
        2, "Other rule sets (not in the paper)", 5.2,
        f"{s.few:,} commands, {d} attributes, p = {_P:.0%}, k = 1, {s.seeds} seeds",
    )  # fmt: skip
    drawing.dots(
        axes[0], "time", groups, "microseconds per command",
        {m: [float(np.median(micros(g, m))) for g in groups] for m in _OURS},
    )  # fmt: skip
    drawing.dots(
        axes[1], "what covering leaves", groups, "% of what there is without",
        {
            "table size": [100 * v for v in table_size],
            "messages": [100 * v for v in messages],
            "not covered": [100 * (1 - v) for v in share],
        },
    )  # fmt: skip
    lead, inside = (
        {
            f"{m} over {KD}, {g}": micros(g, m, is_inside) / micros(g, KD, is_inside)
            for g in groups
            for m in (Z, NAIVE, OWN_NAIVE)
        }
        for is_inside in (False, True)
    )
    table = [
        ["rules", *_OURS, f"{KD}, index alone", "rules covered", "table size", "messages"],
        *(
            [
                f"{g}: {_ABOUT[g]}", *(spread(micros(g, m)) for m in _OURS),
                spread(micros(g, KD, True)),
                f"{share[i]:.1%}", f"{table_size[i]:.1%}", f"{messages[i]:.1%}",
            ]
            for i, g in enumerate(groups)
        ),
    ]  # fmt: skip
    return Finding(
        "cover-rule-sets",
        "Other rule sets",
        "covering, not in the paper",
        "The paper says that the k-d tree outperforms the Z-curve and the naive algorithm, and "
        "that covering significantly reduces routing tables and control messages. Our question: is "
        "that so for rules other than uniform boxes, too?",
        f"{s.few:,} commands, p = {_P:.0%}, {d} attributes, k = 1, {s.seeds} seeds; "
        f"microseconds per command. {HOW} {_NAIVE_IS.split(' NumPy')[0]}",
        [
            main(
                at_least(
                    "k-d is fastest for every rule set (total time of another method, over k-d)",
                    lead,
                    1,
                )
            ),
            at_least("the same, inside the index", inside, 1),
            at_most(
                "covering significantly reduces tables, for every rule set (rules forwarded)",
                {g: 100 * v for g, v in zip(groups, table_size, strict=True)},
                75,
                "%",
            ),
            at_most(
                "and messages", {g: 100 * v for g, v in zip(groups, messages, strict=True)}, 75, "%"
            ),
        ],
        picture,
        table,
    )


FIGURES = {
    "cover-dimension-6": functools.partial(by_size, 3),
    "cover-dimension-12": functools.partial(by_size, 6),
    "cover-dimension-16": functools.partial(by_size, 8),
    "cover-rule-sets": rule_sets,
}
