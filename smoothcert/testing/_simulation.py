"""Evidence about a classifier that is given as a function of the noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._noise import moved_into_strata
from ..certifiers import BaseCertifier
from ..tallies import Tally


def sample_tally(
    certifier: BaseCertifier,
    classify: Callable[[Any], Any],
    *,
    n_classes: int,
    n_rows: int,
    n_features: int,
    seed: int = 0,
    candidate: int = 0,
    n_pilots: int | None = None,
) -> Tally:
    """Return the evidence of independent runs about one input at the origin, pilots included.

    Parameters
    ----------
    certifier : BaseCertifier
        It draws its own `n_samples` in every run.
    classify : callable
        Maps noise of shape (..., n_features) to class indices of shape (...).
    n_classes : int
    n_rows : int
        Number of runs.
    n_features : int
    seed : int, default=0
    candidate : int, default=0
        Class to be certified.
    n_pilots : int, optional
        Number of different pilots, one for each run by default. Runs may share a pilot, because a promise holds for
        every pilot, not only on average over them; that saves time where plans are slow to make.

    Returns
    -------
    Tally
    """
    rng = np.random.default_rng(seed)
    n_pilots = n_rows if n_pilots is None else min(n_pilots, n_rows)
    plan: Any = None
    left = certifier.n_samples
    sides = 2 if certifier.pairing == "antithetic" else 1
    chosen = np.full(n_pilots, candidate)
    for pilot in certifier.pilots(gradients=False):
        if pilot.needed is not None and not any(pilot.needed(plan[row]) for row in range(n_pilots)):
            continue
        tally = pilot.new_tally(n_pilots, n_features, n_classes, chosen, plan)
        if callable(pilot.observes):
            given = pilot.observes(np.zeros((n_pilots, n_features)), chosen)
            tally.update(given[:, None], np.full((n_pilots, 1), -1))
        else:
            _update(tally, classify, rng.standard_normal((n_pilots, pilot.n_samples // sides, n_features)), sides)
        plan = pilot.plan(tally)
        left -= pilot.n_samples
    if plan is not None:
        plan = plan[np.arange(n_rows) % n_pilots]
    tally = certifier.new_tally(n_rows, n_features, n_classes, np.full(n_rows, candidate), plan)
    _update(tally, classify, rng.standard_normal((n_rows, left // sides, n_features)), sides)
    return tally


def _update(tally: Tally, classify: Callable[[Any], Any], noise: Any, sides: int) -> None:
    for row, of_row in enumerate(noise):
        design = tally[row : row + 1].design
        if design is not None:
            along = of_row @ design.direction
            moved = moved_into_strata(along, design.cuts, design.strata(0, len(of_row)))
            of_row += (moved - along)[:, None] * design.direction
    tally.update(noise, np.stack([classify(noise), classify(-noise)], axis=1) if sides == 2 else classify(noise))
