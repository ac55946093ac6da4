"""A lower confidence limit for a weighted sum of hit shares of a class and of a rival, in strata of known mass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import SAFETY
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_level
from ._stratified import _LARGEST_BET, _SPREAD_SHARE, _log_factor, stake_for


class StratifiedRivalLimit(NamedTuple):
    """A lower limit of ``sum mass * (weights * share + rival_weights * (1 - rival_share))``; weights may have been
    clipped, and are what it is about."""

    value: FloatArray
    weights: FloatArray
    rival_weights: FloatArray


def stratified_rival_lower(
    hits: ArrayLike,
    rival_hits: ArrayLike,
    trials: ArrayLike,
    *,
    mass: ArrayLike,
    weights: ArrayLike,
    rival_weights: ArrayLike,
    guesses: ArrayLike,
    rival_guesses: ArrayLike,
    alpha: float,
) -> StratifiedRivalLimit:
    """Return the lower confidence limit for ``sum mass * (weights * share + rival_weights * (1 - rival_share))`` over
    strata.

    Parameters
    ----------
    hits, rival_hits, trials : array-like of int, shape (..., n_strata)
        Votes for the class, for the rival, and for anything. Into which stratum a sample falls is left to chance, or
        decided beforehand.
    mass : array-like of shape (n_strata,)
        Probabilities of the strata, known exactly.
    weights, rival_weights : array-like of shape (..., n_strata)
        Any real numbers, chosen before the samples were looked at.
    guesses, rival_guesses : array-like of shape (..., n_strata)
        Expected shares in (0, 1), chosen before the samples were looked at; good ones make the limit tight.
    alpha : float
        Error probability, in (0, 1).

    Returns
    -------
    StratifiedRivalLimit
        Rounded down.

    Notes
    -----
    As `stratified_lower`, for votes with three values: a gambler stakes `a` on the class and `b` against the rival in
    each stratum, and a vote multiplies the wealth by ``1 + a (1_A - guess) - b (1_B - rival_guess)``. Both bets of a
    stratum are shrunk together until no vote multiplies it by less than one half.

    Examples
    --------
    >>> from smoothcert.confidence import stratified_rival_lower
    >>> limit = stratified_rival_lower(
    ...     [480, 300], [10, 120], [500, 500], mass=[0.5, 0.5], weights=[1.0, 1.0], rival_weights=[1.0, 1.0],
    ...     guesses=[0.95, 0.6], rival_guesses=[0.03, 0.25], alpha=0.001,
    ... )
    >>> float(limit.value.round(3))
    1.576
    """
    level = check_level("alpha", alpha)
    if level.ndim:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    mass = check_interval("mass", mass, lower=0.0, upper=1.0, lower_open=True, cure="Leave out strata without mass.")
    guesses, rival_guesses = (
        check_interval(name, value, lower=0.0, upper=1.0, lower_open=True, upper_open=True)
        for name, value in (("guesses", guesses), ("rival_guesses", rival_guesses))
    )
    hits, rival_hits, trials, mass, weights, rival_weights, guesses, rival_guesses = broadcast(
        hits=check_counts("hits", hits),
        rival_hits=check_counts("rival_hits", rival_hits),
        trials=check_counts("trials", trials),
        mass=mass,
        weights=check_interval("weights", weights, lower=-1e300, upper=1e300),
        rival_weights=check_interval("rival_weights", rival_weights, lower=-1e300, upper=1e300),
        guesses=guesses,
        rival_guesses=rival_guesses,
    )
    if hits.ndim < 1:
        raise ValueError("hits must have one entry for each stratum, got one number.")
    at = hits + rival_hits > trials
    if np.any(at):
        raise ValueError(
            "hits and rival_hits must sum to at most trials, "
            f"got {hits[at][0]:g} + {rival_hits[at][0]:g} and {trials[at][0]:g}."
        )
    return _limit(hits, rival_hits, trials, mass, weights, rival_weights, guesses, rival_guesses, float(level))


def rival_variance(
    weights: FloatArray, rival_weights: FloatArray, shares: FloatArray, rival_shares: FloatArray
) -> FloatArray:
    """Return the variance of ``weights 1_A - rival_weights 1_B`` for one vote."""
    own = np.square(weights) * shares * (1.0 - shares)
    other = np.square(rival_weights) * rival_shares * (1.0 - rival_shares)
    return np.maximum(own + other + 2.0 * weights * rival_weights * shares * rival_shares, 0.0)


def _limit(
    hits: FloatArray,
    rival_hits: FloatArray,
    trials: FloatArray,
    mass: FloatArray,
    weights: FloatArray,
    rival_weights: FloatArray,
    guesses: FloatArray,
    rival_guesses: FloatArray,
    alpha: float,
) -> StratifiedRivalLimit:
    log_term = -np.log((1.0 - _SPREAD_SHARE) * alpha)
    each = np.divide(mass, trials, out=np.zeros(trials.shape), where=trials > 0)
    stake = stake_for(log_term, mass * each * rival_variance(weights, rival_weights, guesses, rival_guesses))
    bet, against = stake * each * weights, stake * each * rival_weights
    # What votes for the class, for the rival and for neither add to one.
    gains = _gains(bet, against, guesses, rival_guesses)
    worst = np.min(gains, axis=0)
    shrink = np.where(worst < -_LARGEST_BET, -_LARGEST_BET / np.minimum(worst, -_LARGEST_BET), 1.0)
    bet, against = bet * shrink, against * shrink
    logs = np.log1p(_gains(bet, against, guesses, rival_guesses))
    kept, rival_kept = (part * trials / (stake * mass) for part in (bet, against))
    votes = np.stack([hits, rival_hits, trials - hits - rival_hits])
    gain = np.sum(votes * logs, axis=0) + trials * (bet * guesses - against * rival_guesses)
    jumps = np.max(logs, axis=0) - np.min(logs, axis=0)
    low = _least_shares(votes, trials, _SPREAD_SHARE * alpha / (3.0 * hits.shape[-1]))
    spread = sum(
        low[i] * low[j] * np.square(logs[i] - logs[j]) for i, j in ((0, 1), (0, 2), (1, 2))
    ) * (1.0 - SAFETY)  # fmt: skip
    relative = np.divide(trials * spread, np.square(jumps), out=np.zeros_like(jumps), where=jumps > 1e-12)
    log_factor = _log_factor(jumps, relative)
    value = (np.sum(gain, axis=-1) - log_term - log_factor) / stake[..., 0] + np.sum(mass * rival_kept, axis=-1)
    rounding = SAFETY * (1.0 + np.sum(mass * (np.abs(kept) + 2.0 * np.abs(rival_kept)), axis=-1))
    return StratifiedRivalLimit(value - rounding, kept, rival_kept)


def _gains(bet: FloatArray, against: FloatArray, guesses: FloatArray, rival_guesses: FloatArray) -> FloatArray:
    neither = against * rival_guesses - bet * guesses
    return np.stack([neither + bet, neither - against, neither])


def _least_shares(votes: FloatArray, trials: FloatArray, alpha: float) -> FloatArray:
    """Return the lower confidence limits of shares by the inequality of Okamoto (1958), see `least_variance`."""
    n = np.maximum(trials, 1.0)
    apart = np.sqrt(-np.log(alpha) / (2.0 * n))
    least: FloatArray = np.square(np.maximum(np.sqrt(votes / n) - apart, 0.0)) * (1.0 - SAFETY)
    return least
