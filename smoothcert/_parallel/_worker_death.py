"""What happens when a worker process dies.

On a Dask cluster the lost task is sent again: tasks are pure and their noise is seeded, so that repeating one is exact.
loky's pool of processes does not survive the death of one of them. The run ends with an error that says what to do;
with a journal, everything that was counted before is kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Any

MOST_LOSSES = 6
"""How often a task may be lost and sent again before the cluster is taken for broken. The pauses before it add up to
three seconds, in which a cluster that lost workers can settle."""

_PAUSE = 0.05
"""Seconds until a lost task is sent again the first time; they double with each loss."""


@contextmanager
def explain_worker_death() -> Iterator[None]:
    """Replace the error of a broken pool of workers by one that says what to do."""
    try:
        yield
    except BrokenExecutor as error:
        raise RuntimeError(
            f"A worker process died: {str(error).splitlines()[0]} The usual cause is a lack of memory: set a smaller "
            "n_jobs or batch_size. With certify(X, journal=...), what was counted before is kept."
        ) from error


def result_or_loss(
    future: Any, losses: int, killed: type[Exception], lost: tuple[type[BaseException], ...]
) -> tuple[bool, Any]:
    """Return whether a task on a cluster has a result, and the result; wait a little if the task was lost.

    Parameters
    ----------
    future : distributed.Future
    losses : int
        How often the task was lost before.
    killed : type
        Error of a task that several workers died over.
    lost : tuple of types
        Errors of a task that was cancelled because its worker, or something it needed, went away.
    """
    try:
        return True, future.result()
    except killed as error:
        raise BrokenExecutor(f"Several Dask workers died while working on the same task. {error}") from error
    except lost as error:
        if future.status == "error":  # raised by the model, not by the cluster
            raise
        if losses == MOST_LOSSES:
            raise BrokenExecutor(f"Dask lost the same task {losses + 1} times. {error}") from error
        time.sleep(_PAUSE * 2**losses)
        return False, None
