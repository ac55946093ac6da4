"""The promise, from end to end: `certify` on classifiers whose smoothed boundary is known.

Each case certifies many inputs at the same distance from the boundary. Their noise is independent, being keyed by
their content, so they are repetitions. A failure is a radius beyond the boundary, or any radius for the wrong class.
Were the error rate exactly alpha, a case would fail by accident with probability 1e-4; all is seeded, so a case that
passes today passes tomorrow.
"""

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from scipy import stats
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator

from smoothcert import FirstOrderCertifier, SmoothedClassifier

ALPHA = 0.05
FALSE_ALARM = 1e-4
REPETITIONS = 400
SIGMA = 0.7


class Slab(ClassifierMixin, BaseEstimator):
    """Class 1 where the first coordinate lies between two numbers."""

    def __init__(self, low, high):
        self.low = low
        self.high = high
        self.classes_ = np.array([0, 1])

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return ((X[:, 0] >= self.low) & (X[:, 0] <= self.high)).astype(int)

    def share(self, at):
        """Votes for class 1 at a first coordinate."""
        return ndtr((self.high - at) / SIGMA) - ndtr((self.low - at) / SIGMA)

    def distance(self, at):
        """How far it is along the first axis to where the two classes have half of the votes each."""
        far = 50.0
        if not np.isfinite(self.low):
            return abs(self.high - at)
        middle = (self.low + self.high) / 2
        edge = brentq(lambda x: self.share(x) - 0.5, middle, middle + far)
        return min(abs(at - edge), abs(at - (2 * middle - edge)))


# The classifier, and the first coordinate of the inputs.
SITUATIONS = {
    "half-space": (Slab(-np.inf, 0.0), -0.5),
    "half-space, the other side": (Slab(-np.inf, 0.0), 0.2),
    "slab": (Slab(-1.0, 1.0), 0.3),
    "outside a slab": (Slab(-1.0, 1.0), 1.6),
}


def repetitions(certifier):
    """Fewer for the certifier that plans each input at length; it has coverage tests of its own."""
    return 60 if hasattr(certifier, "n_bins") else REPETITIONS


def failures(certifier, situation, n_features, seed):
    classifier, at = SITUATIONS[situation]
    X = np.random.default_rng(seed).uniform(-1, 1, (repetitions(certifier), n_features))
    X[:, 0] = at
    certifier = clone(certifier).set_params(n_samples=200, n_selection=30, alpha=ALPHA)
    if hasattr(certifier, "n_bins"):
        certifier.set_params(n_bins=8)  # for so few samples
    clf = SmoothedClassifier(FrozenEstimator(classifier), sigma=SIGMA, certifier=certifier, random_state=seed)
    certificates = clf.fit(X[:2], [0, 1]).certify(X)
    right = certificates.prediction == int(classifier.share(at) > 0.5)
    beyond = certificates.radius > classifier.distance(at) * (1 + 1e-12)
    return int(np.sum(~certificates.abstained & (~right | beyond)))


@pytest.mark.simulation
@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("n_features", [2, 20])
@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_radii_beyond_the_boundary_are_rare(certifier, n_features, situation):
    found = failures(certifier, situation, n_features, seed=n_features)
    assert found <= stats.binom.ppf(1 - FALSE_ALARM, repetitions(certifier), ALPHA)


@pytest.mark.slow
def test_the_promise_is_used_where_it_is_tight():
    """The test can fail: on a half-space, the first-order certificate errs about as often as allowed."""
    found = sum(failures(FirstOrderCertifier(), "half-space", 2, seed) for seed in range(4))
    assert found > 0.4 * ALPHA * 4 * REPETITIONS


def test_known_boundaries():
    """What is called known: half of the votes at the boundary, counted by brute force."""
    rng = np.random.default_rng(0)
    for classifier, at in SITUATIONS.values():
        towards = [at + classifier.distance(at), at - classifier.distance(at)]
        noise = SIGMA * rng.standard_normal((200_000, 1))
        shares = [classifier.predict(noise + x).mean() for x in towards]
        assert min(abs(share - 0.5) for share in shares) < 0.005  # four standard deviations
