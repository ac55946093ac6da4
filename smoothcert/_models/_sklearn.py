"""scikit-learn classifiers: anything with `fit` and `predict`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._validation import FloatArray
from ..training._augmentation import fit_in_passes, fit_on_replicas
from ._base import BaseModel, TrainingSettings, refuse_order
from ._label_voter import LabelVoter, NamedColumnsVoter
from ._nets import cast_for_nets, find_nets, unfrozen


class SklearnModel(BaseModel):
    """A classifier that is trained on noisy copies of the data."""

    @property
    def takes_frames(self) -> bool:
        return True

    def classes(self, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
        refuse_order(given)
        return np.unique(y)

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        fit_with_copies(estimator, X, y, np.unique(y), settings)

    def voter(self, classes: NDArray[Any]) -> LabelVoter:
        return LabelVoter(self.estimator, classes)


class FrozenSklearnModel(BaseModel):
    """A classifier that was trained elsewhere and is used as it is."""

    @property
    def takes_frames(self) -> bool:
        return hasattr(unfrozen(self.estimator), "feature_names_in_")  # it was fitted on a frame

    def prepare(self, X: FloatArray) -> FloatArray:
        return cast_for_nets(X) if find_nets(self.estimator) else X

    def classes(self, X: FloatArray, y: NDArray[Any], given: Any = None) -> NDArray[Any]:
        refuse_order(given)
        check_is_fitted(unfrozen(self.estimator))
        labels = np.unique(y)
        known = np.asarray(getattr(self.estimator, "classes_", labels))
        unknown = labels[~np.isin(labels, known)]
        if len(unknown):
            raise ValueError(
                f"y must hold labels the frozen classifier was trained on, got {unknown[0]!r}, which is not among "
                f"{list(known[:10])}. The classifier predicts its own labels, so y must use the same labels."
            )
        return known

    def train(self, estimator: Any, X: FloatArray, y: NDArray[Any], settings: TrainingSettings) -> None:
        pass

    def voter(self, classes: NDArray[Any]) -> LabelVoter:
        kind = NamedColumnsVoter if self.takes_frames else LabelVoter
        return kind(self.estimator, classes)


class ModelOfNets(SklearnModel):
    """A scikit-learn classifier around nets, such as `BaggingClassifier(net)`; it is trained on numbered classes."""

    @property
    def takes_frames(self) -> bool:
        return False

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
    noise = settings.sigma, settings.n_augment, rng, settings.fit_params, settings.as_base_input
    if settings.augmentation == "passes":
        fit_in_passes(estimator, X, y, labels, *noise)
    else:
        fit_on_replicas(estimator, X, y, *noise)
