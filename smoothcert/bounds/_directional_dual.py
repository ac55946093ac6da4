"""Multipliers of the directional certificate: any are valid, these are (nearly) the best.

For displacement (`along`, `across`), shares `h` on bins of `z1` and a limit `G` of the gradient across, the bound is

    sum_b mass_b nu_b h_b - k G + mean of J(w; nu, k)

concave in all multipliers. At a given slope `k` each bin is solved by itself, by the right end `B` of its worst
interval; then the slope is moved until the worst case uses up the gradient it is allowed.

The slope may differ from bin to bin by known factors, the tilt. Then `G` limits the gradient across with its parts
from the bins multiplied by these factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .._numerics import density
from .._validation import FloatArray
from ._directional_integral import Ends, Inner, inner_integral

_LOG_TOLERANCE = 1e-2
"""Slopes this close, relatively, are good enough: at the best slope the bound is flat."""


_LEAST_STEPS = 2


USUAL_SLOPE = 0.6
"""A slope, relative to the displacement across, from which most problems are solved quickly."""


class Multipliers(NamedTuple):
    """One number for each bin, shape (..., n_bins), and a slope, shape (...), times the tilt of each bin."""

    nu: FloatArray
    k: FloatArray
    tilt: FloatArray | float = 1.0

    @property
    def slopes(self) -> FloatArray:
        """The slope in each bin."""
        return self.k[..., None] * self.tilt


def dual_value(
    ends: Ends, misses: FloatArray, grad_norm: FloatArray, across: FloatArray, multipliers: Multipliers
) -> FloatArray:
    """The bound for given multipliers, when the shares of hits ``1 - misses`` are known."""
    return _value(ends, misses, grad_norm, _inner(ends, multipliers, across), multipliers)


def _value(ends: Ends, misses: FloatArray, grad_norm: FloatArray, inner: Inner, multipliers: Multipliers) -> FloatArray:
    parts = inner.lifted - multipliers.slopes * inner.moment + multipliers.nu * (inner.missed - misses)
    return np.sum(ends.weight * parts, axis=(0, -1)) - multipliers.k * grad_norm


def integral_value(
    ends: Ends, across: FloatArray, multipliers: Multipliers
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean of `J` for given multipliers, and its first and second derivative by the slope."""
    inner = _inner(ends, multipliers, across)
    tilt = multipliers.tilt
    parts = inner.lifted - multipliers.slopes * inner.moment - multipliers.nu * (1.0 - inner.missed)
    bend = np.sum(np.square(_not_far(inner.z)) * inner.rate, axis=0)
    terms = (parts, -inner.moment * tilt, -bend * np.square(tilt))
    value, by_k, by_k_twice = (np.sum(ends.weight * part, axis=(0, -1)) for part in terms)
    return value, by_k, by_k_twice


def best_multipliers(
    ends: Ends,
    misses: FloatArray,
    grad_norm: FloatArray,
    across: FloatArray,
    ridge: FloatArray | float = 0.0,
    start: FloatArray | None = None,
    n_steps: int = 6,
    tilt: FloatArray | float = 1.0,
) -> Multipliers:
    """Multipliers that make the bound large.

    Parameters
    ----------
    ends : Ends
        Bins at the displacement, leading shape (...).
    misses : ndarray of shape (..., n_bins)
        One minus the shares of hits.
    grad_norm, across : ndarray of shape (...)
    ridge : ndarray of shape (..., n_bins)
        Cost of large multipliers: half of ``ridge * nu^2`` is taken off in each bin, times its mass.
    start : ndarray of shape (...), optional
        Slopes to start from; several are tried if there are none.
    tilt : ndarray of shape (..., n_bins)
        Factors of the slope in the bins, positive.
    """
    shape, n_bins = across.shape, misses.shape[-1]
    problem = _Problem(
        Ends(ends.mass, *(part.reshape(2, -1, n_bins) for part in ends[1:])),
        np.broadcast_to(misses, (*shape, n_bins)).reshape(-1, n_bins),
        np.broadcast_to(grad_norm, shape).ravel(),
        across.ravel(),
        np.broadcast_to(ridge, (*shape, n_bins)).reshape(-1, n_bins),
        np.broadcast_to(tilt, (*shape, n_bins)).reshape(-1, n_bins),
    )
    starts = [across * USUAL_SLOPE, across * 0.02] if start is None else [start]
    tried = [_solve(problem, np.log(first).ravel(), n_steps) for first in starts]
    best = np.zeros(len(problem.across), dtype=np.intp)
    if len(tried) > 1:
        best = np.argmax([_penalised(problem, _inner(problem.ends, m, problem.across), m) for m in tried], axis=0)
    each = np.arange(len(best))
    nu, k = np.stack([m.nu for m in tried])[best, each], np.stack([m.k for m in tried])[best, each]
    return Multipliers(nu.reshape(*shape, n_bins), k.reshape(shape), tilt)


class _Problem(NamedTuple):
    """Independent problems along the leading axis."""

    ends: Ends
    misses: FloatArray
    grad_norm: FloatArray
    across: FloatArray
    ridge: FloatArray
    tilt: FloatArray

    def only(self, rows: FloatArray) -> _Problem:
        ends = Ends(self.ends.mass, self.ends.log_w[:, rows], self.ends.weight[:, rows])
        return _Problem(ends, *(part[rows] for part in self[1:]))


def _solve(problem: _Problem, log_k: FloatArray, n_steps: int) -> Multipliers:
    """Slopes by Newton steps in a bracket, problems that are solved being left alone."""
    best = Multipliers(np.zeros(problem.misses.shape), np.exp(log_k), problem.tilt)
    largest = np.full(len(log_k), -np.inf)
    least, most = np.log(problem.across) - 9.0, np.log(problem.across) + 6.0
    log_k = np.clip(log_k, least, most)
    active = np.arange(len(log_k))
    offset: FloatArray | None = None
    for step in range(n_steps):
        k = np.exp(log_k)
        nu, inner, offset = _solve_bins(problem, k, 5 if step == 0 else 3, offset)
        excess, slope = _excess(problem, inner)
        value = _penalised(problem, inner, Multipliers(nu, k, problem.tilt))
        better = value > largest[active]
        best.nu[active[better]], best.k[active[better]] = nu[better], k[better]
        largest[active] = np.maximum(value, largest[active])
        # Where the worst case would use more gradient than it may, the slope must grow.
        least = np.where(excess > 0.0, log_k, least)
        most = np.where(excess > 0.0, most, log_k)
        newton = log_k - excess / np.minimum(slope * k, -1e-12)
        # Bins that are not solved well give excesses of the wrong sign; a short step is to be trusted more than those.
        short = np.abs(newton - log_k) < 0.3
        least = np.where(short, np.minimum(least, newton - 0.1), least)
        most = np.where(short, np.maximum(most, newton + 0.1), most)
        inside = (newton > least) & (newton < most)
        moved = np.where(inside, np.clip(newton, log_k - 1.5, log_k + 1.5), (least + most) / 2.0)
        # The first steps are for the bins as much as for the slope.
        going = (np.abs(moved - log_k) > _LOG_TOLERANCE) | (step < _LEAST_STEPS)
        if not np.any(going):
            break
        active, problem, offset = active[going], problem.only(going), offset[going]
        log_k, least, most = moved[going], least[going], most[going]
    return best


def _inner(ends: Ends, multipliers: Multipliers, across: FloatArray) -> Inner:
    return inner_integral(ends.log_w, multipliers.nu, multipliers.slopes, across[..., None])


def _not_far(z: FloatArray) -> FloatArray:
    """Roots, where they count; noise does not reach the others."""
    return np.clip(z, -40.0, 40.0)


def _penalised(problem: _Problem, inner: Inner, multipliers: Multipliers) -> FloatArray:
    cost = np.sum(problem.ends.mass * problem.ridge * np.square(multipliers.nu), axis=-1) / 2.0
    return _value(problem.ends, problem.misses, problem.grad_norm, inner, multipliers) - cost


def _excess(problem: _Problem, inner: Inner) -> tuple[FloatArray, FloatArray]:
    """Gradient that the worst case uses beyond the limit, and how fast it falls with the slope when bins follow."""
    weight = problem.ends.weight
    used = -np.sum(weight * inner.moment * problem.tilt, axis=(0, -1))
    z, rate = _not_far(inner.z), weight * inner.rate
    moved = z * rate
    by_k, by_both, by_nu = (np.sum(part, axis=(0, 1)) for part in (z * moved, moved, rate))
    by_nu = by_nu + problem.ends.mass * problem.ridge
    slope = -(by_k - np.divide(by_both**2, by_nu, out=np.zeros_like(by_k), where=by_nu > 1e-300))
    return used - problem.grad_norm, np.sum(slope * np.square(problem.tilt), axis=-1)


def _solve_bins(
    problem: _Problem, k: FloatArray, n_steps: int, offset: FloatArray | None
) -> tuple[FloatArray, Inner, FloatArray]:
    """For given slopes, the multiplier of each bin at which its worst interval has the share the bin has.

    The line ``nu + k z`` touches the curve ``w exp(across z - across^2 / 2)`` at one point when `nu` is smallest. Above
    that it cuts an interval around the point. Of its two ends the one on the side of the bulk of the noise decides the
    mass, and the probit of the mass is nearly straight in that end's distance from the touching point: that distance is
    the unknown. Negative ones continue smoothly to lines below the curve. `offset` is the distance found for other
    slopes, counted from where the end of a half-space would be; the new one comes back.
    """
    ends, misses, ridge = problem.ends, problem.misses, problem.ridge
    across, k_b = problem.across[:, None], k[:, None] * problem.tilt
    log_mean = np.log(np.maximum(np.sum(ends.weight * np.exp(ends.log_w), axis=0) / ends.mass, 1e-250))
    wanted = -ndtri(np.clip(misses, 1e-12, 1.0 - 1e-12))
    spread = np.clip(log_mean - ends.log_w.min(axis=0), 0.0, 60.0)
    touch = (np.log(k_b / across) - log_mean) / across + across / 2.0
    side = np.where(touch > 0.0, -1.0, 1.0)  # which end decides
    least, most = -np.sqrt(2.0 * spread) / across - 1.0, np.abs(touch) + 9.0
    half_space = wanted - side * touch
    distance = half_space if offset is None else half_space + offset
    distance = np.clip(np.maximum(distance, 0.05), least, most)
    base = k_b / across * (1.0 - across**2 / 2.0 + np.log(across / k_b) + log_mean)
    best, nearest = distance, np.full(distance.shape, np.inf)
    for step in range(n_steps + 1):
        distance = best if step == n_steps else distance
        t = across * np.minimum(np.abs(distance), 600.0 / across)
        signed = side * t
        growth = np.expm1(signed)
        gap = np.where(distance >= 0.0, growth - signed, -0.5 * t * t)
        nu = base + k_b / across * gap
        inner = _inner(ends, Multipliers(nu, k, problem.tilt), problem.across)
        if step == n_steps:
            break
        missed = np.sum(ends.weight * inner.missed, axis=0) / ends.mass - ridge * nu
        rate = np.sum(ends.weight * inner.rate, axis=(0, 1)) / ends.mass + ridge
        too_far = missed < misses
        most = np.where(too_far, distance, most)
        least = np.where(too_far, least, distance)
        held = -ndtri(np.clip(missed, 1e-12, 1.0 - 1e-12))
        off = np.abs(held - wanted)
        best, nearest = np.where(off < nearest, distance, best), np.minimum(off, nearest)
        by_distance = rate * k_b * np.where(distance >= 0.0, np.abs(growth), t)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = distance + (wanted - held) * density(held) / by_distance
        # Probits say nothing where there is no mass left to hold.
        inside = (newton > least) & (newton < most) & (missed > 1e-12) & (missed < 1.0 - 1e-12)
        distance = np.where(inside, newton, (least + most) / 2.0)
    return nu, inner, best - half_space
