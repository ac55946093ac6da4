"""The same seed gives the same certificates, to the last bit, however the work is done."""

import threading

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.tree import DecisionTreeClassifier

from smoothcert import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    SmoothedClassifier,
)
from smoothcert._engine import _collect
from smoothcert._noise import ESTIMATION, SELECTION, NumpyArrays, Seed, block_size, hash_row

X, Y = load_iris(return_X_y=True)
INPUTS = X[::25]
CERTIFIERS = [
    FirstOrderCertifier,
    SecondOrderCertifier,
    DipoleCertifier,
    SecondOrderDipoleCertifier,
    DirectionalCertifier,
]


def model(certifier=SecondOrderDipoleCertifier, **parameters):
    base = DecisionTreeClassifier(max_depth=4, random_state=0)
    clf = SmoothedClassifier(base, sigma=0.4, certifier=certifier(n_samples=10_000), random_state=3)
    return clf.fit(X, Y).set_params(**parameters)


def assert_same(one, other):
    np.testing.assert_array_equal(one.prediction, other.prediction)
    np.testing.assert_array_equal(one.radius, other.radius)
    np.testing.assert_array_equal(one.abstained, other.abstained)
    for group in ("limits", "counts"):
        for name, value in getattr(one, group).items():
            np.testing.assert_array_equal(value, getattr(other, group)[name])


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_jobs_and_backends(certifier):
    reference = model(certifier).certify(INPUTS)
    assert (reference.radius > 0).any()
    for backend, n_jobs in (("sequential", 2), ("threading", 2), ("loky", 2), ("loky", 1)):
        with parallel_config(backend=backend, n_jobs=n_jobs):
            assert_same(model(certifier).certify(INPUTS), reference)
    assert_same(model(certifier, n_jobs=2).certify(INPUTS), reference)


def test_plans_made_by_workers_are_the_same(monkeypatch):
    reference = model(DirectionalCertifier).certify(INPUTS)
    threads = set()

    def plan_rows(*arguments):
        threads.add(threading.get_ident())
        return _collect.plan_rows_here(*arguments)

    monkeypatch.setattr(_collect, "plan_rows_here", _collect._plan_rows, raising=False)
    monkeypatch.setattr(_collect, "_plan_rows", plan_rows)
    monkeypatch.setattr(_collect, "_NOT_WORTH_SENDING", 0.0)
    monkeypatch.setattr(_collect, "_LAST_TASK_SECONDS", 0.0)  # one row at a time
    with parallel_config(backend="threading", n_jobs=2):
        assert_same(model(DirectionalCertifier).certify(INPUTS), reference)
    assert threads - {threading.get_ident()}
    monkeypatch.undo()
    monkeypatch.setattr(_collect, "_NOT_WORTH_SENDING", 0.0)
    with parallel_config(backend="loky", n_jobs=2):
        assert_same(model(DirectionalCertifier).certify(INPUTS), reference)


@pytest.mark.parametrize("batch_size", [100, 2048, 5000, 10**6])
def test_batch_sizes(batch_size):
    for certifier in CERTIFIERS:
        assert_same(model(certifier, batch_size=batch_size).certify(INPUTS), model(certifier).certify(INPUTS))


@pytest.mark.parametrize("certifier", CERTIFIERS)
def test_order_and_company_of_rows(certifier):
    reference = model(certifier).certify(INPUTS)
    order = np.random.default_rng(0).permutation(len(INPUTS))
    assert_same(model(certifier).certify(INPUTS[order]), reference[order])
    assert_same(model(certifier).certify(INPUTS[2:4]), reference[2:4])
    assert_same(model(certifier).certify(np.concatenate([INPUTS, INPUTS[:1]]))[-1], reference[0])


def test_predict_agrees_with_itself_in_any_company():
    clf = model(n_votes=200)
    whole = clf.predict_proba(INPUTS)
    np.testing.assert_array_equal(whole[[4]], clf.predict_proba(INPUTS[[4]]))
    np.testing.assert_array_equal(whole, clone(clf).set_params(n_jobs=2).fit(X, Y).predict_proba(INPUTS))
    np.testing.assert_array_equal(clf.predict(INPUTS), clf.classes_[np.argmax(whole, axis=1)])


def test_noise_depends_on_what_it_is_for():
    def draw(*key, n=8):
        out = np.empty((n, 3))
        NumpyArrays().standard_normal(Seed(*key), out)
        return out

    reference = draw(1, SELECTION, 5, 0)
    np.testing.assert_array_equal(reference, draw(1, SELECTION, 5, 0))
    np.testing.assert_array_equal(reference[:4], draw(1, SELECTION, 5, 0, n=4))
    for other in ((2, SELECTION, 5, 0), (1, ESTIMATION, 5, 0), (1, SELECTION, 6, 0), (1, SELECTION, 5, 1)):
        assert not np.any(draw(*other) == reference)


def test_noise_is_standard_normal():
    out = np.empty((2000, 50), dtype=np.float32)
    NumpyArrays().standard_normal(Seed(0, ESTIMATION, 1, 2), out)
    n = out.size
    # Five standard deviations of each moment.
    assert abs(out.mean()) < 5 / np.sqrt(n)
    assert abs(out.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs((out**4).mean() - 3) < 5 * np.sqrt(96 / n)


def test_row_keys_stand_for_content():
    row = np.array([1.0, 0.0, 2.5])
    assert hash_row(row) == hash_row(row.astype(np.float32)) == hash_row(np.array([1.0, -0.0, 2.5]))
    assert hash_row(row) == hash_row(np.stack([row, row], axis=1)[:, 0])
    assert hash_row(row) != hash_row(np.array([1.0, 0.0, 2.6]))
    assert hash_row(np.zeros((2, 3))) != hash_row(np.zeros((3, 2)))


def test_blocks_depend_on_the_number_of_features_only():
    assert [block_size(d) for d in (1, 64, 512, 784, 3072, 150_528)] == [2048, 2048, 2048, 1024, 256, 128]


def test_rows_fail_independently():
    """With one bank of noise for all rows, errors would come together."""
    clf = model(FirstOrderCertifier)
    nearby = X[:1] + np.linspace(0, 1e-6, 20)[:, None]
    hits = clf.certify(nearby).counts["hits"]
    assert len(set(hits.tolist())) > 5
