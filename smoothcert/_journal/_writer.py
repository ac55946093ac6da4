"""Crash-safe progress of long runs.

A journal is an SQLite file with one record for each row and stage: which blocks of noise are counted, and the tally
they merged to. Merging is exact, so a run continued from it ends with the same bits as one that never stopped, however
either was cut into units. What is not stored is recomputed: the candidate class from the votes of the selection, plans
from the pilot.

Commits are made every half second to two seconds: as rarely as keeps their cost below one percent of the time, unless
the disk is so slow that more than two seconds of work could be lost.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from .._certificates import plain_labels, plain_value
from .._engine import Entry, EvidenceStore, Span
from ..tallies import Tally
from ._run_description import RunDescription, find_differences
from ._schema import (
    APPLICATION,
    LAYOUT,
    SCHEMA,
    acquire_lock,
    check_path,
    is_new,
    read_about,
    read_payload,
    read_spans,
    release_lock,
    translate_sqlite_errors,
)
from ._serialisation import pack, pack_tally, unpack_tally

_TRIES, _PAUSE = 100, 0.05
"""How often, and after how many seconds, a change of mode is tried again while somebody reads: five seconds in all,
many times longer than it takes to read a journal."""

_LEAST_SECONDS = 0.5
"""Shortest time between two commits: a kill costs about half a second of work, unless commits are slow."""

_TIMES_COST = 100.0
"""The next commit waits for this many times what the last one took, so that commits take at most one percent of the
time."""

_MOST_SECONDS = 2.0
"""Longest time between two commits while there is something to commit, however slow they are: a kill costs no more, and
whoever watches sees progress."""


class Journal(EvidenceStore):
    """An evidence store that is kept in a file.

    Used as a context: what was entered is written on the way out, also by an exception or an interrupt.
    """

    def __init__(self, path: Any, run: RunDescription) -> None:
        super().__init__(run.seed)
        self.path = check_path(path)
        self._run = run
        self._stored: dict[tuple[int, int], tuple[Span, ...]] = {}
        self._touched: set[tuple[int, int]] = set()
        self._question_written = self._finished = False

    def __enter__(self) -> Journal:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                f"journal must be in a directory that exists, got {str(self.path)!r}. Create the directory first."
            )
        with translate_sqlite_errors(self.path, "opened"):
            self._lock = acquire_lock(self.path)
        try:
            with translate_sqlite_errors(self.path, "opened"):
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
            self._finished = error is None
            self.flush()
        finally:
            self._close()
        if error is not None and self.grown:
            error.add_note(f"What was counted is kept: call certify again with journal={str(self.path)!r} to continue.")

    def _open(self) -> None:
        new = is_new(self._file, self.path)
        if not new:
            self._continue()  # before anything is written: what is refused is left as it is
        self._write_ahead()
        self._file.execute("PRAGMA synchronous = FULL")
        self._file.execute("BEGIN IMMEDIATE")
        if new:
            self._create()
        else:
            # A write that fails should fail now and not after hours.
            self._file.execute("UPDATE about SET value = value WHERE name = 'seconds'")
        self._file.execute("COMMIT")

    def _write_ahead(self) -> None:
        """Keep changes in a log. SQLite does not wait for readers where it changes to that mode, so this does."""
        for tries_left in reversed(range(_TRIES)):
            try:
                self._file.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or tries_left == 0:
                    raise
                time.sleep(_PAUSE)

    def _create(self) -> None:
        for statement in LAYOUT:
            self._file.execute(statement)
        labels, is_object = plain_labels(self._run.classes)
        about = {
            "identity": self._run.identity(),
            "facts": {**self._run.facts(), "object_labels": is_object},
            # As text: a number of 128 bits is more than other readers of JSON hold.
            "seed": str(self.seed),
            "seconds": 0.0,
            "question": self._run.question.to_plain(),
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
        differences = find_differences(about["identity"], self._run.identity())
        if differences:
            raise ValueError(
                f"journal {str(self.path)!r} was created by a different run: {'; '.join(differences)}. Use another "
                "file for another run. If you fit a model again, it is recognised only if every random choice in fit "
                "has a seed. It is safer to save the fitted model with joblib.dump and to load it."
            )
        self.seed = int(about["seed"])
        self.seconds = float(about["seconds"])
        self._stored = read_spans(self._file)

    def spans(self, stage: int, row: int) -> tuple[Span, ...]:
        return super().spans(stage, row) or self._stored.get((stage, row), ())

    def entry(self, stage: int, row: int, empty: Callable[[], Tally]) -> Entry | None:
        key = stage, row
        if key in self._stored and key not in self._entries:
            with translate_sqlite_errors(self.path, "read"):
                tally = unpack_tally(read_payload(self._file, stage, row), empty())
            self._entries[key] = Entry(self._stored[key], tally)
        return super().entry(stage, row, empty)

    def add(self, stage: int, row: int, span: Span, tally: Tally) -> None:
        super().add(stage, row, span, tally)
        self._touched.add((stage, row))
        if time.perf_counter() - self._flushed >= self._wait:
            self.flush()

    def flush(self) -> None:
        """Write what was entered since the last time, all of it or nothing; and, once there is something or the run is
        finished, what it was asked. A question that was refused leaves no trace."""
        begin = time.perf_counter()
        records = [
            (stage, row, json.dumps(entry.spans), pack_tally(entry.tally))
            for (stage, row), entry in ((key, self._entries[key]) for key in self._touched)
        ]
        # Reading a run that is complete takes time as well, but not that of the run.
        seconds = json.dumps(self.seconds + (begin - self._started if self.grown else 0.0))
        with translate_sqlite_errors(self.path, "written"):
            if self._file.in_transaction:  # an interrupt came in the middle of the last attempt
                self._file.execute("ROLLBACK")
            self._file.execute("BEGIN IMMEDIATE")
            self._file.executemany("INSERT OR REPLACE INTO evidence VALUES (?, ?, ?, ?)", records)
            self._file.execute("UPDATE about SET value = ? WHERE name = 'seconds'", (seconds,))
            if not self._question_written and (records or self._finished):
                question = json.dumps(self._run.question.to_plain())
                self._file.execute("UPDATE about SET value = ? WHERE name = 'question'", (question,))
                self._question_written = True
            self._file.execute("COMMIT")
        self._touched.clear()
        self._flushed = time.perf_counter()
        self._wait = min(max(_LEAST_SECONDS, _TIMES_COST * (self._flushed - begin)), _MOST_SECONDS)

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
            release_lock(lock, self.path)
