"""Nets as bases: modes of their layers, inputs in float64, and nets inside other estimators."""

import threading
from fractions import Fraction

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import (  # noqa: E402
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SmoothedClassifier,
    read_journal,
)
from smoothcert._evaluation_mode import evaluation_mode  # noqa: E402
from smoothcert._float32_cast import length_lost, shorten  # noqa: E402

X, Y = load_iris(return_X_y=True)
X32 = X.astype(np.float32)


class WithModes(nn.Module):
    """Both layers that behave differently in training."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
        self.fails = False

    def forward(self, x):
        if self.fails:
            raise RuntimeError("out of order")
        return self.layers(x)


def frozen_net():
    torch.manual_seed(0)
    return NeuralNetClassifier(WithModes(), criterion=nn.CrossEntropyLoss).initialize()


def smoothed(base, **parameters):
    settings = {"sigma": 0.3, "certifier": FirstOrderCertifier(3000), "n_votes": 500, "random_state": 0}
    return SmoothedClassifier(base, **{**settings, **parameters})


def modes(net):
    return [layer.training for layer in net.module_.modules()]


def mixed(net):
    net.module_.eval()
    net.module_.layers[1].train()
    net.module_.layers[3].train()


def training(net):
    net.module_.train()


def evaluating(net):
    net.module_.eval()


@pytest.mark.parametrize("mode", [mixed, training, evaluating])
@pytest.mark.parametrize("certifier", [FirstOrderCertifier(3000), DipoleCertifier(3000), DirectionalCertifier(3000)])
def test_every_layer_votes_in_evaluation_mode(mode, certifier):
    reference = frozen_net()
    reference.module_.eval()
    expected = smoothed(FrozenEstimator(reference), certifier=certifier).fit(X32, Y)
    net = frozen_net()
    mode(net)
    before, averages = modes(net), net.module_.layers[1].running_mean.clone()
    clf = smoothed(FrozenEstimator(net), certifier=certifier).fit(X32, Y)
    assert modes(net) == before
    for _ in range(2):
        np.testing.assert_array_equal(clf.certify(X32[::40]).radius, expected.certify(X32[::40]).radius)
        np.testing.assert_array_equal(clf.predict_proba(X32[::40]), expected.predict_proba(X32[::40]))
        assert modes(net) == before
    assert torch.equal(net.module_.layers[1].running_mean, averages)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_modes_with_workers(backend):
    net = frozen_net()
    mixed(net)
    before = modes(net)
    clf = smoothed(FrozenEstimator(net), certifier=FirstOrderCertifier(100_000)).fit(X32, Y)
    alone = clf.certify(X32[:4])
    with parallel_config(backend=backend, n_jobs=2):
        np.testing.assert_array_equal(clf.certify(X32[:4]).radius, alone.radius)
    assert modes(net) == before


def test_modes_are_restored_after_an_error():
    net = frozen_net()
    mixed(net)
    before = modes(net)
    clf = smoothed(FrozenEstimator(net)).fit(X32, Y)
    net.module_.fails = True
    for call in (clf.predict, clf.certify):
        with pytest.raises(RuntimeError, match="out of order"):
            call(X32[:2])
        assert modes(net) == before


def test_overlapping_uses_restore_modes_at_the_end_of_the_last():
    net, other = frozen_net(), frozen_net()
    other.module_ = net.module_  # two nets around one module
    training(net)
    inside, leave = threading.Event(), threading.Event()

    def use():
        with evaluation_mode(other):
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=use)
    with evaluation_mode(net):
        thread.start()
        assert inside.wait(10)
        with evaluation_mode(net):
            assert not any(modes(net))
        assert not any(modes(net))
    assert not any(modes(net))
    leave.set()
    thread.join()
    assert all(modes(net))


class Fussy(nn.Module):
    """A layer that does more than set a flag, and one that does less."""

    def __init__(self):
        super().__init__()
        self.merged, self.inner = False, nn.Dropout(0.5)
        self.weight = nn.Parameter(torch.zeros(1))

    def train(self, mode=True):
        self.merged, self.training = not mode, mode
        return self

    def forward(self, x):
        return self.inner(x)[:, :3]


def test_layers_with_a_train_method_of_their_own():
    net = NeuralNetClassifier(Fussy(), criterion=nn.CrossEntropyLoss).initialize()
    net.module_.train()
    net.module_.inner.train()
    with evaluation_mode(net):
        assert net.module_.merged
        assert not any(modes(net))
    assert not net.module_.merged
    assert all(modes(net))


# Inputs in float64


class Step(nn.Module):
    """Class 1 above a million and a bit."""

    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        height = x[:, :1] - 1e6 - 0.03
        return torch.cat([-height, height], dim=1)


def test_neighbours_on_two_sides_of_a_rounding_are_not_certified_as_different():
    """Near a million float32 has 16 numbers to the unit. Two inputs in float64 on two sides of a midpoint are cast to
    numbers 0.0625 apart."""
    pair = np.array([[1e6 + 0.03125 - 1e-9], [1e6 + 0.03125 + 1e-9]])
    net = NeuralNetClassifier(Step(), criterion=nn.CrossEntropyLoss).initialize()
    clf = smoothed(FrozenEstimator(net), sigma=0.01, certifier=FirstOrderCertifier(10_000)).fit(pair, [0, 1])
    with pytest.raises(
        ValueError,
        match=r"by more than 0\.001 sigma when it is cast to float32, .* got row 0.*Subtract an offset.*float32",
    ):
        clf.certify(pair)
    # As float32 they are inputs of their own, 0.0625 apart.
    found = clf.certify(pair.astype(np.float32))
    assert found.prediction.tolist() == [0, 1]
    assert np.all(found.radius < 0.0625)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e3])
def test_no_cast_input_is_further_away_than_was_certified(scale):
    rng = np.random.default_rng(0)
    given = scale * rng.standard_normal((40, 9))
    sigma = scale
    lost = length_lost(given, given.astype(np.float32), sigma)
    for radius in (1e-3, 0.3, 3.0):
        left = shorten(np.full(len(given), radius * sigma), lost)
        outward = np.sign(given.astype(np.float32) - given)
        moves = [outward, -outward, *rng.standard_normal((20, *given.shape))]
        for move in moves:
            unit = move / np.linalg.norm(move, axis=1, keepdims=True)
            other = given + left[:, None] * (1 - 1e-12) * unit
            casts = other.astype(np.float32).astype(np.float64) - given.astype(np.float32).astype(np.float64)
            for row in casts:
                square = sum(Fraction(float(v)) ** 2 for v in row)
                assert square <= Fraction(radius * sigma) ** 2
        assert np.all(left >= radius * sigma * (1 - 3e-3 * (1e-3 / radius) - 1e-6))  # and little is lost


def test_float32_inputs_lose_nothing_and_float64_next_to_nothing(tmp_path):
    clf = smoothed(FrozenEstimator(frozen_net())).fit(X32, Y)
    single, double = clf.certify(X32[:3]), clf.certify(X32[:3].astype(np.float64))
    np.testing.assert_array_equal(single.counts["votes"], double.counts["votes"])
    assert np.all(double.radius < single.radius)
    np.testing.assert_allclose(double.radius, single.radius, rtol=1e-4)
    assert length_lost(X32, X32, 0.3) is None
    # A journal keeps what was lost, and is not continued with inputs that lose less.
    path = tmp_path / "run.sqlite"
    kept = clf.certify(X[:3], journal=path)
    np.testing.assert_array_equal(kept.radius, clf.certify(X[:3]).radius)
    np.testing.assert_array_equal(read_journal(path).certificates.radius, kept.radius)
    with pytest.raises(ValueError, match=r"different run: X is .*cast from float64"):
        clf.certify(X32[:3], journal=path)


def test_numbers_that_float32_does_not_hold_are_refused():
    clf = smoothed(FrozenEstimator(frozen_net()), sigma=1e37).fit(X32, Y)
    with pytest.raises(ValueError, match="cast to float32"):
        clf.certify(np.full((1, 4), 1e38))
    with pytest.raises(ValueError, match="within the range of float32"):
        clf.certify(np.full((1, 4), 1e300))


# Nets inside other estimators


def net(n_out=3, kind=NeuralNetClassifier, **parameters):
    def module():
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, n_out))

    settings = {"optimizer": torch.optim.Adam, "max_epochs": 8, "lr": 0.05, "train_split": None, "verbose": 0}
    if kind is NeuralNetClassifier:
        settings["criterion"] = nn.CrossEntropyLoss
    return kind(module(), **{**settings, **parameters})


AROUND = [
    lambda: BaggingClassifier(net(), n_estimators=2, random_state=0),
    lambda: GridSearchCV(net(), {"lr": [0.02, 0.05]}, cv=2, error_score="raise"),
    lambda: CalibratedClassifierCV(net(), cv=2),
    lambda: OneVsRestClassifier(net(2)),
    lambda: VotingClassifier([("a", net()), ("b", net())]),
    lambda: make_pipeline(StandardScaler(), net()),
]


@pytest.mark.parametrize("make", AROUND, ids=lambda make: type(make()).__name__)
def test_nets_inside_other_estimators_fit_predict_and_certify(make):
    torch.manual_seed(0)
    base = make()
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    clf = smoothed(base, n_augment=4, n_votes=20, certifier=FirstOrderCertifier(200)).fit(X, names)
    assert clf.score(X[::5], names[::5]) > 0.6
    certificates = clf.certify(X[::30])
    assert set(certificates.prediction) <= set(names)
    assert (certificates.radius > 0).any()
    np.testing.assert_array_equal(clf.fit(X, names).certify(X[::30]).radius, certificates.radius)
    # Trained already, it answers with the numbers it was trained on.
    frozen = smoothed(FrozenEstimator(clf.estimator_), certifier=FirstOrderCertifier(200)).fit(X, Y)
    np.testing.assert_array_equal(frozen.certify(X[::30]).counts["votes"], certificates.counts["votes"])


def test_binary_nets_inside_other_estimators():
    rows, labels = X[Y < 2], np.array(["no", "yes"])[Y[Y < 2]]
    one = net(1, kind=NeuralNetBinaryClassifier)
    clf = smoothed(make_pipeline(StandardScaler(), one), n_votes=20).fit(rows, labels)
    assert clf.score(rows[::5], labels[::5]) > 0.9
    with pytest.raises(RuntimeError) as caught:
        smoothed(BaggingClassifier(one, n_estimators=2)).fit(rows, labels)
    assert "take NeuralNetClassifier" in caught.value.__notes__[0]
