"""Votes for a class and for its rivals along one direction, and sums of noise across it.

As in the tally for one class, the sums are kept apart for a few strata along the direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validation import FloatArray
from ._along import AlongDirection, n_strata_for, strata_of_bins
from ._base import IntArray, as_row_counts, broadcast_to_rows, check_finite, check_rows
from ._directional import DirectionalEvidence
from ._sum_errors import SQUARE_STEPS, square_of_length_up
from ._sums import class_sums

_NUMBERS_OF_A_ROW = 2**19
"""Sums of an input are kept within 4 MB: in very many dimensions fewer rivals are measured."""


def most_rivals(n_features: int) -> int:
    """Return how many rivals can be measured at once, at least one."""
    # Beside them there are the sums of the class and of all that are not measured.
    return max(1, _NUMBERS_OF_A_ROW // (n_strata_for(n_features) * n_features) - 2)


@dataclass(eq=False)
class RivalPlan(AlongDirection):
    """What a pilot decides before the estimation begins: which rivals are measured along which direction, and how.

    Attributes
    ----------
    edges : tuple of float
        Inner edges of the bins along the direction, in units of sigma.
    direction : ndarray of shape (n_rows, n_features)
        Unit vectors; zero where nothing is measured.
    rivals : ndarray of int, shape (n_rows, n_rivals)
        Class indices of the rivals that are measured; -1 where there are fewer. All other classes are compared by
        their votes alone.
    guesses : ndarray of shape (n_rows, n_rivals, 2, n_bins)
        Shares to expect, of the class and of the rival.
    multipliers : ndarray of shape (n_rows, n_rivals, n_cells, 2 * n_bins)
        For the class first, then for all but the rival.
    tilts : ndarray of shape (n_rows, n_rivals, n_cells, n_strata)
    slopes, across : ndarray of shape (n_rows, n_rivals, n_cells)
    borders : ndarray of shape (n_rows, n_rivals, n_cells - 1)
    made_for : ndarray of shape (n_rows, n_rivals)
        The cells of `smoothcert.bounds`' directional certificate, and the radius they were made for.
    centres : ndarray of shape (n_rows, n_rivals, n_strata)
        Of ``f = (1 + 1_A - 1_B) / 2``, for the limits of gradients.
    scales : ndarray of shape (n_rows, n_rivals, n_cells)
        Of the adaptive limits of gradients; zero where the limit is that for all classifiers.
    radius : ndarray of shape (n_rows,)
        The radius to expect.
    design : ndarray of shape (n_rows, n_strata)
        Share of the noise that is drawn in each stratum; zeros where it is drawn at random.
    """

    shared: ClassVar = ("edges",)
    per_row: ClassVar = (
        "direction",
        "rivals",
        "guesses",
        "multipliers",
        "tilts",
        "slopes",
        "across",
        "borders",
        "made_for",
        "centres",
        "scales",
        "radius",
        "design",
    )

    edges: tuple[float, ...]
    direction: FloatArray
    rivals: IntArray
    guesses: FloatArray
    multipliers: FloatArray
    tilts: FloatArray
    slopes: FloatArray
    across: FloatArray
    borders: FloatArray
    made_for: FloatArray
    centres: FloatArray
    scales: FloatArray
    radius: FloatArray
    design: FloatArray

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Whether any rival is measured, shape (n_rows,)."""
        some: NDArray[np.bool_] = np.any(self.rivals >= 0, axis=1)
        return some

    @classmethod
    def towards(cls, edges: ArrayLike, direction: ArrayLike, rivals: ArrayLike, n_cells: int = 1) -> RivalPlan:
        """Return a plan that says where to measure, not yet what for: its multipliers are zero."""
        direction = np.atleast_2d(np.asarray(direction, dtype=np.float64))
        rivals = np.asarray(rivals, dtype=np.int64).reshape(len(direction), -1)
        edges = tuple(float(edge) for edge in np.asarray(edges))
        shape, bins = rivals.shape, len(edges) + 1
        n_strata = int(strata_of_bins(edges, direction.shape[1])[-1]) + 1
        return cls(
            edges,
            direction,
            rivals,
            guesses=np.full((*shape, 2, bins), 0.5),
            multipliers=np.zeros((*shape, n_cells, 2 * bins)),
            tilts=np.ones((*shape, n_cells, n_strata)),
            slopes=np.zeros((*shape, n_cells)),
            across=np.zeros((*shape, n_cells)),
            borders=np.zeros((*shape, n_cells - 1)),
            made_for=np.zeros(shape),
            centres=np.full((*shape, n_strata), 0.5),
            scales=np.zeros((*shape, n_cells)),
            radius=np.zeros(len(direction)),
            design=np.zeros((len(direction), n_strata)),
        )

    _BY_RIVAL: ClassVar = (
        "rivals", "guesses", "multipliers", "tilts", "slopes", "across", "borders", "made_for", "centres", "scales",
    )  # fmt: skip

    def with_rivals(self, n_rivals: int) -> RivalPlan:
        """Return the same plan with room for another number of rivals, at least as many as it has."""
        fill = {"rivals": -1}
        changes: dict[str, Any] = {
            name: resize(getattr(self, name), n_rivals, fill.get(name, 0)) for name in self._BY_RIVAL
        }
        return replace(self, **changes)

    def trimmed(self) -> RivalPlan:
        """Return the same plan with no more room for rivals than it needs."""
        used = np.flatnonzero(np.any(self.rivals >= 0, axis=0))
        n_rivals = int(used[-1]) + 1 if len(used) else 0
        return self if n_rivals == self.rivals.shape[1] else self.with_rivals(n_rivals)

    @classmethod
    def concatenate(cls, parts: Sequence[RivalPlan]) -> RivalPlan:
        most = max((part.rivals.shape[1] for part in parts), default=0)
        return super().concatenate([part.with_rivals(most) for part in parts])


class LeadSums(NamedTuple):
    """Sums of vectors in strata: the products of the sums, the sums of squared lengths, rounded down, bounds of the
    lengths of the errors of the sums, and the number of roundings in a product.

    Estimates of squared lengths are rounded up by what roundings may have taken off.
    """

    products: FloatArray
    squares: FloatArray
    errors: FloatArray
    n_terms: int

    def norm_sq(self, weights: FloatArray) -> FloatArray:
        """Return ``|sum w X|^2 - sum w^2 |X|^2`` over all samples, for weights of shape (n_tried, n_strata)."""
        whole = np.sum((weights @ self.products) * weights, axis=-1)
        squares = np.sum(np.square(weights) * self.squares, axis=-1)
        # Terms of `whole` may cancel; their sizes sum up to the square of the sum of the lengths.
        sizes = 1.01 * np.square(weights @ np.sqrt(np.diagonal(self.products))) + squares
        estimate: FloatArray = square_of_length_up(whole, sizes, weights @ self.errors, self.n_terms) - squares
        return estimate

    @property
    def within(self) -> FloatArray:
        """``|sum X|^2 - sum |X|^2`` over the samples of each stratum."""
        return self.norm_sq(np.eye(len(self.squares)))

    def squares_up(self, trials: IntArray) -> FloatArray:
        """Return the sums of squared lengths, rounded up.

        Each update with samples in a stratum has rounded them down by at most one step and the errors of the sums,
        which are far below a millionth of them, or of a step for each sample.
        """
        return self.squares * (1.0 + 1e-6) + 1.1 * trials / SQUARE_STEPS


def resize(values: NDArray[Any], size: int, fill: float = 0) -> NDArray[Any]:
    """Return values with another length along the second axis."""
    if values.shape[1] >= size:
        return values[:, :size]
    missing = np.full((len(values), size - values.shape[1], *values.shape[2:]), fill, dtype=values.dtype)
    return np.concatenate([values, missing], axis=1)


@dataclass(eq=False)
class RivalTally(DirectionalEvidence):
    """Votes for every class; and for the class and some rivals the votes in bins along a direction, with the sums that
    estimate gradients across it.

    With noise `Z` and its part `Y` across the direction, the vectors summed for a class are the `Y` on which it got the
    vote.

    Parameters
    ----------
    counts : array-like of int, shape (n_rows, n_classes)
        Votes for each class.
    n : array-like of int, shape (n_rows,)
        Samples drawn.
    bin_hits : array-like of int, shape (n_rows, 1 + n_rivals, n_bins)
        Votes of samples whose component along the direction falls into each bin: for the candidate class, and for each
        rival of the plan.
    bin_trials : array-like of int, shape (n_rows, n_bins)
        Samples in each bin; zeros where nothing is measured.
    grad_sum : array-like of shape (n_rows, 2 + n_rivals, n_strata, n_features)
        Sum of the vectors in each stratum of the plan: for the candidate class, for all classes that are not measured
        together, and for each rival of the plan.
    grad_sq : array-like of shape (n_rows, 2 + n_rivals, n_strata)
        Sum of their squared lengths.
    plan : RivalPlan
    candidate : array-like of int, shape (n_rows,)
        Class to be certified.
    grad_error : array-like of shape (n_rows, 2 + n_rivals, n_strata), default=0
        Bounds of the lengths of the errors of `grad_sum`.

    Examples
    --------
    >>> import numpy as np
    >>> from smoothcert.tallies import RivalPlan, RivalTally
    >>> plan = RivalPlan.towards(edges=[-1.0, 0.0, 1.0], direction=[1.0, 0.0], rivals=[[1]])
    >>> tally = RivalTally.empty(plan, n_classes=3, candidate=[0])
    >>> noise = np.random.default_rng(0).standard_normal((1, 1000, 2))
    >>> tally.update(noise, np.digitize(noise[:, :, 0], [0.5, 1.5]))
    >>> tally.counts, tally.bin_hits
    (array([[681, 255,  64]]), array([[[178, 338, 165,   0],
            [  0,   0, 165,  90]]]))
    """

    per_row: ClassVar[tuple[str, ...]] = (
        "counts",
        "n",
        "bin_hits",
        "bin_trials",
        "grad_sum",
        "grad_sq",
        "plan",
        "candidate",
        "grad_error",
    )
    additive: ClassVar = ("counts", "n", "bin_hits", "bin_trials", "grad_sum", "grad_sq", "grad_error")
    squared: ClassVar = ("grad_sq",)
    fill: ClassVar = MappingProxyType({"rivals": -1})

    counts: IntArray
    n: IntArray
    bin_hits: IntArray
    bin_trials: IntArray
    grad_sum: FloatArray
    grad_sq: FloatArray
    plan: RivalPlan
    candidate: IntArray
    grad_error: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        rows, bins, measured = len(self.plan), len(self.plan.edges) + 1, 1 + self.plan.rivals.shape[1]
        self.n = as_row_counts("n", self.n, rows)
        self.candidate = as_row_counts("candidate", self.candidate, rows)
        strata, features = self.plan.n_strata, self.n_features
        shapes = {
            "counts": (rows, np.shape(self.counts)[-1]),
            "bin_hits": (rows, measured, bins),
            "bin_trials": (rows, bins),
            "grad_sum": (rows, 1 + measured, strata, features),
            "grad_sq": (rows, 1 + measured, strata),
        }
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != shape:
                raise ValueError(f"{name} must have shape {shape}, got {np.shape(getattr(self, name))}.")
        check_finite("grad_sum", self.grad_sum)
        check_finite("grad_sq", self.grad_sq)
        error = broadcast_to_rows("grad_error", self.grad_error, (rows, 1 + measured, strata))
        self.grad_error = check_finite("grad_error", error)
        if np.any(self.candidate >= self.counts.shape[1]) or np.any(self.plan.rivals >= self.counts.shape[1]):
            raise ValueError(
                f"candidate and rivals must be columns of counts, up to {self.counts.shape[1] - 1}, got larger ones."
            )
        totals = self.counts.sum(axis=1)
        check_rows(totals <= self.n, "counts must sum to at most n", totals, self.n)
        seen = self.bin_hits.sum(axis=1)
        within = np.all(self.bin_hits >= 0, axis=(1, 2)) & np.all(seen <= self.bin_trials, axis=1)
        check_rows(within, "bin_hits must sum to at most bin_trials", seen.sum(axis=1), self.bin_trials.sum(axis=1))

    @classmethod
    def empty(cls, plan: RivalPlan, n_classes: int, candidate: ArrayLike) -> RivalTally:
        """Return a tally with no samples yet."""
        plan = plan.trimmed()
        rows, bins, measured = len(plan), len(plan.edges) + 1, 1 + plan.rivals.shape[1]
        grad_sum = np.zeros((rows, 1 + measured, plan.n_strata, plan.direction.shape[1]))
        return cls(
            np.zeros((rows, n_classes), np.int64),
            np.zeros(rows, np.int64),
            np.zeros((rows, measured, bins), np.int64),
            np.zeros((rows, bins), np.int64),
            grad_sum,
            np.zeros(grad_sum.shape[:3]),
            plan,
            candidate,  # type: ignore[arg-type]
        )

    def __len__(self) -> int:
        return len(self.n)

    @classmethod
    def concatenate(cls, parts: Sequence[RivalTally]) -> RivalTally:
        most = max((part.plan.rivals.shape[1] for part in parts), default=0)
        resized = [
            replace(
                part,
                plan=part.plan.with_rivals(most),
                bin_hits=resize(part.bin_hits, 1 + most),
                **{name: resize(getattr(part, name), 2 + most) for name in ("grad_sum", "grad_sq", "grad_error")},
            )
            for part in parts
        ]
        return super().concatenate(resized)

    @property
    def hits(self) -> IntArray:
        """Votes for the candidate class."""
        return np.take_along_axis(self.counts, self.candidate[:, None], axis=1)[:, 0]

    def class_and_rival(self) -> tuple[IntArray, IntArray, IntArray]:
        own, listed, strongest = self.shares_at_random()
        rival = np.maximum(np.max(listed, axis=1, initial=0.0), strongest)
        hits, others = (np.rint(share * self.n).astype(np.int64) for share in (own, rival))
        return hits, np.minimum(others, self.n - hits), self.n

    def shares_at_random(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Estimate the shares of the class, of each rival of the plan (0 if there is none) and of the strongest other
        one, for noise that is drawn at random. For planning only.

        Of designed noise, each stratum counts as much as it would at random; then all others are taken together.
        """
        n, rivals = np.maximum(self.n, 1)[:, None], self.plan.rivals
        listed = np.where(rivals >= 0, np.take_along_axis(self.counts, np.maximum(rivals, 0), axis=1), 0) / n
        own, rest = self.hits / n[:, 0], self.counts.astype(np.float64)
        np.put_along_axis(rest, self.candidate[:, None], 0.0, axis=1)
        for row, of_row in enumerate(rivals):
            rest[row, of_row[of_row >= 0]] = 0.0
        strongest = np.maximum(rest.max(axis=1), self.n - self.counts.sum(axis=1)) / n[:, 0]
        for place in np.flatnonzero(self.plan.designed):
            shares = self.stratum_hits[place] / np.maximum(self.stratum_trials[place], 1)
            shares = np.sum(shares * self.plan.stratum_masses, axis=1)
            own[place], listed[place] = shares[0], shares[1:]
            # One after the other, so that room for more rivals does not change the last bit.
            strongest[place] = np.maximum(1.0 - np.cumsum(shares)[-1], 0.0)
        return own, listed, strongest

    def summary(self) -> dict[str, NDArray[Any]]:
        plan = self.plan
        return {
            "hits": self.hits,
            "n": self.n,
            "votes": self.counts,
            "share": self.shares_at_random()[0],
            "designed": plan.designed,
            "measured": plan.measured,
            "rivals": plan.rivals,
            "planned_radius": plan.radius,
            "direction": plan.direction,
            "bin_hits": self.bin_hits,
            "bin_trials": self.bin_trials,
            "bin_mass": np.tile(plan.bin_masses, (len(self), 1)),
        }

    def _merge_key(self, other: Any) -> dict[str, Any]:
        plan = self.plan
        same = {"edges": plan.edges, "direction": plan.direction, "rivals": plan.rivals, "design": plan.design}
        same |= {"multipliers": plan.multipliers, "candidate": self.candidate, "classes": self.counts.shape[1]}
        return {**super()._merge_key(other), **same}

    @property
    def n_features(self) -> int:
        """Dimension of the noise."""
        return int(self.plan.direction.shape[1])

    @property
    def stratum_trials(self) -> IntArray:
        """Samples in each stratum, shape (n_rows, n_strata)."""
        return np.add.reduceat(self.bin_trials, np.flatnonzero(np.diff(self.plan.strata, prepend=-1)), axis=1)

    @property
    def stratum_hits(self) -> IntArray:
        """Votes in each stratum for the class and for each rival of the plan, shape (n_rows, 1 + n_rivals,
        n_strata)."""
        return np.add.reduceat(self.bin_hits, np.flatnonzero(np.diff(self.plan.strata, prepend=-1)), axis=2)

    def lead_sums(self, row: int, rival: int, centres: FloatArray) -> LeadSums:
        """Return the sums in the strata of ``X = Y (f - centre)``, ``f = (1 + 1_A - 1_B) / 2``, over all samples of a
        row, for the given rival of the plan and centres of shape (n_strata,)."""
        factors = self._lead_factors(rival, centres)
        square = np.sum(np.square(factors) * self.grad_sq[row], axis=0)
        error = np.sum(np.abs(factors) * np.asarray(self.grad_error)[row], axis=0)
        products = self.lead_products(row, rival, centres)
        return LeadSums(products, square, error, self.n_features + 2 * self.plan.n_strata + 8)

    def lead_products(self, row: int, rival: int, centres: FloatArray) -> FloatArray:
        """Return the inner products of the sums of `lead_sums`, shape (n_strata, n_strata)."""
        total = np.sum(self._lead_factors(rival, centres)[..., None] * self.grad_sum[row], axis=0)
        products: FloatArray = total @ total.T
        return products

    def _lead_factors(self, rival: int, centres: FloatArray) -> FloatArray:
        """Return ``f - centre`` for the votes of each group, shape (2 + n_rivals, n_strata)."""
        votes = np.full(2 + self.plan.rivals.shape[1], 0.5)
        votes[0], votes[2 + rival] = 1.0, 0.0
        return votes[:, None] - centres

    def lead_counts(self, row: int, rival: int) -> IntArray:
        """Return how often ``f`` of `lead_sums` was 0, 1/2 and 1 in the strata, shape (n_strata, 3)."""
        own, other = self.stratum_hits[row, [0, 1 + rival]]
        return np.stack([other, self.stratum_trials[row] - own - other, own], axis=1)

    @property
    def needs_noise(self) -> bool:
        return bool(np.any(self.plan.measured))

    def update(self, noise: Any, votes: ArrayLike) -> None:
        """Add votes and the noise they were cast on.

        Parameters
        ----------
        noise : array-like, shape (n_rows, n, n_features)
        votes : array-like of int, shape (n_rows, n)
            Class index of each vote; numbers outside the classes are no vote.
        """
        n_classes = self.counts.shape[1]
        for row, of_row in enumerate(np.asarray(votes)):
            chosen = of_row.astype(np.intp, copy=False)
            if chosen.min(initial=0) < 0 or chosen.max(initial=0) >= n_classes:
                # One more class for those who voted for none.
                chosen = np.where((chosen >= 0) & (chosen < n_classes), chosen, n_classes)
            self.counts[row] += np.bincount(chosen, minlength=n_classes + 1)[:n_classes]
            self.n[row] += len(chosen)
            rivals = self.plan.rivals[row]
            if rivals.max(initial=-1) < 0:
                continue
            group = np.ones(n_classes + 1, dtype=np.intp)
            group[rivals] = np.arange(2, 2 + len(rivals))
            group[n_classes] = 1  # those who voted for none, as those who voted for classes that are not measured
            group[self.candidate[row]] = 0
            found = class_sums(
                noise[row], group[chosen], 2 + len(rivals), self.plan.direction[row], self.plan.edges, self.plan.strata
            )
            self.bin_hits[row, 0] += found.hits[0]
            self.bin_hits[row, 1:] += found.hits[2:]
            self.bin_trials[row] += found.trials
            self.grad_sum[row] += found.total
            self.grad_sq[row] += found.square
            self.grad_error[row] += found.error  # type: ignore[index]
