"""Votes: the only place that calls the base model."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from ._noise import NumpyArrays
from ._validation import FloatArray


def unfrozen(estimator: Any) -> Any:
    """Return what is inside a `FrozenEstimator`. Other estimators around an estimator are themselves the base."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def is_neural(estimator: Any) -> bool:
    """Return whether an estimator, frozen or not, is a skorch net; never imports skorch to find out."""
    skorch = sys.modules.get("skorch")
    return skorch is not None and isinstance(unfrozen(estimator), skorch.NeuralNet)


def find_nets(estimator: Any) -> list[Any]:
    """Return the skorch nets an estimator consists of: itself, or those among its parameters (`BaggingClassifier`,
    a pipeline)."""
    skorch = sys.modules.get("skorch")
    if skorch is None or isinstance(estimator, type):
        return []
    if isinstance(estimator, skorch.NeuralNet):
        return [estimator]
    if isinstance(estimator, list | tuple):  # the steps of a pipeline
        return [net for entry in estimator for net in find_nets(entry)]
    if not hasattr(estimator, "get_params"):
        return []
    return find_nets(list(estimator.get_params(deep=False).values()))


def voter_for(estimator: Any, classes: NDArray[Any]) -> Any:
    """What casts the votes of a fitted estimator."""
    if is_neural(estimator):
        from ._neural import NeuralVoter

        return NeuralVoter(unfrozen(estimator), len(classes))
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

    def evaluation_mode(self) -> AbstractContextManager[Any]:
        """Return what to enter for all votes of a run: nothing, as ``predict`` has no modes."""
        return nullcontext()

    def content(self) -> tuple[Any, ...]:
        """All that votes and noise depend on."""
        return ("numpy", self.estimator, self.classes)

    def differentiable(self, row: FloatArray) -> bool:
        """Labels have no gradient."""
        return False

    def vote_with_slopes(self, rows: FloatArray, candidate: int) -> tuple[NDArray[np.intp], FloatArray]:
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
