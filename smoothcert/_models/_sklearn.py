"""Votes: the only place that calls the base model."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._noise import NumpyArrays
from .._validation import FloatArray


def is_neural(estimator: Any) -> bool:
    """Whether an estimator, frozen or not, is a skorch net; never imports skorch to find out."""
    skorch = sys.modules.get("skorch")
    return skorch is not None and isinstance(getattr(estimator, "estimator", estimator), skorch.NeuralNet)


def voter_for(estimator: Any, classes: NDArray[Any]) -> Any:
    """What casts the votes of a fitted estimator."""
    if is_neural(estimator):
        from ._skorch import NeuralVoter

        return NeuralVoter(getattr(estimator, "estimator", estimator), len(classes))
    return LabelVoter(estimator, classes)


class LabelVoter:
    """Votes of any model with ``predict``, as indices into the sorted `classes`.

    Parameters
    ----------
    estimator : fitted estimator
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    """

    arrays = NumpyArrays()

    def __init__(self, estimator: Any, classes: NDArray[Any]) -> None:
        self.estimator = estimator
        self.classes = classes

    def fingerprint_state(self) -> tuple[Any, ...]:
        """All that votes and noise depend on."""
        return ("numpy", self.estimator, self.classes)

    def differentiable(self, row: FloatArray) -> bool:
        """Labels have no gradient."""
        return False

    def vote_with_gradients(self, rows: FloatArray, candidate: int) -> tuple[NDArray[np.intp], FloatArray]:
        raise NotImplementedError("Labels have no gradient.")

    def vote(self, rows: FloatArray) -> NDArray[np.intp]:
        """Index of the class each row is voted into."""
        labels = np.asarray(self.estimator.predict(rows))
        if labels.shape != (len(rows),):
            raise ValueError(
                f"estimator.predict must return one label for each row, got shape {labels.shape} for {len(rows)} rows. "
                "Give an estimator with a single output."
            )
        index = np.searchsorted(self.classes, labels)
        index = np.minimum(index, len(self.classes) - 1)
        unknown = self.classes[index] != labels
        if np.any(unknown):
            raise ValueError(
                f"estimator.predict must return labels it was trained on, got {labels[unknown][0]!r}, "
                f"which is not among {list(self.classes[:10])}. Check the labels given to fit."
            )
        return index
