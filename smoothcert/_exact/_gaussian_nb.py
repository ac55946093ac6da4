"""Gaussian naive Bayes: log densities are parabolas in each feature, and so are their means under noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._numerics import round_down
from .._validation import FloatArray
from ._contract import EPS, ClosedForm

_HALVINGS = 60
"""Enough to find a multiplier to the last bits of float64; any multiplier is valid."""


class ParabolaScores(ClosedForm):
    """Scores ``constants - sum_j (x_j - means_j)^2 / (2 variances_j)``.

    Parameters
    ----------
    log_prior : ndarray of shape (n_classes,)
    means, variances : ndarray of shape (n_classes, n_features)
    """

    def __init__(self, log_prior: FloatArray, means: FloatArray, variances: FloatArray) -> None:
        self.log_prior, self.means, self.variances = log_prior, means, variances
        self.n_classes = len(means)

    def _gamma(self) -> float:
        n_features: int = self.means.shape[1]
        return 8.0 * (n_features + 8.0) * EPS

    def expected_scores(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        scores = np.empty((len(X), self.n_classes))
        for c in range(self.n_classes):
            squares = np.square(X - self.means[c]) + np.square(sigma)
            scores[:, c] = self._constant(c) - 0.5 * np.sum(squares / self.variances[c], axis=1)
        return scores

    def _constant(self, c: int) -> float:
        return float(self.log_prior[c] - 0.5 * np.sum(np.log(2.0 * np.pi * self.variances[c])))

    def _score_error(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return a limit of the rounding errors of the expected scores."""
        error = np.empty((len(X), self.n_classes))
        for c in range(self.n_classes):
            squares = np.square(X - self.means[c]) + np.square(sigma)
            logs = np.abs(np.log(2.0 * np.pi * self.variances[c])).sum()
            prior = abs(self.log_prior[c]) if np.isfinite(self.log_prior[c]) else 0.0
            error[:, c] = self._gamma() * (prior + 1.0 + logs + np.sum(squares / self.variances[c], axis=1))
        return error

    def certified_radius(
        self, X: FloatArray, sigma: FloatArray, scores: FloatArray, prediction: NDArray[np.intp]
    ) -> FloatArray:
        error = self._score_error(X, sigma)
        radius = np.full(len(X), np.inf)
        for own in np.unique(prediction):
            (rows,) = np.nonzero(prediction == own)
            for rival in np.delete(np.arange(self.n_classes), own):
                if self.log_prior[rival] == -np.inf:
                    continue  # A class of prior 0 is never predicted.
                margin = scores[rows, own] - scores[rows, rival]
                margin -= error[rows, own] + error[rows, rival] + EPS * np.abs(margin)
                slopes = [(X[rows] - self.means[c]) / self.variances[c] * sigma for c in (rival, own)]
                # Limits to the safe side: steeper slopes, lower curvatures.
                slope = np.abs(slopes[0] - slopes[1]) + 8.0 * EPS * (np.abs(slopes[0]) + np.abs(slopes[1]))
                bends = [0.5 * np.square(sigma) / self.variances[c] for c in (rival, own)]
                bend = bends[0] - bends[1] - 8.0 * EPS * (bends[0] + bends[1])
                radius[rows] = np.minimum(radius[rows], _parabola_radius(margin, slope, bend))
        return radius


def _parabola_radius(margin: FloatArray, slope: FloatArray, bend: FloatArray) -> FloatArray:
    """Return the distance within which ``margin + sum_j (bend_j d_j^2 - slope_j |d_j|)`` stays positive.

    The dual is ``D(lam) = margin - sum_j slope_j^2 / (4 (bend_j + lam))``, and ``D(lam) / lam`` is largest where the
    margin at the minimising displacement is 0. By the S-lemma nothing is lost.
    """
    gamma = 8.0 * (slope.shape[1] + 8.0) * EPS
    moving = np.any(slope > 0.0, axis=0) | (bend < 0.0)
    slope, bend = slope[:, moving], bend[moving]
    certain = margin > 0.0
    if not bend.size:
        return np.where(certain, np.inf, 0.0)
    square = np.square(slope) * (1.0 + 4.0 * EPS)
    least = max(0.0, -float(bend.min()))

    def evaluate(lam: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the squared radius that a multiplier certifies, and the margin at its displacement."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            stiffness = bend + lam[:, None]
            cost = np.where(square > 0.0, 0.25 * square / stiffness, 0.0)
            cost = np.where((stiffness > 0.0) | (square == 0.0), cost, np.inf)
            total = cost.sum(axis=1) * (1.0 + gamma)
            path = np.where(cost > 0.0, 0.25 * square / np.square(stiffness), 0.0)
            value = np.where(lam > 0.0, (margin - total) / lam, np.where(margin > total, np.inf, 0.0))
            return value, margin - total - lam * path.sum(axis=1)

    squared = np.zeros(len(margin))
    if least == 0.0:
        squared = np.maximum(squared, evaluate(np.zeros(len(margin)))[0])
    # The multiplier is `least` plus a positive number, whose logarithm is halved towards the root.
    scale = np.maximum(square.sum(axis=1) / np.where(certain, margin, 1.0), np.abs(bend).max() + 1e-300)
    low, high = np.log(scale) - 80.0, np.log(scale) + 10.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        lam = least + np.exp(middle)
        value, slack = evaluate(lam)
        squared = np.fmax(squared, value)
        enough = slack > 0.0
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    squared = np.where(certain, np.maximum(squared, 0.0), 0.0)
    return round_down(np.sqrt(squared))


def _read(model: Any) -> ParabolaScores:
    with np.errstate(divide="ignore"):
        log_prior = np.log(np.asarray(model.class_prior_, dtype=np.float64))
    return ParabolaScores(log_prior, *(np.asarray(a, dtype=np.float64) for a in (model.theta_, model.var_)))


MODELS = {"GaussianNB": _read}
