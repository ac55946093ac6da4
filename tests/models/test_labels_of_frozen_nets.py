"""Labels of frozen nets belong to outputs in the right order, or this is said."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from smoothcert import FirstOrderCertifier, SmoothedClassifier

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")

X, DIGITS = load_digits(n_class=4, return_X_y=True)
X = (X / 16).astype(np.float32)
NAMES = ["zero", "one", "two", "three"]  # in the order of the outputs; sorted they are in another
Y = np.array(NAMES)[DIGITS]


@pytest.fixture(scope="module")
def net():
    """Trained elsewhere, on numbers: it does not know any names."""
    torch.manual_seed(0)
    trained = skorch.NeuralNetClassifier(
        torch.nn.Linear(64, 4), criterion=torch.nn.CrossEntropyLoss, lr=0.5, max_epochs=10, verbose=0, train_split=None
    ).fit(X, DIGITS)
    alone = skorch.NeuralNetClassifier(torch.nn.Linear(64, 4), criterion=torch.nn.CrossEntropyLoss).initialize()
    alone.module_.load_state_dict(trained.module_.state_dict())
    return alone


def smoothed(net, **settings):
    settings = {"sigma": 0.1, "certifier": FirstOrderCertifier(500), "random_state": 0, **settings}
    return SmoothedClassifier(FrozenEstimator(net), **settings)


def test_sorted_names_in_the_wrong_order_are_refused(net):
    with pytest.raises(ValueError, match=r"in the wrong order.*'one', 'three', 'two', 'zero'") as caught:
        smoothed(net).fit(X, Y)
    assert f"classes={NAMES}" in str(caught.value)


def test_order_can_be_given(net):
    clf = smoothed(net, classes=NAMES).fit(X, Y)
    assert clf.classes_.tolist() == NAMES
    assert np.mean(clf.certify(X[:40]).prediction == Y[:40]) > 0.8
    # A few rows tell nothing, and nothing is concluded from them.
    assert smoothed(net, classes=NAMES[::-1]).fit(X[:4], Y[:4]).classes_.tolist() == NAMES[::-1]


def test_names_that_are_sorted_like_the_outputs_are_fine(net):
    names = np.array(["a", "b", "c", "d"])
    assert np.mean(smoothed(net).fit(X, names[DIGITS]).predict(X[:40]) == names[DIGITS][:40]) > 0.8


def test_an_order_that_was_told_is_warned_of(net):
    with pytest.warns(UserWarning, match="in the wrong order"):
        smoothed(net, classes=["one", "two", "three", "zero"]).fit(X, Y)
    with pytest.warns(UserWarning, match=r"in the wrong order.*classes=\[3, 0, 1, 2\]"):
        smoothed(net).fit(X, (DIGITS + 3) % 4)


def test_guesses_in_sorted_order_are_warned_of(net):
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="no better than guessing"):
        smoothed(net).fit(X, rng.permutation(Y))


def test_binary_nets():
    y = np.array(["yes", "no"])[(X[:, 20] > 0.5).astype(int)]  # output 1 is "no", which sorts first
    net = skorch.NeuralNetBinaryClassifier(torch.nn.Linear(64, 1), verbose=0).initialize()
    with torch.no_grad():
        net.module_.weight.zero_()
        net.module_.weight[0, 20] = 10.0
        net.module_.bias.fill_(-5.0)
    # skorch gives binary nets the classes 0 and 1.
    with pytest.raises(ValueError, match="labels the frozen net was trained on"):
        smoothed(net).fit(X, y)
    clf = smoothed(net, classes=["yes", "no"]).fit(X, y)
    assert np.mean(clf.predict(X[:50]) == y[:50]) > 0.8


@pytest.mark.parametrize("classes", ["abc", [1, 1, 2, 3], [[0, 1]], [0]])
def test_bad_classes(net, classes):
    with pytest.raises(ValueError, match="classes must be"):
        smoothed(net, classes=classes).fit(X, DIGITS)


def test_number_of_classes(net):
    with pytest.raises(ValueError, match="4 outputs, got 3"):
        smoothed(net, classes=["zero", "one", "two"]).fit(X, Y)


def test_only_for_frozen_nets(net):
    for base in (LogisticRegression(), FrozenEstimator(LogisticRegression(max_iter=1000).fit(X, DIGITS)), net):
        clf = SmoothedClassifier(base, classes=[0, 1, 2, 3])
        with pytest.raises(ValueError, match="classes must be None unless estimator is a frozen skorch net"):
            clf.fit(X, DIGITS)
