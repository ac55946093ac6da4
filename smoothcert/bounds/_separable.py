"""Separable margins: a sum of functions of one coordinate each, certified by one multiplier.

If the margin of a class is ``offset + sum_j u_j(x_j)``, then for every ``lam > 0`` its least value within distance `r`
of the input is at least ``D(lam) - lam r^2`` with ``D(lam) = offset + sum_j min_y [u_j(y) + lam (y - x_j)^2]``. So the
margin is positive as long as ``r^2 < D(lam) / lam``. Every multiplier gives a valid radius; the search for a good one
can cost tightness, never soundness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._numerics import round_down
from .._validation import FloatArray, as_float_array, check_interval

_EPS = float(np.finfo(np.float64).eps)

_TOLERANCE = 1e-6
"""Relative distance to the upper bound of the squared radius at which the search for a multiplier stops."""

_MAX_STEPS = 60
"""Steps of the search for a multiplier, many more than it needs to reach the tolerance; any multiplier is valid."""

_LARGEST_MU = 1e150
"""Larger inverse multipliers would overflow."""

_BLOCK = 1 << 17
"""Numbers in one array of intermediate results, small enough to stay in the cache of a processor."""


def separable_radius(
    x: ArrayLike,
    points: ArrayLike,
    values: ArrayLike,
    *,
    offset: ArrayLike = 0.0,
    allowance: ArrayLike = 0.0,
    floor: ArrayLike = -np.inf,
) -> FloatArray:
    """Return the distance within which a margin ``offset + sum_j u_j(x_j)`` stays positive.

    Each part ``u_j`` is known on a grid, between its points up to an allowance, and beyond its ends by a lower limit.

    Parameters
    ----------
    x : array-like of shape (n_parts,) or (n_inputs, n_parts)
        Inputs, in units of sigma.
    points : array-like of shape (n_parts, n_points)
        Grid of each part, in units of sigma, in ascending order, at least two points. Repeated points are allowed, so
        that shorter grids can be padded.
    values : array-like of shape (n_parts, n_points)
        Value of each part at its points, or a lower limit of it.
    offset : float or array-like of shape (n_inputs,), default=0.0
        Constant of the margin.
    allowance : float or array-like of shape (n_parts, n_points - 1), default=0.0
        How far a part may fall below the chord between two neighbouring points. A part whose second derivative is at
        most `c` falls at most ``c * h**2 / 8`` below a chord of length `h`. For a weighted sum of normal distribution
        functions, `c` is at most the sum of the sizes of the weights times ``phi(1) = 0.242``. The default is right
        for piecewise linear functions with their corners among the points, and for concave ones.
    floor : float or array-like of shape (n_parts, 2), default=-inf
        Lower limit of each part to the left of its first and to the right of its last point. Where it is ``-inf``,
        nothing is certified beyond the grid.

    Returns
    -------
    ndarray of shape () or (n_inputs,)
        Square root of the maximum over ``lam`` of ``D(lam) / lam``, rounded down; 0 where the margin is not positive,
        inf where no displacement can make it negative.

    Notes
    -----
    Weak duality, see the theory of exact certificates. For a margin whose parts are all linear or convex the radius is
    exact; otherwise it can be smaller than the distance to the nearest input with a margin of 0, never larger.

    Examples
    --------
    A linear margin ``1 - 3 d_1 - 4 d_2`` is positive within ``1 / 5``:

    >>> from smoothcert.bounds import separable_radius
    >>> points = [[-2.0, 2.0], [-2.0, 2.0]]
    >>> values = [[6.0, -6.0], [8.0, -8.0]]
    >>> separable_radius([0.0, 0.0], points, values, offset=[0.5, 1.0, 2.0]).round(6)
    array([0.1, 0.2, 0.4])
    """
    x = check_interval("x", x, lower=-np.inf, lower_open=True, upper=np.inf, upper_open=True)
    dual = SeparableDual.from_grid(
        check_interval("points", points, lower_open=True, upper_open=True),
        check_interval("values", values, lower_open=True, upper_open=True),
        as_float_array("allowance", allowance),
        as_float_array("floor", floor),
    )
    if x.ndim not in (1, 2) or x.shape[-1] != dual.n_parts:
        raise ValueError(
            f"x must have one column for each of the {dual.n_parts} parts, got shape {x.shape}. "
            "Give an array of shape (n_parts,) or (n_inputs, n_parts)."
        )
    constant = check_interval("offset", offset, lower_open=True, upper_open=True)
    if constant.ndim > 1 or (x.ndim == 2 and constant.shape not in ((), (1,), (len(x),))):
        raise ValueError(
            f"offset must be a number or have one entry for each input, got shape {constant.shape} for x of shape "
            f"{x.shape}. Give an array of shape (n_inputs,)."
        )
    n_inputs = len(x) if x.ndim == 2 else max(1, constant.size)
    rows = np.broadcast_to(x, (n_inputs, dual.n_parts))
    radius = dual.radius(rows, np.broadcast_to(constant, n_inputs))
    return radius[0] if x.ndim == 1 and constant.ndim == 0 else radius


class _Trial(NamedTuple):
    """Value of the dual at one multiplier for some inputs, as functions of ``mu = 1 / lam``.

    ``mu D(1/mu)`` is concave in `mu`; `slope` is its derivative, the margin at the minimising displacement.
    """

    mu: FloatArray
    value: FloatArray
    slope: FloatArray


class SeparableDual:
    """Lower limits of separable functions as straight lines over cells, and the dual of their sum.

    Parameters
    ----------
    points : ndarray of shape (n_parts, n_points)
    left, right : ndarray of shape (n_parts, n_points - 1)
        Lower limit of each part at both ends of each cell, with a straight line between them.
    floor : ndarray of shape (n_parts, 2)
    """

    def __init__(self, points: FloatArray, left: FloatArray, right: FloatArray, floor: FloatArray) -> None:
        # The unit of the margin does not matter; a power of two keeps all numbers near 1, without rounding.
        largest = max(float(np.max(np.abs(left), initial=0.0)), float(np.max(np.abs(right), initial=0.0)))
        self.unit = 0.5 ** np.floor(np.log2(largest)) if largest > 0.0 else 1.0
        left, right, floor = (np.ascontiguousarray(a * self.unit) for a in (left, right, floor))
        self.first, self.last = points[:, 0], points[:, -1]
        self.start, self.end = points[:, :-1], points[:, 1:]
        width = self.end - self.start
        # In an empty cell both lines hold at its only point.
        right = np.where(width > 0.0, right, left)
        self.slope = np.divide(right - left, width, out=np.zeros_like(width), where=width > 0.0)
        self.left, self.floor = left, floor
        self.lowest = np.minimum(np.minimum(left, right).min(axis=1), floor.min(axis=1))
        tails = np.abs(np.where(floor == -np.inf, 0.0, floor)).max(axis=1)
        self.size = float(np.maximum(np.maximum(np.abs(left), np.abs(right)).max(axis=1), tails).sum())
        self.n_parts = len(points)
        self.gamma = (self.n_parts + 32.0) * _EPS

    @classmethod
    def from_grid(
        cls, points: FloatArray, values: FloatArray, allowance: FloatArray, floor: FloatArray
    ) -> SeparableDual:
        """Return the dual for chords between values, lowered by an allowance."""
        if points.ndim != 2 or points.shape[1] < 2 or points.shape != values.shape:
            raise ValueError(
                "points and values must have one shape (n_parts, n_points) with at least two points, got "
                f"{points.shape} and {values.shape}. Pad shorter grids by repeating their last point and value."
            )
        if np.any(np.diff(points, axis=1) < 0.0):
            raise ValueError("points must ascend in each row, got a smaller one after a larger. Sort them.")
        n_parts, n_points = points.shape
        for name, array, shape in (
            ("allowance", allowance, (n_parts, n_points - 1)),
            ("floor", floor, (n_parts, 2)),
        ):
            try:
                np.broadcast_to(array, shape)
            except ValueError:
                raise ValueError(
                    f"{name} must broadcast to the shape {shape}, got {array.shape}. Give a number or such an array."
                ) from None
        if np.any(np.isnan(floor)) or np.any(floor == np.inf):
            raise ValueError("floor must hold lower limits below inf, got nan or inf. Use -inf where none is known.")
        check_interval("allowance", allowance, lower=0.0, cure="Give how far a part may fall below its chord.")
        floor = np.broadcast_to(floor, (n_parts, 2))
        return cls(points, values[:, :-1] - allowance, values[:, 1:] - allowance, floor)

    def radius(self, x: FloatArray, offset: FloatArray, enough: FloatArray | None = None) -> FloatArray:
        """Return the certified distance of each row of `x`; the search ends early where it exceeds `enough`."""
        n_inputs, offset = len(x), offset * self.unit
        enough = np.full(n_inputs, np.inf) if enough is None else enough
        size = self.size + np.abs(offset)
        reach = self._reach(x)
        # With the multiplier 0 displacements cost nothing.
        everywhere = offset + self.lowest.sum() - self.gamma * size > 0.0
        squared = np.where(everywhere & (reach == np.inf), np.inf, 0.0)
        (rows,) = np.nonzero((squared == 0.0) & (reach > 0.0))
        if rows.size:
            squared[rows] = self._maximise(x[rows], offset[rows], size[rows], np.square(enough[rows]))
        # Moving the point of evaluation by a rounding of `x` costs its square.
        squared = np.maximum(squared - np.square(4.0 * _EPS * x).sum(axis=1), 0.0)
        return np.maximum(round_down(np.minimum(np.sqrt(squared), reach)), 0.0)

    def _reach(self, x: FloatArray) -> FloatArray:
        """Return the distance to the nearest end of a grid beyond which nothing is known."""
        below = np.where(self.floor[:, 0] == -np.inf, x - self.first, np.inf)
        above = np.where(self.floor[:, 1] == -np.inf, self.last - x, np.inf)
        nearest: FloatArray = np.minimum(below, above).min(axis=1, initial=np.inf)
        return nearest

    def _maximise(self, x: FloatArray, offset: FloatArray, size: FloatArray, enough: FloatArray) -> FloatArray:
        """Return the largest found value of the concave function ``mu D(1/mu)``, at least 0.

        Two tangents enclose the maximum; where they meet is the next trial, and their meeting point is an upper bound.
        """
        at_x, steepness = self._margin_and_slopes(x, offset)
        best = np.zeros(len(x))
        (rows,) = np.nonzero(at_x > 0.0)
        zero = np.zeros(rows.size)
        low = _Trial(zero, zero, at_x[rows])
        high = _Trial(zero + np.inf, zero, zero)
        with np.errstate(divide="ignore", over="ignore"):
            mu = 2.0 * at_x[rows] / np.maximum(steepness[rows], 1e-12 * np.square(size[rows]))
        mu = np.clip(mu, 1e-150, _LARGEST_MU)
        for step in range(_MAX_STEPS):
            trial, certified = self._evaluate(mu, x[rows], offset[rows], size[rows])
            best[rows] = np.maximum(best[rows], certified)
            rising = trial.slope > 0.0
            low = _Trial(*(np.where(rising, new, old) for new, old in zip(trial, low, strict=True)))
            high = _Trial(*(np.where(rising, old, new) for new, old in zip(trial, high, strict=True)))
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                way = (high.value - low.value + high.slope * (low.mu - high.mu)) / (low.slope - high.slope)
                bound = np.where(high.mu < np.inf, low.value + low.slope * way, np.inf)
                width = high.mu - low.mu
            # Tangents that meet near an end would creep; every third step halves instead.
            way = np.where(way > 0.0, np.minimum(way, width), 0.5 * width) if step % 3 < 2 else 0.5 * width
            mu = np.where(high.mu < np.inf, low.mu + way, 4.0 * mu)
            target = np.minimum(bound * (1.0 - _TOLERANCE), enough[rows])
            going = (best[rows] < target) & (width > 1e-13 * low.mu) & (mu < _LARGEST_MU)
            if not going.any():
                break
            rows, mu = rows[going], mu[going]
            low, high = (_Trial(*(a[going] for a in end)) for end in (low, high))
        return best

    def _margin_and_slopes(self, x: FloatArray, offset: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the lower limit of the margin at `x`, and the sum of the squared slopes of the cells around it."""
        cell = np.empty(x.shape, dtype=np.intp)
        block = max(1, _BLOCK // max(1, self.start.size))
        for begin in range(0, len(x), block):
            some = slice(begin, begin + block)
            cell[some] = np.count_nonzero(self.start <= x[some, :, None], axis=2) - 1
        part, cell = np.arange(self.n_parts), np.maximum(cell, 0)
        start, slope = self.start[part, cell], self.slope[part, cell]
        inside = np.minimum(np.maximum(x, start), self.end[part, cell])
        value = self.left[part, cell] + slope * (inside - start)
        value = np.where(x < self.first, self.floor[:, 0], np.where(x > self.last, self.floor[:, 1], value))
        return offset + value.sum(axis=1), np.square(slope).sum(axis=1)

    def _evaluate(
        self, mu: FloatArray, x: FloatArray, offset: FloatArray, size: FloatArray
    ) -> tuple[_Trial, FloatArray]:
        """Return the dual at ``lam = 1 / mu`` and the squared radius that it certifies after all roundings."""
        lowest, distance = np.empty(len(x)), np.empty(len(x))
        block = max(1, _BLOCK // max(1, self.start.size))
        for begin in range(0, len(x), block):
            some = slice(begin, begin + block)
            lowest[some], distance[some] = self._minimise(1.0 / mu[some], x[some])
        value = mu * (offset + lowest)
        certified = value - self.gamma * (mu * size + distance)
        # What overflows proves nothing.
        certified = np.where(np.isfinite(certified), np.maximum(certified, 0.0), 0.0)
        return _Trial(mu, value, offset + lowest - distance / mu), certified

    def _minimise(self, lam: FloatArray, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums over the parts of ``min_y [u(y) + lam (y - x)^2]`` and of the squared displacements."""
        column, at = lam[:, None, None], x[:, :, None]
        y = self.slope * (-0.5 / column)
        y += at
        np.maximum(y, self.start, out=y)
        np.minimum(y, self.end, out=y)
        cost = y - at
        square = cost * cost
        np.multiply(square, column, out=cost)
        y -= self.start
        y *= self.slope
        cost += y
        cost += self.left
        cell = cost.argmin(axis=2)[:, :, None]
        value = np.take_along_axis(cost, cell, axis=2)[:, :, 0]
        square = np.take_along_axis(square, cell, axis=2)[:, :, 0]
        for side, way in ((0, x - self.first), (1, self.last - x)):
            beyond = np.square(np.maximum(way, 0.0))
            limit = self.floor[:, side]
            # Where nothing is known beyond the grid, the radius ends at it, and what is beyond does not matter.
            tail = np.where(limit == -np.inf, np.inf, limit) + lam[:, None] * beyond
            square = np.where(tail < value, beyond, square)
            value = np.minimum(value, tail)
        return value.sum(axis=1), square.sum(axis=1)
