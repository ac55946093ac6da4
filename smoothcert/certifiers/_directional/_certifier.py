"""Directional: the class measured along one direction, its gradient bounded across."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, cast

import numpy as np
from scipy.special import ndtr, ndtri

from ..._parameters import check_parameters, fraction, integer
from ..._validation import BoolArray, FloatArray, check_choice
from ...bounds import first_order_radius
from ...bounds._directional._integral import bin_masses
from ...bounds._directional._radius import N_CELLS, Cells, cells_radius
from ...confidence import binomial_lower, stratified_lower
from ...tallies import (
    DirectionalEvidence,
    DirectionalPlan,
    DirectionalTally,
    GradientTally,
    InputGradientTally,
    IntArray,
    RivalPlan,
    RivalTally,
    ScoreTally,
    Tally,
)
from ...tallies._rivals import most_rivals
from .._base import AGAINST, BaseCertifier, Pilot, Screen
from .._first_order import FirstOrderCertifier
from ._designs import with_design_ahead, with_pilot_design
from ._plan import gradient_across_upper, plan_from_pilot
from ._rival_direction import turned_directions
from ._rival_plan import MOST_MEASURED, Levels, plan_against_rivals, rank_rivals
from ._rivals import distance_to_rivals

GRADIENT_SHARE = 0.2
"""Share of `alpha` for the limit of the gradient across the direction, as in the second-order certificate."""

SLOPE_SAMPLES, SLOPE_SAMPLES_AHEAD = 500, 1500
"""Input gradients averaged for a first direction, at the input, and for a better one, on the way along the first."""

RANKING_SAMPLES = 500
"""Votes that rank the rivals where the direction is given."""

_FRACTION_FOR_LOOKS = 0.1
"""Part of the samples for the pilot where radii are asked for. On small networks a twentieth lost answers, and a fifth
was not better."""

_MANY_DIMENSIONS, _LEAST_MISSES = 100, 150
"""In more dimensions than these, a class that is expected to miss fewer votes of all samples is not measured. On
CIFAR-10 nothing was gained there, and the rest of the pilot is better spent on the votes."""

_NUMBERS_OF_SCORES = 2**20
"""Scores of all classes are kept within 8 MB an input; otherwise the direction is that of the class against all."""

_REACH = 4.0
"""Where the outermost bins begin; beyond lie 6e-5 of the noise, too little to be worth bins of their own."""

_BIN_SPREAD = 2.0
"""Bins have equal shares of a normal law with this standard deviation.

Within a bin the worst case may put the misses where they weigh most, so bins must be narrow where there is much noise.
If hits were equally uncertain everywhere, widths in proportion to the inverse root of the density, a standard deviation
of 1.4, would lose least; inputs far from the boundary need narrow bins further out.
"""
_VERTICES = 48
"""Points tested around the half circle. More of them lose less between points and take longer; any number is valid."""


class DirectionalCertifier(BaseCertifier):
    """Certificate that measures the votes along one direction and bounds them across it.

    An adversary has one good direction. A part of the samples, the pilot, looks for it, ranks the rivals and chooses
    multipliers; the rest counts votes in bins along it and bounds gradients across it. Rivals that are near are each
    compared with the class in this way, all others by their votes. A fifth of `alpha` goes to the gradient, the rest to
    a weighted sum of the shares in the bins. Neither is divided among rivals, directions or radii: the nearest point
    where the class loses belongs to one rival and lies in one of the cells that the pilot has fixed, and a radius
    beyond that point is certified only if the limit for that rival and cell is wrong. Where the pilot sees no gain over
    the plain votes, those are certified, with all of `alpha`.

    Parameters
    ----------
    n_samples : int, default=100_000
        Noisy copies of each input, pilot and estimation together.
    n_selection : int, default=100
        Noisy copies that choose the candidate class.
    alpha : float, default=0.001
        Probability that the certificate of an input is wrong.
    pilot_fraction : float, default=0.2
        Part of `n_samples` that the pilot may use.
    direction : {"auto", "gradient", "score"} or callable, default="auto"
        ``"gradient"``: averaged input gradients of a softened margin, for skorch nets. ``"score"``: the noise weighted
        by its votes, for any base. ``"auto"``: the first where it can be had, else the second. A callable is given
        the inputs and their candidate labels and returns one direction for each, an array shaped like the inputs. A
        bad direction costs radius, never soundness.
    n_bins : int, default=60
        Bins along the direction.
    against : {"rivals", "half"}, default="rivals"
        What the class is compared with: every other class, or one half of the votes. With two classes it is the same.
    rivals : "auto", int or None, default="auto"
        How many rivals may be measured along the direction; all others are compared by their votes. ``"auto"``: up to
        eight, fewer in very many dimensions, where their sums would take more than 4 MB an input. None is the same as
        ``against="half"``.

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

    tally_type = DirectionalEvidence

    _designs = True

    def __init__(
        self,
        n_samples: int = 100_000,
        n_selection: int = 100,
        alpha: float = 0.001,
        pilot_fraction: float = 0.2,
        direction: str | Callable[..., Any] = "auto",
        n_bins: int = 60,
        against: str = "rivals",
        rivals: str | int | None = "auto",
    ) -> None:
        super().__init__(n_samples, n_selection, alpha)
        self.pilot_fraction = pilot_fraction
        self.direction = direction
        self.n_bins = n_bins
        self.against = against
        self.rivals = rivals

    def check_params(self) -> None:
        super().check_params()
        check_parameters(self, {"pilot_fraction": fraction("About 0.2 is good."), "n_bins": integer(8, "60 are good.")})
        if not callable(self.direction):
            check_choice("direction", self.direction, ("auto", "gradient", "score"))
        check_choice("against", self.against, AGAINST)
        if self.rivals is not None and not (isinstance(self.rivals, str) and self.rivals == "auto"):
            check_parameters(self, {"rivals": integer(1, "Use 'auto' unless time is short.")})
        least = int(np.ceil(4 * self.n_bins / min(self.pilot_fraction, 1.0 - self.pilot_fraction)))
        if self.n_samples < least:
            raise ValueError(
                f"n_samples must be at least {least} for {self.n_bins} bins and a pilot_fraction of "
                f"{self.pilot_fraction:g}, "
                f"got {self.n_samples}. Take more samples or fewer bins."
            )

    @property
    def n_edges(self) -> int:
        return int(self.n_bins) - 1

    @property
    def _edges(self) -> FloatArray:
        outermost = float(ndtr(-_REACH / _BIN_SPREAD))
        edges: FloatArray = _BIN_SPREAD * ndtri(np.linspace(outermost, 1.0 - outermost, self.n_bins - 1))
        return edges

    def pilots(self, gradients: bool) -> tuple[Pilot, ...]:
        """Return a pilot for the direction and one along it; against rivals one more in between, to turn it."""
        share = int(self.pilot_fraction * self.n_samples)
        if callable(self.direction):
            # The direction is given; which rivals to measure along it is still to be seen.
            few = max(min(RANKING_SAMPLES, share // 4), 1)
            return (
                Pilot(0, self._slopes, self._direction_given, observes=self.direction),
                Pilot(share, self._along, self._plan_along, needed=_is_against_half),
                Pilot(few, self._along, self._rank, needed=_is_against_rivals),
                Pilot(share - few, self._along, self._plan_along, needed=_is_against_rivals),
            )
        if self.direction == "gradient" and not gradients:
            raise ValueError(
                "direction must be 'score', 'auto' or a callable for a base without input gradients, got 'gradient'. "
                "Only skorch nets have them."
            )
        if gradients and self.direction != "score":
            few, more = max(min(SLOPE_SAMPLES, share // 8), 1), max(min(SLOPE_SAMPLES_AHEAD, share // 4), 1)
            ahead = Pilot(more, self._slopes, self._direction_ahead, observes="gradients", needed=_is_measured)
            first = [Pilot(few, self._slopes, self._direction_of_slopes, observes="gradients"), ahead]
        else:
            first = [Pilot(share // 2, self._score, self._direction_of_score)]
        rest = share - sum(pilot.n_samples for pilot in first)
        return (
            *first,
            Pilot(rest, self._along, self._plan_along, needed=_is_measured_against_half),
            Pilot(rest // 3, self._along, self._turn, needed=_is_measured_against_rivals),
            Pilot(rest - rest // 3, self._along, self._plan_along, needed=_is_measured_against_rivals),
        )

    def for_looks(self, gradients: bool) -> DirectionalCertifier:
        """Return a copy with a smaller pilot where gradients give the direction, as every input pays for all of it."""
        if callable(self.direction) or self.direction == "score" or not gradients:
            return self
        other = copy(self)
        other.pilot_fraction = min(self.pilot_fraction, max(_FRACTION_FOR_LOOKS, 4 * self.n_bins / self.n_samples))
        return other

    def without_designs(self) -> DirectionalCertifier:
        other = copy(self)
        other._designs = False
        return other

    def screen(self) -> Screen:
        """Return the votes alone, up to as many as the pilot would take."""
        against = "half" if self.rivals is None else self.against
        return Screen(FirstOrderCertifier(max(int(self.pilot_fraction * self.n_samples), 2), against=against))

    def _compares_rivals(self, n_classes: int) -> bool:
        """Return whether rivals are compared; with two classes the only rival has all other votes."""
        return self.against == "rivals" and self.rivals is not None and n_classes > 2

    def _slopes(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        of_classes = n_classes if self._compares_rivals(n_classes) else None
        return InputGradientTally.empty(n_rows, n_features, candidate, of_classes, plan)

    def _score(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        if not self._compares_rivals(n_classes):
            return GradientTally.empty(n_rows, n_features, candidate=candidate)
        if n_classes * n_features <= _NUMBERS_OF_SCORES:
            return GradientTally.empty(n_rows, n_features, n_classes=n_classes, candidate=candidate)
        return ScoreTally.empty(n_rows, n_features, candidate, n_classes)

    def _along(self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None) -> Tally:
        if isinstance(plan, RivalPlan):
            return RivalTally.empty(plan, n_classes, candidate)
        return DirectionalTally.empty(plan, candidate)

    def _direction_of_slopes(self, tally: Any) -> DirectionalPlan | RivalPlan:
        plan = self._towards(-tally.slope_sum, tally.hits < tally.n, tally.votes, tally.candidate)
        return with_design_ahead(plan, tally) if self._designs and isinstance(plan, RivalPlan) else plan

    def _direction_ahead(self, tally: InputGradientTally) -> DirectionalPlan | RivalPlan:
        """Return the plan with the directions of gradients between the input and where it is likely to be overtaken;
        where these were at the input, too, with those of both together."""
        before = cast(DirectionalPlan | RivalPlan, tally.plan)
        units, _ = _unit_vectors(-tally.slope_sum)
        units += np.where(before.designed[:, None], 0.0, before.direction)
        units, fine = _unit_vectors(units)
        direction = np.where(fine[:, None], units, before.direction)
        if isinstance(before, RivalPlan):
            return RivalPlan.towards(before.edges, direction, before.rivals, N_CELLS)
        return DirectionalPlan.towards(before.edges, direction, before.measured, N_CELLS)

    def _direction_of_score(self, tally: Any) -> DirectionalPlan | RivalPlan:
        if isinstance(tally, ScoreTally):
            return self._direction_of_slopes(tally)
        if tally.hits.ndim == 1:
            return self._towards(-tally.grad_sum, tally.hits < tally.n)
        rows, own = np.arange(len(tally)), tally.candidate
        runner_up = rank_rivals(tally.hits, own, 1)[:, 0]
        away = tally.grad_sum[rows, runner_up] - tally.grad_sum[rows, own]
        return self._towards(away, tally.hits[rows, own] < tally.n, tally.hits, own)

    def _direction_given(self, tally: Any) -> DirectionalPlan | RivalPlan:
        return self._towards(tally.slope_sum, tally.hits < tally.n, tally.votes, tally.candidate)

    def _towards(
        self,
        vectors: FloatArray,
        contested: BoolArray,
        votes: IntArray | None = None,
        candidate: IntArray | None = None,
    ) -> DirectionalPlan | RivalPlan:
        """Return the unit vectors; inputs whose class was never contested, or that have no direction, need none. With
        votes, also the rivals to measure."""
        units, fine = _unit_vectors(vectors)
        fine &= contested
        units = np.where(fine[:, None], units, 0.0)
        if votes is None or candidate is None:
            return DirectionalPlan.towards(self._edges, units, fine, N_CELLS)
        return RivalPlan.towards(
            self._edges, units, np.where(fine[:, None], self._ranked(votes, candidate, vectors.shape[1]), -1), N_CELLS
        )

    def _ranked(self, votes: IntArray, candidate: IntArray, n_features: int) -> IntArray:
        most = MOST_MEASURED if self.rivals == "auto" else int(self.rivals or 1)
        return rank_rivals(votes, candidate, min(most, most_rivals(n_features)))

    def _rank(self, tally: RivalTally) -> RivalPlan:
        """Return the plan of a pilot that only counted votes, with rivals to measure."""
        measured = np.any(tally.plan.direction, axis=1) & (tally.hits < tally.n)
        rivals = np.where(measured[:, None], self._ranked(tally.counts, tally.candidate, tally.n_features), -1)
        plan = RivalPlan.towards(tally.plan.edges, tally.plan.direction, rivals, N_CELLS)
        return with_pilot_design(plan, tally) if self._designs else plan

    def _turn(self, tally: RivalTally) -> RivalPlan:
        """Return the plan with directions turned to where the runner-up is likely to overtake, and rivals ranked
        again."""
        contested = tally.plan.measured & (tally.hits < tally.n)
        if tally.n_features > _MANY_DIMENSIONS:
            contested &= (1.0 - tally.shares_at_random()[0]) * self.n_samples >= _LEAST_MISSES
        votes, own = tally.counts, tally.candidate
        plan = cast(RivalPlan, self._towards(turned_directions(tally), contested, votes, own))
        return with_pilot_design(plan, tally) if self._designs else plan

    @property
    def _levels(self) -> Levels:
        return Levels(self.alpha, (1.0 - GRADIENT_SHARE) * self.alpha, GRADIENT_SHARE * self.alpha)

    def _plan_along(self, tally: Any) -> DirectionalPlan | RivalPlan:
        n_estimation = self.n_samples - int(self.pilot_fraction * self.n_samples)
        if isinstance(tally, RivalTally):
            return plan_against_rivals(tally, n_estimation, self._levels, self._designs)
        return plan_from_pilot(
            tally, n_estimation, self.alpha, (1.0 - GRADIENT_SHARE) * self.alpha, GRADIENT_SHARE * self.alpha
        )

    def new_tally(
        self, n_rows: int, n_features: int, n_classes: int, candidate: IntArray, plan: Any = None
    ) -> DirectionalEvidence:
        if plan is None:  # nothing known, nothing measured
            direction = np.zeros((n_rows, n_features))
            if self._compares_rivals(n_classes):
                plan = RivalPlan.towards(self._edges, direction, np.empty((n_rows, 0)), N_CELLS)
            else:
                plan = DirectionalPlan.towards(self._edges, direction, False, N_CELLS)
        return cast(DirectionalEvidence, self._along(n_rows, n_features, n_classes, candidate, plan))

    def infer(self, tally: DirectionalEvidence) -> dict[str, FloatArray]:
        if isinstance(tally, RivalTally):
            return {"distance": distance_to_rivals(tally, self._levels)}
        return self._infer_against_half(cast(DirectionalTally, tally))

    def _infer_against_half(self, tally: DirectionalTally) -> dict[str, FloatArray]:
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


def _unit_vectors(vectors: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return vectors of length one, and which of them are; zero where there is no direction."""
    length = np.linalg.norm(vectors, axis=1)
    fine = np.isfinite(length) & (length > 0.0)
    units = np.where(fine[:, None], vectors / np.where(fine, length, 1.0)[:, None], 0.0)
    # Normalised twice: the first division may round.
    again = np.linalg.norm(units, axis=1)
    return units / np.where(fine, again, 1.0)[:, None], fine


def _is_measured(plan: DirectionalPlan | RivalPlan) -> bool:
    return bool(np.all(plan.measured))


def _is_against_rivals(plan: DirectionalPlan | RivalPlan) -> bool:
    return isinstance(plan, RivalPlan)


def _is_against_half(plan: DirectionalPlan | RivalPlan) -> bool:
    return isinstance(plan, DirectionalPlan)


def _is_measured_against_rivals(plan: DirectionalPlan | RivalPlan) -> bool:
    return _is_against_rivals(plan) and _is_measured(plan)


def _is_measured_against_half(plan: DirectionalPlan | RivalPlan) -> bool:
    return _is_against_half(plan) and _is_measured(plan)
