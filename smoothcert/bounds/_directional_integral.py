"""The integral of the directional certificate: a worst case across one direction, averaged along it.

With noise `z1` along the direction and `z2` across it, moving by `along` and `across` multiplies the density by
``w(z1) exp(across z2 - across^2 / 2)``, where ``w = exp(along z1 - along^2 / 2)``. For multipliers `nu`, constant on
each bin of `z1`, and a slope `k`, the certificate needs the mean of
``J(w) = E min(0, w exp(across z2 - across^2 / 2) - nu - k z2)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .._numerics import density, exp_tangent_roots
from .._validation import FloatArray

_LOG_ZERO = -600.0
"""Stands for the logarithm of zero; whatever it multiplies vanishes in double precision."""

# Roots for square roots of twice the gap, at equal steps: a value and the difference to the next.
_TABLE_END, _TABLE_STEPS = 14.0, 2**12
_values = exp_tangent_roots(np.square(np.linspace(0.0, _TABLE_END, _TABLE_STEPS + 1)) / 2.0)
_TABLES = [(values[:-1].copy(), np.diff(values)) for values in _values]


class Ends(NamedTuple):
    """Each bin replaced by two values of `w` and their weights, such that means of concave functions do not grow.

    A concave function lies above its chord, so its mean over a bin is at least the chord at the mean of `w`. Where `w`
    goes to zero the chord starts there; where it is unbounded, `J`, which does not fall, is at least its value at the
    bounded end.
    """

    mass: FloatArray  # (n_bins,)
    log_w: FloatArray  # (..., n_bins, 2)
    weight: FloatArray  # (..., n_bins, 2)


def bin_masses(edges: FloatArray, shift: FloatArray | float = 0.0) -> FloatArray:
    """Normal masses of the bins between and outside of `edges`, moved by `-shift`; shape of `shift` + (n_bins,)."""
    # Each difference from the tail that is smaller.
    moved = edges - np.asarray(shift)[..., None]
    ends = np.full((*moved.shape[:-1], 1), np.inf)
    left, right = np.concatenate([-ends, moved], axis=-1), np.concatenate([moved, ends], axis=-1)
    above = left > -right
    return np.where(above, ndtr(-left) - ndtr(-right), ndtr(right) - ndtr(left))


def chord_ends(edges: FloatArray, along: FloatArray) -> Ends:
    """Two-point stand-ins of all bins for displacements `along`."""
    along = np.asarray(along, dtype=np.float64)[..., None]
    mass = bin_masses(edges)
    moved = bin_masses(edges, along[..., 0])  # mass times mean of w
    at_edges = along * edges - np.square(along) / 2.0
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
    share = np.where(np.isfinite(share), share, 0.5)
    # Both ends have the same w where `w` is unbounded, so any share does there.
    share[..., :1] = np.where(rising, np.clip(first, 0.0, 1.0), 1.0)
    share[..., -1:] = np.where(falling, 1.0 - np.clip(last, 0.0, 1.0), 0.0)
    # On the side where w vanishes the zero end comes first on the left and second on the right.
    weight = np.stack([(1.0 - share) * mass, share * mass], axis=-1)
    return Ends(mass, np.stack([low, high], axis=-1), weight)


@dataclass(frozen=True)
class Inner:
    """The parts of `J`: ``J = lifted - nu (1 - missed) - k moment``, and what its derivatives need.

    The integrand is negative between `low` and `high`, if there is a cut at all. The rates say how fast `missed` falls
    with `nu` at either end.
    """

    log_w: FloatArray
    across: FloatArray
    cut: FloatArray
    low: FloatArray
    high: FloatArray
    at_low: FloatArray
    at_high: FloatArray
    low_rate: FloatArray
    high_rate: FloatArray

    @property
    def missed(self) -> FloatArray:
        return np.where(self.cut, ndtr(self.low) + ndtr(-self.high), 1.0)

    @property
    def moment(self) -> FloatArray:
        return np.where(self.cut, self.at_low - self.at_high, 0.0)

    @property
    def lifted(self) -> FloatArray:
        side = np.where(self.low + self.high > 2.0 * self.across, -1.0, 1.0)
        between = side * (ndtr(side * (self.high - self.across)) - ndtr(side * (self.low - self.across)))
        return np.where(self.cut, np.exp(np.maximum(self.log_w, _LOG_ZERO)) * between, 0.0)


def inner_integral(log_w: FloatArray, nu: FloatArray, k: FloatArray, across: FloatArray) -> Inner:
    """`J` in closed form; the integrand is negative between two roots, or nowhere.

    With ``y = across (nu + k z) / k`` the roots solve ``y - log y = 1 + gap``. A root that is off by a little makes
    an error of its square only, because the integrand vanishes there.
    """
    log_ratio = np.log(across / k)
    gap = across * nu / k + np.square(across) / 2.0 - log_ratio - log_w - 1.0
    cut = gap > 0.0
    (t_low, rise_low), (t_high, rise_high) = _roots(np.where(cut, gap, 0.0))
    touch = (1.0 + np.where(cut, gap, 0.0)) / across - nu / k
    low, high = touch + t_low / across, touch + t_high / across
    at_low, at_high = density(low), density(high)
    with np.errstate(divide="ignore", invalid="ignore"):
        low_rate = np.where(cut, at_low / (k * -rise_low), 0.0)
        high_rate = np.where(cut, at_high / (k * rise_high), 0.0)
    return Inner(log_w, across, cut, low, high, at_low, at_high, low_rate, high_rate)


def _roots(gap: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Both roots `t` of ``exp(t) - 1 - t = gap``, with ``exp(t) - 1``: from a table, polished by one Newton step."""
    s = np.sqrt(2.0 * gap)
    place = np.minimum(s * (_TABLE_STEPS / _TABLE_END), _TABLE_STEPS - 1e-9)
    index = place.astype(np.intp)
    part = place - index
    far = s > _TABLE_END
    polish = s > 0.02  # below, steps are too short for the polish to be exact, and too short to matter
    roots = []
    for side, (values, differences) in zip((-1, 1), _TABLES, strict=True):
        t = values[index] + part * differences[index]
        if np.any(far):
            t[far] = _far_root(gap[far], side)
        rise = np.expm1(t)
        step = np.divide(rise - t - gap, rise, out=np.zeros_like(t), where=polish)
        # The exponential follows the short step by its first term.
        roots.append((t - step, rise - step * (1.0 + rise)))
    return roots


def _far_root(gap: FloatArray, side: int) -> FloatArray:
    if side < 0:
        return -1.0 - gap
    t = np.log(gap)
    for _ in range(4):
        t = np.log(1.0 + gap + t)
    return t
