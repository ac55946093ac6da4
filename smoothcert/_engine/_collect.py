"""Collecting evidence: rows in, tallies out.

Work is divided into tasks, each some blocks of noise of some rows, whose tallies are merged in an evidence store as
they come back. Since merging is exact in any order, neither the division nor the backend shows in the result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._column_noise import ColumnNoise, Sigma, count_noisy
from .._noise import VOTE
from .._parallel import Broadcast, Executor, Task
from .._validation import FloatArray
from ..tallies import IntArray, Tally, VoteTally
from ._evidence_store import EvidenceStore, Span, bundle_spans, count_draws, last_block, missing_spans
from ._progress import Progress
from ._sampler import Piece
from ._stages import Counted, Evidence, Stage, Stages, plan_serially, run_stages, vote_stage

# Seconds of work in a task, at most and at least: long enough to hide what it costs to send one, short enough to share
# and to show progress. Towards the end tasks get shorter, so that all workers finish together.
_TASK_SECONDS = 0.5
_LAST_TASK_SECONDS = 0.1

# Seconds of work that workers would hardly finish sooner: calling them takes some hundredths of a second.
_NOT_WORTH_SENDING = 0.1


@dataclass(frozen=True, kw_only=True)
class Run:
    """What all stages of a run have in common.

    Attributes
    ----------
    sampler : Broadcast
        The `Sampler`, ready to be sent to workers.
    executor : Executor
    progress : Progress
        Is told what is done; the executor tells it of tasks.
    X : ndarray
        Rows.
    keys : sequence of int
        Numbers that stand for the content of the rows.
    """

    sampler: Broadcast
    executor: Executor
    progress: Progress
    X: FloatArray
    keys: Sequence[int]

    @property
    def sigma(self) -> Sigma:
        """Standard deviation of the noise."""
        sigma: Sigma = self.sampler.get().sigma
        return sigma

    @property
    def n_noisy(self) -> int:
        """Number of features with noise."""
        return count_noisy(self.sigma, self.X[0].size)


def count_votes(run: Run, n_votes: int, n_classes: int) -> IntArray:
    """Return the votes for each class on `n_votes` noisy copies of each row, shape (n_rows, n_classes)."""
    stage = vote_stage(VOTE, range(len(run.X)), n_votes, n_classes)
    _, tally = collect_stage(run, stage, EvidenceStore())
    assert isinstance(tally, VoteTally)
    return tally.counts


def collect_evidence(run: Run, stages: Stages, classes: NDArray[Any], store: EvidenceStore) -> Evidence:
    """Return the evidence that the stages ask for; what the store has already is not sampled again."""

    def collect(stage: Stage) -> tuple[Sequence[int], Tally]:
        if callable(stage.observes):
            _enter_directions(run, stage, classes, store)
        return collect_stage(run, stage, store)

    def count(counted: Counted) -> dict[int, int]:
        return {row: last_block(store.spans(counted.number, row)) for row in counted.rows}

    return run_stages(stages, collect, count, partial(_make_plans, run.executor), run.progress.decide)


def collect_stage(run: Run, stage: Stage, store: EvidenceStore) -> tuple[Sequence[int], Tally]:
    """Sample all evidence of a stage that the store does not have yet; return its rows and their tally."""
    if not callable(stage.observes):
        _sample_missing(run, stage, store)
    rows = list(stage.draws)
    entries = [store.entry(stage.number, row, partial(stage.new_tally, row)) for row in rows]
    tallies = [entry.tally for entry in entries if entry is not None]
    return rows, type(tallies[0]).concatenate(tallies)


def _sample_missing(run: Run, stage: Stage, store: EvidenceStore) -> None:
    n_noisy, executor = run.n_noisy, run.executor
    sizes = {row: stage.block_size(row, n_noisy) for row in stage.draws}
    missing = {
        row: missing_spans(store.spans(stage.number, row), -(-n // sizes[row])) for row, n in stage.draws.items()
    }

    def count(row: int, span: Span) -> int:
        return count_draws([span], sizes[row], stage.draws[row])

    left = sum(count(row, span) for row, spans in missing.items() for span in spans)
    run.progress.begin(stage, stage.sides * left)
    if left == 0:
        return
    # The first task fills one call of the model. It is run here and timed, to divide the rest into tasks of a sensible
    # length. The first call of a model may be slow, so another task is timed before anybody is told of a long run.
    first_call = run.sampler.get().draws_per_call(run.X[0].size, stage.sides, max(sizes.values()))
    pace = _Pace(executor.workers, first_call)
    bundles = bundle_spans(missing, count, pace.room)
    for attempt, bundle in enumerate(islice(bundles, 2)):
        task = _task(run, stage, bundle)
        draws = task[0] // stage.sides
        results, pace.seconds_per_draw = _run_timed(task, executor, draws)
        for result in results:
            store.add(stage.number, *result)
        left -= draws
        seconds = pace.seconds_per_draw / stage.sides
        small = attempt == 0 and 2 * draws < pace.first  # a call with few rows takes longer for each of them
        if small or not run.progress.is_long(seconds):
            break
        if attempt:
            run.progress.warn_of_long_run(seconds)
    tasks = (_task(run, stage, bundle) for bundle in bundles)
    several = left * (pace.seconds_per_draw or 0.0) > _NOT_WORTH_SENDING
    with closing(executor.run(tasks, several)) as done:
        for results in done:
            for result in results:
                store.add(stage.number, *result)


@dataclass
class _Pace:
    """How many draws make a task, once it is known how long one takes."""

    workers: int
    first: int
    seconds_per_draw: float | None = None

    def room(self, left: int) -> int:
        """Return the draws of a task when `left` draws are left."""
        if self.seconds_per_draw is None:
            return self.first
        each = max(self.seconds_per_draw, 1e-12)
        longest, shortest = (max(1, int(limit / each)) for limit in (_TASK_SECONDS, _LAST_TASK_SECONDS))
        return min(longest, max(shortest, left // (4 * self.workers))) if self.workers > 1 else longest


def _task(run: Run, stage: Stage, bundle: Sequence[tuple[int, Span]]) -> Task:
    """Return the task that counts some blocks of some rows."""
    sizes = {row: stage.block_size(row, run.n_noisy) for row, _ in bundle}
    pieces = [
        (row, Piece(run.X[row], run.keys[row], stage.draws[row], span, stage.new_tally(row), sizes[row]))
        for row, span in bundle
    ]
    samples = stage.sides * sum(count_draws([span], sizes[row], stage.draws[row]) for row, span in bundle)
    asked = (stage.number, stage.sides == 2, stage.observes == "gradients")
    return samples, _fill_pieces, (run.sampler, pieces, *asked)


def _fill_pieces(
    sampler: Broadcast, pieces: Sequence[tuple[int, Piece]], stage: int, paired: bool, gradients: bool
) -> list[tuple[int, Span, Tally]]:
    """Return row, blocks and tally of each piece."""
    # Copies are filled: whoever loses the result sends the same task again, and where workers share memory with the
    # main process its tallies would not be empty any more.
    own = [(row, replace(piece, tally=deepcopy(piece.tally))) for row, piece in pieces]
    if gradients:
        for _, piece in own:
            sampler.get().fill_gradients(piece, stage)
    else:
        sampler.get().fill([piece for _, piece in own], stage, paired)
    return [(row, piece.blocks, piece.tally) for row, piece in own]


def _run_timed(task: Task, executor: Executor, amount: int) -> tuple[Any, float]:
    """Return the result of a task that is run here, and the seconds it took, divided by `amount`."""
    samples, function, arguments = task
    start = time.perf_counter()
    result = function(*arguments)
    seconds = time.perf_counter() - start
    executor.progress(samples)
    return result, seconds / amount


def _make_plans(executor: Executor, plan: Callable[[Tally], Any], tally: Tally) -> Sequence[Any]:
    """Return the plans of all rows of a tally, made by the workers if it takes long."""
    rest = len(tally) - 1
    if executor.workers == 1 or rest == 0:
        return plan_serially(plan, tally)
    (_, first), seconds = _run_timed((0, _plan_rows, (plan, tally[:1], 0)), executor, 1)
    if seconds * rest < _NOT_WORTH_SENDING:
        return [*first, *plan_serially(plan, tally[1:])]
    step = max(1, min(int(_LAST_TASK_SECONDS / seconds), -(-rest // executor.workers)))
    tasks = ((0, _plan_rows, (plan, tally[i : i + step], i)) for i in range(1, len(tally), step))
    made = {0: first}
    with closing(executor.run(tasks)) as results:
        made.update(results)
    return [each for i in sorted(made) for each in made[i]]


def _plan_rows(plan: Callable[[Tally], Any], tally: Tally, first: int) -> tuple[int, Sequence[Any]]:
    return first, plan_serially(plan, tally)


def _enter_directions(run: Run, stage: Stage, classes: NDArray[Any], store: EvidenceStore) -> None:
    """Enter the directions that a function of the inputs gives, as if each were one draw."""
    assert callable(stage.observes)
    new = [row for row in stage.draws if not store.spans(stage.number, row)]
    if not new:
        return
    tallies = [stage.new_tally(row) for row in new]
    X, labels = run.X[new], classes[[int(tally.candidate[0]) for tally in tallies]]  # type: ignore[attr-defined]
    units = _unit_vectors(stage.observes(X, labels), X.shape, run.sigma)
    for row, tally, unit in zip(new, tallies, units, strict=True):
        tally.update(unit[None, None], np.full((1, 1), -1))
        store.add(stage.number, row, (0, 1), tally)


def _unit_vectors(given: Any, shape: tuple[int, ...], sigma: Sigma) -> FloatArray:
    """Return what a user's function gave for inputs of this shape, flat, in units of sigma and of unit length."""
    given = np.asarray(given)
    if given.shape != shape or given.dtype.kind not in "fiu":
        raise ValueError(
            f"direction must be a function that returns real numbers in the shape {shape} of the inputs, "
            f"got shape {given.shape} of {given.dtype}. Return one direction for each input."
        )
    flat = given.reshape(len(given), -1).astype(np.float64)
    if isinstance(sigma, ColumnNoise):
        flat = sigma.to_units(flat)
    length = np.linalg.norm(flat, axis=1)
    wrong = ~(np.isfinite(length) & (length > 0.0))
    if np.any(wrong):
        raise ValueError(
            "direction must be a function that returns finite vectors that are not zero, got a vector of "
            f"length {length[wrong][0]}. If you do not know a direction, use direction='auto'."
        )
    unit: FloatArray = flat / length[:, None]
    return unit
