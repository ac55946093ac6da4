"""Votes of antithetic pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray, as_float_array, check_counts
from ._base import IntArray, Tally, as_row_counts, broadcast_to_rows, check_finite, check_rows
from ._sums import gradient_sums, norm_sq_of


@dataclass(eq=False)
class PairTally(Tally):
    """How antithetic pairs ``x + noise``, ``x - noise`` vote, and optionally the sums that estimate the gradient.

    Parameters
    ----------
    both : array-like of int, shape (n_rows,)
        Pairs with both votes for the candidate class.
    one : array-like of int, shape (n_rows,)
        Pairs with exactly one, on either side.
    pairs : array-like of int, shape (n_rows,) or a number
        All pairs.
    one_plus : array-like of int, shape (n_rows,), optional
        Pairs where only the ``+`` side votes for the class: what published logs count.
    grad_sum, grad_sq : array-like, shapes (n_rows, n_features) and (n_rows,), optional
        Sum of the vectors ``X = Z (f(x+Z) - f(x-Z)) / 2``, one for each pair, and of their squared lengths.
    candidate : array-like of int, shape (n_rows,), optional
        Class index that counts as a hit in `update`; 1 (or ``True``) if not given.
    grad_error : array-like, shape (n_rows,), optional
        Bound of the length of the rounding error in `grad_sum`, 0 if not given; `update` keeps it.

    Examples
    --------
    >>> from smoothcert.tallies import PairTally
    >>> tally = PairTally(both=44_963, one=5_030, pairs=50_000)
    >>> tally.merge(tally).both
    array([89926])
    """

    per_row: ClassVar[tuple[str, ...]] = (
        "both",
        "one",
        "pairs",
        "one_plus",
        "grad_sum",
        "grad_sq",
        "candidate",
        "grad_error",
    )
    additive: ClassVar = ("both", "one", "pairs", "one_plus", "grad_sum", "grad_sq", "grad_error")
    squared: ClassVar = ("grad_sq",)

    both: IntArray
    one: IntArray
    pairs: IntArray
    one_plus: IntArray | None = None
    grad_sum: FloatArray | None = None
    grad_sq: FloatArray | None = None
    candidate: IntArray | None = None
    grad_error: FloatArray | None = None

    def __post_init__(self) -> None:
        self.both = np.atleast_1d(check_counts("both", self.both)).astype(np.int64)
        if self.both.ndim != 1:
            raise ValueError(f"both must have shape (n_rows,), got {self.both.shape}. Give one count for each input.")
        rows = len(self.both)
        self.one = as_row_counts("one", self.one, rows)
        self.pairs = as_row_counts("pairs", self.pairs, rows)
        check_rows(
            self.both + self.one <= self.pairs, "both + one must be at most pairs", self.both + self.one, self.pairs
        )
        if self.one_plus is not None:
            self.one_plus = as_row_counts("one_plus", self.one_plus, rows)
            check_rows(self.one_plus <= self.one, "one_plus must be at most one", self.one_plus, self.one)
        if (self.grad_sum is None) != (self.grad_sq is None):
            raise ValueError("grad_sum and grad_sq must be given together, got one of them. Give both or neither.")
        if self.grad_sum is not None:
            self.grad_sum = check_finite("grad_sum", as_float_array("grad_sum", self.grad_sum))
            if self.grad_sum.ndim != 2 or len(self.grad_sum) != rows:
                raise ValueError(f"grad_sum must have shape ({rows}, n_features), got {self.grad_sum.shape}.")
            self.grad_sq = check_finite("grad_sq", broadcast_to_rows("grad_sq", self.grad_sq, (rows,)))
            error = 0.0 if self.grad_error is None else self.grad_error
            self.grad_error = check_finite("grad_error", broadcast_to_rows("grad_error", error, (rows,)))
        if self.candidate is not None:
            self.candidate = as_row_counts("candidate", self.candidate, rows)

    @classmethod
    def empty(cls, n_rows: int, n_features: int | None = None, candidate: ArrayLike | None = None) -> PairTally:
        """Return a tally with no pairs yet; with `n_features`, gradient sums are kept too."""
        both, one, pairs, one_plus = np.zeros((4, n_rows), np.int64)
        sums = (None, None) if n_features is None else (np.zeros((n_rows, n_features)), np.zeros(n_rows))
        return cls(both, one, pairs, one_plus, sums[0], sums[1], candidate)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.pairs)

    def summary(self) -> dict[str, NDArray[Any]]:
        counts = {"both": self.both, "one": self.one, "pairs": self.pairs}
        if self.one_plus is not None:
            counts["one_plus"] = self.one_plus
        return counts if self.grad_sum is None else {**counts, "norm_sq": self.norm_sq}

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray]:
        hits = 2 * self.both + self.one
        return hits, 2 * self.pairs - hits, 2 * self.pairs

    def _merge_key(self, other: Any) -> dict[str, Any]:
        features = None if self.grad_sum is None else self.grad_sum.shape[1]
        same = {"features": features, "orientation counts": self.one_plus is not None, "candidate": self.candidate}
        return {**super()._merge_key(other), **same}

    @property
    def n_features(self) -> int:
        """Dimension of the noise; 0 without gradient sums."""
        return 0 if self.grad_sum is None else int(self.grad_sum.shape[1])

    @property
    def norm_sq(self) -> FloatArray:
        """Unbiased estimate of the squared gradient norm; inf with fewer than two pairs.

        Rounded up by what the roundings of the sums may have taken off.
        """
        if self.grad_sum is None or self.grad_sq is None or self.grad_error is None:
            raise ValueError(
                "The tally must hold gradient sums, got none. Give grad_sum and grad_sq, "
                "or make it with PairTally.empty(n_rows, n_features)."
            )
        return norm_sq_of(self.grad_sum, self.grad_sq, self.grad_error, self.pairs)

    @property
    def needs_noise(self) -> bool:
        return self.grad_sum is not None

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add pairs of votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int or bool, shape (n_rows, 2, n)
            Class index of the votes on ``x + noise`` and on ``x - noise``.
        """
        votes = np.asarray(votes)
        for row, of_row in enumerate(votes):
            plus, minus = of_row == (1 if self.candidate is None else self.candidate[row])
            both = int(np.count_nonzero(plus & minus))
            plus_hits = int(np.count_nonzero(plus))
            self.both[row] += both
            self.one[row] += plus_hits + int(np.count_nonzero(minus)) - 2 * both
            self.pairs[row] += plus.shape[0]
            if self.one_plus is not None:
                self.one_plus[row] += plus_hits - both
            if self.grad_sum is not None and self.grad_sq is not None and self.grad_error is not None:
                z = noise[row]
                mixed = np.flatnonzero(plus != minus)
                sign = np.where(plus[mixed], 0.5, -0.5)
                sums = gradient_sums(z[mixed], sign)
                self.grad_sum[row] += sums.total
                self.grad_sq[row] += sums.square
                self.grad_error[row] += sums.error
