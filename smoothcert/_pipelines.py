"""Certifying through the things scikit-learn wraps around an estimator.

Pipelines and searches do not forward ``certify``. `certify` walks to the `SmoothedClassifier` inside, and keeps
account of the space in which its radius lives: whatever a pipeline does before the smoothed step stretches or shrinks
distances.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ._certificates import Certificates, radius_before_steps, with_rows_of
from ._column_maps import column_map
from ._lipschitz import lipschitz_bound, single_steps
from ._noise import seed_for_purpose
from ._sklearn_compat import BaseSearchCV
from ._smoothed import SmoothedClassifier
from ._transform_rounding import expansion_of
from ._validation import FloatArray, check_choice
from ._warnings import RadiusSpaceWarning, warn_user


def certify(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    radius: Any = None,
    journal: Any = None,
    max_samples: int | None = None,
    space: str = "input",
) -> Certificates:
    """Certify with a `SmoothedClassifier`, which may be inside a pipeline, a search or a frozen estimator.

    Parameters
    ----------
    estimator : fitted estimator
        A `SmoothedClassifier`; a `Pipeline` that ends in one; `GridSearchCV` and other searches, of which the
        ``best_estimator_`` is used; a `FrozenEstimator`.
    X : array-like
        Inputs of `estimator`.
    y : array-like, default=None
        True labels; inputs whose votes point to another class are not certified, see `SmoothedClassifier.certify`.
    radius : float or increasing sequence of float, default=None
        Radii that are to be decided, in the space that the certificates are about; sampling ends as soon as they are,
        see `SmoothedClassifier.certify`.
    journal : path-like, default=None
        File in which progress is kept, see `SmoothedClassifier.certify`.
    max_samples : int, default=None
        Samples of an input at most, see `SmoothedClassifier.certify`.
    space : {"input", "smoothed"}, default="input"
        In which space radii are wanted where steps of a pipeline come before the smoothed one. ``"input"``: in that of
        `X`, as far as the steps are known. ``"smoothed"``: in that to which noise is added, the output of the last
        step before; behind a scaler these are its units.

    Returns
    -------
    Certificates
        With ``space="input"`` the radius is in the units of `X`. That is so when nothing comes before the smoothed
        step, and when the steps before it are known to stretch no distance by more than a factor: centring, scaling,
        selection of features, principal components, and pipelines of these. What the steps may round was then
        subtracted from the radius, and it was divided by the factor and rounded down. Steps that treat columns one
        by one, `ColumnTransformer` of these among them, leave an ellipsoid an ellipsoid: ``radius_per_feature`` says
        how far each column of `X` alone may move, which behind a scaler is more than the radius in all columns but the
        most delicate one. Otherwise `space` names the step whose output the radius is about.

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
    check_choice("space", space, ("input", "smoothed"))

    def certify_smoothed(smoothed: SmoothedClassifier, X: Any, **place: Any) -> Certificates:
        return smoothed._certify(X, y, radius=radius, journal=journal, max_samples=max_samples, **place)

    certificates = _certify(estimator, X, "input", certify_smoothed, () if space == "input" else None)
    if space == "input" and certificates.space != "input":
        warn_user(
            f"The radii are distances in {certificates.space}, not in X, because it is not known by how much the steps "
            "before the smoothed classifier stretch distances. If this is what you want, use certify(..., "
            'space="smoothed"). Otherwise put the steps into the base, SmoothedClassifier(make_pipeline(...)), so that '
            "noise is added to X.",
            RadiusSpaceWarning,
        )
    return with_rows_of(certificates, X, y)


def certify_to_choose(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    radius: Any = None,
    max_samples: int | None = None,
    space: str = "input",
) -> Certificates:
    """Certify in order to choose among models or settings.

    Noise that took part in a choice proves nothing about what was chosen: the luckiest of many was chosen for its luck.
    So this noise is independent of that which `certify` draws with the same `random_state`.
    """

    def with_other_noise(smoothed: SmoothedClassifier, X: Any, **place: Any) -> Certificates:
        smoothed = copy(smoothed)
        smoothed.random_state = seed_for_purpose(smoothed.random_state, "choice")
        # Scorers have more to say about radii out of reach.
        return smoothed._certify(X, y, radius=radius, max_samples=max_samples, warn_of_reach=False, **place)

    return _certify(estimator, X, "input", with_other_noise, () if space == "input" else None)


def convert_radius(estimator: Any, X: Any, radius: float, space: str = "input") -> FloatArray:
    """Return what `certify` would report for each row where the classifier inside has a given radius."""

    def same_everywhere(smoothed: SmoothedClassifier, X: Any, *args: Any, **kwargs: Any) -> Certificates:
        n = np.shape(X)[0]
        return Certificates(np.zeros(n), np.full(n, radius), np.zeros(n, dtype=bool))

    return _certify(estimator, X, "input", same_everywhere, () if space == "input" else None).radius


def find_smoothed(estimator: Any) -> SmoothedClassifier:
    """Return the `SmoothedClassifier` inside what scikit-learn wraps around it."""
    inner = _unwrap(estimator)
    if isinstance(inner, Pipeline):
        return find_smoothed(inner.steps[-1][1])
    return _checked(inner)


def replace_certifier(estimator: Any, certifier: Any) -> Any:
    """Return a copy of an estimator whose `SmoothedClassifier` has another certifier; the estimator stays as it is."""
    inner = copy(_unwrap(estimator))
    if isinstance(inner, Pipeline):
        name, last = inner.steps[-1]
        inner.steps = [*inner.steps[:-1], (name, replace_certifier(last, certifier))]
    else:
        _checked(inner).certifier = certifier
    return inner


def _unwrap(estimator: Any) -> Any:
    """Return what is inside searches and frozen estimators, which change nothing."""
    while isinstance(estimator, FrozenEstimator | BaseSearchCV):
        if isinstance(estimator, BaseSearchCV):
            if estimator.refit is False:
                raise ValueError(
                    "A search must have refit its best estimator to certify, got refit=False. Set refit=True."
                )
            check_is_fitted(estimator, "best_estimator_")
            estimator = estimator.best_estimator_
        else:
            estimator = estimator.estimator
    return estimator


def _checked(estimator: Any) -> SmoothedClassifier:
    if isinstance(estimator, SmoothedClassifier):
        return estimator
    name = type(estimator).__name__
    cure = f"Wrap the classifier itself: SmoothedClassifier({name}(...))." if hasattr(estimator, "predict") else ""
    raise TypeError(
        "estimator must be a SmoothedClassifier, or a Pipeline, search or FrozenEstimator that ends in one, "
        f"got {name}. {cure or 'The order is certify(estimator, X).'}"
    )


_Certify = Callable[..., Certificates]


_Before = tuple[Sequence[Any], Any]
"""Steps of a pipeline, and what they were given."""


def _certify(
    estimator: Any, X: Any, space: str, certify_smoothed: _Certify, outer: Sequence[_Before] | None = ()
) -> Certificates:
    """Certify by the classifier inside, and keep account of the space in which its radius lives.

    Parameters
    ----------
    estimator : estimator
    X : array-like
    space : str
        What `X` is.
    certify_smoothed : callable
        Certifies by the classifier itself; it is told the space, and how radii are converted on the way back.
    outer : sequence of (steps, inputs), or None
        What came before `X`, the first ones first, as far as radii will be converted. None converts nothing.
    """
    inner = _unwrap(estimator)
    if not isinstance(inner, Pipeline):
        return certify_smoothed(_checked(inner), X, space=space, converter=partial(_converter, outer))
    check_is_fitted(inner)
    steps = list(inner.steps)
    while type(steps[-1][1]) is Pipeline:  # what is known of all steps together is more than of each
        steps += steps.pop()[1].steps
    last, given = space, X
    for name, step in steps[:-1]:
        if step is None or step == "passthrough":
            continue
        X = step.transform(X)
        last = f"the output of {name}"
    # A pipeline of another type may do more than its steps.
    known = [step for _, step in steps[:-1]] if type(inner) is Pipeline else None
    if type(inner) is not Pipeline and last == space:
        last = f"the input of {steps[-1][0]}"
    before = None if known is None or outer is None else (known, given)
    inside = None if outer is None else () if before is None else (*outer, before)
    certificates = _certify(steps[-1][1], X, last, certify_smoothed, inside)
    conversion = None
    if before is not None and certificates.space == "input":
        conversion = _conversion(*before, certificates.feature_scale)
    if conversion is None:
        space = last if certificates.space == "input" else certificates.space
        return replace(certificates, space=space)
    radius = conversion.radius(certificates.radius)
    _warn_of_rounding(certificates.radius, conversion.lost(certificates.radius))
    evidence = certificates.evidence
    return replace(
        certificates,
        radius=radius,
        abstained=radius == 0.0,
        feature_scale=conversion.scale,
        n_features=int(np.prod(np.shape(given)[1:])),
        evidence=None if evidence is None else evidence.before_steps(conversion.shift, conversion.factor),
    )


class _Conversion(NamedTuple):
    """How radii behind steps become radii before them, and what one unit of them is in each feature.

    Inputs a distance `d` apart are sent at most ``factor * d + shift`` apart; `of_ball` tells that of this only the
    shift is lost to rounding.
    """

    shift: FloatArray
    factor: float
    scale: FloatArray | None
    of_ball: bool

    def radius(self, radius: FloatArray) -> FloatArray:
        return radius_before_steps(radius, self.shift, self.factor)

    def lost(self, radius: FloatArray) -> FloatArray:
        return self.shift if self.of_ball else radius - self.radius(radius)


def _conversion(steps: Sequence[Any], X: Any, after: FloatArray | None) -> _Conversion | None:
    """Return how radii about inputs with a given scale of features behind steps are converted; None if not known."""
    return _of_ball(steps, X) if after is None else _of_ellipsoid(steps, X, after)


def _of_ball(steps: Sequence[Any], X: Any) -> _Conversion | None:
    """Return the conversion of a ball to a ball.

    If the steps treat columns one by one, it is part of an ellipsoid, whose radius per unit of the ball's follows: what
    is lost to rounding takes no more from it than from the ball.
    """
    expansion, scale = expansion_of(steps, X), None
    if expansion is None:
        return None
    columns, stretch = column_map(steps, X), lipschitz_bound(steps)
    if columns is not None and stretch is not None and list(single_steps(steps)):
        whole = columns.scale_before(np.ones(len(columns.gain)))
        scale = None if whole is None else whole * stretch * (1.0 - 1e-9)
    return _Conversion(expansion.shift, expansion.factor, scale, of_ball=True)


def _of_ellipsoid(steps: Sequence[Any], X: Any, after: FloatArray) -> _Conversion | None:
    """Return the conversion of an ellipsoid behind steps that treat columns one by one; None if they are others."""
    columns = column_map(steps, X) if after.ndim == 1 else None
    scale = None if columns is None else columns.scale_before(after)
    if columns is None or scale is None:
        return None
    return _Conversion(*columns.expansion(after), scale, of_ball=False)


def _converter(outer: Sequence[_Before] | None, scale: FloatArray | None) -> Callable[[FloatArray], FloatArray]:
    """Return what becomes of radii with a given scale of features on the way back, as far as steps are known."""
    conversions = []
    for steps, X in reversed(outer or ()):
        conversion = _conversion(steps, X, scale)
        if conversion is None:
            break
        conversions.append(conversion.radius)
        scale = conversion.scale

    def convert(radius: FloatArray) -> FloatArray:
        for conversion in conversions:
            radius = conversion(radius)
        return radius

    return convert


def _warn_of_rounding(radius: FloatArray, shift: FloatArray) -> None:
    spoiled = (radius > 0.0) & (shift > 0.1 * radius)
    if np.any(spoiled):
        worst = int(np.argmax(np.where(spoiled, shift / np.maximum(radius, 1e-300), 0.0)))
        warnings.warn(
            f"Because of rounding in the steps before the smoothed classifier, {int(spoiled.sum())} radii were reduced "
            f"by more than a tenth. In the worst case the output of the steps is only accurate to {shift[worst]:.3g}, "
            f"and the radius was {radius[worst]:.3g}. Give X in float64, or subtract an offset from it.",
            UserWarning,
            stacklevel=5,
        )
