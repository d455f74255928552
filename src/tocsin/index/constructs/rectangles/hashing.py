"""The hash table of activated constructs (2.2.3): a number leads to the number of a list.

Open addressing with linear probing. A table has a power of two for its size and is a quarter to
half full, so a search ends.
"""

from __future__ import annotations

import numpy as np

from tocsin.jit import Int32Out, Int64Out, Int64s, kernel, step


@step
def mix_bits(number):
    """Return a number stirred, for hashing."""
    stirred = np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)
    return stirred ^ (stirred >> np.uint64(32))


@step
def look_up(hashed, list_of, number):
    """Return which list an activated construct has, or -1."""
    mask = np.uint64(hashed.shape[0] - 1)
    at = mix_bits(number) & mask
    while hashed[at] != number:
        if hashed[at] < 0:
            return np.int64(-1)
        at = (at + np.uint64(1)) & mask
    return np.int64(list_of[at])


def hash_constructs(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return a table of the constructs that entries name, the list of each place in the table, the
    list of each entry, and how many lists there are.
    """
    activated, lists = np.unique(numbers, return_inverse=True)
    hashed = np.full(1 << max(int(2 * len(activated)).bit_length(), 1), -1, np.int64)
    list_of = np.zeros(len(hashed), np.int32)
    fill_table(activated, hashed, list_of)
    return hashed, list_of, lists, len(activated)


@kernel
def fill_table(activated: Int64s, hashed: Int64Out, list_of: Int32Out) -> None:
    """Put the numbers of activated constructs into a table, each with its place among them."""
    mask = np.uint64(hashed.shape[0] - 1)
    for i in range(activated.shape[0]):
        at = mix_bits(activated[i]) & mask
        while hashed[at] >= 0:
            at = (at + np.uint64(1)) & mask
        hashed[at] = activated[i]
        list_of[at] = i
