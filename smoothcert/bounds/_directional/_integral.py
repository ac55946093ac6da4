"""The integral of the directional certificate: a worst case across one direction, averaged along it.

With noise `z1` along the direction and `z2` across it, moving by `along` and `across` multiplies the density by
``w(z1) exp(across z2 - across^2 / 2)``, where ``w = exp(along z1 - along^2 / 2)``. For multipliers `nu`, constant on
each bin of `z1`, and a slope `k`, the certificate needs the mean of
``J(w) = E min(0, w exp(across z2 - across^2 / 2) - nu - k z2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ..._numerics import density, exp_tangent_roots
from ..._validation import FloatArray

_LOG_ZERO = -600.0
"""Stands for the logarithm of zero; whatever it multiplies vanishes in double precision, and the exponential of its
negative does not overflow."""

# Both roots as functions of the square root `s` of twice the gap, at equal steps: values, first derivatives and halved
# second ones. The third derivatives are at most 1/6, so that half a step away roots are off by at most 1.2e-9, which
# changes the integral by about the square of that. Beyond the end the gap is at least 98: the exponential of the lower
# root vanishes beside it, and the upper root is found by iteration.
_TABLE_END, _TABLE_STEPS = 14.0, 2**11
_TICKS = _TABLE_STEPS / _TABLE_END


def _table() -> tuple[FloatArray, FloatArray, FloatArray]:
    s = np.arange(_TABLE_STEPS + 1) / _TICKS
    roots = np.array(exp_tangent_roots(np.square(s) / 2.0))
    rise = np.expm1(roots[:, 1:])
    first, second = np.array([[-1.0], [1.0]]), np.full((2, 1), -1.0 / 3.0)
    first = np.concatenate([first, s[1:] / rise], axis=1)
    second = np.concatenate([second, (1.0 - np.square(first[:, 1:]) * (1.0 + rise)) / rise], axis=1)
    return roots, first, second / 2.0


_ROOTS, _FIRST, _HALF_SECOND = _table()


class ChordEnds(NamedTuple):
    """Each bin replaced by two values of `w` and their weights, such that means of concave functions do not grow.

    A concave function lies above its chord, so its mean over a bin is at least the chord at the mean of `w`. Where `w`
    goes to zero the chord starts there; where it is unbounded, `J`, which does not fall, is at least its value at the
    bounded end.
    """

    mass: FloatArray  # (n_bins,)
    log_w: FloatArray  # (2, ..., n_bins)
    weight: FloatArray  # (2, ..., n_bins)


def bin_masses(edges: FloatArray, shift: FloatArray | float = 0.0) -> FloatArray:
    """Return the normal masses of the bins between and outside of `edges`, moved by `-shift`; shape of `shift` +
    (n_bins,)."""
    moved = edges - np.asarray(shift)[..., None]
    # Each difference from the tail that is smaller.
    tail = ndtr(-np.abs(moved))
    nothing = np.zeros((*moved.shape[:-1], 1))
    tail = np.concatenate([nothing, tail, nothing], axis=-1)
    above = np.concatenate([nothing, moved > 0.0, nothing + 1.0], axis=-1)
    masses = np.abs(np.diff(tail, axis=-1))
    around_zero = np.diff(above, axis=-1) > 0.0
    return np.where(around_zero, 1.0 - tail[..., :-1] - tail[..., 1:], masses)


def chord_ends(edges: FloatArray, along: FloatArray) -> ChordEnds:
    """Return the two-point stand-ins of all bins for displacements `along`."""
    along = np.asarray(along, dtype=np.float64)[..., None]
    mass = bin_masses(edges)
    moved = bin_masses(edges, along[..., 0])  # mass times mean of w
    # Weights below the one that stands for zero are raised to it, which adds less than 1e-260.
    at_edges = np.maximum(along * edges - np.square(along) / 2.0, _LOG_ZERO)
    inside = np.broadcast_to(_LOG_ZERO, (*at_edges.shape[:-1], 1))
    rising, falling = along >= 0.0, along <= 0.0
    low = np.concatenate([np.where(rising, inside, at_edges[..., :1]), at_edges], axis=-1)
    high = np.concatenate([at_edges, np.where(falling, inside, at_edges[..., -1:])], axis=-1)
    # Share of the upper end: w at its mean, between w at the lower end (1 in these units) and at the upper end.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        relative = np.where(low > _LOG_ZERO, np.exp(-low) * moved / mass - 1.0, 0.0)
        share = np.clip(relative / np.expm1(high - low), 0.0, 1.0)
        first = moved[..., :1] / np.exp(at_edges[..., :1]) / mass[..., :1]
        last = moved[..., -1:] / np.exp(at_edges[..., -1:]) / mass[..., -1:]
    # Left over are bins without mass and bins with the same w at both ends, where any share does.
    share = np.where(np.isfinite(share), share, 0.5)
    # Both ends have the same w where `w` is unbounded, so any share does there.
    share[..., :1] = np.where(rising, np.clip(first, 0.0, 1.0), 1.0)
    share[..., -1:] = np.where(falling, 1.0 - np.clip(last, 0.0, 1.0), 0.0)
    # On the side where w vanishes the zero end comes first on the left and second on the right.
    return ChordEnds(mass, np.stack([low, high]), np.stack([(1.0 - share) * mass, share * mass]))


@dataclass(frozen=True)
class InnerIntegral:
    """The parts of `J`: ``J = lifted - nu (1 - missed) - k moment``, and what its derivatives need.

    The integrand is negative between two roots `z`; where it is nowhere negative they are the same. The lower one comes
    first along the leading axis, as in the noise's densities there, `at`, and in the rates at which `missed` falls with
    `nu` there.
    """

    log_w: FloatArray
    across: FloatArray
    z: FloatArray
    at: FloatArray
    rate: FloatArray

    @cached_property
    def missed(self) -> FloatArray:
        below, above = ndtr(_outwards(self.z))
        missed: FloatArray = np.add(below, above, out=below)
        return missed

    @cached_property
    def moment(self) -> FloatArray:
        moment: FloatArray = self.at[0] - self.at[1]
        return moment

    @cached_property
    def lifted(self) -> FloatArray:
        moved = self.z - self.across
        side = np.copysign(1.0, moved[0] + moved[1])
        # Differences from the tail that is smaller.
        moved *= -side
        low, high = ndtr(moved)
        lifted: FloatArray = np.exp(np.maximum(self.log_w, _LOG_ZERO)) * side * (low - high)
        return lifted


class RoughIntegral(InnerIntegral):
    """The same, off by up to 1e-7: good enough to search multipliers with, in a fraction of the time."""

    @cached_property
    def missed(self) -> FloatArray:
        below, above = _rough_tail(_outwards(-self.z), self.at)
        missed: FloatArray = np.add(below, above, out=below)
        return missed

    @cached_property
    def lifted(self) -> FloatArray:
        moved = self.z - self.across
        side = np.copysign(1.0, moved[0] + moved[1])
        at = density(moved)
        moved *= side
        low, high = _rough_tail(moved, at)
        lifted: FloatArray = np.exp(np.maximum(self.log_w, _LOG_ZERO)) * side * (low - high)
        return lifted


def _rough_tail(x: FloatArray, at: FloatArray) -> FloatArray:
    """Return about the normal law's mass above `x`, where its density is `at` (Hastings 1955)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(x))
    mills = t * 1.330274429
    for coefficient in (-1.821255978, 1.781477937, -0.356563782, 0.319381530):
        mills += coefficient
        mills *= t
    mills *= at
    return np.where(x < 0.0, 1.0 - mills, mills)


def _outwards(pair: FloatArray) -> FloatArray:
    """Return two values along the leading axis, the second negated."""
    turned = pair.copy()
    np.negative(turned[1], out=turned[1])
    return turned


def inner_integral(
    log_w: FloatArray, nu: FloatArray, k: FloatArray, across: FloatArray, kind: type[InnerIntegral] = InnerIntegral
) -> InnerIntegral:
    """Return `J` in closed form; the integrand is negative between two roots, or nowhere.

    With ``y = across (nu + k z) / k`` the roots solve ``y - log y = 1 + gap``. A root that is off by a little makes
    an error of its square only, because the integrand vanishes there.
    """
    ratio = across / k
    # Where the line touches the curve when `nu` is smallest, times `across`. It is computed without `nu`: a large one
    # would swallow the roots.
    touch = (np.square(across) / 2.0 - np.log(ratio)) - log_w
    gap = ratio * nu + (touch - 1.0)
    np.maximum(gap, 0.0, out=gap)
    t, rise = _roots(gap)
    t += touch
    t /= across
    at = density(t)
    rise *= k
    rate = np.divide(at, np.abs(rise, out=rise), out=np.zeros_like(at), where=rise != 0.0)
    return kind(log_w, across, t, at, rate)


def tangent_roots(gap: FloatArray) -> FloatArray:
    """Return both roots `t` of ``exp(t) - 1 - t = gap`` along a new leading axis."""
    return _roots(gap)[0]


def _roots(gap: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both roots `t` of ``exp(t) - 1 - t = gap``, with ``exp(t) - 1``; zeros without a gap."""
    s = np.sqrt(2.0 * gap)
    place = s * _TICKS
    np.minimum(place, _TABLE_STEPS, out=place)
    place += 0.5
    index = place.astype(np.intp)
    s -= index * (1.0 / _TICKS)
    t = np.take(_HALF_SECOND, index, axis=1)
    t *= s
    t += np.take(_FIRST, index, axis=1)
    t *= s
    t += np.take(_ROOTS, index, axis=1)
    far = s > 0.5 / _TICKS * (1.0 + 1e-9)
    if np.any(far):
        t[:, far] = _far_roots(gap[far])
    return t, t + gap


def _far_roots(gap: FloatArray) -> FloatArray:
    t = np.log(gap)
    for _ in range(4):
        t = np.log(1.0 + gap + t)
    return np.array([-1.0 - gap, t])
