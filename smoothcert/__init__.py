"""Certified robustness for any classifier, with a scikit-learn compatible API."""

from __future__ import annotations

from . import bounds, confidence, datasets, metrics, plotting, tallies, testing, training, worst_case
from ._certificates import Certificates, Verification
from ._journal import JournalView, read_journal
from ._pipelines import certify
from ._sigma import ColumnSigma
from ._smoothed import SmoothedClassifier
from ._version import __version__
from ._warnings import LongRunWarning, RadiusSpaceWarning, UnaskedRadiusWarning, UnreachableRadiusWarning
from .certifiers import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
)

# Files and messages name public classes by where users find them, so that modules can move.
for _public in (
    Certificates,
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    JournalView,
    LongRunWarning,
    RadiusSpaceWarning,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
    ColumnSigma,
    SmoothedClassifier,
    UnaskedRadiusWarning,
    UnreachableRadiusWarning,
    Verification,
):
    _public.__module__ = __name__
del _public

__all__ = [
    "Certificates",
    "ColumnSigma",
    "DipoleCertifier",
    "DirectionalCertifier",
    "FirstOrderCertifier",
    "JournalView",
    "LongRunWarning",
    "RadiusSpaceWarning",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
    "SmoothedClassifier",
    "UnaskedRadiusWarning",
    "UnreachableRadiusWarning",
    "Verification",
    "__version__",
    "bounds",
    "certify",
    "confidence",
    "datasets",
    "metrics",
    "plotting",
    "read_journal",
    "tallies",
    "testing",
    "training",
    "worst_case",
]
