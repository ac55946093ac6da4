"""Displays warn, once, of certificates that were asked about certain radii only."""

import warnings

import pytest

from smoothcert import Certificates, UnaskedRadiusWarning
from smoothcert.plotting import (
    CertificateGainDisplay,
    CertifiedAccuracyDisplay,
    CertifiedRegionDisplay,
    ClassProbabilityDisplay,
)

LABELS = [0, 1, 1]
PARTS = [0, 1, 1], [0.3, 0.1, 0.0], [False, False, True], {}, {"hits": [9, 8, 5], "n": [10, 10, 10]}
ALL = Certificates(*PARTS)
ASKED = Certificates(*PARTS, {"asked_radii": [0.25]})
POINTS = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    "draw",
    [
        lambda c: CertifiedAccuracyDisplay.from_certificates(LABELS, c),
        lambda c: CertifiedAccuracyDisplay.from_certificates(LABELS, {"first": ALL, "second": c, "third": c}),
        lambda c: ClassProbabilityDisplay.from_certificates(LABELS, c),
        lambda c: CertificateGainDisplay.from_certificates(LABELS, ALL, c),
        lambda c: CertifiedRegionDisplay.from_certificates(POINTS, LABELS, c),
        lambda c: CertifiedRegionDisplay.from_certificates(POINTS, LABELS, ALL, baseline=c),
    ],
)
def test_displays_warn_of_what_was_not_asked(draw):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw(ALL)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        draw(ASKED)
    [warning] = caught
    assert warning.category is UnaskedRadiusWarning
    assert warning.filename == __file__
