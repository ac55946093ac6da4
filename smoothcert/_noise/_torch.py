"""Noise for nets, drawn on their own device. Imported only where there is a net."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from .._column_noise import ColumnNoise, Sigma
from .._validation import FloatArray
from ._seeds import Seed

_STAGES = 16
"""Room for the stages of a certifier in the numbering of blocks; today's need at most five. Of the 2^32 numbers, 2^28
are left for the blocks of each stage. It enters the noise of nets: seeds draw other noise if it changes."""


@lru_cache(maxsize=1024)
def _start(entropy: int, key: int) -> int:
    return int(np.random.SeedSequence([entropy, key]).generate_state(1, np.uint64)[0])


def _number(seed: Seed) -> int:
    """Return a seed for torch, of 63 bits.

    Torch's generator for processors reads the lower 32 of them only. Random ones would soon meet: among the 50,000
    blocks of a hundred million samples, two would be the same noise with a chance of one in four. So stages and blocks
    of an input are numbered from a random start, and the numbers are scattered by a map that is one to one: no two
    blocks of an input share their noise.
    """
    place = seed.block * _STAGES + seed.stage
    if seed.stage >= _STAGES or place >= 2**32:
        raise ValueError(
            f"n_samples must need fewer than {2**32 // _STAGES} blocks of noise and a certifier have fewer than "
            f"{_STAGES} stages, got block {seed.block} of stage {seed.stage}. Ask for fewer samples."
        )
    high, low = divmod(_start(seed.entropy, seed.key), 2**32)
    mixed = (low + place) % 2**32
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):  # odd factors, so each step can be undone
        mixed = (mixed ^ (mixed >> shift)) * factor % 2**32
    return (high >> 1 << 32) | (mixed ^ (mixed >> 16))


class TorchArrays:
    """Where noise is made and noisy rows are built for nets: on their device, in float32."""

    def __init__(self, device: Any) -> None:
        self.device = torch.device(device)

    def default_batch_size(self, n_features: int) -> int:
        """Return rows in one call of the net."""
        # A graphics card wants far more work in a call than the cache of a processor holds.
        numbers = 2**18 if self.device.type == "cpu" else 2**25
        return max(numbers // n_features, 1)

    def row(self, row: FloatArray) -> torch.Tensor:
        """Return the row, flat, on the device."""
        flat = np.ascontiguousarray(row, dtype=np.float32).reshape(-1)
        return torch.tensor(flat, device=self.device)

    def empty(self, n_rows: int, like: torch.Tensor) -> torch.Tensor:
        """Return room for flat rows."""
        return torch.empty((n_rows, like.numel()), dtype=like.dtype, device=self.device)

    def empty_noise(self, n_rows: int, like: torch.Tensor) -> Any:
        """Return room for the noise of flat rows."""
        return self.empty(n_rows, like)

    def on_grid(self, grid: Any, seen: bool) -> TorchArrays:
        """Return where exact noise is made; `seen` tells whether tallies look at it."""
        from ._exact_torch import ExactTorchArrays

        return ExactTorchArrays(self.device, grid, seen)

    def inference_context(self) -> AbstractContextManager[Any]:
        """Return what to enter before rows are built and put to the vote."""
        return torch.inference_mode()

    def standard_normal(self, seed: Seed, out: torch.Tensor) -> None:
        """Fill a tensor with noise; the same for a given type of device and shape."""
        out.normal_(generator=torch.Generator(self.device).manual_seed(_number(seed)))

    def along(self, noise: torch.Tensor, direction: FloatArray) -> FloatArray:
        """Return the components of the noise along a direction.

        In float64: the order of a sum depends on how many threads share it, and in float32 that would show.
        """
        if self.device.type == "cpu":
            return noise.numpy().astype(np.float64) @ direction
        wide = noise.double()
        components: FloatArray = (wide @ wide.new_tensor(direction)).cpu().numpy()
        return components

    def move_along(self, noise: torch.Tensor, direction: FloatArray, by: FloatArray) -> None:
        """Move each sample of the noise along a direction."""
        noise.addr_(noise.new_tensor(by), noise.new_tensor(direction))

    def add_noise(
        self, x: torch.Tensor, noise: torch.Tensor, sigma: Sigma, out: torch.Tensor, far: torch.Tensor | None = None
    ) -> None:
        """Compute ``out = x + sigma * noise`` and ``far = x - sigma * noise``."""
        if isinstance(sigma, ColumnNoise):
            columns, scale = self._columns(sigma)
            scaled = noise * scale
            for rows, sign in ((out, 1), (far, -1)):
                if rows is not None:
                    rows[...] = x
                    rows[:, columns] = x[columns] + sign * scaled
            return
        if far is not None:
            torch.add(x, noise, alpha=-sigma, out=far)
        torch.add(x, noise, alpha=sigma, out=out)

    def gradients_in_units(self, gradients: torch.Tensor, sigma: Sigma) -> torch.Tensor:
        """Return the gradients by flat rows, in the last axis, times sigma; those by features with noise."""
        if isinstance(sigma, ColumnNoise):
            columns, scale = self._columns(sigma)
            return gradients[..., columns] * scale
        return sigma * gradients

    def _columns(self, sigma: ColumnNoise) -> tuple[torch.Tensor, torch.Tensor]:
        scale = torch.tensor(sigma.sigma, dtype=torch.float32, device=self.device)
        return torch.tensor(sigma.columns, device=self.device), scale

    def as_tally_input(self, noise: torch.Tensor) -> Any:
        """Return noise in the form in which tallies sum it best: numpy's sums are faster on a processor, and elsewhere
        it stays on the device."""
        return noise.numpy() if self.device.type == "cpu" else noise
