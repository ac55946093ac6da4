"""Crash-safe progress of long runs.

A journal is an SQLite file with one record for each row and stage: which blocks of noise are counted, and the tally
they merged to. Merging is exact, so a run continued from it ends with the same bits as one that never stopped, however
either was cut into units. What is not stored is recomputed: the candidate class from the votes of the selection, plans
from the pilot.

Commits are made as rarely as keeps their cost below one percent of the time.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ._certificates import plain_labels, plain_value
from ._fingerprint import fingerprint
from ._journal_file import (
    APPLICATION,
    LAYOUT,
    SCHEMA,
    check_path,
    is_new,
    lock_of,
    read_about,
    read_payload,
    read_spans,
    told,
)
from ._ledger import Entry, Ledger, Span
from ._payload import pack, pack_tally, unpack_tally
from ._validation import FloatArray
from .certifiers import BaseCertifier
from .tallies import Tally

# Seconds between two commits: at least so many, and so many times what the last one took.
_LEAST_SECONDS = 0.5
_TIMES_COST = 100.0


class Placed(NamedTuple):
    """A journal of a classifier inside a pipeline, and the space in which its radii live."""

    path: Any
    space: str


@dataclass(frozen=True)
class Run:
    """What a journal must know of a run.

    Attributes
    ----------
    identity : mapping of str to str
        What must be the same for the run to be continued, in words or as fingerprints.
    facts : mapping
        What it takes to read the evidence without the model.
    classes : ndarray
        Labels.
    seed : int
        Seed of a new run; a run without `random_state` continues with the one in the journal.
    """

    identity: Mapping[str, str]
    facts: Mapping[str, Any]
    classes: NDArray[Any]
    seed: int


def describe_run(
    content: Any,
    classes: NDArray[Any],
    certifier: BaseCertifier,
    gradients: bool,
    sigma: float,
    X: FloatArray,
    keys: list[int],
    seed: int,
    seeded: bool,
    space: str,
    provenance: Mapping[str, Any],
    unit: float,
    lost: FloatArray | None = None,
) -> Run:
    """Identity and facts of a run; `content` is all of the model that votes depend on, `lost` what radii lose by a cast
    of the inputs."""
    name = certifier_name(type(certifier))
    params = json.dumps(certifier.get_params(), default=_named, sort_keys=True)
    # The same evidence proves other radii for inputs that were cast.
    cast, rows = ("", keys) if lost is None else (" cast from float64", (keys, lost))
    identity = {
        "model": f"fingerprint {fingerprint(content)[:32]}",
        "classes": f"{len(classes)} labels, fingerprint {fingerprint(classes)[:32]}",
        "sigma": repr(sigma),
        "certifier": f"{name} with {params}",
        "random_state": str(seed) if seeded else "None",
        "X": f"{len(X)} rows of shape {X.shape[1:]} in {X.dtype}{cast}, fingerprint {fingerprint(rows)[:32]}",
        "space": space,
    }
    facts = {
        "certifier": [name, json.loads(params)],
        "gradients": gradients,
        "n_rows": len(X),
        "n_features": int(X[0].size),
        "n_classes": len(classes),
        "unit": unit,
        "lost": None if lost is None else lost.tolist(),
        "space": space,
        "provenance": dict(provenance),
    }
    return Run(identity, facts, classes, seed)


FUNCTION = "function "


def _named(value: Any) -> Any:
    """Functions are told apart by their content; they cannot be called from a journal."""
    return f"{FUNCTION}{fingerprint(value)[:32]}" if callable(value) else plain_value(value)


def certifier_name(certifier: type) -> str:
    return f"{certifier.__module__}.{certifier.__qualname__}"


def differences(stored: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """What two runs do not have in common, in words."""
    names = dict.fromkeys([*stored, *current])
    return [
        f"{name} ({stored.get(name)} in the journal, {current.get(name)} now)"
        for name in names
        if stored.get(name) != current.get(name)
    ]


class Journal(Ledger):
    """A ledger that is kept in a file. Used as a context: what was entered is written on the way out, also by an
    exception or an interrupt."""

    def __init__(self, path: Any, run: Run) -> None:
        super().__init__(run.seed)
        self.path = check_path(path)
        self._run = run
        self._stored: dict[tuple[int, int], tuple[Span, ...]] = {}
        self._touched: set[tuple[int, int]] = set()

    def __enter__(self) -> Journal:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"journal must be in a directory that exists, got {str(self.path)!r}. Make it first."
            )
        with told(self.path, "opened"):
            self._lock = lock_of(self.path)
        try:
            with told(self.path, "opened"):
                self._file = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
                self._open()
        except BaseException:
            self._close()
            raise
        self._started = self._flushed = time.perf_counter()
        self._wait = _LEAST_SECONDS
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.flush()
        finally:
            self._close()
        if error is not None and self.grown:
            error.add_note(f"What was counted is kept: call certify again with journal={str(self.path)!r} to continue.")
        if isinstance(error, BrokenExecutor):
            raise RuntimeError(
                f"A worker process died: {str(error).splitlines()[0]} Nothing that was counted before is lost: "
                f"call certify again with journal={str(self.path)!r} to continue."
            ) from error

    def _open(self) -> None:
        new = is_new(self._file, self.path)
        if not new:
            self._continue()  # before anything is written: what is refused is left as it is
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("BEGIN IMMEDIATE")
        if new:
            self._create()
        else:
            # A write that fails should fail now and not after hours.
            self._file.execute("UPDATE about SET value = value WHERE name = 'seconds'")
        self._file.execute("COMMIT")

    def _create(self) -> None:
        for statement in LAYOUT:
            self._file.execute(statement)
        labels, is_object = plain_labels(self._run.classes)
        about = {
            "identity": dict(self._run.identity),
            "facts": {**self._run.facts, "object_labels": is_object},
            # As text: a number of 128 bits is more than other readers of JSON hold.
            "seed": str(self.seed),
            "seconds": 0.0,
        }
        rows = [(name, json.dumps(value, default=plain_value)) for name, value in about.items()]
        self._file.executemany("INSERT INTO about VALUES (?, ?)", rows)
        self._file.execute("INSERT INTO labels VALUES (?)", (pack({"classes": labels}),))
        self._file.execute(f"PRAGMA application_id = {APPLICATION}")
        self._file.execute(f"PRAGMA user_version = {SCHEMA}")

    def _continue(self) -> None:
        (damage,) = self._file.execute("PRAGMA quick_check(1)").fetchone()
        if damage != "ok":
            raise sqlite3.DatabaseError(damage)
        about = read_about(self._file)
        found = differences(about["identity"], self._run.identity)
        if found:
            raise ValueError(
                f"journal {str(self.path)!r} must belong to the run at hand, got one that differs in "
                f"{'; '.join(found)}. Use another file for another run. A model that was fitted anew is another "
                "model unless everything in its fit is seeded: keep the fitted one with joblib.dump."
            )
        self.seed = int(about["seed"])
        self.seconds = float(about["seconds"])
        self._stored = read_spans(self._file)

    def spans(self, stage: int, row: int) -> tuple[Span, ...]:
        return super().spans(stage, row) or self._stored.get((stage, row), ())

    def entry(self, stage: int, row: int, empty: Callable[[], Tally]) -> Entry | None:
        key = stage, row
        if key in self._stored and key not in self._entries:
            with told(self.path, "read"):
                tally = unpack_tally(read_payload(self._file, stage, row), empty())
            self._entries[key] = Entry(self._stored[key], tally)
        return super().entry(stage, row, empty)

    def add(self, stage: int, row: int, span: Span, tally: Tally) -> None:
        super().add(stage, row, span, tally)
        self._touched.add((stage, row))
        if time.perf_counter() - self._flushed >= self._wait:
            self.flush()

    def flush(self) -> None:
        """Write what was entered since the last time, all of it or nothing."""
        begin = time.perf_counter()
        records = [
            (stage, row, json.dumps(entry.spans), pack_tally(entry.tally))
            for (stage, row), entry in ((key, self._entries[key]) for key in self._touched)
        ]
        # Reading a run that is complete takes time as well, but not that of the run.
        seconds = json.dumps(self.seconds + (begin - self._started if self.grown else 0.0))
        with told(self.path, "written"):
            if self._file.in_transaction:  # an interrupt came in the middle of the last attempt
                self._file.execute("ROLLBACK")
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?)", records)
            self._file.execute("UPDATE about SET value = ? WHERE name = 'seconds'", (seconds,))
            self._file.execute("COMMIT")
        self._touched.clear()
        self._flushed = time.perf_counter()
        self._wait = max(_LEAST_SECONDS, _TIMES_COST * (self._flushed - begin))

    def _close(self) -> None:
        file, lock = getattr(self, "_file", None), getattr(self, "_lock", None)
        if file is not None:
            # Without a log the file can be copied and read anywhere. A reader may be in the way; then the log stays.
            with suppress(sqlite3.Error):
                if file.in_transaction:
                    file.execute("ROLLBACK")
                file.execute("PRAGMA busy_timeout = 0")
                file.execute("PRAGMA journal_mode = DELETE")
            with suppress(sqlite3.Error):
                file.close()
        if lock is not None:
            lock.close()
