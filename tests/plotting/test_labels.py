"""Legends cover no data, labels are not cut, and axes say what noise and error probability they are about."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from smoothcert import Certificates
from smoothcert.plotting import (
    BoundDisplay,
    CertificateGainDisplay,
    CertifiedAccuracyDisplay,
    CertifiedRegionDisplay,
    ClassProbabilityDisplay,
)

POINTS = np.random.default_rng(0).standard_normal((40, 2))
LABELS = np.arange(40) % 2
LONG = "a certificate with a name that is longer than most"


def certificates(factor=1.0, **provenance):
    radius = factor * np.linspace(0.0, 1.0, 40)
    counts = {"hits": np.linspace(50, 100, 40).astype(int), "n": np.full(40, 100)}
    provenance = {"sigma": 0.25, "alpha": 0.001, "certifier": "FirstOrderCertifier()", **provenance}
    return Certificates(LABELS, radius, radius == 0.0, counts=counts, provenance=provenance)


ONE, OTHER = certificates(), certificates(1.2)
DISPLAYS = {
    "accuracy": lambda **ax: CertifiedAccuracyDisplay.from_certificates(LABELS, {LONG: ONE, "b": OTHER}, **ax),
    "probability": lambda **ax: ClassProbabilityDisplay.from_certificates(LABELS, {LONG: ONE, "b": OTHER}, **ax),
    "histogram": lambda **ax: ClassProbabilityDisplay.from_certificates(LABELS, ONE, kind="histogram", **ax),
    "gain": lambda **ax: CertificateGainDisplay.from_certificates(LABELS, ONE, OTHER, **ax),
    "scatter": lambda **ax: CertificateGainDisplay.from_certificates(LABELS, ONE, OTHER, kind="scatter", **ax),
    "region": lambda **ax: CertifiedRegionDisplay.from_certificates(POINTS, LABELS, OTHER, baseline=ONE, **ax),
    "bound": lambda **ax: BoundDisplay.from_lower_bound(**ax),
    "radius": lambda **ax: BoundDisplay.from_radius(**ax),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_nothing_is_cut_and_legends_are_outside(name):
    display = DISPLAYS[name]()
    figure, ax = display.figure_, display.ax_
    figure.canvas.draw()
    whole = figure.bbox
    texts = [ax.xaxis.label, ax.yaxis.label, ax.title]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    for text in texts:
        if not text.get_text() or not text.get_visible():
            continue
        box = text.get_window_extent()
        inside = box.x0 >= whole.x0 - 1 and box.y0 >= whole.y0 - 1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
        assert inside, text.get_text()
    if (legend := ax.get_legend()) is not None:
        box = legend.get_window_extent()
        assert box.y0 >= ax.bbox.y1 - 1  # above the axes
        assert box.y1 <= whole.y1 + 1
        assert box.x1 <= whole.x1 + 1


@pytest.mark.parametrize("name", [name for name in DISPLAYS if name not in ("bound", "radius")])
def test_axes_name_noise_and_error_probability(name):
    label = DISPLAYS[name]().ax_.get_xlabel()
    assert r"$\sigma$ = 0.25" in label
    assert r"$\alpha$ = 0.001" in label


@pytest.mark.parametrize("name", ["bound", "radius"])
def test_bounds_are_in_units_of_sigma(name):
    ax = DISPLAYS[name]().ax_
    assert r"\sigma" in ax.get_xlabel() + ax.get_ylabel()


def test_what_differs_between_curves_is_left_to_their_names():
    several = {"small noise": certificates(), "large noise": certificates(sigma=0.5)}
    label = CertifiedAccuracyDisplay.from_certificates(LABELS, several).ax_.get_xlabel()
    assert "sigma" not in label
    assert "alpha" in label
    assert "Euclidean norm" in label
    scaled = Certificates([0], [1.0], [False], provenance={"sigma": [1.0, 2.0]}, feature_scale=[1.0, 2.0])
    label = CertifiedAccuracyDisplay.from_certificates([0], scaled).ax_.get_xlabel()
    assert "in units of each feature" in label
    assert "sigma" not in label


def test_given_axes_keep_their_layout_and_title():
    _, ax = plt.subplots()
    ax.set_title("mine")
    assert CertifiedAccuracyDisplay.from_certificates(LABELS, ONE, ax=ax).ax_.get_title() == "mine"
    legend = ax.get_legend()
    ax.figure.canvas.draw()
    assert ax.bbox.y0 <= legend.get_window_extent().y0 <= ax.bbox.y1
