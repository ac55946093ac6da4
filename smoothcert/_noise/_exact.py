"""Exact noise for models that take numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._column_noise import ColumnNoise, Sigma
from .._validation import FloatArray
from ._grid import Grid
from ._numpy import NumpyArrays
from ._seeds import Seed


class ExactNumpyArrays(NumpyArrays):
    """Where noise on a grid is made, and added to rows on the grid.

    Noise is kept as whole numbers, in steps of the grid. Where tallies look at it, the cells of a finer grid are drawn,
    from which these follow.

    Parameters
    ----------
    grid : Grid
    seen : bool
        Whether tallies look at the noise.
    """

    def __init__(self, grid: Grid, seen: bool) -> None:
        self.grid = grid
        self.seen = seen

    def empty_noise(self, n_rows: int, like: FloatArray) -> FloatArray:
        """Return room for the noise of flat rows."""
        return np.empty((n_rows, like.size), dtype=np.float64 if self.seen else like.dtype)

    def standard_normal(self, seed: Seed, out: FloatArray) -> None:
        """Fill an array with noise in steps of the grid; a shorter array gets the beginning of what a longer one
        would."""
        draw_on_grid(self.grid, self.seen, seed, out)

    def add_noise(
        self, x: FloatArray, noise: FloatArray, sigma: Sigma, out: FloatArray, far: FloatArray | None = None
    ) -> None:
        """Compute rows with noise, and with the noise on the other side."""
        start = self.grid.numbers(x)
        step = np.asarray(self.grid.step, dtype=out.dtype)
        levels = np.floor(noise) if self.seen else noise
        if not isinstance(sigma, ColumnNoise):
            _points(start.astype(out.dtype), levels, step, out, far)
            return
        near = np.empty(noise.shape, dtype=out.dtype)
        other = None if far is None else np.empty_like(near)
        _points(start.astype(out.dtype), levels, step, near, other)
        for rows, points in ((out, near), (far, other)):
            if rows is not None:
                rows[...] = x
                rows[:, sigma.columns] = points

    def as_tally_input(self, noise: FloatArray) -> FloatArray:
        """Return noise in units of sigma, in float64."""
        return self.grid.to_normal(noise)


def draw_on_grid(grid: Grid, seen: bool, seed: Seed, out: Any) -> None:
    """Fill an array with noise in steps of the grid; with cells of a finer grid, if tallies look at it."""
    if seen:
        grid.draw_cells(seed, out)
    else:
        grid.draw_levels(seed, out)


def _points(start: FloatArray, levels: FloatArray, step: Any, out: FloatArray, far: FloatArray | None) -> None:
    # Sums of whole numbers are exact; the product is rounded, and the same for equal numbers.
    np.add(start, levels, out=out, casting="same_kind")
    out *= step
    if far is not None:
        np.subtract(start, levels, out=far, casting="same_kind")
        far *= step
