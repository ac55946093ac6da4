"""Gaussian tails without cancellation, and roots that end on the safe side.

Everything here is elementwise on float64 arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from ._validation import BoolArray, FloatArray

SAFETY = 1e-11
"""Relative step by which published numbers are moved to the side that promises less.

Evaluation is accurate to about 1e-14 (the tests hold it against 50 digits), so a thousand times that covers the
rounding of every intermediate step and still leaves the results right to ten digits.
"""

_TINY = float(np.finfo(np.float64).tiny)
"""Smallest normal number: the tolerance of a root at zero, where a relative one would never be met."""

_INV_SQRT_2PI = 0.3989422804014326779399460599343819
"""``1 / sqrt(2 pi)``, with more digits than a double holds."""

LARGEST_GRADIENT = _INV_SQRT_2PI
"""No function with values in [0, 1] has a mean of ``Z f`` that is longer: the density of the noise at 0."""

# Gauss-Legendre rule moved to [0, 1]: exact to rounding for the short, smooth integrals below.
_nodes, _weights = np.polynomial.legendre.leggauss(8)
NODES: FloatArray = (1.0 + _nodes) / 2.0
_WEIGHTS = [float(weight) for weight in _weights / 2.0]


def integrate(values: FloatArray) -> FloatArray:
    """Return the integral over [0, 1] of a function with these values at `NODES`, the last axis.

    Added one after the other: a product of matrices rounds differently for different numbers of rows, and the radius of
    an input must not depend on its company.
    """
    total = values[..., 0] * _WEIGHTS[0]
    for place, weight in enumerate(_WEIGHTS[1:], start=1):
        total = total + values[..., place] * weight
    return total


def round_down(value: FloatArray) -> FloatArray:
    """Move non-negative numbers towards zero by `SAFETY`."""
    return value * (1.0 - SAFETY)


def round_up(value: FloatArray) -> FloatArray:
    """Move non-negative numbers away from zero by `SAFETY`."""
    return value * (1.0 + SAFETY)


def density(x: FloatArray) -> FloatArray:
    """Return the standard normal density."""
    return _INV_SQRT_2PI * np.exp(-0.5 * np.square(x))


def interval_mass(right: FloatArray, width: FloatArray) -> FloatArray:
    """Return the normal mass of ``[right - width, right]`` with small relative error.

    The interval is given by its end and its width because ``right - width`` forgets a tiny width.
    """
    left = right - width
    with np.errstate(invalid="ignore"):
        above = left + right > 0.0
    # On the upper side it is the mirror image that keeps its precision.
    mass: FloatArray = ndtr(np.where(above, -left, right)) - ndtr(np.where(above, -right, left))
    narrow = is_short(right, width)
    if narrow.any():
        mass = np.asarray(mass)
        end, length = (np.broadcast_to(a, mass.shape)[narrow] for a in (right, width))
        points = end[..., None] - length[..., None] * NODES
        mass[narrow] = length * integrate(density(points))
    return mass


def is_short(x: FloatArray, step: FloatArray) -> BoolArray:
    """Return where the fixed quadrature rule over ``[x - step, x]`` is exact to rounding, and differences are not."""
    with np.errstate(invalid="ignore", over="ignore"):
        short: BoolArray = np.isfinite(x) & (step * (1.0 + np.abs(x)) < 1.0)
    return short


def quantile(mass_below: FloatArray, mass_above: FloatArray) -> FloatArray:
    """Return the normal quantile from both tail masses, taken from the smaller one, which has the better relative
    precision."""
    z: FloatArray = np.where(mass_below < mass_above, ndtri(mass_below), -ndtri(mass_above))
    return z


def probit_difference(high: FloatArray, low: FloatArray) -> FloatArray:
    """Return ``ndtri(high) - ndtri(low)`` for ``high >= low`` without cancellation when the two are close."""
    high, low = np.broadcast_arrays(high, low)
    gap = high - low
    difference = np.array(ndtri(high) - ndtri(low))
    near = gap < 0.05 * np.minimum(low, 1.0 - high)
    if np.any(near):
        points = low[near][..., None] + gap[near][..., None] * NODES
        difference[near] = gap[near] * integrate(1.0 / density(ndtri(points)))
    return difference


def expm1_minus(x: FloatArray) -> FloatArray:
    """Return ``exp(x) - 1 - x`` without cancellation near zero."""
    with np.errstate(over="ignore"):
        value = np.expm1(x) - x
    small = np.abs(x) < 0.02
    series = 1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0 * (1.0 + x / 8.0)))))
    return np.where(small, 0.5 * x * x * np.where(small, series, 1.0), value)


def log1p_minus(x: FloatArray) -> FloatArray:
    """Return ``log(1 + x) - x`` without cancellation near zero."""
    small = np.abs(x) < 0.01
    s = np.where(small, x, 0.0)
    series = -s * s * (1 / 2 - s * (1 / 3 - s * (1 / 4 - s * (1 / 5 - s * (1 / 6 - s * (1 / 7 - s / 8))))))
    return np.where(small, series, np.log1p(x) - x)


def exp_tangent_roots(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the two roots ``t_low <= 0 <= t_high`` of ``exp(t) - 1 - t = gap`` for ``gap >= 0``.

    A line above its tangent to the exponential by `gap` cuts it there. With ``y = exp(t)`` this is the equation
    ``y - log(y) = 1 + gap``.
    """
    s = np.sqrt(2.0 * gap)
    log_gap = np.log1p(gap)
    roots = []
    for sign in (-1.0, 1.0):
        e = sign * np.minimum(s, 1.0)
        # Expansion of the root in the square root of twice the gap.
        series = e * (1.0 + e * (-1 / 6 + e * (1 / 36 + e * (-1 / 270 + e * (1 / 4320 + e / 17010)))))
        far = -1.0 - gap if sign < 0 else log_gap + np.log1p(log_gap / (1.0 + gap))
        t = np.where(s < 1.0, series, far)
        for _ in range(4):
            slope = np.expm1(t)
            step = np.divide(expm1_minus(t) - gap, slope, out=np.zeros_like(t), where=slope != 0.0)
            # The series is already exact where it is short; Newton would only add rounding there.
            t = np.where(s < 0.01, t, t - step)
        roots.append(t)
    return roots[0], roots[1]


def last_safe_point(
    margin: Callable[..., FloatArray],
    safe: FloatArray,
    unsafe: FloatArray,
    *args: FloatArray,
    rtol: float = 4.0 * float(np.finfo(np.float64).eps),
    guess: tuple[FloatArray, FloatArray] | None = None,
) -> FloatArray:
    """Return the largest point found between `safe` and `unsafe` where a decreasing `margin` is still non-negative.

    All arrays have one dimension. The bracket is closed to `rtol` (by default the last bits) by the method of
    Chandrupatla (1997), and its safe end is returned. Where rounding hides the change of sign, it is `unsafe` if the
    margin is non-negative there and `safe` otherwise. A `guess` is a narrower bracket, which saves time where it is
    right and is dropped where it is wrong.
    """
    safe, unsafe = np.array(safe, dtype=np.float64), np.array(unsafe, dtype=np.float64)
    step = np.full(safe.size, 0.5)
    if guess is None:
        at_safe, at_unsafe = _ends(margin, safe, unsafe, args)
    else:
        near, far = (np.clip(end, safe, unsafe) for end in guess)
        at_safe, at_unsafe = _ends(margin, near, far, args)
        right = (at_safe >= 0.0) & (at_unsafe < 0.0)
        safe[right], unsafe[right] = near[right], far[right]
        with np.errstate(all="ignore"):
            step[right] = (at_unsafe / (at_unsafe - at_safe))[right]
        wrong = ~right
        if wrong.any():
            at_safe[wrong], at_unsafe[wrong] = _ends(margin, safe[wrong], unsafe[wrong], [a[wrong] for a in args])
    root = np.where(at_unsafe >= 0.0, unsafe, safe)
    (rows,) = np.nonzero((at_safe >= 0.0) & (at_unsafe < 0.0))
    # `new` is the latest point, `old` the other end of the bracket, `out` the one dropped last.
    state = [a[rows] for a in (unsafe, at_unsafe, safe, at_safe, unsafe, at_unsafe, *args)]
    new, at_new, old, at_old, *_ = state
    shortest = _shortest_step(new, at_new, old, at_old, rtol)
    step = np.clip(step[rows], shortest, 1.0 - shortest)
    going = shortest < 0.5
    # Near the last bits there are differences of zero; they lead to bisection.
    with np.errstate(all="ignore"):
        while True:
            if not going.all():
                rows, step, state = rows[going], step[going], [a[going] for a in state]
            if not rows.size:
                return root
            new, at_new, old, at_old, out, at_out, *rest = state
            point = new + step * (old - new)
            value = margin(point, *rest)
            stays = (value >= 0.0) == (at_new >= 0.0)
            out, at_out = np.where(stays, new, old), np.where(stays, at_new, at_old)
            old, at_old = np.where(stays, old, new), np.where(stays, at_old, at_new)
            new, at_new = point, value
            root[rows] = np.where(at_new >= 0.0, new, old)
            # Inverse quadratic interpolation where it can be trusted, bisection elsewhere.
            x, y = (new - old) / (out - old), (at_new - at_old) / (at_out - at_old)
            bent = at_new / (at_old - at_new) * at_out / (at_old - at_out)
            bent += (out - new) / (old - new) * at_new / (at_out - at_new) * at_old / (at_out - at_old)
            trusted = (y * y < x) & (np.square(1.0 - y) < 1.0 - x)
            shortest = _shortest_step(new, at_new, old, at_old, rtol)
            step = np.clip(np.where(trusted, bent, 0.5), shortest, 1.0 - shortest)
            state = [new, at_new, old, at_old, out, at_out, *rest]
            going = (shortest < 0.5) & (value != 0.0)


def _ends(
    margin: Callable[..., FloatArray], low: FloatArray, high: FloatArray, args: Sequence[FloatArray]
) -> FloatArray:
    """Return the margin at both ends, in one call."""
    return margin(np.concatenate([low, high]), *(np.concatenate([a, a]) for a in args)).reshape(2, -1)


def _shortest_step(new: FloatArray, at_new: FloatArray, old: FloatArray, at_old: FloatArray, rtol: float) -> FloatArray:
    """Return half the tolerance as a share of the bracket; one half or more when the bracket is closed."""
    better = np.where(np.abs(at_new) < np.abs(at_old), new, old)
    return 0.5 * (rtol * np.abs(better) + _TINY) / np.abs(old - new)
