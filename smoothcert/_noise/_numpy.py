"""Noise for models that take numpy arrays."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from .._column_noise import ColumnNoise, Sigma
from .._validation import FloatArray
from ._seeds import Seed


class NumpyArrays:
    """Where noise is made and noisy rows are built for models that take numpy arrays."""

    def default_batch_size(self, n_features: int) -> int:
        """Return the rows in one call of the model: enough to hide its overhead, few enough to fit the cache."""
        return max(2**20 // n_features, 1)

    def row(self, row: FloatArray) -> FloatArray:
        """Return the row, flat."""
        return row.reshape(-1)

    def empty(self, n_rows: int, like: FloatArray) -> FloatArray:
        """Return room for flat rows."""
        return np.empty((n_rows, like.size), dtype=like.dtype)

    def empty_noise(self, n_rows: int, like: FloatArray) -> FloatArray:
        """Return room for the noise of flat rows."""
        return self.empty(n_rows, like)

    def on_grid(self, grid: Any, seen: bool) -> NumpyArrays:
        """Return where exact noise is made; `seen` tells whether tallies look at it."""
        from ._exact import ExactNumpyArrays

        return ExactNumpyArrays(grid, seen)

    def inference_context(self) -> AbstractContextManager[Any]:
        """Return what to enter before rows are built and put to the vote."""
        return nullcontext()

    def standard_normal(self, seed: Seed, out: FloatArray) -> None:
        """Fill an array with noise; a shorter array gets the beginning of what a longer one would."""
        np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed))).standard_normal(out=out, dtype=out.dtype)

    def along(self, noise: FloatArray, direction: FloatArray) -> FloatArray:
        """Return the components of the noise along a direction."""
        return noise.astype(np.float64, copy=False) @ direction

    def move_along(self, noise: FloatArray, direction: FloatArray, by: FloatArray) -> None:
        """Move each sample of the noise along a direction."""
        noise += by[:, None] * direction

    def add_noise(
        self, x: FloatArray, noise: FloatArray, sigma: Sigma, out: FloatArray, far: FloatArray | None = None
    ) -> None:
        """Compute ``out = x + sigma * noise`` and ``far = x - sigma * noise``."""
        if isinstance(sigma, ColumnNoise):
            scaled = noise * sigma.sigma.astype(noise.dtype)
            for rows, sign in ((out, 1), (far, -1)):
                if rows is not None:
                    rows[...] = x
                    rows[:, sigma.columns] = x[sigma.columns] + sign * scaled
            return
        np.multiply(noise, noise.dtype.type(sigma), out=out)
        if far is not None:
            np.subtract(x, out, out=far)
        out += x

    def gradients_in_units(self, gradients: FloatArray, sigma: Sigma) -> FloatArray:
        """Return the gradients by flat rows, in the last axis, times sigma; those by features with noise."""
        if isinstance(sigma, ColumnNoise):
            return gradients[..., sigma.columns] * sigma.sigma.astype(gradients.dtype)
        return sigma * gradients

    def as_tally_input(self, noise: FloatArray) -> FloatArray:
        """Return noise in the form in which tallies sum it best."""
        return noise
