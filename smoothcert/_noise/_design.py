"""Designed noise, moved along a direction into strata that were decided beforehand."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from .._validation import FloatArray


def moved_into_strata(along: FloatArray, cuts: tuple[float, ...], strata: NDArray[np.intp]) -> FloatArray:
    """Return normal numbers, moved each into its stratum such that they have the normal law restricted to it.

    Quantiles are kept: a number below which lies the part `u` of the normal law goes where the part `u` of its stratum
    lies below. Above zero the same is done with the other tail, which is exact there.
    """
    law = _restricted_laws(cuts)
    sign = law.sign[strata]
    quantiles = ndtri(law.start[strata] + ndtr(sign * along) * law.mass[strata])
    moved = sign * np.clip(quantiles, law.low[strata], law.high[strata])
    inside: FloatArray = np.minimum(moved, law.last[strata])
    return inside


class _RestrictedLaws(NamedTuple):
    """Normal laws restricted to strata, each seen from the tail that is nearer."""

    sign: FloatArray  # -1 where that is the upper tail, and numbers are negated
    low: FloatArray
    high: FloatArray
    start: FloatArray  # mass below `low`
    mass: FloatArray
    last: FloatArray  # the largest number, not negated: edges belong to the stratum above them


@lru_cache(maxsize=64)
def _restricted_laws(cuts: tuple[float, ...]) -> _RestrictedLaws:
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    low, high = ends[:-1], ends[1:]
    sign = np.where(low + high > 0.0, -1.0, 1.0)
    last = np.nextafter(high, -np.inf)
    low, high = np.where(sign > 0.0, low, -high), np.where(sign > 0.0, high, -low)
    start = ndtr(low)
    return _RestrictedLaws(sign, low, high, start, ndtr(high) - start, last)
