"""From a pilot to a plan: what to expect along the direction, and with which multipliers to certify.

Whatever is decided here, the certificate is valid; a good plan makes it large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri

from ..._numerics import LARGEST_GRADIENT, SAFETY
from ..._validation import BoolArray, FloatArray
from ...bounds import first_order_radius
from ...bounds._directional._dual import USUAL_SLOPE
from ...bounds._directional._integral import bin_masses
from ...bounds._directional._radius import Cells, cell_middles, expected_radius, plan_cells
from ...confidence import binomial_lower, stratified_gradient_upper
from ...confidence._stratified import usual_width
from ...tallies import DirectionalPlan, DirectionalTally, IntArray, RivalPlan

# What follows decides how good plans are and how long they take; every plan is valid.
_DEGREE = 5
"""Degree of the polynomial for the shares along the direction: bends enough for a slab or a wedge."""
_PRIOR = 100.0
"""Samples that the fitted curve counts as, next to a bin's own."""
_VERTICES = 24
"""Half of those of the certificate: a plan needs no more than the radius to expect."""
_LEAST_RADIUS, _LARGEST_RADIUS = 0.02, 5.0
"""Radii to plan for: smaller ones are worth nothing, larger ones cannot be proved with any usual number of samples."""
_USUAL_SHARE = 0.95
"""How far certificates usually reach on the way to where the class would lose along the direction."""
_NEAR_ENOUGH = 0.05
"""Relative error of the guessed radius up to which cells need not be made again."""
_WORTH_IT = 1.01
"""Gain over the plain votes from which measuring is worth the risk of a plan that disappoints."""
_ROWS_AT_ONCE = 16
"""Enough to hide numpy's calls, few enough for the cache."""

_TILT = 0.7
"""Tilt of the gradient across, relative to how far a cell is along the direction.

Up to 1 the tilted gradient, which the worst case may use, gets smaller with the tilt, but its limit gets wider. This
was best on small networks, and 0.5 to 0.85 nearly as good.
"""


def expected_shares(edges: FloatArray, hits: IntArray, trials: IntArray) -> FloatArray:
    """Return the shares of hits in the bins; never 0 or 1.

    A logistic curve through all bins, a polynomial in its exponent, corrected by each bin's own samples where there
    are many.
    """
    ends = np.concatenate([edges[:1] - 0.4, edges, edges[-1:] + 0.4])
    centre = (ends[:-1] + ends[1:]) / (2.0 * ends[-1])
    powers = np.polynomial.legendre.legvander(centre, _DEGREE)
    curve = _logistic_curve(powers, hits, trials)
    share = (hits + _PRIOR * curve) / (trials + _PRIOR)
    least = 0.5 / (trials + _PRIOR)
    clipped: FloatArray = np.clip(share, least, 1.0 - least)
    return clipped


def _logistic_curve(powers: FloatArray, hits: IntArray, trials: IntArray) -> FloatArray:
    """Return the shares fitted to counts by a few damped Newton steps with a slight penalty, so that nothing runs
    away."""
    total, n = hits.sum(axis=1), trials.sum(axis=1)
    coefficients = np.zeros((len(hits), powers.shape[1]))
    coefficients[:, 0] = np.log((total + 0.5) / (n - total + 0.5))
    penalty = np.concatenate([[1e-6], np.full(powers.shape[1] - 1, 0.02)])
    for _ in range(12):
        share = expit(rowwise_matmul(coefficients, powers.T))
        gradient = rowwise_matmul(hits - trials * share, powers) - penalty * coefficients
        weight = trials * share * (1.0 - share)
        hessian = (weight[:, None] * powers.T) @ powers + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        longest = np.max(np.abs(rowwise_matmul(step, powers.T)), axis=1, keepdims=True)
        coefficients += step * np.minimum(1.0, 3.0 / np.maximum(longest, 1e-12))
    curve: FloatArray = expit(rowwise_matmul(coefficients, powers.T))
    return curve


def rowwise_matmul(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return ``rows @ matrix``, row by row: one product for all rounds differently for different numbers of rows, and
    what is planned for an input shall not depend on its company."""
    return (rows[:, None] @ matrix)[:, 0]


def plan_from_pilot(
    pilot: DirectionalTally, n_estimation: int, alpha: float, alpha_share: float, alpha_gradient: float
) -> DirectionalPlan:
    """Return the multipliers to certify with, for evidence of `n_estimation` samples.

    They maximise what the pilot's shares would certify, less the width of the confidence limit. Where that promises
    hardly more than the plain share of votes, nothing is measured.
    """
    levels = (alpha, alpha_share, alpha_gradient)
    parts = range(0, len(pilot), _ROWS_AT_ONCE)
    return DirectionalPlan.concatenate([_plan(pilot[i : i + _ROWS_AT_ONCE], n_estimation, *levels) for i in parts])


def _plan(
    pilot: DirectionalTally, n_estimation: int, alpha: float, alpha_share: float, alpha_gradient: float
) -> DirectionalPlan:
    """Plan for the inputs that are measured; nothing is computed where the class is lost at once."""
    edges = np.asarray(pilot.plan.edges)
    mass = bin_masses(edges)
    guesses = expected_shares(edges, pilot.bin_hits, pilot.bin_trials)
    width = usual_width(alpha_share) / np.sqrt(n_estimation)
    distance = _distance_along(edges, guesses, width)
    rows = np.flatnonzero(pilot.plan.measured & (distance > 0.0))
    plan = replace(pilot.plan, measured=np.zeros(len(pilot), dtype=bool), guesses=guesses)
    if not len(rows):
        return plan
    p = np.sum(mass * guesses[rows], axis=-1)
    plain = first_order_radius(binomial_lower(np.rint(p * n_estimation), n_estimation, alpha))
    # Along a direction that leads nowhere the class is never lost, and what is certified is about the second order.
    nowhere = _distance_in_a_slab(np.maximum(p - width * np.sqrt(p * (1.0 - p)), 0.5))
    guess = np.clip(np.minimum(_USUAL_SHARE * distance[rows], nowhere), _LEAST_RADIUS, _LARGEST_RADIUS)
    cells, tilts, radius = _cells(pilot[rows], guesses[rows], guess, width, n_estimation, alpha_gradient)
    found = {
        "measured": radius > _WORTH_IT * plain,
        "multipliers": cells.nu,
        "tilts": tilts,
        "slopes": cells.k,
        "across": cells.across,
        "borders": cells.borders,
        "radius": np.maximum(radius, plain),
    }
    changes: dict[str, Any] = {name: scatter_rows(rows, values, len(pilot)) for name, values in found.items()}
    return replace(plan, **changes)


def scatter_rows(rows: IntArray, values: FloatArray, n_rows: int) -> FloatArray:
    """Return values at some rows, zeros at the others."""
    full = np.zeros((n_rows, *values.shape[1:]), dtype=values.dtype)
    full[rows] = values
    return full


def _cells(
    pilot: DirectionalTally,
    guesses: FloatArray,
    guess: FloatArray,
    width: float,
    n_estimation: int,
    alpha_gradient: float,
) -> tuple[Cells, FloatArray, FloatArray]:
    """Return cells and their tilts, for guessed radii; and again, if those were far off, for the radii that the first
    ones promise. Also these radii."""
    plan, edges = pilot.plan, np.asarray(pilot.plan.edges)
    mass, variance = bin_masses(edges), guesses * (1.0 - guesses)
    strata = np.bincount(plan.strata, weights=mass)

    def cells_for(rows: Any, radius: FloatArray, ridge: FloatArray, start: FloatArray | float) -> Any:
        tilts = tilts_for(plan, _TILT * np.maximum(cell_middles(radius), 0.0))
        own = pilot[rows]
        found = np.maximum(own.norm_sq(strata * tilts / np.maximum(own.stratum_trials, 1)[:, None]), 0.0)
        trials = np.rint(n_estimation * strata)
        grad_norm = gradient_across_upper(found, trials, strata * tilts, pilot.n_features, alpha_gradient)
        misses, tilt = 1.0 - guesses[rows], tilts[..., plan.strata]
        return plan_cells(edges, misses, grad_norm, radius, ridge, start=start, tilt=tilt), tilts, grad_norm

    ridge = width * variance / np.sqrt(np.sum(mass * variance, axis=-1))[:, None]
    cells, tilts, grad_norm = cells_for(slice(None), guess, ridge[:, None], USUAL_SLOPE)
    spread = np.sqrt(np.sum(mass * np.square(cells.nu) * variance[:, None], axis=-1))
    value = np.sum(mass * cells.nu * guesses[:, None], axis=-1) - width * spread
    radius = expected_radius(edges, cells, value, grad_norm, _VERTICES)
    better = np.maximum(np.where(radius > 0.0, radius, guess), _LEAST_RADIUS)
    again = np.flatnonzero(np.abs(better - guess) > _NEAR_ENOUGH * guess)
    if len(again):
        ridge = width * variance[again, None] / np.maximum(spread[again], 1e-6)[..., None]
        others, other_tilts, _ = cells_for(again, better[again], ridge, cells.relative_slopes[again])
        tilts[again] = other_tilts
        cells = cells.replaced(again, others)
    return cells, tilts, radius


def _distance_along(edges: FloatArray, shares: FloatArray, width: float) -> FloatArray:
    """Return where along the direction half of the votes would be lost, less `width` standard deviations; 0 if at
    once."""
    mass = bin_masses(edges)

    def kept(distance: FloatArray) -> BoolArray:
        moved = bin_masses(edges, distance)
        spread = np.sqrt(np.sum(np.square(moved) / mass * shares * (1.0 - shares), axis=-1))
        still: BoolArray = np.sum(moved * shares, axis=-1) - width * spread > 0.5
        return still

    return bisect(kept, np.zeros(len(shares)))


def _distance_in_a_slab(p: FloatArray) -> FloatArray:
    """Return where half of the votes would be lost across a slab in whose middle there are `p`: the second order
    without gradient."""
    half = ndtri((1.0 + p) / 2.0)
    return bisect(lambda distance: ndtr(half - distance) - ndtr(-half - distance) > 0.5, np.zeros_like(p))


def bisect(kept: Callable[[FloatArray], BoolArray], low: FloatArray) -> FloatArray:
    """Return about the largest distance that is kept."""
    high = np.full_like(low, _LARGEST_RADIUS)
    for _ in range(12):
        middle = (low + high) / 2.0
        fine = kept(middle)
        low, high = np.where(fine, middle, low), np.where(fine, high, middle)
    return low


def tilts_for(plan: DirectionalPlan | RivalPlan, shifts: FloatArray) -> FloatArray:
    """Return the means of ``exp(b z1 - b^2 / 2)`` in the strata, for shifts `b`; they have mean 1 over all strata."""
    cuts = np.asarray(plan.edges)[np.flatnonzero(np.diff(plan.strata))]
    return bin_masses(cuts, shifts) / bin_masses(cuts)


def gradient_across_upper(
    norm_sq: FloatArray, trials: FloatArray | IntArray, masses: FloatArray, n_features: int, alpha: float
) -> FloatArray:
    """Return the upper limits of tilted gradients across one direction; there is none in one dimension.

    Parameters
    ----------
    norm_sq : ndarray of shape (n_rows, n_cells)
        Estimates with the weights ``masses / trials``.
    trials : ndarray of shape (n_rows, 1, n_strata)
    masses : ndarray of shape (n_rows, n_cells, n_strata)
        Masses of the strata times their tilts.
    """
    if n_features == 1:
        return np.zeros_like(norm_sq)
    limit = stratified_gradient_upper(norm_sq, trials, masses / np.maximum(trials, 1), n_features - 1, alpha)
    # Strata without samples may hold anything.
    unseen = LARGEST_GRADIENT * np.sum(np.where(trials > 0, 0.0, masses), axis=-1)
    upper: FloatArray = np.minimum(limit + unseen, LARGEST_GRADIENT * np.sum(masses, axis=-1)) * (1.0 + SAFETY)
    return upper
