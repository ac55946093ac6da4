"""Where along the direction to draw noise: a few designs to choose from.

Any design is valid. A design is a mixture of normal laws along the direction, whose centres are given relative to the
radius to expect; of a mixture only the masses of the strata are used, so that within a stratum noise stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from ..._validation import FloatArray
from ...bounds import first_order_radius
from ...bounds._directional._integral import bin_masses
from ...tallies import InputGradientTally, IntArray, RivalPlan, RivalTally
from ...tallies._along import AlongDirection

PILOT_DESIGN = ((-1.0, -0.5, 0.0, 0.4, 0.7, 1.0), (0.04, 0.06, 0.3, 0.2, 0.2, 0.2))
"""Centres and weights for the pilot, which has to see a little of everything."""

AHEAD = ((0.7,), (1.0,))
"""For gradients from which the direction is made: they should be those near to where the class is overtaken."""

DESIGNS = (
    ((-0.7, 0.3, 0.8), (0.06, 0.47, 0.47)),
    PILOT_DESIGN,
    ((-1.0, -0.5, 0.0, 0.3, 0.7, 1.0), (0.1, 0.15, 0.5, 0.1, 0.08, 0.07)),
)
"""Those for the estimation; the first is usually best. For radii beyond 2 the back matters as well, since misses there
are rare and weigh much."""

FAR = 0.8
"""Radius, in units of sigma and by votes alone, from which on noise is designed. Nearer to a boundary, noise at random
sees enough of both sides."""

USUAL_GAIN = 1.12
"""How far the certificate usually reaches, relative to the first order."""

_LEAST_SHARE = 0.002
"""Of the noise, in every stratum."""


def design_shares(
    plan: AlongDirection, design: tuple[tuple[float, ...], tuple[float, ...]], radius: FloatArray
) -> FloatArray:
    """Return the shares of the strata in a design, for the radii to expect; shape (n_rows, n_strata)."""
    centres, weights = np.asarray(design[0]), np.asarray(design[1])
    cuts = np.asarray(plan.cuts)
    shares = np.sum(weights[:, None] * bin_masses(cuts, radius[:, None] * centres), axis=1)
    shares = np.maximum(shares, _LEAST_SHARE)
    of_all: FloatArray = shares / shares.sum(axis=1, keepdims=True)
    return of_all


def with_design_ahead(plan: RivalPlan, tally: InputGradientTally) -> RivalPlan:
    """Return the plan with noise around a point on the way to where the class is likely to be overtaken, if that is
    far."""
    votes, own = cast(IntArray, tally.votes), tally.hits
    rival = votes.copy()
    np.put_along_axis(rival, cast(IntArray, tally.candidate)[:, None], 0, axis=1)
    radius = _radius_of_shares(own / np.maximum(tally.n, 1), rival.max(axis=1) / np.maximum(tally.n, 1), tally.n)
    shares = design_shares(plan, AHEAD, USUAL_GAIN * radius)
    far = plan.measured & (radius > FAR)
    return replace(plan, design=np.where(far[:, None], shares, 0.0))


def with_pilot_design(plan: RivalPlan, tally: RivalTally) -> RivalPlan:
    """Return the plan with designed noise for the pilot where the class is far from its rivals, by its votes so far."""
    own, listed, strongest = tally.shares_at_random()
    radius = _radius_of_shares(own, np.maximum(np.max(listed, axis=1, initial=0.0), strongest), tally.n)
    far = plan.measured & (radius > FAR)
    shares = design_shares(plan, PILOT_DESIGN, USUAL_GAIN * radius)
    return replace(plan, design=np.where(far[:, None], shares, 0.0))


def _radius_of_shares(own: FloatArray, rival: FloatArray, n: IntArray) -> FloatArray:
    """Return first-order radii of observed shares, neither of them taken for 0."""
    q = np.maximum(rival, 0.5 / np.maximum(n, 1))
    return np.atleast_1d(first_order_radius(np.clip(own, 0.0, 1.0 - q), q))


def thinning(plan: AlongDirection, shares: FloatArray) -> FloatArray:
    """Return by what factor the variances in the bins grow by a design: their mass over their share; 1 for noise at
    random. Shape (n_rows, n_bins)."""
    factor = np.where(shares > 0.0, plan.stratum_masses / np.where(shares > 0.0, shares, 1.0), 1.0)
    of_bins: FloatArray = factor[:, plan.strata]
    return of_bins
