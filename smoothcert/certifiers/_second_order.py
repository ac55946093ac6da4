"""Second order: the share of votes and the norm of its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from .._numerics import density
from .._validation import FloatArray, check_choice
from ..bounds import first_order_radius, second_order_multiclass_radius, second_order_radius
from ..confidence import binomial_lower, binomial_upper, gradient_norm_upper, rival_limits
from ..tallies import GradientTally, IntArray
from ._base import AGAINST, BaseCertifier

GRADIENT_SHARE = 0.2
"""Share of `alpha` for the limit of the gradient norm.

The limit on the probability pays for its share in all inputs, the one on the gradient only where it helps. On
250 inputs with the statistics of a 7x7-MNIST network, at 1e5 samples, shares of 0.05 to 0.5 were tried: for the second
order all lie within 0.08% in mean radius; the second-order dipole gains another 0.05% from 0.2 to 0.4. A fifth was
taken because it keeps the loss on inputs without any miss at 0.2%.
"""

SCREEN_SHARE = 0.01
"""Share of `alpha` for each of two limits, of the class and of a rival, beside the joint one for both.

They only end the arc of pairs that the joint limit leaves, along which the radius hardly changes. So they may be wide.
"""


class SecondOrderCertifier(BaseCertifier):
    """Certificate from the number of votes and the gradient norm (Levine et al. 2021, Theorem 1).

    A fifth of `alpha` is used for the upper limit of the gradient norm, the rest for the lower limit of the probability
    of the class. Against rivals, the rest is used for a joint limit of the probabilities of class and rival and for two
    wide separate limits, and the fifth is divided equally among three gradients: those of the class, of the rival and
    of the lead, which is their difference. All rivals are tested at this level without a correction for their number,
    because the rival that overtakes first is one fixed class. With ``gradient_bound="paper"`` probability and gradient
    get equal parts, as published.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input in the estimation.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    gradient_bound : {"centred", "paper"}, default="centred"
        Which limit of the gradient norm, see `smoothcert.confidence.gradient_norm_upper`. The centred one helps from
        1e5 samples on, Theorem 2 of the paper from 1e7.
    against : {"rivals", "half"}, default="rivals"
        What the class is compared with: every other class, or one half of the votes. Votes
        that the tally does not list count as one more rival, the last one in the limits, with an unknown gradient. With
        two classes, for tallies of one class and with ``gradient_bound="paper"`` it is always one half.

    References
    ----------
    Levine, Kumar, Goldstein, Feizi: Tight second-order certificates for randomized smoothing, 2021.

    Examples
    --------
    >>> from smoothcert import SecondOrderCertifier
    >>> from smoothcert.tallies import GradientTally
    >>> tally = GradientTally.from_norm_sq(75_000, 100_000, 0.24**2, n_features=49)
    >>> SecondOrderCertifier().certify_tally(tally).radius.round(4)
    array([0.7283])
    """

    upper_limits = frozenset({"grad_norm", "p_rivals", "grad_norm_rivals", "grad_norm_leads"})
    tally_type = GradientTally

    def __init__(
        self,
        n_samples: int = 100_000,
        n_selection: int = 100,
        alpha: float = 0.001,
        gradient_bound: str = "centred",
        against: str = "rivals",
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.gradient_bound = gradient_bound
        self.against = against

    def check_params(self) -> None:
        super().check_params()
        check_choice("gradient_bound", self.gradient_bound, ("centred", "paper"))
        check_choice("against", self.against, AGAINST)

    @property
    def _centre(self) -> float:
        return 0.5 if self.gradient_bound == "centred" else 0.0

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> GradientTally:
        several = n_classes > 2 and self.against == "rivals" and self.gradient_bound == "centred"
        classes = n_classes if several else None
        return GradientTally.empty(n_rows, n_features, n_classes=classes, centre=self._centre, candidate=candidate)

    def infer(self, tally: GradientTally) -> dict[str, FloatArray]:
        if tally.centre != self._centre:
            raise ValueError(
                f"The tally must be centred at {self._centre} for gradient_bound={self.gradient_bound!r}, "
                f"got {tally.centre}. Make it with GradientTally.empty(..., centre={self._centre})."
            )
        if tally.hits.ndim == 2:
            return self._infer_against_rivals(tally)
        share = GRADIENT_SHARE if self.gradient_bound == "centred" else 0.5
        grad_norm = gradient_norm_upper(
            tally.norm_sq, tally.n, tally.n_features, share * self.alpha, self.gradient_bound
        )  # fmt: skip
        p = binomial_lower(tally.hits, tally.n, (1 - share) * self.alpha)
        return {"p": p, "grad_norm": _cap(grad_norm, p, published=self.gradient_bound == "paper")}

    def _infer_against_rivals(self, tally: GradientTally) -> dict[str, FloatArray]:
        if self.against == "half" or self.gradient_bound == "paper":
            raise ValueError(
                f"The tally must hold one class for against={self.against!r} with gradient_bound="
                f"{self.gradient_bound!r}, got several. Set against='rivals' and gradient_bound='centred'."
            )
        if tally.candidate is None:
            raise ValueError(
                "The tally must name the candidate among its classes, got None. "
                "Make it with GradientTally.empty(n_rows, n_features, n_classes=..., candidate=...)."
            )
        rows, own, n = np.arange(len(tally)), tally.candidate, tally.n[:, None]
        others = np.arange(tally.hits.shape[1])[None, :] != own[:, None]
        shape = (len(tally), tally.hits.shape[1] - 1)
        # Votes in no column may all be for one class, of whose gradient nothing is known.
        hits, unlisted = tally.hits[rows, own], tally.n - tally.hits.sum(axis=1)
        rivals = np.column_stack([tally.hits[others].reshape(shape), unlisted])
        unknown = np.full(len(tally), np.inf)
        gradient_alpha, screen_alpha = GRADIENT_SHARE * self.alpha / 3, SCREEN_SHARE * self.alpha
        joint_alpha = (1.0 - GRADIENT_SHARE - 2.0 * SCREEN_SHARE) * self.alpha
        grad_norm = gradient_norm_upper(tally.norm_sq, n, tally.n_features, gradient_alpha)
        lead_sq = tally.lead_norm_sq()[others].reshape(shape)
        leads = 2.0 * gradient_norm_upper(lead_sq, n, tally.n_features, gradient_alpha)
        p = binomial_lower(hits, tally.n, screen_alpha)
        return {
            "p": p,
            "grad_norm": _cap(grad_norm[rows, own], p),
            "p_rivals": binomial_upper(rivals, n, screen_alpha),
            "grad_norm_rivals": np.column_stack([grad_norm[others].reshape(shape), unknown]),
            "grad_norm_leads": np.column_stack([leads, unknown]),
            "first_order": first_order_radius(*rival_limits(hits[:, None], rivals, n, joint_alpha)),
        }

    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        if "p_rivals" not in limits:
            return second_order_radius(limits["p"], limits["grad_norm"])
        names = ("p", "grad_norm", "p_rivals", "grad_norm_rivals", "grad_norm_leads", "first_order")
        return second_order_multiclass_radius(*(limits[name] for name in names))


def _cap(grad_norm: FloatArray, p: FloatArray, published: bool = False) -> FloatArray:
    """Limit gradients: no smoothed function of value at least `p` is steeper than a half-space.

    Below one half the steepest is the one of value 1/2. (Published logs print the half-space of value `p` there too;
    such rows certify nothing.)
    """
    steepest = density(ndtri(p if published else np.maximum(p, 0.5)))
    return np.minimum(grad_norm, steepest)
