"""Votes for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import check_counts
from ._base import IntArray, Tally, as_row_counts, check_rows


@dataclass(eq=False)
class VoteTally(Tally):
    """Votes for each class.

    Parameters
    ----------
    counts : array-like of int, shape (n_rows, n_classes) or (n_rows,)
        Votes for each class; or, one-dimensional, for the candidate class alone.
    n : array-like of int, shape (n_rows,) or a number
        Samples drawn. May exceed the sum of the counts: a model may fail to vote, and classes may be left out.
    candidate : array-like of int, shape (n_rows,), optional
        Column of the class to be certified. It must come from other samples than those counted here.

    Examples
    --------
    >>> from smoothcert.tallies import VoteTally
    >>> VoteTally([[90, 7, 3]], 100, candidate=[0]).hits
    array([90])
    """

    per_row: ClassVar = ("counts", "n", "candidate")
    additive: ClassVar = ("counts", "n")
    squared: ClassVar = ()

    counts: IntArray
    n: IntArray
    candidate: IntArray | None = None

    def __post_init__(self) -> None:
        counts = check_counts("counts", self.counts).astype(np.int64)
        if counts.ndim < 2:
            counts = np.atleast_1d(counts)[:, None]
        if counts.ndim != 2:
            raise ValueError(
                f"counts must have shape (n_rows, n_classes), got {counts.shape}. Give one row for each input."
            )
        self.counts = counts
        self.n = as_row_counts("n", self.n, len(counts))
        check_rows(
            counts.sum(axis=1) <= self.n, "counts must sum to at most n in every row", counts.sum(axis=1), self.n
        )
        if self.candidate is None and counts.shape[1] == 1:
            self.candidate = np.zeros(len(counts), dtype=np.int64)
        if self.candidate is not None:
            self.candidate = as_row_counts("candidate", self.candidate, len(counts))
            if np.any(self.candidate >= counts.shape[1]):
                raise ValueError(
                    f"candidate must be a column of counts, from 0 to {counts.shape[1] - 1}, "
                    f"got {int(self.candidate.max())}."
                )

    @classmethod
    def empty(cls, n_rows: int, n_classes: int, candidate: ArrayLike | None = None) -> VoteTally:
        """Return a tally with no votes yet."""
        return cls(np.zeros((n_rows, n_classes), np.int64), np.zeros(n_rows, np.int64), candidate)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.n)

    def summary(self) -> dict[str, NDArray[Any]]:
        return {"hits": self.hits, "n": self.n, "votes": self.counts}

    def _merge_key(self, other: Any) -> dict[str, Any]:
        return {**super()._merge_key(other), "classes": self.counts.shape[1], "candidate": self.candidate}

    @property
    def hits(self) -> IntArray:
        """Votes for the candidate class."""
        return np.take_along_axis(self.counts, self._candidate()[:, None], axis=1)[:, 0]

    @property
    def rivals(self) -> IntArray:
        """Votes for the strongest other class, shape (n_rows,).

        Votes that are in no column may all be for one class, so together they count as one.
        """
        others = self.counts.copy()
        np.put_along_axis(others, self._candidate()[:, None], 0, axis=1)
        strongest: IntArray = np.maximum(others.max(axis=1), self.n - self.counts.sum(axis=1))
        return strongest

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.hits, self.rivals, self.n

    def _candidate(self) -> IntArray:
        if self.candidate is None:
            raise ValueError(
                "candidate must name the class to certify, got None. Choose it from other samples. "
                "If the same votes chose the class and proved its radius, the certificate would be wrong more often "
                "than alpha."
            )
        return self.candidate

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Count votes.

        Parameters
        ----------
        noise : ignored
        votes : array-like of int, shape (n_rows, n)
            Class index of each vote; numbers outside the classes are no vote.
        """
        votes = np.asarray(votes)
        for row, of_row in enumerate(votes):
            chosen = of_row.astype(np.intp, copy=False)
            if chosen.size and (chosen.min() < 0 or chosen.max() >= self.counts.shape[1]):
                chosen = chosen[(chosen >= 0) & (chosen < self.counts.shape[1])]
            self.counts[row] += np.bincount(chosen, minlength=self.counts.shape[1])
            self.n[row] += of_row.shape[0]
