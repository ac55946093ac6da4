"""Inputs of a smoothed classifier: checked, as rows of numbers, with the noise that belongs to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._column_noise import ColumnNoise, Sigma, as_noise, count_noisy
from ._frames import FrameRows
from ._models import FrameVoter, Voter
from ._noise import hash_row
from ._validation import FloatArray


@dataclass(frozen=True, eq=False)
class Inputs:
    """Rows of numbers, their noise, and how the base sees them.

    Attributes
    ----------
    given : ndarray or DataFrame
        Checked inputs, as the base would be given them without noise.
    rows : ndarray
        Rows of numbers to which noise is added.
    sigma : float or ndarray
        Standard deviation of the noise, one for all features or in the shape of one input.
    noise : float or ColumnNoise
        The same for `rows`.
    unit : float
        What radii in units of sigma are multiplied with.
    feature_scale : ndarray in the shape of one input, or None
        What one unit of a radius is in each feature; None if radii are in the units of the inputs.
    frame_rows : FrameRows or None
        Turns `rows` into frames, if the base is given frames.
    """

    given: Any
    rows: FloatArray
    sigma: float | FloatArray
    noise: Sigma
    unit: float
    feature_scale: FloatArray | None
    frame_rows: FrameRows | None = None

    @classmethod
    def from_array(cls, X: FloatArray, sigma: float | FloatArray, unit: float, scale: FloatArray | None) -> Inputs:
        return cls(X, X, sigma, as_noise(sigma), unit, scale)

    @classmethod
    def from_frame(cls, X: Any, sigma: float | FloatArray, unit: float, scale: FloatArray | None) -> Inputs:
        n_columns = X.shape[1]
        noisy = np.flatnonzero(np.broadcast_to(sigma, n_columns) > 0.0)
        frame_rows = FrameRows(X, noisy)
        rows = frame_rows.numbers()
        # Behind the columns with noise comes the number of the row, which has none.
        noise = ColumnNoise(rows.shape[1], np.arange(len(noisy)), sigma[noisy]) if np.ndim(sigma) else float(sigma)  # type: ignore[index]
        return cls(frame_rows.decode(rows), rows, sigma, noise, unit, scale, frame_rows)

    @property
    def n_noisy(self) -> int:
        """Number of features with noise."""
        return count_noisy(self.noise, self.rows[0].size)

    @property
    def plain_sigma(self) -> Any:
        """Sigma as a number or as lists of numbers."""
        return self.sigma.tolist() if isinstance(self.sigma, np.ndarray) else self.sigma

    def in_radius_units(self, lengths: FloatArray | None) -> FloatArray | None:
        """Return lengths in units of sigma in those of radii, rounded up."""
        return lengths if lengths is None or self.unit == 1.0 else lengths * self.unit * (1.0 + 1e-14)

    def keys(self, rows: FloatArray) -> list[int]:
        """Return numbers that stand for the content of the rows, in the precision in which they are used."""
        keys = None if self.frame_rows is None else self.frame_rows.keys(rows)
        return [hash_row(row) for row in rows] if keys is None else keys

    def as_base_input(self, rows: FloatArray) -> Any:
        """Return rows of numbers as the base is given them."""
        return rows if self.frame_rows is None else self.frame_rows.decode(rows)

    def with_frames(self, voter: Any) -> Voter:
        """Return a voter that casts the votes of a base on rows of numbers."""
        return voter if self.frame_rows is None else FrameVoter(voter, self.frame_rows)
