"""Directional: the class measured along one direction, its gradient bounded across."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..._parameters import check_parameters, fraction, integer
from ..._validation import FloatArray, check_choice
from ...bounds import first_order_radius
from ...bounds._directional._integral import bin_masses
from ...bounds._directional._radius import N_CELLS, Cells, cells_radius
from ...confidence import binomial_lower, stratified_lower
from ...tallies import DirectionalPlan, DirectionalTally, GradientTally, InputGradientTally, IntArray, Tally
from .._base import BaseCertifier, Pilot
from ._plan import gradient_across_upper, plan_from_pilot

GRADIENT_SHARE = 0.2
"""Share of `alpha` for the limit of the gradient across the direction, as in the second-order certificate."""

SLOPE_SAMPLES = 1000
"""Input gradients averaged for the direction."""

_REACH = 4.0
_BIN_SPREAD = 2.0
"""Bins have equal shares of a normal law with this standard deviation.

Within a bin the worst case may put the misses where they weigh most, so bins must be narrow where there is much noise.
If hits were equally uncertain everywhere, widths in proportion to the inverse root of the density, a standard deviation
of 1.4, would lose least; inputs far from the boundary need narrow bins further out.
"""
_VERTICES = 64


class DirectionalCertifier(BaseCertifier):
    """Certificate that measures the votes along one direction and bounds them across it.

    An adversary has one good direction. A part of the samples, the pilot, looks for it and chooses multipliers; the
    rest counts hits in bins along it and bounds the gradient across it. A fifth of `alpha` goes to that gradient, the
    rest to a weighted sum of the shares in the bins. Neither is divided among directions or radii: the nearest point
    where the class loses lies in one of the cells that the pilot has fixed, and certifying beyond it takes a wrong
    limit for that cell. Where the pilot sees no gain over the plain share of votes, that is certified, with all
    of `alpha`.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input, pilot and estimation together.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    pilot : float, default=0.2
        Share of `n_samples` for the pilot.
    direction : {"auto", "gradient", "score"} or callable, default="auto"
        ``"gradient"``: averaged input gradients of a softened margin, for skorch nets. ``"score"``: the noise weighted
        by its votes, for any base. ``"auto"``: the first where it can be had, else the second. A callable is given
        the inputs and their candidate labels and returns one direction for each, an array shaped like the inputs. A
        bad direction costs radius, never soundness.
    n_bins : int, default=60
        Bins along the direction.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert import DirectionalCertifier, SmoothedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SmoothedClassifier(
    ...     LogisticRegression(C=0.1), sigma=0.25, n_augment=2, certifier=DirectionalCertifier(20_000), random_state=0
    ... ).fit(X / 16, y)
    >>> clf.certify(X[:2] / 16).abstained
    array([False, False])
    """

    tally_type = DirectionalTally

    def __init__(
        self,
        n_samples: int = 100_000,
        n_selection: int = 100,
        alpha: float = 0.001,
        pilot: float = 0.2,
        direction: str | Callable[..., Any] = "auto",
        n_bins: int = 60,
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.pilot = pilot
        self.direction = direction
        self.n_bins = n_bins

    def check_params(self) -> None:
        super().check_params()
        check_parameters(self, {"pilot": fraction("About 0.2 is good."), "n_bins": integer(8, "60 are good.")})
        if not callable(self.direction):
            check_choice("direction", self.direction, ("auto", "gradient", "score"))
        least = int(np.ceil(4 * self.n_bins / min(self.pilot, 1.0 - self.pilot)))
        if self.n_samples < least:
            raise ValueError(
                f"n_samples must be at least {least} for {self.n_bins} bins and a pilot of {self.pilot:g}, "
                f"got {self.n_samples}. Take more samples or fewer bins."
            )

    @property
    def _edges(self) -> FloatArray:
        outermost = float(ndtr(-_REACH / _BIN_SPREAD))
        return _BIN_SPREAD * ndtri(np.linspace(outermost, 1.0 - outermost, self.n_bins - 1))

    def pilots(self, gradients: bool) -> tuple[Pilot, ...]:
        """A look for the direction, and a look along it."""
        share = int(self.pilot * self.n_samples)
        if callable(self.direction):
            return (
                Pilot(0, self._slopes, self._direction_given, observes=self.direction),
                Pilot(share, self._along, self._plan_along),
            )
        if self.direction == "gradient" and not gradients:
            raise ValueError(
                "direction must be 'score', 'auto' or a callable for a base without input gradients, got 'gradient'. "
                "Only skorch nets have them."
            )
        if gradients and self.direction != "score":
            few = max(min(SLOPE_SAMPLES, share // 2), 1)
            first = Pilot(few, self._slopes, self._direction_of_slopes, observes="gradients")
        else:
            few = share // 2
            first = Pilot(few, self._score, self._direction_of_score)
        return first, Pilot(share - few, self._along, self._plan_along, needed=_is_measured)

    def _slopes(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        return InputGradientTally.empty(n_rows, n_features, candidate)

    def _score(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        return GradientTally.empty(n_rows, n_features, candidate=candidate)

    def _along(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        return DirectionalTally.empty(plan, candidate)

    def _direction_of_slopes(self, tally: Any) -> DirectionalPlan:
        return self._towards(-tally.slope_sum, tally.hits < tally.n)

    def _direction_of_score(self, tally: Any) -> DirectionalPlan:
        return self._towards(-tally.grad_sum, tally.hits < tally.n)

    def _direction_given(self, tally: Any) -> DirectionalPlan:
        return self._towards(tally.slope_sum, tally.hits < tally.n)

    def _towards(self, vectors: FloatArray, contested: FloatArray) -> DirectionalPlan:
        """Unit vectors; inputs whose class was never contested, or that have no direction, need none."""
        length = np.linalg.norm(vectors, axis=1)
        fine = contested & np.isfinite(length) & (length > 0.0)
        units = vectors / np.where(fine, length, 1.0)[:, None]
        # Normalised twice: the first division may round.
        units = np.where(fine[:, None], units, 0.0)
        again = np.linalg.norm(units, axis=1)
        return DirectionalPlan.towards(self._edges, units / np.where(fine, again, 1.0)[:, None], fine, N_CELLS)

    def _plan_along(self, tally: Any) -> DirectionalPlan:
        n_estimation = self.n_samples - int(self.pilot * self.n_samples)
        return plan_from_pilot(
            tally, n_estimation, self.alpha, (1.0 - GRADIENT_SHARE) * self.alpha, GRADIENT_SHARE * self.alpha
        )

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> DirectionalTally:
        if plan is None:  # nothing known, nothing measured
            plan = DirectionalPlan.towards(self._edges, np.zeros((n_rows, n_features)), False, N_CELLS)
        return DirectionalTally.empty(plan, candidate)

    def infer(self, tally: DirectionalTally) -> dict[str, FloatArray]:
        plan, measured = tally.plan, tally.plan.measured
        distance = first_order_radius(binomial_lower(tally.hits, np.maximum(tally.n, 1), self.alpha))
        if np.any(measured & ~np.any(plan.multipliers, axis=(1, 2))):
            raise ValueError("The tally must have a plan with multipliers, got a direction only. Run a pilot first.")
        rows = np.flatnonzero(measured)
        if len(rows):
            own, edges = tally[rows], np.asarray(plan.edges)
            mass, strata = bin_masses(edges), own.plan.strata
            trials, masses = own.stratum_trials[:, None], np.bincount(strata, weights=mass) * own.plan.tilts
            gradients = gradient_across_upper(
                own.norm_sq(masses / np.maximum(trials, 1)), trials, masses, own.n_features, GRADIENT_SHARE * self.alpha
            )
            limit = stratified_lower(
                own.bin_hits[:, None],
                own.bin_trials[:, None],
                mass,
                own.plan.multipliers,
                own.plan.guesses[:, None],
                (1.0 - GRADIENT_SHARE) * self.alpha,
            )
            plan, tilt = own.plan, own.plan.tilts[..., strata]
            cells = Cells(plan.borders, limit.weights, plan.slopes, plan.across, plan.radius, tilt)
            distance[rows] = cells_radius(edges, cells, limit.value, gradients, _VERTICES)
        # The limits of single cells are not reported: each holds at its own level, and not together with the distance.
        return {"distance": distance}

    def radius(self, limits: Mapping[str, FloatArray]) -> FloatArray:
        return limits["distance"]


def _is_measured(plan: DirectionalPlan) -> bool:
    return bool(np.all(plan.measured))
