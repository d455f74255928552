"""Stores that someone has changed and sealed again: made, opened and asked, many in one process.

    python -m tests.engine.untrusted STORES SCRATCH

reads lines with a seed and the name of a store, opens that store with something changed, and puts
all questions to rules that are accepted. A line tells of each case: `refused`, `accepted` or
`error`, and what was changed or raised. Whoever asks knows which case it was that has crashed, or
does not end.
"""

import contextlib
import json
import os
import random
import resource
import shutil
import sys
import traceback
import warnings
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

import tocsin
from tocsin.engine import buffers, matching
from tocsin.engine.segment_files import _ALIGNMENT
from tocsin.index import unit_costs
from tocsin.index.keyed import key_sets, shelves
from tocsin.index.registry import INDEXES
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions

SCHEMA = {
    "x": "number",
    "y": "number",
    "n": "integer",
    "m": "integer",
    "tier": "category",
    "live": "flag",
    "at": "time",
    "price": "decimal(10,2)",
    "loc": "struct<lat: double, tags: map<string, int>>",
}
TIERS = [f"tier {i}" for i in range(20)]
# Events at once; of 400, some come to most cells of an index.
_DENSE = 400 if os.environ.get("TOCSIN_PROFILE") == "long" else 80
_MOST_BYTES = 8 << 30  # of memory: what a value in a store makes us ask for must not be more

# ------------------------------------------------------------ stores


def mixed(rng, ids):
    """Return rules of all shapes: sets, complements, alternatives, null, weights."""
    rows = []
    for i in range(250):
        x, n = rng.random(), rng.randrange(100)
        some = ", ".join(f"'{tier}'" for tier in rng.sample(TIERS, rng.randint(2, 6)))
        where = rng.choice(
            [
                f"x BETWEEN {x} AND {x + 0.1} AND y < {rng.random()}",
                f"n BETWEEN {n} AND {n + 9} AND m >= {rng.randrange(50)}",
                f"tier IN ({some})",
                f"tier IN ({some}) AND n > {n} AND x > {x}",
                f"tier NOT IN ({some}) AND n < {n}",
                f"n <> {n} AND n > {n - 20} AND live",
                f"x > {x} OR tier = '{rng.choice(TIERS)}' OR m IN ({n}, {n + 2}, {n + 7})",
                f"m IS NULL AND n = {n}",
                f"at > '2024-01-{n % 28 + 1:02}' AND live = false",
                f"NOT tier <=> '{rng.choice(TIERS)}' AND y > {x}",
                "FALSE" if n < 10 else "TRUE" if n < 20 else f"x < {x / 10}",
            ]
        )
        rows.append({"id": ids(i), "where": where, "team": rng.choice(["red", None, "blue"])})
    return rows


def likely(rng, ids):
    """Return rules of all shapes, half of them with a threshold, and half with a score."""
    return [
        row | {name: rng.choice([None, rng.random() or 1.0]) for name in ("at_least", "score")}
        for row in mixed(rng, ids)
    ]


def weights(rules, rng):
    """Give weights to some rules: those of a table with texts have none."""
    for id_ in rng.sample(list(rules), 40):
        rule = rules[id_]
        tested = [a for a in ("x", "n", "tier") if f"{a} " in rule.where]
        if tested and rule.where != "FALSE":
            with contextlib.suppress(tocsin.TocsinError):
                rules.replace(id_, rule.where, {tested[0]: rng.random() * 9}, rule.payload)


def boxes(rng, ids, one=False):
    """Return boxes over two attributes and nothing else, half of them crowded into a corner."""
    low = np.array([[rng.random(), rng.random()] for _ in range(600)])
    low[:300] *= 0.05
    side = np.array([[rng.random(), rng.random()] for _ in range(600)]) * 0.05
    side[:20] *= 20
    columns = {"x_low": low[:, 0], "x_high": (low + side)[:, 0]}
    if not one:
        columns |= {"y_low": low[:, 1], "y_high": (low + side)[:, 1]}
    return pa.table({"id": [ids(i) for i in range(600)], "rank": np.arange(600)} | columns)


def whole_boxes(rng, ids):
    """Return boxes of whole numbers, which `rectangles` proves."""
    low = np.array([[rng.randrange(60), rng.randrange(40)] for _ in range(300)])
    high = low + [[rng.randrange(12), rng.randrange(20)] for _ in range(300)]
    columns = {"n_low": low[:, 0], "n_high": high[:, 0], "m_low": low[:, 1], "m_high": high[:, 1]}
    return pa.table({"id": [ids(i) for i in range(300)]} | columns)


def bands(rng, ids):
    return boxes(rng, ids, one=True)


def computed(rng, ids):
    """Return rules that test terms, decimals and parts of structs."""
    rows = []
    for i in range(120):
        n, x = rng.randrange(100), round(rng.random(), 2)
        where = rng.choice(
            [
                f"hour(at) BETWEEN {n % 24} AND 23 AND x > {x}",
                f"lower(tier) LIKE '%{n % 20}' AND n > {n}",
                f"upper(tier) IN ('TIER {n % 20}', 'TIER 3') OR length(tier) = 6",
                f"n * 3.5 > {n} AND price < {n}.{n:02}",
                f"round(x + y, 2) >= {x} AND n % 7 = {n % 7}",
                f"loc.lat > {x} AND loc.tags['a'] = {n}",
                f"concat(tier, 'x') = 'tier {n % 20}x' AND live",
                f"price BETWEEN {n} AND {n}.99",
            ]
        )
        rows.append({"id": ids(i), "where": where, "at_least": None})
    return rows


def located(rng, ids):
    """Return rules with polygons and circles, some beside other tests."""
    rows = []
    for i in range(150):
        x, y, size = rng.random(), rng.random(), rng.random() / 4
        ring = [(x, y), (x + size, y), (x + size, y + size), (x, y)]
        text = ", ".join(f"{a} {b}" for a, b in ring)
        covers = f"ST_Covers(ST_GeomFromText('POLYGON(({text}))'), ST_Point(x, y))"
        where = rng.choice(
            [
                covers,
                f"NOT {covers} AND n < {i}",
                f"{covers} AND x > {x + size / 2} OR tier = '{rng.choice(TIERS)}'",
                f"ST_DWithin(ST_Point(n, price), ST_Point({i}, {i}), {i}) AND n IN (3, {i}, 99)",
                f"ST_DistanceSphere(ST_Point(m * 2, loc.lat), ST_Point(179, {y})) < {size}e6",
            ]
        )
        rows.append({"id": ids(i), "where": where})
    return rows


def several_shapes(rng, ids):
    """Return rules of three shapes."""
    rows = []
    for i in range(1500):
        a, b, n = rng.random(), rng.random(), rng.randrange(5000)
        where = (
            f"x BETWEEN {a} AND {a + 0.01} AND y BETWEEN {b} AND {b + 0.01}",
            f"n BETWEEN {n} AND {n + 3}",
            f"tier IN ('{rng.choice(TIERS)}', '{rng.choice(TIERS)}') AND m = {n}",
        )[i % 3]
        rows.append({"id": ids(i), "where": where})
    return rows


STORES = {
    **{f"{name} mixed": (name, mixed, {}) for name in INDEXES},
    "exhaustive boxes": ("exhaustive", boxes, {}),
    "grid boxes": ("grid", boxes, {}),
    "grid published": ("grid", boxes, {"tiers": "two", "cells": 9, "full_lists": "all"}),
    "ntree boxes": ("ntree", boxes, {"fan_out": 4}),
    "intervals bands": ("intervals", bands, {}),
    "intervals simple": ("intervals", bands, {"longest": 4, "decomposition": "simple"}),
    "intervals logarithmic": ("intervals", bands, {"longest": 4}),
    "intervals published": ("intervals", whole_boxes, {"lattice": "published"}),
    "intervals published simple": (
        "intervals",
        mixed,
        {"lattice": "published", "longest": 4, "decomposition": "simple"},
    ),
    "rectangles whole": ("rectangles", whole_boxes, {}),
    "rectangles long": ("rectangles", whole_boxes, {"longest": 4}),
    "rectangles hashed": ("rectangles", whole_boxes, {"longest": 2, "hashed": True}),
    "rectangles published": (
        "rectangles",
        whole_boxes,
        {"longest": [4, 2], "lattice": "published"},
    ),
    "rectangles published floats": (
        "rectangles",
        boxes,
        {"lattice": "published", "decomposition": "overlapped", "hashed": True},
    ),
    "rectangles overlapped": (
        "rectangles",
        whole_boxes,
        {"longest": 4, "decomposition": "overlapped"},
    ),
    "keyed shelves": ("keyed", several_shapes, {}),
    "keyed sets": ("keyed", several_shapes, {}),
    "counting boxes": ("counting", boxes, {}),
    "bestar boxes": ("bestar", boxes, {}),
    "bestar as published": (
        "bestar",
        boxes,
        {"summary": "attributes", "gain": "predicates", "loss": "histogram"},
    ),
    "auto parts": ("auto", several_shapes, {}),
    "auto thresholds": ("auto", likely, {}),
    "auto terms": ("auto", computed, {}),
    "keyed terms": ("keyed", computed, {}),
    "keyed thresholds": ("keyed", likely, {}),
    "auto located": ("auto", located, {}),
}


def make_store(path, name):
    """Write a store: a base under the index, recent rules beside it, removals."""
    index, shape, options = STORES[name]
    rng = random.Random(name)
    texts = rng.random() < 0.5
    with contextlib.ExitStack() as stack:
        if name == "keyed shelves":
            for constant, value in (("_SHELF_COST", -1.0), ("_MIN_PAIR_ENTRIES", 1)):
                stack.callback(setattr, shelves, constant, getattr(shelves, constant))
                setattr(shelves, constant, value)
        if name == "keyed sets":
            stack.callback(setattr, key_sets, "PROBE_COST", key_sets.PROBE_COST)
            key_sets.PROBE_COST = 0.0
        if name == "auto parts":
            for constant, value in (("PART", 0.0), ("FIND", 0.0)):
                stack.callback(setattr, unit_costs, constant, getattr(unit_costs, constant))
                setattr(unit_costs, constant, value)
        rules = tocsin.Rules(SCHEMA, index, options)
        rules.add_many(shape(rng, lambda i: f"rule {i}" if texts else i * 7 % 2000))
        if shape is mixed:
            weights(rules, rng)
        rules.merge()
    for i in range(20):
        where = f"n = {i} OR x > {i / 20}" if i % 2 else f"tier IN ('new {i}', '{TIERS[i]}')"
        rules.add(f"new {i}" if texts else -i - 1, where, payload={"team": "new"})
    rules.remove_many(rng.sample(list(rules), 9))
    rules.save(path)
    roles = [part.role for part in rules.plan().parts]
    assert roles[-2:] == ["base", "recent"]
    assert len(roles) > 2 or name != "auto parts"


# ------------------------------------------------------------ changes


class Changed:
    """A copy of a store in which one segment can be changed, and all sealed again."""

    def __init__(self, source, target, number=0):
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        self.path = target
        (self.version,) = (target / "versions").iterdir()
        self.content = json.loads(self.version.read_bytes()[:-66])
        self.entry = self.content["segments"][number]
        self.folder = target / "segments" / self.entry["name"]
        self.manifest = json.loads((self.folder / "manifest.json").read_bytes())

    @contextlib.contextmanager
    def arrays(self):
        """Give a function from a name to an array that can be written to."""
        data = bytearray((self.folder / "arrays.bin").read_bytes())

        def array(name):
            place = self.manifest["arrays"][name]
            return np.frombuffer(data, place["dtype"], place["shape"][0], place["offset"])

        yield array
        (self.folder / "arrays.bin").write_bytes(data)

    def table(self):
        return pa.ipc.open_file(pa.py_buffer((self.folder / "rules.arrow").read_bytes())).read_all()

    def write_table(self, table):
        path = str(self.folder / "rules.arrow")
        with pa.OSFile(path, "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)

    def describe_files(self):
        """Write sizes and checksums of the files into the manifest."""
        for name in ("arrays.bin", "rules.arrow"):
            data = (self.folder / name).read_bytes()
            described = {"bytes": len(data), "sha256": sha256(data).hexdigest()}
            self.manifest["files"][name] = described

    def seal(self, data=None):
        """Write the manifest, or other bytes in its place, and the version file."""
        data = json.dumps(self.manifest).encode() if data is None else data
        (self.folder / "manifest.json").write_bytes(data)
        self.entry["manifest"] = sha256(data).hexdigest()
        body = json.dumps(self.content).encode()
        self.version.write_bytes(body + b"\n" + sha256(body).hexdigest().encode() + b"\n")


class ChangedAtRandom(Changed):
    """One in which something has been changed at random; `told` says what."""

    def __init__(self, source, target, rng):
        # The base is what is under the index; the recent rules are under the exhaustive one.
        super().__init__(source, target, 0 if rng.random() < 0.9 else -1)
        self.rng = rng
        change = rng.choices(
            (
                *(self.elements, self.drift, self.places, self.values, self.bytes, self.columns),
                *(self.version_values, self.shared),
            ),
            (24, 16, 4, 4, 2, 2, 4, 4),
        )[0]
        self.told = f"{change.__name__}: {change()}"
        if change not in (self.values, self.version_values):
            self.describe_files()
        self.seal()

    def elements(self):
        """Change an element of an array, or several, or swap two."""
        told = []
        with self.arrays() as arrays:
            for _ in range(self.rng.choice([1, 1, 1, 2, 4])):
                names = [n for n, p in self.manifest["arrays"].items() if p["shape"][0]]
                name = self.rng.choice(names)
                array = arrays(name)
                at, other = self.rng.randrange(len(array)), self.rng.randrange(len(array))
                old, what = array[at].item(), self.rng.random()
                if what < 0.2:
                    array[at], array[other] = array[other], array[at]
                elif what < 0.3:
                    array[min(at, other) : max(at, other)] = self.value(array, at)
                else:
                    array[at] = self.value(array, at)
                told.append(f"{name}[{at}] from {old} to {array[at]}")
        return ", ".join(told)

    def drift(self):
        """Change elements of an index one after the other, and keep what is not seen to be wrong.

        So many changes add up that, made at once, would be refused for one of them.
        """
        part = self.rng.randrange(len(self.manifest["parts"]))
        kind, kept = INDEXES[self.manifest["parts"][part]["index"]], []
        with self.arrays() as arrays:
            fields = [field for field in Conjunctions._fields if field != "score"]
            stored = {field: arrays(f"{part}.conjunctions.{field}") for field in fields}
            conjunctions = freeze_fields(Conjunctions, **stored)
            prefix = f"{part}.index."
            names = [name for name in self.manifest["arrays"] if name.startswith(prefix)]
            index = {name.removeprefix(prefix): arrays(name) for name in names}
            attributes = len(self.content["attributes"])
            for _ in range(80):
                # Where keys become cells arrays are short; once they are wrong, nothing is found.
                least = 8 if self.rng.random() < 0.99 else 0
                field = self.rng.choice([field for field in index if len(index[field]) > least])
                array = index[field]
                before = array.copy()
                at, other = sorted(self.rng.choices(range(len(array)), k=2))
                if self.rng.random() < 0.3:  # offsets still ascend: one list gets what others had
                    array[at : other + 1] = array[self.rng.choice([at, other, at - 1])]
                else:
                    array[at] = self.value(array, at)
                try:
                    kind.from_arrays(conjunctions, index).validate(attributes)
                    kept.append(f"{field}[{at}]")
                except tocsin.StoreError:
                    array[:] = before
        return f"part {part}, {len(kept)} elements: {' '.join(kept)}"

    def value(self, array, at):
        old, size = array[at].item(), len(array)
        rng = self.rng
        if array.dtype.kind == "f":
            return rng.choice([0.0, -1.0, old + 1, -old, np.nan, np.inf, -np.inf, 1e308, 1e-308])
        info = np.iinfo(array.dtype)
        other = array[rng.randrange(size)].item()
        # Offsets ascend: what lies between the neighbours is not seen to be wrong at once.
        below, above = sorted([array[max(at - 1, 0)].item(), array[min(at + 1, size - 1)].item()])
        rules = self.manifest["rules"]
        value = rng.choice(
            [
                *(-1, 0, 1, 2, old - 1, old + 1, old * 2, ~old, other, other + 1, size, size + 1),
                *(2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**16 - 1, 2**32, info.min, info.max),
                *(rules, rules + 1, rules - 1, rng.randrange(info.min, info.max)),
                *(rng.randrange(size + 1), old + rng.randrange(-9, 10)),
                *[rng.randint(below, above), below, above] * 3,
            ]
        )
        return min(max(value, info.min), info.max)

    def places(self):
        """Change where an array lies, how long it is, or of what type."""
        names = list(self.manifest["arrays"])
        name, other = self.rng.choice(names), self.rng.choice(names)
        places = self.manifest["arrays"]
        place = places[name]
        size = place["shape"][0]
        what = self.rng.randrange(7)
        if what == 0:
            place["shape"] = [size + self.rng.choice([1, -1, -size, 2**31, 2**62, 2**63])]
        elif what == 1:
            place["shape"] = self.rng.choice([[], [size, 1], [1, size], [-1], ["1"], [True], 5])
        elif what == 2:
            place["offset"] += self.rng.choice([1, 8, -8, _ALIGNMENT, -_ALIGNMENT, 2**62, -(2**62)])
        elif what == 3:
            place["dtype"] = self.rng.choice(
                ["|O", "<f8", "<i4", "<i8", ">i8", "|u1", "<u8", "<c16", "<M8[s]", "|S8", "", 5]
            )
        elif what == 4:
            places[name], places[other] = places[other], places[name]
        elif what == 5:
            places[name] = dict(places[other])
        else:
            del places[name]
        return f"{name}: {place} (case {what})"

    def values(self):
        """Change something in the manifest."""
        return self.change_json(self.manifest)

    def version_values(self):
        """Change something in the version file, most often within a term if there are any."""
        attributes = self.content["attributes"]
        terms = [entry for entry in attributes if isinstance(entry, dict)]
        if terms and self.rng.random() < 0.7:
            return self.change_json(self.rng.choice(terms))
        return self.change_json(self.content)

    def shared(self):
        """Change the values of categories, or the positions of removed rules."""
        removed = self.content["removed"]
        entry = self.rng.choice([*self.content["codes"], *([removed] if removed else [])])
        path, rng = self.path / "parts" / entry["name"], self.rng
        if rng.random() < 0.3:
            data = bytearray(path.read_bytes())
            for _ in range(rng.randint(1, 3)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(data)
        else:
            table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
            values = table.column(0).to_pylist()
            for _ in range(rng.randint(1, 4)):
                at, other = rng.randrange(len(values)), rng.choice(values)
                junk = ["", "tier 3", "\0"] if entry is not removed else [-1, 0, 2**31 - 1]
                values[at] = rng.choice([other, *junk, *[None] * (rng.random() < 0.1)])
            if rng.random() < 0.2:
                values = rng.choice([values * 2, values[1:], sorted(values, key=str), []])
            entry["count"] = len(values)
            column = pa.array(values, table.schema.types[0])
            with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(pa.table([column], schema=table.schema))
        data = path.read_bytes()
        entry |= {"bytes": len(data), "sha256": sha256(data).hexdigest()}
        return f"{'removed' if entry is removed else 'categories'}"

    def change_json(self, content):
        """Change something within a dict."""
        junk = [None, -1, 0, 1, 2**70, 1.5, True, "", "x", "../x", [], [1], {}, {"a": 1}]
        junk += [[[]] * 3, json.loads(json.dumps(self.manifest["parts"])) * 2, *INDEXES]
        junk += ["int", "string", "column", "literal", "cast", *["upper", "round", "repeat"]]
        holder, key = content, self.rng.choice(list(content))
        while isinstance(holder[key], dict | list) and holder[key] and self.rng.random() < 0.8:
            holder = holder[key]
            key = (
                self.rng.choice(list(holder))
                if isinstance(holder, dict)
                else self.rng.randrange(len(holder))
            )
        old = holder[key]
        if self.rng.random() < 0.3:
            del holder[key]
            return f"{key} without {old}"
        if type(old) is int and self.rng.random() < 0.5:
            holder[key] = old + self.rng.choice([-1, 1])
        else:
            holder[key] = self.rng.choice(junk)
        return f"{key}: {old} -> {holder[key]}"

    def bytes(self):
        """Change some bytes of the Arrow file."""
        path = self.folder / "rules.arrow"
        data = bytearray(path.read_bytes())
        told = []
        for _ in range(self.rng.randint(1, 3)):
            # What describes the columns is at the ends.
            near = self.rng.choice([len(data), min(2000, len(data))])
            at = self.rng.randrange(near) * self.rng.choice([1, -1])
            data[at] = self.rng.choice([0, 1, 255, 127, 128, self.rng.randrange(256)])
            told.append(f"{at}: {data[at]}")
        path.write_bytes(data[: self.rng.choice([len(data)] * 9 + [len(data) // 2])])
        return ", ".join(told)

    def columns(self):
        """Write another table into the Arrow file."""
        table = self.table()
        n, ids = len(table), table.column("id")
        column = self.rng.choice(
            [
                pa.nulls(n, ids.type),
                pa.nulls(n),
                pa.array(range(n), pa.int32()),
                pa.array(range(n), pa.int64()),
                pa.array([f"{i}" for i in range(n)], pa.string()),
                pa.array([f"{i}" for i in range(n)], pa.large_string()),
                pa.array(["same"] * n, pa.large_string()),
                pa.array([b"\xff"] * n, pa.large_binary()),
                pa.array([[1]] * n),
                pa.array([{"a": 1}] * n),
                ids.combine_chunks().dictionary_encode(),
            ]
        )
        name = self.rng.choice([*table.column_names, "payload.new", "else"])
        made = self.rng.choice(
            [table.append_column(name, column), table[: n - 1], pa.concat_tables([table] * 2)]
        )
        if name in table.column_names and self.rng.random() < 0.8:
            made = table.set_column(table.column_names.index(name), name, column)
        self.write_table(made)
        return f"{name} of {column.type}"


# ------------------------------------------------------------ questions


def random_events(rng, count):
    events = []
    for _ in range(count):
        event = {
            "x": rng.choice([rng.random(), rng.random() * 0.05, None, float("nan"), -1e308]),
            "y": rng.choice([rng.random(), rng.random() * 0.05, float("inf")]),
            "n": rng.choice([rng.randrange(100), None, 2**62]),
            "m": rng.randrange(60),
            "tier": rng.choice([*TIERS, "unknown"]),
            "live": rng.choice([True, False, None]),
            "at": rng.choice([None, datetime(2024, 1, rng.randint(1, 28), tzinfo=UTC)]),
            "price": rng.choice([None, Decimal(rng.randrange(10**4)) / 100]),
            "loc": rng.choice([None, {"lat": rng.random(), "tags": {"a": rng.randrange(100)}}]),
        }
        events.append({k: v for k, v in event.items() if rng.random() < 0.9})
    return events


def ask_everything(rules, rng, merging):
    """Put every question to rules; what they answer does not matter."""
    events = random_events(rng, 30)
    many = np.random.default_rng(rng.randrange(2**32))
    dense = pa.table(
        {
            "x": many.random(_DENSE) * 1.1,
            "y": many.random(_DENSE) * 1.1,
            "n": many.integers(-3, 110, _DENSE),
            "m": many.integers(-3, 70, _DENSE),
            "tier": many.choice(TIERS, _DENSE),
            "live": many.random(_DENSE) < 0.5,
            "at": pa.nulls(_DENSE, pa.timestamp("us", "UTC")),
            "price": pa.nulls(_DENSE, pa.decimal128(10, 2)),
            "loc": pa.nulls(_DENSE, pa.struct({"lat": pa.float64()})),
        }
    )
    ranges = [
        {"x": {"low": 0.2, "high": 0.4}, "n": {"low": 3, "high": 90}},
        {
            "x": {"low": 0.2, "high": 0.4, "mean": 0.3, "deviation": 0.1},
            "m": {"low": 0, "high": 60},
        },
        {"y": {"edges": [0.0, 0.5, 1.0], "weights": [0.5, 0.5]}, "x": {"low": 0.0, "high": 1.0}},
        {"m": 3},
    ]

    def questions():
        for asked in (events, dense, events[0], ranges):
            matches = rules.match(asked)
            matches.to_arrow()
            matches.payload(rules.payload_schema)
            rules.count(asked)
            rules.top(asked, 3)
            rules.top(asked, 400, weights={"x": 2.0, "tier": 0.5})
            for _ in rules.match_blocks(asked):
                pass

    questions()
    ids = list(rules)
    for id_ in rng.sample(ids, min(4, len(ids))):
        str(rules.explain(events[0], id_))
        str(rules.explain(ranges[0], id_, weights={"x": 2.0}))
        assert id_ in rules
        str(rules[id_])
    str(rules.plan())
    rules.remove_many(list(dict.fromkeys(rng.sample(ids, min(5, len(ids))))))
    questions()
    if merging:
        rules.merge()
        questions()
        rules.lint(dense)


def run(source, scratch, name, seed):
    """Open a changed store; return what came of it, and what was changed."""
    rng = random.Random(f"{name} {seed}")
    told = ChangedAtRandom(source, scratch, rng).told
    try:
        rules = tocsin.open(scratch)
    except tocsin.StoreError as error:
        return "refused", f"{told} | {error}"
    except Exception:
        return "error", f"{told} | {traceback.format_exc()}"
    try:
        ask_everything(rules, rng, seed % 3 == 0)
    except tocsin.TocsinError as error:
        return "accepted", f"{told} | then {error!r}"
    except Exception:
        return "error", f"{told} | {traceback.format_exc()}"
    return "accepted", told


def main(stores, scratch):
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    # Buffers with room for one event alone: one candidate more than there may be is one too many.
    buffers.ROOM = buffers.MOST_KEPT = matching.ROOM = 0
    warnings.simplefilter("ignore", RuntimeWarning)
    for line in sys.stdin:
        seed, name = line.rstrip("\n").split(" ", 1)
        print(json.dumps(run(Path(stores) / name, Path(scratch), name, int(seed))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
