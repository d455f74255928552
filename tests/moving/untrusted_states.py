"""States that someone has changed and sealed again: refused, or opened and used without a crash.

    TOCSIN_BOUNDS_CHECK=1 python -m tests.moving.untrusted_states FIRST LAST

runs seeds. Each changes a value, a row, a type or the header of a state that a walk has led to.
"""

import json
import sys
from collections import Counter
from random import Random

import pyarrow as pa

import tocsin
from tests.moving.examples import SqlRules, apply_edits
from tests.moving.walks import PROFILES, walk
from tocsin.engine.storage.memory import Memory
from tocsin.moving import state_files
from tocsin.moving.state_files import pack, pack_state, read_packed, unpack_state
from tocsin.moving.state_tables import StateTables

NUMBERS = (0, 1, -1, 2, 3, 7, 8, 255, 2**31 - 1, -(2**31), 2**32, 2**62, 2**63 - 1, -(2**63))
TYPES = (pa.int8(), pa.uint64(), pa.string(), pa.float32(), pa.timestamp("s"), pa.bool_(), None)


def change_table(table: pa.Table, rng: Random) -> pa.Table:
    rows = table.num_rows
    kind = rng.choice(("value", "value", "value", "value", "drop", "double", "swap", "column"))
    if kind == "column" or not rows:
        name = rng.randrange(table.num_columns)
        if rng.random() < 0.5:
            return table.remove_column(name)
        nulls = pa.nulls(rows, rng.choice((*TYPES[:-1], table.schema.types[name])))
        return table.set_column(name, table.column_names[name], nulls)
    place = rng.randrange(rows)
    if kind == "drop":
        return pa.concat_tables([table.slice(0, place), table.slice(place + 1)])
    if kind == "double":
        return pa.concat_tables([table, table.slice(place, 1)])
    if kind == "swap":
        order = list(range(rows))
        other = rng.randrange(rows)
        order[place], order[other] = order[other], order[place]
        return table.take(pa.array(order))
    number = rng.randrange(table.num_columns)
    column, type_ = table.column(number), table.schema.types[number]
    values = column.to_pylist()
    try:
        values[place] = rng.choice(NUMBERS if pa.types.is_integer(type_) else values)
        changed = pa.array(values, type_)
    except (pa.ArrowException, OverflowError, TypeError):
        return table
    return table.set_column(number, table.column_names[number], changed)


def change_content(content: dict, rng: Random) -> dict:
    content = json.loads(json.dumps(content))
    where = content
    while True:
        name = rng.choice(sorted(where))
        if not isinstance(where[name], dict) or rng.random() < 0.2:
            break
        where = where[name]
    if rng.random() < 0.2:
        del where[name]
    else:
        where[name] = rng.choice((*NUMBERS, None, "", "x", "5 s", 1.5, [], {}, ["x"], True))
    return content


def change(storage: Memory, rng: Random) -> Memory:
    """Return a saved state with something changed, sealed again."""
    header, sections = read_packed(storage, "state")
    totals, tables = unpack_state(header, sections)
    content = {k: v for k, v in header.content.items() if k not in ("clock", "counts")}
    name = "rules/" + content["rules"]
    rules = storage.read(name)
    what = rng.choice(("objects", "stays", "stays", "reports", "content", "totals", "rules"))
    if tables is None and what in ("objects", "stays", "reports"):
        what = "content"
    if what in ("objects", "stays"):
        tables = tables._replace(**{what: change_table(getattr(tables, what), rng)})
    elif what == "reports" and tables.reports:
        reports = list(tables.reports)
        at = rng.randrange(len(reports))
        reports[at] = change_table(reports[at], rng)
        tables = StateTables(tables.objects, tables.stays, reports, tables.forgotten)
    elif what == "totals":
        field = rng.choice(("key_type", "time_type", "kept", "clock", "counts", "regions"))
        values = {
            "key_type": TYPES,
            "time_type": TYPES,
            "kept": (pa.schema([("note", pa.bool_())]), pa.schema([])),
            "clock": (*NUMBERS, None, "x"),
            "counts": ({}, {"rows": "x"}, {"rows": -1}, {"rows": 2**63 - 1}, [], None),
            "regions": (
                *(None, {}, {"names": [], "kinds": None}, {"names": [["x", 5]], "kinds": [1, 2]}),
                *({"names": [["x", []]] * 70, "kinds": [2, 2]}, {"names": [], "kinds": [9, []]}),
            ),
        }
        totals = totals._replace(**{field: rng.choice(values[field])})
    elif what == "rules":
        header, parts = read_packed(storage, name)
        table = state_files._from_stream(dict(parts)["rules"])
        other = dict(header.content)
        if rng.random() < 0.2:
            other = change_content(other, rng)
        else:
            table = change_table(table, rng)
        packed = pack(other, [("rules", state_files._to_stream(table))])
        content["rules"], rules = packed.digest, b"".join(packed.chunks)
    if what == "content":
        content = change_content(content, rng)
    state = b"".join(pack_state(content, totals, tables).chunks)
    return Memory({"state": state, f"rules/{content.get('rules')}": rules})


def run(seed: int) -> str:
    """Return what became of a changed state."""
    rng = Random(seed)
    scenario = walk(seed, rng.choice(sorted(PROFILES)))
    rules = SqlRules(tocsin.Rules(scenario.schema))
    apply_edits(rules, scenario.edits)
    options = dict(scenario.options)
    if len(options.get("position", "xy")) == 2 and rng.random() < 0.5:
        options["safe_regions"] = rng.choice(("dist", "sphere", "rect"))
    monitor = tocsin.Monitor(rules.rules, **options)
    cut = rng.randrange(len(scenario.steps))

    def play(steps):
        for call, argument in steps:
            if call == "rules":
                apply_edits(rules, argument)
            elif call == "update":
                monitor.update(scenario.table(argument))
            else:
                getattr(monitor, call)(argument)

    play(scenario.steps[:cut])
    storage = Memory()
    monitor.save(storage)
    changed = change(storage, rng)
    try:
        monitor = tocsin.Monitor.open(changed, rules.rules)
    except tocsin.MonitorError:
        return "refused"
    try:
        for rule in ("r", "s", 0, 1):
            monitor.inside(rule)
        for key in monitor.counters["late_by_object"]:
            monitor.where(key)
            if "safe_regions" in options:
                monitor.region(key)
        play(scenario.steps[cut:])
        monitor.save(Memory())
    except tocsin.TocsinError:
        return "refused later"
    return "accepted"


def run_all(first: int, last: int) -> Counter:
    outcomes: Counter = Counter()
    for seed in range(first, last):
        try:
            outcomes[run(seed)] += 1
        except Exception as error:
            outcomes["failed"] += 1
            print(f"seed {seed}: {error!r}")
    return outcomes


if __name__ == "__main__":
    print(dict(run_all(int(sys.argv[1]), int(sys.argv[2]))))
