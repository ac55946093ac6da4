"""Sending an object to each worker process once, however many tasks use it.

Worker processes on this machine read it from a temporary file and remember it. Threads share it as it is, and cluster
backends have ways of their own, so there the object simply travels with its tasks.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
from joblib.parallel import get_active_backend

try:
    import cloudpickle
except ImportError:  # older versions of joblib bring it along
    from joblib.externals import cloudpickle

_LOCAL_PROCESSES = ("LokyBackend", "MultiprocessingBackend")

_remembered: dict[str, Any] = {}


class Shared:
    """Stands for an object in tasks; ``get`` gives the object."""

    def __init__(self, value: Any, path: str | None) -> None:
        self._value = value
        self._path = path

    def get(self) -> Any:
        if self._value is None and self._path is not None:
            if self._path not in _remembered:
                _remembered.clear()  # one run at a time: what belongs to an earlier one is not needed any more
                with open(self._path, "rb") as file:
                    _remembered[self._path] = cloudpickle.load(file)
            self._value = _remembered[self._path]
        return self._value

    def __getstate__(self) -> dict[str, Any]:
        return {"_value": None if self._path else self._value, "_path": self._path}


@contextmanager
def shared(value: Any, n_jobs: int | None) -> Iterator[Shared]:
    """Make an object ready to be used by tasks of the active joblib backend."""
    backend, _ = get_active_backend()
    if joblib.effective_n_jobs(n_jobs) == 1 or type(backend).__name__ not in _LOCAL_PROCESSES:
        yield Shared(value, None)
        return
    handle, path = tempfile.mkstemp(prefix="smoothcert-", suffix=".pickle")
    try:
        with os.fdopen(handle, "wb") as file:
            cloudpickle.dump(value, file)
        yield Shared(value, path)
    finally:
        os.unlink(path)
