"""All prompts of the file world, and which of them are held out.

A prompt says: the family, the files a, b, z and a scratch file, all different, and the operations
f and g. Its number is what stands below; its hash, not the run or the seed, puts it into the
training, validation or test prompts, so no choice of seeds can mix them.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32

from training.environments.commands import (
    NO_LINE,
    NUM_FAMILIES,
    NUM_FILES,
    OPS,
    PROMPT_LENGTH,
    Family,
)


class Split(IntEnum):
    """Which prompts: of ten, eight are for training."""

    TRAIN = 0
    VALIDATION = 1
    TEST = 2


HASH_BUCKETS = 10
SPLIT_OF_BUCKET = (Split.TRAIN,) * 8 + (Split.VALIDATION, Split.TEST)

TWO_OPS = (Family.CHAIN, Family.JOIN)
"""Families with a g beside f; f and g differ, since two of the operations undo themselves."""


class PromptTable(NamedTuple):
    """Every prompt, those of one family and split side by side.

    Attributes:
        rows: family, a, b, z, scratch, f, g; names from 0, f and g as verbs; `NO_LINE` where the
            prompt says nothing.
        first: by family and split, the place of the first row.
        number: by family and split, how many there are.
    """

    rows: Int32[np.ndarray, "_ 7"]
    first: Int32[np.ndarray, "5 3"]
    number: Int32[np.ndarray, "5 3"]


def prompt_number(row: Int32[np.ndarray, "_ 7"]) -> Int32[np.ndarray, " _"]:
    """A number of its own for every prompt: its seven parts as digits, the family first.

    `number = ((((((family * 9 + a + 1) * 9 + b + 1) * 9 + z + 1) * 9 + t + 1) * 12 + f + 1) * 12
    + g + 1`, where a part that the prompt does not have is -1.
    """
    number = row[..., 0]
    for place in range(1, PROMPT_LENGTH):
        base = NUM_FILES + 1 if place < 5 else 12
        number = number * base + row[..., place] + 1
    return number


def split_of(row: Int32[np.ndarray, "_ 7"]) -> Int32[np.ndarray, " _"]:
    """The split of a prompt, a function of the prompt alone.

    The prompt's number goes through the finaliser of MurmurHash3 (32 bits, without signs); the
    remainder modulo 10 decides: 0 to 7 training, 8 validation, 9 test.
    """
    bits = prompt_number(row).astype(np.uint32)
    with np.errstate(over="ignore"):  # products modulo 2**32 are what is wanted
        bits = (bits ^ (bits >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        bits = (bits ^ (bits >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    bits = bits ^ (bits >> np.uint32(16))
    return np.asarray(SPLIT_OF_BUCKET, np.int32)[bits % np.uint32(HASH_BUCKETS)]


@cache
def prompt_table() -> PromptTable:
    """All prompts, sorted by family and split. Source: docs/file-world.md."""
    rows = np.array([row for family in Family for row in _prompts(family)], np.int32)
    splits = split_of(rows)
    rows = rows[np.lexsort((splits, rows[:, 0]))]
    splits = np.sort(splits + len(Split) * rows[:, 0])  # as lexsort left them: family, then split
    cells = np.arange(NUM_FAMILIES * len(Split))
    first = np.searchsorted(splits, cells).astype(np.int32)
    number = np.bincount(splits, minlength=len(cells)).astype(np.int32)
    shape = (NUM_FAMILIES, len(Split))
    return PromptTable(rows, first.reshape(shape), number.reshape(shape))


def _prompts(family: Family) -> list[tuple[int, ...]]:
    names = range(NUM_FILES)
    if family == Family.JOIN:
        files = list(permutations(names, 4))
    else:
        files = [(a, NO_LINE, z, scratch) for a, z, scratch in permutations(names, 3)]
    alone = [(f, NO_LINE) for f in OPS]
    ops = list(permutations(OPS, 2)) if family in TWO_OPS else alone
    return [(family, *chosen, *pair) for chosen in files for pair in ops]
