"""scikit-learn classifiers: anything with `fit` and `predict`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._noise import NumpyArrays
from .._validation import FloatArray, IndexArray
from ..training._augmentation import fit_in_passes, fit_on_replicas
from ._base import BaseModel, TrainingSettings
from ._nets import cast_for_nets, find_nets, unfrozen


class SklearnModel(BaseModel):
    """A classifier that is trained on noisy copies of the data."""

    def classes(self, X: FloatArray, y: NDArray[Any]) -> NDArray[Any]:
        return np.unique(y)

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        fit_with_copies(estimator, X, y, np.unique(y), settings)

    def voter(self, classes: NDArray[Any]) -> LabelVoter:
        return LabelVoter(self.estimator, classes)


class FrozenSklearnModel(BaseModel):
    """A classifier that was trained elsewhere and is used as it is."""

    def prepare(self, X: FloatArray) -> FloatArray:
        return cast_for_nets(X) if find_nets(self.estimator) else X

    def classes(self, X: FloatArray, y: NDArray[Any]) -> NDArray[Any]:
        check_is_fitted(unfrozen(self.estimator))
        labels = np.unique(y)
        known = np.asarray(getattr(self.estimator, "classes_", labels))
        unknown = labels[~np.isin(labels, known)]
        if len(unknown):
            raise ValueError(
                f"y must hold labels the frozen classifier was trained on, got {unknown[0]!r}, which is not among "
                f"{list(known[:10])}. It answers with its own labels: give those."
            )
        return known

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        pass

    def voter(self, classes: NDArray[Any]) -> LabelVoter:
        return LabelVoter(self.estimator, classes)


class ModelOfNets(SklearnModel):
    """A scikit-learn classifier around nets, such as `BaggingClassifier(net)`; it is trained on numbered classes."""

    def prepare(self, X: FloatArray) -> FloatArray:
        return cast_for_nets(X)

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        from ..training._skorch import code_labels, fitting_inner_nets

        labels, coded = code_labels(find_nets(self.estimator), np.unique(y), y)
        with fitting_inner_nets(settings.entropy % 2**63, settings.seeded):
            fit_with_copies(estimator, X, coded, labels, settings)

    def voter(self, classes: NDArray[Any]) -> LabelVoter:
        return LabelVoter(self.estimator, np.arange(len(classes)))


def fit_with_copies(
    estimator: Any, X: FloatArray, y: NDArray[Any], labels: NDArray[Any], settings: TrainingSettings
) -> None:
    """Fit an estimator on noisy copies of the data, all at once or one after the other."""
    rng = np.random.default_rng(settings.entropy)
    noise = settings.sigma, settings.n_augment, rng, settings.fit_params
    if settings.augmentation == "passes":
        fit_in_passes(estimator, X, y, labels, *noise)
    else:
        fit_on_replicas(estimator, X, y, *noise)


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

    def fingerprint_state(self) -> tuple[Any, ...]:
        """All that votes and noise depend on."""
        return ("numpy", self.estimator, self.classes)

    def differentiable(self, row: FloatArray) -> bool:
        """Labels have no gradient."""
        return False

    def vote_with_gradients(self, rows: FloatArray, candidate: int) -> tuple[IndexArray, FloatArray]:
        raise NotImplementedError("Labels have no gradient.")

    def vote(self, rows: FloatArray) -> IndexArray:
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
