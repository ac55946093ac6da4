"""Exact noise for nets: whole numbers drawn on the processor, the same for every device. Imported only where there is a
net."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._column_noise import ColumnNoise, Sigma
from .._validation import FloatArray
from ._exact import draw_on_grid
from ._grid import Grid
from ._seeds import Seed
from ._torch import TorchArrays


class ExactTorchArrays(TorchArrays):
    """Where noise on a grid is made, and added to rows on the grid, for nets.

    Parameters
    ----------
    device : torch.device
    grid : Grid
    seen : bool
        Whether tallies look at the noise.
    """

    def __init__(self, device: Any, grid: Grid, seen: bool) -> None:
        super().__init__(device)
        self.grid = grid
        self.seen = seen

    def empty_noise(self, n_rows: int, like: torch.Tensor) -> FloatArray:
        """Return room for the noise of flat rows, on the processor."""
        return np.empty((n_rows, like.numel()), dtype=np.float64 if self.seen else np.float32)

    def standard_normal(self, seed: Seed, out: FloatArray) -> None:  # type: ignore[override]
        """Fill an array with noise in steps of the grid, the same for every device."""
        draw_on_grid(self.grid, self.seen, seed, out)

    def add_noise(  # type: ignore[override]
        self, x: torch.Tensor, noise: FloatArray, sigma: Sigma, out: torch.Tensor, far: torch.Tensor | None = None
    ) -> None:
        """Compute rows with noise, and with the noise on the other side."""
        plain = np.floor(noise).astype(np.float32) if self.seen else noise
        levels = torch.from_numpy(plain).to(self.device)
        step = self._step()
        if isinstance(step, float) and np.frexp(step)[0] == 0.5 and not isinstance(sigma, ColumnNoise):
            # Products with a power of two and their sums are exact.
            super().add_noise(x, levels, step, out, far)
            return
        numbers = self.grid.numbers(x.cpu().numpy()).astype(np.float32)
        start = torch.from_numpy(numbers).to(self.device)
        for rows, sign in ((out, 1), (far, -1)):
            if rows is None:
                continue
            if isinstance(sigma, ColumnNoise):
                rows[...] = x
                rows[:, torch.tensor(sigma.columns, device=self.device)] = torch.add(start, levels, alpha=sign) * step
            else:
                torch.add(start, levels, alpha=sign, out=rows)
                rows *= step

    def _step(self) -> Any:
        if isinstance(self.grid.step, np.ndarray):
            return torch.tensor(self.grid.step, dtype=torch.float32, device=self.device)
        return float(np.float32(self.grid.step))

    def as_tally_input(self, noise: FloatArray) -> FloatArray:  # type: ignore[override]
        """Return noise in units of sigma, in float64, on the processor."""
        return self.grid.to_normal(noise)
