"""What is asked about the inputs: radii, whether their labels are right, and for how many samples at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._validation import FloatArray
from ..tallies import IntArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is asked about the inputs. It may change between two runs with the same evidence.

    Attributes
    ----------
    asked : tuple of float or None
        Radii as the user gave them; None asks for all that a fixed number of samples can prove.
    thresholds : ndarray of shape (n_rows, n_radii) or None
        Smallest radii in units of sigma whose certificates reach the asked ones.
    labels : ndarray of int, shape (n_rows,), or None
        Class index of the true label of each row. Rows with another candidate need not be certified.
    max_samples : int or None
        Samples of an input at most, if more than the certifier's `n_samples`.
    ranks : ndarray of int, shape (n_rows,), or None
        Order in which rows are certified. Certifiers compute many rows at once, and some then round the last digit
        differently in another order; an order by content keeps that of the rows out of the result.
    """

    asked: tuple[float, ...] | None = None
    thresholds: FloatArray | None = None
    labels: IntArray | None = None
    max_samples: int | None = None
    ranks: IntArray | None = None

    @property
    def provenance(self) -> dict[str, Any]:
        """What certificates keep of it."""
        if self.asked is None:
            return {}
        return {"asked_radii": list(self.asked), "max_samples": self.max_samples}

    def to_plain(self) -> dict[str, Any]:
        """Return it in lists and numbers, for a file."""
        return {
            "asked": None if self.asked is None else list(self.asked),
            "thresholds": None if self.thresholds is None else self.thresholds.tolist(),
            "labels": None if self.labels is None else self.labels.tolist(),
            "max_samples": self.max_samples,
            "ranks": None if self.ranks is None else self.ranks.tolist(),
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Question:
        """Return what `to_plain` made lists and numbers of."""
        asked, thresholds, labels, ranks = (plain[name] for name in ("asked", "thresholds", "labels", "ranks"))
        return cls(
            asked=None if asked is None else tuple(asked),
            thresholds=None if thresholds is None else np.array(thresholds, dtype=np.float64),
            labels=None if labels is None else np.array(labels, dtype=np.int64),
            max_samples=plain["max_samples"],
            ranks=None if ranks is None else np.array(ranks, dtype=np.int64),
        )


def find_thresholds(asked: tuple[float, ...], convert: Callable[[FloatArray], FloatArray], n_rows: int) -> FloatArray:
    """Return the smallest numbers that are converted to at least the asked radii, shape (n_rows, n_radii).

    Between a proved radius in units of sigma and the one that is issued there are products, differences and quotients,
    each rounded down; what counts is the latter. So the first number that suffices is searched among all floating point
    numbers. An asked radius of 0 stands for any radius above it. What cannot be reached has an infinite threshold.

    Parameters
    ----------
    asked : tuple of float
    convert : callable
        Maps one number for each row to the radius that is issued; must not decrease.
    n_rows : int
    """
    columns = [_threshold(max(radius, np.finfo(np.float64).smallest_subnormal), convert, n_rows) for radius in asked]
    return np.stack(columns, axis=1)


def _threshold(radius: float, convert: Callable[[FloatArray], FloatArray], n_rows: int) -> FloatArray:
    # Non-negative floating point numbers are ordered like the integers that have the same bits.
    largest = np.finfo(np.float64).max
    low = np.zeros(n_rows, dtype=np.int64)
    high = np.full(n_rows, largest).view(np.int64)
    with np.errstate(over="ignore"):
        unreachable = ~(convert(high.view(np.float64)) >= radius)
        while np.any(low + 1 < high):
            middle = low + (high - low) // 2
            enough = convert(middle.view(np.float64)) >= radius
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(unreachable, np.inf, high.view(np.float64))
