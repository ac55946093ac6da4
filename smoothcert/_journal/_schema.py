"""The file of a journal: its layout and version, its lock, and its errors in words.

Why SQLite with a write-ahead log: a commit is there entirely or not at all, after a kill of the process or a loss of
power; earlier commits are not overwritten before a checkpoint has made their successors safe; and readers never wait
for the writer, nor the writer for them. Every commit is forced to disk (``synchronous=FULL``).

Why one writer: two processes with the same journal would sample the same blocks. The second is refused. The lock is
one of the operating system, on an empty file beside the journal, so it goes with the process that held it. The file is
removed when a run ends; one that a killed run left means nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from .._engine import Span

SCHEMA = 6
"""Version of the file's layout, of the noise whose blocks it counts, and of the plans that pilots make, which are not
stored but made again; raised when any of these changes."""

APPLICATION = 0x736D6365
"""Marks an SQLite file as a journal of ours: the letters "smce" in ASCII."""

LAYOUT = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE labels (classes BLOB NOT NULL)",
    "CREATE TABLE evidence (stage INTEGER, row INTEGER, spans TEXT NOT NULL, payload BLOB NOT NULL, "
    "PRIMARY KEY (stage, row))",
)


def check_path(path: Any, name: str = "journal") -> Path:
    """Require a path at which a journal may be."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        shape = getattr(path, "shape", None)
        given = repr(path) if shape is None else f"an array of shape {shape}"
        raise TypeError(f"{name} must be the path of a file, got {given}. Give one, such as 'run.sqlite'.")
    # Resolved, so that one file has one lock, whatever way leads to it.
    file = Path(os.fsdecode(path)).resolve()
    if file.is_dir():
        raise ValueError(f"{name} must be a file, got the directory {str(file)!r}. Add a name, such as 'run.sqlite'.")
    return file


def is_new(file: sqlite3.Connection, path: Path) -> bool:
    """Return whether a file is still empty; refuse what is not a journal of this version."""
    (application,) = file.execute("PRAGMA application_id").fetchone()
    (version,) = file.execute("PRAGMA user_version").fetchone()
    (tables,) = file.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and version == 0 and tables == 0:
        return True
    if application != APPLICATION:
        raise ValueError(
            f"journal must be a file written by certify, got {str(path)!r}, which is another SQLite database. "
            "Give another path."
        )
    if version != SCHEMA:
        age = "an older" if version < SCHEMA else "a newer"
        raise ValueError(
            f"journal must be of version {SCHEMA}, got version {version} in {str(path)!r}, written by {age} "
            "smoothcert. Finish the run with the smoothcert that began it, or begin a new file."
        )
    return False


def read_about(file: sqlite3.Connection) -> dict[str, Any]:
    return {name: json.loads(value) for name, value in file.execute("SELECT name, value FROM about")}


def read_spans(file: sqlite3.Connection) -> dict[tuple[int, int], tuple[Span, ...]]:
    """Return the blocks counted, by stage and row."""
    found = {}
    for stage, row, spans in file.execute("SELECT stage, row, spans FROM evidence"):
        found[stage, row] = tuple((int(first), int(last)) for first, last in json.loads(spans))
    return found


def read_payload(file: sqlite3.Connection, stage: int, row: int) -> bytes:
    query = "SELECT payload FROM evidence WHERE stage = ? AND row = ?"
    (payload,) = file.execute(query, (stage, row)).fetchone()
    return bytes(payload)


def read_labels(file: sqlite3.Connection) -> bytes:
    (payload,) = file.execute("SELECT classes FROM labels").fetchone()
    return bytes(payload)


def acquire_lock(path: Path) -> sqlite3.Connection:
    while True:
        before = _identity(path, create=True)
        lock = sqlite3.connect(f"{path}-lock", timeout=0.0, isolation_level=None)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            lock.close()
            if before != _identity(path):
                continue
            if "locked" not in str(error):
                raise
            raise RuntimeError(
                f"journal {str(path)!r} is in use by another run. Wait until the other run has finished, or stop it. "
                "smoothcert.read_journal shows its progress. A second run on the same file would only repeat its work."
            ) from None
        # A run that ended in between has removed the file, and this lock is on what is nowhere any more.
        if before == _identity(path):
            return lock
        lock.close()


def release_lock(lock: sqlite3.Connection, path: Path) -> None:
    """Give a lock back, and remove its file while it is still held: nobody else can hold a lock on it then."""
    if os.name == "posix":  # elsewhere an open file cannot be removed, and stays
        for name in (f"{path}-lock", f"{path}-lock-journal"):
            with suppress(OSError):
                os.unlink(name)
    lock.close()


def _identity(path: Path, create: bool = False) -> tuple[int, int] | None:
    """Return what tells the file of a lock from another one of the same name; None if it cannot be told."""
    try:
        if create:
            with open(f"{path}-lock", "ab"):
                pass
        status = os.stat(f"{path}-lock")
    except OSError:
        return None
    return status.st_dev, status.st_ino


_CURE = "Check that the disk has room and that the file and its directory can be written, then call certify again."


@contextmanager
def translate_sqlite_errors(path: Path, what: str, cure: str = _CURE) -> Iterator[None]:
    """Say in words what failed, that earlier records are safe, and what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise OSError(
            f"journal {str(path)!r} could not be {what}: {error}. Evidence that it already has is not lost. {cure}"
        ) from error
    except (sqlite3.DatabaseError, BadZipFile) as error:
        raise ValueError(
            f"journal must be a whole file written by certify, got {str(path)!r}, which cannot be read: {error}. "
            "If it is a damaged journal, use a new file. Files of other programs are not changed."
        ) from error
