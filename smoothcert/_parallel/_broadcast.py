"""Sending an object to each worker process once, however many tasks use it.

Worker processes on this machine read it from a temporary file and remember it. Threads share it as it is. Dask gives a
copy to every worker, which tasks name and do not carry; a worker that comes later takes its copy from another, and
where all copies were lost with their workers it is sent again. With other cluster backends the object travels with its
tasks.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any
from uuid import uuid4

import joblib
from joblib.parallel import get_active_backend

try:
    import cloudpickle
except ImportError:  # older versions of joblib bring it along
    from joblib.externals import cloudpickle

_LOCAL_PROCESSES = ("LokyBackend", "MultiprocessingBackend")

_remembered: dict[str, Any] = {}
_unpacking = Lock()


class _Pickler(cloudpickle.Pickler):
    """Pickles skorch nets attribute by attribute.

    A net pickles its modules by torch on its own, and that refers to their classes by name; a class in the script that
    is running is not found by that name in a worker. Here modules are pickled like everything else, by value if need
    be. Nets on other devices than the processor are left to skorch, which finds a device for them.
    """

    def reducer_override(self, obj: Any) -> Any:
        skorch = sys.modules.get("skorch")
        if skorch is not None and isinstance(obj, skorch.NeuralNet) and str(obj.device or "cpu") == "cpu":
            return _restore, (type(obj), vars(obj))
        return super().reducer_override(obj)


def _restore(kind: type, attributes: dict[str, Any]) -> Any:
    restored: Any = object.__new__(kind)
    restored.__dict__.update(attributes)
    return restored


def dump(value: Any, file: Any) -> None:
    """Write an object to a file, with the classes and functions of the running script."""
    _Pickler(file).dump(value)


class Broadcast:
    """Stands for an object in tasks; ``get`` gives the object."""

    def __init__(self, value: Any, path: str | None = None, send: Callable[[], Any] | None = None) -> None:
        self._value = value
        self._path = path
        self._send = send
        self._future: Any = None if send is None else send()

    def get(self) -> Any:
        if self._value is None and self._path is not None:
            if self._path not in _remembered:
                _remembered.clear()  # one run at a time: what belongs to an earlier one is not needed any more
                with open(self._path, "rb") as file:
                    _remembered[self._path] = cloudpickle.load(file)
            self._value = _remembered[self._path]
        return self._value

    def sendable(self) -> Any:
        if self._send is None:
            return self
        if self._future.status != "finished":  # lost with the workers that had it
            self._future = self._send()
        return self._future

    def __getstate__(self) -> dict[str, Any]:
        value = None if self._path else self._value
        return {"_value": value, "_path": self._path, "_send": None, "_future": None}


class PickledOnce:
    """Stands for an object in the workers of a cluster: bytes, unpacked once in each process however often they are
    copied."""

    def __init__(self, value: Any) -> None:
        self._token = uuid4().hex
        file = io.BytesIO()
        dump(value, file)
        self._content = file.getvalue()

    def get(self) -> Any:
        with _unpacking:
            if self._token not in _remembered:
                _remembered.clear()
                _remembered[self._token] = cloudpickle.loads(self._content)
            return _remembered[self._token]


def sendable(argument: Any) -> Any:
    """Return what a task is given in place of an argument: Dask puts the object in the place of its future."""
    return argument.sendable() if isinstance(argument, Broadcast) else argument


def is_dask(backend: Any) -> bool:
    return type(backend).__name__ == "DaskDistributedBackend"


@contextmanager
def broadcast(value: Any, n_jobs: int | None) -> Iterator[Broadcast]:
    """Make an object ready to be used by tasks of the active joblib backend."""
    backend, _ = get_active_backend()
    local = type(backend).__name__ in _LOCAL_PROCESSES
    if joblib.effective_n_jobs(n_jobs) == 1 or not (local or is_dask(backend)):
        yield Broadcast(value)
        return
    if is_dask(backend):
        yield Broadcast(value, send=lambda: backend.client.scatter(PickledOnce(value), broadcast=True, hash=False))
        return
    handle, path = tempfile.mkstemp(prefix="smoothcert-", suffix=".pickle")
    try:
        with os.fdopen(handle, "wb") as file:
            dump(value, file)
        yield Broadcast(value, path)
    finally:
        os.unlink(path)
