"""Exact noise from end to end: the promise, the same bits however the work is done, and an attack it withstands."""

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from joblib import parallel_config
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from smoothcert import (
    DirectionalCertifier,
    FirstOrderCertifier,
    SmoothedClassifier,
    certify,
    read_journal,
)
from smoothcert._noise import VOTE, Seed, hash_row, lower_level, make_grid
from smoothcert.testing import compare_votes

X, Y = load_iris(return_X_y=True)
INPUTS = X[::25]


class Fixed(ClassifierMixin, BaseEstimator):
    """A base that is a function of its rows."""

    classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True


class Slab(Fixed):
    """Class 1 where the first coordinate lies between two numbers."""

    def __init__(self, low, high):
        self.low = low
        self.high = high

    def predict(self, X):
        return ((X[:, 0] >= self.low) & (X[:, 0] <= self.high)).astype(int)


def exact(certifier=FirstOrderCertifier, n_samples=10_000, **parameters):
    base = DecisionTreeClassifier(max_depth=4, random_state=0)
    clf = SmoothedClassifier(base, sigma=0.4, certifier=certifier(n_samples=n_samples), random_state=3, noise="exact")
    return clf.fit(X, Y).set_params(**parameters)


def assert_same(one, other):
    np.testing.assert_array_equal(one.prediction, other.prediction)
    np.testing.assert_array_equal(one.radius, other.radius)
    for group in ("limits", "counts"):
        for name, value in getattr(one, group).items():
            np.testing.assert_array_equal(value, getattr(other, group)[name])


# --- The promise.

SIGMA, QUANTUM, ALPHA, FALSE_ALARM = 0.7, 0.3, 0.05, 1e-4
# Ends between two points of the grid, so that rounding moves no point across them: what is smoothed is the slab itself.
SITUATIONS = {"half-space": (Slab(-np.inf, 1.5 * QUANTUM), 0.0), "slab": (Slab(-3.5 * QUANTUM, 3.5 * QUANTUM), QUANTUM)}


def true_distance(slab, at):
    if not np.isfinite(slab.low):
        return slab.high - at

    def share(x):
        return ndtr((slab.high - x) / SIGMA) - ndtr((slab.low - x) / SIGMA) - 0.5

    return brentq(share, 0.0, 10.0) - at


def failures(certifier, situation, n_features, seed, repetitions):
    """Certificates beyond the boundary, on inputs that lie on a coarse grid at one distance from it."""
    slab, at = SITUATIONS[situation]
    rows = QUANTUM * np.random.default_rng(seed).integers(-500, 500, (repetitions, n_features))
    rows[:, 0] = at
    certifier = clone(certifier).set_params(n_samples=200, n_selection=30, alpha=ALPHA)
    if hasattr(certifier, "n_bins"):
        certifier.set_params(n_bins=8)
    clf = SmoothedClassifier(
        FrozenEstimator(slab), sigma=SIGMA, noise="exact", quantum=QUANTUM, certifier=certifier, random_state=seed
    )
    certificates = clf.fit(rows[:2], [0, 1]).certify(rows)
    wrong = certificates.prediction != 1
    beyond = certificates.radius > true_distance(slab, at) * (1 + 1e-12)
    return int(np.sum(~certificates.abstained & (wrong | beyond)))


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("n_features", [3])
@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_radii_beyond_the_boundary_are_rare(certifier, n_features, situation):
    repetitions = 40 if hasattr(certifier, "n_bins") else 200
    found = failures(certifier, situation, n_features, n_features, repetitions)
    assert found <= stats.binom.ppf(1 - FALSE_ALARM, repetitions, ALPHA)


def test_the_promise_is_used_where_it_is_tight():
    found = failures(FirstOrderCertifier(), "half-space", 2, 0, 500)
    assert 0.4 * ALPHA * 500 < found <= stats.binom.ppf(1 - FALSE_ALARM, 500, ALPHA)


def test_radii_are_those_of_noise_in_floating_point():
    """On the same model, within the spread of sampling and half a percent."""
    models = [
        SmoothedClassifier(
            LogisticRegression(max_iter=1000), sigma=0.5, certifier=certifier(n_samples=50_000), random_state=0
        ).fit(X, Y)
        for certifier in (FirstOrderCertifier, DirectionalCertifier)
    ]
    for clf in models:
        plain = clf.certify(X[[60, 110]]).radius
        fine = clone(clf).set_params(noise="exact").fit(X, Y).certify(X[[60, 110]])
        np.testing.assert_allclose(fine.radius, plain, rtol=0.04)
        step = fine.provenance["quantum"]
        assert 2.0 * step < 0.005 * plain.min()  # the whole loss in four dimensions


# --- An attack on noise in floating point.


class Porous(Fixed):
    """Class 1 where every coordinate is some number times sigma, in floating point.

    Products of all numbers with 1.5 leave out a third of the numbers in half of the range. At 0 the noisy copies are
    such products, elsewhere they are not.
    """

    def __init__(self, sigma):
        self.sigma = sigma

    def predict(self, X):
        sigma = X.dtype.type(self.sigma)
        near = X / sigma
        found = np.zeros(X.shape, bool)
        for other in (near, np.nextafter(near, -np.inf, dtype=X.dtype), np.nextafter(near, np.inf, dtype=X.dtype)):
            found |= other * sigma == X
        return np.all(found, axis=1).astype(int)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_attack_on_rounded_noise(dtype):
    origin = np.zeros((1, 60), dtype)
    clf = SmoothedClassifier(
        FrozenEstimator(Porous(1.5)), sigma=1.5, certifier=FirstOrderCertifier(n_samples=2000), random_state=0
    ).fit(np.concatenate([origin, origin + 1]), [0, 1])
    # The adversary searches among roundings: the smallest shift of all coordinates that is not lost to them.
    for shift in 10.0 ** np.arange(-8, 0):
        moved = origin + dtype(shift)
        if clf.predict(moved)[0] == 0:
            break
    certificate = clf.certify(origin)
    distance = np.linalg.norm(moved)
    assert certificate.prediction[0] == 1
    assert certificate.radius[0] > 10 * distance
    clf.set_params(noise="exact")
    certificate = clf.certify(origin)
    reached = [float(s) for s in 10.0 ** np.linspace(-8, 1, 30) if s * np.sqrt(60) < certificate.radius[0]]
    neighbours = origin + np.array(reached, dtype)[:, None]
    assert len(reached) > 20 or certificate.abstained[0]
    np.testing.assert_array_equal(clf.predict(neighbours), np.full(len(reached), certificate.prediction[0]))


# --- Inputs.


def test_rounding_of_inputs():
    clf = exact(quantum=0.1)
    on_grid, off = INPUTS, INPUTS + 0.03
    np.testing.assert_array_equal(clf.predict_proba(on_grid), clf.predict_proba(off))
    full, less = clf.certify(on_grid), clf.certify(off)
    for name, limit in full.limits.items():
        np.testing.assert_array_equal(limit, less.limits[name])
    lost = (full.radius - less.radius)[full.radius > 0.2]
    # |x - Q(x)| = 0.06, and half of the length of a vector of steps, 0.1.
    assert len(lost)
    assert np.all((lost > 0.16) & (lost < 0.161))
    assert full.provenance["noise"] == "exact"
    assert full.provenance["quantum"] == 0.1
    assert full.provenance["alpha"] == 0.001
    assert "noise" not in exact(noise="gaussian").certify(INPUTS[:1]).provenance


def test_behind_a_scaler_no_input_is_on_the_grid():
    inner = SmoothedClassifier(
        LogisticRegression(), sigma=0.5, noise="exact", quantum=0.1, certifier=FirstOrderCertifier(n_samples=5000)
    )
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), inner).set_params(
        smoothedclassifier__random_state=0
    )
    pipeline.fit(X, Y)
    alone = clone(inner).set_params(random_state=0).fit(X, Y).certify(INPUTS)
    behind = certify(pipeline, INPUTS, space="smoothed")
    lost = (alone.radius - behind.radius)[alone.radius > 0.2]
    assert len(lost)
    assert np.all((lost > 0.1) & (lost < 0.101))


@pytest.mark.parametrize("quantum", [None, {"a": 0.1, "c": 0.05}])
def test_frames_with_columns_without_noise(quantum):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :2], columns=["a", "c"])
    frame.insert(1, "b", Y * 0.1 + 0.123456789)
    seen = []

    class Base(DecisionTreeClassifier):
        def predict(self, X):
            seen.append(X)
            return super().predict(X)

    clf = SmoothedClassifier(
        Base(max_depth=3, random_state=0), sigma={"a": 0.4, "c": 0.2}, noise="exact", quantum=quantum,
        certifier=FirstOrderCertifier(n_samples=2000), random_state=0,
    ).fit(frame, Y)  # fmt: skip
    seen.clear()
    certificates = clf.certify(frame[::50])
    assert np.any(certificates.radius > 0)
    steps = (0.1, 0.05) if quantum else (0.4 * 2.0**-10, 0.2 * 2.0**-10)
    for part in seen:
        assert set(part["b"]) <= set(frame["b"])
        for name, step in zip(("a", "c"), steps, strict=True):
            np.testing.assert_allclose(part[name] / step, np.rint(part[name] / step), atol=1e-6)
    assert certificates.provenance["quantum"] == pytest.approx(list(steps))


# --- The same bits.


@pytest.mark.parametrize("certifier", under_test.exported_certifiers())
def test_however_the_work_is_done(certifier):
    reference = exact(certifier).certify(INPUTS)
    assert (reference.radius > 0).any()
    for batch_size in (100, 5000):
        assert_same(exact(certifier, batch_size=batch_size).certify(INPUTS), reference)
    with parallel_config(backend="threading", n_jobs=2):
        assert_same(exact(certifier).certify(INPUTS), reference)
    assert_same(exact(certifier).certify(INPUTS[2:4]), reference[2:4])


def test_processes_and_looks():
    clf = exact(DirectionalCertifier)
    reference = clf.certify(INPUTS, radius=0.3, max_samples=20_000)
    with parallel_config(backend="loky", n_jobs=2):
        assert_same(exact(DirectionalCertifier).certify(INPUTS, radius=0.3, max_samples=20_000), reference)


def test_journals(tmp_path):
    path = tmp_path / "run"
    clf = exact(DirectionalCertifier)
    reference = clf.certify(INPUTS, journal=path)
    assert_same(clf.certify(INPUTS, journal=path), reference)
    read = read_journal(path)
    assert_same(read.certificates, reference)
    assert read.certificates.provenance["quantum"] == reference.provenance["quantum"]
    for other in ({"noise": "gaussian"}, {"quantum": 0.1}):
        with pytest.raises(ValueError, match="noise is exact, quantum="):
            exact(DirectionalCertifier, **other).certify(INPUTS, journal=path)


def test_the_noise_of_votes_is_that_of_the_grid():
    """What the base sees, from the sampler itself, in whole numbers."""
    seen = []

    class Base(Slab):
        def predict(self, X):
            seen.append(X.copy())
            return super().predict(X)

    rows = np.array([[0.2, -0.4, 1.0], [0.0, 0.6, -3.0]])
    clf = SmoothedClassifier(FrozenEstimator(Base(0.0, 1.0)), sigma=0.5, noise="exact", quantum=0.2, random_state=5)
    clf.fit(rows, [0, 1]).set_params(n_votes=400).predict(rows)
    grid = make_grid(0.5, 0.2, 3)
    voted = np.concatenate(seen)
    expected = []
    for row in grid.round(rows):
        levels = np.empty((400, 3))
        grid.draw_levels(Seed(5, VOTE, hash_row(row), 0), levels)
        expected.append((grid.numbers(row) + levels) * 0.2)
    np.testing.assert_array_equal(voted, np.concatenate(expected))


def test_nets_see_the_same_rows_on_every_kind_of_array():
    torch = pytest.importorskip("torch")
    from smoothcert._column_noise import ColumnNoise
    from smoothcert._noise._exact import ExactNumpyArrays
    from smoothcert._noise._torch import TorchArrays

    each = ColumnNoise.from_array(np.array([0.5, 0.0, 0.3]))
    for sigma, quantum, n_noisy in ((0.3, None, 3), (0.3, 1 / 255, 3), (each, None, 2), (each, 0.01, 2)):
        grid = make_grid(sigma, quantum, n_noisy)
        x = grid.round(np.random.default_rng(0).random((1, 3)).astype(np.float32))[0]
        for seen in (False, True):
            plain, nets = ExactNumpyArrays(grid, seen), TorchArrays("cpu").on_grid(grid, seen)
            results = []
            for arrays, row in ((plain, x), (nets, nets.row(x))):
                noise = arrays.empty_noise(50, row[:n_noisy])
                arrays.standard_normal(Seed(1, 2, 3, 4), noise)
                near, far = arrays.empty(50, row), arrays.empty(50, row)
                arrays.add_noise(row, noise, sigma, near, far)
                results.append([np.asarray(near), np.asarray(far), arrays.as_tally_input(noise)])
            for one, other in zip(*results, strict=True):
                np.testing.assert_array_equal(one, other)
    assert torch.is_tensor(near)


# --- Parameters.


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": "float"}, "noise must be one of"),
        ({"quantum": -0.1}, "quantum must be None or a positive finite number, got -0.1"),
        ({"quantum": 0.1, "noise": "gaussian"}, "quantum must be None unless noise='exact'"),
        ({"quantum": 0.5}, "quantum must be at most sigma, got 0.5 where sigma is 0.4"),
        ({"quantum": 1e-9}, "quantum must be at least sigma"),
        ({"quantum": [0.1, 0.1, 0.1, 0.1]}, "quantum must be one number where sigma is one number"),
        ({"quantum": [0.1, 0.1], "sigma": [0.4, 0.4, 0.4, 0.4]}, "quantum must have one entry for each feature"),
        ({"quantum": [0.1, 0.1, 0.0, 0.1], "sigma": [0.4, 0.4, 0.4, 0.4]}, "quantum must be positive and finite for"),
    ],
)
def test_bad_parameters(parameters, message):
    clf = exact(**parameters)
    for call in (clf.predict, clf.certify):
        with pytest.raises(ValueError, match=message):
            call(INPUTS)


def test_bad_inputs_and_levels():
    large = INPUTS.copy()
    large[1, 2] = 1e30
    for call in (exact().predict, exact().certify):
        with pytest.raises(ValueError, match=r"X must be less than about .* steps of the grid from 0"):
            call(large)
    with pytest.raises(ValueError, match=r"n_samples must be at most .* with noise='exact'"):
        exact(certifier__alpha=1e-12).certify(INPUTS)


def test_certificates_do_without_a_part_of_alpha(monkeypatch):
    used = []
    infer = FirstOrderCertifier.infer
    monkeypatch.setattr(FirstOrderCertifier, "infer", lambda self, tally: used.append(self.alpha) or infer(self, tally))
    exact().certify(INPUTS)
    assert used
    assert set(used) == {lower_level(0.001)}


def test_votes_one_by_one():
    clf = exact()
    assert compare_votes(clf, X, n_rows=3, n_votes=50, random_state=0) == (150, 0)

    class Crowd(Slab):
        """Looks at how many rows it is given."""

        def predict(self, X):
            return super().predict(X) if len(X) > 1 else 1 - super().predict(X)

    odd = SmoothedClassifier(FrozenEstimator(Crowd(-1.0, 1.0)), n_jobs=2).fit(X, Y > 0)
    odd.classes_ = np.array([0, 1])
    assert compare_votes(odd, X, n_rows=2, n_votes=30) == (60, 60)
