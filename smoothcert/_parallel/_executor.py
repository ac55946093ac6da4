"""Tasks, run one after the other or by workers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from ._broadcast import is_dask
from ._dask import dask_results
from ._worker_death import explain_worker_death

Task = tuple[int, Callable[..., Any], tuple[Any, ...]]
"""A piece of work: its number of samples, a function, and its arguments."""

_AHEAD = 3
"""Tasks submitted at a time, for each worker: one that it works on and two in reserve, so that it does not wait for the
next one. More would only take memory."""

_ROUND = 4
"""Tasks for each worker in a round, where a backend gives results back in rounds only. Workers are idle at the
end of a round, so longer rounds waste less; but progress and journal are updated only then."""


@dataclass(frozen=True)
class Executor:
    """How work is run: in how many processes, and who is told of progress."""

    n_jobs: int | None = None
    progress: Callable[[int], Any] = field(default=lambda samples: None)

    @property
    def workers(self) -> int:
        """Number of processes or threads."""
        return int(effective_n_jobs(self.n_jobs))

    def run(self, tasks: Iterable[Task], several: bool = True) -> Generator[Any, None, None]:
        """Yield the results of all tasks as they become ready, in any order; tasks are made as they are needed.

        Close the iterator when leaving it early: that stops the workers.
        """
        if self.workers == 1 or not several:
            for samples, function, arguments in tasks:
                result = function(*arguments)
                self.progress(samples)
                yield result
            return
        with explain_worker_death(), closing(_results(tasks, self.n_jobs, self.workers)) as results:
            for samples, result in results:
                self.progress(samples)
                yield result


def _results(tasks: Iterable[Task], n_jobs: int | None, workers: int) -> Generator[tuple[int, Any], None, None]:
    backend, _ = get_active_backend()
    if is_dask(backend):
        yield from dask_results(backend, tasks, _AHEAD * workers)
        return
    tasks = (delayed(_with_samples)(*task) for task in tasks)
    if getattr(backend, "supports_return_generator", False):
        ahead = f"{_AHEAD}*n_jobs"
        results = Parallel(n_jobs=n_jobs, return_as="generator_unordered", pre_dispatch=ahead, batch_size=1)(tasks)
        try:
            for result in results:  # noqa: UP028 ("yield from" would close it before warnings are off)
                yield result
        finally:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # joblib warns of unused results; whoever leaves early knows
                results.close()
        return
    # Some backends (multiprocessing, Ray, Spark) give everything back at once. Rounds keep progress and journal alive.
    with Parallel(n_jobs=n_jobs) as parallel:
        while some := list(islice(tasks, _ROUND * workers)):
            yield from parallel(some)


def _with_samples(samples: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[int, Any]:
    return samples, function(*arguments)
