"""Fitted estimators and results go to files and come back, or are refused with a reason."""

import io
import json

import joblib
import numpy as np
import pytest
from helpers import certifiers_under_test as under_test
from helpers.long_runs import assert_same
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from smoothcert import Certificates, DipoleCertifier, FirstOrderCertifier, SmoothedClassifier, certify

X, Y = load_iris(return_X_y=True)


def through_joblib(estimator):
    file = io.BytesIO()
    joblib.dump(estimator, file)
    file.seek(0)
    return joblib.load(file)


def through_skops(estimator):
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(estimator)
    types = skops.get_untrusted_types(data=data)
    # What the guide says has to be trusted: our own classes, and what the base itself brings.
    assert all(name.startswith(("smoothcert.", "sklearn.")) for name in types), types
    assert "smoothcert.SmoothedClassifier" in types
    return skops.loads(data, trusted=types)


@pytest.mark.parametrize("there_and_back", [through_joblib, through_skops])
@pytest.mark.parametrize(
    "certifier", [None, *under_test.exported_certifiers()], ids=lambda c: getattr(c, "__name__", c)
)
def test_estimators(there_and_back, certifier):
    certifier = None if certifier is None else certifier()
    n_samples = 2000 if hasattr(certifier, "n_bins") else 500  # bins want some samples each
    clf = SmoothedClassifier(DecisionTreeClassifier(max_depth=3), certifier=certifier, random_state=0).fit(X, Y)
    again = there_and_back(clf)
    assert again.get_params().keys() == clf.get_params().keys()
    for model in (clf, again):
        model.set_params(certifier=model.certifier or DipoleCertifier(), certifier__n_samples=n_samples)
    np.testing.assert_array_equal(again.predict_proba(X[::20]), clf.predict_proba(X[::20]))
    assert_same(again.certify(X[::20]), clf.certify(X[::20]))


@pytest.mark.parametrize("there_and_back", [through_joblib, through_skops])
def test_pipelines_and_frozen_bases(there_and_back):
    base = FrozenEstimator(LogisticRegression(max_iter=500).fit(PCA(2, random_state=0).fit_transform(X), Y))
    clf = SmoothedClassifier(base, certifier=FirstOrderCertifier(500), random_state=0)
    pipeline = make_pipeline(PCA(2, random_state=0), clf).fit(X, Y)
    assert_same(certify(there_and_back(pipeline), X[::20]), certify(pipeline, X[::20]))


@pytest.mark.parametrize("there_and_back", [through_joblib, through_skops])
def test_a_journal_knows_the_model_again(there_and_back, tmp_path):
    """A run may be continued with the model from a file, although fitted without a seed."""
    clf = SmoothedClassifier(DecisionTreeClassifier(), certifier=FirstOrderCertifier(500)).fit(X, Y)
    first = clf.certify(X[::20], journal=tmp_path / "run.sqlite")
    assert_same(there_and_back(clf).certify(X[::20], journal=tmp_path / "run.sqlite"), first)


def test_nets_go_through_joblib():
    torch, skorch = pytest.importorskip("torch"), pytest.importorskip("skorch")
    torch.manual_seed(0)
    net = skorch.NeuralNetClassifier(
        torch.nn.Linear(4, 3), criterion=torch.nn.CrossEntropyLoss, max_epochs=1, train_split=None, verbose=0
    )
    clf = SmoothedClassifier(net, certifier=FirstOrderCertifier(500), random_state=0).fit(X.astype(np.float32), Y)
    assert_same(through_joblib(clf).certify(X[::20]), clf.certify(X[::20]))


@pytest.mark.parametrize("version", [0, 3, 5])
def test_certificates_of_another_format_are_refused(version, tmp_path):
    Certificates([0], [0.5], [False], provenance={"version": "0.0.9"}).save(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as file:
        arrays = dict(file)
    about = {**json.loads(str(arrays.pop("about"))), "format": version}
    np.savez(tmp_path / "run.npz", about=np.array(json.dumps(about)), **arrays)
    with pytest.raises(ValueError, match=rf"must be of format 4, got {version}.*0\.0\.9"):
        Certificates.load(tmp_path / "run.npz")


def test_certificates_of_this_format_are_read_whatever_version_wrote_them(tmp_path):
    certificates = Certificates([0], [0.5], [False], provenance={"version": "9.9", "unknown": [1, 2]})
    certificates.save(tmp_path / "run.npz")
    assert dict(Certificates.load(tmp_path / "run.npz").provenance) == {"version": "9.9", "unknown": [1, 2]}
