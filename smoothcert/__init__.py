"""Certified robustness for any classifier, with the manners of scikit-learn."""

from __future__ import annotations

from .certifiers import DipoleCertifier, FirstOrderCertifier, SecondOrderCertifier, SecondOrderDipoleCertifier

__version__ = "0.1.0"

__all__ = [
    "DipoleCertifier",
    "FirstOrderCertifier",
    "SecondOrderCertifier",
    "SecondOrderDipoleCertifier",
    "__version__",
]
