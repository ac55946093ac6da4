"""Dipole: how often both ends of an antithetic pair hit the class (Levine et al. 2021, Theorem 3).

The worst classifier is a symmetric slab, which carries all pairs with two hits, and a half-space beyond it, which
carries the pairs with one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import density, interval_mass, is_short, last_safe_point, round_down, round_up
from .._validation import FloatArray, apply_flat, broadcast, check_probability, check_radius
from ._second_order import Slab, short_slab_loss

_SUM_TOLERANCE = 1e-12
"""Probabilities that were computed as shares may exceed one by a few roundings of 1e-16; whoever mixes up one
orientation and two exceeds it by far more. What is forgiven is taken off `one_sided`, which certifies less."""

_NEWTON_STEPS = 5
"""Right digits double with each step, so that five reach the 16 of a double from a start right to half a digit. What
they give is a guess that is checked: time depends on their number, validity does not."""

_PLANE_ROUNDING = 1e-14
"""The terms of a plane's value are of order one and right to a few roundings of 1e-16; this is taken off."""


def dipole_lower_bound(both: ArrayLike, one_sided: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the smallest probability the class can have at distance `r`, knowing how antithetic pairs vote.

    Parameters
    ----------
    both : array-like
        Probability that both ``x + noise`` and ``x - noise`` are voted into the class (or a lower limit on it).
    one_sided : array-like
        Probability that ``x + noise`` is and ``x - noise`` is not (or a lower limit on it). The two together are the
        probability of the class; ``both + 2 * one_sided`` is at most 1.
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        Theorem 3 of the reference, rounded down.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021.

    Examples
    --------
    >>> from smoothcert.bounds import dipole_lower_bound
    >>> dipole_lower_bound([0.8, 0.7, 0.6], [0.0, 0.1, 0.2], 1.0).round(4)
    array([0.5996, 0.5049, 0.4371])
    """
    both, one_sided, r = broadcast(
        both=check_probability("both", both),
        one_sided=check_probability("one_sided", one_sided),
        r=check_radius("r", r),
    )
    both, one_sided = check_pair_probabilities(both, one_sided)
    return round_down(apply_flat(_lower_bound, both, one_sided, r))


def dipole_upper_bound(both: ArrayLike, one_sided: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the largest probability the class can have at distance `r`, knowing how antithetic pairs vote.

    Parameters
    ----------
    both, one_sided : array-like
        Probabilities as in `dipole_lower_bound`.
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        One minus the lower bound for the complement, whose pairs are both outside with probability
        ``1 - both - 2 * one_sided``; rounded up.

    Examples
    --------
    >>> from smoothcert.bounds import dipole_upper_bound
    >>> dipole_upper_bound([0.2, 0.1, 0.0], [0.0, 0.1, 0.2], 1.0).round(4)
    array([0.4004, 0.4951, 0.5629])
    """
    both, one_sided, r = broadcast(
        both=check_probability("both", both),
        one_sided=check_probability("one_sided", one_sided),
        r=check_radius("r", r),
    )
    both, one_sided = check_pair_probabilities(both, one_sided)
    return np.minimum(round_up(apply_flat(_upper_bound, both, one_sided, r)), 1.0)


def dipole_radius(both: ArrayLike, one_sided: ArrayLike) -> FloatArray:
    """Return the distance within which the class keeps more than half of the vote, in units of sigma.

    Parameters
    ----------
    both, one_sided : array-like
        Probabilities as in `dipole_lower_bound` (or lower limits of them).

    Returns
    -------
    ndarray
        Where `dipole_lower_bound` meets 1/2; 0 for ``both + one_sided <= 1/2``, inf for ``both = 1``. Rounded down.

    Examples
    --------
    >>> from smoothcert.bounds import dipole_radius
    >>> dipole_radius([0.8, 0.7, 0.6], [0.0, 0.1, 0.2]).round(4)
    array([1.268 , 1.013 , 0.8416])
    """
    both, one_sided = broadcast(
        both=check_probability("both", both), one_sided=check_probability("one_sided", one_sided)
    )
    both, one_sided = check_pair_probabilities(both, one_sided)
    return apply_flat(_radius, both, one_sided)


def check_pair_probabilities(both: FloatArray, one_sided: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Refuse probabilities no pair can have; forgive rounding by lowering `one_sided`, which certifies less."""
    total = both + 2.0 * one_sided
    if np.any(total > 1.0 + _SUM_TOLERANCE):
        at = int(np.argmax(total))
        raise ValueError(
            "both + 2 * one_sided must be at most 1, got "
            f"both={float(both.ravel()[at])!r} and one_sided={float(one_sided.ravel()[at])!r}. "
            "one_sided is the probability of one orientation only: give half the fraction of pairs with exactly one "
            "hit."
        )
    return both, np.minimum(one_sided, (1.0 - both) / 2.0)


def pair_excess(both: FloatArray, one_sided: FloatArray) -> FloatArray:
    """Return ``both + one_sided - 1/2`` with a single rounding: each first difference below is exact where it
    matters."""
    return np.where(both >= 0.25, (both - 0.5) + one_sided, (one_sided - 0.5) + both)


def pair_loss(half_width: FloatArray, edge: FloatArray, r: FloatArray) -> FloatArray:
    """Return what slab and half-space lose; all three edges go through the numerics at once."""
    left, right, beyond = interval_mass(np.stack([-half_width, half_width, edge]), r)
    loss: FloatArray = right - left
    short = is_short(half_width, r)
    if short.any():
        width, step = half_width[short], r[short]
        slab = Slab(-width, width, 2.0 * width, np.zeros_like(width))
        loss[short] = short_slab_loss(slab, step)
    loss = loss + beyond
    return loss


def _lower_bound(both: FloatArray, one_sided: FloatArray, r: FloatArray) -> FloatArray:
    kept: FloatArray = (both == 1.0).astype(np.float64)
    todo = both < 1.0
    both, one_sided, r = both[todo], one_sided[todo], r[todo]
    half_width = -ndtri((1.0 - both) / 2.0)
    edge = ndtri(one_sided)
    near = both + one_sided - pair_loss(half_width, edge, r)
    far = interval_mass(half_width - r, 2.0 * half_width) + ndtr(edge - r)
    kept[todo] = np.clip(np.where(is_short(half_width, r), near, far), 0.0, 1.0)
    return kept


def _upper_bound(both: FloatArray, one_sided: FloatArray, r: FloatArray) -> FloatArray:
    """Return one minus what the complement keeps, written with the masses outside its slab so that small ones stay
    exact."""
    hit = np.minimum(both + 2.0 * one_sided, 1.0)
    reached = np.zeros_like(hit)
    todo = hit > 0.0
    half_width = -ndtri(hit[todo] / 2.0)
    edge = np.minimum(ndtri(one_sided[todo]), -half_width)
    r = r[todo]
    near = (both + one_sided)[todo] + pair_loss(half_width, edge, r)
    far = ndtr(r - half_width) + (ndtr(-half_width - r) - ndtr(edge - r))
    reached[todo] = np.where(is_short(half_width, r), near, far)
    return reached


def _radius(both: FloatArray, one_sided: FloatArray) -> FloatArray:
    radius = np.where(both == 1.0, np.inf, 0.0)
    todo = (pair_excess(both, one_sided) > 0.0) & (both < 1.0)
    both, one_sided = both[todo], one_sided[todo]
    radius[todo] = round_down(distance_to_margin(both, one_sided, np.zeros_like(both)))
    return radius


def distance_to_margin(both: FloatArray, one_sided: FloatArray, margin: FloatArray) -> FloatArray:
    """Return where the bound has fallen to `margin` above 1/2, for ``both < 1``; not beyond, but for rounding."""
    excess = pair_excess(both, one_sided) - margin
    half_width, edge = -ndtri((1.0 - both) / 2.0), ndtri(one_sided)

    def left(r: FloatArray, excess: FloatArray, half_width: FloatArray, edge: FloatArray) -> FloatArray:
        return excess - pair_loss(half_width, edge, r)

    # Beyond this distance the slab and the half-space keep less than a quarter each.
    high = half_width + 0.7
    guess = _guess_distance(half_width, edge, 0.5 + margin, high)
    return last_safe_point(left, np.zeros_like(high), high, excess, half_width, edge, guess=guess)


def _guess_distance(
    half_width: FloatArray, edge: FloatArray, kept: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a narrow bracket around the distance at which `kept` is left, by Newton's method."""
    r = high / 2.0
    with np.errstate(all="ignore"):
        for _ in range(_NEWTON_STEPS):
            ends = np.stack([half_width - r, -half_width - r, edge - r])
            (slab, below, beyond), (fast, slow, more) = ndtr(ends), density(ends)
            speed = fast - slow + more
            r = np.clip(r + (slab - below + beyond - kept) / speed, 0.0, high)
        doubt = 1e-15 * r + 4e-16 / speed
    return r - doubt, r + doubt


def dipole_plane(both: FloatArray, one_sided: FloatArray, r: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the tangent plane of the lower bound at distance `r`: its excess over 1/2, rounded down, and its slopes.

    The bound is a convex function of the two probabilities, so it is nowhere below the plane.
    """
    excess, slope_both, slope_one = np.full_like(both, 0.5), np.full_like(both, np.inf), np.zeros_like(both)
    todo = both < 1.0
    both, one_sided, r = both[todo], one_sided[todo], r[todo]
    half_width, edge = -ndtri((1.0 - both) / 2.0), ndtri(one_sided)
    excess[todo] = pair_excess(both, one_sided) - pair_loss(half_width, edge, r) - _PLANE_ROUNDING
    with np.errstate(over="ignore"):
        shrink = np.exp(-0.5 * np.square(r))
        slope_both[todo] = shrink * np.cosh(r * half_width)
        slope_one[todo] = np.exp(r * edge - 0.5 * np.square(r))
    return excess, slope_both, slope_one


def most_single_hits(
    hit: FloatArray, r: FloatArray, margin: FloatArray, least: FloatArray, start: FloatArray
) -> FloatArray:
    """Return the largest share of pairs with one hit, among a share `hit` with any, for which the bound at `r` is still
    `margin` above 1/2; minus infinity where even `least` is too much. The search starts at `start`."""

    def left(single: FloatArray, hit: FloatArray, r: FloatArray, margin: FloatArray) -> FloatArray:
        both, one_sided = hit - single, single / 2.0
        loss = pair_loss(-ndtri((1.0 - both) / 2.0), ndtri(one_sided), r)
        return pair_excess(both, one_sided) - loss - margin

    most = hit * (1.0 - 1e-13)
    guess = _guess_single_hits(hit, r, 0.5 + margin, np.clip(start, least, most), least, most)
    single = last_safe_point(left, least, most, hit, r, margin, guess=guess)
    return np.where((single > least) | (left(least, hit, r, margin) >= 0.0), single, -np.inf)


def enough_single_hits(
    hit: FloatArray, r: FloatArray, margin: FloatArray, start: FloatArray, slack: FloatArray
) -> FloatArray:
    """Return the share of pairs with one hit at or above `most_single_hits`, by about `slack`; checked, and faster to
    find."""
    least, most = np.where(hit == 1.0, 1e-15, 0.0), hit * (1.0 - 1e-13)
    near, far = _guess_single_hits(hit, r, 0.5 + margin, np.clip(start, least, most), least, most)
    single = np.fmin(np.fmax(0.5 * (near + far), 0.0) + slack, hit)
    both, one_sided = hit - single, single / 2.0
    loss = pair_loss(-ndtri((1.0 - both) / 2.0), ndtri(one_sided), r)
    # At the root the bound falls with the pairs with one hit, so a value below the margin means the root is passed.
    wrong = ~((pair_excess(both, one_sided) - loss < margin) | (single >= hit))
    if wrong.any():
        exact = most_single_hits(hit[wrong], r[wrong], margin[wrong], least[wrong], start[wrong])
        single[wrong] = np.fmin(np.fmax(exact, 0.0) + slack[wrong], hit[wrong])
    return single


def _guess_single_hits(
    hit: FloatArray, r: FloatArray, kept: FloatArray, single: FloatArray, least: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a narrow bracket around the share at which `kept` is left, by Newton's method."""
    with np.errstate(all="ignore"):
        shrink = np.exp(-0.5 * r * r)
        for _ in range(_NEWTON_STEPS):
            half_width, edge = -ndtri((1.0 - hit + single) / 2.0), ndtri(single / 2.0)
            slab, below, beyond = ndtr(np.stack([half_width - r, -half_width - r, edge - r]))
            slope = shrink * (0.5 * np.exp(edge * r) - np.cosh(half_width * r))
            single = np.clip(single - (slab - below + beyond - kept) / slope, least, most)
        doubt = 1e-15 - 4e-16 / slope
    return single - doubt, single + doubt
