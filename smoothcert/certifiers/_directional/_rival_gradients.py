"""Limits of the gradients across the direction, of the lead of a class over rivals: those to expect, and those proved.

There are two limits: one for all classifiers, which small numbers of dimensions hardly widen, and one that adapts to
how often votes differ. The plan chooses for each cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._numerics import LARGEST_GRADIENT, SAFETY
from ..._validation import FloatArray
from ...confidence import adaptive_gradient_scale, adaptive_gradient_upper
from ...confidence._adaptive_gradient import N_BLOCKS
from ...tallies import IntArray, RivalTally
from ._plan import gradient_across_upper

_VALUES = (0.0, 0.5, 1.0)
"""Of ``f = (1 + 1_A - 1_B) / 2``: votes for the rival, for neither, for the class."""

_MANY_DIMENSIONS = 100
"""From here on the adaptive limit is worth the time it takes to plan."""

_CONFIDENT = 0.85
"""Mean of `f` from which on it is a better centre than one half."""


def pilot_centres(pilot: RivalTally, row: IntArray, rival: IntArray) -> FloatArray:
    """Return the centres of `f` in the strata, shape (n_tests, n_strata)."""
    mean = np.sum(_pilot_shares(pilot, row, rival) * np.asarray(_VALUES), axis=-1)
    return np.where(np.abs(mean - 0.5) > _CONFIDENT - 0.5, mean, 0.5)


def _pilot_shares(pilot: RivalTally, row: IntArray, rival: IntArray) -> FloatArray:
    """Return the shares of the values of `f` in the strata to expect, none of them 0; shape (n_tests, n_strata, 3)."""
    counts = np.array([pilot.lead_counts(r, b) for r, b in zip(row, rival, strict=True)])
    counts = counts.reshape(len(row), pilot.plan.n_strata, 3) + 0.3
    shares: FloatArray = counts / counts.sum(axis=-1, keepdims=True)
    return shares


def expected_gradients(
    pilot: RivalTally, row: IntArray, rival: IntArray, tilts: FloatArray, trials: Sequence[FloatArray], alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return the limits to expect with the given trials in the strata, shape (n_trials, n_tests, n_cells), and the
    scales of the adaptive limits with the first of them, zero for the others; shape (n_tests, n_cells).

    With all trials but the first, adaptive limits are taken to change as those for all classifiers do, which are quick.
    """
    masses = pilot.plan.stratum_masses * tilts
    centres = pilot_centres(pilot, row, rival)
    weights = masses / np.maximum(pilot.stratum_trials[row], 1)[:, None]
    sums = [pilot.lead_sums(r, b, c) for r, b, c in zip(row, rival, centres, strict=True)]
    found = np.maximum([each.norm_sq(w) for each, w in zip(sums, weights, strict=True)], 0.0)
    found = found.reshape(masses.shape[:2])
    limits = [gradient_across_upper(found, each[:, None], masses, pilot.n_features, alpha) for each in trials]
    widths = np.array(limits) / np.maximum(limits[0], 1e-12)
    limit, scales = limits[0], np.zeros(found.shape)
    if pilot.n_features > _MANY_DIMENSIONS:
        shares = _pilot_shares(pilot, row, rival)
        # One after the other: the search ends when all have found their scale, and rows must not see their company.
        for i in range(len(row)):
            used, unused = _without_thin_strata(masses[i], trials[0][i])
            scale, adaptive = adaptive_gradient_scale(
                np.sqrt(found[i]),
                used,
                trials[0][i],
                shares=shares[i],
                centres=centres[i],
                n_features=pilot.n_features - 1,
                alpha=alpha,
                values=_VALUES,
            )
            adaptive = adaptive + unused
            scales[i], limit[i] = np.where(adaptive < limit[i], scale, 0.0), np.minimum(limit[i], adaptive)
    return 2.0 * limit * widths, scales


def gradients_upper(tally: RivalTally, rows: IntArray, place: int, alpha: float) -> FloatArray:
    """Return the limits for one measured rival of each row, shape (n_rows, n_cells)."""
    plan = tally.plan
    masses = plan.stratum_masses * plan.tilts[rows, place]
    trials = tally.stratum_trials[rows]
    weights = masses / np.maximum(trials, 1)[:, None]
    one_half = np.full(plan.n_strata, 0.5)
    found = np.array([tally.lead_sums(r, place, one_half).norm_sq(w) for r, w in zip(rows, weights, strict=True)])
    limit = gradient_across_upper(found, trials[:, None], masses, tally.n_features, alpha)
    for i in np.flatnonzero(np.any(plan.scales[rows, place] > 0.0, axis=1)):
        row, scale = rows[i], plan.scales[rows[i], place]
        chosen, centres = scale > 0.0, plan.centres[row, place]
        sums = tally.lead_sums(row, place, centres)
        used, unused = _without_thin_strata(masses[i, chosen], trials[i])
        adaptive = adaptive_gradient_upper(
            sums.norm_sq(used / np.maximum(trials[i], 1)),
            sums.within,
            sums.squares_up(trials[i]),
            scale[chosen],
            used,
            counts=tally.lead_counts(row, place),
            centres=centres,
            n_features=tally.n_features - 1,
            alpha=alpha,
            values=_VALUES,
        )
        limit[i, chosen] = (adaptive + unused) * (1.0 + SAFETY)
    return 2.0 * limit


def _without_thin_strata(masses: FloatArray, trials: FloatArray | IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the masses, none in strata with too few samples for the adaptive limit, and how long the sum of the
    gradients in these can be at most.

    Votes have no part in the choice: given how many samples fall into the strata, the limit holds for those that are
    left, and the others are added by the triangle inequality.
    """
    thin = trials < N_BLOCKS
    return np.where(thin, 0.0, masses), LARGEST_GRADIENT * np.sum(np.where(thin, masses, 0.0), axis=-1)
