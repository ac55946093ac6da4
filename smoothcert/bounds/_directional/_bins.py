"""Multipliers of single bins of the directional certificate, at a given slope.

A bin stands for two values of `w`, a lower and an upper one (`ChordEnds`). At multiplier `nu` the line ``nu + k z``
cuts an interval out of each curve ``w exp(across z - across^2 / 2)``, or misses it: the lower curve is cut first.
Outside of the intervals lie the misses of the worst case, and `nu` is right where they have the share that the bin has.
As the line rises, that share falls: smoothly, but for the two moments when the line begins to cut a curve, where it
falls like the square root of what the line has risen. So the unknown is not `nu` but how far one end of the interval is
from the point where the line touched the curve: of the upper curve if that is cut, else of the lower one. Of the two
ends it is the one nearer to the bulk of the noise. In that unknown the share falls smoothly, like a normal distribution
function.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from ..._numerics import density
from ..._validation import BoolArray, FloatArray, IndexArray
from ._integral import ChordEnds, InnerIntegral, RoughIntegral, inner_integral, tangent_roots

# All of these are about how fast good multipliers are found. The bound is valid for any multipliers.

_LEAST_DISTANCE = 1e-3
"""Distances from a touching point, where nothing has a derivative, are kept at least this large, in units of sigma."""

_FIRST_DISTANCE = 0.05
"""Where to start if a half-space with the share of the bin would not cut the upper curve: close to its touching point,
but well away from the least distance."""

_LEAST_SHARE = 1e-12
"""Shares are clipped by this before their normal quantiles are taken, which then are at most about 7."""

_PROBIT_BELOW = 0.4
"""Shares of misses above this fall nearly linearly with the distance, those below like a normal tail."""


class Bins(NamedTuple):
    """Bins of independent problems along the leading axis.

    Attributes
    ----------
    ends : Ends
        The lower value of `w` first.
    misses : ndarray of shape (n_problems, n_bins)
        Shares of misses.
    ridge : ndarray of shape (n_problems, n_bins)
        Shares that a unit of the multiplier costs.
    tilt : ndarray of shape (n_problems, n_bins)
        Factors of the slope.
    across : ndarray of shape (n_problems,)
    opening : ndarray of shape (2, n_problems, n_bins)
        How far the ends of the lower curve's interval are from its touching point when the upper curve is touched.
    """

    ends: ChordEnds
    misses: FloatArray
    ridge: FloatArray
    tilt: FloatArray
    across: FloatArray
    opening: FloatArray

    @classmethod
    def from_ends(
        cls, ends: ChordEnds, across: FloatArray, misses: FloatArray, ridge: FloatArray, tilt: FloatArray
    ) -> Bins:
        sorted_already = ends.log_w[0] <= ends.log_w[1]
        log_w, weight = (np.where(sorted_already, part, part[::-1]) for part in ends[1:])
        # Where both are the same, weights can be chosen, and none should be zero.
        weight = np.where(log_w[0] == log_w[1], ends.mass / 2.0, weight)
        opening = np.abs(tangent_roots(log_w[1] - log_w[0])) / across[:, None]
        return cls(ChordEnds(ends.mass, log_w, weight), misses, ridge, tilt, across, opening)

    def take(self, rows: BoolArray) -> Bins:
        ends = ChordEnds(self.ends.mass, self.ends.log_w[:, rows], self.ends.weight[:, rows])
        misses, ridge, tilt, across = (part[rows] for part in self[1:5])
        return Bins(ends, misses, ridge, tilt, across, self.opening[:, rows])


class WarmStart(NamedTuple):
    """Where solutions were, to start from with other slopes: whether the upper curve is cut, and the deciding end of
    the interval, counted so that half-spaces of a given share end at the same place."""

    upper: BoolArray
    end: FloatArray

    def take(self, rows: BoolArray) -> WarmStart:
        return WarmStart(self.upper[rows], self.end[rows])

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> WarmStart:
        return cls(np.zeros(shape, dtype=bool), np.zeros(shape))

    def between(self, before: IndexArray, after: IndexArray, way: FloatArray) -> WarmStart:
        """Return starts at parts of the way between solutions along the axis before the last; where these are on
        different curves, at the nearer one. One problem after the other."""
        upper, ends = (self.upper[:, before], self.upper[:, after]), (self.end[:, before], self.end[:, after])
        way = np.where(upper[0] == upper[1], way[:, None], np.rint(way)[:, None])
        end = ends[0] + way * (ends[1] - ends[0])
        n_bins = end.shape[-1]
        return WarmStart(np.where(way > 0.5, upper[1], upper[0]).reshape(-1, n_bins), end.reshape(-1, n_bins))


def solve_bins(
    bins: Bins, k: FloatArray, n_steps: int, start: WarmStart | None
) -> tuple[FloatArray, InnerIntegral, WarmStart]:
    """Return, for given slopes, the multipliers at which worst cases have the shares that the bins have, by `n_steps`
    safe Newton steps; with the integrals there."""
    across, slope = bins.across[:, None], k[:, None] * bins.tilt
    log_w, step = bins.ends.log_w, bins.ends.log_w[1] - bins.ends.log_w[0]
    weight, mass = np.broadcast_arrays(bins.ends.weight, bins.ends.mass)
    share = np.divide(weight, mass, out=np.full(weight.shape, 0.5), where=mass > 0.0)
    scale = slope / across
    log_scale = np.log(scale)
    touch = (log_scale - log_w) / across + across / 2.0
    # Distances are counted towards the bulk of the noise, and so are ends of intervals.
    side = np.where(touch > 0.0, -1.0, 1.0)
    touch = side * touch
    # One number for both curves: distances on the upper one, and, below zero, what is lacking on the lower one.
    kink = np.where(side[0] < 0.0, bins.opening[0], bins.opening[1])
    base = scale * (1.0 - log_scale - across**2 / 2.0 + log_w[1])
    if start is None:
        wanted = -ndtri(np.clip(bins.misses, _LEAST_SHARE, 1.0 - _LEAST_SHARE))
        distance = np.maximum(wanted - touch[1], _FIRST_DISTANCE)
    else:
        on_lower = np.minimum(start.end - touch[0] - kink, -_LEAST_DISTANCE)
        distance = _away(np.where(start.upper, np.maximum(start.end - touch[1], 0.0), on_lower), kink)
    # The noise ends at nine or so; where the other end of an interval is slower, the deciding one must go further.
    other = np.exp(np.minimum(9.0 * across, 30.0)) / across
    least, most = -kink, np.where(side[1] < 0.0, np.maximum(other, 9.0 - touch[1]), 9.0 - touch[1])
    distance = np.minimum(distance, most)
    for _ in range(n_steps + 1):
        upper = distance >= 0.0
        t = across * np.where(upper, distance, distance + kink)
        t = np.minimum(np.where(upper, side[1], side[0]) * t, 300.0)
        growth = np.expm1(t)
        nu = base + scale * (growth - t - np.where(upper, 0.0, step))
        inner = inner_integral(log_w, nu, slope, across, kind=RoughIntegral)
        missed = inner.missed
        allowed = bins.misses + bins.ridge * nu
        excess = share[0] * missed[0] + share[1] * missed[1] - allowed
        too_far = excess < 0.0
        least, most = np.where(too_far, least, distance), np.where(too_far, distance, most)
        newton = _newton(bins, share, inner, missed, allowed, excess, upper, slope * np.abs(growth))
        ahead = distance + newton
        crossing = np.where(upper, too_far & (ahead < _LEAST_DISTANCE), ~too_far & (ahead > -_LEAST_DISTANCE))
        crossing &= kink > _LEAST_DISTANCE
        if np.any(crossing):
            ahead[crossing] = _other_side(share, missed, allowed, upper, touch, kink, crossing)
        inside = ((ahead > least) & (ahead < most)) | (ahead == distance)
        distance = _away(np.where(inside, ahead, (least + most) / 2.0), kink)
    # The last step is for the next slope.
    upper = distance >= 0.0
    end = np.where(upper, distance + touch[1], distance + kink + touch[0])
    return nu, inner, WarmStart(upper, end)


def _away(distance: FloatArray, kink: FloatArray) -> FloatArray:
    """Return the distances at which a curve is cut and not just touched, where nothing has a derivative."""
    return np.maximum(distance, np.where(distance >= 0.0, _LEAST_DISTANCE, _LEAST_DISTANCE - kink))


def _newton(
    bins: Bins,
    share: FloatArray,
    inner: InnerIntegral,
    missed: FloatArray,
    allowed: FloatArray,
    excess: FloatArray,
    upper: BoolArray,
    rise: FloatArray,
) -> FloatArray:
    """Return Newton's step in the distance; `rise` is how fast `nu` grows with it."""
    own, of_all = np.where(upper, missed[1], missed[0]), np.where(upper, share[1], share[0])
    rate = np.sum(share * (inner.rate[0] + inner.rate[1]), axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        target = own - excess / of_all
        # The upper curve is missed more often than the lower one.
        target = np.where(upper, np.clip(target, allowed, allowed / share[1]), target)
        held, wanted = _tail_quantile(own), _tail_quantile(target)
        # Far out in the tail the ridge would hide how fast the share comes back.
        fall = (rate + np.where((np.abs(held) < 3.0) | (allowed > 1.0), bins.ridge, 0.0)) * rise
        linear = (own > _PROBIT_BELOW) | (allowed > 1.0)
        step = np.where(linear, excess, (wanted - held) * density(held) * of_all) / fall
    # Nothing is to be learnt where nothing is missed.
    return np.where((own > _LEAST_SHARE) & np.isfinite(step), step, np.inf)


def _tail_quantile(share: FloatArray) -> FloatArray:
    """Return about where the upper tail of the normal law has this share, for shares up to one half; off by up to
    0.003 (Hastings 1955)."""
    t = np.sqrt(-2.0 * np.log(np.clip(share, _LEAST_SHARE, 0.5)))
    about: FloatArray = t - (2.30753 + 0.27061 * t) / (1.0 + t * (0.99229 + 0.04481 * t))
    return about


def _other_side(
    share: FloatArray,
    missed: FloatArray,
    allowed: FloatArray,
    upper: BoolArray,
    touch: FloatArray,
    kink: FloatArray,
    crossing: BoolArray,
) -> FloatArray:
    """Return where to go on when the solution turns out to be on the other curve: where a half-space would end."""
    share, missed, touch = share[:, crossing], missed[:, crossing], touch[:, crossing]
    allowed, upper, kink = allowed[crossing], upper[crossing], kink[crossing]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_lower = (allowed - share[1]) / share[0]
        of_upper = np.clip((allowed - share[0] * missed[0]) / share[1], allowed, allowed / share[1])
    end = -ndtri(np.clip(np.where(upper, of_lower, of_upper), _LEAST_SHARE, 1.0 - _LEAST_SHARE))
    on_lower = np.minimum(end - touch[0], kink - _LEAST_DISTANCE) - kink
    there: FloatArray = np.where(upper, on_lower, np.maximum(end - touch[1], _LEAST_DISTANCE))
    return there
