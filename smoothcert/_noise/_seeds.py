"""Noise that depends on what it is for and on nothing else.

Each block of noise has a generator of its own, seeded by (entropy of the run, stage, content of the row, number of the
block). So results do not depend on the order of the rows, on which other rows are there, on how the work is cut or
where it runs; and rows fail independently, unlike with one bank of noise for all.
"""

from __future__ import annotations

import hashlib
import numbers
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

VOTE, SELECTION, PILOT, ESTIMATION = range(4)
"""Stages; each has its own noise. The numbers enter the seeds: seeds draw other noise if they change."""

SCREEN, LOOKS = 14, 15
"""Stages of runs that look at their evidence on the way, whose blocks are smaller. They are above those of pilots;
nets have room for 16 stages."""


def pilot_stage(number: int) -> int:
    """Return the stage of a certifier's pilots, the first of which is `PILOT`."""
    stage = PILOT if number == 0 else ESTIMATION + number
    if stage >= SCREEN:
        raise ValueError(f"A certifier must have at most {SCREEN - ESTIMATION} pilots, got more. Join some of them.")
    return stage


_BLOCK_NUMBERS = 2**20
"""Numbers in a block of noise, about: 8 MB in float64.

This and the limits below decide which generator draws which sample. Changing them changes the noise of every seed and
needs a new journal schema. Validity does not depend on them."""

_MOST_ROWS, _LEAST_ROWS = 2048, 128
"""Rows of a block. With few features, blocks of more rows would be too coarse as the smallest pieces of work; with very
many, blocks of fewer rows would be too short for sums and for calls of a classifier to be efficient."""


def block_size(n_features: int) -> int:
    """Return rows in a block of noise: a power of two that depends on the number of features only, of about a million
    numbers."""
    rows = _MOST_ROWS
    while rows > _LEAST_ROWS and rows * n_features > _BLOCK_NUMBERS:
        rows //= 2
    return rows


def seed_from(random_state: Any) -> int:
    """Return a seed for a whole run: the user's number, drawn from the user's generator, or fresh from the system."""
    if random_state is None:
        return secrets.randbits(128)
    if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool) and int(random_state) >= 0:
        return int(random_state)
    if isinstance(random_state, np.random.Generator):
        return int.from_bytes(random_state.bytes(16), "little")
    if isinstance(random_state, np.random.RandomState):
        return int.from_bytes(random_state.bytes(16), "little")
    raise ValueError(
        "random_state must be None, a non-negative integer, a numpy Generator or a RandomState, "
        f"got {random_state!r}. Give an integer to make results repeatable."
    )


def seed_for_purpose(random_state: Any, purpose: str) -> int | None:
    """Return a seed of its own for a purpose, so that what is drawn for it tells nothing about what a run draws with
    the same `random_state`; None stays None.

    An entropy is a small number a user chose, or one of 128 bits; a digest of it and the purpose is another of 128
    bits, which no user chooses by accident.
    """
    if random_state is None:
        return None
    text = f"{purpose} {seed_from(random_state)}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16, person=b"smoothcert").digest(), "little")


def hash_row(row: NDArray[Any]) -> int:
    """Return a number that stands for the content of a row: equal rows, equal keys, whatever their precision or
    place."""
    content = np.ascontiguousarray(row, dtype=np.float64) + 0.0  # so that -0.0 counts as 0.0
    digest = hashlib.blake2b(content.tobytes(), digest_size=16)
    digest.update(repr(content.shape).encode())
    return int.from_bytes(digest.digest(), "little")


class Seed(NamedTuple):
    """All that a block of noise depends on."""

    entropy: int
    stage: int
    key: int
    block: int


def block_slices(n_draws: int, rows: int, first_block: int, last_block: int) -> Iterator[tuple[int, int]]:
    """Yield the number and length of each block from `first_block` up to, not including, `last_block`; the last of all
    may be short."""
    for block in range(first_block, last_block):
        yield block, min(rows, n_draws - block * rows)
