"""Hits and sums of noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray, as_float_array, check_counts
from ._base import IntArray, Tally, as_row_counts, broadcast_to_rows, check_finite, check_rows
from ._sums import gradient_sums, norm_sq_of, squares_by_class


@dataclass(eq=False)
class GradientTally(Tally):
    """Hits, and the sums that estimate the gradient of the smoothed probability.

    With noise `Z` and hits `f` the vectors summed are ``X = Z (f - centre)``.

    Parameters
    ----------
    hits : array-like of int, shape (n_rows,) or (n_rows, n_classes)
        Votes for the candidate class, or for every class.
    n : array-like of int, shape (n_rows,) or a number
        Samples drawn.
    grad_sum : array-like, shape (n_rows, n_features) or (n_rows, n_classes, n_features)
        Sum of the vectors.
    grad_sq : array-like, shape (n_rows,) or (n_rows, n_classes)
        Sum of their squared lengths.
    centre : float, default=0.5
        0.5 for the limit ``"centred"``, 0 for the limit ``"paper"``.
    candidate : array-like of int, shape (n_rows,), optional
        With several classes, the column of the class to be certified; otherwise the class index that counts as a hit
        in `update`, 1 (or ``True``) if not given.
    grad_error : array-like, shape of `grad_sq`, default=0
        Bound of the length of the rounding error in `grad_sum`; `update` keeps it.
    vote_sq : array-like, shape of `grad_sq`, default=0
        With several classes, the sum of squared lengths of the noise that each of them got the vote on, or a lower
        bound of it, for `lead_norm_sq`.

    Examples
    --------
    >>> import numpy as np
    >>> from smoothcert.tallies import GradientTally
    >>> noise = np.random.default_rng(0).standard_normal((1, 1000, 2))
    >>> tally = GradientTally.empty(1, n_features=2)
    >>> tally.update(noise, noise[:, :, 0] < 1.0)
    >>> tally.hits, tally.norm_sq.round(2)
    (array([846]), array([0.06]))
    """

    per_row: ClassVar[tuple[str, ...]] = ("hits", "n", "grad_sum", "grad_sq", "candidate", "grad_error", "vote_sq")
    shared: ClassVar[tuple[str, ...]] = ("centre",)
    additive: ClassVar = ("hits", "n", "grad_sum", "grad_sq", "grad_error", "vote_sq")
    squared: ClassVar = ("grad_sq", "vote_sq")

    hits: IntArray
    n: IntArray
    grad_sum: FloatArray
    grad_sq: FloatArray
    centre: float = 0.5
    candidate: IntArray | None = None
    grad_error: FloatArray | float = 0.0
    vote_sq: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        hits = np.atleast_1d(check_counts("hits", self.hits)).astype(np.int64)
        if hits.ndim > 2:
            raise ValueError(f"hits must have shape (n_rows,) or (n_rows, n_classes), got {hits.shape}.")
        self.hits = hits
        self.n = as_row_counts("n", self.n, len(hits))
        total = hits.sum(axis=1) if hits.ndim == 2 else hits
        check_rows(total <= self.n, "hits must be at most n in every row", total, self.n)
        self.grad_sum = as_float_array("grad_sum", self.grad_sum)
        if self.grad_sum.ndim != hits.ndim + 1 or self.grad_sum.shape[:-1] != hits.shape or self.grad_sum.shape[-1] < 1:
            raise ValueError(
                f"grad_sum must have shape {(*hits.shape, 'n_features')} to go with hits, got {self.grad_sum.shape}."
            )
        self.grad_sq = check_finite("grad_sq", broadcast_to_rows("grad_sq", self.grad_sq, hits.shape))
        self.grad_error = check_finite("grad_error", broadcast_to_rows("grad_error", self.grad_error, hits.shape))
        self.vote_sq = check_finite("vote_sq", broadcast_to_rows("vote_sq", self.vote_sq, hits.shape))
        check_finite("grad_sum", self.grad_sum)
        if self.candidate is not None:
            self.candidate = as_row_counts("candidate", self.candidate, len(hits))

    @classmethod
    def empty(
        cls,
        n_rows: int,
        n_features: int,
        *,
        n_classes: int | None = None,
        centre: float = 0.5,
        candidate: ArrayLike | None = None,
    ) -> GradientTally:
        """Return a tally with no samples yet; with `n_classes`, one gradient for every class."""
        shape = (n_rows,) if n_classes is None else (n_rows, n_classes)
        zeros = np.zeros(shape, np.int64), np.zeros(n_rows, np.int64), np.zeros((*shape, n_features)), np.zeros(shape)
        return cls(*zeros, centre, candidate)  # type: ignore[arg-type]

    @classmethod
    def from_norm_sq(
        cls, hits: ArrayLike, n: ArrayLike, norm_sq: ArrayLike, n_features: int, *, centre: float = 0.5
    ) -> GradientTally:
        """Return a tally with a given unbiased estimate of the squared gradient norm, as published logs print it."""
        hits = np.atleast_1d(check_counts("hits", hits))
        n = np.broadcast_to(check_counts("n", n, least=2), hits.shape)
        norm_sq = np.broadcast_to(as_float_array("norm_sq", norm_sq), hits.shape)
        pairs = n * (n - 1.0)
        grad_sum = np.zeros((*hits.shape, n_features))
        grad_sum[:, 0] = np.sqrt(np.maximum(norm_sq, 0.0) * pairs)
        return cls(hits, n, grad_sum, np.maximum(-norm_sq, 0.0) * pairs, centre)

    def __len__(self) -> int:
        return len(self.n)

    def summary(self) -> dict[str, NDArray[Any]]:
        if self.hits.ndim == 1:
            return {"hits": self.hits, "n": self.n, "norm_sq": self.norm_sq}
        own = (np.arange(len(self)), self._candidate())
        return {"hits": self.hits[own], "n": self.n, "votes": self.hits, "norm_sq": self.norm_sq[own]}

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray]:
        if self.hits.ndim == 1:
            return self.hits, self.n - self.hits, self.n
        rows, own = np.arange(len(self)), self._candidate()
        others = self.hits.copy()
        others[rows, own] = 0
        return self.hits[rows, own], np.maximum(others.max(axis=1), self.n - self.hits.sum(axis=1)), self.n

    def _candidate(self) -> IntArray:
        if self.candidate is None:
            raise ValueError("candidate must name the class to certify, got None. Give one column for each row.")
        return self.candidate

    def _merge_key(self, other: Any) -> dict[str, Any]:
        shape = self.grad_sum.shape
        classes = shape[1] if self.hits.ndim == 2 else 1
        same = {"features": shape[-1], "classes": classes, "centre": self.centre, "candidate": self.candidate}
        return {**super()._merge_key(other), **same}

    @property
    def n_features(self) -> int:
        """Dimension of the noise."""
        return int(self.grad_sum.shape[-1])

    @property
    def norm_sq(self) -> FloatArray:
        """Unbiased estimate of the squared gradient norm, over all pairs of samples; inf with fewer than two.

        Rounded up by what the roundings of the sums may have taken off.
        """
        n = self.n if self.hits.ndim == 1 else self.n[:, None]
        return norm_sq_of(self.grad_sum, self.grad_sq, np.asarray(self.grad_error), n)

    def lead_norm_sq(self) -> FloatArray:
        """Return the unbiased estimates of a quarter of the squared gradient norm of the lead over each class, from
        vectors ``X = Z (1_A - 1_B) / 2``, shape (n_rows, n_classes); inf for the candidate itself.

        Rounded up like `norm_sq`.
        """
        errors, squares = np.asarray(self.grad_error), np.asarray(self.vote_sq)
        estimates = np.empty(self.hits.shape)
        for row, own in enumerate(self._candidate()):
            difference = (self.grad_sum[row, own] - self.grad_sum[row]) / 2.0
            square = (squares[row, own] + squares[row]) / 4.0
            error = (errors[row, own] + errors[row]) / 2.0
            estimates[row] = norm_sq_of(difference, square, error, np.asarray(self.n[row]))
            estimates[row, own] = np.inf
        return estimates

    @property
    def needs_noise(self) -> bool:
        return True

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int or bool, shape (n_rows, n)
            Class index of each vote.
        """
        votes = np.asarray(votes)
        for row, (z, of_row) in enumerate(zip(noise, votes, strict=True)):
            if self.hits.ndim == 2:
                hit = of_row[None, :] == np.arange(self.hits.shape[1])[:, None]
            else:
                hit = of_row == (1 if self.candidate is None else self.candidate[row])
            self.hits[row] += np.count_nonzero(hit, axis=-1)
            self.n[row] += of_row.shape[0]
            sums = gradient_sums(z, hit - self.centre)
            self.grad_sum[row] += sums.total
            self.grad_sq[row] += sums.square
            np.asarray(self.grad_error)[row] += sums.error
            if self.hits.ndim == 2:
                np.asarray(self.vote_sq)[row] += squares_by_class(z, of_row, self.hits.shape[1])
