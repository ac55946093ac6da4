"""The verb ``watch``."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .. import read_journal
from .._engine._progress import describe_seconds
from .._journal import JournalView

_WIDTH = 24
"""Characters of the bar."""

_COST = 5.0
"""Between two looks at least this many times passes what a look takes, which is long where much is certified."""

_SILENCE = 10.0
"""Seconds after which it is said that nothing was written."""


def run_watch(arguments: argparse.Namespace) -> int:
    """Show how far a run is until it is complete."""
    if not arguments.interval > 0:
        raise ValueError(f"--interval must be above 0, got {arguments.interval:g}.")
    pace = _Pace()
    live = sys.stdout.isatty() and not arguments.once
    shown = ""
    while True:
        started = time.monotonic()
        view = read_journal(arguments.journal)
        pace.add(view.fraction_done, started)
        complete = len(view.finished) == len(view.samples)
        line = describe_view(view, None if complete else pace.seconds_left)
        idle = time.time() - _last_change(Path(arguments.journal))
        if not complete and idle > _SILENCE:
            line += f", nothing written for {describe_seconds(idle).removeprefix('about ')}"
        if live:
            sys.stdout.write("\r" + line.ljust(len(shown)))
        elif line != shown:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
        shown = line
        if arguments.once or complete:
            break
        time.sleep(max(arguments.interval, _COST * (time.monotonic() - started)))
    if live:
        sys.stdout.write("\n")
    return 0


def describe_view(view: JournalView, seconds_left: float | None = None) -> str:
    """Return one line that says how far a run is."""
    done = min(view.fraction_done, 1.0)
    # Rounded down: a run that is nearly complete is not complete.
    bar = ("#" * int(done * _WIDTH)).ljust(_WIDTH, "-")
    kind = "decided" if "asked_radii" in view.provenance else "finished"
    line = f"[{bar}] {int(100 * done)}%  {len(view.finished)} of {len(view.samples)} inputs {kind}"
    line += f", {_count(int(view.samples.sum()))} samples"
    if view.certificates is not None:
        certified = int((~view.certificates.abstained).sum())
        line += f", {certified} certified"
    if len(view.finished) == len(view.samples):
        return f"{line}, complete"
    return line if seconds_left is None else f"{line}, {describe_seconds(seconds_left)} left"


class _Pace:
    """How fast a run has been since it is watched."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self.seconds_left: float | None = None

    def add(self, fraction: float, at: float) -> None:
        if self._first is None:
            self._first = fraction, at
            return
        begun, since = self._first
        if fraction > begun:
            self.seconds_left = (1.0 - fraction) * (at - since) / (fraction - begun)


def _last_change(path: Path) -> float:
    """Return when a journal, or the log beside it, was last written."""
    files = [path, Path(f"{path}-wal")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=time.time())


def _count(number: int) -> str:
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return str(number)
