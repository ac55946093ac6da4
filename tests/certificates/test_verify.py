"""Radii computed again from the evidence: the same for every certifier, and different where something was changed."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.certifiers_under_test import ALL, IDS, with_samples
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from smoothcert import (
    Certificates,
    ColumnSigma,
    DirectionalCertifier,
    FirstOrderCertifier,
    SmoothedClassifier,
    certify,
    read_journal,
)

X, Y = load_digits(return_X_y=True)
X = X / 16
RADII = [0.1, 0.3]


def smoothed(certifier, **settings):
    settings = {"sigma": 0.25, "n_augment": 1, "random_state": 0, **settings}
    return SmoothedClassifier(LogisticRegression(C=0.1), certifier=certifier, **settings).fit(X[:400], Y[:400])


@pytest.fixture(scope="module")
def models():
    return {name: smoothed(with_samples(certifier, 1200)) for name, certifier in zip(IDS, ALL, strict=True)}


@pytest.mark.parametrize("radius", [None, RADII], ids=["all samples", "asked"])
@pytest.mark.parametrize("name", IDS)
def test_every_certifier_can_be_verified(name, radius, models, tmp_path):
    certificates = models[name].certify(X[400:404], radius=radius)
    certificates.save(tmp_path / "run.npz")
    read = Certificates.load(tmp_path / "run.npz")
    some = read[[3, 0, 3, 2]]
    joined = Certificates.concatenate([read[:1], read[1:]])
    for each in (certificates, read, some, joined, pickle.loads(pickle.dumps(read))):
        found = each.verify()
        assert found, found.message
        assert found.checked.all()
    np.testing.assert_array_equal(read.evidence.issue(_proved(read)), certificates.radius)


def _proved(certificates):
    proved = np.zeros(len(certificates))
    for part in certificates.evidence.parts:
        proved[part.rows] = part.certifier.certify_tally(part.tally).radius
    return proved


@pytest.mark.parametrize("radius", [None, RADII], ids=["all samples", "asked"])
@pytest.mark.parametrize("name", IDS)
def test_every_change_is_noticed(name, radius, models):
    certificates = models[name].certify(X[400:404], radius=radius)
    row = int(np.argmax(certificates.radius))
    only = np.arange(4) == row
    assert certificates.radius[row] > 0.0

    larger = replace(certificates, radius=certificates.radius * np.where(only, 1.01, 1.0))
    assert larger.verify().differs.tolist() == only.tolist()
    assert "the evidence proves" in larger.verify().message
    hidden = replace(certificates, radius=np.where(only, 0.0, certificates.radius))
    assert hidden.verify().differs[row]
    other = certificates.prediction.copy()
    other[row] = (other[row] + 1) % 10
    found = replace(certificates, prediction=other).verify()
    assert found.differs.tolist() == only.tolist()
    assert "another class" in found.message
    for group in ("limits", "counts"):
        for key, value in getattr(certificates, group).items():
            if key == "direction" or np.all(np.isnan(value.astype(float)[row])):
                continue
            changed = value.copy()
            changed[row] = ~changed[row] if changed.dtype == bool else changed[row] + 1
            found = replace(certificates, **{group: {**getattr(certificates, group), key: changed}}).verify()
            assert found.differs.tolist() == only.tolist(), key


def test_a_level_beyond_alpha_is_noticed(models):
    certificates = models["FirstOrderCertifier-rivals"].certify(X[400:404])
    parts = [replace(part, certifier=part.certifier.at_level(0.5)) for part in certificates.evidence.parts]
    forged = replace(certificates, evidence=replace(certificates.evidence, parts=tuple(parts)))
    forged = replace(forged, radius=forged.evidence.issue(_proved(forged)))
    assert (forged.radius > certificates.radius).any()
    assert forged.verify().differs.all()
    scaled = replace(certificates.evidence, sigma=certificates.evidence.sigma * 2)
    scaled = replace(certificates, evidence=scaled, radius=scaled.issue(_proved(certificates)))
    assert scaled.verify().differs.all()


def test_impossible_evidence_is_a_difference_and_no_crash(models):
    certificates = models["FirstOrderCertifier-rivals"].certify(X[400:404])
    (part,) = certificates.evidence.parts
    tally = part.tally[np.arange(4)]
    tally.counts[:] = 10**6
    forged = replace(certificates, evidence=replace(certificates.evidence, parts=(replace(part, tally=tally),)))
    found = forged.verify()
    assert not found
    assert found.differs.all()


def test_radii_before_steps_of_a_pipeline_and_casts():
    certifier = FirstOrderCertifier(1000)
    base = SmoothedClassifier(LogisticRegression(C=0.1), sigma=0.5, certifier=certifier, random_state=0)
    units = SmoothedClassifier(
        LogisticRegression(C=0.1), sigma=ColumnSigma(0.5), certifier=certifier, n_augment=1, random_state=0
    )
    for pipeline in (
        make_pipeline(StandardScaler(), PCA(10, random_state=0), base),
        make_pipeline(StandardScaler(), make_pipeline(PCA(10, random_state=0), base)),
        make_pipeline(StandardScaler(), units),
        units,
    ):
        pipeline.fit(X[:400], Y[:400])
        for data in (X[400:406], X[400:406].astype(np.float32)):
            certificates = certify(pipeline, data)
            assert certificates.space == "input"
            found = certificates.verify()
            assert found, found.message
            assert not replace(certificates, radius=certificates.radius * 1.001).verify()
            assert Certificates.concatenate([certificates[:2], certificates[2:]]).verify()


def test_nets(tmp_path):
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")

    net = skorch.NeuralNetClassifier(
        torch.nn.Sequential(torch.nn.Linear(64, 10)), criterion=torch.nn.CrossEntropyLoss, max_epochs=2, verbose=0
    )
    clf = SmoothedClassifier(net, certifier=DirectionalCertifier(2000), random_state=0).fit(X[:400], Y[:400])
    certificates = clf.certify(X[400:404])  # cast to float32
    assert not np.isnan(certificates.evidence.lost).any()
    assert certificates.verify()
    asked = clf.certify(X[400:404], radius=0.1, journal=tmp_path / "run.sqlite")
    assert asked.verify()
    assert read_journal(tmp_path / "run.sqlite").certificates.verify()


def test_evidence_can_be_left_out_of_a_file(models, tmp_path):
    certificates = models["DirectionalCertifier-rivals"].certify(X[400:404])
    for name, evidence in (("whole", True), ("small", False)):
        certificates.save(tmp_path / f"{name}.npz", evidence=evidence)
    small = Certificates.load(tmp_path / "small.npz")
    assert (tmp_path / "small.npz").stat().st_size < (tmp_path / "whole.npz").stat().st_size
    np.testing.assert_array_equal(small.radius, certificates.radius)
    assert not small.verify().checked.any()


def test_without_evidence_nothing_is_claimed():
    soft = SmoothedClassifier(LogisticRegression(C=0.1), voting="soft", n_augment=1).fit(X[:400], Y[:400])
    found = soft.certify(X[:3]).verify()
    assert not found
    assert not found.checked.any()
    assert "no samples were drawn" in found.message
    assert not Certificates([0], [0.1], [False]).verify()
