"""Rings have the certified radii."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from sklearn.linear_model import LogisticRegression

from smoothcert import Certificates, SecondOrderDipoleCertifier, SmoothedClassifier
from smoothcert.plotting import CertifiedRegionDisplay
from smoothcert.plotting._region import spread_out

X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
Y = np.array([0, 1, 1, 0])
BASELINE = Certificates([0, 1, 0, 0], [0.4, 0.3, 0.2, 0.0], [0, 0, 0, 1])
BETTER = Certificates([0, 1, 0, 0], [0.5, 0.25, 0.3, 0.05], [0, 0, 0, 0])


def test_rings_and_increases():
    display = CertifiedRegionDisplay.from_certificates(X, Y, BETTER, baseline=BASELINE)
    assert display.ring_index_.tolist() == [0, 1, 3]  # point 2 is wrong
    assert [ring.radius for ring in display.rings_] == [0.4, 0.3, 0.0]
    np.testing.assert_allclose([wedge.r for wedge in display.increases_], [0.5, 0.05])
    np.testing.assert_allclose([wedge.width for wedge in display.increases_], [0.1, 0.05])
    assert tuple(display.points_.get_facecolors()[2]) == to_rgba("black")
    assert display.surface_ is None
    assert display.figure_ is display.ax_.figure


def test_without_baseline_rings_are_the_certificates():
    display = CertifiedRegionDisplay.from_certificates(X, Y, BETTER, rings=[1, 2])
    assert [ring.radius for ring in display.rings_] == [0.25]
    assert display.increases_ == []


def test_a_number_of_rings_is_spread_out():
    display = CertifiedRegionDisplay.from_certificates(X, Y, BETTER, baseline=BASELINE, rings=2)
    assert display.ring_index_.tolist() == [0, 3]
    line = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 0.0], [10.0, 0.0]])
    assert spread_out(line, 3, np.arange(4), start=0).tolist() == [0, 3, 2]
    assert spread_out(line, 3, np.array([], dtype=int)).tolist() == []


def test_from_estimator_draws_the_regions():
    points = np.random.default_rng(0).normal(size=(30, 2))
    labels = np.where(points[:, 0] > 0, "right", "left")
    certifier = SecondOrderDipoleCertifier(n_samples=1000, n_selection=20)
    clf = SmoothedClassifier(LogisticRegression(), certifier=certifier, random_state=0, n_votes=50).fit(points, labels)
    display = CertifiedRegionDisplay.from_estimator(clf, points, labels, grid_resolution=9)
    grid = np.column_stack([display.xx0.ravel(), display.xx1.ravel()])
    np.testing.assert_array_equal(display.response.ravel(), clf.predict(grid))
    assert display.surface_.get_array().shape == (9, 9, 3)
    np.testing.assert_array_equal(display.certificates.radius, clf.certify(points).radius)


def test_bad_input():
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\)"):
        CertifiedRegionDisplay.from_certificates(np.zeros((4, 3)), Y, BETTER)
    with pytest.raises(ValueError, match="must belong to the 3 points"):
        CertifiedRegionDisplay.from_certificates(X[:3], Y[:3], BETTER)
    with pytest.raises(ValueError, match="space of X"):
        CertifiedRegionDisplay.from_certificates([[0, 0]], [0], Certificates([0], [1.0], [False], space="pca"))
    with pytest.raises(ValueError, match="rings must be"):
        CertifiedRegionDisplay.from_certificates(X, Y, BETTER, rings=[4])
