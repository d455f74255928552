"""Virtual construct rectangles: Wu, Chen, Yu, VCR indexing for fast event matching, section 3.

VCR is the index as published: the lists of `Rectangles` with `lattice="published"`, searched with
whole-numbered events, which lie on lattice points. Beside it is Tocsin's own, with cells and sides
that it chooses.
"""

from __future__ import annotations

import math

import numpy as np

from experiments import drawing
from experiments.array_constructs import ArrayConstructs
from experiments.hashed_constructs import HashedConstructs, next_prime
from experiments.measuring import PointSearch, boxes, check_equal, search_times
from experiments.rivals import ShapelyTree, build_packed_tree, build_rstar_tree
from experiments.verdicts import Finding, at_least, at_most, main, reaches, spread
from tocsin.index.constructs.rectangles.index import Rectangles

_SIZES = {
    "tiny": dict(
        counts=[500, 1000], side=(300, 200), large=(300, 200), length_count=1000,
        length_events=300, events=300, hashed=200, few=100, checked=100, seconds=0.0,
    ),
    "full": dict(
        counts=[32_000, 64_000, 128_000, 256_000], side=(300, 200), large=(2000, 1500),
        length_count=64_000, length_events=20_000, events=100_000, hashed=20_000,
        few=2_000, checked=300, seconds=0.2,
    ),
}  # fmt: skip
_LENGTHS = [1, 2, 4, 8, 16, 32]
_SIDES = [16, 8]  # Lx and Ly (3.1)
_MOST = (40, 20)  # Wx and Wy (3.1)
_HASH_SIZE = 1_800_017  # of Fig. 9
_MUCH_FASTER = 1.25  # what "much better" means in Fig. 9. Chosen: the paper has no number
_TREES = ("R*-tree", "packed R-tree", "shapely")
_PREDICATES = "number of predicates n"
_STORAGE = (
    "Storage is counted as in the paper: the array of pointers, or the hash table, and the lists "
    "of ids, with 4 bytes to a pointer or id. Lists are flat, so an id needs no pointer to the "
    "next."
)
# What is not as in the paper. Of Rx and Ry it gives the product alone, and it keeps linked lists.
_LISTS = "Rx and Ry are our choice; fewer searches; lists of ids are flat, not linked"
_REPEATED = (
    "As in the paper, VCR reports an id for each piece of a predicate that is met, so several "
    "times where pieces overlap or share an edge; Tocsin's own index and all others report it once."
)
_RUNS = "in the array, constructs with consecutive numbers are looked up as one run"
_CHAINS = "chains for collisions, and how numbers are randomised, are our choice"

# ------------------------------------------------------------ the paper's data (3.1)


def draw_predicates(
    n: int, side: tuple[int, int], most: tuple[int, int], hot: float | None, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return closed rectangles whose sides are 1 to `most`, cut at the end of the domain."""
    rng = np.random.default_rng(seed)
    low = draw_corners(rng, n, side, hot)
    high = low + rng.integers(1, np.array([most]).T + 1, (2, n))
    return low, np.minimum(high, np.array([side]).T)


def draw_corners(
    rng: np.random.Generator, n: int, side: tuple[int, int], hot: float | None
) -> np.ndarray:
    """Return n lattice points; 90% of them are in the central share `hot` of the area, if given."""
    points = rng.random((2, n))
    if hot is not None:
        is_hot = rng.random(n) < 0.9
        points[:, is_hot] = 0.5 + (points[:, is_hot] - 0.5) * math.sqrt(hot)
    return (points * np.array([side]).T).astype(np.int64)


def draw_events(n: int, side: tuple[int, int], hot: float | None) -> np.ndarray:
    return draw_corners(np.random.default_rng(2), n, side, hot)


def build_published(
    low: np.ndarray, high: np.ndarray, points: np.ndarray, **options
) -> ArrayConstructs:
    """Return the paper's index; its storage is the array of pointers and the lists of ids."""
    index = Rectangles.build(*boxes(low, high, False), lattice="published", hashed=False, **options)
    return ArrayConstructs(index, points)


def build_hashed(
    low: np.ndarray, high: np.ndarray, points: np.ndarray, decomposition: str, places: int
) -> HashedConstructs:
    """Return the same with the paper's hash table instead of the array."""
    index = Rectangles.build(
        *boxes(low, high, False),
        lattice="published",
        longest=_SIDES,
        decomposition=decomposition,
        hashed=True,
    )
    return HashedConstructs(index, points, places)


def build_own(low: np.ndarray, high: np.ndarray, points: np.ndarray, **options) -> PointSearch:
    """Return Tocsin's index, with cells and sides that it chooses."""
    return PointSearch(Rectangles.build(*boxes(low, high, False), **options), points, False)


def at_counts(counts: list[int], values: list) -> dict[str, object]:
    """Return the values of a sweep by number of predicates."""
    return {f"n = {n:,}": value for n, value in zip(counts, values, strict=True)}


# ------------------------------------------------------------ Fig. 6


def lengths(size: str) -> Finding:
    s = _SIZES[size]
    n, side = s["length_count"], s["side"]
    times: dict[int, list[np.ndarray]] = {}  # [L][round], in microseconds
    storage: dict[int, list[float]] = {}
    own = {}
    for most in (20, 40):
        low, high = draw_predicates(n, side, (most, most), 0.1)
        points = draw_events(s["length_events"], side, 0.1)
        indexes = {
            str(length): build_published(low, high, points, longest=length) for length in _LENGTHS
        }
        storage[most] = [index.nbytes / 1e6 for index in indexes.values()]
        indexes["own"] = build_own(low, high, points)
        check_equal(indexes, s["checked"])
        measured = search_times(indexes, s["seconds"])
        own[most] = 1e6 * measured.pop("own"), indexes["own"].nbytes / 1e6
        times[most] = [1e6 * t for t in measured.values()]

    def best(most: int) -> tuple[np.ndarray, int]:
        """Return the best L by time, in each round, and by storage."""
        return np.array(_LENGTHS)[np.argmin(times[most], axis=0)], _LENGTHS[
            int(np.argmin(storage[most]))
        ]

    def factor(found, expected):
        return np.maximum(np.asarray(found) / expected, expected / np.asarray(found))

    papers = {20: (16, 8), 40: (16, 16)}  # the best L by time and by storage
    apart, ends = {}, {}
    for most, (by_time, by_storage) in papers.items():
        fastest, smallest = best(most)
        apart[f"W = {most}, time"] = factor(fastest, by_time)
        apart[f"W = {most}, storage"] = factor(smallest, by_storage)
        for end, length in ((0, 1), (-1, 32)):
            ends[f"W = {most}, time, L = {length}"] = times[most][end] / np.min(times[most], axis=0)
            ends[f"W = {most}, storage, L = {length}"] = storage[most][end] / min(storage[most])
    picture, axes = drawing.panels(
        2,
        "How long may a construct be? (VCR, Fig. 6)",
        parameters=f"n = {n:,}, sides of 1 to W, Lx = Ly = L, Rx Ry = {math.prod(side):,}, 90-10 "
        "skew, simple decomposition. Hollow: the L that is best in the paper.",
    )
    for ax, title, label, values, which in (
        (axes[0], "time of a search", "microseconds", times, 0),
        (axes[1], "storage", "megabytes", storage, 1),
    ):
        series = {f"W = {most}": values[most] for most in papers}
        drawing.lines(ax, title, ("longest side L of a construct", _LENGTHS), label, series)
        for most, expected in papers.items():
            at = np.median(values[most][_LENGTHS.index(expected[which])])
            drawing.paper(ax, [expected[which]], [at], f"W = {most}")
    return Finding(
        "vcr-lengths",
        "The longest side of a construct",
        "VCR, Fig. 6",
        "If L is too small, many small rectangles are activated; if it is too large, the covering "
        "set is large. For W = 20, storage is least at L = 8 and search time at L = 16; for W = "
        "40, both at L = 16. The larger the predicates, the larger the best L.",
        f"{n:,} predicates with sides of 1 to W on {side[0]} x {side[1]} values, 90% of corners in "
        "10% of the plane; the published index with an array of pointers, simple decomposition; "
        f"{s['length_events']:,} searches. "
        f"{_STORAGE} {_REPEATED} Tocsin's own index is not part of the checks: it chooses its "
        "sides.",
        [
            main(
                at_most(
                    "the best L is the paper's, or half or double of it (larger over smaller)",
                    apart,
                    2,
                )
            ),
            at_least("both ends of the sweep, L = 1 and 32, cost more than the best L", ends, 1.05),
            at_least(
                "larger predicates have at least as large a best L (W = 40 over W = 20)",
                {
                    "time": best(40)[0] / np.median(best(20)[0]),
                    "storage": best(40)[1] / best(20)[1],
                },
                1,
            ),
        ],
        picture,
        [
            ["index", "W", "time of a search, microseconds", "storage, megabytes"],
            *(
                [f"VCR, L = {length}", str(most), spread(t), f"{m:.1f}"]
                for most in papers
                for length, t, m in zip(_LENGTHS, times[most], storage[most], strict=True)
            ),
            *(["VCR (Tocsin)", str(most), spread(t), f"{m:.1f}"] for most, (t, m) in own.items()),
        ],
        differs="the paper does not give n, the skew and the decomposition of this figure; "
        f"{_LISTS}; {_RUNS}",
    )


# ------------------------------------------------------------ Fig. 7


def against_r_tree(size: str) -> Finding:
    s = _SIZES[size]
    side, counts = s["side"], s["counts"]
    papers = {"uniform": 304 / 60, "90-10": 1300 / 280}  # R-tree over VCR for n = 32,000
    times: dict[str, dict[str, list[np.ndarray]]] = {case: {} for case in papers}
    storages: dict[str, dict[str, list[float]]] = {case: {} for case in papers}
    matches = {}
    for case, hot in (("uniform", None), ("90-10", 0.1)):
        points = draw_events(s["events"], side, hot)
        for n in counts:
            low, high = draw_predicates(n, side, _MOST, hot)
            structures = {
                "VCR": build_published(low, high, points, longest=_SIDES),
                "VCR (Tocsin)": build_own(low, high, points),
                "R*-tree": build_rstar_tree(low, high, points),
                "packed R-tree": build_packed_tree(low, high, points),
                "shapely": ShapelyTree(low, high, points),
            }
            matches[case] = check_equal(structures, s["checked"])
            few = dict.fromkeys(_TREES, s["few"])
            for name, t in search_times(structures, s["seconds"], few).items():
                times[case].setdefault(name, []).append(1e6 * t)
            for name, structure in structures.items():
                if structure.nbytes:
                    storages[case].setdefault(name, []).append(structure.nbytes / 1e6)
    storage = storages["90-10"]

    def gains(case: str, index: str, tree: str) -> list[np.ndarray]:
        """Return how many times as fast an index is as a tree, for each n, in each round."""
        return [t / v for t, v in zip(times[case][tree], times[case][index], strict=True)]

    def all_gains(index: str, tree: str) -> dict[str, np.ndarray]:
        return {
            f"{case}, n = {n:,}": gain
            for case in papers
            for n, gain in zip(counts, gains(case, index, tree), strict=True)
        }

    fastest = {
        point: np.min([all_gains("VCR (Tocsin)", tree)[point] for tree in _TREES], axis=0)
        for point in all_gains("VCR (Tocsin)", "R*-tree")
    }
    grown = {case: gains(case, "VCR", "R*-tree") for case in papers}
    picture, axes = drawing.panels(
        4,
        "Constructs against R-trees (VCR, Fig. 7)",
        parameters=f"Wx = {_MOST[0]}, Wy = {_MOST[1]}, Rx Ry = {math.prod(side):,}, VCR as "
        f"published with Lx = {_SIDES[0]}, Ly = {_SIDES[1]}, simple decomposition; nodes of 16 in "
        "the R-trees.",
    )
    x = (_PREDICATES, counts)
    for ax, case in zip(axes, times):
        title = f"time of a search, {case}: {matches[case]:,.0f} matches at the right"
        drawing.lines(ax, title, x, "microseconds", times[case])
    drawing.lines(axes[2], "R*-tree over VCR, time", x, "times as fast", grown)
    drawing.paper(axes[2], [counts[0]] * 2, list(papers.values()), "5.1 uniform, 4.6 for 90-10")
    drawing.lines(axes[3], "storage", x, "megabytes", storage)
    return Finding(
        "vcr-r-tree",
        "Against R-trees",
        "VCR, Fig. 7",
        "A search takes 60 microseconds instead of an R-tree's 304 with 32,000 uniform predicates, "
        "280 instead of 1,300 with a 90-10 skew: this is substantially better, especially for "
        "predicates that overlap much. The difference grows with the number of predicates. The "
        "price is a modest increase in storage.",
        f"Predicates of 1 to 40 by 1 to 20 on {side[0]} x {side[1]} values, simple decomposition, "
        f"Lx = 16, Ly = 8; {s['events']:,} searches for VCR, {s['few']:,} for R-trees. The paper's "
        "R-tree is built by insertion, and so is the R*-tree here: its leaves are those of "
        "libspatialindex, and a kernel over flat arrays with reused buffers searches it, and the "
        "packed R-tree as well. shapely: `STRtree.query` of all points at once, with new pairs. "
        f"{_STORAGE} {_REPEATED}",
        [
            main(
                reaches(
                    "VCR as published is faster than an R*-tree built by insertion",
                    all_gains("VCR", "R*-tree"),
                    min(papers.values()),
                )
            ),
            at_least(
                "the gain grows with the number of predicates (last over first)",
                {case: gain[-1] / np.median(gain[0]) for case, gain in grown.items()},
                1.1,
            ),
            at_most(
                "the increase in storage is modest (over the R*-tree)",
                at_counts(
                    counts,
                    [v / t for v, t in zip(storage["VCR"], storage["R*-tree"], strict=True)],
                ),
                3,
            ),
            at_most(
                "storage does not depend on how much predicates overlap (90-10 over uniform)",
                at_counts(
                    counts,
                    [
                        skewed / even
                        for skewed, even in zip(
                            storage["VCR"], storages["uniform"]["VCR"], strict=True
                        )
                    ],
                ),
                1.1,
            ),
            at_least(
                "VCR as published is faster than a packed R-tree, which the paper does not have",
                all_gains("VCR", "packed R-tree"),
                1,
            ),
            at_least("Tocsin's own index is faster than the fastest of the R-trees", fastest, 1),
        ],
        picture,
        [
            ["index", "skew", *(f"n = {n:,}" for n in counts)],
            *(
                [name, case, *map(spread, series)]
                for case in papers
                for name, series in times[case].items()
            ),
        ],
        differs="an R*-tree instead of an R-tree, with packed levels above its leaves, and a "
        f"kernel instead of a downloaded program; {_LISTS}; {_RUNS}",
    )


# ------------------------------------------------------------ Fig. 8


def hashing(size: str) -> Finding:
    s = _SIZES[size]
    side, counts = s["large"], s["counts"]
    points = draw_events(s["events"], side, 0.01)
    times: dict[str, list[np.ndarray]] = {}
    storage: dict[str, list[float]] = {}
    rows = [["n", "places", "load factor", "collisions", "constructs compared per search"]]
    for n in counts:
        low, high = draw_predicates(n, side, _MOST, 0.01)
        options = {"longest": _SIDES, "decomposition": "overlapped"}
        hashed = build_hashed(low, high, points, "overlapped", next_prime(10 * n))
        indexes = {
            "direct": build_published(low, high, points, **options),
            "hashed": hashed,
            "hashed (Tocsin)": build_own(
                low, high, points, **options, lattice="published", hashed=True
            ),
        }
        check_equal(indexes, s["checked"])
        few = dict.fromkeys(("hashed", "hashed (Tocsin)"), s["hashed"])
        for name, t in search_times(indexes, s["seconds"], few).items():
            times.setdefault(name, []).append(1e6 * t)
            storage.setdefault(name, []).append(indexes[name].nbytes / 1e6)
        rows.append(describe_table(n, hashed, s["checked"]))
    slower = [h / d for h, d in zip(times["hashed"], times["direct"], strict=True)]
    smaller = [d / h for h, d in zip(storage["hashed"], storage["direct"], strict=True)]
    picture, axes = drawing.panels(
        3,
        "A hash table of activated constructs (VCR, Fig. 8)",
        parameters=f"Wx = {_MOST[0]}, Wy = {_MOST[1]}, Lx = {_SIDES[0]}, Ly = {_SIDES[1]}, Rx Ry = "
        f"{math.prod(side):,}, 90-1 skew, overlapped decomposition, a table of about 10 n places.",
    )
    x = (_PREDICATES, counts)
    drawing.lines(axes[0], "time of a search", x, "microseconds", times)
    drawing.lines(axes[1], "storage", x, "megabytes", storage)
    drawing.lines(axes[2], "time, hashed over direct", x, "times as slow", {"hashed": slower})
    drawing.paper(axes[2], [counts[0], counts[-1]], [400 / 80, 1300 / 860], "5.0 to 1.5")
    return Finding(
        "vcr-hashing",
        "Hashing",
        "VCR, Fig. 8",
        "On a plane of 3,000,000 values, a hash table of the activated rectangles takes much less "
        "storage than an array of all rectangles. A search then takes 400 to 1,300 microseconds "
        "instead of 80 to 860 (32,000 to 256,000 predicates). This is a good trade, especially for "
        "a large plane and few predicates.",
        f"Predicates of 1 to 40 by 1 to 20 on {side[0]} x {side[1]} values, 90% of corners in 1% "
        "of the plane, overlapped decomposition, Lx = 16, Ly = 8. The hash table is the paper's: "
        "randomised numbers, a prime of about 10 n places; with chains. Tocsin's own, beside it, "
        f"has open addressing and grows. {_STORAGE} A construct in the hash table has 16 bytes. "
        f"{s['events']:,} searches, {s['hashed']:,} with a hash table. {_REPEATED}",
        [
            main(
                at_least(
                    "hashing reduces storage (array over hash table; the paper has no number)",
                    at_counts(counts, smaller),
                    2,
                )
            ),
            at_least("a search is slower with hashing, at every n", at_counts(counts, slower), 1.1),
            at_most(f"n = {counts[0]:,}: the price is at most the paper's 5.0 times", slower[0], 5),
            at_most(
                f"n = {counts[-1]:,}: the price is at most the paper's 1.5 times", slower[-1], 1.51
            ),
            at_least(
                "the price shrinks with more predicates", slower[0] / np.median(slower[-1]), 1.2
            ),
        ],
        picture,
        rows,
        differs=f"{_LISTS}; {_RUNS}; {_CHAINS}",
    )


def describe_table(n: int, hashed: HashedConstructs, events: int) -> list[str]:
    """Return a row about a hash table."""
    return [
        f"{n:,}",
        f"{len(hashed.chains.head):,}",
        f"{hashed.load:.3f}",
        f"{hashed.collisions / hashed.activated:.1%} of {hashed.activated:,}",
        f"{hashed.count_probes(events):,.0f}",
    ]


# ------------------------------------------------------------ Fig. 9


def overlapping(size: str) -> Finding:
    s = _SIZES[size]
    side, counts = s["large"], s["counts"]
    points = draw_events(s["hashed"], side, 0.1)
    times: dict[str, list[np.ndarray]] = {}
    load: dict[str, list[float]] = {}
    probes: dict[str, list[float]] = {}
    collisions: dict[str, list[int]] = {}
    headings = ["n", "places", "load factor", "collisions", "constructs compared per search"]
    rows = [["decomposition", *headings]]
    for n in counts:
        low, high = draw_predicates(n, side, _MOST, 0.1)
        indexes = {
            kind: build_hashed(low, high, points, kind, _HASH_SIZE)
            for kind in ("simple", "overlapped")
        }
        check_equal(indexes, s["checked"])
        for kind, t in search_times(indexes, s["seconds"]).items():
            times.setdefault(kind, []).append(1e6 * t)
            load.setdefault(kind, []).append(indexes[kind].load)
            probes.setdefault(kind, []).append(indexes[kind].count_probes(s["checked"]))
            collisions.setdefault(kind, []).append(max(indexes[kind].collisions, 1))
            rows.append([kind, *describe_table(n, indexes[kind], s["checked"])])

    def simple_over_overlapped(series: dict[str, list]) -> list:
        return [a / b for a, b in zip(series["simple"], series["overlapped"], strict=True)]

    gain = simple_over_overlapped(times)
    picture, axes = drawing.panels(
        4,
        "Overlapped against simple decomposition (VCR, Fig. 9)",
        parameters=f"Wx = {_MOST[0]}, Wy = {_MOST[1]}, Lx = {_SIDES[0]}, Ly = {_SIDES[1]}, Rx Ry = "
        f"{math.prod(side):,}, 90-10 skew, a hash table of {_HASH_SIZE:,} places.",
    )
    x = (_PREDICATES, counts)
    drawing.lines(axes[0], "time of a search", x, "microseconds", times, zero=True)
    drawing.lines(axes[1], "load factor", x, "constructs to a place", load, zero=True)
    drawing.lines(axes[2], "constructs compared", x, "per search", probes, zero=True)
    gains = {"overlapped": gain}
    drawing.lines(axes[3], "time, simple over overlapped", x, "times as fast", gains, zero=True)
    drawing.limit(axes[3], _MUCH_FASTER, 'required, for "much better"')
    return Finding(
        "vcr-overlapped",
        "Overlapped decomposition",
        "VCR, Fig. 9",
        "Overlapped decomposition activates fewer rectangles than simple decomposition. With a "
        "hash table of 1,800,017 places, this means fewer collisions and a much better response "
        "time, especially for many predicates.",
        f"Predicates of 1 to 40 by 1 to 20 on {side[0]} x {side[1]} values, 90-10 skew, Lx = 16, "
        "Ly = 8, in the paper's hash table: randomised numbers, a fixed prime of places; with "
        "chains. An id is reported for each piece of a predicate that is met, as in the paper. "
        f"{s['hashed']:,} searches.",
        [
            main(
                at_least(
                    "a search is much faster with overlapped decomposition (the paper has no "
                    "number)",
                    at_counts(counts, gain),
                    _MUCH_FASTER,
                )
            ),
            at_least(
                "the gain grows with the number of predicates", gain[-1] / np.median(gain[0]), 1.05
            ),
            at_least(
                "the load factor is lower (simple over overlapped)",
                at_counts(counts, simple_over_overlapped(load)),
                1.1,
            ),
            at_least(
                "there are fewer collisions (simple over overlapped)",
                at_counts(counts, simple_over_overlapped(collisions)),
                1.1,
            ),
            at_least(
                "a search compares fewer constructs (simple over overlapped)",
                at_counts(counts, simple_over_overlapped(probes)),
                1.1,
            ),
        ],
        picture,
        rows,
        differs=f"{_LISTS}; {_CHAINS}",
    )


FIGURES = {
    "vcr-lengths": lengths,
    "vcr-r-tree": against_r_tree,
    "vcr-hashing": hashing,
    "vcr-overlapped": overlapping,
}
