"""Multipliers of the directional certificate: any are valid, these are (nearly) the best.

For displacement (`along`, `across`), shares `h` on bins of `z1` and a limit `G` of the gradient across, the bound is

    sum_b mass_b nu_b h_b - k G + mean of J(w; nu, k)

concave in all multipliers. At a given slope `k` each bin is solved by itself; then the slope is moved until the worst
case uses up the gradient it is allowed.

The slope may differ from bin to bin by known factors, the tilt. Then `G` limits the gradient across with its parts
from the bins multiplied by these factors.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._validation import BoolArray, FloatArray, IndexArray
from ._bins import Bins, WarmStart, solve_bins
from ._integral import ChordEnds, InnerIntegral, inner_integral

# All of these are about how fast good multipliers are found, and how good they are. The bound is valid for any
# multipliers, so none of them is about validity.

_LOG_TOLERANCE = 1e-2
"""Slopes this close, relatively, are good enough: at the best slope the bound is flat."""


class _Effort(NamedTuple):
    """Newton steps in the bins, for the first slope and for each other one; fewest and most slopes that are tried."""

    at_first: int
    later: int
    least: int
    most: int


_USUAL = _Effort(3, 2, 3, 6)
"""So few steps solve nearly all bins. At least three slopes, because bins start from where the last slope left them.
The best multipliers met on the way are returned."""

_EFFORTS = {0: _USUAL, 2: _Effort(2, 0, 1, 1), 1: _Effort(1, 0, 1, 1)}
"""For problems that are solved from the start, 0, and for those between two solutions, by how far away these are: the
farther ones first."""

_THOROUGH = _Effort(25, 10, 3, 20)
"""For single bounds, where time matters less: halving alone would narrow a bracket to 2^-25 of its width."""

_SHORT_STEP, _LONG_STEP = 0.2, 0.6
"""Steps of the logarithm of the slope: up to which one by Newton's method is trusted, and the longest without a
bracket, a little less than a factor of two. See `_Bracket.next`."""

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
    ends: ChordEnds, misses: FloatArray, grad_norm: FloatArray, across: FloatArray, multipliers: Multipliers
) -> FloatArray:
    """Return the bound for given multipliers, when the shares of hits ``1 - misses`` are known."""
    return _value(ends, misses, grad_norm, _inner(ends, multipliers, across), multipliers)


def _value(
    ends: ChordEnds, misses: FloatArray, grad_norm: FloatArray, inner: InnerIntegral, multipliers: Multipliers
) -> FloatArray:
    parts = inner.lifted - multipliers.slopes * inner.moment + multipliers.nu * (inner.missed - misses)
    return _total(ends.weight * parts) - multipliers.k * grad_norm


def integral_value(
    ends: ChordEnds, across: FloatArray, multipliers: Multipliers, kind: type[InnerIntegral] = InnerIntegral
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the mean of `J` for given multipliers, and its first and second derivative by the slope."""
    inner = _inner(ends, multipliers, across, kind)
    tilt = multipliers.tilt
    parts = inner.lifted - multipliers.slopes * inner.moment - multipliers.nu * (1.0 - inner.missed)
    bend = np.sum(np.square(_not_far(inner.z)) * inner.rate, axis=0)
    terms = (parts, -inner.moment * tilt, -bend * np.square(tilt))
    value, by_k, by_k_twice = (_total(ends.weight * part) for part in terms)
    return value, by_k, by_k_twice


def best_multipliers(
    ends: ChordEnds,
    misses: FloatArray,
    grad_norm: FloatArray,
    across: FloatArray,
    ridge: FloatArray | float = 0.0,
    tilt: FloatArray | float = 1.0,
) -> Multipliers:
    """Return the multipliers that make the bound large; hardly anything is left to be gained.

    Parameters
    ----------
    ends : Ends
        Bins at the displacement, leading shape (...).
    misses : ndarray of shape (..., n_bins)
        One minus the shares of hits.
    grad_norm, across : ndarray of shape (...)
    ridge : ndarray of shape (..., n_bins)
        Cost of large multipliers: half of ``ridge * nu^2`` is taken off in each bin, times its mass.
    tilt : ndarray of shape (..., n_bins)
        Factors of the slope in the bins, positive.
    """
    shape = across.shape
    problem = _Problem.from_arrays(ends, misses, grad_norm, across, ridge, tilt)
    starts = (across * USUAL_SLOPE, across * 0.02)
    tried = [_solve(problem, np.log(first).ravel(), _THOROUGH)[0] for first in starts]
    bins = problem.bins
    best = np.argmax([_penalised(problem, _inner(bins.ends, m, bins.across), m) for m in tried], axis=0)
    each = np.arange(len(best))
    nu, k = np.stack([m.nu for m in tried])[best, each], np.stack([m.k for m in tried])[best, each]
    return Multipliers(nu.reshape(*shape, misses.shape[-1]), k.reshape(shape), tilt)


def multipliers_along(
    ends: ChordEnds,
    misses: FloatArray,
    grad_norm: FloatArray,
    across: FloatArray,
    ridge: FloatArray | float,
    start: FloatArray,
    tilt: FloatArray,
    along: FloatArray,
) -> Multipliers:
    """Return about `best_multipliers`, in less time, for displacements that follow one another along the last axis of
    `across`, at places `along`: one in four is solved, and those in between start from their neighbours."""
    n_rows, n_bins = len(across), misses.shape[-1]
    problem = _Problem.from_arrays(ends, misses, grad_norm, across, ridge, tilt)
    nu, slope = np.empty((*across.shape, n_bins)), start / across
    place = WarmStart.empty(nu.shape)
    apart = _neighbours(along)
    for distance, effort in _EFFORTS.items():
        these = apart == distance
        before, after = (np.flatnonzero(these) + step for step in (-distance, distance))
        first, nearby = slope[:, these], None
        if distance:
            way = (along[these] - along[before]) / (along[after] - along[before])
            first, nearby = slope[:, before] ** (1.0 - way) * slope[:, after] ** way, place.between(before, after, way)
        log_k = np.log(first * across[:, these]).ravel()
        found, reached = _solve(problem.take(np.tile(these, n_rows)), log_k, effort, nearby)
        new = found.nu.reshape(n_rows, np.count_nonzero(these), n_bins)
        if distance:
            # So few steps may lead anywhere, but multipliers change along the axis steadily.
            new = np.clip(new, np.minimum(nu[:, before], nu[:, after]), np.maximum(nu[:, before], nu[:, after]))
        nu[:, these], slope[:, these] = new, found.k.reshape(new.shape[:2]) / across[:, these]
        place.upper[:, these], place.end[:, these] = (part.reshape(new.shape) for part in reached)
    return Multipliers(nu, slope * across, tilt)


def _neighbours(along: FloatArray) -> IndexArray:
    """Return how far away those are, on both sides, that each problem can start from; 0 if it has to be solved alone.

    Where `along` changes its sign, the curves change places.
    """
    place = np.arange(len(along))
    apart = np.where(place % 2 == 1, 1, np.where(place % 4 == 2, 2, 0))
    inside = (place >= apart) & (place + apart < len(along))
    before, after = np.where(inside, place - apart, 0), np.where(inside, place + apart, 0)
    return np.where(inside & (np.sign(along[before]) == np.sign(along[after])), apart, 0)


class _Problem(NamedTuple):
    """Independent problems along the leading axis."""

    bins: Bins
    grad_norm: FloatArray

    @classmethod
    def from_arrays(
        cls,
        ends: ChordEnds,
        misses: FloatArray,
        grad_norm: FloatArray,
        across: FloatArray,
        ridge: FloatArray | float,
        tilt: FloatArray | float,
    ) -> _Problem:
        shape, n_bins = across.shape, misses.shape[-1]
        ends = ChordEnds(ends.mass, *(part.reshape(2, -1, n_bins) for part in ends[1:]))
        of_bins = (np.broadcast_to(part, (*shape, n_bins)).reshape(-1, n_bins) for part in (misses, ridge, tilt))
        return cls(Bins.from_ends(ends, across.ravel(), *of_bins), np.broadcast_to(grad_norm, shape).ravel())

    def take(self, rows: BoolArray) -> _Problem:
        return _Problem(self.bins.take(rows), self.grad_norm[rows])


class _Bracket:
    """Where the best slope is, as a logarithm: between `least`, where the worst case uses more gradient than it may,
    and `most`, where it uses less."""

    def __init__(self, across: FloatArray) -> None:
        self.least, self.most = np.log(across) - 9.0, np.log(across) + 6.0
        self.too_much, self.too_little = np.full((2, *across.shape), np.nan)

    def next(self, log_k: FloatArray, excess: FloatArray, by_log_k: FloatArray) -> FloatArray:
        """Narrow the bracket by the excesses at these slopes and return the slopes to try next.

        The excess goes from one constant to another within a factor of two or so of the best slope. Short Newton steps
        are right, long ones are not.
        """
        up = excess > 0.0
        self.least, self.too_much = np.where(up, log_k, self.least), np.where(up, excess, self.too_much)
        self.most, self.too_little = np.where(up, self.most, log_k), np.where(up, self.too_little, excess)
        newton = log_k - excess / np.minimum(by_log_k, -1e-12)
        short = np.abs(newton - log_k) < _SHORT_STEP
        # Bins that are not solved well give excesses of the wrong sign; a short step is to be trusted more than those.
        self.least = np.where(short, np.minimum(self.least, newton - 0.1), self.least)
        self.most = np.where(short, np.maximum(self.most, newton + 0.1), self.most)
        share = np.clip(self.too_much / (self.too_much - self.too_little), 0.1, 0.9)
        chord = self.least + share * (self.most - self.least)
        far = np.where(np.isnan(share), np.clip(newton, log_k - _LONG_STEP, log_k + _LONG_STEP), chord)
        return np.clip(np.where(short, newton, far), self.least, self.most)

    def keep(self, rows: BoolArray) -> None:
        for name, values in vars(self).items():
            setattr(self, name, values[rows])


def _solve(
    problem: _Problem, log_k: FloatArray, effort: _Effort, start: WarmStart | None = None
) -> tuple[Multipliers, WarmStart]:
    """Return the best multipliers found, and where the bins were at last: move the slope safely, solve the bins again,
    drop what has converged."""
    tilt = problem.bins.tilt
    best = Multipliers(np.zeros(tilt.shape), np.exp(log_k), tilt)
    last = WarmStart.empty(tilt.shape)
    largest = np.full(len(log_k), -np.inf)
    bracket = _Bracket(problem.bins.across)
    log_k = np.clip(log_k, bracket.least, bracket.most)
    active = np.arange(len(log_k))
    place = start
    for step in range(1, effort.most + 1):
        k = np.exp(log_k)
        nu, inner, place = solve_bins(problem.bins, k, effort.at_first if step == 1 else effort.later, place)
        last.upper[active], last.end[active] = place
        value = _penalised(problem, inner, Multipliers(nu, k, problem.bins.tilt))
        better = value > largest[active]
        best.nu[active[better]], best.k[active[better]] = nu[better], k[better]
        largest[active] = np.maximum(value, largest[active])
        if step == effort.most:
            break
        excess, slope = _excess(problem, inner)
        moved = bracket.next(log_k, excess, slope * k)
        # The first steps are for the bins as much as for the slope.
        going = (np.abs(moved - log_k) > _LOG_TOLERANCE) | (step < effort.least)
        if not np.any(going):
            break
        bracket.keep(going)
        active, problem, place, log_k = active[going], problem.take(going), place.take(going), moved[going]
    return best, last


def _inner(
    ends: ChordEnds, multipliers: Multipliers, across: FloatArray, kind: type[InnerIntegral] = InnerIntegral
) -> InnerIntegral:
    return inner_integral(ends.log_w, multipliers.nu, multipliers.slopes, across[..., None], kind)


def _total(parts: FloatArray) -> FloatArray:
    """Return the sum over both ends of all bins, the leading and the last axis.

    One axis after the other: otherwise the order of additions, and the last bits, depend on the number of problems.
    """
    low, high = np.sum(parts, axis=-1)
    total: FloatArray = low + high
    return total


def _not_far(z: FloatArray) -> FloatArray:
    """Return roots clipped to 40 in absolute value; the normal density beyond is negligible."""
    return np.clip(z, -40.0, 40.0)


def _penalised(problem: _Problem, inner: InnerIntegral, multipliers: Multipliers) -> FloatArray:
    bins = problem.bins
    cost: FloatArray = np.sum(bins.ends.mass * bins.ridge * np.square(multipliers.nu), axis=-1) / 2.0
    return _value(bins.ends, bins.misses, problem.grad_norm, inner, multipliers) - cost


def _excess(problem: _Problem, inner: InnerIntegral) -> tuple[FloatArray, FloatArray]:
    """Return how far the worst case exceeds the gradient limit, and its derivative by the slope, bins solved again."""
    bins = problem.bins
    weight = bins.ends.weight
    used = -_total(weight * inner.moment * bins.tilt)
    z, rate = _not_far(inner.z), weight * inner.rate
    moved = z * rate
    by_k, by_both, by_nu = ((part[0] + part[1]).sum(axis=0) for part in (z * moved, moved, rate))
    by_nu = by_nu + bins.ends.mass * bins.ridge
    slope = -(by_k - np.divide(by_both**2, by_nu, out=np.zeros_like(by_k), where=by_nu > 1e-300))
    return used - problem.grad_norm, np.sum(slope * np.square(bins.tilt), axis=-1)
