"""Scores of certificates, and scorers in scikit-learn's tools."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate

from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier
from smoothcert.metrics import (
    abstention_rate,
    average_certified_radius,
    certified_accuracy_curve,
    certified_accuracy_score,
    make_certified_scorer,
)

CERTIFICATES = Certificates(
    np.array(["a", "b", "a", "b", "a"]), [0.1, 0.5, 0.3, 0.0, 0.0], [False, False, False, True, True]
)
TRUTH = ["a", "b", "b", "b", "a"]


def test_accuracy_falls_with_the_radius():
    scores = [certified_accuracy_score(TRUTH, CERTIFICATES, r) for r in (0.0, 0.1, 0.11, 0.5, 0.51)]
    assert scores == [0.4, 0.4, 0.2, 0.2, 0.0]


def test_curve_agrees_with_the_score():
    radii, accuracy = certified_accuracy_curve(TRUTH, CERTIFICATES)
    assert radii.tolist() == [0.0, 0.1, 0.5]
    assert accuracy.tolist() == [0.4, 0.4, 0.2]
    points = np.linspace(0, 0.6, 13)
    _, accuracy = certified_accuracy_curve(TRUTH, CERTIFICATES, points)
    np.testing.assert_allclose(accuracy, [certified_accuracy_score(TRUTH, CERTIFICATES, r) for r in points])


def test_averages():
    assert average_certified_radius(TRUTH, CERTIFICATES) == pytest.approx(0.6 / 5)
    assert abstention_rate(CERTIFICATES) == 0.4


def model():
    return SmoothedClassifier(LogisticRegression(max_iter=500), certifier=FirstOrderCertifier(200), random_state=0)


def test_scorers_work_in_cross_validation_and_pickle():
    X, y = load_iris(return_X_y=True)
    scorer = pickle.loads(pickle.dumps(make_certified_scorer(0.1)))
    scores = cross_val_score(model(), X, y, scoring=scorer, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert 0.5 < scores.mean() <= 1.0
    several = make_certified_scorer([0.0, 0.1, "average_radius", "certified_share"])
    results = cross_validate(model(), X, y, scoring=several, cv=3, error_score="raise")
    # All samples of all inputs, because of the average radius; the other scorer stops as soon as 0.1 is decided.
    np.testing.assert_allclose(results["test_accuracy_at_0.1"], scores, atol=0.05)
    assert np.all(results["test_accuracy_at_0"] >= results["test_accuracy_at_0.1"])
    assert np.all(results["test_certified_share"] <= 1)


@pytest.mark.filterwarnings("ignore::smoothcert.UnreachableRadiusWarning")
def test_scorers_work_in_a_grid_search():
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        model(),
        {"sigma": [0.05, 0.3], "certifier__alpha": [1e-3, 0.1]},
        scoring=make_certified_scorer(0.2),
        cv=2,
        n_jobs=2,
        error_score="raise",
    ).fit(X, y)
    # Noise of 0.05 cannot certify 0.2 with 200 samples, so the larger noise must win.
    assert search.best_params_["sigma"] == 0.3
    assert search.best_score_ > 0.5


def test_several_scores_need_one_certification(monkeypatch):
    calls = []
    original = SmoothedClassifier._certify

    def counted(self, *arguments, **settings):
        calls.append(1)
        return original(self, *arguments, **settings)

    monkeypatch.setattr(SmoothedClassifier, "_certify", counted)
    X, y = load_iris(return_X_y=True)
    make_certified_scorer([0.0, 0.1, 0.2])(model().fit(X, y), X[:5], y[:5])
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: certified_accuracy_score([1, 2], CERTIFICATES),
            ValueError,
            "y_true must have one label for each of the 5",
        ),
        (lambda: certified_accuracy_score(TRUTH, CERTIFICATES, -1), ValueError, "radius must be at least 0, got -1"),
        (lambda: certified_accuracy_score(TRUTH, CERTIFICATES, np.nan), ValueError, "radius"),
        (
            lambda: certified_accuracy_score(TRUTH, CERTIFICATES, [0.1, 0.2]),
            ValueError,
            "radius must be a single number",
        ),
        (lambda: certified_accuracy_score([0, 1, 1, 1, 0], CERTIFICATES), ValueError, "labels that were given to fit"),
        (
            lambda: certified_accuracy_score(CERTIFICATES, TRUTH),
            TypeError,
            "certificates must be Certificates, got list",
        ),
        (lambda: certified_accuracy_score(TRUTH, [0.1] * 5), TypeError, "certificates must be Certificates, got list"),
        (lambda: certified_accuracy_curve(TRUTH, CERTIFICATES, [-1]), ValueError, "radii must be at least 0"),
        (lambda: abstention_rate(CERTIFICATES[:0]), ValueError, "certificates must not be empty"),
        (lambda: make_certified_scorer("area"), ValueError, "radius must be a finite number .* got 'area'"),
        (lambda: make_certified_scorer([]), ValueError, "at least one score"),
        (lambda: make_certified_scorer(-0.1), ValueError, "got -0.1"),
        (lambda: make_certified_scorer([0.1, np.inf]), ValueError, "radius must be a finite number .* got inf"),
    ],
)
def test_misuse_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
