"""What plans for evidence along a direction share: bins, strata of bins, and how noise is drawn."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._validation import FloatArray
from ._base import IntArray, RowArrays
from ._design import Design

# Strata decide how well a tilt can follow its best shape, and how many sums are kept. The limit of the gradient is
# valid for any strata that are fixed before the estimation.

_STRATA = 12
"""Two outer ones and ten in between, each 0.64 wide; more of them would take more memory."""

_STRATA_ENDS = -2.8, 3.6
"""Where the outer strata begin, in units of sigma. In front, where the class is lost, they reach further: noise may be
drawn where it decides, which is about the radius and beyond it."""

_NUMBERS_OF_A_ROW = 2**19 // 3
"""Numbers in the sums of one class, so that three of them, of the class, of a rival and of all others, take 4 MB an
input: in very many dimensions there are fewer strata."""


@lru_cache(maxsize=64)
def _strata(edges: tuple[float, ...], n_strata: int) -> IntArray:
    """Return the stratum of each bin; strata end at edges of bins."""
    wanted = np.linspace(*_STRATA_ENDS, n_strata - 1) if n_strata > 2 else np.zeros(n_strata - 1)
    cuts = np.unique(np.argmin(np.abs(np.subtract.outer(wanted, edges)), axis=1)) if edges else np.empty(0)
    return np.searchsorted(cuts, np.arange(len(edges) + 1), side="left")


def n_strata_for(n_features: int) -> int:
    """Return the number of strata in `n_features` dimensions."""
    return max(1, min(_STRATA, _NUMBERS_OF_A_ROW // n_features))


def strata_of_bins(edges: tuple[float, ...], n_features: int) -> IntArray:
    """Return the stratum of each bin."""
    return _strata(edges, n_strata_for(n_features))


def _normal_masses(edges: FloatArray) -> FloatArray:
    """Return the normal masses between and outside of edges, each from the tail that is smaller."""
    low, high = np.concatenate([[-np.inf], edges]), np.concatenate([edges, [np.inf]])
    masses: FloatArray = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return masses


class AlongDirection(RowArrays):
    """What plans for evidence along a direction share."""

    edges: tuple[float, ...]
    direction: FloatArray
    design: FloatArray

    @property
    def strata(self) -> IntArray:
        """Stratum of each bin."""
        return strata_of_bins(self.edges, self.direction.shape[1])

    @property
    def n_strata(self) -> int:
        return int(self.strata[-1]) + 1

    @property
    def cuts(self) -> tuple[float, ...]:
        """Edges between strata."""
        return tuple(self.edges[i] for i in np.flatnonzero(np.diff(self.strata)))

    @property
    def stratum_masses(self) -> FloatArray:
        """Probability of each stratum for noise at random."""
        return _normal_masses(np.asarray(self.cuts))

    @property
    def bin_masses(self) -> FloatArray:
        """Probability of each bin for noise at random."""
        return _normal_masses(np.asarray(self.edges))

    @property
    def designed(self) -> NDArray[np.bool_]:
        """Whether the noise of each row is designed, shape (n_rows,)."""
        some: NDArray[np.bool_] = np.any(self.design > 0.0, axis=1)
        return some

    def design_of_only_row(self) -> Design | None:
        """Return how the noise is to be drawn, if there is one row and its noise is designed."""
        if len(self.direction) != 1 or not self.designed[0]:
            return None
        return Design(self.direction[0], self.cuts, self.design[0])
