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

from .._noise._seeds import SELECTION, Seed, block_size, block_slices
from .._parallel._broadcast import Broadcast
from .._parallel._executor import Executor, Task
from .._validation import FloatArray
from ..tallies import IntArray, Tally, VoteTally
from ._evidence import EvidenceStore, Span, count_draws, missing_spans, split_spans
from ._stages import Stage, plan_serially, run_stages

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

    def vote_with_gradients(self, rows: Any, candidate: int) -> tuple[NDArray[np.intp], Any]: ...


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
        size = block_size(row.size)
        arrays = self.voter.arrays
        sides = 2 if paired else 1
        batch = self.batch_size or arrays.default_batch_size(row.size)
        together = max(1, batch // (size * sides))
        first, last = blocks
        most = min(together, last - first) * size
        with arrays.inference_context():
            x = arrays.row(row)
            # Votes are cast on `noisy`; for pairs its second half holds the far sides. Where nobody looks at the noise
            # again, it is made in place.
            noisy = arrays.empty(sides * most, x)
            buffer = arrays.empty(most, x) if tally.needs_noise or paired else noisy
            n = -1
            for start in range(first, last, together):
                lengths = [length for _, length in block_slices(n_draws, size, start, min(start + together, last))]
                if sum(lengths) != n:  # the last blocks may be fewer or shorter
                    spans = list(pairwise([0, *accumulate(lengths)]))
                    n = spans[-1][1]
                    noise, near, far = buffer[:n], noisy[:n], noisy[n : 2 * n] if paired else None
                    parts = [noise[low:high] for low, high in spans]
                    rows = noisy[: sides * n].reshape(-1, *row.shape)
                    seen = arrays.as_tally_input(noise)[None] if tally.needs_noise else None
                for block, part in enumerate(parts, start):
                    arrays.standard_normal(Seed(self.entropy, stage, key, block), part)
                arrays.add_noise(x, noise, self.sigma, near, far)
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
        size = block_size(row.size)
        arrays = self.voter.arrays
        x = arrays.row(row)
        candidate = int(tally.candidate[0])  # type: ignore[attr-defined]
        for block, n in block_slices(n_draws, size, *blocks):
            rows = arrays.empty(n, x)
            arrays.standard_normal(Seed(self.entropy, stage, key, block), rows)
            arrays.add_noise(x, rows, self.sigma, rows)
            votes, slopes = self.voter.vote_with_gradients(rows.reshape(-1, *row.shape), candidate)
            tally.update(self.sigma * slopes.reshape(1, n, -1), votes[None])
        return tally

    def _vote(self, rows: Any, batch: int) -> NDArray[np.intp]:
        parts = -(-len(rows) // batch)
        if parts == 1:
            return self.voter.vote(rows)
        even = -(-len(rows) // parts)
        return np.concatenate([self.voter.vote(rows[i : i + even]) for i in range(0, len(rows), even)])


def votes_of_rows(
    sampler: Broadcast,
    executor: Executor,
    X: FloatArray,
    keys: Sequence[int],
    stage: int,
    n_votes: int,
    n_classes: int,
    ledger: EvidenceStore | None = None,
) -> IntArray:
    """Votes for each class on `n_votes` noisy copies of each row, shape (n_rows, n_classes)."""
    counts = np.zeros((len(X), n_classes), dtype=np.int64)
    blocks = (0, -(-n_votes // block_size(X[0].size)))
    rest = list(range(len(X)))
    if ledger is not None:
        rest = []
        for row in range(len(X)):
            known = ledger.entry(stage, row, partial(VoteTally.empty, 1, n_classes))
            if known is None:
                rest.append(row)
            else:
                counts[row] = cast(VoteTally, known.tally).counts[0]
        executor.progress(n_votes * (len(X) - len(rest)))

    def task(rows: Sequence[int]) -> Task:
        asked = (X[rows], [keys[row] for row in rows], rows, stage, n_votes, blocks, n_classes)
        return len(rows) * n_votes, _vote_rows, (sampler, *asked)

    def enter(rows: Sequence[int], tallies: Sequence[Tally]) -> None:
        for row, tally in zip(rows, tallies, strict=True):
            counts[row] = cast(VoteTally, tally).counts[0]
            if ledger is not None:
                ledger.add(stage, row, blocks, tally)

    if rest:
        found, seconds = _run_timed(task(rest[:1]), executor)
        enter(*found)
        rest = rest[1:]
    if rest:
        share = -(-len(rest) // (4 * effective_n_jobs(executor.n_jobs)))  # so that all workers have some
        step = max(1, min(20_000 // n_votes, share))
        parts = [rest[i : i + step] for i in range(0, len(rest), step)]
        several = len(parts) > 1 and seconds * len(rest) > _NOT_WORTH_SENDING
        with closing(executor.run(map(task, parts), several)) as results:
            for found in results:
                enter(*found)
    return counts


def _run_timed(task: Task, executor: Executor) -> tuple[Any, float]:
    """Result of a unit that is worked off at once, and how long it took."""
    samples, function, arguments = task
    start = time.perf_counter()
    found = function(*arguments)
    seconds = time.perf_counter() - start
    executor.progress(samples)
    return found, seconds


def _vote_rows(
    sampler: Broadcast,
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
    sampler: Broadcast,
    executor: Executor,
    certifier: Any,
    X: FloatArray,
    keys: Sequence[int],
    classes: NDArray[Any],
    ledger: EvidenceStore | None = None,
) -> tuple[IntArray, Tally]:
    """Candidate class of each row, and the evidence the certifier asked for; what the ledger knows already is not
    sampled again."""
    ledger = EvidenceStore() if ledger is None else ledger
    n_classes = len(classes)
    chosen = votes_of_rows(sampler, executor, X, keys, SELECTION, certifier.n_selection, n_classes, ledger)
    candidate = np.argmax(chosen, axis=1)

    def collect(look: Stage, rows: Sequence[int]) -> tuple[Sequence[int], Tally]:
        if callable(look.observes):
            _enter_given(look, rows, X, classes[candidate], ledger)
        else:
            _sample_rows(sampler, executor, X, keys, look, rows, ledger)
        entries = [ledger.entry(look.stage, row, partial(look.empty, row)) for row in rows]
        whole = [entry.tally for entry in entries if entry is not None]
        return rows, type(whole[0]).concatenate(whole)

    gradients = sampler.get().voter.differentiable(X[0])
    make_plans = partial(_make_plans, executor)
    _, evidence = run_stages(certifier, gradients, candidate, X[0].size, n_classes, collect, make_plans)
    assert evidence is not None
    return candidate, evidence


def _make_plans(executor: Executor, plan: Callable[[Tally], Any], tally: Tally) -> Iterable[Any]:
    """Plans of all rows of a tally, by the workers if it takes long."""
    rest = len(tally) - 1
    workers = effective_n_jobs(executor.n_jobs)
    if workers == 1 or rest == 0:
        return plan_serially(plan, tally)
    (_, first), seconds = _run_timed((0, _plan_rows, (plan, tally[:1], 0)), executor)
    if seconds * rest < _NOT_WORTH_SENDING:
        return chain(first, plan_serially(plan, tally[1:]))
    step = max(1, min(int(_LAST_UNIT_SECONDS / seconds), -(-rest // workers)))
    tasks = ((0, _plan_rows, (plan, tally[i : i + step], i)) for i in range(1, len(tally), step))
    made = {0: first}
    with closing(executor.run(tasks)) as results:
        made.update(results)
    return chain.from_iterable(made[i] for i in sorted(made))


def _plan_rows(plan: Callable[[Tally], Any], tally: Tally, first: int) -> tuple[int, list[Any]]:
    return first, list(plan_serially(plan, tally))


def _enter_given(look: Stage, rows: Sequence[int], X: FloatArray, labels: NDArray[Any], ledger: EvidenceStore) -> None:
    """Enter the directions that a function of the inputs gives, as if each were one draw."""
    new = [row for row in rows if not ledger.spans(look.stage, row)]
    if not new:
        return
    for row, task in zip(new, _unit_vectors(look.observes(X[new], labels[new]), X[new].shape), strict=True):
        tally = look.empty(row)
        tally.update(task[None, None], np.full((1, 1), -1))
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
    sampler: Broadcast,
    executor: Executor,
    X: FloatArray,
    keys: Sequence[int],
    look: Stage,
    rows: Sequence[int],
    ledger: EvidenceStore,
) -> None:
    """Enter all evidence of a stage that the ledger does not have yet."""
    block, stage, sides = block_size(X[0].size), look.stage, look.sides

    def task(row: int, span: Span) -> Task:
        n_draws = look.draws(row)
        asked = (stage, n_draws, span, look.empty(row), sides == 2, look.observes == "gradients")
        return sides * count_draws([span], block, n_draws), _tally_unit, (sampler, X[row], keys[row], row, *asked)

    missing = {row: missing_spans(ledger.spans(stage, row), -(-look.draws(row) // block)) for row in rows}
    left = sum(count_draws(spans, block, look.draws(row)) for row, spans in missing.items())
    executor.progress(sides * (sum(map(look.draws, rows)) - left))
    missing = {row: spans for row, spans in missing.items() if spans}
    if missing:
        # The first block is counted here and timed, to cut the rest into units of a sensible length.
        row, spans = next(iter(missing.items()))
        first, last = spans[0]
        missing[row] = [(first + 1, last), *spans[1:]]
        found, seconds = _run_timed(task(row, (first, first + 1)), executor)
        ledger.add(stage, *found)
        workers = effective_n_jobs(executor.n_jobs)
        longest, shortest = (max(1, int(limit / max(seconds, 1e-6))) for limit in (_UNIT_SECONDS, _LAST_UNIT_SECONDS))

        def length(left: int) -> int:
            return min(longest, max(shortest, left // (4 * workers))) if workers > 1 else longest

        tasks = (task(row, span) for row, span in split_spans(missing, length))
        with closing(executor.run(tasks)) as results:
            for found in results:
                ledger.add(stage, *found)


def _tally_unit(
    sampler: Broadcast,
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
