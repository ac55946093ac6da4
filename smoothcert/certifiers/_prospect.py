"""What an input may still hope for: optimistic radii, by which sampling is given up.

Nothing here is a promise. Giving up costs an answer at worst, never its validity.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from .._validation import FloatArray
from ..bounds import first_order_radius
from ..confidence import binomial_lower, binomial_upper
from ..tallies import IntArray, Tally
from ._base import BaseCertifier

_PESSIMISM = 0.01
"""Probability that an input is given up although its votes would have come out better."""


def unanimous_radius(n_samples: int, alpha: float) -> float:
    """Return the radius, in units of sigma, that is proved if all votes agree."""
    return float(first_order_radius(binomial_lower(n_samples, n_samples, alpha)))


def first_order_prospect(hits: IntArray, rivals: IntArray, n: IntArray, against: str) -> FloatArray:
    """Return the first-order radius, in units of sigma, if the shares are as good as the votes leave possible.

    Parameters
    ----------
    hits, rivals, n : ndarray of int, shape (n_rows,)
        Votes for the class, for its strongest rival, and samples.
    against : {"half", "rivals"}
        What the class is compared with.
    """
    n = np.maximum(n, 1)
    best = ndtri(binomial_upper(hits, n, _PESSIMISM))
    if against == "rivals":
        best = (best - ndtri(binomial_lower(rivals, n, _PESSIMISM))) / 2.0
    prospect: FloatArray = np.maximum(best, 0.0)
    return prospect


def votes_prospect(tally: Tally, against: str) -> FloatArray:
    """Return the first-order prospect of a tally, infinite if it does not tell its votes."""
    votes = tally.class_and_rival()
    return np.full(len(tally), np.inf) if votes is None else first_order_prospect(*votes, against)


def scaled_prospect(certifier: BaseCertifier, tally: Any, factor: int, alpha: float) -> FloatArray:
    """Return the radius to expect from `factor` times the samples at level `alpha`, and what luck may add to it; 0 if
    the tally cannot be scaled."""
    scaled = tally.scaled(factor)
    if scaled is None:
        return np.zeros(len(tally))

    def radius_at(level: float, of: Tally) -> FloatArray:
        return certifier.at_level(level).certify_tally(of).radius

    expected, luck = radius_at(alpha, scaled), radius_at(0.5, tally) - radius_at(_PESSIMISM, tally)
    prospect: FloatArray = expected + np.maximum(luck, 0.0)
    return prospect
