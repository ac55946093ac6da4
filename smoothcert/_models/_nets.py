"""Which estimators are skorch nets or have nets inside; skorch is never imported to find out."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from .._validation import FloatArray


def unfrozen(estimator: Any) -> Any:
    """Return what is inside a `FrozenEstimator`. Other estimators around an estimator are themselves the base."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def is_net(estimator: Any) -> bool:
    """Return whether an estimator, frozen or not, is a skorch net."""
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


def cast_for_nets(X: FloatArray) -> FloatArray:
    """Return rows in float32, in which nets compute: that is the classifier to be certified."""
    with np.errstate(over="ignore"):
        cast = X.astype(np.float32, copy=False)
    if not np.all(np.isfinite(cast)):
        raise ValueError(
            f"X must be within the range of float32, in which nets compute, got {float(X[~np.isfinite(cast)][0])!r}. "
            "Rescale X."
        )
    return cast
