"""The second twelve families, for a final examination: nothing may be tuned to them.

Run `python -m benchmarks.planner_families.second [size]` to see their sizes and their matches.
"""

import itertools
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.planner_families import Family, data, report, scaled, to_family

CODES = (
    "DE FR NL BE AT PL IT ES CZ DK SE PT HU RO GR IE FI SK BG HR LT SI LV EE LU CY MT GB US CH NO "
    "CN JP CA AU TR BR MX IN KR IL ZA AE SG NZ AR CL UA RS TH"
)
COUNTRIES = CODES.split()
EU = COUNTRIES[:27]
FOUR_LETTERS = list(itertools.product("ABCDEFGHIKLMNOPRSTUVWXYZ", repeat=4))


def log_alerts(size: float, random: Random, draw: np.random.Generator) -> Family:
    teams = "auth billing cart catalog checkout mail media orders search shipping stock users"
    parts = "api worker gateway cache db sync cron proxy batch stream"
    services = [f"{team}-{part}" for team in teams.split() for part in parts.split()]
    random.shuffle(services)
    hosts = [f"ip-10-{n // 250}-{n % 250}" for n in range(4_000)]
    paths = [f"/v{v}/{team}{end}" for v in (1, 2, 3) for team in teams.split()
             for end in ("", "/list", "/detail", "/export", "/admin/keys")]  # fmt: skip
    count = scaled(400_000, size)
    levels = ["DEBUG", "INFO", "WARN", "ERROR", "FATAL"]
    is_request = draw.random(count) < 0.6
    codes = [200, 201, 204, 302, 400, 401, 403, 404, 429, 500, 502, 503]
    shares = [0.78, 0.04, 0.03, 0.04, 0.02, 0.02, 0.005, 0.04, 0.005, 0.01, 0.005, 0.005]
    events = pd.DataFrame({
        "ts": _times("2024-06-03", 1, count, draw),
        "service": _popular(services, count, draw),
        "host": _popular(hosts, count, draw, skew=0.3),
        "level": draw.choice(levels, count, p=[0.3, 0.6, 0.07, 0.0295, 0.0005]),
        "status": pd.Series(draw.choice(codes, count, p=shares), dtype="Int64").where(is_request),
        "latency_ms": np.where(is_request, draw.lognormal(3.5, 1.2, count).round(1), np.nan),
        "path": np.where(is_request, _popular(paths, count, draw), None),
    })  # fmt: skip
    # The archive, the pager of last resort, then what the teams want.
    rules = ["level <> 'DEBUG'", "level = 'FATAL' OR status = 503 AND latency_ms > 10000"]
    for service in _popular(services, scaled(5_000, size) - 2, draw, skew=0.6):
        form = random.random()
        slow = random.choice([200, 300, 500, 500, 1000, 1000, 2000, 3000, 5000])
        path = random.choice(paths)
        if form < 0.35:
            rules.append(f"service = '{service}' AND level IN ('ERROR', 'FATAL')")
        elif form < 0.5:
            rules.append(f"service = '{service}' AND latency_ms > {slow}")
        elif form < 0.65:
            rules.append(f"path LIKE '{path}%' AND latency_ms >= {slow} AND status < 500")
        elif form < 0.8:
            start = path[: random.randint(6, 14)]
            rules.append(f"path LIKE '{start}%' AND status BETWEEN 500 AND 599")
        elif form < 0.9:
            rules.append(f"host = '{random.choice(hosts)}' AND level NOT IN ('DEBUG', 'INFO')")
        elif form < 0.95:
            rules.append(f"NOT (status BETWEEN 200 AND 399) AND service = '{service}'")
        else:
            hour = f"2024-06-03 {random.randrange(24):02}"
            window = f"ts BETWEEN '{hour}:{random.choice([0, 15, 30]):02}:00' AND '{hour}:59:59'"
            rules.append(f"{window} AND service = '{service}' AND level <> 'DEBUG'")
    return to_family("log alerts", "Teams are alerted by lines of log.", rules, events)


def trade_surveillance(size: float, random: Random, draw: np.random.Generator) -> Family:
    symbols = ["".join(letters) for letters in random.sample(FOUR_LETTERS, 2_000)]
    venues = ["XETR", "XFRA", "XPAR", "XLON", "XMIL", "XAMS", "TRQX", "CEUX", "AQXE", "XSTU"]
    count = scaled(300_000, size)
    close = pd.Series(draw.lognormal(3.5, 1.1, len(symbols)).round(2), symbols)
    symbol = _popular(symbols, count, draw)
    price = close[symbol].to_numpy() * (1 + 0.02 * draw.standard_t(4, count))
    spread = price * draw.lognormal(-7.5, 1, count)
    accounts = [f"A{n:05}" for n in range(20_000)]
    events = pd.DataFrame({
        "ts": _times("2024-03-11 08:00", 10 / 24, count, draw), "symbol": symbol,
        "venue": _popular(venues, count, draw), "account": _popular(accounts, count, draw, 0.7),
        "buy": draw.random(count) < 0.5, "price": price.round(2),
        "qty": draw.choice([1, 5, 10, 50, 100, 200, 500, 1000, 5000, 20_000], count),
        "close": close[symbol].to_numpy(), "bid": (price - spread).round(3),
        "ask": (price + spread).round(3),
    })  # fmt: skip
    rules = []
    for name in _popular(symbols, scaled(400, size), draw, skew=0.8):
        form = random.random()
        if form < 0.25:
            rules.append(f"price * qty >= {random.choice([1, 2, 3, 5, 10])}000000 AND "
                         f"venue NOT IN {_texts(random.sample(venues, 3))}")  # fmt: skip
        elif form < 0.5:
            limit = random.choice([0.05, 0.08, 0.1, 0.1, 0.15, 0.2])
            listed = _texts(random.sample(symbols, random.choice([1, 5, 40])))
            rules.append(f"abs(price / close - 1) > {limit} AND symbol IN {listed}")
        elif form < 0.65:
            end = f"hour(ts) = 17 AND minute(ts) >= {random.choice([25, 50, 55])}"
            rules.append(f"{end} AND symbol = '{name}' AND qty >= {random.choice([500, 1000])}")
        elif form < 0.8:
            watched = _texts(random.sample(accounts, random.randint(2, 30)))
            rules.append(f"account IN {watched} AND (buy OR price * qty > 100000)")
        elif form < 0.9:
            wide = random.choice([0.002, 0.005, 0.01])
            rules.append(f"(ask - bid) / price > {wide} AND venue = '{random.choice(venues)}'")
        else:
            rules.append(f"(price > ask * 1.001 OR price < bid * 0.999) AND symbol = '{name}'")
    what = "A market watches trades by few rules, most of them over computed terms."
    return to_family("trade surveillance", what, rules, events)


def card_watchlists(size: float, random: Random, draw: np.random.Generator) -> Family:
    merchants = [f"M{n:06}" for n in range(20_000)]
    count = scaled(400_000, size)
    bins = draw.integers(400_000, 559_999, 3_000)
    purpose = [5411, 5812, 5541, 5732, 5999, 4111, 7995, 6051, 4829, 5944, 7273, 5967]
    events = pd.DataFrame({
        "merchant": _popular(merchants, count, draw, skew=0.8),
        "country": _popular(COUNTRIES, count, draw, skew=1.2),
        "bin": _popular(bins, count, draw, skew=0.6), "mcc": _popular(purpose, count, draw),
        "amount": draw.lognormal(3.2, 1.1, count).round(2),
        "contactless": draw.random(count) < 0.6,
    })  # fmt: skip
    rules = []
    for _ in range(scaled(120, size)):
        lists = {
            "merchant": _texts(random.sample(merchants, random.choice([50, 200, 1000, 2000]))),
            "bin": _numbers(random.sample(list(bins), random.choice([20, 60, 100, 300]))),
            "country": _texts(random.sample(COUNTRIES, random.randint(3, 25))),
            "mcc": _numbers(random.sample(purpose, random.randint(2, 5))),
        }
        over = f"amount > {random.choice([50, 100, 100, 150, 250, 500])}"
        rules.append(random.choice([
            f"merchant IN {lists['merchant']}", f"bin IN {lists['bin']} AND {over}",
            f"bin IN {lists['bin']} AND NOT contactless AND country NOT IN {lists['country']}",
            f"mcc IN {lists['mcc']} AND {over} AND country IN {lists['country']}",
            f"merchant IN {lists['merchant']} AND bin IN {lists['bin']}",
        ]))  # fmt: skip
    return to_family("card watchlists", "A bank's long lists over payments.", rules, events)


def sensor_bands(size: float, random: Random, draw: np.random.Generator) -> Family:
    count = scaled(300_000, size)
    station = draw.integers(0, 1_500, count)
    temp = draw.normal(14, 9, count)
    events = pd.DataFrame({
        "station": [f"st-{n}" for n in station], "temp": temp.round(1),
        "humidity": np.clip(85 - temp + draw.normal(0, 14, count), 5, 100).round(),
        "pressure": draw.normal(1013, 9, count).round(1),
        "co2": draw.lognormal(6.2, 0.3, count).round(),
        "battery": np.where(station % 3 == 0, np.nan, 100 * draw.beta(4, 1.5, count)).round(),
        "charging": draw.random(count) < 0.15,
    })  # fmt: skip
    widths = {"temp": [2, 3, 5, 5, 10], "humidity": [5, 10, 10, 20], "pressure": [3, 5, 10],
              "co2": [50, 100, 100, 250], "battery": [5, 10, 20, 25]}  # fmt: skip
    rules = []
    for row in data.rows(events, scaled(20_000, size), draw):
        form = random.random()
        if form < 0.9:
            tests = []
            for column in random.sample(list(widths), random.choice([3, 3, 4])):
                width = random.choice(widths[column])
                middle = row[column] if row[column] is not None else 80
                low = round((middle - width * random.random()) / width * 2) * width / 2
                tests.append(f"{column} BETWEEN {low:g} AND {low + width:g}")
            rules.append(" AND ".join(tests))
        elif form < 0.95:
            rules.append(f"station = '{row['station']}' AND (temp < {random.randint(-8, 2)} OR "
                         f"battery < {random.choice([10, 15, 20])})")  # fmt: skip
        elif form < 0.998:
            limit = random.choice([25, 28, 30, 32])
            rules.append(f"temp * 1.8 + 32 > 90 AND NOT charging AND humidity > {limit + 5} AND "
                         f"station <> '{row['station']}' AND co2 > {limit * 30}")  # fmt: skip
        else:
            rules.append(f"battery IS NULL AND station = '{row['station']}'")
    return to_family("sensor bands", "Bands of three or four readings.", rules, events)


def network_blocks(size: float, random: Random, draw: np.random.Generator) -> Family:
    count, rules = scaled(100_000, size), []
    top = [n << 22 for n in random.sample(range(4, 895), 300)]
    blocks = [(start, 10) for start in top]
    providers = []
    for _ in range(count // 12):
        prefix = random.choice([14, 15, 16, 16, 17, 18, 19, 20, 20])
        providers.append((_inside(random.choice(top), 10, prefix, random), prefix))
    blocks += providers
    while len(blocks) < count:
        start, outer = random.choice(providers)
        prefix = random.choice([22, 23, 24, 24, 24, 24, 25, 26, 27, 28, 29, 32])
        blocks.append((_inside(start, outer, prefix, random), prefix))
    blocks = blocks[:count]
    for start, prefix in blocks:
        end = start + (1 << 32 - prefix)
        if prefix == 32:
            rules.append(f"address = {start}")
        elif random.random() < 0.5:
            rules.append(f"address BETWEEN {start} AND {end - 1}")
        else:
            rules.append(f"address >= {start} AND address < {end}")
    # Most traffic is with known networks, and the rest scans the whole space.
    chosen = [blocks[n] for n in draw.integers(0, count, scaled(300_000, size))]
    sizes = np.array([1 << 32 - prefix for _, prefix in chosen])
    known = np.array([start for start, _ in chosen]) + draw.integers(0, sizes)
    scans = draw.integers(0, 1 << 32, len(known))
    events = pd.DataFrame({"address": np.where(draw.random(len(known)) < 0.7, known, scans)})
    return to_family("network blocks", "Owners of nested address blocks.", rules, events)


def course_feedback(size: float, random: Random, draw: np.random.Generator) -> Family:
    marks = data.evaluations()
    rules = []
    for row in data.rows(marks, scaled(30_000, size), draw):
        form = random.random()
        low = random.randint(1, 3)
        if form < 0.4:
            rules.append(f"d = {row['d']} AND y <= {random.choice([1, 2, 2, 3])}")
        elif form < 0.65:
            rules.append(f"s = {row['s']} AND y IN (1, 5)")
        elif form < 0.85:
            others = random.sample(range(1, 2_161), random.randint(2, 11))
            rules.append(f"d IN {_numbers([row['d'], *others])} AND service = 1 AND y > {low}")
        elif form < 0.95:
            rules.append(f"s BETWEEN {row['s'] // 50 * 50} AND {row['s'] // 50 * 50 + 49} AND "
                         f"dept = {row['dept']} AND y BETWEEN {low} AND {low + 1}")  # fmt: skip
        else:
            rules.append(f"dept = {row['dept']} AND studage >= {row['studage']} AND "
                         f"NOT (y BETWEEN 2 AND 4) AND lectage = {row['lectage']}")  # fmt: skip
    events = data.resample(marks, scaled(150_000, size), draw)
    return to_family("course feedback", "Real marks of lecturers, from 1 to 5.", rules, events)


def ticket_routing(size: float, random: Random, draw: np.random.Generator) -> Family:
    products = [f"PX-{n}" for n in range(2_500)]
    subjects = ("refund login invoice crash slow broken late cancel upgrade password export "
             "missing delivery warranty error question thanks update address discount")  # fmt: skip
    words = subjects.split()
    partners = [f"partner-{n}" for n in range(40)]
    languages = ["en", "de", "fr", "es", "it", "nl", "pl", "pt", "sv", "da", "ja", "ko"]
    count = scaled(150_000, size)
    openings = np.array(["", "", "", "", "Re: ", "Fwd: ", "URGENT: ", "[web] "], dtype=object)
    opening = draw.choice(openings, count)
    first, second = (pd.Series(_popular(words, count, draw, skew)) for skew in (0.5, 1))
    events = pd.DataFrame({
        "subject": opening + first.str.title() + " " + second,
        "product": _popular(products, count, draw, skew=0.9),
        "language": _popular(languages, count, draw),
        "priority": draw.choice([1, 2, 3, 3, 3, 4], count),
        "tier": draw.choice(["basic", "basic", "plus", "platinum"], count),
        "vip": draw.random(count) < 0.02, "reopened": draw.random(count) < 0.1,
        "partner": np.where(draw.random(count) < 0.03, _popular(partners, count, draw), None),
        "waiting_hours": np.where(draw.random(count) < 0.3, draw.exponential(20, count), np.nan),
    })  # fmt: skip
    rules = ["priority <= 4", "language NOT IN ('en', 'de')", "vip", "partner IS NOT NULL"]
    for product in _popular(products, scaled(800, size) - 4, draw, skew=0.6):
        form = random.random()
        word, language = random.choice(words), random.choice(languages)
        if form < 0.3:
            rules.append(f"product = '{product}' AND (vip OR tier = 'platinum' OR priority = 1)")
        elif form < 0.5:
            rules.append(f"lower(subject) LIKE '%{word}%' AND language = '{language}' AND "
                         f"product IN {_texts(random.sample(products, 60))}")  # fmt: skip
        elif form < 0.65:
            start = random.choice(["URGENT%", "Re: %", "Fwd: %", "[web]%"])
            rules.append(f"subject LIKE '{start}' AND product = '{product}' AND NOT reopened")
        elif form < 0.8:
            urgent = f"(priority <= 2 OR waiting_hours > {random.choice([24, 48, 72])})"
            rules.append(f"partner = '{random.choice(partners)}' AND NOT vip AND {urgent}")
        elif form < 0.9:
            rules.append(f"product = '{product}' AND waiting_hours >= {random.choice([24, 48])}")
        else:
            same = f"product = '{product}' OR lower(subject) = '{word} {random.choice(words)}'"
            rules.append(f"({same}) AND NOT (language = '{language}' OR tier = 'basic')")
    return to_family("ticket routing", "A help desk; some rules get all.", rules, events)


def parcel_tariffs(size: float, random: Random, draw: np.random.Generator) -> Family:
    count = scaled(250_000, size)
    sides = np.sort(draw.lognormal(3.1, 0.6, (count, 3)).round(), axis=1)
    events = pd.DataFrame({
        "sender": _popular(COUNTRIES, count, draw, 1.3),
        "receiver": _popular(COUNTRIES, count, draw),
        "postcode": [f"{n:05}" for n in draw.integers(1_000, 99_999, count)],
        "weight": draw.lognormal(0.7, 1.1, count).round(2), "length": sides[:, 2],
        "width": sides[:, 1], "height": sides[:, 0],
        "worth": np.where(draw.random(count) < 0.6, draw.lognormal(4, 1, count).round(2), np.nan),
        "fragile": draw.random(count) < 0.08,
    })  # fmt: skip
    bands = [0, 0.5, 1, 2, 3, 5, 10, 15, 20, 25, 31.5, 70]
    wanted, rules = scaled(40_000, size), []
    while len(rules) < wanted:
        sender = _popular(COUNTRIES, 1, draw, 1.3)[0]
        zone = random.sample(COUNTRIES, random.choice([1, 1, 1, 1, 1, 2, 4, 9]))
        receivers = f"receiver IN {_texts(zone)}" if len(zone) > 1 else f"receiver = '{zone[0]}'"
        fits = random.choice([
            "length <= 120 AND length + 2 * width + 2 * height <= 300",
            "length <= 60 AND width <= 40 AND height <= 25", "length < 200", "NOT fragile",
            "length * width * height / 5000 <= 31.5",
        ])  # fmt: skip
        edges = sorted(random.sample(bands[1:], random.randint(4, 9)))
        for low, high in zip([0, *edges], edges, strict=False):
            rules.append(f"sender = '{sender}' AND {receivers} AND weight > {low} AND "
                         f"weight <= {high} AND {fits}")  # fmt: skip
        if random.random() < 0.25:  # remote areas and customs cost extra
            postcode = f"{random.randint(10, 999)}"
            rules.append(f"postcode LIKE '{postcode}%' AND {receivers} AND weight > 5")
            rules.append(f"worth >= {random.choice([22, 150, 1000])} AND {receivers} AND "
                         f"sender NOT IN {_texts(EU)}")  # fmt: skip
    return to_family("parcel tariffs", "Bands of weight by countries.", rules[:wanted], events)


def matchmaking(size: float, random: Random, draw: np.random.Generator) -> Family:
    modes = ["blitz", "rapid", "bullet", "daily", "puzzle duel", "chess960"]
    regions = ["eu-west", "us-east", "asia", "us-west", "eu-east", "brazil", "oceania"]
    count = scaled(200_000, size)
    events = pd.DataFrame({
        "rating": draw.normal(1500, 320, count).round().astype(int),
        "mode": _popular(modes, count, draw, 0.8), "region": _popular(regions, count, draw, 0.7),
        "ping": draw.lognormal(3.9, 0.5, count).round(), "age": draw.integers(10, 70, count),
        "rated": draw.random(count) < 0.7, "muted": draw.random(count) < 0.05,
        "played": draw.geometric(0.004, count),
    })  # fmt: skip
    rules = []
    for row in data.rows(events, scaled(15_000, size), draw):
        below, above = random.choice([(25, 25), (50, 50), (50, 100), (100, 100), (200, 50)])
        rating = f"rating BETWEEN {row['rating'] - below} AND {row['rating'] + above}"
        rated = "rated" if row["rated"] else "NOT rated"
        near = _texts({row["region"], *random.sample(regions, random.choice([0, 0, 1, 2]))})
        where = f"{rating} AND mode = '{row['mode']}' AND {rated}"
        form = random.random()
        if form < 0.6:
            where += f" AND region IN {near} AND ping <= {random.choice([60, 80, 100, 150])}"
        elif form < 0.8:
            where += f" AND NOT muted AND played >= {random.choice([10, 50, 100, 250])}"
        elif form < 0.999:
            where += f" AND age BETWEEN {row['age'] - 5} AND {row['age'] + 5}"
        else:  # happy with anybody
            where = f"mode = '{row['mode']}' AND NOT muted"
        rules.append(where)
    return to_family("matchmaking", "Waiting players and newcomers.", rules, events)


def tree_leaves(size: float, random: Random, draw: np.random.Generator) -> Family:
    seasons = data.seasons()
    columns = ["year", "g", "ab", "r", "h", "hr", "rbi", "sb", "cs", "bb", "so", "gidp"]
    rules: list[str] = []

    def grow(rows: pd.DataFrame, bounds: dict[str, tuple[float, float]]) -> None:
        column = random.choice(columns)
        cut = rows[column].quantile(random.uniform(0.2, 0.8)) if len(rows) > 25 else np.nan
        if not cut < rows[column].max():  # too few rows, or all the same
            if bounds:
                rules.append(" AND ".join(
                    f"{name} > {low:g} AND {name} <= {high:g}" if -np.inf < low and high < np.inf
                    else f"{name} <= {high:g}" if high < np.inf else f"{name} > {low:g}"
                    for name, (low, high) in bounds.items()))  # fmt: skip
            return
        cut = np.floor(cut) + 0.5
        low, high = bounds.get(column, (-np.inf, np.inf))
        grow(rows[rows[column] <= cut], bounds | {column: (low, cut)})
        grow(rows[rows[column] > cut], bounds | {column: (cut, high)})

    for _ in range(max(round(80 * size), 2)):
        grow(seasons[columns].iloc[draw.integers(0, len(seasons), 2_500)], {})
    events = data.resample(seasons[columns], scaled(200_000, size), draw)
    what = "The leaves of a forest of decision trees, as conjunctions of bounds."
    return to_family("tree leaves", what, rules, events)


def fault_codes(size: float, random: Random, draw: np.random.Generator) -> Family:
    count = scaled(200_000, size)
    codes = [f"p{n:04}" for n in sorted(random.sample(range(100, 2_600), 40))]
    shares = dict(zip(codes, 0.3 * draw.power(0.25, len(codes)), strict=True))
    models = [f"{maker} {n}" for maker in ("Axel", "Borea", "Cirrus", "Dorn") for n in range(1, 13)]
    events = pd.DataFrame({
        "model": _popular(models, count, draw, 0.5), "built": draw.integers(2004, 2024, count),
        "mileage": draw.gamma(2.5, 40_000, count).round(-2),
    } | {
        code: np.where(draw.random(count) < share, draw.exponential(10, count).round(1), np.nan)
        for code, share in shares.items()
    })  # fmt: skip
    rules = []
    for row in data.rows(events, scaled(8_000, size), draw):
        code, second, third = random.sample(codes, 3)
        above, km = random.choice([25, 30, 40, 50]), random.choice([20, 50, 80, 120]) * 1000
        made = f"built BETWEEN {row['built'] - 1} AND {row['built'] + 1}"
        form = random.random()
        if form < 0.5:
            rules.append(f"{code} > {above} AND {second} IS NOT NULL AND model = '{row['model']}'")
        elif form < 0.75:
            rules.append(f"{code} BETWEEN {above / 2:g} AND {above} AND {second} < 5 AND "
                         f"{made} AND mileage < {km}")  # fmt: skip
        elif form < 0.95:
            rules.append(f"{code} > 5 AND {second} > 5 AND {third} > 5 AND {made}")
        else:
            rules.append(f"model = '{row['model']}' AND {made} AND mileage >= {km * 4}"
                         f" AND ({code} > {above} OR {second} > {above})")  # fmt: skip
    return to_family("fault codes", "Mostly absent codes; few match.", rules, events)


def ad_campaigns(size: float, random: Random, draw: np.random.Generator) -> Family:
    channels = [f"ch{n:03}" for n in range(180)]
    regions = [f"R{n:02}" for n in range(16)]
    count = scaled(200_000, size)
    events = pd.DataFrame({
        "ts": _times("2024-01-01", 366, count, draw), "channel": _popular(channels, count, draw),
        "region": _popular(regions, count, draw, 0.5), "age": draw.integers(6, 90, count),
        "children": draw.random(count) < 0.12, "income": draw.lognormal(10.4, 0.5, count).round(-2),
    })  # fmt: skip
    rules = [f"region = '{region}' AND NOT children" for region in regions]  # house ads
    for channel in _popular(channels, scaled(25_000, size, least=200) - len(rules), draw):
        start = pd.Timestamp("2024-01-01") + pd.Timedelta(days=random.randrange(0, 360))
        end = start + pd.Timedelta(days=random.choice([1, 3, 7, 7, 14, 14, 28, 60]))
        window = f"ts >= '{start:%Y-%m-%d} 06:00' AND ts < '{end:%Y-%m-%d} 00:00'"
        hour, age = random.choice([6, 11, 17, 18, 20]), random.choice([14, 18, 18, 30, 50])
        reach = f"age BETWEEN {age} AND {random.choice([age + 15, age + 31, 89])}"
        form = random.random()
        if form < 0.4:
            rules.append(f"{window} AND channel = '{channel}' AND {reach} AND NOT children")
        elif form < 0.65:
            rules.append(f"{window} AND hour(ts) BETWEEN {hour} AND {hour + 3} AND channel IN "
                         f"{_texts({channel, *random.sample(channels, 5)})}")  # fmt: skip
        elif form < 0.85:
            rules.append(f"{window} AND {reach} AND region = '{random.choice(regions)}' AND "
                         f"channel = '{channel}'")  # fmt: skip
        elif form < 0.95:
            rich = f"(age < 30 OR income >= {random.choice([40, 50, 60, 80])}000)"
            where = f"{window} AND NOT weekday(ts) IN (5, 6) AND channel = '{channel}' AND {rich}"
            rules.append(where)
        else:  # a premiere: one evening, on all channels
            day = f"{start:%Y-%m-%d}"
            rules.append(f"ts BETWEEN '{day} {hour}:00' AND '{day} {hour + 2}:59' AND {reach}")
    return to_family("ad campaigns", "Windows of time for advertisements.", rules, events)


FAMILIES = [
    log_alerts, trade_surveillance, card_watchlists, sensor_bands, network_blocks,
    course_feedback, ticket_routing, parcel_tariffs, matchmaking, tree_leaves, fault_codes,
    ad_campaigns,
]  # fmt: skip


def families(size: float = 1.0) -> Iterator[Family]:
    """Build the families one by one; size scales the numbers of rules and of events."""
    for number, build in enumerate(FAMILIES):
        yield build(size, Random(100 + number), np.random.default_rng(100 + number))


def _popular(
    values: Sequence[Any], count: int, draw: np.random.Generator, skew: float = 1.0
) -> np.ndarray:
    """Draw values whose popularity falls with their rank to the power of skew."""
    shares = 1 / np.arange(1, len(values) + 1) ** skew
    chosen = np.asarray(values)[draw.choice(len(values), count, p=shares / shares.sum())]
    return chosen.astype(object) if chosen.dtype.kind == "U" else chosen


def _times(start: str, days: float, count: int, draw: np.random.Generator) -> pd.Series:
    """Draw moments in order, to the second."""
    seconds = np.sort(draw.integers(0, round(days * 86_400), count))
    return pd.Series(pd.Timestamp(start) + pd.to_timedelta(seconds, unit="s"))


def _inside(start: int, outer: int, prefix: int, random: Random) -> int:
    """Draw a block of addresses in a larger one."""
    return start + (random.randrange(1 << prefix - outer) << 32 - prefix)


def _texts(values: Any) -> str:
    return "(" + ", ".join(f"'{value}'" for value in sorted(values)) + ")"


def _numbers(values: Any) -> str:
    return "(" + ", ".join(str(value) for value in sorted(values)) + ")"


if __name__ == "__main__":
    report(families)
