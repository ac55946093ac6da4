"""Upper confidence limit of a tilted gradient from the sums of all samples, adaptive to what they vary.

It needs no more than the sums of the stratified limit, and no second stage. Two things are used that the stratified
limit does not know: how often votes are far from the centre, and the lengths of the vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import SAFETY, round_up
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_probability
from ._crossfit import (
    SHARE_OF_SHARES,
    best_of_grid,
    check_strata,
    expected_limits,
    one_dimension,
    one_level,
    with_values,
)
from ._local_proxy import by_distance, check_values, global_proxy, local_proxy, mean_limit, share_limits

N_BLOCKS = 16
"""Blocks of the partitions in the proof. Products of vectors in the same block are lost, about one in `N_BLOCKS`, and
every stratum needs that many samples."""

_SHARE_OF_PARTITIONS = 0.01
"""Part of the level for the event that many partitions have long partial sums."""

_BAD_PARTITIONS = 1e-9
"""Share of partitions with long partial sums that is tolerated."""

_N_ROUNDS = 60
"""Steps of the fixed-point iteration. It may stop at any step: each of its values is a valid limit."""

_N_PLANNED = 8
"""The same, for planning."""


class _Sums(NamedTuple):
    """What is known of the samples: see the theory of the adaptive limit."""

    pairs: FloatArray
    """Mean of the products of vectors of different blocks, times the squared number of blocks."""
    spread: FloatArray
    """Mean of what the squared length of a block's sum has on top of that."""
    squares: FloatArray
    """Sum of the squared lengths of all weighted vectors, times the number of samples in a block."""


def adaptive_gradient_upper(
    norm_sq: ArrayLike,
    within: ArrayLike,
    squares: ArrayLike,
    scale: ArrayLike,
    masses: ArrayLike,
    *,
    counts: ArrayLike,
    centres: ArrayLike,
    n_features: int,
    alpha: float,
    values: Sequence[float] = (0.0, 1.0),
) -> FloatArray:
    """Return the upper confidence limit for the norm of ``sum masses * gradient`` over strata, from all pairs.

    Parameters
    ----------
    norm_sq : array-like of shape (...)
        ``|sum w X|^2 - sum w^2 |X|^2`` over all samples, for vectors ``X = Z (f - centre)``, each with the weight
        ``w = masses / trials`` of its stratum; as for `stratified_gradient_upper`, but with any centres.
    within : array-like of shape (..., n_strata)
        ``|sum X|^2 - sum |X|^2`` over the samples of each stratum.
    squares : array-like of shape (..., n_strata)
        ``sum |X|^2`` over the samples of each stratum. In `norm_sq` and `within` it must not be rounded up, here not
        down.
    scale : array-like of shape (...)
        Above 0, chosen before the samples, for example by `adaptive_gradient_scale`.
    masses : array-like of shape (..., n_strata)
        Probability of each stratum times its tilt.
    counts : array-like of int, shape (..., n_strata, n_values)
        How often `f` had each value in each stratum; all samples are counted.
    centres : array-like of shape (..., n_strata)
        Chosen before the samples.
    n_features : int
        Dimension of `Z`.
    alpha : float
    values : sequence of float
        All values of `f`; ``(0, 0.5, 1)`` for ``(1 + 1_A - 1_B) / 2``, where the limit is half of that of the
        difference.

    Returns
    -------
    ndarray of shape (...)
        Below the truth with probability at most `alpha`; rounded up. Where a stratum has fewer than 16 samples, the
        limit is what the shares of votes alone imply.

    Notes
    -----
    The proof divides the samples of each stratum into 16 blocks at random. Each block bets on its product with the sum
    of the blocks before it and with what is to be expected of those after it; the variance proxy for rare votes bounds
    what that is worth. The capital is averaged over all partitions, and by Jensen's inequality the average is at least
    the exponential of the mean logarithm, in which only the arguments of this function are left.

    Examples
    --------
    >>> from smoothcert.confidence import adaptive_gradient_upper
    >>> limit = adaptive_gradient_upper(
    ...     0.015**2,
    ...     [0.015**2 * 1e10],
    ...     [3071 * 2910.0],
    ...     1.2e5,
    ...     [1.0],
    ...     counts=[[3000, 97_000]],
    ...     centres=[0.97],
    ...     n_features=3071,
    ...     alpha=0.0002,
    ... )
    >>> float(limit.round(3))
    0.025
    """
    level, levels = one_level(alpha), check_values(values)
    dimension = one_dimension(n_features)
    norm_sq = check_interval("norm_sq", norm_sq, cure="Give the estimate of the squared norm.")
    scale = check_interval("scale", scale, lower=0.0, lower_open=True, upper=1e300)
    counts = check_counts("counts", counts)
    if counts.ndim < 2 or counts.shape[-1] != len(levels):
        raise ValueError(
            f"counts must have axes for strata and for the {len(levels)} values, got shape {counts.shape}."
        )
    norm_sq, scale, within, squares, masses, centres, trials = broadcast(
        norm_sq=norm_sq[..., None],
        scale=scale[..., None],
        within=check_interval("within", within),
        squares=check_interval("squares", squares, lower=0.0),
        masses=check_interval("masses", masses, lower=0.0, upper=1e6),
        centres=check_probability("centres", centres),
        counts=counts.sum(axis=-1),
    )
    n_strata = check_strata(masses)
    counts = with_values("counts", counts, masses, levels)
    shares = share_limits(counts, centres, SHARE_OF_SHARES * level / n_strata, values)
    far, limits = by_distance(shares, centres, levels)
    start = np.sum(masses * mean_limit(limits, centres, levels), axis=-1)
    usable = np.all((masses == 0.0) | (trials >= N_BLOCKS), axis=-1)
    sums = _sums(norm_sq[..., 0], within, squares, masses, trials)
    found = _largest_kept(sums, scale[..., 0], start, masses, trials, dimension, level, limits, far, centres)
    return round_up(np.where(usable, found, start))[()]


def adaptive_gradient_scale(
    gradient: ArrayLike,
    masses: ArrayLike,
    trials: ArrayLike,
    *,
    shares: ArrayLike,
    centres: ArrayLike,
    n_features: int,
    alpha: float,
    values: Sequence[float] = (0.0, 1.0),
) -> tuple[FloatArray, FloatArray]:
    """Return the scale that makes the limit of `adaptive_gradient_upper` smallest if all is as expected, and the limit.

    Parameters
    ----------
    gradient : array-like of shape (...)
        Norm to expect.
    masses, centres : array-like of shape (..., n_strata)
    trials : array-like of shape (..., n_strata)
        Samples to expect.
    shares : array-like of shape (..., n_strata, n_values)
        Expected share of each value of `f`.
    n_features : int
        Dimension of `Z`.
    alpha : float
    values : sequence of float

    Returns
    -------
    scale, limit : ndarray of shape (...)

    Examples
    --------
    >>> from smoothcert.confidence import adaptive_gradient_scale
    >>> scale, limit = adaptive_gradient_scale(
    ...     0.015, [1.0], [100_000], shares=[[0.03, 0.97]], centres=[0.97], n_features=3071, alpha=0.0002
    ... )
    >>> float(limit.round(3))
    0.025
    """
    level, levels = one_level(alpha), check_values(values)
    dimension = one_dimension(n_features)
    gradient = check_interval("gradient", gradient, lower=0.0)
    gradient, masses, trials, centres = broadcast(
        gradient=gradient[..., None],
        masses=check_interval("masses", masses, lower=0.0, upper=1e6),
        trials=np.maximum(check_interval("trials", trials, lower=0.0), N_BLOCKS),
        centres=check_probability("centres", centres),
    )
    check_strata(masses)
    gradient = gradient[..., 0]
    shares = with_values("shares", check_probability("shares", shares), masses, levels)
    far, limits = by_distance(expected_limits(shares, centres, levels, trials, level), centres, levels)
    start = np.sum(masses * mean_limit(limits, centres, levels), axis=-1)
    variance = np.sum(shares * np.square(levels - centres[..., None]), axis=-1)
    sums = _sums(np.square(gradient), 0.0 * masses, dimension * variance * trials, masses, trials)
    total = np.sum(np.square(masses) / trials * variance, axis=-1)
    log_term = -np.log(level)
    proxy = np.sum(np.square(masses) / trials * local_proxy(limits, 0.0 * centres, far, centres), axis=-1)
    usual = 4.0 * np.sqrt(log_term / np.maximum((dimension * total + np.square(gradient)) * proxy, 1e-300))

    def expected(scale: FloatArray) -> FloatArray:
        return _largest_kept(
            sums, scale, start, masses, trials, dimension, level, limits, far, centres, rounds=_N_PLANNED
        )

    return best_of_grid(expected, usual)


def _sums(
    norm_sq: FloatArray, within: FloatArray, squares: FloatArray, masses: FloatArray, trials: FloatArray
) -> _Sums:
    """Return averages over all partitions."""
    n = np.maximum(trials, 2.0)
    in_block = np.maximum(np.floor(trials / N_BLOCKS), 1.0)  # at least
    per_pair = within / (n * (n - 1.0))
    unit = np.square(masses)
    pairs = norm_sq + np.sum(unit * within / np.square(n) / (n - 1.0), axis=-1)
    apart = squares / n - np.minimum(per_pair, 0.0)  # an upper bound, whichever way `within` was rounded
    spread = np.sum(unit / in_block * apart, axis=-1) / N_BLOCKS**2
    longest = np.sum(in_block + 1.0, axis=-1) * np.sum(unit * squares / np.square(in_block), axis=-1) / N_BLOCKS**2
    size = SAFETY * (np.abs(norm_sq) + np.sum(unit * (np.abs(within) + squares) / np.square(n), axis=-1))
    return _Sums(pairs + size, spread * (1.0 + SAFETY), longest)


def _largest_kept(
    sums: _Sums,
    scale: FloatArray,
    start: FloatArray,
    masses: FloatArray,
    trials: FloatArray,
    n_features: float,
    alpha: float,
    limits: FloatArray,
    far: FloatArray,
    centres: FloatArray,
    rounds: int = _N_ROUNDS,
) -> FloatArray:
    """Return an upper bound of all norms up to `start` that are not refused; see `_crossfit` for the iteration."""
    m = float(N_BLOCKS)
    in_block = np.maximum(np.floor(trials / m), 1.0)
    weights = masses / (m * in_block)  # the largest of a sample, in any block
    unit = np.square(masses) / (m * in_block)  # times a proxy: m times the variance of a block's sum, at most
    log_term = -np.log((1.0 - SHARE_OF_SHARES - _SHARE_OF_PARTITIONS) * alpha)
    # Longest deviation of a partial sum, but for a tiny part of the partitions.
    log_rare = -np.log(_SHARE_OF_PARTITIONS * alpha * _BAD_PARTITIONS)
    widest = np.sum(unit * global_proxy(centres), axis=-1)
    deviation = np.sqrt(widest * (n_features + 2.0 * np.sqrt(n_features * log_rare) + 2.0 * log_rare))
    steps = m - np.arange(1.0, m + 1.0)
    up, going = start, np.ones(start.shape, dtype=bool)
    for _ in range(rounds):
        exponent = scale[..., None] * weights * (deviation + up)[..., None] * (1.0 + SAFETY)
        variance = np.sum(unit * local_proxy(limits, exponent, far, centres), axis=-1) * (1.0 + SAFETY)
        rate = scale * variance / m
        sound = rate < 0.5
        rate = np.maximum(np.where(sound, rate, 0.5), 1e-100)  # so that nothing is divided by zero
        reach = -np.expm1(steps * np.log1p(-rate)[..., None]) / (m * rate)[..., None]
        gain = np.sum(reach / m - 0.5 * rate[..., None] * np.square(reach), axis=-1)
        lengths = (m - 1.0) * (2.0 * m - 1.0) / (6.0 * m) * sums.pairs + m * (m - 1.0) / 2.0 * sums.spread
        known = scale * ((m - 1.0) / (2.0 * m) * sums.pairs + 0.5 * rate * np.maximum(lengths, 0.0))
        rest = 2.0 * _BAD_PARTITIONS * (1.0 + 0.5 * scale * (np.square(up) + sums.squares))
        known = known + log_term + rest + SAFETY * (1.0 + np.abs(known))
        new = np.minimum(up, np.sqrt(np.maximum(known, 0.0) / (scale * gain)) * (1.0 + SAFETY))
        new = np.where(sound, new, up)
        # Each row stops by itself: a limit must not depend on the company of others.
        going, up = going & (new < up * (1.0 - 1e-9)), np.where(going, new, up)
        if not np.any(going):
            break
    return up
