"""A declaration of how noise is to be drawn: its component along a direction in given shares from given strata.

In a stratum the component has the normal law restricted to the stratum, and the components across are as they were.
So whatever is known of the votes given the stratum stays true; only the numbers in the strata are others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .._validation import FloatArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The golden section of 2^64, odd. Multiples of it fill the circle evenly, however many there are."""


@dataclass(frozen=True)
class Design:
    """Which part of the noise falls into which stratum.

    Attributes
    ----------
    direction : ndarray of shape (n_features,)
        Unit vector.
    cuts : tuple of float
        Rising; between them and outside lie the strata of the component along the direction.
    shares : ndarray of shape (n_strata,)
        At least 0, with sum 1.
    """

    direction: FloatArray
    cuts: tuple[float, ...]
    shares: FloatArray

    def strata(self, first: int, n: int) -> NDArray[np.intp]:
        """Return the strata of the draws from number `first` on.

        They depend on nothing but the number of a draw, and any run of draws has about its share in each stratum.
        """
        ends = np.cumsum(self.shares)
        return np.searchsorted(ends[:-1] / ends[-1], _places(first, n), side="right")


@lru_cache(maxsize=128)
def _places(first: int, n: int) -> FloatArray:
    """Return where draws fall between 0 and 1; the same for all inputs."""
    numbers = np.arange(first, first + n, dtype=np.uint64)
    places: FloatArray = (numbers * _GOLDEN >> np.uint64(11)) * 2.0**-53
    places.setflags(write=False)
    return places
