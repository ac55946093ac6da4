"""A progress bar, when one is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(verbose: int, total: int, name: str) -> Iterator[Callable[[int], object]]:
    """A function that is told how many samples were done; shows them, their rate and the time left if `verbose`."""
    if not verbose:
        yield lambda samples: None
        return
    try:
        from tqdm.auto import tqdm
    except ImportError as error:
        raise ImportError("verbose=1 needs tqdm to show progress; install tqdm, or set verbose=0.") from error
    with tqdm(total=total, desc=name, unit=" samples", unit_scale=True) as bar:
        yield bar.update
