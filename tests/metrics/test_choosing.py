"""Choosing a model by its score and certifying what was chosen, with one seed."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smoothcert import FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert._noise import seed_for_purpose
from smoothcert.metrics import make_certified_scorer

X, Y = np.array([[0.0], [1.0]]), np.array([0, 1])
ALPHA = 0.05


class Stripes(ClassifierMixin, BaseEstimator):
    """Stripes so narrow that under noise both classes are equally likely everywhere, to many digits, and models of
    different numbers vote independently: whoever certifies anything is wrong."""

    def __init__(self, number=0):
        self.number = number

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return (np.floor(X[:, 0] * 1e4 * (1.0 + 0.37 * self.number)) % 2).astype(int)


def search(seed, n_models):
    smoothed = SmoothedClassifier(
        Stripes(),
        sigma=1.0,
        certifier=FirstOrderCertifier(100, alpha=ALPHA, n_selection=1),
        n_augment=0,
        random_state=seed,
    )
    grid = {"estimator__number": list(range(n_models))}
    one_row = [(np.arange(2), np.arange(1))]
    scorer = make_certified_scorer("average_radius")
    return GridSearchCV(smoothed, grid, scoring=scorer, cv=one_row).fit(X, Y)


@pytest.mark.parametrize("kind", ["number", "generator"])
def test_a_choice_by_score_does_not_spoil_the_certificates(kind):
    """The luckiest of 40 models is certified, on the row and with the seed by which it was chosen."""
    runs = 25
    seeds = [seed if kind == "number" else np.random.default_rng(seed) for seed in range(runs)]
    wrong = sum(int(np.sum(certify(search(seed, 40), X[:1]).radius > 0)) for seed in seeds)
    assert wrong <= binom.isf(1e-6, runs, ALPHA)


def test_scores_are_repeatable_and_certificates_as_they_were():
    smoothed = SmoothedClassifier(Stripes(), certifier=FirstOrderCertifier(300), n_augment=0, random_state=3).fit(X, Y)
    scorer = make_certified_scorer("average_radius")
    pipeline = make_pipeline(StandardScaler(), smoothed).fit(X, Y)
    for model in (smoothed, pipeline):
        before = certify(model, X)
        assert scorer(model, X, Y) == scorer(model, X, Y)
        after = certify(model, X)
        np.testing.assert_array_equal(before.counts["votes"], after.counts["votes"])
        assert after.provenance["seed"] == 3
    assert smoothed.random_state == 3


def test_seeds_for_a_purpose():
    assert seed_for_purpose(None, "choice") is None
    seeds = [seed_for_purpose(number, purpose) for number in (0, 1, 10) for purpose in ("choice", "choice 1", "")]
    assert len(set(seeds)) == 9
    assert all(0 <= seed < 2**128 for seed in seeds)
    assert seed_for_purpose(np.random.default_rng(0), "choice") == seed_for_purpose(np.random.default_rng(0), "choice")
