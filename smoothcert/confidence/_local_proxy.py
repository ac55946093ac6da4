"""Variance proxies of ``Z (f - centre)`` that know how often `f` is far from the centre, for bounded exponents.

The proxy 0.403 of `gradient_norm_upper` covers every vote and every exponent. Where nearly all votes agree, and the
exponents are small, much less is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import LARGEST_GRADIENT, density, round_up
from .._validation import FloatArray, check_counts, check_interval, check_level, check_probability
from ._binomial import binomial_upper
from ._gradient import VARIANCE_PROXY

_LARGEST_EXPONENT = 20.0
"""Beyond it the local proxy is far above the global one and is not computed."""

_SERIES_BELOW, _SERIES_TOP = 0.5, 4.0
"""Bounds of `s` and of `s t` below which the tail integral is summed as a series: its closed form is a small difference
there."""

_N_TERMS = 44
"""Terms of that series; within these bounds the rest is below 1e-20 of the sum."""


def variance_proxy(
    shares: ArrayLike, exponent: ArrayLike, centre: ArrayLike, values: Sequence[float] = (0.0, 1.0)
) -> FloatArray:
    """Return a variance proxy of ``Z (f - centre)`` for exponents of bounded length.

    For every vector `b` that is at most `exponent` long, ``log E exp(b . (X - E X)) <= proxy |b|^2 / 2``.

    Parameters
    ----------
    shares : array-like of shape (..., n_values)
        Upper limits of the probabilities that `f` is as far from the centre as each of the values, or farther. Those
        of the value that is nearest to the centre are taken to be 1, whatever is given.
    exponent : array-like of shape (...)
        At least 0.
    centre : array-like of shape (...)
        In [0, 1].
    values : sequence of float
        All values of `f`: two for the votes of a class, three, ``(0, 0.5, 1)``, for the lead of a class over a rival,
        ``(1 + 1_A - 1_B) / 2``.

    Returns
    -------
    ndarray of shape (...)
        Rounded up; never more than what holds for all exponents and all `f`.

    See Also
    --------
    share_limits : Limits of these shares from counts.

    Notes
    -----
    With ``h(x) = exp(x) - 1 - x``, the logarithm is at most ``E h(|b| |z| |f - centre|)`` for a standard normal `z`.
    This is largest if `f` is farthest from the centre where ``|z|`` is largest, so the worst case has a shell of
    ``|z|`` for each value, and the integral over a shell has a closed form.

    Examples
    --------
    >>> from smoothcert.confidence import variance_proxy
    >>> variance_proxy([[0.5, 1.0], [0.03, 1.0], [0.001, 1.0]], 0.05, [0.5, 0.97, 0.999]).round(4)
    array([0.2534, 0.1916, 0.0135])
    """
    levels = check_values(values)
    centre = check_probability("centre", centre)
    exponent = check_interval("exponent", exponent, lower=0.0)
    shares = check_probability("shares", shares)
    if shares.ndim < 1 or shares.shape[-1] != len(levels):
        raise ValueError(f"shares must have one entry for each of the {len(levels)} values, got shape {shares.shape}.")
    shape = np.broadcast_shapes(shares.shape[:-1], exponent.shape, centre.shape)
    shares = np.broadcast_to(shares, (*shape, len(levels)))
    far, limits = by_distance(shares, np.broadcast_to(centre, shape), levels)
    return round_up(local_proxy(limits, np.broadcast_to(exponent, shape), far, np.broadcast_to(centre, shape)))[()]


def share_limits(
    counts: ArrayLike, centre: ArrayLike, alpha: ArrayLike, values: Sequence[float] = (0.0, 1.0)
) -> FloatArray:
    """Return upper limits of the probabilities that `f` is as far from the centre as each of its values, or farther.

    Parameters
    ----------
    counts : array-like of int, shape (..., n_values)
        How often `f` had each value.
    centre : array-like of shape (...)
        Fixed before the votes were seen.
    alpha : array-like of shape (...)
        Error probability of all these limits together, for one row of counts.
    values : sequence of float
        All values of `f`.

    Returns
    -------
    ndarray of shape (..., n_values)
        Those of Clopper and Pearson; 1 for the value nearest to the centre, and where there are no samples.

    Examples
    --------
    >>> from smoothcert.confidence import share_limits
    >>> share_limits([30, 970], 0.97, 0.001).round(4)
    array([0.0505, 1.    ])
    """
    levels = check_values(values)
    counts = check_counts("counts", counts)
    centre = check_probability("centre", centre)
    alpha = check_level("alpha", alpha)
    if counts.ndim < 1 or counts.shape[-1] != len(levels):
        raise ValueError(f"counts must have one entry for each of the {len(levels)} values, got shape {counts.shape}.")
    shape = np.broadcast_shapes(counts.shape[:-1], centre.shape, alpha.shape)
    counts = np.broadcast_to(counts, (*shape, len(levels)))
    order = _order(np.broadcast_to(centre, shape), levels)
    total = counts.sum(axis=-1, keepdims=True)
    sums = np.cumsum(np.take_along_axis(counts, order, axis=-1), axis=-1)
    level = np.broadcast_to(alpha, shape)[..., None] / max(len(levels) - 1, 1)
    limits = np.where(total > 0, binomial_upper(np.where(total > 0, sums, 0), np.maximum(total, 1), level), 1.0)
    limits[..., -1] = 1.0
    ordered = np.empty(limits.shape)
    np.put_along_axis(ordered, order, limits, axis=-1)
    return ordered


def check_values(values: Sequence[float]) -> FloatArray:
    """Require at least two different values in [0, 1]."""
    levels = check_interval("values", values, lower=0.0, upper=1.0)
    if levels.ndim != 1 or len(np.unique(levels)) != len(levels) or len(levels) < 2:
        raise ValueError(f"values must be at least two different numbers in [0, 1], got {values!r}.")
    return levels


def by_distance(shares: FloatArray, centre: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the distances of the values from the centre, largest first, and the limits of the shares in that order.

    Limits that fall are raised: to be as far away or farther is the more likely the nearer the value.
    """
    order = _order(centre, values)
    far = np.take_along_axis(np.abs(values - centre[..., None]), order, axis=-1)
    limits = np.maximum.accumulate(np.take_along_axis(shares, order, axis=-1), axis=-1)
    limits[..., -1] = 1.0
    return far, limits


def local_proxy(limits: FloatArray, exponent: FloatArray, far: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the proxy from distances in falling order and limits of the shares of each or more; not rounded."""
    used = np.minimum(exponent, _LARGEST_EXPONENT)[..., None]
    whole = np.square(far) * tail_moment(limits, used * far)
    # What a value adds over the next one, in the tails it may have.
    less = np.square(far[..., 1:]) * tail_moment(limits[..., :-1], used * far[..., 1:])
    local = np.sum(whole, axis=-1) - np.sum(less, axis=-1)
    return np.minimum(np.where(exponent > _LARGEST_EXPONENT, np.inf, local), global_proxy(centre))


def global_proxy(centre: FloatArray) -> FloatArray:
    """Return a proxy for all exponents and all `f`: square roots of proxies add up, here those of ``Z (f - 1/2)`` and
    of ``Z (1/2 - centre)``."""
    proxy: FloatArray = np.square(np.sqrt(VARIANCE_PROXY) + np.abs(centre - 0.5))
    return proxy


def mean_limit(limits: FloatArray, centre: FloatArray, values: FloatArray) -> FloatArray:
    """Return the largest length of the mean of ``Z f``, from limits as those of `by_distance`.

    It is the mean of ``Z (f - v)`` for the value `v` nearest to the centre.
    """
    order = _order(centre, values)
    ordered = values[order]
    gaps = np.abs(ordered - ordered[..., -1:])
    gaps = np.maximum.accumulate(gaps[..., ::-1], axis=-1)[..., ::-1]
    steps = gaps[..., :-1] - gaps[..., 1:]
    longest = np.sum(steps * 2.0 * density(-ndtri(0.5 * limits[..., :-1])), axis=-1)
    return np.minimum(round_up(longest), round_up(np.asarray(LARGEST_GRADIENT)))


def tail_moment(mass: FloatArray, s: FloatArray) -> FloatArray:
    """Return ``E[2 h(s |z|) / s^2; |z| > t]`` with ``P(|z| > t) = mass`` and ``h(x) = exp(x) - 1 - x``.

    It is ``E[z^2; |z| > t]`` at ``s = 0``, and rises with `s` and with the mass.
    """
    mass, s = np.broadcast_arrays(mass, s)
    t = -ndtri(0.5 * np.maximum(mass, 1e-300))
    small = (s < _SERIES_BELOW) & (s * t < _SERIES_TOP)
    found = np.zeros(mass.shape)
    if np.any(small):
        found[small] = _by_series(t[small], s[small])
    if not np.all(small):
        found[~small] = _closed_form(t[~small], s[~small])
    return np.where(mass > 0.0, found, 0.0)


def _closed_form(t: FloatArray, s: FloatArray) -> FloatArray:
    half: FloatArray = np.exp(0.5 * np.square(s)) * ndtr(s - t) - ndtr(-t) - s * density(t)
    return 4.0 * half / np.square(s)


def _by_series(t: FloatArray, s: FloatArray) -> FloatArray:
    """Return ``sum over k >= 2 of 4 s^(k-2) m_k / k!`` with ``m_k`` the integral of ``z^k`` times the density above t.

    By parts, ``m_k = t^(k-1) density(t) + (k-1) m_(k-2)``; all terms are positive.
    """
    at, power = density(t), t
    before, last = ndtr(-t), at  # m_0 and m_1
    factor: FloatArray = np.full(s.shape, 2.0)  # 4 s^(k-2) / k!
    total = np.zeros(s.shape)
    for k in range(2, _N_TERMS):
        before, last = last, power * at + (k - 1) * before
        term = factor * last
        total += term
        # From the tenth on, terms fall to less than a half from one to the next.
        if k > 10 and np.all(term <= 1e-17 * total):
            break
        power = power * t
        factor = factor * s / (k + 1)
    return total


def _order(centre: FloatArray, values: FloatArray) -> np.ndarray:
    """Return the indices of the values, farthest from the centre first."""
    return np.argsort(-np.abs(values - centre[..., None]), axis=-1, kind="stable")
