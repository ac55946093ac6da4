"""Tasks on a Dask cluster, where a worker that goes away costs time and not the run.

Dask itself runs again what a dead worker was doing, except where the only copy of something the task needs died too:
it cancels such tasks. Here they are submitted again (`_worker_death`), and the model is sent again if it was lost.
joblib's own way to Dask ends the run at the first task that was cancelled, and waits for ever for one that Dask gave
up.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator, Iterable
from functools import cache
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any

from ._broadcast import sendable
from ._worker_death import result_or_loss

# Numbers, in glibc's malloc.h, of what its allocator keeps: memory at the end of the heap, and pieces that are not
# mapped one by one.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3


def dask_results(backend: Any, tasks: Iterable[Any], ahead: int) -> Generator[tuple[int, Any], None, None]:
    """Yield number of samples and result of each task as they become ready, with `ahead` tasks submitted at a time."""
    from distributed import CancelledError, KilledWorker

    rest = iter(tasks)
    ready: SimpleQueue[int] = SimpleQueue()
    waiting: dict[int, tuple[Any, Any, int]] = {}
    numbers = count()

    def send(task: Any, losses: int = 0) -> None:
        _, function, arguments = task
        given = map(sendable, arguments)
        future = backend.client.submit(_on_worker, function, *given, pure=False, **backend.submit_kwargs)
        number = next(numbers)
        waiting[number] = future, task, losses
        future.add_done_callback(lambda _: ready.put(number))

    try:
        with backend.retrieval_context():
            for task in islice(rest, ahead):
                send(task)
            while waiting:
                future, task, losses = waiting.pop(_next(ready))
                done, result = result_or_loss(future, losses, KilledWorker, (CancelledError, OSError))
                if not done:
                    send(task, losses + 1)
                    continue
                for following in islice(rest, 1):
                    send(following)
                yield task[0], result
    finally:
        for future, _, _ in waiting.values():
            future.release()


def _on_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    _keep_freed_memory()
    return function(*arguments)


@cache
def _keep_freed_memory() -> None:
    """Let a worker use memory again that it freed.

    Dask has its workers give memory back to the system at once. A network frees and allocates some megabytes with each
    batch, and fetching them again doubles its time. Only glibc has the switch; elsewhere nothing is to be done.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(_TRIM_THRESHOLD, 2**27)
    mallopt(_MMAP_THRESHOLD, 2**25)


def _next(ready: SimpleQueue[int]) -> int:
    while True:
        try:
            return ready.get(timeout=1.0)  # on Windows an interrupt is noticed between two waits only
        except Empty:
            continue
