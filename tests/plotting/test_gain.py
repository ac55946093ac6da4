"""What is counted when radii are compared, and what is drawn."""

import numpy as np
import pytest
from helpers import published_logs
from sklearn.linear_model import LogisticRegression

from smoothcert import Certificates, FirstOrderCertifier, SecondOrderDipoleCertifier, SmoothedClassifier
from smoothcert.metrics import PAPER_EDGES, certificate_gain, gain_histogram
from smoothcert.plotting import CertificateGainDisplay

TRUTH = [0, 0, 1, 1, 1, 0, 1]
BASELINE = Certificates([0, 0, 1, 1, 0, 1, 1], [1.0, 0.2, 0.4, 0.0, 0.3, 0.5, 0.0], [0, 0, 0, 1, 0, 0, 1])
BETTER = Certificates([0, 0, 1, 1, 1, 1, 1], [1.01, 0.15, 0.0, 0.2, 0.6, 0.6, 0.0], [0, 0, 1, 0, 0, 0, 1])


def test_wrong_counts_as_not_certified():
    gain = certificate_gain(TRUTH, BASELINE, BETTER)
    np.testing.assert_allclose(gain, [0.01, -0.25, -1.0, np.inf, np.inf, np.nan, np.nan])


def test_unbounded_radii_are_equal():
    endless = Certificates([0], [np.inf], [False])
    assert certificate_gain([0], endless, endless).tolist() == [0.0]


def test_upper_edges_belong_to_their_bins():
    counts = gain_histogram(certificate_gain(TRUTH, BASELINE, BETTER))
    assert counts.tolist() == [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 2]
    ratios = np.array([0.75, 0.85, 0.95, 0.99, 1.01, 1.05, 1.15, 1.25])
    at_the_edges = gain_histogram(ratios - 1)
    assert at_the_edges.tolist() == [0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert gain_histogram(ratios * (1 + 1e-9) - 1).tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0]


def test_bad_input():
    with pytest.raises(ValueError, match="edges must be increasing"):
        gain_histogram([0.0], edges=[0.1, 0.0])
    with pytest.raises(ValueError, match="y_true must have one label"):
        certificate_gain([0], BASELINE, BETTER)
    elsewhere = Certificates([0], [1.0], [False], space="the output of pca")
    with pytest.raises(ValueError, match="same space"):
        certificate_gain([0], Certificates([0], [1.0], [False]), elsewhere)
    with pytest.raises(ValueError, match="kind must be"):
        CertificateGainDisplay.from_certificates(TRUTH, BASELINE, BETTER, kind="pie")


def test_bars_are_the_counts():
    display = CertificateGainDisplay.from_certificates(TRUTH, BASELINE, BETTER, name="better")
    assert [bar.get_height() for bar in display.bars_] == [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 2]
    assert len(display.ax_.get_xticklabels()) == len(PAPER_EDGES) + 3 == 11
    assert display.ax_.get_title() == "better, 5 inputs compared"
    assert display.figure_ is display.ax_.figure
    assert display.points_ is None


def test_points_are_the_radii():
    display = CertificateGainDisplay.from_certificates(TRUTH, BASELINE, BETTER, kind="scatter", name="better")
    expected = [[1.0, 1.01], [0.2, 0.15], [0.4, 0.0], [0.0, 0.2], [0.0, 0.6]]
    np.testing.assert_allclose(display.points_.get_offsets(), expected)
    assert display.bars_ is None
    assert display.ax_.get_ylabel() == "radius, better"


def test_from_estimator_compares_with_first_order():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = (X[:, 0] > 0).astype(int)
    certifier = SecondOrderDipoleCertifier(n_samples=1000, n_selection=20)
    clf = SmoothedClassifier(LogisticRegression(), certifier=certifier, random_state=0).fit(X, y)
    display = CertificateGainDisplay.from_estimator(clf, X, y)
    assert clf.certifier is certifier  # looked at, not changed
    first = clf.set_params(certifier=FirstOrderCertifier(1000, 20)).certify(X)
    right = (first.prediction == y) & ~first.abstained
    np.testing.assert_array_equal(display.baseline_radius, np.where(right, first.radius, 0.0))
    assert display.name == "SecondOrderDipoleCertifier"


def test_published_logs_fall_into_the_published_bins():
    """Counted by hand from the two logs, as the appendix says."""
    folder = published_logs.FOLDER / "small_mnist_sigma_0.25"
    if not folder.exists():
        pytest.skip(f"no published logs in {folder}")
    old, new = (published_logs.Log(folder / f"{kind}N_100000000.tsv") for kind in ("", "second_order_"))
    certificates = [Certificates(log["predict"], log["radius"], log["radius"] == 0.0) for log in (old, new)]
    counts = gain_histogram(certificate_gain(old["label"], *certificates))
    counted = (old["correct"] == 1) | (new["correct"] == 1)
    assert counts.sum() == counted.sum() == 827
    assert counts[0] == ((old["correct"] == 1) & (new["correct"] == 0)).sum()
    both = (old["correct"] == 1) & (new["correct"] == 1)
    ratio = new["radius"][both] / old["radius"][both]
    assert counts[5] == ((ratio > 0.99) & (ratio <= 1.01)).sum()
    assert counts[6:10].sum() == (ratio > 1.01).sum()
