"""Rounding in the steps of a pipeline: limits against exact arithmetic, and certificates that would break without."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA, IncrementalPCA, TruncatedSVD
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from smoothcert import FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert._transform_rounding import _rounding_of, expansion_of

# Steps that are not known are tested here on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::smoothcert.RadiusSpaceWarning")

STEPS = [
    PCA(3, random_state=0),
    PCA(3, whiten=True, random_state=0),
    IncrementalPCA(3, whiten=True),
    TruncatedSVD(3, random_state=0),
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    RobustScaler(),
    MaxAbsScaler(),
    MinMaxScaler((-1, 3)),
    MinMaxScaler(clip=True),
    SelectKBest(k=4),
]
CHAINS = [
    make_pipeline(StandardScaler(), PCA(3, random_state=0), StandardScaler()),
    make_pipeline(PCA(4, whiten=True, random_state=0), SelectKBest(k=2), MinMaxScaler(clip=True)),
    make_pipeline(MinMaxScaler(clip=True), TruncatedSVD(3, random_state=0)),
    make_pipeline("passthrough", make_pipeline(RobustScaler(), MaxAbsScaler()), PCA(2, random_state=0)),
]


def rows(offset, dtype, n_rows=60, n_features=7):
    rng = np.random.default_rng(0)
    spread = rng.standard_normal((n_rows, n_features)) * np.geomspace(0.01, 30.0, n_features)
    return (offset * rng.standard_normal(n_features) + spread).astype(dtype)


def exact(values):
    """The numbers as fractions, so that nothing is rounded from here on."""
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(np.asarray(values))


def exact_transform(step, X):
    """The map that the parameters of a step define, without rounding."""
    X = exact(X)
    if hasattr(step, "get_support"):
        return X[:, step.get_support()]
    if hasattr(step, "components_"):
        centred = X - exact(step.mean_) if hasattr(step, "mean_") else X
        projected = centred.dot(exact(step.components_).T)
        # The root is no fraction; in float64 it is right to a few of 10^-16, and in the type of the step it is part of
        # the map.
        return projected / exact(np.sqrt(step.explained_variance_)) if getattr(step, "whiten", False) else projected
    if isinstance(step, MinMaxScaler):
        moved = X * exact(step.scale_) + exact(step.min_)
        low, high = (Fraction(edge) for edge in step.feature_range)
        return np.clip(moved, low, high) if step.clip else moved
    centre = step.mean_ if getattr(step, "with_mean", False) else getattr(step, "center_", None)
    moved = X if centre is None else X - exact(centre)
    return moved if step.scale_ is None else moved / exact(step.scale_)


def length(differences):
    return np.sqrt([float(sum(v * v for v in row)) for row in differences])


@pytest.mark.parametrize("fitted_in", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_limits_hold_against_exact_arithmetic(step, offset, dtype, fitted_in):
    X = rows(offset, dtype)
    step.fit(X.astype(fitted_in), np.arange(len(X)) % 2)
    computed = step.transform(X)
    error = length(exact(computed) - exact_transform(step, X))
    limit = _rounding_of(step, X, computed).at_rows
    if hasattr(step, "components_") and dtype == np.float64 and fitted_in == np.float32:
        # The projection of the mean is a constant of the step, here computed in float32: it is the same for all rows.
        error = length(exact(computed) - exact_transform(step, X) - (exact(computed) - exact_transform(step, X))[0])
        limit = limit + limit[0]
    assert np.all(error <= limit)
    if not hasattr(step, "get_support"):
        assert np.all(limit <= 1e3 * np.finfo(dtype).eps * (1.0 + offset) * 1e4)  # and they are not idle


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("steps", [*STEPS, *CHAINS], ids=repr)
def test_no_pair_of_inputs_is_driven_further_apart(steps, offset, dtype):
    X = rows(offset, dtype)
    steps.fit(X, np.arange(len(X)) % 2)
    expansion = expansion_of([steps], X)
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-6, 1e-3, 1.0, 100.0):
        # The smallest moves are those to the next number of the type in one component or in all.
        moved = (X + size * rng.standard_normal(X.shape)).astype(dtype)
        moved = np.nextafter(moved, moved + rng.choice([-1, 0, 1], X.shape).astype(dtype))
        distance = length(exact(moved) - exact(X))
        after = length(exact(steps.transform(moved)) - exact(steps.transform(X)))
        assert np.all(after <= (expansion.factor * distance + expansion.shift) * (1 + 1e-12))


def test_selection_changes_nothing_and_sparse_rows_are_like_dense_ones():
    X = rows(1e4, np.float32)
    selection = SelectKBest(k=4).fit(X, np.arange(len(X)) % 2)
    assert expansion_of([selection], X).factor == 1.0
    assert not expansion_of([selection], X).shift.any()
    for step in (TruncatedSVD(3, random_state=0), MaxAbsScaler(), StandardScaler(with_mean=False)):
        dense, sparse = expansion_of([step.fit(X)], X), expansion_of([step], csr_matrix(X))
        np.testing.assert_array_equal(dense.shift, sparse.shift)
        assert dense.factor == sparse.factor


def test_parameters_that_a_type_does_not_hold_are_not_converted():
    X = rows(0.0, np.float64)
    scaler = MinMaxScaler().fit(X)
    scaler.scale_ = scaler.scale_ * 1e-42
    assert expansion_of([scaler], X) is not None
    assert expansion_of([scaler], X.astype(np.float32)) is None


class Threshold(ClassifierMixin, BaseEstimator):
    """Class 1 where the first feature is above a number."""

    def __init__(self, at=0.0):
        self.at = at

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (X[:, 0] > self.at).astype(int)


def neighbours_driven_apart(offset=1e4, n_features=20):
    """A fitted PCA and two neighbouring float32 inputs whose distance it more than doubles."""
    rng = np.random.default_rng(0)
    pca = PCA(1, random_state=0).fit((offset + rng.standard_normal((400, n_features))).astype(np.float32))
    for _ in range(10_000):  # about one pair in a thousand will do
        pair = np.repeat((offset + rng.standard_normal((1, n_features))).astype(np.float32), 2, axis=0)
        feature = rng.integers(n_features)
        pair[1, feature] = np.nextafter(pair[0, feature], np.float32(np.inf))
        apart = abs(float(np.diff(pca.transform(pair)[:, 0])[0]))
        if apart > 2.0 * np.linalg.norm(pair[1] - pair[0]):  # the matrix alone stretches nothing
            return pca, pair
    raise AssertionError("no such pair")


def test_neighbouring_inputs_are_not_certified_as_different_classes():
    """Without a limit of the rounding, each of the two is certified to twice their distance, as another class."""
    pca, pair = neighbours_driven_apart()
    values = pca.transform(pair)[:, 0].astype(np.float64)
    base = Threshold(values.mean()).fit(None, [0, 1])
    smoothed = SmoothedClassifier(
        FrozenEstimator(base), sigma=abs(np.diff(values)[0]) / 2, certifier=FirstOrderCertifier(20_000), random_state=0
    )
    pipeline = Pipeline([("pca", pca), ("smoothed", smoothed.fit(values[:, None].astype(np.float32), [0, 1]))])
    with pytest.warns(UserWarning, match="2 radii were reduced by more than a tenth.*Give X in float64"):
        found = certify(pipeline, pair)
    assert found.prediction[0] != found.prediction[1]
    distance = np.linalg.norm(pair[1].astype(np.float64) - pair[0])
    assert found.space != "input" or np.all(found.radius <= distance)
    # In float64 next to nothing is lost, and the two are of one class.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        double = certify(pipeline, pair.astype(np.float64))
    inner = pipeline[-1].certify(pca.transform(pair.astype(np.float64)))
    np.testing.assert_allclose(double.radius, inner.radius, rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ordinary_data_lose_little(dtype):
    rng = np.random.default_rng(0)
    X = rng.random((300, 64)).astype(dtype)
    pca = PCA(10, random_state=0).fit(X)
    expansion = expansion_of([pca], X)
    assert expansion.factor == pytest.approx(1.0, rel=1e-3 if dtype == np.float32 else 1e-12)
    assert expansion.shift.max() < (2e-3 if dtype == np.float32 else 1e-11)
