"""Sums of noise, exact in any order."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import FloatArray
from ._base import IntArray

# Sums of each update are rounded to these steps of a unit. Whole multiples of a power of two add without rounding in
# float64 (up to 2^31 and 2^43, more than any run reaches), so that merging is exact in every order. What is rounded
# off is far below the error of the estimate.
_SUM_STEPS = 2.0**22
_SQUARE_STEPS = 2.0**10


def norm_sq_of(grad_sum: FloatArray, grad_sq: FloatArray, n: IntArray) -> FloatArray:
    count = n.astype(np.float64)
    pairs = np.maximum(count * (count - 1.0), 1.0)
    return np.where(count >= 2, (np.sum(np.square(grad_sum), axis=-1) - grad_sq) / pairs, np.inf)


def gradient_sums(noise: Any, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sum of ``weight * noise`` and of its squared length over samples.

    In float64: the order of a sum depends on how many threads share it, and in float32 that would show. Tensors stay on
    their device; what comes back is one vector and one number.
    """
    if isinstance(noise, np.ndarray):
        wide = noise.astype(np.float64, copy=False)
        total, square = weight @ wide, _weighted_square(weight, wide)
    else:
        wide = noise.double()
        on_device = wide.new_tensor(weight)
        total = (on_device @ wide).cpu().numpy()
        found = _weighted_square(weight, wide)
        square = found.cpu().numpy()
    return round_sum(total), np.rint(square * _SQUARE_STEPS) / _SQUARE_STEPS


def _weighted_square(weight: FloatArray, noise: Any) -> Any:
    """Sum of squared weights times squared lengths, for numpy arrays and tensors; shape of the leading axes of
    `weight`."""
    size = np.abs(weight).max(initial=0.0)
    if np.all(np.abs(weight) == size):  # then one dot product does
        flat = noise.reshape(-1)
        return size**2 * (flat @ flat)
    lengths = (noise * noise).sum(1)
    squares = np.square(weight) if isinstance(noise, np.ndarray) else noise.new_tensor(np.square(weight))
    return squares @ lengths


def directional_sums(
    noise: Any, weight: FloatArray, direction: FloatArray, edges: FloatArray, strata: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Bins of noise along a direction; for each stratum of bins the sum of ``weight * noise`` across the direction,
    and of its squared length.

    Tensors stay on their device; what comes back is one number for each sample and one vector for each stratum.
    """
    on_host = isinstance(noise, np.ndarray)
    wide = noise.astype(np.float64, copy=False) if on_host else noise.double()
    lengths = (wide[:, None] @ wide[:, :, None])[:, 0, 0] if on_host else wide.square().sum(1).cpu().numpy()
    along = wide @ direction if on_host else (wide @ wide.new_tensor(direction)).cpu().numpy()
    place = np.searchsorted(edges, along, side="right")
    stratum = strata[place]
    weights = np.zeros((strata[-1] + 1, len(weight)))
    weights[stratum, np.arange(len(weight))] = weight
    total = weights @ wide if on_host else (wide.new_tensor(weights) @ wide).cpu().numpy()
    across = total - (total @ direction)[:, None] * direction
    squares = np.square(weight) * (lengths - np.square(along))
    square = np.bincount(stratum, weights=squares, minlength=len(weights))
    return place, round_sum(across), np.rint(square * _SQUARE_STEPS) / _SQUARE_STEPS


def round_sum(total: FloatArray) -> FloatArray:
    """To steps that add without rounding."""
    return np.rint(total * _SUM_STEPS) / _SUM_STEPS
