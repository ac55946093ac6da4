"""A better direction: the gradient where rivals are likely to overtake, instead of at the input."""

from __future__ import annotations

import numpy as np

from ..._validation import FloatArray
from ...bounds import first_order_radius
from ...bounds._directional._integral import bin_masses
from ...tallies import RivalTally
from ._plan import _TILT, tilts_for

_LARGEST_SHIFT = 2.5
"""Farther out there are too few samples to estimate a gradient from. Decides about directions only."""

_USUAL_GAIN = 1.15
"""How far the certificate usually reaches, relative to the first order."""

_NEARLY_TIED = 0.02
"""Rivals count less by a factor e for every such step, in units of sigma, by which they are farther away."""


def turned_directions(tally: RivalTally) -> FloatArray:
    """Return the directions in which the lead over the nearest rivals falls fastest, at a point on the way to where it
    is lost.

    The sums across the direction, tilted towards that point, estimate the gradient across it there; the votes in the
    bins, the derivative along it. As much of the sums is used as is not likely to be noise, which in very many
    dimensions is nothing.

    Parameters
    ----------
    tally : RivalTally

    Returns
    -------
    ndarray of shape (n_rows, n_features)
        Vectors of any length.
    """
    plan = tally.plan
    edges = np.asarray(plan.edges)
    strata = np.bincount(plan.strata, weights=bin_masses(edges))
    directions = plan.direction.copy()
    for row in np.flatnonzero(plan.measured):
        rivals = np.flatnonzero(plan.rivals[row] >= 0)
        votes = tally.counts[row, plan.rivals[row, rivals]]
        own, others = (tally.hits[row] + 0.5) / (tally.n[row] + 1.0), (votes + 0.5) / (tally.n[row] + 1.0)
        radii = first_order_radius(own, others)
        tied = np.exp(-(radii - radii.min()) / _NEARLY_TIED)
        # The lead is that of the class over a mixture of rivals.
        signs = np.concatenate([[1.0], -tied / tied.sum()])
        measured, summed = np.concatenate([[0], 1 + rivals]), np.concatenate([[0], 2 + rivals])
        shift = min(_TILT * _USUAL_GAIN * float(radii.min()), _LARGEST_SHIFT)
        weights = strata * tilts_for(plan, np.array([shift]))[0] / np.maximum(tally.stratum_trials[row], 1)
        across = weights @ np.tensordot(signs, tally.grad_sum[row, summed], axes=1)
        length_sq = float(across @ across)
        noise_sq = float(np.square(signs) @ tally.grad_sq[row, summed] @ np.square(weights))
        if length_sq > 0.0:
            across = across * max(1.0 - noise_sq / length_sq, 0.0)
        lead = signs @ tally.bin_hits[row, measured] / np.maximum(tally.bin_trials[row], 1)
        step = 0.1
        fall = float((bin_masses(edges, shift - step) - bin_masses(edges, shift + step)) @ lead) / (2.0 * step)
        # Where the lead does not fall along the direction, it leads nowhere, and what is known is across.
        directions[row] = max(fall, 0.0) * directions[row] - across
    return directions
