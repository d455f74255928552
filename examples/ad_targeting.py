"""Ad targeting: find the best campaigns for a visitor, and explain why the second best lost.

    python -m examples.ad_targeting [--campaigns 100000]

The example extends the one in the introduction of Sadoghi and Jacobsen, Relevance Matters. A
campaign describes whom it targets and weights its attributes; a visitor weights them, too. The
score of a matching campaign is the sum of the products. docs/ad-targeting.md explains it.
"""

from __future__ import annotations

import argparse
import random
import time

import tocsin

SCHEMA = {"credit_score": "integer", "visits": "integer", "age": "integer", "region": "category"}

CAMPAIGNS = [
    {
        "id": "platinum card",
        "where": "credit_score > 650 AND visits > 10 AND age BETWEEN 22 AND 36",
        "weights": {"credit_score": 0.4, "visits": 0.2, "age": 0.4},
    },
    {
        "id": "student loan",
        "where": "age BETWEEN 18 AND 30 AND credit_score > 550",
        "weights": {"credit_score": 0.3, "age": 0.45},
    },
    {
        "id": "frequent flyer",
        "where": "visits > 15 AND credit_score BETWEEN 600 AND 850",
        "weights": {"visits": 0.9, "credit_score": 0.1},
    },
    {
        "id": "mortgage",
        "where": "credit_score > 740 AND age BETWEEN 25 AND 50",
        "weights": {"credit_score": 0.8, "age": 0.2},
    },
]

VISITOR = {"credit_score": 732, "visits": 17, "age": 27}
# The visitor's weights; the example in the paper has no region.
WEIGHTS = {"credit_score": 0.2, "visits": 0.2, "age": 0.6, "region": 0.1}


def random_campaigns(n: int) -> list[dict]:
    """Return n random campaigns, each for a small group in one region; they are seeded."""
    rng = random.Random(1)
    campaigns = []
    for number in range(n):
        score, age = rng.randrange(300, 850), rng.randrange(18, 90)
        weights = {name: round(0.4 * rng.random(), 2) for name in ("credit_score", "age", "region")}
        campaigns.append(
            {
                "id": f"campaign {number}",
                "where": f"credit_score BETWEEN {score} AND {score + 40} AND "
                f"age BETWEEN {age} AND {age + 5} AND region = 'r{rng.randrange(50)}'",
                "weights": weights,
            }
        )
    return campaigns


def main(campaigns: int = 100_000) -> None:
    """Add the campaigns, find the three best and explain the result."""
    rules = tocsin.Rules(SCHEMA)
    start = time.perf_counter()
    rules.add_many(CAMPAIGNS + random_campaigns(campaigns - len(CAMPAIGNS)))
    print(f"{len(rules):,} campaigns in {time.perf_counter() - start:.1f} s")
    print(rules.plan())

    visitor = VISITOR | {"region": "r7"}
    best = rules.top(visitor, k=3, weights=WEIGHTS)
    print(f"\n{visitor}\n")
    for row in best.to_arrow().to_pylist():
        print(f"  {row['score']:.3f}  {row['rule']}")

    first, second = best.to_arrow()["rule"].to_pylist()[:2]
    print(f"\nWhy {second!r} lost to {first!r}:\n")
    for name in (first, second):
        print(rules.explain(visitor, name, WEIGHTS))

    print("\nAnd one that does not match at all:\n")
    print(rules.explain(visitor, "mortgage", WEIGHTS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=100_000)
    main(**vars(parser.parse_args()))
