"""Upper confidence limit of a tilted gradient, cross-fitted: one half of the samples points, the other one bets.

The first half gives an estimate `S` of the gradient. The samples of the second half bet against their projection on
it. What they vary along that one direction decides about the width of the limit, not what they might vary at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from .._numerics import SAFETY, density, round_up
from .._validation import BoolArray, FloatArray, broadcast, check_counts, check_interval, check_level, check_probability
from ._local_proxy import by_distance, check_values, local_proxy, mean_limit, share_limits

CLIP = 4.0
"""Where projections are clipped. It must be the same for the capital and for the limit."""

SHARE_OF_SHARES = 0.02
"""Part of the level for the limits of the shares of votes; any part is valid."""

_UNIT = 2.0**-53
_STEPS = 2.0**30
"""The logarithm of the capital is rounded down to multiples of 2^-30, which add up without rounding."""

_LARGEST_STAKE = 0.5
"""Largest stake to plan for; the stake grows with the length of the sum, which is not known yet."""

_N_ROUNDS = 60
"""Steps of the fixed-point iteration. It may stop at any step: each of its values is a valid limit."""

_N_PLANNED = 8
"""The same, for planning."""


def crossfit_log_capital(
    projections: ArrayLike,
    votes: ArrayLike,
    centres: ArrayLike,
    bets: ArrayLike,
    *,
    clip: float = CLIP,
    error: ArrayLike = 0.0,
) -> FloatArray:
    """Return the logarithm of the capital of some samples, ``sum log(1 - bet * clip(projection) * (vote - centre))``.

    Parameters
    ----------
    projections : array-like of shape (..., n_samples)
        Components of the noise along the unit vector of the first half's sum. Clipped here.
    votes : array-like of shape (..., n_samples)
        Values `f` in [0, 1].
    centres : array-like of shape (..., n_samples)
        Centre of the stratum of each sample.
    bets : array-like of shape (..., n_samples)
        ``scale * length * masses / trials`` of the stratum of each sample, with the trials of the second half.
    clip : float, default=4
    error : array-like of shape (..., n_samples), default=0
        Bounds of the errors of the projections as computed.

    Returns
    -------
    ndarray of shape (...)
        Rounded down to a multiple of 2^-30, so that parts add up without rounding in any order; minus infinity if a
        stake is as large as the capital.

    Examples
    --------
    >>> from smoothcert.confidence import crossfit_log_capital
    >>> float(crossfit_log_capital([0.3, -1.2, 7.0], [1, 1, 0], 0.9, 0.01).round(4))
    0.0363
    """
    top = _check_clip(clip)
    projections, votes, centres, bets, error = broadcast(
        projections=check_interval("projections", projections),
        votes=check_probability("votes", votes),
        centres=check_probability("centres", centres),
        bets=check_interval("bets", bets, lower=0.0),
        error=check_interval("error", error, lower=0.0),
    )
    if not projections.ndim:
        raise ValueError("projections must have one entry for each sample, got one number.")
    gap = votes - centres
    stakes = bets * (np.clip(projections, -top, top) * gap + np.abs(gap) * error)
    ruined = np.any(bets * top * np.abs(gap) >= 1.0, axis=-1)
    stakes = np.where(ruined[..., None], 0.0, stakes)
    logs = np.log1p(-stakes)
    # Errors of a sum in any order (Higham, section 3.1), of the logarithms, and of the stakes.
    sizes = np.sum((projections.shape[-1] + 4.0) * np.abs(logs) + 8.0 * np.abs(stakes) / (1.0 - stakes), axis=-1)
    total = np.floor((np.sum(logs, axis=-1) - 1.01 * _UNIT * sizes) * _STEPS) / _STEPS
    return np.where(ruined, -np.inf, total)[()]


def crossfit_gradient_upper(
    log_capital: ArrayLike,
    length: ArrayLike,
    scale: ArrayLike,
    masses: ArrayLike,
    trials: tuple[ArrayLike, ArrayLike],
    *,
    counts: ArrayLike,
    centres: ArrayLike,
    alpha: float,
    values: Sequence[float] = (0.0, 1.0),
    clip: float = CLIP,
    error: ArrayLike = 0.0,
) -> FloatArray:
    """Return the upper confidence limit for the norm of ``sum masses * gradient`` over strata, cross-fitted.

    Parameters
    ----------
    log_capital : array-like of shape (...)
        Sum of `crossfit_log_capital` over the second half.
    length : array-like of shape (...)
        Length of the first half's sum ``S = sum masses / trials[0] * X``, with ``X = Z (f - centre)``.
    scale : array-like of shape (...)
        Above 0, chosen before both halves, for example by `crossfit_scale`.
    masses : array-like of shape (..., n_strata)
        Probability of each stratum times its tilt.
    trials : pair of array-like of int, shape (..., n_strata)
        Samples of each stratum in the first and in the second half. Strata must be independent of `Z`.
    counts : array-like of int, shape (..., n_strata, n_values)
        How often `f` had each value in each stratum, in both halves together.
    centres : array-like of shape (..., n_strata)
        Chosen before both halves.
    alpha : float
    values : sequence of float
        All values of `f`; ``(0, 0.5, 1)`` for ``(1 + 1_A - 1_B) / 2``, where the limit is half of that of the
        difference.
    clip : float, default=4
    error : array-like of shape (...), default=0
        Bound of the distance between the sum `S` and the vector, `length` times the unit vector, that was used.

    Returns
    -------
    ndarray of shape (...)
        Below the truth with probability at most `alpha`; rounded up.

    Notes
    -----
    With ``L = log(1 / alpha)`` and the capital `K` of the second half, a norm `g` is refused if::

        scale g^2 - sum trials[0] F(scale g masses / trials[0]) >= L - log K + scale length bias sum masses

    where ``F(b)`` is the variance proxy at the exponent `b` times ``b^2 / 2``, and `bias` what clipping may change.
    The largest norm that is not refused is found by iteration from above. Where a stratum lacks samples of one half,
    or a stake is as large as the capital, the limit is what the shares of votes alone imply. 2% of `alpha` are for the
    limits of these shares.

    Examples
    --------
    >>> from smoothcert.confidence import crossfit_gradient_upper
    >>> limit = crossfit_gradient_upper(
    ...     -3.0, 0.05, 8e4, [1.0], ([50_000], [50_000]), counts=[[3000, 97_000]], centres=[0.97], alpha=0.0002
    ... )
    >>> float(limit.round(4))
    0.0131
    """
    level, levels, top = one_level(alpha), check_values(values), _check_clip(clip)
    log_capital = check_interval("log_capital", log_capital)
    length, error = check_interval("length", length, lower=0.0), check_interval("error", error, lower=0.0)
    scale = check_interval("scale", scale, lower=0.0, lower_open=True, upper=1e300)
    masses = check_interval("masses", masses, lower=0.0, upper=1e6)
    first, second = (check_counts("trials", half) for half in _two_halves(trials))
    counts, centres = check_counts("counts", counts), check_probability("centres", centres)
    if np.any(counts.sum(axis=-1) > first + second):
        raise ValueError("counts must sum to at most the trials of both halves, got more. Count each vote once.")
    log_capital, length, scale, error, masses, first, second, centres = broadcast(
        log_capital=log_capital[..., None],
        length=length[..., None],
        scale=scale[..., None],
        error=error[..., None],
        masses=masses,
        trials_of_the_first_half=first,
        trials_of_the_second_half=second,
        centres=centres,
    )
    shape, n_strata = masses.shape[:-1], check_strata(masses)
    counts = with_values("counts", counts, masses, levels)
    shares = share_limits(counts, centres, SHARE_OF_SHARES * level / n_strata, values)
    far, limits = by_distance(shares, centres, levels)
    start = np.sum(masses * mean_limit(limits, centres, levels), axis=-1)
    log_capital, length, scale, error = (a[..., 0] for a in (log_capital, length, scale, error))
    weights, bets = (np.divide(masses, n, out=np.zeros(masses.shape), where=n > 0) for n in (first, second))
    usable = np.all((masses == 0.0) | ((first > 0) & (second > 0)), axis=-1) & (log_capital > -np.inf)
    usable &= np.max((scale * length)[..., None] * bets * far[..., 0] * top, axis=-1) < 0.999
    log_term = -np.log((1.0 - SHARE_OF_SHARES) * level)
    known = log_term - np.where(usable, log_capital, 0.0) + scale * length * _bias(top) * np.sum(masses, axis=-1)
    known = known + 1e-12 * (1.0 + np.abs(known))
    found = _largest_kept(known, scale, error, start, first, weights, _proxies(limits, far, centres))
    return round_up(np.where(usable, found, start)).reshape(shape)[()]


def crossfit_scale(
    gradient: ArrayLike,
    masses: ArrayLike,
    trials: tuple[ArrayLike, ArrayLike],
    *,
    shares: ArrayLike,
    centres: ArrayLike,
    n_features: int,
    alpha: float,
    values: Sequence[float] = (0.0, 1.0),
    clip: float = CLIP,
) -> tuple[FloatArray, FloatArray]:
    """Return the scale that makes the limit of `crossfit_gradient_upper` smallest if all is as expected, and the limit.

    Parameters
    ----------
    gradient : array-like of shape (...)
        Norm to expect.
    masses, centres : array-like of shape (..., n_strata)
    trials : pair of array-like, shape (..., n_strata)
        Samples to expect in both halves.
    shares : array-like of shape (..., n_strata, n_values)
        Expected share of each value of `f`.
    n_features : int
        Dimension of `Z`.
    alpha : float
    values : sequence of float
    clip : float, default=4

    Returns
    -------
    scale, limit : ndarray of shape (...)

    Examples
    --------
    >>> from smoothcert.confidence import crossfit_scale
    >>> scale, limit = crossfit_scale(
    ...     0.015, [1.0], ([50_000], [50_000]), shares=[[0.03, 0.97]], centres=[0.97], n_features=3071, alpha=0.0002
    ... )
    >>> float(limit.round(3))
    0.021
    """
    level, levels, top = one_level(alpha), check_values(values), _check_clip(clip)
    dimension = one_dimension(n_features)
    gradient, shares = check_interval("gradient", gradient, lower=0.0), check_probability("shares", shares)
    halves = _two_halves(trials)
    gradient, masses, first, second, centres = broadcast(
        gradient=gradient[..., None],
        masses=check_interval("masses", masses, lower=0.0, upper=1e6),
        trials_of_the_first_half=np.maximum(check_interval("trials", halves[0], lower=0.0), 1.0),
        trials_of_the_second_half=np.maximum(check_interval("trials", halves[1], lower=0.0), 1.0),
        centres=check_probability("centres", centres),
    )
    check_strata(masses)
    gradient = gradient[..., 0]
    shares = with_values("shares", shares, masses, levels)
    far, limits = by_distance(expected_limits(shares, centres, levels, first + second, level), centres, levels)
    start = np.sum(masses * mean_limit(limits, centres, levels), axis=-1)
    variance = np.sum(shares * np.square(levels - centres[..., None]), axis=-1)
    spread_first, spread_second = (np.sum(np.square(masses) / n * variance, axis=-1) for n in (first, second))
    length_sq = np.square(gradient) + dimension * spread_first
    log_term = -np.log((1.0 - SHARE_OF_SHARES) * level)
    proxies = _proxies(limits, far, centres)
    along = np.sum(np.square(masses) / first * proxies(0.0 * centres), axis=-1)
    usual = np.sqrt(2.0 * log_term / np.maximum(length_sq * spread_second + np.square(gradient) * along, 1e-300))
    widest = np.max(masses / second * far[..., 0], axis=-1) * np.sqrt(length_sq) * top
    usual = np.minimum(usual, _LARGEST_STAKE / np.maximum(widest, 1e-300))

    def expected(scale: FloatArray) -> FloatArray:
        known = log_term + scale * np.square(gradient) + 0.5 * np.square(scale) * length_sq * spread_second
        known = known + scale * np.sqrt(length_sq) * _bias(top) * np.sum(masses, axis=-1)
        return _largest_kept(known, scale, 0.0 * scale, start, first, masses / first, proxies, rounds=_N_PLANNED)

    return best_of_grid(expected, usual)


def one_level(alpha: float) -> float:
    """Require an error probability that is one number."""
    level = check_level("alpha", alpha)
    if level.ndim:
        raise ValueError(f"alpha must be one number, got {alpha!r}.")
    return float(level)


def one_dimension(n_features: int) -> float:
    """Require a dimension that is one number."""
    dimension = check_counts("n_features", n_features, least=1)
    if dimension.ndim:
        raise ValueError(f"n_features must be one number, got {n_features!r}.")
    return float(dimension)


def check_strata(masses: FloatArray) -> int:
    """Return the number of strata, if there are any."""
    if not masses.ndim or 0 in masses.shape:
        raise ValueError(f"masses, trials and centres must have an entry for each stratum, got shape {masses.shape}.")
    return int(masses.shape[-1])


def with_values(name: str, of_values: FloatArray, masses: FloatArray, values: FloatArray) -> FloatArray:
    """Return an array with an axis for the values of `f` behind that of the strata."""
    shape = (*masses.shape, len(values))
    try:
        return np.broadcast_to(of_values, shape)
    except ValueError as error:
        raise ValueError(
            f"{name} must have axes for the strata and for the {len(values)} values, got shape {of_values.shape} "
            f"where {shape} is needed."
        ) from error


def _two_halves(trials: tuple[ArrayLike, ArrayLike]) -> tuple[ArrayLike, ArrayLike]:
    try:
        first, second = trials
    except (TypeError, ValueError) as error:
        raise ValueError(f"trials must be a pair, those of both halves, got {trials!r}.") from error
    return first, second


def expected_limits(
    shares: FloatArray, centres: FloatArray, values: FloatArray, trials: FloatArray, level: float
) -> FloatArray:
    """Return the limits of shares to expect from this many trials, for planning."""
    counts = np.rint(shares * trials[..., None])
    return share_limits(counts, centres, SHARE_OF_SHARES * level / centres.shape[-1], tuple(values))


def best_of_grid(expected: Callable[[FloatArray], FloatArray], usual: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the best of some scales around the usual one and below, and what is expected of it."""
    best, scale = np.full(usual.shape, np.inf), usual
    for factor in np.geomspace(1.0, 0.2, 6):
        limit = expected(factor * usual)
        better: BoolArray = limit < best
        best, scale = np.where(better, limit, best), np.where(better, factor * usual, scale)
    return scale[()], best[()]


def _proxies(limits: FloatArray, far: FloatArray, centres: FloatArray) -> Callable[[FloatArray], FloatArray]:
    return lambda exponent: local_proxy(limits, exponent, far, centres)


def _largest_kept(
    known: FloatArray,
    scale: FloatArray,
    error: FloatArray,
    start: FloatArray,
    trials: FloatArray,
    weights: FloatArray,
    proxies: Callable[[FloatArray], FloatArray],
    rounds: int = _N_ROUNDS,
) -> FloatArray:
    """Return an upper bound of all `g` up to `start` with
    ``scale g^2 < known + scale g error + sum trials F(scale weights g)``.

    As `F` rises, every such `g` below some number satisfies the inequality with that number on the right side, which
    bounds it again.
    """
    up, going = start, np.ones(start.shape, dtype=bool)
    for _ in range(rounds):
        exponent = scale[..., None] * weights * up[..., None]
        spread = 0.5 * np.sum(trials * np.square(exponent) * proxies(exponent), axis=-1) * (1.0 + SAFETY)
        square: FloatArray = (known + spread) / scale + up * error
        new: FloatArray = np.minimum(up, np.sqrt(np.maximum(square, 0.0)))
        # Each row stops by itself: a limit must not depend on the company of others.
        going, up = going & (new < up * (1.0 - 1e-9)), np.where(going, new, up)
        if not np.any(going):
            break
    return up


def _bias(clip: float) -> float:
    """Return what clipping may take from the mean of a projection times a vote; rounded up."""
    return 1.001 * float(density(np.asarray(clip)) - clip * ndtr(-clip))


def _check_clip(clip: float) -> float:
    return float(check_interval("clip", clip, lower=1.0, upper=30.0, cure="4 is usual."))
