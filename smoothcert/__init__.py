"""Certified robustness for any classifier, with the manners of scikit-learn."""

from __future__ import annotations

from . import bounds, confidence, datasets, metrics, plotting, tallies, training, worst_case
from ._certificates import Certificates
from ._journal._reader import read_journal
from ._pipelines import certify
from ._smoothed import SmoothedClassifier
from .certifiers import (
    DipoleCertifier,
    DirectionalCertifier,
    FirstOrderCertifier,
    SecondOrderCertifier,
    SecondOrderDipoleCertifier,
)

__version__ = "0.1.0"

__all__ = [
    "Certificates",
    "DipoleCertifier",
    "DirectionalCertifier",
    "FirstOrderCertifier",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
    "SmoothedClassifier",
    "__version__",
    "bounds",
    "certify",
    "confidence",
    "datasets",
    "metrics",
    "plotting",
    "read_journal",
    "tallies",
    "training",
    "worst_case",
]
