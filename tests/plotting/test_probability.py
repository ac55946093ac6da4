"""The distribution of class probabilities, as numbers and as a picture."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from smoothcert import Certificates, DipoleCertifier, DirectionalCertifier, FirstOrderCertifier, SmoothedClassifier
from smoothcert.metrics import class_probability, class_probability_curve
from smoothcert.plotting import ClassProbabilityDisplay

COUNTS = {"hits": [90, 70, 55, 90], "n": [100, 100, 100, 100]}
CERTIFICATES = Certificates([0, 1, 1, 1], [0.4, 0.1, 0.0, 0.4], [0, 0, 1, 0], counts=COUNTS)
TRUTH = [0, 0, 1, 1]


def height(line, place):
    """What a step curve drawn with where="pre" shows at a place."""
    x, y = line.get_data()
    return y[np.searchsorted(x, place, side="left")]


@pytest.mark.parametrize("certifier", [FirstOrderCertifier, DipoleCertifier, DirectionalCertifier])
def test_probability_is_the_share_of_votes_whatever_the_certifier(certifier):
    X = np.linspace(-1, 1, 41)[:, None]
    y = np.where(X[:, 0] > 0, "right", "left")
    clf = SmoothedClassifier(LogisticRegression(C=1e4), certifier=certifier(2000), random_state=0).fit(X, y)
    found = class_probability(y, clf.certify(X))
    votes = clf.set_params(n_votes=2000).predict_proba(X)[np.arange(41), np.searchsorted(clf.classes_, y)]
    right = votes > 0.55  # where the prediction is beyond doubt
    np.testing.assert_allclose(found[right], votes[right], atol=0.06)
    assert np.all(found[votes < 0.45] == 0.0)


def test_curve_is_the_share_of_inputs():
    values = class_probability(TRUTH, CERTIFICATES)
    points = np.linspace(0, 1, 101)
    same, share = class_probability_curve(TRUTH, CERTIFICATES, points)
    np.testing.assert_array_equal(same, points)
    np.testing.assert_allclose(share, [np.mean(values >= point) for point in points])
    display = ClassProbabilityDisplay.from_certificates(TRUTH, {"a": CERTIFICATES})
    for point, expected in zip(points, share, strict=True):
        assert height(display.lines_[0], point) == pytest.approx(expected)
    assert display.ax_.get_legend_handles_labels()[1] == ["a"]


def test_histogram_and_several_models():
    other = Certificates([0, 0, 1, 1], [0.1] * 4, [0] * 4, counts={"both": [9] * 4, "one": [2] * 4, "pairs": [10] * 4})
    display = ClassProbabilityDisplay.from_certificates(TRUTH, {"a": CERTIFICATES, "b": other}, kind="histogram")
    heights = [patch.get_data().values for patch in display.patches_]
    assert [each.sum() for each in heights] == pytest.approx([1.0, 1.0])
    assert heights[0][[0, 11, 18]].tolist() == [0.25, 0.25, 0.5]
    np.testing.assert_allclose(display.values[1], 1.0)
    assert display.lines_ == []
    again = display.plot(name=["one", "two"])
    assert len(again.lines_) == 2
    with pytest.raises(ValueError, match="one name for each of the 2 models"):
        display.plot(name="one")
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot(kind="pie")


def test_from_estimators():
    X = np.linspace(-1, 1, 20)[:, None]
    y = (X[:, 0] > 0).astype(int)
    clf = SmoothedClassifier(LogisticRegression(), certifier=FirstOrderCertifier(500), random_state=0).fit(X, y)
    display = ClassProbabilityDisplay.from_estimator({"mine": clf}, X, y)
    np.testing.assert_array_equal(display.values[0], class_probability(y, clf.certify(X)))
    assert ClassProbabilityDisplay.from_estimator(clf, X, y).names == ["FirstOrderCertifier"]


def test_bad_input():
    with pytest.raises(ValueError, match="certificates must have the counts of votes"):
        class_probability([0], Certificates([0], [1.0], [False]))
    with pytest.raises(ValueError, match="one label for each of the 4"):
        class_probability([0], CERTIFICATES)
    with pytest.raises(ValueError, match="probabilities must lie in"):
        class_probability_curve(TRUTH, CERTIFICATES, [1.5])
    with pytest.raises(TypeError, match="certificates must be Certificates"):
        class_probability([0], None)
