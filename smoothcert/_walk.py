"""Certifying through the things scikit-learn wraps around an estimator.

Pipelines and searches do not forward ``certify``. `certify` walks to the `SmoothedClassifier` inside, and keeps
account of the space in which its radius lives: whatever a pipeline does before the smoothed step stretches or shrinks
distances.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._certificates import Certificates
from ._journal import Placed
from ._noise import seed_for_purpose
from ._smoothed import SmoothedClassifier
from ._transform_rounding import Expansion, divide, expansion_of
from ._validation import FloatArray


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
        step, and when the steps before it are known to stretch no distance by more than a factor: centring, scaling,
        selection of features, principal components, and pipelines of these. What the steps may round was then
        subtracted from the radius, and it was divided by the factor and rounded down. Otherwise `space` names the step
        whose output the radius is about.

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


def certify_to_choose(estimator: Any, X: Any) -> Certificates:
    """Certify in order to choose among models or settings.

    Noise that took part in a choice proves nothing about what was chosen: the luckiest of many was chosen for its luck.
    So this noise is independent of that which `certify` draws with the same `random_state`.
    """
    return _walk(estimator, X, None, "input", "choice")


def _walk(estimator: Any, X: Any, journal: Any, space: str, purpose: str | None = None) -> Certificates:
    if isinstance(estimator, SmoothedClassifier):
        if purpose is not None:
            estimator = copy(estimator)
            estimator.random_state = seed_for_purpose(estimator.random_state, purpose)
        return estimator.certify(X) if journal is None else estimator.certify(X, journal=Placed(journal, space))
    if isinstance(estimator, Pipeline):
        check_is_fitted(estimator)
        return _through_pipeline(estimator, X, journal, space, purpose)
    if isinstance(estimator, FrozenEstimator):
        return _walk(estimator.estimator, X, journal, space, purpose)
    if isinstance(estimator, BaseSearchCV):
        if estimator.refit is False:
            raise ValueError("A search must have refit its best estimator to certify, got refit=False. Set refit=True.")
        check_is_fitted(estimator, "best_estimator_")
        return _walk(estimator.best_estimator_, X, journal, space, purpose)
    name = type(estimator).__name__
    cure = f"Wrap the classifier itself: SmoothedClassifier({name}(...))." if hasattr(estimator, "predict") else ""
    raise TypeError(
        "estimator must be a SmoothedClassifier, or a Pipeline, search or FrozenEstimator that ends in one, "
        f"got {name}. {cure or 'The order is certify(estimator, X).'}"
    )


def _through_pipeline(pipeline: Pipeline, X: Any, journal: Any, space: str, purpose: str | None) -> Certificates:
    steps = list(pipeline.steps)
    while type(steps[-1][1]) is Pipeline:  # what is known of all steps together is more than of each
        steps += steps.pop()[1].steps
    last, given = space, X
    for name, step in steps[:-1]:
        if step is None or step == "passthrough":
            continue
        X = step.transform(X)
        last = f"the output of {name}"
    # A pipeline of another type may do more than its steps.
    expansion = expansion_of([step for _, step in steps[:-1]], given) if type(pipeline) is Pipeline else None
    if type(pipeline) is not Pipeline and last == space:
        last = f"the input of {steps[-1][0]}"
    certificates = _walk(steps[-1][1], X, journal, last, purpose)
    if certificates.space != "input" or expansion is None:
        space = last if certificates.space == "input" else certificates.space
        return replace(certificates, space=space)
    _warn_of_rounding(certificates.radius, expansion)
    radius = divide(certificates.radius, expansion)
    return replace(certificates, radius=radius, abstained=radius == 0.0)


def _warn_of_rounding(radius: FloatArray, expansion: Expansion) -> None:
    spoiled = (radius > 0.0) & (expansion.shift > 0.1 * radius)
    if np.any(spoiled):
        worst = int(np.argmax(np.where(spoiled, expansion.shift / np.maximum(radius, 1e-300), 0.0)))
        warnings.warn(
            "Rounding in the steps before the smoothed classifier takes more than a tenth of "
            f"{int(spoiled.sum())} radii: their output is certain to {expansion.shift[worst]:.3g} only, where the "
            f"radius is {radius[worst]:.3g}. Give X in float64, or subtract an offset from it.",
            UserWarning,
            stacklevel=5,
        )
