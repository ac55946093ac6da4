"""The engine: rows in, tallies out.

Work is cut into units, each a run of noise blocks for one row, whose tallies are merged in a ledger as they come back.
Since merging is exact in any order, neither the cut nor the backend shows in the result. The engine knows stages,
selection, pilots, and estimation, and nothing about certificates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any, Protocol, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from ._ledger import Ledger, Span, cut, draws_in, gaps
from ._noise import SELECTION, Seed, block_rows, block_slices
from ._schedule import Schedule, Unit
from ._sharing import Shared
from ._stages import Look, follow_stages, plan_here
from ._validation import FloatArray
from .tallies import IntArray, Tally, VoteTally

# Seconds of work in a unit, at most and at least: long enough to hide what it costs to send one, short enough to share
# and to show progress. Towards the end units get shorter, so that all workers finish together.
_UNIT_SECONDS = 0.5
_LAST_UNIT_SECONDS = 0.1

# Seconds of work that workers would hardly finish sooner: calling them takes some hundredths of a second.
_NOT_WORTH_SENDING = 0.1


class Voter(Protocol):
    """Anything that votes, and the kind of arrays it votes on."""

    arrays: Any

    def vote(self, rows: Any) -> NDArray[np.intp]: ...

    def differentiable(self, row: Any) -> bool: ...

    def vote_with_slopes(self, rows: Any, candidate: int) -> tuple[NDArray[np.intp], Any]: ...


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
        sides = 2 if paired else 1
        batch = self.batch_size or arrays.rows_at_once(row.size)
        together = max(1, batch // (size * sides))
        first, last = blocks
        most = min(together, last - first) * size
        with arrays.voting():
            x = arrays.row(row)
            # Votes are cast on `noisy`; for pairs its second half holds the far sides. Where nobody looks at the noise
            # again, it is made in place.
            noisy = arrays.empty(sides * most, x)
            buffer = arrays.empty(most, x) if tally.uses_noise or paired else noisy
            n = -1
            for start in range(first, last, together):
                lengths = [length for _, length in block_slices(n_draws, size, start, min(start + together, last))]
                if sum(lengths) != n:  # the last blocks may be fewer or shorter
                    spans = list(pairwise([0, *accumulate(lengths)]))
                    n = spans[-1][1]
                    noise, near, far = buffer[:n], noisy[:n], noisy[n : 2 * n] if paired else None
                    parts = [noise[low:high] for low, high in spans]
                    rows = noisy[: sides * n].reshape(-1, *row.shape)
                    seen = arrays.to_count(noise)[None] if tally.uses_noise else None
                for block, part in enumerate(parts, start):
                    arrays.standard_normal(Seed(self.entropy, stage, key, block), part)
                arrays.around(x, noise, self.sigma, near, far)
                votes = self._vote(rows, batch)
                votes = votes.reshape(1, 2, n) if paired else votes[None]
                # Block by block, so that sums are the same however blocks are batched.
                for low, high in spans:
                    tally.update(None if seen is None else seen[:, low:high], votes[..., low:high])
        return tally

    def tally_slopes(
        self, row: FloatArray, key: int, stage: int, n_draws: int, blocks: tuple[int, int], tally: Tally
    ) -> Tally:
        """Fill an empty tally of one row with votes and gradients of the candidate's margin, in units of sigma.

        Always one block at a time: gradients are real numbers, which differ in the last bits between batches of
        different sizes.
        """
        size = block_rows(row.size)
        arrays = self.voter.arrays
        x = arrays.row(row)
        candidate = int(tally.candidate[0])  # type: ignore[attr-defined]
        for block, n in block_slices(n_draws, size, *blocks):
            rows = arrays.empty(n, x)
            arrays.standard_normal(Seed(self.entropy, stage, key, block), rows)
            arrays.around(x, rows, self.sigma, rows)
            votes, slopes = self.voter.vote_with_slopes(rows.reshape(-1, *row.shape), candidate)
            tally.update(self.sigma * slopes.reshape(1, n, -1), votes[None])
        return tally

    def _vote(self, rows: Any, batch: int) -> NDArray[np.intp]:
        parts = -(-len(rows) // batch)
        if parts == 1:
            return self.voter.vote(rows)
        even = -(-len(rows) // parts)
        return np.concatenate([self.voter.vote(rows[i : i + even]) for i in range(0, len(rows), even)])


def votes_of_rows(
    sampler: Shared,
    schedule: Schedule,
    X: FloatArray,
    keys: Sequence[int],
    stage: int,
    n_votes: int,
    n_classes: int,
    ledger: Ledger | None = None,
) -> IntArray:
    """Votes for each class on `n_votes` noisy copies of each row, shape (n_rows, n_classes)."""
    counts = np.zeros((len(X), n_classes), dtype=np.int64)
    blocks = (0, -(-n_votes // block_rows(X[0].size)))
    rest = list(range(len(X)))
    if ledger is not None:
        rest = []
        for row in range(len(X)):
            known = ledger.entry(stage, row, partial(VoteTally.empty, 1, n_classes))
            if known is None:
                rest.append(row)
            else:
                counts[row] = cast(VoteTally, known.tally).counts[0]
        schedule.progress(n_votes * (len(X) - len(rest)))

    def unit(rows: Sequence[int]) -> Unit:
        asked = (X[rows], [keys[row] for row in rows], rows, stage, n_votes, blocks, n_classes)
        return len(rows) * n_votes, _vote_rows, (sampler, *asked)

    def enter(rows: Sequence[int], tallies: Sequence[Tally]) -> None:
        for row, tally in zip(rows, tallies, strict=True):
            counts[row] = cast(VoteTally, tally).counts[0]
            if ledger is not None:
                ledger.add(stage, row, blocks, tally)

    if rest:
        found, seconds = _here(unit(rest[:1]), schedule)
        enter(*found)
        rest = rest[1:]
    if rest:
        share = -(-len(rest) // (4 * effective_n_jobs(schedule.n_jobs)))  # so that all workers have some
        step = max(1, min(20_000 // n_votes, share))
        parts = [rest[i : i + step] for i in range(0, len(rest), step)]
        several = len(parts) > 1 and seconds * len(rest) > _NOT_WORTH_SENDING
        with closing(schedule.run(map(unit, parts), several)) as results:
            for found in results:
                enter(*found)
    return counts


def _here(unit: Unit, schedule: Schedule) -> tuple[Any, float]:
    """Result of a unit that is worked off at once, and how long it took."""
    samples, function, arguments = unit
    start = time.perf_counter()
    found = function(*arguments)
    seconds = time.perf_counter() - start
    schedule.progress(samples)
    return found, seconds


def _vote_rows(
    sampler: Shared,
    X: FloatArray,
    keys: Sequence[int],
    rows: Sequence[int],
    stage: int,
    n_votes: int,
    blocks: Span,
    n_classes: int,
) -> tuple[Sequence[int], list[Tally]]:
    tallies = [
        sampler.get().tally(row, key, stage, n_votes, blocks, VoteTally.empty(1, n_classes), paired=False)
        for row, key in zip(X, keys, strict=True)
    ]
    return rows, tallies


def sample_evidence(
    sampler: Shared,
    schedule: Schedule,
    certifier: Any,
    X: FloatArray,
    keys: Sequence[int],
    classes: NDArray[Any],
    ledger: Ledger | None = None,
) -> tuple[IntArray, Tally]:
    """Candidate class of each row, and the evidence the certifier asked for; what the ledger knows already is not
    sampled again."""
    ledger = Ledger() if ledger is None else ledger
    n_classes = len(classes)
    chosen = votes_of_rows(sampler, schedule, X, keys, SELECTION, certifier.n_selection, n_classes, ledger)
    candidate = np.argmax(chosen, axis=1)

    def collect(look: Look, rows: Sequence[int]) -> tuple[Sequence[int], Tally]:
        if callable(look.observes):
            _enter_given(look, rows, X, classes[candidate], ledger)
        else:
            _sample_rows(sampler, schedule, X, keys, look, rows, ledger)
        entries = [ledger.entry(look.stage, row, partial(look.empty, row)) for row in rows]
        whole = [entry.tally for entry in entries if entry is not None]
        return rows, type(whole[0]).concatenate(whole)

    gradients = sampler.get().voter.differentiable(X[0])
    make_plans = partial(_make_plans, schedule)
    _, evidence = follow_stages(certifier, gradients, candidate, X[0].size, n_classes, collect, make_plans)
    assert evidence is not None
    return candidate, evidence


def _make_plans(schedule: Schedule, plan: Callable[[Tally], Any], tally: Tally) -> Iterable[Any]:
    """Plans of all rows of a tally, by the workers if it takes long."""
    rest = len(tally) - 1
    workers = effective_n_jobs(schedule.n_jobs)
    if workers == 1 or rest == 0:
        return plan_here(plan, tally)
    (_, first), seconds = _here((0, _plan_rows, (plan, tally[:1], 0)), schedule)
    if seconds * rest < _NOT_WORTH_SENDING:
        return chain(first, plan_here(plan, tally[1:]))
    step = max(1, min(int(_LAST_UNIT_SECONDS / seconds), -(-rest // workers)))
    units = ((0, _plan_rows, (plan, tally[i : i + step], i)) for i in range(1, len(tally), step))
    made = {0: first}
    with closing(schedule.run(units)) as results:
        made.update(results)
    return chain.from_iterable(made[i] for i in sorted(made))


def _plan_rows(plan: Callable[[Tally], Any], tally: Tally, first: int) -> tuple[int, list[Any]]:
    return first, list(plan_here(plan, tally))


def _enter_given(look: Look, rows: Sequence[int], X: FloatArray, labels: NDArray[Any], ledger: Ledger) -> None:
    """Enter the directions that a function of the inputs gives, as if each were one draw."""
    new = [row for row in rows if not ledger.spans(look.stage, row)]
    if not new:
        return
    for row, unit in zip(new, _unit_vectors(look.observes(X[new], labels[new]), X[new].shape), strict=True):
        tally = look.empty(row)
        tally.update(unit[None, None], np.full((1, 1), -1))
        ledger.add(look.stage, row, (0, 1), tally)


def _unit_vectors(given: Any, shape: tuple[int, ...]) -> FloatArray:
    """What a user's function returned for inputs of this shape, flat and of unit length."""
    given = np.asarray(given)
    if given.shape != shape or given.dtype.kind not in "fiu":
        raise ValueError(
            f"direction must be a function that returns real numbers in the shape {shape} of the inputs, "
            f"got shape {given.shape} of {given.dtype}. Return one direction for each input."
        )
    flat = given.reshape(len(given), -1).astype(np.float64)
    length = np.linalg.norm(flat, axis=1)
    wrong = ~(np.isfinite(length) & (length > 0.0))
    if np.any(wrong):
        raise ValueError(
            "direction must be a function that returns finite vectors that are not zero, got one of length "
            f"{length[wrong][0]}. Let the certifier look for one where none is known."
        )
    return flat / length[:, None]


def _sample_rows(
    sampler: Shared,
    schedule: Schedule,
    X: FloatArray,
    keys: Sequence[int],
    look: Look,
    rows: Sequence[int],
    ledger: Ledger,
) -> None:
    """Enter all evidence of a stage that the ledger does not have yet."""
    block, stage, sides = block_rows(X[0].size), look.stage, look.sides

    def unit(row: int, span: Span) -> Unit:
        n_draws = look.draws(row)
        asked = (stage, n_draws, span, look.empty(row), sides == 2, look.observes == "gradients")
        return sides * draws_in([span], block, n_draws), _tally_unit, (sampler, X[row], keys[row], row, *asked)

    missing = {row: gaps(ledger.spans(stage, row), -(-look.draws(row) // block)) for row in rows}
    left = sum(draws_in(spans, block, look.draws(row)) for row, spans in missing.items())
    schedule.progress(sides * (sum(map(look.draws, rows)) - left))
    missing = {row: spans for row, spans in missing.items() if spans}
    if missing:
        # The first block is counted here and timed, to cut the rest into units of a sensible length.
        row, spans = next(iter(missing.items()))
        first, last = spans[0]
        missing[row] = [(first + 1, last), *spans[1:]]
        found, seconds = _here(unit(row, (first, first + 1)), schedule)
        ledger.add(stage, *found)
        workers = effective_n_jobs(schedule.n_jobs)
        longest, shortest = (max(1, int(limit / max(seconds, 1e-6))) for limit in (_UNIT_SECONDS, _LAST_UNIT_SECONDS))

        def length(left: int) -> int:
            return min(longest, max(shortest, left // (4 * workers))) if workers > 1 else longest

        units = (unit(row, span) for row, span in cut(missing, length))
        with closing(schedule.run(units)) as results:
            for found in results:
                ledger.add(stage, *found)


def _tally_unit(
    sampler: Shared,
    row: FloatArray,
    key: int,
    index: int,
    stage: int,
    n_draws: int,
    blocks: Span,
    tally: Tally,
    paired: bool,
    slopes: bool,
) -> tuple[int, Span, Tally]:
    # A copy is filled: whoever loses the result sends the same unit again, and where workers share memory with the main
    # process its tally would not be empty any more.
    tally = deepcopy(tally)
    at_hand = sampler.get()
    fill = at_hand.tally_slopes if slopes else partial(at_hand.tally, paired=paired)
    return index, blocks, fill(row, key, stage, n_draws, blocks, tally)
