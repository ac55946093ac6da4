"""Certifying through the things scikit-learn wraps around an estimator.

Pipelines and searches do not forward ``certify``. `certify` walks to the `SmoothedClassifier` inside, and keeps
account of the space in which its radius lives: whatever a pipeline does before the smoothed step stretches or shrinks
distances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._certificates import Certificates
from ._journal import Placed
from ._smoothed import SmoothedClassifier


def certify(estimator: Any, X: Any, journal: Any = None) -> Certificates:
    """Certify with a `SmoothedClassifier` that may sit inside a pipeline, a search or a frozen estimator.

    Parameters
    ----------
    estimator : fitted estimator
        A `SmoothedClassifier`; a `Pipeline` that ends in one; `GridSearchCV` and its kin, which stand for their
        ``best_estimator_``; a `FrozenEstimator`.
    X : array-like
        Inputs of `estimator`.
    journal : path-like, default=None
        File in which progress is kept, see `SmoothedClassifier.certify`.

    Returns
    -------
    Certificates
        With ``space="input"`` the radius is in the units of `X`. That is so when nothing comes before the smoothed
        step, and when the steps before it are known to stretch no distance by more than a factor, by which the radius
        was then divided (and rounded down): centring, scaling, selection of features, principal components, and
        pipelines of these. Otherwise
        `space` names the step whose output the radius is about.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from smoothcert import FirstOrderCertifier, SmoothedClassifier, certify
    >>> X, y = load_digits(return_X_y=True)
    >>> smoothed = SmoothedClassifier(
    ...     LogisticRegression(max_iter=2000), sigma=4.0, certifier=FirstOrderCertifier(n_samples=1000), random_state=0
    ... )
    >>> pipeline = make_pipeline(PCA(10, random_state=0), smoothed).fit(X, y)
    >>> certify(pipeline, X[:2]).space
    'input'
    """
    return _walk(estimator, X, journal, "input")


def _walk(estimator: Any, X: Any, journal: Any, space: str) -> Certificates:
    if isinstance(estimator, SmoothedClassifier):
        return estimator.certify(X) if journal is None else estimator.certify(X, journal=Placed(journal, space))
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        return _through_pipeline(estimator, X, journal, space)
    if isinstance(estimator, FrozenEstimator):
        return _walk(estimator.estimator, X, journal, space)
    if isinstance(estimator, BaseSearchCV):
        if estimator.refit is False:
            raise ValueError("A search must have refit its best estimator to certify, got refit=False. Set refit=True.")
        check_is_fitted(estimator, "best_estimator_")
        return _walk(estimator.best_estimator_, X, journal, space)
    name = type(estimator).__name__
    cure = f"Wrap the classifier itself: SmoothedClassifier({name}(...))." if hasattr(estimator, "predict") else ""
    raise TypeError(
        "estimator must be a SmoothedClassifier, or a Pipeline, search or FrozenEstimator that ends in one, "
        f"got {name}. {cure or 'The order is certify(estimator, X).'}"
    )


def _through_pipeline(pipeline: Pipeline, X: Any, journal: Any, space: str) -> Certificates:
    last = space
    for name, step in pipeline.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        X = step.transform(X)
        last = f"the output of {name}"
    factor = _stretch_of_all([step for _, step in pipeline.steps[:-1]])
    certificates = _walk(pipeline.steps[-1][1], X, journal, last)
    if certificates.space != "input" or factor is None:
        space = last if certificates.space == "input" else certificates.space
        return replace(certificates, space=space)
    if factor == 1.0:
        return certificates
    radius = np.nextafter(certificates.radius / factor, 0.0)
    return replace(certificates, radius=radius, abstained=radius == 0.0)


def largest_stretch(step: Any) -> float | None:
    """By how much a fitted transformer can stretch a distance at most; None if that is not known."""
    if step is None or step == "passthrough":
        return 1.0
    if isinstance(step, FrozenEstimator):
        return largest_stretch(step.estimator)
    if type(step) is Pipeline:
        return _stretch_of_all([inner for _, inner in step.steps])
    rule = _STRETCH.get(type(step).__name__)
    if rule is None or not type(step).__module__.startswith("sklearn."):
        return None
    return float(rule(step))


def _stretch_of_all(steps: Sequence[Any]) -> float | None:
    factor = 1.0
    for step in steps:
        own = largest_stretch(step)
        if own is None:
            return None
        factor = _product_up(factor, own)
    return factor


def _product_up(a: float, b: float) -> float:
    return a * b if 1.0 in (a, b) else float(np.nextafter(a * b, np.inf))


def _spectral_norm(matrix: Any) -> float:
    """Largest singular value, not below the true one: the error of its computation is a few roundings for each row
    and column."""
    wide = np.asarray(matrix, dtype=np.float64)
    return float(np.linalg.norm(wide, 2)) * (1.0 + 4.0 * sum(wide.shape) * np.finfo(np.float64).eps)


def _pca(step: Any) -> float:
    # Rows of an orthogonal projection; whitening divides each by its standard deviation.
    rows = np.asarray(step.components_, dtype=np.float64)
    if step.whiten:
        rows = rows / np.sqrt(np.maximum(step.explained_variance_, 1e-300, dtype=np.float64))[:, None]
    return _spectral_norm(rows)


def _divided_by_scale(step: Any) -> float:
    if step.scale_ is None:
        return 1.0
    least = float(np.min(np.abs(np.asarray(step.scale_, dtype=np.float64))))
    return 1.0 if least == 1.0 else float(np.nextafter(1.0 / least, np.inf))


def _multiplied_by_scale(step: Any) -> float:
    return float(np.max(np.abs(np.asarray(step.scale_, dtype=np.float64))))


_STRETCH: dict[str, Callable[[Any], Any]] = {
    "PCA": _pca,
    "IncrementalPCA": _pca,
    "TruncatedSVD": lambda step: _spectral_norm(step.components_),
    "StandardScaler": _divided_by_scale,
    "RobustScaler": _divided_by_scale,
    "MaxAbsScaler": _divided_by_scale,
    "MinMaxScaler": _multiplied_by_scale,
    "VarianceThreshold": lambda step: 1.0,
    "SelectKBest": lambda step: 1.0,
    "SelectPercentile": lambda step: 1.0,
    "SelectFromModel": lambda step: 1.0,
    "RFE": lambda step: 1.0,
}
