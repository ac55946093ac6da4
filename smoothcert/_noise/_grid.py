r"""The grid on which exact noise lives, inputs rounded to it, and what a radius loses by that.

Features with noise have a step :math:`h_i` each. The classifier that is smoothed is the base after rounding,
:math:`f(Q(y))` with :math:`Q(y)_i = h_i \lfloor y_i / h_i + \frac12 \rfloor`, and what is predicted and certified at
:math:`x` is the majority at :math:`Q(x)`. A radius :math:`R` certified at :math:`Q(x)` holds for all :math:`x'` with
:math:`|Q(x') - Q(x)| < R`, and

.. math:: |Q(x') - Q(x)| \le |x' - x| + |Q(x) - x| + |Q(x') - x'| .

The second term is known. In the third, every component is at most :math:`h_i (\frac12 + 2^{-9})`: the quotient
:math:`y_i / h_i` is computed with a relative error of :math:`2^{-53}`, and it is below :math:`2^{43}`. Hence
:math:`R` loses :math:`|Q(x) - x| + (\frac12 + 2^{-9}) |h|`. Where the user gave the grid and :math:`x` lies on it, the
promise is about inputs on the grid, and nothing is lost.

Rows are computed from whole numbers, which floating point adds without rounding: :math:`k + K`, and one product with
the step, which is rounded. It is the same for equal whole numbers, and so a part of the base.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from .._column_noise import ColumnNoise, Sigma
from .._validation import FloatArray, IndexArray
from ._discrete_gaussian import MOST_LEVELS, DiscreteGaussian, discrete_gaussian
from ._seeds import Seed

_FINENESS = 9
"""Without a quantum, the length of a vector of steps is at most 2^-9 sigma: rounding takes less than 0.2% of sigma."""

_EXACT_SUMS = {np.dtype(np.float32): 2.0**24, np.dtype(np.float64): 2.0**43}
"""Whole numbers below are added without rounding."""

_ON_GRID = 4.0
"""Units in the last place by which a number may differ from a point of the grid that it stands for."""


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid, and the noise on it.

    Attributes
    ----------
    sigma : float or ColumnNoise
        Standard deviation of the noise.
    step : float or ndarray
        Step of the grid, one for all features or one for each feature with noise.
    given : bool
        Whether the user gave it.
    """

    sigma: Sigma
    step: float | FloatArray
    given: bool

    @cached_property
    def laws(self) -> list[tuple[DiscreteGaussian, IndexArray | None]]:
        """The laws of noise, and the features with noise that have each of them, None for all."""
        if not isinstance(self.sigma, ColumnNoise):
            return [(discrete_gaussian(Fraction(self.sigma) / Fraction(float(self.step))), None)]
        steps = np.broadcast_to(self.step, self.sigma.sigma.shape)
        ratios = [Fraction(float(s)) / Fraction(float(h)) for s, h in zip(self.sigma.sigma, steps, strict=True)]
        if len(set(ratios)) == 1:
            return [(discrete_gaussian(ratios[0]), None)]
        columns = {ratio: np.flatnonzero([other == ratio for other in ratios]) for ratio in dict.fromkeys(ratios)}
        return [(discrete_gaussian(ratio), own) for ratio, own in columns.items()]

    def __getstate__(self) -> dict[str, Any]:
        return {"sigma": self.sigma, "step": self.step, "given": self.given}  # tables are made where they are needed

    def draw_levels(self, seed: Seed, out: Any) -> None:
        """Fill an array with noise in steps of the grid, whole numbers."""
        self._draw("levels", seed, out)

    def draw_cells(self, seed: Seed, out: FloatArray) -> None:
        """Fill an array of float64 with noise in steps of the grid, one half added; rounded down, it is what
        `draw_levels` gives."""
        self._draw("cells", seed, out)

    def _draw(self, method: str, seed: Seed, out: Any) -> None:
        for stream, (law, columns) in enumerate(self.laws):
            if columns is None:
                getattr(law, method)(seed, out, stream)
            else:
                own = np.empty((len(out), len(columns)), dtype=out.dtype)
                getattr(law, method)(seed, own, stream)
                out[:, columns] = own

    def to_normal(self, cells: FloatArray) -> FloatArray:
        """Return the noise in units of sigma, of which `draw_cells` gave the cells."""
        if self.laws[0][1] is None:
            return self.laws[0][0].to_normal(cells)
        found = np.empty_like(cells)
        for law, columns in self.laws:
            found[:, columns] = law.to_normal(cells[:, columns])
        return found

    def noisy(self, rows: FloatArray) -> FloatArray:
        """Return the features with noise of flat rows, as float64."""
        own = rows[..., self.sigma.columns] if isinstance(self.sigma, ColumnNoise) else rows
        return own.astype(np.float64)

    def numbers(self, rows: FloatArray) -> FloatArray:
        """Return the whole numbers of the grid points next to flat rows, for their features with noise."""
        numbers: FloatArray = np.rint(self.noisy(rows) / self.step)
        return numbers

    def round(self, X: FloatArray) -> FloatArray:
        """Return rows on the grid, in the precision given; features without noise stay as they are."""
        flat = X.reshape(len(X), -1)
        points = (self.numbers(flat) * self.step).astype(X.dtype)
        if not isinstance(self.sigma, ColumnNoise):
            return points.reshape(X.shape)
        rounded = flat.copy()
        rounded[:, self.sigma.columns] = points
        return rounded.reshape(X.shape)

    def check(self, X: FloatArray, dtype: np.dtype[Any]) -> None:
        """Refuse rows that leave the range in which noisy rows are computed without rounding.

        Parameters
        ----------
        X : ndarray
            Rows.
        dtype : dtype
            Precision in which the base computes.
        """
        largest, steps = float(max(law.largest for law, _ in self.laws)), np.asarray(self.step)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            applied, low, high = steps.astype(dtype), float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
            if not np.all((applied >= low) & (steps * _EXACT_SUMS[np.dtype(dtype)] < high)):
                raise ValueError(
                    f"quantum must be a normal number in {np.dtype(dtype)}, in which the base computes, got a step of "
                    f"{float(steps.min())!r}. Rescale X and sigma so that sigma is neither extremely small nor "
                    "extremely large."
                )
            sizes = np.max(np.abs(self.noisy(X.reshape(len(X), -1)) / self.step), axis=1, initial=0.0)
            limit = _EXACT_SUMS[np.dtype(dtype)]
            # Numbers are found again from their products with the step, which takes one bit.
            wrong = ~(sizes + largest < limit) | ~(sizes < limit / 2.0)
        if np.any(wrong):
            row = int(np.argmax(wrong))
            raise ValueError(
                f"X must be less than about {limit / 2.0:.3g} steps of the grid from 0, so that exact noise can be "
                f"added in {np.dtype(dtype)} without rounding, got row {row}, where a feature is {sizes[row]:.3g} "
                f"steps from 0, and the noise may be {largest:.3g} steps. The step is {float(steps.max()):.3g}: give a "
                "larger quantum, or subtract an offset from X."
            )

    def length_lost(self, X: FloatArray, keep_points: bool = True) -> FloatArray | None:
        """Return the length that the radius of each row loses by rounding, rounded up; None if nothing is lost.

        It is in the units of the inputs, or in units of sigma where each feature has its own. With `keep_points`,
        points of a grid that the user gave lose nothing: the promise is about other such points.
        """
        flat = X.reshape(len(X), -1)
        noisy, points = self.noisy(flat), self.numbers(flat) * self.step
        unit = self.sigma.sigma if isinstance(self.sigma, ColumnNoise) else 1.0
        steps = np.broadcast_to(np.asarray(self.step) / unit, noisy.shape[1:])
        n_features = noisy.shape[1]
        # The product with the step was rounded, by half a unit in the last place at most.
        moved = (np.abs(noisy - points) + np.abs(points) * 2.0**-52) / unit
        length: FloatArray = np.linalg.norm(moved, axis=1) + (0.5 + 2.0**-9) * np.linalg.norm(steps)
        length *= 1.0 + 4.0 * (n_features + 8.0) * np.finfo(np.float64).eps
        if self.given and keep_points:
            unit_in_last_place = np.finfo(X.dtype).eps * np.abs(points)
            close = np.abs(noisy - points) <= np.minimum(_ON_GRID * unit_in_last_place, np.asarray(self.step) / 16.0)
            length[np.all(close, axis=1)] = 0.0
        return length if np.any(length > 0.0) else None

    def describe(self) -> Any:
        """Return the step as a number or a list of numbers."""
        return self.step.tolist() if isinstance(self.step, np.ndarray) else float(self.step)


def make_grid(sigma: Sigma, quantum: float | FloatArray | None, n_noisy: int) -> Grid:
    """Return the grid of exact noise.

    Parameters
    ----------
    sigma : float or ColumnNoise
    quantum : float, ndarray or None
        Step, one for all features or one for each feature with noise; None chooses sigma times a power of two, so small
        that hardly any radius is lost by it.
    n_noisy : int
        Number of features with noise.
    """
    deviations = sigma.sigma if isinstance(sigma, ColumnNoise) else np.asarray(sigma, dtype=np.float64)
    if quantum is None:
        fineness = min(_FINENESS + int(np.ceil(np.log2(n_noisy) / 2.0)), MOST_LEVELS.bit_length() - 1)
        with np.errstate(under="ignore"):
            steps = np.ldexp(deviations, -fineness)
        if not np.array_equal(np.ldexp(steps, fineness), deviations) or not np.all(steps > 0.0):
            raise ValueError(
                f"sigma must be large enough for exact noise, which has steps of 2^-{fineness} of it, got "
                f"{float(np.min(deviations))!r}. Rescale X and sigma so that sigma is not extremely small."
            )
        return Grid(sigma, float(steps) if steps.ndim == 0 else steps, given=False)
    steps = np.broadcast_to(np.asarray(quantum, dtype=np.float64), deviations.shape)
    wrong = ~((steps > 0.0) & (steps < np.inf))
    if np.any(wrong):
        raise ValueError(
            f"quantum must be positive and finite for every feature with noise, got {float(steps[wrong][0])!r}. Give "
            "the resolution of the inputs, for example 1 / 255, or None."
        )
    wide = steps > deviations
    if np.any(wide):
        raise ValueError(
            f"quantum must be at most sigma, got {float(steps[wide][0])!r} where sigma is "
            f"{float(deviations[wide][0])!r}. Give the resolution of the inputs, for example 1 / 255, or a fraction "
            "of it, or None."
        )
    fine = deviations > steps * MOST_LEVELS
    if np.any(fine):
        raise ValueError(
            f"quantum must be at least sigma / {MOST_LEVELS}, got {float(steps[fine][0])!r} where sigma is "
            f"{float(deviations[fine][0])!r}. Give a larger step, or None."
        )
    return Grid(sigma, float(steps) if steps.ndim == 0 else np.array(steps), given=True)
