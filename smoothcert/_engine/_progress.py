"""How far a run is, how long it will take, and who is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import log2
from typing import Any

from joblib.parallel import get_active_backend

from .._warnings import LongRunWarning, warn_user
from ._stages import Stage

LONG_RUN_SECONDS = 60.0
"""A run that is expected to take longer than this says so."""

_FIRST_LOOK = 500
"""About as many samples are looked at first, where sampling ends when a radius is decided."""


@dataclass(kw_only=True)
class Progress:
    """Samples done in a run, and those that it will probably take.

    Attributes
    ----------
    n_rows : int
        Inputs.
    samples_per_row : int
        Samples of an input, at most.
    by_looks : bool
        Whether inputs are looked at from time to time and may be decided before they have all samples.
    workers : int
        Processes or threads that share the work.
    name : str
        The method that runs.
    advice : str
        How to shorten the run, as a sentence.
    silent : bool
        Whether nothing is said about long runs.
    bar : tqdm or None
        Counts inputs if they are decided by looks, otherwise samples.
    done : int
        Samples done.
    drawn : int
        Samples done in this run, without those that a journal had.
    decided : int
        Inputs that need no more samples.
    """

    n_rows: int
    samples_per_row: int
    by_looks: bool = False
    workers: int = 1
    name: str = "certify"
    advice: str = ""
    silent: bool = True
    bar: Any = None
    done: int = field(default=0, init=False)
    drawn: int = field(default=0, init=False)
    decided: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._total = self.n_rows * self.samples_per_row
        self._requested: Counter[int] = Counter()
        self._stage = 0
        self._afterwards: float = self._total
        if self.by_looks:
            self._afterwards = self.n_rows * _expect_more(0, self.samples_per_row)

    def begin(self, stage: Stage, missing: int) -> None:
        """Take note of a stage that begins, and how many of its samples are missing.

        The others were drawn before this run: they are done, but say nothing about its speed.
        """
        if callable(stage.observes):
            return
        for row, draws in stage.draws.items():
            self._requested[row] += stage.sides * (draws - stage.before.get(row, 0))
        self._stage = missing
        if self.by_looks:
            is_look = len(stage.blocks) > 0
            seen = [stage.sides * draws if is_look else 0 for draws in stage.draws.values()]
            self._afterwards = sum(_expect_more(samples, self.samples_per_row) for samples in seen)
        else:
            self._afterwards = self._total - self._requested.total()
        resumed = max(stage.n_samples - missing, 0)
        self.done += resumed
        if self.bar is not None and resumed:
            self.bar.resume(resumed)

    def advance(self, samples: int) -> None:
        """Take note of samples that were drawn."""
        self.done += samples
        self.drawn += samples
        self._stage -= samples
        if self.bar is not None:
            self.bar.update(0 if self.by_looks else samples)

    def decide(self, rows: Sequence[int]) -> None:
        """Take note of inputs that need no more samples."""
        self.decided += len(rows)
        if self.by_looks:
            if self.bar is not None:
                self.bar.update(len(rows))
            return
        spared = sum(self.samples_per_row - self._requested[row] for row in rows)
        self._total -= spared
        self._afterwards -= spared
        if self.bar is not None and spared:
            self.bar.total = self._total
            self.bar.refresh()

    @property
    def samples_left(self) -> float:
        """Samples that will probably be drawn."""
        return max(self._stage + self._afterwards, 0)

    def seconds_left(self, seconds_per_sample: float) -> float:
        """Return how long the rest takes if one worker takes this time for a sample."""
        return self.samples_left * seconds_per_sample / self.workers

    def is_long(self, seconds_per_sample: float) -> bool:
        """Return whether the user should be told that the rest takes long."""
        return not self.silent and self.seconds_left(seconds_per_sample) > LONG_RUN_SECONDS

    def warn_of_long_run(self, seconds_per_sample: float) -> None:
        """Say how long the rest takes, once in a run."""
        self.silent = True
        expected = describe_seconds(self.seconds_left(seconds_per_sample))
        warn_user(
            f"{self.name} is expected to take {expected}. {self.advice} "
            "With verbose=1 a progress bar is shown instead of this warning.",
            LongRunWarning,
        )


def _expect_more(samples: int, most: int) -> float:
    """Return how many more samples an input probably takes that is looked at with `samples` now, at `most` at last.

    About half of the inputs are decided at each look, and each look is at twice the samples of the one before: so all
    looks to come take the same number of samples, half of what there is now.
    """
    before = 0.0
    if samples == 0:
        samples = min(_FIRST_LOOK, most)
        before = samples
    return before + 0.5 * samples * max(log2(most / samples), 0.0)


def describe_seconds(seconds: float) -> str:
    """Return a length of time in words, as exact as an estimate is."""
    for unit, size, most in (("seconds", 1, 90), ("minutes", 60, 90), ("hours", 3600, 48)):
        if seconds < most * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {seconds / 86400:.0f} days"


@contextmanager
def show_progress(verbose: int, **run: Any) -> Iterator[Progress]:
    """Yield what is told of progress; with `verbose` it shows how far the run is and the time left in a bar.

    Without a bar it warns of a run that is expected to take long, except where this process is itself a worker: then
    many runs go on at the same time, and the one who started them cannot see which.

    Parameters
    ----------
    verbose : int
    **run
        Attributes of `Progress`.
    """
    if not verbose:
        yield Progress(silent=_is_worker(), **run)
        return
    try:
        from ._bars import bar_of
    except ImportError as error:
        raise ImportError("verbose=1 needs tqdm to show progress; install tqdm, or set verbose=0.") from error
    progress = Progress(**run)
    with bar_of(progress) as progress.bar:
        yield progress


def _is_worker() -> bool:
    """Return whether this code is run by a worker of joblib."""
    backend, _ = get_active_backend()
    return bool(getattr(backend, "nesting_level", 0))
