"""From a pilot to a plan: what to expect along the direction, and with which multipliers to certify.

Whatever is decided here, the certificate is valid; a good plan makes it large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit, ndtr, ndtri

from .._numerics import LARGEST_GRADIENT, SAFETY
from .._validation import FloatArray
from ..bounds import first_order_radius
from ..bounds._directional_integral import bin_masses
from ..bounds._directional_radius import cell_middles, expected_radius, plan_cells
from ..confidence import binomial_lower, stratified_gradient_upper
from ..confidence._stratified import usual_width
from ..tallies import DirectionalPlan, DirectionalTally, IntArray

_DEGREE = 5
_PRIOR = 100.0
_VERTICES = 32
_LEAST_RADIUS, _LARGEST_RADIUS = 0.02, 5.0
_USUAL_SHARE = 0.95
"""How far certificates usually reach on the way to where the class would lose along the direction."""
_NEAR_ENOUGH = 0.05
_WORTH_IT = 1.01
_ROWS_AT_ONCE = 8
"""Enough to hide numpy's calls, few enough for the cache."""

_TILT = 0.7
"""Tilt of the gradient across, relative to how far a cell is along the direction.

Up to 1 the tilted gradient, which the worst case may use, gets smaller with the tilt, but its limit gets wider. This
was best on small networks, and 0.5 to 0.85 nearly as good.
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
    # Matrix products round differently for different numbers of rows, and the plan of an input shall not depend on its
    # company. So these are made one by one, and the costly part, which has none, for all rows together.
    levels = (alpha, alpha_share, alpha_gradient)
    each = [_Outlook(pilot[row : row + 1], n_estimation, *levels) for row in range(len(pilot))]
    plans = [replace(one.pilot.plan, measured=np.zeros(1, dtype=bool), guesses=one.guesses) for one in each]
    worth = [row for row, one in enumerate(each) if one.promising]
    for first in range(0, len(worth), _ROWS_AT_ONCE):
        rows = worth[first : first + _ROWS_AT_ONCE]
        for row, plan in zip(rows, _plans([each[row] for row in rows]), strict=True):
            plans[row] = plan
    return DirectionalPlan.concatenate(plans)


class _Outlook:
    """What the pilot lets one expect of one input."""

    def __init__(
        self, pilot: DirectionalTally, n_estimation: int, alpha: float, alpha_share: float, alpha_gradient: float
    ) -> None:
        self.pilot, self.alpha_gradient = pilot, alpha_gradient
        self.edges = np.asarray(pilot.plan.edges)
        self.mass = bin_masses(self.edges)
        self.guesses = expected_shares(self.edges, pilot.bin_hits, pilot.bin_trials)
        self.width = usual_width(alpha_share) / np.sqrt(n_estimation)
        self.variance = self.guesses * (1.0 - self.guesses)
        self.strata = np.bincount(pilot.plan.strata, weights=self.mass)
        self.ahead = np.rint(n_estimation * self.strata)
        p = self.guesses @ self.mass
        self.plain = first_order_radius(binomial_lower(np.rint(p * n_estimation), n_estimation, alpha))
        distance = _distance_along(self.edges, self.guesses, self.width)
        self.promising = bool(pilot.plan.measured[0] and distance[0] > 0.0)
        # Along a direction that leads nowhere the class is never lost, and what is certified is about the second order.
        nowhere = _distance_in_a_slab(np.maximum(p - self.width * np.sqrt(p * (1.0 - p)), 0.5))
        self.guess = np.clip(np.minimum(_USUAL_SHARE * distance, nowhere), _LEAST_RADIUS, _LARGEST_RADIUS)
        self.ridge = (self.width * self.variance / np.sqrt(self.variance @ self.mass)[:, None])[:, None]

    def gradients(self, tilts: FloatArray) -> FloatArray:
        """Squared norms of the gradients across, for the tilts of the cells."""
        weights = self.strata * tilts / np.maximum(self.pilot.stratum_trials, 1)[:, None]
        return np.maximum(self.pilot.norm_sq(weights), 0.0)


def _plans(each: list[_Outlook]) -> Iterator[DirectionalPlan]:
    """Plans of several inputs: for a guessed radius; and again, if that was far off, for the one that those promise."""
    first = each[0]
    edges, mass, width, plan = first.edges, first.mass, first.width, first.pilot.plan
    guesses, variance, guess, plain = (
        np.concatenate([getattr(one, name) for one in each]) for name in ("guesses", "variance", "guess", "plain")
    )

    def cells_for(rows: FloatArray, radius: FloatArray, ridge: FloatArray, start: FloatArray | None) -> Any:
        tilts = tilts_for(plan, _TILT * np.maximum(cell_middles(radius), 0.0))
        found = np.concatenate([each[row].gradients(tilts[i : i + 1]) for i, row in enumerate(rows)])
        n_features, level = first.pilot.n_features, first.alpha_gradient
        grad_norm = gradient_across_upper(found, first.ahead, first.strata * tilts, n_features, level)
        misses, tilt = 1.0 - guesses[rows], tilts[..., plan.strata]
        return plan_cells(edges, misses, grad_norm, radius, ridge, start=start, tilt=tilt), tilts, grad_norm

    everyone = np.arange(len(each))
    cells, tilts, grad_norm = cells_for(everyone, guess, np.concatenate([one.ridge for one in each]), None)
    spread = np.sqrt(np.sum(mass * np.square(cells.nu) * variance[:, None], axis=-1))
    value = np.sum(mass * cells.nu * guesses[:, None], axis=-1) - width * spread
    radius = expected_radius(edges, cells, value, grad_norm, _VERTICES)
    better = np.maximum(np.where(radius > 0.0, radius, guess), _LEAST_RADIUS)
    again = np.flatnonzero(np.abs(better - guess) > _NEAR_ENOUGH * guess)
    second = {}
    if len(again):
        ridge = width * variance[again, None] / np.maximum(spread[again], 1e-6)[..., None]
        second = dict(zip(again.tolist(), range(len(again)), strict=True))
        others, other_tilts, _ = cells_for(again, better[again], ridge, cells.k[again])
    for row, one in enumerate(each):
        made, shown, i = (others, other_tilts, second[row]) if row in second else (cells, tilts, row)
        here = slice(i, i + 1)
        yield replace(
            one.pilot.plan,
            measured=radius[row : row + 1] > _WORTH_IT * plain[row : row + 1],
            guesses=one.guesses,
            multipliers=made.nu[here],
            tilts=shown[here],
            slopes=made.k[here],
            across=made.across[here],
            borders=made.borders[here],
            radius=np.maximum(radius, plain)[row : row + 1],
        )


def _distance_along(edges: FloatArray, shares: FloatArray, width: float) -> FloatArray:
    """Where along the direction half of the votes would be lost, less `width` standard deviations; 0 if at once."""
    mass = bin_masses(edges)

    def kept(distance: FloatArray) -> FloatArray:
        moved = bin_masses(edges, distance)
        spread = np.sqrt(np.sum(np.square(moved) / mass * shares * (1.0 - shares), axis=-1))
        return np.sum(moved * shares, axis=-1) - width * spread > 0.5

    return _halvings(kept, np.zeros(len(shares)))


def _distance_in_a_slab(p: FloatArray) -> FloatArray:
    """Where half of the votes would be lost across a slab in whose middle there are `p`: the second order without
    gradient."""
    half = ndtri((1.0 + p) / 2.0)
    return _halvings(lambda distance: ndtr(half - distance) - ndtr(-half - distance) > 0.5, np.zeros_like(p))


def _halvings(kept: Callable[[FloatArray], FloatArray], low: FloatArray) -> FloatArray:
    """About the largest distance that is kept."""
    high = np.full_like(low, _LARGEST_RADIUS)
    for _ in range(12):
        middle = (low + high) / 2.0
        fine = kept(middle)
        low, high = np.where(fine, middle, low), np.where(fine, high, middle)
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
