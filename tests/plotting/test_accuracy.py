"""Curves of certified accuracy show the certified accuracy."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from smoothcert import Certificates, DipoleCertifier, FirstOrderCertifier, SmoothedClassifier, certify
from smoothcert.metrics import abstention_rate, certified_accuracy_score
from smoothcert.plotting import CertifiedAccuracyDisplay

CERTIFICATES = Certificates(
    [0, 1, 0, 1, 0], [0.1, 0.5, 0.3, 0.0, 0.0], [0, 0, 0, 1, 1], provenance={"certifier": "DipoleCertifier(alpha=0.1)"}
)
TRUTH = [0, 1, 1, 1, 0]


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(60, 3))
    return X, (X[:, 0] > 0).astype(int)


@pytest.fixture(scope="module")
def fitted(data):
    certifier = FirstOrderCertifier(500, 20)
    return SmoothedClassifier(LogisticRegression(), certifier=certifier, random_state=0).fit(*data)


def height(line, radius):
    """What a step curve drawn with where="pre" shows at a radius."""
    x, y = line.get_data()
    return y[np.searchsorted(x, radius, side="left")]


def test_drawn_curve_is_the_score():
    display = CertifiedAccuracyDisplay.from_certificates(TRUTH, CERTIFICATES)
    line = display.lines_[0]
    for radius in (0.0, 0.05, 0.1, 0.2, 0.3, 0.5):
        assert height(line, radius) == certified_accuracy_score(TRUTH, CERTIFICATES, radius)
    assert (line.get_xdata()[-1], line.get_ydata()[-1]) == (0.5, 0.0)
    assert display.ax_.get_legend_handles_labels()[1] == ["DipoleCertifier, 40% abstained"]
    assert display.abstention_lines_[0].get_ydata()[0] == pytest.approx(0.6)
    assert display.figure_ is display.ax_.figure


def test_names_and_abstention_are_optional():
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    display = CertifiedAccuracyDisplay.from_certificates(TRUTH, CERTIFICATES, ax=ax, abstention=False, color="k")
    assert display.ax_ is ax
    assert display.abstention_lines_ == []
    assert display.lines_[0].get_color() == "k"
    again = display.plot(name="mine", abstention=False)
    assert again.ax_.get_legend_handles_labels()[1] == ["mine"]
    with pytest.raises(ValueError, match="one name for each of the 1 curves"):
        display.plot(name=["a", "b"])


def test_several_certifiers_on_one_estimator(fitted, data):
    certifiers = {"one": FirstOrderCertifier(500, 20), "two": DipoleCertifier(1000, 20)}
    display = CertifiedAccuracyDisplay.from_estimator(fitted, *data, certifiers=certifiers)
    assert list(display.names) == ["one", "two"]
    assert isinstance(fitted.certifier, FirstOrderCertifier)
    np.testing.assert_array_equal(display.radii[0][1:], np.unique(display.radii[0][1:]))
    assert display.abstention[0] == abstention_rate(fitted.certify(data[0]))


def test_several_estimators(fitted, data):
    wide = SmoothedClassifier(LogisticRegression(), sigma=1.0, certifier=FirstOrderCertifier(500, 20), random_state=0)
    display = CertifiedAccuracyDisplay.from_estimator({"0.25": fitted, "1.0": wide.fit(*data)}, *data)
    assert len(display.lines_) == 2
    assert display.radii[1].max() > display.radii[0].max()
    with pytest.raises(ValueError, match="single one"):
        CertifiedAccuracyDisplay.from_estimator({"a": fitted}, *data, certifiers={"b": DipoleCertifier()})


def test_certifiers_reach_into_pipelines(fitted, data):
    pipeline = make_pipeline(PCA(2), SmoothedClassifier(LogisticRegression(), random_state=0)).fit(*data)
    certifier = FirstOrderCertifier(500, 20)
    display = CertifiedAccuracyDisplay.from_estimator(pipeline, *data, certifiers={"first": certifier})
    assert pipeline[-1].certifier is None
    expected = certify(pipeline.set_params(smoothedclassifier__certifier=certifier), data[0])
    assert display.abstention == [abstention_rate(expected)]


def test_bad_input():
    elsewhere = Certificates([0], [1.0], [False], space="the output of scaler")
    with pytest.raises(ValueError, match="same space"):
        CertifiedAccuracyDisplay.from_certificates([0], {"a": Certificates([0], [1.0], [False]), "b": elsewhere})
    with pytest.raises(ValueError, match="at least one item"):
        CertifiedAccuracyDisplay.from_certificates([0], {})
    display = CertifiedAccuracyDisplay.from_certificates([0], elsewhere)
    assert "in the output of scaler" in display.ax_.get_xlabel()
