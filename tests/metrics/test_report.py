"""The report by class: its numbers, its words, its radii."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from smoothcert import Certificates, FirstOrderCertifier, SmoothedClassifier, UnaskedRadiusWarning
from smoothcert.metrics import abstention_rate, certified_accuracy_score, certified_report

X, Y = load_iris(return_X_y=True)


def certificates(labels=None, radius=None):
    clf = SmoothedClassifier(GaussianNB(), sigma=0.6, certifier=FirstOrderCertifier(1000), random_state=0)
    return clf.fit(X, Y if labels is None else labels).certify(X[::2], radius=radius)


@pytest.mark.parametrize(
    "labels",
    [Y, np.array(["setosa", "versicolor", "virginica"])[Y], np.array(["a", "b", "c"], dtype=object)[Y], Y - 1],
    ids=["numbers", "text", "objects", "negative"],
)
def test_numbers_agree_with_the_scores(labels):
    made, y = certificates(labels), labels[::2]
    numbers = certified_report(y, made, radii=[0, 0.3, 0.9], output_dict=True)
    assert list(numbers["classes"]) == np.unique(y).tolist()
    for name, found in [*numbers["classes"].items(), (None, numbers["overall"])]:
        which = np.ones(len(y), bool) if name is None else y == name
        some = made[which]
        assert found["support"] == which.sum()
        assert found["accuracy"] == np.mean(some.prediction == y[which])
        assert found["abstained"] == abstention_rate(some)
        for radius, share in found["certified_accuracy"].items():
            assert share == certified_accuracy_score(y[which], some, radius)
        right = (some.prediction == y[which]) & ~some.abstained
        assert found["median_radius"] == np.median(np.where(right, some.radius, 0.0))


def test_text_promises_no_more_than_the_numbers():
    made = certificates()
    report = certified_report(Y[::2], made, radii=[0.0, 0.5])
    lines = [line.split() for line in str(report).splitlines() if line]
    assert " ".join(lines[0]) == "support accuracy certified at 0.5 median radius abstained"
    numbers = report.to_dict()
    assert len(lines) == 5
    for line, found in zip(lines[1:], [*numbers["classes"].values(), numbers["overall"]], strict=True):
        shares = [found["accuracy"], *found["certified_accuracy"].values()]
        for text, exact in zip(line[2:5], shares, strict=True):
            assert float(text) <= exact < float(text) + 1e-3
        assert float(line[5]) <= found["median_radius"]
        assert found["abstained"] <= float(line[6]) < found["abstained"] + 1e-3
    assert len({len(line) for line in str(report).splitlines() if line}) == 1
    assert repr(report) == str(report)


def test_a_share_that_floats_cannot_hold_is_not_rounded_down():
    made = Certificates(np.zeros(50), np.ones(50), np.zeros(50, bool))
    labels = np.where(np.arange(50) < 29, 0.0, 1.0)  # 0.58 * 1000 is 579.99... in floating point
    assert "0.580" in str(certified_report(labels, made))


def test_html_escapes_labels():
    made = Certificates(["<b>", "y"], [0.5, 0.25], [False, False])
    shown = certified_report(["<b>", "y"], made)._repr_html_()
    assert "<table>" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(1.17, [0, 0.25, 0.5, 0.75, 1.0]), (0.5, [0, 0.2, 0.4]), (0.049, [0, 0.01, 0.02, 0.03, 0.04]), (0.0, [0])],
)
def test_radii_are_round_numbers(largest, expected):
    made = Certificates([0, 0], [largest, largest / 3], [largest == 0, largest == 0])
    assert list(certified_report([0, 0], made).radii) == expected
    assert all(radius <= largest for radius in expected)


def test_asked_radii_are_those_reported():
    made = certificates(radius=[0.2, 0.6])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = certified_report(Y[::2], made)
    assert report.radii == (0.2, 0.6)
    assert "median" not in str(report)
    assert "median_radius" not in report.to_dict()["overall"]
    with pytest.warns(UnaskedRadiusWarning, match="Certified accuracy in a report"):
        certified_report(Y[::2], made, radii=[0.4])


def test_labels_of_the_certificates_and_none():
    clf = SmoothedClassifier(GaussianNB(), sigma=0.6, certifier=FirstOrderCertifier(1000), random_state=0).fit(X, Y)
    made = clf.certify(X[::2], Y[::2])
    assert str(certified_report(None, made)) == str(certified_report(Y[::2], made))
    unknown = certified_report(None, clf.certify(X[::2]), output_dict=True)
    assert "accuracy" not in unknown["overall"]
    assert unknown["overall"]["certified_accuracy"][0.0] == 1 - unknown["overall"]["abstained"]


@pytest.mark.parametrize(
    ("radii", "message"),
    [([-1], "radii must be at least 0"), ([[0.1]], "sequence of numbers"), ([], "sequence of numbers")],
)
def test_bad_radii(radii, message):
    with pytest.raises(ValueError, match=message):
        certified_report([0], Certificates([0], [0.1], [False]), radii=radii)


def test_wrong_labels():
    with pytest.raises(ValueError, match="one label for each of the 1"):
        certified_report([0, 1], Certificates([0], [0.1], [False]))
    with pytest.raises(ValueError, match="Use the labels that were given to fit"):
        certified_report(["a"], Certificates([0], [0.1], [False]))
