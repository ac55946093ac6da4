"""A lower confidence limit for a weighted sum of hit shares in strata of known mass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import LARGEST_GRADIENT, SAFETY
from .._validation import FloatArray, broadcast, check_counts, check_interval, check_level

_LARGEST_BET = 0.5
"""Bets are clipped so that no sample multiplies the wealth by less than one half. For validity it must stay positive,
which takes bets below 1; a smaller limit would clip more of the weights."""

_BERRY_ESSEEN = 0.56
"""Constant of the Berry-Esseen inequality for sums of independent variables (Shevtsova 2010)."""

_SPREAD_SHARE = 0.02
"""Share of the level for the limits of the variances in the strata. The wealth has the rest, so any share is valid; the
limits widen with the logarithm of it only, and a small one leaves nearly all of the level to the wealth."""

_USUAL_FACTOR = 0.47
"""Expected factor to Markov's inequality, times the standard deviation of the wealth's logarithm. Decides about the
size of bets only."""


class StratifiedLimit(NamedTuple):
    """A lower limit of ``sum mass * weights * share``; `weights` may have been clipped, and are what it is about."""

    value: FloatArray
    weights: FloatArray


def stratified_lower(
    hits: ArrayLike, trials: ArrayLike, mass: ArrayLike, weights: ArrayLike, guesses: ArrayLike, alpha: float
) -> StratifiedLimit:
    """Return the lower confidence limit for ``sum mass * weights * share`` over strata, except with probability
    `alpha`.

    Parameters
    ----------
    hits, trials : array-like of shape (..., n_strata)
        Counts. Into which stratum a sample falls is left to chance, or decided beforehand.
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
    ``exp(sum trials_b bet_b (share_b - guess_b))``. With ``bet_b = stake * mass_b * weight_b / trials_b`` the exponent
    is ``stake * (sum mass weight share - sum mass weight guess)``, whatever the number of trials in each stratum. Where
    a bet is clipped, the weight is lowered with it.

    Markov's inequality for the wealth would be a limit. It is improved by the factor
    ``E'[exp(-(S - s)); S >= s]``, where `S` is the logarithm of the wealth, under the law with density proportional to
    the wealth. It is at most ``(phi(0) + 2 C J) / A`` if `S` has standard deviation `A` under that law and no sample
    changes it by more than `J`, where `C` is the constant of the Berry-Esseen inequality: few values of `S` are just
    above `s`. A lower limit of `A` takes 2% of `alpha`.

    Examples
    --------
    >>> from smoothcert.confidence import stratified_lower
    >>> limit = stratified_lower([480, 300], [500, 500], [0.5, 0.5], [1.0, 1.0], [0.95, 0.6], alpha=0.001)
    >>> float(limit.value.round(3))
    0.739
    """
    trials, hits = check_counts("trials", trials), check_counts("hits", hits)
    levels = check_level("alpha", alpha)
    if levels.ndim != 0:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    level = float(levels)
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
    return _limit(hits, trials, mass, weights, guesses, level)


def bet_size(log_term: float) -> float:
    """Return the standard deviation of the logarithm of the wealth to aim at, for limits at level ``exp(-log_term)``.

    The limit is as far from the estimate as ``size / 2 + (log_term + log(factor)) / size`` standard deviations, with
    the factor about ``_USUAL_FACTOR / size``; this makes it nearly smallest.
    """
    size = np.sqrt(2.0 * log_term)
    for _ in range(4):
        size = np.sqrt(2.0 * max(log_term + np.log(_USUAL_FACTOR / size) + 1.0, 0.5))
    return float(size)


def stake_for(log_term: float, variances: FloatArray) -> FloatArray:
    """Return the factor of all bets at which the logarithm of the wealth has the standard deviation to aim at, for
    given variances of the estimates of the terms; a last axis of length 1 is kept."""
    stake: FloatArray = bet_size(log_term) / np.sqrt(np.maximum(np.sum(variances, axis=-1, keepdims=True), 1e-300))
    return stake


def usual_width(alpha: float) -> float:
    """Return by how many standard deviations of the weighted sum a limit at this level usually stays below it."""
    log_term = -np.log((1.0 - _SPREAD_SHARE) * alpha)
    size = bet_size(log_term)
    return float(size / 2.0 + (log_term + min(np.log(_USUAL_FACTOR / size), 0.0)) / size)


def _limit(
    hits: FloatArray, trials: FloatArray, mass: FloatArray, weights: FloatArray, guesses: FloatArray, alpha: float
) -> StratifiedLimit:
    log_term = -np.log((1.0 - _SPREAD_SHARE) * alpha)
    each = np.divide(mass, trials, out=np.zeros(np.broadcast_shapes(mass.shape, trials.shape)), where=trials > 0)
    stake = stake_for(log_term, mass * each * np.square(weights) * guesses * (1.0 - guesses))
    bets = np.clip(stake * each * weights, -_LARGEST_BET, _LARGEST_BET)
    kept = bets * trials / (stake * mass)
    won, lost = np.log1p(bets * (1.0 - guesses)), np.log1p(-bets * guesses)
    gain = trials * bets * guesses + hits * won + (trials - hits) * lost
    spread = trials * least_variance(hits, trials, _SPREAD_SHARE * alpha / hits.shape[-1])
    log_factor = _log_factor(np.abs(won - lost), spread)
    value = (np.sum(gain, axis=-1) - log_term - log_factor) / stake[..., 0]
    rounding = SAFETY * (1.0 + np.sum(mass * np.abs(kept), axis=-1))
    return StratifiedLimit(value - rounding, kept)


def least_variance(hits: FloatArray, trials: FloatArray, alpha: float) -> FloatArray:
    """Return the lower confidence limit of ``share (1 - share)``, in closed form.

    Okamoto (1958): the root of an observed share exceeds that of the true one by `c` with probability at most
    ``exp(-2 n c^2)``. Used for hits and for misses, each with half of `alpha`. Between the two limits the variance is
    concave, so it is smallest at one of them.
    """
    n = np.maximum(trials, 1.0)
    apart = np.sqrt(np.log(2.0 / alpha) / (2.0 * n))
    low, lowest_miss = (np.square(np.maximum(np.sqrt(k / n) - apart, 0.0)) for k in (hits, trials - hits))
    variance = np.minimum(low * (1.0 - low), lowest_miss * (1.0 - lowest_miss))
    return np.where(trials > 0, variance * (1.0 - SAFETY), 0.0)


def _log_factor(jumps: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the logarithm of the factor by which the probability of a large wealth is smaller than Markov's inequality
    says.

    `jumps` are the differences between the logarithms won and lost by one sample, `spread` lower limits of the sums of
    ``share (1 - share)``. Every subset of the strata gives a factor; those with jumps up to some size are tried.
    """
    order = np.argsort(jumps, axis=-1)
    jumps = np.take_along_axis(jumps, order, axis=-1)
    spread = np.take_along_axis(np.broadcast_to(spread, jumps.shape), order, axis=-1)
    variance = np.cumsum(spread * np.square(jumps) * np.exp(-jumps), axis=-1)
    with np.errstate(divide="ignore"):
        factors = (LARGEST_GRADIENT + 2.0 * _BERRY_ESSEEN * jumps) / np.sqrt(variance)
    log_factor: FloatArray = np.minimum(np.log(np.min(factors, axis=-1) * (1.0 + SAFETY)), 0.0)
    return log_factor
