"""Noisy copies of rows, put to the vote and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Any

import numpy as np

from .._column_noise import Sigma, count_noisy
from .._models import Voter
from .._noise import Grid, Seed, block_slices, moved_into_strata
from .._validation import FloatArray, IndexArray
from ..tallies import Tally
from ..tallies._design import Design


@dataclass(frozen=True)
class Piece:
    """Some blocks of the noise of one row, and the tally that counts them.

    Attributes
    ----------
    row : ndarray
    key : int
        Stands for the content of the row in the seed of its noise.
    n_draws : int
        Draws of the row in this stage, which tell how long its last block is.
    blocks : tuple of int
        First block, and the one after the last.
    tally : Tally
    block_size : int
        Draws of a block.
    """

    row: FloatArray
    key: int
    n_draws: int
    blocks: tuple[int, int]
    tally: Tally
    block_size: int


@dataclass(frozen=True)
class Sampler:
    """Noisy copies of rows, put to the vote and counted.

    Attributes
    ----------
    voter : Voter
    sigma : float or ColumnNoise
        Standard deviation of the noise. Noise is drawn, and tallies are filled, for the features that have noise.
    entropy : int
        Seed of the run.
    batch_size : int or None
        Noisy rows in one call of the model; None chooses by the size of a row.
    grid : Grid or None
        Grid of exact noise; None for noise that is rounded wherever it is.
    """

    voter: Voter
    sigma: Sigma
    entropy: int
    batch_size: int | None = None
    grid: Grid | None = None

    def draws_per_call(self, n_features: int, sides: int, largest_block: int) -> int:
        """Return the draws of noise that go into one call of the model: at least one block."""
        return max(largest_block, self._batch(n_features) // sides)

    def _batch(self, n_features: int) -> int:
        return self.batch_size or int(self.voter.arrays.default_batch_size(n_features))

    def fill(self, pieces: Sequence[Piece], stage: int, paired: bool) -> None:
        """Count the votes on some blocks of noise; short blocks of several rows share a call of the model.

        Each block has noise of its own and enters its tally by itself, so counts and sums do not depend on how blocks
        are put together.
        """
        own_noise = [piece.tally.needs_noise for piece in pieces]
        needs_noise = any(own_noise)
        designs = [piece.tally.design for piece in pieces]
        arrays, shape = self._arrays(needs_noise), pieces[0].row.shape
        n_features, sides = pieces[0].row.size, 2 if paired else 1
        n_noisy = count_noisy(self.sigma, n_features)
        largest = max(piece.block_size for piece in pieces)
        calls = _calls(pieces, self.draws_per_call(n_features, sides, largest))
        with arrays.inference_context():
            flat = [arrays.row(piece.row) for piece in pieces]
            separate = needs_noise or paired or n_noisy < n_features or self.grid is not None
            buffers = _Buffers(arrays, flat[0], shape, sides, flat[0][:n_noisy] if separate else None)
            for call in calls:
                room = buffers.room([length for _, _, length in call])
                for (piece, block, _), (low, high) in zip(call, room.spans, strict=True):
                    seed = Seed(self.entropy, stage, pieces[piece].key, block)
                    arrays.standard_normal(seed, room.noise[low:high])
                    _redirect(arrays, designs[piece], block * pieces[piece].block_size, room.noise[low:high])
                for piece, low, high in _runs(call, room.spans):
                    far = None if room.far is None else room.far[low:high]
                    arrays.add_noise(flat[piece], room.noise[low:high], self.sigma, room.near[low:high], far)
                votes = self._vote(room.rows, self._batch(n_features)).reshape(sides, -1)
                seen = arrays.as_tally_input(room.noise)[None] if needs_noise else None
                for (piece, _, _), (low, high) in zip(call, room.spans, strict=True):
                    own = votes[None, :, low:high] if paired else votes[:, low:high]
                    own_seen = seen[:, low:high] if seen is not None and own_noise[piece] else None
                    pieces[piece].tally.update(own_seen, own)

    def fill_gradients(self, piece: Piece, stage: int) -> None:
        """Count votes and sum the gradients of the candidate's margin, in units of sigma.

        Always one block at a time: gradients are real numbers, which differ in the last bits between batches of
        different sizes.
        """
        arrays, shape = self._arrays(seen=False), piece.row.shape
        x = arrays.row(piece.row)
        n_noisy = count_noisy(self.sigma, piece.row.size)
        candidate = int(piece.tally.candidate[0])  # type: ignore[attr-defined]
        design = piece.tally.design
        for block, n in block_slices(piece.n_draws, piece.block_size, *piece.blocks):
            rows = arrays.empty(n, x)
            in_place = n_noisy == piece.row.size and self.grid is None
            noise = rows if in_place else arrays.empty_noise(n, x[:n_noisy])
            arrays.standard_normal(Seed(self.entropy, stage, piece.key, block), noise)
            _redirect(arrays, design, block * piece.block_size, noise)
            arrays.add_noise(x, noise, self.sigma, rows)
            votes, gradients = self.voter.vote_with_gradients(rows.reshape(-1, *shape), candidate)
            piece.tally.update(arrays.gradients_in_units(gradients.reshape(1, n, -1), self.sigma), votes[None])

    def _arrays(self, seen: bool) -> Any:
        """Return where noise is made; `seen` tells whether tallies look at it."""
        return self.voter.arrays if self.grid is None else self.voter.arrays.on_grid(self.grid, seen)

    def _vote(self, rows: Any, batch: int) -> IndexArray:
        parts = -(-len(rows) // batch)
        if parts == 1:
            return self.voter.vote(rows)
        even = -(-len(rows) // parts)
        return np.concatenate([self.voter.vote(rows[i : i + even]) for i in range(0, len(rows), even)])


def _redirect(arrays: Any, design: Design | None, first: int, noise: Any) -> None:
    """Move noise, from the draw with the number `first` on, along the direction of a design, if there is one, into the
    strata of its draws."""
    if design is not None:
        along = arrays.along(noise, design.direction)
        strata = design.strata(first, len(along))
        arrays.move_along(noise, design.direction, moved_into_strata(along, design.cuts, strata) - along)


_Call = list[tuple[int, int, int]]
"""Blocks that share a call of the model: which piece, which block, how many draws."""


def _calls(pieces: Sequence[Piece], most_draws: int) -> Iterator[_Call]:
    call: _Call = []
    left = most_draws
    for index, piece in enumerate(pieces):
        for block, length in block_slices(piece.n_draws, piece.block_size, *piece.blocks):
            if length > left:
                yield call
                call, left = [], most_draws
            call.append((index, block, length))
            left -= length
    if call:
        yield call


def _runs(call: _Call, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Yield each piece of a call and the rows that belong to it."""
    for piece, members in groupby(range(len(call)), key=lambda i: call[i][0]):
        own = list(members)
        yield piece, spans[own[0]][0], spans[own[-1]][1]


@dataclass(frozen=True)
class _Room:
    """Views into buffers, for one call of the model.

    Votes are cast on `rows`, whose first part is `near` and, for pairs, whose second part is `far`.
    """

    spans: Sequence[tuple[int, int]]
    noise: Any
    near: Any
    far: Any
    rows: Any


class _Buffers:
    """Room for noise and noisy rows, used again from call to call.

    Noise has room of its own, for rows like `like_noise`; where that is None, nobody looks at it again, and it is made
    in place.
    """

    def __init__(self, arrays: Any, like: Any, shape: tuple[int, ...], sides: int, like_noise: Any) -> None:
        self._arrays, self._like, self._shape, self._sides, self._like_noise = arrays, like, shape, sides, like_noise
        self._most = 0
        self._lengths: list[int] = []
        self._room: _Room | None = None

    def room(self, lengths: list[int]) -> _Room:
        """Return room for blocks of these lengths; most calls are like the one before."""
        if self._room is None or lengths != self._lengths:
            self._room, self._lengths = self._new_room(lengths), lengths
        return self._room

    def _new_room(self, lengths: list[int]) -> _Room:
        spans = list(pairwise([0, *accumulate(lengths)]))
        n = spans[-1][1]
        if n > self._most:
            self._most = n
            self._noisy = self._arrays.empty(self._sides * n, self._like)
            own = self._like_noise
            self._noise = self._noisy if own is None else self._arrays.empty_noise(n, own)
        rows = self._noisy[: self._sides * n]
        far = rows[n:] if self._sides == 2 else None
        return _Room(spans, self._noise[:n], rows[:n], far, rows.reshape(-1, *self._shape))
