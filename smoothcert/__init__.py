"""Certified robustness for any classifier, with the manners of scikit-learn."""

from __future__ import annotations

from . import bounds, confidence, metrics, tallies, worst_case
from ._certificates import Certificates
from ._smoothed import SmoothedClassifier
from ._walk import certify
from .certifiers import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SecondOrderDipoleCertifier

__version__ = "0.1.0"

__all__ = [
    "Certificates",
    "DipoleCertifier",
    "FirstOrderCertifier",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
    "SmoothedClassifier",
    "__version__",
    "bounds",
    "certify",
    "confidence",
    "metrics",
    "tallies",
    "worst_case",
]
