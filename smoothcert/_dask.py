"""Units of work on a Dask cluster, where a worker that goes away costs time and not the run.

Dask itself runs again what a dead worker was doing, except where the only copy of something the unit needs died too:
it cancels such units. Here they are submitted again, and the model is sent again if it was lost. Units are pure and
their noise is seeded, so that repeating one is exact. joblib's own way to Dask ends the run at the first unit that was
cancelled, and waits for ever for one that Dask gave up.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from concurrent.futures import BrokenExecutor
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any

from ._sharing import sendable

# How often a unit may be lost before the cluster is taken for broken, and seconds until it is sent again, which double
# with each loss.
_LOSSES = 6
_PAUSE = 0.05


def dask_results(backend: Any, units: Iterable[Any], ahead: int) -> Generator[tuple[int, Any], None, None]:
    """Number of samples and result of each unit as they become ready, with `ahead` units submitted at a time."""
    from distributed import CancelledError, KilledWorker

    rest = iter(units)
    ready: SimpleQueue[int] = SimpleQueue()
    waiting: dict[int, tuple[Any, Any, int]] = {}
    numbers = count()

    def send(unit: Any, losses: int = 0) -> None:
        _, function, arguments = unit
        future = backend.client.submit(function, *map(sendable, arguments), pure=False, **backend.submit_kwargs)
        number = next(numbers)
        waiting[number] = future, unit, losses
        future.add_done_callback(lambda _: ready.put(number))

    try:
        with backend.retrieval_context():
            for unit in islice(rest, ahead):
                send(unit)
            while waiting:
                future, unit, losses = waiting.pop(_next(ready))
                try:
                    result = future.result()
                except KilledWorker as error:
                    raise BrokenExecutor(f"Several Dask workers died over the same piece of work. {error}") from error
                except (CancelledError, OSError) as error:
                    if future.status == "error":  # raised by the model, not by the cluster
                        raise
                    if losses == _LOSSES:
                        raise BrokenExecutor(f"Dask lost a piece of work {losses + 1} times. {error}") from error
                    time.sleep(_PAUSE * 2**losses)
                    send(unit, losses + 1)
                    continue
                for following in islice(rest, 1):
                    send(following)
                yield unit[0], result
    finally:
        for future, _, _ in waiting.values():
            future.release()


def _next(ready: SimpleQueue[int]) -> int:
    while True:
        try:
            return ready.get(timeout=1.0)  # on Windows an interrupt is noticed between two waits only
        except Empty:
            continue
