"""How far a run is, how long it will take, and who is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from joblib.parallel import get_active_backend

from .._warnings import LongRunWarning, warn_user

LONG_RUN_SECONDS = 60.0
"""A run that is expected to take longer than this says so."""


@dataclass
class Progress:
    """Samples done in a run, of those it may take.

    Attributes
    ----------
    total : int
        Samples of the run.
    workers : int
        Processes or threads that share the work.
    advice : str
        How to shorten the run, as a sentence.
    name : str
        The method that runs.
    silent : bool
        Whether nothing is said about long runs.
    bar : tqdm or None
    """

    total: int
    workers: int = 1
    advice: str = ""
    name: str = "certify"
    silent: bool = True
    bar: Any = None
    done: int = field(default=0, init=False)

    def advance(self, samples: int) -> None:
        """Take note of samples that were drawn."""
        self.done += samples
        if self.bar is not None:
            self.bar.update(samples)

    def resume(self, samples: int) -> None:
        """Take note of samples that were drawn before this run: they are done, but say nothing about its speed."""
        self.done += samples
        if self.bar is not None and samples:
            for count in ("n", "initial", "last_print_n"):  # tqdm computes its rates from differences of these
                setattr(self.bar, count, getattr(self.bar, count) + samples)
            self.bar.refresh()

    def seconds_left(self, seconds_per_sample: float) -> float:
        """Return how long the rest takes at the speed of one worker."""
        return max(self.total - self.done, 0) * seconds_per_sample / self.workers

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


def describe_seconds(seconds: float) -> str:
    """Return a length of time in words, as exact as an estimate is."""
    for unit, size, most in (("seconds", 1, 90), ("minutes", 60, 90), ("hours", 3600, 48)):
        if seconds < most * size:
            return f"about {seconds / size:.2g} {unit}"
    return f"about {seconds / 86400:.0f} days"


@contextmanager
def show_progress(verbose: int, total: int, name: str, *, workers: int = 1, advice: str = "") -> Iterator[Progress]:
    """Yield what is told of progress; with `verbose` it shows samples, their rate and the time left in a bar.

    Without a bar it warns of a run that is expected to take long, except where this process is itself a worker: then
    many runs go on at the same time, and the one who started them cannot see which.
    """
    if not verbose:
        yield Progress(total, workers, advice, name, silent=_is_worker())
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("verbose=1 needs tqdm to show progress; install tqdm, or set verbose=0.") from error
    with tqdm(total=total, desc=name, unit=" samples", unit_scale=True) as bar:
        yield Progress(total, workers, advice, name, bar=bar)


def _is_worker() -> bool:
    """Return whether this code is run by a worker of joblib."""
    backend, _ = get_active_backend()
    return bool(getattr(backend, "nesting_level", 0))
