"""Upper confidence limit for the norm of a weighted sum of gradients in strata."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import LARGEST_GRADIENT, round_up
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_level
from ._gradient import VARIANCE_PROXY

# The search range of `q` decides how tight the limit is, never whether it is valid: every `q` gives a valid limit.

_GRIDS = [np.linspace(0.0, 1.0, n_points) for n_points in (33, 9, 9, 9, 9)]
"""One grid over the whole range, then four finer ones around the best point; the last step is 2^-13 of the range."""

_LEAST_LOG = np.log(1e-6)
"""Logarithm of the smallest `q` that is tried, times twice the sum of the variances. The term with ``1 / q`` makes the
limit large long before."""


def stratified_gradient_upper(
    norm_sq: ArrayLike, trials: ArrayLike, weights: ArrayLike, n_features: int, alpha: float
) -> FloatArray:
    """Return the upper confidence limit for the norm of ``sum trials * weights * gradient`` over strata.

    Parameters
    ----------
    norm_sq : array-like of shape (...)
        ``|sum w X|^2 - sum w^2 |X|^2`` over all samples, for vectors ``X = Z (f - 1/2)``, each with the weight `w` of
        its stratum; may be negative.
    trials : array-like of int, shape (..., n_strata)
        Samples in each stratum. Strata must be independent of `Z`: they are defined by other
        components of the noise.
    weights : array-like of shape (..., n_strata)
        At least 0; chosen without looking at `X`.
    n_features : int
        Dimension of `Z`.
    alpha : float

    Returns
    -------
    ndarray of shape (...)
        Below the truth with probability at most `alpha`; rounded up.

    Notes
    -----
    Given the strata the vectors are independent, their means `g` are at most ``phi(0)`` long, and around these they
    are sub-Gaussian with variance proxy `v` (see `gradient_norm_upper`). The estimate is a sum over pairs, so it is
    linear in each vector while the others are fixed, and replacing them one after the other by Gaussian vectors with
    the same means and variance `v` makes ``E exp(-q norm_sq)`` no smaller. For Gaussian vectors it is known: with
    ``D = v w^2`` and ``m = 1 / (1 - 2 q D)`` for each sample and ``T = sum D m``::

        log E = q sum w^2 |g|^2 m - q |sum w g m|^2 / (1 + 2 q T) - (d/2) (sum log(1 - 2 q D) + log(1 + 2 q T)).

    Here ``|g| <= phi(0)``, so ``|sum w g m|`` is at least the wanted norm less ``phi(0) sum w (m - 1)``. Markov's
    inequality gives a limit for each `q`. The best `q` may be chosen after seeing the estimate, because each limit
    falls with it.

    Examples
    --------
    One stratum with equal weights is nearly the plain limit:

    >>> from smoothcert.confidence import gradient_norm_upper, stratified_gradient_upper
    >>> float(stratified_gradient_upper(0.2**2, [100_000], [1e-5], 3072, 0.0005).round(4))
    0.2084
    >>> float(gradient_norm_upper(0.2**2, 100_000, 3072, 0.0005).round(4))
    0.2084
    """
    for name, value in (("n_features", n_features), ("alpha", alpha)):
        if np.ndim(value) != 0:
            raise ValueError(f"{name} must be one number, got {value!r}.")
    dimension, level = float(check_counts("n_features", n_features, least=1)), float(check_level("alpha", alpha))
    norm_sq = check_interval("norm_sq", norm_sq, cure="Give the estimate of the squared norm.")
    trials = check_counts("trials", trials)
    weights = check_interval("weights", weights, lower=0.0, upper=1e6, cure="Divide by the number of samples.")
    if trials.ndim < 1:
        raise ValueError("trials must have one entry for each stratum, got one number.")
    norm_sq, trials, weights = broadcast(norm_sq=norm_sq[..., None], trials=trials, weights=weights)
    shape, strata = norm_sq.shape[:-1], norm_sq.shape[-1]
    trials, weights = trials.reshape(-1, strata), weights.reshape(-1, strata)
    found = _limit(norm_sq[..., 0].ravel(), trials, weights, dimension, -np.log(level))
    return round_up(found).reshape(shape)[()]


def _limit(
    norm_sq: FloatArray, trials: FloatArray, weights: FloatArray, n_features: float, log_term: float
) -> FloatArray:
    weights = np.where(trials > 0, weights, 0.0)
    spread = VARIANCE_PROXY * np.square(weights)  # D
    total, widest = np.sum(trials * spread, axis=-1), np.max(spread, axis=-1)
    something = total > 0.0
    total, widest = np.where(something, total, 1.0), np.where(something, widest, 1.0)
    # Every q gives a valid limit, so a grid search is enough; it zooms in on the smallest value found.
    low, high = _LEAST_LOG - np.log(2.0 * total), np.log((1.0 - 1e-9) / (2.0 * widest))
    low = np.minimum(low, high)
    best = np.full(len(norm_sq), np.inf)
    for grid in _GRIDS:
        log_q = low[:, None] + (high - low)[:, None] * grid
        limit = _limit_at(np.exp(log_q), norm_sq[:, None], trials, weights, spread, n_features, log_term)
        at = np.argmin(limit, axis=1)[:, None]
        best = np.minimum(best, np.take_along_axis(limit, at, axis=1)[:, 0])
        low, high = (np.take_along_axis(log_q, np.clip(at + step, 0, len(grid) - 1), axis=1)[:, 0] for step in (-1, 1))
    return np.where(something, best, 0.0)


def _limit_at(
    q: FloatArray,
    norm_sq: FloatArray,
    trials: FloatArray,
    weights: FloatArray,
    spread: FloatArray,
    n_features: float,
    log_term: float,
) -> FloatArray:
    """Return the limit for given `q`, of shape (n_rows, n_tried)."""
    share = 2.0 * q[:, :, None] * spread[:, None]
    excess = share / (1.0 - share)  # m - 1
    each = (trials * weights)[:, None]
    shift = LARGEST_GRADIENT * np.sum(each * excess, axis=-1)
    means = LARGEST_GRADIENT**2 * np.sum((trials * np.square(weights))[:, None] * (1.0 + excess), axis=-1)
    grown = np.sum(trials[:, None] * excess, axis=-1)  # 2 q T
    logs = -np.sum(trials[:, None] * np.log1p(-share), axis=-1) - np.log1p(grown)
    square = (1.0 + grown) * (norm_sq + means + (log_term + 0.5 * n_features * logs) / q)
    limit: FloatArray = shift + np.sqrt(np.maximum(square, 0.0))
    return limit
