"""Keys are found, forgotten and found anew, whatever they are."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tocsin.moving.objects import WORDS, Objects, sort_slots

EXTREMES = [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)]
TEXTS = [
    "",
    "a",
    "ab",
    "1234567",
    "12345678",
    "12345679",
    "x" * 16,
    "x" * 17,
    "é" * 9,
    "\0",
    "\0\0",
]


def random_key(rng, has_texts):
    if has_texts:
        if rng.random() < 0.2:
            return rng.choice(TEXTS)
        return rng.choice(("truck-", "", "a long prefix of keys ")) + str(rng.randrange(3000))
    return rng.choice(EXTREMES) if rng.random() < 0.1 else rng.randrange(-2000, 2000)


@pytest.mark.parametrize("has_texts", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_slots_are_those_of_a_dict(has_texts, seed):
    rng = random.Random(seed)
    objects, known = Objects(has_texts), {}
    for _ in range(60):
        keys = [random_key(rng, has_texts) for _ in range(rng.choice((0, 1, 10, 300)))]
        valid = np.array([rng.random() < 0.9 for _ in keys], np.uint8)
        array = pa.array(
            [
                key if ok or rng.random() < 0.5 else None
                for key, ok in zip(keys, valid, strict=True)
            ],
            objects.word_type,
        )
        slots = objects.assign(array, valid)
        for key, slot, ok in zip(keys, slots.tolist(), valid, strict=True):
            if not ok:
                assert slot == -1
            elif key in known:
                assert slot == known[key]
            else:
                assert slot not in known.values()
                known[key] = slot
        objects.records.reshape(-1, WORDS)[list(known.values()), -1] = list(known.values())
        assert objects.size == len(known)
        assert objects.keys(np.array(list(known.values()), np.int32)).to_pylist() == list(known)
        some = [random_key(rng, has_texts) for _ in range(50)]
        assert objects.find(pa.array(some, objects.word_type)).tolist() == [
            known.get(key, -1) for key in some
        ]
        gone = [key for key in known if rng.random() < rng.choice((0.0, 0.1, 0.6))]
        objects.forget(np.array([known.pop(key) for key in gone], np.int32))
        assert sorted(objects.live().tolist()) == sorted(known.values())


def test_rows_are_sorted_by_slot_and_stay_in_order():
    rng = np.random.default_rng(5)
    for highest in (1, 2, 2047, 2048, 2049, 10**6, 2**30):
        slots = rng.integers(0, highest, 5000).astype(np.int32)
        rows = rng.permutation(5000)[:3000].astype(np.int32)
        order, scratch = np.empty(3000, np.int32), np.empty(3000, np.int32)
        sort_slots(slots, rows, highest, order, scratch)
        assert order.tolist() == rows[np.argsort(slots[rows], kind="stable")].tolist()
