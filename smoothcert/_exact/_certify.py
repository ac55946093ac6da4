"""Certificates without sampling, for models whose expected scores under Gaussian noise are formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.compose import ColumnTransformer
from sklearn.utils import check_array

from .._validation import FloatArray, check_interval
from ._column_transformer import map_columns
from ._contract import ClosedForm
from ._linear import LinearScores
from ._registry import known_models, read_model
from ._steps import ColumnStep, Projection, read_step, split_pipeline


class ExactCertificates(NamedTuple):
    """What `exact_certificates` returns.

    Attributes
    ----------
    scores : ndarray of shape (n_inputs, n_classes)
        Expected scores under noise, in the order of the model's ``classes_``.
    prediction : ndarray of shape (n_inputs,)
        Index of the class with the largest expected score; the first of several equal ones.
    radius : ndarray of shape (n_inputs,)
        Certified radius in units of sigma: the prediction is the same at ``x + delta`` for every `delta` with
        ``sum_j (delta_j / sigma_j)^2 < radius^2`` that is 0 where sigma is 0. Rounded down; 0 where nothing is proved;
        inf where no such perturbation can change the prediction.
    """

    scores: FloatArray
    prediction: NDArray[np.intp]
    radius: FloatArray


@dataclass(frozen=True)
class _Front:
    """The closed form of the last step of a model, and the inputs that reach it."""

    form: ClosedForm
    X: FloatArray
    sigma: FloatArray
    moved: FloatArray
    """Limit of the distance, in units of sigma, by which rounding moved each input."""


def exact_certificates(model: Any, X: Any, sigma: ArrayLike) -> ExactCertificates:
    """Return expected scores, predictions and certified radii of a model under Gaussian noise, without sampling.

    The smoothed classifier answers with the class of the largest *expected score*: the mean, over noise with standard
    deviation `sigma`, of the decision function of linear models and boosting, of the joint log-likelihood of
    GaussianNB, of the predicted probabilities of forests, and of the vote of a decision tree.

    Parameters
    ----------
    model : fitted classifier or Pipeline
        One of scikit-learn's classifiers with a closed form, see `read_model`.
    X : array-like of shape (n_inputs, n_features)
        Inputs of the model, finite numbers.
    sigma : float or array-like of shape (n_features,)
        Standard deviation of the noise in the units of `X`, the same for all features or one for each. Features with
        0 are not perturbed, and the certificate says nothing about perturbations of them.

    Returns
    -------
    ExactCertificates
        Scores, indices of the predicted classes, radii in units of sigma.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from smoothcert._exact import exact_certificates
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> scores, prediction, radius = exact_certificates(model, X[:3], sigma=0.5)
    >>> prediction
    array([0, 0, 0])
    >>> radius.round(1)
    array([2.8, 2.5, 3. ])
    """
    front = _prepare(model, X, sigma)
    scores = front.form.expected_scores(front.X, front.sigma)
    prediction = np.argmax(scores, axis=1)
    if front.form.n_classes == 1:
        radius = np.full(len(scores), np.inf)
    else:
        radius = front.form.certified_radius(front.X, front.sigma, scores, prediction)
    return ExactCertificates(scores, prediction, np.maximum(radius - front.moved, 0.0))


def exact_scores(model: Any, X: Any, sigma: ArrayLike) -> FloatArray:
    """Return the expected scores under noise, as `exact_certificates` does, without radii."""
    front = _prepare(model, X, sigma)
    return front.form.expected_scores(front.X, front.sigma)


def exact_probabilities(model: Any, X: Any, sigma: ArrayLike) -> FloatArray:
    """Return probabilities that belong to the expected scores and rank the classes as they do.

    For forests and a decision tree these are the expected scores themselves: the expected predicted probability, and
    the probability of each vote under noise. For all others it is the softmax of the expected scores. Without noise
    that is what ``predict_proba`` of logistic regression, GaussianNB, boosting and discriminant analysis returns. For
    models without ``predict_proba``, and for SGDClassifier, it only orders the classes as the decision function does.
    """
    front = _prepare(model, X, sigma)
    return front.form.probabilities(front.form.expected_scores(front.X, front.sigma))


def check_closed_form(model: Any) -> None:
    """Require a fitted model with a closed form, or raise an error that says which models have one."""
    _read(model)


class _Model(NamedTuple):
    """A model in parts: a ColumnTransformer or None, maps of single columns, a closed form; and its input features."""

    first: Any
    steps: list[ColumnStep]
    form: ClosedForm
    n_features: int


def _read(model: Any) -> _Model:
    named, last = split_pipeline(model)
    form = read_model(last)
    steps = []
    has_first = bool(named) and type(named[0][1]) is ColumnTransformer
    for name, transformer in named[1:] if has_first else named:
        step = read_step(transformer)
        if step is None:
            kind = type(transformer).__name__
            raise TypeError(
                f"model must have a closed form under Gaussian noise, got a pipeline with the step {name!r}, {kind}, "
                f"for which no closed form is known. {known_models()}"
            )
        if isinstance(step, Projection) and not isinstance(form, LinearScores):
            raise TypeError(
                f"model must have a closed form under Gaussian noise, got {type(last).__name__} after the step "
                f"{name!r}, {type(transformer).__name__}, which mixes columns. After such a step, closed forms are "
                'known for linear models only. Leave the step out, or use voting="hard".'
            )
        steps.append(step)
    n_features = int((named[0][1] if named else last).n_features_in_)
    first = named[0][1] if has_first else None
    if isinstance(form, LinearScores):
        for step in reversed(steps):
            form = form.absorb(step)
        return _Model(first, [], form, n_features)
    return _Model(first, [step for step in steps if isinstance(step, ColumnStep)], form, n_features)


def _prepare(model: Any, X: Any, sigma: ArrayLike) -> _Front:
    first, steps, form, n_features = _read(model)
    scale = check_sigma(sigma, n_features)
    if first is not None:
        rows, error, scale = map_columns(first, X, scale)
        rows = check_array(rows, dtype=np.float64, input_name="The output of the ColumnTransformer")
    else:
        rows = form.encode(X) if not steps else check_array(X, dtype=np.float64, input_name="X")
        if rows.shape[1] != n_features:
            raise ValueError(
                f"X must have the {n_features} features that the model was trained on, got {rows.shape[1]}. "
                "Give the same columns as in fit."
            )
        error = np.zeros_like(rows)
    for step in steps:
        rows, rounding = step.transform(rows)
        gain = np.abs(step.gain)
        error = error[:, step.columns] * gain + rounding
        noisy = scale[step.columns] > 0.0
        scale = scale[step.columns] * gain
        wrong = noisy & ~((scale > 0.0) & np.isfinite(scale))
        if np.any(wrong):
            raise ValueError(
                "sigma must also be positive and finite after conversion to the units of each scaler's output, got "
                f"{float(scale[wrong][0])!r}. Rescale X and sigma so that sigma is neither extremely small nor "
                "extremely large."
            )
    noisy = scale > 0.0
    moved = np.linalg.norm(error[:, noisy] / scale[noisy], axis=1) * (1.0 + 1e-9)
    if first is not None or steps:
        rows = form.encode(rows)
    return _Front(form, rows, scale, moved)


def check_sigma(sigma: ArrayLike, n_features: int) -> FloatArray:
    """Return one standard deviation for each feature; at least one must be positive."""
    cure = "Give the standard deviation of the noise; 0 leaves a feature without noise."
    array = check_interval("sigma", sigma, lower=0.0, upper=np.inf, upper_open=True, cure=cure)
    if array.shape not in ((), (n_features,)):
        raise ValueError(
            f"sigma must be a number or have one entry for each of the {n_features} features, got shape {array.shape}. "
            "Give one standard deviation for each column of X."
        )
    if not np.any(array > 0.0):
        raise ValueError(
            "sigma must be positive for at least one feature, got only zeros. Without noise nothing is smoothed; "
            "give the perturbation size that you want to defend against."
        )
    return np.broadcast_to(array, (n_features,)).astype(np.float64)
