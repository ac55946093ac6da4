"""Noise with a standard deviation of its own in each feature, for nets."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skorch import NeuralNetClassifier  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier  # noqa: E402
from smoothcert.training import CertifiedAccuracy, Consistency, SmoothAdv, SmoothMix  # noqa: E402

X, Y = load_iris(return_X_y=True)
SIGMA = np.array([0.5, 0.0, 0.1, 1.0])
SEEN = []


class Linear(nn.Module):
    """Keeps what it is given in training."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, X):
        if self.training:
            SEEN.append(X.detach().numpy().copy())
        return self.layer(X)


def net(**parameters):
    settings = {"max_epochs": 3, "lr": 0.1, "verbose": 0, "train_split": None, "batch_size": 150}
    return NeuralNetClassifier(Linear, criterion=nn.CrossEntropyLoss, **settings | parameters)


def smoothed(base, sigma=SIGMA, certifier=None, **parameters):
    certifier = FirstOrderCertifier(500) if certifier is None else certifier
    return SmoothedClassifier(base, sigma=sigma, certifier=certifier, random_state=0, **parameters)


@pytest.mark.parametrize("recipe", [None, Consistency()], ids=["plain", "consistency"])
def test_training_noise(recipe):
    SEEN.clear()
    clf = smoothed(net(), training=recipe).fit(X.astype(np.float32), Y)
    rows = np.concatenate(SEEN)
    assert set(rows[:, 1]) == set(X[:, 1].astype(np.float32))
    expected = np.sqrt(np.square(SIGMA) + X.var(axis=0))
    np.testing.assert_allclose(rows.std(axis=0), expected, rtol=0.1)
    SEEN.clear()
    certificates = clf.certify(X[:3].astype(np.float32))
    assert certificates.feature_scale.tolist() == SIGMA.tolist()


def test_equal_sigmas_are_one_sigma():
    base = FrozenEstimator(net(max_epochs=10).fit(X.astype(np.float32), Y))
    for data in (X[::30], X[::30].astype(np.float32)):
        for certifier in (FirstOrderCertifier(500), DirectionalCertifier(1000, n_bins=20)):
            one = smoothed(base, 0.5, certifier).fit(data, Y[::30]).certify(data)
            each = smoothed(base, np.full(4, 0.5), certifier).fit(data, Y[::30]).certify(data)
            np.testing.assert_allclose(0.5 * each.radius, one.radius, rtol=1e-6)


def test_gradients_lead_the_direction_in_units_of_sigma():
    """Along the steepest way in units of sigma the certificate is that of a half-space; a fixed feature has no part."""
    base = net(max_epochs=0).initialize()
    base.fit(X.astype(np.float32), Y)
    weights = np.array([[3.0, -50.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [-9.0, -9.0, -9.0, -9.0]], dtype=np.float32)
    with torch.no_grad():
        base.module_.layer.weight.copy_(torch.tensor(weights))
        base.module_.layer.bias.copy_(torch.tensor([0.0, 0.0, -100.0]))
    sigma = np.array([0.5, 0.0, 1.0, 2.0])
    clf = smoothed(FrozenEstimator(base), sigma, DirectionalCertifier(20_000)).fit(X.astype(np.float32), Y)
    inputs = np.array([[1.2, 0.0, 0.0, 0.5]], dtype=np.float32)
    truth = (weights[0] @ inputs[0]) / np.linalg.norm(weights[0] * sigma)
    (radius,) = clf.certify(inputs).radius
    assert 0.9 * truth < radius <= truth


def test_a_feature_without_noise_may_be_large_in_float64():
    """What its cast takes is the same at every input that the promise is about."""
    base = net(max_epochs=1).fit(X.astype(np.float32), Y)
    data = X[:2] * 1.0
    data[:, 1] = 123_456.789
    with pytest.raises(ValueError, match=r"X must not change by more than .* sigma when it is cast to float32"):
        smoothed(FrozenEstimator(base), 0.1).fit(data, Y[:2]).certify(data)
    smoothed(FrozenEstimator(base), SIGMA).fit(data, Y[:2]).certify(data)


def test_attacks_need_one_unit():
    for recipe in (SmoothAdv(), SmoothMix()):
        with pytest.raises(ValueError, match=r"sigma must be one number for training=Smooth.*, which moves inputs"):
            smoothed(net(), training=recipe).fit(X.astype(np.float32), Y)


def test_certified_accuracy_in_training_is_in_units_of_sigma():
    shared = {"train_split": skorch.dataset.ValidSplit(3), "max_epochs": 5}
    curves = []
    for sigma, radius in ((np.full(4, 0.5), 1.0), (0.5, 0.5)):
        base = net(callbacks=[CertifiedAccuracy(radius=radius, n_samples=50, every=1)], **shared)
        clf = smoothed(base, sigma).fit(X.astype(np.float32), Y)
        curves.append(clf.estimator_.history[:, "certified_accuracy"])
    assert curves[0] == curves[1]
