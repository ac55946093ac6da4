"""Hits along one direction, and sums of noise across it.

The sums are kept apart for a few strata along the direction, each some bins wide, so that they can be weighted later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray
from ._along import AlongDirection, strata_of_bins
from ._base import IntArray, Tally, as_row_counts, broadcast_to_rows, check_finite, check_rows
from ._design import Design
from ._sum_errors import square_of_length_up
from ._sums import directional_sums


class DirectionalEvidence(Tally):
    """Base class of the tallies of the directional certificate: against one half, `DirectionalTally`; against rivals,
    `RivalTally`."""

    plan: Any

    @property
    def design(self) -> Design | None:
        found: Design | None = self.plan.design_of_only_row()
        return found


@dataclass(eq=False)
class DirectionalPlan(AlongDirection):
    """What a pilot decides before the estimation begins.

    Attributes
    ----------
    edges : tuple of float
        Inner edges of the bins along the direction, in units of sigma.
    direction : ndarray of shape (n_rows, n_features)
        Unit vectors.
    measured : ndarray of bool, shape (n_rows,)
        Whether the class is measured along the direction; where it is not, only votes are counted.
    guesses : ndarray of shape (n_rows, n_bins)
        Shares of hits to expect.
    multipliers : ndarray of shape (n_rows, n_cells, n_bins)
    tilts : ndarray of shape (n_rows, n_cells, n_strata)
    slopes, across : ndarray of shape (n_rows, n_cells)
    borders : ndarray of shape (n_rows, n_cells - 1)
    radius : ndarray of shape (n_rows,)
        The cells of `smoothcert.bounds`' directional certificate, and the radius they were made for.
    design : ndarray of shape (n_rows, n_strata)
        Share of the noise that is drawn in each stratum; zeros where it is drawn at random.
    """

    shared: ClassVar = ("edges",)
    per_row: ClassVar = (
        "direction",
        "measured",
        "guesses",
        "multipliers",
        "tilts",
        "slopes",
        "across",
        "borders",
        "radius",
        "design",
    )

    edges: tuple[float, ...]
    direction: FloatArray
    measured: NDArray[np.bool_]
    guesses: FloatArray
    multipliers: FloatArray
    tilts: FloatArray
    slopes: FloatArray
    across: FloatArray
    borders: FloatArray
    radius: FloatArray
    design: FloatArray

    def __len__(self) -> int:
        return len(self.measured)

    @classmethod
    def towards(
        cls, edges: ArrayLike, direction: ArrayLike, measured: ArrayLike = True, n_cells: int = 1
    ) -> DirectionalPlan:
        """Return a plan that says where to measure, not yet what for: its multipliers are zero."""
        direction = np.atleast_2d(np.asarray(direction, dtype=np.float64))
        edges = tuple(float(edge) for edge in np.asarray(edges))
        rows, bins = len(direction), len(edges) + 1
        measured = np.array(np.broadcast_to(measured, (rows,)), dtype=bool)
        n_strata = int(strata_of_bins(edges, direction.shape[1])[-1]) + 1
        empty = np.zeros((rows, n_cells))
        return cls(
            edges,
            direction,
            measured,
            guesses=np.full((rows, bins), 0.5),
            multipliers=np.zeros((rows, n_cells, bins)),
            tilts=np.ones((rows, n_cells, n_strata)),
            slopes=empty,
            across=empty,
            borders=empty[:, 1:],
            radius=np.zeros(rows),
            design=np.zeros((rows, n_strata)),
        )


@dataclass(eq=False)
class DirectionalTally(DirectionalEvidence):
    """Hits in bins along a direction, and the sums that estimate the gradient across it.

    With noise `Z`, its part `Y` across the direction and hits `f`, the vectors summed are ``Y (f - 1/2)``.

    Parameters
    ----------
    hits, n : array-like of int, shape (n_rows,)
        Votes for the candidate class, and samples drawn.
    bin_hits, bin_trials : array-like of int, shape (n_rows, n_bins)
        The same for samples whose component along the direction falls into each bin; zeros where nothing is measured.
    grad_sum : array-like of shape (n_rows, n_strata, n_features)
        Sum of the vectors in each stratum of the plan.
    grad_sq : array-like of shape (n_rows, n_strata)
        Sum of their squared lengths.
    plan : DirectionalPlan
    candidate : array-like of int, shape (n_rows,), optional
        Class index that counts as a hit in `update`; 1 (or ``True``) if not given.
    grad_error : array-like, shape of `grad_sq`, default=0
        Bounds of the lengths of the rounding errors in `grad_sum`; `update` keeps them.

    Examples
    --------
    >>> import numpy as np
    >>> from smoothcert.tallies import DirectionalPlan, DirectionalTally
    >>> plan = DirectionalPlan.towards(edges=[-1.0, 0.0, 1.0], direction=[1.0, 0.0])
    >>> tally = DirectionalTally.empty(plan)
    >>> noise = np.random.default_rng(0).standard_normal((1, 1000, 2))
    >>> tally.update(noise, noise[:, :, 0] < 0.5)
    >>> tally.bin_hits, tally.bin_trials
    (array([[178, 338, 165,   0]]), array([[178, 338, 330, 154]]))
    """

    per_row: ClassVar[tuple[str, ...]] = (
        "hits",
        "n",
        "bin_hits",
        "bin_trials",
        "grad_sum",
        "grad_sq",
        "plan",
        "candidate",
        "grad_error",
    )
    additive: ClassVar = ("hits", "n", "bin_hits", "bin_trials", "grad_sum", "grad_sq", "grad_error")
    squared: ClassVar = ("grad_sq",)

    hits: IntArray
    n: IntArray
    bin_hits: IntArray
    bin_trials: IntArray
    grad_sum: FloatArray
    grad_sq: FloatArray
    plan: DirectionalPlan
    candidate: IntArray | None = None
    grad_error: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        rows, bins = len(self.plan), len(self.plan.edges) + 1
        self.hits = as_row_counts("hits", self.hits, rows)
        self.n = as_row_counts("n", self.n, rows)
        check_rows(self.hits <= self.n, "hits must be at most n", self.hits, self.n)
        for name in ("bin_hits", "bin_trials"):
            if np.shape(getattr(self, name)) != (rows, bins):
                raise ValueError(f"{name} must have shape {(rows, bins)}, got {np.shape(getattr(self, name))}.")
        within = np.all((self.bin_hits >= 0) & (self.bin_hits <= self.bin_trials), axis=1)
        totals = self.bin_hits.sum(axis=1), self.bin_trials.sum(axis=1)
        check_rows(within, "bin_hits must be at most bin_trials", *totals)
        strata = self.plan.n_strata
        for name, shape in (("grad_sum", (rows, strata, self.n_features)), ("grad_sq", (rows, strata))):
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} must have shape {shape}, got {np.shape(getattr(self, name))}.")
            check_finite(name, getattr(self, name))
        self.grad_error = check_finite("grad_error", broadcast_to_rows("grad_error", self.grad_error, (rows, strata)))
        if self.candidate is not None:
            self.candidate = as_row_counts("candidate", self.candidate, rows)

    @classmethod
    def empty(cls, plan: DirectionalPlan, candidate: ArrayLike | None = None) -> DirectionalTally:
        """Return a tally with no samples yet."""
        rows, bins = len(plan), len(plan.edges) + 1
        hits, n = np.zeros((2, rows), np.int64)
        bin_hits, bin_trials = np.zeros((2, rows, bins), np.int64)
        grad_sum = np.zeros((rows, plan.n_strata, plan.direction.shape[1]))
        return cls(hits, n, bin_hits, bin_trials, grad_sum, grad_sum[:, :, 0].copy(), plan, candidate)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.n)

    def summary(self) -> dict[str, NDArray[Any]]:
        plan = self.plan
        return {
            "hits": self.hits,
            "n": self.n,
            "measured": plan.measured,
            "planned_radius": plan.radius,
            "direction": plan.direction,
            "bin_hits": self.bin_hits,
            "bin_trials": self.bin_trials,
        }

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.hits, self.n - self.hits, self.n

    def _merge_key(self, other: Any) -> dict[str, Any]:
        plan = self.plan
        same = {"edges": plan.edges, "direction": plan.direction, "multipliers": plan.multipliers}
        return {**super()._merge_key(other), **same, "design": plan.design, "candidate": self.candidate}

    @property
    def n_features(self) -> int:
        """Dimension of the noise."""
        return int(self.plan.direction.shape[1])

    @property
    def stratum_trials(self) -> IntArray:
        """Samples in each stratum, shape (n_rows, n_strata)."""
        return np.add.reduceat(self.bin_trials, np.flatnonzero(np.diff(self.plan.strata, prepend=-1)), axis=1)

    def grad_products(self) -> FloatArray:
        """Return the inner products of the sums of all strata, shape (n_rows, n_strata, n_strata)."""
        products: FloatArray = self.grad_sum @ self.grad_sum.swapaxes(1, 2)
        return products

    def norm_sq(self, weights: FloatArray) -> FloatArray:
        """Return ``|sum w X|^2 - sum w^2 |X|^2`` over all samples, for weights of shape (n_rows, n_tried, n_strata).

        Rounded up by what the roundings of the sums may have taken off.
        """
        products = self.grad_products()
        whole = np.sum((weights @ products) * weights, axis=-1)
        squares = np.sum(np.square(weights) * self.grad_sq[:, None], axis=-1)
        # Terms of `whole` may cancel; their sizes sum up to the square of the sum of the lengths.
        lengths = np.sqrt(np.diagonal(products, axis1=1, axis2=2))[:, None]
        sizes = 1.01 * np.square(np.sum(weights * lengths, axis=-1)) + squares
        error = np.sum(weights * np.asarray(self.grad_error)[:, None], axis=-1)
        n_terms = self.n_features + 2 * self.plan.n_strata + 8
        estimate: FloatArray = square_of_length_up(whole, sizes, error, n_terms) - squares
        return estimate

    @property
    def needs_noise(self) -> bool:
        return bool(np.any(self.plan.measured))

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int or bool, shape (n_rows, n)
            Class index of each vote.
        """
        edges, strata = self.plan.edges, self.plan.strata
        for row, of_row in enumerate(np.asarray(votes)):
            hit = of_row == (1 if self.candidate is None else self.candidate[row])
            self.hits[row] += np.count_nonzero(hit)
            self.n[row] += len(hit)
            if not self.plan.measured[row]:
                continue
            found = directional_sums(noise[row], hit, self.plan.direction[row], edges, strata)
            self.bin_hits[row] += found.hits
            self.bin_trials[row] += found.trials
            self.grad_sum[row] += found.total
            self.grad_sq[row] += found.square
            np.asarray(self.grad_error)[row] += found.error
