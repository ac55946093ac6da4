"""Linear models: the mean score is the score, and the radius is a quotient."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._numerics import round_down
from .._validation import FloatArray
from ._contract import EPS, ClosedForm
from ._steps import ColumnStep, Step


class LinearScores(ClosedForm):
    """Scores ``weights @ x + constants`` with limits of the errors in both.

    Parameters
    ----------
    weights : ndarray of shape (n_classes, n_features)
    constants : ndarray of shape (n_classes,)
    weight_error, constant_error : ndarray, optional
        How far the weights and constants may be from the true ones.
    """

    def __init__(
        self,
        weights: FloatArray,
        constants: FloatArray,
        weight_error: FloatArray | None = None,
        constant_error: FloatArray | None = None,
    ) -> None:
        self.weights, self.constants = weights, constants
        self.weight_error = np.zeros_like(weights) if weight_error is None else weight_error
        self.constant_error = np.zeros_like(constants) if constant_error is None else constant_error
        self.n_classes = len(weights)

    @property
    def _gamma(self) -> float:
        """Limit of the relative rounding of a sum over all features."""
        n_features: int = self.weights.shape[1]
        return (n_features + 8.0) * EPS

    def absorb(self, step: Step) -> LinearScores:
        """Return the same scores as a function of the input of a step."""
        if isinstance(step, ColumnStep):
            gain = step.gain
            weights = np.zeros((self.n_classes, step.n_features))
            weights[:, step.columns] = self.weights * gain
            error = np.zeros_like(weights)
            error[:, step.columns] = self.weight_error * np.abs(gain)
            error += 4.0 * EPS * np.abs(weights)
            constants, constant_error = self.constants, self.constant_error
            if step.shift is not None:
                constants, constant_error = self._add(constants, constant_error, self, step.shift)
            centre: FloatArray | None = None
            if step.centre is not None:
                centre = np.zeros(step.n_features)
                centre[step.columns] = step.centre
        else:
            divisor = 1.0 if step.divisor is None else step.divisor
            scaled, size = self.weights / divisor, np.abs(step.matrix)
            weights = scaled @ step.matrix
            error = (self.weight_error / divisor) @ size + 2.0 * self._gamma * (np.abs(scaled) @ size)
            constants, constant_error, centre = self.constants, self.constant_error, step.centre
        moved = LinearScores(weights, constants, error, constant_error)
        if centre is not None:
            moved.constants, moved.constant_error = self._add(constants, constant_error, moved, -centre)
        return moved

    @staticmethod
    def _add(
        constants: FloatArray, error: FloatArray, form: LinearScores, point: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the constants plus the weights of a form at a point, and the error of that sum."""
        size = np.abs(constants) + np.abs(form.weights) @ np.abs(point)
        return (
            constants + form.weights @ point,
            error + form.weight_error @ np.abs(point) + 2.0 * form._gamma * size,
        )

    def expected_scores(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        return X @ self.weights.T + self.constants

    def certified_radius(
        self, X: FloatArray, sigma: FloatArray, scores: FloatArray, prediction: NDArray[np.intp]
    ) -> FloatArray:
        size = np.abs(X) @ np.abs(self.weights).T + np.abs(self.constants)
        error = 2.0 * self._gamma * size + np.abs(X) @ self.weight_error.T + self.constant_error
        radius = np.full(len(X), np.inf)
        for own in np.unique(prediction):
            (rows,) = np.nonzero(prediction == own)
            rivals = np.delete(np.arange(self.n_classes), own)
            difference = np.abs(self.weights[own] - self.weights[rivals]) * (1.0 + EPS)
            slopes = (difference + self.weight_error[own] + self.weight_error[rivals]) * sigma
            norm = np.linalg.norm(slopes, axis=1) * (1.0 + self._gamma)
            margin = scores[rows, own][:, None] - scores[np.ix_(rows, rivals)]
            margin -= error[rows, own][:, None] + error[np.ix_(rows, rivals)] + EPS * np.abs(margin)
            with np.errstate(divide="ignore", invalid="ignore"):
                distance = np.where(margin > 0.0, margin / norm, 0.0)
            radius[rows] = distance.min(axis=1, initial=np.inf)
        return round_down(radius)


def _read(model: Any) -> LinearScores:
    binarizer = getattr(model, "_label_binarizer", None)
    if getattr(binarizer, "y_type_", "").startswith("multilabel"):
        raise ValueError("model must predict one label for each row, got one trained on several. Fit it on 1-D labels.")
    weights = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    constants = np.broadcast_to(np.asarray(model.intercept_, dtype=np.float64), len(weights))
    if len(model.classes_) == 2 and len(weights) == 1:
        weights, constants = np.concatenate([-0.5 * weights, 0.5 * weights]), np.outer([-0.5, 0.5], constants)[:, 0]
    return LinearScores(weights, np.array(constants))


MODELS = dict.fromkeys(
    (
        "LogisticRegression",
        "LogisticRegressionCV",
        "LinearSVC",
        "RidgeClassifier",
        "RidgeClassifierCV",
        "SGDClassifier",
        "Perceptron",
        "LinearDiscriminantAnalysis",
    ),
    _read,
)
