"""First order: the share of votes alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._validation import FloatArray, check_choice
from ..bounds import first_order_radius
from ..confidence import binomial_lower, rival_limits
from ..tallies import IntArray, VoteTally
from ._base import AGAINST, BaseCertifier


class FirstOrderCertifier(BaseCertifier):
    """Certificate from the number of votes for the class and for its strongest rival (Cohen et al. 2019).

    All of `alpha` is used for one joint limit of the probabilities of the class and of the rival with the most votes.
    No correction for the number of classes is needed: the true runner-up is one fixed class, and the limit from its own
    count is at least the one from the largest rival count. With ``against="half"``, or if there are only two classes,
    all of `alpha` is used for the lower limit of the probability of the class.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    against : {"rivals", "half"}, default="rivals"
        What the class is compared with: every other class, or one half of the votes. Against rivals inputs with less
        than half of the votes can be certified too. Votes that the tally does not list count as one rival; a tally
        that lists one or two classes is certified against one half.

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
    reach = 1.0

    def __init__(
        self, n_samples: int = 100_000, n_selection: int = 100, alpha: float = 0.001, against: str = "rivals"
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.against = against

    def check_params(self) -> None:
        super().check_params()
        check_choice("against", self.against, AGAINST)

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> VoteTally:
        return VoteTally.empty(n_rows, n_classes, candidate)

    def infer(self, tally: VoteTally) -> dict[str, FloatArray]:
        if self.against == "half" or tally.counts.shape[1] <= 2:
            return {"p": binomial_lower(tally.hits, tally.n, self.alpha)}
        p, p_rival = rival_limits(tally.hits, tally.rivals, tally.n, self.alpha)
        return {"p": p, "p_rival": p_rival}

    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        return first_order_radius(limits["p"], limits.get("p_rival"))
