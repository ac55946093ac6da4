"""First order: the share of votes alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._validation import FloatArray, check_choice
from ..bounds import first_order_radius
from ..confidence import binomial_lower, binomial_upper
from ..tallies import IntArray, VoteTally
from ._base import BaseCertifier


class FirstOrderCertifier(BaseCertifier):
    """Certificate from the share of votes for the class (Cohen et al. 2019).

    All of `alpha` goes to the lower limit of that share. With ``multiclass=True`` half of it does, and half to the
    upper limit of the strongest rival's share. That needs no factor for the number of classes: the true runner-up is
    one fixed class, and its own limit is at most the limit from the largest rival count.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    multiclass : bool, default=False
        Compare the class with its strongest rival instead of with one half. Certifies inputs with less than half of
        the votes; costs a little where there are only two classes in play. Votes that the tally does not list count
        as one rival.

    References
    ----------
    Cohen, Rosenfeld, Kolter: Certified adversarial robustness via randomized smoothing, 2019.

    Examples
    --------
    >>> from smoothcert import FirstOrderCertifier
    >>> from smoothcert.tallies import VoteTally
    >>> FirstOrderCertifier().certify_tally(VoteTally(95_126, 100_000)).radius.round(4)
    array([1.6364])
    """

    upper_limits = frozenset({"p_rival"})
    tally_type = VoteTally

    def __init__(
        self, n_samples: int = 100_000, n_selection: int = 100, alpha: float = 0.001, multiclass: bool = False
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.multiclass = multiclass

    @property
    def against(self) -> str:  # type: ignore[override]
        """What the radius speaks about."""
        return "rivals" if self.multiclass else "half"

    def check_params(self) -> None:
        super().check_params()
        check_choice("multiclass", self.multiclass, (True, False))

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> VoteTally:
        return VoteTally.empty(n_rows, n_classes, candidate)

    def infer(self, tally: VoteTally) -> dict[str, FloatArray]:
        if not self.multiclass:
            return {"p": binomial_lower(tally.hits, tally.n, self.alpha)}
        return {
            "p": binomial_lower(tally.hits, tally.n, self.alpha / 2),
            "p_rival": binomial_upper(tally.rivals, tally.n, self.alpha / 2),
        }

    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        return first_order_radius(limits["p"], limits.get("p_rival"))
