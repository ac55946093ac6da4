"""The callback estimates the certified accuracy, and training does not notice it."""

import numpy as np
import pytest
from scipy.stats import norm

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from skorch.callbacks import Checkpoint, EarlyStopping  # noqa: E402
from skorch.dataset import Dataset, ValidSplit  # noqa: E402
from skorch.helper import predefined_split  # noqa: E402
from torch import nn  # noqa: E402

from smoothcert import FirstOrderCertifier, SmoothedClassifier  # noqa: E402
from smoothcert.metrics import certified_accuracy_score  # noqa: E402
from smoothcert.training import CertifiedAccuracy, Consistency  # noqa: E402

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 2)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)


class HalfPlane(nn.Module):
    """Class 1 right of the axis: the radius of a point is its distance from it."""

    def __init__(self, n_out=2):
        super().__init__()
        self.n_out = n_out
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        z = 5 * x[:, :1] + 0 * self.unused
        return torch.cat([-z, z], dim=1) if self.n_out == 2 else 2 * z


def fitted(callbacks, training=None, kind=NeuralNetClassifier, module=HalfPlane, **settings):
    if kind is NeuralNetClassifier:
        settings.setdefault("criterion", nn.CrossEntropyLoss)
    settings = {"max_epochs": 1, "train_split": ValidSplit(3), "verbose": 0, "batch_size": 64, **settings}
    net = kind(module, callbacks=callbacks, **settings)
    return SmoothedClassifier(net, sigma=0.5, training=training, random_state=0).fit(X, Y)


@pytest.mark.parametrize("training", [None, Consistency()])
@pytest.mark.parametrize("kind", [NeuralNetClassifier, NeuralNetBinaryClassifier])
def test_estimates_the_certified_accuracy(training, kind):
    split = predefined_split(Dataset(X, Y.astype(np.float32 if kind is NeuralNetBinaryClassifier else np.int64)))
    callback = CertifiedAccuracy(radius=0.4, n_samples=400, n_inputs=None)
    settings = {} if kind is NeuralNetClassifier else {"module__n_out": 1}
    clf = fitted([("certified", callback)], training, kind, train_split=split, **settings)
    truth = np.mean(np.abs(X[:, 0]) >= 0.4)
    seen = clf.estimator_.history[-1, "certified_accuracy"]
    # Points are misjudged where the share of votes is within its deviation, 0.02, of what is needed: few are.
    assert seen == pytest.approx(truth, abs=0.06)
    certified = clf.set_params(certifier=FirstOrderCertifier(5_000)).certify(X)
    assert seen == pytest.approx(certified_accuracy_score(Y, certified, 0.4), abs=0.06)


def test_more_distant_radii_and_fewer_inputs():
    names = [f"at_{radius}" for radius in (0.0, 0.2, 0.8)]
    callbacks = [
        (name, CertifiedAccuracy(radius, name=name, n_inputs=70))
        for name, radius in zip(names, (0.0, 0.2, 0.8), strict=True)
    ]
    history = fitted(callbacks).estimator_.history
    values = [history[-1, name] for name in names]
    assert values == sorted(values, reverse=True)
    assert values[0] > 0.9 > values[-1]
    assert all((70 * value) == pytest.approx(round(70 * value)) for value in values)


def test_every_few_epochs_and_checkpoints_can_watch_it(tmp_path):
    clf = fitted(
        [
            CertifiedAccuracy(0.3, every=3),
            Checkpoint(monitor="certified_accuracy_best", dirname=tmp_path),
            EarlyStopping(monitor="certified_accuracy", lower_is_better=False, patience=4),
        ],
        Consistency(),
        max_epochs=20,
    )
    history = clf.estimator_.history
    assert len(history) == 5  # the module cannot learn, so nothing gets better
    assert history[:, "certified_accuracy_best"] == [True, False, False, False, False]
    assert len(set(history[:, "certified_accuracy"])) == 1
    assert (tmp_path / "params.pt").exists()


def test_training_does_not_notice():
    def weights(callbacks):
        torch.manual_seed(0)
        net = NeuralNetClassifier(
            nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.3), nn.Linear(8, 2)), max_epochs=2, verbose=0,
            criterion=nn.CrossEntropyLoss, callbacks=callbacks, iterator_train__shuffle=True,
        )  # fmt: skip
        clf = SmoothedClassifier(net, sigma=0.5, training=Consistency(), random_state=0).fit(X, Y)
        return clf.estimator_.module_[0].weight

    assert torch.equal(weights([CertifiedAccuracy(0.3, every=1)]), weights([]))


def test_bad_settings():
    with pytest.raises(ValueError, match=r"CertifiedAccuracy needs validation data.*train_split"):
        fitted([CertifiedAccuracy(0.3)], train_split=None)
    net = NeuralNetClassifier(HalfPlane, criterion=nn.CrossEntropyLoss, verbose=0, callbacks=[CertifiedAccuracy(0.3)])
    with pytest.raises(ValueError, match=r"CertifiedAccuracy must know sigma.*sigma=0.5"):
        net.fit(X, Y)
    net.set_params(callbacks__CertifiedAccuracy__sigma=0.5, max_epochs=1).fit(X, Y)
    assert net.history[-1, "certified_accuracy"] > 0
    for settings, message in (
        ({"radius": -1.0}, "radius must be"),
        ({"radius": 0.3, "sigma": 0.0}, "sigma must be"),
        ({"radius": 0.3, "every": 0}, "every must be an integer"),
        ({"radius": 0.3, "n_samples": 1.5}, "n_samples must be an integer"),
        ({"radius": 0.3, "n_inputs": 0}, "n_inputs must be None or an integer of at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted([CertifiedAccuracy(**settings)])
    with pytest.warns(UserWarning, match=rf"at least {int(np.ceil(1 / norm.sf(3.0)))} samples"):
        fitted([CertifiedAccuracy(1.5)])
