"""Sums of input gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray
from ._along import AlongDirection
from ._base import IntArray, Tally, as_row_counts, check_finite
from ._design import Design

_STEPS = 2.0**34
"""Sums of each update are rounded to these steps of a unit, like the other sums (see `_sum_errors`), but finer, because
gradients may be small where the class is far from any other. They add without rounding up to 2^19. Only a direction is
made from them, and any direction is valid."""


@dataclass(eq=False)
class InputGradientTally(Tally):
    """Hits, and the sum of the gradients of a differentiable margin at noisy copies of the input.

    Parameters
    ----------
    hits, n : array-like of int, shape (n_rows,)
    slope_sum : array-like of shape (n_rows, n_features)
    candidate : array-like of int, shape (n_rows,), optional
        Class index that counts as a hit in `update`; 1 (or ``True``) if not given.
    votes : array-like of int, shape (n_rows, n_classes), optional
        Votes for each class, where they are wanted.
    plan : DirectionalPlan or RivalPlan, optional
        Tells how the noise is to be drawn.
    """

    per_row: ClassVar = ("hits", "n", "slope_sum", "candidate", "votes", "plan")
    additive: ClassVar = ("hits", "n", "slope_sum", "votes")

    hits: IntArray
    n: IntArray
    slope_sum: FloatArray
    candidate: IntArray | None = None
    votes: IntArray | None = None
    plan: AlongDirection | None = None

    def __post_init__(self) -> None:
        rows = len(self.slope_sum)
        self.hits = as_row_counts("hits", self.hits, rows)
        self.n = as_row_counts("n", self.n, rows)
        check_finite("slope_sum", self.slope_sum)
        if self.candidate is not None:
            self.candidate = as_row_counts("candidate", self.candidate, rows)

    @classmethod
    def empty(
        cls,
        n_rows: int,
        n_features: int,
        candidate: ArrayLike | None = None,
        n_classes: int | None = None,
        plan: AlongDirection | None = None,
    ) -> InputGradientTally:
        """Return a tally with no samples yet; with `n_classes`, one that counts the votes for each class."""
        hits, n = np.zeros((2, n_rows), np.int64)
        votes = None if n_classes is None else np.zeros((n_rows, n_classes), np.int64)
        return cls(hits, n, np.zeros((n_rows, n_features)), candidate, votes, plan)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.n)

    @property
    def needs_noise(self) -> bool:
        return True

    @property
    def design(self) -> Design | None:
        return None if self.plan is None else self.plan.design_of_only_row()

    def summary(self) -> dict[str, NDArray[Any]]:
        return {"hits": self.hits, "n": self.n}

    def _merge_key(self, other: Any) -> dict[str, Any]:
        return {**super()._merge_key(other), "features": self.slope_sum.shape[1], "candidate": self.candidate}

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add votes and gradients.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
            Gradients, in place of the noise that other tallies are given.
        votes : array-like of int or bool, shape (n_rows, n)
        """
        for row, of_row in enumerate(np.asarray(votes)):
            self.hits[row] += np.count_nonzero(of_row == (1 if self.candidate is None else self.candidate[row]))
            self.n[row] += len(of_row)
            if self.votes is not None:
                listed = of_row[(of_row >= 0) & (of_row < self.votes.shape[1])].astype(np.intp)
                self.votes[row] += np.bincount(listed, minlength=self.votes.shape[1])
            slopes = self._vectors(noise[row], of_row, row)
            if isinstance(slopes, np.ndarray):
                total = slopes.sum(axis=0, dtype=np.float64)
            else:
                total = slopes.double().sum(0).cpu().numpy()
            self.slope_sum[row] += np.rint(total * _STEPS) / _STEPS

    def _vectors(self, gradients: Any, votes: IntArray, row: int) -> Any:
        return gradients


@dataclass(eq=False)
class ScoreTally(InputGradientTally):
    """Like sums of input gradients, for any base: the noise on which the candidate class got the vote."""

    def _vectors(self, gradients: Any, votes: IntArray, row: int) -> Any:
        return gradients[votes == (1 if self.candidate is None else self.candidate[row])]
