"""First order: what the probability at `x` alone says about its surroundings (Cohen et al. 2019)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import probit_difference, round_down, round_up
from .._validation import FloatArray, broadcast, check_probability, check_radius


def first_order_lower_bound(p: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the smallest probability the class can have at distance `r`, knowing its probability `p` at the input.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input, in [0, 1].
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        ``Phi(Phi^-1(p) - r)``, rounded down.

    References
    ----------
    Cohen, Rosenfeld, Kolter: Certified adversarial robustness via randomized smoothing, 2019.

    Examples
    --------
    >>> from smoothcert.bounds import first_order_lower_bound
    >>> first_order_lower_bound(0.9, [0.0, 1.0, 2.0]).round(4)
    array([0.9   , 0.6109, 0.2362])
    """
    p, r = broadcast(p=check_probability("p", p), r=check_radius("r", r))
    return round_down(ndtr(ndtri(p) - r))[()]


def first_order_upper_bound(p: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the largest probability the class can have at distance `r`, knowing its probability `p` at the input.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input, in [0, 1].
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        ``Phi(Phi^-1(p) + r)``, rounded up.

    Examples
    --------
    >>> from smoothcert.bounds import first_order_upper_bound
    >>> first_order_upper_bound(0.1, [0.0, 1.0, 2.0]).round(4)
    array([0.1   , 0.3891, 0.7638])
    """
    p, r = broadcast(p=check_probability("p", p), r=check_radius("r", r))
    return np.minimum(round_up(ndtr(ndtri(p) + r)), 1.0)[()]


def first_order_radius(p: ArrayLike, p_rival: ArrayLike | None = None) -> FloatArray:
    """Return the distance within which the class keeps the vote, in units of sigma.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input (or a lower limit of it).
    p_rival : array-like, optional
        Probability of the strongest other class (or an upper limit of it). Without it, the class is asked to keep
        more than half of the vote. With it, inputs with ``p < 1/2`` can be certified too.

    Returns
    -------
    ndarray
        ``Phi^-1(p)``, or ``(Phi^-1(p) - Phi^-1(p_rival)) / 2``; 0 where nothing is certified, inf at ``p = 1``. Rounded
        down.

    Examples
    --------
    >>> from smoothcert.bounds import first_order_radius
    >>> first_order_radius([0.4, 0.9, 0.99]).round(4)
    array([0.    , 1.2816, 2.3263])
    >>> float(first_order_radius(0.4, 0.2).round(4))
    0.2941
    """
    p = check_probability("p", p)
    if p_rival is None:
        return round_down(np.maximum(ndtri(p), 0.0))[()]
    p, p_rival = broadcast(p=p, p_rival=check_probability("p_rival", p_rival))
    # A rival cannot have more than what the class leaves, whatever its own limit says.
    rival = np.minimum(p_rival, 1.0 - p)
    ahead = p > rival
    radius = 0.5 * probit_difference(np.where(ahead, p, 0.5), np.where(ahead, rival, 0.5))
    return round_down(radius)[()]
