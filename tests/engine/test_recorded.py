"""Certificates recorded once: what a seed draws, and what is proved from it, stays the same from version to version.

A change of the noise, of the order of stages or of a tally shows here. Where a certificate is meant to change, record
again: ``python tests/engine/test_recorded.py`` with the folders ``tests`` and ``examples/extending`` on the path.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from smoothcert import SmoothedClassifier

RECORD = Path(__file__).with_name("recorded.json")
IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = IMAGES / 16
MEANS = np.stack([IMAGES[digit == DIGITS].mean(axis=0) for digit in range(10)])


class NearestMean(ClassifierMixin, BaseEstimator):
    """Nothing is trained, so that no other library's version shows."""

    classes_ = np.arange(10)

    def fit(self, X, y):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return np.argmin(np.square(MEANS).sum(axis=1) - 2 * X @ MEANS.T, axis=1)


def net():
    torch = pytest.importorskip("torch")
    from skorch import NeuralNetClassifier

    layer = torch.nn.Linear(64, 10)
    layer.weight.data = torch.tensor(2 * MEANS, dtype=torch.float32)
    layer.bias.data = torch.tensor(-np.square(MEANS).sum(axis=1), dtype=torch.float32)
    return NeuralNetClassifier(layer, criterion=torch.nn.CrossEntropyLoss).initialize()


BASES = {"scikit-learn": (NearestMean, np.float64), "skorch": (net, np.float32)}


def certificates(kind, certifier):
    make, dtype = BASES[kind]
    certifier = under_test.with_samples(certifier, 4000)
    clf = SmoothedClassifier(FrozenEstimator(make()), sigma=0.4, certifier=certifier, random_state=7)
    return clf.fit(IMAGES[:50].astype(dtype), DIGITS[:50]).certify(IMAGES[700:703].astype(dtype))


def summary(found):
    votes = found.counts["hits"] if "hits" in found.counts else found.counts["both"]
    return {"prediction": found.prediction.tolist(), "votes": votes.tolist(), "radius": found.radius.tolist()}


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("certifier", under_test.ALL, ids=under_test.IDS)
def test_certificates_are_as_recorded(certifier, kind):
    recorded = json.loads(RECORD.read_text())[f"{kind} {under_test.name(certifier)}"]
    found = summary(certificates(kind, certifier))
    assert found["prediction"] == recorded["prediction"]
    assert found["votes"] == recorded["votes"]
    # The last digits of a plan depend on the linear algebra of the machine.
    np.testing.assert_allclose(found["radius"], recorded["radius"], rtol=1e-7)


if __name__ == "__main__":
    names = [(kind, certifier) for kind in BASES for certifier in under_test.ALL]
    table = {f"{kind} {under_test.name(c)}": summary(certificates(kind, c)) for kind, c in names}
    RECORD.write_text(json.dumps(table, indent=1) + "\n")
