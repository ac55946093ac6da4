"""Second order: probability and gradient norm together (Levine et al. 2021, Theorem 1).

The worst classifier for a given probability and gradient norm is a slab ``u <= z <= v`` across the direction of attack.
With the masses left outside it written as ``a = (1-p) t`` below and ``b = (1-p)(1-t)`` above, `t` runs from 0 (one
half-space, the largest gradient) to 1/2 (symmetric slab, no gradient).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._numerics import (
    NODES,
    density,
    integrate,
    interval_mass,
    is_short,
    last_safe_point,
    quantile,
    round_down,
    round_up,
)
from .._validation import FloatArray, apply_flat, broadcast, check_grad_norm, check_probability, check_radius
from ._first_order import first_order_lower_bound, first_order_radius, first_order_upper_bound


class Slab(NamedTuple):
    """A slab across the line of attack and how fast its probability falls at first."""

    lower: FloatArray
    upper: FloatArray
    width: FloatArray
    grad_norm: FloatArray


def second_order_lower_bound(p: ArrayLike, grad_norm: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the smallest probability the class can have at distance `r`, knowing value and gradient norm at the input.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input (or a lower limit of it), in [0, 1].
    grad_norm : array-like
        Sigma times the norm of the gradient of the smoothed probability (or an upper limit of it), at least 0. Values
        above the largest possible one, ``phi(Phi^-1(p))``, mean "unknown" and give the first-order bound.
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        Theorem 1 of the reference, rounded down. Never below the first-order bound.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_lower_bound
    >>> second_order_lower_bound(0.8, [0.0, 0.1, 0.2, 0.3], 1.0).round(4)
    array([0.5996, 0.5289, 0.472 , 0.4371])
    """
    p, grad_norm, r = broadcast(
        p=check_probability("p", p), grad_norm=check_grad_norm("grad_norm", grad_norm), r=check_radius("r", r)
    )
    return apply_flat(_lower_bound, p, grad_norm, r)


def second_order_upper_bound(p: ArrayLike, grad_norm: ArrayLike, r: ArrayLike) -> FloatArray:
    """Return the largest probability the class can have at distance `r`, knowing value and gradient norm at the input.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input (or an upper limit of it), in [0, 1].
    grad_norm : array-like
        Sigma times the norm of the gradient of the smoothed probability (or an upper limit of it).
    r : array-like
        Distance in units of sigma, at least 0.

    Returns
    -------
    ndarray
        One minus the lower bound of the complement (section 3.2 of the reference), rounded up.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_upper_bound
    >>> second_order_upper_bound(0.2, [0.0, 0.1, 0.2, 0.3], 1.0).round(4)
    array([0.4004, 0.4711, 0.528 , 0.5629])
    """
    p, grad_norm, r = broadcast(
        p=check_probability("p", p), grad_norm=check_grad_norm("grad_norm", grad_norm), r=check_radius("r", r)
    )
    return apply_flat(_upper_bound, p, grad_norm, r)


def second_order_radius(p: ArrayLike, grad_norm: ArrayLike) -> FloatArray:
    """Return the distance within which the class keeps more than half of the vote, in units of sigma.

    Parameters
    ----------
    p : array-like
        Probability of the class under noise at the input (or a lower limit of it), in [0, 1].
    grad_norm : array-like
        Sigma times the norm of the gradient of the smoothed probability (or an upper limit of it).

    Returns
    -------
    ndarray
        Where `second_order_lower_bound` meets 1/2; 0 for ``p <= 1/2``, inf for ``p = 1``. Rounded down.

    Examples
    --------
    >>> from smoothcert.bounds import second_order_radius
    >>> second_order_radius(0.8, [0.0, 0.1, 0.2, 0.3]).round(4)
    array([1.268 , 1.0752, 0.9289, 0.8416])
    """
    p, grad_norm = broadcast(p=check_probability("p", p), grad_norm=check_grad_norm("grad_norm", grad_norm))
    return apply_flat(_radius, p, grad_norm)


def _lower_bound(p: FloatArray, grad_norm: FloatArray, r: FloatArray) -> FloatArray:
    bound = first_order_lower_bound(p, r)
    todo = (p > 0.0) & (p < 1.0)
    p, r = p[todo], r[todo]
    slab = worst_slab(p, 1.0 - p, grad_norm[todo])
    near = is_short(slab.upper, r)
    kept = np.where(near, p - slab_loss(slab, r), interval_mass(slab.upper - r, slab.width))
    # Never below first order, which is a bound too; where they agree, rounding may put the slab a hair below.
    bound[todo] = np.maximum(bound[todo], round_down(kept))
    return bound


def _upper_bound(p: FloatArray, grad_norm: FloatArray, r: FloatArray) -> FloatArray:
    """Return what is outside the worst slab of the complement, whose own outside is `p`."""
    bound = first_order_upper_bound(p, r)
    todo = (p > 0.0) & (p < 1.0)
    p, r = p[todo], r[todo]
    slab = worst_slab(1.0 - p, p, grad_norm[todo])
    near = is_short(slab.upper, r)
    reached = np.where(near, p + slab_loss(slab, r), ndtr(slab.lower - r) + ndtr(r - slab.upper))
    bound[todo] = np.minimum(bound[todo], round_up(reached))
    return bound


def _radius(p: FloatArray, grad_norm: FloatArray) -> FloatArray:
    radius = first_order_radius(p)
    todo = (p > 0.5) & (p < 1.0)
    p, grad_norm = p[todo], grad_norm[todo]

    def margin(r: FloatArray, excess: FloatArray, *slab: FloatArray) -> FloatArray:
        return excess - slab_loss(Slab(*slab), r)

    # The root lies between the first-order radii of the half-space and of half the rest; the slack is for rounding.
    low = ndtri(p) * (1.0 - 1e-6)
    high = -ndtri((1.0 - p) / 2.0) * (1.0 + 1e-6)
    root = last_safe_point(margin, low, high, p - 0.5, *worst_slab(p, 1.0 - p, grad_norm))
    radius[todo] = np.maximum(radius[todo], round_down(root))
    return radius


def worst_slab(p: FloatArray, outside: FloatArray, grad_norm: FloatArray) -> Slab:
    """Return the edges of the worst slab for value `p`, mass `outside` ``= 1 - p`` and gradient norm `grad_norm`.

    Both masses are asked for so that the caller decides which one is exact.
    """
    # At the largest gradient norm the slab is a half-space; its lower edge is then at minus infinity (t = 0).
    steepest = density(quantile(p, outside))
    # (A subnormal gradient would underflow in the root finder; a larger one certifies less.)
    grad_norm = np.minimum(np.where(grad_norm > 0.0, np.maximum(grad_norm, 1e-200), 0.0), steepest)
    share = np.zeros(p.shape)
    todo = (grad_norm < steepest) & (outside > 0.0) & (p > 0.0)

    def margin(share: FloatArray, p: FloatArray, outside: FloatArray, grad_norm: FloatArray) -> FloatArray:
        lower, upper, width = slab_edges(p, outside, share)
        with np.errstate(invalid="ignore"):
            near = density(lower) * np.expm1(-width * (lower + 0.5 * width))
        return np.where(width < 0.5, near, density(upper) - density(lower)) - grad_norm

    if np.any(todo):
        mass, rest, norm = args = (p[todo], outside[todo], grad_norm[todo])
        zero = np.zeros_like(mass)
        found = last_safe_point(margin, zero, zero + 0.5, *args)
        # A smaller share means a larger gradient, which certifies less: step back by the rounding of the margin, whose
        # derivative in the share is -(1 - p) times the width.
        _, upper, width = slab_edges(mass, rest, found)
        rounding = 16.0 * np.finfo(np.float64).eps * np.where(width < 0.5, norm, density(upper))
        share[todo] = np.maximum(found * (1.0 - 1e-15) - rounding / (rest * width), 0.0)
    return Slab(*slab_edges(p, outside, share), grad_norm)


def slab_loss(slab: Slab, r: FloatArray) -> FloatArray:
    """Return what a slab loses of its mass when the input moves by `r`, with small relative error."""
    lower, upper = slab.lower, slab.upper
    loss = np.asarray(interval_mass(upper, r) - interval_mass(lower, r))
    short = is_short(lower, r) & is_short(upper, r)
    if np.any(short):
        *some, step = (np.broadcast_to(a, loss.shape)[short] for a in (*slab, r))
        loss[short] = short_slab_loss(Slab(*some), step)
    return loss


def short_slab_loss(slab: Slab, r: FloatArray) -> FloatArray:
    """Return the same for short moves: the integral of ``exp(u s - s^2/2) (G + phi(v) expm1((v-u) s))`` over the way
    `s`.

    No difference of nearly equal numbers, and the gradient norm itself is the first term.
    """
    u, v, w, g, step = (a[..., None] for a in (*slab, r))
    s = step * NODES
    speed = np.exp(u * s - 0.5 * s * s) * (g + density(v) * np.expm1(w * s))
    return r * integrate(speed)


def slab_edges(p: FloatArray, outside: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return both edges of a slab and its width, which is kept precise on its own for thin slabs."""
    below = outside * share
    above = outside * (1.0 - share)
    lower, upper = quantile(below, p + above), quantile(p + below, above)
    with np.errstate(invalid="ignore"):
        width = np.array(np.where(np.isinf(lower) & np.isinf(upper), np.inf, upper - lower))
    thin = (p > 0.0) & (p < 0.25) & np.isfinite(lower)
    if np.any(thin):
        mass, edge, w = p[thin], lower[thin], width[thin]
        for _ in range(2):
            w = np.maximum(w + (mass - interval_mass(edge + w, w)) / density(edge + w), 0.0)
        width[thin] = w
        upper = np.array(upper)
        upper[thin] = edge + w
    return lower, upper, width
