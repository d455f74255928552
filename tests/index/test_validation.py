"""What kernels rely on is validated: each layout, with one thing in it that is wrong."""

import contextlib

import numpy as np
import pytest

from tests import generate
from tests.conformance import boxes as shapes
from tests.conformance.checks import Workload
from tests.conformance.test_every_index import WORKLOADS
from tests.index.test_key_sets import WIDTH, random_rules
from tocsin.errors import StoreError
from tocsin.index.bestar.layout import (
    ATTRIBUTE,
    BUCKET,
    DIRECTORY,
    LEAF,
    LEFT,
    LONGEST_LEAF,
    NODES,
    OWN,
    OWN_SIZE,
    ROOT,
    SIZE,
)
from tocsin.index.cells import layout as cells
from tocsin.index.keyed import buckets, key_sets, shelves
from tocsin.index.keyed.lanes import HEAD, LANES
from tocsin.index.registry import INDEXES
from tocsin.jit import freeze_fields
from tocsin.model.conjunctions import Conjunctions
from tocsin.model.predicates import INTERVAL


@pytest.fixture(scope="module")
def work():
    return Workload(*WORKLOADS["mixed"])


@pytest.fixture(scope="module")
def built(work):
    """Indexes by name, and those that have what others lack: tiers, hashes, shelves, lists."""
    rng = np.random.default_rng(3)
    city, whole = shapes.a_city_in_a_country(rng), shapes.integers(rng)
    bands = shapes.one_attribute(rng)
    made = {name: INDEXES[name].build(work.conjunctions, work.schema.floats()) for name in INDEXES}
    made["intervals bands"] = INDEXES["intervals"].build(bands.conjunctions, bands.floats)
    made["published bands"] = INDEXES["intervals"].build(
        whole.conjunctions, whole.floats, lattice="published"
    )
    pair = shapes.Boxes([[1]], [[9]], [[5]], [0])
    made["published pair"] = INDEXES["intervals"].build(
        pair.conjunctions, pair.floats, lattice="published", longest=4
    )
    made["published floats"] = INDEXES["intervals"].build(
        bands.conjunctions, bands.floats, lattice="published"
    )
    for name in ("grid", "ntree", "intervals", "counting", "bestar"):
        made[f"{name} city"] = INDEXES[name].build(city.conjunctions, city.floats)
    made["summaries"] = INDEXES["bestar"].build(
        work.conjunctions, work.schema.floats(), summary="attributes", gain="predicates"
    )
    for name, options in (
        ("whole", {}),
        ("hashed", {"hashed": True}),
        ("overlapped", {"decomposition": "overlapped"}),
        ("published", {"lattice": "published", "longest": [4, 2]}),
    ):
        made[name] = INDEXES["rectangles"].build(whole.conjunctions, whole.floats, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shelves, "_SHELF_COST", -1.0)
        patch.setattr(shelves, "_MIN_PAIR_ENTRIES", 1)
        crowd = Workload(*WORKLOADS["wide"])
        made["shelves"] = INDEXES["keyed"].build(crowd.conjunctions, crowd.schema.floats())
        patch.setattr(key_sets, "PROBE_COST", 0.0)
        _, points = random_rules(np.random.default_rng(4), 400)
        made["direct sets"] = INDEXES["keyed"].build(points, np.zeros(WIDTH, np.uint8))
        patch.setattr(buckets, "_MIN_DIRECT", 0)
        patch.setattr(buckets, "_DIRECT", 0)
        made["hashed sets"] = INDEXES["keyed"].build(points, np.zeros(WIDTH, np.uint8))
        assert len(made["direct sets"].layout.slot_start) > 1
    for index in made.values():
        index.validate(len(generate.SCHEMA))
    return made


def lows_of_keys(arrays):
    """Return where the low codes of keys are in the heads of blocks."""
    blocks = np.arange(len(arrays["heads"]) // HEAD)
    return (blocks[:, None] * HEAD + np.arange(LANES)).ravel()


def put(field, place, value):
    """Return a change: an element of an array, which may be given as a function of the arrays."""

    def change(arrays):
        at = place(arrays) if callable(place) else place
        arrays[field][at] = value(arrays) if callable(value) else value

    return change


def resized(field, by):
    def change(arrays):
        arrays[field] = np.resize(arrays[field], len(arrays[field]) + by)

    return change


def all_in_the_first_cell(arrays):
    """Let the first partial list of a grid run over all others."""
    heads = arrays["heads"].reshape(-1, cells.HEAD)
    size, words = len(arrays["ids"]), len(arrays["words"])
    heads[0, cells.PARTIAL], heads[0, cells.END] = size - words, size


def shared_child(arrays):
    """Let two cells have the same child."""
    heads = arrays["heads"].reshape(-1, cells.HEAD)
    parents = np.flatnonzero(heads[:, cells.END] < 0)
    heads[parents[0], cells.END] = heads[parents[1], cells.END]


def words_after_the_last(arrays):
    """Let the words of a partial list of a grid begin behind all words."""
    heads = arrays["heads"].reshape(-1, cells.HEAD)
    filled = np.flatnonzero(heads[:, cells.END] > heads[:, cells.PARTIAL])[0]
    heads[filled, cells.WORDS] = len(arrays["words"])


def all_in_the_first_lists(arrays):
    for name in ("start", "end", "piece"):
        arrays[name][1:] = len(arrays[f"{name}_id"])


def all_in_the_last_construct(arrays):
    arrays["piece"][1:-1] = 0


def own_child(arrays):
    heads = arrays["heads"].reshape(-1, cells.HEAD)
    heads[np.argmax(heads[:, cells.END] < 0), cells.END] = ~0


def no_free_place(arrays):
    arrays["hashed"][arrays["hashed"] < 0] = 0


def three_places(arrays):
    arrays["hashed"], arrays["list_of"] = arrays["hashed"][:3], arrays["list_of"][:3]


def all_in_each_list(arrays):
    """Let the hash table send all constructs to one list, of all."""
    arrays["start"][1:] = len(arrays["ids"])
    arrays["list_of"][:] = 0


def twice_in_a_cell(arrays):
    first = np.argmax(np.diff(arrays["start"]) > 1)
    at = arrays["start"][first]
    arrays["start_id"][at] = arrays["start_id"][at + 1]


def one_conjunction(arrays):
    """Let all entries with a key be of one conjunction."""
    arrays["candidate"][:] = 0


def first_table(arrays):
    """Return the first attribute with a table of codes."""
    return np.argmax(arrays["code_start"] >= 0)


def without_cuts(arrays):
    """Leave an attribute without cuts, and return it."""
    arrays["cut_offsets"][1:-1] = arrays["cut_offsets"][-1]
    return -1


def no_free_slot(arrays):
    arrays["table"][arrays["table"] < 0] = 0


def full_hash_table(arrays):
    """Let the last table have a bucket in each slot; those that are new have no lanes."""
    own = arrays["table"][arrays["table_start"][-2] :]
    free, buckets = np.flatnonzero(own < 0), len(arrays["bucket_lane"]) - 1
    own[free] = buckets + np.arange(len(free))
    for field in ("bucket_lane", "gate_attribute", "gate"):
        each = 1 if field == "bucket_lane" else len(arrays[field]) // buckets
        arrays[field] = np.append(
            arrays[field], np.repeat(arrays[field][-1:], each * len(free))
        ).astype(arrays[field].dtype)


def one_attribute_too_many(arrays):
    return len(arrays["pair_start"]) + 1


def one_range_for_all_runs(arrays):
    arrays["spans"][0::2] = 0
    arrays["spans"][1::2] = len(arrays["block_bound"])


def twice_a_shelf(arrays):
    """Let two pairs of attributes have one shelf."""
    arrays["pair_shelf"][np.argsort(arrays["pair_shelf"])[-2:]] = 11


def bucket(place, word):
    """Return where a word of the first bucket is for which `place` is true."""

    def found(arrays):
        buckets = arrays["bucket"].reshape(-1, BUCKET)
        return int(np.flatnonzero(place(buckets))[0]) * BUCKET + word

    return found


def parents(buckets):
    return buckets[:, LEFT] >= 0


WRONG = [
    ("exhaustive", put("block", 1, 10**6), "'block' must be"),
    ("exhaustive", put("block", 0, 1), "'block' must be"),
    ("exhaustive", resized("block", -1), "'block' must be"),
    ("exhaustive", put("tests", -1, 0), "'tests' must be"),
    ("exhaustive", put("attribute", 0, 12), "'attribute' must be at least 0 and less than 12"),
    ("exhaustive", put("attribute", 0, -1), "'attribute' must be"),
    ("exhaustive", put("bounds", -1, lambda a: len(a["low"])), "bounds for all conjunctions"),
    ("exhaustive", put("bounds", 0, -1), "bounds for all conjunctions"),
    ("exhaustive", put("candidate", 0, lambda a: len(a["candidate"])), "'candidate' must be"),
    ("exhaustive", put("candidate", 0, lambda a: ~len(a["candidate"])), "'candidate' must be"),
    ("exhaustive", resized("candidate", 1), "'candidate' must have"),
    ("exhaustive", resized("high", -1), "'high' must have"),
    ("grid city", own_child, "must come after"),
    ("ntree city", shared_child, "the child of one cell"),
    ("grid city", put("heads", 7, ~(10**6)), "must come after"),
    ("grid city", put("heads", 7, 10**6), "'heads' must be"),
    ("grid city", put("heads", 4, -1), "'heads' must be"),
    ("grid city", put("heads", 5, 10**6), "'heads' must be"),
    ("grid city", put("heads", -2, 10**6), "'heads' must be"),
    ("grid city", put("heads", -2, -1), "'heads' must be"),
    ("grid city", resized("words", -1), "'heads' must be|must have a word"),
    ("grid city", words_after_the_last, "must have a word"),
    ("grid city", resized("splitting", 1), "'splitting' must have"),
    ("ntree city", put("splitting", 1, -1), "'splitting' must be"),
    ("ntree city", put("splitting", 0, 0), "leaf_capacity is 0"),
    ("ntree city", put("splitting", 1, 1), "fan_out is 1"),
    ("ntree city", put("splitting", 2, 10**9), "bytes_per_box is 1,000,000,000"),
    ("grid city", resized("heads", -1), "'heads' must have"),
    ("grid city", all_in_the_first_cell, "an event finds"),
    ("grid city", put("ids", 0, 10**6), "'ids' must be"),
    ("grid city", put("ids", 0, -1), "'ids' must be"),  # all are proven
    ("grid city", put("across", 0, 0), "'across' must be"),
    ("grid city", put("across", 0, 2**40), "'across' must be"),
    ("grid city", put("across", 0, 3), "one after the other"),
    ("grid city", put("first_cell", 0, 1), "one after the other"),
    ("grid city", put("first_cell", 1, 2**62), "one after the other"),
    ("grid city", put("roots", 0, 0), "'roots' must be"),
    ("grid city", put("roots", 0, 10**6), "'roots' must be"),
    ("grid city", resized("scale", -1), "'scale' must have"),
    ("grid", put("proven", 0, 1), "'ids' must be"),
    ("ntree city", own_child, "must come after"),
    ("intervals bands", put("attribute", 0, 12), "'attribute' must be"),
    ("intervals bands", put("cells", 0, 1), "'cells' must be"),
    ("intervals city", put("cells", 1, 0), "each level must have a cell"),
    ("intervals city", put("constructs", 1, 1), "as many constructs"),
    ("intervals bands", put("per_cell", 0, 0), "'per_cell' must be"),
    ("intervals bands", put("per_cell", 0, 2), "as many constructs"),
    ("intervals bands", put("longest", 0, 2), "'longest' must be"),
    ("intervals bands", put("skip", 0, 2), "'skip' must be"),
    ("intervals bands", put("skip", 0, -1), "'skip' must be"),
    ("intervals bands", put("piece", 1, 10**6), "'piece' must be"),
    ("intervals bands", put("start", 1, -1), "'start' must be"),
    ("intervals bands", put("end_id", 0, 10**6), "'end_id' must be"),
    ("intervals", put("proven", 0, 1), "_id' must be"),
    ("intervals bands", resized("inside_low", 1), "'inside_low' must have"),
    ("intervals bands", all_in_the_first_lists, "an event finds"),
    ("intervals bands", resized("first", 7), "1 to 6 levels"),
    ("published bands", put("attribute", 0, 12), "'attribute' must be"),
    ("published bands", resized("first", 1), "'first' must have"),
    ("published floats", put("first", 0, 2**60), "'first' must be"),
    ("published bands", put("longest", 0, 6), "'longest' must be a power of two"),
    ("published bands", put("per_point", 0, 5), "'per_point' must be 4 or 8"),
    ("published bands", put("on_point", 3, -1), "'on_point' must be the differences"),
    ("published bands", resized("between", -1), "'between' must be the differences"),
    ("published bands", resized("piece", -1), "as many constructs must start at each point"),
    ("published bands", put("piece", 1, 10**6), "'piece' must be"),
    ("published bands", put("piece_id", 0, 10**6), "'piece_id' must be"),
    ("published floats", put("proven", 0, 1), "'piece_id' must be"),
    ("published bands", all_in_the_last_construct, "an event finds"),
    # Pieces [1, 5] and [5, 9] of one interval: both are found at 5, if both are its first.
    ("published pair", put("piece_id", 1, 0), "an event finds 2 candidates, and there are 1"),
    ("counting", put("level", -1, 0), "'level' must be"),
    ("counting", put("cut", 1, -1), "'cut' must be"),
    ("counting", put("nullable", 0, 10**6), "'nullable' must be"),
    ("counting", put("needed", 0, 2**16), "'needed' must be"),
    ("counting", put("needed", 0, 5), "as many levels as it needs"),
    ("counting", put("always", 0, 3), "'always' must be"),
    ("counting", put("candidate", 0, 10**6), "'candidate' must be"),
    ("counting", put("constructs", 1, 1), "one cell long"),
    ("counting city", twice_in_a_cell, "once in a cell"),
    ("counting city", put("piece_id", 0, -1), "'piece_id' must be"),
    ("whole", put("cells", 0, 2), "'cells' must be"),
    ("whole", put("cells", 0, 10**6), "'cells' must be"),
    ("whole", put("longest", 0, 3), "runs of a cover"),
    ("whole", put("longest", 0, 0), "runs of a cover"),
    ("whole", put("longest", 0, 2**40), "runs of a cover"),
    ("whole", put("longest", 0, -1), "runs of a cover"),
    ("whole", put("longest", 1, 64), "runs of a cover"),
    ("whole", put("published", 0, 1), "runs of a cover"),
    ("whole", put("cover", 1, 0), "runs of a cover"),
    ("whole", put("cover", 4, 10**6), "runs of a cover"),
    ("published", put("published", 0, 0), "runs of a cover"),
    ("published", put("cells", 0, 1), "'cells' must be"),
    ("published", put("cover", 3, 10**6), "runs of a cover"),
    ("published", put("longest", slice(None), [2, 4]), "runs of a cover"),
    ("published", resized("longest", 1), "'longest' must have"),
    ("published", resized("cover", 4), "runs of a cover"),
    ("published", put("run_first", -1, 10**6), "runs of a cover"),
    ("published", put("start", 1, 10**6), "'start' must be"),
    ("published", put("ids", 0, 10**6), "'ids' must be"),
    ("whole", put("run_first", 0, 1), "runs of a cover"),
    ("whole", put("run_size", 0, 9), "runs of a cover"),
    ("whole", resized("run_y", 1), "'run_y' must have"),
    ("whole", put("start", 1, 10**6), "'start' must be"),
    ("whole", lambda a: a.update(start=a["start"][:-1], ids=a["ids"][: a["start"][-2]]), "'start'"),
    ("whole", put("ids", 0, -1), "'ids' must be"),
    ("whole", lambda a: a["start"].__setitem__(slice(1, None), len(a["ids"])), "an event finds"),
    ("hashed", no_free_place, "a place that is free"),
    (
        "hashed",
        lambda a: a.update(hashed=a["hashed"][1:], list_of=a["list_of"][1:]),
        "power of two",
    ),
    ("hashed", put("hashed", 0, 2**40), "'hashed' must be"),
    ("hashed", put("list_of", slice(None), 10**6), "'list_of' must be"),
    ("hashed", all_in_each_list, "an event finds"),
    ("overlapped", put("ids", 0, 10**6), "'ids' must be"),
    ("keyed", put("local", 0, lambda a: a["local"][1]), "a number of its own"),
    ("keyed", resized("local", 1), "at most 12 attributes"),
    ("keyed", put("cut_offsets", 1, -1), "'cut_offsets' must be"),
    ("keyed", put("run_offsets", 1, 10**6), "'run_offsets' must be"),
    ("keyed", put("key_attribute", 0, 10**6), "'key_attribute' must be"),
    ("keyed", put("span_shift", 0, 200), "'span_shift' must be"),
    ("keyed", put("span_shift", 0, 16), "a span for each code"),
    ("keyed", put("span_start", 0, 2), "a span for each code"),
    ("keyed", put("spans", 0, 10**6), "'spans' must be"),
    ("keyed", one_range_for_all_runs, "blocks one after the other"),
    ("keyed", put("heads", 2 * LANES, 2**16 - 1), "'heads' must be"),
    ("keyed", put("rows", 0, 2**16 - 1), "'rows' must be"),
    ("keyed", put("row_offsets", -1, 1), "'row_offsets' must be"),
    ("keyed", put("row_offsets", lambda a: np.argmax(a["row_offsets"] > 0), 1), "multiples of 24"),
    ("keyed", put("candidate", 0, 10**6), "'candidate' must be"),
    ("keyed", one_conjunction, "none of them twice"),
    ("keyed", put("heads", lows_of_keys, 0), "none of them twice"),
    ("keyed", resized("block_bound", 1), "must have"),
    ("shelves", put("pair_start", lambda a: np.argmax(a["pair_start"]), 1), "a part of its own"),
    ("shelves", twice_a_shelf, "a shelf of their own"),
    ("shelves", put("pair_shelf", lambda a: np.argmax(a["pair_shelf"]), 0), "'pair_shelf' must be"),
    ("direct sets", resized("code_start", 1), "'code_start' must have"),
    ("direct sets", put("code_start", first_table, 10**6), "'code_start' must be"),
    (
        "direct sets",
        put("code_start", first_table, lambda a: len(a["code_table"]) - 1),
        "a code for",
    ),
    ("direct sets", put("code_start", without_cuts, 0), "must have no table|a code for each key"),
    ("direct sets", put("code_table", slice(None), 2**16 - 1), "'code_table' must be"),
    ("direct sets", put("set_attribute", 2, 10**6), "'set_attribute' must be"),
    ("direct sets", put("set_stride", 2, 2), "products of the numbers of codes"),
    ("direct sets", put("set_stride", 0, 0), "products of the numbers of codes"),
    ("direct sets", put("table_start", 1, 1), "a place for each|in one place of one table"),
    ("direct sets", put("table", slice(None), 10**6), "'table' must be"),
    ("direct sets", put("table", lambda a: a["table"] == 1, 0), "in one place of one table"),
    ("direct sets", put("table", lambda a: a["table"] == 1, -1), "in one place of one table"),
    ("direct sets", put("slot_start", 0, -2), "a place for each combination"),
    ("direct sets", put("slot_start", 0, 0), "a power of two slots"),
    ("direct sets", put("bucket_lane", 1, 10**6), "'bucket_lane' must ascend"),
    ("direct sets", put("gate_attribute", 0, 10**6), "'gate_attribute' must be"),
    ("direct sets", put("gate_attribute", 0, -1), "'gate_attribute' must be"),
    ("direct sets", put("gate_attribute", 0, one_attribute_too_many), "'gate_attribute' must be"),
    ("direct sets", put("set_attribute", 0, one_attribute_too_many), "'set_attribute' must be"),
    ("direct sets", resized("gate", -1), "'gate' must"),
    ("direct sets", resized("gate_attribute", 1), "'gate_attribute' must"),
    ("direct sets", put("bucket_lane", 0, 1), "'bucket_lane' must ascend"),
    ("direct sets", put("bucket_lane", 1, 0), "the number of its bucket|'bucket_lane' must"),
    ("direct sets", one_conjunction, "none of them twice"),
    ("direct sets", resized("run_bound", -1), "'run_bound' must have"),
    ("hashed sets", put("slot_shift", 0, 3), "a power of two slots"),
    ("hashed sets", put("slot_start", 0, 1), "a power of two slots"),
    ("hashed sets", no_free_slot, "'table' must be|in one place|one of them empty"),
    ("hashed sets", full_hash_table, "one of them empty"),
    ("hashed sets", resized("slot_combination", -1), "'slot_combination' must have"),
    ("bestar", put("bucket", bucket(parents, LEFT), 0), "'bucket' must be"),
    ("bestar", put("bucket", bucket(parents, LEFT), 10**6), "'bucket' must be"),
    ("bestar", put("bucket", bucket(parents, LEFT), lambda a: a["pnode"][ROOT]), "in one place"),
    ("bestar", put("pnode", ROOT, 0), "'bucket' must be"),
    ("bestar", put("pnode", ATTRIBUTE, 12), "attribute of a p-node"),
    ("bestar", put("bucket", bucket(lambda b: b[:, SIZE] > 0, LEAF), -1), "entries of a leaf"),
    ("bestar", put("bucket", bucket(lambda b: b[:, SIZE] > 0, SIZE), 2**62), "size of a leaf"),
    ("bestar", put("bucket", bucket(lambda b: b[:, SIZE] == 0, SIZE), 10**3), "of a leaf"),
    ("bestar", put("bucket", bucket(lambda b: b[:, NODES] > 0, DIRECTORY), 10**6), "directory"),
    ("bestar", put("state", LONGEST_LEAF, 0), "longer than the longest"),
    ("bestar", put("state", LONGEST_LEAF, 2**62), "longer than the longest"),
    ("bestar", put("state", 0, 2**62), "'bucket' must have"),
    ("bestar", put("target", slice(None), 10**6), "'target' must be"),
    ("bestar", put("required", slice(None), 13), "'required' must be"),
    ("bestar", put("required", slice(None), 1), "must ascend"),
    ("bestar", resized("usual_weight", -1), "'usual_weight' must have"),
    ("bestar", resized("only_intervals", -1), "'only_intervals' must have"),
    ("bestar", resized("extension", -1), "'extension' must have"),
    ("bestar", put("options", 0, -1.0), "no option may be negative"),
    ("bestar", put("options", 1, np.nan), "no option may be negative or NaN"),
    ("summaries", resized("gain", -1), "'gain' must have"),
    ("summaries", resized("leaf_gain", -1), "'leaf_gain' must have"),
    ("summaries", resized("summary", -4), "'summary' must have"),
    ("summaries", resized("summary_weight", -1), "'summary_weight' must have"),
    ("summaries", put("summary", OWN, 10**6), "entries of a summary"),
    ("summaries", put("summary", OWN_SIZE, 2**62), "size of a summary"),
    ("summaries", put("summary_attribute", 0, 12), "'summary_attribute' must be"),
    ("summaries", put("summary_attribute", 0, -1), "'summary_attribute' must be"),
]


@pytest.mark.parametrize(("name", "change", "words"), WRONG)
def test_what_is_wrong_is_refused(built, name, change, words):
    index = built[name]
    arrays = {field: array.copy() for field, array in index.arrays().items()}
    change(arrays)
    with pytest.raises(StoreError, match=words):
        type(index).from_arrays(index.conjunctions, arrays).validate(len(generate.SCHEMA))


@pytest.mark.parametrize("name", INDEXES)
def test_arrays_must_be_there_and_of_their_type(built, name):
    index = built[name]
    arrays = index.arrays()
    for field, array in arrays.items():
        others = {other: arrays[other] for other in arrays if other != field}
        with pytest.raises(StoreError, match=f"array '{field}' is missing"):
            type(index).from_arrays(index.conjunctions, others)
        for wrong in (array.astype(np.float32), array[None]):
            with pytest.raises(StoreError, match=f"array '{field}' must be one-dimensional"):
                type(index).from_arrays(index.conjunctions, others | {field: wrong})


@pytest.mark.parametrize("name", [*INDEXES, "direct sets", "hashed sets"])
def test_arrays_of_any_length_raise_nothing_else(built, name):
    index = built[name]
    arrays = index.arrays()
    for field, array in arrays.items():
        for size in {0, 1, len(array) - 1, len(array) + 1, 2 * len(array)} - {len(array), -1}:
            changed = arrays | {field: np.resize(array, size)}
            with contextlib.suppress(StoreError):
                type(index).from_arrays(index.conjunctions, changed).validate(len(generate.SCHEMA))


WRONG_CONJUNCTIONS = [
    (put("offsets", 0, 1), "'offsets' must be"),
    (put("offsets", 1, 10**6), "'offsets' must be"),
    (put("offsets", 1, -1), "'offsets' must be"),
    (resized("offsets", -1), "'offsets' must be"),
    (put("attribute", 0, -1), "'attribute' must be"),
    (put("attribute", 0, 12), "'attribute' must be"),
    (put("attribute", slice(None), 3), "must ascend"),
    (lambda a: a.update(attribute=a["attribute"][::-1]), "must ascend"),
    (put("kind", 0, 3), "'kind' must be"),
    (put("kind", slice(None), 1), "must divide"),
    (resized("kind", 1), "'kind' must have"),
    (resized("low", 1), "'low' must have"),
    (put("low", lambda a: a["kind"] == INTERVAL, 2**63 - 1), "above its 'high'"),
    (put("low", lambda a: np.argmax(a["kind"] != INTERVAL), -1), "must divide"),
    (put("high", lambda a: np.flatnonzero(a["kind"] != INTERVAL)[-1], 10**6), "must divide"),
    (put("high", lambda a: np.argmax(a["kind"] != INTERVAL), 0), "must divide"),
    (resized("points", -1), "must divide"),
    (put("points", slice(None), 7), "points of a set must ascend"),
    (lambda a: a.update(weight=np.ones(3)), "one element per row"),
    (lambda a: a.update(weight=np.full(len(a["kind"]), np.nan)), "finite and not negative"),
    (lambda a: a.update(weight=np.full(len(a["kind"]), -1.0)), "finite and not negative"),
    (put("rule", 0, 10**6), "'rule' must ascend"),
    (put("rule", 0, -1), "'rule' must be"),
]


@pytest.mark.parametrize(("change", "words"), WRONG_CONJUNCTIONS)
def test_wrong_conjunctions_are_refused(work, change, words):
    arrays = {name: array.copy() for name, array in work.conjunctions._asdict().items()}
    change(arrays)
    with pytest.raises(StoreError, match=words):
        freeze_fields(Conjunctions, **arrays).validate(len(generate.SCHEMA))
