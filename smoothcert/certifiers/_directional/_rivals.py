"""The directional certificate against rivals, from evidence to distances."""

from __future__ import annotations

import numpy as np

from ..._validation import FloatArray
from ...bounds import first_order_radius
from ...bounds._directional._integral import bin_masses
from ...bounds._directional._radius import Cells, cells_radius, cells_radius_up_to
from ...confidence import rival_limits, stratified_rival_lower, stratified_share_upper
from ...tallies import IntArray, RivalPlan, RivalTally
from ._rival_gradients import gradients_upper
from ._rival_plan import Levels

_RAREST = 1e-5
"""Smallest share of votes to expect. Any is valid."""

_VERTICES = 48
"""Points tested around the half circle, as against one half."""


def distance_to_rivals(tally: RivalTally, levels: Levels) -> FloatArray:
    """Return the distances within which no class overtakes, in units of sigma, shape (n_rows,).

    Each rival has one test, which the plan has fixed: along the direction if it is measured, else by its votes. Each
    test uses all of `alpha`: a wrong certificate needs a wrong test against the class that in truth overtakes first,
    and that is one fixed class.
    """
    plan = tally.plan
    if np.any((plan.rivals >= 0) & ~np.any(plan.multipliers, axis=(2, 3))):
        raise ValueError("The tally must have a plan with multipliers, got a direction only. Run a pilot first.")
    distance = _by_votes(tally, levels.alpha)
    # A loop over rivals, with all rows at once; the first rival is expected to be the nearest.
    for place in range(plan.rivals.shape[1]):
        rows = np.flatnonzero((plan.rivals[:, place] >= 0) & (distance > 0.0))
        if len(rows):
            distance[rows] = _along(tally, rows, place, distance[rows], levels)
    return distance


def _by_votes(tally: RivalTally, alpha: float) -> FloatArray:
    """Return the distance to all classes that are not measured, with noise at random or designed."""
    distance = np.zeros(len(tally))
    designed = tally.plan.designed
    rows = np.flatnonzero(~designed)
    if len(rows):
        distance[rows] = _by_votes_at_random(tally[rows], alpha)
    rows = np.flatnonzero(designed)
    if len(rows):
        distance[rows] = _by_votes_in_strata(tally[rows], alpha)
    return distance


def _by_votes_in_strata(tally: RivalTally, alpha: float) -> FloatArray:
    """Return the first-order distance to all classes that are not measured, taken together.

    Two limits, each with half of `alpha`: of the share that the class loses, and of the share of the others.
    """
    plan, trials = tally.plan, tally.stratum_trials
    mass = bin_masses(np.asarray(plan.edges))
    own, others = _expected_rest(plan, mass)
    hits = tally.stratum_hits
    masses = plan.stratum_masses
    missed = stratified_share_upper(trials - hits[:, 0], trials, masses, own, alpha / 2.0)
    rest = stratified_share_upper(trials - hits.sum(axis=1), trials, masses, others, alpha / 2.0)
    return np.atleast_1d(first_order_radius(1.0 - missed, np.minimum(rest, missed)))


def _expected_rest(plan: RivalPlan, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the share of votes that the class is expected to lose, and the part of it that is lost to classes which
    are not measured."""
    measured = plan.rivals >= 0
    missed = 1.0 - np.sum(plan.guesses[:, 0, 0] * mass, axis=-1)
    of_rivals = np.where(measured, np.sum(plan.guesses[:, :, 1] * mass, axis=-1), 0.0)
    # One after the other, so that room for more rivals does not change the last bit.
    rest = missed - np.cumsum(of_rivals, axis=1)[:, -1]
    return np.clip(missed, _RAREST, 1.0 - _RAREST), np.clip(rest, _RAREST, 1.0 - _RAREST)


def _by_votes_at_random(tally: RivalTally, alpha: float) -> FloatArray:
    """Return the first-order distance to the strongest class that is not measured.

    Votes for no class are counted as one more class.
    """
    others = tally.counts.copy()
    np.put_along_axis(others, tally.candidate[:, None], 0, axis=1)
    for row, measured in enumerate(tally.plan.rivals):
        others[row, measured[measured >= 0]] = 0
    strongest = np.maximum(others.max(axis=1), tally.n - tally.counts.sum(axis=1))
    return np.atleast_1d(first_order_radius(*rival_limits(tally.hits, strongest, np.maximum(tally.n, 1), alpha)))


def _along(tally: RivalTally, rows: IntArray, place: int, most: FloatArray, levels: Levels) -> FloatArray:
    """Return the distance to one measured rival of each row, at most `most`."""
    plan, edges = tally.plan, np.asarray(tally.plan.edges)
    mass, n_bins = bin_masses(edges), len(edges) + 1
    tilts, nu = plan.tilts[rows, place], plan.multipliers[rows, place]
    gradients = gradients_upper(tally, rows, place, levels.gradient)
    limit = stratified_rival_lower(
        tally.bin_hits[rows, 0][:, None],
        tally.bin_hits[rows, 1 + place][:, None],
        tally.bin_trials[rows][:, None],
        mass=mass,
        weights=nu[..., :n_bins],
        rival_weights=nu[..., n_bins:],
        guesses=plan.guesses[rows, place, 0][:, None],
        rival_guesses=plan.guesses[rows, place, 1][:, None],
        alpha=levels.shares,
    )
    kept = np.concatenate([limit.weights, limit.rival_weights], axis=-1)
    tilt = np.concatenate([tilts[..., plan.strata]] * 2, axis=-1)
    cells = Cells(
        plan.borders[rows, place], kept, plan.slopes[rows, place], plan.across[rows, place],
        plan.made_for[rows, place], tilt,
    )  # fmt: skip
    if place == 0:
        return np.minimum(cells_radius(edges, cells, limit.value, gradients, _VERTICES, threshold=1.0), most)
    return cells_radius_up_to(edges, cells, limit.value, gradients, _VERTICES, 1.0, most)
