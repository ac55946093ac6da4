"""Additive models of trees: each score is a sum of steps in single features; under noise each step is a normal curve.

The margin of two classes is then a sum of functions of one feature each, which `SeparableDual` certifies. Each function
is tabulated once, not for each input, on a grid that is dense near the steps. Between two points it falls below its
chord by at most an eighth of the squared distance times the largest second derivative in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._numerics import density
from .._validation import FloatArray
from ..bounds._separable import SeparableDual
from ._contract import EPS, ROUNDING, ClosedForm, ranked_rivals

_WINDOW = 8.5
"""Beyond this many sigma a step is over: less than 1e-17 of it is left."""

_LEFT_OVER = 1e-16

_STEP = 1.0 / 16.0
"""Distance of neighbouring points near a step, in units of sigma."""

_ROWS = 256
"""Numbers of points handled together when a table is made."""


@dataclass(frozen=True)
class Steps:
    """Steps of one feature: `weights` (n_steps, n_classes) are added to the scores where the feature exceeds `at`.

    `compared_at` are the thresholds as the model stores them, `at` those that it obeys for inputs in double precision.
    """

    at: FloatArray
    compared_at: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class FixedPart:
    """A part of the scores in features that cannot be perturbed, such as categories: the function and its features."""

    scores: Callable[[FloatArray], FloatArray]
    features: NDArray[np.intp]
    reason: str


@dataclass
class StepScores(ClosedForm):
    """Scores ``constants + sum over features and steps``.

    Attributes
    ----------
    constants : ndarray of shape (n_classes,)
    features : dict of int to Steps
    size : float
        Sum of the sizes of all numbers added up in a score, for the limit of the rounding errors.
    terms : int
        How many numbers those are.
    single_precision : bool
        Whether the model rounds its inputs to float32 before it compares them.
    is_probability : bool
        Whether scores are probabilities.
    fixed : FixedPart, optional
    encoder : callable, optional
        Turns inputs of the model into rows of numbers.
    """

    constants: FloatArray
    features: dict[int, Steps]
    size: float
    terms: int
    single_precision: bool
    is_probability: bool = False
    fixed: FixedPart | None = None
    encoder: Callable[[Any], FloatArray] | None = None
    n_classes: int = field(init=False)

    def __post_init__(self) -> None:
        self.n_classes = len(self.constants)

    @property
    def score_error(self) -> float:
        """Limit of the error of a score that is made by rounding when the steps are added up."""
        return 2.0 * (self.terms + 16.0) * EPS * self.size

    def probabilities(self, scores: FloatArray) -> FloatArray:
        return scores if self.is_probability else super().probabilities(scores)

    def encode(self, X: Any) -> FloatArray:
        return super().encode(X) if self.encoder is None else self.encoder(X)

    def expected_scores(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        scores = self._unperturbed(X, sigma)
        for j, steps in self.features.items():
            if sigma[j] > 0.0:
                for some in _blocks(len(X), len(steps.at)):
                    scores[some] += ndtr((X[some, j][:, None] - steps.at) / sigma[j]) @ steps.weights
        return scores

    def _unperturbed(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return the constants and the scores of the features without noise."""
        scores = np.tile(self.constants, (len(X), 1))
        if self.fixed is not None:
            noisy = self.fixed.features[sigma[self.fixed.features] > 0.0]
            if noisy.size:
                raise ValueError(
                    f"sigma must be 0 in feature {noisy[0]}, {self.fixed.reason}, got {sigma[noisy[0]]!r}. "
                    "Set this entry of sigma to 0."
                )
            scores += self.fixed.scores(X)
        for j, steps in self.features.items():
            if sigma[j] == 0.0:
                seen = X[:, j].astype(np.float32).astype(np.float64) if self.single_precision else X[:, j]
                for some in _blocks(len(X), len(steps.at)):
                    scores[some] += (seen[some, None] > steps.compared_at) @ steps.weights
        return scores

    def certified_radius(
        self, X: FloatArray, sigma: FloatArray, scores: FloatArray, prediction: NDArray[np.intp]
    ) -> FloatArray:
        if self.n_classes == 1:
            return np.full(len(X), np.inf)
        constants = self._unperturbed(X, sigma)
        noisy = [j for j in self.features if sigma[j] > 0.0]
        if not noisy:
            ordered = np.sort(constants, axis=1)
            return np.where(ordered[:, -1] - ordered[:, -2] > 2.0 * self.score_error, np.inf, 0.0)
        at = X[:, noisy] / sigma[noisy]
        table = _Table(self, noisy, sigma)
        radius = np.full(len(X), np.inf)
        rivals = ranked_rivals(scores, prediction)
        for own in np.unique(prediction):
            duals = table.duals(own)
            mine = prediction == own
            for rank in range(self.n_classes - 1):
                for rival in np.unique(rivals[mine, rank]):
                    (rows,) = np.nonzero(mine & (rivals[:, rank] == rival))
                    dual, error = duals[rival]
                    offset = constants[rows, own] - constants[rows, rival] - error
                    found = dual.radius(at[rows], offset, enough=radius[rows])
                    radius[rows] = np.minimum(radius[rows], found)
        # Dividing by sigma moved the input by a rounding.
        moved = np.linalg.norm(EPS * at, axis=1)
        shortened: FloatArray = np.maximum(radius - moved, 0.0)
        return shortened


class _Table:
    """Expected scores of each noisy feature on a grid, in units of its sigma."""

    def __init__(self, form: StepScores, noisy: list[int], sigma: FloatArray) -> None:
        self.form = form
        self.steps = [form.features[j] for j in noisy]
        self.at = [steps.at / sigma[j] for j, steps in zip(noisy, self.steps, strict=True)]
        grids = [_grid(at) for at in self.at]
        length = max(len(grid) for grid in grids)
        self.points = np.array([np.pad(grid, (0, length - len(grid)), mode="edge") for grid in grids])
        values = (_values(p, at, s.weights) for p, at, s in zip(self.points, self.at, self.steps, strict=True))
        self.values = np.array(list(values))

    def duals(self, own: int) -> list[tuple[SeparableDual, float]]:
        """Return the duals of the margins of a class over all classes, each with a limit of the errors in its values.

        The one over the class itself is there to keep the numbering.
        """
        n_classes = self.values.shape[2]
        values = self.values[:, :, [own]] - self.values
        allowance = np.empty((len(values), values.shape[1] - 1, n_classes))
        floor = np.empty((len(values), 2, n_classes))
        error = np.full(n_classes, 2.0 * self.form.score_error)
        for j, (points, at, steps) in enumerate(zip(self.points, self.at, self.steps, strict=True)):
            weights = steps.weights[:, [own]] - steps.weights
            left_over = _LEFT_OVER * np.abs(weights).sum(axis=0)
            allowance[j] = _allowance(points, values[j], at, weights) + left_over
            floor[j] = values[j, [0, -1]] - left_over
            # Values of the normal distribution function, their sum, and thresholds divided by sigma.
            moved = 0.4 * 4.0 * EPS * float(np.max(np.abs(points)))
            both = np.abs(steps.weights[:, [own]]).sum(axis=0) + np.abs(steps.weights).sum(axis=0)
            error += (ROUNDING + moved + (len(at) + 8.0) * EPS) * both
        return [
            (SeparableDual.from_grid(self.points, values[:, :, c], allowance[:, :, c], floor[:, :, c]), float(error[c]))
            for c in range(n_classes)
        ]


def _grid(at: FloatArray) -> FloatArray:
    """Return points around all steps, dense where a step bends, sparse at its ends, none where nothing happens."""
    at = np.unique(at)
    gaps = np.flatnonzero(np.diff(at) > 2.0 * _WINDOW)
    starts = at[np.concatenate([[0], gaps + 1])] - _WINDOW
    ends = at[np.concatenate([gaps, [len(at) - 1]])] + _WINDOW
    pieces = [
        np.linspace(a, b, 1 + 4 * int(np.ceil((b - a) / (4.0 * _STEP)))) for a, b in zip(starts, ends, strict=True)
    ]
    number = np.concatenate([np.arange(len(piece)) for piece in pieces])
    is_end = np.concatenate([np.isin(np.arange(len(piece)), (0, len(piece) - 1)) for piece in pieces])
    points = np.concatenate(pieces)
    after = np.searchsorted(at, points)
    distance = np.minimum(
        np.abs(points - at[np.minimum(after, len(at) - 1)]), np.abs(points - at[np.maximum(after - 1, 0)])
    )
    stride = np.where(distance > 3.5, 4, np.where(distance > 2.5, 2, 1))
    return np.unique(points[(number % stride == 0) | is_end])


def _blocks(n_rows: int, n_steps: int) -> list[slice]:
    size = max(1, (1 << 20) // max(1, n_steps))
    return [slice(begin, begin + size) for begin in range(0, n_rows, size)]


def _near(points: FloatArray, at: FloatArray) -> slice:
    """Return which of the sorted steps are not over or still to come for all of the sorted points."""
    return slice(
        int(np.searchsorted(at, points[0] - _WINDOW)), int(np.searchsorted(at, points[-1] + _WINDOW, side="right"))
    )


def _values(points: FloatArray, at: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the sum of all steps at sorted points, of shape (n_points, n_classes); `at` is sorted."""
    values = np.empty((len(points), weights.shape[1]))
    total = np.concatenate([np.zeros((1, weights.shape[1])), np.cumsum(weights, axis=0)])
    for begin in range(0, len(points), _ROWS):
        some = slice(begin, begin + _ROWS)
        near = _near(points[some], at)
        values[some] = total[near.start] + ndtr(points[some, None] - at[near]) @ weights[near]
    return values


def _allowance(points: FloatArray, values: FloatArray, at: FloatArray, weights: FloatArray) -> FloatArray:
    """Return how far sums of normal curves, one in each column, can fall below their chords between points."""
    allowance = np.empty((len(points) - 1, weights.shape[1]))
    for begin in range(0, len(allowance), _ROWS):
        ends = points[begin : begin + _ROWS + 1]
        near = _near(ends, at)
        low, high = _bend_limits(ends[:, None] - at[near])
        bend = high @ np.maximum(weights[near], 0.0) + low @ np.minimum(weights[near], 0.0)
        allowance[begin : begin + _ROWS] = np.maximum(bend, 0.0) * np.square(np.diff(ends))[:, None] / 8.0
    # Where all steps are over, the function is flat between the two values.
    flat = np.diff(points) > 8.0 * _STEP
    allowance[flat] = np.abs(np.diff(values, axis=0))[flat]
    return allowance


def _bend_limits(u: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest second derivative ``-u phi(u)`` of the normal curve between rows of `u`."""
    bend = -u * density(u)
    low, high = np.minimum(bend[:-1], bend[1:]), np.maximum(bend[:-1], bend[1:])
    peak = float(density(np.ones(())))
    low = np.where((u[:-1] < 1.0) & (u[1:] > 1.0), -peak, low)
    high = np.where((u[:-1] < -1.0) & (u[1:] > -1.0), peak, high)
    return low, high


def merge_steps(
    features: NDArray[np.intp], at: FloatArray, compared_at: FloatArray, weights: FloatArray
) -> dict[int, Steps]:
    """Return the steps of each feature in ascending order, those at the same threshold as one."""
    merged = {}
    for j in np.unique(features):
        mine = features == j
        unique, first, index = np.unique(compared_at[mine], return_index=True, return_inverse=True)
        total = np.zeros((len(unique), weights.shape[1]))
        np.add.at(total, index, weights[mine])
        merged[int(j)] = Steps(at[mine][first], unique, total)
    return merged


def check_one_feature(features: Any, tree: str) -> None:
    """Require that the splits of a tree use one feature."""
    used = np.unique(features)
    if len(used) > 1:
        raise ValueError(
            f"model must be additive for exact certificates: each tree may split on one feature, got {tree} with "
            f"splits on features {used[0]} and {used[1]}. Train it with max_depth=1 (for "
            'HistGradientBoostingClassifier also interaction_cst="no_interactions"), or use voting="hard".'
        )
