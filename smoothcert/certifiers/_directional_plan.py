"""From a pilot to a plan: what to expect along the direction, and with which multipliers to certify.

Whatever is decided here, the certificate is valid; a good plan makes it large.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit

from .._numerics import LARGEST_GRADIENT, SAFETY
from .._validation import FloatArray
from ..bounds import first_order_radius, second_order_radius
from ..bounds._directional_integral import bin_masses
from ..bounds._directional_radius import cell_middles, cells_radius, plan_cells
from ..confidence import binomial_lower, stratified_gradient_upper
from ..tallies import DirectionalPlan, DirectionalTally, IntArray

_DEGREE = 5
_PRIOR = 100.0
_VERTICES = 32
_LEAST_RADIUS, _LARGEST_RADIUS = 0.02, 5.0
_USUAL_SHARE = 0.94
"""How far certificates usually reach on the way to where the class would lose along the direction."""
_NEAR_ENOUGH = 0.04
_WORTH_IT = 1.01

_TILT = 0.5
"""Tilt of the gradient across, relative to how far a cell is along the direction.

Up to 1 the tilted gradient, which the worst case may use, gets smaller with the tilt, but its limit gets wider. Half of
it was best on simulated runs of small networks, and 0.3 to 0.7 nearly as good.
"""


def expected_shares(edges: FloatArray, hits: IntArray, trials: IntArray) -> FloatArray:
    """Shares of hits in the bins; never 0 or 1.

    A logistic curve through all bins, a polynomial in its exponent, corrected by each bin's own samples where there
    are many.
    """
    ends = np.concatenate([edges[:1] - 0.4, edges, edges[-1:] + 0.4])
    centre = (ends[:-1] + ends[1:]) / (2.0 * ends[-1])
    powers = np.polynomial.legendre.legvander(centre, _DEGREE)
    curve = _logistic_curve(powers, hits, trials)
    share = (hits + _PRIOR * curve) / (trials + _PRIOR)
    least = 0.5 / (trials + _PRIOR)
    return np.clip(share, least, 1.0 - least)


def _logistic_curve(powers: FloatArray, hits: IntArray, trials: IntArray) -> FloatArray:
    """Shares fitted to counts by a few damped Newton steps with a slight penalty, so that nothing runs away."""
    total, n = hits.sum(axis=1), trials.sum(axis=1)
    coefficients = np.zeros((len(hits), powers.shape[1]))
    coefficients[:, 0] = np.log((total + 0.5) / (n - total + 0.5))
    penalty = np.diag(np.concatenate([[1e-6], np.full(powers.shape[1] - 1, 0.02)]))
    for _ in range(12):
        share = expit(coefficients @ powers.T)
        gradient = (hits - trials * share) @ powers - coefficients @ penalty
        weight = trials * share * (1.0 - share)
        hessian = (weight[:, None] * powers.T) @ powers + penalty
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        longest = np.max(np.abs(step @ powers.T), axis=1, keepdims=True)
        coefficients += step * np.minimum(1.0, 3.0 / np.maximum(longest, 1e-12))
    return expit(coefficients @ powers.T)


def plan_from_pilot(
    pilot: DirectionalTally, n_estimation: int, alpha: float, alpha_share: float, alpha_gradient: float
) -> DirectionalPlan:
    """The multipliers to certify with, for evidence of `n_estimation` samples.

    They maximise what the pilot's shares would certify, less the width of the confidence limit. Where that promises
    hardly more than the plain share of votes, nothing is measured.
    """
    # One by one: iterations stop when all rows are done, so the last bits would depend on the company.
    parts = [_plan(pilot[row : row + 1], n_estimation, alpha, alpha_share, alpha_gradient) for row in range(len(pilot))]
    return DirectionalPlan.concatenate(parts)


def _plan(
    pilot: DirectionalTally, n_estimation: int, alpha: float, alpha_share: float, alpha_gradient: float
) -> DirectionalPlan:
    """The plan of a single input."""
    edges = np.asarray(pilot.plan.edges)
    mass = bin_masses(edges)
    guesses = expected_shares(edges, pilot.bin_hits, pilot.bin_trials)
    misses = 1.0 - guesses
    strata = np.bincount(pilot.plan.strata, weights=mass)
    ahead = np.rint(n_estimation * strata)

    def limits(radius: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Tilts of the cells for a radius, and the limits of the gradient to expect with them."""
        tilts = tilts_for(pilot.plan, _TILT * np.maximum(cell_middles(radius), 0.0))
        masses = strata * tilts
        found = np.maximum(pilot.norm_sq(masses / np.maximum(pilot.stratum_trials, 1)[:, None]), 0.0)
        return tilts, gradient_across_upper(found, ahead, masses, pilot.n_features, alpha_gradient)

    width = np.sqrt(-2.0 * np.log(alpha_share) / n_estimation)
    variance = guesses * misses
    p = guesses @ mass
    distance = _distance_along(edges, guesses, width)
    if distance[0] == 0.0:  # nothing to be certified in sight
        return replace(pilot.plan, measured=np.zeros(1, dtype=bool), guesses=guesses)
    # Along a direction that leads nowhere the class is never lost, and what is certified is about the second order.
    nowhere = second_order_radius(np.maximum(p - width * np.sqrt(p * (1.0 - p)), 0.5), 0.0)
    guess = np.clip(np.minimum(_USUAL_SHARE * distance, nowhere), _LEAST_RADIUS, _LARGEST_RADIUS)
    # A first plan for a guessed radius; a second one, if that was far off, for the radius that the first one promises.
    ridge = width * variance / np.sqrt(variance @ mass)[:, None]
    tilts, grad_norm = limits(guess)
    cells = plan_cells(edges, misses, grad_norm, guess, ridge[:, None], tilt=tilts[..., pilot.plan.strata])
    spread = np.sqrt(np.sum(mass * np.square(cells.nu) * variance[:, None], axis=-1))
    value = np.sum(mass * cells.nu * guesses[:, None], axis=-1) - width * spread
    radius = cells_radius(edges, cells, value, grad_norm, _VERTICES, n_steps=3)
    better = np.maximum(np.where(radius > 0.0, radius, guess), _LEAST_RADIUS)
    if np.any(np.abs(better - guess) > _NEAR_ENOUGH * guess):
        ridge = width * variance[:, None] / np.maximum(spread, 1e-6)[..., None]
        tilts, grad_norm = limits(better)
        tilt = tilts[..., pilot.plan.strata]
        cells = plan_cells(edges, misses, grad_norm, better, ridge, start=cells.k, tilt=tilt)
    plain = first_order_radius(binomial_lower(np.rint(p * n_estimation), n_estimation, alpha))
    return replace(
        pilot.plan,
        measured=pilot.plan.measured & (radius > _WORTH_IT * plain),
        guesses=guesses,
        multipliers=cells.nu,
        tilts=tilts,
        slopes=cells.k,
        across=cells.across,
        borders=cells.borders,
        radius=np.maximum(radius, plain),
    )


def _distance_along(edges: FloatArray, shares: FloatArray, width: float) -> FloatArray:
    """Where along the direction half of the votes would be lost, less `width` standard deviations; 0 if at once."""
    low, high = np.zeros(len(shares)), np.full(len(shares), _LARGEST_RADIUS)
    mass = bin_masses(edges)
    for _ in range(12):
        middle = (low + high) / 2.0
        moved = bin_masses(edges, middle)
        spread = np.sqrt(np.sum(np.square(moved) / mass * shares * (1.0 - shares), axis=-1))
        kept = np.sum(moved * shares, axis=-1) - width * spread > 0.5
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return low


def tilts_for(plan: DirectionalPlan, shifts: FloatArray) -> FloatArray:
    """Means of ``exp(b z1 - b^2 / 2)`` in the strata, for shifts `b`; they have mean 1 over all strata."""
    cuts = np.asarray(plan.edges)[np.flatnonzero(np.diff(plan.strata))]
    return bin_masses(cuts, shifts) / bin_masses(cuts)


def gradient_across_upper(
    norm_sq: FloatArray, trials: FloatArray, masses: FloatArray, n_features: int, alpha: float
) -> FloatArray:
    """Upper limits of tilted gradients across one direction; there is none in one dimension.

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
    return np.minimum(limit + unseen, LARGEST_GRADIENT * np.sum(masses, axis=-1)) * (1.0 + SAFETY)
