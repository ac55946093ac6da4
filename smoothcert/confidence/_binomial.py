"""Exact one-sided confidence limits for a probability from a count (Clopper and Pearson 1934)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainccinv, betaincinv

from .._numerics import SAFETY
from .._validation import FloatArray, apply_flat, broadcast, check_counts, check_level


def binomial_lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Lower confidence limit of a probability: it is below the truth except with probability `alpha`.

    Parameters
    ----------
    k : array-like of int
        Hits.
    n : array-like of int
        Trials, at least 1.
    alpha : array-like
        Error probability of this one limit, in (0, 1).

    Returns
    -------
    ndarray
        The probability at which `k` or more hits have probability `alpha`, rounded down; 0 at ``k = 0``.

    Examples
    --------
    >>> from smoothcert.confidence import binomial_lower
    >>> binomial_lower([0, 90, 100], 100, 0.001).round(4)
    array([0.    , 0.7753, 0.9333])
    """
    return apply_flat(_lower, *_checked(k, n, alpha))


def binomial_upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Upper confidence limit of a probability: it is above the truth except with probability `alpha`.

    Parameters
    ----------
    k : array-like of int
        Hits.
    n : array-like of int
        Trials, at least 1.
    alpha : array-like
        Error probability of this one limit, in (0, 1).

    Returns
    -------
    ndarray
        The probability at which `k` or fewer hits have probability `alpha`, rounded up; 1 at ``k = n``.

    Examples
    --------
    >>> from smoothcert.confidence import binomial_upper
    >>> binomial_upper([0, 10, 100], 100, 0.001).round(4)
    array([0.0667, 0.2247, 1.    ])
    """
    k, n, alpha = _checked(k, n, alpha)
    return np.minimum(np.nextafter(1.0 - binomial_lower(n - k, n, alpha), 2.0), 1.0)[()]


def _lower(k: FloatArray, n: FloatArray, alpha: FloatArray) -> FloatArray:
    """The limit through its distance from the nearer end, which keeps its relative precision and is moved outwards."""
    limit = np.zeros_like(k)
    many = 2.0 * k > n
    few = (k > 0.0) & ~many
    limit[few] = betaincinv(k[few], (n - k + 1.0)[few], alpha[few]) * (1.0 - SAFETY)
    limit[many] = 1.0 - betainccinv((n - k + 1.0)[many], k[many], alpha[many]) * (1.0 + SAFETY)
    return np.maximum(np.nextafter(limit, 0.0), 0.0)


def _checked(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> tuple[FloatArray, ...]:
    n = check_counts("n", n, least=1)
    k, n, alpha = broadcast(k=check_counts("k", k), n=n, alpha=check_level("alpha", alpha))
    if np.any(k > n):
        at = int(np.argmax(k > n))
        raise ValueError(
            f"k must be at most n, got k={int(k.ravel()[at])} and n={int(n.ravel()[at])}. "
            "k counts hits among n trials; check that both come from the same samples."
        )
    return k, n, alpha
