"""Designed noise, moved along a direction into strata that were decided beforehand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from .._validation import FloatArray


def moved_into_strata(along: FloatArray, cuts: tuple[float, ...], strata: NDArray[np.intp]) -> FloatArray:
    """Return normal numbers, moved each into its stratum such that they have the normal law restricted to it.

    Quantiles are kept: a number below which lies the part `u` of the normal law goes where the part `u` of its stratum
    lies below. Above zero the same is done with the other tail, which is exact there.
    """
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = ends[strata], ends[strata + 1]
    sign = np.where(low + high > 0.0, -1.0, 1.0)
    low, high = np.where(sign > 0.0, low, -high), np.where(sign > 0.0, high, -low)
    start = ndtr(low)
    moved = sign * np.clip(ndtri(start + ndtr(sign * along) * (ndtr(high) - start)), low, high)
    # Edges belong to the stratum above them.
    inside: FloatArray = np.minimum(moved, np.nextafter(ends[strata + 1], -np.inf))
    return inside
