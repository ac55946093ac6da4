"""Dipole: how antithetic pairs vote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._validation import FloatArray, check_choice
from ..bounds import dipole_radius
from ..confidence import binomial_lower, joint_pair_limits
from ..tallies import IntArray, PairTally
from ._base import BaseCertifier


class DipoleCertifier(BaseCertifier):
    """Certificate from the votes of antithetic pairs (Levine et al. 2021, Theorem 3).

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation, two for each pair; even.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    inference : {"joint", "split", "paper"}, default="joint"
        How `alpha` is spent. ``"joint"``: on the radius itself, see `smoothcert.confidence.joint_pair_limits`; 2% of
        it go to an interval for the pairs without hit. ``"split"``: half on each of the two probabilities, with
        one-sided pairs counted in both orientations. ``"paper"``: the same with one orientation, as published; kept
        for comparison.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021.

    Examples
    --------
    >>> from smoothcert import DipoleCertifier
    >>> from smoothcert.tallies import PairTally
    >>> tally = PairTally(both=27_290, one=20_330, pairs=50_000)
    >>> DipoleCertifier().certify_tally(tally).radius.round(3)
    array([0.71])
    >>> DipoleCertifier(inference="split").certify_tally(tally).radius.round(3)
    array([0.701])
    """

    pairing = "antithetic"
    tally_type = PairTally

    def __init__(
        self, n_samples: int = 100_000, n_selection: int = 100, alpha: float = 0.001, inference: str = "joint"
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.inference = inference

    def check_params(self) -> None:
        super().check_params()
        check_choice("inference", self.inference, ("joint", "split", "paper"))

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> PairTally:
        return PairTally.empty(n_rows, candidate=candidate)

    def infer(self, tally: PairTally) -> dict[str, FloatArray]:
        if self.inference == "joint":
            both, one_sided = joint_pair_limits(tally.both, tally.one, tally.pairs, self.alpha)
            return {"both": both, "one_sided": one_sided}
        both = binomial_lower(tally.both, tally.pairs, self.alpha / 2)
        if self.inference == "split":
            one_sided = binomial_lower(tally.one, tally.pairs, self.alpha / 2) / 2
        elif tally.one_plus is None:
            raise ValueError(
                "The tally must count one orientation (one_plus) for inference='paper', got none. "
                "Give one_plus to PairTally, or use inference='split' or 'joint'."
            )
        else:
            one_sided = binomial_lower(tally.one_plus, tally.pairs, self.alpha / 2)
        return {"both": both, "one_sided": one_sided}

    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        # Two limits taken apart may be impossible together when pairs are few; the smaller one_sided certifies less.
        return dipole_radius(limits["both"], np.minimum(limits["one_sided"], (1.0 - limits["both"]) / 2.0))
