"""Modules that return more than a tensor, data that are no arrays, losses that are no numbers."""

from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.datasets import load_iris

from smoothcert import DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert.training import Consistency

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)


@dataclass
class Answer:
    """As some libraries of models return it."""

    logits: torch.Tensor
    hidden: torch.Tensor


class Module(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x):
        logits = self.layer(x)
        return {
            "tensor": logits,
            "tuple": (logits, x),
            "dict": {"hidden": x, "logits": logits},
            "single": {"scores": logits},
            "object": Answer(logits, x),
            "unknown": {"a": logits, "b": x},
        }[self.kind]


class Loss(torch.nn.CrossEntropyLoss):
    """Finds the logits, as whoever trains such a module must."""

    def forward(self, output, target):
        if isinstance(output, dict):
            output = output.get("logits", output.get("scores"))
        elif isinstance(output, tuple):
            output = output[0]
        return super().forward(getattr(output, "logits", output), target)


class Net(skorch.NeuralNetClassifier):
    def get_loss(self, y_pred, y_true, *args, **kwargs):
        return self.criterion_(y_pred, y_true)


def net(kind, **settings):
    torch.manual_seed(0)
    settings = {"max_epochs": 2, "verbose": 0, "train_split": None, "lr": 0.05, **settings}
    return Net(Module, module__kind=kind, criterion=Loss, **settings)


@pytest.mark.parametrize("kind", ["tuple", "dict", "single", "object"])
@pytest.mark.parametrize("training", [None, Consistency()], ids=["plain", "recipe"])
def test_scores_are_found(kind, training):
    def fitted(kind):
        certifier = DirectionalCertifier(1200, n_bins=12)
        return SmoothedClassifier(net(kind), training=training, certifier=certifier, random_state=0).fit(X, Y)

    expected, found = fitted("tensor").certify(X[::50]), fitted(kind).certify(X[::50])
    np.testing.assert_array_equal(found.radius, expected.radius)


def test_what_has_no_scores_says_what_to_do():
    clf = SmoothedClassifier(net("unknown"), certifier=FirstOrderCertifier(500))
    with pytest.raises((TypeError, ValueError), match=r"have it in `logits`, got dict with the entries a, b.*Wrap"):
        clf.fit(X, Y)


def test_datasets_and_loaders_say_how_to_make_arrays():
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    clf = SmoothedClassifier(net("tensor"), certifier=FirstOrderCertifier(500), random_state=0)
    with pytest.raises(TypeError, match=r"got a TensorDataset.*np\.stack"):
        clf.fit(dataset, None)
    clf.fit(X, Y)
    with pytest.raises(TypeError, match=r"got a DataLoader.*torch\.cat"):
        clf.certify(DataLoader(dataset, batch_size=8))
    # What the messages advise works.
    rows = np.stack([np.asarray(row) for row, _ in dataset])
    again = torch.cat([batch[0] for batch in DataLoader(dataset, batch_size=8)]).numpy()
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(again, X)


@pytest.mark.parametrize("training", [None, Consistency()], ids=["plain", "recipe"])
def test_a_loss_that_is_no_number_ends_training(training):
    clf = SmoothedClassifier(net("tensor", lr=1e38, max_epochs=5), training=training, random_state=0)
    with pytest.raises(FloatingPointError, match=r"The loss must be finite, got .* in epoch"):
        clf.fit(X * 1e3, Y)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (np.full((20, 1, 4, 4), 200.0) + np.arange(16).reshape(4, 4), True),
        (np.arange(20 * 16).reshape(20, 16) % 256.0, True),
        ((np.arange(20 * 16).reshape(20, 16) % 256) / 255.0, False),
        (np.arange(20 * 16).reshape(20, 16) % 256 + 0.5, False),  # no whole numbers
        (np.arange(20 * 4).reshape(20, 4) * 3.0, False),  # few features: a table
        (np.arange(20 * 16).reshape(20, 16) - 100.0, False),  # some below 0
    ],
    ids=["images", "rows", "scaled", "broken numbers", "table", "negative"],
)
def test_pixels_in_floating_point_are_noticed(data, told, recwarn):
    from sklearn.dummy import DummyClassifier

    labels = np.arange(20) % 2
    SmoothedClassifier(DummyClassifier(), sigma=0.25, n_augment=0).fit(data.astype(np.float32), labels)
    assert any("numbers like those of pixels" in str(w.message) for w in recwarn) == told
    recwarn.clear()
    SmoothedClassifier(DummyClassifier(), sigma=64.0, n_augment=0).fit(data.astype(np.float32), labels)
    assert not recwarn.list
