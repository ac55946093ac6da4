"""A journal belongs to one content of a frame, one kind of its columns, and one unit of its radii."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smoothcert import ColumnSigma, DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier, certify, read_journal


class ByContent(ClassifierMixin, BaseEstimator):
    """Votes by a number, and by what is in another column."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return ((X["number"] > 0.0) ^ (X["other"].map(lambda cell: isinstance(cell, str)).astype(bool))).astype(int)


def frame(other):
    return pd.DataFrame({"number": [-1.0, 1.0], "other": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["1", "1"], [1, 1]),
        ([np.zeros(2000), np.zeros(2000)], [np.eye(1, 2000, 1000)[0], np.zeros(2000)]),
        (pd.Categorical(["u", "v"], ["u", "v"]), pd.Categorical(["u", "v"], ["v", "u"])),
    ],
    ids=["type", "long array", "order of categories"],
)
def test_other_content_is_refused(one, other, tmp_path):
    one, other = (pd.Series(part, dtype=getattr(part, "dtype", object)) for part in (one, other))
    certifier = FirstOrderCertifier(500)
    clf = SmoothedClassifier(ByContent(), sigma={"number": 0.3}, certifier=certifier, n_augment=0, random_state=0)
    clf.fit(frame(one), [0, 1]).certify(frame(one), journal=tmp_path / "run.sqlite")
    with pytest.raises(ValueError, match="created by a different run"):
        clf.certify(frame(other), journal=tmp_path / "run.sqlite")


def test_the_unit_of_radii_belongs_to_the_run(tmp_path):
    X, y = load_wine(return_X_y=True)
    units = X.std(axis=0)
    clf = SmoothedClassifier(
        GaussianNB(), sigma=ColumnSigma(0.5, unit=units), certifier=FirstOrderCertifier(500),
        random_state=0,
    ).fit(X, y)  # fmt: skip
    clf.certify(X[:2], journal=tmp_path / "run.sqlite")
    with pytest.raises(ValueError, match="radii is in units of each feature"):
        clf.set_params(sigma=0.5 * units).certify(X[:2], journal=tmp_path / "run.sqlite")


def test_a_view_does_not_compare_radii_with_asked_ones_in_other_units(tmp_path):
    X, y = load_wine(return_X_y=True)
    smoothed = SmoothedClassifier(LogisticRegression(), sigma=0.5, certifier=FirstOrderCertifier(500), random_state=0)
    pipeline = make_pipeline(StandardScaler(), smoothed).fit(X, y)
    certify(pipeline, X[:3], radius=0.01, journal=tmp_path / "run.sqlite")
    view = read_journal(tmp_path / "run.sqlite")
    assert view.provenance["asked_radii"] == [0.01]
    assert view.certificates.space == "the output of standardscaler"
    assert view.certificates.asked_radii is None


def test_whether_there_are_input_gradients_belongs_to_the_run(tmp_path):
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    torch.manual_seed(0)
    X, y = load_wine(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32)
    net = skorch.NeuralNetClassifier(torch.nn.Linear(13, 3), criterion=torch.nn.CrossEntropyLoss).initialize()
    clf = SmoothedClassifier(FrozenEstimator(net), sigma=0.5, certifier=DirectionalCertifier(3000), random_state=0)
    clf.fit(X, y)
    with torch.inference_mode():  # no graph, so no gradients
        clf.certify(X[:2], radius=0.1, journal=tmp_path / "run.sqlite")
    with pytest.raises(ValueError, match="input gradients is not available in the journal, available now"):
        clf.certify(X[:2], radius=0.2, journal=tmp_path / "run.sqlite")
