"""Noise with a standard deviation of its own in each feature, from end to end."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers import certifiers_under_test as under_test
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from smoothcert import (
    Certificates,
    ColumnSigma,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SmoothedClassifier,
    read_journal,
)
from smoothcert._certificates import effective_sigma
from smoothcert._column_noise import ColumnNoise
from smoothcert._engine._collect import _unit_vectors
from smoothcert._float32_cast import length_lost, shorten
from smoothcert.metrics import make_certified_scorer
from smoothcert.training._augmentation import noisy_copy

X, Y = load_iris(return_X_y=True)
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])
SIGMA = np.array([0.5, 0.0, 0.1, 2.0])


class HalfSpace(ClassifierMixin, BaseEstimator):
    """Class 1 where a linear function is at least 0; keeps the rows it was asked about last."""

    def __init__(self, weights, seen=None, constant=0.0):
        self.weights = weights
        self.seen = seen
        self.constant = constant
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        if self.seen is not None:
            self.seen.append(np.array(X))
        return (X @ np.asarray(self.weights) + self.constant >= 0.0).astype(int)


def half_space(weights, sigma, certifier=None, constant=0.0):
    base = FrozenEstimator(HalfSpace(weights, constant=constant))
    clf = SmoothedClassifier(base, sigma=sigma, certifier=certifier, random_state=0)
    return clf.fit(np.eye(len(weights)), np.arange(len(weights)) % 2)


def smoothed(sigma, **parameters):
    settings = {"certifier": FirstOrderCertifier(n_samples=500), "n_augment": 2, "random_state": 0, "n_votes": 100}
    return SmoothedClassifier(LogisticRegression(max_iter=500), sigma=sigma, **settings | parameters)


@pytest.mark.parametrize("certifier", [c() for c in under_test.exported_certifiers()], ids=lambda c: type(c).__name__)
def test_one_number_for_each_feature_is_one_number_for_all(certifier):
    """The same noise, the same votes, the same limits; radii in units of sigma instead of in those of the inputs."""
    certifier = under_test.with_samples(certifier, 600)
    one = smoothed(0.5, certifier=certifier).fit(X, Y)
    each = smoothed(np.full(4, 0.5), certifier=certifier).fit(X, Y)
    np.testing.assert_array_equal(one.estimator_.coef_, each.estimator_.coef_)
    np.testing.assert_array_equal(one.predict_proba(X[::20]), each.predict_proba(X[::20]))
    a, b = one.certify(X[::20]), each.certify(X[::20])
    for name, limit in a.limits.items():
        np.testing.assert_array_equal(limit, b.limits[name])
    np.testing.assert_allclose(a.radius, 0.5 * b.radius, rtol=1e-15)
    np.testing.assert_array_equal(b.radius_per_feature, np.tile(np.nextafter(b.radius * 0.5, 0.0)[:, None], 4))
    assert a.feature_scale is None
    assert a.radius_per_feature.shape == (len(a), 1)


@pytest.mark.parametrize("certifier", [c() for c in under_test.exported_certifiers()], ids=lambda c: type(c).__name__)
def test_features_without_noise_do_not_count(certifier, monkeypatch):
    """Evidence is that of the features with noise alone, to the last bit: neither dimension nor directions differ."""
    monkeypatch.setattr("smoothcert._inputs.hash_row", lambda row: 5)  # noise is keyed by rows, which differ here
    weights, sigma = np.array([1.0, 3.0, -2.0, 0.0]), np.array([0.0, 0.5, 2.0, 0.0])
    row, kept = np.array([3.0, -0.2, 0.4, 7.0]), [1, 2]
    certifier = under_test.with_samples(certifier, 600)
    whole = half_space(weights, sigma, certifier).certify(row[None])
    part = half_space(weights[kept], sigma[kept], certifier, constant=weights[0] * row[0]).certify(row[None, kept])
    assert 0.0 < whole.radius[0] < 0.5
    np.testing.assert_array_equal(whole.radius, part.radius)
    for group in ("limits", "counts"):
        first, second = getattr(whole, group), getattr(part, group)
        assert first.keys() == second.keys()
        for name, value in first.items():
            np.testing.assert_array_equal(value, second[name])


def test_noise_has_the_standard_deviation_of_its_feature():
    seen = []
    clf = SmoothedClassifier(
        FrozenEstimator(HalfSpace([1.0, 1.0, 1.0, 1.0], seen)), sigma=SIGMA, n_votes=4000, random_state=0
    )
    clf.fit(X, Y > 0).predict(X[:1])
    rows = np.concatenate(seen)
    np.testing.assert_array_equal(rows[:, 1], np.full(len(rows), X[0, 1]))
    spread = rows[:, [0, 2, 3]].std(axis=0) / SIGMA[[0, 2, 3]]
    assert np.all(np.abs(spread - 1.0) < 0.06)
    assert np.all(np.abs(rows[:, [0, 2, 3]].mean(axis=0) - X[0, [0, 2, 3]]) < 0.07 * SIGMA[[0, 2, 3]])


ALPHA, FALSE_ALARM = 0.05, 1e-4


@pytest.mark.parametrize(
    "certifier",
    [c() for c in under_test.exported_certifiers() if c is not DirectionalCertifier] + [DirectionalCertifier(n_bins=8)],
    ids=lambda c: type(c).__name__,
)
def test_radii_beyond_the_ellipsoid_are_rare(certifier):
    """Inputs at one distance in units of sigma from a plane, with unequal sigmas and zeros."""
    weights, sigma = np.array([2.0, -1.0, 0.3, 5.0]), np.array([0.5, 3.0, 0.02, 0.0])
    n = 60 if hasattr(certifier, "n_bins") else 300
    inputs = np.random.default_rng(1).uniform(-1, 1, (n, 4))
    truth = 0.6
    inputs[:, 0] = (truth * np.linalg.norm(weights * sigma) - inputs[:, 1:] @ weights[1:]) / weights[0]
    certifier = clone(certifier).set_params(n_samples=200, n_selection=30, alpha=ALPHA)
    certificates = half_space(weights, sigma, certifier).certify(inputs)
    wrong = (certificates.radius > truth) | ((certificates.prediction != 1) & ~certificates.abstained)
    assert wrong.sum() <= stats.binom.ppf(1.0 - FALSE_ALARM, n, ALPHA)
    assert np.median(certificates.radius) > 0.2  # and the test could fail


def test_a_feature_without_noise_is_outside_the_promise():
    certificates = half_space([1.0, 1.0], [1.0, 0.0], FirstOrderCertifier(2000)).certify([[0.0, 2.0]])
    (radius,) = certificates.radius
    assert radius > 1.5
    np.testing.assert_array_equal(certificates.radius_per_feature[0, 1], 0.0)
    clf = half_space([1.0, 1.0], [1.0, 0.0])
    assert clf.predict([[-0.99 * radius, 2.0]]) == 1  # the first may move as far as promised
    assert clf.predict([[0.0, 2.0 - 2.0 * radius]]) == 0  # about the second nothing was said


def test_radii_are_those_of_the_noise_that_was_applied():
    """In float32 some sigmas round down: the radius in units of the given ones is shortened by the worst of them."""
    sigma = np.array([0.1, 0.3, 0.7])
    applied = [Fraction(float(np.float32(s))) / Fraction(s) for s in sigma]
    unit = effective_sigma(ColumnNoise.from_array(sigma), np.float32)
    assert Fraction(unit) <= min(applied) < 1
    assert unit > float(min(applied)) * (1.0 - 1e-15)
    assert effective_sigma(ColumnNoise.from_array(sigma), np.float64) == 1.0
    with pytest.raises(ValueError, match=r"sigma must be a positive finite number .* float32, .* got 1e-60"):
        effective_sigma(ColumnNoise.from_array(np.array([1.0, 1e-60])), np.float32)


def test_what_a_cast_takes_is_in_units_of_sigma():
    rng = np.random.default_rng(0)
    sigma = np.array([0.01, 1.0, 300.0, 0.0])
    noise = ColumnNoise.from_array(sigma)
    rows = rng.normal(size=(200, 4)) * [1.0, 50.0, 1e5, 1e20]
    lost = length_lost(rows, rows.astype(np.float32), noise)
    assert np.all(lost < 1e-3)
    # Other inputs at a distance just below what is left of a radius stay within the radius when they are cast.
    left = shorten(np.full(200, 0.5), lost)
    direction = rng.normal(size=(200, 3))
    direction *= left[:, None] / np.linalg.norm(direction, axis=1, keepdims=True)
    other = rows.copy()
    other[:, :3] += direction * sigma[:3]
    moved = (other.astype(np.float32).astype(float) - rows.astype(np.float32).astype(float))[:, :3] / sigma[:3]
    assert np.all(np.linalg.norm(moved, axis=1) < 0.5)
    np.testing.assert_array_equal(other[:, 3], rows[:, 3])
    # The same numbers as for one sigma, and a feature without noise has no part in it.
    np.testing.assert_allclose(
        length_lost(rows[:, :3], rows[:, :3].astype(np.float32), ColumnNoise.from_array(np.full(3, 300.0))),
        length_lost(rows[:, :3], rows[:, :3].astype(np.float32), 300.0) / 300.0,
        rtol=1e-12,
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_training_noise_is_in_the_features_that_have_it(dtype):
    rows = np.zeros((4000, 4), dtype=dtype)
    copy = noisy_copy(rows, ColumnNoise.from_array(SIGMA), np.random.default_rng(0))
    assert copy.dtype == dtype
    np.testing.assert_allclose(copy.std(axis=0), SIGMA, rtol=0.05)
    np.testing.assert_array_equal(copy[:, 1], 0.0)


def test_partial_fits_get_the_same_noise():
    seen = []

    class Recorder(GaussianNB):
        def partial_fit(self, X, y, classes=None):
            seen.append(X)
            return super().partial_fit(X, y, classes)

    SmoothedClassifier(Recorder(), sigma=SIGMA, augmentation="passes", n_augment=3, random_state=0).fit(X, Y)
    assert all(sorted(part[:, 1]) == sorted(X[:, 1]) for part in seen)
    assert not np.array_equal(seen[0][:, 0], seen[1][:, 0])


def test_directions_of_the_user_are_displacements():
    """In the units of the inputs; inside they are divided by sigma and have no part in features without noise."""
    weights, sigma = np.array([1.0, -2.0, 0.5]), np.array([0.2, 1.5, 0.0])
    shortest = weights * np.square(sigma)
    unit = _unit_vectors(shortest[None], (1, 3), ColumnNoise.from_array(sigma))
    np.testing.assert_allclose(unit[0], (weights * sigma)[:2] / np.linalg.norm(weights * sigma), rtol=1e-12)
    inputs = np.array([[1.0, -0.6, 1.0]])
    for direction in (shortest, weights):
        certifier = DirectionalCertifier(
            n_samples=2000, direction=lambda X, labels, d=direction: np.tile(d, (len(X), 1))
        )
        assert half_space(weights, sigma, certifier).certify(inputs).radius[0] > 0.5
    fixed = DirectionalCertifier(n_samples=2000, direction=lambda X, labels: np.tile([0.0, 0.0, 1.0], (len(X), 1)))
    with pytest.raises(ValueError, match="finite vectors that are not zero"):
        half_space(weights, sigma, fixed).certify(inputs)


def test_images_have_a_sigma_in_their_shape():
    images = np.random.default_rng(0).normal(size=(40, 2, 3))

    class Flat(LogisticRegression):
        def fit(self, X, y):
            return super().fit(X.reshape(len(X), -1), y)

        def predict(self, X):
            return super().predict(X.reshape(len(X), -1))

    sigma = np.array([[0.1, 0.2, 0.0], [0.3, 0.1, 0.1]])
    clf = SmoothedClassifier(Flat(), sigma=sigma, certifier=SecondOrderCertifier(300), random_state=0, n_augment=1)
    certificates = clf.fit(images, images[:, 0, 0] > 0).certify(images[:5])
    assert certificates.radius_per_feature.shape == (5, 2, 3)
    np.testing.assert_array_equal(certificates.radius_per_feature[:, 0, 2], 0.0)


def test_journals_know_sigma(tmp_path):
    path = tmp_path / "run.sqlite"
    clf = half_space([1.0, -2.0, 0.5], [0.2, 1.5, 0.0], SecondOrderCertifier(3000))
    inputs = np.array([[1.0, -0.6, 1.0], [3.0, 0.0, 1.0]])
    certificates = clf.certify(inputs, journal=path)
    seen = read_journal(path).certificates
    np.testing.assert_array_equal(seen.radius, certificates.radius)
    np.testing.assert_array_equal(seen.feature_scale, [0.2, 1.5, 0.0])
    np.testing.assert_array_equal(clf.certify(inputs, journal=path).radius, certificates.radius)
    with pytest.raises(ValueError, match=r"sigma is \[0.2, 1.5, 0.0\] in the journal, \[0.2, 1.5, 0.1\] now"):
        clf.set_params(sigma=[0.2, 1.5, 0.1]).certify(inputs, journal=path)


def test_results_say_what_a_radius_means(tmp_path):
    certificates = half_space([1.0, -2.0], [0.2, 1.5], FirstOrderCertifier(500)).certify(np.eye(2) * 3)
    assert "times feature_scale" in repr(certificates)
    assert certificates.provenance["sigma"] == [0.2, 1.5]
    certificates.save(tmp_path / "run.npz")
    for again in (Certificates.load(tmp_path / "run.npz"), certificates[:1], Certificates.concatenate([certificates])):
        np.testing.assert_array_equal(again.feature_scale, [0.2, 1.5])
    other = half_space([1.0, -2.0], [0.2, 1.0], FirstOrderCertifier(500)).certify(np.eye(2) * 3)
    with pytest.raises(ValueError, match="share their settings"):
        Certificates.concatenate([certificates, other])
    limit = Certificates(["x"], [np.inf], [False], feature_scale=[0.5, 0.0, np.inf]).radius_per_feature
    np.testing.assert_array_equal(limit, [[np.inf, 0.0, np.inf]])
    abstained = Certificates(["x"], [0.0], [True], feature_scale=[0.5, np.inf]).radius_per_feature
    np.testing.assert_array_equal(abstained, [[0.0, 0.0]])


def test_columns_by_name():
    by_name = smoothed({"d": 2.0, "a": 0.5, "c": 0.1}).fit(FRAME, Y)
    np.testing.assert_array_equal(by_name.sigma_, SIGMA)
    series = smoothed(pd.Series(SIGMA, index=FRAME.columns)[["d", "c", "a"]]).fit(FRAME, Y)
    np.testing.assert_array_equal(series.sigma_, SIGMA)
    # An array has the noise of the columns where they are; the frame has the same numbers.
    by_place = smoothed(SIGMA).fit(FRAME, Y)
    np.testing.assert_array_equal(by_name.certify(FRAME[:4]).radius, by_place.certify(FRAME[:4]).radius)


def test_multiples_of_the_spread():
    clf = smoothed(ColumnSigma(0.5, fixed=["b"])).fit(FRAME, Y)
    np.testing.assert_allclose(clf.sigma_, 0.5 * X.std(axis=0) * [1, 0, 1, 1], rtol=1e-12)
    certificates = clf.certify(FRAME[::20])
    np.testing.assert_allclose(certificates.feature_scale, X.std(axis=0) * [1, 0, 1, 1], rtol=1e-12)
    plain = smoothed(clf.sigma_).fit(FRAME, Y).certify(FRAME[::20])
    np.testing.assert_allclose(certificates.radius, 0.5 * plain.radius, rtol=1e-12)
    assert np.all(certificates.radius <= 0.5 * plain.radius)
    # The factor may change after fit, what it multiplies may not.
    clf.set_params(sigma__factor=0.25).certify(FRAME[:2])
    with pytest.raises(ValueError, match=r"Call fit again. Only factor may be changed after fit"):
        clf.set_params(sigma__fixed=[]).certify(FRAME[:2])
    quartiles = np.subtract(*np.percentile(X, [75, 25], axis=0)) / 1.349
    np.testing.assert_allclose(smoothed(ColumnSigma(1.0, "iqr")).fit(X, Y).sigma_, quartiles, rtol=1e-3)
    own = smoothed(ColumnSigma(0.1, {"a": 2.0, "c": 5.0})).fit(FRAME, Y)
    np.testing.assert_allclose(own.sigma_, [0.2, 0.0, 0.5, 0.0])
    constant = X.copy()
    constant[:, 2] = 0.1
    assert smoothed(ColumnSigma()).fit(constant, Y).sigma_[2] == 0.0


def test_searches_over_factors_and_votes():
    grid = {"sigma__factor": [0.1, 0.3], "voting": ["hard", "soft"]}
    estimator = smoothed(ColumnSigma(), certifier=FirstOrderCertifier(200, n_selection=20))
    search = GridSearchCV(estimator, grid, scoring=make_certified_scorer(0.15), cv=2, error_score="raise")
    search.fit(FRAME, Y)
    # Radii are in units of the columns, whatever the factor.
    np.testing.assert_allclose(search.best_estimator_.certify(FRAME[:5]).feature_scale, X.std(axis=0))
    assert len(set(search.cv_results_["mean_test_score"])) > 1
    assert search.best_score_ > 0.5


@pytest.mark.parametrize(
    ("sigma", "data", "message"),
    [
        ([0.1, 0.2], X, r"one entry for each feature of X, got shape \(2,\) for 4 features"),
        (np.ones((4, 1)), X, r"got shape \(4, 1\) for 4 features"),
        ([0.1, -0.2, 0.3, 0.0], X, "finite and at least 0 everywhere, got -0.2 at index 1"),
        ([0.1, -0.2, 0.3, 0.0], FRAME, "got -0.2 at column 'b'"),
        ([0.1, np.nan, 0.3, 0.0], X, "got nan at index 1"),
        ([0.1, np.inf, 0.3, 0.0], X, "got inf at index 1"),
        (np.zeros(4), X, "positive for at least one feature, got only zeros. Without noise nothing is smoothed"),
        ({}, FRAME, "got only zeros"),
        ({"a": 0.1, "e": 0.2}, FRAME, "sigma must name columns of X, got 'e', and X has the columns a, b, c, d. Check"),
        ({"a": "much"}, FRAME, "sigma must be a number for each column, got 'much' for 'a'"),
        ({"a": np.nan}, FRAME, "got nan at column 'a'"),
        ({"a": 0.1}, X, "sigma must be an array if the columns of X had no names in fit, got a mapping"),
        (["a", 1.0, 1.0, 1.0], X, "sigma must be a real number or a regular array of them"),
        ("much", X, "sigma must be a positive finite number, got 'much'"),
        (np.array(0.5), X, "sigma must be a positive finite number, got array"),
        (-0.5, X, "sigma must be a positive finite number, got -0.5"),
        (ColumnSigma(0.0), X, "factor must be a positive finite number, got 0.0"),
        (ColumnSigma(unit="range"), X, r"unit must be one of \('std', 'iqr'\), got 'range'"),
        (ColumnSigma(unit=3.0), X, "unit must be one of"),
        (ColumnSigma(unit=[1.0, 2.0]), X, "unit must have one entry for each feature of X"),
        (ColumnSigma(unit={"e": 1.0}), FRAME, "unit must name columns of X, got 'e'"),
        (ColumnSigma(fixed=["e"]), FRAME, "fixed must name columns of X, got 'e', and X has the columns a, b, c, d"),
        (ColumnSigma(fixed=[4]), X, "fixed must name columns of X, got 4, and X has columns from 0 to 3"),
        (ColumnSigma(fixed=range(4)), X, "All columns are fixed, constant"),
    ],
)
def test_bad_sigmas_are_refused(sigma, data, message):
    with pytest.raises(ValueError, match=message):
        smoothed(sigma).fit(data, Y)


def test_fixed_columns_are_a_sequence():
    with pytest.raises(TypeError, match=r"fixed must be a sequence of columns, got 'a'. Give a list, \['a'\]"):
        smoothed(ColumnSigma(fixed="a")).fit(FRAME, Y)
    clf = smoothed(0.5).fit(X, Y)
    with pytest.raises(ValueError, match=r"sigma must be set to ColumnSigma\(...\) before fit"):
        clf.set_params(sigma=ColumnSigma()).certify(X[:1])
    with pytest.raises(ValueError, match="got shape"):
        clf.set_params(sigma=[1.0]).predict(X[:1])
