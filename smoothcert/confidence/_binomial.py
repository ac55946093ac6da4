"""Exact one-sided confidence limits for a probability from a count (Clopper and Pearson 1934)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv, ndtri

from .._numerics import SAFETY, last_safe_point
from .._validation import FloatArray, apply_flat, broadcast, check_counts, check_level

_LARGE = 50_000
"""Trials from which the normal approximation below is close enough to save time. With fewer, its last step is more
often too long to be trusted, and the limit is computed twice. Time depends on it, validity does not."""

_STEP_MARGIN = 0.1
"""How far off the slope of that approximation may be, relatively, in its last and tiny step. As that step is below
3e-8 standard deviations, going a tenth of it further costs nothing."""


def binomial_lower(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return a lower confidence limit of a probability, which is above the truth with probability at most `alpha`.

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
    return apply_flat(_lower_of_distinct, *_checked(k, n, alpha))


def binomial_upper(k: ArrayLike, n: ArrayLike, alpha: ArrayLike) -> FloatArray:
    """Return an upper confidence limit of a probability, which is below the truth with probability at most `alpha`.

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
    upper: FloatArray = np.minimum(np.nextafter(1.0 - binomial_lower(n - k, n, alpha), 2.0), 1.0)[()]
    return upper


def _lower_of_distinct(k: FloatArray, n: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return lower limits, computing each distinct count once; many inputs share a count, most often ``k = n``."""
    if k.size < 2 or np.any(n != n[0]) or np.any(alpha != alpha[0]):
        return _lower(k, n, alpha)
    counts, place = np.unique(k, return_inverse=True)
    return _lower(counts, np.full_like(counts, n[0]), np.full_like(counts, alpha[0]))[place]


def _lower(k: FloatArray, n: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return the limit, computed as a distance from 0 or 1, whichever is nearer, for its precision; rounded down."""
    limit = np.zeros_like(k)
    alpha = alpha * (1.0 - _margin(n))
    many = 2.0 * k > n
    large = many & (n >= _LARGE)
    few = (k > 0.0) & ~many
    limit[few] = _beta_quantile(k[few], (n - k + 1.0)[few], alpha[few], upper=False) * (1.0 - SAFETY)
    distance = np.empty_like(k)
    distance[large] = _distance_of_large(k[large], n[large], alpha[large])
    many_small = many & ~large
    distance[many_small] = _beta_quantile((n - k + 1.0)[many_small], k[many_small], alpha[many_small], upper=True)
    limit[many] = 1.0 - distance[many] * (1.0 + SAFETY)
    return np.maximum(np.nextafter(limit, 0.0), 0.0)


def _margin(n: FloatArray) -> FloatArray:
    """Return the part of the level that is given up, so that the tail at the limit is at most `alpha` in truth and not
    just as computed.

    Half of it is for the beta distribution function. Its relative error was at most ``1e-15 (20 + sqrt(n))`` in 15,000
    tails of 1e-10 to 0.5 with up to 1e9 trials, against 30 digits. Half is for the inversion.
    """
    return 1e-12 + 2e-14 * np.sqrt(n)


def _distance_of_large(k: FloatArray, n: FloatArray, alpha: FloatArray) -> FloatArray:
    """Return one minus the lower limit, for large counts with many hits.

    Start from the normal approximation of Peizer and Pratt (1968) and take one step with the exact distribution, a
    little longer if it lowers the limit and a little shorter if it raises it. Steps that were not tiny are not trusted:
    there the beta distribution is inverted from scratch, which takes three times as long.
    """
    z = -ndtri(alpha)
    share, spread = (k - 0.5) / n, np.square(z) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        start = (share + spread / 2.0 - z * np.sqrt(share * (1.0 - share) / n + spread / (4.0 * n))) / (1.0 + spread)
        start_z, scale = _peizer_pratt(start, k, n)
        second = start - (z - start_z) / ((n + 1.0 / 3.0) * scale)
        second_z, _ = _peizer_pratt(second, k, n)
        slope = (second_z - start_z) / (second - start)
        third = second + (z - second_z) / slope
        miss = z + ndtri(betainc(k, n - k + 1.0, np.clip(third, 0.0, 1.0)))
        distance: FloatArray = (1.0 - third) - (miss + _STEP_MARGIN * np.abs(miss)) / slope
        trusted = (n - k > 30.0) & (np.abs(miss) < 3e-8) & np.isfinite(distance)
    rest = ~trusted
    distance[rest] = _beta_quantile((n - k + 1.0)[rest], k[rest], alpha[rest], upper=True)
    return distance


def _beta_quantile(a: FloatArray, b: FloatArray, alpha: FloatArray, upper: bool) -> FloatArray:
    """Return the point with mass `alpha` of the beta distribution below it, or above if `upper`, checked.

    The library's inversion is off by percents for some large parameters (a = 1000, b = 1e9 is one); where its result
    gives back more than `alpha`, or clearly less, the distribution function, which is right there, is inverted by
    bracketing.
    """
    tail, inverse = (betaincc, betainccinv) if upper else (betainc, betaincinv)
    x = np.asarray(inverse(a, b, alpha))
    excess = tail(a, b, x) / alpha - 1.0
    wrong = ~((excess > -1e-9) & (excess <= 0.5 * _margin(a + b)))
    if np.any(wrong):
        sign = -1.0 if upper else 1.0  # the margin must fall: towards smaller x for the upper tail
        zero = np.zeros(np.count_nonzero(wrong))

        def margin(t: FloatArray, a: FloatArray, b: FloatArray, alpha: FloatArray) -> FloatArray:
            left: FloatArray = alpha - tail(a, b, sign * t)
            return left

        ends = (zero - 1.0, zero) if upper else (zero, zero + 1.0)
        near = sign * x[wrong]
        guess = near - 1e-7 * np.abs(near), near + 1e-7 * np.abs(near)
        x[wrong] = sign * last_safe_point(margin, *ends, a[wrong], b[wrong], alpha[wrong], guess=guess)
    return x


def _peizer_pratt(p: FloatArray, k: FloatArray, n: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return approximately the normal quantile of the probability of fewer than `k` hits, and the scale in it."""
    hits, misses, q = k - 0.5, n - k + 0.5, 1.0 - p
    distance = hits + 1.0 / 6.0 - (n + 1.0 / 3.0) * p
    distance += 0.02 * (q / (hits + 0.5) - p / (misses + 0.5) + (q - 0.5) / (n + 1.0))
    bend = 1.0 + q * _peizer_pratt_bend(hits / (n * p)) + p * _peizer_pratt_bend(misses / (n * q))
    scale = np.sqrt(bend / ((n + 1.0 / 6.0) * p * q))
    return distance * scale, scale


def _peizer_pratt_bend(x: FloatArray) -> FloatArray:
    """Return ``(1 - x^2 + 2 x log x) / (1 - x)^2``, by its series near one."""
    gap = 1.0 - x
    near = np.abs(gap) < 1e-2
    series = gap * (1.0 / 3.0 + gap * (1.0 / 6.0 + gap * (1.0 / 10.0 + gap / 15.0)))
    return np.where(near, series, (1.0 - x * x + 2.0 * x * np.log(x)) / np.where(near, 1.0, gap * gap))


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
