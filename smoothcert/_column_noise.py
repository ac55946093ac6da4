"""Noise with a standard deviation of its own in each feature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._validation import FloatArray, IndexArray


@dataclass(frozen=True, eq=False)
class ColumnNoise:
    """Gaussian noise in some of the features, each with a standard deviation of its own.

    What certifiers see is standard normal noise in these features alone: the other features have no coordinate in the
    space in which radii are measured, so they count neither in its dimension nor in directions and gradients.

    Attributes
    ----------
    n_features : int
        Length of a flat row.
    columns : ndarray of int
        Features with noise, in ascending order.
    sigma : ndarray of float64
        Standard deviation of each of them, positive.
    """

    n_features: int
    columns: IndexArray
    sigma: FloatArray

    @classmethod
    def from_array(cls, sigma: FloatArray) -> ColumnNoise:
        """Return the noise with one standard deviation for each feature; 0 is no noise."""
        flat = np.asarray(sigma, dtype=np.float64).reshape(-1)
        columns = np.flatnonzero(flat > 0.0)
        return cls(flat.size, columns, flat[columns])

    @property
    def is_everywhere(self) -> bool:
        """Whether all features have noise."""
        return len(self.columns) == self.n_features

    def to_units(self, displacement: FloatArray) -> FloatArray:
        """Return displacements of flat rows, in the last axis, in units of sigma."""
        return displacement[..., self.columns] / self.sigma


Sigma = float | ColumnNoise
"""Standard deviation of noise: one for all features, or one for each."""


def as_noise(sigma: float | FloatArray) -> Sigma:
    """Return a number as it is, and an array as noise with one standard deviation for each feature."""
    return ColumnNoise.from_array(sigma) if isinstance(sigma, np.ndarray) else float(sigma)


def count_noisy(sigma: Sigma, n_features: int) -> int:
    """Return how many features of a row have noise."""
    return len(sigma.columns) if isinstance(sigma, ColumnNoise) else n_features


def typical_sigma(sigma: Sigma) -> float:
    """Return one number for noise: the root mean square over the features that have noise."""
    return float(np.sqrt(np.mean(np.square(sigma.sigma)))) if isinstance(sigma, ColumnNoise) else sigma
