"""What a closed form offers: expected scores under Gaussian noise, and how far they keep their order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils import check_array

from .._validation import FloatArray

EPS = float(np.finfo(np.float64).eps)

ROUNDING = 1e-15
"""Largest error of a computed normal distribution function, those of its rounded argument included.

The function itself is right to about 4e-16. An argument that is off by a few roundings of its size ``u`` changes it by
``|u| phi(u) <= 0.242`` times as much.
"""


class ClosedForm(ABC):
    """Scores of a fitted classifier whose means under Gaussian noise are formulas.

    All methods take inputs `X` of shape (n_inputs, n_features) and one `sigma` for each feature, where 0 means that the
    feature is not perturbed.
    """

    gives_probabilities: ClassVar[bool] = False
    """Whether scores are probabilities already."""

    n_classes: int

    def encode(self, X: Any) -> FloatArray:
        """Return inputs of the model as rows of numbers; what they stand for is known to the form alone."""
        rows: FloatArray = check_array(X, dtype=np.float64, input_name="X")
        return rows

    @abstractmethod
    def expected_scores(self, X: FloatArray, sigma: FloatArray) -> FloatArray:
        """Return the mean score of each class under noise, of shape (n_inputs, n_classes)."""

    @abstractmethod
    def certified_radius(
        self, X: FloatArray, sigma: FloatArray, scores: FloatArray, prediction: NDArray[np.intp]
    ) -> FloatArray:
        """Return how far, in units of sigma, the predicted class certainly keeps the largest expected score."""

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return probabilities that rank the classes as `scores` does."""
        return scores if self.gives_probabilities else softmax(scores, axis=1)


def is_sklearn(estimator: Any, *names: str) -> bool:
    """Return whether an estimator is one of scikit-learn's own with one of these names, and no subclass of it."""
    return type(estimator).__name__ in names and type(estimator).__module__.startswith("sklearn.")


def two_columns(one: FloatArray) -> FloatArray:
    """Return scores of both classes from one decision value, so that their softmax is its logistic function."""
    return np.stack([-0.5 * one, 0.5 * one], axis=-1)


def ranked_rivals(scores: FloatArray, prediction: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the other classes of each row, of shape (n_inputs, n_classes - 1), the strongest first."""
    hidden = np.array(scores)
    np.put_along_axis(hidden, prediction[:, None], np.inf, axis=1)
    return np.argsort(-hidden, axis=1, kind="stable")[:, 1:]
