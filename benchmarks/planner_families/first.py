"""The first twelve families: each is what one kind of user brings.

Run `python -m benchmarks.planner_families.first [size]` to see their sizes and their matches.
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np
import pandas as pd

from benchmarks.planner_families import Family, data, report, scaled, to_family

DELAYS = [15, 15, 20, 30, 30, 30, 45, 60, 60, 90, 120, 180]  # minutes that people ask for
BIG_AIRPORTS = ["JFK", "LGA", "EWR", "ATL", "ORD", "LAX", "DFW", "DEN", "SFO", "LAS", "MIA", "BOS"]


def flight_alerts(size: float, random: Random, draw: np.random.Generator) -> Family:
    flights = data.flights()
    rules = []
    for row in data.rows(flights, scaled(100_000, size), draw):
        flight = f"carrier = '{row['carrier']}' AND flight = {row['flight']}"
        delay = random.choice(DELAYS)
        form = random.random()
        if form < 0.45:
            rules.append(f"{flight} AND {random.choice(['dep', 'arr'])}_delay > {delay}")
        elif form < 0.7:
            route = f"origin = '{row['origin']}' AND dest = '{row['dest']}'"
            rules.append(f"{route} AND arr_delay >= {max(delay, 60)}")
        elif form < 0.85:
            day = f"month = {row['month']} AND day = {row['day']}"
            rules.append(f"{day} AND {flight} AND (dep_delay >= {delay} OR dep_time IS NULL)")
        elif form < 0.95:
            rules.append(f"{flight} AND dep_time IS NULL")
        else:
            low = random.choice([60, 90, 120])
            rules.append(f"dest = '{row['dest']}' AND arr_delay BETWEEN {low} AND {2 * low}")
    columns = "month day dep_time dep_delay arr_delay carrier flight origin dest"
    return to_family(
        "flight alerts",
        "Passengers of an airline app are told about delays and cancellations of their flight or "
        "route; most ask about the busy ones.",
        rules,
        _resample_or_all(flights, size, draw)[columns.split()],
    )


def fleet_lists(size: float, random: Random, draw: np.random.Generator) -> Family:
    flights = data.flights()
    flown = flights.dropna(subset=["tailnum"])
    fleets = flown.groupby("carrier")["tailnum"].unique()
    fleets = {carrier: sorted(tails) for carrier, tails in fleets.items()}
    extras: list[Callable[[dict], str]] = [
        lambda row: f" AND dest IN {_list(random.sample(BIG_AIRPORTS, random.randint(2, 5)))}",
        lambda row: f" AND distance > {random.choice([500, 1000, 1500, 2000])}",
        lambda row: f" AND arr_delay > {random.choice(DELAYS)}",
        lambda row: f" AND origin <> '{row['origin']}'",
        lambda row: f" AND month = {row['month']}",
    ]
    rules = []
    for row in data.rows(flown, scaled(12_000, size), draw):
        fleet = fleets[row["carrier"]]
        form = random.random()
        if form < 0.02:
            rules.append(f"tailnum IS NULL AND carrier = '{row['carrier']}'")
            continue
        if form < 0.03:
            known = random.sample(fleet, len(fleet) // 2)
            if known:
                rules.append(f"carrier = '{row['carrier']}' AND tailnum NOT IN {_list(known)}")
                continue
        length = min(random.choice([1, 2, 3, 5, 8, 12, 20, 60]), len(fleet))
        where = _one_of("tailnum", random.sample(fleet, length))
        rules.append(where + (random.choice(extras)(row) if random.random() < 0.7 else ""))
    columns = "month carrier tailnum origin dest distance arr_delay"
    return to_family(
        "fleet lists",
        "Lessors and maintenance shops follow lists of aircraft by tail number, partly only on "
        "some routes or when late.",
        rules,
        _resample_or_all(flights, size, draw)[columns.split()],
    )


def price_list(size: float, random: Random, draw: np.random.Generator) -> Family:
    edges = [0.18, 0.23, 0.3, 0.38, 0.46, 0.5, 0.7, 0.9, 1, 1.5, 2, 3, 4, 5]
    depths = ["depth < 60", "depth >= 60 AND depth < 62.5", "depth >= 62.5"]
    diamonds = data.diamonds()
    grades = (
        diamonds[["cut", "color", "clarity"]]
        .drop_duplicates()
        .sort_values(["cut", "color", "clarity"])
    )
    cells = [
        f"cut = '{cut}' AND color = '{color}' AND clarity = '{clarity}' "
        f"AND carat >= {low} AND carat < {high} AND {depth}"
        for cut, color, clarity in grades.itertuples(index=False)
        for low, high in zip(edges, [*edges[1:], 6])
        for depth in depths
    ]
    rules = random.sample(cells, min(scaled(len(cells), size), len(cells)))
    stones = data.resample(
        diamonds, scaled(400_000, size), draw, {"carat": (0.03, 2), "depth": (0.4, 1)}
    )
    return to_family(
        "price list",
        "A diamond dealer's price list: each stone falls into one cell of cut, color, clarity, "
        "weight and depth.",
        rules,
        stones,
    )


def diamond_searches(size: float, random: Random, draw: np.random.Generator) -> Family:
    best_first = {
        "cut": ["Ideal", "Premium", "Very Good", "Good", "Fair"],
        "color": list("DEFGHIJ"),
        "clarity": ["IF", "VVS1", "VVS2", "VS1", "VS2", "SI1", "SI2", "I1"],
    }
    diamonds = data.diamonds()
    rules = []
    for row in data.rows(diamonds, scaled(20_000, size), draw):
        step = 50 if row["price"] < 1000 else 500
        budget = max(round(row["price"] / step) * step, step)
        if random.random() < 0.05:
            rules.append(f"price <= {budget // 2} AND carat >= {row['carat']:.2f}")
            continue
        narrow = random.choice([0.05, 0.1, 0.2, 0.2, 0.4])
        tests = [f"price BETWEEN {int(budget * (1 - narrow))} AND {budget}"]
        size_wanted = max(0.2, round(row["carat"] * random.choice([0.8, 0.9, 1]), 1))
        if random.random() < 0.1:
            tests.append(f"(carat >= {size_wanted} OR x >= {6.4 * size_wanted ** (1 / 3):.1f})")
        elif random.random() < 0.7:
            tests.append(f"carat >= {size_wanted}")
        for column in random.sample(list(best_first), random.choice([1, 2, 2, 3, 3])):
            grades = best_first[column]
            last = grades.index(row[column]) + 1
            first = 0 if random.random() < 0.7 else max(0, last - 2)
            tests.append(_one_of(column, grades[first:last]))
        if random.random() < 0.15:
            tests.append(f"depth BETWEEN {random.choice([58, 59, 60])} AND 63")
        rules.append(" AND ".join(tests))
    stones = data.resample(
        diamonds, scaled(200_000, size), draw, {"price": (40, 0), "carat": (0.02, 2)}
    )
    return to_family(
        "diamond searches",
        "Shoppers save searches at a jeweller: a budget, a least weight, and the grades that are "
        "good enough; many are alike.",
        rules,
        stones,
    )


def weather_warnings(size: float, random: Random, draw: np.random.Generator) -> Family:
    weather = data.weather()
    above = {
        "temp": [70, 75, 80, 85, 90, 95], "wind_speed": [15, 20, 25, 30, 35, 40],
        "wind_gust": [20, 25, 30, 35, 40, 50, 60], "precip": [0, 0.01, 0.05, 0.1, 0.25, 0.5],
        "humid": [70, 80, 90, 95], "dewp": [60, 65, 70, 75],
    }  # fmt: skip
    below = {
        "temp": [50, 45, 40, 36, 32, 25, 20], "visib": [10, 5, 3, 2, 1, 0.5, 0.25],
        "pressure": [1015, 1010, 1005, 1000, 995], "humid": [40, 30, 25, 20],
    }  # fmt: skip
    sectors = ["(wind_dir >= 315 OR wind_dir <= 45)", "wind_dir BETWEEN 45 AND 135",
               "wind_dir BETWEEN 135 AND 225", "wind_dir BETWEEN 225 AND 315"]  # fmt: skip
    rules = []
    for _ in range(scaled(2500, size, least=200)):
        tests = []
        for column in random.sample(sorted(above | below), random.choice([1, 2, 2, 3])):
            high = column in above and (column not in below or random.random() < 0.5)
            level = random.choice((above if high else below)[column])
            tests.append(f"{column} {'>' if high else '<'} {level}")
        if random.random() < 0.6:
            tests.append(f"origin = '{random.choice(['JFK', 'LGA', 'EWR'])}'")
        if random.random() < 0.2:
            tests.append(random.choice(sectors))
        if random.random() < 0.2:
            tests.append(random.choice(["month IN (12, 1, 2)", "month BETWEEN 5 AND 9"]))
        if random.random() < 0.2:
            tests.append(random.choice(["hour BETWEEN 6 AND 9", "hour >= 22", "hour < 6"]))
        rules.append(" AND ".join(tests))
    readings = data.resample(
        weather,
        scaled(200_000, size),
        draw,
        {"temp": (1.5, 2), "dewp": (1.5, 2), "wind_speed": (1, 2), "pressure": (0.7, 1)},
    )
    return to_family(
        "weather warnings",
        "Airport crews, builders and farmers are warned when readings pass thresholds; rules are "
        "open on one side and match often.",
        rules,
        readings,
    )


def quality_checks(size: float, random: Random, draw: np.random.Generator) -> Family:
    flights = data.flights()
    rules = [
        "dep_time IS NULL AND arr_time IS NOT NULL",
        "dep_time IS NOT NULL AND arr_time IS NULL",
        "arr_time IS NOT NULL AND (arr_delay IS NULL OR air_time IS NULL)",
        "tailnum IS NULL AND dep_time IS NOT NULL",
        "origin NOT IN ('JFK', 'LGA', 'EWR')",
        "dep_delay < -30 OR dep_delay > 720",
        "arr_delay < -75 OR arr_delay > 720",
        "hour NOT BETWEEN 5 AND 23",
        "dep_time >= 2400 OR arr_time >= 2400",
        "month NOT BETWEEN 1 AND 12 OR day NOT BETWEEN 1 AND 31",
        "distance <= 0 OR distance IS NULL",
        "flight <= 0 OR flight > 7999",
    ]
    for carrier, flown in flights.groupby("carrier"):
        dests = flown["dest"].value_counts()
        rules.append(f"carrier = '{carrier}' AND origin NOT IN {_list(flown['origin'].unique())}")
        rules.append(f"carrier = '{carrier}' AND dest NOT IN {_list(dests.index[:10])}")
        rules.append(f"carrier = '{carrier}' AND tailnum IS NULL")
        most = int(flown["dep_delay"].quantile(0.99))
        rules.append(f"carrier = '{carrier}' AND (dep_delay > {most} OR arr_delay > {most + 30})")
    for low in range(0, 5000, 250):
        near = flights[flights["distance"].between(low, low + 249)]["air_time"]
        if near.notna().any():
            fast, slow = int(near.quantile(0.005)), int(near.quantile(0.995))
            rules.append(
                f"distance BETWEEN {low} AND {low + 249} AND (air_time < {fast} OR "
                f"air_time > {slow})"
            )
    for hour in range(5, 24):
        rules.append(f"hour = {hour} AND sched_dep_time NOT BETWEEN {hour}00 AND {hour}59")
        rules.append(f"hour = {hour} AND dep_time IS NULL")
    columns = (
        "month day dep_time sched_dep_time dep_delay arr_time arr_delay carrier flight tailnum "
        "origin dest air_time distance hour"
    )
    return to_family(
        "quality checks",
        "A data team runs some hundred checks for nulls and implausible values over every row of "
        "a large table.",
        random.sample(rules, min(scaled(len(rules), size, least=60), len(rules))),
        _resample_or_all(flights, size, draw)[columns.split()],
    )


def airport_geofences(size: float, random: Random, draw: np.random.Generator) -> Family:
    airports = data.airports()
    traffic = data.flights()["dest"].value_counts()
    weight = airports["faa"].map(traffic).fillna(0).to_numpy() + 40
    weight[airports["faa"].isin(["JFK", "LGA", "EWR"])] = 8000
    count = scaled(40_000, size)
    picked = airports.iloc[draw.choice(len(airports), count, p=weight / weight.sum())]
    rules = []
    for lat, lon, ground in picked[["lat", "lon", "alt"]].itertuples(index=False):
        if random.random() < 0.03:
            half = random.choice([2, 3, 5])
            lat, lon = round(lat + random.gauss(0, 3)), round(lon + random.gauss(0, 3))
        else:
            half = random.choice([0.01, 0.02, 0.05, 0.05, 0.1, 0.1, 0.25, 0.5])
            lat, lon = lat + random.gauss(0, half / 2), lon + random.gauss(0, half / 2)
        low, high = round(lon - 1.3 * half, 3), round(lon + 1.3 * half, 3)
        tests = [f"lat BETWEEN {lat - half:.3f} AND {lat + half:.3f}"]
        if low < -180:  # in the Aleutians a box crosses the date line
            tests.append(f"(lon >= {low + 360:.3f} OR lon <= {high})")
        else:
            tests.append(f"lon BETWEEN {low} AND {high}")
        if random.random() < 0.4:
            tests.append(f"altitude < {ground + random.choice([1000, 2500, 5000, 10000])}")
        elif random.random() < 0.2:
            tests.append(random.choice(["on_ground", "NOT on_ground"]))
        if random.random() < 0.1:
            tests.append(_one_of("carrier", random.sample(["UA", "B6", "EV", "DL", "AA"], 2)))
        rules.append(" AND ".join(tests))
    return to_family(
        "airport geofences",
        "Users of a flight tracker draw boxes around airports, small and wide, some with a "
        "ceiling; most are around the largest airports.",
        rules,
        _positions(scaled(300_000, size), draw),
    )


def duty_rosters(size: float, random: Random, draw: np.random.Generator) -> Family:
    flights = data.flights()
    begin = datetime.datetime(2013, 1, 1, 5)
    posts = flights[["origin", "carrier"]].drop_duplicates().sort_values(["origin", "carrier"])
    posts = [tuple(post) for post in posts.itertuples(index=False)]
    rules = []
    for _ in range(scaled(30_000, size)):
        origin, carrier = random.choice(posts)
        form = random.random()
        if form < 0.93:
            start = begin + datetime.timedelta(days=random.randrange(365))
            start += datetime.timedelta(hours=8 * random.randrange(3))
            end = start + datetime.timedelta(hours=8)
        elif form < 0.98:
            start = begin.replace(hour=0) + datetime.timedelta(days=7 * random.randrange(52))
            end = start + datetime.timedelta(days=7)
        else:
            days = f"weekday IN ({', '.join(map(str, sorted(random.sample(range(7), 2))))})"
            hour = random.choice([10, 12, 14, 18, 20])
            rules.append(
                f"{days} AND hour >= {hour - 4} AND hour < {hour} AND origin = '{origin}' "
                f"AND carrier = '{carrier}'"
            )
            continue
        window = f"departure >= '{start:%Y-%m-%d %H:%M}' AND departure < '{end:%Y-%m-%d %H:%M}'"
        where = f"{window} AND origin = '{origin}' AND carrier = '{carrier}'"
        if random.random() < 0.1:
            where += f" AND dep_delay > {random.choice(DELAYS)}"
        rules.append(where)
    columns = "departure weekday hour origin carrier dep_delay"
    return to_family(
        "duty rosters",
        "A ground handler assigns departures to shifts of eight hours per airport and airline, "
        "and to some weekly tasks.",
        rules,
        _resample_or_all(flights, size, draw)[columns.split()],
    )


def film_searches(size: float, random: Random, draw: np.random.Generator) -> Family:
    movies = data.movies()
    genres = ["Action", "Animation", "Comedy", "Drama", "Documentary", "Romance", "Short"]
    decades = [1920, 1930, 1940, 1950, 1960, 1970, 1980, 1990, 1990, 2000, 2000]
    rules = []
    for _ in range(scaled(20_000, size)):
        tests = []
        liked = random.choices(genres, [5, 2, 6, 6, 2, 4, 1], k=2)
        if liked[0] == liked[1] or random.random() < 0.5:
            tests.append(liked[0])
        elif random.random() < 0.3:
            tests.append(f"({liked[0]} OR {liked[1]})")
        else:
            tests += liked
        if random.random() < 0.5:
            disliked = random.choice(["Short", "Short", "Documentary", "Animation", "Romance"])
            if disliked not in liked:
                tests.append(f"NOT {disliked}")
        decade = random.choice(decades)
        if random.random() < 0.4:
            tests.append(f"year BETWEEN {decade} AND {decade + random.choice([4, 9, 9, 19])}")
        elif random.random() < 0.5:
            tests.append(f"year >= {decade}")
        tests.append(f"rating >= {random.choice([6, 6.5, 7, 7, 7.5, 8, 8, 8.5, 9])}")
        if random.random() < 0.7:
            tests.append(f"votes >= {random.choice([20, 50, 100, 500, 1000, 1000, 5000])}")
        if random.random() < 0.3:
            tests.append(
                random.choice(["length <= 90", "length BETWEEN 80 AND 120", "length < 20"])
            )
        if random.random() < 0.2:
            tests.append(random.choice(["mpaa = 'PG'", "mpaa IN ('PG', 'PG-13')", "mpaa IS NULL",
                                        "mpaa NOT IN ('R', 'NC-17')"]))  # fmt: skip
        if random.random() < 0.1:
            tests.append(random.choice(["budget > 10000000", "budget < 1000000", "budget IS NULL"]))
        rules.append(" AND ".join(tests))
    return to_family(
        "film searches",
        "Members of a film club combine genres, years, ratings, votes and length, five attributes "
        "and more; genres are flags.",
        rules,
        data.resample(movies, scaled(150_000, size), draw),
    )


def gene_regions(size: float, random: Random, draw: np.random.Generator) -> Family:
    cutoffs = ["5e-8", "1e-6", "1e-5", "1e-4", "0.001", "0.01"]
    variants = data.variants()
    rules = []
    for row in data.rows(data.genes(), scaled(18_000, size), draw):
        flank = random.choice([0, 0, 1000, 5000, 20_000, 50_000, 250_000])
        region = f"pos BETWEEN {max(row['start'] - flank, 0)} AND {row['end'] + flank}"
        where = f"chr = {row['chr']} AND {region}"
        rules.append(
            where + (f" AND p < {random.choice(cutoffs)}" if random.random() < 0.3 else "")
        )
    for row in data.rows(variants, scaled(2000, size), draw):
        if random.random() < 0.8:
            width = random.choice([1, 1, 5, 10]) * 1_000_000
            start = row["pos"] // width * width
            region = f"chr = {row['chr']} AND pos >= {start} AND pos < {start + width}"
        else:  # without the region that is full of signals
            region = f"chr <> {row['chr']} AND NOT (chr = 6 AND pos BETWEEN 25000000 AND 34000000)"
        rules.append(f"{region} AND p <= {random.choice(cutoffs)}")
    return to_family(
        "gene regions",
        "Geneticists annotate variants: each gene with its flanks on a chromosome, and regions of "
        "megabases with a cutoff of p; ranges are narrow and wide, nested and disjoint.",
        rules,
        _resample_or_all(variants, size, draw),
    )


def price_crossings(size: float, random: Random, draw: np.random.Generator) -> Family:
    symbols = [
        f"{letters}{number}" for letters in ("AX", "BQ", "CM", "DT") for number in range(100)
    ]
    days = scaled(300_000, size) // len(symbols)
    moves = draw.choice(data.returns(), (days, len(symbols)))
    opening = np.round(np.exp(draw.normal(3.5, 1, len(symbols))) + 1, 2)
    close = np.round(opening * np.cumprod(1 + np.vstack([np.zeros(len(symbols)), moves]), 0), 2)
    previous, price = close[:-1].ravel(), close[1:].ravel()
    ticks = pd.DataFrame({
        "symbol": np.tile(symbols, days), "previous": previous, "price": price,
        "change": np.round((price - previous) / previous * 100, 2),
        "volume": draw.lognormal(9, 1.5, days * len(symbols)).astype(np.int64) * 100,
    })  # fmt: skip
    ranks = 1 / np.arange(1, len(symbols) + 1) ** 0.7
    rules = []
    for at in draw.choice(len(symbols), scaled(80_000, size), p=ranks / ranks.sum()).tolist():
        symbol = f"symbol = '{symbols[at]}'"
        seen = close[random.randrange(days), at]
        level = seen * random.choice([0.7, 0.8, 0.9, 0.95, 1.05, 1.1, 1.2, 1.5])
        level = round(level) if level > 20 else round(level, 1)
        form = random.random()
        if form < 0.45:
            rules.append(f"{symbol} AND previous < {level} AND price >= {level}")
        elif form < 0.85:
            rules.append(f"{symbol} AND previous > {level} AND price <= {level}")
        elif form < 0.9:
            rules.append(f"{symbol} AND (price < {level * 0.5:.2f} OR price > {level * 1.5:.2f})")
        elif form < 0.97:
            change = random.choice([2, 3, 5, 5, 10])
            rules.append(f"{symbol} AND change {random.choice(['> ', '< -'])}{change}")
        else:
            rules.append(f"{symbol} AND volume > {random.choice([5, 10, 50])}00000 AND change < 0")
    return to_family(
        "price crossings",
        "Customers of a broker are alerted when a share crosses a level: the previous price is "
        "on one side, the new one on the other.",
        rules,
        ticks,
    )


def operations_segments(size: float, random: Random, draw: np.random.Generator) -> Family:
    context = data.flights_in_context()
    text = (
        "month day weekday hour dep_time dep_delay arr_delay carrier tailnum origin dest air_time "
        "distance built manufacturer model engines seats engine temp dewp humid wind_dir "
        "wind_speed wind_gust precip pressure visib"
    )
    columns = text.split()
    context = context[columns]
    numbers = [name for name in columns if context[name].dtype.kind in "if"]
    levels = {name: context[name].quantile(np.linspace(0, 1, 41)).tolist() for name in numbers}
    values = {
        name: sorted(context[name].dropna().unique())
        for name in columns
        if name not in numbers and name != "tailnum"
    }
    rules = []
    for row in data.rows(context, scaled(20_000, size), draw):
        names = {random.choice(["origin", "carrier", "dest", "month", "hour"]): None}
        names |= dict.fromkeys(random.sample(columns, random.randint(5, 8)))
        names.pop("tailnum", None)
        tests = [
            _number_test(name, row[name], levels[name], random)
            if name in levels
            else _category_test(name, row[name], values[name], random)
            for name in names
            if row[name] is not None or random.random() < 0.2
        ]
        rules.append(" AND ".join(tests))
    return to_family(
        "operations segments",
        "Analysts of an airline cut flights by schedule, plane and weather: mostly five "
        "to eight of 27 attributes, with all kinds of tests in one set of rules.",
        rules,
        data.resample(context, scaled(150_000, size), draw),
    )


FAMILIES = [
    flight_alerts, fleet_lists, price_list, diamond_searches, weather_warnings, quality_checks,
    airport_geofences, duty_rosters, film_searches, gene_regions, price_crossings,
    operations_segments,
]  # fmt: skip


def families(size: float = 1.0) -> Iterator[Family]:
    """Build the families one by one; size scales the numbers of rules and of events."""
    for number, build in enumerate(FAMILIES):
        yield build(size, Random(number), np.random.default_rng(number))


def _resample_or_all(frame: pd.DataFrame, size: float, draw: np.random.Generator) -> pd.DataFrame:
    """Return the table itself at size 1, in the order in which its events came."""
    return frame if size == 1 else data.resample(frame, scaled(len(frame), size), draw)


def _list(values: Sequence[str]) -> str:
    return "(" + ", ".join(f"'{value}'" for value in values) + ")"


def _one_of(column: str, values: Sequence[str]) -> str:
    return f"{column} = '{values[0]}'" if len(values) == 1 else f"{column} IN {_list(values)}"


def _number_test(name: str, value: float | None, levels: list[float], random: Random) -> str:
    """Write a test that the value passes."""
    if value is None:
        return f"{name} IS NULL"
    form = random.random()
    if name in ("month", "weekday", "hour", "engines") and form < 0.4:
        return f"{name} = {value}"
    above = [f"{level:.2f}".rstrip("0").rstrip(".") for level in levels if level >= value]
    below = [f"{level:.2f}".rstrip("0").rstrip(".") for level in levels if level <= value]
    if form < 0.6:
        return f"{name} >= {random.choice(below[-10:])}"
    if form < 0.8:
        return f"{name} <= {random.choice(above[:10])}"
    return f"{name} BETWEEN {random.choice(below[-6:])} AND {random.choice(above[:6])}"


def _category_test(name: str, value: str | None, values: list[str], random: Random) -> str:
    if value is None:
        return f"{name} IS NULL"
    others = [other for other in random.sample(values, min(len(values), 4)) if other != value]
    form = random.random()
    if form < 0.5 or not others:
        return f"{name} = '{value}'"
    if form < 0.8:
        return _one_of(name, [value, *others[:2]])
    return f"{name} NOT IN {_list(others)}"


def _positions(count: int, draw: np.random.Generator) -> pd.DataFrame:
    """Place aircraft along the way from New York to where they went, more of them near the ends."""
    airports = data.airports().set_index("faa")
    trips = data.resample(data.flights(), count, draw)
    trips = trips[trips["dest"].isin(airports.index)].reset_index(drop=True)
    start, end = airports.loc[trips["origin"]], airports.loc[trips["dest"]]
    part = draw.beta(0.6, 0.6, len(trips))
    part[draw.random(len(trips)) < 0.05] = 0
    part[draw.random(len(trips)) < 0.05] = 1
    on_ground = (part == 0) | (part == 1)
    sway = np.where(on_ground, 0.004, 0.15)
    ground = start["alt"].to_numpy() * (1 - part) + end["alt"].to_numpy() * part
    climb = np.minimum(1, 8 * np.minimum(part, 1 - part)) * draw.choice(
        [24, 31, 33, 35, 37], len(part)
    )
    altitude = np.round((ground + 1000 * climb) / 25) * 25
    frame = pd.DataFrame({
        "lat": start["lat"].to_numpy() * (1 - part) + end["lat"].to_numpy() * part,
        "lon": start["lon"].to_numpy() * (1 - part) + end["lon"].to_numpy() * part,
        "altitude": np.where(draw.random(len(part)) < 0.02, np.nan, altitude),
        "on_ground": on_ground, "carrier": trips["carrier"],
    })  # fmt: skip
    for column in ("lat", "lon"):
        frame[column] = np.round(frame[column] + draw.normal(0, 1, len(part)) * sway, 5)
    return frame


if __name__ == "__main__":
    report(families)
