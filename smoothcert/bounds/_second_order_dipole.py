"""Second-order dipole: how antithetic pairs vote and the gradient norm, together.

It contains both older certificates: without the gradient it is the dipole, without the pairs the second order. The
linear programme behind it is solved in `_pair_dual`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from .._numerics import density, round_down, round_up
from .._validation import (
    BoolArray,
    FloatArray,
    IndexArray,
    apply_flat,
    broadcast,
    check_grad_norm,
    check_probability,
    check_radius,
)
from ._dipole import (
    check_pair_probabilities,
    dipole_lower_bound,
    dipole_plane,
    dipole_radius,
    dipole_upper_bound,
    pair_excess,
)
from ._pair_dual import HORIZON, PairProblem, maximise_dual, pair_bound, pair_radius
from ._second_order import second_order_lower_bound, second_order_radius, second_order_upper_bound

_CHUNK = 2048
"""Rows solved together: enough to hide the interpreter, few enough to stay in the cache. Time depends on
it, validity does not."""

_NEGLIGIBLE = 1e-60
"""Probabilities and distances below this are left to the simpler bounds, which hold as well. Above it products and
squares do not underflow: a product of five such numbers is 1e-300, which is still a normal double."""


def second_order_dipole_lower_bound(
    both: ArrayLike, one_sided: ArrayLike, grad_norm: ArrayLike, r: ArrayLike
) -> FloatArray:
    """Return the smallest probability the class can have at distance `r`, knowing how pairs vote and the gradient norm.

    Parameters
    ----------
    both, one_sided : array-like
        Probabilities of pairs as in `dipole_lower_bound` (or lower limits of them).
    grad_norm : array-like
        Sigma times the norm of the gradient of the smoothed probability (or an upper limit of it), at least 0.
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        Never below `dipole_lower_bound` nor `second_order_lower_bound`; rounded down.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_dipole_lower_bound
    >>> second_order_dipole_lower_bound(0.7, 0.1, [0.05, 0.1, 0.2], 1.0).round(4)
    array([0.5698, 0.5323, 0.5049])
    """
    both, one_sided, grad_norm, r = _checked(both, one_sided, grad_norm, r=check_radius("r", r))
    return apply_flat(_lower_bound, both, one_sided, grad_norm, r)


def second_order_dipole_upper_bound(
    both: ArrayLike, one_sided: ArrayLike, grad_norm: ArrayLike, r: ArrayLike
) -> FloatArray:
    """Return the largest probability the class can have at distance `r`, knowing how pairs vote and the gradient norm.

    Parameters
    ----------
    both, one_sided, grad_norm : array-like
        As in `second_order_dipole_lower_bound`.
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        One minus the lower bound of the complement; rounded up.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_dipole_upper_bound
    >>> second_order_dipole_upper_bound(0.1, 0.1, [0.05, 0.1, 0.2], 1.0).round(4)
    array([0.4302, 0.4677, 0.4951])
    """
    both, one_sided, grad_norm, r = _checked(both, one_sided, grad_norm, r=check_radius("r", r))
    neither = np.clip((1.0 - both) - 2.0 * one_sided, 0.0, 1.0)
    below = second_order_dipole_lower_bound(neither, np.minimum(one_sided, (1.0 - neither) / 2.0), grad_norm, r)
    bound = np.minimum(round_up(1.0 - below), dipole_upper_bound(both, one_sided, r))
    return np.minimum(bound, second_order_upper_bound(np.minimum(both + one_sided, 1.0), grad_norm, r))


def second_order_dipole_radius(both: ArrayLike, one_sided: ArrayLike, grad_norm: ArrayLike) -> FloatArray:
    """Return the distance within which the class keeps more than half of the vote, in units of sigma.

    Parameters
    ----------
    both, one_sided : array-like
        Probabilities of pairs as in `dipole_lower_bound` (or lower limits of them).
    grad_norm : array-like
        Sigma times the norm of the gradient of the smoothed probability (or an upper limit of it).

    Returns
    -------
    ndarray
        Where `second_order_dipole_lower_bound` meets 1/2; 0 for ``both + one_sided <= 1/2``, inf for ``both = 1``.
        Rounded down.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_dipole_radius
    >>> second_order_dipole_radius(0.7, 0.1, [0.05, 0.1, 0.2]).round(4)
    array([1.1869, 1.0847, 1.013 ])
    """
    both, one_sided, grad_norm = _checked(both, one_sided, grad_norm)
    return apply_flat(_radius, both, one_sided, grad_norm)


def _lower_bound(both: FloatArray, one_sided: FloatArray, grad_norm: FloatArray, r: FloatArray) -> FloatArray:
    p = _total(both, one_sided)
    bound = np.maximum(dipole_lower_bound(both, one_sided, r), second_order_lower_bound(p, grad_norm, r))
    for rows in _chunks((r > _NEGLIGIBLE) & (r < HORIZON) & _gradient_matters(both, one_sided, grad_norm)):
        problem = PairProblem(both[rows], one_sided[rows], grad_norm[rows], r[rows])
        _, dual = maximise_dual(problem)
        # The terms of the sum are of order one, so their rounding is absolute.
        value = round_down(np.maximum(pair_bound(problem, dual, p[rows]) - 1e-13, 0.0))
        bound[rows] = np.maximum(bound[rows], value)
    return bound


def _radius(both: FloatArray, one_sided: FloatArray, grad_norm: FloatArray) -> FloatArray:
    radius = np.maximum(dipole_radius(both, one_sided), second_order_radius(_total(both, one_sided), grad_norm))
    excess = pair_excess(both, one_sided)
    for rows in _chunks((radius > _NEGLIGIBLE) & (radius < np.inf) & _gradient_matters(both, one_sided, grad_norm)):
        radius[rows] = pair_radius(both[rows], one_sided[rows], grad_norm[rows], excess[rows], radius[rows])
    return radius


def second_order_dipole_plane(
    both: FloatArray, one_sided: FloatArray, grad_norm: FloatArray, r: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a plane below the lower bound at distance `r`, as a function of the two probabilities.

    At fixed multipliers the dual is linear in the probabilities and valid for all of them. With the best multipliers
    for the given ones it touches the bound there. The result is its excess over 1/2, rounded down, and its slopes in
    `both` and `one_sided`, all of at least 0; or the tangent plane of the dipole bound, where that is higher.
    """
    excess, slope_both, slope_one = dipole_plane(both, one_sided, r)
    for rows in _chunks((r > _NEGLIGIBLE) & (r < HORIZON) & _gradient_matters(both, one_sided, grad_norm)):
        problem = PairProblem(both[rows], one_sided[rows], grad_norm[rows], r[rows])
        theta, dual = maximise_dual(problem)
        value = pair_bound(problem, dual, pair_excess(problem.both, problem.one_sided)) - 1e-13
        slopes = 1.0 + np.square(problem.r)[:, None] * theta[:, :2]
        # A negative slope can only be a failure of the optimiser: the best bound falls in neither probability.
        higher = (value > excess[rows]) & np.all(slopes >= 0.0, axis=1)
        excess[rows] = np.where(higher, value, excess[rows])
        slope_both[rows] = np.where(higher, slopes[:, 0], slope_both[rows])
        slope_one[rows] = np.where(higher, slopes[:, 1], slope_one[rows])
    return excess, slope_both, slope_one


def _checked(both: ArrayLike, one_sided: ArrayLike, grad_norm: ArrayLike, **rest: FloatArray) -> tuple[FloatArray, ...]:
    both, one_sided, *others = broadcast(
        both=check_probability("both", both),
        one_sided=check_probability("one_sided", one_sided),
        grad_norm=check_grad_norm("grad_norm", grad_norm),
        **rest,
    )
    return *check_pair_probabilities(both, one_sided), *others


def _total(both: FloatArray, one_sided: FloatArray) -> FloatArray:
    """Return the probability of the class, rounded down."""
    total = both + one_sided
    return np.where(one_sided == 0.0, both, np.nextafter(np.minimum(total, 1.0), 0.0))


def _gradient_matters(both: FloatArray, one_sided: FloatArray, grad_norm: FloatArray) -> BoolArray:
    """Return where the gradient is below what the one-sided part can have, that of a half-space of its mass."""
    return (np.minimum(one_sided, both) > _NEGLIGIBLE) & (grad_norm < density(ndtri(one_sided)) * (1.0 - 1e-12))


def _chunks(todo: BoolArray) -> Iterator[IndexArray]:
    (where,) = todo.nonzero()
    for start in range(0, where.size, _CHUNK):
        yield where[start : start + _CHUNK]
