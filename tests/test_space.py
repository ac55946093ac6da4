"""The space of a radius: that of the input or of the smoothed step, per column, behind column transformers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

from smoothcert import ColumnSigma, FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert._certificates import radius_before_steps
from smoothcert._column_maps import column_map
from smoothcert._lipschitz import lipschitz_bound
from smoothcert._transform_rounding import expansion_of
from smoothcert.metrics import make_certified_scorer

# Steps that are not known are tested here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::smoothcert.RadiusSpaceWarning")

X, Y = load_wine(return_X_y=True)
N_FEATURES = X.shape[1]


def soft(sigma, base=None):
    return SmoothedClassifier(base or LogisticRegression(max_iter=2000), sigma=sigma, voting="soft", random_state=0)


def test_a_scaler_inside_before_or_a_sigma_per_column_are_one_certificate():
    scaler = StandardScaler().fit(X)
    model = LogisticRegression(max_iter=1000).fit(scaler.transform(X), Y)
    inside = FrozenEstimator(make_pipeline(scaler, model))
    by_column = soft(0.25 * scaler.scale_, inside).fit(X, Y).certify(X)
    by_spread = soft(ColumnSigma(0.25), inside).fit(X, Y).certify(X)
    before = make_pipeline(FrozenEstimator(scaler), soft(0.25, FrozenEstimator(model))).fit(X, Y)
    each = make_pipeline(FrozenEstimator(scaler), soft(np.full(N_FEATURES, 0.25), FrozenEstimator(model))).fit(X, Y)
    scaled, converted = certify(before, X, space="smoothed"), certify(before, X)
    assert scaled.space == "the output of frozenestimator"
    assert converted.space == "input"
    # In units of sigma, of the spread, of the scaler's output.
    np.testing.assert_allclose(0.25 * by_column.radius, scaled.radius, rtol=1e-8)
    np.testing.assert_allclose(by_spread.radius, scaled.radius, rtol=1e-8)
    np.testing.assert_allclose(certify(each, X).radius, by_column.radius, rtol=1e-8)
    # How far each column may move, in its own units, is the same in all of them.
    expected = scaled.radius[:, None] * scaler.scale_
    for certificates in (by_column, by_spread, converted, certify(each, X)):
        np.testing.assert_allclose(certificates.radius_per_feature, expected, rtol=1e-7)
        assert np.all(certificates.radius_per_feature <= expected * (1.0 + 1e-12))
    # As a ball the most delicate column decides.
    np.testing.assert_allclose(converted.radius, scaled.radius * scaler.scale_.min(), rtol=1e-8)
    assert converted.feature_scale.min() > 1.0 - 1e-8
    assert "times feature_scale" not in repr(converted)
    assert "times feature_scale" in repr(by_column)


def test_what_nothing_comes_before_is_in_the_input_anyway():
    scaled = StandardScaler().fit_transform(X)
    clf = soft(0.5).fit(scaled, Y)
    np.testing.assert_array_equal(certify(clf, scaled[:5], space="smoothed").radius, clf.certify(scaled[:5]).radius)
    assert certify(clf, scaled[:5], space="smoothed").space == "input"
    with pytest.raises(ValueError, match=r"space must be one of \('input', 'smoothed'\), got 'output'"):
        certify(clf, scaled[:5], space="output")
    with pytest.raises(ValueError, match="space must be one of"):
        make_certified_scorer(0.5, space="output")


MAPS = {
    "scalers": make_pipeline(StandardScaler(), MinMaxScaler((-1, 2)), SelectKBest(k=6), RobustScaler(), MaxAbsScaler()),
    "columns": make_column_transformer(
        (StandardScaler(), [5, 1]),
        (make_pipeline(MinMaxScaler(), "passthrough", StandardScaler(with_mean=False)), slice(7, 10)),
        ("passthrough", [0, 5]),
        ("drop", [2, 3]),
        remainder=MaxAbsScaler(),
    ),
    "clipped": make_pipeline(MinMaxScaler(clip=True), StandardScaler()),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MAPS)
def test_maps_of_columns_reach_no_further(name, dtype):
    """Nothing inside the ellipsoid before the steps leaves that behind them, roundings included; and it is tight."""
    data = (X + (100.0 if dtype == np.float32 else 0.0)).astype(dtype)
    steps = [MAPS[name].fit(data, Y)]
    columns, rows = column_map(steps, data[:20]), data[:20]
    output = steps[0].transform(rows).astype(float)
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.1, 2.0, output.shape[1])
    fixed = columns.uses[0]  # the columns of the first output
    scale[0] = 0.0
    radius = np.full(20, 0.5)
    before, left = columns.scale_before(scale), radius_before_steps(radius, *columns.expansion(scale))
    np.testing.assert_array_equal(before[fixed], 0.0)
    assert np.all(left > 0.0)
    free = np.isinf(before)
    movable = (before > 0.0) & ~free
    reached = 0.0
    for _ in range(200):
        step = rng.standard_normal((20, N_FEATURES)) * rng.choice([0.0, 1.0], N_FEATURES, p=[0.7, 0.3])
        step[:, ~movable] = 0.0
        length = np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-300)
        other = rows + np.where(movable, np.where(free, 0.0, before), 0.0) * step / length * left[:, None] * 0.999999
        other = other.astype(dtype)
        other[:, free] += 5
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = np.sqrt(np.sum(np.square((other.astype(float) - rows)[:, movable] / before[movable]), axis=1))
        inside = exact < left
        moved = steps[0].transform(other).astype(float) - output
        np.testing.assert_array_equal(moved[:, 0], 0.0)
        behind = np.linalg.norm(moved[:, 1:] / scale[1:], axis=1)
        assert np.all(behind[inside] < radius[inside])
        reached = max(reached, float(np.max(behind[inside], initial=0.0)))
    if name != "clipped":
        assert reached > 0.49


def test_balls_behind_column_transformers():
    mixed = make_column_transformer(
        (StandardScaler(), [0, 1, 4]), (make_pipeline(MinMaxScaler(), PCA(3)), slice(5, 12))
    )
    for transformer in (mixed, MAPS["columns"]):
        pipeline = make_pipeline(transformer, soft(0.25)).fit(X, Y)
        certificates = certify(pipeline, X[:20])
        assert certificates.space == "input"
        stretch = lipschitz_bound([pipeline[0]])
        matrix = pipeline[0].transform(np.eye(N_FEATURES)) - pipeline[0].transform(np.zeros((1, N_FEATURES)))
        true = np.linalg.norm(matrix, 2)
        assert true <= stretch * (1.0 + 1e-14)
        assert stretch < true * (1.0 + 1e-9)
        inner = pipeline[-1].certify(pipeline[:-1].transform(X[:20]))
        np.testing.assert_allclose(certificates.radius, inner.radius / true, rtol=1e-8)
        assert np.all(certificates.radius <= inner.radius / true)
    assert certify(make_pipeline(mixed, soft(0.25)).fit(X, Y), X[:2]).feature_scale is None


def test_rounding_in_column_transformers_is_allowed_for():
    """Float32 far from the origin: neighbours are driven further apart than the matrix does."""
    data = (X + 10_000.0).astype(np.float32)
    step = make_column_transformer(
        (make_pipeline(PCA(2), StandardScaler()), [0, 1, 2]), (StandardScaler(), [3, 4])
    ).fit(data)
    expansion = expansion_of([step], data[:30])
    rng = np.random.default_rng(0)
    worst = 0.0
    for size in (1e-4, 1e-3, 1e-2):
        for _ in range(30):
            other = (data[:30] + rng.normal(size=data[:30].shape) * size).astype(np.float32)
            distance = np.linalg.norm((other.astype(float) - data[:30])[:, :5], axis=1)
            moved = np.linalg.norm(
                step.transform(other).astype(float) - step.transform(data[:30]).astype(float), axis=1
            )
            assert np.all(moved <= expansion.factor * distance + expansion.shift)
            worst = max(worst, float(np.max((moved - lipschitz_bound([step]) * distance) / expansion.shift)))
    assert worst > 0.0  # there is something to allow for


def test_encoded_categories_stay_as_they_are():
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(N_FEATURES)])
    frame["kind"] = np.where(X[:, 0] > 13, "strong", "light")
    numbers = make_column_selector(dtype_include=np.number)
    encoded = make_column_transformer((OneHotEncoder(), ["kind"]), (StandardScaler(), numbers))
    sigma = np.r_[0.0, 0.0, np.full(N_FEATURES, 0.25)]
    pipeline = make_pipeline(encoded, soft(sigma)).fit(frame, Y)
    certificates = certify(pipeline, frame[:5])
    assert certificates.space == "input"
    np.testing.assert_allclose(certificates.feature_scale, np.r_[0.25 * X.std(axis=0), 0.0], rtol=1e-9)
    inside = SmoothedClassifier(
        FrozenEstimator(make_pipeline(encoded, pipeline[-1].estimator_)),
        sigma=dict(zip(frame.columns, 0.25 * X.std(axis=0), strict=False)),
        voting="soft",
    ).fit(frame, Y)
    np.testing.assert_allclose(inside.certify(frame[:5]).radius, certificates.radius, rtol=1e-8)
    # With noise on the codes nothing is known about the input; and there is no such thing as a code plus noise.
    noisy = certify(make_pipeline(encoded, soft(0.25)).fit(frame, Y), frame[:5])
    assert noisy.space == "the output of columntransformer"
    assert certify(make_pipeline(encoded, soft(np.full(15, 0.25))).fit(frame, Y), frame[:5]).space != "input"


def test_what_is_not_known_is_not_converted():
    sigma = np.full(3, 0.25)
    for step in (PCA(3), make_pipeline(PolynomialFeatures(1, include_bias=False), SelectKBest(k=3))):
        certificates = certify(make_pipeline(StandardScaler(), step, soft(sigma)).fit(X, Y), X[:3])
        assert (
            certificates.space == f"the output of {type(step).__name__.lower()}" or "selectkbest" in certificates.space
        )
    weighted = make_column_transformer((StandardScaler(), [0, 1, 2]))
    weighted.set_params(transformer_weights={"standardscaler": 2.0})
    assert certify(make_pipeline(weighted, soft(sigma)).fit(X, Y), X[:3]).space == "the output of columntransformer"
    own = make_column_transformer((FunctionTransformer(np.sin), [0, 1, 2]))
    assert certify(make_pipeline(own, soft(0.25)).fit(X, Y), X[:3]).space == "the output of columntransformer"

    class Scaler(StandardScaler):
        """May do anything."""

    for step in (Scaler(), make_column_transformer((Scaler(), [0, 1, 2]))):
        pipeline = make_pipeline(step, SelectKBest(k=3), soft(sigma)).fit(X, Y)
        assert certify(pipeline, X[:3]).space == "the output of selectkbest"


def test_scores_in_either_space():
    data, labels = load_iris(return_X_y=True)
    data = data * [1.0, 1.0, 1.0, 0.01]  # a column in other units
    smoothed = SmoothedClassifier(
        LogisticRegression(max_iter=500), sigma=0.5, certifier=FirstOrderCertifier(200), n_augment=2, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), smoothed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search = GridSearchCV(
            pipeline,
            {"smoothedclassifier__sigma": [0.1, 0.5]},
            scoring=make_certified_scorer(0.15, space="smoothed"),
            cv=2,
            error_score="raise",
        ).fit(data, labels)
        assert search.best_score_ > 0.3
        assert certify(search, data).radius.max() < 0.01  # in the units of the small column
