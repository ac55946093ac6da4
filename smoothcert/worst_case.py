"""Classifiers for which each certificate is exact.

A certificate is tight when some classifier with the known statistics changes its vote exactly at the certified
radius. This module has these classifiers. Their class is a union of a few intervals of one coordinate, the one along
the attack.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ._numerics import density, interval_mass
from ._validation import (
    BoolArray,
    FloatArray,
    IndexArray,
    as_float_array,
    check_grad_norm,
    check_probability,
    check_radius,
)
from .bounds._dipole import check_pair_probabilities
from .bounds._pair_dual import BOTH, FAR, NEAR, PairProblem, maximise_dual
from .bounds._second_order import worst_slab
from .bounds._second_order_dipole import second_order_dipole_radius


@dataclass(frozen=True)
class IntervalClassifier:
    """The class is a union of disjoint intervals of one coordinate, measured from the input in units of sigma.

    Attributes
    ----------
    intervals : tuple of (float, float)
        Ends of the intervals, in increasing order.

    Examples
    --------
    >>> from smoothcert.worst_case import second_order_worst_case
    >>> slab = second_order_worst_case(0.8, 0.1)
    >>> round(float(slab.probability(0.0)), 9)
    0.8
    >>> slab.predict([[0.0, 5.0], [3.0, 0.0]])
    array([1, 0])
    """

    intervals: tuple[tuple[float, float], ...]

    def contains(self, z: ArrayLike) -> BoolArray:
        """Return whether points of the line belong to the class."""
        z = as_float_array("z", z)
        inside = np.zeros(z.shape, dtype=bool)
        for low, high in self.intervals:
            inside |= (low <= z) & (z <= high)
        return inside

    def predict(self, X: ArrayLike, direction: ArrayLike | None = None) -> IndexArray:
        """Return votes (1 for the class, 0 for the rest) of the same classifier in any number of dimensions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Points, relative to the input and in units of sigma.
        direction : array-like of shape (n_features,), optional
            The line of attack; the first axis if not given.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = as_float_array("X", X)
        if X.ndim != 2:
            raise ValueError(f"X must have shape (n_samples, n_features), got {X.shape}. Reshape one point to (1, -1).")
        if direction is None:
            return self.contains(X[:, 0]).astype(np.intp)
        axis = as_float_array("direction", direction)
        length = float(np.linalg.norm(axis)) if axis.shape == (X.shape[1],) else np.nan
        if not (0.0 < length < np.inf):
            raise ValueError(
                f"direction must be a finite non-zero vector of shape ({X.shape[1]},), got {direction!r}. "
                "Give one number for each column of X."
            )
        return self.contains(X @ (axis / length)).astype(np.intp)

    def probability(self, r: ArrayLike) -> FloatArray:
        """Return the exact probability of the class under noise after a move by `r` along the line of attack."""
        r = as_float_array("r", r)
        total = np.zeros(r.shape)
        for low, high in self.intervals:
            total += interval_mass(high - r, np.full(r.shape, high - low))
        return total[()]

    @property
    def grad_norm(self) -> float:
        """Sigma times the norm of the gradient of the smoothed probability at the input."""
        ends = np.array(self.intervals, dtype=np.float64).reshape(-1, 2)
        return float(abs(np.sum(density(ends[:, 1]) - density(ends[:, 0]))))


def first_order_worst_case(p: float) -> IntervalClassifier:
    """Return the half-space of probability `p`: the worst case when only the probability is known.

    Parameters
    ----------
    p : float
        Probability of the class at the input.

    Returns
    -------
    IntervalClassifier
    """
    p = _scalar("p", check_probability("p", p))
    return _from_intervals([(-np.inf, float(ndtri(p)))])


def second_order_worst_case(p: float, grad_norm: float) -> IntervalClassifier:
    """Return the slab of probability `p` and gradient norm `grad_norm` (Theorem 1).

    Parameters
    ----------
    p : float
        Probability of the class at the input.
    grad_norm : float
        Sigma times the norm of its gradient; above the largest possible one it means a half-space.

    Returns
    -------
    IntervalClassifier
    """
    prob = check_probability("p", p).reshape(-1)
    norm = check_grad_norm("grad_norm", grad_norm).reshape(-1)
    _scalar("p", prob), _scalar("grad_norm", norm)
    slab = worst_slab(prob, 1.0 - prob, norm)
    return _from_intervals([(float(slab.lower[0]), float(slab.upper[0]))])


def dipole_worst_case(both: float, one_sided: float) -> IntervalClassifier:
    """Return the symmetric slab for pairs with two hits and a half-space for those with one (Theorem 3).

    Parameters
    ----------
    both, one_sided : float
        Pair probabilities as in `smoothcert.bounds.dipole_lower_bound`.

    Returns
    -------
    IntervalClassifier
    """
    both, one_sided = _pair(both, one_sided)
    half_width = -float(ndtri((1.0 - both) / 2.0))
    return _from_intervals([(-np.inf, float(ndtri(one_sided))), (-half_width, half_width)])


def second_order_dipole_worst_case(
    both: float, one_sided: float, grad_norm: float, r: float | None = None
) -> IntervalClassifier:
    """Return the worst case when pair probabilities and the gradient norm are known.

    Unlike the others it depends on how far the attack goes.

    Parameters
    ----------
    both, one_sided, grad_norm : float
        As in `smoothcert.bounds.second_order_dipole_lower_bound`.
    r : float, optional
        Distance of the attack in units of sigma; the certified radius if not given.

    Returns
    -------
    IntervalClassifier
    """
    both, one_sided = _pair(both, one_sided)
    norm = _scalar("grad_norm", check_grad_norm("grad_norm", grad_norm))
    r = float(second_order_dipole_radius(both, one_sided, norm)) if r is None else _scalar("r", check_radius("r", r))
    if norm >= float(density(np.asarray(ndtri(one_sided)))) or both == 0.0 or not 0.0 < r < np.inf:
        return dipole_worst_case(both, one_sided)
    _, dual = maximise_dual(PairProblem(*(np.array([a]) for a in (both, one_sided, norm, r))))
    intervals = []
    for low, high, taken in zip(dual.edges[0, :-1], dual.edges[0, 1:], dual.choice[0], strict=True):
        if taken in (FAR, BOTH):
            intervals.append((float(low), float(high)))
        if taken in (NEAR, BOTH):
            intervals.append((-float(high), -float(low)))
    return _from_intervals(intervals)


def _from_intervals(intervals: list[tuple[float, float]]) -> IntervalClassifier:
    """Sort, drop empty intervals, join touching ones."""
    joined: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if not low < high:
            continue
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return IntervalClassifier(tuple(joined))


def _pair(both: float, one_sided: float) -> tuple[float, float]:
    pair = {"both": both, "one_sided": one_sided}
    numbers = [np.asarray(_scalar(name, check_probability(name, value))) for name, value in pair.items()]
    checked = check_pair_probabilities(*numbers)
    return float(checked[0]), float(checked[1])


def _scalar(name: str, value: FloatArray) -> float:
    if value.size != 1:
        raise ValueError(f"{name} must be a single number, got an array of shape {value.shape}. Call once for each.")
    return float(value.reshape(-1)[0])
