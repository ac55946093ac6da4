"""A lower confidence limit for a weighted sum of hit shares in strata of known mass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import SAFETY
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_level

_LARGEST_BET = 0.5
"""Bets are clipped so that no sample multiplies the wealth by less than one half."""


class StratifiedLimit(NamedTuple):
    """A lower limit of ``sum mass * weights * share``; `weights` may have been clipped, and are what it is about."""

    value: FloatArray
    weights: FloatArray


def stratified_lower(
    hits: ArrayLike, trials: ArrayLike, mass: ArrayLike, weights: ArrayLike, guesses: ArrayLike, alpha: float
) -> StratifiedLimit:
    """Lower confidence limit for ``sum mass * weights * share`` over strata, except with probability `alpha`.

    Parameters
    ----------
    hits, trials : array-like of shape (..., n_strata)
        Counts. Into which stratum a sample falls is left to chance.
    mass : array-like of shape (n_strata,)
        Probabilities of the strata, known exactly.
    weights : array-like of shape (..., n_strata)
        Any real numbers, chosen before the samples were looked at.
    guesses : array-like of shape (..., n_strata)
        Expected shares in (0, 1), chosen before the samples were looked at; good ones make the limit tight.
    alpha : float

    Returns
    -------
    StratifiedLimit
        Rounded down.

    Notes
    -----
    A gambler who stakes ``bet_b`` on hits in stratum `b` at the odds of the guess has the wealth
    ``prod (1 + bet_b (f - guess_b))``. Given the strata of the samples, its mean is at most
    ``exp(sum trials_b bet_b (share_b - guess_b))``. With ``bet_b = scale * n * mass_b * weight_b / trials_b`` the
    exponent is ``scale * n * (sum mass weight share - sum mass weight guess)``, whatever the number of trials in each
    stratum. Markov's inequality for the wealth is the limit. Where a bet is clipped, the weight is lowered with it.

    Examples
    --------
    >>> from smoothcert.confidence import stratified_lower
    >>> limit = stratified_lower([480, 300], [500, 500], [0.5, 0.5], [1.0, 1.0], [0.95, 0.6], alpha=0.001)
    >>> float(limit.value.round(3))
    0.734
    """
    trials, hits = check_counts("trials", trials), check_counts("hits", hits)
    if np.ndim(alpha) != 0:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    level = float(check_level("alpha", alpha))
    mass = check_interval("mass", mass, lower=0.0, upper=1.0, lower_open=True, cure="Leave out strata without mass.")
    guesses = check_interval("guesses", guesses, lower=0.0, upper=1.0, lower_open=True, upper_open=True)
    weights = check_interval("weights", weights, lower=-1e300, upper=1e300)
    hits, trials, weights, guesses, mass = broadcast(
        hits=hits, trials=trials, weights=weights, guesses=guesses, mass=mass
    )
    if hits.ndim < 1:
        raise ValueError("hits must have one entry for each stratum, got one number.")
    if np.any(hits > trials):
        raise ValueError(
            f"hits must be at most trials, got {hits[hits > trials][0]:g} and {trials[hits > trials][0]:g}."
        )
    return _limit(hits, trials, mass, weights, guesses, -np.log(level))


def _limit(
    hits: FloatArray, trials: FloatArray, mass: FloatArray, weights: FloatArray, guesses: FloatArray, log_term: float
) -> StratifiedLimit:
    n = trials.sum(axis=-1, keepdims=True)
    variance = np.sum(mass * np.square(weights) * guesses * (1.0 - guesses), axis=-1, keepdims=True)
    scale = np.sqrt(2.0 * log_term / (np.maximum(n, 1.0) * np.maximum(variance, 1e-300)))
    bets = np.divide(
        scale * n * mass * weights,
        trials,
        out=np.zeros(np.broadcast_shapes(weights.shape, trials.shape)),
        where=trials > 0,
    )
    bets = np.clip(bets, -_LARGEST_BET, _LARGEST_BET)
    kept = bets * trials / (scale * np.maximum(n, 1.0) * mass)
    gain = trials * bets * guesses + hits * np.log1p(bets * (1.0 - guesses))
    gain += (trials - hits) * np.log1p(-bets * guesses)
    value = (np.sum(gain, axis=-1) - log_term) / (scale * np.maximum(n, 1.0))[..., 0]
    rounding = SAFETY * (1.0 + np.sum(mass * np.abs(kept), axis=-1))
    return StratifiedLimit(value - rounding, kept)
