"""Certifying through the things scikit-learn wraps around an estimator.

Pipelines and searches do not forward ``certify``. `certify` walks to the `SmoothedClassifier` inside, and keeps
account of the space in which its radius lives: whatever a pipeline does before the smoothed step stretches or shrinks
distances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._certificates import Certificates
from ._smoothed import SmoothedClassifier


def certify(estimator: Any, X: Any) -> Certificates:
    """Certify with a `SmoothedClassifier` that may sit inside a pipeline, a search or a frozen estimator.

    Parameters
    ----------
    estimator : fitted estimator
        A `SmoothedClassifier`; a `Pipeline` that ends in one; `GridSearchCV` and its kin, which stand for their
        ``best_estimator_``; a `FrozenEstimator`.
    X : array-like
        Inputs of `estimator`.

    Returns
    -------
    Certificates
        With ``space="input"`` the radius is in the units of `X`. That is so when nothing comes before the smoothed
        step, and when the steps before it are known to stretch no distance by more than a factor, by which the radius
        was then divided (and rounded down): centring, scaling, selection of features, principal components. Otherwise
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
    if isinstance(estimator, SmoothedClassifier):
        return estimator.certify(X)
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        return _through_pipeline(estimator, X)
    if isinstance(estimator, FrozenEstimator):
        return certify(estimator.estimator, X)
    if isinstance(estimator, BaseSearchCV):
        if estimator.refit is False:
            raise ValueError("A search must have refit its best estimator to certify, got refit=False. Set refit=True.")
        check_is_fitted(estimator, "best_estimator_")
        return certify(estimator.best_estimator_, X)
    name = type(estimator).__name__
    cure = f"Wrap the classifier itself: SmoothedClassifier({name}(...))." if hasattr(estimator, "predict") else ""
    raise TypeError(
        "estimator must be a SmoothedClassifier, or a Pipeline, search or FrozenEstimator that ends in one, "
        f"got {name}. {cure or 'The order is certify(estimator, X).'}"
    )


def _through_pipeline(pipeline: Pipeline, X: Any) -> Certificates:
    factor: float | None = 1.0
    last = "input"
    for name, step in pipeline.steps[:-1]:
        if step is None or step == "passthrough":
            continue
        X = step.transform(X)
        own = largest_stretch(step)
        factor = None if own is None or factor is None else factor * own
        last = f"the output of {name}"
    certificates = certify(pipeline.steps[-1][1], X)
    if certificates.space != "input" or factor is None:
        space = last if certificates.space == "input" else certificates.space
        return replace(certificates, space=space)
    if factor == 1.0:
        return certificates
    radius = np.nextafter(certificates.radius / np.nextafter(factor, np.inf), 0.0)
    return replace(certificates, radius=np.where(certificates.abstained, 0.0, np.maximum(radius, 0.0)))


def largest_stretch(step: Any) -> float | None:
    """By how much a fitted transformer can stretch a distance at most; None if that is not known."""
    rule = _STRETCH.get(type(step).__name__)
    if rule is None or not type(step).__module__.startswith("sklearn."):
        return None
    return float(rule(step))


def _pca(step: Any) -> float:
    # Rows of an orthogonal projection; whitening divides each by its standard deviation.
    singular = np.linalg.norm(step.components_, 2)
    if step.whiten:
        singular = np.linalg.norm(step.components_ / np.sqrt(np.maximum(step.explained_variance_, 1e-300))[:, None], 2)
    return max(float(singular), 1.0) if not step.whiten else float(singular)


def _divided_by_scale(step: Any) -> float:
    return 1.0 if step.scale_ is None else float(np.max(1.0 / np.abs(step.scale_)))


def _multiplied_by_scale(step: Any) -> float:
    return float(np.max(np.abs(step.scale_)))


_STRETCH: dict[str, Callable[[Any], Any]] = {
    "PCA": _pca,
    "IncrementalPCA": _pca,
    "TruncatedSVD": lambda step: np.linalg.norm(step.components_, 2),
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
