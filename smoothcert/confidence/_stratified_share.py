"""An upper confidence limit for the share of rare votes, in strata of known mass."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import SAFETY
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_level

_LARGEST_BET = 0.9
"""Bets stay below 1, so that no vote takes all of the wealth."""


def stratified_share_upper(
    hits: ArrayLike, trials: ArrayLike, mass: ArrayLike, guess: ArrayLike, alpha: float
) -> FloatArray:
    """Return the upper confidence limit for ``sum mass * share`` over strata, except with probability `alpha`.

    Parameters
    ----------
    hits, trials : array-like of int, shape (..., n_strata)
        Counts. Into which stratum a sample falls is left to chance, or decided beforehand.
    mass : array-like of shape (n_strata,)
        Probabilities of the strata.
    guess : array-like of shape (...)
        Expected value of the sum, in (0, 1), chosen before the samples were looked at; a good one makes the limit
        tight.
    alpha : float

    Returns
    -------
    ndarray of shape (...)
        At most 1, rounded up.

    Notes
    -----
    A gambler who stakes ``bet_s = stake * mass_s / trials_s`` against hits has the wealth ``prod (1 - bet_s)^hits_s``,
    whose mean is at most ``exp(-sum trials bet share) = exp(-stake * sum mass share)``. So by Markov's inequality
    ``stake * sum mass share <= log(1 / alpha) - sum hits log(1 - bet)`` except with probability `alpha`. Strata without
    trials count in full. The stake is what would be best if all strata had the guessed share.

    Examples
    --------
    >>> from smoothcert.confidence import stratified_share_upper
    >>> float(stratified_share_upper([0, 3], [5000, 5000], [0.9, 0.1], 0.001, alpha=0.001).round(5))
    0.00144
    """
    level = check_level("alpha", alpha)
    if level.ndim:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    guess = check_interval("guess", guess, lower=0.0, upper=1.0, lower_open=True, upper_open=True)
    mass = check_interval("mass", mass, lower=0.0, upper=1.0)
    hits, trials, mass, guess = broadcast(
        hits=check_counts("hits", hits), trials=check_counts("trials", trials), mass=mass, guess=guess[..., None]
    )
    if np.any(hits > trials):
        at = hits > trials
        raise ValueError(f"hits must be at most trials, got {hits[at][0]:g} and {trials[at][0]:g}.")
    log_term = -np.log(float(level))
    each = np.divide(mass, trials, out=np.zeros(mass.shape), where=trials > 0)
    variance = np.sum(mass * each * guess, axis=-1)
    most = _LARGEST_BET / np.maximum(np.max(each, axis=-1), 1e-300)
    stake = np.minimum(np.sqrt(2.0 * log_term / np.maximum(variance, 1e-300)), most)
    lost = -np.sum(hits * np.log1p(-stake[..., None] * each), axis=-1)
    unseen = np.sum(np.where(trials > 0, 0.0, mass), axis=-1)
    limit = (log_term + lost) / stake * (1.0 + SAFETY) + unseen + SAFETY
    upper: FloatArray = np.minimum(limit, 1.0)
    return upper[()]
