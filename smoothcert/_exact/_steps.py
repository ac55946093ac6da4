"""Steps before a model: maps of single columns, and projections, as formulas.

A map of single columns turns Gaussian noise into Gaussian noise, and distances in units of sigma stay what they are:
only the inputs and sigma change. A projection mixes columns; linear models absorb it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from .._validation import FloatArray
from ._contract import EPS, is_sklearn


@dataclass(frozen=True)
class ColumnStep:
    """Some of the columns, each as ``(x - centre) / divisor * factor + shift``.

    What is None is left out, so that the operations in floating point are those of the transformer.
    """

    n_features: int
    columns: NDArray[np.intp]
    centre: FloatArray | None = None
    divisor: FloatArray | None = None
    factor: FloatArray | None = None
    shift: FloatArray | None = None

    @property
    def gain(self) -> FloatArray:
        """By how much each output column is stretched."""
        gain = np.ones(len(self.columns))
        if self.divisor is not None:
            gain = gain / self.divisor
        return gain if self.factor is None else gain * self.factor

    def transform(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the transformed rows and a bound on the rounding errors in them."""
        X = X[:, self.columns]
        if self.centre is not None:
            X = X - self.centre
        if self.divisor is not None:
            X = X / self.divisor
        if self.factor is not None:
            X = X * self.factor
        size = np.abs(X)
        if self.shift is not None:
            X, size = X + self.shift, size + np.abs(self.shift)
        return X, 4.0 * EPS * size


@dataclass(frozen=True)
class Projection:
    """Columns mixed by a matrix: ``matrix @ (x - centre) / divisor``."""

    matrix: FloatArray
    centre: FloatArray | None = None
    divisor: FloatArray | None = None


Step = ColumnStep | Projection


def split_pipeline(model: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the steps before the classifier, with their names, and the classifier itself.

    Pipelines inside pipelines and frozen estimators are opened. Objects of other types, subclasses too, are left as
    they are: they may do more than their parts.
    """
    *before, (_, last) = flatten_steps([("model", model)])
    return before, last


def flatten_steps(steps: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return named steps one by one: those inside pipelines and frozen estimators, without those that do nothing."""
    flat: list[tuple[str, Any]] = []
    for name, step in steps:
        if step is None or (isinstance(step, str) and step == "passthrough"):
            continue
        if type(step) is FrozenEstimator:
            flat += flatten_steps([(name, step.estimator)])
        elif type(step) is Pipeline:
            flat += flatten_steps(step.steps)
        else:
            flat.append((name, step))
    return flat


def read_step(step: Any) -> Step | None:
    """Return a fitted transformer as a formula, or None if it is not known."""
    reader = _READERS.get(type(step).__name__)
    if reader is None or not is_sklearn(step, type(step).__name__):
        return None
    check_is_fitted(step)
    return reader(step)


def known_steps() -> str:
    """Return the names of all transformers with a formula, for messages."""
    return ", ".join(_READERS)


def known_column_steps() -> str:
    """Return the names of the transformers that map columns one by one, for messages."""
    return ", ".join(name for name, reader in _READERS.items() if reader not in (_pca, _svd))


def _array(value: Any) -> FloatArray:
    return np.asarray(value, dtype=np.float64)


def _columns(step: Any) -> NDArray[np.intp]:
    return np.arange(step.n_features_in_)


def _standard(step: Any) -> Step:
    return ColumnStep(
        step.n_features_in_,
        _columns(step),
        centre=_array(step.mean_) if step.with_mean else None,
        divisor=_array(step.scale_) if step.with_std else None,
    )


def _robust(step: Any) -> Step:
    return ColumnStep(
        step.n_features_in_,
        _columns(step),
        centre=_array(step.center_) if step.with_centering else None,
        divisor=_array(step.scale_) if step.with_scaling else None,
    )


def _max_abs(step: Any) -> Step | None:
    if getattr(step, "clip", False):
        return None
    return ColumnStep(step.n_features_in_, _columns(step), divisor=_array(step.scale_))


def _min_max(step: Any) -> Step | None:
    if step.clip:
        return None
    return ColumnStep(step.n_features_in_, _columns(step), factor=_array(step.scale_), shift=_array(step.min_))


def _selector(step: Any) -> Step:
    return ColumnStep(step.n_features_in_, np.asarray(step.get_support(indices=True), dtype=np.intp))


def _pca(step: Any) -> Step:
    divisor = None
    if step.whiten:
        deviation = np.sqrt(step.explained_variance_)
        # As scikit-learn guards against components without variance.
        divisor = _array(np.maximum(deviation, np.finfo(deviation.dtype).eps))
    return Projection(_array(step.components_), _array(step.mean_), divisor)


def _svd(step: Any) -> Step:
    return Projection(_array(step.components_))


_READERS: dict[str, Callable[[Any], Step | None]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "RobustScaler": _robust,
    "MaxAbsScaler": _max_abs,
    "VarianceThreshold": _selector,
    "SelectKBest": _selector,
    "SelectPercentile": _selector,
    "SelectFpr": _selector,
    "SelectFdr": _selector,
    "SelectFwe": _selector,
    "GenericUnivariateSelect": _selector,
    "SelectFromModel": _selector,
    "SequentialFeatureSelector": _selector,
    "RFE": _selector,
    "RFECV": _selector,
    "PCA": _pca,
    "IncrementalPCA": _pca,
    "TruncatedSVD": _svd,
}
