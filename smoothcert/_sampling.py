"""The engine: rows in, tallies out.

Work is cut into units, each a run of noise blocks for one row, whose tallies are merged as they come back. Since
merging is exact in any order, neither the cut nor the backend shows in the result. The engine knows three stages,
selection, an optional pilot, and estimation, and nothing about certificates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from ._noise import ESTIMATION, PILOT, SELECTION, block_rows, block_seed, block_slices
from ._sharing import Shared
from ._validation import FloatArray
from .tallies import IntArray, Tally, VoteTally

# Seconds of work in a unit: long enough to hide what it costs to send one, short enough to share and to show progress.
_UNIT_SECONDS = 0.5


class Voter(Protocol):
    """Anything that votes, and the kind of arrays it votes on."""

    arrays: Any

    def vote(self, rows: Any) -> NDArray[np.intp]: ...


@dataclass(frozen=True)
class Sampler:
    """Noisy copies of rows, put to the vote and counted.

    Attributes
    ----------
    voter : Voter
    sigma : float
        Standard deviation of the noise.
    entropy : int
        Seed of the run.
    batch_size : int or None
        Noisy rows in one call of the model; None chooses by the size of a row.
    """

    voter: Voter
    sigma: float
    entropy: int
    batch_size: int | None = None

    def tally(
        self, row: FloatArray, key: int, stage: int, n_draws: int, blocks: tuple[int, int], tally: Tally, paired: bool
    ) -> Tally:
        """Fill an empty tally of one row with the votes on some blocks of its noise."""
        size = block_rows(row.size)
        arrays = self.voter.arrays
        x = arrays.row(row)
        sides = 2 if paired else 1
        batch = self.batch_size or max(arrays.numbers_at_once // row.size, 1)
        together = max(1, batch // (size * sides))
        first, last = blocks
        most = min(together, last - first) * size
        # Votes are cast on `noisy`; for pairs its second half holds the far sides. Where nobody looks at the noise
        # again, it is made in place.
        noisy = arrays.empty(sides * most, x)
        buffer = arrays.empty(most, x) if tally.uses_noise or paired else noisy
        for start in range(first, last, together):
            lengths = list(block_slices(n_draws, size, start, min(start + together, last)))
            ends = [0, *accumulate(length for _, length in lengths)]
            for (block, _), (low, high) in zip(lengths, pairwise(ends), strict=True):
                arrays.standard_normal(block_seed(self.entropy, stage, key, block), buffer[low:high])
            n = ends[-1]
            noise, rows = buffer[:n], noisy[: sides * n]
            arrays.scale(noise, self.sigma, rows[:n])
            if paired:
                arrays.mirror(x, rows[:n], rows[n:])
            rows[:n] += x
            votes = self._vote(rows.reshape(-1, *row.shape), batch)
            votes = votes.reshape(2, n) if paired else votes
            # Block by block, so that sums are the same however blocks are batched.
            for low, high in pairwise(ends):
                tally.update(noise[None, low:high] if tally.uses_noise else None, votes[None, ..., low:high])
        return tally

    def _vote(self, rows: Any, batch: int) -> NDArray[np.intp]:
        parts = -(-len(rows) // batch)
        if parts == 1:
            return self.voter.vote(rows)
        even = -(-len(rows) // parts)
        return np.concatenate([self.voter.vote(rows[i : i + even]) for i in range(0, len(rows), even)])


Unit = tuple[int, Callable[..., Any], tuple[Any, ...]]
"""A piece of work: its number of samples, a function, and its arguments."""


@dataclass(frozen=True)
class Schedule:
    """How work is run: in how many processes, and who is told of progress."""

    n_jobs: int | None = None
    progress: Callable[[int], Any] = field(default=lambda samples: None)

    def run(self, units: Iterable[Unit], several: bool = True) -> Iterator[Any]:
        """Results of all units as they become ready, in any order; units are made as they are needed."""
        if effective_n_jobs(self.n_jobs) == 1 or not several:
            for samples, function, arguments in units:
                result = function(*arguments)
                self.progress(samples)
                yield result
            return
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator_unordered", pre_dispatch="3*n_jobs")
        tasks = (delayed(_with_samples)(samples, function, arguments) for samples, function, arguments in units)
        for samples, result in parallel(tasks):
            self.progress(samples)
            yield result


def _with_samples(samples: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return samples, function(*arguments)


def votes_of_rows(
    sampler: Shared, schedule: Schedule, X: FloatArray, keys: Sequence[int], stage: int, n_votes: int, n_classes: int
) -> IntArray:
    """Votes for each class on `n_votes` noisy copies of each row, shape (n_rows, n_classes)."""
    counts = np.zeros((len(X), n_classes), dtype=np.int64)
    share = -(-len(X) // (4 * effective_n_jobs(schedule.n_jobs)))  # so that all workers have some
    starts = range(0, len(X), max(1, min(20_000 // n_votes, share)))
    step = starts.step
    units = (
        (
            min(step, len(X) - i) * n_votes,
            _vote_rows,
            (sampler, X[i : i + step], keys[i : i + step], i, stage, n_votes, n_classes),
        )
        for i in starts
    )
    for first, part in schedule.run(units, several=len(starts) > 1):
        counts[first : first + len(part)] = part
    return counts


def _vote_rows(
    sampler: Shared, X: FloatArray, keys: Sequence[int], first: int, stage: int, n_votes: int, n_classes: int
) -> tuple[int, IntArray]:
    blocks = (0, -(-n_votes // block_rows(X[0].size)))
    tallies = [
        sampler.get().tally(row, key, stage, n_votes, blocks, VoteTally.empty(1, n_classes), paired=False)
        for row, key in zip(X, keys, strict=True)
    ]
    return first, VoteTally.concatenate(tallies).counts


def sample_evidence(
    sampler: Shared, schedule: Schedule, certifier: Any, X: FloatArray, keys: Sequence[int], n_classes: int
) -> tuple[IntArray, Tally]:
    """Candidate class of each row, and the evidence the certifier asked for."""
    chosen = votes_of_rows(sampler, schedule, X, keys, SELECTION, certifier.n_selection, n_classes)
    candidate = np.argmax(chosen, axis=1)
    plans: Sequence[Any] = [None] * len(X)
    if certifier.n_pilot:
        pilot = _tally_rows(sampler, schedule, X, keys, PILOT, certifier.n_pilot, certifier, n_classes, candidate, None)
        plans = certifier.plan(pilot)
    draws = certifier.n_samples - certifier.n_pilot
    evidence = _tally_rows(sampler, schedule, X, keys, ESTIMATION, draws, certifier, n_classes, candidate, plans)
    return candidate, evidence


def _tally_rows(
    sampler: Shared,
    schedule: Schedule,
    X: FloatArray,
    keys: Sequence[int],
    stage: int,
    n_samples: int,
    certifier: Any,
    n_classes: int,
    candidate: IntArray,
    plans: Sequence[Any] | None,
) -> Tally:
    paired = certifier.pairing == "antithetic"
    n_draws = n_samples // 2 if paired else n_samples
    n_features = X[0].size
    size = block_rows(n_features)
    n_blocks = -(-n_draws // size)
    evaluations = 2 if paired else 1

    def empty(row: int) -> Tally:
        arguments = (1, n_features, n_classes, candidate[row : row + 1])
        return certifier.new_pilot(*arguments) if plans is None else certifier.new_tally(*arguments, plan=plans[row])

    def unit(row: int, first: int, last: int) -> Unit:
        samples = evaluations * (min(last * size, n_draws) - first * size)
        return (
            samples,
            _tally_unit,
            (sampler, X[row], keys[row], row, stage, n_draws, (first, last), empty(row), paired),
        )

    found: list[Tally | None] = [None] * len(X)

    def add(row: int, tally: Tally) -> None:
        known = found[row]
        found[row] = tally if known is None else known.merge(tally)

    # The first block is counted here and timed, to cut the rest into units of a sensible length.
    start = time.perf_counter()
    samples, function, arguments = unit(0, 0, 1)
    add(*function(*arguments))
    schedule.progress(samples)
    seconds = time.perf_counter() - start
    workers = effective_n_jobs(schedule.n_jobs)
    fair = -(-n_blocks * len(X) // (4 * workers)) if workers > 1 else n_blocks
    blocks = max(1, min(n_blocks, fair, int(_UNIT_SECONDS / max(seconds, 1e-6))))
    units = (
        unit(row, first, min(first + blocks, n_blocks))
        for row in range(len(X))
        for first in range(0 if row else 1, n_blocks, blocks)
    )
    for row, tally in schedule.run(units):
        add(row, tally)
    whole = [tally for tally in found if tally is not None]
    return type(whole[0]).concatenate(whole)


def _tally_unit(
    sampler: Shared,
    row: FloatArray,
    key: int,
    index: int,
    stage: int,
    n_draws: int,
    blocks: tuple[int, int],
    tally: Tally,
    paired: bool,
) -> tuple[int, Tally]:
    return index, sampler.get().tally(row, key, stage, n_draws, blocks, tally, paired)
